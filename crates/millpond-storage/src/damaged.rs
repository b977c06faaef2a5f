//! The file `CHECKPOINT-DAMAGED`: a broker has met damage in the tree while it was running.
//!
//! A start reads of the tree what it needs, and that is little; so it would go on again with a tree whose damage lies
//! elsewhere, and be met by it again. Where the file is, a start reads all of the tree before it goes on, and does with
//! damage what it does with any that it finds.
//!
//! It holds a sentence for a person. A start asks only whether it is there: meanwhile the tree may have been put back from a
//! copy, and then the file goes, as it does when the tree was made anew.

use std::io;

use millpond_core::store::Range;

use crate::disk::Disk;
use crate::store::decoded;
use crate::tree::{Tree, TreeError};

/// The file's name.
pub const NOTE: &str = "CHECKPOINT-DAMAGED";
/// More than the file ever has.
const LENGTH_MAX: u64 = 4096;
/// Entries that are read at a time.
const SLICE: u32 = 4096;

/// Leaves the note, durably.
pub fn leave(disk: &dyn Disk, what: &str) -> io::Result<()> {
    let file = disk.create(NOTE)?;
    file.write_at(0, format!("{what}\n").as_bytes())?;
    file.sync()?;
    disk.sync_dir()
}

/// Whether there is a note.
pub fn is_noted(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.list()?.iter().any(|name| name == NOTE))
}

/// What the note says, if there is one.
pub fn read(disk: &dyn Disk) -> io::Result<Option<String>> {
    if !is_noted(disk)? {
        return Ok(None);
    }
    let file = disk.open(NOTE)?;
    let mut bytes = vec![0; file.length()?.min(LENGTH_MAX) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()))
}

/// Takes the note back.
pub fn forget(disk: &dyn Disk) -> io::Result<()> {
    disk.remove(NOTE)?;
    disk.sync_dir()
}

/// Reads every byte and every entry of a tree.
pub fn look_through(tree: &dyn Tree) -> Result<(), TreeError> {
    tree.verify()?;
    let mut from = vec![1];
    loop {
        let scanned = tree.scan(&Range { from, until: vec![u8::MAX], limit: SLICE })?;
        for (key, value) in &scanned.entries {
            decoded(key, value)?;
        }
        match scanned.entries.last() {
            Some((last, _)) if !scanned.complete => from = [&last[..], &[0]].concat(),
            _ => return Ok(()),
        }
    }
}
