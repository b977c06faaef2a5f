//! Topics are purged: all that they hold ends but what is leased.
//!
//! A few topics at a time are brought into memory, and a long line is ended from its front, a slice of runs in each turn
//! and a piece after the other. What comes to a topic after the purge has come to it stays.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use millpond_types::{EndReason, Filter, GroupName, NamespaceName, Priority, Sequence, TopicNumber};

use super::admitted::Admitted;
use super::coming::{Coming, Next};
use super::walk::Walk;
use super::{Needs, Step, Task, WRITING};
use crate::Core;
use crate::command::Ticket;
use crate::decide::Refusal;
use crate::decide::receive::check_filter;
use crate::fact::{Fact, FactLog, GroupNumber};
use crate::output::Reply;
use crate::state::topic::{AsideWhy, Topic};
use crate::store::Want;

pub(super) struct PurgeJob {
    /// What is purged of each group.
    admitted: Admitted,
    /// The groups that come after the one that it goes over.
    groups: VecDeque<GroupNumber>,
    /// Topics that come next.
    coming: Coming,
    /// The one that it has come to.
    current: Option<Current>,
    /// Messages ended.
    purged: u64,
}

/// A topic that is being purged.
struct Current {
    topic: TopicNumber,
    levels: Vec<Rest>,
}

/// What a purge has still to look at of a level.
struct Rest {
    priority: Priority,
    /// The next message aside.
    aside: Sequence,
    /// The first that came later.
    end: Sequence,
}

impl Core {
    /// Begins to purge the topics that a filter admits, in one group or in one after the other.
    pub(crate) fn purge(
        &mut self,
        ticket: Ticket,
        namespace: &NamespaceName,
        filter: Filter,
        group: Option<GroupName>,
        log: &mut dyn FactLog,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace_of(namespace)?;
        check_filter(&filter)?;
        let mut groups: VecDeque<_> = match group {
            Some(group) => VecDeque::from([self.group_of(namespace, &group)?]),
            None => self.state.namespaces[namespace].groups.iter().copied().collect(),
        };
        let group = groups.pop_front().expect("a namespace has a group");
        let admitted = Admitted::of(filter);
        let (walk, coming) = of_a_group(&admitted);
        let job = PurgeJob { admitted, groups, coming, current: None, purged: 0 };
        self.begin(ticket, group, (walk, Task::Purge(job)), log)
    }

    pub(super) fn purge_step(
        &mut self,
        job: &mut PurgeJob,
        walk: &mut Walk,
        group: &mut GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        while *left > 0 {
            if self.state.groups.is_over(*group) {
                *walk = Walk::default();
                (job.coming, job.current) = (Coming::default(), None);
            }
            if let Some(current) = &mut job.current {
                match self.purge_topic(current, *group, &mut job.purged, left, log) {
                    Err(want) => return Step::Waits(Vec::from([want])),
                    Ok(false) => return Step::Later,
                    Ok(true) => job.current = None,
                }
                continue;
            }
            let name = match self.come_to_next(&mut job.coming, walk, *group, left, needs, |_| true) {
                Next::Topic(name) => name,
                Next::Waits(wants) => return Step::Waits(wants),
                Next::Later => return Step::Later,
                Next::End => {
                    let Some(next) = job.groups.pop_front() else { return Step::Done(Ok(job.so_far())) };
                    *group = next;
                    (*walk, job.coming) = of_a_group(&job.admitted);
                    // A group of which nothing is purged costs something as well.
                    *left = left.saturating_sub(1);
                    continue;
                }
            };
            let slot = self.state.topics.find(*group, &name);
            job.current = slot.map(|slot| Current::of(&self.state.topics[slot]));
        }
        Step::Later
    }

    /// Goes on with a topic. True if that is over; an error tells what has to be fetched before.
    fn purge_topic(
        &mut self,
        current: &mut Current,
        group: GroupNumber,
        purged: &mut u64,
        left: &mut usize,
        log: &mut dyn FactLog,
    ) -> Result<bool, Want> {
        let topic = current.topic;
        while let Some(rest) = current.levels.last_mut() {
            if *left == 0 {
                return Ok(false);
            }
            // It may have vanished since, and have come again: with other levels, and sequences behind those that it had.
            let Some(slot) = self.state.topics.by_number(topic, group) else { break };
            let priority = rest.priority;
            let Some(level) = self.state.topics[slot].level(priority) else {
                current.levels.pop();
                continue;
            };
            let found = match level.line.first().filter(|first| *first < rest.end) {
                Some(first) => {
                    self.state.bring(slot, priority, first)?;
                    let run = self.state.topics[slot].level(priority).and_then(|level| level.line.front());
                    run.map(|run| (run.first, run.count))
                }
                None => {
                    self.state.bring_next_aside(slot, priority, rest.aside, rest.end)?;
                    let level = self.state.topics[slot].level(priority).expect("it was just looked at");
                    match level.aside.range(rest.aside..rest.end).next() {
                        Some((_, aside)) => {
                            rest.aside = aside.run.end();
                            if matches!(aside.state, AsideWhy::Leased(_)) {
                                *left -= 1;
                                continue;
                            }
                            Some((aside.run.first, aside.run.count))
                        }
                        None => None,
                    }
                }
            };
            let Some((first, count)) = found else {
                current.levels.pop();
                continue;
            };
            self.commit(Fact::Ended { topic, group, priority, first, count, reason: EndReason::Purged }, log);
            *purged += u64::from(count);
            *left = left.saturating_sub(WRITING);
        }
        Ok(true)
    }
}

impl PurgeJob {
    pub(super) fn so_far(&mut self) -> Reply {
        Reply::Count(self.purged)
    }

    /// Bytes of the topics and prefixes that it was asked for by.
    pub(super) fn filter_bytes(&self) -> usize {
        self.admitted.bytes()
    }
}

/// How what is admitted is gone over in a group.
fn of_a_group(admitted: &Admitted) -> (Walk, Coming) {
    match admitted {
        Admitted::All => (Walk::of_prefix(b"", Vec::new()), Coming::default()),
        Admitted::Prefixes(prefixes) => (Walk::of_prefixes(prefixes.clone()), Coming::default()),
        Admitted::Topics(names) => (Walk::default(), Coming::of(names.clone())),
    }
}

impl Current {
    fn of(topic: &Topic) -> Current {
        let rest = topic.levels.iter().rev().map(|level| {
            let (aside, end) = (Sequence(0), level.next);
            Rest { priority: level.priority, aside, end }
        });
        Current { topic: topic.number, levels: rest.collect() }
    }
}
