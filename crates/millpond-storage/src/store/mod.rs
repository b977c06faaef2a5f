//! The store of entries, in three layers: two in memory and a tree on the disk.
//!
//! [`LayeredStore`] is a handle with two ends. The core holds one, as its `Box<dyn Store>`: it puts and finds entries, and
//! never waits. The shell holds the other: its reading threads fetch what the core wants, and it writes sealed
//! checkpoints to the tree.
//!
//! ```text
//!           core's thread                          reading threads        committing thread
//!  put ──► young ──freeze──► frozen ──seal──► sealed ───────────────────► commit ──► tree
//!  find ◄──┘ └──────────────────┴────────────────┘   read ◄─────────────────────────┘
//!  resolve ◄── all layers merged, as of now ◄────────┘
//! ```
//!
//! Invariants: an answer is what the layers hold together at the moment of [`LayeredStore::resolve`], however long ago it
//! was read: each layer that was committed since is kept until it is resolved, and laid over what was read. An entry that
//! the filter does not know is in no layer on the disk (see `filter`).

mod expiring;
mod filter;
mod layer;
mod read;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::Core;
use millpond_core::fact::FactLog;
use millpond_core::page::Page;
use millpond_core::store::{Answer, Found, Key, Range, Store, Want};

use crate::codec::{decode_entry, encode_entry};
use crate::sync::atomic::AtomicU64;
use crate::sync::{Mutex, lock};
use crate::tree::{CommitHead, Compactor, Tree, TreeError};
pub use expiring::Sweep;
pub use filter::{FilterBounds, FilterStats};
use filter::{KeyFilter, is_filtered};
use layer::Layer;

pub use read::Fetched;
pub(crate) use read::decoded;

/// The store of entries. Clones are the same store.
#[derive(Clone)]
pub struct LayeredStore(Arc<Shared>);

struct Shared {
    tree: Arc<dyn Tree>,
    state: Mutex<State>,
    /// Held by a commit, and while a new filter is set up.
    committing: Mutex<()>,
    /// How large the filter may be.
    bounds: FilterBounds,
    /// Keys that the filter might have held, and that were not on the disk.
    in_vain: AtomicU64,
}

#[derive(Default)]
struct State {
    /// What was put since the freeze, if there was one, or the last commit.
    young: Layer,
    /// What the checkpoint in progress has captured so far.
    frozen: Layer,
    /// The whole checkpoint, until it is on the disk.
    sealed: Option<Arc<Layer>>,
    /// Empty: what is put after the next freeze goes there.
    next: Layer,
    /// Commits so far.
    generation: u64,
    /// What was committed while something was being read, each with the generation before it.
    retired: VecDeque<(u64, Arc<Layer>)>,
    /// By generation, how many reads began in it and are not resolved.
    readers: BTreeMap<u64, u32>,
    /// Of the keys on the disk; `None` until they have been looked through.
    filter: Option<KeyFilter>,
    /// What will take its place.
    next_filter: Option<KeyFilter>,
    /// How often that has come.
    made_anew: u64,
    scratch: Scratch,
}

/// Memory to make keys and values in.
#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Scratch {
    fn key(&mut self, key: &Key) -> &[u8] {
        self.key.clear();
        key.append(&mut self.key);
        &self.key
    }

    fn entry(&mut self, key: &Key, page: &Page) -> (&[u8], &[u8]) {
        self.value.clear();
        encode_entry(page, &mut self.value);
        self.key(key);
        (&self.key, &self.value)
    }
}

/// How much has changed since a checkpoint began.
#[derive(Clone, Copy, Debug)]
pub struct Young {
    /// Entries.
    pub changes: usize,
    /// Bytes of memory that they take.
    pub bytes: usize,
}

/// Bytes of memory that a store takes, its tree's blocks apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreMemory {
    /// Of what was put since the last checkpoint began.
    pub young: usize,
    /// Of the checkpoint that is being made or written, and of those that reads still need.
    pub frozen: usize,
    /// Of what is known of the keys on the disk.
    pub filter: usize,
}

