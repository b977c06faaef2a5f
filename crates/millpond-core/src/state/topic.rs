//! A topic in memory: per priority, messages never looked at as runs in line, and all others that are not finished
//! *aside*, keyed by sequence.
//!
//! ```text
//!            completion cursor        scan cursor           next
//!                   v                     v                   v
//!   ... finished ...[aside][ ][aside][ ]..[ run ][ run ][run ]
//! ```
//!
//! What is finished leaves nothing behind, so the first thing aside (or in line) is the completion cursor, and any
//! message is found by its sequence in logarithmic time.

use alloc::boxed::Box;

use millpond_types::{
    LeaseNumber, MessageId, Millis, Policy, Priority, RunTime, Sequence, SessionId, TopicName, TopicNumber, WallTime,
};

use crate::fact::{GroupNumber, NamespaceNumber};
use crate::page::RunPage;
use crate::state::ageing::Age;
use crate::state::bounds::LevelBounds;
use crate::state::bucket::Bucket;
use crate::state::few::Few;
use crate::state::hash::Hashes;
use crate::state::line::Line;
use crate::state::policies::Ruling;
use crate::state::ready::Ready;
use crate::state::resident::Residence;
use crate::state::resting::Resting;
use crate::state::series::Series;
use crate::state::stored::Stored;
use crate::state::{LeaseSlot, TopicSlot};
use crate::store::Shelf;
use crate::time_index::TimerKey;

#[derive(Clone)]
pub(crate) struct Topic {
    pub(crate) number: TopicNumber,
    pub(crate) group: GroupNumber,
    pub(crate) namespace: NamespaceNumber,
    pub(crate) name: TopicName,
    pub(crate) siblings: Siblings,
    /// Which of the namespace's rules it is under, as far as it knows.
    pub(crate) ruling: Ruling,
    pub(crate) hashes: Hashes,
    /// Where the sequences of a priority not used yet begin.
    pub(crate) floor: u64,
    /// Above every lease that was given out here. Where the next one begins the broker's numbers say, above those of other groups
    /// too; this one shows that they do, also in the replay of a journal from when each group counted by itself.
    pub(crate) next_lease: LeaseNumber,
    /// Priorities in use, lowest first.
    pub(crate) levels: Series<Level>,
    /// Lease runs by their first number.
    pub(crate) leases: Few<LeaseNumber, LeaseSlot>,
    /// Messages leased.
    pub(crate) in_flight: u64,
    /// Messages aside that are not leased.
    pub(crate) set_aside: u64,
    /// Messages in back-off.
    pub(crate) retrying: u64,
    /// Whether what is ready waits for these, as in strict order: by the policy under which something last happened to it.
    pub(crate) waits_for_retry: bool,
    pub(crate) paused: bool,
    /// Whether the start of its group has still to come to it. Until then nothing of it is delivered, and it stays though
    /// it is empty: that is how the start knows, when it comes, what came later. It stays in memory, too: what others
    /// finish is saved there, and no finish waits for the disk.
    pub(crate) is_held: bool,
    /// Of a topic that was leased from under a rate.
    pub(crate) bucket: Option<Box<Bucket>>,
    /// Where it stands, if that is not for the topic's messages alone to say.
    pub(crate) age: Option<Box<Age>>,
    /// The priority at which it stands in the order as ready to deliver.
    pub(crate) offered: Option<Priority>,
    /// How much of its levels stays in memory.
    pub(crate) bounds: LevelBounds,
    pub(crate) touched: Touched,
    pub(crate) stored: Stored,
    pub(crate) residence: Residence,
}

/// Whether a topic is in [`State::touched`](super::State), and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touched {
    No,
    /// It, or a piece of a line, came into memory, which is nothing that happened to it.
    Came,
    /// Something happened to it.
    Changed,
}

/// The topics of one number in memory: those of the groups of a namespace, in the order of the groups' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Siblings {
    /// Whether this one is the first.
    pub(crate) is_first: bool,
    pub(crate) next: Option<TopicSlot>,
}

/// One priority of a topic.
#[derive(Clone)]
pub(crate) struct Level {
    pub(crate) priority: Priority,
    pub(crate) next: Sequence,
    /// Never looked at.
    pub(crate) line: Line,
    /// Looked at or set aside, not finished, by first sequence.
    /// Each in memory of its own: most topics have none, and a node of a map has room for eleven.
    pub(crate) aside: Few<Sequence, Box<Aside>>,
    /// How many of these rest, in [units](RunPage::units).
    pub(crate) rests: u32,
    /// How many rest or are ready, in units.
    pub(crate) unleased: u32,
    /// About how many bytes those aside take beside themselves.
    pub(crate) aside_bytes: usize,
    /// Those that rest in the store.
    pub(crate) resting: Option<Box<Resting>>,
    /// Those aside that are ready.
    pub(crate) ready: Ready,
    /// Runs published with a TTL, by first sequence, until all of the run is finished. Most topics have none.
    pub(crate) expiries: Few<Sequence, Box<Expiry>>,
}

