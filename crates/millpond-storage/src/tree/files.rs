//! The tree's own files, as far as they are not the library's business: is there a tree, is its list of tables whole,
//! and what did a failed write leave behind.
//!
//! ```text
//! tree/current     the number of the newest version, the checksum of its file
//! tree/vNUMBER     a version: which tables there are, level by level
//! tree/tables/ID   a table, never changed once it is in a version
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use lsm_tree::Checksum;
use lsm_tree::checksum::ChecksummedWriter;

use super::TreeError;

const CURRENT: &str = "current";
const TABLES: &str = "tables";
/// The only kind of checksum.
const XXH3: u8 = 0;
/// Bytes read at a time.
const SLICE: usize = 256 * 1024;

/// The files of a tree.
#[derive(Clone)]
pub(super) struct TreeFiles(PathBuf);

impl TreeFiles {
    pub fn new(directory: &Path) -> TreeFiles {
        TreeFiles(directory.to_path_buf())
    }

    /// Makes sure that the library will find what was left to it. Where it does not find [`CURRENT`] it begins an empty
    /// tree, and it takes the version's file on trust.
    pub fn check(&self) -> Result<(), TreeError> {
        let Some((version, expected)) = self.current()? else {
            return if self.tables()?.is_empty() {
                Ok(())
            } else {
                Err(TreeError::Damaged(format!("{} is missing beside its tables", self.0.join(CURRENT).display())))
            };
        };
        verify(&self.0.join(format!("v{version}")), expected)
    }

    /// The newest version's number and checksum.
    pub fn current(&self) -> Result<Option<(u64, Checksum)>, TreeError> {
        let path = self.0.join(CURRENT);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TreeError::Io(error)),
        };
        let number = bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let checksum = bytes.get(8..24).and_then(|bytes| bytes.try_into().ok()).map(u128::from_le_bytes);
        match (number, checksum, bytes.get(24..)) {
            (Some(number), Some(checksum), Some([XXH3])) => Ok(Some((number, Checksum::from_raw(checksum)))),
            _ => Err(TreeError::Damaged(format!("{} names no version", path.display()))),
        }
    }

    /// The tables that lie there, in a version or not.
    pub fn tables(&self) -> Result<Vec<u64>, TreeError> {
        let entries = match fs::read_dir(self.0.join(TABLES)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(TreeError::Io(error)),
        };
        let names =
            entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>().map_err(TreeError::Io)?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// Removes a table that is in no version.
    pub fn remove_table(&self, id: u64) -> Result<(), TreeError> {
        fs::remove_file(self.0.join(TABLES).join(id.to_string())).map_err(TreeError::Io)
    }
}

/// Reads a whole file and compares it with its checksum.
pub(super) fn verify(path: &Path, expected: Checksum) -> Result<(), TreeError> {
    let damaged = |what: &str| TreeError::Damaged(format!("{} {what}", path.display()));
    let mut file = fs::File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged("is missing"),
        _ => TreeError::Io(error),
    })?;
    let mut sum = ChecksummedWriter::new(io::sink());
    let mut slice = vec![0; SLICE];
    loop {
        let length = file.read(&mut slice).map_err(TreeError::Io)?;
        if length == 0 {
            break;
        }
        sum.write_all(&slice[..length]).expect("a sink takes everything");
    }
    if sum.checksum() == expected { Ok(()) } else { Err(damaged("does not match its checksum")) }
}
