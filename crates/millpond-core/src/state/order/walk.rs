//! Finding places in the order, and stepping on from them.

use super::{BEGINS, NONE, NodeId, Offers, Order};
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
        let at = self.nodes[node as usize].index_of_topic(slot, self.near.get());
        self.near.set(at);
        Position { node, at }
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
            let at = firsts[1..].partition_point(|slot| is_before(*slot));
            node = place.child(at).expect("a node above the leaves has children");
        }
    }

    /// The first topic of a group that offers any of these.
    pub(crate) fn first(&self, group: GroupNumber, wanted: Offers) -> Option<TopicSlot> {
        let root = *self.roots.get(&group)?;
        let at = self.find(root, 0, wanted)?;
        Some(self.topic_at(self.first_below(root, at, wanted)))
    }

    /// The first topic from a place on that offers any of these.
    pub(crate) fn next(&self, from: Position, wanted: Offers) -> Option<TopicSlot> {
        self.next_place(from, wanted).map(|place| self.topic_at(place))
    }

    /// The place of the first topic behind another one that is of another tenant.
    pub(crate) fn tenant_end(&self, slot: TopicSlot) -> Option<Position> {
        self.next_place(self.position(slot).behind(), BEGINS)
    }

    /// The first topic behind another one that is of the same tenant and offers any of these. What it is called is not looked
    /// at: it may be far off in memory.
    pub(crate) fn next_of_tenant(&self, slot: TopicSlot, wanted: Offers) -> Option<TopicSlot> {
        let place = self.next_place(self.position(slot).behind(), wanted | BEGINS)?;
        (self.offers(place) & BEGINS == 0).then(|| self.topic_at(place))
    }

    /// The first topic behind another one that is of the same tenant, and the first one behind that tenant, of those that offer any
    /// of these. Most tenants have one topic, and then both are found in one go.
    pub(crate) fn around(&self, slot: TopicSlot, wanted: Offers) -> (Option<TopicSlot>, Option<TopicSlot>) {
        let behind = self.position(slot).behind();
        let Some(place) = self.next_place(behind, wanted | BEGINS) else { return (None, None) };
        if self.offers(place) & BEGINS != 0 {
            return (None, self.next(place, wanted));
        }
        let end = self.next_place(place.behind(), BEGINS);
        (Some(self.topic_at(place)), end.and_then(|end| self.next(end, wanted)))
    }

    pub(super) fn next_place(&self, from: Position, wanted: Offers) -> Option<Position> {
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
        self.nodes[node as usize].next_of(from, wanted)
    }

    /// The topic that stands right before a place that was looked for. Such a place is at the front of a leaf only where it is
    /// before all topics of the group.
    pub(super) fn before(&self, place: Position) -> Option<TopicSlot> {
        place.at.checked_sub(1).map(|at| self.nodes[place.node as usize].firsts[at])
    }

    /// The place of the first topic below an entry, whose mask says that there is one.
    fn first_below(&self, mut node: NodeId, mut at: usize, wanted: Offers) -> Position {
        while let Some(child) = self.nodes[node as usize].child(at) {
            node = child;
            at = self.find(node, 0, wanted).expect("a mask is that of what is below");
        }
        Position { node, at }
    }

    pub(super) fn topic_at(&self, Position { node, at }: Position) -> TopicSlot {
        self.nodes[node as usize].firsts[at]
    }
}
