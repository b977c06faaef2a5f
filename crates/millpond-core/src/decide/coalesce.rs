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
//! its dead letter however often it is published; only an ack ends that. The machine keeps nothing of its own: its state
//! is which messages the topic holds. What waited before the policy came is worked off; the last of it is the one that
//! waits.

use alloc::vec::Vec;

use millpond_types::{MessageId, Priority, PublishOutcome, RunTime, Sequence, WallTime};

use crate::Core;
use crate::decide::storing::{Part, Runs, Terms, push};
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber, Victims};
use crate::state::TopicSlot;
use crate::state::topic::AsideWhy;

/// The message of a topic that waits.
struct Waiting {
    id: MessageId,
    failures: u32,
    /// When its back-off ends.
    until: Option<RunTime>,
    /// When its delay ends.
    due: Option<WallTime>,
}

impl Core {
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
                let fact = Fact::Superseded { topic, group, which, priority, by, failures: 0, until: None };
                self.commit(fact, log);
            }
            if let Some(old) = waiting {
                let which = Victims::Waiting { priority: old.id.priority, first: old.id.sequence, count: 1 };
                let until = self.later(old.until, terms.due);
                let fact = Fact::Superseded { topic, group, which, priority, by, failures: old.failures, until };
                self.commit(fact, log);
            }
        }
    }

    /// Ends messages that are given back where another one waits, which inherits their failures and their back-off. False
    /// if that is not so.
    pub(super) fn supersede(
        &mut self,
        slot: TopicSlot,
        which: Victims,
        failures: u32,
        until: Option<RunTime>,
        log: &mut dyn FactLog,
    ) -> bool {
        if self.state.topics[slot].waiting() != 1 {
            // None waits, or what waited before the policy came is worked off.
            return false;
        }
        if let Some((priority, sequence)) = self.state.topics[slot].last_waiting()
            && self.state.bring(slot, priority, sequence).is_err()
        {
            // One of many that rested before the policy came, and is on its way to memory. Both are worked off.
            return false;
        }
        let Waiting { id, failures: own, due, .. } = self.waiting(slot).expect("one waits");
        let (priority, by) = (id.priority, id.sequence);
        let topic = &self.state.topics[slot];
        let (topic, group, until) = (topic.number, topic.group, self.later(until, due));
        let failures = failures.max(own);
        self.commit(Fact::Superseded { topic, group, which, priority, by, failures, until }, log);
        true
    }

    /// The message of a topic that waits, delayed or in retry as it may be.
    fn waiting(&self, slot: TopicSlot) -> Option<Waiting> {
        let topic = &self.state.topics[slot];
        let (priority, sequence) = topic.last_waiting()?;
        let aside = topic.level(priority).and_then(|level| level.aside_of(sequence)).map(|(_, aside)| aside);
        let state = aside.map(|aside| aside.state);
        Some(Waiting {
            id: topic.id(priority, sequence),
            failures: aside.map_or(0, |aside| aside.failures),
            until: if let Some(AsideWhy::Retrying { due, .. }) = state { Some(due) } else { None },
            due: if let Some(AsideWhy::Delayed { due, .. }) = state { Some(due) } else { None },
        })
    }

    /// The end of a back-off, unless a delay of its own holds a message longer.
    fn later(&self, until: Option<RunTime>, due: Option<WallTime>) -> Option<RunTime> {
        let now = self.state.now;
        until.filter(|until| due.is_none_or(|due| until.since(now.run) >= due.since(now.wall)))
    }
}
