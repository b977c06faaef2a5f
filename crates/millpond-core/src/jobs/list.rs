//! A page of a group's topics, in the order of their names.

use alloc::vec::Vec;

use millpond_types::limits::PAGE_MAX;
use millpond_types::{GroupName, TopicView};

use super::walk::{Place, Walk};
use super::{Step, Task, cost};
use crate::Core;
use crate::command::{Listing, Ticket};
use crate::decide::Refusal;
use crate::fact::{FactLog, GroupNumber};
use crate::output::Reply;
use crate::state::State;
use crate::store::Name;

pub(super) struct ListJob {
    limit: usize,
    rows: Vec<TopicView>,
}

impl Core {
    /// Begins a page; the answer comes when it is full or there are no more topics.
    pub(crate) fn list(
        &mut self,
        ticket: Ticket,
        listing: &Listing,
        group: &GroupName,
        log: &mut dyn FactLog,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&listing.namespace)?;
        let group = self.group_of(namespace, group)?;
        let limit = (listing.limit as usize).clamp(1, PAGE_MAX);
        let from = if listing.after.is_empty() { Vec::new() } else { Name::behind(&listing.after) };
        let job = ListJob { limit, rows: Vec::new() };
        self.begin(ticket, group, (Walk::of_prefix(&listing.prefix, from), Task::List(job)), log)
    }
}

impl ListJob {
    pub(super) fn step(&mut self, walk: &mut Walk, group: GroupNumber, state: &State, left: &mut usize) -> Step {
        while self.rows.len() < self.limit {
            match walk.next(group, state, left) {
                Place::At(view) => {
                    *left = left.saturating_sub(cost(&view));
                    self.rows.push(view);
                }
                Place::Before(want) => return Step::Waits(Vec::from([want])),
                Place::Later => return Step::Later,
                Place::End => break,
            }
        }
        Step::Done(Ok(self.so_far()))
    }

    pub(super) fn so_far(&mut self) -> Reply {
        Reply::Topics(core::mem::take(&mut self.rows))
    }
}
