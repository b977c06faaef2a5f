//! Which keys may be on the disk: a set in memory that forgets nothing, and takes some strangers for acquaintances.
//!
//! Of topics, dedup ids and producer sessions, which are asked for by everyone who publishes and mostly are not there. A
//! key goes in before its commit is on the disk, so a key that the filter does not know is not there. What is removed
//! stays in; so the filter is made anew, by a scan, when much was removed or has expired, or when it has grown in too many
//! parts. A scan passes what was removed and is not yet merged away, so one for what was removed waits until that is little, or
//! less than what is left.
//!
//! It is a list of Bloom filters, each divided into blocks of a cache line: a key has all its bits in one. The first is as
//! large as the tree asks for, each further one doubles the whole, as far as the memory for it allows. With 14 bits a key one
//! of them takes a stranger for an acquaintance in one of 400 cases; four of them together in less than one of 100. Keys for
//! which there is no memory go into what is there, which then takes more strangers for acquaintances: each of these costs a
//! read, and nothing worse.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::quality::FixedState;
use millpond_core::store::{KeyBytes, Range};
use millpond_types::WallTime;

use super::LayeredStore;
use super::expiring::{Expiring, Sweep};
use super::layer::Layer;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::tree::{TreeError, dedup_until};

/// Keys that are worth it: to have less memory set aside, to scan all others for, or to merge the whole tree.
const LEAST: u64 = 1 << 16;
/// Bits for each key.
const BITS: u64 = 14;
/// Bits that are set for each key: what is best for that many is 9 or 10, but seven positions come out of one hash.
const PROBES: u32 = 7;
/// Bits of a block.
const BLOCK_BITS: u64 = 512;
/// Parts from which on a filter is made anew.
const PARTS_MAX: usize = 4;
/// Where it may be made anew for keys that were removed, it is where they are this share of all: while everything is drained, a
/// quarter is scanned, then a quarter of that, and so on, a third of what was there. With what is removed and not merged away, which is
/// less than what is left, it is two thirds at most.
const REMOVED_SHARE: (u64, u64) = (3, 4);
/// Where it holds more keys than it has room for, this share is enough.
const REMOVED_OVERFULL: (u64, u64) = (1, 8);
/// Keys that are scanned at a time.
const SLICE: u32 = 4096;

/// How large a filter may be, and how small.
#[derive(Clone, Copy, Debug)]
pub struct FilterBounds {
    /// Bytes of memory that it may take, and as many while it is made anew. With less than 14 bits for each key, more is looked for
    /// on the disk in vain.
    pub bytes: usize,
    /// Keys that the smallest has room for. So many have to be gone before it is made anew for them, and to be over for a merge of
    /// the whole tree.
    pub least: u64,
}

impl FilterBounds {
    /// As the broker has them, within so many bytes.
    pub fn within(bytes: usize) -> FilterBounds {
        FilterBounds { bytes, least: LEAST }
    }
}

/// What a filter was good for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FilterStats {
    /// How often it was made anew since the start, when there was one already.
    pub made_anew: u64,
    /// Keys that it might have held, and that were not on the disk, since the start.
    pub in_vain: u64,
    /// Whether it holds more keys than it has room for.
    pub is_overfull: bool,
}

/// The kinds of keys that are in the filter: topics, dedup ids, producer sessions.
const KINDS: [u8; 3] = [3, 6, 7];

/// Whether keys of this kind are in the filter.
pub(super) fn is_filtered(key: &[u8]) -> bool {
    key.first().is_some_and(|kind| KINDS.contains(kind))
}

/// A set of keys. Clones share their bits.
#[derive(Clone)]
pub(super) struct KeyFilter {
    parts: Vec<Arc<Part>>,
    bounds: FilterBounds,
    removed: u64,
    /// The generation of the last checkpoint whose keys it has: one that finds no space is tried again.
    noted: Option<u64>,
    /// Of the keys in the tree.
    expiring: Arc<Mutex<Expiring>>,
}

struct Part {
    blocks: Vec<[AtomicU64; 8]>,
    room: u64,
    held: AtomicU64,
}

impl KeyFilter {
    /// An empty one.
    pub fn new(bounds: FilterBounds) -> KeyFilter {
        KeyFilter { parts: Vec::new(), bounds, removed: 0, noted: None, expiring: Arc::default() }
    }

