//! A small directory of the present format with something of everything that the journal and the checkpoint can hold, kept in the
//! repository beside what is read of it: `golden/format-1-all` and `golden/format-1-all.txt`.
//!
//! `GOLDEN=make cargo test -p millpond-storage golden_all` makes both anew, under the rule of [`super::golden`]; with `GOLDEN=told`
//! the text alone, for when it is told in another way.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::command::{
    Attach, Command, DedupMark, Finish, FinishVerb, Level, ProducerBatch, Publish, PublishRun, ReceiptRun, Receive,
    SessionBegin, TopicRef, Which,
};
use millpond_core::output::{Extent, LeasedRun, Output, Reply};
use millpond_core::page::Page;
use millpond_core::{LevelBounds, Now, dedup_hash};
use millpond_types::block;
use millpond_types::{
    Binding, Coalesce, Condition, DedupWindow, ExchangeKind, Filter, GroupKind, GroupName, MessageId, Millis,
    NamespaceName, OfficeTerms, OnExpiry, OutcomeRun, Overrides, Pattern, Policy, Priority, ProducerId, PublishOutcome,
    Quotas, Rate, Retention, Retry, RoutingKey, Rule, Rules, Sequence, SessionId, Start, TopicName, Unroutable,
};

use super::calls::{self, turn};
use super::golden::{copy, lengthen};
use super::restart::{open_at, stop};
use super::workload::{check_extents, checkpoint};
use crate::{OpenOptions, Opened, RealDisk, Verdict, inspect, open};

/// In milliseconds.
const YEAR: u64 = 365 * 24 * 3600 * 1000;
/// Files small enough that the directory has several.
const SEGMENT: u64 = 16 * 1024;
/// Lines so short in memory that some of one lies in pieces.
const SHORT: LevelBounds = LevelBounds { head: 2, tail: 2, piece: 4, resting: 3, out_of_line: 64 };

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden").join(name)
}

#[test]
fn a_directory_of_format_1_with_something_of_everything_is_read() {
    let golden = std::env::var("GOLDEN");
    if golden.as_deref() == Ok("make") {
        make();
    }
    let directory = tempfile::tempdir().unwrap();
    copy(&place("format-1-all"), directory.path());
    lengthen(directory.path());
    let mut told = Vec::new();
    let verdict = inspect(directory.path(), true, &mut told).unwrap();
    assert_eq!(verdict, Verdict::InOrder, "{}", String::from_utf8_lossy(&told));
    let opened = open_at(directory.path()).unwrap();
    assert!(opened.report.orderly && opened.report.checkpoint > 0 && opened.report.facts > 10, "{:?}", opened.report);
    check_extents(&opened);
    let found = found(&opened);
    if golden.is_ok() {
        fs::write(place("format-1-all.txt"), &found).unwrap();
    }
    let expected = fs::read_to_string(place("format-1-all.txt")).unwrap();
    for (line, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", line + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

/// All that the broker keeps, a page a line, and the bodies.
fn found(opened: &Opened) -> String {
    let (mut found, mut kinds) = (String::new(), BTreeSet::new());
    for page in opened.core.pages() {
        kinds.insert(kind(&page));
        writeln!(found, "{page:?}").unwrap();
    }
    let all = ["dead", "dedup", "exchange", "namespace", "numbers", "piece", "producer", "topic"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all, "each kind is there");
    let mut bodies = Vec::new();
    opened.core.extents(&mut |_, extent: Extent| {
        let block = opened.reader.read(extent).unwrap();
        let texts = block::messages(&block).map(|message| String::from_utf8(message.unwrap().body.to_vec()).unwrap());
        bodies.push(texts.map(|text| text.trim_end().to_owned()).collect::<Vec<_>>().join(" "));
    });
    bodies.sort();
    bodies.iter().for_each(|body| writeln!(found, "body {body}").unwrap());
    found
}

fn kind(page: &Page) -> &'static str {
    match page {
        Page::Numbers(_) => "numbers",
        Page::Namespace(_) => "namespace",
        Page::Topic(_) => "topic",
        Page::Dead(_) => "dead",
        Page::Dedup(_) => "dedup",
        Page::Producer(_) => "producer",
        Page::Due(_) => "due",
        Page::Piece(_) => "piece",
        Page::Exchange(_) => "exchange",
    }
}

fn make() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { segment_bytes: SEGMENT, bounds: SHORT, ..OpenOptions::default() };
    let mut opened: Opened = open(Arc::new(RealDisk::create(directory.path()).unwrap()), &options).unwrap();
    opened.start(Now::default()).unwrap();
    set_up(&mut opened);
    // The same on both sides of a checkpoint: what comes behind it is read from the journal.
    work(&mut opened, "old");
    checkpoint(&mut opened);
    work(&mut opened, "new");
    stop(opened);
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let segments = files.filter(|name| name.to_string_lossy().ends_with(".journal")).count();
    assert!(segments > 2, "{segments} segments");
    let _ = fs::remove_dir_all(place("format-1-all"));
    copy(directory.path(), &place("format-1-all"));
}

