//! Directories that fuzzing came upon, and no other test: each once made a start panic.

use std::sync::Arc;

use millpond_core::Core;

use super::workload::options;
use crate::journal::segment::SEGMENT_HEADER;
use crate::open;
use crate::twin::{SECTOR, TwinDisk};

/// The first batch of the start wanted another segment, which has the same name as the one that it did not fit into.
#[test]
fn a_last_segment_that_was_cut_to_its_header_is_begun_anew() {
    let disk = TwinDisk::new(SECTOR);
    drop(open::<Core>(Arc::new(disk.clone()), &options()).unwrap());
    let mut files = disk.snapshot();
    files.get_mut("0000000000000000.journal").unwrap().truncate(SEGMENT_HEADER as usize);
    let disk = TwinDisk::from_snapshot(SECTOR, &files);
    let opened = open::<Core>(Arc::new(disk.clone()), &options()).unwrap();
    assert!(opened.report.fresh, "{:?}", opened.report);
    drop(opened);
    assert!(!open::<Core>(Arc::new(disk), &options()).unwrap().report.fresh);
}
