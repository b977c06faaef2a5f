//! Numbers that name things. All of them outlive what they name: none is ever given out twice by a data directory.

use core::fmt;
use core::str::FromStr;

use crate::limits::PRIORITIES;

/// Names one life of a topic: a topic that vanishes and comes back has another number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TopicNumber(pub u64);

/// The place of a message in (topic, priority).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

/// Names a lease within its topic, growing strictly for ever and over all groups: a fencing token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeaseNumber(pub u64);

/// A session of an attached consumer, drawn at random by the server so that it cannot be guessed. Zero is no session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SessionId(pub u64);

impl SessionId {
    /// The half of it that may be shown to others: who knows all of it can take the session over.
    pub const fn public(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A producer, chosen by the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ProducerId(pub u128);

/// A one-shot receive, drawn at random by the client, so that it can be asked for again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId(pub u128);

/// 0..=9, where 9 goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(u8);

impl Priority {
    /// The priority of a message that names none.
    pub const DEFAULT: Priority = Priority(4);
    /// The priority that goes last.
    pub const LOWEST: Priority = Priority(0);
    /// The priority that goes first.
    pub const HIGHEST: Priority = Priority(PRIORITIES as u8 - 1);

    /// `None` past 9.
    pub const fn new(level: u8) -> Option<Priority> {
        if (level as usize) < PRIORITIES { Some(Priority(level)) } else { None }
    }

    /// 0..=9.
    pub const fn level(self) -> usize {
        self.0 as usize
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority::DEFAULT
    }
}

/// Names a message for ever. Together with the topic's name it finds the message without a search.
///
/// As text: `TOPIC.PRIORITY.SEQUENCE`, three decimal numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// The life of the topic that the message was published in.
    pub topic: TopicNumber,
    /// The priority that it was published with.
    pub priority: Priority,
    /// Its place there.
    pub sequence: Sequence,
}

/// Names a lease: what ack, extend and the others take. Clients treat its text as opaque.
///
/// As text: `TOPIC.GROUP.LEASE`, three decimal numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Receipt {
    /// The life of the topic.
    pub topic: TopicNumber,
    /// The group's number; 0 is the group `default` of the namespace `default`.
    pub group: u32,
    /// The lease.
    pub lease: LeaseNumber,
}

/// A text that is no id or no receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadId;

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected three decimal numbers with dots between, as printed by publish or receive")
    }
}

impl core::error::Error for BadId {}

fn three(text: &str) -> Option<(u64, u64, u64)> {
    let mut parts = text.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if digits { part.parse::<u64>().ok() } else { None }
    });
    let found = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() { None } else { Some(found) }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.topic.0, self.priority.0, self.sequence.0)
    }
}

impl FromStr for MessageId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let (topic, level, sequence) = three(text).ok_or(BadId)?;
        let priority = u8::try_from(level).ok().and_then(Priority::new).ok_or(BadId)?;
        Ok(MessageId { topic: TopicNumber(topic), priority, sequence: Sequence(sequence) })
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.topic.0, self.group, self.lease.0)
    }
}

impl FromStr for Receipt {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let (topic, group, lease) = three(text).ok_or(BadId)?;
        let group = u32::try_from(group).map_err(|_| BadId)?;
        Ok(Receipt { topic: TopicNumber(topic), group, lease: LeaseNumber(lease) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ids_survive_their_text_form() {
        let id = MessageId { topic: TopicNumber(7), priority: Priority::HIGHEST, sequence: Sequence(u64::MAX) };
        assert_eq!(id.to_string().parse(), Ok(id));
        let receipt = Receipt { topic: TopicNumber(u64::MAX), group: 3, lease: LeaseNumber(9) };
        assert_eq!(receipt.to_string().parse(), Ok(receipt));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "1", "1.2", "1.2.3.4", "1.10.3", "+1.2.3", "1..3", "a.b.c", "1.2.99999999999999999999"] {
            assert_eq!(text.parse::<MessageId>(), Err(BadId), "{text}");
        }
    }
}
