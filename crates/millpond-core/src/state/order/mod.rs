//! All topics in memory in the order of their names: what name comes next, and which topic that has something to give.
//!
//! A B+tree per group, all of them in one arena. A leaf holds topics, an inner node its children; beside each stands
//! the first topic below and a mask: a bit for each priority at which a topic below is *offered*, one for topics that
//! offer nothing, and one for the first topic of a tenant. So the next topic at a priority, and the next tenant, is found
//! without a look at the topics in between, however many they are. Each topic knows its leaf: to change what it offers, or to
//! step from it to the next, no names are compared.
//!
//! Invariants: masks and first topics are those of what is below, and so is what a node, but for a root, has told those above;
//! a node but for the root is never empty; `leaf_of` names the leaf that holds the topic. What the order of names is, and what
//! the topics are called, is the caller's business: see [`super::topics`].

mod node;
mod walk;

#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::Cell;

use millpond_types::Priority;
use slab::Slab;

use crate::fact::GroupNumber;
use crate::state::TopicSlot;
use node::{Entry, Node, WIDTH};

pub(crate) use walk::Position;

/// A set of what topics may offer: a bit per priority, [`NOTHING`] and [`BEGINS`].
pub(crate) type Offers = u16;

/// That a topic offers nothing.
const NOTHING: Offers = 1 << 15;
/// That a topic is the first one of its tenant.
pub(super) const BEGINS: Offers = 1 << 14;
/// Whatever a topic offers, or does not.
pub(crate) const ANY: Offers = Offers::MAX;

type NodeId = u32;
/// No node: above a root, and the leaf of a topic that is not there.
const NONE: NodeId = NodeId::MAX;

/// A node with fewer entries is joined with a neighbour.
const SPARSE: usize = WIDTH / 4;
/// Unless they would then have more than this: the next few topics would split them again.
const JOINED_MAX: usize = WIDTH * 3 / 4;

/// What a topic offers, as a set of one.
pub(crate) fn offer(level: Option<Priority>) -> Offers {
    level.map_or(NOTHING, |priority| 1 << priority.level())
}

#[derive(Clone, Default)]
pub(crate) struct Order {
    nodes: Slab<Node>,
    roots: BTreeMap<GroupNumber, NodeId>,
    /// Per slot of a topic its leaf.
    leaf_of: Vec<NodeId>,
    /// Where in its leaf the topic stood that was looked for last. Mostly the next one stands there or behind: topics come, are
    /// served and go in the order of their names.
    near: Cell<usize>,
}

impl Order {
    /// Puts a topic, which offers nothing yet, at its place; that is `None` in a group without topics. `is_kin` is whether
    /// another topic is of the same tenant: topics of a tenant stand side by side.
    pub(crate) fn insert_at(
        &mut self,
        group: GroupNumber,
        place: Option<Position>,
        slot: TopicSlot,
        is_kin: impl Fn(TopicSlot) -> bool,
    ) {
        if self.leaf_of.len() <= slot as usize {
            self.leaf_of.resize(slot as usize + 1, NONE);
        }
        assert_eq!(self.leaf_of[slot as usize], NONE, "a topic stands in the order once");
        let place = place.unwrap_or_else(|| {
            let node = self.nodes.insert(Node::leaf()) as NodeId;
            let other = self.roots.insert(group, node);
            assert!(other.is_none(), "a group with topics has a place for another one");
            Position { node, at: 0 }
        });
        self.leaf_of[slot as usize] = place.node;
        let begins = !self.before(place).is_some_and(&is_kin);
        if begins
            && let Some(next) = self.next_place(place, ANY)
            && is_kin(self.topic_at(next))
        {
            self.change(next, |offers| offers & !BEGINS);
        }
        let offers = NOTHING | if begins { BEGINS } else { 0 };
        self.insert_entry(group, place, Entry { first: slot, offers, child: None });
    }

    /// Takes a topic out.
    pub(crate) fn remove(&mut self, group: GroupNumber, slot: TopicSlot) {
        let place = self.position(slot);
        if self.offers(place) & BEGINS != 0
            && let Some(next) = self.next_place(place.behind(), ANY)
        {
            // Of the same tenant or of another one, it is the first now.
            self.change(next, |offers| offers | BEGINS);
        }
        self.leaf_of[slot as usize] = NONE;
        self.remove_entry(group, place);
    }

    /// Takes note of what a topic offers now.
    pub(crate) fn set(&mut self, slot: TopicSlot, level: Option<Priority>) {
        self.change(self.position(slot), |offers| offers & BEGINS | offer(level));
    }

    /// Changes what the topic at a place offers.
    fn change(&mut self, place: Position, to: impl FnOnce(Offers) -> Offers) {
        let before = self.offers(place);
        let offers = to(before);
        if offers != before {
            self.set_entry(place, (self.topic_at(place), offers));
        }
    }

    fn offers(&self, place: Position) -> Offers {
        self.nodes[place.node as usize].offers[place.at]
    }

