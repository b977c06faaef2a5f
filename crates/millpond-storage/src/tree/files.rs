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
use crate::disk::open_file;

const CURRENT: &str = "current";
const TABLES: &str = "tables";
/// The section of a version's file that lists its tables.
const LIST: &[u8] = b"tables";
/// Bytes of [`CURRENT`], and where in it, behind the number, the checksum of the version's file stands, and its kind.
const CURRENT_BYTES: usize = 25;
const SUM_AT: usize = 8;
const KIND_AT: usize = 24;
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
    /// tree, it takes the version's file on trust, it has no word for what is not a table, and it makes room for as many
    /// sections as a table says that it has before it looks at a checksum: 70 GB, if that is what a damaged one says.
    pub fn check(&self) -> Result<(), TreeError> {
        let tables = self.tables()?;
        if self.current()?.is_none() && !tables.is_empty() {
            let current = self.0.join(CURRENT);
            return Err(TreeError::Damaged(format!("{} is missing beside its tables", current.display())));
        }
        self.listed()?.into_iter().try_for_each(|(id, _)| has_room_for_its_sections(&self.table(id)))
    }

    /// Which table is not what was written, where the library has only said that something is not.
    pub fn find_damage(&self) -> Result<(), TreeError> {
        self.listed()?.into_iter().try_for_each(|(id, checksum)| verify_table(&self.table(id), checksum))
    }

    /// The tables of the newest version, each with its checksum. The version's file has a section that counts the levels, in
    /// each the runs, and in each the tables: for each of these its number, the kind of its checksum, this, and a sequence number.
    fn listed(&self) -> Result<Vec<(u64, Checksum)>, TreeError> {
        let Some((version, expected)) = self.current()? else { return Ok(Vec::new()) };
        let path = self.0.join(format!("v{version}"));
        // Number and checksum stand in a file that has none itself.
        verify(&path, expected).map_err(|error| match error {
            TreeError::Damaged(what) => {
                let current = self.0.join(CURRENT);
                TreeError::Damaged(format!(
                    "{what}, which is that of all from offset 0 on, or {} is damaged, which names it at offset 0 and its \
                     checksum at offset {SUM_AT}",
                    current.display()
                ))
            }
            error => error,
        })?;
        let no_list = || TreeError::Damaged(format!("{} from offset 0 on holds no list of tables", path.display()));
        let sections = sfa::Reader::new(&path).map_err(|_| no_list())?;
        let mut list =
            sections.toc().section(LIST).ok_or_else(no_list)?.buf_reader(&path).map_err(failed("reading", &path))?;
        let mut read = || -> io::Result<Vec<(u64, Checksum)>> {
            let mut tables = Vec::new();
            for _ in 0..byte(&mut list)? {
                for _ in 0..byte(&mut list)? {
                    for _ in 0..u32::from_le_bytes(bytes(&mut list)?) {
                        let id = u64::from_le_bytes(bytes(&mut list)?);
                        byte(&mut list)?;
                        let checksum = u128::from_le_bytes(bytes(&mut list)?);
                        bytes::<8>(&mut list)?;
                        tables.push((id, Checksum::from_raw(checksum)));
                    }
                }
            }
            Ok(tables)
        };
        read().map_err(|_| no_list())
    }

    /// The file of a table.
    pub fn table(&self, id: u64) -> PathBuf {
        self.0.join(TABLES).join(id.to_string())
    }

    /// Whether a table lies under its own name. The library takes its checksum, and which of two entries is the newer, by the
    /// name; where it belongs, by what it says of itself.
    pub fn is_in_its_place(&self, id: u64, found: &Path) -> Result<(), TreeError> {
        let own = self.table(id);
        if found.file_name() == own.file_name() {
            return Ok(());
        }
        let found = self.0.join(TABLES).join(found.file_name().expect("the name of a table"));
        Err(TreeError::Damaged(format!("{} is from offset 0 on what {} should be", found.display(), own.display())))
    }

    /// The newest version's number and checksum.
    pub fn current(&self) -> Result<Option<(u64, Checksum)>, TreeError> {
        let path = self.0.join(CURRENT);
        let mut file = match open_file(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("reading", &path)(error)),
        };
        let wrong = |what: String| Err(TreeError::Damaged(format!("{} names no version: it {what}", path.display())));
        let length = file.metadata().map_err(failed("reading", &path))?.len();
        if length != CURRENT_BYTES as u64 {
            return wrong(format!("ends at offset {length} and not at offset {CURRENT_BYTES}"));
        }
        let fields = bytes::<CURRENT_BYTES>(&mut file).map_err(failed("reading", &path))?;
        if fields[KIND_AT] != XXH3 {
            return wrong(format!("has no known kind of checksum at offset {KIND_AT}"));
        }
        let number = u64::from_le_bytes(*fields.first_chunk().expect("eight bytes"));
        let checksum = u128::from_le_bytes(*fields[SUM_AT..].first_chunk().expect("sixteen bytes"));
        Ok(Some((number, Checksum::from_raw(checksum))))
    }

    /// The tables that lie there, in a version or not. The library stops at anything else there, but for what some systems put
    /// into every directory.
    pub fn tables(&self) -> Result<Vec<u64>, TreeError> {
        let directory = self.0.join(TABLES);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("reading", &directory)(error)),
        };
        let mut tables = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed("reading", &directory))?.file_name();
            let text = name.to_string_lossy();
            if text == ".DS_Store" || text.starts_with("._") {
                continue;
            }
            let path = directory.join(&name);
            let stranger = || TreeError::Damaged(format!("{} is no table: move it away", path.display()));
            let id = text.parse().ok().filter(|id: &u64| id.to_string() == text).ok_or_else(stranger)?;
            if !fs::metadata(&path).map_err(failed("reading", &path))?.is_file() {
                return Err(stranger());
            }
            tables.push(id);
        }
        Ok(tables)
    }

    /// Removes what is not of the newest version, as the library does when it opens a tree.
    pub fn remove_others(&self) -> Result<(), TreeError> {
        let listed: Vec<u64> = self.listed()?.into_iter().map(|(id, _)| id).collect();
        self.remove_old_versions()?;
        self.tables()?.into_iter().filter(|id| !listed.contains(id)).try_for_each(|id| self.remove_table(id))
    }

    /// Removes the files of all versions but the newest. Nobody may be writing one.
    pub fn remove_old_versions(&self) -> Result<(), TreeError> {
        let newest = self.current()?.map(|(version, _)| format!("v{version}"));
        for entry in fs::read_dir(&self.0).map_err(failed("reading", &self.0))? {
            let entry = entry.map_err(failed("reading", &self.0))?;
            let (name, path) = (entry.file_name(), entry.path());
            let is_version = name.to_string_lossy().starts_with('v') && !path.is_dir();
            if is_version && newest.as_ref().is_some_and(|newest| name != **newest) {
                fs::remove_file(&path).map_err(failed("removing", &path))?;
            }
        }
        Ok(())
    }

    /// Removes a table that is in no version.
    pub fn remove_table(&self, id: u64) -> Result<(), TreeError> {
        let table = self.table(id);
        fs::remove_file(&table).map_err(failed("removing", &table))
    }
}

