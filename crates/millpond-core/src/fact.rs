//! What has happened. Facts are all that the journal keeps, and applying them is all that changes the state.
//!
//! A fact carries resolved values (deadlines, due times, numbers), so that it means the same under any later policy.
//! Facts that belong to a topic name it by its number. The byte form is `millpond-storage`'s business.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::block::Sizes;
use millpond_types::{
    Binding, EndReason, ExchangeKind, ExchangeName, GroupKind, GroupName, LeaderEpoch, LeaseNumber, MessageId, Millis,
    NamespaceName, PausedTopics, Policy, Priority, ProducerId, Rules, RunTime, Sequence, SessionId, Start, TopicName,
    TopicNumber, Unroutable, WallTime,
};

pub use crate::command::DedupMark;
use crate::outcomes::Outcomes;
use crate::output::Extent;
use crate::page::{DeadPage, RunPage};
use crate::store::Shelf;

/// A namespace's number; 0 is `default`. Never used again after the namespace is deleted.
pub type NamespaceNumber = u32;
/// A group's number; 0 is the `default` of the namespace `default`. Never used again after the group is deleted.
pub type GroupNumber = u32;
/// Counts the checkpoints that were begun. The facts behind the beginning of one belong to its epoch.
pub type Epoch = u32;

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The data directory came into being. The first fact of a journal, and only there.
    Created {
        /// The key of every hash that this directory keeps or compares.
        hash_key: [u64; 2],
    },
    /// The broker was started on the directory after anything but an orderly stop. Every number that is given out from
    /// here on is at least `floor`: past all that may have been told to somebody and then lost unsynced.
    Raised {
        /// For topic numbers, sequences and lease numbers alike.
        floor: u64,
    },
    /// A namespace was made or has another policy.
    NamespaceSet {
        /// Its number.
        number: NamespaceNumber,
        /// Its name.
        name: NamespaceName,
        /// Its policy from here on.
        policy: Policy,
        /// What it says otherwise for some topics.
        rules: Rules,
        /// 1 for a new namespace, then one more with each change.
        version: u64,
    },
    /// A group was made, without any topic.
    GroupCreated {
        /// Its number.
        group: GroupNumber,
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its name.
        name: GroupName,
        /// Where it begins. What that says it is given by the facts that follow.
        start: Start,
        /// How its consumers share its messages.
        kind: GroupKind,
    },
    /// A group that starts has of a topic what the other groups hold of it, or the next part of that.
    Copied {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// What it has, from the highest priority to the lowest and in order.
        messages: Vec<CopiedRun>,
        /// Where the next part begins; `None` if this was the last, and the topic's deliveries begin.
        /// [`Reached::BEGINNING`](crate::page::Reached::BEGINNING) if the start is where it was, and these are what another
        /// group is about to end before it comes to them.
        rest: Option<(Priority, Sequence)>,
    },
    /// A group that starts is given nothing of the topics before this place in the order of names.
    GroupReached {
        /// The group.
        group: GroupNumber,
        /// The place, as names stand in keys.
        at: Vec<u8>,
        /// Where the next part begins of the topic that stands there, if a part of it was gone over.
        rest: Option<(Priority, Sequence)>,
    },
    /// A group has all that it starts with.
    GroupStarted {
        /// The group.
        group: GroupNumber,
    },
    /// All topics of a group stand where a policy that has changed puts them, with the tokens that it leaves them.
    TopicsSettled {
        /// The group.
        group: GroupNumber,
    },
    /// A session holds the office of an exclusive group from here on. Nothing is delivered to it before leases of an
    /// earlier leader are over.
    OfficeTaken {
        /// The group.
        group: GroupNumber,
        /// The leader.
        session: SessionId,
        /// Higher than that of any leader before.
        epoch: LeaderEpoch,
    },
    /// The leader of a group does not hold its office any more.
    OfficeLeft {
        /// The group.
        group: GroupNumber,
        /// Until when leases of the group last at most: this leader's, or those that it has waited for itself.
        until: RunTime,
    },
    /// No lease of an earlier leader is left: the group's messages are those of whoever holds its office.
    HandedOver {
        /// The group.
        group: GroupNumber,
    },
    /// A group is being deleted: nobody finds it any more, and all that it holds ends.
    GroupEnding {
        /// The group.
        group: GroupNumber,
    },
    /// Nothing is left of a group that was being deleted.
    GroupDeleted {
        /// The group.
        group: GroupNumber,
    },
    /// A namespace without messages and dead letters was deleted, and its groups with it.
    NamespaceDeleted {
        /// Its number.
        number: NamespaceNumber,
    },
    /// An exchange was made, without any binding.
    ExchangeCreated {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its name.
        name: ExchangeName,
        /// What its bindings ask.
        kind: ExchangeKind,
        /// What becomes of a message that none takes.
        unroutable: Unroutable,
        /// Its version: the journal position before this. So no two states of exchanges have one version.
        version: u64,
    },
    /// An exchange was deleted, and its bindings with it.
    ExchangeDeleted {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its name.
        name: ExchangeName,
    },
    /// An exchange has one more binding.
    Bound {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// The exchange.
        exchange: ExchangeName,
        /// The binding.
        binding: Binding,
        /// The exchange's version from here on.
        version: u64,
    },
    /// An exchange has a binding no more.
    Unbound {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// The exchange.
        exchange: ExchangeName,
        /// The binding.
        binding: Binding,
        /// The exchange's version from here on.
        version: u64,
    },
    /// Deliveries of topics stop, or go on again.
    Paused {
        /// In this namespace.
        namespace: NamespaceNumber,
        /// Which.
        topics: PausedTopics,
        /// Until when they stop, [`WallTime::NEVER`] for until they are resumed; `None` where they go on.
        until: Option<WallTime>,
    },
    /// A topic came into being in a group.
    TopicCreated {
        /// Its number for this life, in all groups.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The group's namespace.
        namespace: NamespaceNumber,
        /// Its name.
        name: TopicName,
        /// Its sequences begin here.
        floor: u64,
        /// Its lease numbers begin here.
        lease: LeaseNumber,
    },
    /// A topic that the last checkpoint holds is about to change for the first time since that began: facts name topics
    /// by number, and from here on a replay knows where to find this one.
    TopicRecalled {
        /// Its number.
        topic: TopicNumber,
        /// The group that it is of.
        group: GroupNumber,
        /// The group's namespace.
        namespace: NamespaceNumber,
        /// Its name.
        name: TopicName,
        /// Where the checkpoint keeps it.
        shelf: Shelf,
    },
    /// Nothing was left of a group's topic.
    TopicVanished {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
    },
    /// A run of messages was stored, for all groups in which the topic exists now.
    Published {
        /// The topic.
        topic: TopicNumber,
        /// But for these groups, which have declined it. In order, and nearly always none.
        except: Vec<GroupNumber>,
        /// Their priority.
        priority: Priority,
        /// The first message's sequence; the others follow one by one.
        first: Sequence,
        /// How many.
        count: u32,
        /// When.
        published: WallTime,
        /// When they become ready; `None` for at once.
        due: Option<WallTime>,
        /// When their TTL passes.
        expires: Option<WallTime>,
        /// Until when the dedup ids of this run are remembered ([`WallTime`]`(u64::MAX)` for ever); zero if it has none.
        dedup_until: WallTime,
        /// The dedup ids, by index in the run.
        dedup: Vec<DedupMark>,
        /// The messages. This is what the journal keeps of the bodies.
        block: Bytes,
        /// Where each message lies. Not kept by the journal: found again by walking the block.
        sizes: Sizes,
    },
    /// A producer session's batch was decided. Stands behind the facts of the batch, in the same journal batch.
    ProducerBatch {
        /// In this namespace.
        namespace: NamespaceNumber,
        /// The producer.
        producer: ProducerId,
        /// Its instance.
        instance: u32,
        /// The batch.
        sequence: u64,
        /// When, for forgetting the session.
        at: WallTime,
        /// What was told, and will be told again to a repeat.
        outcomes: Outcomes,
    },
    /// A run of messages was leased.
    Leased {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The messages' priority.
        priority: Priority,
        /// The first message.
        first: Sequence,
        /// How many, each with a lease number of its own.
        count: u32,
        /// The first lease number.
        lease: LeaseNumber,
        /// The first lease of the run that they are of, where the policy leases runs.
        run: Option<LeaseNumber>,
        /// The session that extends the leases with its heartbeats; zero for none.
        holder: SessionId,
        /// How long a lease lasts from a heartbeat or from now.
        duration: Millis,
        /// When the leases run out, where no session holds them.
        deadline: RunTime,
    },
    /// Leases last for another time.
    Extended {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The first lease.
        lease: LeaseNumber,
        /// How many.
        count: u32,
        /// The session that holds them from here on; zero where none does (any more).
        holder: SessionId,
        /// How long a lease lasts from a heartbeat or from now.
        duration: Millis,
        /// When they run out, where no session holds them.
        deadline: RunTime,
    },
    /// What was leased took tokens of a topic's rate, or another rate, or none, has changed how many there are.
    Drawn {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// When all tokens are there again, in nanoseconds of run time.
        full: u64,
        /// Until when there is none; `None` if some are left.
        dry: Option<RunTime>,
    },
    /// What waits in a topic is raised for its age: from here on the topic stands at this level.
    Aged {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The level, unless something of a higher priority is ready.
        level: Priority,
        /// When it stands one higher, if nothing happens to it before.
        raise: Option<WallTime>,
    },
    /// A topic waits for what is in retry from here on, as strict order says, or no longer does.
    Waits {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// Which of the two.
        for_retry: bool,
    },
    /// There is a token again for a topic that had none.
    Refilled {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
    },
    /// Messages were finished by their consumer.
    Acked {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The first lease.
        lease: LeaseNumber,
        /// How many.
        count: u32,
    },
    /// Messages were delivered at most once: they ended as they were leased, in the record of that.
    Delivered {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The first lease.
        lease: LeaseNumber,
        /// How many.
        count: u32,
    },
    /// Leases ended and their messages stay.
    Returned {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The first lease.
        lease: LeaseNumber,
        /// How many.
        count: u32,
        /// Whether it counts as a failure.
        failed: bool,
        /// Where the messages go.
        place: ReturnPlace,
    },
    /// Messages became dead letters.
    Died {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// Which messages.
        which: Victims,
        /// Why.
        reason: DeadReason,
        /// What the consumer said.
        detail: Bytes,
        /// When.
        at: WallTime,
    },
    /// A delayed or retrying message became ready.
    Ripened {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The priority.
        priority: Priority,
        /// The first message of the run that was set aside together.
        first: Sequence,
        /// How many.
        count: u32,
    },
    /// Messages that were not leased ended otherwise than by an ack.
    Ended {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The priority.
        priority: Priority,
        /// The first message.
        first: Sequence,
        /// How many.
        count: u32,
        /// Why.
        reason: EndReason,
    },
    /// Messages ended because another one of their topic stands for them, which was published later. It inherits from them;
    /// where it is leased, there is nothing to inherit.
    Superseded {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// Which messages.
        which: Victims,
        /// The priority of the other one.
        priority: Priority,
        /// The other one.
        by: Sequence,
        /// Its failures from here on.
        failures: u32,
        /// Until when it is in back-off from here on; `None` if it stays as it is.
        until: Option<RunTime>,
        /// Since when it waits from here on; `None` if it stays as it is.
        since: Option<WallTime>,
    },
    /// A group was not given messages because one of their topic waits and stands for them, or because as many wait as may,
    /// and other groups have room.
    Declined {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// How many.
        count: u32,
    },
    /// A message that was not leased has another due time.
    Rescheduled {
        /// The topic.
        topic: TopicNumber,
        /// The group.
        group: GroupNumber,
        /// The priority.
        priority: Priority,
        /// The message.
        sequence: Sequence,
        /// When it becomes ready.
        due: WallTime,
    },
    /// A dedup id is no longer remembered: it was forgotten, or is that of a message that was cancelled.
    Forgotten {
        /// Its namespace.
        namespace: NamespaceNumber,
        /// Its hash.
        hash: u128,
    },
    /// A dead letter went back to work, at the tail of its topic and as a new message.
    Redriven {
        /// The dead letter.
        letter: Letter,
        /// The topic's number now.
        topic: TopicNumber,
        /// Its new sequence; the priority stays.
        sequence: Sequence,
        /// When it was published.
        published: WallTime,
        /// Since when it waits: it did not as a dead letter.
        since: WallTime,
        /// Its dedup id, where that still names the dead letter: it is the new message's from here on.
        dedup: Option<Remembered>,
    },
    /// A dead letter was thrown away.
    DeadPurged {
        /// The dead letter.
        letter: Letter,
    },
    /// Unfinished messages lie at another place in the journal: here, for all groups that hold them. All else of them is as
    /// it was.
    Moved {
        /// The topic.
        topic: TopicNumber,
        /// Their priority.
        priority: Priority,
        /// The first message.
        first: Sequence,
        /// How many. In each group, those runs move that lie wholly among these messages, and in the journal where the
        /// first of them is at `from`.
        count: u32,
        /// Where they lay.
        from: u64,
        /// The messages, as they were.
        block: Bytes,
        /// Where each message lies. Not kept by the journal: found again by walking the block.
        sizes: Sizes,
    },
    /// A dead letter lies at another place in the journal: here. All of it is told, so that nothing has to be looked up.
    DeadMoved {
        /// The dead letter as it was, its old place included.
        letter: Box<DeadPage>,
        /// The message, as it was.
        block: Bytes,
    },
}

