//! Which topics of a namespace stand out.

use alloc::collections::BTreeMap;

use bytes::Bytes;
use millpond_types::limits::TOP_MAX;
use millpond_types::{TopBy, TopicName, TopicView};

use super::{Step, Task};
use crate::Core;
use crate::command::{Ticket, Top};
use crate::decide::{Refusal, topics::view};
use crate::fact::{FactLog, GroupNumber};
use crate::output::Reply;
use crate::state::topics::Edge;

pub(super) struct TopJob {
    prefix: Bytes,
    by: TopBy,
    limit: usize,
    /// The topic that was looked at last: it goes on behind its name.
    last: Option<TopicName>,
    /// The best so far, the first of them first.
    found: BTreeMap<(Rank, TopicName), TopicView>,
}

/// Less is further in front.
type Rank = u64;

impl Core {
    /// Begins to look for the topics that stand out; the answer comes when all have been looked at.
    pub(crate) fn top(&mut self, ticket: Ticket, top: Top, log: &mut dyn FactLog) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&top.namespace)?;
        let group = self.default_group(namespace);
        let Top { prefix, by, limit, .. } = top;
        let limit = (limit as usize).clamp(1, TOP_MAX);
        let job = TopJob { prefix, by, limit, last: None, found: BTreeMap::new() };
        self.begin(ticket, group, Task::Top(job), log)
    }

    pub(super) fn top_step(&mut self, job: &mut TopJob, group: GroupNumber, left: &mut usize) -> Step {
        let (prefix, last) = (job.prefix.clone(), job.last.clone());
        let from = last.as_ref().map_or(Edge::Before(&prefix), |name| Edge::Behind(name.as_bytes()));
        let found = self.state.topics.walk(group, from);
        for (_, topic) in found.take_while(|(_, topic)| topic.name.as_bytes().starts_with(&prefix)) {
            if *left == 0 {
                return Step::Later;
            }
            let steps: usize = topic.levels.iter().map(|level| level.line.steps() + level.aside.len()).sum();
            *left = left.saturating_sub(1 + steps);
            job.take(view(topic, self.state.pauses(group)));
            job.last = Some(topic.name.clone());
        }
        Step::Done(Ok(job.so_far()))
    }
}

impl TopJob {
    pub(super) fn so_far(&mut self) -> Reply {
        Reply::Topics(core::mem::take(&mut self.found).into_values().collect())
    }

    fn take(&mut self, view: TopicView) {
        // Nothing stands out where nothing waits.
        let Some(oldest) = view.oldest else { return };
        let rank = match self.by {
            TopBy::Depth => u64::MAX - view.counts.waiting,
            TopBy::Age => oldest.0,
        };
        self.found.insert((rank, view.name.clone()), view);
        if self.found.len() > self.limit {
            self.found.pop_last();
        }
    }
}
