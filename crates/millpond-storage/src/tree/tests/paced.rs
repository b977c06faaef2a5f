//! Commits and merges leave the processor to others, but where these wait for them.

use super::*;
use crate::tree::pace::tests::{Told, slices};

const ENTRIES: usize = 1000;

fn opened() -> (TempDir, LsmTree, Arc<Told>) {
    let (directory, told) = (TempDir::new().unwrap(), Arc::new(Told::default()));
    let tree = LsmTree::open_in(directory.path(), OPTIONS, false, told.clone()).unwrap();
    (directory, tree, told)
}

/// Entries of their own for each position.
fn changes(position: u64) -> Changes {
    (0..ENTRIES).map(|index| (topic(0, &format!("{position:02}-{index:04}")), Some(vec![1]))).collect()
}

#[test]
fn a_commit_pauses_until_somebody_waits_for_it() {
    let (_directory, tree, told) = opened();
    assert!(!tree.stats().is_hurried, "nobody waits at first");
    let expected = [(false, slices(ENTRIES)), (true, 0), (false, slices(ENTRIES))];
    for (position, (is_waited_for, pauses)) in (1..).zip(expected) {
        tree.hurry(is_waited_for);
        assert_eq!(tree.stats().is_hurried, is_waited_for);
        commit(&tree, position, &changes(position)).unwrap();
        assert_eq!(told.pauses(), pauses, "commit {position}");
    }
    // While it is under way as well, in either direction.
    let (some, more) = (300, 600);
    let changes = changes(9);
    let mut changes = changes.iter().enumerate().map(|(index, (key, value))| {
        if index == some || index == more {
            tree.hurry(index == some);
        }
        (&key[..], value.as_deref())
    });
    tree.commit(&head(9), &mut changes).unwrap();
    assert_eq!(told.pauses(), slices(ENTRIES) - (slices(more) - slices(some)));
}

#[test]
fn a_merge_pauses_unless_many_runs_wait_for_it() {
    for (runs, is_urgent) in [(5, false), (20, true)] {
        let (_directory, tree, told) = opened();
        (1..=runs).for_each(|position| commit(&tree, position, &changes(position)).unwrap());
        assert_eq!(tree.stats().fresh_runs, runs);
        told.pauses();
        assert!(tree.compact_step().unwrap() && tree.stats().fresh_runs == 0, "all are merged");
        let pauses = if is_urgent { 0 } else { slices(runs as usize * ENTRIES) };
        assert_eq!(told.pauses(), pauses, "{runs} runs");
    }
}
