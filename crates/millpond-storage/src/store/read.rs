//! Reading what the core wants, and laying over it what has changed meanwhile.
//!
//! Rows that were read go stale at once: the core puts and removes on, checkpoints are committed. So each read remembers
//! the generation in which it began, and [`LayeredStore::resolve`] lays every layer over it that is newer. Rows that are
//! gone by those are passed over as they are read: a topic that was drained since the last checkpoint is one. So that nobody
//! waits for the one who comes behind a drain, neither the reading nor the resolving passes over more than [`GONE_MAX`] of
//! them or a few: the answer then ends there.

use std::borrow::Cow;
use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::page::Page;
use millpond_core::store::{Answer, GONE_MAX, Gather, Key, KeyBytes, Part, Range, Slice, Spread, Taken, Want};

use super::filter::is_filtered;
use super::layer::Change;
use super::{LayeredStore, Shared, State};
use crate::codec::decode_entry;
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::tree::TreeError;

/// Bytes of rows after which a read of a range ends though it may have more: topics may hold very much, and what is read takes
/// several times as much in memory.
const READ_BYTES: usize = 256 * 1024;
/// Rows of a range that are scanned at a time: the first ones, for they may be very large, and at most.
const SLICE: u32 = 64;
const SLICE_MAX: u32 = 1024;

/// What was read. It keeps in memory what is committed until it is resolved or dropped.
pub struct Fetched {
    found: Vec<Found>,
    ticket: Ticket,
}

/// What was found on the disk of a want.
enum Found {
    Entry { key: KeyBytes, page: Option<Page> },
    Range { range: Range, rows: Rows },
    Spread { spread: Spread, parts: Vec<Part> },
}

/// Rows of a range that are not gone.
struct Rows {
    rows: Vec<(KeyBytes, Page)>,
    /// Where the read has ended, if not at the end of the range.
    rest: Option<KeyBytes>,
}

/// Says that a read has begun and is not resolved.
struct Ticket {
    store: Arc<Shared>,
    generation: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = lock(&self.store.state);
        let count = state.readers.get_mut(&self.generation).expect("a read is counted until it is resolved");
        *count -= 1;
        if *count == 0 {
            state.readers.remove(&self.generation);
        }
    }
}

impl LayeredStore {
    /// Reads what is wanted from the disk: entries sorted and in bulk, then ranges. For reading threads.
    pub fn read(&self, wants: Vec<Want>) -> Result<Fetched, TreeError> {
        let ticket = self.ticket();
        let since = ticket.generation;
        let found = wants.into_iter().map(|want| match want {
            Want::Entry(key) => Ok(Found::Entry { key, page: None }),
            Want::Range(range) => Ok(Found::Range { rows: self.read_range(&range, since)?, range }),
            Want::Spread(spread) => Ok(Found::Spread { parts: self.read_spread(&spread, since)?, spread }),
        });
        let mut found = found.collect::<Result<Vec<_>, TreeError>>()?;
        self.read_entries(&mut found)?;
        Ok(Fetched { found, ticket })
    }

    /// The answers as of now. For the core's thread: nothing is read here.
    pub fn resolve(&self, fetched: Fetched) -> Vec<Answer> {
        let Fetched { found, ticket } = fetched;
        let state = lock(&self.0.state);
        let answers = found.into_iter().map(|found| state.resolve(found, ticket.generation)).collect();
        // A ticket takes the lock when it is dropped.
        drop(state);
        answers
    }

    fn ticket(&self) -> Ticket {
        let mut state = lock(&self.0.state);
        let generation = state.generation;
        *state.readers.entry(generation).or_default() += 1;
        let resolved = state.take_resolved();
        drop(state);
        drop(resolved);
        Ticket { store: self.0.clone(), generation }
    }

