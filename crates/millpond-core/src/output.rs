//! What the core says. Nothing of it may leave the process before the facts of its turn are durable, but for a publish
//! of level `buffered`, which waits for the write only.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use millpond_types::block::Sizes;
use millpond_types::{
    Binding, Code, DeadView, ExchangeName, ExchangeView, FinishOutcome, LeaderEpoch, LeaseNumber, MessageId,
    MessageView, NamespaceName, NamespaceView, OutcomeRun, Priority, PublishOutcome, Receipt, Sequence, SessionId,
    Standing, TopicName, TopicView, WallTime,
};

use crate::command::{Level, Ticket};
use crate::fact::GroupNumber;
use crate::page::RunPage;
use crate::routing::Exchange;

/// Something to tell, once the turn is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// The answer to a command.
    Reply {
        /// The command.
        ticket: Ticket,
        /// The answer.
        reply: Reply,
    },
    /// Messages for an attached consumer.
    Delivery {
        /// Its session.
        session: SessionId,
        /// Its number there.
        consumer: u32,
        /// That of the leader, where the group is exclusive.
        epoch: Option<LeaderEpoch>,
        /// The messages.
        leases: Vec<LeasedRun>,
    },
    /// What a consumer of an exclusive group is from now on.
    Standing {
        /// Its session.
        session: SessionId,
        /// Its number there.
        consumer: u32,
        /// What it is.
        standing: Standing,
    },
    /// The session is over: it was not resumed in time. Its leases have expired.
    SessionExpired(SessionId),
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// To a publish; told when its level allows, and never for [`Level::None`].
    Published {
        /// The publish's level.
        level: Level,
        /// What became of each message, in order.
        outcomes: Vec<OutcomeRun<PublishOutcome>>,
        /// Of a message to an exchange the topics of its copies, in the order of the outcomes; none where it has no copies,
        /// and where the outcomes are those that the batch of a producer was told before.
        topics: Vec<TopicName>,
    },
    /// To a receive; empty if nothing came in time.
    Received(Vec<LeasedRun>),
    /// To a finish that asked for it.
    Finished(Vec<OutcomeRun<FinishOutcome>>),
    /// To a finish that did not, of whose receipts so many named no current lease. Where none did, it is said of those alone that
    /// name a namespace, and so may be refused by the state. No client is told.
    Lost(u32),
    /// To a forward. Where one receipt is lost or one message refused, nothing of it was done.
    Forwarded {
        /// What became of each receipt, in order.
        finished: Vec<OutcomeRun<FinishOutcome>>,
        /// What became of each message, in order.
        published: Vec<OutcomeRun<PublishOutcome>>,
        /// Of a message to an exchange the topics of its copies, as for [`Reply::Published`].
        topics: Vec<TopicName>,
    },
    /// To a session's begin: whether it was there already.
    SessionBegun {
        /// Whether leases of before are still its own.
        resumed: bool,
    },
    /// Done, with nothing to say.
    Done,
    /// How many were touched.
    Count(u64),
    /// To a look. Their messages may be more than fits a frame.
    Messages(Vec<Found<MessageView>>),
    /// To a listing of namespaces, or one for stats.
    Namespaces {
        /// The rows.
        rows: Vec<NamespaceView>,
        /// What the next page comes after; `None` if this was the last.
        next: Option<NamespaceName>,
    },
    /// To a listing of exchanges.
    Exchanges(Vec<ExchangeView>),
    /// To a listing of the bindings of one.
    Bindings(Vec<Binding>),
    /// To a listing of topics, or one topic.
    Topics(Vec<TopicView>),
    /// To a listing of dead letters, or a look at one. They fit a frame with their messages.
    Dead {
        /// The rows.
        rows: Vec<Found<DeadView>>,
        /// Where the next page begins; empty if this was the last.
        next: Vec<u8>,
    },
    /// Nothing was done.
    Refused {
        /// Why.
        code: Code,
        /// The same in words, with what to do.
        detail: String,
        /// Receipts that were looked up for it. They are as good as wrong.
        receipts: u32,
    },
}

/// A row whose message the shell has still to read from the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found<T> {
    /// The row, its block empty.
    pub row: T,
    /// Where the message lies.
    pub extent: Extent,
}

/// Something that edges have to know before they are asked. It is true as soon as it is said: what depends on it is decided
/// behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// There is a namespace.
    Namespace {
        /// Its name.
        name: NamespaceName,
        /// How many connections may use it.
        connections: Option<u64>,
    },
    /// There is no namespace of this name any more.
    NamespaceGone(NamespaceName),
    /// An exchange was made or is another one now.
    Exchange {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        name: ExchangeName,
        /// As it is now; `None` if it is gone.
        exchange: Option<Arc<Exchange>>,
    },
    /// What publishes to these namespaces has to wait, and nothing else of before: topics that groups which start there have still to
    /// come to take half of the room.
    Held(Vec<NamespaceName>),
}

