//! The leases that a client has in its hand, and what it does with them: in time, late, twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output;
use millpond_protocol as frame;
use millpond_types::{LeaseNumber, MessageId, Millis, Receipt, Sequence};

use crate::clients::{Asked, Request};
use crate::streams::Stream;

/// A verb on leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the verbs of the broker")]
pub enum Verb {
    Ack,
    Release,
    Fail,
    Reject,
    Extend,
}

/// Leases already given away that are still remembered, for verbs that come late.
const SPENT_MAX: usize = 20;

/// Leases one by one, and as a command names them.
pub type Leases = (Vec<(Receipt, MessageId)>, Vec<ReceiptRun>);

/// Leases that were given together.
pub trait Given {
    /// The first receipt, the first message, and how many there are of each.
    fn given(&self) -> (Receipt, MessageId, u32);
}

impl Given for output::LeasedRun {
    fn given(&self) -> (Receipt, MessageId, u32) {
        (self.receipt, self.id(), self.count)
    }
}

impl Given for frame::LeasedRun {
    fn given(&self) -> (Receipt, MessageId, u32) {
        let id = MessageId { topic: self.receipt.topic, priority: self.priority, sequence: self.first };
        (self.receipt, id, self.count)
    }
}

/// See the module.
#[derive(Default)]
pub struct Hand {
    held: BTreeMap<Receipt, MessageId>,
    spent: VecDeque<(Receipt, MessageId)>,
    /// All leases that were ever taken.
    taken: BTreeSet<Receipt>,
}

impl Hand {
    /// Takes leases in.
    pub fn take(&mut self, runs: &[impl Given]) {
        for (first, message, count) in runs.iter().map(Given::given) {
            for index in 0..u64::from(count) {
                let receipt = Receipt { lease: LeaseNumber(first.lease.0 + index), ..first };
                let id = MessageId { sequence: Sequence(message.sequence.0 + index), ..message };
                self.held.insert(receipt, id);
                self.taken.insert(receipt);
            }
        }
    }

    /// The leases that are held, as a session names them when it is resumed.
    pub fn held(&self) -> Vec<ReceiptRun> {
        self.held.keys().map(|first| ReceiptRun { first: *first, count: 1 }).collect()
    }

    /// A lease that was given away stays, where it is one of this hand's.
    pub fn keep(&mut self, receipt: Receipt, id: MessageId) {
        if self.taken.contains(&receipt) {
            self.held.insert(receipt, id);
        }
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// One of those held.
    pub fn one(&self, load: &mut Stream) -> Option<Receipt> {
        let index = load.below(self.held.len().max(1) as u64) as usize;
        self.held.keys().nth(index).copied()
    }

    /// Forgets a lease, as a client that lost its memory.
    pub fn forget(&mut self, receipt: Receipt) {
        if let Some(id) = self.held.remove(&receipt) {
            self.give_away(receipt, id);
        }
    }

    /// Gives up all leases.
    pub fn forget_all(&mut self) {
        std::mem::take(&mut self.held).into_iter().for_each(|(receipt, id)| self.give_away(receipt, id));
    }

    /// A verb on some leases, now and then on ones that were given away before; `None` with nothing in hand.
    pub fn verb(&mut self, load: &mut Stream) -> Option<Request> {
        let verbs = [Verb::Ack, Verb::Release, Verb::Fail, Verb::Reject, Verb::Extend];
        let verb = verbs[load.weighted(&[12, 2, 3, 1, 2])];
        let mut leases = Vec::new();
        if let Some(from) = self.one(load) {
            let count = load.between(1, 6) as usize;
            // Every second one as well, so that runs of leases are taken apart and what is between them stays.
            let step = if matches!(verb, Verb::Ack | Verb::Extend) && count.is_multiple_of(3) { 2 } else { 1 };
            leases.extend(self.held.range(from..).step_by(step).take(count).map(|(receipt, id)| (*receipt, *id)));
        }
        if !self.spent.is_empty() && load.one_in(4) {
            leases.push(self.spent[load.below(self.spent.len() as u64) as usize]);
        }
        if verb != Verb::Extend {
            leases.iter().for_each(|(receipt, _)| self.forget(*receipt));
        }
        let confirm = verb != Verb::Ack || !load.one_in(3);
        let reason = Bytes::from(format!("simulated {}", load.below(100)));
        let finish = match verb {
            Verb::Ack => FinishVerb::Ack,
            Verb::Release => FinishVerb::Release { delay: Millis(load.below(2) * load.below(3000)) },
            Verb::Fail => {
                let delay = load.one_in(4).then(|| Millis(load.below(2) * load.below(3000)));
                FinishVerb::Fail { delay, reason }
            }
            Verb::Reject => FinishVerb::Reject { reason },
            Verb::Extend => FinishVerb::Extend { lease: load.one_in(2).then(|| Millis(load.between(100, 5000))) },
        };
        request(verb, finish, leases, confirm)
    }

    /// Gives some leases away, now and then one that was given away before, for a verb of the caller's.
    pub fn some(&mut self, load: &mut Stream) -> Option<Leases> {
        let from = self.one(load)?;
        let count = load.between(1, 3) as usize;
        let mut leases: Vec<_> = self.held.range(from..).take(count).map(|(receipt, id)| (*receipt, *id)).collect();
        leases.iter().for_each(|(receipt, _)| self.forget(*receipt));
        if load.one_in(6) {
            leases.push(self.spent[load.below(self.spent.len() as u64) as usize]);
        }
        let receipts = runs(&leases);
        Some((leases, receipts))
    }

    /// Acks everything.
    pub fn ack_all(&mut self) -> Option<Request> {
        let leases: Vec<_> = self.held.iter().map(|(receipt, id)| (*receipt, *id)).collect();
        self.forget_all();
        request(Verb::Ack, FinishVerb::Ack, leases, true)
    }

    fn give_away(&mut self, receipt: Receipt, id: MessageId) {
        if self.spent.len() == SPENT_MAX {
            self.spent.pop_front();
        }
        self.spent.push_back((receipt, id));
    }
}

fn request(verb: Verb, finish: FinishVerb, leases: Vec<(Receipt, MessageId)>, confirm: bool) -> Option<Request> {
    let command = Command::Finish(Finish { verb: finish, receipts: runs(&leases), confirm, namespace: None });
    (!leases.is_empty()).then_some(Request { command, asked: Asked::Finish { verb, leases } })
}

/// Neighbours become one run, as a client's batch of acks would.
fn runs(leases: &[(Receipt, MessageId)]) -> Vec<ReceiptRun> {
    let mut receipts: Vec<ReceiptRun> = Vec::new();
    for (receipt, _) in leases {
        let of = (receipt.topic, receipt.group);
        match receipts.last_mut() {
            Some(run) if run.end() == receipt.lease && (run.first.topic, run.first.group) == of => run.count += 1,
            _ => receipts.push(ReceiptRun { first: *receipt, count: 1 }),
        }
    }
    receipts
}
