//! Sessions that are over with more leases than a turn ends: each turn ends a slice, and all of them come back.

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, SessionBegin, Ticket};
use millpond_core::fact::{Fact, Victims};
use millpond_core::output::{Output, Reply};
use millpond_types::{FinishOutcome, LeaseNumber, Millis, NamespaceName, Receipt, SessionId};

use crate::ask::asked;
use crate::shell::Shell;

/// More than two slices, each a run of its own.
const LEASES: usize = 2_500;
/// Leases that end in one turn at most.
const SLICE: usize = 1_000;

fn say(shell: &mut Shell, text: &str) -> Vec<Output> {
    let ticket = shell.ticket();
    shell.turn(vec![(ticket, asked(text))])
}

/// A session that holds so many leases, of two topics.
fn holding() -> (Shell, Vec<Receipt>) {
    let mut shell = Shell::new();
    say(&mut shell, "namespace default retry=head");
    let publishes: Vec<_> =
        (0..LEASES).map(|at| (shell.ticket(), asked(["publish a x", "publish b x"][at % 2]))).collect();
    shell.turn(publishes);
    say(&mut shell, "begin s1");
    let receipts = leased(&attach(&mut shell, "s1.1"));
    assert_eq!(receipts.len(), LEASES);
    (shell, receipts)
}

/// Lets a consumer lease all there is, which takes some turns.
fn attach(shell: &mut Shell, consumer: &str) -> Vec<Output> {
    let mut outputs = say(shell, &format!("attach {consumer} max={LEASES}"));
    while shell.next_wake() == Some(0) {
        outputs.extend(shell.turn(Vec::new()));
    }
    outputs
}

/// A session that [holds](holding) them has expired, and the first slice of its leases has ended.
fn in_the_midst() -> (Shell, Vec<Receipt>) {
    let (mut shell, receipts) = holding();
    say(&mut shell, "lose s1");
    shell.pass(10_000, 10_000);
    shell.turn(Vec::new());
    assert_eq!(shell.next_wake(), Some(0), "in the midst");
    (shell, receipts)
}

fn leased(outputs: &[Output]) -> Vec<Receipt> {
    let runs = outputs.iter().filter_map(|output| match output {
        Output::Delivery { leases, .. } => Some(leases),
        _ => None,
    });
    runs.flatten().map(|run| run.receipt).collect()
}

/// Turns until the core has nothing more to do: how many leases came back in each, and what was told.
fn turns(shell: &mut Shell, first: &str) -> (Vec<usize>, Vec<Output>) {
    let mut commands = match first {
        "" => Vec::new(),
        text => vec![(shell.ticket(), asked(text))],
    };
    let (mut ended, mut outputs) = (Vec::new(), Vec::new());
    loop {
        let facts = shell.journal.facts.len();
        outputs.push(shell.turn(std::mem::take(&mut commands)));
        let new = &shell.journal.facts[facts..];
        ended.push(new.iter().filter(|(fact, _)| matches!(fact, Fact::Returned { .. })).count());
        if shell.next_wake() != Some(0) {
            return (ended, outputs.into_iter().flatten().collect());
        }
    }
}

/// Messages that wait, and that are leased.
fn counts(shell: &mut Shell) -> (u64, u64) {
    let Reply::Namespaces { rows, .. } = shell.ask(Command::Stats(NamespaceName::default())) else { panic!("stats") };
    (rows[0].groups[0].counts.waiting, rows[0].groups[0].counts.leased)
}

fn begun(outputs: &[Output]) -> bool {
    let begun = outputs.iter().find_map(|output| match output {
        Output::Reply { reply: Reply::SessionBegun { resumed }, .. } => Some(*resumed),
        _ => None,
    });
    begun.expect("the begin is answered")
}

/// How many of some leases are current and acked.
fn acked(shell: &mut Shell, receipts: &[Receipt]) -> u32 {
    done(shell, FinishVerb::Ack, receipts)
}

/// How many of some leases are extended; the others are lost.
fn extended(shell: &mut Shell, receipts: &[Receipt]) -> u32 {
    done(shell, FinishVerb::Extend { lease: None }, receipts)
}

