//! Messages whose blocks are written anew at the tail of the journal, so that an old segment can go.
//!
//! Whoever asks for it has looked some time ago. What has ended since, or was moved already, does not lie where it was
//! seen any more, and stays as it is.

use alloc::vec::Vec;
use core::cmp::Reverse;

use millpond_types::Sequence;

use crate::Core;
use crate::apply::moves::Moving;
use crate::command::{DeadMove, Move};
use crate::fact::{Fact, FactLog};
use crate::output::{Extent, Reply};

impl Core {
    /// Answers how many messages were moved.
    pub(super) fn move_messages(&mut self, of: &Move, log: &mut dyn FactLog) -> Reply {
        if self.state.groups.get(of.group).is_none() {
            // It was deleted since, and nobody knew whose topics to bring: a fact moves messages in all groups or none.
            return Reply::Count(0);
        }
        let (topic, priority) = (of.first.topic, of.first.priority);
        let seen = Moving { first: of.first.sequence, count: of.count, from: of.from, sizes: &of.sizes };
        let siblings = self.state.topics.siblings(topic).map(|slot| &self.state.topics[slot]);
        let siblings = siblings.filter(|found| !self.state.groups[found.group].is_ending);
        let levels = siblings.filter_map(|found| found.level(priority));
        let mut runs: Vec<(Sequence, Reverse<u32>)> =
            levels.flat_map(|level| seen.runs_in(level)).map(|run| (run.first, Reverse(run.count))).collect();
        runs.sort_unstable();
        let (mut moved, mut behind) = (0, Sequence(0));
        for (first, Reverse(count)) in runs {
            let end = Sequence(first.0 + u64::from(count));
            if end <= behind {
                // It has moved with a longer run of another group.
                continue;
            }
            behind = end;
            let index = seen.index(first);
            let (begin, end) = (of.sizes.offset(index), of.sizes.offset(index + count));
            let (from, block) = (of.from + u64::from(begin), of.block.slice(begin as usize..end as usize));
            let sizes = of.sizes.cut(index, count);
            self.commit(Fact::Moved { topic, priority, first, count, from, block, sizes }, log);
            moved += u64::from(count);
        }
        Reply::Count(moved)
    }

    /// Answers whether the dead letter was moved, as a count.
    pub(super) fn move_dead(&mut self, of: DeadMove, log: &mut dyn FactLog) -> Reply {
        if self.state.namespaces.get(of.namespace).is_none() {
            // It was deleted since, and its letters before it: they are looked up for nobody.
            return Reply::Count(0);
        }
        let key = of.key();
        let dead = self.state.dead_letter(&key).expect("what a command needs is fetched before it is decided");
        let seen = Extent { position: of.from, length: of.block.len() as u32 };
        let Some(letter) = dead.filter(|dead| dead.run.extent() == seen) else { return Reply::Count(0) };
        self.commit(Fact::DeadMoved { letter, block: of.block }, log);
        if let Ok(Some(moved)) = self.state.dead_letter(&key) {
            self.jobs.letter_changed((moved.group, moved.id), Some(&moved));
        }
        Reply::Count(1)
    }
}
