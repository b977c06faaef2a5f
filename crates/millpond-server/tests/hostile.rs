//! What a broker does with clients that break the rules, are slow, or are too many: a typed error where the connection
//! can go on, a clear close where it cannot, and never a loss for the others.

mod wire;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use millpond_protocol::*;
use millpond_server::{Config, ServeError, Server};
use millpond_types::limits::{FRAME_MAX, PUBLISH_DEDUP_IDS_MAX, RECEIVE_MESSAGES_MAX};
use millpond_types::{
    Code, DedupWindow, Filter, GroupName, Millis, NamespaceName, Policy, PublishOutcome, Quotas, Receipt, Rules,
    SessionId, block,
};
use wire::*;

fn encoded(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(request, 7, &mut bytes);
    bytes
}

fn connect_http(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.http_address().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn assert_closed(client: &mut Client, code: Code) {
    match client.closing() {
        Some(Response::Closing { code: found, detail }) => assert_eq!(found, code, "{detail}"),
        other => panic!("closed without a reason: {other:?}"),
    }
}

#[test]
fn credit_and_heartbeats_for_nobody_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let credit = |consumer| Request::Credit { consumer, messages: 1, bytes: 1000 };
    let refused = |client: &mut Client, request: Request, code: Code, part: &str| match client.ask(request) {
        Response::Error { code: found, detail } => {
            assert!(found == code && detail.contains(part), "{found:?} {detail}")
        }
        other => panic!("{other:?}"),
    };
    refused(&mut client, credit(1), Code::SessionUnknown, "begin one");
    refused(&mut client, Request::Heartbeat { except: Vec::new() }, Code::SessionUnknown, "begin one");
    client.begin_session(SessionId(0), Vec::new());
    client.attach(1, 1);
    refused(&mut client, credit(9), Code::ConsumerUnknown, "consumer 9");
    assert_eq!(client.ask(Request::Detach { consumer: 1 }), Response::Done);
    refused(&mut client, credit(1), Code::ConsumerUnknown, "consumer 1");
    // The connection goes on, and as much credit as a frame can name is as much as there can be.
    client.attach(1, 1);
    for _ in 0..2 {
        client.send(Request::Credit { consumer: 1, messages: u32::MAX, bytes: u64::MAX });
    }
    client.publish("t", &["a", "b"]);
    let leases = client.delivery();
    assert_eq!(bodies(&leases), ["a", "b"]);
    client.ack(leases[0].receipt, 2);
    client.send(Request::Heartbeat { except: vec![leases[0].receipt] });
    client.publish("t", &["c"]);
    assert_eq!(bodies(&client.delivery()), ["c"]);
    server.shutdown().unwrap();
}

/// So the answer fits a frame, and the next receive has the rest.
#[test]
fn a_receive_of_more_than_an_answer_holds_is_given_as_much_as_that() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    client.publish("t", &["x"; 1500]);
    assert_eq!(count(&client.receive(u32::MAX, Millis::ZERO)), RECEIVE_MESSAGES_MAX);
    assert_eq!(count(&client.receive(u32::MAX, Millis::ZERO)), 1500 - RECEIVE_MESSAGES_MAX);
    server.shutdown().unwrap();
}

#[test]
fn a_frame_may_come_byte_by_byte() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::silent(server.address());
    let mut all = encoded(&Request::Hello { version: VERSION, client: "slow".into() });
    all.extend(encoded(&publish("t", &["a", "b"], Level::Durable)));
    for byte in all {
        client.raw(&[byte]);
    }
    assert!(matches!(client.next(), Some((7, Response::Welcome { .. }))));
    assert!(matches!(client.next(), Some((7, Response::Published(_)))));
    server.shutdown().unwrap();
}

#[test]
fn many_frames_may_come_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::silent(server.address());
    let mut all = encoded(&Request::Hello { version: VERSION, client: "quick".into() });
    for _ in 0..1000 {
        all.extend(encoded(&publish("t", &["x"], Level::Durable)));
    }
    client.raw(&all);
    client.next().unwrap();
    for _ in 0..1000 {
        assert!(matches!(client.next(), Some((7, Response::Published(_)))));
    }
    assert_eq!(client.stats().waiting, 1000);
    server.shutdown().unwrap();
}

