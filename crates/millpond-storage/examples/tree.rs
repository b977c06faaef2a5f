//! Measures the tree by itself: entries as cold topics make them, in commits as checkpoints make them.
//!
//! ```text
//! cargo run --release -p millpond-storage --example tree -- [ENTRIES [ENTRIES A COMMIT]]
//! ```
//!
//! It inserts topics in random order of their names, scans them all in order, looks half of a sample of them up in bulk,
//! and drains the tree from the front: reads from where the last read ended, and removes what was read. It prints rates,
//! processor time (of all threads), memory, bytes on the disk, and how many keys the drain visited for each entry.

use std::sync::Arc;
use std::time::Instant;

use millpond_core::page::{NamespacePage, Page, RunPage, TopicPage};
use millpond_core::store::{Key, KeyBytes, Range, Shelf};
use millpond_storage::codec::encode_entry;
use millpond_storage::tree::{CommitHead, Compactor, LsmTree, Tree, TreeOptions};
use millpond_storage::twin::Seed;
use millpond_types::block::Sizes;
use millpond_types::{NamespaceName, Policy, Priority, Rules, Sequence, TopicName, TopicNumber, WallTime};

type Changes = Vec<(KeyBytes, Option<Vec<u8>>)>;

const SHELF: Shelf = Shelf::Ready(Priority::DEFAULT);

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let entries = arguments.next().unwrap_or(1_000_000);
    let a_commit = arguments.next().unwrap_or(400_000).min(entries);
    let directory = tempfile::TempDir::new().expect("a directory to work in");
    let tree: Arc<dyn Tree> = Arc::new(LsmTree::open(directory.path(), TreeOptions::default()).expect("opening"));
    let its = tree.clone();
    let compactor = Compactor::start(tree.clone(), move || its.compact_step()).expect("a thread");
    let mut position = 0;

    let measure = Measure::begin("inserted", entries);
    for first in (0..entries).step_by(a_commit as usize) {
        let topics = (first..entries.min(first + a_commit)).map(topic);
        let mut changes: Changes = topics.chain((first == 0).then(namespace)).collect();
        changes.sort();
        commit(tree.as_ref(), &compactor, &mut position, &changes);
    }
    measure.end();
    let settling = Measure::begin("settled", entries);
    settle(tree.as_ref());
    settling.end();
    let stats = tree.stats();
    println!("{:.1} bytes an entry, {} tables, {stats:?}", stats.bytes as f64 / entries as f64, stats.tables);

    let measure = Measure::begin("scanned", entries);
    assert_eq!(walk(tree.as_ref(), |_| ()), entries);
    measure.end();

    let sample = 200_000.min(entries);
    let mut seed = Seed::new(1);
    let mut keys: Vec<_> = (0..sample).map(|_| topic(seed.below(entries * 2)).0).collect();
    keys.sort();
    let measure = Measure::begin("looked up", sample);
    let found: usize =
        keys.chunks(1000).map(|keys| tree.get_many(keys).expect("reading").iter().flatten().count()).sum();
    measure.end();
    assert!(found as u64 > sample / 3, "half of them are there");

    let measure = Measure::begin("drained", entries);
    let (mut removed, mut visited): (Changes, u64) = (Vec::new(), 0);
    let mut range = Range { limit: 512, ..everything() };
    loop {
        let found = tree.scan(&range).expect("reading");
        let Some((last, _)) = found.entries.last() else { break };
        let next = [&last[..], &[0]].concat();
        visited += tree.weigh(&Range { from: range.from.clone(), until: next.clone(), limit: 0 }).expect("reading");
        range.from = next;
        removed.extend(found.entries.iter().map(|(key, _)| (KeyBytes::from(&key[..]), None)));
        if removed.len() as u64 >= a_commit || found.complete {
            commit(tree.as_ref(), &compactor, &mut position, &removed);
            removed.clear();
        }
        if found.complete {
            break;
        }
    }
    measure.end();
    println!("{:.3} keys visited for each entry", visited as f64 / entries as f64);
    assert!(visited <= 2 * entries, "a drain does not walk over what it has removed");
    settle(tree.as_ref());
    println!("{} bytes, {} entries and tombstones are left", tree.stats().bytes, tree.stats().entries);
}

