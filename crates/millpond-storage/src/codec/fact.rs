//! The byte form of facts.

use millpond_core::fact::{Fact, Remembered, ReturnPlace, Victims};
use millpond_types::{EndReason, LeaseNumber, ProducerId, RunTime, Sequence, WallTime};

use super::context::LeaseTerms;
use super::{BadRecord, Context, Sink, Source};

/// Appends a fact that stands in a batch behind those of `context`, but for its [block](Fact::block): that stands last,
/// behind its length, and the caller appends it, so that a body is copied once.
pub fn encode_fact(fact: &Fact, context: &mut Context, out: &mut Vec<u8>) {
    let mut sink = Sink { out, context: *context };
    match fact {
        Fact::Created { hash_key } => {
            sink.byte(1);
            sink.key(*hash_key);
        }
        Fact::Raised { floor } => {
            sink.byte(2);
            sink.number(*floor);
        }
        Fact::NamespaceSet { number, name, policy, rules, version } => {
            sink.byte(3);
            sink.number32(*number);
            sink.string(name.as_bytes());
            sink.policy(policy);
            sink.rules(rules);
            sink.number(*version);
        }
        Fact::NamespaceDeleted { number } => {
            sink.byte(4);
            sink.number32(*number);
        }
        Fact::Paused { namespace, topics, until } => {
            sink.byte(5);
            sink.number32(*namespace);
            sink.paused_topics(topics);
            sink.pause_end(*until);
        }
        Fact::TopicCreated { topic, group, namespace, name, floor, lease } => {
            sink.byte(6);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.next_sequence(Sequence(*floor));
            sink.difference(lease.0, *floor);
        }
        Fact::TopicVanished { topic, group } => {
            sink.byte(7);
            sink.next_topic(*topic);
            sink.number32(*group);
        }
        Fact::Published { .. } => {
            sink.byte(8);
            sink.published(fact);
        }
        Fact::ProducerBatch { namespace, producer, instance, sequence, at, outcomes } => {
            sink.byte(9);
            sink.number32(*namespace);
            sink.wide(producer.0);
            sink.number32(*instance);
            sink.number(*sequence);
            sink.moment(*at);
            sink.outcomes(outcomes);
        }
        Fact::Leased { .. } => {
            sink.byte(10);
            sink.leased(fact);
        }
        Fact::Extended { topic, group, lease, count, holder, duration, deadline } => {
            sink.byte(11);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.next_lease(*lease);
            sink.number32(*count);
            sink.terms(LeaseTerms { holder: *holder, duration: *duration, deadline: *deadline });
        }
        Fact::Acked { topic, group, lease, count } => {
            sink.byte(12);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.next_lease(*lease);
            sink.number32(*count);
        }
        Fact::Returned { topic, group, lease, count, failed, place } => {
            sink.byte(13);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.next_lease(*lease);
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
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.victims(which);
            sink.dead_reason(*reason);
            sink.string(detail);
            sink.moment(*at);
        }
        Fact::Ripened { topic, group, priority, first, count } => {
            sink.byte(15);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.priority(*priority);
            sink.next_sequence(*first);
            sink.number32(*count);
        }
        Fact::Ended { topic, group, priority, first, count, reason } => {
            sink.byte(16);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.priority(*priority);
            sink.next_sequence(*first);
            sink.number32(*count);
            sink.byte(end_reason_byte(*reason));
        }
        Fact::Rescheduled { topic, group, priority, sequence, due } => {
            sink.byte(17);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.priority(*priority);
            sink.next_sequence(*sequence);
            sink.far(*due);
        }
        Fact::Forgotten { namespace, hash } => {
            sink.byte(18);
            sink.number32(*namespace);
            sink.wide(*hash);
        }
        Fact::Redriven { letter, topic, sequence, published, since, dedup } => {
            sink.byte(if since == published { 19 } else { 60 });
            sink.letter(letter);
            sink.next_topic(*topic);
            sink.next_sequence(*sequence);
            sink.number(published.0);
            if since != published {
                sink.difference(since.0, published.0);
            }
            sink.option(*dedup, |sink, Remembered { hash, until }| {
                sink.wide(hash);
                sink.until(until);
            });
        }
        Fact::DeadPurged { letter } => {
            sink.byte(20);
            sink.letter(letter);
        }
        Fact::TopicRecalled { topic, group, namespace, name, shelf } => {
            sink.byte(21);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.byte(shelf.byte());
        }
        Fact::Moved { .. } => {
            sink.byte(22);
            sink.moved(fact);
        }
        Fact::DeadMoved { letter, block } => {
            sink.byte(23);
            sink.dead_page(letter);
            sink.number(block.len() as u64);
        }
        Fact::GroupEnding { group } => {
            sink.byte(25);
            sink.number32(*group);
        }
        Fact::GroupDeleted { group } => {
            sink.byte(26);
            sink.number32(*group);
        }
        Fact::GroupCreated { group, namespace, name, start, kind } => {
            sink.byte(24);
            sink.number32(*group);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.start(*start);
            sink.group_kind(*kind);
        }
        Fact::Copied { topic, group, messages, rest } => {
            sink.byte(40);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.copied_runs(messages);
            sink.option(*rest, Sink::rest);
        }
        Fact::GroupReached { group, at, rest } => {
            sink.byte(41);
            sink.number32(*group);
            sink.string(at);
            sink.option(*rest, Sink::rest);
        }
        Fact::GroupStarted { group } => {
            sink.byte(42);
            sink.number32(*group);
        }
        Fact::Delivered { topic, group, lease, count } => {
            sink.byte(27);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.next_lease(*lease);
            sink.number32(*count);
        }
        Fact::Superseded { topic, group, which, priority, by, failures, until, since } => {
            sink.byte(if since.is_some() { 61 } else { 28 });
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.victims(which);
            sink.priority(*priority);
            sink.next_sequence(*by);
            sink.number32(*failures);
            sink.option(*until, |sink, until| sink.number(until.0));
            since.iter().for_each(|since| sink.far(*since));
        }
        Fact::Declined { topic, group, count } => {
            sink.byte(29);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.number32(*count);
        }
        Fact::OfficeTaken { group, session, epoch } => {
            sink.byte(45);
            sink.number32(*group);
            sink.number(session.0);
            sink.number(epoch.0);
        }
        Fact::OfficeLeft { group, until } => {
            sink.byte(46);
            sink.number32(*group);
            sink.number(until.0);
        }
        Fact::HandedOver { group } => {
            sink.byte(47);
            sink.number32(*group);
        }
        Fact::TopicsSettled { group } => {
            sink.byte(53);
            sink.number32(*group);
        }
        Fact::Drawn { topic, group, full, dry } => {
            sink.byte(50);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.number(*full);
            sink.option(*dry, |sink, until| sink.number(until.0));
        }
        Fact::Refilled { topic, group } => {
            sink.byte(51);
            sink.next_topic(*topic);
            sink.number32(*group);
        }
        Fact::Aged { topic, group, level, raise } => {
            sink.byte(52);
            sink.next_topic(*topic);
            sink.number32(*group);
            sink.priority(*level);
            sink.option(*raise, Sink::far);
        }
        Fact::Waits { topic, group, for_retry } => {
            sink.byte(if *for_retry { 59 } else { 54 });
            sink.next_topic(*topic);
            sink.number32(*group);
        }
        Fact::ExchangeCreated { namespace, name, kind, unroutable, version } => {
            sink.byte(55);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.exchange_kind(*kind);
            sink.unroutable(*unroutable);
            sink.number(*version);
        }
        Fact::ExchangeDeleted { namespace, name } => {
            sink.byte(56);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
        }
        Fact::Bound { namespace, exchange, binding, version } => {
            sink.byte(57);
            sink.number32(*namespace);
            sink.string(exchange.as_bytes());
            sink.binding(binding);
            sink.number(*version);
        }
        Fact::Unbound { namespace, exchange, binding, version } => {
            sink.byte(58);
            sink.number32(*namespace);
            sink.string(exchange.as_bytes());
            sink.binding(binding);
            sink.number(*version);
        }
    }
    *context = sink.context;
}

