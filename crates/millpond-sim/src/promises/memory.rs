//! Memory: where topics take more than their room, those that rest leave it. What stays is busy: leased, in retry, about to
//! change by itself, or ready and asked for. So an idle topic costs nothing.

use std::collections::BTreeSet;

use millpond_core::command::Command;
use millpond_core::fact::GroupNumber;
use millpond_core::{Core, Now};
use millpond_types::{Millis, NamespaceName};

use super::Kept;
use crate::model::{Model, State, Topic};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Topics that time changes so soon stay: the core looks as far ahead.
const SOON: Millis = Millis::seconds(60);

/// See the module.
#[derive(Default)]
pub struct Memory {
    /// Namespaces of which somebody has asked for messages since the start: what is ready there may wait for its turn.
    asked: BTreeSet<NamespaceName>,
}

impl Memory {
    /// A command is about to be decided.
    pub fn asks(&mut self, command: &Command) {
        match command {
            Command::Attach(attach) => _ = self.asked.insert(attach.namespace.clone()),
            Command::Receive(receive) => _ = self.asked.insert(receive.namespace.clone()),
            _ => {}
        }
    }

    /// A turn is over.
    pub fn rests(&self, core: &Core, room: usize, model: &Model, now: Now, sights: &mut Sights) -> Kept {
        let (bytes, resident) = (core.resident_bytes(), core.resident_count());
        if bytes <= room {
            return Ok(());
        }
        let busy = model.topics.iter().filter(|((group, _), topic)| self.is_busy(model, *group, topic, now)).count();
        sights.saw_many("idle topics out of memory", (model.topics.len() - busy) as u64);
        if resident > busy {
            let all = model.topics.len();
            let what = format!("{resident} topics take {bytes} bytes of {room}, and of all {all} {busy} are busy");
            return Err(Violation::memory(what));
        }
        Ok(())
    }

    fn is_busy(&self, model: &Model, group: GroupNumber, topic: &Topic, now: Now) -> bool {
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
        changes
            || of.is_ending
            || topic.is_limited
            || home.policy.ageing.is_some() && topic.is_ready()
            || self.asked.contains(&home.name) && topic.is_ready()
    }
}