fn commit(tree: &dyn Tree, compactor: &Compactor, position: &mut u64, changes: &Changes) {
    *position += 1;
    let head = CommitHead { position: *position, ..CommitHead::default() };
    tree.commit(&head, &mut changes.iter().map(|(key, value)| (&key[..], value.as_deref()))).expect("committing");
    compactor.wake();
}

/// Waits until the compaction has nothing to do.
fn settle(tree: &dyn Tree) {
    std::thread::sleep(TreeOptions::default().quiet);
    while tree.compact_step().expect("compacting") {}
}

fn everything() -> Range {
    let bound = |name: &[u8]| Key::topic_bound(0, SHELF, name);
    Range { from: bound(b""), until: bound(&[0xff]), limit: u32::MAX }
}

fn walk(tree: &dyn Tree, mut visit: impl FnMut(&[u8])) -> u64 {
    let mut range = Range { limit: 4096, ..everything() };
    let mut count = 0;
    loop {
        let found = tree.scan(&range).expect("reading");
        count += found.entries.len() as u64;
        found.entries.iter().for_each(|(key, _)| visit(key));
        match found.entries.last() {
            Some((last, _)) if !found.complete => range.from = [&last[..], &[0]].concat(),
            _ => return count,
        }
    }
}

fn namespace() -> (KeyBytes, Option<Vec<u8>>) {
    let name = NamespaceName::try_from("default").expect("a name");
    let (policy, rules) = (Policy::default(), Rules::default());
    let (paused, groups) = (Vec::new(), Vec::new());
    let page = NamespacePage { number: 0, name, policy, rules, version: 1, paused, groups };
    let mut value = Vec::new();
    encode_entry(&Page::Namespace(Box::new(page)), &mut value);
    (Key::Namespace(0).bytes(), Some(value))
}

/// A topic with a name of 16 bytes and one message of 24: the `number`th that was published to.
fn topic(number: u64) -> (KeyBytes, Option<Vec<u8>>) {
    let name = format!("{:016x}", Seed::new(number).draw());
    let name = TopicName::try_from(&*name).expect("a name");
    let floor = (1 << 24) + number;
    let run = RunPage {
        first: Sequence(floor),
        position: (1 << 33) + number * 60,
        published: WallTime(1_795_000_000_000 + number / 200),
        expires: WallTime::NEVER,
        sizes: Sizes::Uniform(33),
        marks: None,
        count: 1,
        index: 0,
    };
    let key = Key::Topic { group: 0, shelf: SHELF, name: name.clone() };
    let page = TopicPage::of_line(TopicNumber(number), 0, name, floor, vec![run]);
    let mut value = Vec::new();
    encode_entry(&Page::Topic(page), &mut value);
    (key.bytes(), Some(value))
}

/// What something costs.
struct Measure {
    what: &'static str,
    count: u64,
    since: Instant,
    processor: f64,
}

impl Measure {
    fn begin(what: &'static str, count: u64) -> Measure {
        Measure { what, count, since: Instant::now(), processor: processor_seconds() }
    }

    fn end(self) {
        let (seconds, processor) = (self.since.elapsed().as_secs_f64(), processor_seconds() - self.processor);
        let each = processor / self.count as f64 * 1e6;
        let rate = self.count as f64 / seconds;
        println!(
            "{:>9}: {} in {seconds:.1} s, {rate:.0}/s, {each:.2} µs of processor time each, peak {} MiB",
            self.what,
            self.count,
            peak_mebibytes()
        );
    }
}

/// Processor time of this process so far. Linux counts it in hundredths of a second.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.split_whitespace().next().expect("a number").parse::<u64>().expect("a number") / 1024
}
