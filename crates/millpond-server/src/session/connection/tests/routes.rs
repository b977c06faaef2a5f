//! Messages that take long to route, one of which may come in a few bytes.

use millpond_core::command::{Command, PublishRun};
use millpond_protocol::{Level, Route};
use millpond_types::limits::{BINDINGS_MAX, ROUTING_WORDS_MAX};
use millpond_types::{
    Binding, Condition, ExchangeKind, ExchangeName, NamespaceName, Priority, RoutingKey, TopicName, Unroutable, block,
};

use super::*;
use crate::session::turns::Length;

/// With two hundred of them in a turn, everybody else waited for eight seconds.
#[test]
fn a_message_that_is_long_to_route_has_a_turn_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let now = Instant::now();
    bind(&broker, "few", 1);
    bind(&broker, "many", BINDINGS_MAX);
    let mut connection = connect(&broker, now);
    let mut input = routes("many", 3);
    let mut hears = |connection: &mut Connection| {
        let whole = input.capacity();
        let taken = connection.hear((&mut input, whole), Length::WHOLE.frames, now).unwrap();
        (taken, connection.conversation.lanes[PUBLISHING].len(), connection.waits_for_turn())
    };
    // Nobody knows how long it takes before the first is there.
    let (taken, waiting, waits) = hears(&mut connection);
    assert!(taken > Length::WHOLE.frames && waiting == 1 && !waits, "{taken} {waiting}");
    assert!(connection.takes_frames() && !connection.may_read());
    assert_eq!(hears(&mut connection), (0, 1, true));
    assert!(connection.takes_frames() && !connection.may_read());
    let (taken, waiting, waits) = hears(&mut connection);
    assert!(taken > Length::WHOLE.frames && waiting == 2 && !waits, "{taken} {waiting}");
    assert_eq!(hears(&mut connection), (0, 2, true), "each of them waits");
    assert_eq!(hears(&mut connection).1, 3);
    assert!(!connection.takes_frames() && connection.may_read());
    drop(connection);

    // Who comes anew has none for nothing.
    let mut other = connect(&broker, now);
    let mut input = routes("many", 1);
    let whole = input.capacity();
    assert_eq!(other.hear((&mut input, whole), usize::MAX, now).unwrap(), 1, "that it is there");
    assert!(other.waits_for_turn() && other.conversation.lanes[PUBLISHING].is_empty());
    drop(other);

    let mut short = connect(&broker, now);
    let mut input = routes("few", 100);
    let whole = input.capacity();
    assert_eq!(short.hear((&mut input, whole), Length::WHOLE.frames, now).unwrap(), 201, "a little more than others");
    assert_eq!(short.conversation.lanes[PUBLISHING].len(), 100);
    drop(short);
    broker.shutdown().unwrap();
}

/// With five thousand of them, of 46 bytes each, a broker of 64 MiB took 741.
#[test]
fn copies_of_a_message_that_waits_are_not_made_yet() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let now = Instant::now();
    let all = |at: usize| (format!("t{at}"), Condition::Always);
    make(&broker, "all", ExchangeKind::Fanout, (0..BINDINGS_MAX).map(all));
    let mut connection = connect(&broker, now);
    let mut input = routes("all", 80);
    let whole = input.capacity();
    while !input.is_empty() || connection.has_frames() {
        connection.hear((&mut input, whole), usize::MAX, now).unwrap();
    }
    assert_eq!(connection.conversation.lanes[PUBLISHING].len(), 80);
    let held: usize = connection.conversation.lanes[PUBLISHING].iter().map(memory).sum();
    assert!(held < 80 * 1000, "{held}");
    assert!(connection.conversation.holding[PUBLISHING] >= held);
    drop(connection);
    broker.shutdown().unwrap();
}

/// What is a route's own of the memory that it takes, counted again.
fn memory(request: &Request) -> usize {
    let Request::Command(_, Command::Route(route), _) = request else { unreachable!("only these were asked") };
    assert!(route.copies > BINDINGS_MAX * size_of::<PublishRun>() && route.refusal.is_none());
    size_of_val(&route.publish.runs[..]) + size_of_val(&route.taken[..])
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
    broker.call(make).wait().unwrap();
    let bind = |(target, condition): (String, Condition)| {
        let binding = Binding { condition, target: TopicName::try_from(&*target).unwrap() };
        broker.call(Command::Bind { namespace: namespace.clone(), exchange: exchange.clone(), binding })
    };
    let calls: Vec<_> = bindings.map(bind).collect();
    calls.into_iter().for_each(|call| drop(call.wait().unwrap()));
}

/// Behind a hello.
fn routes(exchange: &str, count: usize) -> BytesMut {
    let mut message = Vec::new();
    block::push(&mut message, b"", &[], b"m").unwrap();
    let route = Asked::Route(Route {
        namespace: NamespaceName::default(),
        level: Level::None,
        producer: None,
        exchange: ExchangeName::try_from(exchange).unwrap(),
        key: RoutingKey::try_from(&*["a"; ROUTING_WORDS_MAX].join(".")).unwrap(),
        priority: Priority::DEFAULT,
        delay: Default::default(),
        ttl: None,
        block: message.into(),
    });
    let mut bytes = Vec::new();
    encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 5, &mut bytes);
    (0..count).for_each(|_| encode_request(&route, 5, &mut bytes));
    BytesMut::from(&bytes[..])
}
