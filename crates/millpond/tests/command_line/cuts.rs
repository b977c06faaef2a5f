//! The power goes under the real program: its journal and its tree on real files. One broker works under `strace`, through
//! checkpoints and merges; then directories are made as a cut of the power may have left them, at one call and another, and
//! what was confirmed by then has to be in each.
//!
//! The twin disk has its power cut at every operation, but a tree in memory stands for the real one there. Here it is the
//! library's own syncs that count, and the order in which the journal lets go of what the tree has taken over.
//!
//! `CUTS=1000 cargo test -p millpond --test command_line the_power_goes` is the same at length. `MILLPOND_TEST_SEED` draws the
//! same places again, of a life that is another one each time.

mod disk;
mod ledger;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use self::disk::{Disk, Left};
use self::ledger::Ledger;
use crate::broker::{Broker, fresh_directory, is_left_out};
use crate::random::Random;
use crate::strace::{Call, calls, ours, serve_traced, whole};

/// Cuts, each with one of what may be left, and how many threads at most try them.
const CUTS: usize = 40;
const LEFT: [Left; 5] = [Left::Nothing, Left::Names, Left::Bytes, Left::Halves, Left::All];
const THREADS: usize = 4;
/// Bytes of a write that are in the trace: as many as one to the journal has at most.
const BYTES: usize = 128 * 1024;
/// The first segment of a journal.
const FIRST_SEGMENT: &str = "0000000000000000.journal";
/// Rounds of the load, at least and at most. It ends when the first table was merged with others and removed, and the journal
/// has lost its beginning: the checkpoint cannot be made anew, so what it lacks is missed.
const ROUNDS: usize = 12;
const ROUNDS_MAX: usize = 60;

#[test]
fn what_was_confirmed_is_there_wherever_the_power_goes_under_the_real_tree() {
    if is_left_out("strace") {
        return;
    }
    let life = Life::lead();
    let calls: Vec<Call<'_>> = calls(&life.trace).collect();
    let names = |call: &Call<'_>| {
        [call.open().and_then(|path| ours(path, &life.place))].into_iter().flatten().chain(call.paths(&life.place))
    };
    let behind = calls.iter().filter(|call| call.ended >= life.ledger.begin() && names(call).next().is_some());
    let (of_tree, others): (Vec<_>, Vec<_>) = behind.partition(|call| names(call).any(|name| name.starts_with("tree")));
    let is_commit =
        |call: &&&Call<'_>| call.name().starts_with("rename") && names(call).any(|name| name == "tree/current");
    let commits = of_tree.iter().filter(is_commit).count();
    let is_removed =
        |call: &&&Call<'_>| call.name() == "unlink" && names(call).any(|name| name.starts_with("tree/tables/"));
    let removed = of_tree.iter().filter(is_removed).count();
    assert!(commits >= 5 && removed >= 1, "{commits} commits, and {removed} tables that are gone");

    let mut random = Random::from_environment();
    let mut draw = |at: usize| {
        // Most of them where the tree changes.
        let among = if at.is_multiple_of(4) { &others } else { &of_tree };
        let before = among[random.below(among.len() as u64) as usize];
        Cut { at: before.ended, left: LEFT[at % LEFT.len()], seed: random.below(u64::MAX) }
    };
    let count = std::env::var("CUTS").map_or(CUTS, |text| text.parse().expect("CUTS is a number"));
    let mut cuts: Vec<Cut> = (0..count).map(&mut draw).collect();
    cuts.sort_by_key(|cut| cut.at);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    std::thread::scope(|scope| {
        for cuts in cuts.chunks(count.div_ceil(threads)) {
            scope.spawn(|| life.cut(&calls, cuts));
        }
    });

    // What is made of all calls is what is there.
    let end = Cut { at: life.trace.len(), left: Left::All, seed: 0 };
    let made = end.make(&life.replay(&calls, &end));
    assert_eq!(files(made.path()), files(&life.place));
    for file in files(made.path()) {
        let read = |place: &Path| std::fs::read(place.join(&file)).unwrap();
        assert!(read(made.path()) == read(&life.place), "{} is not what the trace says", file.display());
    }
    // Were messages lost, or acked ones back, it would have been noticed: what an early cut leaves is not what a later one has to.
    let early = cuts[0].make(&life.replay(&calls, &cuts[0]));
    let wrong = life.ledger.check(early.path(), end.at).unwrap_err();
    assert!(wrong.contains("is back") || wrong.contains("is lost"), "{wrong}");
    // And so would it, were any of these not synced, and all else.
    let committed = of_tree.iter().rfind(is_commit).expect("there are some").ended + 1;
    for (at, left, unsynced) in [
        (end.at, Left::Nothing, &["tree", "tree/tables", "tree/tables/*", "tree/v*"][..]),
        // What becomes `current` is synced once more by that name: it is missed in between alone.
        (committed, Left::Names, &["tree/.tmp*"]),
    ] {
        let cut = Cut { at, left, seed: 0 };
        let with = cut.make(&life.replay(&calls, &cut));
        assert_eq!(life.ledger.check(with.path(), at), Ok(()));
        for unsynced in unsynced {
            let is_one = |name: String| match unsynced.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == *unsynced,
            };
            let is_kept = |call: &&Call<'_>| !(call.is_sync() && names(call).any(is_one));
            let without = cut.make(&life.replay(calls.iter().filter(is_kept), &cut));
            let wrong = life.ledger.check(without.path(), at);
            assert!(wrong.is_err(), "nobody notices that {unsynced} is not synced");
        }
    }
}

