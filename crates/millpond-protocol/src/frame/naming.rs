//! How requests name the topics, messages and rows that they are about.

use bytes::Bytes;
use millpond_types::{Filter, MessageId, NamespaceName, TopicName};

/// A topic by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRef {
    /// Its namespace.
    pub namespace: NamespaceName,
    /// Its name.
    pub name: TopicName,
}

/// One message of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// By id.
    Id(MessageId),
    /// By dedup id.
    Dedup(Bytes),
}

/// Which messages to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LookWhich {
    /// One.
    One(Which),
    /// So many in the order of their delivery.
    First(u32),
    /// So many of those that are delayed or in retry, what is due first before others.
    Due(u32),
}

/// Which dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadWhich {
    /// One.
    One(TopicName, MessageId),
    /// All of these topics.
    Filter(Filter),
    /// So many of these topics', in the order of a listing; at least one.
    First(Filter, u32),
}

/// One page of a listing, in the order of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The namespace.
    pub namespace: NamespaceName,
    /// Only names that begin with this.
    pub prefix: Bytes,
    /// Only what comes after this: the name of the last topic of the page before, or [`crate::Response::Dead`]'s `next`.
    pub after: Bytes,
    /// At most so many rows.
    pub limit: u32,
}
