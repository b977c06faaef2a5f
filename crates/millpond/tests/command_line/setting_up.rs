//! Clients that set up as much as all limits let them: bindings, pauses, and receives that wait for long. The broker refuses
//! what it has no memory for, stays within what it was given, and goes on with everything else.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use millpond_protocol::{Decoder, Limits, Receive, Request, Response, VERSION, encode_request};
use millpond_types::{
    Binding, Code, Condition, ExchangeKind, ExchangeName, Filter, GroupName, Millis, NamespaceName, PausedTopics,
    TopicName, Unroutable,
};

use crate::broker::{Broker, fresh_directory, serve};

const MIB: u64 = 1 << 20;
/// The least that a broker may be given.
const MEMORY: u64 = 64 * MIB;
/// As many as a namespace and an exchange may have, each with a target of so many bytes.
const EXCHANGES: usize = 100;
const BINDINGS: usize = 1_000;
const TARGET: usize = 504;
/// Requests that are on their way at a time: not more than a connection may have open of this kind.
const TOGETHER: usize = 200;
/// Receives of each of so many connections: as many as one may have open.
const RECEIVES: usize = 65_000;
const CONNECTIONS: usize = 3;

#[test]
fn what_clients_set_up_stays_within_its_share_and_leaves_the_rest_alone() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let mut client = Raw::connect(&broker);

    let exchange = |at: usize| ExchangeName::try_from(format!("e{at}").as_str()).unwrap();
    let namespace = NamespaceName::default();
    client.ask_all((0..EXCHANGES).map(|at| Request::ExchangeCreate {
        namespace: namespace.clone(),
        exchange: exchange(at),
        kind: ExchangeKind::Fanout,
        unroutable: Unroutable::Drop,
    }));
    let binding = |at: usize| Request::Bind {
        namespace: namespace.clone(),
        exchange: exchange(at / BINDINGS),
        binding: Binding { condition: Condition::Always, target: long_name(at) },
    };
    let bound = client.ask_all((0..EXCHANGES * BINDINGS).map(binding));
    println!("bindings: {bound:?}, {} MiB resident", broker.resident() / MIB);
    assert!(bound.taken > 500 && bound.refused > 90_000, "{bound:?}");

    let pauses = client.ask_all((0..2_000).map(|at| {
        let name = long_name(at);
        let topics = if at % 2 == 0 { PausedTopics::prefix(&name) } else { PausedTopics::from(&name) };
        Request::Pause { namespace: namespace.clone(), topics, lasts: None }
    }));
    println!("pauses: {pauses:?}, {} MiB resident", broker.resident() / MIB);
    assert!(pauses.refused > 1_900, "{pauses:?}");

    let mut receiving: Vec<Raw> = (0..CONNECTIONS).map(|_| Raw::connect(&broker)).collect();
    let mut refused = 0;
    for (connection, raw) in receiving.iter_mut().enumerate() {
        let receive = |at: usize| {
            // Every tenth lists a name, and none of these is another's.
            let filter = match at % 10 {
                0 => Filter::Topics(vec![long_name(connection * RECEIVES + at)]),
                _ => Filter::All,
            };
            Request::Receive(Receive { filter, ..waiting() })
        };
        refused += raw.leave_waiting((0..RECEIVES).map(receive));
    }
    let open = CONNECTIONS * RECEIVES - refused;
    println!("receives: {open} wait, {refused} refused, {} MiB resident", broker.resident() / MIB);
    assert!((500..20_000).contains(&open), "{open} receives wait in 64 MiB");
    let most = broker.status("VmHWM:") * 1024;
    println!("{} MiB at most", most / MIB);
    assert!(most < MEMORY, "{most} bytes");

    // All else goes on, and those that wait are served.
    let published = broker.ok(&["publish", "default/a-topic", "x"]);
    assert!(published.contains("queued"), "{published}");
    assert!(receiving.iter_mut().any(Raw::is_served), "one of those that wait has it");
    assert!(
        receiving[0].leave_waiting((0..TOGETHER).map(|_| Request::Receive(waiting()))) > 0,
        "and its place is taken"
    );
    broker.ok(&["stats"]);
    let long = format!("default/{}", long_name(0).as_str());
    broker.call(&["pause", &long]).failed(1, &["overloaded", "take back what nobody needs", "--memory"]);
    // Whatever these set up, others have room.
    broker.ok(&["receive", "default/none"]);
    broker.ok(&["receive", "default/others*"]);
    assert!(broker.metrics().contains("millpond_setup_bytes"));
    // What is taken back makes room, and so do those that go.
    broker.ok(&["exchange", "delete", "default", "e0"]);
    broker.ok(&["pause", &long]);
    drop(receiving);
    let is_back = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        // More than those three would leave.
        Raw::connect(&broker).leave_waiting((0..500).map(|_| Request::Receive(waiting()))) == 0
    });
    assert!(is_back, "the room of receives whose clients are gone does not come back");
}

