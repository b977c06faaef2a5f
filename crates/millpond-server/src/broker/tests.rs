use std::thread;
use std::time::{Duration, Instant};

use millpond_core::command::{Attach, Command, DeadWhich, Finish, FinishVerb, Level, Listing, Publish, ReceiptRun};
use millpond_core::output::Reply;
use millpond_storage::Disk;
use millpond_storage::twin::{Fault, SECTOR, TwinDisk};
use millpond_types::{
    Binding, Code, Condition, DeadView, ExchangeKind, ExchangeName, Filter, FinishOutcome, GroupName, MessageState,
    Millis, NamespaceName, Policy, PublishOutcome, RequestId, RoutingKey, Rules, SessionId, TopicName, Unroutable,
};

use super::*;

fn options() -> OpenOptions {
    OpenOptions { segment_bytes: 64 * 1024, ..OpenOptions::default() }
}

fn open(disk: &TwinDisk, storage: &OpenOptions) -> Broker {
    Broker::open_with(Arc::new(disk.clone()), BrokerOptions::default(), storage).unwrap()
}

fn default_namespace() -> NamespaceName {
    NamespaceName::default()
}

fn message(body: impl Into<bytes::Bytes>) -> Message {
    Message::new(TopicName::try_from("t").unwrap(), body)
}

fn publish(broker: &Broker, body: Vec<u8>) -> Result<PublishOutcome, CallError> {
    let outcomes = broker.publish(default_namespace(), vec![message(body)]).wait()?;
    Ok(outcomes[0].outcome.clone())
}

fn is_disk_full(outcome: &PublishOutcome) -> bool {
    matches!(outcome, PublishOutcome::Refused { code: Code::DiskFull, .. })
}

#[test]
fn a_confirmed_message_survives_a_power_cut() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish(&broker, b"safe".to_vec()).unwrap();
    disk.crash(7);
    drop(broker);
    let broker = open(&disk, &options());
    let leases = broker.receive(Receive::all(default_namespace(), 1)).wait().unwrap();
    assert_eq!(leases[0].body(), b"safe");
    broker.shutdown().unwrap();
}

fn publish_at(broker: &Broker, level: Level, body: &str) {
    let runs = message::runs(&default_namespace(), &[message(body.to_owned())], broker.shared().hash_key).unwrap();
    let publish = Publish { namespace: default_namespace(), producer: None, level, runs };
    let answer = broker.call(Command::Publish(publish)).wait().unwrap();
    let Answer::Reply(Reply::Published { outcomes, .. }) = answer else { panic!("{answer:?}") };
    assert!(matches!(outcomes[0].outcome, PublishOutcome::Queued { .. }));
}

/// The bodies that are there when the broker opens again, after a kill of its process or a loss of power.
fn after(disk: &TwinDisk, broker: Broker, power_cut: Option<u64>) -> Vec<Vec<u8>> {
    match power_cut {
        Some(seed) => _ = disk.crash(seed),
        None => disk.kill(),
    }
    drop(broker);
    let broker = open(disk, &options());
    let leases = broker.receive(Receive::all(default_namespace(), 10)).wait().unwrap();
    let bodies = leases.iter().flat_map(|run| run.bodies()).map(<[u8]>::to_vec).collect();
    broker.shutdown().unwrap();
    bodies
}

#[test]
fn a_durable_publish_survives_a_kill_and_a_power_cut() {
    for power_cut in [None, Some(1), Some(2), Some(3)] {
        let disk = TwinDisk::new(SECTOR);
        let broker = open(&disk, &options());
        publish_at(&broker, Level::Durable, "safe");
        assert_eq!(after(&disk, broker, power_cut), [b"safe"]);
    }
}

#[test]
fn a_buffered_publish_survives_a_kill_and_a_power_cut_at_most() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish_at(&broker, Level::Buffered, "written");
    assert_eq!(after(&disk, broker, None), [b"written"]);
    for seed in 0..8 {
        let disk = TwinDisk::new(SECTOR);
        let broker = open(&disk, &options());
        publish_at(&broker, Level::Durable, "safe");
        publish_at(&broker, Level::Buffered, "written");
        let bodies = after(&disk, broker, Some(seed));
        assert!(bodies == [&b"safe"[..]] || bodies == [&b"safe"[..], b"written"], "{bodies:?}");
    }
    // What is synced behind it has it synced too.
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish_at(&broker, Level::Buffered, "written");
    publish_at(&broker, Level::Durable, "safe");
    assert_eq!(after(&disk, broker, Some(7)), [&b"written"[..], b"safe"]);
}

