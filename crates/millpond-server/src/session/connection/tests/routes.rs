//! Messages that take long to route, one of which may come in a few bytes.

use std::ops::Range;
use std::task::Waker;
use std::time::Duration;

use millpond_core::command::Command;
use millpond_protocol::{ForwardRoute, Level, Route, Sink};
use millpond_types::limits::{BINDINGS_MAX, ROUTING_WORDS_MAX};
use millpond_types::{
    Binding, Condition, ExchangeKind, ExchangeName, FinishOutcome, NamespaceName, Priority, RoutingKey, TopicName,
    Unroutable, block,
};

use super::*;
use crate::memory::MEMORY_MIN;
use crate::session::turns::Length;

/// With two hundred of them in a turn, everybody else waited for eight seconds.
#[test]
fn a_message_that_is_long_to_route_is_routed_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    bind(&broker, "few", 1);
    bind(&broker, "many", BINDINGS_MAX);
    let most = Length::SHORT.frames;
    let mut connection = connect(&broker, Instant::now());
    hear(&mut connection, routes("many", Level::None, 2));
    for left in [1, 0] {
        let mut turns = 0;
        while connection.conversation.routes[1].waiting().len() > left {
            assert!(connection.waits_for_turn());
            let found = connection.submit(most).unwrap();
            assert!((1..most + most / 4).contains(&found), "{found} and what one binding may take");
            turns += 1;
        }
        assert!((10..40).contains(&turns), "{turns} turns for a message");
    }
    assert!(!connection.waits_for_turn() && connection.may_read());
    drop(connection);

    let mut short = connect(&broker, Instant::now());
    hear(&mut short, routes("few", Level::None, 10));
    for left in [7, 4, 1] {
        assert_eq!(short.submit(9).unwrap(), 9, "three of them, which count three each for their words");
        assert!(short.waits_for_turn());
        assert_eq!(short.conversation.routes[1].waiting().len(), left);
    }
    assert_eq!(short.submit(9).unwrap(), 3);
    assert!(!short.waits_for_turn());
    drop(short);
    broker.shutdown().unwrap();
}

/// Or whoever binds all the time would keep it from ever being found.
#[test]
fn where_its_exchange_changes_between_two_parts_a_message_is_routed_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    bind(&broker, "many", BINDINGS_MAX - 1);
    bind(&broker, "others", BINDINGS_MAX);
    let most = Length::SHORT.frames;
    let mut connection = connect(&broker, Instant::now());
    hear(&mut connection, routes("many", Level::None, 1));
    connection.submit(most).unwrap();
    assert!(connection.waits_for_turn());
    let anything = Condition::Key(RoutingKey::try_from("#").unwrap());
    make(&broker, "many", ExchangeKind::Topic, [("t".to_owned(), anything)].into_iter());
    assert!(connection.submit(most).unwrap() > 10 * most);
    assert!(!connection.waits_for_turn());

    // One that is gone leaves nothing behind for the next.
    hear(&mut connection, routes("many", Level::None, 1));
    hear(&mut connection, routes("others", Level::None, 1));
    connection.submit(most).unwrap();
    assert_eq!(connection.conversation.routes[1].waiting().len(), 2);
    let (namespace, name) = (NamespaceName::default(), ExchangeName::try_from("many").unwrap());
    broker.call(Command::ExchangeDelete { namespace, name }).wait().unwrap();
    connection.submit(most).unwrap();
    assert_eq!(connection.conversation.routes[1].waiting().len(), 1, "the other one is found in parts of its own");
    assert!(connection.waits_for_turn());
    drop(connection);
    broker.shutdown().unwrap();
}

