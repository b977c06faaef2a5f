//! The clients of a life, and what each request was about, so that its answer finds the one who asked.

use millpond_core::command::{Command, Level};
use millpond_core::output::{LeasedRun, Reply};
use millpond_protocol as frame;
use millpond_types::{MessageId, NamespaceName, OutcomeRun, PublishOutcome, Receipt, SessionId, TopicName};

use crate::consumer::Consumer;
use crate::hand::Verb;
use crate::operator::Operator;
use crate::plan::Plan;
use crate::producer::Producer;
use crate::receiver::Receiver;
use crate::sights::Sights;
use crate::streams::Stream;
use crate::verdict::Violation;

/// A command, and what it was about.
pub struct Request {
    /// The command.
    pub command: Command,
    /// What it was about.
    pub asked: Asked,
}

/// A client that may speak the protocol, by its index among those of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the kinds of clients")]
pub enum Client {
    Producer(usize),
    Consumer(usize),
    Receiver(usize),
    Operator,
    /// Who publishes to several groups, and makes them and the exchanges.
    Publisher,
}

/// What a request was about.
#[derive(Clone, PartialEq, Debug)]
pub enum Asked {
    /// A publish of these messages.
    Publish {
        /// Which producer.
        producer: usize,
        /// The instance of its session, and the batch.
        batch: Option<(u32, u64)>,
        /// Where.
        namespace: NamespaceName,
        /// What, in order.
        messages: Vec<Sent>,
        /// The level.
        level: Level,
    },
    /// A one-shot receive of this receiver.
    Receive(usize),
    /// A verb on leases.
    Finish {
        /// What it was.
        verb: Verb,
        /// Its receipts, in order.
        leases: Vec<(Receipt, MessageId)>,
    },
    /// An ack and a publish as one.
    Forward {
        /// The receipts, in order.
        leases: Vec<(Receipt, MessageId)>,
        /// What came of them, in order.
        outputs: Vec<Sent>,
    },
    /// The begin of a consumer's session.
    Begin {
        /// Which consumer.
        consumer: usize,
        /// The session.
        session: SessionId,
    },
    /// A detachment of a consumer's number.
    Detach {
        /// Which consumer.
        consumer: usize,
        /// The number.
        number: u32,
    },
    /// A cancel of this message.
    Cancel(MessageId),
    /// A look at all namespaces when everything should be over.
    Drained,
    /// What a subscriber asked.
    Subscriber(crate::subscribers::Of),
    /// Anything else; by name, for the count of what was seen.
    Other(&'static str),
}

/// A message on its way to the broker.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// Its tag.
    pub tag: u64,
    /// Its topic.
    pub topic: TopicName,
    /// The hash of its dedup id.
    pub dedup: Option<u128>,
}

/// All clients.
pub struct Clients {
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    receivers: Vec<Receiver>,
    operator: Operator,
    /// Those that speak the protocol; the others are programs with the broker in them.
    remote: Vec<Client>,
    /// What these ask.
    posted: Vec<(Client, Request)>,
}

impl Clients {
    /// As many as the plan says, each by itself or on a connection.
    pub fn new(plan: &Plan, load: &mut Stream, network: &mut Stream) -> Clients {
        let [producers, consumers, receivers] = plan.clients;
        let all = (0..producers).map(Client::Producer);
        let all = all.chain((0..consumers).map(Client::Consumer)).chain((0..receivers).map(Client::Receiver));
        let all = all.chain([Client::Operator]);
        Clients {
            remote: all.filter(|_| network.one_in(2)).collect(),
            posted: Vec::new(),
            producers: (0..producers).map(|index| Producer::new(index, plan, load)).collect(),
            consumers: (0..consumers).map(|index| Consumer::new(index, plan, load)).collect(),
            receivers: (0..receivers).map(|index| Receiver::new(index, plan, load)).collect(),
            operator: Operator::new(plan),
        }
    }

    /// Makes the namespaces.
    pub fn set_up(&mut self) -> Vec<Request> {
        self.operator.set_up()
    }