/// Namespaces, groups and exchanges of all kinds.
fn set_up(opened: &mut Opened) {
    let rule = |pattern: &str, overrides| {
        let (name, is_prefix) = pattern.strip_suffix('*').map_or((pattern, false), |prefix| (prefix, true));
        Rule { pattern: Pattern { is_prefix, name: topic(name) }, overrides }
    };
    let none = Overrides::default;
    let rules = [
        rule("strict/*", Overrides { max_in_flight: Some(Some(1)), run: Some(2), ..none() }),
        rule("latest/*", Overrides { coalesce: Some(Coalesce::KeepLatest), ..none() }),
        rule("slow", Overrides { rate: Some(Some(Rate { count: 2, period: Millis(60_000), burst: 2 })), ..none() }),
        rule(
            "tail",
            Overrides { retry: Some(Retry::Tail), on_expiry: Some(OnExpiry::Dead), weight: Some(7), ..none() },
        ),
    ];
    let policy = Policy {
        retry: Retry::Backoff { first: Millis(5_000), longest: Millis(60_000) },
        dedup_window: DedupWindow::Forever,
        max_failures: 1,
        ageing: Some(Millis(YEAR)),
        retention: Retention { age: Some(Millis(40 * YEAR)), count: Some(1_000_000) },
        quotas: Quotas { messages: Some(1_000_000), ..Quotas::default() },
        ..Policy::default()
    };
    let rules = Rules::new(rules.into()).unwrap();
    ok(opened, Command::NamespaceSet { name: NamespaceName::default(), policy, rules, based_on: None });
    let name = NamespaceName::try_from("other").unwrap();
    let plain = (Policy::default(), Rules::default());
    ok(opened, Command::NamespaceSet { name, policy: plain.0, rules: plain.1, based_on: Some(0) });
    let terms = OfficeTerms { term: Millis(10_000), handover: Millis(30_000) };
    for (group, kind) in [("audit", GroupKind::Shared), ("single", GroupKind::Exclusive(terms))] {
        let (namespace, name) = (NamespaceName::default(), GroupName::try_from(group).unwrap());
        ok(opened, Command::GroupCreate { namespace, name, start: Start::Earliest, kind });
    }
    let session = SessionId(77);
    ok(opened, Command::SessionBegin(SessionBegin { session, resume: Millis(10_000), held: Vec::new() }));
    // Its leader has an epoch, and its leases, from the first message on.
    ok(opened, Command::Attach(attach(session)));
    let key = |text: &str| Condition::Key(RoutingKey::try_from(text).unwrap());
    let pairs = vec![(Bytes::from("region"), Bytes::from("eu")), (Bytes::from("kind"), Bytes::from("order"))];
    for (name, kind, condition) in [
        ("direct", ExchangeKind::Direct, key("k")),
        ("pattern", ExchangeKind::Topic, key("a.*.#")),
        ("all", ExchangeKind::Fanout, Condition::Always),
        ("headers", ExchangeKind::Headers, Condition::Headers { all: true, headers: pairs }),
    ] {
        let (namespace, exchange) = (NamespaceName::default(), millpond_types::ExchangeName::try_from(name).unwrap());
        let unroutable = if name == "all" { Unroutable::Drop } else { Unroutable::Refuse };
        ok(opened, Command::ExchangeCreate { namespace: namespace.clone(), name: exchange.clone(), kind, unroutable });
        let binding = Binding { condition, target: topic("routed/{key}") };
        ok(opened, Command::Bind { namespace, exchange, binding });
    }
}

