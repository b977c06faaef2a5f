//! What jobs keep of the topics and prefixes that they are asked for by.

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::output::{Output, Reply};
use millpond_types::limits::{FILTER_MAX, TOPIC_NAME_MAX};
use millpond_types::{Code, Filter, GroupName, NamespaceName, TopicName};

use super::{TOPICS, filled, top};
use crate::shell::Shell;

/// As much of a filter as there may be, cut out of one buffer as a frame's names are.
fn largest() -> (Bytes, Vec<TopicName>) {
    let frame: Bytes = (0..FILTER_MAX).flat_map(|at| format!("{at:0TOPIC_NAME_MAX$}").into_bytes()).collect();
    let names = (0..FILTER_MAX).map(|at| frame.slice(at * TOPIC_NAME_MAX..(at + 1) * TOPIC_NAME_MAX));
    let names = names.map(|name| TopicName::new(name).expect("a name")).collect();
    (frame, names)
}

fn purge(filter: Filter) -> Command {
    Command::Purge { namespace: NamespaceName::default(), filter, group: None }
}

fn dead_purge(filter: Filter) -> Command {
    let which = DeadWhich::Filter(filter);
    Command::DeadPurge { namespace: NamespaceName::default(), group: GroupName::default(), which }
}

/// How many of these commands are refused for now that come in one turn behind a job.
fn refused(shell: &mut Shell, commands: Vec<Command>) -> usize {
    let commands = [top()].into_iter().chain(commands).map(|command| (shell.ticket(), command)).collect();
    let refused = |output: &Output| match output {
        Output::Reply { reply: Reply::Refused { code: Code::Overloaded, detail, .. }, .. } => {
            assert!(detail.contains("name fewer"), "{detail}");
            true
        }
        _ => false,
    };
    shell.turn(commands).iter().filter(|output| refused(output)).count()
}

fn rest(shell: &mut Shell) {
    while shell.next_wake() == Some(0) {
        shell.turn(Vec::new());
    }
}

#[test]
fn the_filters_of_all_jobs_together_have_a_bound() {
    const MANY: usize = 30;
    let mut shell = filled(TOPICS);
    let (_, names) = largest();
    for ask in [purge, dead_purge] {
        for filter in [Filter::Prefixes(names.clone()), Filter::Topics(names.clone())] {
            assert_eq!(refused(&mut shell, vec![ask(filter); MANY]), MANY - 1, "one of the largest has room");
            rest(&mut shell);
        }
    }
    let short = (0..FILTER_MAX).map(|at| TopicName::try_from(&*format!("p{at}")).expect("a name")).collect();
    assert_eq!(refused(&mut shell, vec![purge(Filter::Prefixes(short)); 20]), 0, "and many of short ones");
}

#[test]
fn a_prefix_is_kept_once_and_so_is_what_begins_with_it() {
    let mut shell = filled(TOPICS);
    let same = largest().1.swap_remove(0);
    let within = (0..FILTER_MAX / 2).map(|at| TopicName::try_from(&*format!("t/{at}")).expect("a name"));
    let all = vec![same; FILTER_MAX / 2].into_iter().chain([TopicName::try_from("t").expect("a name")]);
    let filter: Vec<_> = within.chain(all).collect();
    assert_eq!(filter.len(), FILTER_MAX + 1);
    assert_eq!(refused(&mut shell, vec![purge(Filter::Prefixes(filter[1..].to_vec())); 30]), 0);
    rest(&mut shell);
    assert_eq!(shell.core.resident_count(), 0, "and all of it is purged");
}

#[test]
fn jobs_keep_no_frame_in_memory() {
    let mut shell = filled(TOPICS);
    for ask in [purge, dead_purge] {
        for of in [Filter::Prefixes, Filter::Topics] {
            let (frame, names) = largest();
            assert_eq!(refused(&mut shell, vec![ask(of(names))]), 0);
            assert!(frame.is_unique(), "what goes on has names of its own");
            rest(&mut shell);
        }
    }
}
