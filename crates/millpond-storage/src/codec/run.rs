//! The byte form of runs, each told as its difference from the one before it in the same list. Runs that were published
//! one after the other differ in little, so a run of a single message takes two or three bytes.
//!
//! | bytes | field | what it is if it is left out |
//! |---|---|---|
//! | 1 | what follows, a bit each | |
//! | difference | first sequence | that behind the run before |
//! | difference | bytes of the journal between the run before and this one | as many as before that one |
//! | difference | when it was published | the same time |
//! | option of number | its TTL, counted from then | the same |
//! | number | how many messages | as many |
//! | number | the size of each message | the same |
//! | numbers | the sizes of the messages, one by one, in place of the field before | |
//! | marks | until, a list of (number: how many messages in between have none; hash); where the message was redriven, an empty list before that, and where it has waited since another time than its publish, a 2 and the difference between the two behind that | none |
//!
//! A *difference* is a number: the first value minus the second, wrapping, with the sign in the lowest bit.

use std::sync::Arc;

use millpond_core::page::{Marks, RunPage};
use millpond_types::block::Sizes;
use millpond_types::{Sequence, WallTime};

use super::{BadRecord, Sink, Source};

const FIRST: u8 = 1;
const GAP: u8 = 2;
const PUBLISHED: u8 = 4;
const TTL: u8 = 8;
const COUNT: u8 = 16;
const SIZE: u8 = 32;
const SIZES: u8 = 64;
const MARKS: u8 = 128;
/// Stands where the list of the marks of one message would begin, which is never so long.
const SINCE: u8 = 2;

/// What the next run of a list is told against.
#[derive(Default)]
pub(super) struct Before {
    /// The sequence behind the last run.
    end: u64,
    /// The journal position behind the last run.
    position: u64,
    gap: u64,
    published: u64,
    ttl: Option<u64>,
    count: u32,
    size: u32,
}

impl Before {
    /// Before the first run of a list that most likely begins with this sequence.
    pub(super) fn first(end: u64) -> Before {
        Before { end, count: 1, ..Before::default() }
    }

    /// The sequence behind the last run.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

impl Sink<'_> {
    /// Appends a run, as [`RunPage::compact`] gives it.
    pub(super) fn run(&mut self, run: &RunPage, before: &mut Before) {
        assert_eq!(run.index, 0, "a page holds what is of its messages alone");
        let extent = run.extent();
        let gap = extent.position.wrapping_sub(before.position);
        let ttl = run.expiry().map(|at| at.0.wrapping_sub(run.published.0));
        let size = match &run.sizes {
            Sizes::Uniform(size) => *size,
            Sizes::Ends(_) => before.size,
        };
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(run.first.0 != before.end, FIRST)
            | flag(gap != before.gap, GAP)
            | flag(run.published.0 != before.published, PUBLISHED)
            | flag(ttl != before.ttl, TTL)
            | flag(run.count != before.count, COUNT)
            | flag(size != before.size, SIZE)
            | flag(matches!(run.sizes, Sizes::Ends(_)), SIZES)
            | flag(run.marks.is_some(), MARKS);
        self.byte(flags);
        if flags & FIRST != 0 {
            self.difference(run.first.0, before.end);
        }
        if flags & GAP != 0 {
            self.difference(gap, before.gap);
        }
        if flags & PUBLISHED != 0 {
            self.difference(run.published.0, before.published);
        }
        if flags & TTL != 0 {
            self.option(ttl, Self::number);
        }
        if flags & COUNT != 0 {
            self.number32(run.count);
        }
        if flags & SIZE != 0 {
            self.number32(size);
        }
        if let Sizes::Ends(ends) = &run.sizes {
            assert_eq!(ends.len(), run.count as usize, "a page holds what is of its messages alone");
            (0..run.count).for_each(|at| self.number32(run.sizes.offset(at + 1) - run.sizes.offset(at)));
        }
        if let Some(marks) = &run.marks {
            self.until(marks.until());
            if let Some(since) = marks.redriven() {
                self.list(&[], |_, ()| {});
                if since != run.published {
                    self.byte(SINCE);
                    self.difference(since.0, run.published.0);
                }
            }
            let mut next = 0;
            let marks: Vec<_> = marks.within(0, run.count).collect();
            self.list(&marks, |sink, (index, hash)| {
                sink.number32(index - next);
                sink.wide(*hash);
                next = index + 1;
            });
        }
        let position = extent.position.wrapping_add(u64::from(extent.length));
        let (end, published) = (run.end().0, run.published.0);
        *before = Before { end, position, gap, published, ttl, count: run.count, size };
    }