/// Bytes of the journal that hold messages in block form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// The journal position of the first byte.
    pub position: u64,
    /// How many bytes.
    pub length: u32,
}

/// What a turn has changed of what the groups need of the journal. A message is needed until the last group is
/// finished with it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Bytes of the blocks of the turn's facts that a group needs. A group may come several times.
    pub stored: Vec<(GroupNumber, u64)>,
    /// What a group needs from now on of what another one needs already.
    pub shared: Vec<(GroupNumber, Extent)>,
    /// What a group needs no more.
    pub freed: Vec<(GroupNumber, Extent)>,
    /// Of that, what ended as it was delivered: whoever is told of it has still to read it.
    pub delivered: Vec<Extent>,
}

impl Holdings {
    /// A group needs so many bytes of a block that was just appended.
    pub(crate) fn store(&mut self, group: GroupNumber, bytes: u32) {
        match self.stored.last_mut().filter(|(of, _)| *of == group) {
            Some((_, sum)) => *sum += u64::from(bytes),
            None => self.stored.push((group, bytes.into())),
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.stored.clear();
        self.shared.clear();
        self.freed.clear();
        self.delivered.clear();
    }
}

/// Consecutive messages of one topic and priority that were leased together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedRun {
    /// The topic.
    pub topic: TopicName,
    /// The first receipt; the lease numbers of the others follow one by one.
    pub receipt: Receipt,
    /// The priority.
    pub priority: Priority,
    /// The first sequence; the others follow one by one.
    pub first: Sequence,
    /// How many.
    pub count: u32,
    /// When they were published.
    pub published: WallTime,
    /// How often they were delivered, this time included.
    pub deliveries: u32,
    /// How often they failed.
    pub failures: u32,
    /// The first lease of the run that they are part of, where the policy leases runs: these are finished in their order.
    pub run: Option<LeaseNumber>,
    /// Where their blocks lie, in one piece.
    pub extent: Extent,
    /// Where each message lies, with the index in these sizes of the run's first message.
    pub sizes: (Sizes, u32),
}

impl LeasedRun {
    /// The same leases of messages that lie elsewhere by now.
    pub(crate) fn lying_in(self, run: &RunPage) -> LeasedRun {
        LeasedRun { extent: run.extent(), sizes: (run.sizes.clone(), run.index), ..self }
    }

    /// Some consecutive messages of the run, from an index on.
    pub fn part(&self, index: u32, count: u32) -> LeasedRun {
        assert!(count > 0 && index + count <= self.count, "a part is within its run");
        let (sizes, first) = &self.sizes;
        let offset = |index| sizes.offset(first + index);
        let position = self.extent.position + u64::from(offset(index) - offset(0));
        LeasedRun {
            receipt: Receipt { lease: LeaseNumber(self.receipt.lease.0 + u64::from(index)), ..self.receipt },
            first: Sequence(self.first.0 + u64::from(index)),
            count,
            extent: Extent { position, length: offset(index + count) - offset(index) },
            sizes: (sizes.clone(), first + index),
            ..self.clone()
        }
    }

    /// The id of the run's first message.
    pub fn id(&self) -> MessageId {
        MessageId { topic: self.receipt.topic, priority: self.priority, sequence: self.first }
    }
}

/// How many receipts named no current lease.
pub fn lost(outcomes: &[OutcomeRun<FinishOutcome>]) -> u32 {
    outcomes.iter().filter(|run| run.outcome == FinishOutcome::LeaseLost).map(|run| run.count).sum()
}

#[cfg(test)]
mod tests {
    use millpond_types::TopicNumber;

    use super::*;

    #[test]
    fn a_run_falls_into_its_messages() {
        let run = LeasedRun {
            topic: TopicName::try_from("t").unwrap(),
            receipt: Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(7) },
            priority: Priority::DEFAULT,
            first: Sequence(100),
            count: 2,
            published: WallTime(0),
            deliveries: 1,
            failures: 0,
            run: None,
            extent: Extent { position: 1000, length: 25 },
            sizes: (Sizes::from_ends(&[10, 30, 35, 55]), 2),
        };
        let second = run.part(1, 1);
        assert_eq!(second.extent, Extent { position: 1005, length: 20 });
        assert_eq!((second.receipt.lease, second.first, second.count), (LeaseNumber(8), Sequence(101), 1));
        assert_eq!(run.part(0, 1).extent, Extent { position: 1000, length: 5 });
        assert_eq!(run.part(0, 2), run);
    }
}
