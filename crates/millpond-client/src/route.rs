//! Publishing to an exchange: one message, for all topics that the exchange leads to or for none.

use bytes::Bytes;
use millpond_protocol::{ForwardRoute, Level, ProducerBatch, Request, Route};
use millpond_types::{
    ExchangeName, Millis, NamespaceName, Priority, PublishOutcome, Receipt, RoutingKey, TopicName, block,
};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::message::Routed;
use crate::outcomes::Outcomes;

/// What became of a message that was published to an exchange.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// The topics that it goes to, in the order of their names; none where it goes nowhere.
    pub topics: Vec<TopicName>,
    /// What became of the copy of each, in that order; or why there is none.
    pub outcomes: Outcomes<PublishOutcome>,
}

impl Routed {
    pub(crate) fn parts(&self) -> Result<Parts> {
        let headers: Vec<(&[u8], &[u8])> = self.headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let mut block = Vec::new();
        block::push(&mut block, &self.dedup_id, &headers, &self.body)
            .map_err(|large| Error::Invalid(format!("a message for {} is refused: {large}", self.to.0)))?;
        let (exchange, key) = self.to.clone();
        let (priority, delay, ttl) = (self.priority, self.delay, self.ttl);
        Ok(Parts { exchange, key, priority, delay, ttl, block: block.into() })
    }
}

/// A message for an exchange in the byte form that it is sent in.
#[derive(Clone)]
pub(crate) struct Parts {
    exchange: ExchangeName,
    key: RoutingKey,
    priority: Priority,
    delay: Millis,
    ttl: Option<Millis>,
    block: Bytes,
}

impl Parts {
    pub(crate) fn request(self, namespace: NamespaceName, level: Level, producer: Option<ProducerBatch>) -> Request {
        let Parts { exchange, key, priority, delay, ttl, block } = self;
        Request::Route(Route { namespace, level, producer, exchange, key, priority, delay, ttl, block })
    }

    /// The same with what is acked as it is published.
    pub(crate) fn forward(self, receipts: Vec<(Receipt, u32)>, namespace: NamespaceName) -> Request {
        let Parts { exchange, key, priority, delay, ttl, block } = self;
        Request::ForwardRoute(ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block })
    }
}

impl Client {
    /// Publishes a message to an exchange and waits for what the level asks. Each topic that it goes to has its outcome, in
    /// the order of their names: all are stored, or none is and the outcomes say why. There are none at
    /// [`Level::None`], and where no binding takes the message and the exchange lets such messages go.
    ///
    /// # Errors
    /// As for [`Client::publish`]. `Invalid` for a message that no publish holds.
    pub async fn route(&self, namespace: &NamespaceName, level: Level, message: &Routed) -> Result<Copies> {
        let request = message.parts()?.request(namespace.clone(), level, None);
        self.shared().publish(request, level).await
    }
}
