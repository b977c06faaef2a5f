//! What a start and a read have to name of a wound. As `docs/storage-format.md` promises it: the file always, and of a batch
//! that is not what was written the offset at which it begins; of a file that is too short its bytes, of a missing one where it
//! began. Of a file's own header, and of `FORMAT`, it is where a start first sees that it is wrong: mostly its checksum.

use millpond_core::output::Extent;
use millpond_types::block;

use super::wounds::{SEGMENT_FIELDS, Wound};
use super::{BATCH_HEADER, Batch, Whole, offsets};
use crate::OpenError;
use crate::disk::Disk;
use crate::format::FORMAT;

impl Whole {
    /// The words of a refusal that name what was wounded, and where. `None` if such a wound is no reason for such a refusal.
    pub fn named(&self, wound: &Wound<'_>, error: &OpenError) -> Option<String> {
        let (file, whole) = (wound.file, &self.files[wound.file]);
        let Some(found) = wound.files.get(file) else { return self.named_gone(file, error) };
        let place = self.workload.disk.place(file);
        match error {
            OpenError::Format { .. } if file == FORMAT => {
                let is_in_it = |offset: u64| offset <= found.len() as u64;
                offsets(&error.to_string()).any(is_in_it).then(|| format!("{place} cannot be used"))
            }
            OpenError::Segment { .. } => {
                let is_header_wounded = found.get(..SEGMENT_FIELDS) != whole.get(..SEGMENT_FIELDS);
                is_header_wounded.then(|| format!("{place} at offset {} ", told_of_header(found, whole)))
            }
            OpenError::Short { .. } => {
                Some(format!("{place} has {} bytes of its {}: it was cut short", found.len(), whole.len()))
            }
            OpenError::Damaged { .. } => {
                let of_file = self.batches.range(self.checkpoint..).filter(|(_, batch)| batch.file == file);
                let mut wounded = of_file.filter(|(_, batch)| !batch.is_whole(whole, found));
                let (position, batch) = wounded.next()?;
                Some(format!("{place} at offset {} (position {position})", batch.offset))
            }
            OpenError::BeforeCheckpoint { .. } => {
                let header = |batch: &Batch| batch.offset..batch.offset + BATCH_HEADER;
                let stands = |batch: &Batch| found.get(header(batch)) == whole.get(header(batch));
                let of_file = self.batches.range(..self.checkpoint).filter(|(_, batch)| batch.file == file);
                let (begin, first) = of_file.clone().next()?;
                // Where none stands, it ends where it begins.
                let last = of_file.rev().find(|(_, batch)| stands(batch));
                let (end, offset) = last.map_or((*begin, first.offset), |(position, batch)| {
                    (position + batch.bytes as u64, batch.offset + batch.bytes)
                });
                Some(format!("the last batch of {place} ends at position {end} (offset {offset})"))
            }
            _ => None,
        }
    }

    /// The same of a file that is not there.
    fn named_gone(&self, file: &str, error: &OpenError) -> Option<String> {
        let disk = &self.workload.disk;
        let (place, directory) = (disk.place(file), disk.place(""));
        if file == FORMAT {
            return matches!(error, OpenError::FormatMissing(_))
                .then(|| format!("{directory} holds a journal and no FORMAT"));
        }
        match error {
            OpenError::MessagesMissing { .. } => Some(format!("{place} is gone, and messages in it are still needed")),
            // It knows where it has to go on, and not the file that this was in.
            OpenError::Missing { position, .. } if self.place(*position).0 == file => {
                Some(format!("{directory} lacks the journal segment that holds position {}", self.checkpoint))
            }
            _ => None,
        }
    }

    /// Whether a read names the place where damage begins: the first message of a block that is not what was written. Where a
    /// whole message of another segment stands there, a block is damaged from where that no longer fits.
    pub fn is_named_by_read(&self, extent: Extent, found: &[u8], file: &str, at: u64) -> bool {
        let (name, offset) = self.place(extent.position);
        let whole = &self.files[&name][offset..][..extent.length as usize];
        let mut first = 0;
        for message in block::messages(whole) {
            let end = first + message.unwrap().length;
            if found.get(offset + first..offset + end) != whole.get(first..end) {
                break;
            }
            first = end;
        }
        let end = (offset + whole.len()) as u64;
        let first = offset + first;
        let is_whole = |found| block::first(found).is_ok_and(|parts| parts.checksum == crc32c::crc32c(parts.checked));
        let may_be_behind = || at > first as u64 && found.get(first..).is_some_and(is_whole);
        file == self.workload.disk.place(&name) && at < end && (at == first as u64 || may_be_behind())
    }
}

/// Where a start sees that the header of a segment is wrong: where it ends, at its beginning, at one of its checksums, or at
/// its position, if it is that of another segment.
fn told_of_header(found: &[u8], whole: &[u8]) -> usize {
    let Some(header) = found.get(..SEGMENT_FIELDS) else { return found.len() };
    let is_whole = crc32c::crc32c(&header[..40]).to_le_bytes() == header[40..44];
    match header[..44] == whole[..44] {
        _ if header[..8] != whole[..8] => 0,
        true => 52,
        false if is_whole => 16,
        false => 40,
    }
}

impl Batch {
    /// Whether its header and its payload are what they were; nothing tells of the zeros behind.
    fn is_whole(&self, whole: &[u8], found: &[u8]) -> bool {
        let length = u32::from_le_bytes(whole[self.offset + 8..self.offset + 12].try_into().unwrap());
        let all = self.offset..self.offset + BATCH_HEADER + length as usize;
        found.get(all.clone()) == whole.get(all)
    }
}
