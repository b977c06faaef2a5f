//! What the frames between receiving a message and finishing it hold.

use bytes::Bytes;
use millpond_types::{
    Filter, GroupName, LeaseNumber, Millis, NamespaceName, Priority, Receipt, RequestId, Sequence, TopicName, WallTime,
};

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
    /// The lease; the policy's where `None`.
    pub lease: Option<Millis>,
    /// How long to wait for a first message.
    pub wait: Millis,
    /// Whether the messages end as they are delivered: there is nothing to finish, and none comes a second time.
    pub at_most_once: bool,
    /// What the receive may be asked for again by, should its answer be lost.
    pub request: Option<RequestId>,
}

/// A consumer to attach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Its number, chosen by the client, unique in the session.
    pub consumer: u32,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The group.
    pub group: GroupName,
    /// Which topics.
    pub filter: Filter,
    /// Credit in messages.
    pub messages: u32,
    /// Credit in bytes of blocks.
    pub bytes: u64,
    /// The lease; the policy's where `None`.
    pub lease: Option<Millis>,
    /// Whether the messages end as they are delivered: there is nothing to finish, and none comes a second time.
    pub at_most_once: bool,
}

/// Consecutive messages that were leased together.
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
    /// The messages.
    pub block: Bytes,
}

/// A verb on receipts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finish {
    /// The verb.
    pub verb: FinishVerb,
    /// Whether to answer.
    pub confirm: bool,
    /// The namespace that all of the leases have to be of; any where `None`.
    pub namespace: Option<NamespaceName>,
    /// The receipts: each names the first of so many leases of consecutive numbers.
    pub receipts: Vec<(Receipt, u32)>,
}

/// What to do with leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FinishVerb {
    /// Done.
    Ack,
    /// Give back without fault, ready again after the delay.
    Release {
        /// Zero for at once.
        delay: Millis,
    },
    /// Give back as a failure.
    Fail {
        /// When it is ready again, zero for at once; as the policy says where `None`.
        delay: Option<Millis>,
        /// What went wrong.
        reason: Bytes,
    },
    /// Make a dead letter.
    Reject {
        /// What is wrong with it.
        reason: Bytes,
    },
    /// Let the lease run anew from now.
    Extend {
        /// So long; the policy's where `None`.
        lease: Option<Millis>,
    },
}
