//! Checkpoints as files, each with the whole state.
//!
//! A checkpoint is written as `checkpoint.tmp`, synced, renamed to `POSITION.checkpoint` (16 hexadecimal digits), the
//! directory synced, and read back; then the one before is removed. All numbers are little-endian.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | magic | `MPCHECKP` |
//! | 4 | version | 1 |
//! | 1 + 3 | codec | the version of the pages' byte form, and zeros |
//! | 8 | position | the journal position |
//! | 4 | start | the start of the broker that made it |
//! | 16 | directory | the id of the directory |
//! | 4 | checksum | CRC-32C of the 44 bytes above |
//! | | chunks | each 4 bytes of length (not 0), 4 of pages, 4 of CRC-32C of the length, the pages and the bytes; the bytes. A chunk of no pages is the table of live bytes ([`LiveBytes`]) |
//! | 4 | end | 0 |
//! | 4 | chunks | how many |
//! | 8 | length | bytes of the file before the end |
//! | 4 | checksum | CRC-32C of all the chunks' checksums and the 16 bytes above |

use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::{Checkpoint, CheckpointError, CheckpointHead, CheckpointStore, FinishError, LiveBytes, PageChunk};
use crate::codec;
use crate::disk::{Disk, DiskFile};

const MAGIC: [u8; 8] = *b"MPCHECKP";
const VERSION: u32 = 1;
const HEAD: usize = 48;
const CHUNK_HEAD: usize = 12;
const FOOT: usize = 20;
const UNFINISHED: &str = "checkpoint.tmp";
const SUFFIX: &str = ".checkpoint";

/// The position of a checkpoint of this file name, if it is one's.
pub(crate) fn checkpoint_position(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Whether this is the name of a checkpoint that was not finished.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name == UNFINISHED
}

/// See the module.
pub struct FileCheckpoints {
    disk: Arc<dyn Disk>,
    directory: u128,
    writing: Option<Writing>,
}

struct Writing {
    file: Arc<dyn DiskFile>,
    position: u64,
    length: u64,
    chunks: u32,
    checksum: u32,
}

impl FileCheckpoints {
    /// Keeps checkpoints in a directory of this id.
    pub fn new(disk: Arc<dyn Disk>, directory: u128) -> FileCheckpoints {
        FileCheckpoints { disk, directory, writing: None }
    }

    fn positions(&self) -> io::Result<Vec<u64>> {
        let mut positions = self.disk.list()?.iter().filter_map(|name| checkpoint_position(name)).collect::<Vec<_>>();
        positions.sort_unstable();
        Ok(positions)
    }

    fn read(&self, position: u64) -> Result<Checkpoint, CheckpointError> {
        let name = name(position);
        let place = self.disk.place(&name);
        let read = || {
            let file = self.disk.open(&name)?;
            let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
            file.read_at(0, &mut bytes)?;
            Ok(Bytes::from(bytes))
        };
        let bytes = read().map_err(|error| CheckpointError::Io { file: place.clone(), error })?;
        parse(&bytes, self.directory, position).map_err(|bad| match bad {
            Bad::Version(version) => CheckpointError::Version { file: place, version },
            Bad::At(offset, what) => CheckpointError::Damaged { file: place, offset: offset as u64, what },
        })
    }
}

impl CheckpointStore for FileCheckpoints {
    fn begin(&mut self, head: CheckpointHead) -> io::Result<()> {
        self.writing = None;
        let file = self.disk.create(UNFINISHED)?;
        let mut bytes = Vec::with_capacity(HEAD);
        bytes.put_slice(&MAGIC);
        bytes.put_u32_le(VERSION);
        bytes.put_slice(&[codec::VERSION, 0, 0, 0]);
        bytes.put_u64_le(head.position);
        bytes.put_u32_le(head.start);
        bytes.put_u128_le(self.directory);
        bytes.put_u32_le(crc32c::crc32c(&bytes));
        assert_eq!(bytes.len(), HEAD, "the head has the length of its table");
        file.write_at(0, &bytes)?;
        let live = PageChunk { bytes: head.live.encode().into(), pages: 0 };
        self.writing = Some(Writing { file, position: head.position, length: HEAD as u64, chunks: 0, checksum: 0 });
        if live.bytes.is_empty() { Ok(()) } else { self.write(&live) }
    }