    /// Reads the first rows of a range.
    fn read_range(&self, range: &Range, since: u64) -> Result<Rows, TreeError> {
        // One more than asked for, to know whether there are more.
        let (mut wanted, mut slice) = (range.limit.saturating_add(1), SLICE);
        let (mut rows, mut bytes, mut gone, mut next) = (Vec::new(), 0, 0, range.from.clone());
        loop {
            // Few that the answer would end before.
            let limit = slice.min(wanted).min(SLICE.max(GONE_MAX - gone));
            let found = self.0.tree.scan(&Range { from: next.clone(), until: range.until.clone(), limit })?;
            let removed = self.are_removed(&found.entries, since);
            let before = bytes;
            for ((key, value), is_removed) in found.entries.into_iter().zip(removed) {
                if bytes > READ_BYTES {
                    return Ok(Rows { rows, rest: Some(next) });
                }
                next = [&key[..], &[0]].concat();
                if is_removed {
                    gone += 1;
                } else {
                    wanted -= 1;
                    bytes += value.len();
                    rows.push((KeyBytes::from(&key[..]), decoded(&key, &value)?));
                }
            }
            if found.complete || wanted == 0 || gone >= GONE_MAX {
                return Ok(Rows { rows, rest: (!found.complete).then_some(next) });
            }
            if bytes - before < READ_BYTES / 4 {
                slice = (2 * slice).min(SLICE_MAX);
            }
        }
    }

    fn read_spread(&self, spread: &Spread, since: u64) -> Result<Vec<Part>, TreeError> {
        let Spread { range, of_tenant } = spread;
        let (mut gather, mut next, mut slice) = (Gather::new(spread), range.from.clone(), *of_tenant);
        let (mut bytes, mut gone) = (0, 0);
        'scan: loop {
            // One more than may be taken, to know where what is known ends. Where tenants have little, more at a time.
            let limit = slice.min(range.limit).saturating_add(1);
            let found = self.0.tree.scan(&Range { from: next.clone(), until: range.until.clone(), limit })?;
            let removed = self.are_removed(&found.entries, since);
            for ((key, value), is_removed) in found.entries.into_iter().zip(removed) {
                if bytes > READ_BYTES || gone == GONE_MAX {
                    gather.end(&next);
                    return Ok(gather.parts());
                }
                let key = KeyBytes::from(&key[..]);
                next = [&key[..], &[0]].concat();
                // Tenants are drained from the front: with what they had there they would seem to have nothing.
                if is_removed {
                    gone += 1;
                    continue;
                }
                let page = decoded(&key, &value)?;
                match gather.take(key, page) {
                    Taken::Kept => bytes += value.len(),
                    Taken::PassedOver => {
                        (next, slice) = (gather.next(), *of_tenant);
                        continue 'scan;
                    }
                    Taken::Full => return Ok(gather.parts()),
                }
            }
            if found.complete {
                gather.end(&range.until);
                return Ok(gather.parts());
            }
            slice = slice.saturating_mul(2);
        }
    }

    /// Which of some rows, read since a generation, are gone by what is newer.
    fn are_removed(&self, rows: &[(Bytes, Bytes)], since: u64) -> Vec<bool> {
        let state = lock(&self.0.state);
        let newest = |key: &Bytes| state.layers(since).find_map(|layer| layer.get(key));
        rows.iter().map(|(key, _)| newest(key) == Some(None)).collect()
    }

    fn read_entries(&self, found: &mut [Found]) -> Result<(), TreeError> {
        let mut entries: Vec<_> = found
            .iter_mut()
            .filter_map(|found| match found {
                Found::Entry { key, page } => Some((key, page)),
                Found::Range { .. } | Found::Spread { .. } => None,
            })
            .collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let keys: Vec<KeyBytes> = entries.iter().map(|(key, _)| KeyBytes::clone(key)).collect();
        for ((key, page), value) in entries.into_iter().zip(self.0.tree.get_many(&keys)?) {
            if value.is_none() && is_filtered(key) {
                self.0.in_vain.fetch_add(1, Ordering::Relaxed);
            }
            *page = value.map(|value| decoded(key, &value)).transpose()?;
        }
        Ok(())
    }
}

