//! What messages are published to, as it is written on the command line.

use std::fmt;

use millpond_types::{BadName, ExchangeName, NamespaceName, RoutingKey, TopicName};

use crate::address::{Address, Place};
use crate::failure::Failure;

/// Stands in a routing key for the topic of what comes in.
const TOPIC: &str = "{topic}";

/// A topic, or an exchange and a routing key.
#[derive(Clone, Debug)]
pub enum To {
    /// One topic.
    Topic(TopicName),
    /// The topics that an exchange leads to.
    Exchange(ExchangeName, RoutingKey),
}

/// The same in a namespace.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The namespace.
    pub namespace: NamespaceName,
    /// What of it.
    pub to: To,
}

impl Destination {
    /// What an address names, or an exchange of it.
    pub fn new(
        address: &Address,
        exchange: Option<&ExchangeName>,
        key: Option<&RoutingKey>,
    ) -> Result<Destination, Failure> {
        let namespace = address.namespace.clone();
        let to = match (&address.place, exchange) {
            (Place::Topic(topic), None) => To::Topic(topic.clone()),
            (Place::All, Some(exchange)) => To::Exchange(exchange.clone(), key.cloned().unwrap_or_default()),
            (Place::All, None) => {
                return Err(Failure::usage(format!(
                    "a topic is needed here: write {namespace}/TOPIC, or name an exchange with --exchange"
                )));
            }
            (Place::Prefix(_), None) => {
                return Err(Failure::usage(
                    "one topic is needed here, and a * at the end means many; a star in a name is written \\*",
                ));
            }
            (_, Some(_)) => {
                return Err(Failure::usage(format!("an exchange knows the topics by itself: write {namespace} alone")));
            }
        };
        Ok(Destination { namespace, to })
    }
}

impl To {
    /// Whether what comes of each topic goes elsewhere.
    pub fn is_by_topic(&self) -> bool {
        matches!(self, To::Exchange(_, key) if key.as_str().contains(TOPIC))
    }

    /// Where that goes which comes of a topic: its name stands in the routing key in place of `{topic}`.
    pub fn of(&self, topic: &TopicName) -> Result<To, BadName> {
        Ok(match self {
            To::Exchange(exchange, key) if self.is_by_topic() => {
                let key = key.as_str().replace(TOPIC, topic.as_str());
                To::Exchange(exchange.clone(), RoutingKey::try_from(&*key)?)
            }
            to => to.clone(),
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Destination { namespace, to } = self;
        match to {
            To::Topic(topic) => write!(f, "{namespace}/{topic}"),
            To::Exchange(exchange, _) => write!(f, "exchange {exchange} of {namespace}"),
        }
    }
}
