//! Which messages a group still has to do, as far as a journal's records tell.
//!
//! Records may be missing before, between and behind those that are read, so nothing here is certain to fit what came
//! before: a lease that nobody has heard of ends nothing. Where the records leave it open whether a message has ended, it
//! has not.

use std::collections::BTreeMap;

use bytes::Bytes;
use millpond_core::fact::{CopiedRun, DeadReason, Fact, Letter, Victims};
use millpond_core::page::{DeadPage, RunPage};
use millpond_types::block::Sizes;
use millpond_types::{LeaseNumber, Priority, Sequence, TopicNumber, WallTime};

use super::seen::Stretch;
use super::sorted::Sorted;

/// See the module.
#[derive(Default)]
pub struct Held {
    pub topics: BTreeMap<TopicNumber, Topic>,
    /// Above every number that is known to have been given out.
    pub floor: u64,
}

/// A topic by its number.
#[derive(Default)]
pub struct Topic {
    /// By their first message; no two overlap.
    pub runs: Sorted<(Priority, Sequence), Kept>,
    leases: Sorted<LeaseNumber, Leased>,
}

/// Messages that have not ended.
#[derive(Clone)]
pub struct Kept {
    pub run: RunPage,
    pub due: Option<WallTime>,
    /// How they became dead letters, if they did.
    pub death: Option<Box<Death>>,
}

/// How messages became dead letters.
#[derive(Clone)]
pub struct Death {
    pub reason: DeadReason,
    pub detail: Bytes,
    pub at: WallTime,
}

struct Leased {
    priority: Priority,
    first: Sequence,
    count: u32,
}

impl Held {
    /// Takes note of a fact that is about the group, or about all. `position` is where its block stands; `unknown` are those of its
    /// messages of which nothing else has told whether the group has them.
    pub fn note(&mut self, fact: Fact, position: u64, unknown: &[Stretch]) {
        match fact {
            Fact::Raised { floor } => self.floor = self.floor.max(floor),
            Fact::TopicCreated { topic, floor, lease, .. } => {
                self.floor = self.floor.max(floor).max(lease.0);
                self.topic(topic);
            }
            Fact::Copied { topic, messages, .. } => {
                for CopiedRun { priority, run, due } in messages {
                    self.keep(topic, priority, Kept { run, due, death: None });
                }
            }
            Fact::TopicVanished { topic, .. } => self.vanished(topic),
            Fact::Published { topic, priority, first, count, published, due, expires, sizes, .. } => {
                let expires = expires.unwrap_or(WallTime::NEVER);
                let run = RunPage { first, position, published, expires, sizes, marks: None, count, index: 0 };
                self.keep(topic, priority, Kept { run, due, death: None });
            }
            Fact::Leased { topic, priority, first, count, lease, .. } => {
                self.floor = self.floor.max(lease.0.saturating_add(count.into()));
                self.topic(topic).leases.insert(lease, Leased { priority, first, count });
            }
            Fact::Acked { topic, lease, count, .. } | Fact::Delivered { topic, lease, count, .. } => {
                _ = self.topic(topic).take_leased(lease, count)
            }
            Fact::Returned { topic, lease, count, .. } => _ = self.topic(topic).end_leases(lease, count),
            Fact::Died { topic, which, reason, detail, at, .. } => {
                let of = self.topic(topic);
                let victims = of.take_victims(which);
                let death = Death::new(reason, &detail, at);
                for (priority, kept) in victims {
                    of.keep(priority, Kept { death: Some(death.clone()), ..kept });
                }
            }
            Fact::Ended { topic, priority, first, count, .. } => _ = self.topic(topic).take(priority, first, count),
            Fact::Superseded { topic, which, .. } => _ = self.topic(topic).take_victims(which),
            Fact::Rescheduled { topic, priority, sequence, due, .. } => {
                let topic = self.topic(topic);
                for kept in topic.take(priority, sequence, 1) {
                    topic.keep(priority, Kept { due: Some(due), ..kept });
                }
            }
            Fact::Redriven { letter, topic, sequence: first, published, .. } => {
                self.end_letter(&letter);
                let (sizes, position) = (Sizes::Uniform(letter.extent.length), letter.extent.position);
                let expires = WallTime::NEVER;
                let run = RunPage { first, position, published, expires, sizes, marks: None, count: 1, index: 0 };
                self.keep(topic, letter.id.priority, Kept { run, due: None, death: None });
            }
            Fact::DeadPurged { letter } => self.end_letter(&letter),
            Fact::Moved { topic, priority, first, count, sizes, .. } => {
                let (published, expires) = (WallTime::default(), WallTime::NEVER);
                let all = RunPage { first, position, published, expires, sizes, marks: None, count, index: 0 };
                self.moved(topic, priority, &all, unknown);
            }
            Fact::DeadMoved { letter, .. } => self.letter_moved(*letter, position),
            // What they say is not about messages, or goes with what is lost.
            Fact::Created { .. }
            | Fact::NamespaceSet { .. }
            | Fact::NamespaceDeleted { .. }
            | Fact::GroupCreated { .. }
            | Fact::TopicRecalled { .. }
            | Fact::GroupReached { .. }
            | Fact::GroupStarted { .. }
            | Fact::TopicsSettled { .. }
            | Fact::GroupEnding { .. }
            | Fact::GroupDeleted { .. }
            | Fact::OfficeTaken { .. }
            | Fact::OfficeLeft { .. }
            | Fact::HandedOver { .. }
            | Fact::ExchangeCreated { .. }
            | Fact::ExchangeDeleted { .. }
            | Fact::Bound { .. }
            | Fact::Unbound { .. }
            | Fact::Paused { .. }
            | Fact::ProducerBatch { .. }
            | Fact::Extended { .. }
            | Fact::Declined { .. }
            | Fact::Drawn { .. }
            | Fact::Refilled { .. }
            | Fact::Aged { .. }
            | Fact::Waits { .. }
            | Fact::Ripened { .. }
            | Fact::Forgotten { .. } => {}
        }
    }

