//! The topics that exist, found by name and by number, and in the order of their names.

use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Ordering;
use core::hint::black_box;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashTable};
use millpond_types::{Priority, TopicName, TopicNumber};

use crate::fact::GroupNumber;
use crate::state::TopicSlot;
use crate::state::hash::{InOrder, name_hash};
use crate::state::order::{ANY, Order, Position};
use crate::state::slots::Slots;
use crate::state::topic::{Siblings, Topic};
use crate::state::warm::TOGETHER;
use crate::store::Name;

#[derive(Clone)]
pub(crate) struct Topics {
    hash_key: [u64; 2],
    slots: Slots<Topic>,
    /// With the hashes, so that a table that grows does not make them all anew in one turn.
    by_name: HashTable<(u64, TopicSlot)>,
    /// The first of the siblings.
    by_number: HashMap<TopicNumber, TopicSlot, InOrder>,
    /// The topic that was asked for last: facts on one topic come one after another.
    at_hand: Cell<TopicSlot>,
    pub(crate) order: Order,
}

impl Topics {
    pub(crate) fn new(hash_key: [u64; 2]) -> Topics {
        let by_number = HashMap::default();
        let (slots, at_hand) = (Slots::new(), Cell::new(0));
        Topics { hash_key, slots, by_name: HashTable::new(), by_number, at_hand, order: Order::default() }
    }

    pub(crate) fn find(&self, group: GroupNumber, name: &TopicName) -> Option<TopicSlot> {
        let at_hand = self.at_hand.get();
        if self.get(at_hand).is_some_and(|topic| topic.group == group && topic.name == *name) {
            return Some(at_hand);
        }
        let found = self.find_hashed(name_hash(self.hash_key, group, name.as_bytes()), group, name)?;
        self.at_hand.set(found);
        Some(found)
    }

    /// A topic by its name, with the hash of it.
    pub(crate) fn find_hashed(&self, hash: u64, group: GroupNumber, name: &TopicName) -> Option<TopicSlot> {
        let slots = &self.slots;
        let is_it = |(other, slot): &(u64, TopicSlot)| {
            let topic = || &slots[*slot];
            *other == hash && topic().group == group && topic().name == *name
        };
        self.by_name.find(hash, is_it).map(|(_, slot)| *slot)
    }

    /// A group's topic of a number.
    pub(crate) fn by_number(&self, number: TopicNumber, group: GroupNumber) -> Option<TopicSlot> {
        let at_hand = self.at_hand.get();
        if self.get(at_hand).is_some_and(|topic| topic.number == number && topic.group == group) {
            return Some(at_hand);
        }
        let found = self.siblings(number).find(|slot| self[*slot].group == group)?;
        self.at_hand.set(found);
        Some(found)
    }

