//! The tree on a real disk: a log-structured merge tree without a log of its own.
//!
//! A commit is one *run*: its entries, tombstones and head are written in order to new tables, past any buffer, and the
//! tables are synced, then their directory, then a new version's file that names them, then its directory; then
//! `current` is replaced by a synced file that names the version, and the directory is synced. So a commit is there
//! from the moment of that rename on, whole, and what was written of one that did not get there is removed at the next
//! start. Runs are merged with the levels below by [`LsmTree::compact_step`].
//!
//! The order of the syncs is the library's; what it leaves open is done here: versions and tables are compared with
//! their checksums, sequence numbers go on after a start, a failed write leaves nothing behind, and after one whose
//! outcome is unknown no further commit is taken.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lsm_tree::compaction::Leveled;
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy,
    RestartIntervalPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, Guard, SeqNo, SequenceNumberCounter, Slice,
};
use millpond_core::store::{KeyBytes, Range};

use super::expiry::Expiry;
use super::files::{Mirror, TreeFiles, verify_table};
use super::head::HEAD_KEY;
use super::pace::{OfThread, Rest, Slices};
use super::sweep::Sweeper;
use super::{CommitHead, EntryChange, FIRST_KEY, Scanned, Tree, TreeError, TreeStats};
use crate::disk::is_full;
use crate::sync::lock;

/// Bytes of a block of entries: what a lookup reads and unpacks.
const BLOCK_BYTES: u32 = 4096;
/// Entries between two whole keys in a block; the others only say how they differ from the one before.
const RESTART_INTERVAL: u8 = 16;
/// Bits a key of the filters that save looking into a run in vain.
const FILTER_BITS: f32 = 10.0;
/// Bytes of a table. Reads wait while the last table of a merge is synced, so it is not larger than it has to be.
const TABLE_BYTES: u64 = 16 * 1024 * 1024;
/// Tables in the topmost level from which on they are merged with the next.
const FRESH_TABLES: u8 = 4;
/// Files held open.
const OPEN_FILES: usize = 128;
/// Runs that wait to be merged from which on a commit waits for it. A lookup may have to look into each of them, and a
/// version counts them in a byte.
const FRESH_RUNS_MAX: usize = 64;
/// Tombstones from which on they are worth a merge of their own, and the share of the entries that they must be.
const TOMBSTONES_MIN: u64 = 1000;
const TOMBSTONES_SHARE: u64 = 4;
/// Everything is merged for what has expired where nothing was committed for so many times as long as for tombstones: where
/// commits come one after the other, they are merged anyway, and what has expired goes with that.
const QUIET_FOR_SWEEP: u32 = 12;
/// Newest of all, whatever was committed.
const NEWEST: SeqNo = SeqNo::MAX;

/// How a tree is opened.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Bytes of memory for blocks that were read.
    pub cache_bytes: u64,
    /// So long after the last commit a merge that only drops tombstones is begun.
    pub quiet: Duration,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions { cache_bytes: 32 * 1024 * 1024, quiet: Duration::from_secs(5) }
    }
}

/// A tree in a directory of its own.
pub struct LsmTree {
    tree: AnyTree,
    files: TreeFiles,
    options: TreeOptions,
    sweeper: Arc<Sweeper>,
    rest: Arc<dyn Rest>,
    strategy: Arc<Leveled>,
    head: RwLock<Option<CommitHead>>,
    /// Held by a commit.
    committing: Mutex<Committing>,
    /// Somebody waits for commits.
    hurried: AtomicBool,
    /// Held by a step of compaction.
    compacting: Mutex<()>,
    /// Held by reads, against tables being removed under them.
    reading: RwLock<()>,
    /// A write has failed and may have left tables behind that are in no version.
    leftovers: AtomicBool,
    keys_read: AtomicU64,
    keys_scanned: AtomicU64,
    keys_written: AtomicU64,
    commits: AtomicU64,
    /// Where the library finds links to the files, if these are not to be changed.
    _mirror: Option<Mirror>,
}

#[derive(Default)]
struct Committing {
    poisoned: bool,
    last: Option<Instant>,
}

impl LsmTree {
    /// Opens the tree of a directory, or begins one.
    pub fn open(directory: &Path, options: TreeOptions) -> Result<LsmTree, TreeError> {
        LsmTree::open_in(directory, options, false, Arc::new(OfThread))
    }

    /// Opens a tree that nobody commits to, and changes nothing in its directory.
    pub fn open_read_only(directory: &Path, options: TreeOptions) -> Result<LsmTree, TreeError> {
        LsmTree::open_in(directory, options, true, Arc::new(OfThread))
    }

