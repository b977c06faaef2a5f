//! What a program asks its broker.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond_core::command::{self, Command, Finish, FinishVerb, Level, Publish, ReceiptRun, Route};
use millpond_core::output::Reply;
use millpond_types::block::TooLarge;
use millpond_types::{
    Code, DeadView, Filter, FinishOutcome, GroupName, MessageView, Millis, NamespaceName, NamespaceView, OutcomeRun,
    PublishOutcome, Receipt, RequestId,
};

use super::call::{Answered, Call, CallError};
use super::message::{Message, Routed, runs};
use crate::bodies::Read;
use crate::session::Shared;
use crate::update_queue::Refused;
use crate::writer::Request;

/// Submits commands to a broker. Cheap to clone; usable from any thread and any async runtime.
///
/// Submitting blocks for a moment while the broker has as much waiting as it may hold. Each call is answered once its
/// outcome is durable.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// A one-shot receive: which messages to lease, and how long to wait for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receive(pub command::Receive);

/// Leased messages of one topic. The lease numbers and the sequences of a run follow one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leased {
    /// The first message's receipt.
    pub receipt: Receipt,
    /// The run, its messages in block form.
    pub run: millpond_protocol::LeasedRun,
}

/// What became of a forward. Where one receipt is lost or one message refused, nothing of it was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// What became of each receipt, in order.
    pub finished: Vec<OutcomeRun<FinishOutcome>>,
    /// What became of each message, in order; of one to an exchange, of the copy for each topic.
    pub published: Vec<OutcomeRun<PublishOutcome>>,
}

/// The answer of [`Handle::call`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// Nothing that has to be read.
    Reply(Reply),
    /// Leased messages.
    Leases(Vec<Leased>),
    /// Messages looked at. Only the first have their blocks, some megabytes of them; each of the others is told by its id.
    Messages(Vec<MessageView>),
    /// Dead letters, and where the next page begins.
    Dead(Vec<DeadView>, Vec<u8>),
}

impl Receive {
    /// From all topics of the namespace, at most so many, what is there now.
    pub fn all(namespace: NamespaceName, messages: u32) -> Receive {
        Receive(command::Receive {
            namespace,
            group: GroupName::default(),
            filter: Filter::All,
            messages,
            bytes: RECEIVE_BYTES,
            lease: None,
            wait: Millis::ZERO,
            at_most_once: false,
            request: None,
            call: 0,
        })
    }

    /// Waits so long for a first message.
    pub fn wait(mut self, wait: Millis) -> Receive {
        self.0.wait = wait;
        self
    }
}

/// Bytes of one receive unless asked for otherwise.
const RECEIVE_BYTES: u64 = 4 * 1024 * 1024;

impl Leased {
    /// The first message's body.
    pub fn body(&self) -> &[u8] {
        let first = millpond_types::block::first(&self.run.block).expect("a block that was read is valid");
        first.body
    }

