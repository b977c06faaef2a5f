//! A disk in memory with two faces: what is written, and what would survive a power cut.
//!
//! It is as unkind as POSIX allows, and the same each time. At a power cut ([`TwinDisk::crash`]) every sector that was
//! not synced is, by the seed, kept, lost or torn, has what was to go elsewhere or a bit flipped: so a later write may
//! survive an earlier one, and none is to be trusted. Every name that was
//! made, renamed or removed since the directory was synced may be as before. Operations are counted: a plan lets the
//! power fail at any one of them, or lets that one fail alone. A capacity can run out, and any bit can be flipped.
//!
//! Once the power is cut nothing answers and nothing changes. What a process had of the disk before a cut or its end (open
//! files, the tree, the directory itself) is of no use afterwards: a thread of it that lives on for a moment changes
//! nothing that the next one finds.
//!
//! Operations are what changes something: create, write, sync, preallocate, set length, rename, remove, sync directory,
//! commit to the tree. Reads change nothing and are counted apart: of files, and of the tree. One of them can be made to fail
//! with EIO, and the next one finds what is there.

mod faces;
mod seed;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::disk::{DirectoryLock, Disk, DiskFile, LockError, Preallocate};
use crate::sync::lock;
use crate::tree::{MemoryTree, Tree, TreeError, TreeOptions};
use faces::Faces;
pub use faces::Wreck;
pub use seed::Seed;
use tree::TwinTree;

/// Bytes of a sector: the larger of the two usual sizes.
pub const SECTOR: usize = 4096;
/// The smaller of the two usual sizes.
pub const SMALL_SECTOR: usize = 512;

/// A disk in memory. Clones are the same disk. Only whoever brings it back after a crash or a kill, and clones made from
/// then on, reach its directory again.
pub struct TwinDisk {
    state: Arc<Mutex<State>>,
    /// The power that the directory was reached with.
    power: AtomicU64,
}

/// What goes wrong at an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The power fails: the operation may have been carried out in any part, and every later one fails.
    /// [`TwinDisk::crash`] brings the disk back.
    PowerCut,
    /// The operation fails with EIO, having done nothing that lasts; a write may have got to any part of it. What a failed sync
    /// should have synced still reads as written, and no later sync makes it durable unless it is written again: so Linux does
    /// it.
    Error,
}

/// Writes of which a part is there, and not the whole.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Parts {
    /// How many failed.
    pub failed: u64,
    /// In how many the power was cut. Where the process alone was lost after all, nothing else is missing.
    pub cut: u64,
}

struct State {
    sector: usize,
    /// Names as they are.
    names: BTreeMap<String, FileNumber>,
    /// Names as they were when the directory was synced.
    durable_names: BTreeMap<String, FileNumber>,
    /// What was done to names since.
    changes: Vec<Change>,
    files: Vec<Faces>,
    operations: u64,
    plan: Option<(u64, Fault)>,
    reads: u64,
    /// The read that fails.
    read_plan: Option<u64>,
    cut: bool,
    parts: Parts,
    capacity: Option<u64>,
    tree: MemoryTree,
    /// Grows with each crash and kill: what was reached before is no good any more.
    power: u64,
    locked: Arc<AtomicBool>,
}

type FileNumber = usize;

enum Change {
    Made(String, FileNumber),
    Renamed(String, String),
    Removed(String),
}

impl TwinDisk {
    /// An empty disk with sectors of so many bytes.
    pub fn new(sector: usize) -> TwinDisk {
        assert!(sector > 0, "a sector holds something");
        let state = State {
            sector,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            files: Vec::new(),
            operations: 0,
            plan: None,
            reads: 0,
            read_plan: None,
            cut: false,
            parts: Parts::default(),
            capacity: None,
            tree: MemoryTree::default(),
            power: 0,
            locked: Arc::default(),
        };
        TwinDisk { state: Arc::new(Mutex::new(state)), power: AtomicU64::new(0) }
    }

    /// A disk on which everything is durable as a snapshot shows it.
    pub fn from_snapshot(sector: usize, files: &BTreeMap<String, Vec<u8>>) -> TwinDisk {
        let disk = TwinDisk::new(sector);
        let mut state = lock(&disk.state);
        for (name, bytes) in files {
            let file = state.files.len();
            state.files.push(Faces::durable(bytes.clone()));
            state.names.insert(name.clone(), file);
        }
        state.durable_names = state.names.clone();
        drop(state);
        disk
    }

    /// The disk with what the tree of another holds.
    pub fn with_tree_of(self, other: &TwinDisk) -> TwinDisk {
        let tree = lock(&other.state).tree.copy();
        lock(&self.state).tree = tree;
        self
    }

    /// How many operations there were so far.
    pub fn operations(&self) -> u64 {
        lock(&self.state).operations
    }

    /// Lets something go wrong at the operation that comes after `after` others from now.
    pub fn plan(&self, after: u64, fault: Fault) {
        let mut state = lock(&self.state);
        state.plan = Some((state.operations + after, fault));
    }

