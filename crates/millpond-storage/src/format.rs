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
/// Where the version stands, behind the title and the word for it.
const VERSION_AT: usize = TITLE.len() + "\nformat ".len();
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
    #[error(
        "it is not the FORMAT file of a Millpond data directory, or it was changed, which shows at offset {0}: put it back from a \
         copy"
    )]
    Other(u64),
    /// A later version wrote it.
    #[error("it was written by a newer version of Millpond (format {0} at offset {VERSION_AT}): use that version")]
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
            return Err(BadFormat::Other(LENGTH_MAX));
        }
        let mut bytes = vec![0; length as usize];
        file.read_at(0, &mut bytes)?;
        let other = |offset: usize| BadFormat::Other(offset as u64);
        let text = String::from_utf8(bytes).map_err(|error| other(error.utf8_error().valid_up_to()))?;
        let mut offset = 0;
        let mut lines = text.split_inclusive('\n');
        // What stands behind a key, and where.
        let mut value = |key: &str| {
            let (line, begin) = (lines.next().unwrap_or_default(), offset);
            offset += line.len();
            let value = line.strip_prefix(key).ok_or(other(begin))?;
            Ok::<_, BadFormat>((value.trim_end_matches('\n'), begin + key.len()))
        };
        value(TITLE)?;
        let (version, at) = value("format ")?;
        match version.parse().map_err(|_| other(at))? {
            FORMAT_VERSION => {}
            version if version > FORMAT_VERSION => return Err(BadFormat::Version(version)),
            _ => return Err(other(at)),
        }
        let (id, at) = value("id ")?;
        let format = Format { directory: u128::from_str_radix(id, 16).map_err(|_| other(at))? };
        let expected = format.text();
        if text == expected {
            return Ok(Some(format));
        }
        let same = text.bytes().zip(expected.bytes()).take_while(|(found, expected)| found == expected);
        Err(other(same.count()))
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