    fn topic(&mut self, number: TopicNumber) -> &mut Topic {
        self.floor = self.floor.max(number.0.saturating_add(1));
        self.topics.entry(number).or_default()
    }

    fn keep(&mut self, topic: TopicNumber, priority: Priority, kept: Kept) {
        self.floor = self.floor.max(kept.run.end().0);
        self.topic(topic).keep(priority, kept);
    }

    /// Messages lie at another place: each piece that there is of them does. Of those that are `unknown` this is what there is: as
    /// old as can be, due at once and without an end.
    fn moved(&mut self, topic: TopicNumber, priority: Priority, all: &RunPage, unknown: &[Stretch]) {
        self.floor = self.floor.max(all.end().0);
        let known = self.topics.get_mut(&topic).map(|of| of.take(priority, all.first, all.count)).unwrap_or_default();
        for (first, until) in unknown {
            let mut from = *first;
            for Kept { run, .. } in known.iter().filter(|kept| kept.run.first < *until && *first < kept.run.end()) {
                self.keep_moved(topic, priority, part(all, from, run.first));
                from = run.end();
            }
            self.keep_moved(topic, priority, part(all, from, *until));
        }
        for kept in known {
            let RunPage { first, published, expires, marks, .. } = kept.run.compact();
            let run = RunPage { published, expires, marks, ..part(all, first, kept.run.end()).compact() };
            self.keep(topic, priority, Kept { run, ..kept });
        }
    }

    fn keep_moved(&mut self, topic: TopicNumber, priority: Priority, run: RunPage) {
        if run.count > 0 {
            self.keep(topic, priority, Kept { run, due: None, death: None });
        }
    }

    fn letter_moved(&mut self, letter: DeadPage, position: u64) {
        let DeadPage { id, run, reason, detail, died, .. } = letter;
        self.topic(id.topic).take(id.priority, id.sequence, 1);
        let run = RunPage { position, ..run };
        let death = Some(Death::new(reason, &detail, died));
        self.keep(id.topic, id.priority, Kept { run, due: None, death });
    }

    fn end_letter(&mut self, letter: &Letter) {
        self.topic(letter.id.topic).take(letter.id.priority, letter.id.sequence, 1);
    }

