//! What a broker has that is led by hand: its clock, and what it is asked without a connection.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millpond_core::command::{Command, Level, Publish, PublishRun};
use millpond_server::manual::Host;
use millpond_types::block::{self, Sizes};
use millpond_types::{Millis, NamespaceName, Priority, TopicName};

/// What passes is told, in microseconds.
#[derive(Clone)]
pub struct Clock {
    begin: Instant,
    passed: Arc<AtomicU64>,
    /// What passes with each look at it.
    each_look: u64,
    own_hand_max: u64,
}

impl Clock {
    /// One that goes a little with each look at it.
    pub fn new() -> Clock {
        Clock { begin: Instant::now(), passed: Arc::default(), each_look: 40, own_hand_max: 16 * 1024 }
    }

    /// One that stands still until it is told to go, of a broker whose disk does nothing by itself either.
    pub fn standing() -> Clock {
        Clock { each_look: 0, own_hand_max: 0, ..Clock::new() }
    }

    pub fn pass(&self, time: Duration) {
        self.passed.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Host for Clock {
    fn now(&mut self) -> Instant {
        self.begin + Duration::from_micros(self.passed.fetch_add(self.each_look, Ordering::Relaxed))
    }

    fn system(&mut self) -> Duration {
        Duration::from_secs(1_700_000_000) + Duration::from_micros(self.passed.load(Ordering::Relaxed))
    }

    fn own_hand_max(&self) -> u64 {
        self.own_hand_max
    }
}

/// So many equal messages of a topic.
pub fn run(topic: &str, body: &[u8], count: u32) -> PublishRun {
    let mut one = Vec::new();
    block::push(&mut one, b"", &[], body).unwrap();
    let checksum = crc32c::crc32c(&one[block::PREFIX..]);
    one[..4].copy_from_slice(&checksum.to_le_bytes());
    PublishRun {
        topic: TopicName::try_from(topic).unwrap(),
        priority: Priority::DEFAULT,
        delay: Millis::ZERO,
        ttl: None,
        count,
        block: one.repeat(count as usize).into(),
        sizes: Sizes::Uniform(one.len() as u32),
        dedup: Vec::new(),
        too_large: Vec::new(),
    }
}

pub fn publish(runs: Vec<PublishRun>) -> Command {
    let namespace = NamespaceName::default();
    Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs })
}
