//! A plain model of all messages, kept beside the core from the same facts.
//!
//! It knows nothing of runs, turns and timers: one entry a message, one a lease. It refuses a fact that cannot follow
//! from those before it, and goes back with the journal when a crash takes facts away. [`crate::lost`] and
//! [`crate::back`] hold what clients were told against it, and [`crate::audit`] the core's own state.

mod aside;
mod follow;
mod growing;
mod moved;
mod stored;

use aside::Aside;
use growing::Growing;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{EndReason, LeaseNumber, MessageId, NamespaceName, Priority, TopicName, TopicNumber, WallTime};

use crate::sights::Sights;
use crate::verdict::Violation;
use crate::versioned::Versioned;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What its body says.
    pub tag: u64,
    /// The hash of its dedup id.
    pub dedup: Option<u128>,
    /// When it is due, until it has become ready.
    pub due: Option<WallTime>,
    /// Where it is.
    pub place: Place,
}

/// Where a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Waiting, delayed or in retry.
    Open,
    /// Leased.
    Leased(LeaseNumber),
    /// A dead letter.
    Dead,
    /// Ended, for this one reason.
    Ended(EndReason),
    /// A dead letter that went back to work as this message.
    Redriven(MessageId),
}

impl Place {
    /// Whether the message may never be delivered again under its id.
    pub fn is_over(self) -> bool {
        matches!(self, Place::Ended(_) | Place::Redriven(_))
    }
}

/// One life of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// The number of its namespace.
    pub namespace: u32,
    /// Its name.
    pub name: TopicName,
    /// Whether it has no token of its rate.
    pub dry: bool,
    /// Whether it has vanished.
    pub gone: bool,
}

/// A lease, current or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The message that it is of.
    pub id: MessageId,
    /// Whether no fact has ended it.
    pub current: bool,
    /// The turn in which its message was acked by it.
    pub acked: Option<u64>,
}

/// See the module.
#[derive(Default)]
pub struct Ledger {
    /// Every message that was ever stored.
    pub messages: Versioned<MessageId, Message>,
    /// Every life of a topic.
    pub topics: Versioned<TopicNumber, Topic>,
    /// Every lease that was ever given.
    pub leases: Versioned<(TopicNumber, LeaseNumber), Lease>,
    growing: Growing,
    /// The highest sequence per namespace, topic name and priority, over all its lives.
    highest_sequence: Versioned<(u32, TopicName, Priority), MessageId>,
    /// Which message has which tag.
    tags: Versioned<u64, MessageId>,
    /// What is remembered of dedup ids, and until when.
    dedups: Versioned<u128, (MessageId, WallTime)>,
    /// How many messages a turn has declined, by the namespace and the name of their topic.
    declined: Versioned<(u32, TopicName, u64), u64>,
    namespaces: Versioned<u32, NamespaceName>,
    /// Unfinished messages of each topic's life.
    open: Versioned<TopicNumber, u64>,
    aside: Aside,
    now: WallTime,
    /// The number of this turn.
    turn: u64,
    violation: Option<Violation>,
    /// What was seen.
    pub sights: Sights,
}

impl Ledger {
    /// A turn begins.
    pub fn begin(&mut self, now: WallTime) {
        self.now = now;
        self.turn += 1;
    }

    /// Something has happened.
    pub fn happened(&mut self, fact: &Fact, position: u64) {
        let grown = self.growing.follow(fact, position, &mut self.sights);
        let followed = if self.aside.takes(fact) { Ok(()) } else { self.follow(fact, position) };
        if let Err(violation) = grown.and(followed) {
            self.violation.get_or_insert(violation);
        }
    }

    /// Takes facts back: the journal ends at this position now.
    pub fn go_back(&mut self, position: u64) {
        let Ledger {
            messages,
            topics,
            leases,
            growing,
            highest_sequence,
            tags,
            dedups,
            declined,
            namespaces,
            open,
            aside: _,
            now: _,
            turn: _,
            violation: _,
            sights: _,
        } = self;
        messages.go_back(position);
        topics.go_back(position);
        leases.go_back(position);
        growing.go_back(position);
        highest_sequence.go_back(position);
        tags.go_back(position);
        dedups.go_back(position);
        declined.go_back(position);
        namespaces.go_back(position);
        open.go_back(position);
    }

    /// What stands before this position is durable and will not go back.
    pub fn settle(&mut self, position: u64) {
        self.messages.settle(position);
        self.topics.settle(position);
        self.leases.settle(position);
        self.growing.settle(position);
        self.highest_sequence.settle(position);
        self.tags.settle(position);
        self.dedups.settle(position);
        self.declined.settle(position);
        self.namespaces.settle(position);
        self.open.settle(position);
    }

    /// The first fact that could not be.
    pub fn verdict(&mut self) -> Result<(), Violation> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// Whether a group is one that the ledger leaves alone.
    pub fn is_aside(&self, group: GroupNumber) -> bool {
        self.aside.holds(group)
    }

    /// The last message of a priority that a topic of the same name has had.
    pub fn reached(&self, topic: TopicNumber, priority: Priority) -> Option<MessageId> {
        let life = self.topics.get(&topic)?;
        self.highest_sequence.get(&(life.namespace, life.name.clone(), priority)).copied()
    }

    /// The last lease of a topic, where a group other than this one had it.
    pub fn leased_elsewhere(&self, topic: TopicNumber, group: GroupNumber) -> Option<LeaseNumber> {
        self.growing.elsewhere(topic, group)
    }

    /// The message that a tag was stored as.
    pub fn tagged(&self, tag: u64) -> Option<MessageId> {
        self.tags.get(&tag).copied()
    }

    /// How many messages a turn has declined that were to be stored in a topic, of the namespace of another one.
    pub fn declined_beside(&self, topic: TopicNumber, name: &TopicName, turn: u64) -> u64 {
        let namespace = self.topics.get(&topic).map(|life| life.namespace);
        namespace.and_then(|of| self.declined.get(&(of, name.clone(), turn))).copied().unwrap_or(0)
    }
}
