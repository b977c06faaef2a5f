//! So many there may be, and one more is refused: the limits of `docs/semantics.md` that the core keeps. What is over goes when
//! something else does.

use millpond_core::command::{Command, Finish, FinishVerb, Publish, ReceiptRun};
use millpond_core::output::{Output, Reply};
use millpond_types::limits::{
    BINDINGS_MAX, EXCHANGES_MAX, GROUPS_MAX, LEASE_MAX, LEASE_MIN, NAMESPACES_MAX, PAGE_MAX, PUBLISH_BYTES_MAX,
    PUBLISH_DEDUP_IDS_MAX, PUBLISH_DROPS_MAX, PUBLISH_MESSAGES_MAX, PUBLISH_PLACES_MAX, PUBLISH_RUNS_MAX, RECEIPTS_MAX,
    TOP_MAX, WAIT_MAX_MS,
};
use millpond_types::{Code, LeaseNumber, MessageState, PublishOutcome, Receipt, TopicNumber};

use crate::ask::{answer, answers, asked, say};
use crate::shell::Shell;

fn refusal(reply: &Reply) -> Option<(Code, &str)> {
    match reply {
        Reply::Refused { code, detail, .. } => Some((*code, detail)),
        _ => None,
    }
}

/// Makes so many, which is all that there may be: one more is refused with a word of why, and finds room when one is taken back.
fn fill(shell: &mut Shell, most: usize, make: impl Fn(usize) -> String, undo: impl Fn(usize) -> String, why: &str) {
    let told = answers(shell, (0..most).map(|at| asked(&make(at))).collect());
    assert!(told.len() == most && told.iter().all(|reply| refusal(reply).is_none()), "{}", make(0));
    let told = say(shell, &make(most));
    let (code, detail) = refusal(&told).unwrap_or_else(|| panic!("{} is one too many: {told:?}", make(most)));
    assert!(code == Code::LimitExceeded && detail.contains(why), "{code:?}: {detail}");
    assert_eq!(refusal(&say(shell, &undo(0))), None);
    assert_eq!(refusal(&say(shell, &make(most))), None, "there is room for another");
}

#[test]
fn so_many_are_set_up_and_one_more_is_refused() {
    let mut shell = Shell::new();
    // `default` is there.
    let (groups, namespaces) = (GROUPS_MAX - 1, NAMESPACES_MAX - 1);
    fill(&mut shell, groups, |at| format!("group g{at}"), |at| format!("group-delete g{at}"), "at most 64 groups");
    let exchange = |at| format!("exchange e{at} kind=direct");
    fill(&mut shell, EXCHANGES_MAX, exchange, |at| format!("exchange-delete e{at}"), "at most 100 exchanges");
    let (bind, unbind) = (|at| format!("bind e9 t{at} key=k"), |at| format!("unbind e9 t{at} key=k"));
    fill(&mut shell, BINDINGS_MAX, bind, unbind, "at most 1000 bindings");
    fill(&mut shell, PAGE_MAX, |at| format!("pause p{at}"), |at| format!("resume p{at}"), "at most 1000 topics");
    assert_eq!(refusal(&say(&mut shell, "pause *")), None, "all of them are one more");
    fill(
        &mut shell,
        namespaces,
        |at| format!("namespace n{at}"),
        |at| format!("namespace-delete n{at}"),
        "at most 10000",
    );
}

/// The answer to what is gone over in slices, a turn each.
fn listed(shell: &mut Shell, text: &str) -> Reply {
    let mut told = answers(shell, vec![asked(text)]);
    while told.is_empty() {
        told = answers(shell, Vec::new());
    }
    told.remove(0)
}

#[test]
fn no_answer_has_more_rows_than_a_page() {
    let mut shell = Shell::new();
    let (most, more) = (PAGE_MAX, PAGE_MAX + 1);
    say(&mut shell, &format!("publish a m*{more}"));
    say(&mut shell, &format!("publish a d*{more} delay=1h"));
    for of in ["first", "due"] {
        let Reply::Messages(found) = say(&mut shell, &format!("look a {of}={more}")) else { panic!() };
        let due = found.iter().filter(|found| matches!(found.row.state, MessageState::Delayed { .. })).count();
        assert_eq!((found.len(), due), (most, if of == "due" { most } else { 0 }));
    }
    let topics: Vec<String> = (0..most).map(|at| format!("t{at} x")).collect();
    say(&mut shell, &format!("publish {}", topics.join(" + ")));
    let Reply::Topics(rows) = listed(&mut shell, &format!("topics limit={more}")) else { panic!() };
    assert_eq!(rows.len(), most);
    let Reply::Topics(rows) = listed(&mut shell, &format!("top limit={more}")) else { panic!() };
    assert_eq!(rows.len(), TOP_MAX);

    say(&mut shell, "namespace default on_expiry=dead");
    say(&mut shell, &format!("publish a e*{more} ttl=1s"));
    shell.pass(2_000, 2_000);
    answers(&mut shell, Vec::new());
    let Reply::Dead { rows, next } = listed(&mut shell, &format!("dead limit={more}")) else { panic!() };
    assert!(rows.len() == most && !next.is_empty(), "{} rows", rows.len());
}

