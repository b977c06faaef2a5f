//! The file `SALVAGE-UNFINISHED`: a salvage is filling the directory, or was cut short. What it holds is a part, and looks whole.
//!
//! It is there, durably, before anything else of the directory is, and goes when all of it is durable. Nothing but a salvage
//! opens a directory in which it is. It holds a sentence for a person.

use std::io;

use crate::OpenError;
use crate::disk::Disk;

/// The file's name.
pub const UNFINISHED: &str = "SALVAGE-UNFINISHED";

/// A salvage into a directory begins.
pub fn begin(disk: &dyn Disk) -> io::Result<()> {
    let file = disk.create(UNFINISHED)?;
    file.write_at(0, format!("{}\n", OpenError::Unfinished(disk.place(""))).as_bytes())?;
    file.sync()?;
    disk.sync_dir()
}

/// Whether one began and was not finished.
pub fn is_there(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.list()?.iter().any(|name| name == UNFINISHED))
}

/// All that it brings is durable.
pub fn end(disk: &dyn Disk) -> io::Result<()> {
    disk.remove(UNFINISHED)?;
    disk.sync_dir()
}
