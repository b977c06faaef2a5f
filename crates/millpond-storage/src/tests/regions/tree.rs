//! The files of a checkpoint, wounded in every way, and then a start and a read of everything: on real files, for it is the
//! real tree that has to notice.
//!
//! Where the journal is still whole from its beginning, a start puts a damaged tree aside, says with which file and what is
//! wrong, and everything reads as before. Where the checkpoint alone knew, it refuses and says the same. What it does not look
//! at is found when it is read. What never happens is a panic, or that anything else is read than what was written.

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use lsm_tree::coding::Decode;
use lsm_tree::table::block::Header;
use millpond_core::Core;
use millpond_core::command::Command;
use millpond_core::output::Extent;
use millpond_core::page::{NumbersPage, Page};
use millpond_core::store::{KeyBytes, Range};
use millpond_types::{Filter, NamespaceName, RunTime, TopicName, WallTime};
use tempfile::TempDir;

use super::wounds::{Regions, Wound, is_every_bit, wounds};
use super::{Files, offsets};
use crate::tests::calls::{self, turn};
use crate::tests::golden::{copy, lengthen};
use crate::tests::restart::stop;
use crate::tests::workload::{checkpoint, state};
use crate::tree::{Tree, TreeError, TreeOptions};
use crate::twin::Seed;
use crate::{OpenError, OpenOptions, Opened, RealDisk, open};

/// The segment that the journal begins with.
const FIRST: &str = "0000000000000000.journal";

/// A directory in order, and what is read of it.
struct Whole {
    /// The tree's files, by their names in it.
    tree: Files,
    /// All others.
    journal: Files,
    reading: Reading,
    /// What the tree holds.
    entries: Vec<(Bytes, Bytes)>,
    /// The files of the tree that its newest version needs; others may be there still.
    needed: BTreeSet<String>,
    /// One byte of so many is wounded, and one length of three times as many, unless it is all of them.
    one_of: usize,
}

/// All that the broker keeps.
#[derive(PartialEq)]
struct Reading {
    pages: Vec<Page>,
    bodies: Vec<Bytes>,
}

/// What came of all wounds.
#[derive(Default, Debug)]
struct Tally {
    wounds: u32,
    /// The start has refused.
    refused: u32,
    /// The start has made the tree anew.
    rebuilt: u32,
    /// A later read has found it.
    met: u32,
    /// Nobody reads those bytes but who reads all.
    unread: u32,
    /// They are of a file that nobody needs any more.
    unneeded: u32,
}

#[test]
fn no_wound_of_a_checkpoint_goes_unnoticed_while_the_journal_is_whole() {
    let Tally { rebuilt, refused, unneeded, .. } = Whole::golden().judge_all();
    assert!(rebuilt > 1_000 && refused == 0 && unneeded > 100, "{rebuilt}, {refused}, {unneeded}");
}

#[test]
fn no_wound_of_a_checkpoint_goes_unnoticed_where_it_alone_knew() {
    let Tally { rebuilt, refused, met, .. } = Whole::without_its_beginning().judge_all();
    assert!(rebuilt == 0 && refused > 10_000 && met > 100, "{rebuilt}, {refused}, {met}");
}

impl Tally {
    fn and(self, other: Tally) -> Tally {
        Tally {
            wounds: self.wounds + other.wounds,
            refused: self.refused + other.refused,
            rebuilt: self.rebuilt + other.rebuilt,
            met: self.met + other.met,
            unread: self.unread + other.unread,
            unneeded: self.unneeded + other.unneeded,
        }
    }
}

impl Whole {
    /// The directory of the golden tests: something of everything, on both sides of the checkpoint, and an older version's file.
    fn golden() -> Whole {
        let directory = fresh_directory();
        copy_golden(directory.path());
        Whole::of(directory.path(), 4)
    }

    /// The same, gone on with until its first segment was taken back; the tree has a large table and a small one.
    fn without_its_beginning() -> Whole {
        let directory = fresh_directory();
        copy_golden(directory.path());
        let mut opened = open_at(directory.path()).unwrap();
        opened.start(opened.report.now).unwrap();
        // What fills the first segment ends; what else is in it moves.
        let filter = Filter::Prefixes(vec![TopicName::try_from("old/line").unwrap()]);
        turn(&mut opened, Command::Purge { namespace: NamespaceName::default(), filter, group: None });
        while directory.path().join(FIRST).exists() {
            checkpoint(&mut opened);
            let moves = opened.mover.step().unwrap().commands;
            moves.into_iter().for_each(|command| drop(turn(&mut opened, command)));
        }
        assert!(opened.store.tree().sweep().unwrap());
        turn(&mut opened, calls::publish(vec![calls::run("last", &[], [&b"of all"[..]])]));
        checkpoint(&mut opened);
        stop(opened);
        // A start removes old versions.
        drop(open_at(directory.path()).unwrap());
        let whole = Whole::of(directory.path(), 1);
        assert_eq!(whole.tree.keys().filter(|name| name.starts_with("tables/")).count(), 2);
        whole
    }

