//! What a data directory takes on its disk. Space that is taken in advance (spares and the rest of the last segment)
//! is told apart: it is of a fixed size and holds no message.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::target::Target;
use crate::failure::Failure;

/// Bytes of a block of `st_blocks`, whatever the file system's own are.
const BLOCK: u64 = 512;
/// Bytes of a segment's header; `docs/storage-format.md` has the table.
const SEGMENT_HEADER: u64 = 4096;

/// The bytes of all files of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Blocks that are allocated, without those taken in advance.
    pub allocated: u64,
    /// Lengths of the files, without what is taken in advance.
    pub apparent: u64,
    /// What is taken in advance.
    pub in_advance: u64,
}

impl Usage {
    /// Measures the data directory of a broker that was started for the run; `None` for any other.
    pub fn of(target: &Target) -> Result<Option<Usage>, Failure> {
        let Some(directory) = target.directory() else { return Ok(None) };
        let why_not =
            |why| Failure::refused(format!("the directory {} cannot be measured: {why}", directory.display()));
        Usage::measure(directory, target.stats()?.position).map(Some).map_err(why_not)
    }

    /// Measures a directory whose journal ends at `position`. Files that vanish meanwhile count as gone.
    pub fn measure(directory: &Path, position: u64) -> io::Result<Usage> {
        let mut usage = Usage::default();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let file = match entry.metadata() {
                Ok(file) => file,
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return Err(why),
            };
            if file.is_dir() {
                let inner = Usage::measure(&entry.path(), position)?;
                usage.allocated += inner.allocated;
                usage.apparent += inner.apparent;
                usage.in_advance += inner.in_advance;
                continue;
            }
            let unused = unused(&entry.file_name().to_string_lossy(), file.len(), position);
            // A tail that is only in the file's length takes no blocks.
            let allocated = file.blocks() * BLOCK;
            let in_advance = unused.min(allocated);
            usage.allocated += allocated - in_advance;
            usage.in_advance += in_advance;
            usage.apparent += file.len() - unused;
        }
        Ok(usage)
    }
}

/// Bytes at the end of a file that are taken in advance.
fn unused(name: &str, length: u64, position: u64) -> u64 {
    if name.starts_with("spare-") {
        return length;
    }
    let base = name.strip_suffix(".journal").and_then(|base| u64::from_str_radix(base, 16).ok());
    // Segments before the last are full, but for less than a batch.
    let used = base.map(|base| SEGMENT_HEADER + position.saturating_sub(base));
    used.map_or(0, |used| length.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_and_the_tail_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("0000000000000000.journal", 8192),
            ("0000000000001000.journal", 20_480),
            ("spare-1", 40_960),
            ("0000000000001000.checkpoint", 4096),
        ];
        for (name, length) in files {
            fs::write(directory.path().join(name), vec![1; length]).unwrap();
        }
        fs::create_dir(directory.path().join("tree")).unwrap();
        fs::write(directory.path().join("tree/a"), [1; 4096]).unwrap();
        let usage = Usage::measure(directory.path(), 0x1000 + 4096).unwrap();
        assert_eq!(usage.apparent, 8192 + 8192 + 4096 + 4096);
        assert!(usage.in_advance <= 12_288 + 40_960);
    }
}
