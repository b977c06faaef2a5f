//! The vocabulary of Millpond, shared by every other crate: names, ids, limits, time, policies, outcomes, error codes.
//!
//! Nothing here decides anything and nothing here knows a byte form: the wire form of these types lives in
//! `millpond-protocol`, their form on disk in `millpond-storage`. The one exception is [`block`], the byte form of a
//! run of messages, which is the same on the wire and in the journal so that a body is copied once.
#![no_std]

extern crate alloc;

pub mod block;
mod code;
mod counted;
mod exchange;
mod id;
pub mod limits;
mod name;
mod office;
mod outcome;
mod paused;
mod policy;
mod rate;
mod rule;
mod start;
mod text;
mod time;
mod view;

pub use code::{Advice, Code};
pub use counted::Counted;
pub use exchange::{BadBinding, Binding, Condition, ExchangeKind, ExchangeView, KEY_PLACE, RoutingKey, Unroutable};
pub use id::{
    BadId, LeaseNumber, MessageId, Priority, ProducerId, Receipt, RequestId, Sequence, SessionId, TopicNumber,
};
pub use name::{BadName, ExchangeName, Filter, GroupName, NamespaceName, TopicName};
pub use office::{GroupKind, LeaderEpoch, OfficeTerms, OfficeView, Role, Standing};
pub use outcome::{EndReason, FinishOutcome, MessageState, OutcomeRun, PublishOutcome};
pub use paused::{Pause, PausedTopics};
pub use policy::{BadPolicy, Coalesce, DedupWindow, Dispatch, OnExpiry, Overflow, Policy, Quotas, Retention, Retry};
pub use rate::Rate;
pub use rule::{BadRules, Overrides, Pattern, Rule, Rules};
pub use start::Start;
pub use time::{Millis, RunTime, WallTime};
pub use view::{Counts, DeadView, GroupCursors, GroupView, MessageView, NamespaceView, Tally, TopBy, TopicView, Usage};
