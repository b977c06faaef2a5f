//! How jobs get their turns: each begins behind those that are there, goes on a slice at a time, and ends with its answer or
//! when nobody waits for that any more.
//!
//! Invariant: only the job in front waits for the disk, so what comes back is never for another one. One that is on hold
//! waits for nothing, as soon as what it had asked for is there.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use millpond_types::Code;

use super::admitted::FILTERS_MAX;
use super::ending::EndJob;
use super::settling::SettleJob;
use super::starting::StartJob;
use super::walk::Walk;
use super::{Asked, Entries, JOBS_MAX, Job, Jobs, Needs, SLICE, Step, Task};
use crate::Core;
use crate::command::Ticket;
use crate::decide::Refusal;
use crate::fact::{FactLog, GroupNumber};
use crate::output::Reply;
use crate::store::Want;

/// Makes a job.
type Begin = fn() -> (Walk, Task);
/// Whether a job is of a kind.
type IsIt = fn(&Task) -> bool;

impl Core {
    /// Begins a job, and comes to its end at once where it is small and has nobody before it.
    pub(super) fn begin(
        &mut self,
        ticket: Ticket,
        group: GroupNumber,
        (walk, task): (Walk, Task),
        log: &mut dyn FactLog,
    ) -> Result<(), Refusal> {
        if self.jobs.queue.iter().filter(|job| job.asked != Asked::ByState).count() >= JOBS_MAX {
            let detail =
                format!("{JOBS_MAX} listings, purges and the like are going on; wait for one of them to be answered");
            return Err((Code::Overloaded, detail));
        }
        let taken: usize = self.jobs.queue.iter().map(|job| job.filter_bytes).sum();
        if taken + task.filter_bytes() > FILTERS_MAX {
            let detail = format!(
                "the topics and prefixes that purges and the like name take {FILTERS_MAX} bytes together at most, and those that are going on take {taken}; wait for one of them to be answered, or name fewer"
            );
            return Err((Code::Overloaded, detail));
        }
        self.jobs.put(Asked::By(ticket), group, walk, task);
        if self.jobs.queue.len() == 1 {
            self.go_on_with_jobs(log);
        }
        Ok(())
    }

    /// The groups that the state asks for something to be done with, the first for each kind of job that nobody goes on with.
    fn asked_by_state(&self) -> impl Iterator<Item = (GroupNumber, Begin)> {
        let groups = &self.state.groups;
        let kinds: [(Option<GroupNumber>, IsIt, Begin); 3] = [
            (groups.starting().next(), |task| matches!(task, Task::Starting(_)), StartJob::begin),
            (groups.unsettled().next(), |task| matches!(task, Task::Settling(_)), SettleJob::begin),
            (groups.ending().next(), |task| matches!(task, Task::Ending(_)), EndJob::begin),
        ];
        let free = kinds.into_iter().filter(|(_, is_it, _)| !self.jobs.any_is(*is_it));
        free.filter_map(|(group, _, begin)| Some((group?, begin)))
    }

    /// Whether the state asks for something that nobody goes on with.
    pub(crate) fn has_asked_by_state(&self) -> bool {
        self.asked_by_state().next().is_some()
    }

    /// Begins what the state asks for, or begins it again after a restart.
    pub(crate) fn begin_asked_by_state(&mut self) {
        for (group, begin) in self.asked_by_state().collect::<Vec<_>>() {
            let (walk, task) = begin();
            if !(self.jobs.has_started && matches!(task, Task::Starting(_))) {
                self.jobs.put(Asked::ByState, group, walk, task);
            }
        }
    }

    /// Nobody waits for the answer of a job any more.
    pub(crate) fn withdraw_job(&mut self, ticket: Ticket) {
        let Some(at) = self.jobs.queue.iter().position(|job| job.asked == Asked::By(ticket)) else { return };
        self.jobs.queue[at].asked = Asked::Gone;
        if self.jobs.queue[at].waits.is_empty() {
            let job = self.jobs.queue.remove(at).expect("it was just found");
            job.needs.clear(&mut self.state.fetched);
        }
    }

