//! Clients by the thousand that rest, are slow, flood, take credit without end and guess: the broker stays within its memory,
//! and a client beside them is served.
//!
//! `CROWD=10000 cargo test --release -p millpond --test command_line a_crowd -- --nocapture` is the same with so many
//! connections that rest; it prints what the broker took, and how long the client beside them waited, in bouts that take
//! turns: without them, while they are at another broker of the same machine, which takes its processors just as much, and
//! while they are at the same one. `ONLY=pings,patterns` has those kinds alone whose descriptions have one of these words in them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millpond_client::{Client, Message, ReceiveOptions};
use millpond_protocol::{Request, Response, VERSION, encode_request, encode_response};
use millpond_types::{Filter, NamespaceName, TopicName};
use rustix::net::sockopt::set_socket_linger;

use crate::broker::{Broker, fresh_directory, serve};

mod kinds;

use kinds::{Kind, encoded};

const MIB: u64 = 1 << 20;
/// Connections that rest, in a run of all tests. Those that do something are a tenth of it each, or a few.
const CROWD: usize = 300;
/// How often each kind is at it, for how long, and as long the others rest.
const BOUTS: (usize, Duration) = (1, Duration::from_millis(400));
const LONG_BOUTS: (usize, Duration) = (5, Duration::from_secs(2));
/// Bytes that a client sends in one go, where it is in a hurry and where it is not.
const FAST: usize = MIB as usize;
const SLOW: usize = 100;
/// Bytes of a call into the system. Many kernels let nobody else run until it is over, as if the client were not elsewhere.
const SLICE: usize = 16 * 1024;
/// How often it is looked at most whether a broker is still at work for clients that are gone, in which time, and after how many
/// looks those who rest have to be heard of.
const LOOKS: u32 = 600;
const LOOKS_EVERY: Duration = Duration::from_millis(200);
const PINGS_EVERY: u32 = 25;
/// What the broker is given: enough for 10,000 connections, which is the larger part of it.
const MEMORY: u64 = 640 * MIB;

#[test]
fn a_crowd_of_hostile_clients_takes_no_more_than_there_is_and_starves_nobody() {
    let asked: Option<usize> = std::env::var("CROWD").ok().map(|text| text.parse().expect("CROWD is a number"));
    let (crowd, (bouts, bout)) = asked.map_or((CROWD, BOUTS), |crowd| (crowd, LONG_BOUTS));
    // At length, where the system has its temporary files, which is mostly on the disk.
    let directory = || if asked.is_some() { tempfile::tempdir().unwrap() } else { fresh_directory() };
    let directories = [directory(), directory()];
    let [broker, other] = directories.each_ref().map(|directory| prepared(directory.path()));

    let alone = waited(beside(&broker, bout, |_| {}));
    println!("alone: {alone}, {} MiB resident", broker.resident() / MIB);
    // They stay while the others come and go, and say no more than they have to for that.
    let rests = |_| Hostile::new(&broker, Vec::new(), Vec::new(), FAST);
    let mut resting: Vec<Hostile> = (0..crowd).map(rests).collect();
    let only = std::env::var("ONLY").unwrap_or_default();
    let is_asked_for = |kind: &Kind| only.split(',').any(|part| kind.does.contains(part));
    let kinds: Vec<Kind> = kinds::all(asked.is_some()).into_iter().filter(is_asked_for).collect();
    assert!(!kinds.is_empty(), "no kind has any of these in its description: {only}");
    for Kind { does: kind, connections, first, again, pace, fills } in kinds {
        let (mut at_rest, mut elsewhere, mut attacked) = (Vec::new(), Vec::new(), Vec::new());
        let (mut most, mut sent, mut open) = (0, 0, 0);
        // In turns, for what else goes on on the machine changes as well.
        for _ in 0..bouts {
            resting.iter_mut().for_each(Hostile::ping);
            at_rest.extend(beside(&broker, bout, |_| {}));
            for (target, waits) in [(&other, &mut elsewhere), (&broker, &mut attacked)] {
                let new = |n| Hostile::new(target, first.clone(), again(n), pace);
                let mut clients: Vec<Hostile> = (0..connections).map(new).collect();
                waits.extend(beside(&broker, bout, |until| {
                    // So many may take long over it, and who rests has to be pinged in time.
                    clients.iter_mut().take_while(|_| Instant::now() < until).for_each(Hostile::push);
                    most = most.max(target.resident());
                }));
                sent += clients.iter().map(|client| client.sent).sum::<u64>();
                open = clients.iter().filter(|client| client.open).count();
                drop(clients);
                come_to_rest(target, &mut resting);
            }
        }
        println!("{crowd} at rest: {}", waited(at_rest));
        println!("{connections} that {kind}, at another broker: {}", waited(elsewhere));
        println!(
            "{connections} that {kind}: {}, at most {} MiB resident, {sent} bytes sent, {open} still open",
            waited(attacked),
            most / MIB
        );
        assert!(sent > 0 && most > 0, "{connections} that {kind} did nothing");
        let bound = if fills { MEMORY } else { most_for(crowd, asked.is_some()) };
        assert!(most < bound, "{connections} that {kind} make the broker take {most} bytes");
    }
    let left: Vec<String> = resting.iter_mut().filter_map(|rests| rests.is_served().err()).collect();
    assert!(
        left.is_empty(),
        "of {crowd} who rest {} are not served any more, the first after: {}",
        left.len(),
        left[0]
    );
    drop(resting);
    // Nothing that they did has touched what is of others.
    assert_eq!(broker.json(&["look", "default/large", "--output", "json"]).len(), 4);
    assert_eq!(broker.counts("default")["dead"], 0);
    let flooded = broker.json(&["stats", "flood", "--json"])[0]["groups"]["default"]["waiting"].as_u64().unwrap();
    assert!(flooded <= 64, "{flooded} messages of a MiB in a namespace of 64 MiB");
}

