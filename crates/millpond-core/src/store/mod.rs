//! What the core keeps outside of its memory, and how it asks for it.
//!
//! Cold topics, long lines, dedup ids, dead letters and idle producer sessions are *entries* in an ordered store. Three
//! layers make it up, newest first: what was put since the checkpoint that is being made began, what that checkpoint
//! captures, and what the last one left on disk. The first two are in memory, and the core may look into them at any
//! time; for the third it names what it *wants*, and the shell fetches that and hands it in.
//!
//! ```text
//!  core ── put, remove ──► young ── freeze ──► frozen ── seal, by the shell ──► on disk
//!       ◄── find ───────────┘───────────────────┘                                  │
//!       ── wants ─────────────────────── the shell reads ──────────────────────────┘
//!       ◄─ answers
//! ```
//!
//! Invariants: a topic that is in memory is the truth, whatever its entry says; any other topic is what its entry says.
//! Nothing that the core decides depends on the layer in which an entry lies, only on when its answer comes.

mod key;
mod memory;
mod slice;
mod spread;

use alloc::boxed::Box;
use alloc::vec::Vec;

use millpond_types::{ExchangeName, MessageId, Priority, ProducerId, Sequence, TopicName, TopicNumber};

use crate::fact::{GroupNumber, NamespaceNumber};
use crate::page::Page;

pub use key::{KeyBytes, Name};
pub use memory::MemoryStore;
pub use slice::{GONE_MAX, Slice};
pub use spread::{Gather, Part, Shares, Spread, Taken};

/// What an entry is found by. [`Key::bytes`] is its place in the order of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    /// The numbers and times of a checkpoint.
    Numbers,
    /// A namespace.
    Namespace(NamespaceNumber),
    /// A group's topic. One entry is found by name, shelf by shelf, and is the topic's place in the order of dispatch.
    Topic {
        /// The group that it is of.
        group: GroupNumber,
        /// The shelf that it stood on when it was put.
        shelf: Shelf,
        /// Its name.
        name: TopicName,
    },
    /// A piece of a long line, or of very many messages that rest.
    Piece {
        /// The group.
        group: GroupNumber,
        /// The topic.
        topic: TopicNumber,
        /// The priority.
        priority: Priority,
        /// The piece's first message.
        first: Sequence,
    },
    /// A cold topic that time changes at this moment, if not before.
    Due {
        /// The moment.
        at: Moment,
        /// The topic's group.
        group: GroupNumber,
        /// The topic's name.
        name: TopicName,
    },
    /// A dedup id.
    Dedup {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its hash.
        hash: u128,
    },
    /// A producer session.
    Producer {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// The producer.
        id: ProducerId,
    },
    /// An exchange.
    Exchange {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its name.
        name: ExchangeName,
    },
    /// A dead letter, in the order of topics.
    Dead {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its group.
        group: GroupNumber,
        /// The topic that it came from.
        topic: TopicName,
        /// Its id.
        id: MessageId,
    },
}

/// A moment by one of the two clocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment {
    /// The clock.
    pub clock: Clock,
    /// The moment, in milliseconds.
    pub at: u64,
}

/// By what time is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Clock {
    /// That of [`WallTime`](millpond_types::WallTime).
    Wall,
    /// That of [`RunTime`](millpond_types::RunTime).
    Run,
}

/// What a topic has to offer, and so where in the store it is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shelf {
    /// Messages are ready, at this priority at the highest, whether or not the topic is paused.
    Ready(Priority),
    /// Nothing is ready, or all that is waits for what is in retry or for a token of the rate, and nothing but time will change that; or
    /// the start of its group has still to come to it. Of these, the last are never cold: every start of the broker loads them.
    Idle,
    /// Something is leased. Such a topic is never cold either.
    Busy,
}

/// How many shelves there are.
pub const SHELVES: usize = millpond_types::limits::PRIORITIES + 2;

/// What the store knows at once of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// There is no entry.
    Absent,
    /// This one.
    Here(Box<Page>),
    /// Only the disk knows.
    OnDisk,
}

/// A store, as far as the core calls it: in memory, never waiting. The shell holds the other end.
///
/// The key of an entry follows from its page ([`Key::of`]), but for a topic's shelf, so a key goes with each.
pub trait Store: Send {
    /// Keeps an entry in place of what its key had.
    fn put(&mut self, key: &Key, page: &Page);
    /// Forgets an entry. There need not be one.
    fn remove(&mut self, key: &Key) {
        self.remove_all(core::slice::from_ref(key));
    }
    /// Forgets entries, of which there are many at a time where topics are drained.
    fn remove_all(&mut self, keys: &[Key]);
    /// Looks a key up in memory.
    fn find(&mut self, key: &Key) -> Found;
    /// Begins a checkpoint: all that was put and removed so far belongs to it, and what follows to the next.
    fn freeze(&mut self);
    /// Keeps an entry as it was at the freeze. `put` and `remove` of the time since take precedence in memory.
    fn capture(&mut self, key: &Key, page: &Page);
    /// Forgets an entry as of the freeze.
    fn capture_removal(&mut self, key: &Key);
    /// The checkpoint is complete: the shell may write it.
    fn seal(&mut self);
    /// All entries, in order, the disk's among them: the one call that may wait. For those who inspect the whole state.
    fn dump(&self) -> Vec<Page>;
}

/// Something on disk that the core waits for. Told once; the answer may come late and in any order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Want {
    /// One entry, or the news that there is none.
    Entry(KeyBytes),
    /// The first entries of a range, in order.
    Range(Range),
    /// Of a range of topics the first of each tenant, in order: in one read, where tenants have many.
    Spread(Spread),
}

/// Entries from a key on and before another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Range {
    /// The first key that could be among them.
    pub from: KeyBytes,
    /// The first key behind them.
    pub until: KeyBytes,
    /// At most so many.
    pub limit: u32,
}

impl Answer {
    /// What it is the answer to.
    pub fn want(&self) -> Want {
        match self {
            Answer::Entry(key, _) => Want::Entry(key.clone()),
            Answer::Range { range, .. } => Want::Range(range.clone()),
            Answer::Spread { spread, .. } => Want::Spread(spread.clone()),
        }
    }
}

/// What the shell has fetched, all three layers merged at the moment at which it is handed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Of a [`Want::Entry`].
    Entry(KeyBytes, Option<Page>),
    /// Of a [`Want::Range`].
    Range {
        /// What was asked.
        range: Range,
        /// The entries, with their keys, in order.
        entries: Vec<(KeyBytes, Page)>,
        /// Where to read on: before it there are no others. `None` if the range ends with them. With a rest and no entries, all
        /// that was looked at is gone, and there may still be something behind it.
        rest: Option<KeyBytes>,
    },
    /// Of a [`Want::Spread`].
    Spread {
        /// What was asked.
        spread: Spread,
        /// What was found.
        parts: Vec<Part>,
    },
}
