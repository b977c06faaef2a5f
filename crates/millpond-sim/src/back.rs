//! Ended and back: what clients were told has ended is held against what they are given later.
//!
//! The ledger refuses a lease of what is leased or over by the facts. Here it is what was *told*: an end that was
//! confirmed survives every crash and nothing of it is delivered again; a lease number is told once, above all that
//! were told of that topic before a restart; and a receipt is finished for good once.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::output::LeasedRun;
use millpond_types::{LeaseNumber, MessageId, Receipt, Sequence, TopicName, TopicNumber};

use crate::hand::Verb;
use crate::ledger::Ledger;
use crate::sights::Sights;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Back {
    /// Messages whose end was confirmed.
    ended: BTreeSet<MessageId>,
    /// Receipts that a verb was told to have ended, and which.
    spent: BTreeMap<Receipt, Verb>,
    leases: BTreeSet<(TopicNumber, LeaseNumber)>,
    /// The highest lease number told of a topic's name.
    highest: BTreeMap<(u32, TopicName), LeaseNumber>,
    /// The same as it was at the last restart.
    before: BTreeMap<(u32, TopicName), LeaseNumber>,
    seen: BTreeSet<MessageId>,
}

impl Back {
    /// A consumer is handed these messages.
    pub fn delivered(&mut self, run: &LeasedRun, ledger: &Ledger, sights: &mut Sights) -> Result<(), Violation> {
        for index in 0..u64::from(run.count) {
            let id = MessageId { sequence: Sequence(run.first.0 + index), ..run.id() };
            let number = LeaseNumber(run.receipt.lease.0 + index);
            if self.ended.contains(&id) {
                return Err(Violation::back(format!("{id} is delivered, and its end was confirmed")));
            }
            if !self.leases.insert((id.topic, number)) {
                return Err(Violation::back(format!("lease {} of topic {} is told twice", number.0, run.topic)));
            }
            if ledger.leases.get(&(id.topic, number)).is_none_or(|lease| lease.id != id) {
                return Err(Violation::back(format!("{id} is delivered with lease {}, which is not its", number.0)));
            }
            let life = ledger.topics.get(&id.topic).filter(|life| life.name == run.topic);
            let life = life.ok_or_else(|| Violation::back(format!("{id} is delivered as one of {}", run.topic)))?;
            let key = (life.namespace, life.name.clone());
            if let Some(before) = self.before.get(&key) {
                sights.saw("leases above those before a restart");
                if *before >= number {
                    let what = format!("lease {} of topic {} was reached before", number.0, run.topic);
                    return Err(Violation::growth(what));
                }
            }
            let highest = self.highest.entry(key).or_insert(number);
            *highest = number.max(*highest);
            sights.saw_many("delivered again", u64::from(!self.seen.insert(id)));
        }
        Ok(())
    }

    /// A client is told that its verb has ended this lease.
    pub fn spent(&mut self, receipt: Receipt, verb: Verb) -> Result<(), Violation> {
        match self.spent.insert(receipt, verb) {
            None => Ok(()),
            Some(_) => Err(Violation::back(format!("lease {receipt} is ended twice"))),
        }
    }

    /// A client is told that the lease that it acks is over: it has done so before, or comes late.
    pub fn ack_refused(&self, receipt: Receipt, id: MessageId, ledger: &Ledger, sights: &mut Sights) {
        let is_over = || ledger.messages.get(&id).is_none_or(|message| message.place.is_over());
        match self.spent.get(&receipt) {
            Some(Verb::Ack) => sights.saw("acks that came twice"),
            // The message is there, so it was no ack without an answer that has ended the lease.
            None if !is_over() => sights.saw("acks that came late"),
            _ => {}
        }
    }

    /// A client is told that this message has ended.
    pub fn ended(&mut self, id: MessageId, ledger: &Ledger) -> Result<(), Violation> {
        self.ended.insert(id);
        self.stays_ended(id, ledger)
    }

    /// The broker is back, and the ledger has gone back with the journal.
    pub fn after_restart(&mut self, ledger: &Ledger) -> Result<(), Violation> {
        self.before.clone_from(&self.highest);
        self.ended.iter().try_for_each(|id| self.stays_ended(*id, ledger))
    }

    fn stays_ended(&self, id: MessageId, ledger: &Ledger) -> Result<(), Violation> {
        match ledger.messages.get(&id).map(|message| message.place) {
            Some(place) if place.is_over() => Ok(()),
            place => Err(Violation::back(format!("the end of {id} was confirmed, and it is {place:?}"))),
        }
    }
}
