//! The byte form of pages.

use millpond_core::page::{
    AsidePage, AsideState, DeadPage, DedupPage, DuePage, LevelPage, NamespacePage, NumbersPage, Page, ProducerPage,
    TopicPage,
};
use millpond_core::store::SHELVES;
use millpond_types::{Counts, LeaseNumber, ProducerId, RunTime, Sequence, SessionId};

use super::run::Before;
use super::{BadRecord, Sink, Source};

/// Appends a page.
pub fn encode_page(page: &Page, out: &mut Vec<u8>) {
    let mut sink = Sink::new(out);
    match page {
        Page::Numbers(numbers) => {
            let NumbersPage { hash_key, next_topic, next_namespace, high_water, raised, run, wall, epoch } = numbers;
            sink.byte(1);
            sink.key(*hash_key);
            sink.number(*next_topic);
            sink.number32(*next_namespace);
            sink.number(*high_water);
            sink.number(*raised);
            sink.number(run.0);
            sink.number(wall.0);
            sink.number32(*epoch);
        }
        Page::Namespace(page) => {
            let NamespacePage { number, name, policy, version, paused, counts, topics, shelves } = &**page;
            sink.byte(2);
            sink.number32(*number);
            sink.string(name.as_bytes());
            sink.policy(policy);
            sink.number(*version);
            sink.list(paused, |sink, (name, prefix)| {
                sink.string(name.as_bytes());
                sink.flag(*prefix);
            });
            sink.counts(counts);
            sink.number(*topics);
            shelves.iter().for_each(|topics| sink.number(*topics));
        }
        Page::Topic(TopicPage { number, namespace, name, floor, next_lease, epoch, levels }) => {
            sink.byte(3);
            sink.number(number.0);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.number(*floor);
            sink.difference(next_lease.0, *floor);
            sink.number32(*epoch);
            sink.list(levels, |sink, level| sink.level(level, *floor));
        }
        Page::Dead(dead) => {
            let DeadPage { namespace, group, topic, id, run, deliveries, failures, reason, detail, died } = dead;
            sink.byte(4);
            sink.number32(*namespace);
            sink.number32(*group);
            sink.string(topic.as_bytes());
            sink.message_id(*id);
            sink.run(run, &mut Before::first(id.sequence.0));
            sink.number32(*deliveries);
            sink.number32(*failures);
            sink.dead_reason(*reason);
            sink.string(detail);
            sink.number(died.0);
        }
        Page::Dedup(DedupPage { namespace, hash, id, until }) => {
            sink.byte(5);
            sink.number32(*namespace);
            sink.wide(*hash);
            sink.message_id(*id);
            sink.until(*until);
        }
        Page::Producer(ProducerPage { namespace, id, instance, used, last, batches }) => {
            sink.byte(6);
            sink.number32(*namespace);
            sink.wide(id.0);
            sink.number32(*instance);
            sink.number(used.0);
            sink.number(*last);
            sink.list(batches, Sink::outcomes);
        }
        Page::Due(DuePage { at, namespace, name, shelf }) => {
            sink.byte(7);
            sink.number(at.0);
            sink.number32(*namespace);
            sink.string(name.as_bytes());
            sink.byte(shelf.byte());
        }
        Page::Piece(page) => {
            sink.byte(8);
            sink.piece(page);
        }
    }
}