    fn of(directory: &Path, one_of: usize) -> Whole {
        let (tree, journal) = (files(&directory.join("tree")), files(directory));
        let opened = open_at(directory).unwrap();
        let (reading, entries) = (Reading::of(&opened), opened.store.tree().scan(&everything()).unwrap().entries);
        drop(opened);
        let needed = files(&directory.join("tree")).into_keys().collect();
        Whole { tree, journal, reading, entries, needed, one_of }
    }

    /// Each wound, and what came of it.
    fn judge_all(&self) -> Tally {
        let mut seed = Seed::new(19);
        let wounds = Mutex::new(wounds(&self.tree, &mut seed, &|_, bytes| self.regions(bytes)));
        let judge = || {
            let mut tally = Tally::default();
            loop {
                let next = wounds.lock().unwrap().next();
                let Some(wound) = next else { return tally };
                self.judge(&wound, &mut tally);
            }
        };
        let judges = thread::available_parallelism().map_or(1, NonZero::get);
        let tally = thread::scope(|scope| {
            let judges: Vec<_> = (0..judges).map(|_| scope.spawn(judge)).collect();
            judges.into_iter().map(|judge| judge.join().unwrap()).fold(Tally::default(), Tally::and)
        });
        eprintln!("wounds of {:?}: {tally:?}", self.tree.keys());
        tally
    }

    fn regions(&self, bytes: &[u8]) -> Regions {
        let every = |step| (0..bytes.len()).step_by(if is_every_bit() { 1 } else { step }).collect();
        Regions { bytes: every(self.one_of), cuts: every(3 * self.one_of) }
    }

    fn write(&self, directory: &Path, tree: &Files) {
        fs::create_dir_all(directory.join("tree/tables")).unwrap();
        let put = |place: &Path, files: &Files| {
            files.iter().for_each(|(name, bytes)| fs::write(place.join(name), bytes).unwrap())
        };
        put(directory, &self.journal);
        put(&directory.join("tree"), tree);
    }

    /// Wounds the files, starts, reads everything.
    fn judge(&self, wound: &Wound<'_>, tally: &mut Tally) {
        let Wound { what, file, files: wounded } = wound;
        let what = format!("{file}, {what}");
        let directory = fresh_directory();
        self.write(directory.path(), wounded);
        let read = AssertUnwindSafe(|| self.read(directory.path(), &what));
        let found = catch_unwind(read).unwrap_or_else(|_| panic!("a panic, or something else was read: {what}"));
        tally.wounds += 1;
        let (count, said) = match found {
            Found::Nothing => {
                assert!(!self.needed.contains(*file), "not noticed: {what}");
                tally.unneeded += 1;
                return;
            }
            Found::ByStart(error) => {
                let (journal, tree) = (files(directory.path()), files(&directory.path().join("tree")));
                assert!(journal == self.journal && tree == *wounded, "a refusal that changes something: {what}");
                (&mut tally.refused, error.to_string())
            }
            Found::ByRebuilding(said) => (&mut tally.rebuilt, said),
            Found::ByRead(error) => (&mut tally.met, error.to_string()),
            Found::ByReadingAll(error) => (&mut tally.unread, error.to_string()),
        };
        *count += 1;
        self.is_named(&said, directory.path(), wound);
    }

    /// What a start and a read of everything find: what they did, or that something is wrong.
    fn read(&self, directory: &Path, what: &str) -> Found {
        let opened = match open_at(directory) {
            Ok(opened) => opened,
            Err(error) => return Found::ByStart(error),
        };
        let is_as_before = || assert!(Reading::of(&opened) == self.reading, "{what}");
        if let Some(said) = &opened.report.rebuilt {
            is_as_before();
            return Found::ByRebuilding(said.clone());
        }
        let tree = opened.store.tree();
        if let Some(error) = self.read_tree(tree.as_ref(), what) {
            return Found::ByRead(tree.named(error));
        }
        is_as_before();
        tree.verify().map_or_else(Found::ByReadingAll, |()| Found::Nothing)
    }