/// What an error in doing something with a file means. What stands in the place of another kind of file is damage.
fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> TreeError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => TreeError::Damaged(format!("{} is missing", path.display())),
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            TreeError::Damaged(format!("{}: {error}", path.display()))
        }
        kind => TreeError::Io(io::Error::new(kind, format!("{what} {} failed: {error}", path.display()))),
    }
}

fn byte(from: &mut impl Read) -> io::Result<u8> {
    bytes::<1>(from).map(|[byte]| byte)
}

fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

/// Bytes at the end of a file of sections, where in them the place of its contents stands, where in these the number of
/// sections, and what a section takes of these at least.
const SFA_TRAILER: usize = 38;
const SFA_PLACE: usize = 22;
const SFA_COUNT: u64 = 4;
const SFA_SECTION: u64 = 18;

/// Whether a table ends as one does, and is as long as the sections that it says it has would make it. What else is wrong with
/// it the library finds. What is wrong is told with the place of that field, or with where the file ends.
///
/// It ends with `SFA!`, the version and the kind of checksum, the checksum and the place of its contents, and 8 bytes more.
/// These begin with `TOC!` and the number of sections, each of which has a place, a length and the length of a name.
fn has_room_for_its_sections(path: &Path) -> Result<(), TreeError> {
    let damaged = |what: &str, offset: u64| {
        TreeError::Damaged(format!("{} {what}, which shows at offset {offset}", path.display()))
    };
    let failed = failed("reading", path);
    let mut file = open_file(path, false).map_err(&failed)?;
    let length = file.metadata().map_err(&failed)?.len();
    let no_end = |offset| damaged("does not end as a table does: it was cut short, or is none", offset);
    let room = length.checked_sub(SFA_TRAILER as u64).ok_or_else(|| no_end(length))?;
    file.seek(SeekFrom::Start(room)).map_err(&failed)?;
    let trailer = bytes::<SFA_TRAILER>(&mut file).map_err(&failed)?;
    let contents = u64::from_le_bytes(*trailer[SFA_PLACE..].first_chunk().expect("the trailer is longer"));
    if !trailer.starts_with(b"SFA!") {
        return Err(no_end(room));
    }
    if contents > room {
        return Err(no_end(room + SFA_PLACE as u64));
    }
    file.seek(SeekFrom::Start(contents)).map_err(&failed)?;
    let head = bytes::<8>(&mut file).map_err(&failed)?;
    let sections = u32::from_le_bytes(*head[SFA_COUNT as usize..].first_chunk().expect("four bytes"));
    match head.starts_with(b"TOC!") {
        false => Err(no_end(contents)),
        true if u64::from(sections) * SFA_SECTION > length - contents => {
            Err(damaged("has more sections than it has room for", contents + SFA_COUNT))
        }
        true => Ok(()),
    }
}

