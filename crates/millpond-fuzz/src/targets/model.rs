//! The core against its model: any bytes are a history, as the core's own tests draw them.
//!
//! Two bytes are an operation: the seed from which it is drawn. So one that is changed, left out or doubled leaves the others as
//! they are. The first three say how much memory lines have, the weight of a topic's turn, and how many operations make a turn.

use millpond_core::LevelBounds;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{RngSeed, TestRunner};

use crate::agreement::History;
use crate::history::{config, op};

/// Operations of a history: enough for any of them to matter to any other, and no more than take a fraction of a second.
const LENGTH_MAX: usize = 120;

/// Leads a history, and holds every answer and all that can be seen against the model.
pub fn run(data: &[u8]) {
    let Some((&[lines, weight, turn], seeds)) = data.split_first_chunk() else { return };
    let op = op();
    let draw = |seed: &[u8]| {
        let seed = RngSeed::Fixed(u64::from(u16::from_le_bytes([seed[0], seed[1]])));
        let mut runner = TestRunner::new(proptest::test_runner::Config { rng_seed: seed, ..config(1) });
        op.new_tree(&mut runner).expect("no operation is rejected").current()
    };
    let ops: Vec<_> = seeds.chunks_exact(2).take(LENGTH_MAX).map(draw).collect();
    let short = LevelBounds {
        head: 1 + u16::from(lines & 1),
        tail: u16::from(lines >> 1 & 1),
        piece: 1 + u16::from(lines >> 2 & 1),
        resting: u16::from(lines >> 4 & 3),
        ..LevelBounds::WHOLE
    };
    let bounds = if lines & 8 == 0 { LevelBounds::ENDS } else { short };
    let mut history = History::new(1 + u32::from(weight % 3), bounds);
    ops.chunks(1 + usize::from(turn % 4)).for_each(|ops| history.turn(ops));
}
