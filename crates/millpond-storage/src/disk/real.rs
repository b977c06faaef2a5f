//! A directory of the file system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::retry_on_intr;

use super::{DirectoryLock, Disk, DiskFile, LockError, Preallocate, TREE};
use crate::format::FORMAT;
use crate::tree::{LsmTree, MemoryTree, Tree, TreeError, TreeOptions};

/// Bytes that a filling preallocation writes between two syncs: a journal's own sync waits for one slice at most.
const FILL_SLICE: usize = 1024 * 1024;
/// Where a damaged tree is kept for whoever wants to look.
const TREE_ASIDE: &str = "tree.damaged";

/// A directory of the file system.
pub struct RealDisk {
    directory: PathBuf,
    read_only: bool,
    /// Device and number of the directory that was locked; it is open for as long, so nothing else gets them.
    locked: OnceLock<(u64, u64)>,
}

impl RealDisk {
    /// Uses a directory, which is made if it is not there.
    pub fn create(directory: &Path) -> io::Result<RealDisk> {
        make_durably(directory)?;
        Ok(RealDisk { directory: directory.to_path_buf(), read_only: false, locked: OnceLock::new() })
    }

    /// Uses a directory that is there, for reading alone.
    pub fn read_only(directory: &Path) -> io::Result<RealDisk> {
        std::fs::read_dir(directory)?;
        Ok(RealDisk { directory: directory.to_path_buf(), read_only: true, locked: OnceLock::new() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Opens a file. What is none, and may keep whoever reads it waiting for ever, is refused.
pub(crate) fn open_file(path: &Path, for_writing: bool) -> io::Result<File> {
    // Opening a pipe would wait for whoever is at its other end.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).write(for_writing).custom_flags(flags).open(path)?;
    // To read a directory fails, as it does of a file on a bad disk, and is told there.
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other("it is a pipe, a device or the like, and no file: move it away"));
    }
    Ok(file)
}

/// Makes a directory, and those that it lies in, where they are not there. What is in one of them is not found after a power cut
/// that takes its name away.
fn make_durably(directory: &Path) -> io::Result<()> {
    let missing = directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let missing: Vec<&Path> = missing.collect();
    std::fs::create_dir_all(directory)?;
    for made in missing {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.path(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(open_file(&self.path(name), !self.read_only)?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into()));
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.sort();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn lock(&self) -> Result<DirectoryLock, LockError> {
        // The directory itself: no file in it can be removed or put back so that another one is locked beside.
        let directory = File::open(&self.directory)?;
        match directory.try_lock() {
            Ok(()) => {
                let metadata = directory.metadata()?;
                // A disk is locked once, or again when its lock was let go; where its path leads elsewhere by then, it is
                // not there any more.
                let _ = self.locked.set((metadata.dev(), metadata.ino()));
                Ok(Box::new(directory))
            }
            Err(TryLockError::WouldBlock) => Err(LockError::InUse),
            Err(TryLockError::Error(error)) => Err(LockError::Io(error)),
        }
    }

    fn is_still_there(&self) -> io::Result<()> {
        let found = std::fs::metadata(&self.directory).map(|metadata| (metadata.dev(), metadata.ino()));
        // What it holds may be gone while it stays itself.
        match found.and_then(|found| self.path(FORMAT).symlink_metadata().map(|_| found)) {
            Ok(found) if self.locked.get().is_none_or(|locked| *locked == found) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it, or its file FORMAT, was removed or replaced while the broker was running, and with it maybe all of it",
            )),
        }
    }

    fn tree(&self, options: TreeOptions) -> Result<Arc<dyn Tree>, TreeError> {
        // Opening makes a tree where there is none.
        if self.read_only && !self.path(TREE).exists() {
            return Ok(Arc::new(MemoryTree::default()));
        }
        let open = if self.read_only { LsmTree::open_read_only } else { LsmTree::open };
        Ok(Arc::new(open(&self.path(TREE), options)?))
    }

    fn set_tree_aside(&self) -> io::Result<()> {
        let aside = self.path(TREE_ASIDE);
        let removed = match aside.symlink_metadata() {
            Ok(there) if there.is_dir() => std::fs::remove_dir_all(&aside),
            Ok(_) => std::fs::remove_file(&aside),
            Err(error) => Err(error),
        };
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
        match std::fs::rename(self.path(TREE), aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync_dir(),
        }
    }

    fn place(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// Bytes of one write. The page cache takes in a large write by large pieces of memory, which are rarely at hand: writes of
/// this size took half the processor time of writes of whole batches (`millpond bench publish --size 1024
/// --connections 8`: 1.2 to 1.4 µs a message against 2.2 to 2.7 µs; Linux 6.18 in a virtual machine, 2026-11-21).
const WRITE_MAX: usize = 128 * 1024;

struct RealFile(File);

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (piece, at) in bytes.chunks(WRITE_MAX).zip((offset..).step_by(WRITE_MAX)) {
            self.0.write_all_at(piece, at)?;
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn preallocate(&self, length: u64, how: Preallocate) -> io::Result<()> {
        // A machine that is suspended in the middle interrupts it, and that is no failure of the disk.
        match retry_on_intr(|| fallocate(&self.0, FallocateFlags::empty(), 0, length)) {
            Ok(()) if how == Preallocate::Reserved => return self.0.sync_data(),
            // A file system that cannot set space aside gives it to what is written.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let zeros = vec![0; FILL_SLICE];
        let mut offset = 0;
        while offset < length {
            let slice = (length - offset).min(FILL_SLICE as u64);
            self.0.write_all_at(&zeros[..slice as usize], offset)?;
            self.0.sync_data()?;
            offset += slice;
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
