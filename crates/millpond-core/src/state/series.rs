//! A row of things of which there are very many rows, and nearly all of one thing or none.
//!
//! The one thing stands in place: a row of it takes no memory of its own, and nothing far off is looked at to come to it. A
//! second one makes it a [`VecDeque`], which it stays until nothing is left in it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::iter::Chain;
use core::mem::size_of;
use core::ops::{Index, IndexMut};
use core::slice;

#[derive(Clone, Debug)]
pub(crate) enum Series<T> {
    None,
    One(T),
    Many(VecDeque<T>),
}

/// Things of a row in order.
pub(crate) type Things<'a, T> = Chain<slice::Iter<'a, T>, slice::Iter<'a, T>>;

impl<T> Series<T> {
    pub(crate) fn new() -> Series<T> {
        Series::None
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Series::None => 0,
            Series::One(_) => 1,
            Series::Many(many) => many.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes elsewhere.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Series::Many(many) => many.capacity() * size_of::<T>(),
            _ => 0,
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match self {
            Series::One(one) if at == 0 => Some(one),
            Series::Many(many) => many.get(at),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match self {
            Series::One(one) if at == 0 => Some(one),
            Series::Many(many) => many.get_mut(at),
            _ => None,
        }
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    pub(crate) fn back(&self) -> Option<&T> {
        self.get(self.len().checked_sub(1)?)
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len().checked_sub(1)?)
    }

    pub(crate) fn push_back(&mut self, thing: T) {
        self.insert(self.len(), thing);
    }

    /// Puts a thing before that at a place, or at the end.
    pub(crate) fn insert(&mut self, at: usize, thing: T) {
        assert!(at <= self.len(), "a thing goes between others, or to an end");
        match self {
            Series::None => *self = Series::One(thing),
            Series::One(_) => {
                let Series::One(one) = core::mem::replace(self, Series::None) else { unreachable!("there is one") };
                *self = Series::Many(if at == 0 { [thing, one].into() } else { [one, thing].into() });
            }
            Series::Many(many) => many.insert(at, thing),
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> T {
        assert!(at < self.len(), "what is removed is there");
        if let Series::Many(many) = self
            && many.len() > 1
        {
            return many.remove(at).expect("it is one of them");
        }
        match core::mem::replace(self, Series::None) {
            Series::One(one) => one,
            Series::Many(mut many) => many.remove(0).expect("it is the last one"),
            Series::None => unreachable!("there was one"),
        }
    }

    /// Takes out the things from a place on.
    pub(crate) fn split_off(&mut self, at: usize) -> Series<T> {
        let Series::Many(many) = self else { panic!("a row that is cut has several things") };
        let rest = many.split_off(at);
        assert!(!many.is_empty() && !rest.is_empty(), "a row is cut between things");
        Series::Many(rest)
    }

    /// The place of the first thing of which something is not true that is true of all before it.
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        match self {
            Series::None => 0,
            Series::One(one) => usize::from(is_before(one)),
            Series::Many(many) => many.partition_point(is_before),
        }
    }

    pub(crate) fn iter(&self) -> Things<'_, T> {
        let (front, back) = match self {
            Series::None => Default::default(),
            Series::One(one) => (slice::from_ref(one), Default::default()),
            Series::Many(many) => many.as_slices(),
        };
        front.iter().chain(back)
    }
}

impl<T> From<Series<T>> for Vec<T> {
    fn from(things: Series<T>) -> Vec<T> {
        match things {
            Series::None => Vec::new(),
            Series::One(one) => Vec::from([one]),
            Series::Many(many) => many.into(),
        }
    }
}

impl<T> From<Vec<T>> for Series<T> {
    fn from(mut things: Vec<T>) -> Series<T> {
        match things.len() {
            0 | 1 => things.pop().map_or(Series::None, Series::One),
            _ => Series::Many(things.into()),
        }
    }
}

impl<T> Index<usize> for Series<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("what is looked for is there")
    }
}

impl<T> IndexMut<usize> for Series<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        self.get_mut(at).expect("what is looked for is there")
    }
}

impl<'a, T> IntoIterator for &'a Series<T> {
    type Item = &'a T;
    type IntoIter = Things<'a, T>;
    fn into_iter(self) -> Things<'a, T> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in proptest::collection::vec((0u8..5, 0usize..6, any::<u16>()), 1..60)) {
            let (mut series, mut model) = (Series::new(), Vec::new());
            for (kind, at, value) in steps {
                let at = at % (model.len() + 1);
                match kind {
                    0 => {
                        series.push_back(value);
                        model.push(value);
                    }
                    1 => {
                        series.insert(at, value);
                        model.insert(at, value);
                    }
                    2 | 3 if at < model.len() => prop_assert_eq!(series.remove(at), model.remove(at)),
                    4 if 0 < at && at < model.len() => {
                        let rest = series.split_off(at);
                        prop_assert!(rest.iter().eq(&model.split_off(at)));
                    }
                    _ if at < model.len() => (series[at], model[at]) = (value, value),
                    _ => {}
                }
                prop_assert_eq!((series.len(), series.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(series.iter().eq(&model) && series.iter().rev().eq(model.iter().rev()));
                prop_assert_eq!((series.front(), series.back()), (model.first(), model.last()));
                prop_assert_eq!(series.back_mut().map(|last| *last), model.last().copied());
                prop_assert_eq!(series.get(at), model.get(at));
                let mut sorted = model.clone();
                sorted.sort_unstable();
                let point = Series::from(sorted.clone()).partition_point(|thing| *thing < value);
                prop_assert_eq!(point, sorted.partition_point(|thing| *thing < value));
                prop_assert!(Series::from(model.clone()).iter().eq(&model));
            }
        }
    }
}
