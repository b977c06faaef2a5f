//! Coalescing: of the messages of a topic one is worked on and one waits, and that one stands for all that came meanwhile.
//!
//! ```text
//!          publish            leased              publish
//!   idle ----------> waiting --------> running ------------> running + waiting --. publish: replaced, or declined
//!    ^                  ^                | |                     |         ^     |
//!    |                  '----------------' |                     |         '-----'
//!    |                   fails, released   |                     | acked, or it fails or is released: superseded
//!    '-------------------------------------'                     v
//!                       acked                                 waiting
//! ```
//!
//! The one that waits inherits the failures and the back-off of those that it stands for, so that a poisoned key comes to
//! its dead letter however often it is published; and, where there is ageing, how long they have waited, so that a topic that is
//! published to over and over comes to its turn. An end that is not giving way ends that. The machine keeps nothing of its own: its state
//! is which messages the topic holds. What waited before the policy came is worked off; the last of it is the one that
//! waits.
//!
//! Invariant: whatever stands for a message was published later, so the last one is never lost to an older one. Most come in
//! the order in which they were published; those that do not are dead letters that are redriven, and what was leased
//! together before the policy came. These are held against the others by [`Version`].

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use millpond_types::{
    Coalesce, LeaseNumber, MessageId, Millis, OnExpiry, Priority, PublishOutcome, Retry, RunTime, Sequence,
    TopicNumber, WallTime,
};

use crate::Core;
use crate::command::PublishRun;
use crate::decide::dedup::LookedUp;
use crate::decide::finish::backoff;
use crate::decide::storing::{Part, Runs, Terms, push};
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber, Victims};
use crate::page::RunPage;
use crate::state::TopicSlot;
use crate::state::hash::mix;
use crate::state::line::InLine;
use crate::state::topic::AsideWhy;
use crate::store::Want;

/// The message of a topic that waits.
pub(crate) struct Waiting {
    id: MessageId,
    version: Version,
    failures: u32,
    /// When its back-off ends.
    until: Option<RunTime>,
    /// When its delay ends.
    due: Option<WallTime>,
    since: WallTime,
    is_expired: bool,
    bytes: u64,
}

/// What a message takes over from those that it stands for.
#[derive(Default)]
struct Legacy {
    failures: u32,
    until: Option<RunTime>,
    since: Option<WallTime>,
}

/// What tells which of two messages of a topic was published later.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    published: WallTime,
    priority: Priority,
    sequence: Sequence,
    is_redriven: bool,
}

/// What becomes of a dead letter that goes back to work.
pub(crate) enum Comeback {
    /// It waits beside whatever does.
    Beside,
    /// It gives way to a message that was published later, and waits or is worked on.
    Behind(Version),
    /// It takes the place of one that was published before it.
    InPlaceOf(Waiting),
}

impl Core {
    /// Ends what waits in the topics of a publish and has expired, though time has not come to it yet, before anything is
    /// asked that depends on what waits.
    pub(super) fn expire_waiting(
        &mut self,
        namespace: NamespaceNumber,
        runs: &[PublishRun],
        looked_up: &mut LookedUp,
        log: &mut dyn FactLog,
    ) {
        let mut letters = BTreeSet::new();
        for run in runs {
            let policy = self.state.namespaces[namespace].policies.of_name(&run.topic);
            if policy.coalesce == Coalesce::Off {
                continue;
            }
            let becomes_letter = policy.on_expiry == OnExpiry::Dead;
            for at in 0..self.state.namespaces[namespace].groups.len() {
                let group = self.state.namespaces[namespace].groups[at];
                if let Some(slot) = self.state.topics.find(group, &run.topic) {
                    letters.extend(self.expire_one(slot, log).filter(|_| becomes_letter));
                }
            }
        }
        looked_up.died(&letters);
    }

    /// Ends the message of a topic that waits, if it has expired. Where several wait from before the policy came, they are left
    /// to time: what is before the last of them may be on the disk.
    fn expire_one(&mut self, slot: TopicSlot, log: &mut dyn FactLog) -> Option<MessageId> {
        let topic = &self.state.topics[slot];
        let (priority, sequence) = topic.last_waiting().next().filter(|_| topic.waiting() == 1)?;
        let Waiting { id, is_expired: true, .. } = self.unleased(slot, priority, sequence) else { return None };
        self.expire(slot, priority, sequence, 1, log);
        Some(id)
    }

