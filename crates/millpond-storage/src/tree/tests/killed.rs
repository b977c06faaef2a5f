//! A process that commits is killed at any moment: what it said was committed is there, and nothing by halves.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// Names the directory to the child, which is this test again.
const DIRECTORY: &str = "MILLPOND_TREE_TO_KILL";
const KEYS: u64 = 3000;

#[test]
fn a_killed_commit_is_there_whole_or_not_at_all() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return commit_for_ever(Path::new(&directory));
    }
    let directory = TempDir::new().unwrap();
    let mut before = 0;
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["tree::tests::killed::a_killed_commit_is_there_whole_or_not_at_all", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.by_ref().filter_map(|line| line.unwrap().strip_prefix("committed ")?.parse::<u64>().ok());
        let mut told = told.skip(2 + round % 3);
        let last = told.next().expect("a child commits until it is killed");
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = told.last().unwrap_or(last);

        let tree = open(&directory);
        let position = tree.head().unwrap().position;
        assert!(position > before && position >= last, "{position} after {before}, {last} was told");
        let entries = everything(&tree).entries;
        assert_eq!(entries.len() as u64, KEYS + 1);
        let of_head = |(_, value): &&(Bytes, Bytes)| value[..] == position.to_be_bytes();
        assert_eq!(entries.iter().filter(of_head).count() as u64, KEYS + 1, "all entries are of one commit");
        tree.verify().unwrap();
        before = position;
    }
}

fn commit_for_ever(directory: &Path) {
    let tree: Arc<dyn Tree> = Arc::new(LsmTree::open(directory, OPTIONS).unwrap());
    let compactor = compactor(&tree);
    for position in tree.head().map_or(1, |head| head.position + 1).. {
        let value = || Some(position.to_be_bytes().to_vec());
        let keys = (0..KEYS).map(|index| topic(0, &format!("{index:06}"))).chain([Key::Namespace(0).bytes()]);
        commit(tree.as_ref(), position, &keys.map(|key| (key, value())).collect()).unwrap();
        compactor.wake();
        println!("committed {position}");
    }
}
