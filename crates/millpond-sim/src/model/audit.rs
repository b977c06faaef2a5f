//! The core's own state, held against the model: each group holds the messages that the facts say, each in its state, with
//! its counts, and with a body that can be read.

use std::collections::BTreeSet;

use millpond_core::fact::GroupNumber;
use millpond_core::page::{AsidePage, AsideState, Page, PiecePage, RunPage};
use millpond_types::{LeaseNumber, MessageId, Priority, Sequence, TopicNumber};

use super::{Model, State};
use crate::audit::{Blocks, compare};
use crate::verdict::Violation;

/// Messages of one level that lie together, and what they do: their state, deliveries and failures.
type Found<'a> = (Priority, &'a RunPage, (State, u32, u32));

impl Model {
    /// Compares everything.
    pub fn audit(&self, pages: &[Page], blocks: &mut Blocks<'_>) -> Result<(), Violation> {
        let (mut found, mut dead) = (0, BTreeSet::new());
        for page in pages {
            match page {
                Page::Topic(page) => {
                    for level in &page.levels {
                        let messages = (&level.runs[..], &level.aside[..]);
                        found += self.compare_all((page.group, page.number), level.priority, messages, blocks)?;
                    }
                }
                Page::Piece(PiecePage { topic, group, priority, messages }) => {
                    found += self.compare_all((*group, *topic), *priority, messages.parts(), blocks)?;
                }
                Page::Dead(page) => {
                    dead.insert((page.group, page.id));
                    self.read(page.id, &page.run, blocks)?;
                }
                _ => {}
            }
        }
        let all: usize = self.topics.values().map(|topic| topic.messages.len()).sum();
        if found != all {
            return Err(Violation::lost(format!("{found} messages are held in all groups, and {all} by the facts")));
        }
        let known: BTreeSet<_> = self.letters.current().map(|(of, _)| of).collect();
        if dead != known {
            let other = dead.symmetric_difference(&known).next();
            return Err(Violation::lost(format!("the dead letters are not those of the facts: {other:?}")));
        }
        Ok(())
    }

    /// Messages of a level in line and aside.
    fn compare_all(
        &self,
        of: (GroupNumber, TopicNumber),
        priority: Priority,
        (line, aside): (&[RunPage], &[AsidePage]),
        blocks: &mut Blocks<'_>,
    ) -> Result<usize, Violation> {
        let line = line.iter().map(|run| (priority, run, (State::InLine, 0, 0)));
        let aside = aside.iter().map(|aside| {
            let state = match aside.state {
                AsideState::Ready { behind } => State::Back(behind),
                AsideState::Delayed { due } => State::Delayed(due),
                AsideState::Retrying { due } => State::Retrying(due),
                AsideState::Leased { lease, .. } => State::Leased(lease),
            };
            (priority, &aside.run, (state, aside.deliveries, aside.failures))
        });
        line.chain(aside).map(|run| self.compare(of, &run, blocks)).sum()
    }

    fn compare(
        &self,
        (group, topic): (GroupNumber, TopicNumber),
        (priority, run, is): &Found<'_>,
        blocks: &mut Blocks<'_>,
    ) -> Result<usize, Violation> {
        let first = MessageId { topic, priority: *priority, sequence: run.first };
        for at in 0..u64::from(run.count) {
            let id = MessageId { sequence: Sequence(run.first.0 + at), ..first };
            let (state, deliveries, failures) = *is;
            let state = if let State::Leased(lease) = state { State::Leased(LeaseNumber(lease.0 + at)) } else { state };
            let known = self.message(group, id).map(|known| (known.state, known.deliveries, known.failures));
            if known != Some((state, deliveries, failures)) {
                let what =
                    format!("{id} in group {group} is {:?}, and by the facts {known:?}", (state, deliveries, failures));
                return Err(Violation::back(what));
            }
        }
        self.read(first, run, blocks)?;
        Ok(run.count as usize)
    }

    fn read(&self, first: MessageId, run: &RunPage, blocks: &mut Blocks<'_>) -> Result<(), Violation> {
        compare(run.count, first, blocks.tags(run.extent()), self)
    }
}
