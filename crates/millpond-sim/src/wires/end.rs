//! A client's end of a wire: what it asks becomes frames, and frames become what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::BytesMut;
use millpond_core::command::{self, Command, ReceiptRun};
use millpond_core::output::Reply;
use millpond_protocol::{
    Attach, Decoder, Finish, FinishVerb, Forward, Incoming, LeasedRun, Level, ProducerBatch, Publish, PublishRun,
    Receive, Request as Frame, Response, VERSION, encode_request,
};
use millpond_types::{Code, Millis, OutcomeRun, PublishOutcome, Receipt, TopicName};

use crate::bodies::sizes_of;
use crate::canary::Canary;
use crate::clients::{Asked, Request};
use crate::promises::credit::Credit;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Sessions of shorter resumption are refused.
const RESUME_MIN: Millis = Millis(500);

/// See the module.
pub struct End {
    decoder: Decoder,
    received: BytesMut,
    last: u32,
    open: BTreeMap<u32, Asked>,
    /// Credit and heartbeats, which are not answered unless there is nobody for them: their session may have ended meanwhile.
    untold: BTreeSet<u32>,
    /// Which request began its session, if that is there as far as it was told.
    session: Option<u32>,
    /// What each of its consumers may be given.
    credits: BTreeMap<u32, Credit>,
}

/// What a client hears.
#[derive(Debug)]
pub enum Heard {
    /// The answer to what it asked.
    Reply(Asked, Reply),
    /// Messages, asked for or not.
    Given(Vec<LeasedRun>),
    /// The connection is gone.
    Lost,
}

impl End {
    /// Of a connection that begins.
    pub fn new(out: &mut Vec<u8>) -> End {
        encode_request(&Frame::Hello { version: VERSION, client: "simulated".to_owned() }, 0, out);
        End {
            decoder: Decoder::default(),
            received: BytesMut::new(),
            last: 0,
            open: BTreeMap::new(),
            untold: BTreeSet::new(),
            session: None,
            credits: BTreeMap::new(),
        }
    }

    /// Asks for something.
    pub fn ask(&mut self, Request { command, asked }: Request, canary: Option<Canary>, out: &mut Vec<u8>) {
        self.last += 1;
        if is_answered(&command) {
            self.open.insert(self.last, asked);
        }
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
        let command = match canary {
            Some(canary) => canary.overstates(command),
            None => command,
        };
        encode_request(&frame(command), self.last, out);
    }

    /// What is not answered.
    pub fn open(&self) -> impl Iterator<Item = &Asked> {
        self.open.values()
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
            Response::Forwarded { finished, published } => Reply::Forwarded { finished, published },
            Response::Finished(outcomes) => Reply::Finished(outcomes),
            Response::SessionBegun { resumed, .. } => Reply::SessionBegun { resumed },
            Response::Done => Reply::Done,
            Response::Error { code: Code::SessionUnknown | Code::ConsumerUnknown, .. }
                if self.untold.remove(&correlation) =>
            {
                return Ok(None);
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
        let Asked::Publish { level, .. } = asked else {
            return Err(Violation::back(format!("{asked:?} is answered as a publish")));
        };
        Ok(Some(Heard::Reply(asked, Reply::Published { level, outcomes, topics })))
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

/// What a client library would say.
fn frame(command: Command) -> Frame {
    match command {
        Command::Publish(publish) => {
            let command::Publish { namespace, producer, level, runs } = publish;
            let producer = producer.map(|command::ProducerBatch { id, instance, sequence }| ProducerBatch {
                id,
                instance,
                sequence,
            });
            let level = match level {
                command::Level::Durable => Level::Durable,
                command::Level::Buffered => Level::Buffered,
                command::Level::None => Level::None,
            };
            Frame::Publish(Publish { namespace, level, producer, runs: runs.into_iter().map(run).collect() })
        }
        Command::Forward(command::Forward { receipts, publish }) => Frame::Forward(Forward {
            receipts: pairs(receipts),
            namespace: publish.namespace,
            runs: publish.runs.into_iter().map(run).collect(),
        }),
        Command::Finish(command::Finish { verb, receipts, namespace, confirm }) => {
            let verb = match verb {
                command::FinishVerb::Ack => FinishVerb::Ack,
                command::FinishVerb::Release { delay } => FinishVerb::Release { delay },
                command::FinishVerb::Fail { reason } => FinishVerb::Fail { reason },
                command::FinishVerb::Reject { reason } => FinishVerb::Reject { reason },
                command::FinishVerb::Extend { lease } => FinishVerb::Extend { lease },
                command::FinishVerb::Damaged => unreachable!("only the broker finds damage"),
            };
            Frame::Finish(Finish { verb, confirm, namespace, receipts: pairs(receipts) })
        }
        Command::Receive(command::Receive {
            namespace,
            group,
            filter,
            messages,
            bytes,
            lease,
            wait,
            at_most_once,
            request,
        }) => Frame::Receive(Receive { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request }),
        Command::SessionBegin(command::SessionBegin { session, resume, held }) => {
            Frame::SessionBegin { session, resume: resume.max(RESUME_MIN), held: pairs(held) }
        }
        Command::Attach(attach) => {
            let command::Attach { consumer, namespace, group, filter, messages, bytes, lease, at_most_once, .. } =
                attach;
            Frame::Attach(Attach { consumer, namespace, group, filter, messages, bytes, lease, at_most_once })
        }
        Command::Credit { consumer, messages, bytes, .. } => Frame::Credit { consumer, messages, bytes },
        Command::Heartbeat { except, .. } => Frame::Heartbeat { except },
        Command::Detach { consumer, .. } => Frame::Detach { consumer },
        Command::SessionEnd(_) => Frame::SessionEnd,
        other => unreachable!("no client on a wire asks for {other:?}"),
    }
}

/// How long a session lives without a heartbeat that a client library begins.
pub fn resume_of(begin: &command::SessionBegin) -> Duration {
    Duration::from_millis(begin.resume.max(RESUME_MIN).0)
}

fn run(run: command::PublishRun) -> PublishRun {
    let command::PublishRun { topic, priority, delay, ttl, block, .. } = run;
    PublishRun { topic, priority, delay, ttl, block }
}

fn pairs(receipts: Vec<ReceiptRun>) -> Vec<(Receipt, u32)> {
    receipts.into_iter().map(|run| (run.first, run.count)).collect()
}