    /// For so many keys, as far as its bytes allow it.
    fn with_room(keys: u64, bounds: FilterBounds) -> KeyFilter {
        let parts = vec![Part::new(keys.min(fitting(bounds.bytes)).max(bounds.least))];
        KeyFilter { parts, ..KeyFilter::new(bounds) }
    }

    /// Whether a key may have been put in.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        let hash = hash(key);
        self.parts.iter().any(|part| part.may_hold(hash))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.blocks.len() * size_of::<[AtomicU64; 8]>()).sum()
    }

    /// Makes room for so many more keys, as far as its bytes allow it.
    fn make_room(&mut self, keys: u64) {
        let room = |part: &Arc<Part>| part.room.saturating_sub(part.held.load(Ordering::Relaxed));
        if self.parts.last().map_or(0, room) >= keys {
            return;
        }
        let FilterBounds { bytes, least } = self.bounds;
        let more = keys.max(self.held()).max(least).min(fitting(bytes.saturating_sub(self.bytes())));
        if more >= least || self.parts.is_empty() {
            self.parts.push(Part::new(more.max(least)));
        }
    }

    fn insert(&self, key: &[u8]) {
        let hash = hash(key);
        if !self.parts.iter().any(|part| part.may_hold(hash)) {
            self.parts.last().expect("room was made").insert(hash);
        }
    }

    fn held(&self) -> u64 {
        self.parts.iter().map(|part| part.held.load(Ordering::Relaxed)).sum()
    }

    /// From when on so many keys of the tree are over that to merge all of it is worth it.
    fn worth_sweeping(&self) -> Option<WallTime> {
        lock(&self.expiring).worth_sweeping(self.held(), self.bounds.least)
    }

    /// Takes note of when an entry is over; whether it is.
    fn note_expiry(&self, key: &[u8], value: &Bytes, now: WallTime) -> bool {
        dedup_until(key, value).is_some_and(|until| lock(&self.expiring).note(until, now))
    }

    /// How many keys it counts as removed, and as over at a time.
    #[cfg(test)]
    pub(super) fn counted(&self, now: WallTime) -> (u64, u64) {
        (self.removed, lock(&self.expiring).over_since(now))
    }

    /// Whether it is worth a scan, past so many tombstones, to make it anew.
    fn is_stale(&self, now: WallTime, tombstones: u64) -> bool {
        let (held, gone) = (self.held(), self.removed + lock(&self.expiring).over_since(now));
        let (share, of) = if self.is_overfull() { REMOVED_OVERFULL } else { REMOVED_SHARE };
        let least = self.bounds.least;
        let is_merged = tombstones <= held.saturating_sub(gone).max(least);
        self.parts.len() > PARTS_MAX || is_merged && gone >= least && gone * of >= held * share
    }

    /// Whether it holds more keys than it has room for.
    fn is_overfull(&self) -> bool {
        self.parts.iter().map(|part| part.room).sum::<u64>() < self.held()
    }
}

/// How many keys so many bytes are enough for.
fn fitting(bytes: usize) -> u64 {
    ((bytes / size_of::<[AtomicU64; 8]>()) as u64).saturating_mul(BLOCK_BITS) / BITS
}

impl Part {
    fn new(room: u64) -> Arc<Part> {
        let blocks = (room * BITS).div_ceil(BLOCK_BITS);
        assert!(blocks < 1 << 32, "a block is chosen by 32 bits of a hash");
        let blocks = (0..blocks).map(|_| Default::default()).collect();
        Arc::new(Part { blocks, room, held: AtomicU64::new(0) })
    }

    fn may_hold(&self, hash: u64) -> bool {
        let block = self.block(hash);
        probes(hash).all(|(word, bit)| block[word].load(Ordering::Relaxed) & bit != 0)
    }

    fn insert(&self, hash: u64) {
        let block = self.block(hash);
        probes(hash).for_each(|(word, bit)| _ = block[word].fetch_or(bit, Ordering::Relaxed));
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    fn block(&self, hash: u64) -> &[AtomicU64; 8] {
        &self.blocks[(((hash >> 32) * self.blocks.len() as u64) >> 32) as usize]
    }
}

fn hash(key: &[u8]) -> u64 {
    // The same in every run, so that what is read from the disk is the same when a history is run again.
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// The bits of a key in its block, from a hash whose upper half has chosen the block.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| {
        let at = (mixed >> (1 + 9 * probe)) & (BLOCK_BITS - 1);
        ((at / 64) as usize, 1 << (at % 64))
    })
}

