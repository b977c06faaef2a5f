//! The order against a sorted map.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::Priority;
use proptest::prelude::*;

use super::{ANY, BEGINS, NONE, NodeId, Offers, Order, WIDTH, offer};
use crate::fact::GroupNumber;
use crate::state::TopicSlot;

/// An order whose topics are called by numbers, and the map that knows better.
#[derive(Default)]
struct Both {
    order: Order,
    names: Vec<(GroupNumber, u32)>,
    free: Vec<TopicSlot>,
    model: BTreeMap<(GroupNumber, u32), (TopicSlot, Option<Priority>)>,
}

impl Both {
    fn insert(&mut self, group: GroupNumber, name: u32, level: Option<Priority>) {
        let key = (group, name);
        if self.model.contains_key(&key) {
            return;
        }
        let slot = self.free.pop().unwrap_or(self.names.len() as TopicSlot);
        self.names.resize(self.names.len().max(slot as usize + 1), key);
        self.names[slot as usize] = key;
        let place = self.order.seek(group, |other| self.names[other as usize].1 < name);
        // Behind the one before is the same place, though it may be in another leaf.
        let before = place.filter(|_| name.is_multiple_of(2)).and_then(|_| self.before((group, name)));
        let place = before.map(|slot| self.order.position(slot).behind()).or(place);
        self.order.insert_at(group, place, slot, |other| tenant(self.names[other as usize].1) == tenant(name));
        self.order.set(slot, level);
        self.model.insert(key, (slot, level));
    }

    fn before(&self, key: (GroupNumber, u32)) -> Option<TopicSlot> {
        let mut before = self.model.range((key.0, 0)..key);
        before.next_back().map(|(_, (slot, _))| *slot)
    }

    fn remove(&mut self, group: GroupNumber, name: u32) {
        if let Some((slot, _)) = self.model.remove(&(group, name)) {
            self.order.remove(group, slot);
            self.free.push(slot);
        }
    }

    fn set(&mut self, group: GroupNumber, name: u32, level: Option<Priority>) {
        if let Some(known) = self.model.get_mut(&(group, name)) {
            known.1 = level;
            self.order.set(known.0, level);
        }
    }

    fn check(&self, group: GroupNumber, from: u32, wanted: Offers) {
        let all = || self.model.range((group, 0)..=(group, u32::MAX));
        let expected = |from: u32| {
            let mut hits = all().filter(|(key, (_, level))| key.1 >= from && offer(*level) & wanted != 0);
            hits.next().map(|(_, (slot, _))| *slot)
        };
        let place = self.order.seek(group, |slot| self.names[slot as usize].1 < from);
        assert_eq!(place.is_some(), all().next().is_some(), "a group without topics has no places");
        assert_eq!(place.and_then(|place| self.order.next(place, wanted)), expected(from));
        assert_eq!(self.order.first(group, wanted), expected(0));
        if let Some((slot, _)) = self.model.get(&(group, from)) {
            assert_eq!(self.order.next_after(*slot, wanted), expected(from + 1));
            let next = all().find(|(key, _)| key.1 > from && tenant(key.1) != tenant(from));
            let found = self.order.tenant_end(*slot).and_then(|place| self.order.next(place, ANY));
            assert_eq!(found, next.map(|(_, (slot, _))| *slot), "the next tenant");
        }
    }

    fn check_all(&self) {
        for group in 0..2 {
            let names = || self.model.range((group, 0)..=(group, u32::MAX));
            let begin = core::iter::once(None).chain(names().map(|(key, _)| Some(tenant(key.1)))).zip(names());
            let begin =
                begin.filter(|(before, (key, _))| *before != Some(tenant(key.1))).map(|(_, (_, (slot, _)))| *slot);
            let first = self.order.first(group, BEGINS);
            let found = core::iter::successors(first, |slot| self.order.next_after(*slot, BEGINS));
            assert_eq!(found.collect::<Vec<_>>(), begin.collect::<Vec<_>>(), "where tenants begin");
            let expected = self.model.range((group, 0)..=(group, u32::MAX)).map(|(_, (slot, _))| *slot);
            let first = self.order.first(group, ANY);
            let found = core::iter::successors(first, |slot| self.order.next_after(*slot, ANY));
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        self.order.roots.values().for_each(|root| _ = self.check_node(*root, NONE));
    }

    /// Nodes know their parents, say what is below, and are not empty; all leaves are as deep.
    fn check_node(&self, id: NodeId, parent: NodeId) -> usize {
        let node = &self.order.nodes[id as usize];
        assert_eq!(node.parent, parent);
        assert!(node.len() > usize::from(!node.is_leaf() && parent == NONE));
        assert!((node.len()..WIDTH).all(|at| (node.offers[at], node.firsts[at]) == (0, TopicSlot::MAX)), "behind them");
        let depths = (0..node.len()).map(|at| match node.entry(at).child {
            None => 0,
            Some(child) => {
                let below = self.order.nodes[child as usize].as_entry(child);
                assert_eq!((node.firsts[at], node.offers[at]), (below.first, below.offers));
                assert_eq!(self.order.nodes[child as usize].told, (below.first, below.offers));
                1 + self.check_node(child, id)
            }
        });
        let depths: Vec<usize> = depths.collect();
        assert!(depths.iter().all(|depth| *depth == depths[0]));
        depths[0]
    }
}

/// Some have many topics, most have few.
fn tenant(name: u32) -> u32 {
    if name < 3000 { name / 300 } else { name / 3 }
}

fn level(n: u8) -> Option<Priority> {
    // Few levels, so that masks differ and change.
    Priority::new([4, 9, 0, 200][usize::from(n % 4)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Many topics come, change and go, in stretches, so that nodes are split, joined and emptied at every height.
    #[test]
    fn agrees_with_a_sorted_map(
        stretches in proptest::collection::vec((0u8..5, 0u32..2, any::<u32>(), 1u32..700, 1u32..5, any::<u8>()), 1..40),
    ) {
        let mut both = Both::default();
        for (kind, group, start, count, step, with) in stretches {
            let start = start % 6000;
            for n in 0..count {
                let name = if with % 2 == 0 { start + n * step } else { (start + count * step).saturating_sub(n * step) };
                match kind {
                    0 | 1 => both.insert(group, name, level(with.wrapping_add(n as u8 / 16))),
                    2 | 3 => both.remove(group, name),
                    _ => both.set(group, name, level(with)),
                }
            }
            both.check_all();
            for wanted in [ANY, offer(level(0)), offer(level(1)) | offer(level(2)), offer(None)] {
                both.check(group, start + count / 2, wanted);
                both.check(group, 0, wanted);
                both.check(group, start.saturating_sub(1), wanted);
            }
        }
    }
}

#[test]
fn what_comes_in_order_fills_its_nodes() {
    let mut both = Both::default();
    (0..4096).for_each(|name| both.insert(0, name, level(0)));
    both.check_all();
    let leaves = both.order.nodes.iter().filter(|(_, node)| node.is_leaf()).count();
    assert_eq!(leaves, 4096 / super::WIDTH);
}