/// What a broker takes at most with so many who rest and a tenth of them who do not, which is less than it was given; at length
/// those who flood are more, however few rest.
fn most_for(crowd: usize, at_length: bool) -> u64 {
    let most = 96 * MIB + crowd as u64 * 16 * 1024;
    if at_length { most.max(176 * MIB) } else { most }
}

/// A broker with what they go for.
fn prepared(directory: &Path) -> Broker {
    let broker = Broker::run(serve(directory).args(["--memory", &format!("{}MiB", MEMORY / MIB)]));
    broker.ok(&["namespace", "create", "flood", "--quota-bytes", "64MiB"]);
    broker.ok(&["namespace", "create", "drizzle"]);
    let large = "x".repeat(MIB as usize);
    (0..4).for_each(|_| drop(broker.call_with(&["publish", "default/large", "-"], large.as_bytes()).ok()));
    let lines: String = (0..10_000).map(|n| format!("{n}\n")).collect();
    broker.call_with(&["publish", "default/bait", "--lines"], lines.as_bytes()).ok();
    broker.ok(&["exchange", "create", "default", kinds::MAZE, "--kind", "topic", "--unroutable", "drop"]);
    broker.ok(&["exchange", "create", "drizzle", kinds::DELTA, "--kind", "fanout"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&*broker.address).await.unwrap();
        let maze = kinds::maze().map(|binding| ("default", kinds::MAZE, binding));
        let delta = kinds::delta().map(|binding| ("drizzle", kinds::DELTA, binding));
        for (namespace, exchange, binding) in maze.chain(delta) {
            let (namespace, exchange) = (namespace.try_into().unwrap(), exchange.try_into().unwrap());
            assert!(client.bind(namespace, exchange, binding).await.unwrap());
        }
    });
    broker
}

/// A client that means no good.
struct Hostile {
    stream: TcpStream,
    /// What it sends, and how far it has come in it; then again from the beginning of the second part.
    bytes: Vec<u8>,
    again: usize,
    at: usize,
    reads: bool,
    /// Bytes at a time at most.
    pace: usize,
    sent: u64,
    open: bool,
}

impl Hostile {
    fn new(broker: &Broker, first: Vec<u8>, again: Vec<u8>, pace: usize) -> Hostile {
        let stream = TcpStream::connect(&broker.address).expect("it is let in");
        let mut bytes = encoded(&[Request::Hello { version: VERSION, client: "hostile".into() }]);
        bytes.extend(first);
        let (start, reads) = (bytes.len(), !again.is_empty());
        bytes.extend(again);
        stream.set_nonblocking(true).unwrap();
        // Nothing that the system has of it is sent when it is gone: the next bout is of others.
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        let mut client = Hostile { stream, bytes, again: start, at: 0, reads, pace, sent: 0, open: true };
        client.push();
        client
    }

    /// Says that it is still there.
    fn ping(&mut self) {
        self.open &= self.stream.write_all(&encoded(&[Request::Ping])).is_ok();
    }