#[test]
fn of_a_publish_that_is_never_confirmed_nothing_is_promised_but_that_it_harms_nobody() {
    for power_cut in [None, Some(1), Some(2), Some(3)] {
        let disk = TwinDisk::new(SECTOR);
        let broker = open(&disk, &options());
        publish_at(&broker, Level::Durable, "safe");
        publish_at(&broker, Level::None, "perhaps");
        let bodies = after(&disk, broker, power_cut);
        assert!(bodies == [&b"safe"[..]] || bodies == [&b"safe"[..], b"perhaps"], "{bodies:?}");
    }
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish_at(&broker, Level::None, "perhaps");
    let leases = broker.receive(Receive::all(default_namespace(), 1).wait(Millis::minutes(1))).wait().unwrap();
    assert_eq!(leases[0].body(), b"perhaps", "it is stored like any other");
    broker.shutdown().unwrap();
}

#[test]
fn a_receive_that_is_dropped_is_taken_back() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    let receive = || Receive::all(default_namespace(), 1).wait(Millis::minutes(10));
    drop(broker.receive(receive()));
    publish(&broker, b"m".to_vec()).unwrap();
    let leases = broker.receive(receive()).wait().unwrap();
    assert_eq!((leases[0].body(), leases[0].run.deliveries), (&b"m"[..], 1), "nobody else was given it");
    // What was leased for one that is dropped is there for the next.
    publish(&broker, b"n".to_vec()).unwrap();
    drop(broker.receive(receive()));
    let leases = broker.receive(receive()).wait().unwrap();
    assert_eq!((leases[0].body(), leases[0].run.failures), (&b"n"[..], 0));
    broker.shutdown().unwrap();
}

#[test]
fn receives_that_are_dropped_leave_nothing_behind() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    let receive = || broker.receive(Receive::all(default_namespace(), 1).wait(Millis::minutes(10)));
    // Stats that come in the turn of a receive are of before it, for messages are given out at the end of a turn.
    let counts = || broker.stats(default_namespace()).wait().unwrap().groups[0].counts;
    for _ in 0..3 {
        drop(receive());
    }
    publish(&broker, b"m".to_vec()).unwrap();
    let answered = receive();
    while counts().leased == 0 {}
    drop(answered);
    while counts().waiting == 0 {}
    let writer = broker.writer.stop().unwrap();
    assert_eq!(writer.open_calls(), 0);
}

#[test]
fn a_receive_that_is_dropped_leaves_the_one_that_was_asked_again() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    let receive = |request| {
        let mut receive = Receive::all(default_namespace(), 1).wait(Millis::minutes(10));
        receive.0.request = Some(RequestId(request));
        broker.receive(receive)
    };
    // One that waits.
    let first = receive(1);
    let second = receive(1);
    drop(first);
    publish(&broker, b"m".to_vec()).unwrap();
    let (told, answer) = std::sync::mpsc::channel();
    thread::spawn(move || _ = told.send(second.wait()));
    let leases = answer.recv_timeout(Duration::from_secs(20)).expect("it is answered").unwrap();
    assert_eq!(leases[0].body(), b"m");
    assert_eq!(broker.ack(&[leases[0].receipt]).wait().unwrap()[0].outcome, FinishOutcome::Done);
    // One that was told what the first was.
    publish(&broker, b"n".to_vec()).unwrap();
    let first = receive(2);
    let leases = receive(2).wait().unwrap();
    assert_eq!((leases[0].body(), leases[0].run.deliveries), (&b"n"[..], 1));
    drop(first);
    assert_eq!(broker.ack(&[leases[0].receipt]).wait().unwrap()[0].outcome, FinishOutcome::Done);
    broker.shutdown().unwrap();
}