/// With five thousand of them, of 46 bytes each, a broker of 64 MiB took 741, and 123 with the answers alone.
#[test]
fn few_messages_to_very_many_topics_are_answered_at_a_time() {
    const MESSAGES: usize = 80;
    let directory = tempfile::tempdir().unwrap();
    let options = BrokerOptions { memory: MEMORY_MIN, ..BrokerOptions::default() };
    let broker = Broker::open(directory.path(), options).unwrap();
    fan_out(&broker, 0..BINDINGS_MAX);
    let room = broker.shared().lengthy.routes.clone();
    let all = room.free();
    let [mut idle, mut other] = [(); 2].map(|()| connect(&broker, Instant::now()));
    hear(&mut idle, routes("all", Level::Durable, MESSAGES));
    let held: usize = idle.conversation.holding.iter().sum();
    assert!(held < MESSAGES * 1000, "{held} bytes");
    let sent = |connection: &mut Connection| MESSAGES - connection.conversation.routes[1].waiting().len();
    let begin = Instant::now();
    // There is no room for more than the first bytes of it, and nobody takes those.
    let sending = broker.shared().sending.try_take(usize::MAX).expect("nobody else has any");
    while idle.conversation.outbox.told() <= SMALL {
        assert!(begin.elapsed() < Duration::from_secs(60));
        idle.submit(ALL).unwrap();
        idle.say(begin).unwrap();
    }
    (0..10).for_each(|_| _ = idle.submit(ALL).unwrap());
    let most = sent(&mut idle);
    assert!((1..5).contains(&most) && room.free() < all, "{most} of which none is read, and {} is free", room.free());

    // Another one waits for the first to read, and no longer than a while.
    let rest = room.try_take(room.free());
    hear(&mut other, routes("all", Level::Durable, MESSAGES));
    other.submit(ALL).unwrap();
    assert_eq!(sent(&mut other), 0);
    let is_closed = |connection: &mut Connection, after| connection.check_deadlines(true, begin + after).is_err();
    assert!(!is_closed(&mut idle, Duration::ZERO) && is_closed(&mut idle, Duration::from_secs(11)));
    drop((idle, rest, sending));

    let (mut said, mut decoder, mut answers) = (BytesMut::new(), Decoder::default(), 0);
    while answers < MESSAGES {
        assert!(begin.elapsed() < Duration::from_secs(60), "{answers} answers, and no more");
        _ = other.poll(&mut Context::from_waker(Waker::noop()));
        other.submit(ALL).unwrap();
        let next = other.say(Instant::now()).unwrap();
        said.extend_from_slice(next);
        let bytes = next.len();
        other.wrote(bytes, Instant::now());
        while let Some(Incoming { frame, .. }) = decoder.next_response(&mut said).unwrap() {
            let Response::Routed { topics, .. } = frame else { continue };
            assert_eq!(topics.len(), BINDINGS_MAX);
            answers += 1;
        }
    }
    assert_eq!(room.free(), all);
    drop(other);
    broker.shutdown().unwrap();
}

#[test]
fn where_a_message_goes_is_found_anew_if_its_exchange_changes_while_it_waits() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    fan_out(&broker, 0..200);
    let mut connection = connect(&broker, Instant::now());
    let room = broker.shared().lengthy.routes.try_take(usize::MAX).expect("nobody else has any");
    hear(&mut connection, routes("all", Level::Durable, 1));
    connection.submit(ALL).unwrap();
    let found = |connection: &mut Connection| match connection.conversation.routes[1].waiting().front() {
        Some(Request::Command(_, Command::Route(route), _)) => route.copies.count,
        other => unreachable!("{} waits", other.is_some()),
    };
    assert_eq!(found(&mut connection), 200, "it waits for room");
    fan_out(&broker, 200..BINDINGS_MAX);
    connection.submit(ALL).unwrap();
    assert_eq!(found(&mut connection), BINDINGS_MAX);
    drop(room);
    _ = connection.poll(&mut Context::from_waker(Waker::noop()));
    connection.submit(ALL).unwrap();
    assert!(connection.conversation.routes[1].waiting().is_empty(), "and then it has gone");
    drop(connection);
    broker.shutdown().unwrap();
}

/// Or the second batch of a producer would come before the first.
#[test]
fn what_came_behind_a_message_that_is_found_its_way_anew_stays_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    fan_out(&broker, 0..2);
    let mut connection = connect(&broker, Instant::now());
    hear(&mut connection, routes("all", Level::Durable, 1));
    // It finds no room in its lane.
    assert!(connection.conversation.go_on_routed(ALL));
    let bind = Asked::Bind {
        namespace: NamespaceName::default(),
        exchange: ExchangeName::try_from("all").unwrap(),
        binding: Binding { condition: Condition::Always, target: TopicName::try_from("later").unwrap() },
    };
    let mut bytes = Vec::new();
    encode_request(&bind, 6, &mut bytes);
    hear(&mut connection, BytesMut::from(&bytes[..]));
    assert_eq!(connection.conversation.lanes[PUBLISHING].len(), 2);
    fan_out(&broker, 2..3);
    connection.conversation.take_back_routed();
    assert_eq!(connection.conversation.routes[1].waiting().len(), 2, "both");
    let topics = answered(&mut connection, |frame| match frame {
        Response::Routed { topics, .. } => Some(topics.len()),
        _ => None,
    });
    assert_eq!(topics, 3, "as the bindings were before its own");
    drop(connection);
    broker.shutdown().unwrap();
}

