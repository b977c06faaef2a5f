//! What connections ask while there is no room for dead letters: in which order it is carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use millpond_core::Core;
use millpond_core::page::{DedupPage, Page};
use millpond_core::store::{Key, Shelf, Store};
use millpond_protocol::*;
use millpond_server::manual::{Closed, Edge, Host, ManualBroker};
use millpond_storage::store::LayeredStore;
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::WallTime;
use millpond_types::{Filter, MessageId, Millis, NamespaceName, Priority, Receipt, Sequence, SessionId, TopicNumber};

mod wire;
use wire::publish;

/// Entries that are not on the disk may take so much.
const LAYERS: usize = 64 << 10;
const SESSION: SessionId = SessionId(7);

/// Time passes as it is told to.
#[derive(Clone)]
struct Clock {
    begin: Instant,
    micros: Arc<AtomicU64>,
}

impl Clock {
    fn pass(&self, time: Duration) {
        self.micros.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    fn passed(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

impl Host for Clock {
    fn now(&mut self) -> Instant {
        self.begin + self.passed()
    }

    fn system(&mut self) -> Duration {
        Duration::from_secs(1_700_000_000) + self.passed()
    }

    /// The disk does nothing by itself.
    fn own_hand_max(&self) -> u64 {
        0
    }
}

struct Rig {
    broker: ManualBroker<Clock>,
    store: LayeredStore,
    clock: Clock,
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
        let clock = Clock { begin: Instant::now(), micros: Arc::default() };
        let options = OpenOptions { young_bytes: LAYERS / 2, ..OpenOptions::default() };
        let opened = open::<Core>(Arc::new(TwinDisk::new(512)), &options).unwrap();
        let store = opened.store.clone();
        let (broker, _) = ManualBroker::start(opened, [64 << 20, LAYERS], clock.clone()).unwrap();
        Rig { broker, store, clock }
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
