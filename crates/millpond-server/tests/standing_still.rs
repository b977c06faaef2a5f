//! A disk that stands still, or takes no checkpoint: what nobody can be told of costs nobody a message, and takes no more memory
//! than there is for it.

mod by_hand;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use by_hand::{Clock, run};
use millpond_core::Core;
use millpond_core::command::{Command, Finish, FinishVerb, Look, LookWhich, PublishRun, ReceiptRun, Receive, TopicRef};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_server::manual::{ManualBroker, Rooms};
use millpond_storage::store::LayeredStore;
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::{Filter, FinishOutcome, GroupName, Millis, NamespaceName, Policy, Retry, Rules, TopicName};

struct Pond {
    broker: ManualBroker<Clock>,
    clock: Clock,
    store: LayeredStore,
    tickets: u32,
    told: Vec<Reply>,
}

impl Pond {
    fn new(options: &OpenOptions, layers: usize) -> Pond {
        let clock = Clock::standing();
        let opened = open::<Core>(Arc::new(TwinDisk::new(512)), options).unwrap();
        let store = opened.store.clone();
        let (broker, _) =
            ManualBroker::start(opened, Rooms { topics: options.room, layers, ..Rooms::least() }, clock.clone())
                .unwrap();
        Pond { broker, clock, store, tickets: 0, told: Vec::new() }
    }

    /// Submits a command, unless its lane is full.
    fn try_to(&mut self, command: Command) -> bool {
        self.tickets += 1;
        self.broker.submit(ManualBroker::<Clock>::ticket(self.tickets), command).is_none()
    }

    fn submit(&mut self, command: Command) {
        assert!(self.try_to(command), "there is room");
    }

    /// A turn of the writer, a while after the last.
    fn turn(&mut self, after: Duration) {
        self.turn_without_reads(after);
        while self.broker.fetch(0) || self.broker.fetch(1) {}
    }

    /// The same with a disk that answers no read.
    fn turn_without_reads(&mut self, after: Duration) {
        self.clock.pass(after);
        self.broker.write().unwrap();
        let told = self.broker.take_told().into_iter();
        self.told.extend(told.filter_map(|output| match output {
            Output::Reply { reply, .. } => Some(reply),
            _ => None,
        }));
    }

    /// Some turns in which the disk takes all that there is, but for checkpoints.
    fn go_on(&mut self) {
        for _ in 0..20 {
            self.turn(Duration::from_millis(1));
            self.broker.commit();
        }
    }

    /// What was given, as far as anybody was told.
    fn given(&self) -> Vec<LeasedRun> {
        let received = self.told.iter().filter_map(|reply| match reply {
            Reply::Received(runs) => Some(runs.clone()),
            _ => None,
        });
        received.flatten().collect()
    }
}

/// A message for each of some topics.
fn publish(topics: impl Iterator<Item = String>, delay: Millis) -> Command {
    by_hand::publish(topics.map(|topic| PublishRun { delay, ..run(&topic, b"body", 1) }).collect())
}

fn receive(messages: u32, lease: Millis, wait: Millis) -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages,
        bytes: u64::MAX,
        lease: Some(lease),
        wait,
        at_most_once: false,
        request: None,
        call: 0,
    })
}

fn finish(verb: FinishVerb, receipts: Vec<ReceiptRun>, confirm: bool) -> Command {
    Command::Finish(Finish { verb, receipts, confirm, namespace: None })
}

