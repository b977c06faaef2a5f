//! A connection on which nothing comes, over time that the test hands in.

use std::time::Duration;

use millpond_types::{Millis, SessionId};

use super::*;

const MOMENT: Duration = Duration::from_millis(1);

struct Rig {
    broker: Broker,
    connection: Connection,
    begin: Instant,
    _directory: tempfile::TempDir,
}

impl Rig {
    /// A client that connects.
    fn new() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
        let begin = Instant::now();
        let connection = connect(&broker, begin);
        Rig { broker, connection, begin, _directory: directory }
    }

    /// A frame comes so long after the client has connected.
    fn hears(&mut self, after: Duration, request: Asked) {
        let mut bytes = Vec::new();
        encode_request(&request, 5, &mut bytes);
        self.connection.hear((&mut BytesMut::from(&bytes[..]), bytes.len()), 1, self.begin + after).unwrap();
    }

    /// It is looked at so long after: why it is closed, if it is.
    fn looks(&mut self, after: Duration, is_reading: bool) -> Option<Code> {
        let closed = self.connection.check_deadlines(is_reading, self.begin + after);
        closed.err().map(|close| close.code)
    }

    /// It is closed after so long, for this reason, and not before; and it says so.
    fn lasts(&mut self, limit: Duration, code: Code) {
        assert_eq!(self.connection.deadline(true), self.begin + limit, "it is looked at in time");
        assert_eq!(self.looks(limit - MOMENT, true), None);
        assert_eq!(self.looks(limit, true), Some(code));
    }

    fn end(self) {
        drop(self.connection);
        self.broker.shutdown().unwrap();
    }
}

fn hello() -> Asked {
    Asked::Hello { version: VERSION, client: String::new() }
}

#[test]
fn a_connection_that_says_nothing_is_closed_after_a_minute() {
    let minute = Duration::from_secs(60);
    let mut rig = Rig::new();
    rig.lasts(minute, Code::UnexpectedFrame);
    let second = Duration::from_secs(1);
    rig.hears(second, hello());
    rig.lasts(second + minute, Code::UnexpectedFrame);
    rig.hears(40 * second, Asked::Ping);
    rig.lasts(40 * second + minute, Code::UnexpectedFrame);
    rig.end();
}

#[test]
fn a_session_without_a_heartbeat_ends_with_its_connection_after_its_time() {
    let second = Duration::from_secs(1);
    let mut rig = Rig::new();
    rig.hears(second, hello());
    rig.hears(2 * second, Asked::SessionBegin { session: SessionId(7), resume: Millis::seconds(9), held: Vec::new() });
    rig.lasts(11 * second, Code::SessionUnknown);
    // Whatever else comes is no heartbeat.
    rig.hears(10 * second, Asked::Ping);
    rig.lasts(11 * second, Code::SessionUnknown);
    rig.hears(10 * second, Asked::Heartbeat { except: Vec::new() });
    rig.lasts(19 * second, Code::SessionUnknown);
    rig.end();
}

#[test]
fn what_the_broker_does_not_read_is_no_silence() {
    let second = Duration::from_secs(1);
    let mut rig = Rig::new();
    rig.hears(second, hello());
    rig.hears(second, Asked::SessionBegin { session: SessionId(7), resume: Millis::seconds(9), held: Vec::new() });
    assert_eq!(rig.looks(100 * second, false), None);
    rig.connection.note_reading(false, rig.begin + 100 * second);
    rig.connection.note_reading(true, rig.begin + 200 * second);
    rig.lasts(209 * second, Code::SessionUnknown);
    rig.end();
}

/// Life 1400788 of the simulation: the last frame of a client was the last that its connection took in at a time.
#[test]
fn a_client_that_has_gone_is_noticed_however_many_frames_it_left() {
    let mut rig = Rig::new();
    rig.hears(MOMENT, hello());
    let is_read = rig.connection.may_read();
    assert!(is_read, "nothing is left of what came");
    assert_eq!(rig.looks(Duration::from_secs(61), is_read), Some(Code::UnexpectedFrame));
    rig.end();
}
