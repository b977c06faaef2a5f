//! Commands that go over many entries: dead letters by filter, and which topics stand out. Listings and purges of topics do
//! not go this way yet: [`crate::parking`] brings all topics that they are about into memory first.
//!
//! No turn looks at more than a slice, so such a command may take many turns, others pass meanwhile, and each entry
//! counts as it was in the turn that came to it. The answer comes at the end. Jobs take turns with each other, a slice
//! each; one that waits for the disk lets the others go before. A job is not journaled, only what it does: a stop in its
//! middle leaves the front of its range done.
//!
//! Where the store answers at once, a job does in each turn what it would do if all were in memory.

mod dead;
pub(crate) mod ending;
mod top;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;

use millpond_types::{Code, MessageId, TopicName};

use crate::Core;
use crate::command::Ticket;
use crate::decide::Refusal;
use crate::fact::{FactLog, GroupNumber};
use crate::output::Reply;
use crate::page::DeadPage;
use crate::state::entries::Fetched;
use crate::store::{Answer, Key, KeyBytes, Want};

use dead::DeadJob;
pub(crate) use dead::DeadVerb;
use top::TopJob;

/// What one turn looks at, in entries: some 100 microseconds, so that nobody behind the turn notices.
const SLICE: usize = 1_000;
/// An entry for which facts are written counts as so many.
const WRITING: usize = 2;
/// Jobs at a time. Each is asked for by a person or a console.
const JOBS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Jobs {
    /// The one whose turn it is in front.
    queue: VecDeque<Job>,
    /// What may still be looked at in this turn.
    room: usize,
}

struct Job {
    ticket: Ticket,
    group: GroupNumber,
    task: Task,
    /// What it may still look at before it is another one's turn.
    left: usize,
    /// What it waits for.
    waits: BTreeSet<Want>,
    /// What it needs of what comes next.
    needs: Needs,
}

/// What stays at hand until a job has come to it.
#[derive(Default)]
struct Needs {
    /// Topics. Each of them is in memory or does not exist, once nothing is waited for.
    topics: BTreeSet<TopicName>,
    /// Entries that are looked up.
    entries: BTreeSet<KeyBytes>,
}

enum Task {
    Dead(DeadJob),
    Top(TopJob),
}

/// What a job came to.
enum Step {
    Done(Result<Reply, Refusal>),
    /// It has looked at what it may for now.
    Later,
    Waits(Vec<Want>),
}

impl Jobs {
    /// A turn begins.
    pub(crate) fn set_room(&mut self) {
        self.room = SLICE;
    }

    /// Whether one can go on without anything from the disk.
    pub(crate) fn any(&self) -> bool {
        self.queue.iter().any(|job| job.waits.is_empty())
    }

    /// Whether topics of a name stay in memory because a job comes to one of them. Those of other namespaces may.
    pub(crate) fn is_held(&self, name: &TopicName) -> bool {
        self.queue.iter().any(|job| job.needs.topics.contains(name))
    }

    /// Whether one waits for this.
    pub(crate) fn wait_for(&self, want: &Want) -> bool {
        self.queue.iter().any(|job| job.waits.contains(want))
    }

    /// How much all of them wait for, but for what is looked up.
    pub(crate) fn waiting(&self) -> usize {
        let is_looked_up = |want: &Want| matches!(want, Want::Entry(key) if Key::is_looked_up(key));
        self.queue.iter().map(|job| job.waits.iter().filter(|want| !is_looked_up(want)).count()).sum()
    }

    /// A dead letter is another one now, or has ended: who has fetched it comes to what it is.
    pub(crate) fn letter_changed(&mut self, id: MessageId, page: Option<&DeadPage>) {
        for job in &mut self.queue {
            if let Task::Dead(dead) = &mut job.task {
                dead.letter_changed(id, page);
            }
        }
    }
}