    /// Forgets what was planned; whether it has happened before.
    pub fn unplan(&self) -> bool {
        let mut state = lock(&self.state);
        let operations = state.operations;
        state.plan.take().is_some_and(|(at, _)| at < operations)
    }

    /// Lets the read fail that comes after `after` others from now.
    pub fn plan_read(&self, after: u64) {
        let mut state = lock(&self.state);
        state.read_plan = Some(state.reads + after);
    }

    /// Forgets what was planned for a read; whether it has failed before.
    pub fn unplan_read(&self) -> bool {
        let mut state = lock(&self.state);
        let reads = state.reads;
        state.read_plan.take().is_some_and(|at| at < reads)
    }

    /// Bytes that all files may take together; `None` for no end.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        lock(&self.state).capacity = bytes;
    }

    /// Bytes that all files take.
    pub fn used(&self) -> u64 {
        lock(&self.state).used()
    }

    /// The power fails and comes back: what was synced is there, and of the rest what the seed leaves. All locks are gone
    /// and all open files are no good any more.
    pub fn crash(&self, seed: u64) -> Wreck {
        let mut seed = Seed::new(seed);
        let mut state = lock(&self.state);
        let state = &mut *state;
        let mut names = std::mem::take(&mut state.durable_names);
        for change in state.changes.drain(..) {
            if seed.below(2) == 0 {
                continue;
            }
            // A change of something that was lost itself is lost with it.
            match change {
                Change::Made(name, file) => _ = names.insert(name, file),
                Change::Renamed(from, to) => {
                    if let Some(file) = names.remove(&from) {
                        names.insert(to, file);
                    }
                }
                Change::Removed(name) => _ = names.remove(&name),
            }
        }
        let mut wreck = Wreck::default();
        for file in &mut state.files {
            let Wreck { misdirected, flipped } = file.crash(state.sector, &mut seed);
            wreck = Wreck { misdirected: wreck.misdirected + misdirected, flipped: wreck.flipped + flipped };
        }
        state.names = names.clone();
        state.durable_names = names;
        self.restart(state);
        wreck
    }

    /// The process is killed, and the system lives on: all that was written is there.
    pub fn kill(&self) {
        self.restart(&mut lock(&self.state));
    }

    fn restart(&self, state: &mut State) {
        state.restart();
        self.power.store(state.power, Ordering::Release);
    }

    /// The disk, for as long as the power is on with which its directory was reached.
    fn reach(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        state.reached_with(self.power.load(Ordering::Acquire))?;
        Ok(state)
    }

    /// Flips a bit of a file, on both faces.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, bit: u8) {
        let mut state = lock(&self.state);
        let file = state.names[name];
        state.files[file].flip(offset as usize, 1 << (bit % 8));
    }

    /// A file's bytes as they are read now.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = lock(&self.state);
        state.files[state.names[name]].written.clone()
    }

    /// The writes of which a part is there since somebody asked last.
    pub fn take_parts(&self) -> Parts {
        std::mem::take(&mut lock(&self.state).parts)
    }

    /// All that the tree holds, for comparing runs.
    pub fn tree_entries(&self) -> BTreeMap<Bytes, Bytes> {
        lock(&self.state).tree.entries()
    }

    /// All files' names and bytes, for comparing runs.
    pub fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        let state = lock(&self.state);
        state.names.iter().map(|(name, file)| (name.clone(), state.files[*file].written.clone())).collect()
    }
}

impl Clone for TwinDisk {
    fn clone(&self) -> TwinDisk {
        TwinDisk { state: self.state.clone(), power: AtomicU64::new(lock(&self.state).power) }
    }
}

impl State {
    /// Whether the power is on, and has been ever since.
    fn reached_with(&self, before: u64) -> io::Result<()> {
        if self.cut || self.power != before { Err(power()) } else { Ok(()) }
    }

    fn used(&self) -> u64 {
        let files = self.names.values().map(|file| self.files[*file].written.len() as u64).sum::<u64>();
        files + self.tree.stats().bytes
    }

    fn restart(&mut self) {
        self.power += 1;
        self.cut = false;
        (self.plan, self.read_plan) = (None, None);
        self.tree.crash();
        self.locked.store(false, Ordering::Release);
        self.locked = Arc::default();
    }

    /// Counts an operation of somebody who reached the disk. It is carried out unless this fails; with a power cut, it is
    /// carried out and then fails.
    fn count(&mut self) -> io::Result<Option<io::Error>> {
        assert!(!self.cut, "without power nothing is reached");
        let now = self.operations;
        self.operations += 1;
        match self.plan {
            Some((at, Fault::Error)) if at == now => Err(failed()),
            Some((at, Fault::PowerCut)) if at == now => {
                self.cut = true;
                Ok(Some(power()))
            }
            _ => Ok(None),
        }
    }

    /// Counts a read, which may fail.
    fn count_read(&mut self) -> io::Result<()> {
        let now = self.reads;
        self.reads += 1;
        if self.read_plan == Some(now) { Err(failed()) } else { Ok(()) }
    }