/// Reads the next page.
pub fn decode_page(source: &mut Source<'_>) -> Result<Page, BadRecord> {
    Ok(match source.byte()? {
        1 => Page::Numbers(NumbersPage {
            hash_key: source.key()?,
            next_topic: source.number()?,
            next_namespace: source.number32()?,
            high_water: source.number()?,
            raised: source.number()?,
            run: RunTime(source.number()?),
            wall: source.wall()?,
            epoch: source.number32()?,
        }),
        2 => Page::Namespace(Box::new(NamespacePage {
            number: source.number32()?,
            name: source.namespace_name()?,
            policy: source.policy()?,
            version: source.number()?,
            paused: source.list(|source| Ok((source.topic_name()?, source.flag()?)))?,
            counts: source.counts()?,
            topics: source.number()?,
            shelves: source.shelves()?,
        })),
        3 => {
            let (number, namespace, name) = (source.topic()?, source.number32()?, source.topic_name()?);
            let floor = source.number()?;
            let next_lease = LeaseNumber(source.beside(floor)?);
            let epoch = source.number32()?;
            let levels = source.list(|source| source.level(floor))?;
            Page::Topic(TopicPage { number, namespace, name, floor, next_lease, epoch, levels })
        }
        4 => {
            let (namespace, group, topic) = (source.number32()?, source.number32()?, source.topic_name()?);
            let id = source.message_id()?;
            Page::Dead(DeadPage {
                namespace,
                group,
                topic,
                id,
                run: source.run(&mut Before::first(id.sequence.0))?,
                deliveries: source.number32()?,
                failures: source.number32()?,
                reason: source.dead_reason()?,
                detail: source.copied()?,
                died: source.wall()?,
            })
        }
        5 => Page::Dedup(DedupPage {
            namespace: source.number32()?,
            hash: source.wide()?,
            id: source.message_id()?,
            until: source.until()?,
        }),
        6 => Page::Producer(ProducerPage {
            namespace: source.number32()?,
            id: ProducerId(source.wide()?),
            instance: source.number32()?,
            used: source.wall()?,
            last: source.number()?,
            batches: source.list(Source::outcomes)?,
        }),
        7 => Page::Due(DuePage {
            at: source.wall()?,
            namespace: source.number32()?,
            name: source.topic_name()?,
            shelf: source.shelf()?,
        }),
        8 => Page::Piece(source.piece()?),
        _ => return Err(source.bad("is a page of an unknown kind")),
    })
}

impl Source<'_> {
    fn counts(&mut self) -> Result<Counts, BadRecord> {
        let (waiting, delayed, retrying) = (self.number()?, self.number()?, self.number()?);
        Ok(Counts { waiting, delayed, retrying, leased: self.number()?, dead: self.number()? })
    }

    fn shelves(&mut self) -> Result<[u64; SHELVES], BadRecord> {
        let mut shelves = [0; SHELVES];
        for topics in &mut shelves {
            *topics = self.number()?;
        }
        Ok(shelves)
    }

    /// A level of a topic whose sequences begin at `floor`.
    fn level(&mut self, floor: u64) -> Result<LevelPage, BadRecord> {
        let mut before = Before::first(floor);
        Ok(LevelPage {
            priority: self.priority()?,
            stored: self.stored_pieces(floor)?,
            runs: self.list(|source| source.run(&mut before))?,
            next: Sequence(self.beside(before.end())?),
            aside: self.list(|source| {
                Ok(AsidePage {
                    group: source.number32()?,
                    run: source.run(&mut before)?,
                    deliveries: source.number32()?,
                    failures: source.number32()?,
                    state: source.aside_state()?,
                })
            })?,
        })
    }

    fn aside_state(&mut self) -> Result<AsideState, BadRecord> {
        Ok(match self.byte()? {
            0 => AsideState::Ready { behind: Sequence(self.number()?) },
            1 => AsideState::Delayed { due: self.wall()? },
            2 => AsideState::Retrying { due: RunTime(self.number()?) },
            3 => AsideState::Leased {
                lease: LeaseNumber(self.number()?),
                holder: SessionId(self.number()?),
                duration: self.millis()?,
                deadline: RunTime(self.number()?),
            },
            _ => return Err(self.bad("has an unknown state of a message set aside")),
        })
    }
}

impl Sink<'_> {
    fn counts(&mut self, counts: &Counts) {
        let Counts { waiting, delayed, retrying, leased, dead } = counts;
        [waiting, delayed, retrying, leased, dead].into_iter().for_each(|count| self.number(*count));
    }

    fn level(&mut self, level: &LevelPage, floor: u64) {
        let LevelPage { priority, next, runs, stored, aside } = level;
        let mut before = Before::first(floor);
        self.priority(*priority);
        self.stored_pieces(stored, floor);
        self.list(runs, |sink, run| sink.run(run, &mut before));
        self.difference(next.0, before.end());
        self.list(aside, |sink, AsidePage { group, run, deliveries, failures, state }| {
            sink.number32(*group);
            sink.run(run, &mut before);
            sink.number32(*deliveries);
            sink.number32(*failures);
            sink.aside_state(*state);
        });
    }

    fn aside_state(&mut self, state: AsideState) {
        match state {
            AsideState::Ready { behind } => {
                self.byte(0);
                self.number(behind.0);
            }
            AsideState::Delayed { due } => {
                self.byte(1);
                self.number(due.0);
            }
            AsideState::Retrying { due } => {
                self.byte(2);
                self.number(due.0);
            }
            AsideState::Leased { lease, holder, duration, deadline } => {
                self.byte(3);
                self.number(lease.0);
                self.number(holder.0);
                self.number(duration.0);
                self.number(deadline.0);
            }
        }
    }
}
