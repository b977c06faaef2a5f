//! The pieces of lines that commands look into.

use millpond_types::limits::PAGE_MAX;
use millpond_types::{MessageId, Priority, Sequence};

use crate::Core;
use crate::command::{Command, Look, LookWhich, Publish, TopicRef, Which};
use crate::state::TopicSlot;
use crate::store::Want;

impl Core {
    /// Brings back what a command needs of the pieces of lines that are in the store; an error tells the first that has
    /// to be fetched for it.
    pub(crate) fn bring_for(&mut self, command: &Command) -> Result<(), Want> {
        match command {
            // A repeat is told what has become of the first.
            Command::Publish(Publish { runs, .. }) => {
                for hash in runs.iter().flat_map(|run| &run.dedup).map(|mark| mark.hash) {
                    if let Some(entry) = self.state.dedups.get(hash, self.state.now.wall) {
                        self.bring_message(entry.id)?;
                    }
                }
                Ok(())
            }
            Command::Cancel { which, .. } | Command::Reschedule { which, .. } => self.bring_which(*which),
            Command::Look(Look { topic, which }) => match *which {
                LookWhich::One(which) => self.bring_which(which),
                LookWhich::First(count) => self.bring_first(topic, (count as usize).min(PAGE_MAX)),
            },
            _ => Ok(()),
        }
    }

    fn bring_which(&mut self, which: Which) -> Result<(), Want> {
        match which {
            Which::Id(id) => self.bring_message(id),
            Which::Dedup(hash) => match self.state.dedups.get(hash, self.state.now.wall) {
                Some(entry) => self.bring_message(entry.id),
                None => Ok(()),
            },
        }
    }

    fn bring_message(&mut self, MessageId { topic, priority, sequence }: MessageId) -> Result<(), Want> {
        match self.state.topics.by_number(topic) {
            Some(slot) => self.state.bring(slot, priority, sequence),
            None => Ok(()),
        }
    }

    /// The first messages of each line of a topic, so many that those that are shown are among them.
    fn bring_first(&mut self, topic: &TopicRef, count: usize) -> Result<(), Want> {
        let Ok(slot) = self.topic_of(topic) else { return Ok(()) };
        let mut left = count as u64;
        for index in (0..self.state.topics[slot].levels.len()).rev() {
            let mut next = Some(Sequence(0));
            while let Some(first) = next.filter(|_| left > 0).and_then(|next| self.next_in_line(slot, index, next)) {
                let priority: Priority = self.state.topics[slot].levels[index].priority;
                self.state.bring(slot, priority, first)?;
                let run = self.state.topics[slot].levels[index].line.runs_from(first).next();
                left = left.saturating_sub(run.map_or(0, |run| u64::from(run.count)));
                next = run.map(|run| run.end());
            }
        }
        Ok(())
    }

    fn next_in_line(&self, slot: TopicSlot, index: usize, from: Sequence) -> Option<Sequence> {
        self.state.topics[slot].levels[index].line.next_from(from)
    }
}
