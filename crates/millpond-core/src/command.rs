//! What can be asked of the core. A request on any edge becomes one of these.

mod detach;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use millpond_types::block::Sizes;
use millpond_types::{
    Binding, Code, Counted, ExchangeKind, ExchangeName, Filter, GroupKind, GroupName, LeaseNumber, MessageId, Millis,
    NamespaceName, PausedTopics, Policy, Priority, ProducerId, Receipt, RequestId, RoutingKey, Rules, SessionId, Start,
    TopBy, TopicName, Unroutable,
};

use crate::fact::{GroupNumber, NamespaceNumber};

/// Names a command until it is answered; chosen by the shell, unique among those that are open. Its upper bits say who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

impl Ticket {
    /// The lower bits, which tell apart what one client asks.
    pub const INDEX_BITS: u32 = 24;

    /// Who asks: a connection, or the program itself.
    pub fn client(self) -> u64 {
        self.0 >> Ticket::INDEX_BITS
    }
}

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is named after the verb it carries out; the structs say the rest")]
pub enum Command {
    Publish(Publish),
    Receive(Receive),
    /// Takes back a receive that still waits, or a list, a purge or the like that goes on: its connection is gone. Never
    /// answered, and neither is what is taken back.
    Withdraw(Ticket),
    /// Takes back a receive by its request id: nobody waits for it any more. One that waits is answered with nothing; if it was
    /// answered, its leases are released. Nothing happens where a later call has asked for the same. Never answered itself.
    WithdrawRequest {
        namespace: NamespaceName,
        request: RequestId,
        call: u64,
    },
    Finish(Finish),
    Forward(Forward),
    Route(Route),
    SessionBegin(SessionBegin),
    /// The session's connection is gone; it may come back within its time for resuming. Never answered.
    SessionLost(SessionId),
    /// All leases that the session holds are extended, but for those named, which run out a lease after now. Never answered.
    Heartbeat {
        session: SessionId,
        except: Vec<Receipt>,
    },
    /// The orderly end of a session: its consumers are detached and its leases are released.
    SessionEnd(SessionId),
    Attach(Attach),
    /// More credit for an attached consumer. Never answered; credit for a consumer that is gone is ignored.
    Credit {
        session: SessionId,
        consumer: u32,
        messages: u32,
        bytes: u64,
    },
    /// Deliveries to the consumer stop. Leases that it holds stay with its session.
    Detach {
        session: SessionId,
        consumer: u32,
    },
    /// The session of a consumer gives the office of its group up, and waits for it again behind all others.
    Resign {
        session: SessionId,
        consumer: u32,
    },
    /// Ends the term of a group's leader, whoever it is, as if it had resigned.
    Depose {
        namespace: NamespaceName,
        group: GroupName,
    },
    Look(Look),
    Cancel {
        topic: TopicRef,
        which: Which,
    },
    /// Gives a waiting, delayed or retrying message another delay from now; zero makes it ready.
    Reschedule {
        topic: TopicRef,
        which: Which,
        delay: Millis,
    },
    /// Pauses topics for a time, or until they are resumed. What is paused already is so from now on as this says.
    Pause {
        namespace: NamespaceName,
        topics: PausedTopics,
        lasts: Option<Millis>,
    },
    Resume {
        namespace: NamespaceName,
        topics: PausedTopics,
    },
    /// Forgets a dedup id, so that it may be published again.
    Forget {
        topic: TopicRef,
        dedup_hash: u128,
    },
    /// Ends all messages of the topics but those that are leased: of one group, or of all.
    Purge {
        namespace: NamespaceName,
        filter: Filter,
        group: Option<GroupName>,
    },
    /// Makes a namespace, or gives it another policy and other rules: that of a version, 0 for one that is not there, or
    /// with `None` whatever is there.
    NamespaceSet {
        name: NamespaceName,
        policy: Policy,
        rules: Rules,
        based_on: Option<u64>,
    },
    NamespaceDelete(NamespaceName),
    /// Makes a group, which has all that is published from then on, and of what was published before what its start says.
    GroupCreate {
        namespace: NamespaceName,
        name: GroupName,
        start: Start,
        kind: GroupKind,
    },
    /// Deletes a group, with all that it holds.
    GroupDelete {
        namespace: NamespaceName,
        name: GroupName,
    },
    ExchangeCreate {
        namespace: NamespaceName,
        name: ExchangeName,
        kind: ExchangeKind,
        unroutable: Unroutable,
    },
    /// Deletes an exchange with its bindings.
    ExchangeDelete {
        namespace: NamespaceName,
        name: ExchangeName,
    },
    Bind {
        namespace: NamespaceName,
        exchange: ExchangeName,
        binding: Binding,
    },
    Unbind {
        namespace: NamespaceName,
        exchange: ExchangeName,
        binding: Binding,
    },
    Exchanges(NamespaceName),
    Bindings {
        namespace: NamespaceName,
        exchange: ExchangeName,
    },
    /// A page of the namespaces in the order of their names: those after this one.
    Namespaces {
        after: Option<NamespaceName>,
    },
    Stats(NamespaceName),
    Topics {
        listing: Listing,
        group: GroupName,
    },
    Topic(TopicRef),
    Top(Top),
    DeadList {
        listing: Listing,
        group: GroupName,
    },
    DeadLook {
        topic: TopicRef,
        group: GroupName,
        id: MessageId,
    },
    DeadRedrive {
        namespace: NamespaceName,
        group: GroupName,
        which: DeadWhich,
    },
    DeadPurge {
        namespace: NamespaceName,
        group: GroupName,
        which: DeadWhich,
    },
    Move(Move),
    DeadMove(DeadMove),
}

