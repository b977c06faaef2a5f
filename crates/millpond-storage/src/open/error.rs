//! Why a directory was not opened, and what to do.

use std::io;

use crate::format::BadFormat;
use crate::journal::Failure;
use crate::journal::segment::VERSION_AT;
use crate::tree::TreeError;

/// What helps where nothing can make the checkpoint anew, and what it costs.
pub(crate) const WITHOUT_CHECKPOINT: &str = "Put the whole directory back from a copy. Without one, `millpond inspect DIR \
    --salvage TO_DIR` brings the messages that the journal still holds into a fresh directory; dedup ids, producer sessions, \
    groups other than `default` with what they alone had still to do, exchanges, pauses and leases are lost, and so are the \
    numbers: old ids and receipts mean nothing there";

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
    /// A salvage into it was cut short.
    #[error(
        "the salvage into {0} was not finished: it holds a part of the messages at most. Remove it, and salvage again into an \
         empty directory"
    )]
    Unfinished(String),
    /// The format file is no use.
    #[error("{place} cannot be used: {error}")]
    Format {
        /// The file.
        place: String,
        /// Why.
        error: BadFormat,
    },
    /// A segment is of a later version.
    #[error(
        "{place} was written by a newer version of Millpond (form {version} at offset {VERSION_AT}): use that version"
    )]
    Version {
        /// The file.
        place: String,
        /// The version of the form.
        version: u32,
    },
    /// The checkpoint stands in a segment that is not there.
    #[error(
        "{place} lacks the journal segment that holds position {position}, from which a start goes on: it was removed. Put the \
         file back; `millpond inspect` shows what is there. Without a copy, `millpond inspect DIR --salvage TO_DIR` brings the \
         messages that the journal still holds into a fresh directory"
    )]
    Missing {
        /// The directory.
        place: String,
        /// The position.
        position: u64,
    },
    /// A segment is not there that holds messages.
    #[error(
        "{file} is gone, and messages in it are still needed: it was removed. Put the file back; `millpond inspect` shows what \
         is there. Without a copy, `millpond inspect DIR --salvage TO_DIR` brings the messages that the journal still holds into \
         a fresh directory"
    )]
    MessagesMissing {
        /// The file.
        file: String,
    },
    /// What would be left of a journal that is cut needs messages of a segment that the broker took back later on.
    #[error(
        "the journal cannot be cut off at position {position}: what ended the last messages in {file} would go with it, and that \
         file was taken back since. Put the whole directory back from a copy, or bring the messages that the journal still \
         holds into a fresh directory with `millpond inspect DIR --salvage TO_DIR`"
    )]
    CutTooFar {
        /// The file.
        file: String,
        /// Where it was to be cut.
        position: u64,
    },
    /// A segment is not there in which the journal went on.
    #[error(
        "{file} is gone, in which the journal went on at position {position}: it was removed. Put the file back from a copy, \
         or accept the loss of everything from there on by starting once with `millpond serve --cut-journal {position}`"
    )]
    NextMissing {
        /// The file.
        file: String,
        /// Where it begins.
        position: u64,
    },
    /// The journal is not there up to the checkpoint.
    #[error(
        "the journal does not reach the checkpoint, which stands at position {position}: the last batch of {file} ends at \
         position {end} (offset {offset}). A newer file was removed, or this one is damaged or was put back as it had been \
         before. Put the whole directory back from one copy. Without one, `millpond inspect DIR --salvage TO_DIR` brings the \
         messages that the journal still holds into a fresh directory"
    )]
    BeforeCheckpoint {
        /// The newest file that begins before the checkpoint.
        file: String,
        /// The offset in it.
        offset: u64,
        /// Where its last batch ends.
        end: u64,
        /// Where the checkpoint stands.
        position: u64,
    },
    /// Two segments cannot be of one journal.
    #[error(
        "{file} begins at position {position}, where {within} has not ended: the directory was put together from copies of \
         different times. Move away the one that does not belong there, or put the whole directory back from one copy; \
         `millpond inspect` shows what each of them holds"
    )]
    Overlap {
        /// The file.
        file: String,
        /// Where it begins.
        position: u64,
        /// The file that holds this position as well.
        within: String,
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
        "the journal is damaged: {file} at offset {offset} {what}. Put the file back from a copy; `millpond inspect` shows what \
         there is. Without a copy, `millpond inspect DIR --salvage TO_DIR` brings the messages that the journal still holds into \
         a fresh directory"
    )]
    Segment {
        /// The file.
        file: String,
        /// The offset in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A segment's file is shorter than it was.
    #[error(
        "the journal is damaged: {file} has {found} bytes of its {length}: it was cut short, and what stood behind is lost. Put \
         the file back from a copy; `millpond inspect` shows what there is. Without a copy, `millpond inspect DIR --salvage \
         TO_DIR` brings the messages that the journal still holds into a fresh directory"
    )]
    Short {
        /// The file.
        file: String,
        /// How many bytes it had when it was made.
        length: u64,
        /// How many it has.
        found: u64,
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
    /// There is no checkpoint, and the journal is not whole from its beginning.
    #[error(
        "there is no checkpoint in {0}, and the journal is not whole from its beginning: one or the other was removed. \
         {WITHOUT_CHECKPOINT}"
    )]
    CheckpointGone(String),
    /// The checkpoint is no use, and the journal is not whole from its beginning.
    #[error(
        "the checkpoint in {place} is damaged: {what}. The journal is not whole from its beginning, so nothing can make it anew. \
         {WITHOUT_CHECKPOINT}"
    )]
    CheckpointDamaged {
        /// The tree's directory.
        place: String,
        /// What is wrong, and with which file.
        what: String,
    },
    /// The checkpoint could not be opened.
    #[error("opening the checkpoint in {place} failed: {error}; start again once the disk is in order")]
    Tree {
        /// The tree's directory.
        place: String,
        /// Why.
        error: TreeError,
    },
    /// The checkpoint's pages contradict one another.
    #[error("the checkpoint at position {position} does not fit together: {reason}. Report this")]
    Pages {
        /// The checkpoint's position.
        position: u64,
        /// The core's word.
        reason: String,
    },
    /// The system said no.
    #[error("{what} {place} failed: {error}; start again once that is mended")]
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
    #[error("the disk is full: {0} needs more of it; make room and start again")]
    Full(String),
}