impl State {
    /// The answer to a want of which this was found since a generation.
    fn resolve(&self, found: Found, since: u64) -> Answer {
        match found {
            Found::Entry { key, page } => {
                let newer = self.layers(since).find_map(|layer| layer.get(&key));
                let page = newer.map_or(page, |value| value.map(|value| in_memory(&key, value)));
                Answer::Entry(key, page)
            }
            Found::Range { range, rows: Rows { rows, rest } } => {
                // Behind the last row read nobody knows what is on the disk.
                let until = rest.as_ref().unwrap_or(&range.until);
                if self.layers(since).all(|layer| layer.range(&range.from, until).next().is_none()) {
                    return Slice::as_read(range, rows, rest);
                }
                let (mut slice, mut rows) = (Slice::new(&range, rows.len()), rows.into_iter().peekable());
                self.merged(since, (&range.from, until), &mut rows).all(|(key, page)| slice.take(key, page));
                slice.answer(range, rest)
            }
            Found::Spread { spread, parts } => Answer::Spread { parts: self.gathered(since, &spread, parts), spread },
        }
    }

    /// What is there by now of the parts of a spread, as far as that is looked at.
    fn gathered(&self, since: u64, spread: &Spread, parts: Vec<Part>) -> Vec<Part> {
        let (mut gather, mut gone) = (Gather::new(spread), 0);
        for Part { from, until, entries: rows } in parts {
            let mut rows = rows.into_iter().peekable();
            gather.begin(from);
            'part: loop {
                let from = gather.next();
                while rows.next_if(|(row, _)| *row < from).is_some() {}
                for (key, page) in self.merged(since, (&from, &until), &mut rows) {
                    if gone == GONE_MAX {
                        gather.end(&key.into_owned());
                        return gather.parts();
                    }
                    match page.map(|page| gather.take(key.into_owned(), page)) {
                        None => gone += 1,
                        Some(Taken::Kept) => {}
                        // A tenant may have very much beyond its share.
                        Some(Taken::PassedOver) => continue 'part,
                        Some(Taken::Full) => return gather.parts(),
                    }
                }
                break;
            }
            gather.end(&until);
        }
        gather.parts()
    }

    /// Rows read since a generation, and what is newer laid over them, between two keys.
    fn merged<'a>(
        &'a self,
        since: u64,
        (from, until): (&KeyBytes, &KeyBytes),
        rows: &'a mut Peekable<std::vec::IntoIter<(KeyBytes, Page)>>,
    ) -> impl Iterator<Item = (Cow<'a, [u8]>, Option<Page>)> {
        let layers = self.layers(since).map(|layer| layer.range(from, until).peekable()).collect();
        Merged { layers, rows }
    }
}

/// Rows, and layers over them, newest first: each key's newest, in order, and the news where that is gone.
struct Merged<'a, L: Iterator<Item = Change<'a>>> {
    layers: Vec<Peekable<L>>,
    rows: &'a mut Peekable<std::vec::IntoIter<(KeyBytes, Page)>>,
}

impl<'a, L: Iterator<Item = Change<'a>>> Iterator for Merged<'a, L> {
    type Item = (Cow<'a, [u8]>, Option<Page>);

    fn next(&mut self) -> Option<(Cow<'a, [u8]>, Option<Page>)> {
        let first = self.layers.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| *key)).min();
        let Some(first) = first.filter(|key| self.rows.peek().is_none_or(|(row, _)| *key <= &row[..])) else {
            return self.rows.next().map(|(key, page)| (Cow::Owned(key), Some(page)));
        };
        self.rows.next_if(|(row, _)| row == first);
        let mut newest = None;
        for layer in &mut self.layers {
            let found = layer.next_if(|(key, _)| *key == first);
            newest = newest.or(found);
        }
        let (key, value) = newest.expect("one of them has it");
        Some((Cow::Borrowed(key), value.map(|value| in_memory(key, value))))
    }
}

/// An entry as the tree holds it.
pub(crate) fn decoded(key: &[u8], value: &Bytes) -> Result<Page, TreeError> {
    let parsed = Key::parse(key).ok_or_else(|| TreeError::Damaged(format!("it holds the key {key:02x?}")))?;
    decode_entry(&parsed, value).map_err(|bad| TreeError::Damaged(format!("under the key {parsed:?}, {bad}")))
}

fn in_memory(key: &[u8], value: &[u8]) -> Page {
    let key = Key::parse(key).expect("a key in memory is as it was made");
    decode_entry(&key, &Bytes::copy_from_slice(value)).expect("an entry in memory is as it was put")
}