/// When the TTL of a run is over.
#[derive(Clone)]
pub(crate) struct Expiry {
    /// Behind its last message.
    pub(crate) end: Sequence,
    pub(crate) timer: TimerKey,
}

/// Messages aside, all in the same state.
#[derive(Clone)]
pub(crate) struct Aside {
    pub(crate) run: RunPage,
    pub(crate) deliveries: u32,
    pub(crate) failures: u32,
    /// Since when they wait, but for the times at which they were leased: from their publish on, the end of a delay, or since
    /// they were redriven.
    pub(crate) since: WallTime,
    pub(crate) state: AsideWhy,
}

/// What messages that are put aside have been through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Past {
    pub(crate) deliveries: u32,
    pub(crate) failures: u32,
    pub(crate) since: WallTime,
}

impl Past {
    /// Of what was published and never looked at.
    pub(crate) fn of_line(run: &RunPage) -> Past {
        Past { deliveries: 0, failures: 0, since: run.since() }
    }
}

impl Aside {
    pub(crate) fn past(&self) -> Past {
        Past { deliveries: self.deliveries, failures: self.failures, since: self.since }
    }
}

/// Why messages are aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AsideWhy {
    Ready { behind: Sequence },
    Delayed { due: WallTime, timer: TimerKey },
    Retrying { due: RunTime, timer: TimerKey },
    Leased(LeaseSlot),
}

/// A run of leases: consecutive lease numbers for consecutive messages.
#[derive(Clone)]
pub(crate) struct Lease {
    pub(crate) slot: TopicSlot,
    pub(crate) number: LeaseNumber,
    pub(crate) priority: Priority,
    pub(crate) first: Sequence,
    pub(crate) count: u32,
    /// The first lease of the run that it was given in, by whatever policy was in force then.
    pub(crate) run: Option<LeaseNumber>,
    pub(crate) holder: SessionId,
    /// What its holder is charged for it.
    pub(crate) bytes: u32,
    pub(crate) duration: Millis,
    pub(crate) deadline: RunTime,
    /// Set where no session holds the lease.
    pub(crate) timer: Option<TimerKey>,
    /// The neighbours in the holder's list.
    pub(crate) previous: Option<LeaseSlot>,
    pub(crate) next: Option<LeaseSlot>,
    pub(crate) left: Left,
    pub(crate) is_left_out: bool,
}

/// Whether a lease ends with nobody's doing as soon as its turn comes ([`crate::left_behind`]). Nothing of it is journaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    No,
    /// Its session was resumed, and the client did not name it, or not all of its run. Who extends it has it all the same.
    Unnamed,
    /// Its session is over, or has led its group for too long.
    Over,
}

/// What a lease is given on.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) run: Option<LeaseNumber>,
    pub(crate) holder: SessionId,
    pub(crate) duration: Millis,
    pub(crate) deadline: RunTime,
    pub(crate) left: Left,
    /// Whether a heartbeat has left it out, so that nobody holds it any more. Forgotten at a start.
    pub(crate) is_left_out: bool,
}

impl Lease {
    pub(crate) fn terms(&self) -> Terms {
        let Lease { run, holder, duration, deadline, left, is_left_out, .. } = *self;
        Terms { run, holder, duration, deadline, left, is_left_out }
    }

    /// The number behind the last of the run.
    pub(crate) fn end(&self) -> LeaseNumber {
        LeaseNumber(self.number.0 + u64::from(self.count))
    }
}

impl Topic {
    /// A topic without messages.
    pub(crate) fn new(
        number: TopicNumber,
        (group, namespace): (GroupNumber, NamespaceNumber),
        name: TopicName,
        floor: u64,
        next_lease: LeaseNumber,
        (hashes, paused, is_held, bounds): (Hashes, bool, bool, LevelBounds),
        stored: Stored,
    ) -> Topic {
        Topic {
            number,
            group,
            namespace,
            name,
            siblings: Siblings { is_first: false, next: None },
            ruling: Ruling::default(),
            hashes,
            floor,
            next_lease,
            levels: Series::new(),
            leases: Few::new(),
            in_flight: 0,
            set_aside: 0,
            retrying: 0,
            waits_for_retry: false,
            paused,
            is_held,
            bucket: None,
            age: None,
            offered: None,
            bounds,
            touched: Touched::No,
            stored,
            residence: Residence::default(),
        }
    }