    /// Takes messages of a topic in of which one waits: the `latest`, or the first.
    pub(super) fn coalesce(
        &mut self,
        namespace: NamespaceNumber,
        mut part: Part<'_>,
        terms: &Terms,
        latest: bool,
        outcomes: &mut Runs,
        log: &mut dyn FactLog,
    ) {
        let groups = self.state.namespaces[namespace].groups.clone();
        let waiting = |group: &GroupNumber| self.waiting(self.state.topics.find(*group, &part.run.topic)?);
        let waiting: Vec<Option<Waiting>> = groups.iter().map(waiting).collect();
        if latest {
            return self.take_the_place(
                namespace,
                part,
                terms,
                groups.into_iter().zip(waiting).collect(),
                outcomes,
                log,
            );
        }
        let in_place = groups.iter().zip(&waiting).filter_map(|(group, waiting)| Some((*group, waiting.as_ref()?.id)));
        let in_place: Vec<(GroupNumber, MessageId)> = in_place.collect();
        let first_place = in_place.first().filter(|(group, _)| *group == groups[0]).map(|(_, id)| *id);
        let id = match first_place {
            Some(id) if in_place.len() == groups.len() => id,
            _ => {
                let except: Vec<GroupNumber> = in_place.into_iter().map(|(group, _)| group).collect();
                let (first, priority) = (part.split_front(1), part.run.priority);
                let id = self.store_at(namespace, first, (priority, except.clone()), terms, log);
                for group in except {
                    self.commit(Fact::Declined { topic: id.topic, group, count: 1 }, log);
                }
                push(outcomes, 1, PublishOutcome::Queued { id });
                // The others are told what they would be told alone: what waits in the first group.
                first_place.unwrap_or(id)
            }
        };
        let count = part.count();
        if count > 0 {
            groups.into_iter().for_each(|group| self.commit(Fact::Declined { topic: id.topic, group, count }, log));
            push(outcomes, count, PublishOutcome::Coalesced { id, replaced: None });
        }
    }

    /// The last of the messages takes the place of the others and, in each group, of the one that waits.
    fn take_the_place(
        &mut self,
        namespace: NamespaceNumber,
        part: Part<'_>,
        terms: &Terms,
        groups: Vec<(GroupNumber, Option<Waiting>)>,
        outcomes: &mut Runs,
        log: &mut dyn FactLog,
    ) {
        let count = part.count();
        let places = groups.iter().filter_map(|(_, waiting)| waiting.as_ref().map(|waiting| waiting.id));
        let places: Vec<MessageId> = places.collect();
        let priority = places.iter().map(|id| id.priority).fold(part.run.priority, Priority::max);
        let first = self.store_at(namespace, part, (priority, Vec::new()), terms, log);
        let id = |index: u32| MessageId { sequence: Sequence(first.sequence.0 + u64::from(index)), ..first };
        let (topic, by) = (first.topic, id(count - 1).sequence);
        let replaced = places.first().copied();
        let outcome = match replaced {
            None => PublishOutcome::Queued { id: first },
            Some(_) => PublishOutcome::Coalesced { id: first, replaced },
        };
        push(outcomes, 1, outcome);
        for index in 1..count {
            push(outcomes, 1, PublishOutcome::Coalesced { id: id(index), replaced: Some(id(index - 1)) });
        }
        for (group, waiting) in groups {
            if count > 1 {
                let which = Victims::Waiting { priority, first: first.sequence, count: count - 1 };
                self.supersede((topic, group), which, (priority, by), Legacy::default(), log);
            }
            if let Some(old) = waiting {
                let which = Victims::Waiting { priority: old.id.priority, first: old.id.sequence, count: 1 };
                let slot = self.state.slot(topic, group);
                let until = self.later(self.back_off_of(slot, &old), terms.due);
                let since = self.earlier(slot, &self.unleased(slot, priority, by), self.waited(&old));
                self.supersede(
                    (topic, group),
                    which,
                    (priority, by),
                    Legacy { failures: old.failures, until, since },
                    log,
                );
            }
        }
    }

    /// The message that waits beside one that is given back, if one is enough of the two.
    pub(super) fn waits_beside(&mut self, slot: TopicSlot, log: &mut dyn FactLog) -> Option<Waiting> {
        if self.state.topics[slot].waiting() != 1 {
            // None waits, or what waited before the policy came is worked off.
            return None;
        }
        if self.bring_waiting(slot).is_err() {
            // One of many that rested before the policy came, and is on its way to memory. Both are worked off.
            return None;
        }
        self.expire_one(slot, log);
        self.waiting(slot)
    }