#[test]
fn an_ack_and_a_publish_are_there_together_or_not_at_all() {
    for seed in 0..12 {
        let disk = TwinDisk::new(SECTOR);
        let broker = open(&disk, &options());
        publish(&broker, b"input".to_vec()).unwrap();
        let leases = broker.receive(Receive::all(default_namespace(), 1)).wait().unwrap();
        let topic = TopicName::try_from("out").unwrap();
        let call = broker.forward(&[leases[0].receipt], default_namespace(), vec![Message::new(topic, "output")]);
        let answer = if seed % 2 == 0 {
            Some(call.wait().unwrap())
        } else {
            drop(call);
            None
        };
        disk.crash(seed);
        drop(broker);
        let broker = open(&disk, &options());
        let counts = broker.stats(default_namespace()).wait().unwrap().groups[0].counts;
        // The input is leased as before, or gone with its output there.
        let found = (counts.leased, counts.waiting);
        assert!(found == (0, 1) || answer.is_none() && found == (1, 0), "{found:?}");
        broker.shutdown().unwrap();
    }
}

#[test]
fn an_ack_and_a_publish_to_an_exchange_are_one_decision() {
    let broker = open(&TwinDisk::new(SECTOR), &options());
    let (namespace, name) = (default_namespace(), ExchangeName::try_from("events").unwrap());
    let (kind, unroutable) = (ExchangeKind::Direct, Unroutable::Refuse);
    let make = Command::ExchangeCreate { namespace: namespace.clone(), name: name.clone(), kind, unroutable };
    broker.call(make).wait().unwrap();
    let condition = Condition::Key(RoutingKey::try_from("paid").unwrap());
    for target in ["a", "b"] {
        let binding = Binding { condition: condition.clone(), target: TopicName::try_from(target).unwrap() };
        broker.call(Command::Bind { namespace: namespace.clone(), exchange: name.clone(), binding }).wait().unwrap();
    }
    publish(&broker, b"input".to_vec()).unwrap();
    let leases = broker.receive(Receive::all(namespace.clone(), 1)).wait().unwrap();
    let forward = |key: &str| {
        let output = Message::routed(name.clone(), RoutingKey::try_from(key).unwrap(), "output");
        let told = broker.forward_routed(&[leases[0].receipt], namespace.clone(), output).wait().unwrap();
        (told.finished[0].outcome.clone(), told.published)
    };
    let (finished, published) = forward("sent");
    assert_eq!(finished, FinishOutcome::Kept);
    let PublishOutcome::Refused { code: Code::Unroutable, .. } = published[0].outcome else { panic!("{published:?}") };
    let (finished, published) = forward("paid");
    assert_eq!((finished, published.len()), (FinishOutcome::Done, 2));
    assert_eq!(forward("paid").0, FinishOutcome::LeaseLost);
    let counts = broker.stats(namespace.clone()).wait().unwrap().groups[0].counts;
    assert_eq!((counts.leased, counts.waiting), (0, 2));
    broker.shutdown().unwrap();
}

#[test]
fn a_failed_sync_stops_everything_and_everyone_is_told() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish(&broker, b"before".to_vec()).unwrap();
    let (_, outbox) = broker.shared().registry.connect(1).unwrap();
    // Housekeeping and the mark of a quiet journal may come first: whichever it is, the broker has to stop.
    disk.plan(0, Fault::Error);
    while broker.is_ready() {
        match publish(&broker, b"x".to_vec()) {
            Ok(_) => {}
            Err(CallError::Unknown | CallError::Stopped) => break,
            Err(other) => panic!("{other}"),
        }
    }
    while broker.is_ready() {
        thread::yield_now();
    }
    assert!(broker.failure().unwrap().contains("restart the broker"), "{:?}", broker.failure());
    let code = loop {
        match outbox.closed() {
            Some(close) => break close.code,
            None => thread::yield_now(),
        }
    };
    assert_eq!(code, Code::StorageFailed);
    assert!(matches!(publish(&broker, Vec::new()), Err(CallError::Unknown | CallError::Stopped)));
    assert!(matches!(broker.shutdown(), Err(ShutdownError::Failed(_))));
}

