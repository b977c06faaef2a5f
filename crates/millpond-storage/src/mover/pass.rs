//! A pass over all entries of a checkpoint, for the messages that lie in some segments.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use millpond_core::command::{Command, DeadMove, Move};
use millpond_core::fact::{GroupNumber, NamespaceNumber};
use millpond_core::output::Extent;
use millpond_core::page::{DeadPage, Page, PiecePage, RunPage, TopicPage};
use millpond_core::store::{KeyBytes, Range};
use millpond_types::{MessageId, Priority, TopicName, TopicNumber};

use super::victims::Victims;
use crate::store::{LayeredStore, decoded};
use crate::tree::TreeError;

/// Entries that are looked at in a step: some milliseconds, on a thread of its own.
const SLICE: u32 = 500;

/// The entries that tell of messages: topics and then the pieces of their lines, and dead letters.
const SPANS: [[u8; 2]; 2] = [[3, 5], [8, 9]];

/// See the module.
pub struct Pass {
    victims: Victims,
    /// What is still to be looked at, the last first.
    spans: Vec<(KeyBytes, KeyBytes)>,
    /// The topics with pieces that stand behind the topics, by what these go by. So long are few of them.
    long: HashMap<(TopicNumber, GroupNumber), TopicName>,
    found: VecDeque<Found>,
}

/// Messages that lie in a victim, as the checkpoint knows them.
pub struct Found {
    group: GroupNumber,
    topic: TopicName,
    /// The first of them.
    id: MessageId,
    run: RunPage,
    /// Of a dead letter, its namespace.
    dead: Option<NamespaceNumber>,
}

impl Found {
    pub fn extent(&self) -> Extent {
        self.run.extent()
    }

    /// Whether it is a dead letter, which moves by itself and not with what others need.
    pub fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// To be decided by the core, with the messages as they were read.
    pub fn into_move(self, block: Bytes) -> Command {
        let Found { group, topic, id, run, dead } = self;
        let from = run.extent().position;
        match dead {
            Some(namespace) => Command::DeadMove(DeadMove { namespace, group, topic, id, from, block }),
            None => {
                let (count, sizes) = (run.count, run.sizes);
                Command::Move(Move { group, name: topic, first: id, count, from, block, sizes })
            }
        }
    }
}

impl Pass {
    pub fn begin(victims: Victims) -> Pass {
        let spans = SPANS.iter().rev().map(|[from, until]| (vec![*from], vec![*until])).collect();
        Pass { victims, spans, long: HashMap::new(), found: VecDeque::new() }
    }

    /// Whether something was found and not taken.
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Takes what was found first.
    pub fn next(&mut self) -> Option<Found> {
        self.found.pop_front()
    }

    /// Looks at the next entries. False if there were none.
    pub fn look_on(&mut self, store: &LayeredStore) -> Result<bool, TreeError> {
        let Some((from, until)) = self.spans.pop() else { return Ok(false) };
        let scanned = store.tree().scan(&Range { from, until: until.clone(), limit: SLICE })?;
        if let Some((last, _)) = scanned.entries.last().filter(|_| !scanned.complete) {
            self.spans.push(([last, &[0][..]].concat(), until));
        }
        for (key, value) in scanned.entries {
            self.look_at(decoded(&key, &value)?);
        }
        Ok(true)
    }

    fn look_at(&mut self, page: Page) {
        match page {
            Page::Topic(TopicPage { number, group, name, levels, .. }) => {
                if levels.iter().any(|level| !level.stored.is_empty() || !level.resting.is_empty()) {
                    self.long.insert((number, group), name.clone());
                }
                for level in levels {
                    let aside = level.aside.into_iter().map(|aside| aside.run);
                    let runs = level.runs.into_iter().chain(aside);
                    runs.for_each(|run| self.note((group, &name), (number, level.priority), run, None));
                }
            }
            Page::Piece(page) => {
                let PiecePage { topic, group, priority, .. } = page;
                // One that was not long when the pass came by is found by the next.
                let Some(name) = self.long.get(&(topic, group)).cloned() else { return };
                page.runs().for_each(|run| self.note((group, &name), (topic, priority), run.clone(), None));
            }
            Page::Dead(DeadPage { namespace, group, topic, id, run, .. }) => {
                self.note((group, &topic), (id.topic, id.priority), run, Some(namespace));
            }
            _ => {}
        }
    }

    fn note(
        &mut self,
        (group, name): (GroupNumber, &TopicName),
        (topic, priority): (TopicNumber, Priority),
        run: RunPage,
        dead: Option<NamespaceNumber>,
    ) {
        if self.victims.hold(run.extent()) {
            let id = MessageId { topic, priority, sequence: run.first };
            self.found.push_back(Found { group, topic: name.clone(), id, run, dead });
        }
    }
}
