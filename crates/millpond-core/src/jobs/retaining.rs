//! What a group is not to keep ends: the oldest of what nobody has leased, where that is older than the age of its
//! namespace's retention, or more than its count.
//!
//! Once a second some groups are looked at. How much of what a group holds was published when is known of each
//! ([`Spans`](crate::state::spans::Spans)), so that takes no walk; and only where there is enough to end are its topics gone
//! over, once, for all that was published before one time. One group has its turn at a time.
//!
//! Nothing of this is state but the facts that end messages. After a restart a group is looked at as always: if enough is left
//! to end, its topics are gone over from the beginning.

use alloc::vec::Vec;

use millpond_types::{EndReason, Priority, RunTime, Sequence, TopicNumber, TopicView, WallTime};

use super::coming::{Coming, Next};
use super::walk::Walk;
use super::{Asked, Needs, SLICE, Step, Task, WRITING};
use crate::Core;
use crate::dispatch::watch::WATCH_EVERY;
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber};
use crate::output::Reply;
use crate::state::TopicSlot;
use crate::state::topic::{AsideWhy, Topic};
use crate::store::Want;

/// When groups are looked at.
#[derive(Default)]
pub(crate) struct Retaining {
    next: RunTime,
    /// The last namespace that was.
    last: Option<NamespaceNumber>,
}

pub(super) struct RetainJob {
    /// All that was published before this ends.
    before: WallTime,
    coming: Coming,
    /// The topic that it has come to.
    current: Option<Current>,
    /// Whether it has ended anything.
    has_ended: bool,
}

/// A topic that is being gone over.
struct Current {
    topic: TopicNumber,
    levels: Vec<Rest>,
}

/// What is still to be looked at of a level.
struct Rest {
    priority: Priority,
    /// The next message in line.
    line: Sequence,
    /// The next one aside.
    aside: Sequence,
    /// The first that came later.
    end: Sequence,
}

/// What comes next of a level.
enum Found {
    Run(Sequence, u32),
    /// Something that stays.
    Other,
    /// It has looked at what it may for now.
    Later,
    End,
}

impl Core {
    /// When groups are looked at next for what they are not to keep; `None` if there is nothing to look at, or the topics of
    /// one are being gone over.
    pub(crate) fn next_retaining(&self) -> Option<RunTime> {
        let is_going_on = || self.jobs.any_is(|task| matches!(task, Task::Retaining(_)));
        (self.state.namespaces.retaining().next().is_some() && !is_going_on()).then_some(self.retaining.next)
    }

    /// Looks at some groups, if it is time, and begins with the first that holds too much.
    pub(crate) fn retain(&mut self) {
        let now = self.state.now;
        if self.next_retaining().is_none_or(|next| next > now.run) {
            return;
        }
        self.retaining.next = now.run + WATCH_EVERY;
        let (all, last) = (|| self.state.namespaces.retaining(), self.retaining.last);
        let behind = all().filter(|number| Some(*number) > last);
        let before = all().filter(|number| Some(*number) <= last);
        let mut looked_at = 0;
        for namespace in behind.chain(before) {
            let home = &self.state.namespaces[namespace];
            let keep = &home.policies.base.retention;
            looked_at += home.groups.len();
            let too_much = home.groups.iter().find_map(|group| {
                let of = &self.state.groups[*group];
                // One that starts is still to be given what is older.
                let before = of.spans.too_much(keep, now.wall).filter(|_| of.starting.is_none());
                before.map(|before| (*group, before))
            });
            if let Some((group, before)) = too_much {
                let (coming, current) = (Coming::default(), None);
                let task = Task::Retaining(RetainJob { before, coming, current, has_ended: false });
                self.jobs.put(Asked::ByState, group, Walk::of_prefix(b"", b"".into()), task);
                self.retaining.last = Some(namespace);
                return;
            }
            self.retaining.last = Some(namespace);
            if looked_at >= SLICE {
                return;
            }
        }
    }

