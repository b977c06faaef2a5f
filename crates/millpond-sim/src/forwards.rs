//! By halves: an ack and a publish as one. Whatever is lost, and whoever was told what: where any output is stored, every
//! input is done; and where a lease was acked that nobody but forwards has named, every output of one of these is stored, unless
//! one that waits stands for it.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Forward, Level, Publish, PublishRun, ReceiptRun, Route, Routed};
use millpond_types::{
    Binding, Condition, ExchangeKind, ExchangeName, FinishOutcome, KEY_PLACE, LeaseNumber, MessageId, Millis,
    NamespaceName, OutcomeRun, Priority, Receipt, RoutingKey, TopicName, TopicNumber, Unroutable,
};

use crate::bodies::{Draft, TAG, block_of};
use crate::clients::{Asked, Request, Sent};
use crate::ledger::Ledger;
use crate::sights::Sights;
use crate::streams::Stream;
use crate::verdict::Violation;

/// Outputs of a forward at most.
const OUTPUTS_MAX: u64 = 3;

/// A lease by what the ledger knows it by.
type Lease = (TopicNumber, LeaseNumber);

/// What was asked for.
#[derive(Default)]
pub struct Forwards {
    asked: Vec<Halves>,
    /// The leases that forwards name, and which ones do.
    named: BTreeMap<Lease, Vec<usize>>,
    /// Leases that an ack of its own names: nobody knows what has ended them.
    acked: BTreeSet<Lease>,
}

struct Halves {
    inputs: Vec<MessageId>,
    /// The tag of each, and where it was to go.
    outputs: Vec<(u64, TopicName)>,
}

impl Forwards {
    /// A forward is on its way.
    pub fn asked(&mut self, leases: &[(Receipt, MessageId)], outputs: &[Sent]) {
        for (receipt, _) in leases {
            self.named.entry(lease_of(receipt)).or_default().push(self.asked.len());
        }
        let inputs = leases.iter().map(|(_, id)| *id).collect();
        let outputs = outputs.iter().map(|sent| (sent.tag, sent.topic.clone())).collect();
        self.asked.push(Halves { inputs, outputs });
    }

    /// An ack is on its way.
    pub fn acks(&mut self, leases: &[(Receipt, MessageId)]) {
        self.acked.extend(leases.iter().map(|(receipt, _)| lease_of(receipt)));
    }

    /// Holds all of them against what is, where no turn goes on.
    pub fn check(&self, ledger: &Ledger, sights: &mut Sights) -> Result<(), Violation> {
        self.asked.iter().try_for_each(|forward| forward.follows(ledger))?;
        for (lease, by) in self.named.iter().filter(|(lease, _)| !self.acked.contains(lease)) {
            let Some(turn) = ledger.leases.get(lease).and_then(|lease| lease.acked) else { continue };
            sights.saw("acked by forwards alone");
            let mut forwards = by.iter().map(|at| &self.asked[*at]);
            if !forwards.any(|forward| forward.is_whole(lease.0, turn, ledger, sights)) {
                let what =
                    format!("lease {} of {:?} was acked by a forward of which not all is stored", lease.1.0, lease.0);
                return Err(Violation::halves(what));
            }
        }
        Ok(())
    }
}

impl Halves {
    /// Where any output is stored, every input is done.
    fn follows(&self, ledger: &Ledger) -> Result<(), Violation> {
        let Some((tag, _)) = self.outputs.iter().find(|(tag, _)| ledger.tagged(*tag).is_some()) else { return Ok(()) };
        let open = |id: &&MessageId| ledger.messages.get(id).is_none_or(|message| !message.place.is_over());
        self.inputs.iter().find(open).map_or(Ok(()), |id| {
            Err(Violation::halves(format!("tag {tag} is stored, and {id}, which it came of, is not done")))
        })
    }

    /// Whether every output is stored, or was declined in the turn in which an input of this topic was acked. None is a
    /// duplicate, for none has a dedup id.
    fn is_whole(&self, topic: TopicNumber, turn: u64, ledger: &Ledger, sights: &mut Sights) -> bool {
        let lacking = self.outputs.iter().filter(|(tag, _)| ledger.tagged(*tag).is_none());
        let lacking: Vec<&TopicName> = lacking.map(|(_, name)| name).collect();
        let is_whole = lacking.iter().all(|name| {
            let alike = lacking.iter().filter(|other| other == &name).count() as u64;
            ledger.declined_beside(topic, name, turn) >= alike
        });
        sights.saw_many("outputs declined", if is_whole { lacking.len() as u64 } else { 0 });
        is_whole
    }
}

