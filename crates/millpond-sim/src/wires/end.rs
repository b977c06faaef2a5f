//! A client's end of a wire: what it asks becomes frames, and frames become what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use millpond_core::command::{self, Command, Level};
use millpond_core::output::Reply;
use millpond_protocol::{Decoder, Incoming, LeasedRun, Request as Frame, Response, VERSION, encode_request};
use millpond_types::{Code, DeadView, MessageId, NamespaceName, OutcomeRun, PublishOutcome, TopicName};

use crate::bodies::sizes_of;
use crate::canary::Canary;
use crate::clients::{Asked, Request};
use crate::promises::credit::Credit;
use crate::sights::Sights;
use crate::subscribers::Of;
use crate::verdict::Violation;
use crate::wires::spoken::{RESUME_MIN, frame};
use crate::wires::users::used_by;

/// See the module.
pub struct End {
    decoder: Decoder,
    received: BytesMut,
    last: u32,
    open: BTreeMap<u32, Asked>,
    /// The namespaces that requests use, and those for which too many do.
    uses: BTreeMap<u32, NamespaceName>,
    refused: Vec<NamespaceName>,
    /// Credit and heartbeats, which are not answered unless there is nobody for them: their session may have ended meanwhile.
    untold: BTreeSet<u32>,
    /// The directory's, with which dedup ids are found.
    hash_key: [u64; 2],
    /// Which request began its session, if that is there as far as it was told.
    session: Option<u32>,
    /// What each of its consumers may be given.
    credits: BTreeMap<u32, Credit>,
    /// What a canary keeps until the next frame.
    late: Vec<u8>,
}

/// What a client hears.
#[derive(Debug)]
pub enum Heard {
    /// The answer to what it asked.
    Reply(Asked, Reply),
    /// Messages, asked for or not.
    Given(Vec<LeasedRun>),
    /// Messages that it looked at, each with its block where the answer had room for it.
    Shown(Asked, Vec<(MessageId, Bytes)>),
    /// The same of dead letters.
    Letters(Asked, Vec<DeadView>),
    /// The connection is gone.
    Lost,
}

impl End {
    /// Of a connection that begins.
    pub fn new(hash_key: [u64; 2], out: &mut Vec<u8>) -> End {
        encode_request(&Frame::Hello { version: VERSION, client: "simulated".to_owned() }, 0, out);
        End {
            decoder: Decoder::default(),
            received: BytesMut::new(),
            last: 0,
            open: BTreeMap::new(),
            uses: BTreeMap::new(),
            refused: Vec::new(),
            untold: BTreeSet::new(),
            hash_key,
            session: None,
            credits: BTreeMap::new(),
            late: Vec::new(),
        }
    }

    /// Asks for something.
    pub fn ask(&mut self, Request { command, asked }: Request, canary: Option<Canary>, out: &mut Vec<u8>) {
        self.last += 1;
        if is_answered(&command) {
            self.open.insert(self.last, asked);
        }
        self.uses.extend(used_by(&command).map(|name| (self.last, name.clone())));
        if matches!(command, Command::Credit { .. } | Command::Heartbeat { .. }) {
            self.untold.insert(self.last);
        }
        match &command {
            Command::Attach(command::Attach { consumer, messages, bytes, .. }) => {
                self.credits.insert(*consumer, Credit::new(*messages, *bytes));
            }
            Command::Credit { consumer, messages, bytes, .. } => {
                self.credits.entry(*consumer).and_modify(|credit| credit.add(*messages, *bytes));
            }
            _ => {}
        }
        let is_late = canary.is_some_and(|canary| canary.delays(&command));
        let command = match canary {
            Some(canary) => canary.overstates(command),
            None => command,
        };
        encode_request(&frame(command, self.hash_key), self.last, if is_late { &mut self.late } else { out });
        if !is_late {
            out.append(&mut self.late);
        }
    }

    /// What is not answered.
    pub fn open(&self) -> impl Iterator<Item = &Asked> {
        self.open.values()
    }

    /// The namespaces of which it was told since the last time that too many use them.
    pub fn refused(&mut self) -> Vec<NamespaceName> {
        std::mem::take(&mut self.refused)
    }

    /// Bytes of the broker came.
    pub fn hear(&mut self, bytes: impl Iterator<Item = u8>, sights: &mut Sights) -> Result<Vec<Heard>, Violation> {
        self.received.extend(bytes);
        let mut heard = Vec::new();
        loop {
            match self.decoder.next_response(&mut self.received) {
                Ok(None) => return Ok(heard),
                Ok(Some(Incoming { correlation, frame, .. })) => heard.extend(self.take(correlation, frame, sights)?),
                Err(error) => return Err(Violation::lost(format!("a client cannot read a frame: {error}"))),
            }
        }
    }

