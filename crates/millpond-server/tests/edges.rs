//! What connections ask while there is no room for dead letters, or while the disk stands still: in which order it is carried
//! out, and how much of it is held.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use millpond_core::Core;
use millpond_core::page::{DedupPage, Page};
use millpond_core::store::{Key, Shelf, Store};
use millpond_protocol::*;
use millpond_server::manual::{Closed, Edge, Host, ManualBroker, Rooms};
use millpond_storage::store::LayeredStore;
use millpond_storage::tree::CommitHead;
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::{Code, WallTime};
use millpond_types::{Filter, MessageId, Millis, NamespaceName, Priority, Receipt, Sequence, SessionId, TopicNumber};

mod by_hand;
mod wire;
use by_hand::Clock;
use wire::{bodies, publish, receive};

/// Entries that are not on the disk may take so much.
const LAYERS: usize = 64 << 10;
const SESSION: SessionId = SessionId(7);
/// More requests than a connection may have unanswered come in pieces of so many.
const PIECE: usize = 100;

struct Rig {
    broker: ManualBroker<Desk>,
    store: LayeredStore,
    clock: Clock,
    relief: Relief,
    disk: Arc<TwinDisk>,
}

/// What is written where it is there, as soon as a turn puts something off.
type Relief = Arc<Mutex<Option<LayeredStore>>>;

/// What a writer runs in that has a housekeeper beside it: this comes to the end of its work in the midst of a turn.
struct Desk {
    clock: Clock,
    relief: Relief,
}

impl Host for Desk {
    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn system(&mut self) -> Duration {
        self.clock.system()
    }

    fn own_hand_max(&self) -> u64 {
        self.clock.own_hand_max()
    }

    fn puts_off(&mut self) {
        if let Some(mut store) = self.relief.lock().unwrap().take() {
            store.freeze();
            store.seal();
            store.commit(store.sealed().unwrap(), &CommitHead::default()).unwrap();
        }
    }
}

/// A client and the broker's end of its connection.
struct Wire {
    edge: Edge,
    decoder: Decoder,
    input: BytesMut,
    heard: Vec<(u32, Response)>,
}

impl Rig {
    fn new() -> Rig {
        let clock = Clock::standing();
        Rig::on(Arc::new(TwinDisk::new(512)), clock)
    }

    fn on(disk: Arc<TwinDisk>, clock: Clock) -> Rig {
        let options = OpenOptions { young_bytes: LAYERS / 2, ..OpenOptions::default() };
        let opened = open::<Core>(disk.clone(), &options).unwrap();
        let (store, relief) = (opened.store.clone(), Relief::default());
        let desk = Desk { clock: clock.clone(), relief: relief.clone() };
        let (broker, _) =
            ManualBroker::start(opened, Rooms { topics: 64 << 20, layers: LAYERS, ..Rooms::least() }, desk).unwrap();
        Rig { broker, store, clock, relief, disk }
    }

    /// The broker ends in good order, and another one begins where it was.
    fn restart(self) -> Rig {
        let Rig { broker, clock, disk, .. } = self;
        broker.stop().unwrap();
        Rig::on(disk, clock)
    }

    fn now(&self) -> Instant {
        self.clock.clone().now()
    }

    fn connect(&mut self) -> Wire {
        let edge = self.broker.connect(self.now());
        let mut wire = Wire { edge, decoder: Decoder::default(), input: BytesMut::new(), heard: Vec::new() };
        self.say(&mut wire, &[Request::Hello { version: VERSION, client: "test".into() }]);
        wire
    }

    /// A client says something, and the writer has not looked. Requests are numbered from one.
    fn say(&self, wire: &mut Wire, requests: &[Request]) {
        let mut bytes = Vec::new();
        (1..).zip(requests).for_each(|(correlation, request)| encode_request(request, correlation, &mut bytes));
        self.carry(wire, &bytes).unwrap();
    }

    fn carry(&self, wire: &mut Wire, bytes: &[u8]) -> Result<(), Closed> {
        wire.edge.hear(bytes, self.now())
    }

    /// Turns of the writer, and all that they bring to the disk and to the client but a checkpoint.
    fn go_on(&mut self, wire: &mut Wire) {
        for _ in 0..20 {
            self.clock.pass(Duration::from_millis(10));
            self.broker.write().unwrap();
            while self.broker.commit() || self.broker.fetch(0) || self.broker.fetch(1) {}
            self.broker.take_told().into_iter().for_each(|output| self.broker.tell(output));
            self.broker.read();
            self.carry(wire, &[]).unwrap();
            wire.hear(self.now());
        }
    }