    /// Reads all entries of a tree together and one by one, and returns an error that there was, if any.
    fn read_tree(&self, tree: &dyn Tree, what: &str) -> Option<TreeError> {
        let scanned = tree.scan(&everything());
        let scanned = scanned.map(|found| assert!(found.entries == self.entries, "{what}: other entries"));
        let get = |(key, value): &(Bytes, Bytes)| {
            let found = tree.get_many(&[KeyBytes::from(&key[..])])?;
            assert!(found == [Some(value.clone())], "{what}: another value of {key:?}");
            Ok(())
        };
        iter::once(scanned).chain(self.entries.iter().map(get)).fold(None, |error, read| error.or(read.err()))
    }

    /// Whether what is said names the file, and where in it, unless it is gone; and where a table is not what was written, up to
    /// where it is.
    fn is_named(&self, said: &str, directory: &Path, wound: &Wound<'_>) {
        let Wound { what, file, files } = wound;
        let place = directory.join("tree").join(file).display().to_string();
        assert!(said.contains(&place), "{file}, {what}, is not named: {said}");
        if let Some(found) = files.get(*file) {
            let is_in_it = |offset: u64| offset <= found.len().max(self.tree[*file].len()) as u64;
            assert!(offsets(said).any(is_in_it), "{file}, {what}, and no place in it: {said}");
        }
        let of_table = format!("{place} does not match its checksum");
        if file.starts_with("tables/") && said.contains(&of_table) {
            let found = &files[*file];
            let meant = self.tree.values().find(|whole| *whole == found).unwrap_or(&self.tree[*file]);
            let named = format!("{of_table}; its blocks are whole up to offset {}", whole_blocks(meant, found));
            let rest = said.split_once(&named).map(|(_, rest)| rest);
            assert!(
                rest.is_some_and(|rest| !rest.starts_with(char::is_numeric)),
                "{file}, {what}: {said}, not {named}"
            );
        }
    }
}

/// Who has found that something is wrong.
enum Found {
    ByStart(OpenError),
    ByRebuilding(String),
    ByRead(TreeError),
    ByReadingAll(TreeError),
    Nothing,
}

impl Reading {
    fn of(opened: &Opened) -> Reading {
        // When the checkpoint was made is another matter.
        let numbers = NumbersPage { run: RunTime(0), wall: WallTime(0), epoch: 0, ..opened.core.numbers() };
        let pages = iter::once(Page::Numbers(numbers)).chain(state(&opened.core)).collect();
        let mut bodies = Vec::new();
        opened.core.extents(&mut |_, extent: Extent| bodies.push(opened.reader.read(extent).unwrap()));
        bodies.sort();
        Reading { pages, bodies }
    }
}

/// All entries of a tree.
fn everything() -> Range {
    Range { from: vec![1], until: vec![u8::MAX], limit: u32::MAX }
}

/// Where the first block of a table begins that is not what it was, or where its blocks end.
fn whole_blocks(whole: &[u8], found: &[u8]) -> usize {
    let is_whole = |end: usize| found.get(..end) == Some(&whole[..end]);
    let mut at = 0;
    while let Ok(header) = Header::decode_from(&mut &whole[at..]) {
        let end = at + Header::serialized_len() + header.data_length as usize;
        if !is_whole(end) {
            break;
        }
        at = end;
    }
    at
}

fn copy_golden(to: &Path) {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden/format-1-all"), to);
    lengthen(to);
}

/// In memory where the system has such a place: what a disk does with it is not what this is about.
fn fresh_directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

fn open_at(directory: &Path) -> Result<Opened, OpenError> {
    let tree = TreeOptions { quiet: Duration::ZERO, ..TreeOptions::default() };
    let options = OpenOptions { segment_bytes: 16 * 1024, slack: 0, tree, ..OpenOptions::default() };
    open::<Core>(Arc::new(RealDisk::create(directory).unwrap()), &options)
}

/// The files of a directory, and of its tables.
fn files(directory: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true if name == "tables" => {
                let tables = self::files(&entry.path()).into_iter();
                files.extend(tables.map(|(table, bytes)| (format!("{name}/{table}"), bytes)));
            }
            true => {}
            false => _ = files.insert(name, fs::read(entry.path()).unwrap()),
        }
    }
    files
}
