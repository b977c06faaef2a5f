//! Jobs where the store does not know what is not on the disk, and has to look: what was looked up and is not there is not
//! looked up again.

use millpond_core::command::*;
use millpond_core::output::Reply;
use millpond_types::{Filter, GroupKind, GroupName, NamespaceName, Priority, Start};

use super::cold::Cold;

const TOPICS: usize = 200;

#[test]
fn a_group_starts_though_others_know_nothing_of_its_topics() {
    let mut cold = Cold::among_strangers();
    publish(&mut cold, "old");
    cold.answered(create("audit", Start::Latest));
    publish(&mut cold, "young");
    cold.begin(create("index", Start::Earliest));
    let turns = cold.turns;
    while cold.is_busy() {
        cold.turn(None);
        assert!(cold.turns - turns < TOPICS, "it looks for the same again and again");
    }
    let (namespace, filter) = (NamespaceName::default(), Filter::All);
    let purge = Command::Purge { namespace, filter, group: Some(GroupName::try_from("index").unwrap()) };
    assert_eq!(cold.answered(purge), Reply::Count(2 * TOPICS as u64));
}

/// A message for each of some topics, which leave memory.
fn publish(cold: &mut Cold, what: &str) {
    let topics: Vec<String> = (0..TOPICS).map(|at| format!("{at:04}/{what}")).collect();
    let publish = cold.publish(&topics, Priority::DEFAULT, None);
    cold.begin(publish);
    cold.rest();
    cold.write();
    cold.evict();
}

fn create(name: &str, start: Start) -> Command {
    let (namespace, name) = (NamespaceName::default(), GroupName::try_from(name).unwrap());
    Command::GroupCreate { namespace, name, start, kind: GroupKind::Shared }
}
