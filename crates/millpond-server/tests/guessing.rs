//! What somebody achieves who guesses: receipts that are wrong by one, and numbers of sessions.

mod wire;

use std::time::{Duration, Instant};

use millpond_protocol::{Finish, FinishVerb, Request, Response, VERSION};
use millpond_types::{
    FinishOutcome, LeaseNumber, Millis, NamespaceName, Policy, Receipt, Rules, SessionId, TopicNumber,
};
use wire::*;

#[test]
fn a_receipt_that_is_wrong_in_any_number_does_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let (mut holder, mut other) = (Client::connect(server.address()), Client::connect(server.address()));
    holder.publish("t", &["a"]);
    let given_back = holder.receive(1, Millis::ZERO)[0].receipt;
    assert_eq!(holder.ack(given_back, 1)[0].outcome, FinishOutcome::Done);
    holder.publish("t", &["b"]);
    let receipt = holder.receive(1, Millis::ZERO)[0].receipt;
    let Receipt { topic: TopicNumber(topic), group, lease: LeaseNumber(lease) } = receipt;
    let mut guesses = vec![given_back];
    for off in [1, 1 << 32, u64::MAX] {
        let (topic, lease) = (topic.wrapping_add(off), lease.wrapping_add(off));
        guesses.push(Receipt { topic: TopicNumber(topic), ..receipt });
        guesses.push(Receipt { lease: LeaseNumber(lease), ..receipt });
        guesses.push(Receipt { group: group.wrapping_add(off as u32).max(1), ..receipt });
    }
    for guess in guesses.into_iter().filter(|guess| *guess != receipt) {
        assert_eq!(other.ack(guess, 1)[0].outcome, FinishOutcome::LeaseLost, "{guess:?}");
    }
    assert_eq!(other.stats().leased, 1);
    assert_eq!(holder.ack(receipt, 1)[0].outcome, FinishOutcome::Done);
    // What ended once is never named again.
    assert_eq!(other.ack(receipt, 1)[0].outcome, FinishOutcome::LeaseLost);
    server.shutdown().unwrap();
}

#[test]
fn a_session_is_taken_over_by_its_whole_number_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut holder = Client::connect(server.address());
    // A machine that is busy may take its time over the guesses.
    let begin = Request::SessionBegin { session: SessionId(0), resume: Millis::minutes(10), held: Vec::new() };
    let Response::SessionBegun { session: SessionId(number), .. } = holder.ask(begin) else { panic!("no session") };
    holder.attach(1, 10);
    holder.publish("t", &["a"]);
    let receipt = holder.delivery()[0].receipt;
    for bit in 0..u64::BITS {
        let mut other = Client::connect(server.address());
        let (_, resumed) = other.begin_session(SessionId(number ^ 1 << bit), vec![(receipt, 1)]);
        assert!(!resumed, "a number that nobody has begins a session of its own");
        other.close();
    }
    assert_eq!(holder.ack(receipt, 1)[0].outcome, FinishOutcome::Done, "it has its session and its lease");
    server.shutdown().unwrap();
}

#[test]
fn numbers_of_sessions_are_drawn_from_all_their_bits() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let drawn = |_| {
        let mut client = Client::connect(server.address());
        let (SessionId(number), _) = client.begin_session(SessionId(0), Vec::new());
        client.close();
        number
    };
    // That a bit is the same in all of them happens once in 2^63.
    let numbers: Vec<u64> = (0..64).map(drawn).collect();
    let (ones, zeros) = numbers.iter().fold((0, 0), |(ones, zeros), number| (ones | number, zeros | !number));
    assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    server.shutdown().unwrap();
}

#[test]
fn who_sends_wrong_receipts_is_not_heard_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let guess = |lease: u64| (Receipt { topic: TopicNumber(7), group: 0, lease: LeaseNumber(2 * lease) }, 1);
    let mut holder = Client::connect(server.address());
    holder.publish("t", &["a"]);
    let own = holder.receive(1, Millis::ZERO)[0].receipt;
    let other = NamespaceName::try_from("other").unwrap();
    let (policy, rules) = (Policy::default(), Rules::default());
    let set = Request::NamespaceSet { namespace: other.clone(), policy, rules, based_on: None };
    assert_eq!(holder.ask(set), Response::Done);
    // A receipt of another namespace behind them makes nothing of them cheaper.
    for (confirm, namespace) in [(true, None), (false, None), (true, Some(other.clone())), (false, Some(other))] {
        let mut client = Client::connect(server.address());
        let begun = Instant::now();
        let receipts = (1..10_000).map(guess).chain([(own, 1)]).collect();
        let is_refused = namespace.is_some();
        let finish = Finish { verb: FinishVerb::Extend { lease: None }, confirm, namespace, receipts };
        let sent = client.send(Request::Finish(finish));
        if confirm || is_refused {
            assert_eq!(matches!(client.answer(sent), Response::Error { .. }), is_refused);
        }
        // What is answered behind them shows that they were looked at.
        client.stats();
        assert_eq!(client.ask(Request::Ping), Response::Pong);
        assert!(begun.elapsed() >= Duration::from_micros(99_990), "{:?} for 9,999 guesses", begun.elapsed());
        client.close();
    }
    server.shutdown().unwrap();
}

#[test]
fn who_names_sessions_that_are_not_there_is_not_heard_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let begun = Instant::now();
    for number in 1..=100 {
        client.send(Request::SessionBegin { session: SessionId(number), resume: Millis::ZERO, held: Vec::new() });
        client.send(Request::SessionEnd);
    }
    (0..200).for_each(|_| assert!(client.next().is_some(), "each is answered"));
    assert_eq!(client.ask(Request::Ping), Response::Pong);
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?} for 100 guesses", begun.elapsed());
    client.close();
    server.shutdown().unwrap();
}

#[test]
fn who_guesses_and_goes_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let server = start_with(directory.path(), |config| config.connections_max = 4);
    // As many frames as a broker reads at a time, each of which names as many leases as it may.
    let receipt = Receipt { topic: TopicNumber(7), group: 0, lease: LeaseNumber(1) };
    let guess = || Finish { verb: FinishVerb::Ack, confirm: false, namespace: None, receipts: vec![(receipt, 10_000)] };
    for _ in 0..4 {
        let mut client = Client::connect(server.address());
        (0..3_000).for_each(|_| _ = client.send(Request::Finish(guess())));
        client.close();
    }
    // They have places for as long as they are not read, which is no minutes.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let mut client = Client::silent(server.address());
        client.send(Request::Hello { version: VERSION, client: "test".into() });
        if matches!(client.next(), Some((_, Response::Welcome { .. }))) {
            break;
        }
        assert!(Instant::now() < deadline, "those that have gone keep their places");
    }
    server.shutdown().unwrap();
}
