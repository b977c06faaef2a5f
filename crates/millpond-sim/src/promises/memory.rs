//! Memory: where topics take more than their room, those that are idle leave it. What stays is busy: leased, in retry or about to
//! change by itself; or somebody is about to come to it, which only the core knows. So an idle topic costs nothing.
//! What leased topics take is counted, each message that is leased as if it stood alone, for that is what it may come to
//! with all that clients do with leases; and whoever would have more than there is room for is given nothing more.

use millpond_core::fact::GroupNumber;
use millpond_core::{Core, Now};
use millpond_types::Millis;

use super::Kept;
use crate::model::{Model, State, Topic};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Topics that time changes so soon stay: the core looks as far ahead.
const SOON: Millis = Millis::seconds(60);

/// Bytes that a message takes at least that is leased alone: its lease, the run that it is, and where both are found.
const LEASE_BYTES: usize = 350;
/// Bytes that a topic takes at least beside that.
const TOPIC_BYTES: usize = 500;
/// What leased topics may take where there is less room than that.
const LEASED_MIN: usize = 1 << 20;

/// A turn is over. What leased topics take is known, and has a bound: no life publishes so much to them that they grow beyond.
pub fn is_bounded(core: &Core, room: usize, model: &Model, sights: &mut Sights) -> Kept {
    let of_each = model.topics.values().map(|topic| topic.leases.len()).filter(|leases| *leases > 0);
    let (topics, leases) = of_each.fold((0, 0), |(topics, sum), leases| (topics + 1, sum + leases));
    let (counted, least) = (core.leased_bytes(), topics * TOPIC_BYTES + leases * LEASE_BYTES);
    sights.saw_many("leases counted", leases as u64);
    if counted < least {
        let what = format!("{leases} messages that are leased, which come to {least} bytes, are counted as {counted}");
        return Err(Violation::memory(what));
    }
    if counted > room.max(LEASED_MIN) {
        return Err(Violation::memory(format!("leased topics take {counted} bytes, where there is room for {room}")));
    }
    Ok(())
}

/// A turn is over. There are never so many topics that some are left for the next turn.
pub fn rests(core: &Core, room: usize, model: &Model, sights: &mut Sights) -> Kept {
    // What is soon goes by the clock that the core was told, whatever that is.
    let (bytes, now) = (core.resident_bytes(), core.now());
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
