//! Consumers that receive one shot at a time, and wait for it.

use millpond_core::command::{Command, Receive};
use millpond_types::{Filter, GroupName, MessageId, Millis, NamespaceName, Receipt, TopicName};

use crate::clients::{Asked, Request};
use crate::consumer::draw_filter;
use crate::forwards::forward;
use crate::hand::{Given, Hand};
use crate::plan::Plan;
use crate::streams::Stream;

/// How long a receive waits in the end.
const LAST_WAIT: Millis = Millis::seconds(3);
/// Tags of what is forwarded begin here.
const FORWARDED: u64 = 1 << 48;

/// See the module.
pub struct Receiver {
    index: usize,
    namespace: NamespaceName,
    topics: Vec<TopicName>,
    waiting: bool,
    hand: Hand,
    /// Of the next output of a forward.
    next_tag: u64,
}

impl Receiver {
    /// The receiver of an index.
    pub fn new(index: usize, plan: &Plan, load: &mut Stream) -> Receiver {
        let (namespace, _) = load.pick(&plan.namespaces).clone();
        // No producer's tags are as high.
        let next_tag = FORWARDED + ((index as u64 + 1) << 32);
        Receiver { index, namespace, topics: plan.topics.clone(), waiting: false, hand: Hand::default(), next_tag }
    }

    /// Does something.
    pub fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        if !self.waiting && load.one_in(2) {
            let (messages, bytes) = (load.between(1, 10) as u32, load.between(1, 5000));
            let lease = load.one_in(2).then(|| Millis(load.between(100, 10_000)));
            let filter = draw_filter(&self.topics, load);
            return vec![self.receive(filter, messages, bytes, lease, Millis(load.below(2) * load.below(5000)))];
        }
        // Now and then a client dies with its leases.
        if load.one_in(20) {
            self.hand.forget_all();
        }
        if load.one_in(3) {
            let Some((leases, receipts)) = self.hand.some(load) else { return Vec::new() };
            let to = (&self.namespace, &self.topics[..]);
            return vec![forward(leases, receipts, to, &mut self.next_tag, load)];
        }
        self.hand.verb(load).into_iter().collect()
    }

    /// Acks what is in hand, and waits for more.
    pub fn finish(&mut self) -> Vec<Request> {
        let mut requests: Vec<Request> = self.hand.ack_all().into_iter().collect();
        if !self.waiting {
            requests.push(self.receive(Filter::All, 10, 5000, None, LAST_WAIT));
        }
        requests
    }

    /// The answer to a receive.
    pub fn received(&mut self, leases: &[impl Given]) {
        self.waiting = false;
        self.hand.take(leases);
    }

    /// It may not receive, or not now, and may ask again.
    pub fn refused(&mut self) {
        self.waiting = false;
    }

    /// A lease was not ended.
    pub fn keep(&mut self, receipt: Receipt, id: MessageId) {
        self.hand.keep(receipt, id);
    }

    /// The connection is gone. Leases run on.
    pub fn connection_lost(&mut self) {
        self.waiting = false;
    }

    fn receive(&mut self, filter: Filter, messages: u32, bytes: u64, lease: Option<Millis>, wait: Millis) -> Request {
        self.waiting = true;
        let (namespace, group) = (self.namespace.clone(), GroupName::default());
        let (at_most_once, request, call) = (false, None, 0);
        let receive = Receive { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request, call };
        Request { command: Command::Receive(receive), asked: Asked::Receive(self.index) }
    }
}
