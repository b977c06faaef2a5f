//! The journal of a test: facts in memory, at positions as in a real one. It checks what only it can see: that blocks
//! are what their facts say, and that sequences, lease numbers and topic numbers only grow, across the lives of topics.

use std::collections::BTreeMap;

use bytes::Bytes;
use millpond_core::fact::{Fact, FactLog, NamespaceNumber};
use millpond_core::output::Extent;
use millpond_types::block::{self, Sizes};
use millpond_types::{Priority, TopicName, TopicNumber};

/// Bytes that a fact without messages takes here. Any number does.
const FACT_BYTES: u64 = 32;

type Home = (NamespaceNumber, TopicName);

#[derive(Default)]
pub struct Journal {
    /// Each fact as it would be read back, with its position.
    pub facts: Vec<(Fact, u64)>,
    position: u64,
    blocks: BTreeMap<u64, Bytes>,
    homes: BTreeMap<TopicNumber, Home>,
    next_sequence: BTreeMap<(Home, Priority), u64>,
    next_lease: BTreeMap<Home, u64>,
    next_topic: u64,
}

impl FactLog for Journal {
    fn append(&mut self, fact: &Fact) -> u64 {
        self.check(fact);
        let mut fact = fact.clone();
        let mut position = self.position;
        if let Fact::Published { count, block, sizes, .. } | Fact::Moved { count, block, sizes, .. } = &mut fact {
            // A journal does not keep the sizes: it finds them again in the block.
            *sizes = sizes_of(block);
            assert_eq!(sizes.offset(*count) as usize, block.len(), "a fact counts the messages of its block");
        }
        if let Some(block) = fact.block() {
            position += FACT_BYTES;
            self.blocks.insert(position, block.clone());
            self.position += block.len() as u64;
        }
        self.position += FACT_BYTES;
        self.facts.push((fact, position));
        position
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl Journal {
    /// The messages that lie in an extent.
    pub fn read(&self, extent: Extent) -> Vec<String> {
        let (position, block) = self.blocks.range(..=extent.position).next_back().expect("an extent lies in a block");
        let from = (extent.position - position) as usize;
        let bytes = &block[from..from + extent.length as usize];
        let bodies = block::messages(bytes).map(|parts| parts.expect("an extent holds whole messages").body);
        bodies.map(|body| String::from_utf8(body.to_vec()).expect("tests publish text")).collect()
    }

    /// All messages that were ever stored, as often as they were.
    pub fn stored(&self) -> impl Iterator<Item = Extent> {
        self.blocks.iter().map(|(position, block)| Extent { position: *position, length: block.len() as u32 })
    }

    fn check(&mut self, fact: &Fact) {
        match fact {
            Fact::TopicCreated { topic, namespace, name, .. } => {
                let home = (*namespace, name.clone());
                // Another group may have the topic already.
                let is_known = self.homes.get(topic) == Some(&home);
                assert!(is_known || topic.0 >= self.next_topic, "a topic number is given out once");
                self.next_topic = self.next_topic.max(topic.0 + 1);
                self.homes.insert(*topic, home);
            }
            Fact::Published { topic, priority, first, count, .. } => {
                self.sequence(*topic, *priority, first.0, u64::from(*count))
            }
            Fact::Redriven { topic, letter, sequence, .. } => self.sequence(*topic, letter.id.priority, sequence.0, 1),
            Fact::Leased { topic, lease, count, .. } => {
                let next = self.next_lease.entry(self.homes[topic].clone()).or_default();
                assert!(lease.0 >= *next, "lease numbers grow strictly within a topic, over all groups, for ever");
                *next = lease.0 + u64::from(*count);
            }
            _ => {}
        }
    }

    fn sequence(&mut self, topic: TopicNumber, priority: Priority, first: u64, count: u64) {
        let next = self.next_sequence.entry((self.homes[&topic].clone(), priority)).or_default();
        assert!(first >= *next, "sequences grow strictly within a topic and priority, for ever");
        *next = first + count;
    }
}

/// The sizes of a block, found by walking it.
pub fn sizes_of(block: &[u8]) -> Sizes {
    let mut end = 0;
    let lengths = block::messages(block).map(|parts| parts.expect("a test's block is valid").length as u32);
    let ends: Vec<u32> = lengths.map(|length| (end += length, end).1).collect();
    Sizes::from_ends(&ends)
}
