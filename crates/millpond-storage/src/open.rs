//! Opening a data directory: lock, format, checkpoint, replay, repair, and the parts that work on it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond_core::Core;

use crate::checkpoint::{CheckpointError, CheckpointStore, FileCheckpoints, checkpoint_position};
use crate::disk::{Disk, LockError, Preallocate};
use crate::format::{BadFormat, FORMAT, FORMAT_UNFINISHED, Format};
use crate::housekeeper::Housekeeper;
use crate::journal::segment::{SEGMENT_HEADER, SegmentHeader, segment_base, segment_name};
use crate::journal::segments::{Segment, Segments};
use crate::journal::shared::{Hold, Shared};
use crate::journal::spares::Spares;
use crate::journal::{Appender, Committer, Failure, Mark, Reader};
use crate::recover::{Recovery, Replica, recover};

/// Bytes of a segment: large enough that beginning one costs nothing beside filling it, small enough that one live
/// message pins little. With the reserve a directory takes at least twice this.
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of journal behind a checkpoint at which the next is due: what a start has to replay at most, about.
pub const CHECKPOINT_AFTER: u64 = 256 * 1024 * 1024;
/// Bytes of recent batches in memory: some tenths of a second of a loaded broker, minutes of an idle one.
pub const TAIL_BYTES: u64 = 64 * 1024 * 1024;

/// How to open a directory.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes of a new segment's file. A segment for a batch that is larger is as large as it must be.
    pub segment_bytes: u64,
    /// Bytes of journal after which a checkpoint is due.
    pub checkpoint_after: u64,
    /// Bytes of recent batches in memory.
    pub tail_bytes: u64,
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
            tail_bytes: TAIL_BYTES,
            identity: Identity::random(),
            cut: None,
        }
    }
}

/// An open directory. The lock is held until appender, committer and housekeeper are all dropped.
pub struct Opened<R = Core> {
    /// The state.
    pub core: R,
    /// For the writer.
    pub appender: Appender,
    /// For whoever writes to the disk.
    pub committer: Committer,
    /// For everyone.
    pub reader: Reader,
    /// To be run in a thread of its own.
    pub housekeeper: Housekeeper,
    /// What was found.
    pub report: Recovery,
}

