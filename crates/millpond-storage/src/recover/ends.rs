//! What a start writes before it goes on: where segments have ended, what is not known durable at the journal's end, and the
//! names of segments that a person has decided to lose.

use std::io;

use crate::disk::Disk;
use crate::journal::live::OPEN;
use crate::journal::segment::{read_end, write_end};
use crate::journal::segments::Segment;
use crate::open::OpenError;

/// Sees to it that each segment says where it has ended, and none that it has where the journal goes on in it: the power
/// was cut before it could say so, or a person has cut off what came behind.
pub fn note_ends(
    disk: &dyn Disk,
    directory: u128,
    segments: &mut [Segment],
    journal_end: u64,
) -> Result<(), OpenError> {
    let bases: Vec<u64> = segments.iter().skip(1).map(|next| next.base).collect();
    let bases = bases.into_iter().map(Some).chain([None]);
    for (segment, next) in segments.iter_mut().zip(bases) {
        let io = |error| OpenError::Io { place: disk.place(&segment.name), what: "noting the end of", error };
        segment.end = next.unwrap_or(if segment.end == journal_end { journal_end } else { OPEN });
        let file = segment.file.as_ref();
        if read_end(file, directory, segment.base).map_err(io)? != segment.end {
            // The name of the next one may be there because the process alone was killed.
            disk.sync_dir().map_err(io)?;
            write_end(file, directory, segment.base, segment.end).map_err(io)?;
        }
    }
    Ok(())
}

/// Writes what is not known durable once more, and syncs it. After a sync that failed, the system may hold pages that
/// look written and are not; new confirmations must not rest on them.
pub fn write_again(disk: &dyn Disk, last: &Segment, durable: u64, end: u64) -> Result<(), OpenError> {
    let io = |error: io::Error| OpenError::Io { place: disk.place(&last.name), what: "syncing", error };
    let from = durable.max(last.base);
    if from < end {
        let mut bytes = vec![0; (end - from) as usize];
        last.file.read_at(last.offset(from), &mut bytes).map_err(io)?;
        last.file.write_at(last.offset(from), &bytes).map_err(io)?;
    }
    last.file.sync().map_err(io)
}

/// Goes by the name of what is set aside: `SEGMENT.cut`.
const CUT: &str = ".cut";

/// Renames segments that a person has decided to lose, so that they can still be looked at. After the first batch of the
/// start that does without them: where the power fails before that, they still show that there was a cut to be made.
pub(crate) fn set_aside(disk: &dyn Disk, segments: Vec<Segment>) -> Result<(), OpenError> {
    if segments.is_empty() {
        return Ok(());
    }
    for segment in segments {
        let renamed = disk.rename(&segment.name, &format!("{}{CUT}", segment.name));
        let place = || disk.place(&segment.name);
        renamed.map_err(|error| OpenError::Io { place: place(), what: "setting aside", error })?;
    }
    disk.sync_dir().map_err(|error| OpenError::Io { place: disk.place(""), what: "syncing", error })
}
