//! Finding places in the order, and stepping on from them.

use core::ops::Range;

use super::{NONE, NodeId, Offers, Order};
use crate::fact::GroupNumber;
use crate::state::TopicSlot;

/// A place in the order: at a topic, or behind the last one of a leaf. Good until a topic comes or goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(super) node: NodeId,
    pub(super) at: usize,
}

impl Position {
    /// The place behind.
    pub(crate) fn behind(self) -> Position {
        Position { at: self.at + 1, ..self }
    }
}

impl Order {
    /// Where a topic stands.
    pub(crate) fn position(&self, slot: TopicSlot) -> Position {
        let node = self.leaf_of[slot as usize];
        Position { node, at: self.nodes[node as usize].index_of_topic(slot) }
    }

    /// The place between the topics that come before something and the others. `None` in a group without topics.
    pub(crate) fn seek(&self, group: GroupNumber, is_before: impl Fn(TopicSlot) -> bool) -> Option<Position> {
        let mut node = *self.roots.get(&group)?;
        loop {
            let place = &self.nodes[node as usize];
            let firsts = &place.firsts[..place.len()];
            if place.is_leaf() {
                return Some(Position { node, at: firsts.partition_point(|slot| is_before(*slot)) });
            }
            // What comes before the first topic of all still belongs into the first child.
            node = place.children[firsts[1..].partition_point(|slot| is_before(*slot))];
        }
    }

    /// The place between the topics from one on that come before something and those that do not, where that one does. The
    /// nearer it is, the fewer others are looked at, and none before the one.
    pub(crate) fn seek_from(&self, slot: TopicSlot, is_before: impl Fn(TopicSlot) -> bool) -> Position {
        let Position { mut node, mut at } = self.position(slot);
        let mut found = None;
        loop {
            let place = &self.nodes[node as usize];
            let end = gallop(at + 1..place.len(), |at| is_before(place.firsts[at]));
            match place.children.get(end - 1) {
                None => found = Some(Position { node, at: end }),
                Some(child) if end > at + 1 => found = Some(self.seek_below(*child, &is_before)),
                Some(_) => {}
            }
            if end < place.len() || place.parent == NONE {
                return found.expect("it was looked for in a leaf first");
            }
            at = self.nodes[place.parent as usize].index_of(node);
            node = place.parent;
        }
    }

    /// The place in a node whose first topic comes before something.
    fn seek_below(&self, mut node: NodeId, is_before: impl Fn(TopicSlot) -> bool) -> Position {
        loop {
            let place = &self.nodes[node as usize];
            let at = gallop(1..place.len(), |at| is_before(place.firsts[at]));
            match place.children.get(at - 1) {
                None => return Position { node, at },
                Some(child) => node = *child,
            }
        }
    }

    /// The first topic of a group that offers any of these.
    pub(crate) fn first(&self, group: GroupNumber, wanted: Offers) -> Option<TopicSlot> {
        let root = *self.roots.get(&group)?;
        let at = self.find(root, 0, wanted)?;
        Some(self.first_below(root, at, wanted))
    }

    /// The first topic from a place on that offers any of these.
    pub(crate) fn next(&self, from: Position, wanted: Offers) -> Option<TopicSlot> {
        let Position { mut node, mut at } = from;
        loop {
            if let Some(at) = self.find(node, at, wanted) {
                return Some(self.first_below(node, at, wanted));
            }
            let parent = self.nodes[node as usize].parent;
            if parent == NONE {
                return None;
            }
            at = self.nodes[parent as usize].index_of(node) + 1;
            node = parent;
        }
    }

    /// The first topic behind another one that offers any of these.
    pub(crate) fn next_after(&self, slot: TopicSlot, wanted: Offers) -> Option<TopicSlot> {
        self.next(self.position(slot).behind(), wanted)
    }

    fn find(&self, node: NodeId, from: usize, wanted: Offers) -> Option<usize> {
        let node = &self.nodes[node as usize];
        let offers = node.offers[..node.len()].get(from..)?;
        offers.iter().position(|offers| offers & wanted != 0).map(|at| from + at)
    }

    /// The first topic below an entry, whose mask says that there is one.
    fn first_below(&self, mut node: NodeId, mut at: usize, wanted: Offers) -> TopicSlot {
        while let Some(child) = self.nodes[node as usize].children.get(at) {
            node = *child;
            at = self.find(node, 0, wanted).expect("a mask is that of what is below");
        }
        self.nodes[node as usize].firsts[at]
    }
}

/// The first index of a range of which something is not so that is so of all before it; in steps that grow.
fn gallop(range: Range<usize>, is_so: impl Fn(usize) -> bool) -> usize {
    let (Range { mut start, mut end }, mut step) = (range, 1);
    while start < end {
        let probe = (start + step - 1).min(end - 1);
        if is_so(probe) {
            (start, step) = (probe + 1, step * 2);
        } else {
            (end, step) = (probe, 1.max((probe - start) / 2));
        }
    }
    start
}