#[test]
fn a_full_disk_refuses_publishes_and_nothing_else_until_there_is_space() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish(&broker, vec![0; 1000]).unwrap();
    disk.set_capacity(Some(disk.used() + 100_000));
    let refused = loop {
        let outcome = publish(&broker, vec![0; 10_000]).unwrap();
        if !matches!(outcome, PublishOutcome::Queued { .. }) {
            break outcome;
        }
    };
    assert!(is_disk_full(&refused), "{refused:?}");
    let leases = broker.receive(Receive::all(default_namespace(), 1)).wait().unwrap();
    let outcomes = broker.ack(&[leases[0].receipt]).wait().unwrap();
    assert_eq!(outcomes[0].outcome, FinishOutcome::Done, "finishing goes on in the reserve");
    disk.set_capacity(None);
    while is_disk_full(&publish(&broker, b"again".to_vec()).unwrap()) {
        thread::yield_now();
    }
    broker.shutdown().unwrap();
}

/// Nothing is let in that the journal could turn out to have no room for: nobody would ever be told of it.
#[test]
fn a_broker_that_starts_on_a_disk_without_room_for_a_reserve_refuses_publishes() {
    let disk = TwinDisk::new(SECTOR);
    open(&disk, &options()).shutdown().unwrap();
    let spares = disk.list().unwrap().into_iter().filter(|name| name.starts_with("spare-"));
    spares.for_each(|spare| disk.remove(&spare).unwrap());
    disk.set_capacity(Some(disk.used() + 1000));
    let broker = open(&disk, &options());
    for _ in 0..20 {
        let outcome = publish(&broker, vec![0; 10_000]).unwrap();
        assert!(is_disk_full(&outcome), "{outcome:?}");
    }
    disk.set_capacity(None);
    while is_disk_full(&publish(&broker, b"again".to_vec()).unwrap()) {
        thread::yield_now();
    }
    broker.shutdown().unwrap();
}

/// The dead letters, as soon as there are any.
fn dead(broker: &Broker) -> Vec<DeadView> {
    let listing =
        Listing { namespace: default_namespace(), prefix: Default::default(), after: Default::default(), limit: 10 };
    loop {
        let list = Command::DeadList { listing: listing.clone(), group: GroupName::default() };
        match broker.call(list).wait().unwrap() {
            Answer::Dead(rows, _) if rows.is_empty() => thread::yield_now(),
            Answer::Dead(rows, _) => return rows,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_damaged_message_becomes_a_dead_letter_and_its_neighbours_are_delivered() {
    let disk = TwinDisk::new(SECTOR);
    let storage = OpenOptions { checkpoint_after: 1, ..options() };
    let broker = open(&disk, &storage);
    let bodies = ["first-body", "second-body", "third-body"];
    let messages = bodies.map(message).to_vec();
    broker.publish(default_namespace(), messages).wait().unwrap();
    // What lies behind the checkpoint is verified at the start; this is about what lies before it.
    while broker.shared().store.tree().head().is_none() {
        thread::yield_now();
    }
    broker.shutdown().unwrap();
    let (segment, offset) = find(&disk, b"second-body");
    disk.flip(&segment, offset, 3);

    let broker = open(&disk, &storage);
    let leases = broker.receive(Receive::all(default_namespace(), 10)).wait().unwrap();
    let found: Vec<&[u8]> = leases.iter().flat_map(Leased::bodies).collect();
    assert_eq!(found, [b"first-body".as_slice(), b"third-body"]);
    let dead = dead(&broker);
    assert_eq!(dead[0].message.state, MessageState::Dead);
    assert_eq!(dead[0].reason, "damaged");
    assert!(dead[0].message.block.is_empty(), "a damaged body is never handed on");
    let which = DeadWhich::Filter(Filter::All);
    let purge = Command::DeadPurge { namespace: default_namespace(), group: GroupName::default(), which };
    assert_eq!(broker.call(purge).wait().unwrap(), Answer::Reply(Reply::Count(1)));
    broker.shutdown().unwrap();
}

#[test]
fn a_message_that_the_disk_does_not_give_has_failed_and_comes_again() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    publish(&broker, b"body".to_vec()).unwrap();
    broker.shutdown().unwrap();
    // What was published before a start is read from its file.
    let broker = open(&disk, &options());
    let receive = || broker.receive(Receive::all(default_namespace(), 1).wait(Millis::minutes(1))).wait();
    disk.plan_read(0);
    let unreadable = |received: Result<Vec<Leased>, CallError>| {
        matches!(received, Err(CallError::Refused { code: Code::Unreadable, .. }))
    };
    assert!(unreadable(receive()), "it is not delivered");
    let leases = receive().unwrap();
    assert_eq!((leases[0].body(), leases[0].run.deliveries, leases[0].run.failures), (&b"body"[..], 2, 1));
    let receipts = vec![ReceiptRun { first: leases[0].receipt, count: 1 }];
    let verb = FinishVerb::Release { delay: Millis::ZERO };
    broker.call(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None })).wait().unwrap();
    // It may fail no more.
    let (policy, rules) = (Policy { max_failures: 1, ..Policy::default() }, Rules::default());
    let set = Command::NamespaceSet { name: default_namespace(), policy, rules, based_on: None };
    broker.call(set).wait().unwrap();
    disk.plan_read(0);
    assert!(unreadable(receive()));
    assert_eq!(dead(&broker)[0].detail, "unreadable: the disk could not be read");
    broker.shutdown().unwrap();
}