    /// The same with checkpoints.
    fn make_room(&mut self, wire: &mut Wire) {
        for _ in 0..5 {
            self.go_on(wire);
            while self.broker.housekeeper.step().unwrap() {}
        }
        self.go_on(wire);
        assert!(!self.broker.is_pushed_back(), "a checkpoint has made room");
    }

    /// Lets entries that are not on the disk take all but so many bytes of what they may, or more than that.
    fn fill(&mut self, but: usize) {
        for hash in 0.. {
            if self.store.memory().young > LAYERS - but {
                return;
            }
            let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
            let page = Page::Dedup(DedupPage { namespace: 0, hash, id, until: WallTime::NEVER });
            self.store.put(&Key::of(&page, Shelf::Idle), &page);
        }
    }

    /// A connection whose consumer was given these messages, each of a topic of its own; and their receipts.
    fn consumer(&mut self, messages: &[&str]) -> (Wire, Vec<Receipt>) {
        let mut wire = self.connect();
        self.say(&mut wire, &[begin(), attach(10)]);
        let publishes: Vec<Request> = messages.iter().map(|body| publish(body, &[body], Level::Durable)).collect();
        self.say(&mut wire, &publishes);
        self.go_on(&mut wire);
        let receipts: Vec<Receipt> = wire.delivered().map(|run| run.receipt).collect();
        assert_eq!(receipts.len(), messages.len());
        wire.heard.clear();
        (wire, receipts)
    }

    /// The bodies of all dead letters.
    fn letters(&mut self) -> usize {
        let mut wire = self.connect();
        let listing =
            Listing { namespace: NamespaceName::default(), prefix: Bytes::new(), after: Bytes::new(), limit: 100 };
        self.say(&mut wire, &[Request::DeadList { listing, group: Default::default() }]);
        self.go_on(&mut wire);
        let rows = wire.heard.iter().find_map(|(_, response)| match response {
            Response::Dead { rows, .. } => Some(rows.len()),
            _ => None,
        });
        rows.expect("the list was answered")
    }
}

impl Wire {
    fn hear(&mut self, now: Instant) {
        loop {
            let said = self.edge.say(usize::MAX, now).unwrap();
            if said.is_empty() {
                return;
            }
            self.input.extend_from_slice(&said);
            while let Some(Incoming { correlation, frame, .. }) = self.decoder.next_response(&mut self.input).unwrap() {
                self.heard.push((correlation, frame));
            }
        }
    }

    fn delivered(&self) -> impl Iterator<Item = &LeasedRun> {
        self.heard.iter().flat_map(|(_, response)| match response {
            Response::Delivery { leases, .. } => &leases[..],
            _ => &[],
        })
    }

    /// Whether the session that it has begun was there.
    fn resumed(&self) -> Option<bool> {
        self.heard.iter().find_map(|(_, response)| match response {
            Response::SessionBegun { resumed, .. } => Some(*resumed),
            _ => None,
        })
    }

    fn has(&self, body: &str) -> bool {
        self.delivered().any(|run| bodies(std::slice::from_ref(run)).iter().any(|found| found == body))
    }
}

fn begin() -> Request {
    Request::SessionBegin { session: SESSION, resume: Millis::seconds(60), held: Vec::new() }
}

fn attach(messages: u32) -> Request {
    Request::Attach(Attach {
        consumer: 1,
        namespace: NamespaceName::default(),
        group: Default::default(),
        filter: Filter::All,
        messages,
        bytes: 1 << 20,
        lease: None,
        at_most_once: false,
    })
}

fn finish(verb: FinishVerb, receipt: Receipt) -> Request {
    Request::Finish(Finish { verb, confirm: true, namespace: None, receipts: vec![(receipt, 1)] })
}

fn reject(receipt: Receipt) -> Request {
    finish(FinishVerb::Reject { reason: Bytes::from_static(&[b'x'; 1000]) }, receipt)
}

fn fail(receipt: Receipt) -> Request {
    finish(FinishVerb::Fail { delay: None, reason: Bytes::new() }, receipt)
}