/// A dead letter that ends, told so that nothing has to be looked up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// Its namespace.
    pub namespace: NamespaceNumber,
    /// Its group.
    pub group: GroupNumber,
    /// The topic that it came from.
    pub topic: TopicName,
    /// Its id.
    pub id: MessageId,
    /// Where the message lies.
    pub extent: Extent,
}

/// Messages that a group is given as it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopiedRun {
    /// Their priority.
    pub priority: Priority,
    /// The messages, as [`RunPage::compact`] tells them.
    pub run: RunPage,
    /// When they become ready; `None` if they are.
    pub due: Option<WallTime>,
}

/// A dedup id that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// Its hash.
    pub hash: u128,
    /// Until when ([`WallTime`]`(u64::MAX)` for ever).
    pub until: WallTime,
}

impl Fact {
    /// The topic that the fact changes, if it changes one, and the group whose topic it is; `None` for those of all groups.
    pub fn topic(&self) -> Option<(TopicNumber, Option<GroupNumber>)> {
        match self {
            Fact::TopicRecalled { topic, group, .. }
            | Fact::Copied { topic, group, .. }
            | Fact::TopicVanished { topic, group }
            | Fact::Leased { topic, group, .. }
            | Fact::Drawn { topic, group, .. }
            | Fact::Refilled { topic, group }
            | Fact::Aged { topic, group, .. }
            | Fact::Waits { topic, group, .. }
            | Fact::Extended { topic, group, .. }
            | Fact::Acked { topic, group, .. }
            | Fact::Delivered { topic, group, .. }
            | Fact::Returned { topic, group, .. }
            | Fact::Died { topic, group, .. }
            | Fact::Ripened { topic, group, .. }
            | Fact::Ended { topic, group, .. }
            | Fact::Superseded { topic, group, .. }
            | Fact::Declined { topic, group, .. }
            | Fact::Rescheduled { topic, group, .. } => Some((*topic, Some(*group))),
            // The others take note of the sequence that is not to be given out again.
            Fact::Redriven { topic, .. } | Fact::Published { topic, .. } | Fact::Moved { topic, .. } => {
                Some((*topic, None))
            }
            Fact::Created { .. }
            | Fact::Raised { .. }
            | Fact::NamespaceSet { .. }
            | Fact::GroupCreated { .. }
            | Fact::GroupReached { .. }
            | Fact::GroupStarted { .. }
            | Fact::TopicsSettled { .. }
            | Fact::OfficeTaken { .. }
            | Fact::OfficeLeft { .. }
            | Fact::HandedOver { .. }
            | Fact::GroupEnding { .. }
            | Fact::GroupDeleted { .. }
            | Fact::NamespaceDeleted { .. }
            | Fact::ExchangeCreated { .. }
            | Fact::ExchangeDeleted { .. }
            | Fact::Bound { .. }
            | Fact::Unbound { .. }
            | Fact::Paused { .. }
            | Fact::TopicCreated { .. }
            | Fact::ProducerBatch { .. }
            | Fact::Forgotten { .. }
            | Fact::DeadPurged { .. }
            | Fact::DeadMoved { .. } => None,
        }
    }

