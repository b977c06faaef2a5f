//! The byte form of facts.
//!
//! A run of a hundred plain messages takes about twenty bytes and its block. The sizes of the messages are not kept:
//! they are found again by walking the block, which is there anyway.

use bytes::Bytes;
use millpond_core::fact::{DedupMark, Fact, ReturnPlace, Victims};
use millpond_types::block::{Sizes, messages};
use millpond_types::{EndReason, LeaseNumber, ProducerId, RunTime, Sequence, SessionId, WallTime};

use super::{BadRecord, Sink, Source};

const HAS_DUE: u8 = 1;
const HAS_EXPIRES: u8 = 2;
const HAS_DEDUP: u8 = 4;

/// Appends a fact, but for the block of a [`Fact::Published`]: that stands last, behind its length, and the caller
/// appends it, so that a body is copied once.
pub fn encode_fact(fact: &Fact, out: &mut Vec<u8>) {
    let mut sink = Sink(out);
    match fact {
        Fact::Created { hash_key } => {
            sink.byte(1);
            sink.key(*hash_key);
        }
        Fact::Raised { floor } => {
            sink.byte(2);
            sink.number(*floor);
        }
        Fact::NamespaceSet { number, name, policy, version } => {
            sink.byte(3);
            sink.number32(*number);
            sink.string(name.as_bytes());
            sink.policy(policy);
            sink.number(*version);
        }
        Fact::NamespaceDeleted { number } => {
            sink.byte(4);
            sink.number32(*number);
        }
        Fact::Paused { namespace, name, prefix, paused } => {
            sink.byte(5);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.flag(*prefix);
            sink.flag(*paused);
        }
        Fact::TopicCreated { topic, namespace, name, floor } => {
            sink.byte(6);
            sink.number(topic.0);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.number(*floor);
        }
        Fact::TopicVanished { topic } => {
            sink.byte(7);
            sink.number(topic.0);
        }
        Fact::Published { .. } => sink.published(fact),
        Fact::ProducerBatch { namespace, producer, instance, sequence, at, outcomes } => {
            sink.byte(9);
            sink.number32(*namespace);
            sink.wide(producer.0);
            sink.number32(*instance);
            sink.number(*sequence);
            sink.number(at.0);
            sink.outcomes(outcomes);
        }
        Fact::Leased { topic, group, priority, first, count, lease, holder, duration, deadline } => {
            sink.byte(10);
            sink.number(topic.0);
            sink.number32(*group);
            sink.priority(*priority);
            sink.number(first.0);
            sink.number32(*count);
            sink.number(lease.0);
            sink.number(holder.0);
            sink.number(duration.0);
            sink.number(deadline.0);
        }
        Fact::Extended { topic, group, lease, count, holder, duration, deadline } => {
            sink.byte(11);
            sink.number(topic.0);
            sink.number32(*group);
            sink.number(lease.0);
            sink.number32(*count);
            sink.number(holder.0);
            sink.number(duration.0);
            sink.number(deadline.0);
        }
        Fact::Acked { topic, group, lease, count } => {
            sink.byte(12);
            sink.number(topic.0);
            sink.number32(*group);
            sink.number(lease.0);
            sink.number32(*count);
        }
        Fact::Returned { topic, group, lease, count, failed, place } => {
            sink.byte(13);
            sink.number(topic.0);
            sink.number32(*group);
            sink.number(lease.0);
            sink.number32(*count);
            sink.flag(*failed);
            match place {
                ReturnPlace::Head => sink.byte(0),
                ReturnPlace::Tail => sink.byte(1),
                ReturnPlace::At(due) => {
                    sink.byte(2);
                    sink.number(due.0);
                }
            }
        }
        Fact::Died { topic, group, which, reason, detail, at } => {
            sink.byte(14);
            sink.number(topic.0);
            sink.number32(*group);
            match which {
                Victims::Leased { lease, count } => {
                    sink.byte(0);
                    sink.number(lease.0);
                    sink.number32(*count);
                }
                Victims::Waiting { priority, first, count } => {
                    sink.byte(1);
                    sink.priority(*priority);
                    sink.number(first.0);
                    sink.number32(*count);
                }
            }
            sink.dead_reason(*reason);
            sink.string(detail);
            sink.number(at.0);
        }
        Fact::Ripened { topic, group, priority, first, count } => {
            sink.byte(15);
            sink.number(topic.0);
            sink.number32(*group);
            sink.priority(*priority);
            sink.number(first.0);
            sink.number32(*count);
        }
        Fact::Ended { topic, group, priority, first, count, reason } => {
            sink.byte(16);
            sink.number(topic.0);
            sink.number32(*group);
            sink.priority(*priority);
            sink.number(first.0);
            sink.number32(*count);
            sink.byte(end_reason_byte(*reason));
        }
        Fact::Rescheduled { topic, group, priority, sequence, due } => {
            sink.byte(17);
            sink.number(topic.0);
            sink.number32(*group);
            sink.priority(*priority);
            sink.number(sequence.0);
            sink.number(due.0);
        }
        Fact::Forgotten { hash } => {
            sink.byte(18);
            sink.wide(*hash);
        }
        Fact::Redriven { namespace, group, dead, topic, sequence } => {
            sink.byte(19);
            sink.number32(*namespace);
            sink.number32(*group);
            sink.message_id(*dead);
            sink.number(topic.0);
            sink.number(sequence.0);
        }
        Fact::DeadPurged { namespace, group, dead } => {
            sink.byte(20);
            sink.number32(*namespace);
            sink.number32(*group);
            sink.message_id(*dead);
        }
    }
}