/// The first reject takes what room there was.
#[test]
fn nothing_overtakes_a_reject_that_a_turn_has_put_off() {
    let mut rig = Rig::new();
    let (mut wire, receipts) = rig.consumer(&["a", "b"]);
    rig.fill(500);
    rig.say(&mut wire, &[reject(receipts[0]), reject(receipts[1])]);
    rig.broker.write().unwrap();
    assert!(rig.broker.is_pushed_back(), "the second one was taken and not decided");
    rig.say(&mut wire, &[Request::SessionEnd]);
    rig.make_room(&mut wire);
    assert_eq!(rig.letters(), 2, "what was rejected before the session ended is a dead letter");
}

/// The housekeeper makes room in the midst of the turn: what came behind was decided then, and what was put off in the next turn.
#[test]
fn nothing_overtakes_what_was_put_off_before_it_in_the_same_turn() {
    let mut rig = Rig::new();
    let (mut wire, receipts) = rig.consumer(&["a", "b"]);
    rig.fill(500);
    *rig.relief.lock().unwrap() = Some(rig.store.clone());
    rig.say(&mut wire, &[reject(receipts[0]), reject(receipts[1]), Request::SessionEnd]);
    rig.broker.write().unwrap();
    assert!(rig.relief.lock().unwrap().is_none() && rig.store.memory().young < LAYERS / 2, "there is room again");
    assert!(rig.broker.is_pushed_back(), "what was put off is decided in the next turn");
    rig.go_on(&mut wire);
    assert_eq!(rig.letters(), 2, "what was rejected before the session ended is a dead letter");
}

/// A topic that was emptied by them was there for good after the next start: nothing came to it any more.
#[test]
fn what_a_stop_finds_put_off_is_decided_to_its_end() {
    let mut rig = Rig::new();
    let (mut wire, receipts) = rig.consumer(&["a", "b"]);
    rig.fill(500);
    rig.say(&mut wire, &[reject(receipts[0]), reject(receipts[1])]);
    rig.broker.write().unwrap();
    assert!(rig.broker.is_pushed_back(), "the second one was taken and not decided");
    drop(wire);
    let mut rig = rig.restart();
    assert_eq!(rig.letters(), 2);
    let core = rig.broker.core();
    assert_eq!((core.resident_count(), core.cold_count()), (0, 0), "a topic that holds nothing has vanished");
}

/// A queue that stops opens its lanes.
#[test]
fn what_a_stop_finds_put_off_is_decided_before_what_came_behind_it() {
    let mut rig = Rig::new();
    let (mut wire, receipts) = rig.consumer(&["a", "b"]);
    rig.fill(500);
    rig.say(&mut wire, &[reject(receipts[0]), publish("t", &["one"], Level::Durable)]);
    rig.broker.write().unwrap();
    assert!(rig.broker.is_pushed_back(), "the publish was taken and not decided");
    rig.say(&mut wire, &[publish("t", &["two"], Level::Durable)]);
    drop(wire);
    let mut rig = rig.restart();
    let mut wire = rig.connect();
    rig.say(&mut wire, &[Request::Receive(receive(10, Millis::ZERO))]);
    rig.go_on(&mut wire);
    let received = wire.heard.iter().find_map(|(_, response)| match response {
        Response::Received(leases) => Some(bodies(leases)),
        _ => None,
    });
    let published: Vec<String> = received.unwrap().into_iter().filter(|body| body != "b").collect();
    assert_eq!(published, ["one", "two"]);
}

#[test]
fn what_an_old_connection_has_sent_is_not_carried_out_behind_the_takeover_of_its_session() {
    for last in [Request::Detach { consumer: 1 }, Request::SessionEnd] {
        let mut rig = Rig::new();
        let (mut old, receipts) = rig.consumer(&["a"]);
        rig.fill(0);
        rig.go_on(&mut old);
        rig.say(&mut old, &[fail(receipts[0]), last.clone()]);
        let mut new = rig.connect();
        rig.say(&mut new, &[begin(), attach(10)]);
        drop(old);
        rig.go_on(&mut new);
        assert_eq!(new.resumed(), Some(true), "a begin waits for no room");
        rig.make_room(&mut new);
        rig.say(&mut new, &[publish("later", &["later"], Level::Durable)]);
        rig.go_on(&mut new);
        assert!(new.has("later"), "the consumer is there that was attached behind {last:?}");
    }
}

