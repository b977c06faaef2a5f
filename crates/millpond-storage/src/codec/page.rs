//! The byte form of pages.

use millpond_core::page::{
    AgePage, AsidePage, AsideState, BucketPage, DedupPage, DuePage, ExchangePage, GroupPage, LevelPage, NamespacePage,
    NumbersPage, Page, PiecePage, ProducerPage, TopicPage,
};
use millpond_core::store::{Clock, Key, Moment, SHELVES, Shelf};
use millpond_types::{Counts, LeaseNumber, Priority, ProducerId, RunTime, Sequence, SessionId, Tally, WallTime};

use super::run::Before;
use super::{BadRecord, Sink, Source};

/// Beside the priority of a level some of whose messages rest in pieces: most have none.
const HAS_RESTING: u8 = 16;

/// Beside the number of a topic's levels, of which there are [`Priority::COUNT`] at most, with two bits below it.
const WAITS_FOR_RETRY: u64 = 64;

/// Appends a page: a byte for its kind, what its key says, and the rest.
pub fn encode_page(page: &Page, out: &mut Vec<u8>) {
    let mut sink = Sink::new(out);
    match page {
        Page::Numbers(_) => sink.byte(1),
        Page::Namespace(page) => {
            sink.byte(2);
            sink.number32(page.number);
        }
        Page::Topic(page) => {
            sink.byte(3);
            sink.number32(page.group);
            sink.string(page.name.as_bytes());
        }
        Page::Dead(page) => {
            sink.byte(4);
            sink.key_of_dead(page);
        }
        Page::Dedup(page) => {
            sink.byte(5);
            sink.number32(page.namespace);
            sink.wide(page.hash);
        }
        Page::Producer(page) => {
            sink.byte(6);
            sink.number32(page.namespace);
            sink.wide(page.id.0);
        }
        Page::Due(page) => {
            sink.byte(7);
            sink.byte(page.at.clock.byte());
            sink.number(page.at.at);
            sink.number32(page.group);
            sink.string(page.name.as_bytes());
        }
        Page::Exchange(page) => {
            sink.byte(9);
            sink.number32(page.namespace);
            sink.string(page.name.as_bytes());
        }
        Page::Piece(page) => {
            sink.byte(8);
            sink.number32(page.group);
            sink.number(page.topic.0);
            sink.priority(page.priority);
            sink.number(page.first().0);
        }
    }
    sink.rest_of_page(page);
}

/// Reads the next page.
pub fn decode_page(source: &mut Source<'_>) -> Result<Page, BadRecord> {
    let key = match source.byte()? {
        1 => Key::Numbers,
        2 => Key::Namespace(source.number32()?),
        3 => {
            let (group, name) = (source.number32()?, source.topic_name()?);
            // The shelf is no part of the page.
            Key::Topic { group, shelf: Shelf::Idle, name }
        }
        4 => source.key_of_dead()?,
        5 => Key::Dedup { namespace: source.number32()?, hash: source.wide()? },
        6 => Key::Producer { namespace: source.number32()?, id: ProducerId(source.wide()?) },
        7 => Key::Due { at: source.moment_of_clock()?, group: source.number32()?, name: source.topic_name()? },
        8 => Key::Piece {
            group: source.number32()?,
            topic: source.topic()?,
            priority: source.priority()?,
            first: Sequence(source.number()?),
        },
        9 => Key::Exchange { namespace: source.number32()?, name: source.exchange_name()? },
        _ => return Err(source.bad("is a page of an unknown kind")),
    };
    source.rest_of_page(&key)
}

impl Sink<'_> {
    /// What a page says beyond its key.
    pub(super) fn rest_of_page(&mut self, page: &Page) {
        match page {
            Page::Numbers(numbers) => {
                let NumbersPage {
                    hash_key,
                    next_topic,
                    next_namespace,
                    next_group,
                    high_water,
                    epochs,
                    raised,
                    run,
                    wall,
                    epoch,
                } = numbers;
                self.key(*hash_key);
                self.number(*next_topic);
                self.number32(*next_namespace);
                self.number32(*next_group);
                self.number(*high_water);
                self.number(epochs.0);
                self.number(*raised);
                self.number(run.0);
                self.number(wall.0);
                self.number32(*epoch);
            }
            Page::Namespace(page) => {
                let NamespacePage { number: _, name, policy, rules, version, paused, groups } = &**page;
                self.string(name.as_bytes());
                self.policy(policy);
                self.rules(rules);
                self.number(*version);
                self.list(paused, Sink::pause);
                self.list(groups, Sink::group);
            }
            Page::Topic(page) => {
                let TopicPage {
                    number,
                    group: _,
                    name: _,
                    floor,
                    next_lease,
                    epoch,
                    levels,
                    bucket,
                    age,
                    waits_for_retry,
                } = page;
                self.number(number.0);
                self.number(*floor);
                self.difference(next_lease.0, *floor);
                self.number32(*epoch);
                // Most topics have one level and nothing else, and very many of them are kept.
                let more = u64::from(bucket.is_some()) + 2 * u64::from(age.is_some());
                let waits = if *waits_for_retry { WAITS_FOR_RETRY } else { 0 };
                self.number(waits + 4 * levels.len() as u64 + more);
                levels.iter().for_each(|level| self.level(level, *floor));
                if let Some(BucketPage { full, dry }) = bucket {
                    self.number(*full);
                    self.option(*dry, |sink, until| sink.number(until.0));
                }
                if let Some(AgePage { level, raise }) = age {
                    self.priority(*level);
                    self.option(*raise, |sink, at| sink.number(at.0));
                }
            }
            Page::Dead(dead) => self.rest_of_dead(dead),
            Page::Dedup(DedupPage { namespace: _, hash: _, id, until }) => {
                self.message_id(*id);
                self.until(*until);
            }
            Page::Producer(ProducerPage { namespace: _, id: _, instance, used, last, batches }) => {
                self.number32(*instance);
                self.number(used.0);
                self.number(*last);
                self.list(batches, Sink::outcomes);
            }
            Page::Due(DuePage { at: _, group: _, name: _, shelf }) => self.byte(shelf.byte()),
            Page::Piece(PiecePage { topic: _, group: _, priority: _, messages }) => self.piece(messages),
            Page::Exchange(page) => {
                let ExchangePage { namespace: _, name: _, kind, unroutable, version, bindings } = &**page;
                self.exchange_kind(*kind);
                self.unroutable(*unroutable);
                self.number(*version);
                self.list(bindings, Sink::binding);
            }
        }
    }
}