    /// Ends a message that is given back, and has waited since a time: the one that waits stands for it, and inherits its
    /// failures, its back-off, and how long it has waited.
    pub(super) fn give_way(
        &mut self,
        slot: TopicSlot,
        (lease, since): (LeaseNumber, WallTime),
        heir: &Waiting,
        failures: u32,
        until: Option<RunTime>,
        log: &mut dyn FactLog,
    ) {
        let which = Victims::Leased { lease, count: 1 };
        let (failures, until) = (failures.max(heir.failures), self.later(until, heir.due));
        let since = self.earlier(slot, heir, self.state.now.wall.since(since));
        self.supersede_in(slot, which, heir.version, Legacy { failures, until, since }, log);
    }

    /// Ends the one that waits: another one stands for it that was published later, and has failed so often itself. It was
    /// just given back or redriven, and waits.
    pub(crate) fn replace(
        &mut self,
        slot: TopicSlot,
        old: &Waiting,
        (by, failures): (Version, u32),
        log: &mut dyn FactLog,
    ) {
        let which = Victims::Waiting { priority: old.id.priority, first: old.id.sequence, count: 1 };
        let since = self.earlier(slot, &self.unleased(slot, by.priority, by.sequence), self.waited(old));
        let (failures, until) = (failures.max(old.failures), self.back_off_of(slot, old));
        self.supersede_in(slot, which, by, Legacy { failures, until, since }, log);
    }

    /// What is to become of a dead letter. What waits in its topic was brought.
    pub(crate) fn comeback(&mut self, slot: TopicSlot, letter: Version, log: &mut dyn FactLog) -> Comeback {
        if self.state.policy(slot).coalesce == Coalesce::Off {
            return Comeback::Beside;
        }
        self.expire_one(slot, log);
        let waiting = self.waiting(slot);
        let mut others = waiting.as_ref().map(|waiting| waiting.version).into_iter().chain(self.running(slot));
        match others.find(|other| letter.gives_way_to(other)) {
            Some(newer) => Comeback::Behind(newer),
            None => waiting.map_or(Comeback::Beside, Comeback::InPlaceOf),
        }
    }

    /// Ends the dead letter that has come back, or what it takes the place of.
    pub(crate) fn come_back(&mut self, slot: TopicSlot, letter: Version, comeback: &Comeback, log: &mut dyn FactLog) {
        match comeback {
            Comeback::Beside => {}
            Comeback::Behind(newer) => {
                let which = Victims::Waiting { priority: letter.priority, first: letter.sequence, count: 1 };
                self.supersede_in(slot, which, *newer, Legacy::default(), log);
            }
            Comeback::InPlaceOf(old) => self.replace(slot, old, (letter, 0), log),
        }
    }

    fn supersede_in(&mut self, slot: TopicSlot, which: Victims, by: Version, legacy: Legacy, log: &mut dyn FactLog) {
        let topic = &self.state.topics[slot];
        self.supersede((topic.number, topic.group), which, (by.priority, by.sequence), legacy, log);
    }

    fn supersede(
        &mut self,
        (topic, group): (TopicNumber, GroupNumber),
        which: Victims,
        (priority, by): (Priority, Sequence),
        Legacy { failures, until, since }: Legacy,
        log: &mut dyn FactLog,
    ) {
        self.commit(Fact::Superseded { topic, group, which, priority, by, failures, until, since }, log);
    }

    /// The one that is worked on. What was leased together before the policy came is worked off.
    fn running(&self, slot: TopicSlot) -> Option<Version> {
        let topic = &self.state.topics[slot];
        let (_, lease) = topic.leases.iter().next().filter(|_| topic.in_flight == 1)?;
        let lease = &self.state.leases[*lease as usize];
        let aside = &topic.level(lease.priority).expect("a lease has a level").aside[&lease.first];
        Some(Version::of(&aside.run, lease.priority, lease.first))
    }

    /// The message of a topic that waits, delayed or in retry as it may be. One that has expired stands for nothing.
    pub(crate) fn waiting(&self, slot: TopicSlot) -> Option<Waiting> {
        let mut last = self.state.topics[slot].last_waiting();
        last.find_map(|(priority, sequence)| {
            Some(self.unleased(slot, priority, sequence)).filter(|waiting| !waiting.is_expired)
        })
    }