/// With how many of some leases a verb is done; the others are lost.
fn done(shell: &mut Shell, verb: FinishVerb, receipts: &[Receipt]) -> u32 {
    let ticket = shell.ticket();
    let receipts = receipts.iter().map(|first| ReceiptRun { first: *first, count: 1 }).collect();
    let finish = Command::Finish(Finish { verb, receipts, confirm: true, namespace: None });
    let outputs = shell.turn(vec![(ticket, finish)]);
    let outcomes = outputs.into_iter().find_map(|output| match output {
        Output::Reply { reply: Reply::Finished(outcomes), .. } => Some(outcomes),
        _ => None,
    });
    let (done, lost): (Vec<_>, Vec<_>) =
        outcomes.expect("it is answered").into_iter().partition(|run| run.outcome == FinishOutcome::Done);
    assert!(lost.iter().all(|run| run.outcome == FinishOutcome::LeaseLost), "{lost:?}");
    done.iter().map(|run| run.count).sum()
}

/// The last leases in the order of topics and numbers, whose turn to end comes last.
fn last(receipts: &[Receipt], count: usize) -> Vec<Receipt> {
    let mut receipts = receipts.to_vec();
    receipts.sort_unstable_by_key(|receipt| (receipt.topic, receipt.lease));
    receipts.split_off(receipts.len() - count)
}

#[test]
fn no_turn_ends_more_leases_of_a_lost_session_than_a_slice_and_all_come_back() {
    let (mut shell, _) = holding();
    say(&mut shell, "lose s1");
    shell.pass(10_000, 10_000);
    let (ended, outputs) = turns(&mut shell, "");
    assert_eq!(ended, [SLICE, SLICE, LEASES - 2 * SLICE], "leases that ended in each turn");
    assert!(matches!(outputs[..], [Output::SessionExpired(SessionId(1))]), "it is told once: {outputs:?}");
    assert_eq!(counts(&mut shell), (LEASES as u64, 0));
}

#[test]
fn no_turn_gives_more_leases_back_than_a_slice_where_a_session_is_ended_or_its_client_holds_none() {
    for first in ["end s1", "begin s1"] {
        let (mut shell, _) = holding();
        let (ended, outputs) = turns(&mut shell, first);
        assert_eq!(ended, [SLICE, SLICE, LEASES - 2 * SLICE], "leases that ended in each turn: {first}");
        assert_eq!(outputs.len(), 1, "it is answered once: {outputs:?}");
        assert_eq!(counts(&mut shell), (LEASES as u64, 0), "{first}");
    }
}

/// Dead letters that each turn makes until the core has nothing more to do.
fn letters(shell: &mut Shell, mut commands: Vec<(Ticket, Command)>) -> Vec<u32> {
    let mut made = Vec::new();
    loop {
        let facts = shell.journal.facts.len();
        shell.turn(std::mem::take(&mut commands));
        let died = shell.journal.facts[facts..].iter().filter_map(|(fact, _)| match fact {
            Fact::Died { which: Victims::Leased { count, .. } | Victims::Waiting { count, .. }, .. } => Some(*count),
            _ => None,
        });
        made.push(died.sum());
        if shell.next_wake() != Some(0) {
            return made;
        }
    }
}