/// Reads the next fact. The block of a [`Fact::Published`] stays in the source's buffer, and ends where the fact does.
pub fn decode_fact(source: &mut Source<'_>) -> Result<Fact, BadRecord> {
    Ok(match source.byte()? {
        1 => Fact::Created { hash_key: source.key()? },
        2 => Fact::Raised { floor: source.number()? },
        3 => Fact::NamespaceSet {
            number: source.number32()?,
            name: source.namespace_name()?,
            policy: source.policy()?,
            version: source.number()?,
        },
        4 => Fact::NamespaceDeleted { number: source.number32()? },
        5 => Fact::Paused {
            namespace: source.number32()?,
            name: source.topic_name()?,
            prefix: source.flag()?,
            paused: source.flag()?,
        },
        6 => Fact::TopicCreated {
            topic: source.topic()?,
            namespace: source.number32()?,
            name: source.topic_name()?,
            floor: source.number()?,
        },
        7 => Fact::TopicVanished { topic: source.topic()? },
        8 => source.published()?,
        9 => Fact::ProducerBatch {
            namespace: source.number32()?,
            producer: ProducerId(source.wide()?),
            instance: source.number32()?,
            sequence: source.number()?,
            at: source.wall()?,
            outcomes: source.outcomes()?,
        },
        10 => Fact::Leased {
            topic: source.topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            first: Sequence(source.number()?),
            count: source.number32()?,
            lease: LeaseNumber(source.number()?),
            holder: SessionId(source.number()?),
            duration: source.millis()?,
            deadline: RunTime(source.number()?),
        },
        11 => Fact::Extended {
            topic: source.topic()?,
            group: source.number32()?,
            lease: LeaseNumber(source.number()?),
            count: source.number32()?,
            holder: SessionId(source.number()?),
            duration: source.millis()?,
            deadline: RunTime(source.number()?),
        },
        12 => Fact::Acked {
            topic: source.topic()?,
            group: source.number32()?,
            lease: LeaseNumber(source.number()?),
            count: source.number32()?,
        },
        13 => Fact::Returned {
            topic: source.topic()?,
            group: source.number32()?,
            lease: LeaseNumber(source.number()?),
            count: source.number32()?,
            failed: source.flag()?,
            place: match source.byte()? {
                0 => ReturnPlace::Head,
                1 => ReturnPlace::Tail,
                2 => ReturnPlace::At(RunTime(source.number()?)),
                _ => return Err(source.bad("has an unknown place to return to")),
            },
        },
        14 => Fact::Died {
            topic: source.topic()?,
            group: source.number32()?,
            which: match source.byte()? {
                0 => Victims::Leased { lease: LeaseNumber(source.number()?), count: source.number32()? },
                1 => Victims::Waiting {
                    priority: source.priority()?,
                    first: Sequence(source.number()?),
                    count: source.number32()?,
                },
                _ => return Err(source.bad("has unknown victims")),
            },
            reason: source.dead_reason()?,
            detail: source.copied()?,
            at: source.wall()?,
        },
        15 => Fact::Ripened {
            topic: source.topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            first: Sequence(source.number()?),
            count: source.number32()?,
        },
        16 => Fact::Ended {
            topic: source.topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            first: Sequence(source.number()?),
            count: source.number32()?,
            reason: {
                let byte = source.byte()?;
                let found = END_REASONS.into_iter().find(|reason| end_reason_byte(*reason) == byte);
                found.ok_or(source.bad("has an unknown reason for an end"))?
            },
        },
        17 => Fact::Rescheduled {
            topic: source.topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            sequence: Sequence(source.number()?),
            due: source.wall()?,
        },
        18 => Fact::Forgotten { hash: source.wide()? },
        19 => Fact::Redriven {
            namespace: source.number32()?,
            group: source.number32()?,
            dead: source.message_id()?,
            topic: source.topic()?,
            sequence: Sequence(source.number()?),
        },
        20 => Fact::DeadPurged { namespace: source.number32()?, group: source.number32()?, dead: source.message_id()? },
        _ => return Err(source.bad("is a fact of an unknown kind")),
    })
}