#[test]
fn nobody_fails_who_was_not_told_because_the_disk_stands_still() {
    let mut pond = Pond::new(&OpenOptions::default(), 2 << 20);
    let policy = Policy { retry: Retry::Head, ..Policy::default() };
    let (name, rules) = (NamespaceName::default(), Rules::default());
    pond.submit(Command::NamespaceSet { name, policy, rules, based_on: None });
    pond.submit(publish(["jobs".to_owned()].into_iter(), Millis::ZERO));
    pond.go_on();
    // More of them than failures are let pass.
    (0..11).for_each(|_| pond.submit(receive(1, Millis::seconds(1), Millis::minutes(1))));
    for _ in 0..120 {
        pond.turn(Duration::from_millis(100));
    }
    pond.go_on();
    let given = pond.given();
    assert_eq!(given.iter().map(|run| (run.deliveries, run.failures)).collect::<Vec<_>>(), [(1, 0)]);
    let receipts = vec![ReceiptRun { first: given[0].receipt, count: 1 }];
    pond.submit(finish(FinishVerb::Ack, receipts, true));
    pond.go_on();
    let Some(Reply::Finished(outcomes)) = pond.told.last() else { panic!("{:?}", pond.told) };
    assert_eq!(outcomes[0].outcome, FinishOutcome::Done, "its lease is current");
    // The others have waited for as long as they asked to while the disk went on, and are told then.
    for _ in 0..130 {
        pond.turn(Duration::from_millis(500));
        pond.broker.commit();
    }
    let told = pond.told.iter().filter(|reply| matches!(reply, Reply::Received(runs) if runs.is_empty()));
    assert_eq!(told.count(), 10);
}

#[test]
fn a_batch_that_cannot_go_has_a_bound_for_those_who_extend_too() {
    const LEASES: u32 = 2000;
    const FULL: usize = 64 << 10;
    let options = OpenOptions { batch_bytes: FULL as u64, ..OpenOptions::default() };
    let mut pond = Pond::new(&options, 2 << 20);
    for from in (0..LEASES).step_by(1000) {
        pond.submit(publish((from..from + 1000).map(|at| format!("t/{at}")), Millis::ZERO));
        pond.go_on();
        pond.submit(receive(1000, Millis::minutes(10), Millis::ZERO));
        pond.go_on();
    }
    let receipts: Vec<_> = pond.given().iter().map(|run| ReceiptRun { first: run.receipt, count: 1 }).collect();
    assert_eq!(receipts.len(), LEASES as usize);
    let extend = |at: usize| {
        let lease = Some(Millis::minutes(10 + at as u64 % 100));
        finish(FinishVerb::Extend { lease }, receipts[at % 20 * 100..][..100].to_vec(), false)
    };
    // One batch is on its way, and stays there.
    pond.submit(publish(["last".to_owned()].into_iter(), Millis::ZERO));
    let mut extended = 0;
    for _ in 0..1000 {
        while pond.try_to(extend(extended)) {
            extended += 1;
        }
        pond.turn(Duration::from_millis(1));
        let bytes = pond.broker.batch_bytes();
        // Beside the last command.
        assert!(bytes < 2 * FULL + 8192, "{bytes} bytes after {extended}");
    }
    assert!(pond.broker.batch_bytes() > FULL, "as much as may be is decided");
    // Nothing of it is lost.
    pond.go_on();
    while !pond.try_to(finish(FinishVerb::Ack, receipts.clone(), true)) {
        pond.go_on();
    }
    pond.go_on();
    pond.go_on();
    let Some(Reply::Finished(outcomes)) = pond.told.last() else { panic!("{:?}", pond.told.last()) };
    assert!(outcomes.iter().all(|run| run.outcome == FinishOutcome::Done), "{outcomes:?}");
}

