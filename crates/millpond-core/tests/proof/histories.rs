//! Random histories agree with the plain model.

use millpond_core::LevelBounds;
use proptest::prelude::*;

use crate::agreement::History;
use crate::history::{config, ops};

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn the_core_agrees_with_the_model(ops in ops(120), weight in 1..4u32, turn in 1..4usize, bounds in bounds()) {
        let mut history = History::new(weight, bounds);
        for ops in ops.chunks(turn) {
            history.turn(ops);
        }
    }
}

/// Lines as they are, and lines that go to the store almost whole.
fn bounds() -> impl Strategy<Value = LevelBounds> {
    let short = (1..3u16, 0..3u16, 1..4u16, 0..4u16);
    let short =
        short.prop_map(|(head, tail, piece, resting)| LevelBounds { head, tail, piece, resting, ..LevelBounds::WHOLE });
    prop_oneof![Just(LevelBounds::ENDS), short]
}
