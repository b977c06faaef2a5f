//! The tree's own files, as far as they are not the library's business: is there a tree, is its list of tables whole,
//! and what did a failed write leave behind.
//!
//! ```text
//! tree/current     the number of the newest version, the checksum of its file
//! tree/vNUMBER     a version: which tables there are, level by level
//! tree/tables/ID   a table, never changed once it is in a version
//! ```

use std::fs;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use lsm_tree::Checksum;
use lsm_tree::checksum::ChecksummedWriter;
use lsm_tree::coding::Decode;
use lsm_tree::table::block::Header;

use super::TreeError;

const CURRENT: &str = "current";
const TABLES: &str = "tables";
/// The only kind of checksum.
const XXH3: u8 = 0;
/// Bytes at the end of a file of sections, where in them the place of its contents stands, and what a section takes of these
/// at least.
const SFA_TRAILER: usize = 38;
const SFA_PLACE: usize = 22;
const SFA_SECTION: u64 = 18;
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
    /// tree, it takes the version's file on trust, and it makes room for as many sections as a table says that it has before
    /// it looks at a checksum: 70 GB, if that is what a damaged one says.
    pub fn check(&self) -> Result<(), TreeError> {
        let Some((version, expected)) = self.current()? else {
            return if self.tables()?.is_empty() {
                Ok(())
            } else {
                Err(TreeError::Damaged(format!("{} is missing beside its tables", self.0.join(CURRENT).display())))
            };
        };
        verify(&self.0.join(format!("v{version}")), expected)?;
        let mut tables = self.tables()?.into_iter().map(|table| self.0.join(TABLES).join(table.to_string()));
        tables.try_for_each(|table| has_room_for_its_sections(&table))
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

/// Whether a file is as long as the sections that it says it has would make it. What else is wrong with it the library finds.
///
/// It ends with `SFA!`, the version and the kind of checksum, the checksum and the place of its contents, and 8 bytes more.
/// These begin with `TOC!` and the number of sections, each of which has a place, a length and the length of a name.
fn has_room_for_its_sections(path: &Path) -> Result<(), TreeError> {
    let read = || -> io::Result<Option<(u64, u64)>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        let mut trailer = [0; SFA_TRAILER];
        if length < SFA_TRAILER as u64 {
            return Ok(None);
        }
        file.seek(SeekFrom::End(-(SFA_TRAILER as i64)))?;
        file.read_exact(&mut trailer)?;
        let contents = u64::from_le_bytes(*trailer[SFA_PLACE..].first_chunk().expect("the trailer is longer"));
        // One that a killed writer left is in no version, and may end anywhere.
        if !trailer.starts_with(b"SFA!") || contents > length - SFA_TRAILER as u64 {
            return Ok(None);
        }
        let mut head = [0; 8];
        file.seek(SeekFrom::Start(contents))?;
        file.read_exact(&mut head)?;
        if !head.starts_with(b"TOC!") {
            return Ok(None);
        }
        let sections = u32::from_le_bytes(*head[4..].first_chunk().expect("four bytes"));
        Ok(Some((u64::from(sections) * SFA_SECTION, length - contents)))
    };
    match read().map_err(TreeError::Io)? {
        Some((needed, room)) if needed > room => {
            Err(TreeError::Damaged(format!("{} has more sections than it has room for", path.display())))
        }
        _ => Ok(()),
    }
}

/// As [`verify`], for a table: says how far it is as it was written.
pub(super) fn verify_table(path: &Path, expected: Checksum) -> Result<(), TreeError> {
    verify(path, expected).map_err(|error| match error {
        TreeError::Damaged(what) => match whole_blocks(path) {
            Ok(offset) => TreeError::Damaged(format!("{what}, at or behind offset {offset}")),
            Err(_) => TreeError::Damaged(what),
        },
        error => error,
    })
}

/// Bytes at the beginning of a table that are blocks which match their checksums.
fn whole_blocks(path: &Path) -> io::Result<u64> {
    let file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(SLICE, file);
    let (mut offset, mut data) = (0, Vec::new());
    while let Ok(header) = Header::decode_from(&mut reader) {
        let end = offset + Header::serialized_len() as u64 + u64::from(header.data_length);
        if end > length {
            break;
        }
        data.resize(header.data_length as usize, 0);
        reader.read_exact(&mut data)?;
        let mut sum = ChecksummedWriter::new(io::sink());
        sum.write_all(&data).expect("a sink takes everything");
        if sum.checksum() != header.checksum {
            break;
        }
        offset = end;
    }
    Ok(offset)
}

/// Reads a whole file and compares it with its checksum.
fn verify(path: &Path, expected: Checksum) -> Result<(), TreeError> {
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

/// A directory of links to the files of a tree, for whoever is to change nothing. Goes when it is dropped.
///
/// The library removes what is in no version as it opens a tree. Where the newest version's name was lost or put back from
/// a copy, these are tables that a person may still need. In a mirror it removes links.
pub(super) struct Mirror(PathBuf);

impl Mirror {
    /// Links to all files of a directory and of those in it, in a directory of its own for what is temporary.
    pub fn of(directory: &Path) -> io::Result<Mirror> {
        let mirror = Mirror::make()?;
        link_all(&fs::canonicalize(directory)?, &mirror.0)?;
        Ok(mirror)
    }

    /// Who was killed has left its own, perhaps by the same number.
    fn make() -> io::Result<Mirror> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let place = std::env::temp_dir().join(format!("millpond-{}-{number}", std::process::id()));
            match fs::create_dir(&place) {
                Ok(()) => return Ok(Mirror(place)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let what = format!("making {}, for links to it, failed: {error}", place.display());
                    return Err(io::Error::new(error.kind(), what));
                }
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // What stays there are links, and nobody follows them.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let link = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&link)?;
            link_all(&entry.path(), &link)?;
        } else {
            symlink(entry.path(), link)?;
        }
    }
    Ok(())
}
