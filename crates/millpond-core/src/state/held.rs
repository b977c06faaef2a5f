//! What a topic holds of a level, in line or aside, whatever is done with it: for those who look at all of it in order.

use millpond_types::{Priority, Sequence, WallTime};

use crate::page::RunPage;
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
            if self.bring(slot, priority, first)? == 0 {
                break;
            }
        }
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

    /// The last message of a level.
    pub(crate) fn last_held(&mut self, slot: TopicSlot, priority: Priority) -> Result<Option<Sequence>, Want> {
        while let Some(last) = self.topics[slot].level(priority).and_then(|level| level.line.last()) {
            if self.bring(slot, priority, last)? == 0 {
                break;
            }
        }
        let Some(level) = self.topics[slot].level(priority) else { return Ok(None) };
        let aside = level.aside.values().next_back().map(|aside| Sequence(aside.run.end().0 - 1));
        Ok(aside.max(level.line.last()))
    }
}
