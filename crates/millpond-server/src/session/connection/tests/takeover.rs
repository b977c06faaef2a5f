//! A session goes on elsewhere, while commands of its old connection have not come to the writer.

use millpond_protocol::Attach;
use millpond_types::{Filter, Millis, NamespaceName, SessionId, TopicName};

use super::*;
use crate::broker::{Message, Receive};

const RESUME: Millis = Millis(500);

/// A broker that has one message.
struct Rig {
    broker: Broker,
    _directory: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
        let message = Message::new(TopicName::try_from("t").unwrap(), "m");
        broker.publish(NamespaceName::default(), vec![message]).wait().unwrap();
        Rig { broker, _directory: directory }
    }

    fn connect(&self) -> Connection {
        let mut connection = connect(&self.broker, Instant::now());
        hear(&mut connection, Asked::Hello { version: VERSION, client: String::new() });
        connection
    }

    /// Whether the message is leased to nobody.
    fn is_free(&self, wait: Millis) -> bool {
        let receive = Receive::all(NamespaceName::default(), 1).wait(wait);
        !self.broker.receive(receive).wait().unwrap().is_empty()
    }

    fn end(self, connections: [Connection; 2]) {
        drop(connections);
        self.broker.shutdown().unwrap();
    }
}

/// A frame comes, and its command is not with the writer yet.
fn hear(connection: &mut Connection, request: Asked) {
    let mut bytes = Vec::new();
    encode_request(&request, 5, &mut bytes);
    connection.hear((&mut BytesMut::from(&bytes[..]), bytes.len()), 1, Instant::now()).unwrap();
}

fn ask(connection: &mut Connection, request: Asked) {
    hear(connection, request);
    connection.submit(ALL).unwrap();
}

fn begin() -> Asked {
    Asked::SessionBegin { session: SessionId(7), resume: RESUME, held: Vec::new() }
}

fn attach() -> Asked {
    Asked::Attach(Attach {
        consumer: 1,
        namespace: NamespaceName::default(),
        group: Default::default(),
        filter: Filter::All,
        messages: 1,
        bytes: 1000,
        lease: None,
        at_most_once: false,
    })
}

#[test]
fn a_consumer_is_not_attached_behind_the_takeover_of_its_session() {
    let rig = Rig::new();
    let [mut old, mut new] = [rig.connect(), rig.connect()];
    ask(&mut old, begin());
    ask(&mut new, begin());
    hear(&mut old, attach());
    assert_eq!(old.submit(ALL).err().map(|close| close.code), Some(Code::SessionUnknown));
    assert!(rig.is_free(Millis::ZERO), "nobody has asked for it on the connection that has the session");
    rig.end([old, new]);
}

#[test]
fn a_session_does_not_begin_on_a_connection_that_another_has_taken_it_from() {
    let rig = Rig::new();
    let [mut old, mut new] = [rig.connect(), rig.connect()];
    hear(&mut old, begin());
    ask(&mut new, begin());
    ask(&mut new, attach());
    assert!(old.submit(ALL).is_err());
    assert!(!rig.is_free(Millis::ZERO), "the consumer stays attached");
    rig.end([old, new]);
}

#[test]
fn a_session_is_not_ended_behind_its_takeover() {
    let rig = Rig::new();
    let [mut old, mut new] = [rig.connect(), rig.connect()];
    ask(&mut old, begin());
    hear(&mut old, Asked::SessionEnd);
    ask(&mut new, begin());
    ask(&mut new, attach());
    assert!(old.submit(ALL).is_err());
    assert!(!rig.is_free(Millis::ZERO), "the session goes on where it was resumed");
    rig.end([old, new]);
}

/// Its leases would never come back.
#[test]
fn a_session_is_lost_whose_end_the_writer_was_not_told() {
    let rig = Rig::new();
    let mut connection = rig.connect();
    ask(&mut connection, begin());
    ask(&mut connection, attach());
    hear(&mut connection, Asked::SessionEnd);
    drop(connection);
    assert!(rig.is_free(Millis::minutes(1)), "nobody has it any more");
    rig.broker.shutdown().unwrap();
}