#[test]
fn no_turn_makes_more_dead_letters_than_a_slice_of_leases_that_are_of_many_messages_each() {
    // What a consumer is given of a topic at a time.
    let share = 32;
    let mut shell = Shell::new();
    say(&mut shell, "namespace default max_failures=0");
    say(&mut shell, &format!("publish a{}", " x".repeat(LEASES)));
    say(&mut shell, "begin s1");
    attach(&mut shell, "s1.1");
    assert_eq!(counts(&mut shell), (0, LEASES as u64));
    say(&mut shell, "lose s1");
    shell.pass(10_000, 10_000);
    let made = letters(&mut shell, Vec::new());
    assert_eq!((made.len(), made.iter().sum()), (3, LEASES as u32), "{made:?}");
    assert!(made[..2].iter().all(|made| (SLICE as u32..SLICE as u32 + share).contains(made)), "{made:?}");
    // The same where they are given back, and their TTL has passed.
    say(&mut shell, "namespace default on_expiry=dead ttl=1s");
    say(&mut shell, &format!("publish a{}", " x".repeat(LEASES)));
    say(&mut shell, "begin s2");
    attach(&mut shell, "s2.1");
    shell.pass(1000, 1000);
    let ticket = shell.ticket();
    let made = letters(&mut shell, vec![(ticket, asked("end s2"))]);
    assert_eq!((made.len(), made.iter().sum()), (3, LEASES as u32), "{made:?}");
    assert!(made[..2].iter().all(|made| (SLICE as u32..SLICE as u32 + share).contains(made)), "{made:?}");
    // And where no session holds them, than deadlines are decided in one.
    let deadlines = 10_000;
    shell.core.set_leases_of_turn(deadlines as u32);
    say(&mut shell, "namespace default max_failures=0");
    say(&mut shell, &format!("publish a{}", " x".repeat(5 * deadlines / 2)));
    for _ in 0..3 {
        say(&mut shell, &format!("receive max={deadlines} lease=1s"));
    }
    shell.pass(1000, 1000);
    let made = letters(&mut shell, Vec::new());
    assert_eq!((made.len(), made.iter().sum()), (3, 5 * deadlines as u32 / 2), "{made:?}");
    assert!(made.iter().all(|made| *made <= deadlines as u32), "{made:?}");
}

#[test]
fn an_orderly_end_is_confirmed_when_the_last_lease_was_given_back() {
    let (mut shell, _) = holding();
    let first = say(&mut shell, "end s1");
    let second = shell.turn(Vec::new());
    assert!(first.is_empty() && second.is_empty(), "{first:?} {second:?}");
    let third = shell.turn(Vec::new());
    assert!(matches!(third[..], [Output::Reply { reply: Reply::Done, .. }]), "{third:?}");
    assert_eq!(counts(&mut shell), (LEASES as u64, 0));
    // Whatever happens then, nothing of it has failed.
    shell.restart(true);
    shell.pass(10_000, 10_000);
    turns(&mut shell, "");
    let failed = shell.journal.facts.iter().filter(|(fact, _)| matches!(fact, Fact::Returned { failed: true, .. }));
    assert_eq!(failed.count(), 0);
    // Who has nothing is told at once.
    say(&mut shell, "begin s2");
    assert!(matches!(say(&mut shell, "end s2")[..], [Output::Reply { reply: Reply::Done, .. }]));
}

#[test]
fn who_gives_little_back_does_not_wait_for_who_gives_back_much() {
    let (mut shell, _) = holding();
    say(&mut shell, "begin s2");
    say(&mut shell, "attach s2.1 c max=3");
    say(&mut shell, "publish c x1 x2 x3");
    say(&mut shell, "end s1");
    let outputs = say(&mut shell, "end s2");
    assert!(matches!(outputs[..], [Output::Reply { reply: Reply::Done, .. }]), "{outputs:?}");
    assert_eq!(shell.next_wake(), Some(0), "s1 is not through");
}

#[test]
fn who_is_next_to_lead_does_not_wait_for_what_others_leave_behind() {
    let (mut shell, _) = holding();
    say(&mut shell, "group audit exclusive handover=5s");
    for session in 2..4 {
        say(&mut shell, &format!("begin s{session}"));
        say(&mut shell, &format!("attach s{session}.1 group=audit c max={SLICE}"));
    }
    // Nearly all that ends in a turn: others get nothing of it.
    let publishes = (0..SLICE - 50).map(|_| (shell.ticket(), asked("publish c x"))).collect();
    assert_eq!(leased(&shell.turn(publishes)).len(), SLICE - 50);
    say(&mut shell, "resign s2.1");
    shell.pass(5_000, 5_000);
    say(&mut shell, "end s1");
    let outputs = shell.turn(Vec::new());
    assert_eq!(shell.next_wake(), Some(0), "s1 is not through");
    let to = outputs.iter().find_map(|output| match output {
        Output::Delivery { session, .. } => Some(*session),
        _ => None,
    });
    assert_eq!(to, Some(SessionId(3)), "the hand-over is over: {outputs:?}");
}

