//! Makes the directory of [`super`], step by step.

use bytes::Bytes;
use millpond_core::command::{
    Attach, Command, DeadMove, DeadWhich, DedupMark, Finish, FinishVerb, Level, Move, ProducerBatch, Publish,
    PublishRun, ReceiptRun, Receive, SessionBegin, TopicRef, Which,
};
use millpond_core::dedup_hash;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_core::page::{DeadPage, Page};
use millpond_types::{
    Binding, Coalesce, Condition, DedupWindow, ExchangeKind, ExchangeName, Filter, GroupKind, GroupName, MessageId,
    Millis, NamespaceName, OfficeTerms, OnExpiry, OutcomeRun, Overrides, Pattern, PausedTopics, Policy, Priority,
    ProducerId, PublishOutcome, Quotas, Rate, Retention, Retry, RoutingKey, Rule, Rules, Sequence, SessionId, Start,
    TopicName, Unroutable,
};

use crate::Opened;
use crate::tests::calls::{self, turn, turn_after};

/// In milliseconds.
const YEAR: u64 = 365 * 24 * 3600 * 1000;

/// Namespaces, groups and exchanges of all kinds.
pub fn set_up(opened: &mut Opened) {
    let rule = |pattern: &str, overrides| {
        let (name, is_prefix) = pattern.strip_suffix('*').map_or((pattern, false), |prefix| (prefix, true));
        Rule { pattern: Pattern { is_prefix, name: topic(name) }, overrides }
    };
    let none = Overrides::default;
    let rules = [
        rule("strict/*", Overrides { max_in_flight: Some(Some(1)), run: Some(2), ..none() }),
        rule("latest/*", Overrides { coalesce: Some(Coalesce::KeepLatest), ..none() }),
        rule("first/*", Overrides { coalesce: Some(Coalesce::KeepFirst), ..none() }),
        rule("quick", Overrides { rate: Some(Some(Rate { count: 1, period: Millis(1_000), burst: 1 })), ..none() }),
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
        let (namespace, exchange) = (NamespaceName::default(), ExchangeName::try_from(name).unwrap());
        let unroutable = if name == "all" { Unroutable::Drop } else { Unroutable::Refuse };
        ok(opened, Command::ExchangeCreate { namespace: namespace.clone(), name: exchange.clone(), kind, unroutable });
        let binding = Binding { condition, target: topic("routed/{key}") };
        ok(opened, Command::Bind { namespace, exchange, binding });
    }
}