    /// Lets the jobs have their turns, in what earlier ones have left of this turn.
    pub(crate) fn go_on_with_jobs(&mut self, log: &mut dyn FactLog) {
        // How many have nothing more to do in this turn, one after the other.
        let mut resting = 0;
        while self.jobs.room > 0
            && resting < self.jobs.queue.len()
            && self.jobs.any()
            && let Some(mut job) = self.jobs.queue.pop_front()
        {
            let granted = job.left.min(self.jobs.room);
            let mut left = granted;
            let step = match self.jobs.is_on_hold(&job) {
                true => Step::NextTurn,
                false => self.go_on(&mut job, &mut left, log),
            };
            let used = granted - left;
            self.jobs.room -= used;
            job.left -= used;
            resting = if matches!(step, Step::NextTurn) { resting + 1 } else { 0 };
            match step {
                Step::Done(answer) => self.end_job(job, answer),
                Step::Waits(wants) => {
                    assert!(!wants.is_empty(), "who waits waits for something");
                    job.waits.extend(wants.iter().cloned());
                    wants.into_iter().for_each(|want| self.want_aside(want));
                    self.jobs.queue.push_front(job);
                }
                Step::Later if job.left > 0 => self.jobs.queue.push_front(job),
                Step::Later | Step::NextTurn => {
                    job.left = SLICE;
                    self.jobs.queue.push_back(job);
                }
            }
        }
    }

    /// What a job waits for has come; with what was found, if that is its alone.
    pub(crate) fn arrived_for_jobs(&mut self, want: &Want, found: Option<Entries>, log: &mut dyn FactLog) {
        let Some(job) = self.jobs.queue.front_mut() else { return };
        if !job.waits.remove(want) {
            return;
        }
        if let Some(Entries { entries, rest }) = found {
            match &mut job.task {
                Task::Starting(start) => start.take(want, &self.state, entries, rest),
                task => match task.letters() {
                    Some(letters) => letters.take(entries, rest, &mut self.state),
                    None => job.walk.take(job.group, &self.state, entries, rest),
                },
            }
        }
        if job.waits.is_empty() {
            if job.asked == Asked::Gone {
                let job = self.jobs.queue.pop_front().expect("it was looked at above");
                job.needs.clear(&mut self.state.fetched);
            }
            self.go_on_with_jobs(log);
        }
    }

    fn go_on(&mut self, job: &mut Job, left: &mut usize, log: &mut dyn FactLog) -> Step {
        let Job { group, walk, task, needs, .. } = job;
        match task {
            // It goes on with the next group.
            Task::Purge(purge) => self.purge_step(purge, walk, group, left, needs, log),
            Task::Ending(ending) => self.end_step(ending, walk, *group, left, needs, log),
            _ if self.state.groups.is_over(*group) => Step::Done(Ok(task.so_far())),
            Task::Settling(settling) => self.settle_step(settling, walk, *group, left, needs, log),
            Task::Dead(dead) => self.dead_step(dead, *group, left, needs, log),
            Task::List(list) => list.step(walk, *group, &self.state, left),
            Task::Retaining(retaining) => self.retain_step(retaining, walk, *group, left, needs, log),
            Task::Starting(start) => self.start_step(start, *group, left, needs, log),
            Task::Top(top) => top.step(walk, *group, &self.state, left),
        }
    }

    fn end_job(&mut self, job: Job, answer: Result<Reply, Refusal>) {
        job.needs.clear(&mut self.state.fetched);
        match (job.asked, answer) {
            (Asked::By(ticket), Ok(reply)) => self.reply(ticket, reply),
            (Asked::By(ticket), Err((code, detail))) => self.refuse(ticket, code, detail),
            (Asked::ByState, _) => {
                self.jobs.has_started |= matches!(job.task, Task::Starting(_));
                // Other groups may be waiting for the same, and this turn have room for it.
                self.begin_asked_by_state();
            }
            (Asked::Gone, _) => panic!("who is withdrawn does not go on"),
        }
    }
}

impl Jobs {
    /// Puts a job behind the others.
    pub(super) fn put(&mut self, asked: Asked, group: GroupNumber, walk: Walk, task: Task) {
        let (left, waits, needs, filter_bytes) = (SLICE, BTreeSet::new(), Needs::default(), task.filter_bytes());
        self.queue.push_back(Job { asked, group, walk, task, left, waits, needs, filter_bytes });
    }
}
