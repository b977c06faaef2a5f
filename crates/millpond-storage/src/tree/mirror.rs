//! A directory of links to the files of a tree, for whoever is to change nothing.
//!
//! The library removes what is in no version as it opens a tree. Where the newest version's name was lost or put back from
//! a copy, these are tables that a person may still need. In a mirror it removes links.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module. Goes when it is dropped.
pub(super) struct Mirror(PathBuf);

impl Mirror {
    /// Links to all files of a directory and of those in it, in a directory of its own for what is temporary.
    pub fn of(directory: &Path) -> io::Result<Mirror> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mirror = std::env::temp_dir().join(format!("millpond-{}-{number}", std::process::id()));
        let failed = |error: io::Error| {
            let place = mirror.display();
            io::Error::new(error.kind(), format!("making {place}, for links to the checkpoint, failed: {error}"))
        };
        fs::create_dir(&mirror).map_err(failed)?;
        let mirror = Mirror(mirror);
        link_all(&fs::canonicalize(directory)?, &mirror.0)?;
        Ok(mirror)
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