    pub(super) fn open_in(
        directory: &Path,
        options: TreeOptions,
        read_only: bool,
        rest: Arc<dyn Rest>,
    ) -> Result<LsmTree, TreeError> {
        let files = TreeFiles::new(directory);
        files.check()?;
        let mirror = if read_only { Some(Mirror::of(directory)?) } else { None };
        let seqno = SequenceNumberCounter::default();
        let sweeper = Arc::new(Sweeper::new(rest.clone()));
        let of_library = mirror.as_ref().map_or(directory, Mirror::path);
        let config = config(of_library, &options, seqno.clone(), sweeper.clone());
        // What the library says names no file.
        let tree = config.open().map_err(TreeError::from).map_err(|error| match error {
            error @ TreeError::Io(_) if !read_only => {
                files.find_damage().and_then(|()| files.remove_others()).err().unwrap_or(error)
            }
            error @ (TreeError::Damaged(_) | TreeError::Io(_)) => files.find_damage().err().unwrap_or(error),
            error => error,
        })?;
        tree.current_version().iter_tables().try_for_each(|table| files.is_in_its_place(table.id(), &table.path))?;
        // The library leaves it to its user to go on where the tables end.
        seqno.fetch_max(tree.get_highest_persisted_seqno().map_or(0, |highest| highest + 1));
        let strategy = Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(FRESH_TABLES);
        let tree = LsmTree {
            tree,
            files,
            options,
            sweeper,
            rest,
            strategy: Arc::new(strategy),
            head: RwLock::default(),
            committing: Mutex::default(),
            hurried: AtomicBool::new(false),
            compacting: Mutex::default(),
            reading: RwLock::default(),
            leftovers: AtomicBool::new(false),
            keys_read: AtomicU64::new(0),
            keys_scanned: AtomicU64::new(0),
            keys_written: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            _mirror: mirror,
        };
        tree.load_head().map_err(|error| match error {
            error @ TreeError::Damaged(_) => tree.files.find_damage().err().unwrap_or(error),
            error => error,
        })?;
        Ok(tree)
    }

    fn load_head(&self) -> Result<(), TreeError> {
        let found = self.tree.get(HEAD_KEY, NEWEST)?.map(|bytes| CommitHead::decode(&bytes.into())).transpose()?;
        let Some(head) = found else { return Ok(()) };
        let namespaces = self.scan(&Expiry::namespaces_range(u32::MAX))?;
        let keys = namespaces.entries.iter().map(|(key, _)| &key[..]);
        self.sweeper.set_expiry(Expiry::new(head.wall, keys));
        *self.head.write().unwrap_or_else(PoisonError::into_inner) = Some(head);
        Ok(())
    }