/// A complete checkpoint that waits to be written.
pub struct Sealed(Arc<Layer>);

impl Sealed {
    /// How many entries it changes.
    pub fn changes(&self) -> usize {
        self.0.len()
    }
}

impl LayeredStore {
    /// A store over a tree, with nothing in memory. What it knows of the keys on the disk is as large as the bounds say.
    pub fn new(tree: Arc<dyn Tree>, bounds: FilterBounds) -> LayeredStore {
        // What was never committed to holds nothing.
        let filter = tree.head().is_none().then(|| KeyFilter::new(bounds));
        let state = Mutex::new(State { filter, ..State::default() });
        let (committing, in_vain) = (Mutex::default(), AtomicU64::new(0));
        LayeredStore(Arc::new(Shared { tree, state, committing, bounds, in_vain }))
    }

    /// The tree.
    pub fn tree(&self) -> &Arc<dyn Tree> {
        &self.0.tree
    }

    /// Keeps the filter and the tree in order, on a thread, until what is returned is dropped.
    pub fn keep(&self) -> io::Result<Compactor> {
        let store = self.clone();
        Compactor::start(self.0.tree.clone(), move || store.tend())
    }

    /// Does a step of keeping both in order; whether there was one.
    pub fn tend(&self) -> Result<bool, TreeError> {
        Ok(self.tend_filter()? || self.sweep_tree()? || self.0.tree.compact_step()?)
    }

    /// Reads what the core wants, on this thread, until it wants nothing more. Whether it wanted anything.
    pub fn supply(&self, core: &mut Core, log: &mut dyn FactLog) -> Result<bool, TreeError> {
        let mut supplied = false;
        while !core.wanted().is_empty() {
            supplied = true;
            let fetched = self.read(std::mem::take(core.wanted()))?;
            self.resolve(fetched).into_iter().for_each(|answer| core.load(answer, log));
        }
        Ok(supplied)
    }

    /// What was put since the last checkpoint began.
    pub fn young(&self) -> Young {
        let state = lock(&self.0.state);
        Young { changes: state.young.len(), bytes: state.young.bytes() }
    }

    /// What it holds in memory.
    pub fn memory(&self) -> StoreMemory {
        let state = lock(&self.0.state);
        let retired = state.retired.iter().map(|(_, layer)| layer.bytes()).sum::<usize>();
        let frozen = state.sealed.as_deref().unwrap_or(&state.frozen).bytes();
        let filters = [&state.filter, &state.next_filter].into_iter().flatten().map(KeyFilter::bytes);
        StoreMemory { young: state.young.bytes(), frozen: frozen + retired, filter: filters.sum() }
    }

    /// Lets the layers go that reads have held since their checkpoint was written. Reads and checkpoints do it too; but while
    /// layers take all the memory that there is for them, publishes wait, and neither may come.
    pub fn let_go(&self) {
        let done = lock(&self.0.state).take_resolved();
        drop(done);
    }

    /// The checkpoint to be written, once the core has sealed one.
    pub fn sealed(&self) -> Option<Sealed> {
        lock(&self.0.state).sealed.clone().map(Sealed)
    }

    /// Writes a checkpoint. When this returns it is durable, and the memory it took is free. After an error the
    /// checkpoint is still there; after [`TreeError::Full`] it may be written again.
    pub fn commit(&self, sealed: Sealed, head: &CommitHead) -> Result<(), TreeError> {
        let Sealed(layer) = sealed;
        let _committing = lock(&self.0.committing);
        self.note_in_filters(&layer, head.wall);
        self.0.tree.commit(head, &mut layer.iter())?;
        let next = Layer::as_roomy_as(&layer);
        let mut state = lock(&self.0.state);
        state.next = next;
        let sealed = state.sealed.take().expect("a checkpoint is there until it is committed");
        assert!(Arc::ptr_eq(&sealed, &layer), "one checkpoint at a time");
        let generation = state.generation;
        state.generation += 1;
        state.retired.push_back((generation, sealed));
        let done = state.take_resolved();
        drop(state);
        // Taking a layer to pieces takes long: not under the lock, and not on the core's thread.
        drop(done);
        Ok(())
    }
}

