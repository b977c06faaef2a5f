//! `examples/device/publish.c`, compiled by the system's C compiler and talked to by the codec over a real socket.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use bytes::BytesMut;
use millpond_protocol::{Block, Decoder, Level, Request, Response, VERSION, encode_response};
use millpond_types::{Code, MessageId, Millis, OutcomeRun, Priority, PublishOutcome, Sequence, TopicNumber, block};

#[test]
fn a_confirmed_publish_prints_its_id() {
    let id = MessageId { topic: TopicNumber(1 << 40), priority: Priority::DEFAULT, sequence: Sequence(77) };
    let outcome = PublishOutcome::Queued { id };
    // In one piece, and in pieces of a few bytes, so that headers and ids arrive in parts.
    for piece in [1, 7, 4096] {
        let output = publish("sensors/7", "21.5 °C", piece, |correlation, answers| {
            encode_response(&Response::PublishCredit { bytes: 100 }, 0, answers);
            let other = OutcomeRun {
                count: 1,
                outcome: PublishOutcome::Queued { id: MessageId { sequence: Sequence(1), ..id } },
            };
            encode_response(&Response::Published(vec![other]), correlation + 1, answers);
            encode_response(
                &Response::Published(vec![OutcomeRun { count: 1, outcome: outcome.clone() }]),
                correlation,
                answers,
            );
        });
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "1099511627776.4.77\n"), "{output:?}");
    }
}

#[test]
fn whatever_is_no_confirmation_is_a_failure_that_says_why() {
    let (code, detail) = (Code::DiskFull, || "no room".to_owned());
    let refused = OutcomeRun { count: 1, outcome: PublishOutcome::Refused { code, detail: detail() } };
    let answers = [
        Response::Error { code, detail: detail() },
        Response::Closing { code, detail: detail() },
        Response::Published(vec![refused]),
    ];
    for answer in answers {
        let output = publish("t", "x", 3, |correlation, out| encode_response(&answer, correlation, out));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{answer:?}");
        assert_eq!(text(&output.stderr), "publish: error 32: no room\n", "{answer:?}");
    }
}

#[test]
fn a_connection_that_breaks_is_a_failure() {
    let output = publish("t", "x", 4096, |_, _| ());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it may be stored or not"), "{output:?}");
    let output = publish("t", "x", 4096, |_, out| out.extend_from_slice(&[26, 0, 0, 0, 0x90, 1, 0]));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn wrong_usage_and_an_absent_broker() {
    let output = Command::new(compiled()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let output = Command::new(compiled()).args(["127.0.0.1", &port.to_string(), "t", "x"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), "publish: the broker cannot be reached\n"));
}

/// Runs the program against a listener that reads its two frames with the codec, and writes the welcome and what
/// `answer` gives in pieces of so many bytes.
fn publish(topic: &str, body: &str, piece: usize, answer: impl FnOnce(u32, &mut Vec<u8>) + Send) -> Output {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let correlation = read_publish(&mut socket, topic, body);
            let mut answers = Vec::new();
            let (frame_max, body_max, idle) = (5 << 20, 1 << 20, Millis::seconds(30));
            encode_response(&Response::Welcome { version: VERSION, frame_max, body_max, idle }, 0, &mut answers);
            answer(correlation, &mut answers);
            socket.set_nodelay(true).unwrap();
            for bytes in answers.chunks(piece) {
                // The program is free to stop reading once it knows enough.
                if socket.write_all(bytes).is_err() {
                    break;
                }
            }
        });
        Command::new(compiled()).args(["127.0.0.1", &port, topic, body]).output().unwrap()
    })
}

/// Holds what the program sent against what it was told to send.
fn read_publish(socket: &mut impl Read, topic: &str, body: &str) -> u32 {
    let (mut decoder, mut buffer, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    while frames.len() < 2 {
        let mut bytes = [0; 64];
        let read = socket.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "the program closed the connection early");
        buffer.extend_from_slice(&bytes[..read]);
        while let Some(incoming) = decoder.next_request(&mut buffer).unwrap() {
            frames.push(incoming);
        }
    }
    assert!(buffer.is_empty());
    assert_eq!(frames[0].frame, Request::<Block>::Hello { version: VERSION, client: String::new() });
    let Request::Publish(publish) = &frames[1].frame else { panic!("{:?}", frames[1]) };
    assert_eq!((publish.namespace.as_str(), publish.level, publish.producer), ("default", Level::Durable, None));
    let [run] = &publish.runs[..] else { panic!("{publish:?}") };
    assert_eq!((run.topic.as_str(), run.priority, run.delay, run.ttl), (topic, Priority::DEFAULT, Millis::ZERO, None));
    assert_eq!(run.block.count, 1);
    assert_eq!(block::first(&run.block.bytes).unwrap().body, body.as_bytes());
    frames[1].correlation
}

/// The program, compiled once for all tests.
fn compiled() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/device/publish.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device-publish");
        let flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"];
        let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status();
        assert!(status.expect("a C compiler named cc is installed").success(), "publish.c does not compile");
        program
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
