//! Confirmed and lost: what clients were told is stored, held against what is.
//!
//! A message whose publish was confirmed at level `durable` is there after every crash; one confirmed at `buffered`
//! after every kill of the process. At the end each has ended by one reason, or is a dead letter. An id that was told
//! is never told for another message, lost or not.

use std::collections::BTreeMap;

use millpond_core::command::Level;
use millpond_types::MessageId;

use crate::broker::Loss;
use crate::ledger::{Ledger, Place};
use crate::sights::Sights;
use crate::verdict::Violation;

struct Told {
    tag: u64,
    level: Level,
    /// Lost in a power cut that it was not promised to survive.
    excused: bool,
}

/// See the module.
#[derive(Default)]
pub struct Lost {
    told: BTreeMap<MessageId, Told>,
}

impl Lost {
    /// A client is told that its message is stored as `id`.
    pub fn confirmed(&mut self, id: MessageId, tag: u64, level: Level, ledger: &Ledger) -> Result<(), Violation> {
        let stored = ledger.messages.get(&id);
        if stored.is_none_or(|message| message.tag != tag) {
            return Err(Violation::lost(format!("{id} is confirmed for tag {tag}, and stored is {stored:?}")));
        }
        let told = self.told.entry(id).or_insert(Told { tag, level, excused: false });
        if told.tag != tag {
            return Err(Violation::back(format!("{id} was told for tag {} and now for tag {tag}", told.tag)));
        }
        if level == Level::Durable {
            told.level = level;
        }
        Ok(())
    }

    /// A client is told that its message is not stored: it repeats `id`.
    pub fn duplicate(&self, id: MessageId, tag: u64, dedup: u128, ledger: &Ledger) -> Result<(), Violation> {
        let first = ledger.messages.get(&id);
        if first.is_none_or(|first| first.dedup != Some(dedup)) {
            return Err(Violation::lost(format!("tag {tag} is called a duplicate of {id}, and that is {first:?}")));
        }
        self.refused(tag, ledger)
    }

    /// A client is told that its message is not stored.
    pub fn refused(&self, tag: u64, ledger: &Ledger) -> Result<(), Violation> {
        match ledger.tagged(tag) {
            None => Ok(()),
            Some(id) => Err(Violation::back(format!("tag {tag} was refused, and is stored as {id}"))),
        }
    }

    /// The broker is back after a loss, and the ledger has gone back with the journal.
    pub fn after_restart(&mut self, loss: Loss, ledger: &Ledger, sights: &mut Sights) -> Result<(), Violation> {
        for (id, told) in self.told.iter_mut().filter(|(_, told)| !told.excused) {
            if ledger.messages.get(id).is_some_and(|message| message.tag == told.tag) {
                continue;
            }
            if loss != Loss::Power || told.level == Level::Durable {
                let (tag, level) = (told.tag, told.level);
                return Err(Violation::lost(format!("{id} (tag {tag}), confirmed {level:?}, is gone after {loss:?}")));
            }
            told.excused = true;
            sights.saw("messages lost unconfirmed");
        }
        Ok(())
    }

    /// Everything has been drained.
    pub fn at_end(&self, ledger: &Ledger) -> Result<(), Violation> {
        for id in self.told.iter().filter(|(_, told)| !told.excused).map(|(id, _)| id) {
            let mut at = *id;
            let place = loop {
                match ledger.messages.get(&at).map(|message| message.place) {
                    Some(Place::Redriven(next)) => at = next,
                    place => break place,
                }
            };
            if !matches!(place, Some(Place::Dead | Place::Ended(_))) {
                return Err(Violation::lost(format!("{id} was confirmed, and is {place:?} at the end, as {at}")));
            }
        }
        Ok(())
    }
}