#[test]
fn many_sessions_that_are_lost_at_once_expire_one_after_the_other() {
    let mut shell = Shell::new();
    say(&mut shell, "namespace default retry=head");
    for session in 1..=5 {
        for part in 0..6 {
            let publishes = (0..100).map(|_| (shell.ticket(), asked(&format!("publish t{part} x"))));
            let publishes = publishes.collect();
            shell.turn(publishes);
        }
        say(&mut shell, &format!("begin s{session}"));
        assert_eq!(leased(&say(&mut shell, &format!("attach s{session}.1 max=600"))).len(), 600);
    }
    (1..=5).for_each(|session| drop(say(&mut shell, &format!("lose s{session}"))));
    shell.pass(10_000, 10_000);
    let (ended, outputs) = turns(&mut shell, "");
    assert_eq!(ended, [SLICE, SLICE, SLICE]);
    assert_eq!(outputs.len(), 5, "each is told: {outputs:?}");
    assert_eq!(counts(&mut shell), (3_000, 0));
}

#[test]
fn a_session_expires_though_others_leave_more_behind_than_a_turn_ends() {
    let (mut shell, _) = holding();
    say(&mut shell, "begin s2 resume=1s");
    say(&mut shell, "lose s2");
    shell.pass(1_000, 1_000);
    let outputs = say(&mut shell, "end s1");
    assert_eq!(shell.next_wake(), Some(0), "s1 is not through");
    assert!(outputs.contains(&Output::SessionExpired(SessionId(2))), "{outputs:?}");
}

#[test]
fn a_crash_in_the_midst_leaves_the_rest_to_the_grace_of_the_start() {
    let (mut shell, receipts) = in_the_midst();
    shell.restart(true);
    shell.pass(9_000, 9_000);
    assert_eq!(turns(&mut shell, "").0, [0], "nothing runs out before the grace is over");
    shell.pass(1_000, 1_000);
    let (ended, outputs) = turns(&mut shell, "");
    assert_eq!(ended, [SLICE, LEASES - 2 * SLICE]);
    assert!(matches!(outputs[..], [Output::SessionExpired(SessionId(1))]), "{outputs:?}");
    assert_eq!(counts(&mut shell), (LEASES as u64, 0));
    assert_eq!(acked(&mut shell, &receipts), 0, "none of its leases is current");
}

#[test]
fn a_session_that_begins_under_the_same_id_in_the_midst_gets_none_of_the_leases_before() {
    let (mut shell, receipts) = in_the_midst();
    // It claims all of them.
    let held = receipts.iter().map(|first| ReceiptRun { first: *first, count: 1 }).collect();
    let begin = SessionBegin { session: SessionId(1), resume: Millis::seconds(10), held };
    let attach = asked("attach s1.1 max=100");
    let commands =
        [Command::SessionBegin(begin), attach].into_iter().map(|command| (shell.ticket(), command)).collect();
    let mut outputs = shell.turn(commands);
    assert!(!begun(&outputs), "it is another session");
    while shell.next_wake() == Some(0) {
        outputs.extend(shell.turn(Vec::new()));
    }
    let own = leased(&outputs);
    assert_eq!(own.len(), 100);
    assert_eq!(counts(&mut shell), (LEASES as u64 - 100, 100), "what it was given it keeps, and nothing else");
    assert_eq!(acked(&mut shell, &receipts), 0, "leases of the session before");
    assert_eq!(acked(&mut shell, &own), 100, "leases of its own");
}

#[test]
fn a_lease_that_was_left_behind_is_current_until_its_turn_comes() {
    let (mut shell, receipts) = in_the_midst();
    let last = last(&receipts, 1);
    assert_eq!(acked(&mut shell, &last), 1);
    turns(&mut shell, "");
    assert_eq!(counts(&mut shell), (LEASES as u64 - 1, 0), "it does not come back");
    assert_eq!(acked(&mut shell, &last), 0);
}

