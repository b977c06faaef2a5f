//! Which topics of a group stand out.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::limits::TOP_MAX;
use millpond_types::{TopBy, TopicName, TopicView};

use super::walk::{Place, Walk};
use super::{Step, Task, cost};
use crate::Core;
use crate::command::{Ticket, Top};
use crate::decide::Refusal;
use crate::fact::{FactLog, GroupNumber};
use crate::output::Reply;
use crate::state::State;

pub(super) struct TopJob {
    by: TopBy,
    limit: usize,
    /// The best so far, the first of them first.
    found: BTreeMap<(Rank, TopicName), TopicView>,
}

/// Less is further in front.
type Rank = u64;

impl Core {
    /// Begins to look for the topics that stand out; the answer comes when all have been looked at.
    pub(crate) fn top(&mut self, ticket: Ticket, top: &Top, log: &mut dyn FactLog) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&top.namespace)?;
        let group = self.group_of(namespace, &top.group)?;
        let limit = (top.limit as usize).clamp(1, TOP_MAX);
        let job = TopJob { by: top.by, limit, found: BTreeMap::new() };
        self.begin(ticket, group, (Walk::of_prefix(&top.prefix, Vec::new()), Task::Top(job)), log)
    }
}

impl TopJob {
    pub(super) fn step(&mut self, walk: &mut Walk, group: GroupNumber, state: &State, left: &mut usize) -> Step {
        loop {
            match walk.next(group, state, left) {
                Place::At(view) => {
                    *left = left.saturating_sub(cost(&view));
                    self.take(view);
                }
                Place::Before(want) => return Step::Waits(Vec::from([want])),
                Place::Later => return Step::Later,
                Place::End => return Step::Done(Ok(self.so_far())),
            }
        }
    }

    pub(super) fn so_far(&mut self) -> Reply {
        Reply::Topics(core::mem::take(&mut self.found).into_values().collect())
    }

    fn take(&mut self, view: TopicView) {
        // Nothing stands out where nothing waits, or nothing has a time.
        let rank = match self.by {
            TopBy::Depth => view.oldest.map(|_| u64::MAX - view.counts.waiting),
            // What is paused has nothing ready.
            TopBy::Age => view.oldest.filter(|_| !view.paused).map(|at| at.0),
            TopBy::Due => view.due.map(|at| at.0),
        };
        let Some(rank) = rank else { return };
        self.found.insert((rank, view.name.clone()), view);
        if self.found.len() > self.limit {
            self.found.pop_last();
        }
    }
}
