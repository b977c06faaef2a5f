//! What others finish of a topic that the start of a group has still to come to: the group is given it before it ends.
//!
//! So a group starts with what any other one held when it was made, whatever these do until its start comes by; but what is
//! left of one that is deleted is nobody's. What ends without anybody's having it leased is not saved: it was cancelled, purged,
//! has expired, or is more than a limit lets a group hold, and it would have ended so in a group that has all that it starts
//! with.
//!
//! A finish waits for nothing. So what is saved goes *aside*, ready in the place that its sequence gives it, for some of the
//! line of the group's topic may be on the disk; and a topic that a start has still to come to stays in memory, so that one that
//! is not there does not exist: a start of the broker loads them all. How much they may be has a bound, half of the room for
//! topics: where they take that, publishes and forwards to the namespace wait, and nothing is delivered in it, until the start has
//! gone on. It waits for none of these, so that is not for ever.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use millpond_types::{Coalesce, Priority, Sequence, TopicName};

use crate::Core;
use crate::decide::coalesce::{Version, Waiting};
use crate::fact::{CopiedRun, Fact, FactLog, GroupNumber, NamespaceNumber, Victims};
use crate::output::Notice;
use crate::page::{Reached, RunPage};
use crate::state::topic::Topic;
use crate::state::{State, TopicSlot};

impl Core {
    /// Gives what a fact is about to end to the groups that start and have still to come to its topic.
    pub(crate) fn save_what_ends(&mut self, fact: &Fact, log: &mut dyn FactLog) {
        let (topic, group, lease, count) = match *fact {
            Fact::Acked { topic, group, lease, count }
            | Fact::Delivered { topic, group, lease, count }
            | Fact::Died { topic, group, which: Victims::Leased { lease, count }, .. } => (topic, group, lease, count),
            _ => return,
        };
        if self.state.groups[group].is_ending {
            // What is left of a group that was deleted is nobody's.
            return;
        }
        let slot = self.state.slot(topic, group);
        let (topic, groups) = (&self.state.topics[slot], &self.state.groups);
        let is_to_come = |to: &GroupNumber| {
            let of = &groups[*to];
            of.namespace == topic.namespace && of.is_before(&topic.name)
        };
        let starting: Vec<GroupNumber> = groups.starting().filter(is_to_come).collect();
        if starting.is_empty() {
            return;
        }
        let of = &self.state.leases[topic.lease(lease).expect("what is finished is leased") as usize];
        let (name, priority) = (topic.name.clone(), of.priority);
        let mut run = topic.level(priority).expect("a lease has a level").aside[&of.first].run.clone();
        run.split_front((lease.0 - of.number.0) as u32);
        let run = run.split_front(count);
        if run.is_redriven() || run.is_expired(self.state.now.wall) {
            return;
        }
        for to in starting {
            self.save(to, &name, (priority, run.clone()), log);
        }
    }

    /// Gives messages to one of these groups, as far as it is to have them and has not.
    fn save(&mut self, to: GroupNumber, name: &TopicName, of: (Priority, RunPage), log: &mut dyn FactLog) {
        let (priority, mut run) = of;
        let group = &self.state.groups[to];
        let reached = group.starting.as_ref().expect("it starts");
        let policies = &self.state.namespaces[group.namespace].policies;
        let own = self.state.topics.find(to, name).map(|slot| &self.state.topics[slot]);
        let came_later = own.is_some_and(|own| run.first.0 >= own.floor);
        if came_later || !group.start.admits(run.published) {
            return;
        }
        // A topic that was begun without is gone on with without.
        let is_one_enough = policies.of_name(name).coalesce != Coalesce::Off && reached.rest_of(name).is_none();
        let passed = reached.first_of(name, priority).0.saturating_sub(run.first.0).min(run.count.into());
        run.split_front(passed as u32);
        while let Some(mut part) = self.state.lacking(self.state.topics.find(to, name), priority, &mut run) {
            if !is_one_enough {
                self.save_all(to, name, (priority, part), log);
                continue;
            }
            while part.count > 0 {
                self.save_last(to, name, (priority, part.split_front(1)), log);
            }
        }
    }

