//! Reading what the core wants, and laying over it what has changed meanwhile.
//!
//! Rows that were read go stale at once: the core puts and removes on, checkpoints are committed. So each read remembers
//! the generation in which it began, and [`LayeredStore::resolve`] lays every layer over it that is newer. Rows that are
//! gone by those are passed over as they are read: a topic that was drained since the last checkpoint is one. Where so many
//! go between the two that neither the limit of a range nor its end is reached, the read is gone on with.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::page::Page;
use millpond_core::store::{Answer, Gather, Key, KeyBytes, Part, Range, Spread, Taken, Want};

use super::{LayeredStore, Shared, State};
use crate::codec::decode_entry;
use crate::sync::lock;
use crate::tree::TreeError;

/// Bytes of rows after which a read of a range ends though it may have more: topics may hold very much, and what is read takes
/// several times as much in memory.
const READ_BYTES: usize = 256 * 1024;
/// Rows of a range that are scanned at a time: the first ones, for they may be very large, and at most.
const SLICE: u32 = 64;
const SLICE_MAX: u32 = 1024;

/// What is to be read: wants of the core, or the rest of ranges whose rows had gone.
pub struct Wants {
    wants: Vec<Pending>,
    ticket: Option<Ticket>,
}

/// What was read. It keeps in memory what is committed until it is resolved or dropped.
pub struct Fetched {
    wants: Vec<Pending>,
    ticket: Ticket,
}

/// The answers to what was read, and what has to be read further.
pub struct Resolved {
    /// For the core.
    pub answers: Vec<Answer>,
    /// To be read.
    pub again: Option<Wants>,
}

enum Pending {
    Entry { key: KeyBytes, page: Option<Page> },
    Range { range: Range, rows: Vec<(KeyBytes, Page)>, next: KeyBytes, end: End },
    Spread { spread: Spread, parts: Vec<Part> },
}

/// Why the rows of a range end where they do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// There are no more.
    Complete,
    /// As many were read as were asked for.
    Limit,
    /// They are very large.
    Bytes,
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

impl From<Vec<Want>> for Wants {
    fn from(wants: Vec<Want>) -> Wants {
        let wants = wants.into_iter().map(|want| match want {
            Want::Entry(key) => Pending::Entry { key, page: None },
            Want::Range(range) => {
                let next = range.from.clone();
                Pending::Range { range, rows: Vec::new(), next, end: End::Limit }
            }
            Want::Spread(spread) => Pending::Spread { spread, parts: Vec::new() },
        });
        Wants { wants: wants.collect(), ticket: None }
    }
}

impl LayeredStore {
    /// Reads what is wanted from the disk: entries sorted and in bulk, then ranges. For reading threads.
    pub fn read(&self, wants: impl Into<Wants>) -> Result<Fetched, TreeError> {
        let Wants { mut wants, ticket } = wants.into();
        let ticket = ticket.unwrap_or_else(|| self.ticket());
        self.read_entries(&mut wants)?;
        for want in &mut wants {
            if let Pending::Spread { spread, parts } = want {
                *parts = self.read_spread(spread, ticket.generation)?;
            }
            if let Pending::Range { range, rows, next, end } = want {
                *end = self.read_range(range, rows, next, ticket.generation)?;
            }
        }
        Ok(Fetched { wants, ticket })
    }