    /// Appends a number as its difference from another.
    pub(super) fn difference(&mut self, number: u64, other: u64) {
        let signed = number.wrapping_sub(other) as i64;
        self.number((signed << 1 ^ signed >> 63) as u64);
    }
}

impl Source<'_> {
    /// The next run of a list.
    pub(super) fn run(&mut self, before: &mut Before) -> Result<RunPage, BadRecord> {
        let flags = self.byte()?;
        let has = |flag| flags & flag != 0;
        let first = if has(FIRST) { self.beside(before.end)? } else { before.end };
        let gap = if has(GAP) { self.beside(before.gap)? } else { before.gap };
        let published = if has(PUBLISHED) { self.beside(before.published)? } else { before.published };
        let ttl = if has(TTL) { self.option(Self::number)? } else { before.ttl };
        let count = if has(COUNT) { self.number32()? } else { before.count };
        let size = if has(SIZE) { self.number32()? } else { before.size };
        // The core multiplies and adds these without looking again.
        let bad = self.bad("has a run past the end of its block");
        let sizes = if has(SIZES) { self.each_size(count)? } else { Sizes::Uniform(size) };
        let length = match sizes {
            Sizes::Uniform(size) => size.checked_mul(count).ok_or(bad)?,
            Sizes::Ends(_) => sizes.offset(count),
        };
        let position = before.position.wrapping_add(gap);
        let position_end = position.checked_add(u64::from(length)).ok_or(bad)?;
        let end = first.checked_add(u64::from(count)).filter(|_| count > 0).ok_or(bad)?;
        let marks = if has(MARKS) { self.marks(count, published)? } else { None };
        let expires = ttl.map_or(WallTime::NEVER, |ttl| WallTime(published.wrapping_add(ttl)));
        *before = Before { end, position: position_end, gap, published, ttl, count, size };
        Ok(RunPage {
            first: Sequence(first),
            position,
            published: WallTime(published),
            expires,
            sizes,
            marks,
            count,
            index: 0,
        })
    }

    fn each_size(&mut self, count: u32) -> Result<Sizes, BadRecord> {
        let bad = self.bad("has a run past the end of its block");
        // Every size takes a byte at least.
        if count as usize > self.left() {
            return Err(bad);
        }
        let mut end = 0u32;
        let mut ends = Vec::with_capacity(count as usize);
        for _ in 0..count {
            end = end.checked_add(self.number32()?).ok_or(bad)?;
            ends.push(end);
        }
        Ok(Sizes::from_ends(&ends))
    }

    fn marks(&mut self, count: u32, published: u64) -> Result<Option<Arc<Marks>>, BadRecord> {
        let until = self.until()?;
        let marks = self.list_of_marks(count)?;
        if !marks.is_empty() {
            return Ok(Marks::new(until, marks));
        }
        let mut since = published;
        if self.next_is(SINCE) {
            self.byte()?;
            since = self.beside(published)?;
            if since == published {
                return Err(self.bad("has a time that goes without saying"));
            }
        }
        let mark = self.list_of_marks(1)?.first().map(|(_, hash)| *hash);
        if count == 1 {
            Ok(Some(Marks::of_redriven(WallTime(since), until, mark)))
        } else {
            Err(self.bad("has several messages redriven as one"))
        }
    }

    fn list_of_marks(&mut self, count: u32) -> Result<Vec<(u32, u128)>, BadRecord> {
        let mut next = 0u32;
        self.list(|source| {
            let bad = source.bad("has a dedup id of no message");
            let index = next.checked_add(source.number32()?).filter(|index| *index < count).ok_or(bad)?;
            next = index + 1;
            Ok((index, source.wide()?))
        })
    }

    /// A number told as its difference from another.
    pub(super) fn beside(&mut self, other: u64) -> Result<u64, BadRecord> {
        let coded = self.number()?;
        Ok(other.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg()))
    }
}
