//! The two threads behind the journal: whoever rings, wakes or closes is heard.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use millpond_storage::tree::{MemoryTree, TreeError};

use crate::bell::Bell;
use crate::compactor::Compactor;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread;
use crate::sync::{Condvar, Mutex, lock};

/// It would be far too long, if waits ended by time.
const LONG: Duration = Duration::from_secs(3600);
const EACH: usize = 3;

/// What was left to the housekeeper before a ring is done, and it ends when it is told to.
pub fn a_ring_is_heard() {
    let bell = Arc::new(Bell::default());
    let (left, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Done::default()));
    let keeper = {
        let (bell, left, done) = (bell.clone(), left.clone(), done.clone());
        thread::spawn(move || {
            while !bell.is_closing() {
                match left.swap(0, Ordering::SeqCst) {
                    0 => bell.wait(LONG),
                    work => done.add(work),
                }
            }
        })
    };
    let ringer = |_| {
        let (bell, left) = (bell.clone(), left.clone());
        thread::spawn(move || {
            for _ in 0..EACH {
                left.fetch_add(1, Ordering::SeqCst);
                bell.ring();
            }
        })
    };
    let ringers: Vec<_> = (0..2).map(ringer).collect();
    done.wait_for(2 * EACH);
    ringers.into_iter().for_each(|ringer| ringer.join().expect("it does not panic"));
    bell.close();
    keeper.join().expect("it does not panic");
}

/// A step begins after each commit that the compactor was woken for, and it ends when it is dropped.
pub fn a_compactor_takes_a_step_for_what_was_committed() {
    let (committed, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Done::default()));
    let compactor = {
        let (committed, seen) = (committed.clone(), seen.clone());
        let step = move || {
            seen.at_least(committed.load(Ordering::SeqCst));
            Ok(false)
        };
        Compactor::start(Arc::new(MemoryTree::default()), step).expect("a thread is started")
    };
    for commit in 1..=EACH {
        committed.fetch_add(1, Ordering::SeqCst);
        compactor.wake();
        if commit % 2 == 0 {
            seen.wait_for(commit);
        }
    }
    seen.wait_for(EACH);
    drop(compactor);
}

/// A step that had no space is taken again once there is some, whenever that is found: before it has failed, or long after.
pub fn a_compactor_tries_again_where_space_is_found() {
    let (space, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Done::default()));
    let compactor = {
        let (space, seen) = (space.clone(), seen.clone());
        let step = move || {
            let found = space.load(Ordering::SeqCst);
            seen.at_least(found);
            if found < EACH { Err(TreeError::Full(ErrorKind::StorageFull.into())) } else { Ok(false) }
        };
        Compactor::start(Arc::new(MemoryTree::default()), step).expect("a thread is started")
    };
    for found in 1..=EACH {
        space.fetch_add(1, Ordering::SeqCst);
        compactor.found_space();
        if found % 2 == 0 {
            seen.wait_for(found);
        }
    }
    seen.wait_for(EACH);
    drop(compactor);
}

/// A count that can be waited for.
#[derive(Default)]
struct Done {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Done {
    fn add(&self, more: usize) {
        *lock(&self.count) += more;
        self.changed.notify_all();
    }

    fn at_least(&self, count: usize) {
        let mut mine = lock(&self.count);
        *mine = count.max(*mine);
        self.changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let reached = self.changed.wait_while(lock(&self.count), |done| *done < count);
        assert!(*reached.expect("nobody panics") >= count);
    }
}