/// Why a directory was not opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{0} is in use by another process: stop that one, or name another directory")]
    InUse(String),
    /// Other files than ours are in it.
    #[error("{place} is not a Millpond data directory: it holds {file}, and no FORMAT file. Name an empty directory")]
    NotOurs {
        /// The directory.
        place: String,
        /// One of the files.
        file: String,
    },
    /// It holds messages, and what makes it ours is gone.
    #[error("{0} holds a journal and no FORMAT file: the file was removed. Put it back from a copy of the directory")]
    FormatMissing(String),
    /// The format file is no use.
    #[error("{place} cannot be used: {error}")]
    Format {
        /// The file.
        place: String,
        /// Why.
        error: BadFormat,
    },
    /// A segment is of a later version.
    #[error("{place} was written by a newer version of Millpond (form {version}): use that version")]
    Version {
        /// The file.
        place: String,
        /// The version of the form.
        version: u32,
    },
    /// A part of the journal is not there.
    #[error(
        "{place} lacks the journal segment that holds position {position}: it was removed. Put the file back; \
         `millpond inspect` shows what is there"
    )]
    Missing {
        /// The directory.
        place: String,
        /// The position.
        position: u64,
    },
    /// What is known to have been durable is not there any more.
    #[error(
        "the journal is damaged: {file} at offset {offset} (position {position}) {what}, although everything before \
         position {durable} had been written durably. `millpond inspect` shows what is affected. Put the file back from a \
         copy, or accept the loss of everything from there on by starting once with `millpond serve --cut-journal {position}`"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The offset in it.
        offset: u64,
        /// The journal position of that place.
        position: u64,
        /// Everything before this position had been durable.
        durable: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A segment's first bytes are not what they were.
    #[error(
        "the journal is damaged: {file} {what}. Put the file back from a copy; `millpond inspect` shows what there is"
    )]
    Segment {
        /// The file.
        file: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A batch is what was written, and still makes no sense.
    #[error("{file} at offset {offset}: a record in a batch whose checksum is right {what}. Report this")]
    Record {
        /// The file.
        file: String,
        /// The offset in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The checkpoint is no use.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint's pages contradict one another.
    #[error("the checkpoint at position {position} does not fit together: {reason}. Report this")]
    Pages {
        /// The checkpoint's position.
        position: u64,
        /// The core's word.
        reason: String,
    },
    /// The system said no.
    #[error("{what} {place} failed: {error}")]
    Io {
        /// The file.
        place: String,
        /// What was being done.
        what: &'static str,
        /// The system's word.
        error: io::Error,
    },
    /// The journal could not be begun or written to.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// There is no space to begin with.
    #[error("the disk is full: {0} needs room for another journal segment")]
    Full(String),
}

/// Opens a directory, or makes it where there is none, and brings the state back.
///
/// Every number that the state gives out must be raised by the caller past what may have been lost, unless
/// [`Recovery::orderly`].
pub fn open<R: Replica>(disk: Arc<dyn Disk>, options: &OpenOptions) -> Result<Opened<R>, OpenError> {
    assert!(options.segment_bytes >= 2 * SEGMENT_HEADER, "a segment holds more than its header");
    let hold: Hold = Arc::new(disk.lock().map_err(|error| match error {
        LockError::InUse => OpenError::InUse(disk.place("")),
        LockError::Io(error) => OpenError::Io { place: disk.place("LOCK"), what: "locking", error },
    })?);
    let directory = match Format::read(disk.as_ref()) {
        Ok(Some(format)) => format.directory,
        Ok(None) => make(disk.as_ref(), options)?,
        Err(BadFormat::Io(error)) => return Err(OpenError::Io { place: disk.place(FORMAT), what: "reading", error }),
        Err(error) => return Err(OpenError::Format { place: disk.place(FORMAT), error }),
    };
    let mut checkpoints = FileCheckpoints::new(disk.clone(), directory);
    let checkpoint = checkpoints.newest()?;
    let mut segments = find_segments(disk.as_ref(), directory)?;
    let recovered = recover::<R>(disk.as_ref(), directory, checkpoint.as_ref(), &mut segments, options.cut)?;

    let start = recovered.report.start;
    let shared = Arc::new(Shared::new(disk, directory, start, options));
    shared.checkpoint.store(recovered.report.checkpoint, Ordering::Release);
    for segment in &segments {
        shared.segments.add(segment.clone());
    }
    tidy(&shared)?;
    let position = recovered.report.end;
    let last = segments.last().expect("recovery refuses a journal without segments").clone();
    let mut appender = Appender::new(shared.clone(), hold.clone(), position, options.checkpoint_after);
    let mut committer = Committer::new(shared.clone(), hold.clone(), last, position);
    let now = recovered.report.now;
    let (core, first) = match recovered.state {
        Some(core) => (core, appender.mark(now, Mark::Start).expect("a start is always marked")),
        None => (R::create(options.identity.hash_key, &mut appender), appender.seal_first(now)),
    };
    // From here on, nothing that an earlier start wrote and lost behind this place can be taken for a batch.
    committer.write(first).and_then(|()| Ok(committer.sync()?)).map_err(|error| match error {
        crate::CommitError::DiskFull(_) => OpenError::Full(shared.disk.place("")),
        crate::CommitError::Failed(failure) => OpenError::Failed(failure),
    })?;
    count_live(&core, &shared.segments, &shared.disk.place(""))?;
    let housekeeper = Housekeeper::new(shared.clone(), hold, Box::new(checkpoints));
    Ok(Opened { core, appender, committer, reader: Reader::new(shared), housekeeper, report: recovered.report })
}

/// Makes a directory. Where this was begun before and not ended, it is begun again.
fn make(disk: &dyn Disk, options: &OpenOptions) -> Result<u128, OpenError> {
    let place = disk.place("");
    let io = |what| move |error| OpenError::Io { place: disk.place(""), what, error };
    let names = disk.list().map_err(io("listing"))?;
    let first = segment_name(0);
    let ours = |name: &str| name == "LOCK" || name == FORMAT_UNFINISHED || name == first || Spares::is_spare(name);
    if names.iter().any(|name| checkpoint_position(name).is_some() || segment_base(name).is_some_and(|base| base > 0)) {
        return Err(OpenError::FormatMissing(place));
    }
    if let Some(file) = names.iter().find(|name| !ours(name)) {
        return Err(OpenError::NotOurs { place, file: file.clone() });
    }
    if names.contains(&first) && has_batch(disk, &first).map_err(io("reading the first segment of"))? {
        return Err(OpenError::FormatMissing(place));
    }
    let directory = options.identity.directory;
    let begin = || {
        let name = "spare-0";
        let file = disk.create(name)?;
        file.preallocate(options.segment_bytes, Preallocate::Filled)?;
        SegmentHeader { start: 0, base: 0, directory }.write(file.as_ref())?;
        file.sync()?;
        disk.rename(name, &first)?;
        disk.sync_dir()?;
        Format { directory }.write(disk)
    };
    begin().map_err(|error| match error {
        error if crate::disk::is_full(&error) => OpenError::Full(place),
        error => OpenError::Io { place, what: "beginning a data directory in", error },
    })?;
    Ok(directory)
}

/// Whether a batch begins in the first segment, of whatever directory.
fn has_batch(disk: &dyn Disk, name: &str) -> io::Result<bool> {
    let file = disk.open(name)?;
    let mut magic = [0; 4];
    Ok(file.length()? >= SEGMENT_HEADER + 4 && file.read_at(SEGMENT_HEADER, &mut magic).map(|()| magic != [0; 4])?)
}

/// The segments, in order, their headers checked.
pub(crate) fn find_segments(disk: &dyn Disk, directory: u128) -> Result<Vec<Segment>, OpenError> {
    use crate::journal::segment::BadSegment;
    let io = |place: String| move |error| OpenError::Io { place, what: "opening", error };
    let names = disk.list().map_err(io(disk.place("")))?;
    let mut segments = Vec::new();
    for name in names {
        let Some(base) = segment_base(&name) else { continue };
        let place = disk.place(&name);
        let file = disk.open(&name).map_err(io(place.clone()))?;
        let damaged = |what| OpenError::Segment { file: disk.place(&name), what };
        let header = SegmentHeader::read(file.as_ref()).map_err(|error| match error {
            BadSegment::NoHeader => damaged("has no valid header of a segment"),
            BadSegment::Version(version) => OpenError::Version { place: place.clone(), version },
            BadSegment::Io(error) => OpenError::Io { place: place.clone(), what: "reading", error },
        })?;
        if header.base != base || header.directory != directory {
            return Err(damaged("has the header of another segment or data directory"));
        }
        let bytes = file.length().map_err(io(place))?;
        segments.push(Segment { base, name, file, bytes, live: 0 });
    }
    segments.sort_by_key(|segment| segment.base);
    Ok(segments)
}

/// Takes spares into use again, and removes what was not finished.
fn tidy(shared: &Shared) -> Result<(), OpenError> {
    let failed = |error| OpenError::Io { place: shared.disk.place(""), what: "tidying", error };
    for name in shared.disk.list().map_err(failed)? {
        if Spares::is_spare(&name) {
            shared.spares.skip_past(&name);
            let file = shared.disk.open(&name).map_err(failed)?;
            let whole = file.length().map_err(failed)? == shared.segment_bytes;
            drop(file);
            if whole && shared.spares.count() < shared.spares_kept {
                shared.spares.add(name);
            } else {
                shared.disk.remove(&name).map_err(failed)?;
            }
        } else if name == FORMAT_UNFINISHED || crate::checkpoint::is_unfinished(&name) {
            shared.disk.remove(&name).map_err(failed)?;
        }
    }
    shared.disk.sync_dir().map_err(failed)
}

/// Counts the messages that are still needed to their segments.
pub(crate) fn count_live<R: Replica>(core: &R, segments: &Segments, place: &str) -> Result<(), OpenError> {
    let mut missing = None;
    core.extents(&mut |extent| {
        if !segments.count_live(extent) {
            missing.get_or_insert(extent.position);
        }
    });
    missing.map_or(Ok(()), |position| Err(OpenError::Missing { place: place.into(), position }))
}
