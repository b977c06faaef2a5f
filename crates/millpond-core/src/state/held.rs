//! What a topic holds of a level, in line or aside, whatever is done with it: for those who look at all of it in order.

use millpond_types::{Priority, Sequence, WallTime};

use crate::page::RunPage;
use crate::state::line::InLine;
use crate::state::topic::AsideWhy;
use crate::state::{State, TopicSlot};
use crate::store::Want;

impl State {
    /// The first messages of a level from one on, and when their delay ends.
    pub(crate) fn next_held(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        from: Sequence,
    ) -> Result<Option<(RunPage, Option<WallTime>)>, Want> {
        while let Some(first) = self.topics[slot].level(priority).and_then(|level| level.line.next_from(from)) {
            if self.bring_line(slot, priority, first)? == 0 {
                break;
            }
        }
        self.bring_next_aside(slot, priority, from, Sequence(u64::MAX))?;
        let Some(level) = self.topics[slot].level(priority) else { return Ok(None) };
        let in_line = level.line.runs_from(from).next().map(|run| (run, None));
        let aside =
            level.aside_of(from).or_else(|| level.aside.range(from..).next().map(|(at, aside)| (*at, &**aside)));
        let aside = aside.map(|(_, aside)| match aside.state {
            AsideWhy::Delayed { due, .. } => (&aside.run, Some(due)),
            _ => (&aside.run, None),
        });
        let first = in_line.into_iter().chain(aside).min_by_key(|(run, _)| run.first);
        Ok(first.map(|(run, due)| {
            let mut run = run.clone();
            run.split_front(from.0.saturating_sub(run.first.0) as u32);
            (run, due)
        }))
    }

    /// The last message of a level before one, and the run that it is of.
    pub(crate) fn last_held(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        end: Sequence,
    ) -> Result<Option<(Sequence, RunPage)>, Want> {
        while let Some(last) = self.topics[slot].level(priority).and_then(|level| level.line.last_before(end)) {
            if self.bring_line(slot, priority, last)? == 0 {
                break;
            }
        }
        self.bring_last_aside(slot, priority, end)?;
        let Some(level) = self.topics[slot].level(priority) else { return Ok(None) };
        let in_line = level.line.last_before(end).map(|last| match level.line.find(last) {
            InLine::Run(run) => run,
            _ => unreachable!("it was brought"),
        });
        let aside = level.aside.range(..end).next_back().map(|(_, aside)| &aside.run);
        let last = in_line.into_iter().chain(aside).max_by_key(|run| run.first);
        Ok(last.map(|run| (Sequence(run.end().min(end).0 - 1), run.clone())))
    }

    /// Whether a message is here, in memory, and not leased.
    pub(crate) fn is_waiting(&self, slot: TopicSlot, priority: Priority, sequence: Sequence) -> bool {
        let Some(level) = self.topics[slot].level(priority) else { return false };
        match level.aside_of(sequence) {
            Some((_, aside)) => !matches!(aside.state, AsideWhy::Leased(_)),
            None => matches!(level.line.find(sequence), InLine::Run(_)),
        }
    }
}
