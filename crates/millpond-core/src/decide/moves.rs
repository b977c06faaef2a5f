//! Messages whose blocks are written anew at the tail of the journal, so that an old segment can go.
//!
//! Whoever asks for it has looked some time ago. What has ended since, or was moved already, does not lie where it was
//! seen any more, and stays as it is.

use alloc::vec::Vec;

use millpond_types::Sequence;

use crate::Core;
use crate::command::{DeadMove, Move};
use crate::fact::{Fact, FactLog};
use crate::output::{Extent, Reply};
use crate::page::RunPage;
use crate::state::topic::Level;

impl Core {
    /// Answers how many messages were moved.
    pub(super) fn move_messages(&mut self, of: &Move, log: &mut dyn FactLog) -> Reply {
        let (topic, priority) = (of.first.topic, of.first.priority);
        let slot = self.state.topics.find(of.group, &of.name);
        let level = slot.map(|slot| &self.state.topics[slot]).filter(|found| found.number == topic);
        let runs = level.and_then(|found| found.level(priority)).map(|level| of.runs_in(level)).unwrap_or_default();
        let mut moved = 0;
        for (first, count) in runs {
            let index = of.index(first);
            let (from, to) = (of.sizes.offset(index), of.sizes.offset(index + count));
            let block = of.block.slice(from as usize..to as usize);
            let sizes = of.sizes.cut(index, count);
            self.commit(Fact::Moved { topic, priority, first, count, block, sizes }, log);
            moved += u64::from(count);
        }
        Reply::Count(moved)
    }

    /// Answers whether the dead letter was moved, as a count.
    pub(super) fn move_dead(&mut self, of: DeadMove, log: &mut dyn FactLog) -> Reply {
        let key = of.key();
        let dead = self.state.dead_letter(&key).expect("what a command needs is fetched before it is decided");
        let seen = Extent { position: of.from, length: of.block.len() as u32 };
        let Some(letter) = dead.filter(|dead| dead.run.extent() == seen) else { return Reply::Count(0) };
        self.commit(Fact::DeadMoved { letter, block: of.block }, log);
        if let Ok(Some(moved)) = self.state.dead_letter(&key) {
            self.jobs.letter_changed(moved.id, Some(&moved));
        }
        Reply::Count(1)
    }
}

impl Move {
    fn end(&self) -> Sequence {
        Sequence(self.first.sequence.0 + u64::from(self.count))
    }

    /// The index in the block of a message.
    fn index(&self, sequence: Sequence) -> u32 {
        (sequence.0 - self.first.sequence.0) as u32
    }

    /// The runs of a level that are still where they were seen.
    fn runs_in(&self, level: &Level) -> Vec<(Sequence, u32)> {
        let (first, end) = (self.first.sequence, self.end());
        let in_line = level.line.runs_from(first).take_while(|run| run.first < end);
        let aside = level.aside.range(first..end).map(|(_, aside)| &aside.run);
        let whole = in_line.chain(aside).filter(|run| run.first >= first && run.end() <= end);
        whole.filter(|run| self.saw(run)).map(|run| (run.first, run.count)).collect()
    }

    fn saw(&self, run: &RunPage) -> bool {
        let index = self.index(run.first);
        let (from, to) = (self.sizes.offset(index), self.sizes.offset(index + run.count));
        run.extent() == Extent { position: self.from + u64::from(from), length: to - from }
    }
}
