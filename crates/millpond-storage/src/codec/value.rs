//! The byte forms of what facts and pages are made of.

use bytes::Bytes;
use millpond_core::fact::DeadReason;
use millpond_types::{
    Code, DedupWindow, MessageId, MessageState, Millis, NamespaceName, OnExpiry, OutcomeRun, Policy, Priority,
    PublishOutcome, Retry, Sequence, TopicName, TopicNumber, WallTime,
};

use super::{BadRecord, Sink, Source};

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

    pub(super) fn key(&mut self) -> Result<[u64; 2], BadRecord> {
        let wide = self.wide()?;
        Ok([wide as u64, (wide >> 64) as u64])
    }

    pub(super) fn copied(&mut self) -> Result<Bytes, BadRecord> {
        self.string().map(Bytes::copy_from_slice)
    }

    pub(super) fn topic_name(&mut self) -> Result<TopicName, BadRecord> {
        TopicName::new(self.copied()?).map_err(|_| self.bad("has a topic's name that breaks the rules for names"))
    }

    pub(super) fn namespace_name(&mut self) -> Result<NamespaceName, BadRecord> {
        let bad = self.bad("has a namespace's name that breaks the rules for names");
        NamespaceName::new(self.copied()?).map_err(|_| bad)
    }

    pub(super) fn message_id(&mut self) -> Result<MessageId, BadRecord> {
        let (topic, priority) = (self.topic()?, self.priority()?);
        Ok(MessageId { topic, priority, sequence: Sequence(self.number()?) })
    }

    pub(super) fn policy(&mut self) -> Result<Policy, BadRecord> {
        let (lease, max_failures) = (self.millis()?, self.number32()?);
        let retry = match self.byte()? {
            0 => Retry::Head,
            1 => Retry::Tail,
            2 => Retry::Backoff { first: self.millis()?, longest: self.millis()? },
            _ => return Err(self.bad("has an unknown way to retry")),
        };
        let ttl = self.option(Self::millis)?;
        let on_expiry = if self.flag()? { OnExpiry::Dead } else { OnExpiry::Drop };
        let dedup_window = match self.byte()? {
            0 => DedupWindow::Off,
            1 => DedupWindow::For(self.millis()?),
            2 => DedupWindow::Forever,
            _ => return Err(self.bad("has an unknown dedup window")),
        };
        let max_in_flight = self.option(Self::number32)?;
        let weight = self.number32()?;
        Ok(Policy { lease, max_failures, retry, ttl, on_expiry, dedup_window, max_in_flight, weight })
    }

    pub(super) fn dead_reason(&mut self) -> Result<DeadReason, BadRecord> {
        let byte = self.byte()?;
        let found = DEAD_REASONS.into_iter().find(|reason| dead_reason_byte(*reason) == byte);
        found.ok_or(self.bad("has an unknown reason for a dead letter"))
    }

    pub(super) fn outcomes(&mut self) -> Result<Vec<OutcomeRun<PublishOutcome>>, BadRecord> {
        self.list(|source| {
            let count = source.number32()?;
            let outcome = match source.byte()? {
                0 => PublishOutcome::Queued { id: source.message_id()? },
                1 => PublishOutcome::Duplicate { id: source.message_id()?, state: source.message_state()? },
                2 => {
                    let number = source.number32()?;
                    let code = u16::try_from(number).ok().and_then(Code::from_number);
                    let code = code.ok_or(source.bad("has an unknown error code"))?;
                    let detail = std::str::from_utf8(source.string()?);
                    PublishOutcome::Refused {
                        code,
                        detail: detail.map_err(|_| source.bad("has a detail that is not UTF-8"))?.into(),
                    }
                }
                _ => return Err(source.bad("has an unknown outcome")),
            };
            Ok(OutcomeRun { count, outcome })
        })
    }

    fn message_state(&mut self) -> Result<MessageState, BadRecord> {
        Ok(match self.byte()? {
            0 => MessageState::Waiting,
            1 => MessageState::Delayed { due: self.wall()? },
            2 => MessageState::Retrying,
            3 => MessageState::Leased,
            4 => MessageState::Dead,
            5 => MessageState::Ended,
            _ => return Err(self.bad("has an unknown state of a message")),
        })
    }
}

impl Sink<'_> {
    pub(super) fn until(&mut self, time: WallTime) {
        self.number(time.0.wrapping_add(1));
    }

    pub(super) fn priority(&mut self, priority: Priority) {
        self.byte(priority.level() as u8);
    }

    pub(super) fn key(&mut self, key: [u64; 2]) {
        self.wide(u128::from(key[0]) | u128::from(key[1]) << 64);
    }

    pub(super) fn message_id(&mut self, id: MessageId) {
        self.number(id.topic.0);
        self.priority(id.priority);
        self.number(id.sequence.0);
    }

    pub(super) fn policy(&mut self, policy: &Policy) {
        let Policy { lease, max_failures, retry, ttl, on_expiry, dedup_window, max_in_flight, weight } = policy;
        self.number(lease.0);
        self.number32(*max_failures);
        match retry {
            Retry::Head => self.byte(0),
            Retry::Tail => self.byte(1),
            Retry::Backoff { first, longest } => {
                self.byte(2);
                self.number(first.0);
                self.number(longest.0);
            }
        }
        self.option(*ttl, |sink, ttl| sink.number(ttl.0));
        self.flag(*on_expiry == OnExpiry::Dead);
        match dedup_window {
            DedupWindow::Off => self.byte(0),
            DedupWindow::For(window) => {
                self.byte(1);
                self.number(window.0);
            }
            DedupWindow::Forever => self.byte(2),
        }
        self.option(*max_in_flight, Self::number32);
        self.number32(*weight);
    }

    pub(super) fn dead_reason(&mut self, reason: DeadReason) {
        self.byte(dead_reason_byte(reason));
    }

    pub(super) fn outcomes(&mut self, outcomes: &[OutcomeRun<PublishOutcome>]) {
        self.list(outcomes, |sink, run| {
            sink.number32(run.count);
            match &run.outcome {
                PublishOutcome::Queued { id } => {
                    sink.byte(0);
                    sink.message_id(*id);
                }
                PublishOutcome::Duplicate { id, state } => {
                    sink.byte(1);
                    sink.message_id(*id);
                    sink.message_state(*state);
                }
                PublishOutcome::Refused { code, detail } => {
                    sink.byte(2);
                    sink.number32(u32::from(code.number()));
                    sink.string(detail.as_bytes());
                }
            }
        });
    }

    fn message_state(&mut self, state: MessageState) {
        match state {
            MessageState::Waiting => self.byte(0),
            MessageState::Delayed { due } => {
                self.byte(1);
                self.number(due.0);
            }
            MessageState::Retrying => self.byte(2),
            MessageState::Leased => self.byte(3),
            MessageState::Dead => self.byte(4),
            MessageState::Ended => self.byte(5),
        }
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
