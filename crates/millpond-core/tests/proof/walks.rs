//! What takes many turns because it looks at all topics.

use bytes::Bytes;
use millpond_core::command::{Command, Top};
use millpond_core::output::{Output, Reply};
use millpond_types::{Code, NamespaceName, TopBy};

use crate::script::{self, Line, Names};
use crate::shell::Shell;

const TOPICS: usize = 2_500;

fn top() -> Command {
    let (namespace, prefix) = (NamespaceName::default(), Bytes::new());
    Command::Top(Top { namespace, prefix, by: TopBy::Depth, limit: 3 })
}

fn publish(topic: &str, messages: usize) -> Command {
    let text = format!("publish {topic} m*{messages}");
    script::command(&Line::new(&text), &text, &Names::default())
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
        assert_eq!(shell.next_wake(), Some(0), "a walk asks for the next turn");
        outputs = shell.turn(Vec::new());
    }
    unreachable!("a walk comes to its end")
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

#[test]
fn walks_are_answered_in_turn_and_few_at_a_time() {
    let mut shell = filled(10);
    let tickets: Vec<_> = (0..100).map(|_| shell.ticket()).collect();
    let mut outputs = shell.turn(tickets.iter().map(|ticket| (*ticket, top())).collect());
    let refused =
        |output: &Output| matches!(output, Output::Reply { reply: Reply::Refused { code: Code::Overloaded, .. }, .. });
    let (told, answered_at_once) = (outputs.iter().filter(|output| refused(output)).count(), 1);
    assert_eq!(outputs.len(), told + answered_at_once, "a turn looks at a slice for one walk");
    assert!((1..100).contains(&told), "{told} of 100 were refused");
    while shell.next_wake() == Some(0) {
        outputs.extend(shell.turn(Vec::new()));
    }
    let mut answered: Vec<_> = outputs
        .iter()
        .map(|output| match output {
            Output::Reply { ticket, .. } => *ticket,
            other => panic!("{other:?}"),
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, tickets);
}
