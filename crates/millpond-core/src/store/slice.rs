//! How far one answer goes over a range: to so many entries, or so many keys that are gone.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{Answer, KeyBytes, Range};
use crate::page::Page;

/// Keys that are gone and that one answer passes over, at most: as long as they are in memory, each costs what an entry does, so
/// a range that was drained is gone over as what it held would be, a slice at a time.
pub const GONE_MAX: u32 = 1024;

/// Takes the keys of a range in order, and makes the answer to it of them.
pub struct Slice {
    limit: usize,
    entries: Vec<(KeyBytes, Page)>,
    gone: u32,
    /// Behind all that was taken.
    next: KeyBytes,
    is_full: bool,
}

impl Slice {
    /// Nothing yet, with room for so many entries.
    pub fn new(range: &Range, room: usize) -> Slice {
        let (limit, next) = (range.limit as usize, range.from.clone());
        Slice { limit, entries: Vec::with_capacity(room), gone: 0, next, is_full: false }
    }

    /// The answer to a range of which this was read, up to `end` or to its own end, and of which nothing has changed since.
    pub fn as_read(range: Range, mut entries: Vec<(KeyBytes, Page)>, end: Option<KeyBytes>) -> Answer {
        let limit = range.limit as usize;
        if entries.len() <= limit {
            return Answer::Range { range, entries, rest: end };
        }
        entries.truncate(limit);
        let rest = entries.last().map_or(range.from.clone(), |(last, _)| [&last[..], &[0]].concat());
        Answer::Range { range, entries, rest: Some(rest) }
    }

    /// Takes the next key, with its page or the news that it is gone. False if the answer ends before it.
    pub fn take(&mut self, key: Cow<'_, [u8]>, page: Option<Page>) -> bool {
        self.is_full = self.gone == GONE_MAX || page.is_some() && self.entries.len() == self.limit;
        if !self.is_full {
            self.next.clear();
            self.next.extend_from_slice(&key);
            self.next.push(0);
            match page {
                Some(page) => self.entries.push((key.into_owned(), page)),
                None => self.gone += 1,
            }
        }
        !self.is_full
    }

    /// The answer to the range, of which all was taken up to `end`, or to its own end, if nothing was refused.
    pub fn answer(self, range: Range, end: Option<KeyBytes>) -> Answer {
        let rest = if self.is_full { Some(self.next) } else { end };
        Answer::Range { range, entries: self.entries, rest }
    }
}