#[test]
fn a_lease_is_not_shorter_and_not_longer_than_it_may_be() {
    let mut shell = Shell::new();
    say(&mut shell, "begin s1");
    let asked =
        |millis: u64| [format!("receive lease={millis}ms"), format!("attach s1.{millis} lease={millis}ms max=1")];
    for text in [LEASE_MIN.0 - 1, LEASE_MAX.0 + 1].into_iter().flat_map(asked) {
        let told = say(&mut shell, &text);
        let (code, why) = refusal(&told).unwrap_or_else(|| panic!("{text}: {told:?}"));
        assert!(code == Code::ArgumentInvalid && why.contains("100 ms to 12 h"), "{text}: {code:?}: {why}");
    }
    for text in [LEASE_MIN.0, LEASE_MAX.0].into_iter().flat_map(asked) {
        assert_eq!(refusal(&say(&mut shell, &text)), None, "{text}");
    }
}

/// A run of receipts is one in a frame, however many it names.
#[test]
fn a_call_names_so_many_receipts_in_however_few_runs() {
    let mut shell = Shell::new();
    let receipt = Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(1) };
    let mut ack = |counts: [u32; 2]| {
        let receipts = counts.map(|count| ReceiptRun { first: receipt, count }).into();
        let finish = Finish { verb: FinishVerb::Ack, receipts, confirm: true, namespace: None };
        answer(&mut shell, Command::Finish(finish))
    };
    let half = RECEIPTS_MAX as u32 / 2;
    assert_eq!(refusal(&ack([half, half])), None);
    let told = ack([half, half + 1]);
    assert!(refusal(&told).is_some_and(|(code, why)| code == Code::LimitExceeded && why.contains("10001")), "{told:?}");
}

/// Also where it comes from no frame, as that of a program that the broker is part of does.
#[test]
fn a_publish_holds_so_many_messages_and_so_many_bytes() {
    let publish = |text: &str| {
        let Command::Publish(publish) = asked(text) else { unreachable!("it is one") };
        publish
    };
    let bytes_of = |publish: &Publish| publish.runs.iter().map(|run| run.block.len()).sum::<usize>();
    let envelope = bytes_of(&publish("publish a x")) - 1;
    let of_messages = |count: usize| publish(&format!("publish a{} + b x", " x".repeat(count - 1)));
    let of_bytes = |bytes: usize| publish(&format!("publish a {} + b x", "x".repeat(bytes - 2 * envelope - 1)));
    assert_eq!(bytes_of(&of_bytes(PUBLISH_BYTES_MAX)), PUBLISH_BYTES_MAX);
    for (fits, over) in [
        (of_messages(PUBLISH_MESSAGES_MAX), of_messages(PUBLISH_MESSAGES_MAX + 1)),
        (of_bytes(PUBLISH_BYTES_MAX), of_bytes(PUBLISH_BYTES_MAX + 1)),
    ] {
        let mut shell = Shell::new();
        let told = answer(&mut shell, Command::Publish(over));
        let is_told = refusal(&told).is_some_and(|(code, why)| code == Code::LimitExceeded && why.contains("in parts"));
        assert!(is_told, "one more is refused");
        let told = answer(&mut shell, Command::Publish(fits));
        let Reply::Published { outcomes, .. } = told else { panic!("{told:?}") };
        assert!(outcomes.iter().all(|of| matches!(of.outcome, PublishOutcome::Queued { .. })), "{outcomes:?}");
    }
}

/// Others wait until it is decided, and each of these takes it as long as a small publish.
#[test]
fn the_runs_and_dedup_ids_of_a_publish_are_bounded() {
    let topics = |count: usize| (0..count).map(|at| format!("t{at} x")).collect::<Vec<_>>().join(" + ");
    let ids = |count: usize| format!("t {}", (0..count).map(|at| format!("x#{at}")).collect::<Vec<_>>().join(" "));
    for (text, most) in [(&topics as &dyn Fn(usize) -> String, PUBLISH_RUNS_MAX), (&ids, PUBLISH_DEDUP_IDS_MAX)] {
        let mut shell = Shell::new();
        let told = say(&mut shell, &format!("publish {}", text(most + 1)));
        let (code, why) = refusal(&told).expect("one more is refused");
        assert!(code == Code::LimitExceeded && why.contains("in parts"), "{why}");
        let told = say(&mut shell, &format!("publish {}", text(most)));
        let Reply::Published { outcomes, .. } = told else { panic!("{told:?}") };
        assert!(outcomes.iter().all(|of| matches!(of.outcome, PublishOutcome::Queued { .. })), "{outcomes:?}");
    }
}

#[test]
fn a_receive_waits_for_ten_minutes_at_most() {
    let mut shell = Shell::new();
    let ticket = shell.ticket();
    assert!(shell.turn(vec![(ticket, asked("receive wait=1h"))]).is_empty());
    shell.pass(WAIT_MAX_MS - 1, 0);
    assert!(shell.turn(Vec::new()).is_empty());
    shell.pass(1, 0);
    assert!(
        matches!(shell.turn(Vec::new())[..], [Output::Reply { reply: Reply::Received(ref runs), .. }] if runs.is_empty())
    );
}