/// Each message is a lease of its own, for one of another topic was published behind it, and some bytes name thousands of them.
#[test]
fn a_turn_takes_so_many_leases_and_no_more() {
    const LEASES: u32 = 10_000;
    let mut pond = Pond::new(&OpenOptions { room: 64 << 20, ..OpenOptions::default() }, 64 << 20);
    for _ in 0..LEASES / 500 {
        pond.submit(by_hand::publish((0..500).map(|at| run(["a", "b"][at % 2], b"body", 1)).collect()));
        pond.go_on();
    }
    for _ in 0..LEASES / 500 {
        pond.submit(receive(500, Millis::minutes(10), Millis::ZERO));
        pond.go_on();
    }
    let given = pond.given();
    assert_eq!(given.len(), LEASES as usize);
    let receipts: Vec<_> = ["a", "b"]
        .map(|topic| {
            let of = given.iter().filter(|run| run.topic.as_bytes() == topic.as_bytes());
            let first = of.map(|run| run.receipt).min_by_key(|receipt| receipt.lease).unwrap();
            ReceiptRun { first, count: LEASES / 2 }
        })
        .to_vec();
    let extend = || finish(FinishVerb::Extend { lease: Some(Millis::minutes(20)) }, receipts.clone(), true);
    let mut asked = 0;
    while asked < 1000 && pond.try_to(extend()) {
        asked += 1;
    }
    assert_eq!(asked, 1, "others wait with whoever asks for them");
    pond.go_on();
    let Some(Reply::Finished(outcomes)) = pond.told.last() else { panic!("{:?}", pond.told.last()) };
    // Those between are the other topic's.
    let of = |outcome| outcomes.iter().filter(|run| run.outcome == outcome).map(|run| run.count).sum::<u32>();
    assert_eq!([of(FinishOutcome::Done), of(FinishOutcome::LeaseLost)], [LEASES / 2; 2]);
}

/// What a turn has taken beyond that is decided in the next ones, whether or not anybody waits to be told of it.
#[test]
fn a_batch_that_may_go_is_not_added_to_where_it_is_overfull() {
    const LEASES: u32 = 2000;
    const FULL: u64 = 8 << 10;
    let mut pond = Pond::new(&OpenOptions { batch_bytes: FULL, ..OpenOptions::default() }, 2 << 20);
    for from in (0..LEASES).step_by(1000) {
        pond.submit(publish((from..from + 1000).map(|at| format!("t/{at}")), Millis::ZERO));
        pond.go_on();
        pond.submit(receive(1000, Millis::minutes(10), Millis::ZERO));
        pond.go_on();
    }
    let receipts: Vec<_> = pond.given().iter().map(|run| ReceiptRun { first: run.receipt, count: 1 }).collect();
    for confirm in [true, false] {
        let (mut asked, begin) = (0, pond.broker.reader().written());
        pond.told.clear();
        let verb = || FinishVerb::Extend { lease: Some(Millis::minutes(20)) };
        while pond.try_to(finish(verb(), receipts[asked % 20 * 100..][..100].to_vec(), confirm)) {
            asked += 1;
        }
        assert!(asked > 50, "{asked}");
        for _ in 0..100 {
            let before = pond.broker.reader().written();
            pond.turn(Duration::from_millis(1));
            pond.broker.commit();
            let bytes = pond.broker.reader().written() - before;
            // Beside the last command.
            assert!(bytes < 2 * FULL + 8192, "{bytes} bytes");
        }
        // Nothing of it is lost.
        let bytes = pond.broker.reader().written() - begin;
        assert!(bytes > asked as u64 * 100 * 8, "{bytes} bytes of {asked}");
        pond.turn(Duration::from_millis(1));
        assert_eq!(pond.told.len(), if confirm { asked } else { 0 });
    }
}

/// Neither what the core has to remember of what falls due nor what it says of it.
#[test]
fn what_falls_due_while_nothing_is_written_waits() {
    const TOPICS: usize = 20_000;
    const LAYERS: usize = 1 << 20;
    let options =
        OpenOptions { room: 1 << 20, young_bytes: LAYERS / 2, batch_bytes: 64 << 10, ..OpenOptions::default() };
    // A disk that takes no batch, and one that takes no checkpoint.
    for takes_batches in [false, true] {
        let mut pond = Pond::new(&options, LAYERS);
        for from in (0..TOPICS).step_by(500) {
            pond.submit(publish((from..from + 500).map(|at| format!("t/{at:05}")), Millis::minutes(2)));
            pond.go_on();
            while pond.broker.housekeeper.step().unwrap() {}
        }
        (0..20).for_each(|_| pond.go_on());
        while pond.broker.housekeeper.step().unwrap() {}
        assert!(pond.broker.core().cold_count() > TOPICS as u64 / 2);
        if !takes_batches {
            pond.submit(publish(["last".to_owned()].into_iter(), Millis::ZERO));
        }
        for _ in 0..3000 {
            pond.turn(Duration::from_millis(100));
            if takes_batches {
                pond.broker.commit();
            }
            let (batch, memory) = (pond.broker.batch_bytes(), pond.store.memory());
            assert!(batch < 1 << 20, "{batch} bytes wait to be written");
            let entries = memory.young + memory.frozen;
            assert!(entries < 2 * LAYERS, "{entries} bytes of entries");
        }
        assert!(pond.broker.core().is_time_held());
        // All of it comes when the disk goes on.
        let (mut got, all) = (BTreeSet::new(), TOPICS + usize::from(!takes_batches));
        for _ in 0..1000 {
            let Command::Receive(of) = receive(1000, Millis::minutes(1), Millis::ZERO) else {
                unreachable!("it is one")
            };
            pond.try_to(Command::Receive(Receive { at_most_once: true, ..of }));
            pond.go_on();
            while pond.broker.housekeeper.step().unwrap() {}
            got.extend(pond.given().into_iter().map(|run| run.topic));
            pond.told.clear();
            if got.len() == all {
                break;
            }
        }
        assert_eq!(got.len(), all);
        assert!(!pond.broker.core().is_time_held());
    }
}

