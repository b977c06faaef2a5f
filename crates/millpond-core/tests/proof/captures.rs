//! A checkpoint is captured in slices that are bounded by what topics hold, not by how many they are alone.

use millpond_core::page::Page;
use millpond_core::store::Store;

use crate::bare::Bare;
use crate::script::{Line, Names, command};

const TOPICS: usize = 40;
/// Of each topic, nearly as many as stay in memory in line, and of those that are delayed, in whichever the fewest do.
const RUNS: usize = 1000;
const DELAYED: usize = 190;
/// Topics that are captured at a time, and as how many runs one of them counts.
const SLICE: usize = 256;
const RUNS_OF_ONE: usize = 32;

#[test]
fn a_slice_of_a_checkpoint_writes_no_more_runs_however_long_the_lines_are() {
    let mut bare: Bare = Bare::new();
    // One after the other, so that no two of a topic lie together; of half the topics they are delayed.
    for round in 0..RUNS {
        let topics = (0..TOPICS).filter(|topic| topic % 2 == 0 || round < DELAYED);
        let runs: Vec<_> = topics.map(|topic| format!("t{topic} m delay={}h", topic % 2)).collect();
        let text = format!("publish {}", runs.join(" + "));
        bare.submit(command(&Line::new(&text), &text, &Names::default()));
        bare.turn();
    }
    bare.core.freeze();
    let (mut written, mut slices) = (0, 0);
    loop {
        let is_complete = bare.core.capture(SLICE);
        let now = runs_in(&bare.store.dump());
        assert!(now - written <= SLICE * RUNS_OF_ONE + RUNS, "{} runs in one slice", now - written);
        (written, slices) = (now, slices + 1);
        if is_complete {
            break;
        }
    }
    assert_eq!(written, TOPICS / 2 * (RUNS + DELAYED));
    assert!(slices <= 2 + written / (SLICE * RUNS_OF_ONE), "{slices} slices");
}

/// The runs in the entries of topics.
fn runs_in(pages: &[Page]) -> usize {
    let levels = pages.iter().flat_map(|page| match page {
        Page::Topic(page) => &page.levels[..],
        _ => &[],
    });
    levels.map(|level| level.runs.len() + level.aside.len()).sum()
}
