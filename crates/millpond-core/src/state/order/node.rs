//! A node of the order: up to [`WIDTH`] entries side by side, each a topic in a leaf and a child above.

use alloc::boxed::Box;

use super::{NONE, NodeId, Offers};
use crate::state::TopicSlot;

/// Entries in a node. Its masks are two lines of a processor's cache.
pub(super) const WIDTH: usize = 64;
/// Behind all places.
const NO_PLACE: i16 = i16::MAX;

/// A place without an entry: of the slots of topics none is as high.
const NO_TOPIC: TopicSlot = TopicSlot::MAX;

/// Behind its entries a node offers nothing and holds no topic, so that all of it may be looked at: a width that is known takes
/// fewer instructions than a length that is not, and no branch.
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
    /// Per entry the child. A leaf has none.
    children: Option<Box<[NodeId; WIDTH]>>,
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
        let (offers, firsts) = ([0; WIDTH], [NO_TOPIC; WIDTH]);
        Node { parent: NONE, told: (0, 0), len: 0, offers, firsts, children: None }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.children.is_none()
    }

    /// The child of an entry, if this is no leaf and has the entry.
    pub(super) fn child(&self, at: usize) -> Option<NodeId> {
        self.children.as_ref().filter(|_| at < self.len()).map(|children| children[at])
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        Entry { first: self.firsts[at], offers: self.offers[at], child: self.child(at) }
    }

    /// The entry that stands for this node in the one above.
    pub(super) fn as_entry(&self, id: NodeId) -> Entry {
        let offers = self.offers.iter().fold(0, |all, offers| all | offers);
        Entry { first: self.firsts[0], offers, child: Some(id) }
    }

    /// What a node offers when one of its entries no longer offers some of what it did; that entry may still count with all else.
    /// Mostly the next one offers the same, and the node does what those above were told. A root tells nobody.
    pub(super) fn rest_without(&self, at: usize, lost: Offers) -> Offers {
        let next = self.offers.get(at + 1).copied().unwrap_or_default();
        if lost & !next == 0 { self.told.1 } else { self.offers_but(at) }
    }

    /// What all entries but one offer.
    fn offers_but(&self, at: usize) -> Offers {
        let at = at as u16;
        (0..).zip(&self.offers).fold(0, |all, (other, offers)| all | if other == at { 0 } else { *offers })
    }

    /// Where a child stands.
    pub(super) fn index_of(&self, child: NodeId) -> usize {
        let children = self.children.as_ref().expect("what has children is no leaf");
        // Topics mostly come at the end, and go from the front.
        let at = [0, self.len() - 1].into_iter().find(|at| children[*at] == child);
        at.or_else(|| place_of(children, child)).expect("a child stands in its parent")
    }

    /// Where a topic stands in a leaf, more often than not at a place or right behind it.
    pub(super) fn index_of_topic(&self, slot: TopicSlot, near: usize) -> usize {
        let is_at = |at: &usize| self.firsts.get(*at) == Some(&slot);
        let at = [near, near + 1].into_iter().find(is_at).or_else(|| place_of(&self.firsts, slot));
        at.expect("a topic stands in its leaf")
    }

    /// The first entry from a place on that offers any of these.
    pub(super) fn next_of(&self, from: usize, wanted: Offers) -> Option<usize> {
        if from >= self.len() {
            return None;
        }
        if self.offers[from] & wanted != 0 {
            // Mostly it is the next one.
            return Some(from);
        }
        let from = from as i16;
        let place = |(at, offers): (i16, &Offers)| if offers & wanted != 0 && at >= from { at } else { NO_PLACE };
        let first = (0..).zip(&self.offers).map(place).fold(NO_PLACE, i16::min);
        (first != NO_PLACE).then_some(first as usize)
    }

    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        let len = self.len();
        assert!(len < WIDTH && at <= len, "there is room at a place in the node");
        assert!(len == 0 || self.is_leaf() == entry.child.is_none(), "all entries of a node are of one kind");
        self.offers.copy_within(at..len, at + 1);
        self.firsts.copy_within(at..len, at + 1);
        (self.offers[at], self.firsts[at]) = (entry.offers, entry.first);
        if let Some(child) = entry.child {
            let children = self.children.get_or_insert_with(|| Box::new([NONE; WIDTH]));
            children.copy_within(at..len, at + 1);
            children[at] = child;
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        let last = self.len() - 1;
        self.offers.copy_within(at + 1..=last, at);
        self.firsts.copy_within(at + 1..=last, at);
        if let Some(children) = &mut self.children {
            children.copy_within(at + 1..=last, at);
        }
        self.cut(last);
    }

    /// A node with the entries from a place on, which are no longer in this one.
    pub(super) fn split_off(&mut self, at: usize) -> Node {
        let mut right = Node::leaf();
        let moved = self.len() - at;
        right.offers[..moved].copy_from_slice(&self.offers[at..at + moved]);
        right.firsts[..moved].copy_from_slice(&self.firsts[at..at + moved]);
        if let Some(children) = &self.children {
            let mut others = Box::new([NONE; WIDTH]);
            others[..moved].copy_from_slice(&children[at..at + moved]);
            right.children = Some(others);
        }
        right.len = moved as u32;
        self.cut(at);
        right
    }

    /// Takes over the entries of the node behind.
    pub(super) fn append(&mut self, right: &Node) {
        let (at, more) = (self.len(), right.len());
        self.offers[at..at + more].copy_from_slice(&right.offers[..more]);
        self.firsts[at..at + more].copy_from_slice(&right.firsts[..more]);
        if let (Some(children), Some(others)) = (&mut self.children, &right.children) {
            children[at..at + more].copy_from_slice(&others[..more]);
        }
        self.len += right.len;
    }

    /// Lets the entries from a place on go.
    fn cut(&mut self, at: usize) {
        let gone = at..self.len();
        self.offers[gone.clone()].fill(0);
        self.firsts[gone.clone()].fill(NO_TOPIC);
        if let Some(children) = &mut self.children {
            children[gone].fill(NONE);
        }
        self.len = at as u32;
    }
}

/// Where a number stands that stands there once at most. All are looked at, several at a time and without a branch, which a
/// processor would guess wrong.
fn place_of(numbers: &[u32; WIDTH], wanted: u32) -> Option<usize> {
    let found = (1..).zip(numbers).fold(0, |found, (at, number)| found | if *number == wanted { at } else { 0u32 });
    (found as usize).checked_sub(1)
}