    fn write(&mut self, pages: &PageChunk) -> io::Result<()> {
        let writing = self.writing.as_mut().expect("a checkpoint is begun before it is written");
        assert!(!pages.bytes.is_empty(), "a chunk holds a page");
        let length = u32::try_from(pages.bytes.len()).map_err(io::Error::other)?;
        let mut head = Vec::with_capacity(CHUNK_HEAD);
        head.put_u32_le(length);
        head.put_u32_le(pages.pages);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), &pages.bytes);
        head.put_u32_le(checksum);
        writing.file.write_at(writing.length, &head)?;
        writing.file.write_at(writing.length + CHUNK_HEAD as u64, &pages.bytes)?;
        writing.length += CHUNK_HEAD as u64 + u64::from(length);
        writing.chunks += 1;
        writing.checksum = crc32c::crc32c_append(writing.checksum, &checksum.to_le_bytes());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), FinishError> {
        let writing = self.writing.take().expect("a checkpoint is begun before it is finished");
        let mut foot = Vec::with_capacity(FOOT);
        foot.put_u32_le(0);
        foot.put_u32_le(writing.chunks);
        foot.put_u64_le(writing.length);
        foot.put_u32_le(crc32c::crc32c_append(writing.checksum, &foot));
        writing.file.write_at(writing.length, &foot)?;
        writing.file.sync()?;
        let older = self.positions()?;
        self.disk.rename(UNFINISHED, &name(writing.position))?;
        self.disk.sync_dir()?;
        self.read(writing.position)?;
        for position in older.into_iter().filter(|older| *older != writing.position) {
            self.disk.remove(&name(position))?;
        }
        Ok(())
    }

    fn newest(&mut self) -> Result<Option<Checkpoint>, CheckpointError> {
        let list = |error| CheckpointError::Io { file: self.disk.place(""), error };
        self.positions().map_err(list)?.last().map(|position| self.read(*position)).transpose()
    }
}

fn name(position: u64) -> String {
    format!("{position:016x}{SUFFIX}")
}

enum Bad {
    Version(u32),
    At(usize, &'static str),
}

fn parse(bytes: &Bytes, directory: u128, position: u64) -> Result<Checkpoint, Bad> {
    let u32_at = |at: usize| {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        word.map(|word| u32::from_le_bytes(*word)).ok_or(Bad::At(at, "is cut off"))
    };
    if bytes.len() < HEAD || bytes[..8] != MAGIC || u32_at(44)? != crc32c::crc32c(&bytes[..44]) {
        return Err(Bad::At(0, "has no valid head"));
    }
    if u32_at(8)? != VERSION || bytes[12] != codec::VERSION {
        return Err(Bad::Version(u32_at(8)?.max(bytes[12].into())));
    }
    let mut head = CheckpointHead {
        live: LiveBytes::default(),
        position: u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")),
        start: u32_at(24)?,
    };
    if bytes[28..44] != directory.to_le_bytes() || head.position != position {
        return Err(Bad::At(0, "belongs to another data directory or position"));
    }
    let (mut at, mut count, mut chunks, mut checksum) = (HEAD, 0u32, Vec::new(), 0);
    loop {
        let length = u32_at(at)? as usize;
        if length == 0 {
            break;
        }
        let (pages, expected) = (u32_at(at + 4)?, u32_at(at + 8)?);
        let from = at + CHUNK_HEAD;
        let to = from.checked_add(length).filter(|to| *to <= bytes.len()).ok_or(Bad::At(at, "is cut off"))?;
        if crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 8]), &bytes[from..to]) != expected {
            return Err(Bad::At(at, "has a chunk that does not match its checksum"));
        }
        checksum = crc32c::crc32c_append(checksum, &expected.to_le_bytes());
        match pages {
            0 => head.live = LiveBytes::decode(&bytes[from..to]).ok_or(Bad::At(at, "has a table that is none"))?,
            pages => chunks.push(PageChunk { bytes: bytes.slice(from..to), pages }),
        }
        count += 1;
        at = to;
    }
    let whole = u32_at(at + 4)? == count
        && bytes.len() == at + FOOT
        && bytes[at + 8..at + 16] == (at as u64).to_le_bytes()
        && u32_at(at + 16)? == crc32c::crc32c_append(checksum, &bytes[at..at + 16]);
    if whole { Ok(Checkpoint { head, chunks }) } else { Err(Bad::At(at, "does not end as it should")) }
}
