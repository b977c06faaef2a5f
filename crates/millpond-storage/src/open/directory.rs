//! The files of a directory: making them, finding them, tidying up.

use std::io;

use super::{OpenError, OpenOptions};
use crate::disk::{Disk, Preallocate, TREE, is_full};
use crate::format::{FORMAT_UNFINISHED, Format};
use crate::journal::live::ByGroup;
use crate::journal::segment::{
    BASE_AT, BadSegment, DIRECTORY_AT, SEGMENT_HEADER, SegmentHeader, read_end, segment_base, segment_name,
};
use crate::journal::segments::Segment;
use crate::journal::shared::Shared;
use crate::journal::spares::Spares;
use crate::salvage::unfinished::UNFINISHED;

/// Bytes of a directory's first segment at most: whoever starts a broker for the first time waits for it to be written.
const FIRST_SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// Makes a directory. Where this was begun before and not ended, it is begun again.
pub(super) fn make(disk: &dyn Disk, options: &OpenOptions) -> Result<u128, OpenError> {
    let place = disk.place("");
    let io = |what| move |error| OpenError::Io { place: disk.place(""), what, error };
    let names = disk.list().map_err(io("listing"))?;
    let first = segment_name(0);
    // An empty LOCK is of a version that locked it.
    let ours = |name: &str| {
        name == "LOCK" || name == FORMAT_UNFINISHED || name == first || name == UNFINISHED || Spares::is_spare(name)
    };
    if names.iter().any(|name| name == TREE || segment_base(name).is_some_and(|base| base > 0)) {
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
        let length = options.segment_bytes.min(FIRST_SEGMENT_BYTES);
        file.preallocate(length, Preallocate::Filled)?;
        SegmentHeader { start: 0, base: 0, directory, length: Some(length) }.write(file.as_ref())?;
        file.sync()?;
        disk.rename(name, &first)?;
        disk.sync_dir()?;
        Format { directory }.write(disk)
    };
    begin().map_err(|error| match error {
        error if is_full(&error) => OpenError::Full(place),
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

/// The segments, in order, their headers and lengths checked.
pub(crate) fn find_segments(disk: &dyn Disk, directory: u128) -> Result<Vec<Segment>, OpenError> {
    let io = |place: String| move |error| OpenError::Io { place, what: "opening", error };
    let names = disk.list().map_err(io(disk.place("")))?;
    let mut segments = Vec::new();
    for name in names {
        let Some(base) = segment_base(&name) else { continue };
        let place = disk.place(&name);
        let file = disk.open(&name).map_err(io(place.clone()))?;
        let damaged = |offset, what| OpenError::Segment { file: disk.place(&name), offset, what };
        let header = SegmentHeader::read(file.as_ref()).map_err(|error| match error {
            BadSegment::NoHeader { offset, what } => damaged(offset, what),
            BadSegment::Version(version) => OpenError::Version { place: place.clone(), version },
            BadSegment::Io(error) => OpenError::Io { place: place.clone(), what: "reading", error },
        })?;
        if header.base != base {
            return Err(damaged(BASE_AT, "has the header of another segment"));
        }
        if header.directory != directory {
            return Err(damaged(DIRECTORY_AT, "has the header of another data directory"));
        }
        let bytes = file.length().map_err(io(place.clone()))?;
        if let Some(length) = header.length.filter(|length| bytes < *length) {
            return Err(OpenError::Short { file: place, length, found: bytes });
        }
        let end = read_end(file.as_ref(), directory, base).map_err(io(place))?;
        segments.push(Segment { base, end, name, file, bytes, live: ByGroup::default() });
    }
    segments.sort_by_key(|segment| segment.base);
    let bases: Vec<u64> = segments.iter().skip(1).map(|next| next.base).collect();
    segments.iter_mut().zip(bases).for_each(|(segment, next)| segment.end = segment.end.min(next));
    Ok(segments)
}

/// Takes spares into use again, and removes what was not finished.
pub(super) fn tidy(shared: &Shared) -> Result<(), OpenError> {
    let failed = |what, name: &str| {
        let place = shared.disk.place(name);
        move |error| OpenError::Io { place, what, error }
    };
    for name in shared.disk.list().map_err(failed("listing", ""))? {
        if Spares::is_spare(&name) {
            let file = shared.disk.open(&name).map_err(failed("opening", &name))?;
            let whole = file.length().map_err(failed("opening", &name))? == shared.segment_bytes;
            drop(file);
            if !(whole && shared.spares.count() < shared.spares_kept && shared.spares.take_in(&name)) {
                shared.disk.remove(&name).map_err(failed("removing", &name))?;
            }
        } else if name == FORMAT_UNFINISHED {
            shared.disk.remove(&name).map_err(failed("removing", &name))?;
        }
    }
    shared.disk.sync_dir().map_err(failed("syncing", ""))
}
