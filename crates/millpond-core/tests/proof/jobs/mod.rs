//! What takes many turns because it goes over many entries.

mod cold;
mod drained;
mod filters;
mod holding;
mod redriving;
mod strangers;
mod topics;
mod turns;

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::output::{Output, Reply};
use millpond_core::page::Page;
use millpond_types::{Code, Counts, Filter, GroupKind, GroupName, Millis, NamespaceName, Start, TopBy, TopicName};

use crate::ask::asked;
use crate::shell::Shell;

const TOPICS: usize = 2_500;

fn top() -> Command {
    let (namespace, prefix) = (NamespaceName::default(), Bytes::new());
    Command::Top(Top { namespace, group: GroupName::default(), prefix, by: TopBy::Depth, limit: 3 })
}

fn publish(topic: &str, messages: usize) -> Command {
    let text = format!("publish {topic} m*{messages}");
    asked(&text)
}

fn filled(topics: usize) -> Shell {
    let mut shell = Shell::new();
    let commands = (0..topics).map(|at| publish(&format!("t/{at}"), 1 + at % 7)).collect::<Vec<_>>();
    let commands = commands.into_iter().map(|command| (shell.ticket(), command)).collect();
    shell.turn(commands);
    shell
}

/// Turns until a command is answered, with the answer.
fn answered(shell: &mut Shell, command: Command) -> (usize, Reply) {
    let ticket = shell.ticket();
    let mut outputs = shell.turn(vec![(ticket, command)]);
    for turns in 1.. {
        if let Some(Output::Reply { reply, .. }) = outputs.pop() {
            return (turns, reply);
        }
        assert_eq!(shell.next_wake(), Some(0), "a job asks for the next turn");
        outputs = shell.turn(Vec::new());
    }
    unreachable!("a job comes to its end")
}

#[test]
fn no_turn_looks_at_all_topics() {
    let mut shell = filled(TOPICS);
    let (turns, reply) = answered(&mut shell, top());
    assert!(turns > 2, "{turns} turns for {TOPICS} topics");
    let Reply::Topics(rows) = reply else { panic!("{reply:?}") };
    let found: Vec<_> = rows.iter().map(|row| (row.name.as_str().to_owned(), row.counts.waiting)).collect();
    assert_eq!(found, ["t/1000", "t/1007", "t/1014"].map(|name| (name.to_owned(), 7)));
    assert_ne!(shell.next_wake(), Some(0), "and then lets the shell rest");
}

/// A shell with a second group, and so many messages in each.
fn filled_twice(topics: usize) -> (Shell, u64) {
    let mut shell = Shell::new();
    let create = Command::GroupCreate {
        namespace: NamespaceName::default(),
        name: GroupName::try_from("audit").unwrap(),
        start: Start::Latest,
        kind: GroupKind::Shared,
    };
    let ticket = shell.ticket();
    shell.turn(vec![(ticket, create)]);
    let commands = (0..topics).map(|at| publish(&format!("t/{at}"), 2)).collect::<Vec<_>>();
    let commands = commands.into_iter().map(|command| (shell.ticket(), command)).collect();
    shell.turn(commands);
    (shell, 2 * topics as u64)
}

#[test]
fn a_purge_goes_over_all_groups_slice_by_slice() {
    let (mut shell, messages) = filled_twice(TOPICS);
    let purge = Command::Purge { namespace: NamespaceName::default(), filter: Filter::All, group: None };
    let (turns, reply) = answered(&mut shell, purge);
    assert_eq!(reply, Reply::Count(2 * messages));
    assert!(turns > 2 * TOPICS / 1_000, "{turns} turns for {TOPICS} topics of two groups");
    assert_eq!(shell.core.resident_count(), 0, "nothing is left");
}

#[test]
fn a_purge_goes_on_without_a_group_that_is_deleted_meanwhile() {
    let (mut shell, messages) = filled_twice(TOPICS);
    let (namespace, name) = (NamespaceName::default(), GroupName::try_from("audit").unwrap());
    let ticket = shell.ticket();
    let filter = Filter::Prefixes(vec![TopicName::try_from("t/").unwrap()]);
    shell.turn(vec![(ticket, Command::Purge { namespace: namespace.clone(), filter, group: None })]);
    let (_, reply) = answered(&mut shell, Command::GroupDelete { namespace, name });
    assert_eq!(reply, Reply::Done);
    let mut purged = None;
    while shell.next_wake() == Some(0) {
        for output in shell.turn(Vec::new()) {
            let Output::Reply { reply, .. } = output else { continue };
            purged = Some(reply);
        }
    }
    assert_eq!(purged, Some(Reply::Count(messages)), "that of the other group");
    assert_eq!(shell.core.resident_count(), 0, "nothing is left");
}

