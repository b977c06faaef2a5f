//! Files that have the header of a segment and the directory's number, and begin within another segment: what a directory
//! holds that was put together from copies of two times.
//!
//! Wherever one begins, a start refuses and names it, or nobody will ever look for anything behind that place in the segment
//! that it begins in.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::Core;
use millpond_core::command::Command;
use millpond_core::fact::FactLog;
use millpond_core::output::Extent;
use millpond_types::{Filter, NamespaceName};

use super::calls;
use super::workload::{SEGMENT, Workload, YEAR, checkpoint, delay, options, publish, state};
use crate::disk::Disk;
use crate::journal::segment::{SegmentHeader, segment_base, segment_name};
use crate::twin::{SECTOR, Seed, TwinDisk};
use crate::{Mark, OpenError, Opened, Scrubbed, Verdict, inspect_disk, open};

/// A directory in order, and what is true of it.
pub struct Whole {
    pub workload: Workload,
    pub files: BTreeMap<String, Vec<u8>>,
    /// Every message that is needed.
    pub blocks: BTreeMap<u64, Bytes>,
    pub end: u64,
}

/// What its checkpoint stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checkpoint {
    /// There is none.
    No,
    /// A segment that holds nothing that is needed.
    Idle,
    /// One that does. Before it is one too, then some that are gone, then others.
    Busy,
    /// The same, and it ends with the checkpoint.
    Full,
}

impl Whole {
    pub fn make(kind: Checkpoint) -> Whole {
        let mut workload = Workload::new(TwinDisk::new(SECTOR), 4);
        let mut opened = workload.open().unwrap();
        let mut seed = Seed::new(5);
        let needs = matches!(kind, Checkpoint::Busy | Checkpoint::Full);
        workload.publish_some(&mut opened, &mut seed, 2, needs);
        workload.publish_some(&mut opened, &mut seed, 40, false);
        workload.drain(&mut opened);
        if needs {
            workload.publish_some(&mut opened, &mut seed, 30, true);
        }
        workload.mark(&mut opened, Mark::Idle).unwrap();
        if kind != Checkpoint::No {
            checkpoint(&mut opened);
        }
        if kind == Checkpoint::Full {
            let body = vec![7; SEGMENT as usize - 5000];
            workload.turn(&mut opened, calls::publish(vec![calls::run("site/5", &[], [&body[..]])])).unwrap();
        }
        workload.publish_some(&mut opened, &mut seed, 20, false);
        workload.mark(&mut opened, Mark::Stop).unwrap();
        drop(opened);
        let mut opened = workload.open().unwrap();
        workload.publish_some(&mut opened, &mut seed, 3, false);
        workload.mark(&mut opened, Mark::Stop).unwrap();
        let mut blocks = BTreeMap::new();
        opened.core.extents(&mut |_, extent: Extent| {
            blocks.insert(extent.position, opened.reader.read(extent).unwrap());
        });
        let (end, at) = (opened.appender.position(), opened.report.checkpoint);
        drop(opened);
        let mut files = workload.disk.snapshot();
        files.retain(|name, _| !name.starts_with("spare"));
        let base = files.keys().filter_map(|name| segment_base(name)).rfind(|base| *base < at);
        let is_needed = base.is_some_and(|base| blocks.range(base..at).next().is_some());
        assert_eq!(
            (is_needed, files.contains_key(&segment_name(at))),
            (needs, matches!(kind, Checkpoint::No | Checkpoint::Full))
        );
        Whole { workload, files, blocks, end }
    }

    fn disk(&self) -> TwinDisk {
        TwinDisk::from_snapshot(SECTOR, &self.files).with_tree_of(&self.workload.disk)
    }

    /// The directory with a file that begins there; `None` where a segment does.
    fn with_file_at(&self, base: u64) -> Option<(TwinDisk, String)> {
        let (disk, name) = (self.disk(), segment_name(base));
        if self.files.contains_key(&name) {
            return None;
        }
        let file = disk.create(&name).unwrap();
        file.write_at(0, &vec![0; 2 * SEGMENT as usize]).unwrap();
        let directory = options().identity.directory;
        SegmentHeader { start: 1, base, directory, length: None }.write(file.as_ref()).unwrap();
        Some((disk, name))
    }