/// Forwards may be all that ends the leases for which publishes wait.
#[test]
fn a_forward_to_an_exchange_waits_for_none_that_publish_to_one() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    fan_out(&broker, 0..BINDINGS_MAX);
    let rooms = &broker.shared().lengthy;
    let (taken, free) = (rooms.routes.try_take(usize::MAX).expect("nobody else has any"), rooms.forwards.free());
    let mut connection = connect(&broker, Instant::now());
    hear(&mut connection, routes("all", Level::Durable, 1));
    let Asked::Route(Route { namespace, exchange, key, priority, delay, ttl, block, .. }) =
        route("all", Level::Durable)
    else {
        unreachable!("it is one")
    };
    let receipts = vec![(ordered::receipt(1), 1)];
    let forward = ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block };
    let mut bytes = Vec::new();
    encode_request(&Asked::ForwardRoute(forward), 6, &mut bytes);
    hear(&mut connection, BytesMut::from(&bytes[..]));
    let told = answered(&mut connection, |frame| match frame {
        Response::ForwardRouted { topics, finished, published } => {
            Some((topics.len(), finished[0].outcome.clone(), published[0].count as usize))
        }
        _ => None,
    });
    assert_eq!(told, (BINDINGS_MAX, FinishOutcome::LeaseLost, BINDINGS_MAX));
    assert_eq!(rooms.forwards.free(), free, "it had room of its own");
    assert_eq!(connection.conversation.routes[1].waiting().len(), 1, "the other one has none");
    drop((connection, taken));
    broker.shutdown().unwrap();
}

/// Its routes wait for it to read, and hold room that others wait for.
#[test]
fn who_takes_no_bytes_leaves_others_waiting_though_no_answer_stands_behind_them() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let mut connection = connect(&broker, Instant::now());
    assert!(!connection.is_stuck());
    Sink::bytes(&mut connection.conversation.out).extend([0; 256 * 1024]);
    assert!(connection.is_stuck() && connection.conversation.outbox.told() == 0);
    drop(connection);
    broker.shutdown().unwrap();
}

/// All of it is taken in.
fn hear(connection: &mut Connection, mut input: BytesMut) {
    let whole = input.capacity();
    connection.hear((&mut input, whole), usize::MAX, Instant::now()).unwrap();
    assert!(input.is_empty() && !connection.has_frames());
}

/// So many bindings of an exchange that has one for each topic.
fn fan_out(broker: &Broker, topics: Range<usize>) {
    let all = |at: usize| (format!("t{at}"), Condition::Always);
    make(broker, "all", ExchangeKind::Fanout, topics.map(all));
}

/// An exchange with so many patterns that fit nearly.
fn bind(broker: &Broker, exchange: &str, patterns: usize) {
    let nearly = |at: usize| {
        let pattern = format!("#.{}b{at}", "a.".repeat(31));
        ("t".to_owned(), Condition::Key(RoutingKey::try_from(&*pattern).unwrap()))
    };
    make(broker, exchange, ExchangeKind::Topic, (0..patterns).map(nearly));
}

fn make(broker: &Broker, exchange: &str, kind: ExchangeKind, bindings: impl Iterator<Item = (String, Condition)>) {
    let (namespace, exchange) = (NamespaceName::default(), ExchangeName::try_from(exchange).unwrap());
    let (name, unroutable) = (exchange.clone(), Unroutable::Drop);
    let make = Command::ExchangeCreate { namespace: namespace.clone(), name, kind, unroutable };
    // It may be there.
    _ = broker.call(make).wait();
    let bind = |(target, condition): (String, Condition)| {
        let binding = Binding { condition, target: TopicName::try_from(&*target).unwrap() };
        broker.call(Command::Bind { namespace: namespace.clone(), exchange: exchange.clone(), binding })
    };
    let calls: Vec<_> = bindings.map(bind).collect();
    calls.into_iter().for_each(|call| drop(call.wait().unwrap()));
}

/// Lets a connection go on until it has an answer of some kind, and takes that.
fn answered<T>(connection: &mut Connection, wanted: impl Fn(Response) -> Option<T>) -> T {
    let begin = Instant::now();
    let (mut said, mut decoder) = (BytesMut::new(), Decoder::default());
    loop {
        assert!(begin.elapsed() < Duration::from_secs(60));
        connection.submit(ALL).unwrap();
        let next = connection.say(Instant::now()).unwrap();
        said.extend_from_slice(next);
        let bytes = next.len();
        connection.wrote(bytes, Instant::now());
        while let Some(Incoming { frame, .. }) = decoder.next_response(&mut said).unwrap() {
            if let Some(found) = wanted(frame) {
                return found;
            }
        }
    }
}

/// Messages, behind a hello.
fn routes(exchange: &str, level: Level, count: usize) -> BytesMut {
    let mut bytes = Vec::new();
    encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 5, &mut bytes);
    (0..count).for_each(|_| encode_request(&route(exchange, level), 5, &mut bytes));
    BytesMut::from(&bytes[..])
}

fn route(exchange: &str, level: Level) -> Asked {
    let mut message = Vec::new();
    block::push(&mut message, b"", &[], b"m").unwrap();
    Asked::Route(Route {
        namespace: NamespaceName::default(),
        level,
        producer: None,
        exchange: ExchangeName::try_from(exchange).unwrap(),
        key: RoutingKey::try_from(&*["a"; ROUTING_WORDS_MAX].join(".")).unwrap(),
        priority: Priority::DEFAULT,
        delay: Default::default(),
        ttl: None,
        block: message.into(),
    })
}