/// As [`verify`], for a table: says how far its blocks are whole. They may be those of another table.
pub(super) fn verify_table(path: &Path, expected: Checksum) -> Result<(), TreeError> {
    verify(path, expected).map_err(|error| match error {
        TreeError::Damaged(what) => match whole_blocks(path) {
            Ok(offset) => TreeError::Damaged(format!("{what}; its blocks are whole up to offset {offset}")),
            Err(_) => TreeError::Damaged(what),
        },
        error => error,
    })
}

/// Bytes at the beginning of a table that are blocks which match their checksums.
fn whole_blocks(path: &Path) -> io::Result<u64> {
    let file = open_file(path, false)?;
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
    let failed = failed("reading", path);
    let mut file = open_file(path, false).map_err(&failed)?;
    let mut sum = ChecksummedWriter::new(io::sink());
    let mut slice = vec![0; SLICE];
    loop {
        let length = file.read(&mut slice).map_err(&failed)?;
        if length == 0 {
            break;
        }
        sum.write_all(&slice[..length]).expect("a sink takes everything");
    }
    // It covers the whole file: where in that the damage lies it does not tell.
    if sum.checksum() == expected { Ok(()) } else { Err(damaged("does not match its checksum")) }
}

/// A directory of links to the files of a tree, for whoever is to change nothing. Goes when it is dropped.
///
/// The library removes what is in no version as it opens a tree. Where the newest version's name was lost or put back from
/// a copy, these are tables that a person may still need. In a mirror it removes links.
pub(super) struct Mirror(PathBuf);

impl Mirror {
    /// Links to all files of a directory and of those in it, in a directory of its own for what is temporary.
    pub fn of(directory: &Path) -> Result<Mirror, TreeError> {
        let mirror = Mirror::make().map_err(TreeError::NoMirror)?;
        link_all(&fs::canonicalize(directory).map_err(failed("reading", directory))?, &mirror.0)?;
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

fn link_all(from: &Path, to: &Path) -> Result<(), TreeError> {
    let failed = failed("reading", from);
    for entry in fs::read_dir(from).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let link = to.join(entry.file_name());
        if entry.file_type().map_err(&failed)?.is_dir() {
            fs::create_dir(&link).map_err(TreeError::NoMirror)?;
            link_all(&entry.path(), &link)?;
        } else {
            symlink(entry.path(), link).map_err(TreeError::NoMirror)?;
        }
    }
    Ok(())
}
