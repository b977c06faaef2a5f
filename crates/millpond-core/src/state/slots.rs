//! Very many large things of one kind, each in a place that it keeps, in pieces of memory that never move.
//!
//! A [`slab::Slab`] is one piece: to grow, it is copied whole into one twice as large, while everybody waits and there is
//! memory for both.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Things in a piece.
const PIECE: usize = 256;

#[derive(Clone)]
pub(crate) struct Slots<T> {
    pieces: Vec<Vec<Option<T>>>,
    /// Places that are free below the first that was never used. The last one goes first.
    free: Vec<u32>,
    len: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { pieces: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every place lies below this.
    pub(crate) fn places(&self) -> usize {
        self.pieces.len() * PIECE
    }

    /// Puts a thing in a place that is free.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let (piece, at) = place(slot);
            self.pieces[piece][at] = Some(thing);
            return slot;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        piece.push(Some(thing));
        u32::try_from(number * PIECE + piece.len() - 1).expect("fewer than 2^32 places")
    }

    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let (piece, at) = place(slot);
        let thing = self.pieces[piece][at].take().expect("what is removed is there");
        self.free.push(slot);
        self.len -= 1;
        thing
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let (piece, at) = place(slot);
        self.pieces.get(piece)?.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (piece, at) = place(slot);
        self.pieces.get_mut(piece)?.get_mut(at)?.as_mut()
    }

    /// All of them, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let all = self.pieces.iter().flatten().enumerate();
        all.filter_map(|(slot, thing)| thing.as_ref().map(|thing| (slot as u32, thing)))
    }
}

fn place(slot: u32) -> (usize, usize) {
    (slot as usize / PIECE, slot as usize % PIECE)
}

impl<T> Index<u32> for Slots<T> {
    type Output = T;
    fn index(&self, slot: u32) -> &T {
        self.get(slot).expect("what is looked for is there")
    }
}

impl<T> IndexMut<u32> for Slots<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        self.get_mut(slot).expect("what is looked for is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn things_keep_their_places() {
        let (mut slots, mut model) = (Slots::new(), BTreeMap::new());
        for number in 0..3 * PIECE as u64 {
            assert!(model.insert(slots.insert(number), number).is_none(), "a place is given out once");
            if number % 3 == 0 {
                let slot = *model.keys().nth(number as usize / 2 % model.len()).unwrap();
                assert_eq!(Some(slots.remove(slot)), model.remove(&slot));
                assert_eq!(slots.get(slot), None);
            }
            assert_eq!(slots.len(), model.len());
        }
        assert!(slots.iter().eq(model.iter().map(|(slot, number)| (*slot, number))));
        assert!(slots.places() <= 3 * PIECE, "free places are used again");
        let slot = *model.keys().next().unwrap();
        slots[slot] = 7;
        assert_eq!((slots[slot], slots.get_mut(slot)), (7, Some(&mut 7)));
    }
}
