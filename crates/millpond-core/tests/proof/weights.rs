//! Weights, counted: while all of them have something to give, each topic is given what its weight and its tenant's turn
//! make of it, however the consumers ask.

use std::collections::BTreeMap;

use millpond_core::output::{Output, Reply};
use millpond_types::TopicName;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::history::config;
use crate::script::{Line, Names, command};
use crate::shell::Shell;

/// Messages that are counted, and how far a share of them may be from what it should be.
const COUNTED: u64 = 12_000;
const WITHIN: f64 = 0.01;

/// Three tenants, one of them with several topics.
const TOPICS: [&str; 5] = ["a/1", "a/2", "a/3", "b/1", "c"];

struct Run {
    shell: Shell,
    given: BTreeMap<TopicName, u64>,
    sum: u64,
}

impl Run {
    fn new(weights: &[u32], dispatch: &str) -> Run {
        let mut run = Run { shell: Shell::new(), given: BTreeMap::new(), sum: 0 };
        let rules = TOPICS.iter().zip(weights).map(|(name, weight)| format!(" + {name} weight={weight}"));
        run.turn(&format!("namespace default dispatch={dispatch}{}", rules.collect::<String>()));
        for name in TOPICS {
            run.turn(&format!("publish {name} m*{COUNTED}"));
        }
        run
    }

    fn turn(&mut self, text: &str) {
        let ticket = self.shell.ticket();
        let command = command(&Line::new(text), text, &Names::default());
        for output in self.shell.turn(vec![(ticket, command)]) {
            let (Output::Reply { reply: Reply::Received(leases), .. } | Output::Delivery { leases, .. }) = output
            else {
                continue;
            };
            for run in leases {
                *self.given.entry(run.topic).or_default() += u64::from(run.count);
                self.sum += u64::from(run.count);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(1))]

    /// Under each order of dispatch, in memory and on the disk, for receives and for consumers.
    #[test]
    fn weights_hold_within_one_percent(draws in vec((vec(1..8u32, TOPICS.len()), vec(1..200u32, 1..20)), 8)) {
        for (at, (weights, asked)) in draws.iter().enumerate() {
            let dispatch = ["priority", "fair"][at % 2];
            let room = [0, usize::MAX][at / 2 % 2];
            weights_hold(weights, asked, (dispatch, room, at / 4 > 0))?;
        }
    }
}

fn weights_hold(
    weights: &[u32],
    asked: &[u32],
    (dispatch, room, is_attached): (&str, usize, bool),
) -> Result<(), TestCaseError> {
    let mut run = Run::new(weights, dispatch);
    run.shell.core.set_room(room);
    if is_attached {
        run.turn("begin s1");
        ["s1.1", "s1.2"].iter().for_each(|consumer| run.turn(&format!("attach {consumer} max=1 bytes=1 once=yes")));
    }
    for (round, max) in asked.iter().cycle().enumerate() {
        run.turn(&match is_attached {
            true => format!("credit s1.{} max={max} bytes=1000000", 1 + round % 2),
            false => format!("receive max={max} once=yes"),
        });
        if run.sum >= COUNTED {
            break;
        }
    }
    let tenant = |at: usize| TOPICS[at].split('/').next();
    let of_tenant = |at: usize| (0..TOPICS.len()).filter(move |other| tenant(*other) == tenant(at)).count() as f64;
    // Tenants take turns, and the topics of a tenant share its turns.
    let parts: Vec<f64> = (0..TOPICS.len()).map(|at| f64::from(weights[at]) / of_tenant(at)).collect();
    let whole: f64 = parts.iter().sum();
    for (name, part) in TOPICS.iter().zip(parts) {
        let given = run.given[&TopicName::try_from(*name).unwrap()] as f64;
        let share = part / whole * run.sum as f64;
        let how = format!("dispatch {dispatch}, room {room}, attached {is_attached}");
        prop_assert!((given / share - 1.0).abs() < WITHIN, "{how}: {name} was given {given} and not {share}");
    }
    Ok(())
}
