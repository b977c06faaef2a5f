//! Facts that change nothing but where messages lie.

use millpond_core::fact::Fact;
use millpond_types::MessageId;

use super::follow::{Followed, ids};
use super::{Ledger, Place};
use crate::bodies;
use crate::verdict::Violation;

impl Ledger {
    /// What moves is what was stored, and has not ended.
    pub(super) fn moved(&mut self, fact: &Fact) -> Followed {
        let (ids, is_dead): (Vec<MessageId>, bool) = match fact {
            Fact::Moved { topic, priority, first, count, .. } => {
                (ids((*topic, *priority, *first, *count)).collect(), false)
            }
            Fact::DeadMoved { letter, .. } => (vec![letter.id], true),
            _ => unreachable!("called for these facts alone"),
        };
        let block = fact.block().expect("a message that moves is stored again");
        let tags = bodies::tags_of(block).map_err(|bad| Violation::lost(format!("a moved block is bad: {bad}")))?;
        self.sights.saw_many("moved", ids.len() as u64);
        if tags.len() != ids.len() {
            return Err(Violation::lost(format!("{} messages are moved as {}", ids.len(), tags.len())));
        }
        for (id, tag) in ids.into_iter().zip(tags) {
            let message = self.messages.get(&id).filter(|message| Some(message.tag) == tag);
            let place = message.map(|message| message.place);
            let is_there = match place {
                Some(Place::Open | Place::Leased(_)) => !is_dead,
                Some(Place::Dead) => is_dead,
                _ => false,
            };
            if !is_there {
                return Err(Violation::lost(format!("{id} is moved with the body of tag {tag:?}, and is {place:?}")));
            }
        }
        Ok(())
    }
}