    /// Writes a run and makes it part of the tree.
    fn ingest<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError> {
        let mut run = self.tree.ingestion()?;
        let mut expiry = self.sweeper.expiry();
        run.write(HEAD_KEY, head.encode())?;
        let (mut count, mut slices) = (0, Slices::begin(self.rest.clone()));
        for (key, value) in changes {
            // The run itself asserts that keys ascend.
            match value {
                Some(value) => run.write(key, value)?,
                None => run.write_tombstone(key)?,
            }
            expiry.note(key, value.is_some());
            count += 1;
            if slices.count() {
                slices.end(self.hurried.load(Ordering::Relaxed));
            }
        }
        run.finish()?;
        expiry.note_time(head.wall);
        self.sweeper.set_expiry(expiry);
        self.keys_written.fetch_add(count, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
        *self.head.write().unwrap_or_else(PoisonError::into_inner) = Some(head.clone());
        Ok(())
    }

    /// Whether a commit that failed for want of space did not take place.
    fn is_unchanged(&self) -> bool {
        let current = self.files.current().ok().flatten();
        current.is_some_and(|(version, _)| version == self.tree.current_version().id())
    }

    fn step(&self) -> Result<bool, TreeError> {
        let before = self.tree.current_version().id();
        let runs = self.tree.l0_run_count();
        self.sweeper.set_runs(runs);
        self.tree.compact(self.strategy.clone(), NEWEST)?;
        if self.tree.current_version().id() != before {
            return Ok(true);
        }
        if self.is_worth_sweeping() {
            self.tree.major_compact(TABLE_BYTES, NEWEST)?;
            return Ok(self.tree.current_version().id() != before);
        }
        Ok(false)
    }

    /// Whether nothing was committed for so long.
    fn is_quiet(&self, time: Duration) -> bool {
        let last = self.committing.try_lock().ok().and_then(|committing| committing.last);
        last.is_none_or(|last| last.elapsed() >= time)
    }

    /// The levels are in balance; but where most has been removed from them, that can be so for ever.
    fn is_worth_sweeping(&self) -> bool {
        let tombstones = self.tree.tombstone_count();
        self.is_quiet(self.options.quiet)
            && tombstones >= TOMBSTONES_MIN
            && tombstones * TOMBSTONES_SHARE >= self.tree.approximate_len() as u64
    }

    /// Takes a step, behind which nothing is left of what it has not come to an end with: where there is no space, others
    /// need it. Nobody else may be compacting.
    fn attempt(&self, step: impl FnOnce() -> Result<bool, TreeError>) -> Result<bool, TreeError> {
        self.tidy_up()?;
        let stepped = step();
        if stepped.is_err() {
            self.leftovers.store(true, Ordering::Relaxed);
            // Where this fails too, or a commit goes on, the next one tries again.
            let _ = self.tidy_up();
        }
        stepped
    }

    /// Removes what failed writes have left behind, unless somebody is committing.
    fn tidy_up(&self) -> Result<(), TreeError> {
        match self.committing.try_lock() {
            Ok(committing) if !committing.poisoned => self.remove_leftovers(),
            _ => Ok(()),
        }
    }

    /// Removes what failed writes have left behind. Nobody else may be writing.
    fn remove_leftovers(&self) -> Result<(), TreeError> {
        if !self.leftovers.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Old versions are read by nobody now, so every table that counts is in the newest.
        let _nobody_reads = self.reading.write().unwrap_or_else(PoisonError::into_inner);
        let version = self.tree.current_version();
        let used: Vec<u64> = version.iter_tables().map(lsm_tree::Table::id).collect();
        for id in self.files.tables()?.into_iter().filter(|id| !used.contains(id)) {
            self.files.remove_table(id)?;
        }
        self.leftovers.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// What a failed write was about: the library does not say. Nobody else may be writing.
    fn of_writing(&self, error: io::Error) -> TreeError {
        if let Err(error @ TreeError::Io(_)) = self.files.remove_old_versions() {
            return error;
        }
        let version = self.tree.current_version();
        let is_used = |id: &u64| version.iter_tables().any(|table| table.id() == *id);
        let unfinished = self.files.tables().ok().and_then(|tables| tables.into_iter().find(|id| !is_used(id)));
        let Some(id) = unfinished else { return TreeError::Io(error) };
        let what = format!("writing {}, or the version that names it, failed: {error}", self.files.table(id).display());
        TreeError::Io(io::Error::new(error.kind(), what))
    }

    fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.reading.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree for LsmTree {
    fn head(&self) -> Option<CommitHead> {
        self.head.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn get_many(&self, keys: &[KeyBytes]) -> Result<Vec<Option<Bytes>>, TreeError> {
        assert!(keys.is_sorted(), "keys are looked up in order");
        let _reading = self.reading();
        self.keys_read.fetch_add(keys.len() as u64, Ordering::Relaxed);
        keys.iter().map(|key| Ok(self.tree.get(key, NEWEST)?.map(Bytes::from))).collect()
    }

    fn scan(&self, range: &Range) -> Result<Scanned, TreeError> {
        assert!(range.from[..] >= FIRST_KEY[..], "the head is no entry");
        if range.from >= range.until {
            return Ok(Scanned { entries: Vec::new(), complete: true });
        }
        let _reading = self.reading();
        let limit = range.limit as usize;
        let mut found = self.tree.range(&range.from[..]..&range.until[..], NEWEST, None);
        let mut entries = Vec::new();
        for entry in found.by_ref().take(limit) {
            let (key, value) = entry.into_inner()?;
            entries.push((Bytes::from(key), Bytes::from(value)));
        }
        self.keys_scanned.fetch_add(entries.len() as u64, Ordering::Relaxed);
        let complete = entries.len() < limit || found.next().is_none();
        Ok(Scanned { entries, complete })
    }

    fn commit<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError> {
        let mut committing = lock(&self.committing);
        if committing.poisoned {
            return Err(TreeError::Poisoned);
        }
        while self.tree.l0_run_count() >= FRESH_RUNS_MAX {
            self.sweeper.set_runs(FRESH_RUNS_MAX);
            let _compacting = lock(&self.compacting);
            self.step().inspect_err(|_| self.leftovers.store(true, Ordering::Relaxed))?;
        }
        committing.last = Some(Instant::now());
        let done = self.ingest(head, changes);
        self.sweeper.set_runs(self.tree.l0_run_count());
        done.map_err(|error| {
            self.leftovers.store(true, Ordering::Relaxed);
            committing.poisoned = !(matches!(error, TreeError::Full(_)) && self.is_unchanged());
            let Ok(_compacting) = self.compacting.try_lock() else { return error };
            if !committing.poisoned {
                // Where this fails too, the next step of compaction tries again.
                let _ = self.remove_leftovers();
            }
            match error {
                TreeError::Io(error) => self.of_writing(error),
                error => error,
            }
        })
    }

    fn compact_step(&self) -> Result<bool, TreeError> {
        let _compacting = lock(&self.compacting);
        self.attempt(|| self.step())
    }

    fn sweep(&self) -> Result<bool, TreeError> {
        let _compacting = lock(&self.compacting);
        if !self.is_quiet(self.options.quiet * QUIET_FOR_SWEEP) {
            return Ok(false);
        }
        self.sweeper.set_runs(self.tree.l0_run_count());
        self.attempt(|| Ok(self.tree.major_compact(TABLE_BYTES, NEWEST).map(|()| true)?))
    }

    fn hurry(&self, is_waited_for: bool) {
        self.hurried.store(is_waited_for, Ordering::Relaxed);
    }

    fn stop(&self) {
        self.sweeper.stop();
    }

    fn stats(&self) -> TreeStats {
        TreeStats {
            bytes: self.tree.disk_space(),
            cache_bytes: self.tree.tree_config().cache.size(),
            tables: self.tree.table_count() as u64,
            fresh_runs: self.tree.l0_run_count() as u64,
            entries: self.tree.approximate_len() as u64,
            tombstones: self.tree.tombstone_count(),
            keys_read: self.keys_read.load(Ordering::Relaxed),
            keys_scanned: self.keys_scanned.load(Ordering::Relaxed),
            keys_written: self.keys_written.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
            is_hurried: self.hurried.load(Ordering::Relaxed),
        }
    }

    fn verify_next(&self, behind: Option<u64>) -> Result<Option<u64>, TreeError> {
        let _reading = self.reading();
        let version = self.tree.current_version();
        let others = version.iter_tables().filter(|table| behind.is_none_or(|behind| table.id() > behind));
        let Some(next) = others.min_by_key(|table| table.id()) else { return Ok(None) };
        verify_table(&self.files.table(next.id()), next.checksum())?;
        Ok(Some(next.id()))
    }

    fn named(&self, error: TreeError) -> TreeError {
        if matches!(error, TreeError::Full(_)) {
            return error;
        }
        let is_one = |other: &TreeError| std::mem::discriminant(other) == std::mem::discriminant(&error);
        if let Some(named) = self.verify().err().filter(is_one) {
            return named;
        }
        match (error, self.committing.try_lock(), self.compacting.try_lock()) {
            (TreeError::Io(error), Ok(_committing), Ok(_compacting)) => self.of_writing(error),
            (error, ..) => error,
        }
    }

    fn weigh(&self, range: &Range) -> Result<u64, TreeError> {
        let _reading = self.reading();
        if range.from >= range.until {
            return Ok(0);
        }
        let (from, until) = (Slice::from(&range.from[..]), Slice::from(&range.until[..]));
        let mut count = 0;
        for table in self.tree.current_version().iter_tables() {
            for entry in table.range(from.clone()..until.clone()) {
                entry?;
                count += 1;
            }
        }
        Ok(count)
    }
}

fn config(directory: &Path, options: &TreeOptions, seqno: SequenceNumberCounter, sweeper: Arc<Sweeper>) -> Config {
    Config::new(directory, seqno, SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(options.cache_bytes)))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(OPEN_FILES))))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(RESTART_INTERVAL))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .index_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(FILTER_BITS))))
        // In parts, of which only those that are in use are in memory: the cache is the bound of it.
        .index_block_partitioning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PinningPolicy::all(true))
        .index_block_pinning_policy(PinningPolicy::all(false))
        .filter_block_pinning_policy(PinningPolicy::all(false))
        .with_compaction_filter_factory(Some(sweeper))
}

impl From<lsm_tree::Error> for TreeError {
    fn from(error: lsm_tree::Error) -> TreeError {
        match error {
            lsm_tree::Error::Io(error) if is_full(&error) => TreeError::Full(error),
            lsm_tree::Error::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => TreeError::Io(error),
            damage => TreeError::Damaged(damage.to_string()),
        }
    }
}