#[test]
fn strangers_are_told_and_closed() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let other_version = {
        let mut bytes = encoded(&Request::Hello { version: VERSION, client: String::new() });
        bytes[13] = 99;
        bytes
    };
    let cases: [(&[u8], Code); 4] = [
        (b"GET / HTTP/1.1\r\n\r\n", Code::Malformed),
        (&[0xff; 64], Code::Malformed),
        (&encoded(&Request::Ping), Code::Malformed),
        (&other_version, Code::UnsupportedVersion),
    ];
    for (bytes, code) in cases {
        let mut client = Client::silent(server.address());
        client.raw(bytes);
        assert_closed(&mut client, code);
    }
    server.shutdown().unwrap();
}

#[test]
fn a_bad_frame_is_refused_and_the_connection_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let mut unknown = encoded(&Request::Ping);
    unknown[4] = 0x7e;
    client.raw(&unknown);
    assert!(matches!(client.next(), Some((7, Response::Error { code: Code::UnexpectedFrame, .. }))));

    let mut cut = encoded(&publish("t", &["body"], Level::Durable));
    let length = cut.len() as u32 - 4 - 2;
    cut[..4].copy_from_slice(&length.to_le_bytes());
    cut.truncate(cut.len() - 2);
    client.raw(&cut);
    assert!(matches!(client.next(), Some((7, Response::Error { code: Code::Malformed, .. }))));

    let mut wrong = block_of(&["body"]).to_vec();
    wrong[0] = 1;
    let refused = client.ask(publish_block("t", wrong.into(), Level::Durable));
    assert!(matches!(refused, Response::Error { code: Code::Malformed, .. }), "{refused:?}");

    let mut large = Vec::new();
    block::push(&mut large, b"", &[], &vec![0; 1024 * 1024 + 1]).unwrap();
    let refused = client.ask(publish_block("t", large.into(), Level::Durable));
    let Response::Published(outcomes) = &refused else { panic!("{refused:?}") };
    let is_too_large =
        |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Refused { code: Code::MessageTooLarge, .. });
    assert!(outcomes.len() == 1 && is_too_large(&outcomes[0].outcome), "{refused:?}");

    assert_eq!(client.ask(Request::Ping), Response::Pong);
    assert_eq!(client.stats().waiting, 0, "nothing of it was stored");

    let mut mixed = Vec::new();
    for body in [&b"before"[..], &vec![0; 1024 * 1024 + 1], b"behind"] {
        block::push(&mut mixed, b"", &[], body).unwrap();
    }
    let told = client.ask(publish_block("t", mixed.into(), Level::Durable));
    let Response::Published(outcomes) = &told else { panic!("{told:?}") };
    assert!(outcomes.len() == 3 && is_too_large(&outcomes[1].outcome), "{told:?}");
    assert_eq!(client.stats().waiting, 2, "its neighbours were stored");
    server.shutdown().unwrap();
}

/// Each with another reason than its neighbours, so that no two of them are told as one.
#[test]
fn the_refusals_of_as_many_messages_as_a_publish_holds_fit_a_frame() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let quotas = Quotas { messages: Some(1), ..Quotas::default() };
    let policy = Policy { dedup_window: DedupWindow::Off, quotas, ..Policy::default() };
    let (namespace, rules) = (NamespaceName::default(), Rules::default());
    let set = Request::NamespaceSet { namespace, policy, rules, based_on: None };
    assert_eq!(client.ask(set), Response::Done);
    client.publish("t", &["the one that the namespace may hold"]);
    let mut messages = Vec::new();
    // Every second one has a dedup id, of which a publish has so many.
    let count = 2 * PUBLISH_DEDUP_IDS_MAX;
    for number in 0..count {
        let dedup_id = if number % 2 == 0 { &b"d"[..] } else { b"" };
        block::push(&mut messages, dedup_id, &[], b"x").unwrap();
    }
    let told = client.ask(publish_block("t", messages.into(), Level::Durable));
    let Response::Published(outcomes) = &told else { panic!("{told:?}") };
    assert_eq!(outcomes.len(), count);
    for (run, code) in outcomes.iter().zip([Code::DedupOff, Code::QuotaExceeded].into_iter().cycle()) {
        assert!(matches!(run.outcome, PublishOutcome::Refused { code: told, .. } if told == code), "{run:?}");
    }
    let details = outcomes
        .iter()
        .filter(|run| !matches!(&run.outcome, PublishOutcome::Refused { detail, .. } if detail.is_empty()));
    assert!(details.count() > 100, "the first of them say in words what to do");
    server.shutdown().unwrap();
}