    /// Whether the broker still answers it; else what it said last.
    fn is_served(&mut self) -> Result<(), String> {
        let (mut ping, mut pong) = (Vec::new(), Vec::new());
        encode_request(&Request::Ping, 8, &mut ping);
        encode_response(&Response::Pong, 8, &mut pong);
        self.stream.set_nonblocking(false).unwrap();
        self.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (mut said, mut part) = (Vec::new(), [0; 4096]);
        let last = |said: &[u8]| String::from_utf8_lossy(&said[said.len().saturating_sub(200)..]).into_owned();
        self.stream.write_all(&ping).map_err(|error| error.to_string())?;
        while !said.ends_with(&pong) {
            match self.stream.read(&mut part) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("{error} after {:?}", last(&said))),
                Ok(0) => return Err(last(&said)),
                Ok(read) => said.extend_from_slice(&part[..read]),
            }
        }
        Ok(())
    }

    /// Sends what the system takes, in one go of at most a frame, and throws away what has come.
    fn push(&mut self) {
        let mut rest = self.pace;
        while self.open && rest > 0 && self.at < self.bytes.len() {
            let to = self.bytes.len().min(self.at + rest.min(SLICE));
            match self.stream.write(&self.bytes[self.at..to]) {
                Ok(sent) => {
                    (self.at, self.sent, rest) = (self.at + sent, self.sent + sent as u64, rest - sent);
                    if self.at == self.bytes.len() && self.again < self.at {
                        self.at = self.again;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // It was closed, which is as good.
                Err(_) => self.open = false,
            }
        }
        let mut answer = [0; 64 * 1024];
        while self.reads && self.open {
            match self.stream.read(&mut answer) {
                Ok(0) => self.open = false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.open = false,
            }
        }
    }
}

/// What a client beside the others waited for a message from its publish to its confirmed ack.
///
/// The others would be on other machines: so they take of this one's processors what the broker and the client leave, and
/// are as fast as that lets them be.
fn beside(broker: &Broker, bout: Duration, mut hostile: impl FnMut(Instant) + Send) -> Vec<Duration> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| quiet(&broker.address, &over));
        let others = scope.spawn(|| {
            stand_back();
            let until = Instant::now() + bout;
            while Instant::now() < until {
                hostile(until);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let others = others.join();
        over.store(true, Ordering::Release);
        others.unwrap();
        client.join().expect("a client beside the others is served")
    })
}

/// Waits until a broker has done what clients left that are gone: it would be in front of those of the next bout, and take
/// processors from those at another broker.
fn come_to_rest(broker: &Broker, resting: &mut [Hostile]) {
    let mut quiet = 0;
    for nth in 1..=LOOKS {
        let before = broker.processor();
        std::thread::sleep(LOOKS_EVERY);
        quiet = if broker.processor() - before <= 1 { quiet + 1 } else { 0 };
        // It may have waited for the disk alone the first time.
        if quiet == 2 {
            return;
        }
        // That is work as well.
        if nth % PINGS_EVERY == 0 {
            resting.iter_mut().for_each(Hostile::ping);
        }
    }
    panic!("a broker is still at work for clients that are gone");
}

fn waited(mut waited: Vec<Duration>) -> String {
    waited.sort_unstable();
    let at = |part: usize| waited[(waited.len() - 1) * part / 100];
    format!("{} rounds, p50 {:.1?}, p99 {:.1?}", waited.len(), at(50), at(99))
}

/// Lets this thread run when others do not, as far as the system can tell threads apart.
fn stand_back() {
    #[cfg(target_os = "linux")]
    {
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        let told = std::process::Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
        if !told.is_ok_and(|status| status.success()) {
            println!("hostile clients take processors from the others: chrt does not let them stand back");
        }
    }
}

fn quiet(address: &str, over: &AtomicBool) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(address).await.unwrap();
        let (namespace, topic) = (NamespaceName::default(), TopicName::try_from("quiet").unwrap());
        let filter = Filter::Topics(vec![topic.clone()]);
        let mut waited = Vec::new();
        loop {
            let begun = Instant::now();
            client.publish(&namespace, Message::new(topic.clone(), "quiet")).await.unwrap();
            let options = ReceiveOptions {
                filter: filter.clone(),
                wait: Duration::from_secs(30),
                ..ReceiveOptions::new(namespace.clone())
            };
            let received = client.receive(options).await.unwrap();
            assert_eq!(received.len(), 1);
            assert_eq!(client.ack(received.receipts()).await.unwrap().done(), 1);
            waited.push(begun.elapsed());
            if over.load(Ordering::Acquire) {
                return waited;
            }
        }
    })
}
