//! A client of a few lines for the tests: frames over a real connection, one thread, no cleverness.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use millpond_protocol::*;
use millpond_server::{Config, Server};
use millpond_types::{
    Filter, FinishOutcome, GroupName, Millis, NamespaceName, OutcomeRun, Priority, PublishOutcome, Receipt, SessionId,
    TopicName, block,
};

/// Far longer than anything takes: only a broken broker is waited for so long.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Client {
    pub stream: TcpStream,
    decoder: Decoder,
    input: BytesMut,
    last: u32,
}

/// A server on free ports and a directory of its own.
pub fn start(directory: &std::path::Path) -> Server {
    start_with(directory, |_| {})
}

pub fn start_with(directory: &std::path::Path, change: impl FnOnce(&mut Config)) -> Server {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut config = Config { data: directory.to_owned(), listen: any, http: Some(any), ..Config::default() };
    change(&mut config);
    Server::start(config.validate().unwrap()).unwrap()
}

impl Client {
    /// A connection that has said hello and was welcomed.
    pub fn connect(address: SocketAddr) -> Client {
        let mut client = Client::silent(address);
        client.hello();
        client
    }

    /// A connection that has said nothing.
    pub fn silent(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, decoder: Decoder::default(), input: BytesMut::new(), last: 0 }
    }

    pub fn hello(&mut self) {
        let hello = Request::Hello { version: VERSION, client: "test".into() };
        assert!(matches!(self.ask(hello), Response::Welcome { version: VERSION, .. }));
    }

    /// Sends a request and returns its correlation number.
    pub fn send(&mut self, request: Request) -> u32 {
        self.last += 1;
        let mut bytes = Vec::new();
        encode_request(&request, self.last, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
        self.last
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next frame; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<(u32, Response)> {
        loop {
            if let Some(incoming) = self.decoder.next_response(&mut self.input).unwrap() {
                return Some((incoming.correlation, incoming.frame));
            }
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no frame came: {error}"),
            }
        }
    }

    /// The answer of a request; unsolicited frames before it are dropped.
    pub fn answer(&mut self, correlation: u32) -> Response {
        loop {
            let (found, response) = self.next().expect("the connection was closed before the answer came");
            if found == correlation {
                return response;
            }
            assert_eq!(found, 0, "an answer to another request: {response:?}");
        }
    }

    pub fn ask(&mut self, request: Request) -> Response {
        let correlation = self.send(request);
        self.answer(correlation)
    }

    /// The next delivery.
    pub fn delivery(&mut self) -> Vec<LeasedRun> {
        loop {
            match self.next().expect("the connection was closed before a delivery came").1 {
                Response::Delivery { leases, .. } => return leases,
                Response::Error { code, detail } => panic!("{code:?}: {detail}"),
                _ => {}
            }
        }
    }

    /// Reads to the end; what the broker said last.
    pub fn closing(&mut self) -> Option<Response> {
        let mut last = None;
        while let Some((_, response)) = self.next() {
            last = Some(response);
        }
        last
    }

    pub fn publish(&mut self, topic: &str, bodies: &[&str]) -> Vec<OutcomeRun<PublishOutcome>> {
        match self.ask(publish(topic, bodies, Level::Durable)) {
            Response::Published(outcomes) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    pub fn receive(&mut self, messages: u32, wait: Millis) -> Vec<LeasedRun> {
        match self.ask(Request::Receive(receive(messages, wait))) {
            Response::Received(leases) => leases,
            other => panic!("{other:?}"),
        }
    }

    pub fn ack(&mut self, receipt: Receipt, count: u32) -> Vec<OutcomeRun<FinishOutcome>> {
        let finish = Finish { verb: FinishVerb::Ack, confirm: true, namespace: None, receipts: vec![(receipt, count)] };
        match self.ask(Request::Finish(finish)) {
            Response::Finished(outcomes) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    pub fn begin_session(&mut self, session: SessionId, held: Vec<(Receipt, u32)>) -> (SessionId, bool) {
        match self.ask(Request::SessionBegin { session, resume: Millis::ZERO, held }) {
            Response::SessionBegun { session, resumed, .. } => (session, resumed),
            other => panic!("{other:?}"),
        }
    }

    pub fn attach(&mut self, consumer: u32, messages: u32) {
        let attach = Attach {
            consumer,
            namespace: NamespaceName::default(),
            group: GroupName::default(),
            filter: Filter::All,
            messages,
            bytes: 1 << 40,
            lease: None,
            at_most_once: false,
        };
        assert_eq!(self.ask(Request::Attach(attach)), Response::Done);
    }

    pub fn stats(&mut self) -> millpond_types::Counts {
        match self.ask(Request::Stats { namespace: NamespaceName::default() }) {
            Response::Namespaces { rows, .. } => rows[0].groups[0].counts,
            other => panic!("{other:?}"),
        }
    }

    pub fn close(self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
    }
}

pub fn topic(name: &str) -> TopicName {
    TopicName::try_from(name).unwrap()
}

pub fn block_of(bodies: &[&str]) -> Bytes {
    let mut bytes = Vec::new();
    for body in bodies {
        block::push(&mut bytes, b"", &[], body.as_bytes()).unwrap();
    }
    bytes.into()
}

pub fn publish(name: &str, bodies: &[&str], level: Level) -> Request {
    publish_block(name, block_of(bodies), level)
}

pub fn publish_block(name: &str, block: Bytes, level: Level) -> Request {
    let run = PublishRun { topic: topic(name), priority: Priority::DEFAULT, delay: Millis::ZERO, ttl: None, block };
    Request::Publish(Publish { namespace: NamespaceName::default(), level, producer: None, runs: vec![run] })
}

pub fn receive(messages: u32, wait: Millis) -> Receive {
    Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages,
        bytes: 1 << 30,
        lease: None,
        wait,
        at_most_once: false,
        request: None,
    }
}

/// All bodies of some leases, in order.
pub fn bodies(leases: &[LeasedRun]) -> Vec<String> {
    let bodies = leases.iter().flat_map(|run| block::messages(&run.block));
    bodies.map(|message| String::from_utf8(message.unwrap().body.to_vec()).unwrap()).collect()
}

pub fn count(leases: &[LeasedRun]) -> u32 {
    leases.iter().map(|run| run.count).sum()
}