    /// The topics of a number in memory, in the order of their groups.
    pub(crate) fn siblings(&self, number: TopicNumber) -> impl Iterator<Item = TopicSlot> + '_ {
        let at_hand = self.at_hand.get();
        let is_first = |topic: &Topic| topic.number == number && topic.siblings.is_first;
        let first = match self.get(at_hand).is_some_and(is_first) {
            true => Some(at_hand),
            false => self.by_number.get(&number).copied(),
        };
        core::iter::successors(first, |slot| self[*slot].siblings.next)
    }

    /// The first topic of a number in memory.
    pub(crate) fn first_sibling(&self, number: TopicNumber) -> Option<TopicSlot> {
        self.by_number.get(&number).copied()
    }

    /// Brings near what is needed to take topics out, of which there are [`TOGETHER`] at most: their places by name, by
    /// number and in the order.
    pub(crate) fn warm_places(&self, slots: impl Iterator<Item = TopicSlot>) {
        let mut places = [(0, 0, TopicNumber(0)); TOGETHER];
        let mut found = 0;
        for (place, slot) in places.iter_mut().zip(slots) {
            let topic = &self[slot];
            *place = (slot, topic.hashes.name, topic.number);
            found += 1;
        }
        for (slot, hash, number) in &places[..found] {
            let named = self.by_name.find(*hash, |(_, other)| other == slot).is_some();
            let numbered = self.by_number.get(number).copied();
            black_box((named, numbered, self.order.position(*slot)));
        }
    }

    /// Keeps a topic at hand that is about to be asked for by its number.
    pub(crate) fn take_up(&self, slot: TopicSlot) {
        self.at_hand.set(slot);
    }

    pub(crate) fn insert(&mut self, topic: Topic) -> TopicSlot {
        assert!(topic.offered.is_none(), "a topic that comes has not been offered");
        let (group, hashes) = (topic.group, topic.hashes);
        let near = self.behind_at_hand(group, &topic.name);
        let place = near.or_else(|| self.seek(group, Edge::Before(topic.name.as_bytes())));
        let slot = self.slots.insert(topic);
        self.by_name.insert_unique(hashes.name, (hashes.name, slot), |(hash, _)| *hash);
        self.link(slot);
        let slots = &self.slots;
        self.order.insert_at(group, place, slot, |other| slots[other].hashes.tenant == hashes.tenant);
        self.at_hand.set(slot);
        slot
    }

    /// The place of a name right behind the topic at hand, if it is there: topics are often published to, and loaded,
    /// in the order of their names.
    fn behind_at_hand(&self, group: GroupNumber, name: &TopicName) -> Option<Position> {
        let is_before = |topic: &Topic| Name::compare(topic.name.as_bytes(), name.as_bytes()) == Ordering::Less;
        let at_hand = self.at_hand.get();
        self.get(at_hand).filter(|topic| topic.group == group && is_before(topic))?;
        let place = self.order.position(at_hand).behind();
        let next = self.order.next(place, ANY);
        next.is_none_or(|next| !is_before(&self[next])).then_some(place)
    }

    pub(crate) fn remove(&mut self, slot: TopicSlot) {
        self.unlink(slot);
        let Topic { group, hashes, .. } = self[slot];
        self.order.remove(group, slot);
        let entry = self.by_name.find_entry(hashes.name, |(_, other)| *other == slot);
        entry.unwrap_or_else(|_| unreachable!("a topic is found by its name")).remove();
        self.slots.remove(slot);
    }

    /// Gives a topic its place among its siblings.
    fn link(&mut self, slot: TopicSlot) {
        let Topic { number, group, .. } = self[slot];
        if let Entry::Vacant(place) = self.by_number.entry(number) {
            place.insert(slot);
            self[slot].siblings = Siblings { is_first: true, next: None };
            return;
        }
        let before = self.siblings(number).take_while(|other| self[*other].group < group).last();
        let next = match before {
            Some(before) => self[before].siblings.next.replace(slot),
            None => self.by_number.insert(number, slot),
        };
        if let Some(next) = next {
            assert_ne!(self[next].group, group, "a group has a topic once");
            self[next].siblings.is_first = false;
        }
        self[slot].siblings = Siblings { is_first: before.is_none(), next };
    }

    fn unlink(&mut self, slot: TopicSlot) {
        let Topic { number, siblings, .. } = self[slot];
        match (siblings.is_first, siblings.next) {
            (true, None) => _ = self.by_number.remove(&number),
            (true, Some(next)) => {
                self.by_number.insert(number, next);
                self[next].siblings.is_first = true;
            }
            (false, next) => {
                let before = self.siblings(number).find(|other| self[*other].siblings.next == Some(slot));
                self[before.expect("siblings are linked")].siblings.next = next;
            }
        }
    }

    /// Every slot lies below this.
    pub(crate) fn places(&self) -> usize {
        self.slots.places()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, slot: TopicSlot) -> Option<&Topic> {
        self.slots.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: TopicSlot) -> Option<&mut Topic> {
        self.slots.get_mut(slot)
    }

    /// All topics, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TopicSlot, &Topic)> {
        self.slots.iter()
    }

    /// Takes note of the priority at which a topic is offered now.
    pub(crate) fn offer(&mut self, slot: TopicSlot, level: Option<Priority>) {
        self.slots[slot].offered = level;
        self.order.set(slot, level);
    }

    /// The place of an edge among the topics of a group; `None` if there are none.
    pub(crate) fn seek(&self, group: GroupNumber, edge: Edge<'_>) -> Option<Position> {
        self.order.seek(group, |slot| edge.is_behind(self.slots[slot].name.as_bytes()))
    }

    /// The topics of a group from an edge on, in the order of their names.
    pub(crate) fn walk(&self, group: GroupNumber, edge: Edge<'_>) -> impl Iterator<Item = (TopicSlot, &Topic)> {
        let first = self.seek(group, edge).and_then(|place| self.order.next(place, ANY));
        let slots = core::iter::successors(first, |slot| self.order.next_after(*slot, ANY));
        slots.map(|slot| (slot, &self[slot]))
    }
}

/// A place between names in the order of dispatch, where a walk may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge<'a> {
    /// Before a name, or before all names with a prefix.
    Before(&'a [u8]),
    /// Behind a name.
    Behind(&'a [u8]),
    /// Behind all topics of a tenant.
    TenantEnd(&'a [u8]),
    /// Behind all names with a prefix.
    PrefixEnd(&'a [u8]),
    /// Before a name as it stands in keys.
    Key(&'a [u8]),
}

impl Edge<'_> {
    /// The first key behind it.
    pub(crate) fn key(self) -> Vec<u8> {
        match self {
            Edge::Before(bound) => Name::bytes(bound),
            Edge::Behind(name) => Name::behind(name),
            Edge::TenantEnd(tenant) => Name::tenant_end(tenant),
            Edge::PrefixEnd(prefix) => Name::prefix_end(prefix),
            Edge::Key(key) => Vec::from(key),
        }
    }

    /// Whether it lies at a key or behind it, as far as that can be told without making its own: where the two are right
    /// beside each other, it may say that it does not.
    pub(crate) fn is_within(self, key: &[u8]) -> bool {
        match self {
            Edge::Before(name) | Edge::Behind(name) => Name::compare_key(name, key).is_ge(),
            Edge::TenantEnd(tenant) => Name::is_tenant_end_within(tenant, key),
            Edge::PrefixEnd(prefix) => Name::compare_key(prefix, key).is_ge(),
            Edge::Key(own) => own >= key,
        }
    }

    /// Whether it lies behind a name.
    pub(crate) fn is_behind(self, name: &[u8]) -> bool {
        match self {
            Edge::Before(bound) => Name::compare(name, bound) == Ordering::Less,
            Edge::Behind(bound) => Name::compare(name, bound) != Ordering::Greater,
            Edge::TenantEnd(tenant) => {
                let is_of_it = name.starts_with(tenant) && matches!(name.get(tenant.len()), None | Some(b'/'));
                is_of_it || Name::compare(name, tenant) == Ordering::Less
            }
            Edge::PrefixEnd(prefix) => name.starts_with(prefix) || Name::compare(name, prefix) == Ordering::Less,
            Edge::Key(key) => Name::compare_key(name, key) == Ordering::Less,
        }
    }
}

impl core::ops::Index<TopicSlot> for Topics {
    type Output = Topic;
    fn index(&self, slot: TopicSlot) -> &Topic {
        &self.slots[slot]
    }
}

impl core::ops::IndexMut<TopicSlot> for Topics {
    fn index_mut(&mut self, slot: TopicSlot) -> &mut Topic {
        &mut self.slots[slot]
    }
}