/// They may be more than it was sent with, because of duplicates between them.
#[test]
fn the_runs_of_a_publish_times_the_groups_are_bounded() {
    let most = PUBLISH_PLACES_MAX / GROUPS_MAX;
    let twice = |runs: usize| {
        let ids: Vec<String> = (0..runs).map(|at| format!("x#{at} x#{at}")).collect();
        format!("publish t {}", ids.join(" "))
    };
    let mut shell = Shell::new();
    answers(&mut shell, (1..GROUPS_MAX).map(|at| asked(&format!("group g{at}"))).collect());
    let told = say(&mut shell, &twice(most + 1));
    let (code, why) = refusal(&told).expect("they are too many");
    assert_eq!(code, Code::LimitExceeded);
    assert!(["65536", "1025 runs", "64 groups", "in parts"].iter().all(|part| why.contains(part)), "{why}");
    let told = say(&mut shell, &twice(most));
    let Reply::Published { outcomes, .. } = told else { panic!("{told:?}") };
    let queued = outcomes.iter().filter(|of| matches!(of.outcome, PublishOutcome::Queued { .. })).count();
    assert_eq!(queued, most);
    // As many messages as a publish holds are one run, and what is repeated is none.
    let mut shell = Shell::new();
    answers(&mut shell, (1..GROUPS_MAX).map(|at| asked(&format!("group g{at}"))).collect());
    let ids = (0..3 * most).map(|at| format!("x#{at}")).collect::<Vec<_>>().join(" ");
    for _ in 0..2 {
        assert_eq!(refusal(&say(&mut shell, &format!("publish t {ids}"))), None);
    }
}

/// Each message that is dropped may be a fact of its own in each group.
#[test]
fn what_a_publish_ends_of_full_topics_is_bounded() {
    let mut shell = Shell::new();
    answers(&mut shell, (1..GROUPS_MAX).map(|at| asked(&format!("group g{at}"))).collect());
    let limit = 3000;
    say(&mut shell, &format!("namespace default max_waiting={limit} overflow=drop_oldest"));
    let most = PUBLISH_DROPS_MAX as usize / GROUPS_MAX;
    let publish = |topic: &str, count: usize| format!("publish {topic} m*{count}");
    // None waits that would end.
    assert_eq!(refusal(&say(&mut shell, &publish("t", limit))), None);
    let told = say(&mut shell, &publish("t", most + 1));
    let (code, why) = refusal(&told).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(code, Code::LimitExceeded);
    assert!(["65536", "65600", "64 groups", "in parts"].iter().all(|part| why.contains(part)), "{why}");
    assert_eq!(refusal(&say(&mut shell, &publish("t", most))), None);
    // No more than wait are ended, however many come.
    assert_eq!(refusal(&say(&mut shell, &publish("u", most / 2))), None);
    assert_eq!(refusal(&say(&mut shell, &publish("u", 10 * limit))), None);
}

/// What is not stored ends nothing: what was seen before, what comes twice, and what is too large.
#[test]
fn what_a_publish_does_not_store_ends_nothing_of_full_topics() {
    let mut shell = Shell::new();
    answers(&mut shell, (1..GROUPS_MAX).map(|at| asked(&format!("group g{at}"))).collect());
    let limit = 3000;
    say(&mut shell, &format!("namespace default max_waiting={limit} overflow=drop_oldest"));
    let most = PUBLISH_DROPS_MAX as usize / GROUPS_MAX;
    let ids =
        |name: &str, count: usize| (0..count).map(|at| format!("{name}#{name}{at}")).collect::<Vec<_>>().join(" ");
    let seen = ids("s", most + 1);
    assert_eq!(refusal(&say(&mut shell, &format!("publish t {seen}"))), None, "none waits that would end");
    assert_eq!(refusal(&say(&mut shell, &format!("publish t m*{}", limit - most - 1))), None);
    let mut count = |text: &str| {
        let told = say(&mut shell, text);
        assert_eq!(refusal(&told), None);
        let Reply::Published { outcomes, .. } = told else { panic!("{told:?}") };
        let of = |is: fn(&PublishOutcome) -> bool| {
            outcomes.iter().filter(|of| is(&of.outcome)).map(|of| of.count).sum::<u32>()
        };
        let queued = of(|outcome| matches!(outcome, PublishOutcome::Queued { .. }));
        (queued as usize, of(|outcome| matches!(outcome, PublishOutcome::Duplicate { .. })) as usize)
    };
    assert_eq!(count(&format!("publish t {seen}")), (0, most + 1));
    // Beside as many as may be stored, of which some come twice, one of these too large at first.
    let new = ids("n", most);
    assert_eq!(count(&format!("publish t s#s0 large#n0 {new} n#n1 large body_max=4")), (most, 2));
    let new = ids("o", most + 1);
    let told = say(&mut shell, &format!("publish t s#s0 {new}"));
    assert!(matches!(refusal(&told), Some((Code::LimitExceeded, why)) if why.contains("may end 65600")), "{told:?}");
}
