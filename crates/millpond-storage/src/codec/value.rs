//! The byte forms of what facts and pages are made of.

use bytes::Bytes;
use millpond_core::fact::{DeadReason, Letter};
use millpond_core::outcomes::Outcomes;
use millpond_core::output::Extent;
use millpond_core::store::Shelf;
use millpond_types::{
    ExchangeName, GroupName, MessageId, Millis, NamespaceName, Pause, PausedTopics, Priority, Sequence, TopicName,
    TopicNumber, WallTime,
};

use super::{BadRecord, Sink, Source};

/// A pause is of all topics with a prefix.
const IS_PREFIX: u8 = 1;
/// A pause is over at a time, which follows.
const HAS_END: u8 = 2;

impl Source<'_> {
    pub(super) fn topic(&mut self) -> Result<TopicNumber, BadRecord> {
        self.number().map(TopicNumber)
    }

    pub(super) fn wall(&mut self) -> Result<WallTime, BadRecord> {
        self.number().map(WallTime)
    }

    pub(super) fn until(&mut self) -> Result<WallTime, BadRecord> {
        self.number().map(|time| WallTime(time.wrapping_sub(1)))
    }

    pub(super) fn millis(&mut self) -> Result<Millis, BadRecord> {
        self.number().map(Millis)
    }

    pub(super) fn priority(&mut self) -> Result<Priority, BadRecord> {
        Priority::new(self.byte()?).ok_or(self.bad("has a priority past 9"))
    }

    pub(super) fn shelf(&mut self) -> Result<Shelf, BadRecord> {
        Shelf::from_byte(self.byte()?).ok_or(self.bad("has an unknown shelf"))
    }

    pub(super) fn key(&mut self) -> Result<[u64; 2], BadRecord> {
        let wide = self.wide()?;
        Ok([wide as u64, (wide >> 64) as u64])
    }

    pub(super) fn copied(&mut self) -> Result<Bytes, BadRecord> {
        self.string().map(Bytes::copy_from_slice)
    }

    pub(super) fn topic_name(&mut self) -> Result<TopicName, BadRecord> {
        let name = self.string()?;
        TopicName::try_from(name).map_err(|_| self.bad("has a topic's name that breaks the rules for names"))
    }

    pub(super) fn paused_topics(&mut self) -> Result<PausedTopics, BadRecord> {
        let bad = self.bad("pauses a topic's name that breaks the rules for names");
        PausedTopics::new(self.copied()?, self.flag()?).map_err(|_| bad)
    }

    pub(super) fn pause_end(&mut self) -> Result<Option<WallTime>, BadRecord> {
        match self.byte()? {
            0 => Ok(None),
            1 => Ok(Some(WallTime::NEVER)),
            2 => self.number().map(|until| Some(WallTime(until))),
            _ => Err(self.bad("has an unknown end of a pause")),
        }
    }

    pub(super) fn pause(&mut self) -> Result<Pause, BadRecord> {
        let bad = self.bad("pauses a topic's name that breaks the rules for names");
        let (name, flags) = (self.copied()?, self.byte()?);
        if flags & !(IS_PREFIX | HAS_END) != 0 {
            return Err(self.bad("has a pause with flags that this version does not know"));
        }
        let topics = PausedTopics::new(name, flags & IS_PREFIX != 0).map_err(|_| bad)?;
        let until = if flags & HAS_END != 0 { WallTime(self.number()?) } else { WallTime::NEVER };
        Ok(Pause { topics, until })
    }

    pub(super) fn namespace_name(&mut self) -> Result<NamespaceName, BadRecord> {
        let bad = self.bad("has a namespace's name that breaks the rules for names");
        NamespaceName::new(self.copied()?).map_err(|_| bad)
    }

    pub(super) fn group_name(&mut self) -> Result<GroupName, BadRecord> {
        let bad = self.bad("has a group's name that breaks the rules for names");
        GroupName::new(self.copied()?).map_err(|_| bad)
    }

    pub(super) fn exchange_name(&mut self) -> Result<ExchangeName, BadRecord> {
        let bad = self.bad("has an exchange's name that breaks the rules for names");
        ExchangeName::new(self.copied()?).map_err(|_| bad)
    }

    pub(super) fn message_id(&mut self) -> Result<MessageId, BadRecord> {
        let (topic, priority) = (self.topic()?, self.priority()?);
        Ok(MessageId { topic, priority, sequence: Sequence(self.number()?) })
    }

    pub(super) fn dead_reason(&mut self) -> Result<DeadReason, BadRecord> {
        let byte = self.byte()?;
        let found = DEAD_REASONS.into_iter().find(|reason| dead_reason_byte(*reason) == byte);
        found.ok_or(self.bad("has an unknown reason for a dead letter"))
    }

    pub(super) fn letter(&mut self) -> Result<Letter, BadRecord> {
        Ok(Letter {
            namespace: self.number32()?,
            group: self.number32()?,
            topic: self.topic_name()?,
            id: self.message_id()?,
            extent: self.extent()?,
        })
    }

    fn extent(&mut self) -> Result<Extent, BadRecord> {
        let (position, length) = (self.number()?, self.number32()?);
        match position.checked_add(u64::from(length)) {
            Some(_) => Ok(Extent { position, length }),
            None => Err(self.bad("has a message past the end of any journal")),
        }
    }

    pub(super) fn outcomes(&mut self) -> Result<Outcomes, BadRecord> {
        let bad = self.bad("has outcomes that are none");
        Outcomes::from_bytes(self.string()?).ok_or(bad)
    }
}

