//! The topics that a job comes to next: a few at a time are found on its walk, and stay in memory until it has come to them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use millpond_types::{TopicName, TopicView};

use super::Needs;
use super::admitted::Names;
use super::walk::{Place, Walk};
use crate::Core;
use crate::fact::GroupNumber;
use crate::state::State;
use crate::store::Want;

#[derive(Default)]
pub(super) struct Coming {
    /// Topics that were named.
    named: Names,
    /// Those of them that come next, or that the walk has found.
    names: VecDeque<TopicName>,
    /// How many of these are in memory or do not exist.
    held: usize,
}

/// What a job comes to.
pub(super) enum Next {
    /// The topic of this name. It is in memory or does not exist.
    Topic(TopicName),
    /// It cannot go on without these.
    Waits(Vec<Want>),
    /// It has looked at what it may for now, and found nothing.
    Later,
    End,
}

impl Coming {
    /// These, before any that a walk finds.
    pub(super) fn of(named: Names) -> Coming {
        Coming { named, ..Coming::default() }
    }

    /// Finds as many topics as can be kept in memory, of those that are of interest; what it waits for if it has found none.
    fn find(
        &mut self,
        walk: &mut Walk,
        group: GroupNumber,
        state: &State,
        left: &mut usize,
        most: usize,
        is_of_interest: impl Fn(&TopicView) -> bool,
    ) -> Option<Want> {
        while self.names.len() < most {
            if let Some(name) = self.named.next() {
                self.names.push_back(name);
                continue;
            }
            match walk.next(group, state, left) {
                Place::At(view) => {
                    *left -= 1;
                    if is_of_interest(&view) {
                        self.names.push_back(view.name);
                    }
                }
                Place::Before(want) => return Some(want).filter(|_| self.names.is_empty()),
                Place::Later | Place::End => break,
            }
        }
        None
    }
}

impl Core {
    /// Steps to the next topic.
    pub(super) fn come_to_next(
        &mut self,
        coming: &mut Coming,
        walk: &mut Walk,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        is_of_interest: impl Fn(&TopicView) -> bool,
    ) -> Next {
        if coming.held == 0 {
            needs.topics.clear();
            let most = self.jobs.held_by_each();
            if let Some(want) = coming.find(walk, group, &self.state, left, most, is_of_interest) {
                return Next::Waits(Vec::from([want]));
            }
            if coming.names.is_empty() {
                return if *left > 0 { Next::End } else { Next::Later };
            }
            let wants = self.hold(coming, group, needs);
            if !wants.is_empty() {
                return Next::Waits(wants);
            }
        }
        coming.held -= 1;
        // What finding it has cost may have been the last.
        *left = left.saturating_sub(1);
        Next::Topic(coming.names.pop_front().expect("those that are held are among them"))
    }

    /// Keeps the next topics in memory; what has to be fetched for that.
    fn hold(&mut self, coming: &mut Coming, group: GroupNumber, needs: &mut Needs) -> Vec<Want> {
        let mut missing = Vec::new();
        for name in coming.names.iter().take(self.jobs.held_by_each()) {
            needs.topics.insert(name.clone());
            if self.state.topics.find(group, name).is_none() {
                self.look_up_in(group, name, &mut missing);
            }
        }
        coming.held = needs.topics.len();
        missing.into_iter().map(Want::Entry).collect()
    }
}