/// A byte of the checkpoint is not what it was, among topics that no start reads.
#[test]
fn a_checkpoint_that_turns_out_to_be_damaged_stops_the_broker_once() {
    const TOPICS: usize = 5_000;
    let directory = tempfile::tempdir().unwrap();
    let disk = || Arc::new(RealDisk::create(directory.path()).unwrap());
    let storage = OpenOptions { checkpoint_after: 1, ..options() };
    let broker = Broker::open_with(disk(), BrokerOptions::default(), &storage).unwrap();
    let topic = |number| TopicName::try_from(&*format!("t/{number:08}")).unwrap();
    let messages = |from| (from..from + 500).map(|number| Message::new(topic(number), "x"));
    for from in (0..TOPICS).step_by(500) {
        broker.publish(default_namespace(), messages(from).collect()).wait().unwrap();
    }
    while broker.shared().store.tree().stats().entries < TOPICS as u64 {
        thread::yield_now();
    }
    broker.shutdown().unwrap();
    let tables = std::fs::read_dir(directory.path().join("tree/tables")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&table, bytes).unwrap();

    let aside = directory.path().join("tree.damaged");
    let broker = Broker::open_with(disk(), BrokerOptions::default(), &options()).unwrap();
    assert!(!aside.exists(), "no start sees it");
    while broker.is_ready() {
        // Merges come upon it if this does not.
        let _ = broker.receive(Receive::all(default_namespace(), 1)).wait();
    }
    let failure = broker.failure().unwrap().to_owned();
    for word in ["checkpoint", table.to_str().unwrap(), "Restart the broker", "made anew"] {
        assert!(failure.contains(word), "{failure}");
    }
    assert!(matches!(broker.shutdown(), Err(ShutdownError::Failed(_))));

    let broker = Broker::open_with(disk(), BrokerOptions::default(), &options()).unwrap();
    assert!(aside.exists());
    let counts = broker.stats(default_namespace()).wait().unwrap().groups[0].counts;
    assert_eq!(counts.unfinished(), TOPICS as u64);
    broker.shutdown().unwrap();
}

fn find(disk: &TwinDisk, needle: &[u8]) -> (String, u64) {
    for (name, bytes) in disk.snapshot() {
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            return (name, at as u64);
        }
    }
    panic!("no file holds it");
}

#[test]
fn sessions_are_not_for_calls() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    let attach = Attach {
        session: SessionId(1),
        consumer: 1,
        namespace: default_namespace(),
        group: GroupName::default(),
        filter: Filter::All,
        messages: 1,
        bytes: 1,
        lease: None,
        at_most_once: false,
    };
    let refused = broker.call(Command::Attach(attach)).wait();
    assert!(matches!(refused, Err(CallError::Refused { code: Code::ArgumentInvalid, .. })), "{refused:?}");
    broker.shutdown().unwrap();
}