    /// The messages that the fact stores. The journal keeps them behind all else of the fact.
    pub fn block(&self) -> Option<&Bytes> {
        match self {
            Fact::Published { block, .. } | Fact::Moved { block, .. } | Fact::DeadMoved { block, .. } => Some(block),
            _ => None,
        }
    }
}

/// Where returned messages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnPlace {
    /// Ready at once, before all that was never delivered.
    Head,
    /// Ready at once, but behind everything published so far.
    Tail,
    /// Ready at this time, then in front.
    At(RunTime),
}

/// The messages of a [`Fact::Died`] or a [`Fact::Superseded`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victims {
    /// Those of these leases.
    Leased {
        /// The first lease.
        lease: LeaseNumber,
        /// How many.
        count: u32,
    },
    /// These, which are not leased.
    Waiting {
        /// Their priority.
        priority: Priority,
        /// The first.
        first: Sequence,
        /// How many.
        count: u32,
    },
}

/// Why a message is a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeadReason {
    /// A consumer rejected it.
    Rejected,
    /// It failed once too often, the last time by a consumer's word.
    Failed,
    /// It failed once too often, the last time because its lease ran out.
    LeaseExpired,
    /// Its TTL passed.
    Expired,
    /// Its body does not match its checksum.
    Damaged,
}

impl DeadReason {
    /// The reason as users see it.
    pub const fn name(self) -> &'static str {
        match self {
            DeadReason::Rejected => "rejected",
            DeadReason::Failed => "failed",
            DeadReason::LeaseExpired => "lease_expired",
            DeadReason::Expired => "expired",
            DeadReason::Damaged => "damaged",
        }
    }

    /// Whether the death counts one more failure.
    pub const fn is_failure(self) -> bool {
        matches!(self, DeadReason::Failed | DeadReason::LeaseExpired)
    }
}

/// Takes facts in the order in which they happen.
pub trait FactLog {
    /// Appends a fact to the journal's current batch. All facts between two turns' ends land in one batch: a batch is
    /// durable whole or not at all.
    ///
    /// Returns the journal position of the fact's [block](Fact::block); of a fact without one, of the fact.
    fn append(&mut self, fact: &Fact) -> u64;

    /// The journal position behind the last fact.
    fn position(&self) -> u64;
}