    fn save_all(
        &mut self,
        to: GroupNumber,
        name: &TopicName,
        (priority, run): (Priority, RunPage),
        log: &mut dyn FactLog,
    ) -> TopicSlot {
        let slot = self.topic_or_new(to, name, log);
        let (topic, rest) = (self.state.topics[slot].number, Some(Reached::BEGINNING));
        let messages = Vec::from([CopiedRun { priority, run: run.compact(), due: None }]);
        self.commit(Fact::Copied { topic, group: to, messages, rest }, log);
        slot
    }

    /// The same of a message where the last one stands for all.
    fn save_last(
        &mut self,
        to: GroupNumber,
        name: &TopicName,
        (priority, run): (Priority, RunPage),
        log: &mut dyn FactLog,
    ) {
        let own = self.state.topics.find(to, name);
        let (version, saved) = (Version::of(&run, priority, run.first), own.and_then(|slot| self.last_saved(slot)));
        let is_over = own.is_some_and(|slot| self.state.topics[slot].was_published_to());
        if is_over || saved.as_ref().is_some_and(|saved| !saved.is_older_than(&version)) {
            return;
        }
        let slot = self.save_all(to, name, (priority, run), log);
        if let Some(saved) = saved {
            self.replace(slot, &saved, (version, 0), log);
        }
    }

    /// What was saved of a topic to which nothing was published since, if it is one message.
    pub(crate) fn last_saved(&self, slot: TopicSlot) -> Option<Waiting> {
        let topic = &self.state.topics[slot];
        (topic.waiting() == 1 && !topic.was_published_to()).then(|| self.waiting(slot)).flatten()
    }
}

impl State {
    /// Cuts off the front of a run what of it a group's topic has not, of which the start is still to come to the run; what it
    /// has before that goes as well.
    pub(crate) fn lacking(&self, slot: Option<TopicSlot>, priority: Priority, run: &mut RunPage) -> Option<RunPage> {
        while run.count > 0 {
            let level = slot.and_then(|slot| self.topics[slot].level(priority));
            let saved = level.and_then(|level| level.aside_between(run.first, run.end()));
            let Some((first, end)) = saved else { return Some(run.split_front(run.count)) };
            if first > run.first {
                return Some(run.split_front((first.0 - run.first.0) as u32));
            }
            run.split_front((end.min(run.end()).0 - run.first.0) as u32);
        }
        None
    }

    /// Whether a group's namespace has one that starts.
    pub(crate) fn has_a_start_beside(&self, group: GroupNumber) -> bool {
        let namespace = self.groups[group].namespace;
        self.groups.starting().any(|to| self.groups[to].namespace == namespace)
    }

    /// Lets edges know of the namespaces that have to wait for starts, if these are others than before.
    pub(crate) fn notify_held(&mut self) {
        let held = if self.residents.hold_too_much() { self.with_starts() } else { BTreeSet::new() };
        if held != self.told_held {
            let names = held.iter().map(|namespace| self.namespaces[*namespace].name.clone()).collect();
            self.notices.push(Notice::Held(names));
            self.told_held = held;
        }
    }

    /// The namespaces that have a group which starts.
    fn with_starts(&self) -> BTreeSet<NamespaceNumber> {
        self.groups.starting().map(|group| self.groups[group].namespace).collect()
    }

    /// Whether a message was saved for a topic that the start of its group has still to come to.
    pub(crate) fn is_saved(&self, slot: TopicSlot, priority: Priority, first: Sequence) -> bool {
        let topic: &Topic = &self.topics[slot];
        let starting = self.groups[topic.group].starting.as_ref().filter(|_| topic.is_held && first.0 < topic.floor);
        starting.is_some_and(|reached| first >= reached.first_of(&topic.name, priority))
    }
}