impl Source<'_> {
    /// The page of a key, from what it says beyond that.
    pub(super) fn rest_of_page(&mut self, key: &Key) -> Result<Page, BadRecord> {
        Ok(match key {
            Key::Numbers => Page::Numbers(NumbersPage {
                hash_key: self.key()?,
                next_topic: self.number()?,
                next_namespace: self.number32()?,
                next_group: self.number32()?,
                high_water: self.number()?,
                epochs: self.leader_epoch()?,
                raised: self.number()?,
                run: RunTime(self.number()?),
                wall: self.wall()?,
                epoch: self.number32()?,
            }),
            Key::Namespace(number) => Page::Namespace(Box::new(NamespacePage {
                number: *number,
                name: self.namespace_name()?,
                policy: self.policy()?,
                rules: self.rules()?,
                version: self.number()?,
                paused: self.list(Source::pause)?,
                groups: self.list(Source::group)?,
            })),
            Key::Topic { group, shelf: _, name } => {
                let (number, floor) = (self.topic()?, self.number()?);
                let next_lease = LeaseNumber(self.beside(floor)?);
                let epoch = self.number32()?;
                let parts = self.number()?;
                let waits_for_retry = parts & WAITS_FOR_RETRY != 0;
                let parts = parts & !WAITS_FOR_RETRY;
                let levels = (0..parts / 4).map(|_| self.level(floor)).collect::<Result<_, _>>()?;
                let bucket = if parts & 1 != 0 { Some(self.bucket()?) } else { None };
                let age = if parts & 2 != 0 { Some(self.age()?) } else { None };
                let (group, name) = (*group, name.clone());
                let page =
                    TopicPage { number, group, name, floor, next_lease, epoch, levels, bucket, age, waits_for_retry };
                Page::Topic(page)
            }
            Key::Dead { .. } => Page::Dead(self.rest_of_dead(key)?),
            Key::Dedup { namespace, hash } => {
                let (id, until) = (self.message_id()?, self.until()?);
                Page::Dedup(DedupPage { namespace: *namespace, hash: *hash, id, until })
            }
            Key::Producer { namespace, id } => {
                let (instance, used, last) = (self.number32()?, self.wall()?, self.number()?);
                let batches = self.list(Source::outcomes)?;
                Page::Producer(ProducerPage { namespace: *namespace, id: *id, instance, used, last, batches })
            }
            Key::Exchange { namespace, name } => Page::Exchange(Box::new(ExchangePage {
                namespace: *namespace,
                name: name.clone(),
                kind: self.exchange_kind()?,
                unroutable: self.unroutable()?,
                version: self.number()?,
                bindings: self.list(Source::binding)?,
            })),
            Key::Due { at, group, name } => {
                let (at, group, name) = (*at, *group, name.clone());
                Page::Due(DuePage { at, group, name, shelf: self.shelf()? })
            }
            Key::Piece { group, topic, priority, first } => {
                let (group, topic, priority) = (*group, *topic, *priority);
                Page::Piece(PiecePage { topic, group, priority, messages: self.piece(*first)? })
            }
        })
    }
}