    /// Whether a start refuses.
    fn judge(&self, (disk, name): (TwinDisk, String)) -> bool {
        let opened = match open::<Core>(Arc::new(disk.clone()), &options()) {
            Ok(opened) => opened,
            Err(OpenError::Overlap { file, .. }) => {
                assert!(file.ends_with(&name), "{name}: {file}");
                let mut told = Vec::new();
                let verdict = inspect_disk(Arc::new(disk), false, &mut told).unwrap();
                let told = String::from_utf8(told).unwrap();
                let mut damaged = told.lines().filter(|line| line.starts_with("DAMAGED"));
                assert!(verdict == Verdict::Damaged && damaged.any(|line| line.contains(&name)), "{name}: {told}");
                return true;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        self.is_all_in(&opened, &name);
        false
    }

    /// Holds what a start has found against what is true.
    pub fn is_all_in(&self, opened: &Opened, what: &str) {
        assert_eq!(opened.report.end, self.end, "{what}");
        let expected = self.workload.state_at(self.end).expect("a batch ended there");
        assert!(state(&opened.core) == *expected, "{what}: another state");
        opened.core.extents(&mut |_, extent| match opened.reader.read(extent) {
            Ok(block) => assert_eq!(self.blocks.get(&extent.position), Some(&block), "{what}"),
            Err(error) => panic!("{what}: a message that is needed: {error}"),
        });
    }
}

#[test]
fn a_file_that_begins_within_a_segment_is_refused_or_hides_nothing() {
    for kind in [Checkpoint::No, Checkpoint::Idle, Checkpoint::Busy, Checkpoint::Full] {
        let whole = Whole::make(kind);
        let (mut refused, mut harmless) = (0, 0);
        // Where batches begin, and anywhere.
        let at = (0..whole.end).step_by(8).filter(|at| at % 56 == 0 || whole.workload.state_at(*at).is_some());
        for found in at.filter_map(|at| whole.with_file_at(at)) {
            *(if whole.judge(found) { &mut refused } else { &mut harmless }) += 1;
        }
        assert!(refused > 200, "{refused} refused, {harmless} harmless");
        assert_eq!(harmless > 0, kind != Checkpoint::No, "{refused} refused, {harmless} harmless");
    }
}

/// What is needed of the journal before the checkpoint lies in its first segment, and the checkpoint in one that is gone.
#[test]
fn a_start_is_refused_where_the_segment_is_gone_that_the_checkpoint_stands_in() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 4);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(5);
    let mut pin = publish(&mut seed);
    delay(&mut pin, YEAR);
    workload.turn(&mut opened, pin).unwrap();
    for _ in 0..40 {
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
        workload.receive(&mut opened).unwrap();
        workload.ack(&mut opened).unwrap();
    }
    workload.checkpoint(&mut opened);
    workload.turn(&mut opened, publish(&mut seed)).unwrap();
    workload.mark(&mut opened, Mark::Stop).unwrap();
    assert_eq!(opened.reader.live().bases().count(), 2, "the pin, and what was published last");
    drop(opened);
    let mut files = workload.disk.snapshot();
    files.retain(|name, _| !name.ends_with(".journal") || *name == segment_name(0));
    let disk = TwinDisk::from_snapshot(SECTOR, &files).with_tree_of(&workload.disk);
    let opened = open::<Core>(Arc::new(disk), &options()).map(|opened| opened.report);
    assert!(matches!(opened, Err(OpenError::Missing { .. })), "{opened:?}");
}

#[test]
fn where_a_segment_ended_is_known_though_the_next_one_is_gone() {
    for kind in [Checkpoint::No, Checkpoint::Idle, Checkpoint::Busy, Checkpoint::Full] {
        let disk = Whole::make(kind).disk();
        let in_order = |is_in_use: bool| {
            let mut told = Vec::new();
            let verdict = inspect_disk(Arc::new(disk.clone()), false, &mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert_eq!((verdict, told.contains("in use ")), (Verdict::InOrder, is_in_use), "{told}");
        };
        in_order(false);
        let mut opened = open::<Core>(Arc::new(disk.clone()), &options()).unwrap();
        in_order(true);
        loop {
            match opened.housekeeper.scrub() {
                Scrubbed::Piece => {}
                Scrubbed::Pass => break,
                other => panic!("{other:?}"),
            }
        }
        // A checkpoint, and a crash before what nobody needs any more is taken back.
        opened.start(opened.report.now).unwrap();
        let purge = Command::Purge { namespace: NamespaceName::default(), filter: Filter::All, group: None };
        calls::turn(&mut opened, purge);
        assert_eq!(opened.reader.live().bases().count(), 0);
        opened.appender.checkpoint(&mut opened.core);
        while opened.appender.capture(&mut opened.core) {}
        let before = opened.store.tree().head();
        assert!(opened.housekeeper.step().unwrap() && opened.store.tree().head() != before);
        drop(opened);
        in_order(false);
    }
}