/// Reads the next fact of a batch, all of which are read from one source. A fact's [block](Fact::block) stays in
/// the source's buffer, and ends where the fact does.
pub fn decode_fact(source: &mut Source<'_>) -> Result<Fact, BadRecord> {
    Ok(match source.byte()? {
        1 => Fact::Created { hash_key: source.key()? },
        2 => Fact::Raised { floor: source.number()? },
        3 => Fact::NamespaceSet {
            number: source.number32()?,
            name: source.namespace_name()?,
            policy: source.policy()?,
            rules: source.rules()?,
            version: source.number()?,
        },
        4 => Fact::NamespaceDeleted { number: source.number32()? },
        5 => {
            let (namespace, topics) = (source.number32()?, source.paused_topics()?);
            Fact::Paused { namespace, topics, until: source.pause_end()? }
        }
        6 => {
            let (topic, group, namespace) = (source.next_topic()?, source.number32()?, source.number32()?);
            let (name, floor) = (source.topic_name()?, source.next_sequence()?.0);
            let lease = LeaseNumber(source.beside(floor)?);
            Fact::TopicCreated { topic, group, namespace, name, floor, lease }
        }
        7 => Fact::TopicVanished { topic: source.next_topic()?, group: source.number32()? },
        8 => source.published()?,
        9 => Fact::ProducerBatch {
            namespace: source.number32()?,
            producer: ProducerId(source.wide()?),
            instance: source.number32()?,
            sequence: source.number()?,
            at: source.moment()?,
            outcomes: source.outcomes()?,
        },
        10 => source.leased()?,
        11 => {
            let (topic, group) = (source.next_topic()?, source.number32()?);
            let (lease, count) = (source.next_lease()?, source.number32()?);
            let LeaseTerms { holder, duration, deadline } = source.terms()?;
            Fact::Extended { topic, group, lease, count, holder, duration, deadline }
        }
        12 => Fact::Acked {
            topic: source.next_topic()?,
            group: source.number32()?,
            lease: source.next_lease()?,
            count: source.number32()?,
        },
        13 => Fact::Returned {
            topic: source.next_topic()?,
            group: source.number32()?,
            lease: source.next_lease()?,
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
            topic: source.next_topic()?,
            group: source.number32()?,
            which: source.victims()?,
            reason: source.dead_reason()?,
            detail: source.copied()?,
            at: source.moment()?,
        },
        15 => Fact::Ripened {
            topic: source.next_topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            first: source.next_sequence()?,
            count: source.number32()?,
        },
        16 => Fact::Ended {
            topic: source.next_topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            first: source.next_sequence()?,
            count: source.number32()?,
            reason: {
                let byte = source.byte()?;
                let found = END_REASONS.into_iter().find(|reason| end_reason_byte(*reason) == byte);
                found.ok_or(source.bad("has an unknown reason for an end"))?
            },
        },
        17 => Fact::Rescheduled {
            topic: source.next_topic()?,
            group: source.number32()?,
            priority: source.priority()?,
            sequence: source.next_sequence()?,
            due: source.far()?,
        },
        18 => Fact::Forgotten { namespace: source.number32()?, hash: source.wide()? },
        19 => source.redriven(false)?,
        20 => Fact::DeadPurged { letter: source.letter()? },
        21 => Fact::TopicRecalled {
            topic: source.next_topic()?,
            group: source.number32()?,
            namespace: source.number32()?,
            name: source.topic_name()?,
            shelf: source.shelf()?,
        },
        22 => source.moved()?,
        23 => Fact::DeadMoved { letter: Box::new(source.dead_page()?), block: source.block_of(1)?.0 },
        24 => Fact::GroupCreated {
            group: source.number32()?,
            namespace: source.number32()?,
            name: source.group_name()?,
            start: source.start()?,
            kind: source.group_kind()?,
        },
        40 => Fact::Copied {
            topic: source.next_topic()?,
            group: source.number32()?,
            messages: source.copied_runs()?,
            rest: source.option(Source::rest)?,
        },
        41 => Fact::GroupReached {
            group: source.number32()?,
            at: source.string()?.to_vec(),
            rest: source.option(Source::rest)?,
        },
        42 => Fact::GroupStarted { group: source.number32()? },
        25 => Fact::GroupEnding { group: source.number32()? },
        26 => Fact::GroupDeleted { group: source.number32()? },
        27 => Fact::Delivered {
            topic: source.next_topic()?,
            group: source.number32()?,
            lease: source.next_lease()?,
            count: source.number32()?,
        },
        28 => source.superseded(false)?,
        29 => Fact::Declined { topic: source.next_topic()?, group: source.number32()?, count: source.number32()? },
        45 => {
            Fact::OfficeTaken { group: source.number32()?, session: source.session()?, epoch: source.leader_epoch()? }
        }
        46 => Fact::OfficeLeft { group: source.number32()?, until: RunTime(source.number()?) },
        47 => Fact::HandedOver { group: source.number32()? },
        50 => Fact::Drawn {
            topic: source.next_topic()?,
            group: source.number32()?,
            full: source.number()?,
            dry: source.option(|source| source.number().map(RunTime))?,
        },
        51 => Fact::Refilled { topic: source.next_topic()?, group: source.number32()? },
        52 => {
            let (topic, group) = (source.next_topic()?, source.number32()?);
            Fact::Aged { topic, group, level: source.priority()?, raise: source.option(Source::far)? }
        }
        53 => Fact::TopicsSettled { group: source.number32()? },
        54 => Fact::Waits { topic: source.next_topic()?, group: source.number32()?, for_retry: false },
        55 => Fact::ExchangeCreated {
            namespace: source.number32()?,
            name: source.exchange_name()?,
            kind: source.exchange_kind()?,
            unroutable: source.unroutable()?,
            version: source.number()?,
        },
        56 => Fact::ExchangeDeleted { namespace: source.number32()?, name: source.exchange_name()? },
        57 => Fact::Bound {
            namespace: source.number32()?,
            exchange: source.exchange_name()?,
            binding: source.binding()?,
            version: source.number()?,
        },
        58 => Fact::Unbound {
            namespace: source.number32()?,
            exchange: source.exchange_name()?,
            binding: source.binding()?,
            version: source.number()?,
        },
        59 => Fact::Waits { topic: source.next_topic()?, group: source.number32()?, for_retry: true },
        60 => source.redriven(true)?,
        61 => source.superseded(true)?,
        _ => return Err(source.bad("is a fact of an unknown kind")),
    })
}

