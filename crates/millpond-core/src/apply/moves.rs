//! Messages lie at another place in the journal. Nothing else of them changes: not their place in the topic, no lease, no
//! timer and no count.
//!
//! Groups cut the runs of a topic each in its own way, and one may be finished with what another still needs. So what
//! moves is not a run but a piece of the journal, and of each group the runs that lie wholly in it.

use alloc::vec::Vec;

use millpond_types::block::Sizes;
use millpond_types::{Priority, Sequence};

use crate::output::Extent;
use crate::page::{DeadPage, Page, RunPage};
use crate::state::line::InLine;
use crate::state::topic::Level;
use crate::state::{State, TopicSlot};

/// Consecutive messages of a topic and priority whose blocks lie together, as somebody has seen them.
pub(crate) struct Moving<'a> {
    pub(crate) first: Sequence,
    pub(crate) count: u32,
    /// Where in the journal the first of them lies.
    pub(crate) from: u64,
    pub(crate) sizes: &'a Sizes,
}

impl Moving<'_> {
    fn end(&self) -> Sequence {
        Sequence(self.first.0 + u64::from(self.count))
    }

    /// The index of a message among them.
    pub(crate) fn index(&self, sequence: Sequence) -> u32 {
        (sequence.0 - self.first.0) as u32
    }

    /// The runs of a level that are among them and where they were seen: those in line, then those aside.
    pub(crate) fn runs_in<'a>(&self, level: &'a Level) -> impl Iterator<Item = &'a RunPage> {
        let (first, end) = (self.first, self.end());
        let in_line = level.line.runs_between(first, end);
        let aside = level.aside.range(first..end).map(|(_, aside)| &aside.run);
        in_line.chain(aside).filter(move |run| run.first >= first && run.end() <= end && self.saw(run))
    }

    fn saw(&self, run: &RunPage) -> bool {
        let index = self.index(run.first);
        let (from, to) = (self.sizes.offset(index), self.sizes.offset(index + run.count));
        run.extent() == Extent { position: self.from + u64::from(from), length: to - from }
    }
}

impl State {
    /// Returns how many messages of the group were among them.
    pub(super) fn moved(&mut self, slot: TopicSlot, priority: Priority, of: &Moving<'_>, position: u64) -> u32 {
        self.bring_range(slot, priority, of.first, of.end())
            .expect("what a fact needs is fetched before it is applied");
        let Some(level) = self.topics[slot].level(priority) else { return 0 };
        let runs: Vec<(Sequence, u32)> = of.runs_in(level).map(|run| (run.first, run.count)).collect();
        let mut moved = 0;
        for (first, count) in runs {
            let place = self.where_is(slot, priority, first).expect("it was just found");
            let level = self.topics[slot].level_mut(priority).expect("it was just found");
            let index = of.index(first);
            let (at, sizes) = (position + u64::from(of.sizes.offset(index)), of.sizes.cut(index, count));
            let before = match (place, level.line.find(first)) {
                (super::Place::Line, InLine::Run(run)) => level.line.replace(run.moved_to(at, sizes)),
                (super::Place::Line, _) => unreachable!("it was just found"),
                (super::Place::Aside(_), _) => level.replace_aside(level.aside[&first].run.moved_to(at, sizes)),
            };
            let before = before.extent();
            self.keep(slot, before.length);
            self.free(slot, before);
            moved += count;
        }
        if moved > 0 {
            // Its page says something else now, and it may take more or less memory.
            self.touch(slot);
        }
        moved
    }

    pub(super) fn dead_moved(&mut self, letter: &DeadPage, position: u64) {
        let run = letter.run.moved_to(position, letter.run.sizes.clone());
        let (group, before) = (letter.group, letter.run.extent());
        self.keep_of(group, before.length);
        self.free_of(group, before);
        let moved = DeadPage { run, ..letter.clone() };
        self.set_entry(&moved.key(), Some(&Page::Dead(moved)));
    }
}
