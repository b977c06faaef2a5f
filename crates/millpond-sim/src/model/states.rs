//! Where a message is, as it is told.

use millpond_core::Now;
use millpond_types::{MessageId, MessageState};

use super::{Model, State};

impl Model {
    /// Where a message is: in a group that is as far from its end as any, if there are several.
    pub fn states_of(&self, id: MessageId, now: Now) -> impl Iterator<Item = MessageState> + use<> {
        let groups = || self.groups.iter().filter(|(_, group)| !group.is_ending).map(|(number, _)| *number);
        let of = |group| self.message(group, id).map(|message| message.state);
        let states = groups().filter_map(of).map(|state| match state {
            State::InLine | State::Back(_) => MessageState::Waiting,
            State::Delayed(due) => MessageState::Delayed { due },
            State::Retrying(due) => MessageState::Retrying { due: now.wall + due.since(now.run) },
            State::Leased(_) => MessageState::Leased,
        });
        let mut states: Vec<MessageState> = states.collect();
        if states.iter().any(|state| *state != MessageState::Leased) {
            states.retain(|state| *state != MessageState::Leased);
        }
        if states.is_empty() {
            let is_dead = groups().any(|group| self.letters.is_one((group, id)));
            states.push(if is_dead { MessageState::Dead } else { MessageState::Ended });
        }
        states.into_iter()
    }
}