/// A topic by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRef {
    /// Its namespace.
    pub namespace: NamespaceName,
    /// Its name.
    pub name: TopicName,
}

/// Messages to store, all or each with its own outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publish {
    /// The namespace of all of them.
    pub namespace: NamespaceName,
    /// The producer session, where the client keeps one.
    pub producer: Option<ProducerBatch>,
    /// When the outcome may be told.
    pub level: Level,
    /// The messages.
    pub runs: Vec<PublishRun>,
}

/// When the outcome of a publish may be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// When the messages are synced.
    #[default]
    Durable,
    /// When the write to the file has returned: it survives a kill, not a power cut.
    Buffered,
    /// Never.
    None,
}

/// A batch's place in its producer session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerBatch {
    /// The producer.
    pub id: ProducerId,
    /// A higher instance fences the lower.
    pub instance: u32,
    /// Counts the batches of the instance from 1.
    pub sequence: u64,
}

/// Consecutive messages of a publish with one topic and equal options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishRun {
    /// The topic.
    pub topic: TopicName,
    /// The priority.
    pub priority: Priority,
    /// How long the messages stay invisible; zero for not at all.
    pub delay: Millis,
    /// How long they are worth delivering; the policy's where `None`.
    pub ttl: Option<Millis>,
    /// How many messages the block holds, at least one.
    pub count: u32,
    /// The messages, in a valid block whose checksums are filled in. The core cuts it and hands it on, and never looks inside.
    pub block: Bytes,
    /// Where each message of the block lies.
    pub sizes: Sizes,
    /// The hashes of the dedup ids of those messages that have one, by index.
    pub dedup: Vec<DedupMark>,
    /// Those messages whose bodies are over the edge's limit, by index: each is refused, unless it is a duplicate.
    pub too_large: Vec<TooLarge>,
}

impl PublishRun {
    /// Bytes of memory that it takes, with the messages.
    pub fn held_bytes(&self) -> usize {
        let marks = size_of_val(&self.dedup[..]) + size_of_val(&self.too_large[..]);
        size_of_val(self) + self.topic.as_bytes().len() + self.block.len() + self.sizes.held_bytes() + marks
    }
}

/// A message of a run whose body is larger than the edge takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// The message's index in its run.
    pub index: u32,
    /// Bytes of its body.
    pub bytes: u32,
    /// The most that the edge takes.
    pub limit: u32,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = Counted(self.bytes.into(), "byte");
        write!(
            f,
            "the body has {bytes}, and this broker takes at most {}: keep large bodies elsewhere and publish where they are",
            self.limit
        )
    }
}

/// A message of a run that carries a dedup id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DedupMark {
    /// The message's index in its run.
    pub index: u32,
    /// The hash of namespace, topic and dedup id: [`crate::dedup_hash`].
    pub hash: u128,
}

