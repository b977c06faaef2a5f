//! Very many large things of one kind, each in a place that it keeps, in pieces of memory that never move.
//!
//! A [`slab::Slab`] is one piece: to grow, it is copied whole into one twice as large, while everybody waits and there is
//! memory for both; and it never shrinks. Here a piece that nothing is left in gives its memory back.
//!
//! Invariant: each piece with a free place is among the open ones, once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Things in a piece.
const PIECE: usize = 256;

/// The places of a piece.
type Places<T> = [Option<T>; PIECE];

#[derive(Clone)]
pub(crate) struct Slots<T> {
    /// One that is empty may have no memory. Nothing else stands here, so that where a thing is is at hand, though very many are.
    pieces: Vec<Option<Box<Places<T>>>>,
    /// The free places of each piece, the one that is taken next last.
    free: Vec<Vec<u8>>,
    /// Pieces with free places. The last one is filled first.
    open: Vec<u32>,
    /// The piece that was empty last.
    spare: usize,
    len: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { pieces: Vec::new(), free: Vec::new(), open: Vec::new(), spare: 0, len: 0 }
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
        let number = self.open.last().copied().unwrap_or_else(|| {
            let number = u32::try_from(self.pieces.len()).expect("fewer than 2^32 places");
            self.pieces.push(None);
            self.free.push((0..=u8::MAX).rev().collect());
            self.open.push(number);
            number
        });
        let free = &mut self.free[number as usize];
        let at = usize::from(free.pop().expect("an open piece has a free place"));
        if free.is_empty() {
            self.open.pop();
        }
        self.pieces[number as usize].get_or_insert_with(no_things)[at] = Some(thing);
        u32::try_from(number as usize * PIECE + at).expect("fewer than 2^32 places")
    }

    /// Lets a thing go. It is not handed out: it is large, and to move it takes longer than all else here.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (number, at) = place(slot);
        let place = &mut self.pieces[number].as_mut().expect("a piece with things has memory")[at];
        assert!(place.is_some(), "what is removed is there");
        *place = None;
        self.len -= 1;
        let free = &mut self.free[number];
        if free.is_empty() {
            self.open.push(number as u32);
        }
        free.push(at as u8);
        if free.len() == PIECE {
            self.give_back(number);
        }
    }

    /// A piece is empty. It stays for what comes next, and the one that stayed before it need not.
    fn give_back(&mut self, number: usize) {
        let before = core::mem::replace(&mut self.spare, number);
        if before != number && self.free[before].len() == PIECE {
            self.pieces[before] = None;
        }
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let (piece, at) = place(slot);
        self.pieces.get(piece)?.as_ref()?[at].as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (piece, at) = place(slot);
        self.pieces.get_mut(piece)?.as_mut()?[at].as_mut()
    }

    /// All of them, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pieces = self.pieces.iter().enumerate().filter_map(|(number, piece)| Some((number, piece.as_ref()?)));
        let all = pieces.flat_map(|(number, piece)| {
            piece.iter().enumerate().map(move |(at, thing)| ((number * PIECE + at) as u32, thing))
        });
        all.filter_map(|(slot, thing)| Some((slot, thing.as_ref()?)))
    }
}

/// A piece of memory with nothing in it. It would be copied if it were made as an array.
fn no_things<T>() -> Box<Places<T>> {
    let places: Box<[Option<T>]> = (0..PIECE).map(|_| None).collect();
    places.try_into().unwrap_or_else(|_| unreachable!("there are as many as in a piece"))
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
                assert_eq!(slots.get(slot), model.remove(&slot).as_ref());
                slots.remove(slot);
                assert_eq!(slots.get(slot), None);
            }
            assert_eq!(slots.len(), model.len());
        }
        assert!(slots.iter().eq(model.iter().map(|(slot, number)| (*slot, number))));
        assert!(slots.places() <= 3 * PIECE, "free places are used again");
        assert_eq!(slots.open.len(), slots.free.iter().filter(|free| !free.is_empty()).count());
        let slot = *model.keys().next().unwrap();
        slots[slot] = 7;
        assert_eq!((slots[slot], slots.get_mut(slot)), (7, Some(&mut 7)));
        model.keys().for_each(|slot| slots.remove(*slot));
        assert_eq!(slots.pieces.iter().flatten().count(), 1, "one stays for the next");
        assert!((0..2 * PIECE as u64).all(|number| slots.insert(number) < slots.places() as u32));
        assert_eq!((slots.len(), slots.iter().count()), (2 * PIECE, 2 * PIECE));
    }
}
