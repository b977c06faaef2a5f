//! Publishing to an exchange: one message, for all topics that the exchange leads to or for none.

use std::time::Duration;

use bytes::Bytes;
use millpond_protocol::{Level, ProducerBatch, Request, Route};
use millpond_types::{ExchangeName, Millis, NamespaceName, Priority, PublishOutcome, RoutingKey, block};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::message::millis;
use crate::outcomes::Outcomes;

/// A message for an exchange. Cheap to clone.
///
/// ```
/// # use millpond_client::Routed;
/// let message = Routed::new("events".try_into().unwrap(), "order.paid.eu".try_into().unwrap(), "{\"order\": 17}")
///     .dedup_id("order-17-paid")
///     .header("content-type", "application/json");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    exchange: ExchangeName,
    key: RoutingKey,
    body: Bytes,
    priority: Priority,
    delay: Millis,
    ttl: Option<Millis>,
    dedup_id: Bytes,
    headers: Vec<(Bytes, Bytes)>,
}

impl Routed {
    /// A message of the default priority, ready at once. The key may be empty where the exchange does not ask for one.
    pub fn new(exchange: ExchangeName, key: RoutingKey, body: impl Into<Bytes>) -> Routed {
        let (dedup_id, headers) = (Bytes::new(), Vec::new());
        let (body, priority, delay, ttl) = (body.into(), Priority::DEFAULT, Millis::ZERO, None);
        Routed { exchange, key, body, priority, delay, ttl, dedup_id, headers }
    }

    /// 9 goes first; the default is 4.
    pub fn priority(mut self, priority: Priority) -> Routed {
        self.priority = priority;
        self
    }

    /// How long the message stays invisible, in whole milliseconds.
    pub fn delay(mut self, delay: Duration) -> Routed {
        self.delay = millis(delay);
        self
    }

    /// How long after its publishing the message is worth delivering, zero for ever.
    pub fn ttl(mut self, ttl: Duration) -> Routed {
        self.ttl = Some(millis(ttl));
        self
    }

    /// Of all messages with this id, each topic stores one within the policy's window.
    pub fn dedup_id(mut self, dedup_id: impl Into<Bytes>) -> Routed {
        self.dedup_id = dedup_id.into();
        self
    }

    /// Adds a header. A headers exchange looks at them.
    pub fn header(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Routed {
        self.headers.push((key.into(), value.into()));
        self
    }

    pub(crate) fn parts(&self) -> Result<Parts> {
        let headers: Vec<(&[u8], &[u8])> = self.headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let mut block = Vec::new();
        block::push(&mut block, &self.dedup_id, &headers, &self.body)
            .map_err(|large| Error::Invalid(format!("a message for {} is refused: {large}", self.exchange)))?;
        let (exchange, key) = (self.exchange.clone(), self.key.clone());
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
}

impl Client {
    /// Publishes a message to an exchange and waits for what the level asks. Each topic that it went to has its outcome, in
    /// the order of their names: all are stored, or none is and the outcomes say why. There are none at
    /// [`Level::None`], and where no binding takes the message and the exchange lets such messages go.
    ///
    /// # Errors
    /// As for [`Client::publish`]. `Invalid` for a message that no publish holds.
    pub async fn route(
        &self,
        namespace: &NamespaceName,
        level: Level,
        message: &Routed,
    ) -> Result<Outcomes<PublishOutcome>> {
        let request = message.parts()?.request(namespace.clone(), level, None);
        self.shared().publish(request, level).await
    }
}
