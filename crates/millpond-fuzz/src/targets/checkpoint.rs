//! The checkpoint's files: a tree of entries whose files something was done to.
//!
//! The bytes are edits, an edit after another. Opening the tree, reading all of it or comparing it with its checksums says that it
//! is damaged, or all of it is as it was. Nothing panics, and no other entries come out of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::Unstructured;
use bytes::Bytes;
use millpond_core::store::Range;
use millpond_storage::tree::{CommitHead, LsmTree, Scanned, Tree, TreeError, TreeOptions};
use millpond_types::WallTime;
use tempfile::TempDir;

/// Edits of one tree.
const EDITS_MAX: usize = 6;
const OPTIONS: TreeOptions = TreeOptions { cache_bytes: 1 << 20, quiet: Duration::ZERO };

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A tree in order.
struct Good {
    files: Files,
    found: Found,
}

type Found = (Option<CommitHead>, Scanned);

/// Opens a tree, and reads it.
pub fn run(data: &[u8]) {
    static GOOD: OnceLock<Good> = OnceLock::new();
    let good = GOOD.get_or_init(Good::make);
    let (mut files, mut bytes) = (good.files.clone(), Unstructured::new(data));
    for _ in 0..EDITS_MAX {
        if edit(&mut bytes, &mut files, &good.files).is_err() {
            break;
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (name, bytes) in &files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
    if let Ok(found) = read(directory.path()) {
        // Without any file it is the empty tree of a directory that is new.
        let is_empty = found == (None, Scanned { entries: Vec::new(), complete: true });
        assert!(found == good.found || is_empty, "{} entries that nobody wrote", found.1.entries.len());
    }
}

fn read(directory: &Path) -> Result<Found, TreeError> {
    let tree = LsmTree::open(directory, OPTIONS)?;
    let found = tree.scan(&Range { from: vec![1], until: vec![255], limit: u32::MAX })?;
    tree.verify()?;
    Ok((tree.head(), found))
}

/// Does something to a file.
fn edit(from: &mut Unstructured<'_>, files: &mut Files, good: &Files) -> arbitrary::Result<()> {
    let kind = from.int_in_range(0..=6)?;
    let name = from.choose_iter(good.keys())?.clone();
    let other = from.choose_iter(good.keys())?.clone();
    let bytes = files.entry(name.clone()).or_default();
    let at = usize::from(from.arbitrary::<u16>()?) % (bytes.len() + 1);
    match kind {
        0 if at < bytes.len() => bytes[at] ^= 1 << from.int_in_range(0..=7)?,
        1 => {
            let value = from.arbitrary::<u64>()?.to_le_bytes();
            let length = [1, 2, 4, 8][from.int_in_range(0..=3)?].min(bytes.len() - at);
            bytes[at..at + length].copy_from_slice(&value[..length]);
        }
        2 => bytes.truncate(at),
        3 => _ = files.remove(&name),
        4 => _ = files.insert(name, good[&other].clone()),
        5 => {
            let length = from.int_in_range(0..=64)?;
            let more = from.bytes(length.min(from.len()))?.to_vec();
            bytes.splice(at..at, more);
        }
        _ => {
            let length = from.int_in_range(0..=256)?;
            *bytes = from.bytes(length.min(from.len()))?.to_vec();
        }
    }
    Ok(())
}

impl Good {
    /// Two commits, the first of them merged, so that there are tables of both kinds.
    fn make() -> Good {
        let directory = TempDir::new().expect("a directory");
        let tree = LsmTree::open(directory.path(), OPTIONS).expect("a fresh tree");
        for position in 1..=2u64 {
            let rest = Bytes::from_static(b"rest");
            let (epoch, wall) = (position + 1, WallTime(position));
            let head = CommitHead { position, epoch, start: 1, wall, directory: 5, rest };
            let entries = (0..60 * position).map(|at| (vec![2, at as u8], vec![position as u8; at as usize % 40]));
            let entries: BTreeMap<Vec<u8>, Vec<u8>> = entries.collect();
            let mut changes = entries.iter().map(|(key, value)| (&key[..], (key[1] % 7 != 0).then_some(&value[..])));
            tree.commit(&head, &mut changes).expect("a disk in order");
            if position == 1 {
                while tree.compact_step().expect("a disk in order") {}
            }
        }
        drop(tree);
        // A start removes old versions.
        let found = read(directory.path()).expect("a tree in order");
        let mut files = Files::new();
        collect(directory.path(), directory.path(), &mut files);
        Good { files, found }
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("below its root").to_path_buf();
            files.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
}
