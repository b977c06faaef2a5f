//! Topics are settled by a policy that counts for those which nothing happens to: after ageing has changed they take the
//! places that what waits in them has come to, and after a rate has changed they have the tokens that the new one leaves
//! them; and where strict order has begun or ended, they wait for what is in retry, or no longer do. All of a group are gone
//! over, those too that hold nothing but a bucket, and each is told as if something had happened to it.
//!
//! That a group has still to be gone over is state, and how far this has come is not: a topic that is settled
//! leaves no fact, so it is gone over from the beginning after a restart, or when the policy changes once more.

use millpond_types::{Counts, TopicView};

use super::coming::{Coming, Next};
use super::walk::Walk;
use super::{Needs, Step, Task, WRITING};
use crate::Core;
use crate::fact::{Fact, FactLog, GroupNumber};
use crate::output::Reply;

#[derive(Default)]
pub(super) struct SettleJob {
    /// The version of the policy by which topics are settled; none at first.
    version: Option<u64>,
    coming: Coming,
}

impl SettleJob {
    pub(super) fn begin() -> (Walk, Task) {
        (Walk::of_all(), Task::Settling(SettleJob::default()))
    }
}

impl Core {
    pub(super) fn settle_step(
        &mut self,
        job: &mut SettleJob,
        walk: &mut Walk,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        let version = self.state.groups[group].unsettled;
        assert!(version.is_some(), "nobody else ends this");
        if version != job.version {
            (*walk, *job) = (Walk::of_all(), SettleJob { version, coming: Coming::default() });
        }
        // What happens to any other settles it; and as here, so in memory ([`crate::state::topic::Topic::is_gone_over`]).
        let is_of_interest = |topic: &TopicView| topic.counts.waiting > 0 || topic.counts == Counts::default();
        while *left > 0 {
            match self.come_to_next(&mut job.coming, walk, group, left, needs, is_of_interest) {
                Next::Topic(name) => {
                    if let Some(slot) = self.state.topics.find(group, &name)
                        && self.settle(slot, log)
                    {
                        *left = left.saturating_sub(WRITING);
                    }
                }
                Next::Waits(wants) => return Step::Waits(wants),
                Next::Later => return Step::Later,
                Next::End => {
                    self.commit(Fact::TopicsSettled { group }, log);
                    return Step::Done(Ok(Reply::Done));
                }
            }
        }
        Step::Later
    }
}