impl Sink<'_> {
    fn published(&mut self, fact: &Fact) {
        let Fact::Published {
            topic,
            priority,
            first,
            count,
            published,
            due,
            expires,
            dedup_until,
            dedup,
            block,
            sizes: _,
        } = fact
        else {
            unreachable!("called for a published run only");
        };
        let flag = |set, flag| if set { flag } else { 0 };
        self.byte(8);
        self.byte(
            flag(due.is_some(), HAS_DUE) | flag(expires.is_some(), HAS_EXPIRES) | flag(!dedup.is_empty(), HAS_DEDUP),
        );
        self.number(topic.0);
        self.priority(*priority);
        self.number(first.0);
        self.number32(*count);
        self.number(published.0);
        if let Some(due) = due {
            self.number(due.0);
        }
        if let Some(expires) = expires {
            self.number(expires.0);
        }
        self.until(*dedup_until);
        if !dedup.is_empty() {
            self.list(dedup, |sink, mark| {
                sink.number32(mark.index);
                sink.wide(mark.hash);
            });
        }
        self.number(block.len() as u64);
    }
}

impl Source<'_> {
    fn published(&mut self) -> Result<Fact, BadRecord> {
        let flags = self.byte()?;
        if flags & !(HAS_DUE | HAS_EXPIRES | HAS_DEDUP) != 0 {
            return Err(self.bad("has flags that this version does not know"));
        }
        let topic = self.topic()?;
        let priority = self.priority()?;
        let (first, count) = (Sequence(self.number()?), self.number32()?);
        let published = self.wall()?;
        let mut time = |flag| if flags & flag != 0 { self.wall().map(Some) } else { Ok(None) };
        let (due, expires): (Option<WallTime>, Option<WallTime>) = (time(HAS_DUE)?, time(HAS_EXPIRES)?);
        let dedup_until = self.until()?;
        let mark = |source: &mut Self| Ok(DedupMark { index: source.number32()?, hash: source.wide()? });
        let dedup = if flags & HAS_DEDUP != 0 { self.list(mark)? } else { Vec::new() };
        let block = self.shared()?;
        let sizes = self.sizes(&block, count)?;
        if first.0.checked_add(u64::from(count)).is_none() || dedup.iter().any(|mark| mark.index >= count) {
            return Err(self.bad("has a run that does not fit its numbers"));
        }
        Ok(Fact::Published { topic, priority, first, count, published, due, expires, dedup_until, dedup, block, sizes })
    }

    fn sizes(&self, block: &Bytes, count: u32) -> Result<Sizes, BadRecord> {
        let bad = self.bad("has a block that does not hold its messages");
        // A block's bytes bound its messages, so a wrong count reserves nothing.
        let mut ends = Vec::with_capacity((count as usize).min(block.len() / millpond_types::block::MESSAGE_MIN));
        let mut end = 0u32;
        for message in messages(block) {
            let length = u32::try_from(message.map_err(|_| bad)?.length).map_err(|_| bad)?;
            end = end.checked_add(length).ok_or(bad)?;
            ends.push(end);
        }
        if count == 0 || ends.len() != count as usize {
            return Err(bad);
        }
        Ok(Sizes::from_ends(&ends))
    }
}

const END_REASONS: [EndReason; 5] =
    [EndReason::Acked, EndReason::Dead, EndReason::Cancelled, EndReason::Expired, EndReason::Purged];

const fn end_reason_byte(reason: EndReason) -> u8 {
    match reason {
        EndReason::Acked => 0,
        EndReason::Dead => 1,
        EndReason::Cancelled => 2,
        EndReason::Expired => 3,
        EndReason::Purged => 4,
    }
}
