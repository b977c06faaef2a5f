//! How messages are stored: each once, above those before it, and with a dedup id that no other one has.

use millpond_core::fact::Fact;
use millpond_types::{MessageId, Sequence, TopicNumber};

use super::follow::{Followed, Run, ids};
use super::{Ledger, Message, Place};
use crate::bodies;
use crate::verdict::Violation;

impl Ledger {
    pub(super) fn published(&mut self, fact: &Fact, at: u64) -> Followed {
        let Fact::Published { topic, priority, first, count, published, due, dedup_until, dedup, block, .. } = fact
        else {
            unreachable!("called for this fact alone")
        };
        let tags = bodies::tags_of(block).map_err(|bad| Violation::lost(format!("a stored block is bad: {bad}")))?;
        if tags.len() != *count as usize {
            return Err(Violation::lost(format!("a block of {} messages is stored as {count}", tags.len())));
        }
        self.sights.saw_many("published", u64::from(*count));
        if due.is_some() {
            self.sights.saw_many("delayed", u64::from(*count));
        }
        for (index, (id, tag)) in ids((*topic, *priority, *first, *count)).zip(tags).enumerate() {
            let tag =
                tag.ok_or_else(|| Violation::lost(format!("the body of {id} was changed before it was stored")))?;
            let dedup = dedup.iter().find(|mark| mark.index as usize == index).map(|mark| mark.hash);
            if let Some(hash) = dedup {
                if let Some((seen, _)) = self.dedups.get(&hash).filter(|(_, until)| until > published) {
                    return Err(Violation::back(format!("{id} is stored, and its dedup id is that of {seen}")));
                }
                self.dedups.set(at, hash, Some((id, *dedup_until)));
            }
            if let Some(twin) = self.tags.get(&tag) {
                return Err(Violation::back(format!("the message of tag {tag} is stored as {twin} and as {id}")));
            }
            self.store(id, Message { tag, dedup, due: *due, place: Place::Open }, at)?;
        }
        Ok(())
    }

    /// Nothing of these is stored: one that waits stands for them.
    pub(super) fn declines(&mut self, topic: TopicNumber, count: u32, at: u64) -> Followed {
        let life = self.topic(topic)?;
        let key = (life.namespace, life.name.clone(), self.turn);
        let before = self.declined.get(&key).copied().unwrap_or(0);
        self.declined.set(at, key, Some(before + u64::from(count)));
        Ok(())
    }

    fn store(&mut self, id: MessageId, message: Message, at: u64) -> Followed {
        let life = self.topic(id.topic)?;
        let key = (life.namespace, life.name.clone(), id.priority);
        if let Some(highest) = self.highest_sequence.get(&key) {
            self.sights.saw_many("sequences above an earlier life's", u64::from(highest.topic != id.topic));
            if highest.sequence >= id.sequence {
                return Err(Violation::growth(format!("{id} does not lie above {highest}, which was before it")));
            }
        }
        self.highest_sequence.set(at, key, Some(id));
        self.tags.set(at, message.tag, Some(id));
        if self.messages.get(&id).is_some() {
            return Err(Violation::back(format!("the id {id} is given out twice")));
        }
        self.messages.set(at, id, Some(message));
        self.count_open(id.topic, 1, at);
        Ok(())
    }

    /// A dead letter goes back to work as another message.
    pub(super) fn redriven(&mut self, dead: MessageId, topic: TopicNumber, sequence: Sequence, at: u64) -> Followed {
        self.sights.saw("redriven");
        let id = MessageId { topic, priority: dead.priority, sequence };
        self.change(dead, Place::Dead, Place::Redriven(id), at)?;
        let message = self.messages.get(&dead).expect("it was just moved").clone();
        if let Some(hash) = message.dedup
            && let Some((_, until)) = self.dedups.get(&hash).copied().filter(|(of, _)| *of == dead)
        {
            self.dedups.set(at, hash, Some((id, until)));
        }
        self.store(id, Message { place: Place::Open, due: None, ..message }, at)
    }

    /// What was cancelled may be published again.
    pub(super) fn cancelled(&mut self, run: Run, at: u64) {
        self.sights.saw("cancelled");
        for id in ids(run) {
            let dedup = self.messages.get(&id).and_then(|message| message.dedup);
            if let Some(hash) = dedup.filter(|hash| self.dedups.get(hash).is_some_and(|(of, _)| *of == id)) {
                self.dedups.set(at, hash, None);
            }
        }
    }
}
