//! What the tests ask of a core, and the turn in which it is done.

use bytes::Bytes;
use millpond_core::Now;
use millpond_core::command::{Command, Level, Publish, PublishRun, Receive, Ticket};
use millpond_core::output::Output;
use millpond_types::block::{self, Sizes};
use millpond_types::{Filter, GroupName, Millis, NamespaceName, Priority, RunTime, TopicName, WallTime};

use crate::Opened;

/// Headers without a meaning.
pub type Headers<'a> = &'a [(&'a [u8], &'a [u8])];

/// Messages with these bodies, as a session makes them from a frame.
pub fn run<'a>(topic: &str, headers: Headers<'_>, bodies: impl IntoIterator<Item = &'a [u8]>) -> PublishRun {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for body in bodies {
        let begin = bytes.len();
        block::push(&mut bytes, b"", headers, body).unwrap();
        let checksum = crc32c::crc32c(&bytes[begin + block::PREFIX..]);
        bytes[begin..begin + 4].copy_from_slice(&checksum.to_le_bytes());
        ends.push(bytes.len() as u32);
    }
    PublishRun {
        topic: TopicName::try_from(topic).unwrap(),
        priority: Priority::DEFAULT,
        delay: Millis::ZERO,
        ttl: None,
        count: ends.len() as u32,
        block: Bytes::from(bytes),
        sizes: Sizes::from_ends(&ends),
        dedup: Vec::new(),
        too_large: Vec::new(),
    }
}

pub fn publish(runs: Vec<PublishRun>) -> Command {
    let namespace = NamespaceName::default();
    Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs })
}

/// A receive that does not wait.
pub fn receive(messages: u32) -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages,
        bytes: u64::MAX,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: false,
        request: None,
        call: 0,
    })
}

/// A turn with one command and what it leads to, a millisecond after the last, made durable.
pub fn turn(opened: &mut Opened, command: Command) -> Vec<Output> {
    turn_after(opened, 1, command)
}

/// The same, so many milliseconds after the last.
pub fn turn_after(opened: &mut Opened, millis: u64, command: Command) -> Vec<Output> {
    let before = opened.core.now();
    let now = Now { run: RunTime(before.run.0 + millis), wall: WallTime(before.wall.0 + millis) };
    let Opened { core, store, appender, committer, .. } = opened;
    core.set_time(now);
    core.submit(Ticket(1), command, appender);
    core.advance(appender);
    core.dispatch(appender);
    while store.supply(core, appender).unwrap() {
        core.dispatch(appender);
    }
    appender.hold(core.holdings());
    // What came to no fact makes no batch.
    if let Some(batch) = appender.seal(now) {
        committer.write(batch).unwrap();
        committer.sync().unwrap();
    }
    core.outputs().drain(..).collect()
}
