//! Directories that fuzzing came upon, and no other test: each once made a start panic.

use std::sync::Arc;

use millpond_core::Core;
use millpond_core::fact::FactLog;
use millpond_types::{RunTime, WallTime};

use super::workload::{SEGMENT, options};
use crate::disk::Disk;
use crate::journal::batch::{BatchHeader, HEADER};
use crate::journal::segment::{SEGMENT_HEADER, SegmentHeader};
use crate::open;
use crate::twin::{SECTOR, TwinDisk};

/// The first batch of the start wanted another segment, which has the same name as the one that it did not fit into.
#[test]
fn a_last_segment_that_was_cut_to_its_header_is_begun_anew() {
    let disk = TwinDisk::new(SECTOR);
    drop(open::<Core>(Arc::new(disk.clone()), &options()).unwrap());
    let (name, directory) = ("0000000000000000.journal", options().identity.directory);
    let file = disk.create(name).unwrap();
    // Of an older version: else it is known that it was cut.
    SegmentHeader { start: 0, base: 0, directory, length: None }.write(file.as_ref()).unwrap();
    let disk = TwinDisk::from_snapshot(SECTOR, &disk.snapshot());
    let opened = open::<Core>(Arc::new(disk.clone()), &options()).unwrap();
    assert!(opened.report.fresh, "{:?}", opened.report);
    drop(opened);
    assert!(!open::<Core>(Arc::new(disk), &options()).unwrap().report.fresh);
}

/// The position behind its first batch was no number any more.
#[test]
fn a_file_that_begins_where_no_journal_reaches_is_no_segment() {
    let disk = TwinDisk::new(SECTOR);
    let opened = open::<Core>(Arc::new(disk.clone()), &options()).unwrap();
    let end = opened.appender.position();
    drop(opened);
    let (base, directory) = (u64::MAX - 63, options().identity.directory);
    let file = disk.create(&format!("{base:016x}.journal")).unwrap();
    SegmentHeader { start: 1, base, directory, length: None }.write(file.as_ref()).unwrap();
    let header = BatchHeader {
        length: 0,
        facts: 0,
        position: base,
        durable: 0,
        run: RunTime(1),
        wall: WallTime(1),
        start: 1,
        flags: 0,
        payload_checksum: 0,
    };
    file.write_at(SEGMENT_HEADER, &header.bytes(directory)).unwrap();
    assert_eq!(header.total(), HEADER as u64);
    assert_eq!(open::<Core>(Arc::new(disk), &options()).unwrap().report.end, end);
}

/// There was no number above that of the file.
#[test]
fn a_spare_with_the_last_number_that_there_is_counts_for_nothing() {
    let disk = TwinDisk::new(SECTOR);
    drop(open::<Core>(Arc::new(disk.clone()), &options()).unwrap());
    for name in ["spare-18446744073709551615", "spare-18446744073709551616", "spare-", "spare--1", "spare-07"] {
        for other in disk.list().unwrap().iter().filter(|name| name.starts_with("spare")) {
            disk.remove(other).unwrap();
        }
        disk.create(name).unwrap().set_len(SEGMENT).unwrap();
        drop(open::<Core>(Arc::new(disk.clone()), &options()).unwrap());
        let spares = disk.list().unwrap().into_iter().filter(|name| name.starts_with("spare")).collect::<Vec<_>>();
        assert!(!spares.iter().any(|spare| spare == name) && !spares.is_empty(), "{spares:?}");
    }
}
