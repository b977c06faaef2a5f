//! The topics that exist, found by name and by number.

use hashbrown::{HashMap, HashTable};
use millpond_types::{TopicName, TopicNumber};
use slab::Slab;

use crate::fact::NamespaceNumber;
use crate::state::TopicSlot;
use crate::state::hash::{FixedState, name_hash};
use crate::state::topic::Topic;

#[derive(Clone)]
pub(crate) struct Topics {
    hash_key: [u64; 2],
    slots: Slab<Topic>,
    /// With the hashes, so that a table that grows does not make them all anew in one turn.
    by_name: HashTable<(u64, TopicSlot)>,
    by_number: HashMap<TopicNumber, TopicSlot, FixedState>,
    /// How many of them have their contents in the store.
    pub(crate) cold: usize,
}

impl Topics {
    pub(crate) fn new(hash_key: [u64; 2]) -> Topics {
        let by_number = HashMap::default();
        Topics { hash_key, slots: Slab::new(), by_name: HashTable::new(), by_number, cold: 0 }
    }

    pub(crate) fn find(&self, namespace: NamespaceNumber, name: &TopicName) -> Option<TopicSlot> {
        let hash = name_hash(self.hash_key, namespace, name.as_bytes());
        let slots = &self.slots;
        let is_it = |(other, slot): &(u64, TopicSlot)| {
            let topic = || &slots[*slot as usize];
            *other == hash && topic().namespace == namespace && topic().name == *name
        };
        self.by_name.find(hash, is_it).map(|(_, slot)| *slot)
    }

    pub(crate) fn by_number(&self, number: TopicNumber) -> Option<TopicSlot> {
        self.by_number.get(&number).copied()
    }

    pub(crate) fn insert(&mut self, topic: Topic) -> TopicSlot {
        let (number, hash) = (topic.number, name_hash(self.hash_key, topic.namespace, topic.name.as_bytes()));
        let slot = u32::try_from(self.slots.insert(topic)).expect("fewer than 2^32 topics in memory");
        self.by_name.insert_unique(hash, (hash, slot), |(hash, _)| *hash);
        let other = self.by_number.insert(number, slot);
        assert!(other.is_none(), "a topic number is given out once");
        slot
    }

    pub(crate) fn remove(&mut self, slot: TopicSlot) -> Topic {
        let topic = self.slots.remove(slot as usize);
        let hash = name_hash(self.hash_key, topic.namespace, topic.name.as_bytes());
        let entry = self.by_name.find_entry(hash, |(_, other)| *other == slot);
        entry.unwrap_or_else(|_| unreachable!("a topic is found by its name")).remove();
        self.by_number.remove(&topic.number);
        topic
    }

    pub(crate) fn get(&self, slot: TopicSlot) -> Option<&Topic> {
        self.slots.get(slot as usize)
    }

    /// All topics, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TopicSlot, &Topic)> {
        self.slots.iter().map(|(slot, topic)| (slot as TopicSlot, topic))
    }

    /// One past the highest slot in use.
    pub(crate) fn end(&self) -> TopicSlot {
        self.slots.iter().next_back().map_or(0, |(slot, _)| slot as TopicSlot + 1)
    }
}

impl core::ops::Index<TopicSlot> for Topics {
    type Output = Topic;
    fn index(&self, slot: TopicSlot) -> &Topic {
        &self.slots[slot as usize]
    }
}

impl core::ops::IndexMut<TopicSlot> for Topics {
    fn index_mut(&mut self, slot: TopicSlot) -> &mut Topic {
        &mut self.slots[slot as usize]
    }
}
