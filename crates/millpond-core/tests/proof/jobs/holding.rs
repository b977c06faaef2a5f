//! Jobs that change many entries wait while the shell holds them: others pass meanwhile, and when it lets them go they come to
//! their ends as if nothing had been.

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::output::Reply;
use millpond_types::{
    Filter, GroupKind, GroupName, Millis, NamespaceName, Policy, Priority, Retention, Rules, Start, TopicName,
};

use super::cold::Cold;
use super::{buried, counts, publish};

const TOPICS: usize = 3_000;

fn filled() -> Cold {
    Cold::filled((0..TOPICS).map(|at| format!("t/{at:06}")))
}

fn purge() -> Command {
    Command::Purge { namespace: NamespaceName::default(), filter: Filter::All, group: None }
}

fn page() -> Command {
    let (namespace, prefix, after) = (NamespaceName::default(), Bytes::new(), Bytes::new());
    Command::Topics { listing: Listing { namespace, prefix, after, limit: 10 }, group: GroupName::default() }
}

fn set(policy: Policy) -> Command {
    let (name, rules) = (NamespaceName::default(), Rules::default());
    Command::NamespaceSet { name, policy, rules, based_on: None }
}

fn audit() -> GroupName {
    GroupName::try_from("audit").unwrap()
}

fn create(start: Start) -> Command {
    let (namespace, name, kind) = (NamespaceName::default(), audit(), GroupKind::Shared);
    Command::GroupCreate { namespace, name, start, kind }
}

/// Lets a job go on until it has written something, and then for as long as it is held.
fn hold_midway(cold: &mut Cold, what: &str) -> usize {
    let before = cold.journal.facts.len();
    while cold.journal.facts.len() < before + 200 {
        assert!(cold.is_busy(), "{what} asks for its next turn, after {} facts", cold.journal.facts.len() - before);
        cold.turn(None);
    }
    cold.core.hold_jobs(true);
    let facts = cold.journal.facts.len();
    // What it had asked for comes.
    cold.rest();
    assert!(cold.core.has_jobs_on_hold(), "{what} is not over");
    assert_eq!(cold.journal.facts.len(), facts, "{what} writes nothing");
    facts
}

fn let_go(cold: &mut Cold) -> usize {
    cold.core.hold_jobs(false);
    assert!(cold.is_busy(), "that the job goes on takes nothing but that it may");
    cold.rest();
    assert!(!cold.core.has_jobs_on_hold());
    cold.journal.facts.len()
}

#[test]
fn what_is_held_is_passed_by_those_who_only_look() {
    let mut cold = filled();
    let ticket = cold.begin(purge());
    let held = hold_midway(&mut cold, "a purge");
    let Reply::Topics(rows) = cold.answered(page()) else { panic!("a page is a list of topics") };
    assert_eq!(rows.len(), 10, "a list reads what it shows");
    let publish = cold.publish(&["other".to_owned()], Priority::DEFAULT, None);
    cold.answered(publish);
    assert!(!cold.replies.contains_key(&ticket), "and whoever has asked for it waits");
    assert!(let_go(&mut cold) > held + TOPICS / 2);
    let Reply::Count(purged) = cold.replies[&ticket] else { panic!("{:?}", cold.replies[&ticket]) };
    assert!((TOPICS as u64..=TOPICS as u64 + 1).contains(&purged), "{purged} were purged");
    assert!(cold.drain().len() <= 1, "nothing else is left");
}

#[test]
fn who_is_gone_while_it_is_held_is_not_gone_on_with() {
    let mut cold = filled();
    let ticket = cold.begin(purge());
    let held = hold_midway(&mut cold, "a purge");
    cold.begin(Command::Withdraw(ticket));
    assert!(!cold.core.has_jobs_on_hold(), "nobody waits for it");
    cold.core.hold_jobs(false);
    cold.rest();
    assert_eq!(cold.journal.facts.len(), held);
}

#[test]
fn all_that_changes_many_topics_is_held() {
    let ageing = Policy { ageing: Some(Millis::seconds(3_600)), ..Policy::default() };
    let retention =
        Policy { retention: Retention { age: Some(Millis::seconds(60)), count: None }, ..Policy::default() };
    for (what, command) in
        [("settling", set(ageing)), ("retention", set(retention)), ("a start", create(Start::Earliest))]
    {
        let mut cold = filled();
        cold.now.wall.0 += 10_000_000;
        cold.now.run.0 += 10_000_000;
        cold.begin(command);
        let held = hold_midway(&mut cold, what);
        assert!(let_go(&mut cold) > held + TOPICS / 4, "{what} comes to its end");
    }
    let mut cold = filled();
    cold.begin(create(Start::Earliest));
    cold.rest();
    cold.begin(Command::GroupDelete { namespace: NamespaceName::default(), name: audit() });
    let held = hold_midway(&mut cold, "an end");
    assert!(let_go(&mut cold) > held + TOPICS / 4, "an end comes to its end");
}

#[test]
fn of_dead_letters_many_are_held_and_one_is_not() {
    let mut shell = buried(1_500, 3);
    shell.core.hold_jobs(true);
    let (namespace, group) = (NamespaceName::default(), GroupName::default());
    let all = DeadWhich::Filter(Filter::Prefixes(vec![TopicName::try_from("t/").unwrap()]));
    let ticket = shell.ticket();
    let redrive = Command::DeadRedrive { namespace: namespace.clone(), group: group.clone(), which: all };
    shell.turn(vec![(ticket, redrive)]);
    let ticket = shell.ticket();
    let listing = Listing { namespace: namespace.clone(), prefix: Bytes::new(), after: Bytes::new(), limit: 1 };
    let list = Command::DeadList { listing, group: group.clone() };
    let outputs = shell.turn(vec![(ticket, list)]);
    let rows = outputs.into_iter().find_map(|output| match output {
        millpond_core::output::Output::Reply { reply: Reply::Dead { rows, .. }, .. } => Some(rows),
        _ => None,
    });
    let row = rows.expect("a list passes").remove(0).row;
    let which = DeadWhich::One(row.topic, row.message.id);
    let ticket = shell.ticket();
    shell.turn(vec![(ticket, Command::DeadRedrive { namespace, group, which })]);
    let ticket = shell.ticket();
    shell.turn(vec![(ticket, publish("other", 1))]);
    assert_eq!(counts(&shell).dead, 1_499, "one goes back to work at once");
    assert_ne!(shell.next_wake(), Some(0), "and nobody asks for turns meanwhile");
    shell.core.hold_jobs(false);
    while shell.next_wake() == Some(0) {
        shell.turn(Vec::new());
    }
    assert_eq!(counts(&shell).dead, 0);
}
