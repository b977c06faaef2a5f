//! Topics take the places that what waits in them has come to: after ageing has changed, all of a group are gone over, and
//! each is told as if something had happened to it.
//!
//! That a group has still to be gone over is state, and how far this has come is not: a topic that stands where it should
//! leaves no fact, so it is gone over from the beginning after a restart, or when ageing changes once more.

use super::coming::{Coming, Next};
use super::walk::Walk;
use super::{Asked, Needs, Step, Task, WRITING};
use crate::Core;
use crate::fact::{Fact, FactLog, GroupNumber};
use crate::output::Reply;

pub(super) struct AgeJob {
    /// The version of the policy by which topics are aged.
    version: u64,
    coming: Coming,
}

impl AgeJob {
    fn begin(version: u64) -> (Walk, AgeJob) {
        (Walk::of_prefix(b"", b"".into()), AgeJob { version, coming: Coming::default() })
    }
}

impl Core {
    /// Whether the topics of a group have to be aged, and nobody goes on with that.
    pub(crate) fn has_groups_to_age(&self) -> bool {
        let is_going_on = || self.jobs.queue.iter().any(|job| matches!(job.task, Task::Ageing(_)));
        self.state.groups.ageing().next().is_some() && !is_going_on()
    }

    /// Begins, or begins again, with the first group whose topics have to be aged.
    pub(crate) fn age_groups(&mut self) {
        if self.has_groups_to_age() {
            let group = self.state.groups.ageing().next().expect("there is one");
            let (walk, job) = AgeJob::begin(self.state.groups[group].ageing.expect("it is one of those"));
            self.jobs.put(Asked::ByState, group, walk, Task::Ageing(job));
        }
    }

    pub(super) fn age_step(
        &mut self,
        job: &mut AgeJob,
        walk: &mut Walk,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        let version = self.state.groups[group].ageing.expect("nobody else ends this");
        if version != job.version {
            (*walk, *job) = AgeJob::begin(version);
        }
        while *left > 0 {
            match self.come_to_next(&mut job.coming, walk, group, left, needs, |topic| topic.counts.waiting > 0) {
                Next::Topic(name) => {
                    if let Some(slot) = self.state.topics.find(group, &name)
                        && self.age(slot, log)
                    {
                        *left = left.saturating_sub(WRITING);
                    }
                }
                Next::Waits(wants) => return Step::Waits(wants),
                Next::Later => return Step::Later,
                Next::End => {
                    self.commit(Fact::TopicsAged { group }, log);
                    return Step::Done(Ok(Reply::Done));
                }
            }
        }
        Step::Later
    }
}