    /// The part of a write that is there although it did not come to its end: now and then nothing, or all of it.
    fn part_of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let mut seed = Seed::new(self.operations);
        match seed.below(4) {
            0 => &[],
            1 => bytes,
            _ => &bytes[..seed.below(bytes.len() as u64 + 1) as usize],
        }
    }

    fn named(&self, name: &str) -> io::Result<FileNumber> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn grow(&mut self, file: FileNumber, length: u64) -> io::Result<()> {
        self.room_for(length.saturating_sub(self.files[file].written.len() as u64))
    }

    fn room_for(&self, more: u64) -> io::Result<()> {
        if more > 0 && self.capacity.is_some_and(|capacity| self.used() + more > capacity) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }
}

fn power() -> io::Error {
    io::Error::other("the power is cut")
}

/// EIO.
fn failed() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// What an operation reports after it was carried out.
fn done(cut: Option<io::Error>) -> io::Result<()> {
    cut.map_or(Ok(()), Err)
}

impl Disk for TwinDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.reach()?;
        let cut = state.count()?;
        let file = match state.names.get(name).copied() {
            // The file that is there is emptied: the name goes on meaning it.
            Some(file) => {
                let sector = state.sector;
                state.files[file].set_length(0, sector);
                file
            }
            None => {
                // A name takes some room, too.
                state.room_for(1)?;
                let file = state.files.len();
                state.files.push(Faces::default());
                state.names.insert(name.into(), file);
                state.changes.push(Change::Made(name.into(), file));
                file
            }
        };
        done(cut)?;
        Ok(Arc::new(TwinFile { disk: self.state.clone(), file, power: state.power }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.reach()?;
        Ok(Arc::new(TwinFile { disk: self.state.clone(), file: state.named(name)?, power: state.power }))
    }

    fn is_still_there(&self) -> io::Result<()> {
        self.reach().map(drop)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.reach()?.names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.reach()?;
        state.named(name)?;
        let cut = state.count()?;
        state.names.remove(name);
        state.changes.push(Change::Removed(name.into()));
        done(cut)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.reach()?;
        let file = state.named(from)?;
        let cut = state.count()?;
        state.names.remove(from);
        state.names.insert(to.into(), file);
        state.changes.push(Change::Renamed(from.into(), to.into()));
        done(cut)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.reach()?;
        // A sync that the power cuts has done nothing for certain.
        done(state.count()?)?;
        state.durable_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }

    fn lock(&self) -> Result<DirectoryLock, LockError> {
        struct Held(Arc<AtomicBool>);
        impl Drop for Held {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let locked = self.reach()?.locked.clone();
        if locked.swap(true, Ordering::AcqRel) {
            return Err(LockError::InUse);
        }
        Ok(Box::new(Held(locked)))
    }

    fn tree(&self, _: TreeOptions) -> Result<Arc<dyn Tree>, TreeError> {
        let state = self.reach().map_err(TreeError::Io)?;
        Ok(Arc::new(TwinTree::new(self.state.clone(), &state)))
    }

    fn set_tree_aside(&self) -> io::Result<()> {
        let mut state = self.reach()?;
        let cut = state.count()?;
        state.tree = MemoryTree::default();
        done(cut)
    }

    fn place(&self, name: &str) -> String {
        format!("twin/{name}")
    }
}

struct TwinFile {
    disk: Arc<Mutex<State>>,
    file: FileNumber,
    power: u64,
}

impl TwinFile {
    fn reach(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.disk);
        state.reached_with(self.power)?;
        Ok(state)
    }

    /// Carries out an operation on the file.
    fn operate(&self, act: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.reach()?;
        let cut = state.count()?;
        act(&mut state)?;
        done(cut)
    }
}

impl DiskFile for TwinFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.reach()?;
        let counted = state.count();
        let part = if matches!(counted, Ok(None)) { bytes } else { state.part_of(bytes) };
        if part.is_empty() && !bytes.is_empty() {
            return done(counted?);
        }
        state.grow(self.file, offset + part.len() as u64)?;
        let sector = state.sector;
        state.files[self.file].write(offset as usize, part, sector);
        if part.len() < bytes.len() {
            let parts = &mut state.parts;
            *(if counted.is_err() { &mut parts.failed } else { &mut parts.cut }) += 1;
        }
        done(counted?)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.reach()?;
        state.count_read()?;
        let file = &state.files[self.file].written;
        let from = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.reach()?;
        let cut = state.count().inspect_err(|_| state.files[self.file].forget());
        // A sync that the power cuts has done nothing for certain.
        done(cut?)?;
        let sector = state.sector;
        state.files[self.file].sync(sector);
        Ok(())
    }

    fn preallocate(&self, length: u64, _: Preallocate) -> io::Result<()> {
        self.operate(|state| {
            state.grow(self.file, length)?;
            let sector = state.sector;
            let file = &mut state.files[self.file];
            file.set_length(file.written.len().max(length as usize), sector);
            Ok(())
        })?;
        self.sync()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.operate(|state| {
            state.grow(self.file, length)?;
            let sector = state.sector;
            state.files[self.file].set_length(length as usize, sector);
            Ok(())
        })
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.reach()?.files[self.file].written.len() as u64)
    }
}

#[cfg(test)]
mod tests;
