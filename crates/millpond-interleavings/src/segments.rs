//! What the writer, the journal's thread, the housekeeper and readers of bodies share of the journal: its last batches in memory,
//! and the space that was taken ahead.

use std::collections::BTreeSet;
use std::sync::Arc;

use millpond_core::output::Extent;

use crate::spares::{RESERVE, Spares};
use crate::sync::atomic::Ordering;
use crate::sync::thread;
use crate::tail::Tail;

/// Batches of so many bytes, of which two fit a chunk and three the budget.
const BATCH: usize = 40;
const BATCHES: u64 = 8;

/// Whoever finds the bytes of a batch in memory finds those that were written, for as long as it holds them, though chunks are
/// written over again and again.
pub fn what_is_found_in_memory_is_what_was_written() {
    let tail = Arc::new(Tail::new(3 * BATCH as u64, 2 * BATCH));
    let writer = {
        let tail = tail.clone();
        thread::spawn(move || {
            let mut chunk = tail.chunk(0);
            for number in 0..BATCHES {
                if chunk.capacity() < BATCH {
                    chunk = tail.chunk(0);
                }
                chunk.resize(BATCH, number as u8);
                tail.insert(number * BATCH as u64, chunk.split().freeze());
                thread::yield_now();
            }
        })
    };
    let reader = |from: u64| {
        let tail = tail.clone();
        thread::spawn(move || {
            let mut held = Vec::new();
            for number in (from..BATCHES).step_by(2) {
                held.extend(
                    tail.get(Extent { position: number * BATCH as u64, length: BATCH as u32 }).map(|of| (number, of)),
                );
                thread::yield_now();
                assert!(held.iter().all(|(number, bytes)| bytes.iter().all(|byte| *byte == *number as u8)), "{held:?}");
                held.drain(..held.len().saturating_sub(1));
            }
        })
    };
    let readers: Vec<_> = (0..2).map(reader).collect();
    writer.join().expect("it does not panic");
    readers.into_iter().for_each(|reader| reader.join().expect("it does not panic"));
}

/// A segment that was made ahead is used once, and the last is left while the disk has room; when it has none, it is used too.
pub fn a_spare_is_taken_once_and_the_reserve_is_left() {
    const MADE: usize = 3;
    let spares = Arc::new(Spares::default());
    let housekeeper = {
        let spares = spares.clone();
        thread::spawn(move || {
            for _ in 0..MADE {
                let name = spares.name();
                thread::yield_now();
                spares.add(name);
            }
        })
    };
    let taker = |_| {
        let spares = spares.clone();
        thread::spawn(move || {
            let mut taken = Vec::new();
            for _ in 0..MADE {
                taken.extend(spares.take());
                thread::yield_now();
            }
            taken
        })
    };
    let takers: Vec<_> = (0..2).map(taker).collect();
    housekeeper.join().expect("it does not panic");
    let mut taken: Vec<String> =
        takers.into_iter().flat_map(|taker| taker.join().expect("it does not panic")).collect();
    assert!(spares.count() >= RESERVE, "the reserve is there: {taken:?}");
    spares.disk_full.store(true, Ordering::Release);
    taken.extend(std::iter::from_fn(|| spares.take()));
    assert_eq!((taken.len(), taken.iter().collect::<BTreeSet<_>>().len()), (MADE, MADE), "{taken:?}");
}
