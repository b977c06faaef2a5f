//! The storage with the real core on a real directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, Ticket};
use millpond_core::fact::FactLog;
use millpond_core::output::{Extent, Output, Reply};
use millpond_core::page::{DedupPage, Page};
use millpond_core::store::{Key, Shelf, Store};
use millpond_core::{Core, Now};
use millpond_types::block::{self};
use millpond_types::{MessageId, Priority, RunTime, Sequence, TopicNumber, WallTime};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::calls::{self, receive};
use super::golden::{copy, lengthen as fill_up};
use super::restart::stop;
use super::workload::{checkpoint, state};
use crate::disk::Disk;
use crate::{Mark, OpenError, OpenOptions, Opened, RealDisk, Verdict, inspect, open};

fn options() -> OpenOptions {
    OpenOptions { segment_bytes: 64 * 1024, checkpoint_after: 256 * 1024, ..OpenOptions::default() }
}

fn open_at(directory: &Path) -> Result<Opened, OpenError> {
    open(Arc::new(RealDisk::create(directory).unwrap()), &options())
}

fn publish(count: u32, size: usize) -> Command {
    let bodies: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; size]).collect();
    calls::publish(vec![calls::run("site/a", &[], bodies.iter().map(|body| &body[..]))])
}

/// A turn with one command, made durable.
fn turn(opened: &mut Opened, time: u64, command: Command) -> Vec<Output> {
    let now = Now { run: RunTime(time), wall: WallTime(time) };
    let Opened { core, appender, committer, .. } = opened;
    core.set_time(now);
    core.submit(Ticket(time), command, appender);
    core.advance(appender);
    core.dispatch(appender);
    appender.hold(core.holdings());
    if let Some(batch) = appender.seal(now) {
        committer.write(batch).unwrap();
        committer.sync().unwrap();
    }
    core.outputs().drain(..).collect()
}

fn extent_of(outputs: &[Output]) -> Extent {
    match outputs {
        [Output::Reply { reply: Reply::Received(runs), .. }] => runs[0].extent,
        other => panic!("expected a delivery, got {other:?}"),
    }
}

#[test]
fn messages_survive_a_restart_and_are_read_from_memory_and_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open_at(directory.path()).unwrap();
    assert!(opened.report.fresh);
    opened.core.start(Now::default(), false, &mut opened.appender);
    for i in 1..=40 {
        turn(&mut opened, i, publish(10, 700));
    }
    let extent = extent_of(&turn(&mut opened, 50, receive(3)));
    let in_memory = opened.reader.read(extent).unwrap();
    let pages = opened.core.pages().collect::<Vec<_>>();
    drop(opened);

    let mut opened = open_at(directory.path()).unwrap();
    assert!(!opened.report.fresh && !opened.report.orderly);
    assert_eq!(opened.report.start, 2);
    assert_eq!(opened.core.pages().skip(1).collect::<Vec<_>>(), pages[1..]);
    opened.core.start(opened.report.now, true, &mut opened.appender);
    assert_eq!(opened.reader.read(extent).unwrap(), in_memory, "from the file now");
    assert_eq!(block::messages(&in_memory).count(), 3);
}

#[test]
fn an_orderly_stop_is_known_and_marks_are_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open_at(directory.path()).unwrap();
    turn(&mut opened, 1, publish(1, 24));
    let now = opened.core.now();
    for mark in [Mark::Idle, Mark::Stop] {
        let batch = opened.appender.mark(now, mark).unwrap();
        opened.committer.write(batch).unwrap();
        opened.committer.sync().unwrap();
        assert!(opened.appender.mark(now, mark).is_none());
    }
    let end = opened.appender.position();
    drop(opened);
    let report = open_at(directory.path()).unwrap().report;
    assert!(report.orderly);
    assert_eq!((report.end, report.torn, report.now), (end, None, now));
    assert!(!open_at(directory.path()).unwrap().report.orderly, "the start before was not stopped");
}

#[test]
fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open_at(directory.path()).unwrap();
    let error = open_at(directory.path()).err().unwrap();
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    let reader = opened.reader.clone();
    drop(opened);
    open_at(directory.path()).expect("a reader alone holds nothing up");
    drop(reader);
}