    pub(super) fn retain_step(
        &mut self,
        job: &mut RetainJob,
        walk: &mut Walk,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        let before = job.before;
        // What is delayed or in retry does not count for the age that is shown of a topic.
        let is_of_interest = move |topic: &TopicView| {
            topic.oldest.is_some_and(|oldest| oldest < before) || topic.counts.delayed + topic.counts.retrying > 0
        };
        while *left > 0 {
            if !self.state.namespaces[self.state.groups[group].namespace].policies.base.retention.is_any() {
                // It has changed meanwhile.
                return Step::Done(Ok(Reply::Done));
            }
            if let Some(current) = &mut job.current {
                match self.retain_topic(current, group, before, &mut job.has_ended, left, log) {
                    Err(want) => return Step::Waits(Vec::from([want])),
                    Ok(false) => return Step::Later,
                    Ok(true) => job.current = None,
                }
                continue;
            }
            match self.come_to_next(&mut job.coming, walk, group, left, needs, is_of_interest) {
                Next::Topic(name) => {
                    let slot = self.state.topics.find(group, &name);
                    job.current = slot.map(|slot| Current::of(&self.state.topics[slot]));
                }
                Next::Waits(wants) => return Step::Waits(wants),
                Next::Later => return Step::Later,
                Next::End => {
                    if job.has_ended {
                        // Others may hold too much as well, and one after the other has its turn.
                        self.retaining.next = self.state.now.run;
                    }
                    return Step::Done(Ok(Reply::Done));
                }
            }
        }
        Step::Later
    }

    /// Goes on with a topic. True if that is over; an error tells what has to be fetched before.
    fn retain_topic(
        &mut self,
        current: &mut Current,
        group: GroupNumber,
        before: WallTime,
        has_ended: &mut bool,
        left: &mut usize,
        log: &mut dyn FactLog,
    ) -> Result<bool, Want> {
        let topic = current.topic;
        while let Some(rest) = current.levels.last_mut() {
            // It may have vanished since, and have come again: with sequences behind those that it had.
            let Some(slot) = self.state.topics.by_number(topic, group) else { break };
            let priority = rest.priority;
            match self.next_to_end(slot, rest, before, left)? {
                Found::Run(first, count) => {
                    let reason = EndReason::RetainedOut;
                    self.commit(Fact::Ended { topic, group, priority, first, count, reason }, log);
                    *has_ended = true;
                    *left = left.saturating_sub(WRITING);
                }
                Found::Other => {}
                Found::Later => return Ok(false),
                Found::End => _ = current.levels.pop(),
            }
        }
        Ok(true)
    }

    /// The next messages of a level that were published before a time: first those in line, then those aside.
    fn next_to_end(
        &mut self,
        slot: TopicSlot,
        rest: &mut Rest,
        before: WallTime,
        left: &mut usize,
    ) -> Result<Found, Want> {
        if *left == 0 {
            return Ok(Found::Later);
        }
        let Some(level) = self.state.topics[slot].level(rest.priority) else { return Ok(Found::End) };
        let (found, looked_at) = level.line.older_from(rest.line, before, *left);
        *left -= looked_at;
        rest.line = found.map_or(rest.end, |first| first.min(rest.end));
        if *left == 0 {
            return Ok(Found::Later);
        }
        if rest.line == rest.end {
            self.state.bring_next_aside(slot, rest.priority, rest.aside, rest.end)?;
            let level = self.state.topics[slot].level(rest.priority).expect("it was just looked at");
            let Some((_, aside)) = level.aside.range(rest.aside..rest.end).next() else { return Ok(Found::End) };
            *left -= 1;
            rest.aside = aside.run.end();
            let stays = matches!(aside.state, AsideWhy::Leased(_)) || aside.run.published >= before;
            return Ok(if stays { Found::Other } else { Found::Run(aside.run.first, aside.run.count) });
        }
        let first = rest.line;
        if self.state.bring(slot, rest.priority, first)? > 0 {
            return Ok(Found::Other);
        }
        let level = self.state.topics[slot].level(rest.priority).expect("it was just looked at");
        let run = level.line.runs_from(first).next().expect("what is in line and in memory was found there");
        rest.line = run.end();
        Ok(Found::Run(first, (run.end().0 - first.0) as u32))
    }
}

impl Current {
    fn of(topic: &Topic) -> Current {
        let rest = topic.levels.iter().rev().map(|level| {
            let (line, aside, end) = (Sequence(0), Sequence(0), level.next);
            Rest { priority: level.priority, line, aside, end }
        });
        Current { topic: topic.number, levels: rest.collect() }
    }
}
