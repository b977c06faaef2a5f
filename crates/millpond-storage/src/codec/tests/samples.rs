//! What the bytes of facts and of entries are held with alike.

use super::*;

pub const TOPIC: TopicNumber = TopicNumber(300);
pub const FIRST: Sequence = Sequence(400);
pub const WALL: WallTime = WallTime(1_000_000);
pub const LATER: WallTime = WallTime(1_000_700);

pub fn topic(name: &str) -> TopicName {
    TopicName::try_from(name).unwrap()
}

pub fn id() -> MessageId {
    MessageId { topic: TOPIC, priority: Priority::HIGHEST, sequence: FIRST }
}

pub fn run() -> RunPage {
    RunPage {
        first: FIRST,
        position: 70_000,
        published: WALL,
        expires: WallTime(1_000_900),
        sizes: Sizes::Uniform(12),
        marks: Marks::new(WallTime(1_001_000), vec![(0, 6 << 64 | 5)]),
        count: 1,
        index: 0,
    }
}

/// A message that was rejected.
pub fn rejected() -> DeadPage {
    DeadPage {
        namespace: 7,
        group: 2,
        topic: topic("a/b"),
        id: id(),
        run: run(),
        deliveries: 4,
        failures: 3,
        reason: DeadReason::Rejected,
        detail: Bytes::from_static(b"no"),
        died: LATER,
    }
}