impl Sink<'_> {
    pub(super) fn letter(&mut self, letter: &Letter) {
        let Letter { namespace, group, topic, id, extent } = letter;
        self.number32(*namespace);
        self.number32(*group);
        self.string(topic.as_bytes());
        self.message_id(*id);
        self.number(extent.position);
        self.number32(extent.length);
    }

    pub(super) fn until(&mut self, time: WallTime) {
        self.number(time.0.wrapping_add(1));
    }

    pub(super) fn priority(&mut self, priority: Priority) {
        self.byte(priority.level() as u8);
    }

    pub(super) fn key(&mut self, key: [u64; 2]) {
        self.wide(u128::from(key[0]) | u128::from(key[1]) << 64);
    }

    pub(super) fn paused_topics(&mut self, topics: &PausedTopics) {
        self.string(topics.as_bytes());
        self.flag(topics.is_prefix());
    }

    pub(super) fn pause_end(&mut self, until: Option<WallTime>) {
        match until {
            None => self.byte(0),
            Some(WallTime::NEVER) => self.byte(1),
            Some(until) => {
                self.byte(2);
                self.number(until.0);
            }
        }
    }

    pub(super) fn pause(&mut self, Pause { topics, until }: &Pause) {
        let has_end = *until != WallTime::NEVER;
        self.string(topics.as_bytes());
        self.byte(if topics.is_prefix() { IS_PREFIX } else { 0 } | if has_end { HAS_END } else { 0 });
        if has_end {
            self.number(until.0);
        }
    }

    pub(super) fn message_id(&mut self, id: MessageId) {
        self.number(id.topic.0);
        self.priority(id.priority);
        self.number(id.sequence.0);
    }

    pub(super) fn dead_reason(&mut self, reason: DeadReason) {
        self.byte(dead_reason_byte(reason));
    }

    pub(super) fn outcomes(&mut self, outcomes: &Outcomes) {
        self.string(outcomes.as_bytes());
    }
}

const DEAD_REASONS: [DeadReason; 5] =
    [DeadReason::Rejected, DeadReason::Failed, DeadReason::LeaseExpired, DeadReason::Expired, DeadReason::Damaged];

const fn dead_reason_byte(reason: DeadReason) -> u8 {
    match reason {
        DeadReason::Rejected => 0,
        DeadReason::Failed => 1,
        DeadReason::LeaseExpired => 2,
        DeadReason::Expired => 3,
        DeadReason::Damaged => 4,
    }
}