/// Messages in every state that one can be in.
pub fn work(opened: &mut Opened, when: &str) {
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
    finish(opened, FinishVerb::Fail { delay: None, reason: "broken".into() }, &leases[2]);
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
    finish(opened, FinishVerb::Fail { delay: None, reason: Bytes::new() }, &lease);
    // By id: cancelled, put off, and with a dedup id that is kept beyond the message.
    let ids = publish(opened, run(&name("ids"), &["cancelled", "put off", "stays"]));
    let (cancelled, put_off) = (Which::Id(ids[0]), Which::Id(ids[1]));
    ok(opened, Command::Cancel { topic: reference(&name("ids")), which: cancelled });
    ok(opened, Command::Reschedule { topic: reference(&name("ids")), which: put_off, delay: Millis(YEAR) });
    let namespace = NamespaceName::default();
    let mark = |index, id| DedupMark { index, hash: hash(opened, &name("dedup"), id) };
    let dedup = vec![mark(0, "x"), mark(1, "y")];
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
    let paused = topic(&name("paused"));
    let topics = if when == "new" { PausedTopics::prefix(&paused) } else { PausedTopics::from(&paused) };
    ok(opened, Command::Pause { namespace: NamespaceName::default(), topics, lasts: None });
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

/// What ends, comes back, goes to another place or happens by time alone, and what is taken back that was set up.
pub fn end(opened: &mut Opened) {
    let namespace = NamespaceName::default;
    publish(opened, run("first/a", &["stands for both"]));
    publish(opened, run("first/a", &["declined"]));
    publish(opened, run("once", &["ends as it is delivered"]));
    let Command::Receive(once) = calls::receive(1) else { unreachable!("it is one") };
    let filter = Filter::Topics(vec![topic("once")]);
    ok(opened, Command::Receive(Receive { filter, at_most_once: true, ..once }));
    publish(opened, run("extended", &["goes on"]));
    let lease = receive(opened, "extended");
    finish(opened, FinishVerb::Extend { lease: Some(Millis(YEAR / 1_000)) }, &lease);
    publish(opened, run("strict/fails", &["holds its topic", "waits for it"]));
    let lease = receive(opened, "strict/fails");
    finish(opened, FinishVerb::Fail { delay: None, reason: Bytes::new() }, &lease);

    // Of four letters one goes back to work, one is purged, one is moved and one stays.
    publish(opened, run("letters", &["redriven", "purged", "moved", "kept"]));
    for _ in 0..4 {
        let lease = receive(opened, "letters");
        finish(opened, FinishVerb::Reject { reason: "no".into() }, &lease);
    }
    let letters: Vec<_> = pages(opened, |page| match page {
        Page::Dead(page) if page.topic == topic("letters") => Some(page),
        _ => None,
    });
    let one = |letter: &DeadPage| DeadWhich::One(letter.topic.clone(), letter.id);
    let group = GroupName::default();
    ok(opened, Command::DeadRedrive { namespace: namespace(), group: group.clone(), which: one(&letters[0]) });
    ok(opened, Command::DeadPurge { namespace: namespace(), group, which: one(&letters[1]) });
    let DeadPage { namespace: number, group, topic: of, id, run: letter, .. } = letters[2].clone();
    let block = opened.reader.read(letter.extent()).unwrap();
    let (from, topic_of) = (letter.position, of);
    ok(opened, Command::DeadMove(DeadMove { namespace: number, group, topic: topic_of, id, from, block }));
    publish(opened, run("moved", &["lies elsewhere"]));
    let page = pages(opened, |page| match page {
        Page::Topic(page) if page.name == topic("moved") => Some(page),
        _ => None,
    });
    let (group, level) = (page[0].group, &page[0].levels[0]);
    let of = &level.runs[0];
    let (block, sizes) = (opened.reader.read(of.extent()).unwrap(), of.sizes.clone());
    let first = MessageId { topic: page[0].number, priority: level.priority, sequence: of.first };
    let (count, from) = (of.count, of.position);
    ok(opened, Command::Move(Move { group, name: topic("moved"), first, count, from, block, sizes }));
    let dedup_hash = hash(opened, "new/dedup", "y");
    ok(opened, Command::Forget { topic: reference("new/dedup"), dedup_hash });

    // A leader goes, and the next one comes.
    let session = SessionId(78);
    ok(opened, Command::SessionBegin(SessionBegin { session, resume: Millis(10_000), held: Vec::new() }));
    ok(opened, Command::Attach(attach(session)));
    ok(opened, Command::SessionEnd(SessionId(77)));

    // By time: what is delayed falls due, what waits rises, a bucket has a token again.
    let other = NamespaceName::try_from("other").unwrap();
    let policy = Policy { ageing: Some(Millis(1_000)), ..Policy::default() };
    let (rules, runs) = (Rules::default(), vec![run("rises", &["by its age"])]);
    ok(opened, Command::NamespaceSet { name: other.clone(), policy, rules, based_on: None });
    ok(opened, Command::Publish(Publish { namespace: other.clone(), producer: None, level: Level::Durable, runs }));
    publish(opened, PublishRun { delay: Millis(1_000), ..run("due", &["soon"]) });
    publish(opened, run("quick", &["goes", "waits for a token"]));
    receive(opened, "quick");
    turn_after(opened, 1_500, Command::Stats(other));

    // A group that starts has a copy of what the others hold; or it goes by it, where that is too old for it.
    let now = opened.core.now().wall;
    for (name, start) in [("late", Start::Earliest), ("later", Start::At(now))] {
        let (name, kind) = (GroupName::try_from(name).unwrap(), GroupKind::Shared);
        ok(opened, Command::GroupCreate { namespace: namespace(), name, start, kind });
        (0..4).for_each(|_| drop(turn(opened, Command::Stats(namespace()))));
    }

    // What was set up is taken back.
    let brief = NamespaceName::try_from("brief").unwrap();
    let (policy, rules) = (Policy::default(), Rules::default());
    ok(opened, Command::NamespaceSet { name: brief.clone(), policy, rules, based_on: Some(0) });
    ok(opened, Command::NamespaceDelete(brief));
    let name = GroupName::try_from("brief").unwrap();
    let (start, kind) = (Start::Latest, GroupKind::Shared);
    ok(opened, Command::GroupCreate { namespace: namespace(), name: name.clone(), start, kind });
    ok(opened, Command::GroupDelete { namespace: namespace(), name });
    let (name, kind) = (ExchangeName::try_from("brief").unwrap(), ExchangeKind::Fanout);
    let unroutable = Unroutable::Drop;
    ok(opened, Command::ExchangeCreate { namespace: namespace(), name: name.clone(), kind, unroutable });
    let binding = Binding { condition: Condition::Always, target: topic("nowhere") };
    let (exchange, again) = (name.clone(), binding.clone());
    ok(opened, Command::Bind { namespace: namespace(), exchange: exchange.clone(), binding });
    ok(opened, Command::Unbind { namespace: namespace(), exchange, binding: again });
    ok(opened, Command::ExchangeDelete { namespace: namespace(), name });
}

fn pages<T>(opened: &Opened, which: impl Fn(Page) -> Option<T>) -> Vec<T> {
    opened.core.pages().filter_map(which).collect()
}

fn reference(name: &str) -> TopicRef {
    TopicRef { namespace: NamespaceName::default(), name: topic(name) }
}

/// Of a dedup id.
fn hash(opened: &Opened, name: &str, id: &str) -> u128 {
    dedup_hash(opened.core.hash_key(), &NamespaceName::default(), &topic(name), id.as_bytes())
}
