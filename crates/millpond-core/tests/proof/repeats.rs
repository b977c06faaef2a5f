//! A receive that is asked for again is told of each message where it lies by then.

use millpond_core::output::{LeasedRun, Reply};

use crate::ask::{answer, say};
use crate::moves::moves;
use crate::shell::Shell;

#[test]
fn a_repeat_names_where_moved_messages_lie() {
    let mut shell = Shell::new();
    say(&mut shell, "publish a first second third fourth");
    let first = received(say(&mut shell, "receive max=3 request=7"));
    say(&mut shell, "publish b other");
    let facts = shell.journal.facts.clone();
    // Each run that was published, and of the leased ones the part that is theirs.
    for command in moves(&facts) {
        answer(&mut shell, command);
    }
    let begin = facts.last().expect("something was published").1;
    let again = received(say(&mut shell, "receive max=3 request=7"));
    let told = |runs: &[LeasedRun]| -> Vec<_> { runs.iter().map(|run| (run.receipt, run.first, run.count)).collect() };
    assert_eq!(told(&first), told(&again));
    assert!(again.iter().all(|run| run.extent.position > begin), "where they were is not theirs any more: {again:?}");
    let bodies: Vec<String> = again.iter().flat_map(|run| shell.journal.read(run.extent)).collect();
    assert_eq!(bodies, ["first", "second", "third"]);
    let parts = again.iter().flat_map(|run| (0..run.count).map(|index| run.part(index, 1)));
    let each: Vec<String> = parts.flat_map(|part| shell.journal.read(part.extent)).collect();
    assert_eq!(each, bodies);
}

fn received(reply: Reply) -> Vec<LeasedRun> {
    let Reply::Received(runs) = reply else { panic!("it is a receive: {reply:?}") };
    runs
}