impl Sink<'_> {
    fn victims(&mut self, victims: &Victims) {
        match victims {
            Victims::Leased { lease, count } => {
                self.byte(0);
                self.next_lease(*lease);
                self.number32(*count);
            }
            Victims::Waiting { priority, first, count } => {
                self.byte(1);
                self.priority(*priority);
                self.next_sequence(*first);
                self.number32(*count);
            }
        }
    }
}

impl Source<'_> {
    /// A dead letter that went back to work; in version 1 it has waited since its publish.
    fn redriven(&mut self, has_since: bool) -> Result<Fact, BadRecord> {
        let (letter, topic, sequence) = (self.letter()?, self.next_topic()?, self.next_sequence()?);
        let published = self.wall()?;
        let since = if has_since { WallTime(self.beside(published.0)?) } else { published };
        let dedup = self.option(|source| Ok(Remembered { hash: source.wide()?, until: source.until()? }))?;
        Ok(Fact::Redriven { letter, topic, sequence, published, since, dedup })
    }

    fn superseded(&mut self, has_since: bool) -> Result<Fact, BadRecord> {
        Ok(Fact::Superseded {
            topic: self.next_topic()?,
            group: self.number32()?,
            which: self.victims()?,
            priority: self.priority()?,
            by: self.next_sequence()?,
            failures: self.number32()?,
            until: self.option(|source| source.number().map(RunTime))?,
            since: if has_since { Some(self.far()?) } else { None },
        })
    }

    fn victims(&mut self) -> Result<Victims, BadRecord> {
        Ok(match self.byte()? {
            0 => Victims::Leased { lease: self.next_lease()?, count: self.number32()? },
            1 => {
                let priority = self.priority()?;
                Victims::Waiting { priority, first: self.next_sequence()?, count: self.number32()? }
            }
            _ => return Err(self.bad("has unknown victims")),
        })
    }
}

const END_REASONS: [EndReason; 9] = [
    EndReason::Acked,
    EndReason::Dead,
    EndReason::Cancelled,
    EndReason::Expired,
    EndReason::Purged,
    EndReason::Delivered,
    EndReason::Superseded,
    EndReason::Dropped,
    EndReason::RetainedOut,
];

const fn end_reason_byte(reason: EndReason) -> u8 {
    match reason {
        EndReason::Acked => 0,
        EndReason::Dead => 1,
        EndReason::Cancelled => 2,
        EndReason::Expired => 3,
        EndReason::Purged => 4,
        EndReason::Delivered => 5,
        EndReason::Superseded => 6,
        EndReason::Dropped => 7,
        EndReason::RetainedOut => 8,
    }
}