fn long_name(at: usize) -> TopicName {
    TopicName::try_from(format!("{at:0>TARGET$}").as_str()).unwrap()
}

fn waiting() -> Receive {
    Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages: 1,
        bytes: 1_000,
        lease: None,
        wait: Millis::minutes(10),
        at_most_once: false,
        request: None,
    }
}

/// How many were taken, and refused.
#[derive(Default, Debug)]
struct Taken {
    taken: usize,
    refused: usize,
}

impl Taken {
    fn count(&mut self, response: &Response) {
        match response {
            Response::Error { code: Code::Overloaded, detail } => {
                assert!(detail.contains("--memory"), "it says what to do: {detail}");
                self.refused += 1;
            }
            Response::Error { code, detail } => panic!("{code:?}: {detail}"),
            _ => self.taken += 1,
        }
    }
}

struct Raw {
    stream: TcpStream,
    decoder: Decoder,
    input: BytesMut,
}

/// Correlation numbers: of what is asked, and of what is answered when all before it was looked at.
const ASKED: u32 = 1;
const LAST: u32 = 2;

impl Raw {
    fn connect(broker: &Broker) -> Raw {
        let stream = TcpStream::connect(&broker.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut raw = Raw { stream, decoder: Decoder::new(Limits::default()), input: BytesMut::new() };
        raw.send(&Request::Hello { version: VERSION, client: "raw".into() }, ASKED);
        raw.next();
        raw
    }

    fn send(&mut self, request: &Request, correlation: u32) {
        let mut bytes = Vec::new();
        encode_request(request, correlation, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn next(&mut self) -> (u32, Response) {
        loop {
            if let Some(incoming) = self.decoder.next_response(&mut self.input).unwrap() {
                return (incoming.correlation, incoming.frame);
            }
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the connection was closed"),
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                // As when the machine is suspended meanwhile.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer comes: {error}"),
            }
        }
    }
    /// Asks all of it, and waits for the answers.
    fn ask_all(&mut self, requests: impl Iterator<Item = Request>) -> Taken {
        let (mut requests, mut taken) = (requests.peekable(), Taken::default());
        while requests.peek().is_some() {
            let part: Vec<Request> = requests.by_ref().take(TOGETHER).collect();
            part.iter().for_each(|request| self.send(request, ASKED));
            part.iter().for_each(|_| taken.count(&self.next().1));
        }
        taken
    }

    /// Sends receives that wait where they are taken; how many were refused.
    fn leave_waiting(&mut self, requests: impl Iterator<Item = Request>) -> usize {
        let (mut requests, mut taken) = (requests.peekable(), Taken::default());
        while requests.peek().is_some() {
            requests.by_ref().take(TOGETHER).for_each(|request| self.send(&request, ASKED));
            self.send(&Request::Stats { namespace: NamespaceName::default() }, LAST);
            while let (ASKED, response) = self.next() {
                taken.count(&response);
            }
        }
        assert_eq!(taken.taken, 0, "nobody is given anything");
        taken.refused
    }

    /// Whether a receive of it is answered with a message soon.
    fn is_served(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        let is_readable = (0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.stream.peek(&mut buffer).is_ok_and(|read| read > 0)
        });
        self.stream.set_nonblocking(false).unwrap();
        is_readable && matches!(self.next().1, Response::Received(leases) if !leases.is_empty())
    }
}
