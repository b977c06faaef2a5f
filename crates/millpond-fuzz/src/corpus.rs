//! The kept inputs of each target, in `fuzz/corpus`.

use std::path::{Path, PathBuf};

/// The folder of a target's inputs.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// The inputs of a target with their files, in the order of their names.
pub fn read(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder that was opened").path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file, bytes)
    };
    files.into_iter().map(read).collect()
}