    pub(crate) fn level(&self, priority: Priority) -> Option<&Level> {
        self.levels.get(self.place(priority)).filter(|level| level.priority == priority)
    }

    pub(crate) fn level_mut(&mut self, priority: Priority) -> Option<&mut Level> {
        let at = self.place(priority);
        self.levels.get_mut(at).filter(|level| level.priority == priority)
    }

    /// The level of a priority, made where it is not there yet.
    pub(crate) fn level_or_new(&mut self, priority: Priority) -> &mut Level {
        let floor = Sequence(self.floor);
        let at = self.place(priority);
        if self.levels.get(at).is_none_or(|level| level.priority != priority) {
            self.levels.insert(at, Level::new(priority, floor, (self.bounds, floor)));
        }
        &mut self.levels[at]
    }

    /// Where the level of a priority is, or would be put.
    fn place(&self, priority: Priority) -> usize {
        self.levels.partition_point(|level| level.priority < priority)
    }

    /// The next sequence of a priority.
    pub(crate) fn next(&self, priority: Priority) -> Sequence {
        self.level(priority).map_or(Sequence(self.floor), |level| level.next)
    }

    /// Where no sequence of any priority was given out yet.
    pub(crate) fn next_of_all(&self) -> u64 {
        self.levels.iter().map(|level| level.next.0).fold(self.floor, u64::max)
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched != Touched::No
    }

    /// Whether any sequence was given out since its group has it.
    pub(crate) fn was_published_to(&self) -> bool {
        self.next_of_all() > self.floor
    }

    /// Whether it holds nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.line.is_empty() && level.aside.is_empty() && level.resting.is_none())
    }

    /// Whether the job that settles the topics of a group comes to it. Any other is settled by what happens to it next.
    pub(crate) fn is_gone_over(&self) -> bool {
        self.highest_ready().is_some() || self.is_empty()
    }

    /// How many messages it holds that are not leased.
    pub(crate) fn waiting(&self) -> u64 {
        self.set_aside + self.levels.iter().map(|level| level.line.waiting()).sum::<u64>()
    }

    /// The last message of each priority at which one is not leased, from the highest on.
    pub(crate) fn last_waiting(&self) -> impl Iterator<Item = (Priority, Sequence)> {
        let any = self.waiting() > 0;
        let levels = self.levels.iter().rev().filter(move |_| any);
        levels.filter_map(|level| Some((level.priority, level.last_waiting()?)))
    }

    /// The level at which a message could be delivered now, if any: its priority, unless it was raised.
    pub(crate) fn ready_level(&self, policy: &Policy) -> Option<Priority> {
        if self.paused || self.is_held || self.waits_for_retry || self.is_dry() || self.room(policy) == 0 {
            return None;
        }
        self.highest_ready().map(|ready| self.stand(ready))
    }

    /// The highest priority at which a message is ready, whatever keeps it from being delivered.
    pub(crate) fn highest_ready(&self) -> Option<Priority> {
        self.levels.iter().rev().find(|level| level.is_ready()).map(|level| level.priority)
    }

    /// What it has to offer.
    pub(crate) fn shelf(&self) -> Shelf {
        match self.highest_ready() {
            _ if self.in_flight > 0 => Shelf::Busy,
            _ if self.is_held || self.waits_for_retry || self.is_dry() => Shelf::Idle,
            Some(priority) => Shelf::Ready(self.stand(priority)),
            None => Shelf::Idle,
        }
    }

    /// Whether it has to wait for a token of its rate.
    pub(crate) fn is_dry(&self) -> bool {
        self.bucket.as_ref().is_some_and(|bucket| bucket.dry.is_some())
    }

    /// How many more messages may be leased now.
    pub(crate) fn room(&self, policy: &Policy) -> u64 {
        match policy.leases_at_a_time() {
            None => u64::MAX,
            Some(1) if self.is_held_by_retry(policy) => 0,
            Some(1) if self.in_flight == 0 => u64::from(policy.run),
            Some(limit) => u64::from(limit).saturating_sub(self.in_flight),
        }
    }

    /// Whether what is in retry holds all else of it: in strict order nothing may overtake it.
    pub(crate) fn is_held_by_retry(&self, policy: &Policy) -> bool {
        self.retrying > 0 && policy.is_strict()
    }

    /// The lease run that a lease number is of.
    pub(crate) fn lease(&self, number: LeaseNumber) -> Option<LeaseSlot> {
        // Most are asked for by the first of their numbers.
        let is_first = self.leases.get(&number);
        is_first.or_else(|| self.leases.range(..number).next_back().map(|(_, slot)| slot)).copied()
    }

    pub(crate) fn id(&self, priority: Priority, sequence: Sequence) -> MessageId {
        MessageId { topic: self.number, priority, sequence }
    }
}