impl LayeredStore {
    /// Puts the keys that a checkpoint adds into the filter, and into the one that is being made, unless they are there.
    pub(super) fn note_in_filters(&self, layer: &Layer, wall: WallTime) {
        let filtered = || layer.records().filter(|(key, _)| is_filtered(key));
        let added = filtered().filter(|(_, value)| value.is_some()).count() as u64;
        let removed = filtered().count() as u64 - added;
        // Those that have it already are left out.
        let filters = self.filters_with_room(added, removed);
        for (key, value) in filtered().filter_map(|(key, value)| Some((key, value?))) {
            let value = Bytes::copy_from_slice(value);
            for filter in &filters {
                filter.insert(key);
                filter.note_expiry(key, &value, wall);
            }
        }
    }

    /// With room for what a checkpoint adds, which is made before the lock is taken: a part may be tens of megabytes, and the
    /// core waits for the lock. Nobody else makes room or puts a filter in place meanwhile, for `committing` is held.
    fn filters_with_room(&self, added: u64, removed: u64) -> Vec<KeyFilter> {
        let state = lock(&self.0.state);
        let (generation, mut filters) = (state.generation, [state.filter.clone(), state.next_filter.clone()]);
        drop(state);
        let mut new = Vec::new();
        for filter in filters.iter_mut().flatten().filter(|filter| filter.noted != Some(generation)) {
            filter.make_room(added);
            filter.removed += removed;
            filter.noted = Some(generation);
            new.push(filter.clone());
        }
        let mut state = lock(&self.0.state);
        [state.filter, state.next_filter] = filters;
        new
    }

    /// What the filter was good for.
    pub fn filter_stats(&self) -> FilterStats {
        let state = lock(&self.0.state);
        let is_overfull = state.filter.as_ref().is_some_and(KeyFilter::is_overfull);
        FilterStats { made_anew: state.made_anew, in_vain: self.0.in_vain.load(Ordering::Relaxed), is_overfull }
    }

    /// When so much of the tree is over that it is to be merged, though nothing comes.
    pub fn sweep(&self) -> Sweep {
        let state = lock(&self.0.state);
        let Some(filter) = state.filter.as_ref().filter(|_| state.next_filter.is_none()) else { return Sweep::Unknown };
        match filter.worth_sweeping() {
            None => Sweep::Never,
            Some(at) if at > self.wall() => Sweep::From(at),
            Some(_) => Sweep::Unknown,
        }
    }

    /// The time of the newest checkpoint.
    fn wall(&self) -> WallTime {
        self.0.tree.head().map_or(WallTime(0), |head| head.wall)
    }

    /// Merges all of the tree if that is worth it for what is over; whether it was.
    pub(super) fn sweep_tree(&self) -> Result<bool, TreeError> {
        let at = lock(&self.0.state).filter.as_ref().and_then(KeyFilter::worth_sweeping);
        if at.is_none_or(|at| at > self.wall()) || !self.0.tree.sweep()? {
            return Ok(false);
        }
        self.make_filter(lock(&self.0.committing))?;
        Ok(true)
    }

    /// Makes the filter anew if it has grown stale; whether it had.
    pub fn tend_filter(&self) -> Result<bool, TreeError> {
        let (committing, wall) = (lock(&self.0.committing), self.wall());
        let tombstones = self.0.tree.stats().tombstones;
        if lock(&self.0.state).filter.as_ref().is_some_and(|filter| !filter.is_stale(wall, tombstones)) {
            return Ok(false);
        }
        self.make_filter(committing)?;
        Ok(true)
    }

    pub(super) fn make_filter(&self, committing: MutexGuard<'_, ()>) -> Result<(), TreeError> {
        let wall = self.wall();
        // From here on every commit puts its keys into this one too, and every earlier one is seen by the scan.
        let next = KeyFilter::with_room(self.0.tree.stats().entries, self.0.bounds);
        lock(&self.0.state).next_filter = Some(next.clone());
        drop(committing);
        let scanned = KINDS.into_iter().try_for_each(|kind| self.scan_into(&next, kind, wall));
        let _committing = lock(&self.0.committing);
        let mut state = lock(&self.0.state);
        let next = state.next_filter.take();
        scanned?;
        let stale = std::mem::replace(&mut state.filter, next);
        state.made_anew += u64::from(stale.is_some());
        drop(state);
        // To give its memory back takes long.
        drop(stale);
        Ok(())
    }