/// Messages in every state that one can be in.
fn work(opened: &mut Opened, when: &str) {
    let name = |kind: &str| format!("{when}/{kind}");
    // A long line, of which some is in pieces, and as many that rest.
    for at in 0..12 {
        let body = format!("{when} line {at:<900}");
        publish(opened, PublishRun { ttl: Some(Millis(50 * YEAR + at)), ..run(&name("line"), &[&body]) });
        publish(opened, PublishRun { delay: Millis(60 * YEAR + at), ..run(&name("rests"), &["later"]) });
    }
    for priority in [0, 4, 9] {
        let priority = Priority::new(priority).unwrap();
        publish(opened, PublishRun { priority, ..run(&name("levels"), &["one", "two"]) });
    }
    // Of one topic: one is leased, one finished behind it, one fails, one is given back, and one is a dead letter.
    publish(opened, run(&name("states"), &["leased", "acked", "failed", "returned", "rejected", "waiting"]));
    let leases: Vec<_> = (0..5).map(|_| receive(opened, &name("states"))).collect();
    finish(opened, FinishVerb::Ack, &leases[1]);
    finish(opened, FinishVerb::Fail { reason: "broken".into() }, &leases[2]);
    finish(opened, FinishVerb::Release { delay: Millis(50_000) }, &leases[3]);
    finish(opened, FinishVerb::Reject { reason: "no good".into() }, &leases[4]);
    // What came meanwhile takes the slot; and what runs does not end with it.
    let latest = format!("latest/{when}");
    publish(opened, run(&latest, &["runs"]));
    receive(opened, &latest);
    publish(opened, run(&latest, &["superseded"]));
    publish(opened, run(&latest, &["slot"]));
    let strict = format!("strict/{when}");
    publish(opened, run(&strict, &["first", "second", "third"]));
    receive(opened, &strict);
    publish(opened, run("slow", &["a", "b", "c"]));
    receive(opened, "slow");
    publish(opened, run("tail", &["x", "y"]));
    let lease = receive(opened, "tail");
    finish(opened, FinishVerb::Fail { reason: Bytes::new() }, &lease);
    // By id: cancelled, put off, and with a dedup id that is kept beyond the message.
    let ids = publish(opened, run(&name("ids"), &["cancelled", "put off", "stays"]));
    let of = |which| (TopicRef { namespace: NamespaceName::default(), name: topic(&name("ids")) }, Which::Id(which));
    let ((topic_of, which), (other, moved)) = (of(ids[0]), of(ids[1]));
    ok(opened, Command::Cancel { topic: topic_of, which });
    ok(opened, Command::Reschedule { topic: other, which: moved, delay: Millis(YEAR) });
    let namespace = NamespaceName::default();
    let hash = |id: &str| dedup_hash(opened.core.hash_key(), &namespace, &topic(&name("dedup")), id.as_bytes());
    let dedup = vec![DedupMark { index: 0, hash: hash("x") }, DedupMark { index: 1, hash: hash("y") }];
    publish(opened, PublishRun { dedup, ..run(&name("dedup"), &["is remembered", "likewise"]) });
    let lease = receive(opened, &name("dedup"));
    finish(opened, FinishVerb::Ack, &lease);
    for sequence in 1..=3 {
        let batch =
            ProducerBatch { id: ProducerId(when.len() as u128 + u128::from(when == "new")), instance: 2, sequence };
        let runs = vec![run(&name("session"), &["of a session"])];
        let publish = Publish { namespace: namespace.clone(), producer: Some(batch), level: Level::Durable, runs };
        turn(opened, Command::Publish(publish));
    }
    let paused = TopicRef { namespace: namespace.clone(), name: topic(&name("paused")) };
    ok(opened, Command::Pause { topic: paused, prefix: when == "new" });
    publish(opened, run(&name("paused"), &["held"]));
}

fn topic(name: &str) -> TopicName {
    TopicName::try_from(name).unwrap()
}

fn run(topic: &str, bodies: &[&str]) -> PublishRun {
    calls::run(topic, &[(b"key", b"value")], bodies.iter().map(|body| body.as_bytes()))
}

fn attach(session: SessionId) -> Attach {
    Attach {
        session,
        consumer: 1,
        namespace: NamespaceName::default(),
        group: GroupName::try_from("single").unwrap(),
        filter: Filter::Prefixes(vec![topic("old/states"), topic("new/states")]),
        messages: 2,
        bytes: u64::MAX,
        lease: None,
        at_most_once: false,
    }
}

/// A turn whose command is done.
fn ok(opened: &mut Opened, command: Command) {
    let said = format!("{command:?}");
    let outputs = turn(opened, command);
    let is_refused = |output: &Output| matches!(output, Output::Reply { reply: Reply::Refused { .. }, .. });
    assert!(!outputs.iter().any(is_refused), "{said}: {outputs:?}");
}

fn publish(opened: &mut Opened, run: PublishRun) -> Vec<MessageId> {
    let outputs = turn(opened, calls::publish(vec![run]));
    let Some(Output::Reply { reply: Reply::Published { outcomes, .. }, .. }) = outputs.first() else {
        panic!("{outputs:?}")
    };
    let ids = |run: &OutcomeRun<PublishOutcome>| match run.outcome {
        PublishOutcome::Queued { id: first } => (0..run.count)
            .map(|at| MessageId { sequence: Sequence(first.sequence.0 + u64::from(at)), ..first })
            .collect(),
        PublishOutcome::Coalesced { id, .. } => vec![id],
        ref other => panic!("{other:?}"),
    };
    outcomes.iter().flat_map(ids).collect()
}

/// Leases the next message of a topic, or run of it, for a year.
fn receive(opened: &mut Opened, of: &str) -> LeasedRun {
    let Command::Receive(receive) = calls::receive(1) else { unreachable!("it is one") };
    let receive = Receive { filter: Filter::Topics(vec![topic(of)]), ..receive };
    let outputs = turn(opened, Command::Receive(receive));
    let received = outputs.iter().find_map(|output| match output {
        Output::Reply { reply: Reply::Received(runs), .. } => runs.first().cloned(),
        _ => None,
    });
    received.unwrap_or_else(|| panic!("{of}: {outputs:?}"))
}

fn finish(opened: &mut Opened, verb: FinishVerb, lease: &LeasedRun) {
    let receipts = vec![ReceiptRun { first: lease.receipt, count: lease.count }];
    ok(opened, Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
}