impl Level {
    pub(crate) fn new(priority: Priority, next: Sequence, (bounds, floor): (LevelBounds, Sequence)) -> Level {
        Level {
            priority,
            next,
            line: Line::new(bounds, floor),
            aside: Few::new(),
            rests: 0,
            unleased: 0,
            aside_bytes: 0,
            resting: None,
            ready: Ready::default(),
            expiries: Few::new(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.line.is_empty() || !self.ready.is_empty()
    }

    /// How many messages are not finished.
    pub(crate) fn held(&self) -> u64 {
        let aside = self.aside.values().map(|aside| u64::from(aside.run.count));
        self.line.waiting() + aside.sum::<u64>() + self.resting_messages()
    }

    /// The next sequence that was never looked at.
    pub(crate) fn scan(&self) -> Sequence {
        self.line.first().unwrap_or(self.next)
    }

    /// Every sequence before this one is finished.
    pub(crate) fn completion(&self) -> Sequence {
        let aside = self.aside.keys().next().copied().unwrap_or(self.next);
        let rests = self.resting_pieces().next().map_or(self.next, |piece| piece.first);
        aside.min(rests).min(self.scan())
    }

    /// The entry aside that a message is of.
    pub(crate) fn aside_of(&self, sequence: Sequence) -> Option<(Sequence, &Aside)> {
        let (first, aside) = self.aside.range(..=sequence).next_back()?;
        aside.run.contains(sequence).then_some((*first, aside))
    }

    /// The first and the end of the first messages aside of those from `first` on and before `end`.
    pub(crate) fn aside_between(&self, first: Sequence, end: Sequence) -> Option<(Sequence, Sequence)> {
        let next = || self.aside.range(first..end).next().map(|(_, aside)| &**aside);
        let aside = self.aside_of(first).map(|(_, aside)| aside).or_else(next)?;
        Some((aside.run.first, aside.run.end()))
    }

    /// Whether any message from `first` on and before `end` is in memory. The TTLs of all others are their pieces' to know.
    pub(crate) fn holds_any(&self, first: Sequence, end: Sequence) -> bool {
        self.line.runs_between(first, end).next().is_some()
            || self.aside_of(first).is_some()
            || self.aside.range(first..end).next().is_some()
    }

    /// The last message that is not leased.
    fn last_waiting(&self) -> Option<Sequence> {
        let is_any_aside = self.rests > 0 || !self.ready.is_empty();
        let mut aside = self.aside.values().rev().filter(|aside| !matches!(aside.state, AsideWhy::Leased(_)));
        let aside = if is_any_aside { aside.next() } else { None };
        let rests = self.resting_pieces().next_back().map(|piece| piece.end);
        let aside = aside.map(|aside| aside.run.end()).max(rests);
        aside.map(|end| Sequence(end.0 - 1)).max(self.line.last())
    }

    /// What would be delivered next: the key of an entry aside, or the front of the line.
    pub(crate) fn front(&self, is_strict: bool) -> Option<Front> {
        let Some((behind, first)) = self.ready.first(is_strict) else {
            return (!self.line.is_empty()).then_some(Front::Line);
        };
        // Where nothing is in line any more, everything was looked at.
        let is_next = self.line.first().is_none_or(|scan| behind <= scan);
        Some(if is_next { Front::Aside(first) } else { Front::Line })
    }

    /// The first message that goes next in strict order, of a level that has one.
    pub(crate) fn next_in_strict_order(&self) -> Sequence {
        match self.front(true).expect("a ready level has a front") {
            Front::Line => self.scan(),
            Front::Aside(first) => first,
        }
    }

    /// The run that goes next, if it is in memory, with its deliveries and failures.
    pub(crate) fn front_run(&self, is_strict: bool) -> Option<(&RunPage, (u32, u32))> {
        match self.front(is_strict)? {
            Front::Line => Some((self.line.front()?, (0, 0))),
            Front::Aside(first) => {
                let aside = &self.aside[&first];
                Some((&aside.run, (aside.deliveries, aside.failures)))
            }
        }
    }
}

/// What a level would deliver next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// The entry aside with this first sequence.
    Aside(Sequence),
    /// The front of the line.
    Line,
}
