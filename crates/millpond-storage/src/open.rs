//! Opening a data directory: lock, format, checkpoint, replay, repair, and the parts that work on it.

mod directory;
mod error;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond_core::{Core, LevelBounds, Now};

use crate::checkpoint::Checkpoint;
use crate::damaged::{self, NOTE};
use crate::disk::{Disk, LockError, TREE};
use crate::format::{BadFormat, FORMAT, Format};
use crate::housekeeper::Housekeeper;
use crate::journal::segment::SEGMENT_HEADER;
use crate::journal::segments::Segment;
use crate::journal::shared::{Hold, Shared};
use crate::journal::{Appender, Batch, CommitError, Committer, Mark, Reader};
use crate::mover::{Mover, SLACK};
use crate::recover::{Recovered, Recovery, Replica, Source, recover, set_aside};
use crate::salvage::unfinished;
use crate::store::{FilterBounds, LayeredStore};
use crate::tree::{TreeError, TreeOptions};

pub(crate) use directory::find_segments;
use directory::{make, tidy};
pub use error::OpenError;
pub(crate) use error::WITHOUT_CHECKPOINT;

/// Bytes of a segment: large enough that beginning one costs nothing beside filling it, small enough that one live
/// message pins little. With the reserve a directory takes at least twice this.
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of journal behind a checkpoint at which the next is due: what a start has to replay at most, about.
pub const CHECKPOINT_AFTER: u64 = 256 * 1024 * 1024;
/// Entries that have changed since the last checkpoint at which the next is due: what a start has to fetch at most.
pub const CHECKPOINT_ENTRIES: usize = 400_000;
/// Bytes of recent batches in memory: some tenths of a second of a loaded broker, minutes of an idle one.
pub const TAIL_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a batch that is full: large enough that a sync's time is spread thin, small enough that it takes some ten
/// milliseconds on a slow disk.
pub const BATCH_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes that changed entries may take: with those of the checkpoint being written, a quarter of a default budget.
pub const YOUNG_BYTES: usize = 128 * 1024 * 1024;
/// Bytes that what is known of the keys on the disk may take: enough for thirty million.
pub const FILTER_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that topics may take in memory: a quarter of a default budget.
pub const ROOM: usize = 256 * 1024 * 1024;

/// How far all numbers are raised where records may be missing that gave out higher ones than any that was seen: however
/// much of a journal is lost, it told of fewer.
pub(crate) const RAISE_OVER_LOST: u64 = 1 << 32;

/// How to open a directory.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes of a new segment's file. A segment for a batch that is larger is as large as it must be, and the first is
    /// smaller.
    pub segment_bytes: u64,
    /// Bytes of journal after which a checkpoint is due.
    pub checkpoint_after: u64,
    /// Entries that have changed after which a checkpoint is due.
    pub checkpoint_entries: usize,
    /// Bytes of memory that changed entries may take before a checkpoint is due.
    pub young_bytes: usize,
    /// How large what is known of the keys on the disk may be.
    pub filter: FilterBounds,
    /// Bytes of memory that topics may take.
    pub room: usize,
    /// How much of each of their levels stays there.
    pub bounds: LevelBounds,
    /// How the tree is opened.
    pub tree: TreeOptions,
    /// Bytes of recent batches in memory.
    pub tail_bytes: u64,
    /// Bytes of a batch that is full. Batches are built in memory of twice as much.
    pub batch_bytes: u64,
    /// Bytes that the directory may take beyond what is alive, however little that is.
    pub slack: u64,
    /// For a directory that is made now.
    pub identity: Identity,
    /// A person has decided to lose what follows this position: where recovery finds damage exactly there, it goes on as
    /// if the journal had ended there. What is cut off stays in files named `*.cut`.
    pub cut: Option<u64>,
}

/// What tells a directory from any other.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Every checksum of a batch is made with it.
    pub directory: u128,
    /// The key of every hash that the directory keeps.
    pub hash_key: [u64; 2],
}

impl Identity {
    /// Drawn at random.
    pub fn random() -> Identity {
        // The standard library keys its hash maps from the system's randomness: two states, two draws.
        let draw = |salt| {
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u64(salt);
            hasher.finish()
        };
        let directory = u128::from(draw(1)) << 64 | u128::from(draw(2));
        Identity { directory, hash_key: [draw(3), draw(4)] }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            segment_bytes: SEGMENT_BYTES,
            checkpoint_after: CHECKPOINT_AFTER,
            checkpoint_entries: CHECKPOINT_ENTRIES,
            young_bytes: YOUNG_BYTES,
            filter: FilterBounds::within(FILTER_BYTES),
            room: ROOM,
            bounds: LevelBounds::ENDS,
            tree: TreeOptions::default(),
            tail_bytes: TAIL_BYTES,
            batch_bytes: BATCH_BYTES,
            slack: SLACK,
            identity: Identity::random(),
            cut: None,
        }
    }
}