    /// One of them does something.
    pub fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        let (client, requests) = match load.weighted(&[6, 6, 3, 2]) {
            0 => {
                let index = load.below(self.producers.len() as u64) as usize;
                (Client::Producer(index), self.producers[index].act(load))
            }
            1 => {
                let index = load.below(self.consumers.len() as u64) as usize;
                (Client::Consumer(index), self.consumers[index].act(load))
            }
            2 => {
                let index = load.below(self.receivers.len() as u64) as usize;
                (Client::Receiver(index), self.receivers[index].act(load))
            }
            _ => (Client::Operator, self.operator.act(load)),
        };
        self.post(client, requests)
    }

    /// What those on connections have asked since the last time.
    pub fn posted(&mut self) -> Vec<(Client, Request)> {
        std::mem::take(&mut self.posted)
    }

    /// Keeps requests that go over a connection; the others are decided at once.
    fn post(&mut self, client: Client, requests: Vec<Request>) -> Vec<Request> {
        if !self.remote.contains(&client) {
            return requests;
        }
        self.posted.extend(requests.into_iter().map(|request| (client, request)));
        Vec::new()
    }

    /// All do what is needed to bring everything to its end.
    pub fn finish(&mut self) -> Vec<Request> {
        let mut all = Vec::new();
        all.extend(self.producers.iter_mut().map(Producer::finish).enumerate().map(of(Client::Producer)));
        all.extend(self.consumers.iter_mut().map(Consumer::finish).enumerate().map(of(Client::Consumer)));
        all.extend(self.receivers.iter_mut().map(Receiver::finish).enumerate().map(of(Client::Receiver)));
        let mut requests: Vec<Request> =
            all.into_iter().flat_map(|(client, requests)| self.post(client, requests)).collect();
        requests.extend(self.operator.finish());
        requests
    }

    /// An answer came.
    pub fn answer(&mut self, asked: &Asked, reply: &Reply, sights: &mut Sights) -> Result<(), Violation> {
        match asked {
            Asked::Publish { producer, batch, namespace, messages, .. } => {
                if let Reply::Published { outcomes, .. } = reply {
                    self.learn(namespace, messages, outcomes);
                }
                batch.map_or(Ok(()), |batch| self.producers[*producer].answer(batch, reply, sights))
            }
            Asked::Receive(receiver) => {
                match reply {
                    Reply::Received(leases) => self.receivers[*receiver].received(leases),
                    _ => self.receivers[*receiver].refused(),
                }
                Ok(())
            }
            Asked::Begin { consumer, .. } => {
                if let Reply::SessionBegun { resumed } = reply {
                    self.consumers[*consumer].begun(*resumed, sights);
                }
                Ok(())
            }
            Asked::Detach { consumer, number } => {
                if *reply == Reply::Done {
                    self.consumers[*consumer].detached(*number, sights);
                }
                Ok(())
            }
            Asked::Finish { .. }
            | Asked::Forward { .. }
            | Asked::Cancel(_)
            | Asked::Drained
            | Asked::Subscriber(_)
            | Asked::Other(_) => Ok(()),
        }
    }

    /// The operator hears of some messages that were stored, to look at, cancel and reschedule.
    fn learn(&mut self, namespace: &NamespaceName, sent: &[Sent], outcomes: &[OutcomeRun<PublishOutcome>]) {
        let mut sent = sent.iter();
        for run in outcomes {
            let first = sent.next().expect("an outcome for each message");
            sent.by_ref().take(run.count as usize - 1).for_each(drop);
            if let PublishOutcome::Queued { id } = run.outcome {
                self.operator.learn(namespace.clone(), first.topic.clone(), id, first.dedup);
            }
        }
    }

    /// A delivery came; false if nobody is there to take it.
    pub fn deliver(&mut self, session: SessionId, leases: &[LeasedRun]) -> bool {
        let is_remote = |index| self.remote.contains(&Client::Consumer(index));
        let mut consumers = self.consumers.iter_mut().enumerate().filter(|(index, _)| !is_remote(*index));
        consumers.any(|(_, consumer)| consumer.deliver(session, leases))
    }

    /// Messages came on a client's connection.
    pub fn given(&mut self, client: Client, leases: &[frame::LeasedRun]) {
        match client {
            Client::Producer(_) | Client::Operator | Client::Publisher => unreachable!("it asks for no messages"),
            Client::Consumer(index) => self.consumers[index].given(leases),
            Client::Receiver(index) => self.receivers[index].received(leases),
        }
    }

    /// A client's connection is gone.
    pub fn connection_lost(&mut self, client: Client) {
        match client {
            Client::Producer(index) => self.producers[index].connection_lost(),
            Client::Consumer(index) => self.consumers[index].connection_lost(),
            Client::Receiver(index) => self.receivers[index].connection_lost(),
            // It keeps nothing of a connection.
            Client::Operator => {}
            Client::Publisher => unreachable!("it is one of the subscribers"),
        }
    }

    /// A lease was not ended, for it was not its turn: whoever has it still has it.
    pub fn keep(&mut self, receipt: Receipt, id: MessageId) {
        self.consumers.iter_mut().for_each(|consumer| consumer.keep(receipt, id));
        self.receivers.iter_mut().for_each(|receiver| receiver.keep(receipt, id));
    }

    /// The broker is gone, and with it every connection.
    pub fn connections_lost(&mut self) {
        self.posted.clear();
        self.producers.iter_mut().for_each(Producer::connection_lost);
        self.consumers.iter_mut().for_each(Consumer::connection_lost);
        self.receivers.iter_mut().for_each(Receiver::connection_lost);
    }
}

fn of(kind: fn(usize) -> Client) -> impl Fn((usize, Vec<Request>)) -> (Client, Vec<Request>) {
    move |(index, requests)| (kind(index), requests)
}
