//! Memory: where topics take more than their room, those that are idle leave it. What stays is busy: leased, in retry or about to
//! change by itself; or somebody is about to come to it, which only the core knows. So an idle topic costs nothing.

use millpond_core::fact::GroupNumber;
use millpond_core::{Core, Now};
use millpond_types::Millis;

use super::Kept;
use crate::model::{Model, State, Topic};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Topics that time changes so soon stay: the core looks as far ahead.
const SOON: Millis = Millis::seconds(60);

/// A turn is over. There are never so many topics that some are left for the next turn.
pub fn rests(core: &Core, room: usize, model: &Model, now: Now, sights: &mut Sights) -> Kept {
    let bytes = core.resident_bytes();
    if bytes <= room {
        return Ok(());
    }
    sights.saw_many("idle topics out of memory", (model.topics.len() - core.resident_count()) as u64);
    for (group, number, _) in core.residents().filter(|(.., is_needed)| !is_needed) {
        let topic = &model.topics[&(group, number)];
        if !is_busy(model, group, topic, now) {
            let what =
                format!("{} of group {group} takes some of {bytes} bytes, where there is room for {room}", topic.name);
            return Err(Violation::memory(what));
        }
    }
    Ok(())
}

/// Whether something of it is up, or time is about to change it.
fn is_busy(model: &Model, group: GroupNumber, topic: &Topic, now: Now) -> bool {
    let (home, of) = (model.home(group), &model.groups[&group]);
    let soon = now.wall + SOON;
    let changes = topic.messages.values().any(|message| {
        let is_up = match message.state {
            State::Leased(_) | State::Retrying(_) => true,
            State::Delayed(due) => due <= soon,
            State::InLine | State::Back(_) => false,
        };
        is_up || message.expires.is_some_and(|at| at <= soon)
    });
    // Where ageing has ended, topics that wait for a raise are still to be told.
    let is_raised = (home.policy.ageing.is_some() || of.is_settling) && topic.is_ready();
    changes || of.is_ending || topic.is_limited || is_raised
}
