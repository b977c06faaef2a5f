//! A turn leases so much and no more: what comes meanwhile has its turn, and nobody gets less of it in the end.

use std::collections::BTreeMap;

use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::Millis;

use crate::ask::asked;
use crate::bare::Bare;
use crate::shell::Shell;

/// Messages that a turn leases, and a share of them that a consumer is given before the next one's turn.
const MOST: u32 = 1024;
const SHARE: u32 = 32;

/// A shell in which so many messages of two topics wait.
fn holding(messages: u32) -> Shell {
    let mut shell = Shell::new();
    for topic in ["a", "b"] {
        tell(&mut shell, &[&format!("publish {topic} m*{}", messages / 2)]);
    }
    shell
}

/// A turn with some commands: what each delivery and each answer to a receive holds, and what else was answered.
fn tell(shell: &mut Shell, commands: &[&str]) -> (Vec<Vec<LeasedRun>>, Vec<Reply>) {
    let commands = commands.iter().map(|text| (shell.ticket(), asked(text))).collect();
    let (mut given, mut others) = (Vec::new(), Vec::new());
    for output in shell.turn(commands) {
        match output {
            Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. } => {
                given.push(leases)
            }
            Output::Reply { reply, .. } => others.push(reply),
            _ => {}
        }
    }
    (given, others)
}

fn count(given: &[Vec<LeasedRun>]) -> u32 {
    given.iter().map(|runs| counted(runs)).sum()
}

fn counted(runs: &[LeasedRun]) -> u32 {
    runs.iter().map(|run| run.count).sum()
}

/// Which messages these are, in order.
fn which(given: &[Vec<LeasedRun>]) -> Vec<(String, u64)> {
    given.iter().flatten().map(|run| (run.topic.to_string(), run.first.0)).collect()
}

#[test]
fn a_turn_leases_so_much_and_the_next_goes_on_with_the_same_order() {
    let messages = 3 * MOST;
    let begin = ["begin s1", &format!("attach s1.1 max={messages}")];
    let mut whole = holding(messages);
    whole.core.set_leases_of_turn(u32::MAX);
    let (at_once, _) = tell(&mut whole, &begin);
    assert_eq!(count(&at_once), messages);

    let mut shell = holding(messages);
    let mut given = tell(&mut shell, &begin).0;
    assert_eq!(count(&given), MOST);
    let mut turns = 1;
    while shell.next_wake() == Some(0) {
        // It does not wait until all of them are leased.
        let (more, answers) = tell(&mut shell, &["publish c m"]);
        assert_eq!(answers.len(), 1);
        assert!(count(&more) <= MOST);
        given.extend(more);
        turns += 1;
    }
    assert_eq!((turns, count(&given)), (3, messages));
    let of_both = which(&given).into_iter().filter(|(topic, _)| topic != "c");
    assert!(of_both.zip(which(&at_once)).all(|(cut, whole)| cut == whole), "whose turn it is does not change");
}

#[test]
fn a_receive_is_answered_with_what_it_has_when_a_turn_has_leased_enough() {
    let mut shell = holding(6 * MOST);
    let (given, _) = tell(&mut shell, &["receive max=2000", "receive max=2000"]);
    assert_eq!(given.iter().map(|runs| counted(runs)).collect::<Vec<_>>(), [MOST / 2, MOST / 2], "each has its share");
    assert_eq!(count(&tell(&mut shell, &["receive max=1000"]).0), 1000, "less than that is given at once");

    shell.core.set_leases_of_turn(1);
    let (given, _) = tell(&mut shell, &["begin s1", "attach s1.1 max=40", "receive max=100", "receive max=20"]);
    assert_eq!(count(&given), SHARE, "the consumer's share is more than enough");
    // The time of the others is up, and there is something for them: it is not said that there is nothing.
    let (given, _) = tell(&mut shell, &[]);
    assert_eq!(count(&given), SHARE);
    let (given, _) = tell(&mut shell, &[]);
    assert_eq!(count(&given), 20);
    let (given, _) = tell(&mut shell, &[]);
    assert_eq!(count(&given), 40 - SHARE, "and the consumer has its turn again");
    assert!(!shell.core.goes_on_at_once(), "nobody is left");
}

#[test]
fn of_groups_that_have_more_than_a_turn_leases_none_waits_for_another() {
    let groups = ["default", "g1", "g2", "g3", "g4", "g5", "g6"];
    let mut shell = Shell::new();
    groups[1..].iter().for_each(|group| _ = tell(&mut shell, &[&format!("group {group}")]));
    tell(&mut shell, &["publish a m*1000", "begin s1"]);
    shell.core.set_leases_of_turn(2 * SHARE);
    let attach = |(at, group): (usize, &&str)| format!("attach s1.{} max=1000 group={group}", at + 1);
    let attach: Vec<String> = groups.iter().enumerate().map(attach).collect();
    let mut given = tell(&mut shell, &attach.iter().map(|text| &text[..]).collect::<Vec<_>>()).0;
    let mut turns = 1;
    let mut served = BTreeMap::new();
    while turns < 3 * groups.len() {
        assert_eq!(count(&given), 2 * SHARE, "in turn {turns}");
        given.iter().for_each(|runs| *served.entry(runs[0].receipt.group).or_default() += counted(runs));
        given = tell(&mut shell, &[]).0;
        turns += 1;
    }
    assert_eq!(served.len(), groups.len());
    let (least, most) = (served.values().min(), served.values().max());
    assert!(most <= least.map(|least: &u32| least + 2 * SHARE).as_ref(), "each has as many turns: {served:?}");
}

#[test]
fn consumers_are_given_little_in_a_turn_that_somebody_waits_for_and_a_receive_alone_as_much_as_ever() {
    let mut shell = holding(6 * MOST);
    shell.core.set_in_haste(true);
    assert_eq!(count(&tell(&mut shell, &[&format!("receive max={MOST}")]).0), MOST);
    let (given, _) = tell(&mut shell, &["begin s1", &format!("attach s1.1 max={}", 2 * MOST)]);
    assert_eq!(count(&given), MOST / 16);
    assert!(shell.core.goes_on_at_once());
    shell.core.set_in_haste(false);
    assert_eq!(count(&tell(&mut shell, &[]).0), MOST);
}

#[test]
fn what_is_left_to_the_next_turn_does_not_wait_for_a_read() {
    let mut bare: Bare = Bare::new();
    bare.submit(asked("publish b/1 m"));
    bare.turn();
    bare.core.set_room(0);
    while bare.core.make_room() {}
    assert_eq!(bare.core.cold_count(), 1);
    bare.core.set_room(usize::MAX);
    bare.core.set_leases_of_turn(1);
    bare.submit(asked("publish a m*100"));
    let wanted = bare.wanted();
    bare.load(wanted);
    bare.submit(asked("receive b/* wait=1m"));
    bare.submit(asked("begin s1"));
    bare.submit(asked("attach s1.1 a max=100"));
    bare.turn();
    assert!(!bare.wanted().is_empty(), "b/1 is asked for, and is not read yet");
    assert_eq!(bare.core.next_wake(), Some(Millis::ZERO));
}
