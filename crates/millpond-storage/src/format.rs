//! The file `FORMAT`, which makes a directory ours: text, so that a person can read it.
//!
//! ```text
//! millpond data directory
//! format 1
//! id 0123456789abcdef0123456789abcdef
//! checksum 01234567
//! ```
//!
//! The checksum is the CRC-32C of the lines before it, ends of lines included.
//! It is written last when a directory is made: where it is missing, nothing was ever confirmed.

use std::io;

use crate::disk::Disk;

/// The version of the whole directory.
pub const FORMAT_VERSION: u32 = 1;
/// The file's name.
pub const FORMAT: &str = "FORMAT";
/// Its name while it is written.
pub const FORMAT_UNFINISHED: &str = "FORMAT.tmp";
const TITLE: &str = "millpond data directory";
/// More than the file ever has.
const LENGTH_MAX: u64 = 4096;

/// What `FORMAT` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// The id that every checksum of a batch is made with.
    pub directory: u128,
}

/// Why a `FORMAT` is no use.
#[derive(Debug, thiserror::Error)]
pub enum BadFormat {
    /// It does not say what it should.
    #[error("it is not the FORMAT file of a Millpond data directory, or it was changed: put it back from a copy")]
    Other,
    /// A later version wrote it.
    #[error("it was written by a newer version of Millpond (format {0}): use that version")]
    Version(u32),
    /// It could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Format {
    /// Reads the file; `None` if there is none.
    pub fn read(disk: &dyn Disk) -> Result<Option<Format>, BadFormat> {
        if !disk.list()?.iter().any(|name| name == FORMAT) {
            return Ok(None);
        }
        let file = disk.open(FORMAT)?;
        let length = file.length()?;
        if length > LENGTH_MAX {
            return Err(BadFormat::Other);
        }
        let mut bytes = vec![0; length as usize];
        file.read_at(0, &mut bytes)?;
        let text = String::from_utf8(bytes).map_err(|_| BadFormat::Other)?;
        let mut lines = text.lines();
        let mut value = |key| lines.next().and_then(|line| line.strip_prefix(key)).ok_or(BadFormat::Other);
        value(TITLE)?;
        match value("format ")?.parse().map_err(|_| BadFormat::Other)? {
            FORMAT_VERSION => {}
            version if version > FORMAT_VERSION => return Err(BadFormat::Version(version)),
            _ => return Err(BadFormat::Other),
        }
        let directory = u128::from_str_radix(value("id ")?, 16).map_err(|_| BadFormat::Other)?;
        let format = Format { directory };
        if text == format.text() { Ok(Some(format)) } else { Err(BadFormat::Other) }
    }

    /// Writes the file, durably.
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let text = self.text();
        let file = disk.create(FORMAT_UNFINISHED)?;
        file.write_at(0, text.as_bytes())?;
        file.sync()?;
        disk.rename(FORMAT_UNFINISHED, FORMAT)?;
        disk.sync_dir()
    }

    fn text(&self) -> String {
        let text = format!("{TITLE}\nformat {FORMAT_VERSION}\nid {:032x}\n", self.directory);
        format!("{text}checksum {:08x}\n", crc32c::crc32c(text.as_bytes()))
    }
}
