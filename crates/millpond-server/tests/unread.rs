//! What was delivered at most once has ended, and is there for whoever it was delivered to.

mod by_hand;

use std::sync::Arc;
use std::time::Instant;

use by_hand::{Clock, publish, run};
use bytes::BytesMut;
use millpond_core::Core;
use millpond_protocol::{Decoder, Receive, Request, Response, VERSION, encode_request};
use millpond_server::manual::{Edge, ManualBroker, Rooms};
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::block;
use millpond_types::{Filter, GroupName, Millis, NamespaceName};

const SEGMENT: u64 = 64 << 10;
const BODY: usize = 8 << 10;
/// More than a few segments.
const MESSAGES: u32 = 40;

/// All that is ready, at most once.
fn receive() -> Request {
    Request::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages: MESSAGES,
        bytes: u64::MAX,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: true,
        request: None,
    })
}

struct House {
    disk: TwinDisk,
    broker: ManualBroker<Clock>,
    clock: Clock,
}

impl House {
    /// With messages in several segments that lie before a checkpoint, and none of them in memory.
    fn filled() -> House {
        let (disk, clock) = (TwinDisk::new(512), Clock::new());
        let options = OpenOptions {
            segment_bytes: SEGMENT,
            checkpoint_after: SEGMENT,
            tail_bytes: 0,
            batch_bytes: SEGMENT / 4,
            ..OpenOptions::default()
        };
        let opened = open::<Core>(Arc::new(disk.clone()), &options).unwrap();
        let (broker, _) =
            ManualBroker::start(opened, Rooms { topics: 64 << 20, layers: 2 << 20, ..Rooms::least() }, clock.clone())
                .unwrap();
        let mut house = House { disk, broker, clock };
        for body in 0..MESSAGES {
            assert!(
                house
                    .broker
                    .submit(ManualBroker::<Clock>::ticket(body), publish(vec![run("site", &[body as u8; BODY], 1)]))
                    .is_none()
            );
            house.settle();
        }
        house.broker.take_told();
        house
    }

    /// Until nothing goes on.
    fn settle(&mut self) {
        loop {
            let sleep = self.broker.write().unwrap();
            let mut went_on = self.broker.commit() | self.broker.fetch(0) | self.broker.fetch(1);
            while self.broker.housekeeper.step().unwrap() {
                went_on = true;
            }
            if !went_on && sleep.is_none_or(|sleep| !sleep.is_zero()) {
                return;
            }
            self.clock.pass(sleep.unwrap_or_default());
        }
    }

    fn segments(&self) -> usize {
        self.disk.snapshot().keys().filter(|name| name.ends_with(".journal")).count()
    }
}

/// The first byte of each body that an answer brings.
fn bodies(edge: &mut Edge, house: &mut House) -> Vec<u8> {
    let (mut said, mut decoder, now) = (BytesMut::new(), Decoder::default(), Instant::now());
    for _ in 0..100 {
        house.broker.read();
        edge.hear(&[], now).unwrap();
        said.extend_from_slice(&edge.say(usize::MAX, now).unwrap());
        while let Some(incoming) = decoder.next_response(&mut said).unwrap() {
            if let Response::Received(runs) = incoming.frame {
                let messages = runs.iter().flat_map(|run| block::messages(&run.block));
                return messages.map(|message| message.unwrap().body[0]).collect();
            }
        }
    }
    panic!("a receive is answered");
}

/// The segments that a delivery empties may go at once, and a consumer reads what it is told a moment later.
#[test]
fn what_was_delivered_at_most_once_is_there_for_who_reads_at_once() {
    let mut house = House::filled();
    let now = Instant::now();
    let mut edge = house.broker.connect(now);
    let mut asked = Vec::new();
    encode_request(&Request::Hello { version: VERSION, client: String::new() }, 0, &mut asked);
    encode_request(&receive(), 1, &mut asked);
    edge.hear(&asked, now).unwrap();
    let before = house.segments();
    assert!(before > 4, "{before} segments");
    house.settle();
    house.broker.take_told().into_iter().for_each(|output| house.broker.tell(output));
    assert_eq!(bodies(&mut edge, &mut house), (0..MESSAGES as u8).collect::<Vec<_>>());
}
