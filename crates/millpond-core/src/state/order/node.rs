//! A node of the order: up to [`WIDTH`] entries side by side, each a topic in a leaf and a child above.

use alloc::vec::Vec;

use super::{NONE, NodeId, Offers};
use crate::state::TopicSlot;

/// Entries in a node. Its masks are two lines of a processor's cache.
pub(super) const WIDTH: usize = 64;
/// Entries that are compared at once.
const CHUNK: usize = 16;

#[derive(Clone)]
pub(super) struct Node {
    pub(super) parent: NodeId,
    /// What stands beside this node in the one above.
    pub(super) told: (TopicSlot, Offers),
    len: u32,
    /// Per entry what the topics below offer.
    pub(super) offers: [Offers; WIDTH],
    /// Per entry the first topic below; in a leaf, the topic.
    pub(super) firsts: [TopicSlot; WIDTH],
    /// Per entry the child. A leaf has none, and a node that is not empty above the leaves has as many as entries.
    pub(super) children: Vec<NodeId>,
}

/// One entry of a node.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) first: TopicSlot,
    pub(super) offers: Offers,
    /// `None` in a leaf.
    pub(super) child: Option<NodeId>,
}

impl Node {
    /// A node without entries, of which the first one makes what it is.
    pub(super) fn leaf() -> Node {
        Node { parent: NONE, told: (0, 0), len: 0, offers: [0; WIDTH], firsts: [0; WIDTH], children: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        Entry { first: self.firsts[at], offers: self.offers[at], child: self.children.get(at).copied() }
    }

    /// The entry that stands for this node in the one above.
    pub(super) fn as_entry(&self, id: NodeId) -> Entry {
        let offers = self.offers[..self.len()].iter().fold(0, |all, offers| all | offers);
        Entry { first: self.firsts[0], offers, child: Some(id) }
    }

    /// Where a child stands.
    pub(super) fn index_of(&self, child: NodeId) -> usize {
        first_of(&self.children, |other| *other == child).expect("a child stands in its parent")
    }

    /// Where a topic stands in a leaf.
    pub(super) fn index_of_topic(&self, slot: TopicSlot) -> usize {
        first_of(&self.firsts[..self.len()], |other| *other == slot).expect("a topic stands in its leaf")
    }

    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        let len = self.len();
        assert!(len < WIDTH && at <= len, "there is room at a place in the node");
        self.offers.copy_within(at..len, at + 1);
        self.firsts.copy_within(at..len, at + 1);
        (self.offers[at], self.firsts[at]) = (entry.offers, entry.first);
        if let Some(child) = entry.child {
            self.children.insert(at, child);
        }
        self.len += 1;
        assert!(self.is_leaf() || self.children.len() == self.len(), "all entries of a node are of one kind");
    }

    pub(super) fn remove(&mut self, at: usize) {
        let len = self.len();
        self.offers.copy_within(at + 1..len, at);
        self.firsts.copy_within(at + 1..len, at);
        if !self.is_leaf() {
            self.children.remove(at);
        }
        self.len -= 1;
    }

    /// A node with the entries from a place on, which are no longer in this one.
    pub(super) fn split_off(&mut self, at: usize) -> Node {
        let mut right = Node::leaf();
        let moved = self.len() - at;
        right.offers[..moved].copy_from_slice(&self.offers[at..at + moved]);
        right.firsts[..moved].copy_from_slice(&self.firsts[at..at + moved]);
        if !self.is_leaf() {
            right.children = self.children.split_off(at);
        }
        right.len = moved as u32;
        self.len = at as u32;
        right
    }

    /// Takes over the entries of the node behind.
    pub(super) fn append(&mut self, right: &Node) {
        let (at, more) = (self.len(), right.len());
        self.offers[at..at + more].copy_from_slice(&right.offers[..more]);
        self.firsts[at..at + more].copy_from_slice(&right.firsts[..more]);
        self.children.extend_from_slice(&right.children);
        self.len += right.len;
    }
}

/// Where the first of some numbers is that is as wanted. To look at a whole chunk takes a few instructions, and to find the number
/// in it no branch, which a processor would guess wrong.
pub(super) fn first_of<T>(numbers: &[T], is_wanted: impl Fn(&T) -> bool) -> Option<usize> {
    let (chunks, rest) = numbers.as_chunks::<CHUNK>();
    let holds = |chunk: &[T; CHUNK]| chunk.iter().fold(false, |found, number| found | is_wanted(number));
    match chunks.iter().position(holds) {
        Some(at) => {
            let bits =
                chunks[at].iter().zip(0..).fold(0u16, |bits, (number, bit)| bits | u16::from(is_wanted(number)) << bit);
            Some(at * CHUNK + bits.trailing_zeros() as usize)
        }
        None => rest.iter().position(is_wanted).map(|at| chunks.len() * CHUNK + at),
    }
}