#[test]
fn jobs_take_turns_and_are_few_at_a_time() {
    let mut shell = filled(TOPICS);
    let tickets: Vec<_> = (0..100).map(|_| shell.ticket()).collect();
    let outputs = shell.turn(tickets.iter().map(|ticket| (*ticket, top())).collect());
    let refused =
        |output: &Output| matches!(output, Output::Reply { reply: Reply::Refused { code: Code::Overloaded, .. }, .. });
    let told = outputs.iter().filter(|output| refused(output)).count();
    assert_eq!(outputs.len(), told, "a turn looks at a slice for one of them");
    assert!((1..98).contains(&told), "{told} of 100 were refused");
    // Those whose connections are gone are not gone on with.
    let withdraw = tickets[3..].iter().map(|ticket| (*ticket, Command::Withdraw(*ticket))).collect();
    shell.turn(withdraw);
    let mut answered = Vec::new();
    while shell.next_wake() == Some(0) {
        for output in shell.turn(Vec::new()) {
            let Output::Reply { ticket, reply: Reply::Topics(rows) } = output else { panic!("{output:?}") };
            assert_eq!(rows.len(), 3);
            answered.push(ticket);
        }
    }
    assert_eq!(answered, tickets[..3], "each has come to its end, one after the other");
}

/// A shell with dead letters in some topics.
fn buried(letters: usize, topics: usize) -> Shell {
    let mut shell = Shell::new();
    // They are received in one turn.
    shell.core.set_leases_of_turn(u32::MAX);
    for at in 0..topics {
        let ticket = shell.ticket();
        shell.turn(vec![(ticket, publish(&format!("t/{at}"), letters / topics))]);
    }
    let (namespace, group, filter) = (NamespaceName::default(), GroupName::default(), Filter::All);
    let messages = u32::try_from(letters).unwrap();
    let (bytes, lease, wait) = (u64::MAX, None, Millis::ZERO);
    let receive = Command::Receive(Receive {
        namespace,
        group,
        filter,
        messages,
        bytes,
        lease,
        wait,
        at_most_once: false,
        request: None,
        call: 0,
    });
    let ticket = shell.ticket();
    let mut outputs = shell.turn(vec![(ticket, receive)]);
    let Some(Output::Reply { reply: Reply::Received(runs), .. }) = outputs.pop() else { panic!("{outputs:?}") };
    let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
    let verb = FinishVerb::Reject { reason: Bytes::new() };
    let ticket = shell.ticket();
    shell.turn(vec![(ticket, Command::Finish(Finish { verb, receipts, confirm: false, namespace: None }))]);
    shell
}

fn counts(shell: &Shell) -> Counts {
    let found = shell
        .core
        .pages()
        .find_map(|page| if let Page::Namespace(page) = page { Some(page.groups[0].counts) } else { None });
    found.expect("there is a namespace")
}

#[test]
fn dead_letters_go_back_to_work_in_slices_and_others_pass() {
    let mut shell = buried(3_000, 3);
    assert_eq!(counts(&shell).dead, 3_000);
    let (namespace, group) = (NamespaceName::default(), GroupName::default());
    let which = DeadWhich::Filter(Filter::Prefixes(vec![TopicName::try_from("t/").unwrap()]));
    let (redrive, mut dead) = (shell.ticket(), 3_000);
    let mut outputs = shell.turn(vec![(redrive, Command::DeadRedrive { namespace, group, which })]);
    loop {
        let answer = outputs.iter().find_map(|output| match output {
            Output::Reply { ticket, reply } if *ticket == redrive => Some(reply.clone()),
            _ => None,
        });
        let left = counts(&shell).dead;
        assert!(dead - left <= 1_000, "a slice a turn");
        dead = left;
        if let Some(answer) = answer {
            assert_eq!(answer, Reply::Count(3_000));
            break;
        }
        let ticket = shell.ticket();
        outputs = shell.turn(vec![(ticket, publish("other", 1))]);
        let published = |output: &Output| matches!(output, Output::Reply { ticket: of, .. } if *of == ticket);
        assert!(outputs.iter().any(published), "others pass");
    }
    let Counts { waiting, dead, .. } = counts(&shell);
    assert!(waiting > 3_000 && dead == 0, "{waiting} wait, {dead} are dead");
}