    fn insert_entry(&mut self, group: GroupNumber, place: Position, entry: Entry) {
        let Position { mut node, mut at } = place;
        if self.nodes[node as usize].len() == WIDTH {
            // What comes in ascending order leaves full nodes behind.
            let cut = if at == WIDTH { WIDTH } else { WIDTH / 2 };
            let right = self.split(node, cut);
            if at >= cut {
                (node, at) = (right, at - cut);
            }
            self.nodes[node as usize].insert(at, entry);
            self.adopt(node, entry);
            let left = place.node;
            self.lift(left);
            self.hang(group, left, right);
        } else {
            self.nodes[node as usize].insert(at, entry);
            self.adopt(node, entry);
            let below = &self.nodes[node as usize];
            self.tell(node, (below.firsts[0], below.told.1 | entry.offers));
        }
    }

    /// Moves the entries from `cut` on into a new node.
    fn split(&mut self, left: NodeId, cut: usize) -> NodeId {
        let node = self.nodes[left as usize].split_off(cut);
        let right = self.nodes.insert(node) as NodeId;
        self.adopt_all(right);
        right
    }

    /// Gives a new node its place in the tree, behind the one that it was cut from.
    fn hang(&mut self, group: GroupNumber, left: NodeId, right: NodeId) {
        let entry = self.nodes[right as usize].as_entry(right);
        match self.nodes[left as usize].parent {
            NONE => {
                let first = self.nodes[left as usize].as_entry(left);
                let root = self.nodes.insert(Node::leaf()) as NodeId;
                self.nodes[root as usize].insert(0, first);
                self.nodes[root as usize].insert(1, entry);
                self.adopt_all(root);
                self.roots.insert(group, root);
            }
            parent => {
                let at = self.nodes[parent as usize].index_of(left) + 1;
                self.insert_entry(group, Position { node: parent, at }, entry);
            }
        }
    }

    fn remove_entry(&mut self, group: GroupNumber, place: Position) {
        let Position { node, at } = place;
        let rest = self.nodes[node as usize].rest_without(at, self.nodes[node as usize].offers[at]);
        self.nodes[node as usize].remove(at);
        let (len, parent) = (self.nodes[node as usize].len(), self.nodes[node as usize].parent);
        match (len, parent) {
            (0, NONE) => {
                self.nodes.remove(node as usize);
                self.roots.remove(&group);
            }
            (1, NONE) if !self.nodes[node as usize].is_leaf() => {
                let root = self.nodes.remove(node as usize).child(0).expect("it has one child");
                self.nodes[root as usize].parent = NONE;
                self.roots.insert(group, root);
            }
            (_, NONE) => {}
            (0, _) => {
                let at = self.nodes[parent as usize].index_of(node);
                self.nodes.remove(node as usize);
                self.remove_entry(group, Position { node: parent, at });
            }
            _ => {
                self.tell(node, (self.nodes[node as usize].firsts[0], rest));
                if len < SPARSE {
                    self.join(group, node, parent);
                }
            }
        }
    }

    /// Makes a sparse node one with a neighbour, if there is room.
    fn join(&mut self, group: GroupNumber, node: NodeId, parent: NodeId) {
        let above = &self.nodes[parent as usize];
        let at = above.index_of(node);
        let beside = [at.checked_sub(1).map(|before| (before, at)), Some((at, at + 1))];
        for (left_at, right_at) in beside.into_iter().flatten() {
            let (Some(left), Some(right)) = (above.child(left_at), above.child(right_at)) else { continue };
            if self.nodes[left as usize].len() + self.nodes[right as usize].len() > JOINED_MAX {
                continue;
            }
            let gone = self.nodes.remove(right as usize);
            self.nodes[left as usize].append(&gone);
            self.adopt_all(left);
            self.lift(left);
            return self.remove_entry(group, Position { node: parent, at: right_at });
        }
    }

    /// Tells those above what is below a node now.
    fn lift(&mut self, node: NodeId) {
        let Entry { first, offers, .. } = self.nodes[node as usize].as_entry(node);
        self.tell(node, (first, offers));
    }

    /// What is below a node is this: tells it those above, as far up as that is news.
    fn tell(&mut self, node: NodeId, below: (TopicSlot, Offers)) {
        let Node { parent, ref mut told, .. } = self.nodes[node as usize];
        if parent == NONE || *told == below {
            return;
        }
        *told = below;
        let at = self.nodes[parent as usize].index_of(node);
        self.set_entry(Position { node: parent, at }, below);
    }

    /// The first topic below an entry, and what is offered there, are these. All others of its node are looked at before it is
    /// written: a processor that reads several at a time waits for what it has just written one by one.
    fn set_entry(&mut self, place: Position, (first, offers): (TopicSlot, Offers)) {
        let node = &mut self.nodes[place.node as usize];
        let all = node.rest_without(place.at, node.offers[place.at] & !offers) | offers;
        (node.firsts[place.at], node.offers[place.at]) = (first, offers);
        let below = (node.firsts[0], all);
        self.tell(place.node, below);
    }

    /// Lets what an entry is of know that it is in this node.
    fn adopt(&mut self, node: NodeId, entry: Entry) {
        match entry.child {
            Some(child) => {
                let child = &mut self.nodes[child as usize];
                (child.parent, child.told) = (node, (entry.first, entry.offers));
            }
            None => self.leaf_of[entry.first as usize] = node,
        }
    }

    fn adopt_all(&mut self, node: NodeId) {
        for at in 0..self.nodes[node as usize].len() {
            let entry = self.nodes[node as usize].entry(at);
            self.adopt(node, entry);
        }
    }
}