/// A pipe that is named like a segment is told by a start and by an inspection, and holds up neither.
#[test]
fn a_pipe_in_the_place_of_a_segment_is_told() {
    let directory = tempfile::tempdir().unwrap();
    turn(&mut open_at(directory.path()).unwrap(), 1, publish(1, 24));
    let pipe = directory.path().join("0000000000000800.journal");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let error = open_at(directory.path()).err().unwrap().to_string();
    assert!(error.contains(pipe.to_str().unwrap()) && error.contains("pipe"), "{error}");
    let (told, is_told) = channel();
    let place = directory.path().to_path_buf();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        told.send((inspect(&place, false, &mut text).unwrap(), String::from_utf8(text).unwrap()))
    });
    let (verdict, text) = is_told.recv_timeout(Duration::from_secs(10)).expect("it does not wait for the pipe");
    assert!(verdict == Verdict::Damaged && text.contains("pipe"), "{text}");
}

/// So is one in the place of a file of the checkpoint, and a file there that has become too long to be read. What cannot be read
/// a start refuses; what is damaged it makes anew, for the journal reaches back to the first batch here.
#[test]
fn what_is_no_file_of_a_checkpoint_is_told() {
    let whole = tempfile::tempdir().unwrap();
    let mut opened = open_at(whole.path()).unwrap();
    opened.start(Now::default()).unwrap();
    turn(&mut opened, 1, publish(1, 24));
    checkpoint(&mut opened);
    stop(opened);
    let current = std::fs::read(whole.path().join("tree/current")).unwrap();
    let version = format!("tree/v{}", u64::from_le_bytes(*current.first_chunk().unwrap()));
    let table = std::fs::read_dir(whole.path().join("tree/tables")).unwrap().next().unwrap().unwrap().file_name();
    let table = format!("tree/tables/{}", table.display());
    let pipe = |place: &Path| {
        std::fs::remove_file(place).unwrap();
        mknodat(CWD, place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    };
    let lengthen =
        |place: &Path| std::fs::OpenOptions::new().write(true).open(place).unwrap().set_len(1 << 40).unwrap();
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path), &'a str, bool);
    let damages: [Damage<'_>; 4] = [
        ("tree/current", &pipe, "pipe", false),
        (&version, &pipe, "pipe", false),
        (&table, &pipe, "no table", true),
        ("tree/current", &lengthen, "ends at offset 1099511627776", true),
    ];
    for (name, damage, words, is_made_anew) in damages {
        let directory = tempfile::tempdir().unwrap();
        copy(whole.path(), directory.path());
        fill_up(directory.path());
        let place = directory.path().join(name);
        damage(&place);
        let (told, is_told) = channel();
        let from = directory.path().to_path_buf();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let verdict = inspect(&from, false, &mut text).unwrap();
            let refused = open_at(&from).err().map(|error| error.to_string());
            told.send((verdict, String::from_utf8(text).unwrap(), refused))
        });
        let (verdict, text, refused) = is_told.recv_timeout(Duration::from_secs(10)).expect("nobody waits for it");
        assert_eq!((verdict, refused.is_none()), (Verdict::Damaged, is_made_anew), "{refused:?}");
        for said in refused.iter().chain([&text]) {
            assert!(said.contains(place.to_str().unwrap()) && said.contains(words), "{said}");
        }
        assert_eq!(
            directory.path().join("tree.damaged").exists(),
            is_made_anew,
            "it is kept for whoever wants to look"
        );
    }
}

/// One broker writes to a directory, whatever files of it are removed meanwhile.
#[test]
fn no_file_that_is_removed_lets_another_broker_in() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open_at(directory.path()).unwrap();
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let elsewhere = tempfile::tempdir_in(directory.path().parent().unwrap()).unwrap();
    for entry in entries {
        let aside = elsewhere.path().join("aside");
        std::fs::rename(&entry, &aside).unwrap();
        let error = open_at(directory.path()).err();
        assert!(matches!(error, Some(OpenError::InUse(_))), "without {}: {error:?}", entry.display());
        std::fs::rename(&aside, &entry).unwrap();
    }
    drop(opened);
    open_at(directory.path()).unwrap();
}

#[test]
fn a_directory_that_is_emptied_is_not_there_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::create(directory.path()).unwrap();
    let lock = disk.lock().unwrap();
    std::fs::write(directory.path().join("FORMAT"), "").unwrap();
    disk.is_still_there().unwrap();
    std::fs::remove_file(directory.path().join("FORMAT")).unwrap();
    assert_eq!(disk.is_still_there().unwrap_err().kind(), std::io::ErrorKind::NotFound);
    drop(lock);
}