    /// Brings what may be [the one that waits](Core::waiting).
    pub(crate) fn bring_waiting(&mut self, slot: TopicSlot) -> Result<(), Want> {
        let last: Vec<_> = self.state.topics[slot].last_waiting().collect();
        last.into_iter().try_for_each(|(priority, sequence)| self.state.bring(slot, priority, sequence).map(|_| ()))
    }

    /// One of those that wait, in memory.
    fn unleased(&self, slot: TopicSlot, priority: Priority, sequence: Sequence) -> Waiting {
        let topic = &self.state.topics[slot];
        let level = topic.level(priority).expect("a message has a level");
        let aside = level.aside_of(sequence).map(|(_, aside)| aside);
        let state = aside.map(|aside| aside.state);
        let run = match (aside, level.line.find(sequence)) {
            (Some(aside), _) => &aside.run,
            (None, InLine::Run(run)) => run,
            (None, _) => unreachable!("what may end because of another one is brought before it is decided"),
        };
        let at = run.index + (sequence.0 - run.first.0) as u32;
        Waiting {
            id: topic.id(priority, sequence),
            version: Version::of(run, priority, sequence),
            failures: aside.map_or(0, |aside| aside.failures),
            until: if let Some(AsideWhy::Retrying { due, .. }) = state { Some(due) } else { None },
            due: if let Some(AsideWhy::Delayed { due, .. }) = state { Some(due) } else { None },
            since: aside.map_or(run.since(), |aside| aside.since),
            is_expired: run.is_expired(self.state.now.wall),
            bytes: u64::from(run.sizes.offset(at + 1) - run.sizes.offset(at)),
        }
    }

    /// When the back-off of the one that waits ends. Where a delay has taken the place of it that was longer, nothing tells that any
    /// more: it begins anew with the one that comes.
    fn back_off_of(&self, slot: TopicSlot, old: &Waiting) -> Option<RunTime> {
        let Retry::Backoff { first, longest } = self.state.policy(slot).retry else { return old.until };
        let salt = mix(old.id.topic.0 ^ mix(old.id.sequence.0));
        let anew = || backoff(self.state.now.run, first, longest, old.failures, salt);
        old.until.or_else(|| (old.failures > 0 && old.due.is_some()).then(anew))
    }

    /// The end of a back-off, unless a delay of its own holds a message longer.
    fn later(&self, until: Option<RunTime>, due: Option<WallTime>) -> Option<RunTime> {
        let now = self.state.now;
        until.filter(|until| due.is_none_or(|due| until.since(now.run) >= due.since(now.wall)))
    }

    /// Since when a message waits whose place has waited so long before it, if that is longer than it has waited itself. A
    /// namespace without ageing keeps nothing of it.
    fn earlier(&self, slot: TopicSlot, heir: &Waiting, waited: Millis) -> Option<WallTime> {
        self.state.policy(slot).ageing?;
        let since = WallTime(self.waits_from(heir).0.saturating_sub(waited.0));
        (since < heir.since).then_some(since)
    }

    /// How long one has waited, a delay apart.
    fn waited(&self, of: &Waiting) -> Millis {
        self.waits_from(of).since(of.since)
    }

    /// Now, or when its delay ends.
    fn waits_from(&self, of: &Waiting) -> WallTime {
        of.due.unwrap_or_default().max(self.state.now.wall)
    }
}

impl Waiting {
    /// What it takes in the journal.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether another one was published later, and so is not to give way to it.
    pub(crate) fn is_older_than(&self, other: &Version) -> bool {
        other.is_later(&self.version)
    }
}

impl Version {
    /// That of a message of a run.
    pub(crate) fn of(run: &RunPage, priority: Priority, sequence: Sequence) -> Version {
        Version { published: run.published, priority, sequence, is_redriven: run.is_redriven() }
    }

    /// The same message under another sequence.
    pub(crate) fn at(self, sequence: Sequence) -> Version {
        Version { sequence, ..self }
    }

    /// Whether it was published later than another one, as far as that can be told: of those of one millisecond, sequences
    /// tell it at the same priority alone.
    pub(crate) fn is_later(&self, other: &Version) -> bool {
        let place = |version: &Version| (version.published, version.sequence);
        self.published > other.published || self.priority == other.priority && place(self) > place(other)
    }

    /// Whether a dead letter gives way to another message. Of two redriven ones that were published in one millisecond, the
    /// first one to come back does: letters come back in the order of their sequences.
    fn gives_way_to(&self, other: &Version) -> bool {
        let is_tie = self.published == other.published;
        !(self.is_later(other) || is_tie && other.is_redriven)
    }
}