impl Source<'_> {
    fn group(&mut self) -> Result<GroupPage, BadRecord> {
        Ok(GroupPage {
            number: self.number32()?,
            name: self.group_name()?,
            is_ending: self.flag()?,
            start: self.start()?,
            starting: self.option(Source::reached)?,
            unsettled: self.option(Source::number)?,
            office: self.option(Source::office)?.map(Box::new),
            counts: self.counts()?,
            tally: self.tally()?,
            spans: self.spans()?,
            bytes: self.number()?,
            topics: self.number()?,
            shelves: self.shelves()?,
        })
    }

    fn bucket(&mut self) -> Result<BucketPage, BadRecord> {
        let full = self.number()?;
        Ok(BucketPage { full, dry: self.option(|source| source.number().map(RunTime))? })
    }

    fn age(&mut self) -> Result<AgePage, BadRecord> {
        Ok(AgePage { level: self.priority()?, raise: self.option(Self::wall)? })
    }

    fn moment_of_clock(&mut self) -> Result<Moment, BadRecord> {
        let clock = Clock::from_byte(self.byte()?).ok_or(self.bad("has an unknown clock"))?;
        Ok(Moment { clock, at: self.number()? })
    }

    fn tally(&mut self) -> Result<Tally, BadRecord> {
        let (accepted, declined) = (self.number()?, self.number()?);
        let (superseded, dropped) = (self.number()?, self.number()?);
        Ok(Tally { accepted, declined, superseded, dropped, retained_out: self.number()? })
    }

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
        let byte = self.byte()?;
        Ok(LevelPage {
            priority: Priority::new(byte & !HAS_RESTING).ok_or(self.bad("has a priority past 9"))?,
            stored: self.stored_pieces(floor)?,
            runs: self.list(|source| source.run(&mut before))?,
            next: Sequence(self.beside(before.end())?),
            aside: self.list(|source| source.aside(&mut before))?,
            resting: if byte & HAS_RESTING != 0 { self.stored_resting(floor)? } else { Vec::new() },
        })
    }

    pub(super) fn aside(&mut self, before: &mut Before) -> Result<AsidePage, BadRecord> {
        let run = self.run(before)?;
        Ok(AsidePage {
            since: WallTime(self.beside(run.published.0)?),
            run,
            deliveries: self.number32()?,
            failures: self.number32()?,
            state: self.aside_state()?,
        })
    }

    fn aside_state(&mut self) -> Result<AsideState, BadRecord> {
        Ok(match self.byte()? {
            0 => AsideState::Ready { behind: Sequence(self.number()?) },
            1 => AsideState::Delayed { due: self.wall()? },
            2 => AsideState::Retrying { due: RunTime(self.number()?) },
            kind @ (3 | 4) => {
                let lease = LeaseNumber(self.number()?);
                let run = if kind == 4 { Some(self.run_before(lease)?) } else { None };
                let holder = SessionId(self.number()?);
                AsideState::Leased { lease, run, holder, duration: self.millis()?, deadline: RunTime(self.number()?) }
            }
            _ => return Err(self.bad("has an unknown state of a message set aside")),
        })
    }
}

impl Sink<'_> {
    fn group(&mut self, group: &GroupPage) {
        let GroupPage {
            number,
            name,
            is_ending,
            office,
            start,
            starting,
            unsettled,
            counts,
            tally,
            spans,
            bytes,
            topics,
            shelves,
        } = group;
        self.number32(*number);
        self.string(name.as_bytes());
        self.flag(*is_ending);
        self.start(*start);
        self.option(starting.as_ref(), Sink::reached);
        self.option(*unsettled, Sink::number);
        self.option(office.as_deref(), Sink::office);
        self.counts(counts);
        self.tally(tally);
        self.spans(spans);
        self.number(*bytes);
        self.number(*topics);
        shelves.iter().for_each(|topics| self.number(*topics));
    }

    fn tally(&mut self, tally: &Tally) {
        let Tally { accepted, declined, superseded, dropped, retained_out } = tally;
        [accepted, declined, superseded, dropped, retained_out].into_iter().for_each(|count| self.number(*count));
    }

    fn counts(&mut self, counts: &Counts) {
        let Counts { waiting, delayed, retrying, leased, dead } = counts;
        [waiting, delayed, retrying, leased, dead].into_iter().for_each(|count| self.number(*count));
    }

    fn level(&mut self, level: &LevelPage, floor: u64) {
        let LevelPage { priority, next, runs, stored, aside, resting } = level;
        let mut before = Before::first(floor);
        self.byte(priority.level() as u8 | if resting.is_empty() { 0 } else { HAS_RESTING });
        self.stored_pieces(stored, floor);
        self.list(runs, |sink, run| sink.run(run, &mut before));
        self.difference(next.0, before.end());
        self.list(aside, |sink, aside| sink.aside(aside, &mut before));
        if !resting.is_empty() {
            self.stored_resting(resting, floor);
        }
    }

    pub(super) fn aside(&mut self, aside: &AsidePage, before: &mut Before) {
        let AsidePage { run, deliveries, failures, since, state } = aside;
        self.run(run, before);
        self.difference(since.0, run.published.0);
        self.number32(*deliveries);
        self.number32(*failures);
        self.aside_state(*state);
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
            AsideState::Leased { lease, run, holder, duration, deadline } => {
                self.byte(if run.is_some() { 4 } else { 3 });
                self.number(lease.0);
                if let Some(run) = run {
                    self.number(lease.0 - run.0);
                }
                self.number(holder.0);
                self.number(duration.0);
                self.number(deadline.0);
            }
        }
    }
}
