//! A small file system in a file, which can fill, be made read-only, and fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::broker::{Said, is_left_out};

pub struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// One of so many MiB, its own tables included. Nothing where the tests were told to do without.
    pub fn mount(size: u64) -> Option<SmallDisk> {
        if is_left_out("loop") {
            return None;
        }
        let disk = SmallDisk { directory: TempDir::new().expect("there is room for a directory") };
        std::fs::create_dir(disk.place()).unwrap();
        std::fs::File::create(disk.image()).and_then(|image| image.set_len(size << 20)).unwrap();
        // Nothing is kept back for root, who may be running this.
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(disk.image()));
        disk.attach();
        Some(disk)
    }

    /// A path on it.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.place().join(name)
    }

    pub fn remount(&self, how: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(self.place()));
    }

    /// As when the file system finds an error of the disk below it.
    pub fn fail(&self) {
        self.remount("abort");
    }

    /// As an operator would.
    pub fn repair(&self) {
        run(Command::new("umount").arg(self.place()));
        // It ends with 1 when it has mended something.
        Command::new("e2fsck").args(["-p"]).arg(self.image()).output().expect("it comes with mkfs.ext4");
        self.attach();
    }

    fn place(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn attach(&self) {
        run(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(self.image()).arg(self.place()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the broker in the test may be dropped after this.
        let _ = Command::new("umount").arg("-l").arg(self.place()).status();
    }
}

fn run(command: &mut Command) {
    let said = Said::of(command.output().expect("there is such a program"));
    assert_eq!(said.code, 0, "no disk in a file (MILLPOND_TEST_WITHOUT=loop): {said:?}");
}