#[test]
fn a_directory_that_is_not_ours_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("letter.txt"), "dear").unwrap();
    let error = open_at(directory.path()).err().unwrap();
    assert!(matches!(&error, OpenError::NotOurs { file, .. } if file == "letter.txt"), "{error}");
}

#[test]
fn a_newer_format_and_missing_files_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    turn(&mut open_at(directory.path()).unwrap(), 1, publish(1, 24));
    let format = directory.path().join("FORMAT");
    let text = std::fs::read_to_string(&format).unwrap();
    std::fs::write(&format, text.replace("format 1", "format 2")).unwrap();
    let error = open_at(directory.path()).err().unwrap();
    assert!(error.to_string().contains("newer version"), "{error}");
    std::fs::remove_file(&format).unwrap();
    let error = open_at(directory.path()).err().unwrap();
    assert!(matches!(error, OpenError::FormatMissing(_)), "{error}");
    std::fs::write(&format, text).unwrap();
    std::fs::remove_file(directory.path().join("0000000000000000.journal")).unwrap();
    let error = open_at(directory.path()).err().unwrap();
    assert!(matches!(error, OpenError::Missing { position: 0, .. }), "{error}");
}

#[test]
fn a_journal_that_rests_is_checkpointed_earlier() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open_at(directory.path()).unwrap();
    opened.core.start(Now::default(), false, &mut opened.appender);
    turn(&mut opened, 1, publish(1, 100));
    assert!(!opened.appender.checkpoint_due(&opened.core, true), "there is next to nothing to replay");
    turn(&mut opened, 2, publish(50, 900));
    assert!(opened.appender.checkpoint_due(&opened.core, true));
    assert!(!opened.appender.checkpoint_due(&opened.core, false));
    checkpoint(&mut opened);
    assert!(!opened.appender.checkpoint_due(&opened.core, true));
}

/// Looks have pieces of lines brought into memory and put back, without a fact.
#[test]
fn what_the_store_holds_makes_a_checkpoint_due_where_the_journal_has_not_grown() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { young_bytes: 16 * 1024, ..options() };
    let open_again = || open::<Core>(Arc::new(RealDisk::create(directory.path()).unwrap()), &options).unwrap();
    let mut opened = open_again();
    opened.core.start(Now::default(), false, &mut opened.appender);
    turn(&mut opened, 1, publish(1, 100));
    checkpoint(&mut opened);
    let position = opened.appender.position();
    for hash in 0..1000 {
        assert!(!opened.appender.checkpoint_due(&opened.core, false), "there is room for more than {hash}");
        let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
        let page = Page::Dedup(DedupPage { namespace: 0, hash, id, until: WallTime::NEVER });
        opened.store.put(&Key::of(&page, Shelf::Idle), &page);
        if opened.store.young().bytes >= options.young_bytes {
            break;
        }
    }
    assert!(opened.appender.checkpoint_due(&opened.core, false), "nothing else makes room");
    let pages = state(&opened.core);
    checkpoint(&mut opened);
    assert_eq!((opened.appender.position(), opened.store.memory().young), (position, 0));
    assert!(!opened.appender.checkpoint_due(&opened.core, true), "one was enough");
    drop(opened);
    let opened = open_again();
    assert_eq!(opened.report.checkpoint, position);
    assert!(state(&opened.core) == pages);
}

#[test]
fn a_checkpoint_lets_dead_segments_go_and_is_started_from() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open_at(directory.path()).unwrap();
    opened.core.start(Now::default(), false, &mut opened.appender);
    let mut time = 0;
    while !opened.appender.checkpoint_due(&opened.core, false) {
        time += 1;
        turn(&mut opened, time, publish(10, 700));
        for run in match turn(&mut opened, time, receive(1000)).pop() {
            Some(Output::Reply { reply: Reply::Received(runs), .. }) => runs,
            other => panic!("expected a delivery, got {other:?}"),
        } {
            let receipts = vec![ReceiptRun { first: run.receipt, count: run.count }];
            let verb = FinishVerb::Ack;
            turn(&mut opened, time, Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
        }
    }
    let segments = |suffix: &str| {
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(suffix)).count()
    };
    assert!(segments(".journal") > 3);
    checkpoint(&mut opened);
    assert_eq!(segments(".journal"), 1);
    turn(&mut opened, time + 1, publish(2, 5));
    let pages = state(&opened.core);
    drop(opened);
    let opened = open_at(directory.path()).unwrap();
    assert!(opened.report.checkpoint > 0 && opened.report.batches < 3);
    assert_eq!(state(&opened.core), pages);
}