#[test]
fn a_message_carries_all_that_it_was_given() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    let full = Message {
        headers: vec![("key".into(), "value".into())],
        dedup_id: "once".into(),
        ttl: Some(Millis::minutes(5)),
        ..message("body")
    };
    let outcomes = broker.publish(default_namespace(), vec![full.clone(), full, message("plain")]).wait().unwrap();
    let kinds: Vec<_> = outcomes.iter().map(|run| matches!(run.outcome, PublishOutcome::Queued { .. })).collect();
    assert_eq!(kinds, [true, false, true], "the second is a duplicate of the first: {outcomes:?}");
    let leases = broker.receive(Receive::all(default_namespace(), 10)).wait().unwrap();
    let first = millpond_types::block::first(&leases[0].run.block).unwrap();
    assert_eq!((first.dedup_id, first.body), (&b"once"[..], &b"body"[..]));
    let headers: Vec<_> = millpond_types::block::headers(first.headers).map(Option::unwrap).collect();
    assert_eq!(headers, [(&b"key"[..], &b"value"[..])]);
    broker.shutdown().unwrap();
}

#[test]
fn old_messages_that_nobody_takes_do_not_pin_the_disk() {
    let disk = TwinDisk::new(SECTOR);
    // With so much slack as there is otherwise nothing moves: not while the disk comes to be pinned, however long that takes,
    // and not between a lease and the reading of its message, which would then be given back and come with the next receive.
    let pinned = OpenOptions { checkpoint_after: 128 * 1024, ..options() };
    let moving = OpenOptions { slack: 64 * 1024, ..pinned.clone() };
    let broker = open(&disk, &pinned);
    let topic = |name: &str| TopicName::try_from(name).unwrap();
    let mut kept = Vec::new();
    for round in 0..40 {
        let old = format!("old {round}");
        let drained = (0..10).map(|_| message(vec![7; 4000]));
        let messages = [Message::new(topic("old"), old.clone())].into_iter().chain(drained).collect();
        broker.publish(default_namespace(), messages).wait().unwrap();
        kept.push(old.into_bytes());
        let mut receive = Receive::all(default_namespace(), 100);
        receive.0.filter = Filter::Topics(vec![topic("t")]);
        let receipts: Vec<_> = broker.receive(receive).wait().unwrap().iter().map(|run| run.receipt).collect();
        assert_eq!(receipts.len(), 1);
        let verb = FinishVerb::Ack;
        let receipts = vec![ReceiptRun { first: receipts[0], count: 10 }];
        broker.call(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None })).wait().unwrap();
    }
    broker.shutdown().unwrap();
    let segments = || disk.list().unwrap().iter().filter(|name| name.ends_with(".journal")).count();
    assert!(segments() > 10, "{}", segments());

    // A start looks at once.
    let broker = open(&disk, &moving);
    while segments() > 5 {
        thread::sleep(Duration::from_millis(5));
    }
    disk.crash(3);
    drop(broker);
    let broker = open(&disk, &pinned);
    let runs = broker.receive(Receive::all(default_namespace(), 1000)).wait().unwrap();
    let found: Vec<_> = runs.iter().flat_map(|run| run.bodies().map(<[u8]>::to_vec)).collect();
    assert_eq!(found, kept, "all of them, whole and in order");
    broker.shutdown().unwrap();
}

/// A broker that was stopped before it came to a checkpoint makes it when it is started, though nobody asks it for anything.
#[test]
fn a_checkpoint_that_is_due_is_made_in_a_broker_that_rests() {
    let disk = TwinDisk::new(SECTOR);
    let broker = open(&disk, &options());
    for _ in 0..20 {
        broker.publish(default_namespace(), (0..10).map(|_| message(vec![7; 4000])).collect()).wait().unwrap();
    }
    broker.call(Command::Purge { namespace: default_namespace(), filter: Filter::All, group: None }).wait().unwrap();
    broker.shutdown().unwrap();
    let segments = || disk.list().unwrap().iter().filter(|name| name.ends_with(".journal")).count();
    assert!(segments() > 10, "{}", segments());

    let broker = open(&disk, &OpenOptions { checkpoint_after: 128 * 1024, ..options() });
    let deadline = Instant::now() + Duration::from_secs(60);
    while segments() > 5 {
        assert!(Instant::now() < deadline, "{} segments are still there", segments());
        thread::sleep(Duration::from_millis(5));
    }
    broker.shutdown().unwrap();
}
