//! The client of Millpond, a broker for work: publish to as many topics as you have keys, and work from all of them.
//!
//! ```no_run
//! use millpond_client::{Client, Decision, Message, NamespaceName, SubscribeOptions, Workers};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("127.0.0.1:7640").await?;
//! let orders: NamespaceName = "default".try_into()?;
//!
//! // Returns when the message is on disk.
//! client.publish(&orders, Message::new("acme/orders".try_into()?, "one kettle")).await?;
//!
//! // Leases messages as they become ready, and acks each.
//! let mut subscription = client.subscribe(SubscribeOptions::new(orders.clone())).await?;
//! let delivery = subscription.next().await?;
//! println!("{}: {:?}", delivery.topic, delivery.body);
//! client.ack(&delivery).await?;
//!
//! // The same with eight handlers side by side.
//! let workers = Workers::start(subscription, 8, |delivery| async move {
//!     if delivery.body.is_empty() { Decision::reject("an order without words") } else { Decision::Ack }
//! });
//! tokio::signal::ctrl_c().await?;
//! workers.stop().await?;
//! # Ok(()) }
//! ```
//!
//! A [`Client`] is one connection; everything made from it shares it. [`Batch`], [`Subscription::next_batch`] and
//! [`Receipts`] carry hundreds of messages for little more than the price of one. What is certain after a lost connection,
//! and what is not:
//!
//! * A publish without a session may be stored or not ([`Error::Unconfirmed`]). A [`Producer`] sends it again under the same
//!   number, and it is stored once.
//! * A subscription goes on where it was if the connection is back within the session's time (10 s). Else its leases are
//!   lost, which [`Client::is_current`] and [`Event::SessionLost`] tell, and every verb on them says `lease_lost`.
//! * An ack whose answer was lost may have been taken or not. If not, the message is delivered again: handlers have to be
//!   able to see a message twice.

mod batch;
mod career;
mod client;
mod delivery;
mod error;
mod finish;
mod forward;
mod leases;
mod link;
mod message;
mod options;
mod outcomes;
mod producer;
mod publish;
mod receipts;
mod receive;
mod route;
mod session;
mod subscription;
mod supervisor;
mod verbs;
mod workers;

pub use batch::{Batch, BatchBuilder};
pub use career::Career;
pub use client::{Client, Event};
pub use delivery::{Deliveries, Delivery};
pub use error::{Error, Result};
pub use forward::Forwarded;
pub use message::{Message, Routed};
pub use options::{ClientOptions, DEFAULT_SERVER, Reconnect};
pub use outcomes::Outcomes;
pub use producer::{Confirmation, Producer, ProducerOptions};
pub use receipts::Receipts;
pub use receive::ReceiveOptions;
pub use route::Copies;
pub use subscription::{SubscribeOptions, Subscription};
pub use verbs::{DeadPage, NamespacePage};
pub use workers::{Decision, Report, Workers};

pub use millpond_protocol::{DeadWhich, FinishVerb, LeasedRun, Level, Listing, LookWhich, TopicRef, Which};
pub use millpond_types::block;
pub use millpond_types::{
    Advice, BadBinding, BadId, BadName, BadPolicy, BadRules, Binding, Coalesce, Code, Condition, Counts, DeadView,
    DedupWindow, ExchangeKind, ExchangeName, ExchangeView, Filter, FinishOutcome, GroupCursors, GroupKind, GroupName,
    LeaderEpoch, LeaseNumber, MessageId, MessageState, MessageView, Millis, NamespaceName, NamespaceView, OfficeTerms,
    OfficeView, OnExpiry, OutcomeRun, Overflow, Overrides, Pattern, Pause, PausedTopics, Policy, Priority, ProducerId,
    PublishOutcome, Receipt, Retention, Retry, Role, RoutingKey, Rule, Rules, Sequence, Standing, Tally, TopicName,
    TopicNumber, TopicView, Unroutable, WallTime,
};