#[test]
fn a_frame_that_announces_too_much_closes() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    client.raw(&(FRAME_MAX as u32 + 1).to_le_bytes());
    client.raw(&[0; 100]);
    assert_closed(&mut client, Code::FrameTooLarge);
    server.shutdown().unwrap();
}

#[test]
fn what_needs_a_session_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let attach = |consumer, group: &str| {
        Request::Attach(Attach {
            consumer,
            namespace: NamespaceName::default(),
            group: GroupName::try_from(group).unwrap(),
            filter: Filter::All,
            messages: 1,
            bytes: 1,
            lease: None,
            at_most_once: false,
        })
    };
    let refused = |response| match response {
        Response::Error { code, .. } => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(client.ask(attach(1, "default"))), Code::SessionUnknown);
    assert_eq!(refused(client.ask(Request::SessionEnd)), Code::SessionUnknown);
    client.begin_session(SessionId(0), Vec::new());
    let again = Request::SessionBegin { session: SessionId(0), resume: Millis::ZERO, held: Vec::new() };
    assert_eq!(refused(client.ask(again)), Code::UnexpectedFrame);
    assert_eq!(refused(client.ask(attach(1, "no-such-group"))), Code::GroupUnknown);
    assert_eq!(client.ask(attach(1, "default")), Response::Done, "the refused one left nothing behind");
    assert_eq!(refused(client.ask(attach(1, "default"))), Code::ConsumerExists);
    let reason = Bytes::from(vec![b'x'; 2000]);
    let lease = Receipt { topic: Default::default(), group: 0, lease: Default::default() };
    let long = Finish {
        verb: FinishVerb::Fail { delay: None, reason },
        confirm: true,
        namespace: None,
        receipts: vec![(lease, 1)],
    };
    assert_eq!(refused(client.ask(Request::Finish(long))), Code::LimitExceeded);
    server.shutdown().unwrap();
}

/// Also where the client asks for no confirmation: it would take its leases for finished.
#[test]
fn a_finish_that_is_refused_as_a_whole_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    client.publish("t", &["a"]);
    let lease = client.receive(1, Millis::ZERO)[0].receipt;
    let other = NamespaceName::try_from("other").unwrap();
    let (policy, rules) = (Policy::default(), Rules::default());
    let set = Request::NamespaceSet { namespace: other.clone(), policy, rules, based_on: None };
    assert_eq!(client.ask(set), Response::Done);
    let nowhere = NamespaceName::try_from("nowhere").unwrap();
    let cases = [
        (FinishVerb::Ack, 20_000, None, Code::LimitExceeded),
        (FinishVerb::Extend { lease: Some(Millis(1)) }, 1, None, Code::ArgumentInvalid),
        (FinishVerb::Ack, 1, Some(other), Code::ArgumentInvalid),
        (FinishVerb::Ack, 1, Some(nowhere), Code::NamespaceUnknown),
    ];
    for (verb, count, namespace, expected) in cases {
        for confirm in [true, false] {
            let (verb, namespace) = (verb.clone(), namespace.clone());
            let told = client.ask(Request::Finish(Finish { verb, confirm, namespace, receipts: vec![(lease, count)] }));
            assert!(matches!(told, Response::Error { code, .. } if code == expected), "confirm {confirm}: {told:?}");
        }
    }
    let namespace = Some(NamespaceName::default());
    let ack = Finish { verb: FinishVerb::Ack, confirm: false, namespace, receipts: vec![(lease, 1)] };
    client.send(Request::Finish(ack));
    assert_eq!(client.stats().leased, 0, "and of one that is done nothing is told");
    server.shutdown().unwrap();
}

