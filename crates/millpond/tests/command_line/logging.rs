//! The log: whoever reads it slowly, or not at all, holds up nobody, and no client fills it.

use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use millpond_protocol::{Request, VERSION, encode_request};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::broker::{Broker, fresh_directory, millpond};

/// A broker, and the end of its log that somebody may read.
fn logging(level: &str) -> (Broker, PipeReader) {
    logging_in(fresh_directory(), level)
}

fn logging_in(directory: TempDir, level: &str) -> (Broker, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    let mut command = millpond();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", level, "--data"]);
    command.arg(directory.path()).stderr(writer);
    (Broker::run_on(&mut command, directory), reader)
}

/// Connects, says something, and waits to be answered.
fn say(broker: &Broker, bytes: &[u8]) {
    let mut stream = TcpStream::connect(&broker.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    stream.read_exact(&mut [0; 8]).expect("it is answered, whatever happens to the log");
}

/// With debug on, each of these writes a long line.
fn long_hello() -> Vec<u8> {
    let mut hello = Vec::new();
    encode_request(&Request::Hello { version: VERSION, client: "x".repeat(4000) }, 1, &mut hello);
    hello
}

/// Nothing vouches for the last batch, whichever that is when the broker is killed.
#[test]
fn a_start_warns_of_a_torn_batch_that_it_gave_up() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    let directory = broker.kill();
    let name = "0000000000000000.journal";
    let mut journal = fs::read(directory.path().join(name)).unwrap();
    *journal.iter_mut().rfind(|byte| **byte != 0).unwrap() ^= 1;
    fs::write(directory.path().join(name), journal).unwrap();
    let told = millpond().arg("inspect").arg(directory.path()).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.lines().any(|line| line.starts_with("torn tail") && line.contains(name)), "{told}");
    let (_broker, reader) = logging_in(directory, "warn");
    let line = BufReader::new(reader).lines().next().unwrap().unwrap();
    assert!(line.contains("WARN") && line.contains("which was given up: after a crash or a power cut"), "{line}");
    assert!(line.contains(name), "{line}");
}

fn dropped(broker: &Broker) -> u64 {
    let metrics = broker.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix("millpond_log_lines_dropped_total "));
    line.expect("it is a figure").parse().unwrap()
}

#[test]
fn a_log_that_nobody_reads_stops_nobody_and_tells_later_what_was_dropped() {
    let (broker, reader) = logging("debug");
    (0..400).for_each(|_| say(&broker, &long_hello()));
    broker.ok(&["publish", "default/a", "x"]);
    assert!(dropped(&broker) > 0);
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    // As many as were there before, and then there is room.
    assert_eq!(lines.by_ref().filter(|line| line.contains("connected")).take(100).count(), 100);
    say(&broker, &long_hello());
    broker.signal(Signal::TERM);
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("lines of the log were dropped")), "{} lines", rest.len());
    assert!(rest.last().unwrap().contains("stopped in good order"), "{:?}", rest.last());
    assert_eq!(broker.stop().0, Some(0));
}

#[test]
fn a_broker_stops_while_nobody_reads_its_log() {
    let (broker, _reader) = logging("debug");
    (0..400).for_each(|_| say(&broker, &long_hello()));
    let begin = Instant::now();
    assert_eq!(broker.stop().0, Some(0));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn clients_that_do_the_same_wrong_thing_over_and_over_do_not_fill_the_log() {
    let (broker, reader) = logging("info");
    let bad = b"GET / HTTP/1.1\r\n\r\n";
    let begin = Instant::now();
    (0..200).for_each(|_| say(&broker, bad));
    let seconds = begin.elapsed().as_secs() as usize + 1;
    std::thread::sleep(Duration::from_secs(1));
    say(&broker, bad);
    assert_eq!(broker.stop().0, Some(0));
    let lines = BufReader::new(reader).lines().map(Result::unwrap);
    let closed: Vec<String> = lines.filter(|line| line.contains("closing a connection")).collect();
    assert!((5..=5 * (seconds + 2)).contains(&closed.len()), "{} lines in {seconds} s", closed.len());
    let left_out = |line: &String| {
        line.split_once("left_out=").map_or(0, |(_, rest)| rest.split(' ').next().unwrap().parse().unwrap())
    };
    assert_eq!(closed.iter().map(left_out).sum::<usize>() + closed.len(), 201, "the rest is counted");
}