fn lease_of(receipt: &Receipt) -> Lease {
    (receipt.topic, receipt.lease)
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

/// Makes an exchange that leads to the topic that a message names by its key.
pub fn exchange(namespace: &NamespaceName) -> [Command; 2] {
    let (kind, unroutable) = (ExchangeKind::Topic, Unroutable::Refuse);
    let binding = Binding {
        condition: Condition::Key(RoutingKey::try_from("#").expect("it is a pattern")),
        target: TopicName::try_from(KEY_PLACE).expect("it is a name"),
    };
    let make = Command::ExchangeCreate { namespace: namespace.clone(), name: name(), kind, unroutable };
    [make, Command::Bind { namespace: namespace.clone(), exchange: name(), binding }]
}

fn name() -> ExchangeName {
    ExchangeName::try_from("each").expect("it is a name")
}

/// Makes a forward of some leases, whose outputs begin with a tag: to topics, or one to the exchange.
pub fn forward(
    leases: Vec<(Receipt, MessageId)>,
    receipts: Vec<ReceiptRun>,
    (namespace, topics): (&NamespaceName, &[TopicName]),
    next_tag: &mut u64,
    load: &mut Stream,
) -> Request {
    let (mut runs, mut outputs) = (Vec::new(), Vec::new());
    if load.one_in(4) {
        let (topic, tag) = (load.pick(topics).clone(), *next_tag);
        *next_tag += 1;
        let (block, _) = block_of(&[Draft { tag, size: TAG + 8, dedup_id: Vec::new() }]);
        let key = RoutingKey::try_from(topic.as_str()).expect("a topic of a life is a key as well");
        let message = Routed { priority: Priority::DEFAULT, delay: Millis::ZERO, ttl: None, block, too_large: None };
        let route = Route::new(namespace.clone(), (name(), key), message, None, Level::Durable);
        let command = Command::Route(Route { receipts: Some(receipts), ..route });
        return Request { command, asked: Asked::Forward { leases, outputs: vec![Sent { tag, topic, dedup: None }] } };
    }
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

#[cfg(test)]
mod tests {
    use millpond_core::fact::Fact;
    use millpond_types::{Sequence, WallTime};

    use super::*;
    use crate::ledger::{Lease, Topic};
    use crate::verdict::Checker;

    const TOPIC: TopicNumber = TopicNumber(7);

    fn name(of: &str) -> TopicName {
        TopicName::try_from(of).expect("it is short")
    }

    /// Its input is acked, in the first turn.
    fn half_a_forward(to: &[&str]) -> (Ledger, Forwards, Vec<(Receipt, MessageId)>) {
        let (mut ledger, mut forwards) = (Ledger::default(), Forwards::default());
        ledger.topics.set(0, TOPIC, Some(Topic { namespace: 1, name: name("a"), dry: false, gone: false }));
        ledger.begin(WallTime(1));
        let id = MessageId { topic: TOPIC, priority: Priority::DEFAULT, sequence: Sequence(1) };
        let lease = LeaseNumber(3);
        ledger.leases.set(10, (TOPIC, lease), Some(Lease { id, current: false, acked: Some(1) }));
        let leases = vec![(Receipt { topic: TOPIC, group: 1, lease }, id)];
        let outputs = (1..).zip(to).map(|(tag, topic)| Sent { tag, topic: name(topic), dedup: None });
        forwards.asked(&leases, &outputs.collect::<Vec<_>>());
        (ledger, forwards, leases)
    }

    fn finds(forwards: &Forwards, ledger: &Ledger) -> Option<Checker> {
        forwards.check(ledger, &mut Sights::default()).err().map(|found| found.checker)
    }

    #[test]
    fn of_what_a_forward_acked_nothing_is_missing_but_what_was_declined_with_it() {
        let declined = Fact::Declined { topic: TOPIC, group: 1, count: 1 };
        let (mut ledger, forwards, _) = half_a_forward(&["a"]);
        assert_eq!(finds(&forwards, &ledger), Some(Checker::Halves));
        ledger.happened(&declined, 11);
        assert_eq!(finds(&forwards, &ledger), None);
        ledger.go_back(11);
        assert_eq!(finds(&forwards, &ledger), Some(Checker::Halves), "the cut took the other half");
        ledger.begin(WallTime(2));
        ledger.happened(&declined, 11);
        assert_eq!(finds(&forwards, &ledger), Some(Checker::Halves), "another turn declined something else");
        for others in [["a", "a"], ["a", "b"]] {
            let (mut ledger, forwards, _) = half_a_forward(&others);
            ledger.happened(&declined, 11);
            assert_eq!(finds(&forwards, &ledger), Some(Checker::Halves), "one of two was declined");
        }
    }

    #[test]
    fn what_an_ack_of_its_own_names_as_well_says_nothing_of_a_forward() {
        let (ledger, mut forwards, leases) = half_a_forward(&["a"]);
        forwards.acks(&leases);
        assert_eq!(finds(&forwards, &ledger), None);
    }
}
