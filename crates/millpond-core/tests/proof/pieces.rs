//! How much of a level is in memory changes nothing: the same history under several bounds gives the same facts.

use std::collections::BTreeMap;

use millpond_core::LevelBounds;
use millpond_core::command::Command;
use millpond_core::fact::Fact;
use millpond_core::output::{Output, Reply};
use millpond_types::{LeaseNumber, MessageId, Receipt, Sequence, TopicName, TopicNumber};
use proptest::prelude::*;

use crate::history::{Known, Op, config, ops, set_policy};
use crate::moves::moves;
use crate::shell::Shell;

/// As short as lines in memory can be, and a little longer.
const SHORT: [LevelBounds; 2] = [
    LevelBounds { head: 1, tail: 0, piece: 1, resting: 0, ..LevelBounds::WHOLE },
    LevelBounds { head: 2, tail: 1, piece: 4, resting: 2, ..LevelBounds::WHOLE },
];

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn lines_in_pieces_give_the_same_facts(ops in ops(80), turn in 1..4usize) {
        let mut whole = Shell::with_bounds(LevelBounds::WHOLE);
        let mut short = SHORT.map(Shell::with_bounds);
        let mut known = Known::default();
        let policy = set_policy(0, 1);
        let mut names = BTreeMap::new();
        let first: &[Op] = &[];
        for ops in std::iter::once(first).chain(ops.chunks(turn)) {
            let mut commands: Vec<Command> = ops.iter().filter_map(|op| op.command(&mut known, 1)).collect();
            if ops.is_empty() {
                commands.push(policy.clone());
            }
            let (facts, wake) = (whole.journal.facts.len(), whole.next_wake().unwrap_or(0));
            let expected = run(&mut whole, commands.clone(), ops, wake);
            for shell in &mut short {
                let outputs = run(shell, commands.clone(), ops, wake);
                prop_assert_eq!(&outputs, &expected, "the outputs");
                prop_assert!(shell.journal.facts[facts..] == whole.journal.facts[facts..], "the facts");
            }
            learn(&mut known, &mut names, &whole.journal.facts[facts..]);
            known.moves = moves(&whole.journal.facts);
        }
    }
}

/// What happens in a turn, but for checkpoints: which of them are complete when depends on what was in memory.
fn run(shell: &mut Shell, commands: Vec<Command>, ops: &[Op], wake: u64) -> Vec<Output> {
    for op in ops {
        match op {
            Op::Pass { run, wall } => shell.pass(*run, *wall),
            Op::Wake => shell.pass(wake, wake),
            Op::Restart { crash } => shell.restart(*crash),
            _ => {}
        }
    }
    let commands = commands.into_iter().map(|command| (shell.ticket(), command)).collect();
    let mut outputs = shell.turn(commands);
    for output in &mut outputs {
        let (Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. }) = output else {
            continue;
        };
        for run in leases {
            // The same sizes, whether or not what lay before is still among them.
            run.sizes = (run.sizes.0.cut(run.sizes.1, run.count), 0);
        }
    }
    outputs
}

/// Notes what later operations may name.
fn learn(known: &mut Known, names: &mut BTreeMap<TopicNumber, TopicName>, facts: &[(Fact, u64)]) {
    for (fact, _) in facts {
        match fact {
            Fact::TopicCreated { topic, name, .. } => _ = names.insert(*topic, name.clone()),
            Fact::Published { topic, priority, first, count, .. } => {
                let id = |n| MessageId { topic: *topic, priority: *priority, sequence: Sequence(first.0 + n) };
                known.ids.extend((0..u64::from(*count)).map(|n| (names[topic].clone(), id(n))));
            }
            Fact::Leased { topic, group, lease, count, .. } => {
                let receipt = |n| Receipt { topic: *topic, group: *group, lease: LeaseNumber(lease.0 + n) };
                known.receipts.extend((0..u64::from(*count)).map(receipt));
            }
            _ => {}
        }
    }
}