impl Core {
    /// Begins a job, and comes to its end at once where it is small and has nobody before it.
    fn begin(&mut self, ticket: Ticket, group: GroupNumber, task: Task, log: &mut dyn FactLog) -> Result<(), Refusal> {
        if self.jobs.queue.len() >= JOBS_MAX {
            let detail =
                format!("{JOBS_MAX} listings, purges and the like are going on; wait for one of them to be answered");
            return Err((Code::Overloaded, detail));
        }
        let job = Job { ticket, group, task, left: 0, waits: BTreeSet::new(), needs: Needs::default() };
        if self.jobs.queue.is_empty() {
            self.take_turn(job, log);
        } else {
            self.jobs.queue.push_back(job);
        }
        Ok(())
    }

    /// Nobody waits for the answer of a job any more.
    pub(crate) fn withdraw_job(&mut self, ticket: Ticket) {
        if let Some(at) = self.jobs.queue.iter().position(|job| job.ticket == ticket)
            && let Some(mut job) = self.jobs.queue.remove(at)
        {
            job.needs.clear(&mut self.state.fetched);
        }
    }

    /// Lets the next job have its turn, in what earlier ones have left of this one.
    pub(crate) fn go_on_with_jobs(&mut self, log: &mut dyn FactLog) {
        if self.jobs.room > 0
            && let Some(next) = self.jobs.queue.iter().position(|job| job.waits.is_empty())
            && let Some(job) = self.jobs.queue.remove(next)
        {
            self.take_turn(job, log);
        }
    }

    fn take_turn(&mut self, mut job: Job, log: &mut dyn FactLog) {
        job.left = core::mem::take(&mut self.jobs.room);
        if let Some(job) = self.go_on(job, log) {
            self.jobs.queue.push_back(job);
        }
    }

    /// Lets the jobs go on that wait for nothing but what has come.
    pub(crate) fn arrived_for_jobs(&mut self, answer: Answer, log: &mut dyn FactLog) {
        if self.jobs.queue.is_empty() {
            return;
        }
        let want = answer.want();
        let mut at = 0;
        while let Some(job) = self.jobs.queue.get_mut(at) {
            if !job.waits.remove(&want) {
                at += 1;
                continue;
            }
            if let (Task::Dead(dead), Answer::Range { entries, complete, .. }) = (&mut job.task, &answer) {
                dead.take(entries.clone(), *complete);
            }
            if !job.waits.is_empty() {
                at += 1;
                continue;
            }
            let job = self.jobs.queue.remove(at).expect("it was looked at above");
            if let Some(job) = self.go_on(job, log) {
                self.jobs.queue.insert(at, job);
                at += 1;
            }
        }
    }

    /// Goes on with a job; hands it back if it is not over.
    fn go_on(&mut self, mut job: Job, log: &mut dyn FactLog) -> Option<Job> {
        let step = match &mut job.task {
            // Nothing is left of it, or it is being deleted.
            _ if self.state.groups.get(job.group).is_none_or(|group| group.is_ending) => {
                Step::Done(Ok(job.task.so_far()))
            }
            Task::Dead(dead) => self.dead_step(dead, job.group, &mut job.left, &mut job.needs, log),
            Task::Top(top) => self.top_step(top, job.group, &mut job.left),
        };
        match step {
            Step::Done(answer) => {
                self.jobs.room += job.left;
                job.needs.clear(&mut self.state.fetched);
                match answer {
                    Ok(reply) => self.reply(job.ticket, reply),
                    Err((code, detail)) => self.refuse(job.ticket, code, detail),
                }
                return None;
            }
            Step::Later => {}
            Step::Waits(wants) => {
                assert!(!wants.is_empty(), "who waits waits for something");
                job.waits.extend(wants.iter().cloned());
                wants.into_iter().for_each(|want| self.want(want));
            }
        }
        Some(job)
    }
}

impl Needs {
    fn clear(&mut self, fetched: &mut Fetched) {
        self.topics.clear();
        core::mem::take(&mut self.entries).iter().for_each(|key| _ = fetched.remove(key));
    }
}

impl Task {
    /// The answer, should it end here.
    fn so_far(&mut self) -> Reply {
        match self {
            Task::Dead(dead) => dead.so_far(),
            Task::Top(top) => top.so_far(),
        }
    }
}