impl State {
    /// The memory layers, newest first, that a read which began in a generation has not seen on the disk.
    fn layers(&self, since: u64) -> impl Iterator<Item = &Layer> {
        let retired = self.retired.iter().rev().filter(move |(generation, _)| *generation >= since);
        [&self.young, self.sealed.as_deref().unwrap_or(&self.frozen)]
            .into_iter()
            .chain(retired.map(|(_, layer)| layer.as_ref()))
    }

    /// Takes out the layers that nobody needs any more.
    fn take_resolved(&mut self) -> Vec<Arc<Layer>> {
        let oldest = self.readers.keys().next().copied().unwrap_or(u64::MAX);
        let count = self.retired.iter().take_while(|(generation, _)| *generation < oldest).count();
        self.retired.drain(..count).map(|(_, layer)| layer).collect()
    }
}

impl Store for LayeredStore {
    fn put(&mut self, key: &Key, page: &Page) {
        let State { young, scratch, .. } = &mut *lock(&self.0.state);
        let (key, value) = scratch.entry(key, page);
        young.put(key, Some(value));
    }

    fn remove_all(&mut self, keys: &[Key]) {
        let State { young, scratch, .. } = &mut *lock(&self.0.state);
        keys.iter().for_each(|key| young.put(scratch.key(key), None));
    }

    fn find(&mut self, key: &Key) -> Found {
        let mut state = lock(&self.0.state);
        let mut scratch = std::mem::take(&mut state.scratch);
        let bytes = scratch.key(key);
        let found = match state.layers(u64::MAX).find_map(|layer| layer.get(bytes)) {
            Some(Some(value)) => {
                let page = decode_entry(key, &Bytes::copy_from_slice(value));
                Found::Here(Box::new(page.expect("an entry in memory is as it was put")))
            }
            Some(None) => Found::Absent,
            None => match &state.filter {
                Some(filter) if is_filtered(bytes) && !filter.may_hold(bytes) => Found::Absent,
                _ => Found::OnDisk,
            },
        };
        state.scratch = scratch;
        found
    }

    fn freeze(&mut self) {
        let mut state = lock(&self.0.state);
        assert!(state.frozen.is_empty() && state.sealed.is_none(), "one checkpoint at a time");
        let next = std::mem::take(&mut state.next);
        state.frozen = std::mem::replace(&mut state.young, next);
    }

    fn capture(&mut self, key: &Key, page: &Page) {
        let State { frozen, sealed, scratch, .. } = &mut *lock(&self.0.state);
        assert!(sealed.is_none(), "a sealed checkpoint does not change");
        let (key, value) = scratch.entry(key, page);
        frozen.put(key, Some(value));
    }

    fn capture_removal(&mut self, key: &Key) {
        let State { frozen, sealed, scratch, .. } = &mut *lock(&self.0.state);
        assert!(sealed.is_none(), "a sealed checkpoint does not change");
        frozen.put(scratch.key(key), None);
    }

    fn seal(&mut self) {
        let mut state = lock(&self.0.state);
        assert!(state.sealed.is_none(), "one checkpoint at a time");
        state.sealed = Some(Arc::new(std::mem::take(&mut state.frozen)));
    }

    fn dump(&self) -> Vec<Page> {
        let (mut pages, mut next) = (Vec::new(), Some(vec![1]));
        while let Some(from) = next {
            let range = Range { from, until: vec![u8::MAX], limit: u32::MAX };
            let fetched = self.read(vec![Want::Range(range)]).expect("what is dumped was verified just before");
            let Some(Answer::Range { entries, rest, .. }) = self.resolve(fetched).pop() else {
                unreachable!("a range is answered by a range");
            };
            pages.extend(entries.into_iter().map(|(_, page)| page));
            next = rest;
        }
        pages
    }
}

#[cfg(test)]
mod tests;