#[test]
fn nobody_extends_a_lease_that_was_left_behind() {
    let (mut shell, receipts) = in_the_midst();
    let last = last(&receipts, 3);
    assert_eq!(extended(&mut shell, &last), 0);
    // Also not one who begins a session under the same id, by leaving it out of a heartbeat.
    let heartbeat = Command::Heartbeat { session: SessionId(1), except: vec![last[0]] };
    let commands = [asked("begin s1"), heartbeat].into_iter().map(|command| (shell.ticket(), command)).collect();
    let facts = shell.journal.facts.len();
    shell.turn(commands);
    let new = &shell.journal.facts[facts..];
    assert!(new.iter().all(|(fact, _)| matches!(fact, Fact::Returned { .. })), "{new:?}");
    turns(&mut shell, "");
    assert_eq!(counts(&mut shell), (LEASES as u64, 0), "all of them came back");
}

#[test]
fn where_one_of_a_run_was_finished_nobody_extends_the_others() {
    let (mut shell, _) = holding();
    say(&mut shell, "publish z x1 x2 x3 x4 x5");
    let run = leased(&say(&mut shell, "credit s1.1 max=5"));
    assert_eq!(run.len(), 1, "they are leased together");
    let of_run = |at| Receipt { lease: LeaseNumber(run[0].lease.0 + at), ..run[0] };
    say(&mut shell, "end s1");
    assert_eq!(acked(&mut shell, &[of_run(2)]), 1);
    assert_eq!(extended(&mut shell, &[0, 1, 3, 4].map(of_run)), 0);
}

#[test]
fn what_is_extended_after_a_session_was_resumed_without_it_is_kept() {
    let (mut shell, receipts) = holding();
    say(&mut shell, "begin s1");
    let kept = last(&receipts, 3);
    assert_eq!(extended(&mut shell, &kept), 3);
    turns(&mut shell, "");
    assert_eq!(counts(&mut shell), (LEASES as u64 - 3, 3), "who extends it has it");
    assert_eq!(acked(&mut shell, &kept), 3);
}

#[test]
fn sessions_that_come_and_go_under_one_id_leave_each_lease_behind_once() {
    for resumes in [true, false] {
        let (mut shell, _) = holding();
        if !resumes {
            say(&mut shell, "end s1");
        }
        let again = |shell: &mut Shell| {
            let texts = if resumes { ["begin s1"; 10].as_slice() } else { &["begin s1", "end s1"].repeat(5) };
            let commands = texts.iter().map(|text| (shell.ticket(), asked(text))).collect();
            shell.turn(commands);
        };
        again(&mut shell);
        while shell.next_wake() == Some(0) {
            again(&mut shell);
            assert!(shell.core.left_behind() <= LEASES, "{} runs of {LEASES} leases", shell.core.left_behind());
        }
        again(&mut shell);
        turns(&mut shell, "");
        assert_eq!((counts(&mut shell), shell.core.left_behind()), ((LEASES as u64, 0), 0));
    }
}

#[test]
fn of_what_its_client_has_a_resumed_session_leaves_nothing_behind() {
    let (mut shell, receipts) = holding();
    let (kept, given_back) = receipts.split_at(LEASES / 5);
    let held = kept.iter().map(|first| ReceiptRun { first: *first, count: 1 }).collect();
    let begin = SessionBegin { session: SessionId(1), resume: Millis::seconds(10), held };
    let ticket = shell.ticket();
    let first = shell.turn(vec![(ticket, Command::SessionBegin(begin))]);
    assert!(begun(&first), "it goes on");
    turns(&mut shell, "");
    assert_eq!(counts(&mut shell), (given_back.len() as u64, kept.len() as u64));
    assert_eq!(acked(&mut shell, given_back), 0);
    assert_eq!(acked(&mut shell, kept), kept.len() as u32);
}
