//! By halves: an ack and a publish as one. Whatever is lost, and whoever was told what: where any output is stored, every
//! input is done.

use std::collections::BTreeMap;

use millpond_core::command::{Command, Forward, Level, Publish, PublishRun, ReceiptRun};
use millpond_types::{FinishOutcome, MessageId, Millis, NamespaceName, OutcomeRun, Priority, Receipt, TopicName};

use crate::bodies::{Draft, TAG, block_of};
use crate::clients::{Asked, Request, Sent};
use crate::ledger::Ledger;
use crate::streams::Stream;
use crate::verdict::Violation;

/// Outputs of a forward at most.
const OUTPUTS_MAX: u64 = 3;

/// What was asked for: the inputs of each output, by its tag.
#[derive(Default)]
pub struct Forwards {
    inputs: BTreeMap<u64, Vec<MessageId>>,
}

impl Forwards {
    /// A forward is on its way.
    pub fn asked(&mut self, leases: &[(Receipt, MessageId)], outputs: &[Sent]) {
        let inputs: Vec<MessageId> = leases.iter().map(|(_, id)| *id).collect();
        self.inputs.extend(outputs.iter().map(|sent| (sent.tag, inputs.clone())));
    }

    /// Holds all of them against what is.
    pub fn check(&self, ledger: &Ledger) -> Result<(), Violation> {
        let stored = self.inputs.iter().filter(|(tag, _)| ledger.tagged(**tag).is_some());
        let mut halves = stored.flat_map(|(tag, inputs)| inputs.iter().map(move |id| (tag, id)));
        let open = |id: &MessageId| ledger.messages.get(id).is_none_or(|message| !message.place.is_over());
        halves.find(|(_, id)| open(id)).map_or(Ok(()), |(tag, id)| {
            Err(Violation::halves(format!("tag {tag} is stored, and {id}, which it came of, is not done")))
        })
    }
}

/// Whether the answer to a forward says that it was done: all of it, or nothing.
pub fn is_done(finished: &[OutcomeRun<FinishOutcome>]) -> Result<bool, Violation> {
    let done = finished.iter().filter(|run| run.outcome == FinishOutcome::Done).count();
    match done {
        0 => Ok(false),
        all if all == finished.len() => Ok(true),
        _ => Err(Violation::halves(format!("a forward is told as {finished:?}"))),
    }
}

/// Makes a forward of some leases, whose outputs begin with a tag.
pub fn forward(
    leases: Vec<(Receipt, MessageId)>,
    receipts: Vec<ReceiptRun>,
    (namespace, topics): (&NamespaceName, &[TopicName]),
    next_tag: &mut u64,
    load: &mut Stream,
) -> Request {
    let (mut runs, mut outputs) = (Vec::new(), Vec::new());
    for _ in 0..load.between(1, OUTPUTS_MAX) {
        let (topic, tag) = (load.pick(topics).clone(), *next_tag);
        *next_tag += 1;
        let (block, sizes) = block_of(&[Draft { tag, size: TAG + 8, dedup_id: Vec::new() }]);
        outputs.push(Sent { tag, topic: topic.clone(), dedup: None });
        let (priority, delay, dedup, too_large) = (Priority::DEFAULT, Millis::ZERO, Vec::new(), Vec::new());
        runs.push(PublishRun { topic, priority, delay, ttl: None, count: 1, block, sizes, dedup, too_large });
    }
    let publish = Publish { namespace: namespace.clone(), producer: None, level: Level::Durable, runs };
    Request { command: Command::Forward(Forward { receipts, publish }), asked: Asked::Forward { leases, outputs } }
}
