//! What a listing shows of a topic, told by the topic in memory or by its page: both tell the same.
//!
//! Whether it is paused is the namespace's to say ([`super::pauses`]): a sweep may still be on its way to the topic.

use alloc::vec::Vec;

use millpond_types::{Counts, GroupView, RunTime, TopicName, TopicView, WallTime};

use crate::page::{AsideState, RunPage, StoredResting, TopicPage};
use crate::state::Now;
use crate::state::group::Group;
use crate::state::topic::{AsideWhy, Topic};
use crate::store::Name;

impl Topic {
    /// What a listing shows of it.
    pub(crate) fn view(&self, now: Now) -> TopicView {
        let mut seen = Seen { now, ..Seen::default() };
        for level in &self.levels {
            seen.waits(level.line.waiting(), level.line.oldest());
            for aside in level.aside.values() {
                match aside.state {
                    AsideWhy::Ready { .. } => seen.is_back(&aside.run),
                    AsideWhy::Delayed { due, .. } => seen.is_delayed(aside.run.count.into(), due),
                    AsideWhy::Retrying { due, .. } => seen.is_retrying(aside.run.count.into(), due),
                    AsideWhy::Leased(_) => seen.counts.leased += u64::from(aside.run.count),
                }
            }
            level.resting_pieces().for_each(|piece| seen.rests(piece));
        }
        seen.of(&self.name)
    }
}

impl TopicPage {
    /// What a listing shows of it.
    pub(crate) fn view(&self, now: Now) -> TopicView {
        let mut seen = Seen { now, ..Seen::default() };
        for level in &self.levels {
            let stored = level.stored.iter().map(|piece| piece.published);
            seen.waits(level.waiting(), level.runs.iter().map(|run| run.published).chain(stored).min());
            for aside in &level.aside {
                match aside.state {
                    AsideState::Ready { .. } => seen.is_back(&aside.run),
                    AsideState::Delayed { due } => seen.is_delayed(aside.run.count.into(), due),
                    AsideState::Retrying { due } => seen.is_retrying(aside.run.count.into(), due),
                    AsideState::Leased { .. } => seen.counts.leased += u64::from(aside.run.count),
                }
            }
            level.resting.iter().for_each(|piece| seen.rests(piece));
        }
        seen.of(&self.name)
    }
}

impl Group {
    /// What a listing shows of it.
    pub(crate) fn view(&self) -> GroupView {
        let at = self.starting.as_ref().map(|reached| &reached.at[..]);
        // Behind a name, or at it.
        let reached = at.and_then(|at| Name::parse(at.strip_suffix(&[0]).unwrap_or(at)));
        let (name, start, is_starting, counts) = (self.name.clone(), self.start, at.is_some(), self.counts);
        GroupView { name, start, is_starting, reached, counts, tally: self.tally }
    }
}

#[derive(Default)]
struct Seen {
    now: Now,
    counts: Counts,
    oldest: Option<WallTime>,
    due: Option<WallTime>,
}

impl Seen {
    fn waits(&mut self, messages: u64, oldest: Option<WallTime>) {
        self.counts.waiting += messages;
        self.oldest = self.oldest.into_iter().chain(oldest).min();
    }

    /// Messages came back and are ready.
    fn is_back(&mut self, run: &RunPage) {
        self.waits(u64::from(run.count), Some(run.published));
    }

    fn is_delayed(&mut self, messages: u64, due: WallTime) {
        self.counts.delayed += messages;
        self.is_due(due);
    }

    fn is_retrying(&mut self, messages: u64, due: RunTime) {
        self.counts.retrying += messages;
        // When that will be if the broker runs until then.
        self.is_due(self.now.wall + due.since(self.now.run));
    }

    fn is_due(&mut self, due: WallTime) {
        self.due = self.due.into_iter().chain([due]).min();
    }

    fn rests(&mut self, piece: &StoredResting) {
        if piece.due != WallTime::NEVER {
            self.is_delayed(piece.messages - piece.retrying, piece.due);
        }
        if let Some(due) = piece.retry {
            self.is_retrying(piece.retrying, due);
        }
    }

    fn of(self, name: &TopicName) -> TopicView {
        // A page's name may be part of all that was read with it.
        let (name, Seen { counts, oldest, due, .. }) = (name.detach(), self);
        TopicView { name, paused: false, counts, oldest, due, cursors: Vec::new() }
    }
}