    /// Nothing was left of a topic, whatever we know of the ends of its messages; its dead letters live apart.
    fn vanished(&mut self, number: TopicNumber) {
        let topic = self.topic(number);
        topic.leases.clear();
        topic.runs.retain(|kept| kept.death.is_some());
        if topic.runs.is_empty() {
            self.topics.remove(&number);
        }
    }
}

/// A part of a run; without messages where it ends before it begins.
fn part(run: &RunPage, from: Sequence, until: Sequence) -> RunPage {
    let (index, count) = (from.0 - run.first.0, until.0.saturating_sub(from.0));
    RunPage { first: from, index: run.index + index as u32, count: count as u32, ..run.clone() }
}

impl Death {
    /// The text is cut out of its batch, which is not kept for it.
    fn new(reason: DeadReason, detail: &[u8], at: WallTime) -> Box<Death> {
        Box::new(Death { reason, detail: Bytes::copy_from_slice(detail), at })
    }
}

impl Topic {
    fn keep(&mut self, priority: Priority, kept: Kept) {
        self.runs.insert((priority, kept.run.first), kept);
    }

    /// Takes out what there is of some messages.
    fn take(&mut self, priority: Priority, first: Sequence, count: u32) -> Vec<Kept> {
        let end = Sequence(first.0.saturating_add(count.into()));
        let before = self.runs.range((priority, Sequence(0))..(priority, first)).next_back();
        let before = before.filter(|(_, kept)| kept.run.end() > first).map(|(at, _)| at);
        let within = self.runs.range((priority, first)..(priority, end)).map(|(at, _)| at);
        let mut taken = Vec::new();
        for at in before.into_iter().chain(within).collect::<Vec<_>>() {
            let mut kept = self.runs.remove(&at).expect("it was just found");
            let skipped = first.0.saturating_sub(kept.run.first.0) as u32;
            if skipped > 0 {
                let front = Kept { run: kept.run.split_front(skipped), ..kept.clone() };
                self.keep(priority, front);
            }
            let meant = u64::from(kept.run.count).min(end.0 - kept.run.first.0) as u32;
            taken.push(Kept { run: kept.run.split_front(meant), ..kept.clone() });
            if kept.run.count > 0 {
                self.keep(priority, kept);
            }
        }
        taken
    }

    fn take_victims(&mut self, which: Victims) -> Vec<(Priority, Kept)> {
        match which {
            Victims::Leased { lease, count } => self.take_leased(lease, count),
            Victims::Waiting { priority, first, count } => {
                self.take(priority, first, count).into_iter().map(|kept| (priority, kept)).collect()
            }
        }
    }

    fn take_leased(&mut self, lease: LeaseNumber, count: u32) -> Vec<(Priority, Kept)> {
        let mut taken = Vec::new();
        for Leased { priority, first, count } in self.end_leases(lease, count) {
            taken.extend(self.take(priority, first, count).into_iter().map(|kept| (priority, kept)));
        }
        taken
    }

    /// Forgets leases, and says which messages those were of that we know.
    fn end_leases(&mut self, lease: LeaseNumber, count: u32) -> Vec<Leased> {
        let end = lease.0.saturating_add(count.into());
        let overlap = |(at, leased): &(LeaseNumber, &Leased)| at.0 + u64::from(leased.count) > lease.0;
        let before = self.leases.range(LeaseNumber(0)..lease).next_back().filter(overlap).map(|(at, _)| at);
        let within = self.leases.range(lease..LeaseNumber(end)).map(|(at, _)| at);
        let mut ended = Vec::new();
        for at in before.into_iter().chain(within).collect::<Vec<_>>() {
            let Leased { priority, first, count } = self.leases.remove(&at).expect("it was just found");
            let part = |from: u64, to: u64| {
                (from < to).then(|| Leased {
                    priority,
                    first: Sequence(first.0 + (from - at.0)),
                    count: (to - from) as u32,
                })
            };
            let (from, to, last) = (lease.0.max(at.0), end.min(at.0 + u64::from(count)), at.0 + u64::from(count));
            part(at.0, from).into_iter().for_each(|part| self.leases.insert(at, part));
            part(to, last).into_iter().for_each(|part| self.leases.insert(LeaseNumber(to), part));
            ended.extend(part(from, to));
        }
        ended
    }
}