/// An open directory. The lock is held until appender, committer and housekeeper are all dropped.
pub struct Opened<R = Core> {
    /// The state.
    pub core: R,
    /// What the state keeps outside of the core's memory: for whoever reads what the core wants.
    pub store: LayeredStore,
    /// For the writer.
    pub appender: Appender,
    /// For whoever writes to the disk.
    pub committer: Committer,
    /// For everyone.
    pub reader: Reader,
    /// To be run in a thread of its own.
    pub housekeeper: Housekeeper,
    /// To be asked again and again, from a thread of its own.
    pub mover: Mover,
    /// What was found.
    pub report: Recovery,
}

impl Opened<Core> {
    /// Begins service at a time that is not before [`Recovery::now`]: all numbers given out from here on lie above any
    /// that may have been told and lost, unless the stop was orderly.
    ///
    /// What that takes is durable when this returns. Otherwise a crash that comes before the first sync would take the
    /// raise with it, and the next start would give out the same numbers again.
    pub fn start(&mut self, now: Now) -> Result<(), OpenError> {
        // Nobody has been told a number of a directory that was made just now.
        let raise = !self.report.orderly && !self.report.fresh;
        self.core.start(now, raise, &mut self.appender);
        let place = self.committer.place();
        self.appender.seal(now).map_or(Ok(()), |batch| commit(&mut self.committer, batch, place))
    }
}

/// Opens a directory, or makes it where there is none, and brings the state back. [`Opened::start`] comes next.
pub fn open<R: Replica>(disk: Arc<dyn Disk>, options: &OpenOptions) -> Result<Opened<R>, OpenError> {
    let hold = hold(disk.as_ref())?;
    let place = || disk.place("");
    match unfinished::is_there(disk.as_ref()) {
        Ok(false) => open_held(disk, hold, options),
        Ok(true) => Err(OpenError::Unfinished(place())),
        Err(error) => Err(OpenError::Io { place: place(), what: "listing", error }),
    }
}

/// Takes a directory for this process.
pub(crate) fn hold(disk: &dyn Disk) -> Result<Hold, OpenError> {
    let lock = disk.lock().map_err(|error| match error {
        LockError::InUse => OpenError::InUse(disk.place("")),
        LockError::Io(error) => OpenError::Io { place: disk.place(""), what: "locking", error },
    })?;
    Ok(Arc::new(lock))
}

/// As [`open`], one that was taken before.
pub(crate) fn open_held<R: Replica>(
    disk: Arc<dyn Disk>,
    hold: Hold,
    options: &OpenOptions,
) -> Result<Opened<R>, OpenError> {
    assert!(options.segment_bytes >= 2 * SEGMENT_HEADER, "a segment holds more than its header");
    let directory = match Format::read(disk.as_ref()) {
        Ok(Some(format)) => format.directory,
        Ok(None) => make(disk.as_ref(), options)?,
        Err(BadFormat::Io(error)) => return Err(OpenError::Io { place: disk.place(FORMAT), what: "reading", error }),
        Err(error) => return Err(OpenError::Format { place: disk.place(FORMAT), error }),
    };
    let mut segments = find_segments(disk.as_ref(), directory)?;
    let (store, recovered) = bring_back::<R>(disk.as_ref(), directory, &mut segments, options)?;
    let cut_off = recovered.cut_off(&mut segments);

    let start = recovered.report.start;
    let shared = Arc::new(Shared::new(disk, directory, start, options));
    shared.checkpoint.store(recovered.report.checkpoint, Ordering::Release);
    for segment in &mut segments {
        segment.end = recovered.live.end(segment.base).map_or(segment.end, |end| end.min(segment.end));
        shared.segments.add(Segment { live: recovered.live.of(segment.base), ..segment.clone() });
    }
    tidy(&shared)?;
    let position = recovered.report.end;
    let last = segments.last().expect("recovery refuses a journal without segments").clone();
    let mut appender = Appender::new(shared.clone(), hold.clone(), position, options, store.clone());
    let mut committer = Committer::new(shared.clone(), hold.clone(), last, position);
    let now = recovered.report.now;
    let (is_fresh, is_cut) = (recovered.report.fresh, recovered.report.cut.is_some());
    let made = || R::create(options.identity.hash_key, store.clone(), &mut appender);
    let mut core = recovered.state.unwrap_or_else(made);
    core.set_bounds(options.bounds);
    if is_cut {
        // Numbers of what is cut off may have been told. That they are not told again is durable with the cut itself.
        core.raise(RAISE_OVER_LOST, &mut appender);
    }
    let first = match is_fresh || is_cut {
        true => appender.seal_first(now),
        false => appender.mark(now, Mark::Start).expect("a start is always marked"),
    };
    core.make_room(options.room);
    // From here on, nothing that an earlier start wrote and lost behind this place can be taken for a batch.
    commit(&mut committer, first, shared.disk.place(""))?;
    set_aside(shared.disk.as_ref(), cut_off)?;
    let mut housekeeper = Housekeeper::new(shared.clone(), hold, store.clone());
    housekeeper.keep_reserve().map_err(OpenError::Failed)?;
    let reader = Reader::new(shared.clone());
    let mover = Mover::new(shared, store.clone(), reader.clone(), options.slack);
    Ok(Opened { core, store, appender, committer, reader, housekeeper, mover, report: recovered.report })
}