    /// What is over does not count, so that it goes in is no use.
    fn scan_into(&self, filter: &KeyFilter, kind: u8, wall: WallTime) -> Result<(), TreeError> {
        let mut range = Range { from: vec![kind], until: vec![kind + 1], limit: SLICE };
        loop {
            let found = self.0.tree.scan(&range)?;
            let counts = found.entries.iter().filter(|(key, value)| !filter.note_expiry(key, value, wall));
            counts.for_each(|(key, _)| filter.insert(key));
            let Some((last, _)) = found.entries.last().filter(|_| !found.complete) else { return Ok(()) };
            range.from = KeyBytes::from(&last[..]);
            range.from.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_known_and_few_strangers_are() {
        let mut filter = KeyFilter::new(FilterBounds::within(fitting_bytes(LEAST << 4)));
        assert!(!filter.may_hold(b"anything"));
        // As it grows: four parts, each full.
        for part in 0..4 {
            let before = if part == 0 { 0 } else { LEAST << (part - 1) };
            filter.make_room((LEAST << part) - before);
            (before..LEAST << part).for_each(|number| filter.insert(&key(number)));
        }
        assert_eq!(filter.parts.len(), PARTS_MAX);
        assert!(!filter.is_stale(WallTime(0), 0));
        let count = LEAST << 3;
        assert!((0..count).all(|number| filter.may_hold(&key(number))));
        let strangers = (count..count + 100_000).filter(|number| filter.may_hold(&key(*number))).count();
        assert!(strangers < 1000, "{strangers} of 100,000");
        assert!(filter.bytes() as u64 <= count * BITS / 8 * 11 / 10);
    }

    /// It takes no more than the memory for it, whatever comes; and where it is too full, fewer keys that are gone are enough
    /// to make it anew.
    #[test]
    fn it_takes_no_more_memory_than_there_is_for_it() {
        let most = fitting_bytes(LEAST * 5);
        let mut filter = KeyFilter::new(FilterBounds::within(most));
        let batch = LEAST / 4;
        let put = |filter: &mut KeyFilter, from: u64| {
            filter.make_room(batch);
            (from..from + batch).for_each(|number| filter.insert(&key(number)));
            assert!(filter.bytes() <= most, "{} of {most} bytes for {from} keys", filter.bytes());
        };
        let strangers =
            |filter: &KeyFilter| (0..10_000).filter(|number| filter.may_hold(&key(u64::MAX - number))).count();
        (0..LEAST * 5 - batch).step_by(batch as usize).for_each(|from| put(&mut filter, from));
        assert!(filter.bytes() > most * 9 / 10 && strangers(&filter) < 100);
        (LEAST * 5 - batch..LEAST * 10).step_by(batch as usize).for_each(|from| put(&mut filter, from));
        assert!((0..LEAST * 10).all(|number| filter.may_hold(&key(number))));
        let held = filter.held();
        filter.removed = held.div_ceil(REMOVED_OVERFULL.1) - 1;
        assert!(!filter.is_stale(WallTime(0), 0));
        filter.removed += 1;
        assert!(filter.is_stale(WallTime(0), 0));
        assert!(!filter.is_stale(WallTime(0), held), "a scan would pass more that is gone than what is left");
        assert!(KeyFilter::with_room(held, FilterBounds::within(most)).bytes() <= most);
    }

    /// With half and a quarter of the bits for each key: what `docs/memory.md` says of it.
    #[test]
    fn with_fewer_bits_more_strangers_are_taken_for_acquaintances() {
        let (keys, strangers) = (LEAST * 4, 100_000);
        for (share, least, most) in [(1, 100, 400), (2, 4_000, 4_700), (4, 34_000, 39_000)] {
            let filter = KeyFilter::with_room(keys, FilterBounds::within(fitting_bytes(keys / share)));
            (0..keys).for_each(|number| filter.insert(&key(number)));
            let found = (0..strangers).filter(|number| filter.may_hold(&key(u64::MAX - number))).count();
            assert!((least..most).contains(&found), "{found} of {strangers} with 1/{share} of the bits");
        }
    }

    /// Enough for so many keys.
    fn fitting_bytes(keys: u64) -> usize {
        (keys * BITS).div_ceil(BLOCK_BITS) as usize * 64
    }

    fn key(number: u64) -> Vec<u8> {
        [&[3][..], &number.to_be_bytes()].concat()
    }
}