#[test]
fn a_session_begins_again_behind_its_end_that_waits_for_room() {
    let mut rig = Rig::new();
    let (mut wire, receipts) = rig.consumer(&["a"]);
    rig.fill(0);
    rig.go_on(&mut wire);
    let credit = Request::Credit { consumer: 1, messages: 10, bytes: 1 << 20 };
    rig.say(&mut wire, &[reject(receipts[0]), Request::SessionEnd, begin(), attach(1), credit]);
    rig.make_room(&mut wire);
    assert_eq!(wire.resumed(), Some(false), "the one before it was over");
    let later: Vec<Request> = ["x", "y", "z"].iter().map(|body| publish(body, &[body], Level::Durable)).collect();
    rig.say(&mut wire, &later);
    rig.go_on(&mut wire);
    assert!(["x", "y", "z"].iter().all(|body| wire.has(body)), "the consumer is there, with all of its credit");
    assert_eq!(rig.letters(), 1);
}

/// Nor where the one that took it over is gone as well: somebody may still resume it.
#[test]
fn a_session_is_not_ended_by_a_connection_that_is_gone() {
    let mut rig = Rig::new();
    let (mut old, receipts) = rig.consumer(&["a"]);
    rig.fill(0);
    rig.go_on(&mut old);
    rig.say(&mut old, &[fail(receipts[0]), Request::SessionEnd]);
    drop(old);
    for _ in 0..2 {
        let mut new = rig.connect();
        rig.say(&mut new, &[begin()]);
        rig.go_on(&mut new);
        assert_eq!(new.resumed(), Some(true));
        drop(new);
        let mut other = rig.connect();
        rig.make_room(&mut other);
    }
}

/// Nobody asks for what is left of a connection that is gone.
#[test]
fn a_session_does_not_begin_behind_the_end_of_its_connection() {
    let mut rig = Rig::new();
    let mut other = rig.connect();
    let mut wire = rig.connect();
    rig.say(&mut other, &[publish("a", &["a"], Level::Durable), Request::Receive(receive(1, Millis::ZERO))]);
    rig.go_on(&mut other);
    let leased = other.heard.iter().find_map(|(_, response)| match response {
        Response::Received(leases) => leases.first().map(|run| run.receipt),
        _ => None,
    });
    rig.fill(0);
    rig.go_on(&mut wire);
    rig.say(&mut wire, &[reject(leased.expect("there was one")), begin(), attach(10)]);
    drop(wire);
    rig.make_room(&mut other);
    assert_eq!(rig.letters(), 1, "a reject is carried out all the same");
    rig.say(&mut other, &[publish("b", &["b"], Level::Durable), Request::Receive(receive(1, Millis::ZERO))]);
    other.heard.clear();
    rig.go_on(&mut other);
    let is_given = |(_, response): &_| matches!(response, Response::Received(leases) if !leases.is_empty());
    assert!(other.heard.iter().any(is_given), "it was leased to nobody who is gone");
}

#[test]
fn who_asks_on_while_the_disk_stands_still_is_not_read_on() {
    let mut rig = Rig::new();
    let (mut wire, mut other) = (rig.connect(), rig.connect());
    rig.go_on(&mut wire);
    wire.heard.clear();
    rig.say(&mut other, &[publish("a", &["a"], Level::Durable)]);
    rig.broker.write().unwrap();
    // A batch is on its way now, and does not come back.
    let nobody = Receive { group: "nobody".try_into().unwrap(), ..receive(1, Millis::ZERO) };
    let piece = vec![Request::Receive(nobody); PIECE];
    let mut asked = 0;
    while wire.edge.may_read() {
        assert!(asked < 60_000, "answers wait for the disk without a bound");
        rig.say(&mut wire, &piece);
        asked += piece.len();
        rig.broker.write().unwrap();
    }
    // That is not held against the client.
    rig.clock.pass(Duration::from_secs(70));
    rig.carry(&mut wire, &[]).unwrap();
    assert!(!wire.edge.may_read());
    rig.go_on(&mut wire);
    let refused = wire.heard.iter().filter(|(_, response)| matches!(response, Response::Error { .. })).count();
    assert_eq!((refused, wire.edge.may_read()), (asked, true), "it has all of its answers, and goes on");
    let code = |(_, response): &_| matches!(response, Response::Error { code: Code::GroupUnknown, .. });
    assert!(wire.heard.iter().all(code));
}
