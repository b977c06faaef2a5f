//! What an inspection tells.

use std::sync::Arc;

use millpond_core::command::Ticket;

use crate::disk::Disk;
use crate::twin::{SECTOR, Seed, TwinDisk};
use crate::{Mark, Opened, Verdict, inspect_disk, open};

use super::workload::{Workload, options, publish};

fn tell(disk: &TwinDisk, facts: bool) -> (Verdict, String) {
    let before = (disk.operations(), disk.snapshot());
    let mut out = Vec::new();
    let verdict = inspect_disk(Arc::new(disk.clone()), facts, &mut out).unwrap();
    assert!(before == (disk.operations(), disk.snapshot()), "an inspection changes nothing");
    (verdict, String::from_utf8(out).unwrap())
}

/// A directory with a checkpoint, and messages before and after it.
fn made() -> TwinDisk {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 4);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(5);
    for _ in 0..30 {
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
    }
    workload.checkpoint(&mut opened);
    workload.turn(&mut opened, publish(&mut seed)).unwrap();
    workload.mark(&mut opened, Mark::Idle).unwrap();
    let (verdict, told) = tell(&workload.disk, false);
    assert_eq!(verdict, Verdict::InOrder);
    assert!(told.contains("in use "), "{told}");
    workload.mark(&mut opened, Mark::Stop).unwrap();
    workload.disk
}

#[test]
fn a_directory_in_order_is_told_whole() {
    let (verdict, told) = tell(&made(), true);
    assert_eq!(verdict, Verdict::InOrder, "{told}");
    for part in [
        "directory ",
        "checkpoint ",
        "segment ",
        "Created {",
        "with a block of",
        "live ",
        " stop",
        "stopped in good order",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!told.contains("in use") && !told.contains("DAMAGED"));
    assert!(!tell(&made(), false).1.contains("Created {"));
}

#[test]
fn damage_is_told_with_file_and_offset_wherever_it_is() {
    let disk = made();
    let names = disk.snapshot();
    let segments = names.keys().filter(|name| name.ends_with(".journal")).collect::<Vec<_>>();
    // A body before the checkpoint, which opening would not look at; the same while a broker runs; the last facts.
    let last = segments[segments.len() - 1];
    for (name, offset, in_use) in
        [(segments[0], 4096 + 700, false), (segments[0], 4096 + 700, true), (last, 4096 + 100, false)]
    {
        let disk = TwinDisk::from_snapshot(SECTOR, &names).with_tree_of(&disk);
        let _lock = in_use.then(|| disk.lock().unwrap());
        disk.flip(name, offset, 1);
        let (verdict, told) = tell(&disk, false);
        assert_eq!(verdict, Verdict::Damaged, "{name}: {told}");
        let line = told.lines().find(|line| line.starts_with("DAMAGED")).unwrap();
        assert!(line.contains(name.as_str()) && line.contains("offset"), "{line}");
    }
}

#[test]
fn a_torn_tail_is_in_order_and_told() {
    let disk = made();
    let last = disk.snapshot().into_keys().rfind(|name| name.ends_with(".journal")).unwrap();
    let bytes = disk.bytes(&last);
    let told = tell(&disk, false).1;
    let end: usize = told.split("(offset ").last().unwrap().split(')').next().unwrap().parse().unwrap();
    assert!(end < bytes.len());
    let mut opened: Opened = open(Arc::new(disk.clone()), &options()).unwrap();
    opened.core.start(opened.report.now, false, &mut opened.appender);
    opened.core.submit(Ticket(1), publish(&mut Seed::new(8)), &mut opened.appender);
    opened.store.supply(&mut opened.core, &mut opened.appender).unwrap();
    let batch = opened.appender.seal(opened.core.now()).unwrap();
    opened.committer.write(batch).unwrap();
    opened.committer.sync().unwrap();
    drop(opened);
    // The start's mark stands before the batch.
    disk.flip(&last, end as u64 + 64 + 80, 0);
    let (verdict, told) = tell(&disk, false);
    assert_eq!(verdict, Verdict::InOrder, "{told}");
    assert!(told.contains("torn tail"), "{told}");
}