    fn take(&mut self, correlation: u32, response: Response, sights: &mut Sights) -> Result<Option<Heard>, Violation> {
        let reply = match response {
            Response::Delivery { consumer, .. } if self.session.is_none() => {
                let what = format!("consumer {consumer} of a connection without a session is given messages");
                return Err(Violation::connections(what));
            }
            Response::Delivery { consumer, leases, .. } => {
                let Some(credit) = self.credits.get_mut(&consumer) else {
                    let what = format!("consumer {consumer} of a connection is given messages, and is not attached");
                    return Err(Violation::connections(what));
                };
                credit.take(leases.iter().flat_map(|run| sizes_of(&run.block)), sights)?;
                return Ok(Some(Heard::Given(leases)));
            }
            Response::Received(leases) => {
                self.answered(correlation)?;
                return Ok(Some(Heard::Given(leases)));
            }
            Response::Welcome { .. } | Response::PublishCredit { .. } | Response::SessionExpired => return Ok(None),
            // It was resumed elsewhere or lost for its silence, or the connection was silent.
            Response::Closing { code: Code::SessionUnknown | Code::UnexpectedFrame, .. } => return Ok(None),
            Response::Published(outcomes) => return self.published(correlation, outcomes, Vec::new()),
            Response::Routed { topics, outcomes } => return self.published(correlation, outcomes, topics),
            Response::Forwarded { finished, published } => Reply::Forwarded { finished, published, topics: Vec::new() },
            Response::ForwardRouted { topics, finished, published } => Reply::Forwarded { finished, published, topics },
            Response::Finished(outcomes) => Reply::Finished(outcomes),
            Response::SessionBegun { resumed, .. } => Reply::SessionBegun { resumed },
            Response::Done => Reply::Done,
            Response::Count(count) => Reply::Count(count),
            Response::Topics(rows) => Reply::Topics(rows),
            Response::Namespaces { rows, next } => Reply::Namespaces { rows, next },
            Response::Messages(rows) => {
                let rows = rows.into_iter().map(|row| (row.id, row.block)).collect();
                return Ok(Some(Heard::Shown(self.answered(correlation)?, rows)));
            }
            Response::Dead { rows, .. } => {
                return Ok(Some(Heard::Letters(self.answered(correlation)?, rows)));
            }
            Response::Error { code: Code::SessionUnknown | Code::ConsumerUnknown, .. }
                if self.untold.remove(&correlation) =>
            {
                return Ok(None);
            }
            Response::Error { code: Code::QuotaExceeded, detail } => {
                self.refused.extend(self.uses.remove(&correlation));
                Reply::Refused { code: Code::QuotaExceeded, detail, receipts: 0 }
            }
            Response::Error { code, detail } => Reply::Refused { code, detail, receipts: 0 },
            other => return Err(Violation::back(format!("a client is told what it never asked for: {other:?}"))),
        };
        let asked = self.answered(correlation)?;
        match (&asked, &reply) {
            (Asked::Begin { .. }, Reply::SessionBegun { .. }) => self.session = Some(correlation),
            // An end is told when the last lease is back, and another session may have begun meanwhile.
            (Asked::Other("sessions ended"), Reply::Done) => _ = self.session.take_if(|begun| *begun < correlation),
            (Asked::Detach { number, .. }, Reply::Done) => _ = self.credits.remove(number),
            _ => {}
        }
        Ok(Some(Heard::Reply(asked, reply)))
    }

    fn published(
        &mut self,
        correlation: u32,
        outcomes: Vec<OutcomeRun<PublishOutcome>>,
        topics: Vec<TopicName>,
    ) -> Result<Option<Heard>, Violation> {
        let asked = self.answered(correlation)?;
        match asked {
            Asked::Publish { level, .. } => Ok(Some(Heard::Reply(asked, Reply::Published { level, outcomes, topics }))),
            Asked::Subscriber(Of::Publish { .. }) => {
                Ok(Some(Heard::Reply(asked, Reply::Published { level: Level::Durable, outcomes, topics })))
            }
            // Its other half was not done.
            Asked::Forward { .. } => Err(Violation::halves(format!("{asked:?} is answered as a publish"))),
            _ => Err(Violation::back(format!("{asked:?} is answered as a publish"))),
        }
    }

    fn answered(&mut self, correlation: u32) -> Result<Asked, Violation> {
        let asked = self.open.remove(&correlation);
        asked.ok_or_else(|| Violation::back(format!("request {correlation} of a connection is answered twice")))
    }
}

/// Whether a command is answered.
fn is_answered(command: &Command) -> bool {
    match command {
        Command::Publish(publish) => publish.level != command::Level::None,
        Command::Finish(finish) => finish.confirm,
        Command::Credit { .. } | Command::Heartbeat { .. } => false,
        _ => true,
    }
}

/// How long a session lives without a heartbeat that a client library begins.
pub fn resume_of(begin: &command::SessionBegin) -> Duration {
    Duration::from_millis(begin.resume.max(RESUME_MIN).0)
}