/// What a broker did, and what it told.
struct Life {
    trace: String,
    ledger: Ledger,
    place: PathBuf,
    _directory: TempDir,
}

/// Before which call of the trace the power goes, what it leaves, and from what that is drawn.
struct Cut {
    at: usize,
    left: Left,
    seed: u64,
}

impl Cut {
    fn make(&self, disk: &Disk) -> TempDir {
        let directory = fresh_directory();
        disk.make(self.left, &mut Random::new(self.seed), directory.path());
        directory
    }
}

impl Life {
    fn lead() -> Life {
        let directory = fresh_directory();
        let around = directory.path().canonicalize().unwrap();
        let (place, trace) = (around.join("data"), around.join("trace"));
        let mut command = serve_traced(&place, &trace, BYTES);
        let broker = Broker::run_on(command.args(["--memory", "64MiB"]), directory);
        let (first_segment, first_table) = (place.join(FIRST_SEGMENT), place.join("tree/tables/0"));
        assert!(first_segment.exists());
        let ledger = Ledger::fill(&broker, &trace, |round| {
            assert!(round < ROUNDS_MAX, "no merge, or no segment that is taken back");
            round >= ROUNDS && !first_table.exists() && !first_segment.exists()
        });
        // So that each call comes to its end, and what is there can be held against what the trace says.
        let (code, directory) = broker.stop();
        assert_eq!(code, Some(0));
        Life { trace: whole(&trace, "exited with 0"), ledger, place, _directory: directory }
    }

    /// Tries cuts, which are in order.
    fn cut(&self, calls: &[Call<'_>], cuts: &[Cut]) {
        let (mut disk, mut next) = (Disk::new(), calls.iter().peekable());
        for cut in cuts {
            while let Some(call) = next.next_if(|call| call.ended < cut.at) {
                disk.take(call, &self.place);
            }
            if let Err(wrong) = self.ledger.check(cut.make(&disk).path(), cut.at) {
                let line = next.peek().expect("a cut is before a call").line;
                let (line, left, kept) = (&line[..line.len().min(200)], cut.left, cut.make(&disk).keep());
                panic!("{wrong}. {} is what a cut leaves ({left:?}) before {line}", kept.display());
            }
        }
    }

    /// What is there at a cut.
    fn replay<'a>(&self, calls: impl IntoIterator<Item = &'a Call<'a>>, cut: &Cut) -> Disk {
        let mut disk = Disk::new();
        calls.into_iter().take_while(|call| call.ended < cut.at).for_each(|call| disk.take(call, &self.place));
        disk
    }
}

/// The files of a directory and of those in it, in order.
fn files(place: &Path) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![place.to_path_buf()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path)
            } else {
                found.push(path.strip_prefix(place).unwrap().to_path_buf())
            }
        }
    }
    found.sort();
    found
}
