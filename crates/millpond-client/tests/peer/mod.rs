//! A broker's side of the wire that does exactly what a test tells it, over real TCP and with the real codec. It stands in
//! where a test needs a broker to misbehave: to lose an answer, to grant no credit, to forget a session.

// Each test file is a program of its own and uses its share of this.
#![allow(dead_code)]

use bytes::BytesMut;
use millpond_client::{
    Client, ClientOptions, Code, FinishOutcome, LeaseNumber, LeasedRun, MessageId, Millis, NamespaceName, OutcomeRun,
    Priority, PublishOutcome, Receipt, Reconnect, Sequence, SubscribeOptions, Subscription, TopicNumber, WallTime,
};
use millpond_protocol::{Block, Decoder, Finish, Incoming, Limits, Request, Response, VERSION, encode_response};
use millpond_types::{SessionId, block};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct Peer {
    listener: TcpListener,
}

pub struct Connection {
    stream: TcpStream,
    decoder: Decoder,
    buffer: BytesMut,
}

impl Peer {
    pub async fn new() -> Peer {
        Peer { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    /// Options that reconnect at once.
    pub fn options(&self) -> ClientOptions {
        let pause = Duration::from_millis(1);
        ClientOptions {
            reconnect: Some(Reconnect { first: pause, longest: pause }),
            request_timeout: Duration::from_secs(20),
            ..ClientOptions::new(self.address())
        }
    }

    /// A client and the connection that it made.
    pub async fn client(&self) -> (Client, Connection) {
        self.client_with(self.options()).await
    }

    pub async fn client_with(&self, options: ClientOptions) -> (Client, Connection) {
        let (client, connection) = tokio::join!(Client::connect(options), self.accept());
        (client.unwrap(), connection)
    }

    /// The next connection, welcomed.
    pub async fn accept(&self) -> Connection {
        self.accept_idle(Millis::seconds(3600)).await
    }

    /// The same with a time after which the client counts as gone.
    pub async fn accept_idle(&self, idle: Millis) -> Connection {
        let mut connection = self.accept_raw().await;
        let hello = connection.next().await;
        assert!(matches!(hello.frame, Request::Hello { version: VERSION, .. }), "{hello:?}");
        let welcome = Response::Welcome { version: VERSION, frame_max: 5 << 20, body_max: 1 << 20, idle };
        connection.reply(hello.correlation, welcome).await;
        connection
    }

    /// The next connection, nothing read or written.
    pub async fn accept_raw(&self) -> Connection {
        let (stream, _) = self.listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, decoder: Decoder::new(Limits::default()), buffer: BytesMut::new() }
    }
}

impl Connection {
    /// The next frame of the client.
    pub async fn next(&mut self) -> Incoming<Request<Block>> {
        self.next_or_end().await.expect("the client closed its connection")
    }

    /// The next frame of the client, `None` at the end of the connection.
    pub async fn next_or_end(&mut self) -> Option<Incoming<Request<Block>>> {
        loop {
            if let Some(incoming) = self.decoder.next_request(&mut self.buffer).expect("clients send valid frames") {
                return Some(incoming);
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub async fn reply(&mut self, correlation: u32, response: Response) {
        let mut out = Vec::new();
        encode_response(&response, correlation, &mut out);
        self.write(&out).await;
    }

    /// A frame that answers nothing.
    pub async fn tell(&mut self, response: Response) {
        self.reply(0, response).await;
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Answers the begin of a session and the attach of its one consumer, checking nothing; the attach.
    pub async fn begin_session(&mut self, session: SessionId, resumed: bool) -> millpond_protocol::Attach {
        let begin = self.next().await;
        assert!(matches!(begin.frame, Request::SessionBegin { .. }), "{begin:?}");
        self.begun(begin.correlation, session, resumed).await;
        self.attach().await
    }

    pub async fn begun(&mut self, correlation: u32, session: SessionId, resumed: bool) {
        let heartbeat = Millis::seconds(3600);
        self.reply(correlation, Response::SessionBegun { session, resumed, heartbeat }).await;
    }

    pub async fn attach(&mut self) -> millpond_protocol::Attach {
        let incoming = self.next().await;
        let Request::Attach(attach) = incoming.frame else { panic!("{incoming:?}") };
        self.reply(incoming.correlation, Response::Done).await;
        attach
    }
}

pub fn namespace() -> NamespaceName {
    NamespaceName::default()
}

pub fn receipt(lease: u64) -> Receipt {
    Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(lease) }
}

/// Messages of one topic, leased together; the bodies are as given, the lease numbers follow one by one.
pub fn leased(lease: u64, bodies: &[&str]) -> LeasedRun {
    let mut block = Vec::new();
    bodies.iter().for_each(|body| block::push(&mut block, b"", &[], body.as_bytes()).unwrap());
    LeasedRun {
        topic: "topic".try_into().unwrap(),
        receipt: receipt(lease),
        priority: Priority::DEFAULT,
        first: Sequence(lease),
        count: bodies.len() as u32,
        published: WallTime(1),
        deliveries: 1,
        failures: 0,
        run: None,
        block: block.into(),
    }
}

/// The bodies of a publish, in order.
pub fn bodies(publish: &millpond_protocol::Publish<Block>) -> Vec<String> {
    let messages = publish.runs.iter().flat_map(|run| block::messages(&run.block.bytes));
    messages.map(|message| String::from_utf8(message.unwrap().body.to_vec()).unwrap()).collect()
}

pub const SESSION: SessionId = SessionId(7);

pub fn window(messages: u32) -> SubscribeOptions {
    SubscribeOptions { messages, ..SubscribeOptions::new(namespace()) }
}

pub async fn subscribed(peer: &Peer, options: SubscribeOptions) -> (Client, Connection, Subscription) {
    let (client, mut connection) = peer.client().await;
    let (subscription, _) = tokio::join!(client.subscribe(options), connection.begin_session(SESSION, false));
    (client, connection, subscription.unwrap())
}

/// The same, and the broker wants to hear of the client very often.
pub async fn subscribed_with_heartbeats(peer: &Peer, options: SubscribeOptions) -> (Client, Connection, Subscription) {
    let (client, mut connection) = peer.client().await;
    let (subscription, ()) = tokio::join!(client.subscribe(options), async {
        let begin = connection.next().await;
        let begun = Response::SessionBegun { session: SESSION, resumed: false, heartbeat: Millis(60) };
        connection.reply(begin.correlation, begun).await;
        connection.attach().await;
    });
    (client, connection, subscription.unwrap())
}

pub async fn next_finish(connection: &mut Connection) -> (u32, Finish) {
    let incoming = connection.next().await;
    let Request::Finish(finish) = incoming.frame else { panic!("{incoming:?}") };
    (incoming.correlation, finish)
}

pub async fn done(connection: &mut Connection, correlation: u32, count: u32) {
    let outcomes = vec![OutcomeRun { count, outcome: FinishOutcome::Done }];
    connection.reply(correlation, Response::Finished(outcomes)).await;
}

/// The answer to a forward of one message to one topic.
pub fn forwarded(finished: FinishOutcome) -> Response {
    let id = MessageId { topic: TopicNumber(2), priority: Priority::DEFAULT, sequence: Sequence(1) };
    let published = match finished {
        FinishOutcome::Done => PublishOutcome::Queued { id },
        _ => PublishOutcome::Refused { code: Code::TopicFull, detail: "full".to_owned() },
    };
    let finished = vec![OutcomeRun { count: 1, outcome: finished }];
    Response::Forwarded { finished, published: vec![OutcomeRun { count: 1, outcome: published }] }
}