/// Brings the state back from the tree and the journal. Where the tree is damaged or gone, an empty one takes its place,
/// if the journal is still whole from its beginning: then all of it is replayed. Where an earlier start has met damage, all of
/// the tree is read.
fn bring_back<R: Replica>(
    disk: &dyn Disk,
    directory: u128,
    segments: &mut [Segment],
    options: &OpenOptions,
) -> Result<(LayeredStore, Recovered<R>), OpenError> {
    let reaches_back = reaches_back(segments);
    let place = || disk.place(TREE);
    let noted = |what| move |error| OpenError::Io { place: disk.place(NOTE), what, error };
    let is_noted = damaged::is_noted(disk).map_err(noted("looking for"))?;
    let mut attempt = || {
        let tree = |error| match error {
            TreeError::Full(_) => OpenError::Full(place()),
            error => OpenError::Tree { place: place(), error },
        };
        let store = LayeredStore::new(disk.tree(options.tree).map_err(tree)?, options.filter);
        if is_noted {
            damaged::look_through(store.tree().as_ref()).map_err(tree)?;
        }
        let named = |error| tree(store.tree().named(error));
        let checkpoint = Checkpoint::read(store.tree(), directory).map_err(named)?;
        if checkpoint.is_none() && !reaches_back && !segments.is_empty() {
            return Err(OpenError::CheckpointGone(place()));
        }
        let recovered = recover(Source { disk, directory, store: &store }, checkpoint, segments, options);
        let recovered = recovered.map_err(|error| match error {
            OpenError::Tree { error, .. } => named(error),
            // Pages of which each is whole, and which are not of one another.
            error @ (OpenError::Pages { .. } | OpenError::Record { .. }) => match store.tree().verify() {
                Err(damage @ TreeError::Damaged(_)) => tree(damage),
                _ => error,
            },
            error => error,
        })?;
        Ok((store, recovered))
    };
    let found = match attempt() {
        Err(OpenError::Tree { error: TreeError::Damaged(what), .. }) if !reaches_back => {
            Err(OpenError::CheckpointDamaged { place: place(), what })
        }
        Err(OpenError::Tree { error: TreeError::Damaged(what), .. }) => {
            let aside = disk.set_tree_aside();
            aside.map_err(|error| OpenError::Io { place: place(), what: "setting aside", error })?;
            attempt().map(|(store, mut recovered)| {
                recovered.report.rebuilt = Some(what);
                (store, recovered)
            })
        }
        other => other,
    }?;
    if is_noted {
        damaged::forget(disk).map_err(noted("removing"))?;
    }
    Ok(found)
}

/// Whether the journal is whole from its beginning, as far as its files tell. Where it has a gap, segments were taken back
/// behind some checkpoint, and without that one nobody knows what they held.
pub(crate) fn reaches_back(segments: &[Segment]) -> bool {
    segments.first().is_some_and(|first| first.base == 0)
        && segments.array_windows().all(|[segment, next]| segment.end == next.base)
}

/// Makes a batch of the start durable.
fn commit(committer: &mut Committer, batch: Batch, place: String) -> Result<(), OpenError> {
    committer.write(batch).and_then(|()| Ok(committer.sync()?)).map(drop).map_err(|error| match error {
        CommitError::DiskFull(_) => OpenError::Full(place),
        CommitError::Failed(failure) => OpenError::Failed(failure),
    })
}