/// A one-shot receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receive {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The group.
    pub group: GroupName,
    /// Which topics.
    pub filter: Filter,
    /// At most so many messages.
    pub messages: u32,
    /// At most so many bytes of blocks, but at least one message.
    pub bytes: u64,
    /// How long the leases last; the policy's where `None`.
    pub lease: Option<Millis>,
    /// How long to wait for a first message.
    pub wait: Millis,
    /// The messages end as they are delivered, and their receipts are good for nothing but their numbers.
    pub at_most_once: bool,
    /// Under which the same leases are told again, for [a while](millpond_types::limits::RECEIVE_REPEAT).
    pub request: Option<RequestId>,
    /// Tells it apart from others with its request id, where it may be withdrawn by that. Zero where it is not.
    pub call: u64,
}

/// A verb on receipts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finish {
    /// What to do.
    pub verb: FinishVerb,
    /// With which leases.
    pub receipts: Vec<ReceiptRun>,
    /// The namespace that all of them have to be of; any where `None`. If one is of another, nothing happens.
    pub namespace: Option<NamespaceName>,
    /// Whether the outcome is to be told. An ack without confirmation starts no sync of its own.
    pub confirm: bool,
}

/// Acks leases and publishes what came of their messages to topics, all of it or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// What is done.
    pub receipts: Vec<ReceiptRun>,
    /// What came of it; without a producer session.
    pub publish: Publish,
}

/// A message for whatever topics an exchange leads to, all of them or none. An edge finds which these are
/// ([`Exchange::resolve`](crate::routing::Exchange::resolve)); where it did not, or knew an older version of the exchange,
/// the core does. The copies are the core's to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// What is acked with it as one decision, which makes it a forward: durable, and without a producer session.
    pub receipts: Option<Vec<ReceiptRun>>,
    /// The copies, from when they are made: one run of one message for each topic.
    pub publish: Publish,
    /// The exchange.
    pub exchange: ExchangeName,
    /// What the message is routed by.
    pub key: RoutingKey,
    /// The message.
    pub message: Routed,
    /// The version of the exchange that the rest is true of; zero for none.
    pub version: u64,
    /// Which of its bindings take the message, a bit each in their order.
    pub taken: Vec<u64>,
    /// How many copies there will be, and bytes of the names of their topics.
    pub copies: Copies,
    /// Why there are no copies, if that is not as the exchange wants it.
    pub refusal: Option<(Code, String)>,
    /// How much it took to find all that: a comparison of words is a step, and all else as many as take as long.
    pub steps: usize,
}

/// Copies of a message that are not made yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copies {
    /// How many.
    pub count: usize,
    /// Bytes of the names of their topics.
    pub names: usize,
}

impl Copies {
    /// Bytes of memory that they will take beside the message.
    pub fn held_bytes(self) -> usize {
        self.count * (size_of::<PublishRun>() + size_of::<DedupMark>()) + self.names
    }

    /// Bytes of memory that their topics take in an answer, and as a frame.
    pub fn named_bytes(self) -> usize {
        self.count * size_of::<TopicName>() + self.names
    }
}

/// A message without a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    /// The priority.
    pub priority: Priority,
    /// How long the message stays invisible; zero for not at all.
    pub delay: Millis,
    /// How long the message is worth delivering; the policy's where `None`.
    pub ttl: Option<Millis>,
    /// The one message, in a valid block whose checksum is filled in.
    pub block: Bytes,
    /// Set where its body is larger than the edge takes.
    pub too_large: Option<TooLarge>,
}

impl Route {
    /// A message on its way to an exchange, of which nothing is known yet.
    pub fn new(
        namespace: NamespaceName,
        (exchange, key): (ExchangeName, RoutingKey),
        message: Routed,
        producer: Option<ProducerBatch>,
        level: Level,
    ) -> Route {
        let publish = Publish { namespace, producer, level, runs: Vec::new() };
        let (version, taken, copies, refusal, steps) = (0, Vec::new(), Copies::default(), None, 0);
        Route { receipts: None, publish, exchange, key, message, version, taken, copies, refusal, steps }
    }
}

/// So many leases of consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiptRun {
    /// The first.
    pub first: Receipt,
    /// How many, at least one.
    pub count: u32,
}

impl ReceiptRun {
    /// The lease number behind the last of the run.
    pub fn end(&self) -> LeaseNumber {
        LeaseNumber(self.first.lease.0.saturating_add(u64::from(self.count)))
    }
}