/// Nobody who looks takes more memory than there is for what waits, and nobody who finishes waits for who looks.
#[test]
fn who_looks_at_topics_on_a_slow_disk_has_a_bound_and_acks_pass() {
    const TOPICS: usize = 4000;
    const LAYERS: usize = 256 << 10;
    let options = OpenOptions { room: 256 << 10, young_bytes: LAYERS / 2, ..OpenOptions::default() };
    let mut pond = Pond::new(&options, LAYERS);
    pond.submit(publish(["jobs".to_owned()].into_iter(), Millis::ZERO));
    pond.go_on();
    pond.submit(receive(1, Millis::minutes(10), Millis::ZERO));
    pond.go_on();
    let receipts = vec![ReceiptRun { first: pond.given()[0].receipt, count: 1 }];
    let name = |at: usize| format!("{at:0400}");
    for from in (0..TOPICS).step_by(100) {
        while !pond.try_to(publish((from..from + 100).map(name), Millis::ZERO)) {
            pond.go_on();
            while pond.broker.housekeeper.step().unwrap() {}
        }
        pond.go_on();
        while pond.broker.housekeeper.step().unwrap() {}
    }
    (0..20).for_each(|_| pond.go_on());
    while pond.broker.housekeeper.step().unwrap() {}
    pond.told.clear();
    let (mut asked, mut most, mut wanted) = (0, 0, (0..TOPICS).map(name));
    for _ in 0..100 {
        for _ in 0..TOPICS / 100 {
            let Some(name) = wanted.next() else { break };
            let topic =
                TopicRef { namespace: NamespaceName::default(), name: TopicName::try_from(name.as_str()).unwrap() };
            asked += usize::from(pond.try_to(Command::Look(Look { topic, which: LookWhich::First(1), group: None })));
        }
        pond.turn_without_reads(Duration::from_millis(1));
        pond.broker.commit();
        most = most.max(pond.broker.core().parked_count());
    }
    assert!((20..300).contains(&most) && asked < TOPICS / 4, "{most} are parked of {asked}");
    assert!(pond.broker.is_pushed_back(), "publishes wait as well");
    pond.told.clear();
    pond.submit(finish(FinishVerb::Ack, receipts, true));
    for _ in 0..2 {
        pond.turn_without_reads(Duration::from_millis(1));
        pond.broker.commit();
    }
    let Some(Reply::Finished(outcomes)) = pond.told.pop() else { panic!("{:?}", pond.told) };
    assert_eq!(outcomes[0].outcome, FinishOutcome::Done);
    // All that were let in are answered when the disk is.
    for _ in 0..200 {
        pond.go_on();
    }
    let shown = pond.told.iter().filter(|reply| matches!(reply, Reply::Messages(rows) if rows.len() == 1));
    assert!(shown.count() >= most && pond.broker.core().parked_count() == 0, "{}", pond.told.len());
    assert!(!pond.broker.is_pushed_back());
}