#[test]
fn a_reader_that_does_not_read_holds_little_and_harms_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut producer = Client::connect(server.address());
    let body = "z".repeat(100_000);
    for _ in 0..50 {
        producer.publish("t", &[body.as_str(); 10]);
    }
    // It wants everything and reads nothing.
    let mut lazy = Client::connect(server.address());
    lazy.begin_session(SessionId(0), Vec::new());
    lazy.attach(1, 1_000_000);
    // Another worker still gets what the lazy one has no room for.
    let mut got = 0;
    while got < 100 {
        let leases = producer.receive(10, Millis::ZERO);
        got += count(&leases);
        for lease in leases {
            producer.ack(lease.receipt, lease.count);
        }
    }
    // A window of 4 MiB, and what the two sockets hold.
    assert!(producer.stats().leased <= 250, "what was delivered to the lazy one is bounded by its window");
    // When it reads at last, it gets the rest.
    let mut found = 0;
    while found < 300 {
        found += count(&lazy.delivery());
    }
    server.shutdown().unwrap();
}

#[test]
fn there_is_a_limit_of_connections() {
    let directory = tempfile::tempdir().unwrap();
    let server = start_with(directory.path(), |config| config.connections_max = 2);
    let (one, _two) = (Client::connect(server.address()), Client::connect(server.address()));
    let mut three = Client::silent(server.address());
    assert_closed(&mut three, Code::Overloaded);
    one.close();
    while server.handle().connections() > 1 {
        std::thread::yield_now();
    }
    Client::connect(server.address());
    server.shutdown().unwrap();
}

