//! The stores side by side, and a store whose power fails.

use std::sync::Arc;

use millpond_core::page::{DedupPage, Page};
use millpond_types::{MessageId, Priority, Sequence, TopicNumber, WallTime};

use super::*;
use crate::twin::{Fault, SECTOR, Seed, TwinDisk};

fn pages(seed: &mut Seed) -> Vec<Page> {
    let page = |hash: u64| {
        let id = MessageId { topic: TopicNumber(hash), priority: Priority::DEFAULT, sequence: Sequence(hash) };
        Page::Dedup(DedupPage { namespace: 0, hash: hash.into(), id, until: WallTime(hash) })
    };
    (0..seed.below(200)).map(|_| page(seed.draw())).collect()
}

fn live(seed: &mut Seed) -> LiveBytes {
    let mut live = LiveBytes::default();
    (0..seed.below(3)).for_each(|base| live.stored(base, seed.below(9)));
    live
}

fn store(disk: &TwinDisk) -> FileCheckpoints {
    FileCheckpoints::new(Arc::new(disk.clone()), 7)
}

#[test]
fn a_file_store_answers_as_the_model_does() {
    let mut seed = Seed::new(1);
    let disk = TwinDisk::new(SECTOR);
    let (mut files, mut model) = (store(&disk), MemoryCheckpoints::default());
    for position in 1..200 {
        let job = Job { position, start: 3, live: Some(live(&mut seed)), chunks: encode_pages(pages(&mut seed)) };
        if seed.below(4) == 0 {
            // Begun and not finished.
            for store in [&mut files as &mut dyn CheckpointStore, &mut model] {
                store.begin(CheckpointHead { position, start: 3, live: LiveBytes::default() }).unwrap();
                job.chunks.iter().for_each(|chunk| store.write(chunk).unwrap());
            }
        } else {
            job.run(&mut files).unwrap();
            job.run(&mut model).unwrap();
        }
        if seed.below(5) == 0 {
            disk.crash(position);
            files = store(&disk);
        }
        assert_eq!(files.newest().unwrap(), model.newest().unwrap());
    }
}

#[test]
fn a_power_cut_leaves_the_one_before_or_the_new_one() {
    let mut seen = [0, 0];
    for operation in 0.. {
        let mut ended = false;
        for seed in 0..8 {
            let disk = TwinDisk::new(SECTOR);
            let mut draw = Seed::new(9);
            let chunks = encode_pages(pages(&mut draw));
            Job { position: 1, start: 1, live: Some(live(&mut draw)), chunks }.run(&mut store(&disk)).unwrap();
            disk.plan(operation, Fault::PowerCut);
            let chunks = encode_pages(pages(&mut draw));
            ended = Job { position: 2, start: 1, live: Some(live(&mut draw)), chunks: chunks.clone() }
                .run(&mut store(&disk))
                .is_ok();
            disk.crash(seed);
            let found = store(&disk).newest().expect("what is there is whole").expect("one of them is there");
            seen[(found.head.position - 1) as usize] += 1;
            assert!(found.head.position == 1 || found.chunks == chunks);
        }
        if ended {
            break;
        }
    }
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");
}