/// What to do with leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FinishVerb {
    /// The messages are done.
    Ack,
    /// Give the messages back; no failure. They are ready again after the delay.
    Release {
        /// Zero for at once.
        delay: Millis,
    },
    /// Give the messages back as failures.
    Fail {
        /// When they are ready again, zero for at once; where `None`, the policy says, and to which place they go.
        delay: Option<Millis>,
        /// Kept with the dead letter, should this be the last failure.
        reason: Bytes,
    },
    /// Make the messages dead letters.
    Reject {
        /// Kept with the dead letters.
        reason: Bytes,
    },
    /// Make the messages dead letters, for what the journal holds of them does not match its checksum. Only the shell
    /// says this: it is what reads bodies.
    Damaged,
    /// Let the leases run from now on.
    Extend {
        /// So long; the policy's where `None`.
        lease: Option<Millis>,
    },
}

/// Begins a session, or takes up one that was begun: the leases that it names stay, and its consumers are attached anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionBegin {
    /// The session.
    pub session: SessionId,
    /// How long after its connection is lost it may be taken up again.
    pub resume: Millis,
    /// When the session is taken up again: the leases that its client still holds. The session's other leases are
    /// released, for their deliveries or acks were lost with the connection and no one would ever finish them.
    pub held: Vec<ReceiptRun>,
}

/// A consumer that messages are delivered to as they become ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Its session.
    pub session: SessionId,
    /// Its number in the session, chosen by the client.
    pub consumer: u32,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The group.
    pub group: GroupName,
    /// Which topics.
    pub filter: Filter,
    /// Messages that may be delivered at first.
    pub messages: u32,
    /// Bytes of blocks that may be delivered at first; a message over what is left is still delivered if any is left.
    pub bytes: u64,
    /// How long a lease lasts once its session no longer extends it; the policy's where `None`.
    pub lease: Option<Millis>,
    /// The messages end as they are delivered, and their receipts are good for nothing but their numbers.
    pub at_most_once: bool,
}

/// A look at messages without leasing them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// The topic.
    pub topic: TopicRef,
    /// One message, or those in front.
    pub which: LookWhich,
    /// The group whose messages they are; where `None`, the first that has the topic or, of one message, that message.
    pub group: Option<GroupName>,
}

/// Which messages to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookWhich {
    /// This one.
    One(Which),
    /// So many in the order of their delivery: ready ones, then those that are not ready yet, then leased ones.
    First(u32),
    /// So many of those that are delayed or in retry, what is due first before others.
    Due(u32),
}

/// One message of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// By id.
    Id(MessageId),
    /// By the hash of its dedup id.
    Dedup(u128),
}

/// Which topics stand out. All of the namespace are looked at for it, so the answer takes some turns: each topic counts
/// as it was in the turn that came to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Top {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The group whose topics they are.
    pub group: GroupName,
    /// Only names that begin with this.
    pub prefix: Bytes,
    /// What puts a topic before others.
    pub by: TopBy,
    /// At most so many rows.
    pub limit: u32,
}

/// One page of a listing, in the order of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The namespace.
    pub namespace: NamespaceName,
    /// Only names that begin with this.
    pub prefix: Bytes,
    /// Only names after this, the token of the page before; empty for the first page.
    pub after: Bytes,
    /// At most so many rows.
    pub limit: u32,
}

/// Which dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadWhich {
    /// One, by topic and id.
    One(TopicName, MessageId),
    /// All of the topics that the filter admits.
    Filter(Filter),
    /// The first so many of these, in the order of a listing. None is refused.
    First(Filter, u32),
}

/// Messages are to lie at the tail of the journal, so that the segment which holds them now can go. Only the shell says
/// this: it has read them. Those that have ended since, or lie elsewhere by now, are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The number of a group that needs them.
    pub group: GroupNumber,
    /// Their topic.
    pub name: TopicName,
    /// The first message.
    pub first: MessageId,
    /// How many. They were one run when they were looked for; of what it was cut into since, only whole runs move.
    pub count: u32,
    /// Where in the journal they lay.
    pub from: u64,
    /// The messages, as they were read there.
    pub block: Bytes,
    /// Where each message of the block lies.
    pub sizes: Sizes,
}

/// A dead letter is to lie at the tail of the journal. Only the shell says this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadMove {
    /// The number of its namespace.
    pub namespace: NamespaceNumber,
    /// The number of its group.
    pub group: GroupNumber,
    /// The topic that it came from.
    pub topic: TopicName,
    /// Its id.
    pub id: MessageId,
    /// Where in the journal it lay.
    pub from: u64,
    /// The message, as it was read there.
    pub block: Bytes,
}