#[test]
fn a_port_in_use_and_a_directory_in_use_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let config = Config { data: directory.path().into(), listen: address, http: None, ..Config::default() };
    match Server::start(config.clone().validate().unwrap()) {
        Err(error @ ServeError::Listen { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&address.to_string()) && text.contains("another process listens there"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    drop(other);
    let server = Server::start(config.clone().validate().unwrap()).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    match Server::start(Config { listen: any, ..config }.validate().unwrap()) {
        Err(error @ ServeError::Open(_)) => assert!(error.to_string().contains("in use"), "{error}"),
        other => panic!("{other:?}"),
    }
    server.shutdown().unwrap();
}

#[test]
fn health_readiness_and_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    Client::connect(server.address()).publish("secret-topic", &["a", "b", "c"]);
    let get = |path: &str| {
        let mut stream = connect_http(&server);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/health").starts_with("HTTP/1.1 200"));
    assert!(get("/ready").starts_with("HTTP/1.1 200"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    let metrics = get("/metrics");
    assert!(metrics.contains("millpond_messages_published_total 3"), "{metrics}");
    assert!(metrics.contains("millpond_memory_resident_bytes"));
    assert!(metrics.contains("millpond_messages_waiting 3") && metrics.contains("millpond_topics 1"), "{metrics}");
    assert!(!metrics.contains("secret-topic"), "a topic is never a label");
    server.shutdown().unwrap();
}

#[test]
fn http_clients_that_never_come_to_an_end_make_room() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    const HEADER: &str = "GET /health HTTP/1.1\r\nHost: x\r\n";
    let never_ended: [&[&str]; 6] = [
        &[],
        &["GET /hea"],
        &[HEADER, "X: y"],
        &["POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "a part"],
        &["POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\na"],
        // Answered, and not read.
        &[HEADER, "Connection: keep-alive\r\n\r\n"],
    ];
    // More than are taken in at a time.
    let crowd: Vec<_> = (0..120)
        .map(|n| {
            let mut stream = connect_http(&server);
            never_ended[n % never_ended.len()].iter().for_each(|part| stream.write_all(part.as_bytes()).unwrap());
            stream
        })
        .collect();
    let mut drips = connect_http(&server);
    let dripping = std::thread::spawn(move || {
        while drips.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut plain = connect_http(&server);
    write!(plain, "{HEADER}\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for mut stream in crowd {
        // Closed, or reset where something had not been read.
        let end = stream.read_to_end(&mut Vec::new());
        assert!(!end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "it is held for ever");
    }
    dripping.join().unwrap();
    server.shutdown().unwrap();
}

/// Who asks over HTTP is answered at once, however many others connect and do not end their requests.
#[test]
fn http_clients_that_do_not_ask_give_way_to_those_that_do() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    for _ in 0..3 {
        let crowd: Vec<_> = (0..256)
            .map(|_| {
                let mut stream = connect_http(&server);
                // It may have had to give way already.
                let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n");
                stream
            })
            .collect();
        let mut asks = connect_http(&server);
        asks.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        asks.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        drop(crowd);
    }
    // More at once than there are places, of which none gives way.
    let crowd: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = connect_http(&server);
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        })
        .collect();
    for mut stream in crowd {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    server.shutdown().unwrap();
}

#[test]
fn an_http_header_that_is_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut stream = connect_http(&server);
    let cookie = "x".repeat(10 * 1024);
    let request = |cookie: &str| format!("GET /health HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(request(&cookie).as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let mut stream = connect_http(&server);
    // It may be closed while this is still being sent.
    let _ = stream.write_all(&request(&cookie.repeat(10)).as_bytes()[..17 * 1024]);
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
    server.shutdown().unwrap();
}

#[test]
fn a_client_that_asks_and_never_reads_is_not_read_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    Client::connect(server.address()).publish("t", &["x"; 1000]);
    let mut client = Client::connect(server.address());
    // Each answer is some thousand times as large as its request.
    let topic = TopicRef { namespace: NamespaceName::default(), name: topic("t") };
    let looks = encoded(&Request::Look { topic, which: LookWhich::First(1000), group: None }).repeat(1000);
    client.stream.set_nonblocking(true).unwrap();
    let (mut taken, mut stalled) = (0, 0);
    while stalled < 50 {
        assert!(taken < 1 << 30, "the broker reads on without end");
        match client.stream.write(&looks) {
            Ok(bytes) => (taken, stalled) = (taken + bytes, 0),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                stalled += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            // It was closed, which is as good.
            Err(_) => break,
        }
    }
    // The others are served.
    assert_eq!(Client::connect(server.address()).stats().waiting, 1000);
    server.shutdown().unwrap();
}

/// It is told nothing more, and what comes later is for others.
#[test]
fn a_client_that_shuts_its_sending_side_down_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut gone = Client::connect(server.address());
    gone.send(Request::Receive(receive(10, Millis::seconds(3600))));
    gone.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(gone.next(), None, "it is closed without a word");
    let mut other = Client::connect(server.address());
    other.publish("t", &["x"]);
    assert_eq!(count(&other.receive(10, Millis::ZERO)), 1);
    server.shutdown().unwrap();
}

#[test]
fn a_session_that_is_resumed_elsewhere_closes_the_first_connection() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut first = Client::connect(server.address());
    let (session, _) = first.begin_session(SessionId(0), Vec::new());
    let mut second = Client::connect(server.address());
    assert_eq!(second.begin_session(session, Vec::new()), (session, true));
    assert_closed(&mut first, Code::SessionUnknown);
    second.attach(1, 1);
    second.publish("t", &["x"]);
    assert_eq!(bodies(&second.delivery()), ["x"]);
    server.shutdown().unwrap();
}

/// Each could keep the others waiting for as long as it may stand so, one after the other.
#[test]
fn hundreds_that_let_large_frames_stand_half_sent_keep_nobody_waiting_for_long() {
    const HALVES: usize = 300;
    let directory = tempfile::tempdir().unwrap();
    let server = start_with(directory.path(), |config| config.memory = 64 << 20);
    let whole = encoded(&publish("t", &[&"x".repeat(1 << 20)], Level::Durable));
    let halves: Vec<Client> = (0..HALVES)
        .map(|_| {
            let mut client = Client::connect(server.address());
            client.raw(&whole[..5000]);
            client
        })
        .collect();
    let mut client = Client::connect(server.address());
    let outcomes = client.publish("t", &[&"y".repeat(6000)]);
    assert!(matches!(outcomes[0].outcome, PublishOutcome::Queued { .. }), "{outcomes:?}");
    drop(halves);
    server.shutdown().unwrap();
}