    /// The answers as of now. For the core's thread: nothing is read here.
    pub fn resolve(&self, fetched: Fetched) -> Resolved {
        let Fetched { wants, ticket } = fetched;
        let state = lock(&self.0.state);
        let (mut answers, mut again) = (Vec::with_capacity(wants.len()), Vec::new());
        for want in wants {
            state.resolve(want, ticket.generation, &mut answers, &mut again);
        }
        // A ticket takes the lock when it is dropped.
        drop(state);
        let again = (!again.is_empty()).then_some(Wants { wants: again, ticket: Some(ticket) });
        Resolved { answers, again }
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

    /// Reads more rows of a range from `next` on, and says why they end there.
    fn read_range(
        &self,
        range: &Range,
        rows: &mut Vec<(KeyBytes, Page)>,
        next: &mut KeyBytes,
        since: u64,
    ) -> Result<End, TreeError> {
        // One more than asked for, to know whether there are more.
        let (mut wanted, mut bytes, mut slice) = (range.limit.saturating_add(1), 0, SLICE);
        loop {
            let limit = slice.min(wanted);
            let found = self.0.tree.scan(&Range { from: next.clone(), until: range.until.clone(), limit })?;
            let removed = self.are_removed(&found.entries, since);
            let before = bytes;
            for ((key, value), is_removed) in found.entries.into_iter().zip(removed) {
                if bytes > READ_BYTES {
                    return Ok(End::Bytes);
                }
                *next = [&key[..], &[0]].concat();
                if !is_removed {
                    wanted -= 1;
                    bytes += value.len();
                    rows.push((KeyBytes::from(&key[..]), decoded(&key, &value)?));
                }
            }
            if found.complete {
                return Ok(End::Complete);
            }
            if wanted == 0 {
                return Ok(End::Limit);
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
                if bytes > READ_BYTES || gone > range.limit {
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

    fn read_entries(&self, wants: &mut [Pending]) -> Result<(), TreeError> {
        let mut entries: Vec<_> = wants
            .iter_mut()
            .filter_map(|want| match want {
                Pending::Entry { key, page } => Some((key, page)),
                Pending::Range { .. } | Pending::Spread { .. } => None,
            })
            .collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let keys: Vec<KeyBytes> = entries.iter().map(|(key, _)| KeyBytes::clone(key)).collect();
        for ((key, page), value) in entries.into_iter().zip(self.0.tree.get_many(&keys)?) {
            *page = value.map(|value| decoded(key, &value)).transpose()?;
        }
        Ok(())
    }
}

impl State {
    /// Gives the answer to a want whose rows were read since a generation, or the want if more has to be read.
    fn resolve(&self, want: Pending, since: u64, answers: &mut Vec<Answer>, again: &mut Vec<Pending>) {
        let (range, rows, next, end) = match want {
            Pending::Entry { key, page } => {
                let newer = self.layers(since).find_map(|layer| layer.get(&key));
                let page = newer.map_or(page, |value| value.map(|value| in_memory(&key, value)));
                return answers.push(Answer::Entry(key, page));
            }
            Pending::Spread { spread, parts } => {
                let mut gather = Gather::new(&spread);
                for Part { from, until, entries: rows } in parts {
                    let layers = self.layers(since).map(|layer| layer.range(&from, &until).peekable());
                    let mut merged = Merged { layers: layers.collect(), rows: rows.into_iter().peekable() };
                    gather.begin(from.clone());
                    if merged.any(|(key, page)| gather.take(key, page) == Taken::Full) {
                        break;
                    }
                    gather.end(&until);
                }
                return answers.push(Answer::Spread { parts: gather.parts(), spread });
            }
            Pending::Range { range, rows, next, end } => (range, rows, next, end),
        };
        // Behind the last row read nobody knows what is on the disk.
        let until = if end == End::Complete { range.until.clone() } else { next.clone() };
        let layers = self.layers(since).map(|layer| layer.range(&range.from, &until).peekable());
        let mut merged = Merged { layers: layers.collect(), rows: rows.into_iter().peekable() };
        let limit = range.limit as usize;
        let entries: Vec<_> = merged.by_ref().take(limit).collect();
        let has_more = entries.len() == limit && merged.next().is_some();
        drop(merged);
        if has_more || end == End::Complete || end == End::Bytes && !entries.is_empty() {
            let complete = end == End::Complete && !has_more;
            return answers.push(Answer::Range { range, entries, complete });
        }
        // Rows that a layer has hidden need not be kept: that layer will be laid over the rest as well.
        again.push(Pending::Range { range, rows: entries, next, end });
    }
}

/// Rows, and layers over them, newest first: each key's newest, in order, without those that are gone.
struct Merged<'a, L: Iterator<Item = (&'a [u8], Option<&'a [u8]>)>> {
    layers: Vec<Peekable<L>>,
    rows: Peekable<std::vec::IntoIter<(KeyBytes, Page)>>,
}

impl<'a, L: Iterator<Item = (&'a [u8], Option<&'a [u8]>)>> Iterator for Merged<'a, L> {
    type Item = (KeyBytes, Page);

    fn next(&mut self) -> Option<(KeyBytes, Page)> {
        loop {
            let first = self.layers.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| *key)).min();
            let Some(first) = first.filter(|key| self.rows.peek().is_none_or(|(row, _)| *key <= &row[..])) else {
                return self.rows.next();
            };
            self.rows.next_if(|(row, _)| row == first);
            let mut newest = None;
            for layer in &mut self.layers {
                let found = layer.next_if(|(key, _)| *key == first);
                newest = newest.or(found);
            }
            if let Some((key, Some(value))) = newest {
                return Some((KeyBytes::from(key), in_memory(key, value)));
            }
        }
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