    /// All bodies of the run, in order.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let messages = millpond_types::block::messages(&self.run.block);
        messages.map(|message| message.expect("a block that was read is valid").body)
    }
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Handle {
        Handle { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Publishes messages durably. Each has its own outcome, equal neighbours as one run.
    pub fn publish(&self, namespace: NamespaceName, messages: Vec<Message>) -> Call<Vec<OutcomeRun<PublishOutcome>>> {
        let turn = |answered| match answered {
            Answered::Reply(Reply::Published { outcomes, .. }) => Ok(outcomes),
            _ => unreachable!("a publish is answered by its outcomes"),
        };
        match runs(&namespace, &messages, self.shared.hash_key) {
            Ok(runs) => {
                let publish = Publish { namespace, producer: None, level: Level::Durable, runs };
                self.submit(Command::Publish(publish), turn)
            }
            Err(too_large) => self.refuse(&too_large, turn),
        }
    }

    /// Publishes a message to an exchange, durably: to all topics that it leads to or to none. Each topic has its outcome; where
    /// it leads nowhere and lets such messages go, there are none.
    pub fn route(&self, namespace: NamespaceName, message: Routed) -> Call<Vec<OutcomeRun<PublishOutcome>>> {
        self.submit_routed(namespace, message, None, |answered| match answered {
            Answered::Reply(Reply::Published { outcomes, .. }) => Ok(outcomes),
            _ => unreachable!("a publish is answered by its outcomes"),
        })
    }

    /// Leases messages once; refused as [`Code::Damaged`] or [`Code::Unreadable`] where nothing of what was leased can be told, for
    /// the next receive may be given others. A call that is dropped before it has its answer takes the receive back, and releases what was
    /// leased for it; where another call has asked for the same under its request id since, all of it is that one's.
    pub fn receive(&self, mut receive: Receive) -> Call<Vec<Leased>> {
        let request = *receive.0.request.get_or_insert_with(draw_request);
        let number = self.shared.receives.fetch_add(1, Ordering::Relaxed);
        receive.0.call = number;
        let namespace = receive.0.namespace.clone();
        let call = self.submit(Command::Receive(receive.0), |answered| match answered {
            Answered::Read(Read::Leases(runs)) => Ok(leased(runs)),
            Answered::Read(Read::NoLeases(code, why)) => Err(CallError::Refused { code, detail: why.to_owned() }),
            _ => unreachable!("a receive is answered by leases"),
        });
        call.withdrawn_by(self.shared.writer.clone(), Command::WithdrawRequest { namespace, request, call: number })
    }

    /// Acks leases and publishes what came of their messages, as one decision: all of it, or nothing.
    pub fn forward(&self, receipts: &[Receipt], namespace: NamespaceName, messages: Vec<Message>) -> Call<Forwarded> {
        match runs(&namespace, &messages, self.shared.hash_key) {
            Ok(runs) => {
                let publish = Publish { namespace, producer: None, level: Level::Durable, runs };
                let forward = command::Forward { receipts: each(receipts), publish };
                self.submit(Command::Forward(forward), forwarded)
            }
            Err(too_large) => self.refuse(&too_large, forwarded),
        }
    }

    /// Acks leases and publishes what came of their messages to an exchange, as one decision: all leases are acked and all topics
    /// that it leads to have their copy, or nothing happens. Each of these topics has its outcome; where it leads nowhere and lets
    /// such messages go, there are none, and the leases are acked.
    pub fn forward_routed(&self, receipts: &[Receipt], namespace: NamespaceName, message: Routed) -> Call<Forwarded> {
        self.submit_routed(namespace, message, Some(each(receipts)), forwarded)
    }

    /// A verb on receipts. Each has its own outcome, equal neighbours as one run.
    pub fn finish(&self, verb: FinishVerb, receipts: &[Receipt]) -> Call<Vec<OutcomeRun<FinishOutcome>>> {
        let receipts = each(receipts);
        self.submit(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }), |answered| {
            match answered {
                Answered::Reply(Reply::Finished(outcomes)) => Ok(outcomes),
                _ => unreachable!("a finish is answered by its outcomes"),
            }
        })
    }

    /// The messages are done.
    pub fn ack(&self, receipts: &[Receipt]) -> Call<Vec<OutcomeRun<FinishOutcome>>> {
        self.finish(FinishVerb::Ack, receipts)
    }

    /// Counts of a namespace, all at one journal position.
    pub fn stats(&self, namespace: NamespaceName) -> Call<NamespaceView> {
        self.submit(Command::Stats(namespace), |answered| match answered {
            Answered::Reply(Reply::Namespaces { mut rows, .. }) if rows.len() == 1 => Ok(rows.remove(0)),
            _ => unreachable!("stats are answered by one namespace"),
        })
    }

    /// Any other command that is answered. Sessions belong to connections, and so do the commands of one.
    pub fn call(&self, command: Command) -> Call<Answer> {
        let turn = |answered| {
            Ok(match answered {
                Answered::Reply(reply) => Answer::Reply(reply),
                Answered::Read(Read::Leases(runs)) => Answer::Leases(leased(runs)),
                Answered::Read(Read::NoLeases(code, why)) => {
                    return Err(CallError::Refused { code, detail: why.to_owned() });
                }
                Answered::Read(Read::Messages(rows)) => Answer::Messages(rows),
                Answered::Read(Read::Dead(rows, next)) => Answer::Dead(rows, next),
            })
        };
        let is_answered = !matches!(
            command,
            Command::SessionBegin(_)
                | Command::SessionLost(_)
                | Command::SessionEnd(_)
                | Command::Heartbeat { .. }
                | Command::Attach(_)
                | Command::Credit { .. }
                | Command::Detach { .. }
                | Command::Withdraw(_)
                | Command::WithdrawRequest { .. }
                | Command::Finish(Finish { confirm: false, .. })
        );
        if !is_answered {
            let detail = "sessions belong to connections, and a call is one that is answered; use receive and finish";
            let refused = CallError::Refused { code: Code::ArgumentInvalid, detail: detail.to_owned() };
            return Call::refused(refused, self.shared.bodies.clone(), turn);
        }
        self.submit(command, turn)
    }

    /// Whether requests are served: not while shutting down, and never again after a failure.
    pub fn is_ready(&self) -> bool {
        self.shared.health.is_ready()
    }

    /// How many connections are open; none where no server is in front of the broker.
    pub fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// Why the broker failed, if it did. It serves nothing then and is to be shut down.
    pub fn failure(&self) -> Option<String> {
        self.shared.health.failure().map(str::to_owned)
    }

    /// A message for an exchange, found its way, and what is acked with it.
    fn submit_routed<T>(
        &self,
        namespace: NamespaceName,
        message: Routed,
        receipts: Option<Vec<ReceiptRun>>,
        turn: fn(Answered) -> Result<T, CallError>,
    ) -> Call<T> {
        let mut route = match message.command(namespace) {
            Ok(route) => Route { receipts, ..route },
            Err(too_large) => return self.refuse(&too_large, turn),
        };
        if let Some(exchange) = self.shared.known.exchange(&route) {
            exchange.resolve(&mut route, self.shared.hash_key);
        }
        self.submit(Command::Route(route), turn)
    }

    fn refuse<T>(&self, too_large: &TooLarge, turn: fn(Answered) -> Result<T, CallError>) -> Call<T> {
        let refused = CallError::Refused { code: Code::MessageTooLarge, detail: too_large.to_string() };
        Call::refused(refused, self.shared.bodies.clone(), turn)
    }

    fn submit<T>(&self, command: Command, turn: fn(Answered) -> Result<T, CallError>) -> Call<T> {
        let bodies = self.shared.bodies.clone();
        match self.shared.writer.submit(Request::lane(&command), Request::Call(command)) {
            Ok(pending) => Call::new(pending, bodies, turn),
            Err(Refused::Full(_) | Refused::Stopped(_)) => Call::refused(CallError::Stopped, bodies, turn),
        }
    }
}

/// Programs on connections draw theirs at random too, so nobody meets.
fn draw_request() -> RequestId {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    RequestId(u128::from_le_bytes(bytes))
}

/// A run for each receipt.
fn each(receipts: &[Receipt]) -> Vec<ReceiptRun> {
    receipts.iter().map(|first| ReceiptRun { first: *first, count: 1 }).collect()
}

fn forwarded(answered: Answered) -> Result<Forwarded, CallError> {
    match answered {
        Answered::Reply(Reply::Forwarded { finished, published, .. }) => Ok(Forwarded { finished, published }),
        _ => unreachable!("a forward is answered by its outcomes"),
    }
}

fn leased(runs: Vec<millpond_protocol::LeasedRun>) -> Vec<Leased> {
    runs.into_iter().map(|run| Leased { receipt: run.receipt, run }).collect()
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}
