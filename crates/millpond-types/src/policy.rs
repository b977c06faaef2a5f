//! What a namespace promises for its topics.

use core::fmt;

use crate::limits::{AGEING_MIN, LEASE_MAX, LEASE_MIN, RETENTION_AGE_MIN, RUN_MAX, WEIGHT_MAX};
use crate::rate::Rate;
use crate::time::Millis;

/// The policy of a namespace. Facts carry the values resolved from it, so a change never rewrites what has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How long a lease lasts where the request does not say.
    pub lease: Millis,
    /// How many failures a message survives. The failure past it makes the message a dead letter.
    pub max_failures: u32,
    /// Where a failed message goes.
    pub retry: Retry,
    /// How long after its publishing a message is worth delivering; `None` for ever.
    pub ttl: Option<Millis>,
    /// What becomes of a message past its TTL.
    pub on_expiry: OnExpiry,
    /// How long a dedup id is remembered.
    pub dedup_window: DedupWindow,
    /// Leases at a time per topic and group; `None` is no limit. 1 is strict order.
    pub max_in_flight: Option<u32>,
    /// Messages that a topic holds at a time per group, but for those that are leased; `None` is no limit.
    pub max_waiting: Option<u32>,
    /// What becomes of a message past `max_waiting`.
    pub overflow: Overflow,
    /// Whether one message that waits is enough.
    pub coalesce: Coalesce,
    /// Messages of a topic that may be leased in a time, per group; `None` is no limit.
    pub rate: Option<Rate>,
    /// In strict order, messages that one delivery leases to one consumer, who finishes them one after another.
    pub run: u32,
    /// Messages that a topic is given in one turn of the round robin.
    pub weight: u32,
    /// What all topics of the namespace may hold together. A rule says nothing of it.
    pub quotas: Quotas,
    /// What comes first in the order of delivery. It is that of the whole namespace: no rule says otherwise.
    pub dispatch: Dispatch,
    /// In steps of this time what waits is raised a priority; `None` for never. Likewise of the whole namespace.
    pub ageing: Option<Millis>,
    /// How much each group keeps of what nobody takes from it. Likewise of the whole namespace.
    pub retention: Retention,
}

/// What a namespace may hold at most; `None` is no limit. Of several groups the one that holds most counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    /// Messages, dead letters among them.
    pub messages: Option<u64>,
    /// Bytes of these messages, headers and bodies, as they lie in the journal.
    pub bytes: Option<u64>,
    /// Topics.
    pub topics: Option<u64>,
    /// Connections of clients that publish to it or receive from it.
    pub connections: Option<u64>,
}

impl Quotas {
    /// Whether a publish has to be held against them.
    pub fn limit_publishes(&self) -> bool {
        self.messages.is_some() || self.bytes.is_some() || self.topics.is_some()
    }
}

/// How much a group keeps of what nobody has leased, the oldest going first; `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// For how long after their publish.
    pub age: Option<Millis>,
    /// How many messages, about.
    pub count: Option<u64>,
}

impl Retention {
    /// Whether it limits anything.
    pub fn is_any(&self) -> bool {
        self.age.is_some() || self.count.is_some()
    }
}

/// What becomes of a message that comes where `max_waiting` others are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// It is refused.
    Reject,
    /// It is stored, and the oldest of the lowest priority ends in its place.
    DropOldest,
}

/// Whether messages of one topic stand for each other: while one waits, another one is not needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coalesce {
    /// They do not.
    Off,
    /// The one that waits stays, and a newcomer is declined.
    KeepFirst,
    /// The newcomer takes the place of the one that waits.
    KeepLatest,
}

/// What comes first in the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// The highest priority, and then the tenant whose turn it is.
    Priority,
    /// The tenant whose turn it is, and then the highest priority of its topics.
    Fair,
}

/// Where a failed message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// Back to the front, at once.
    Head,
    /// Behind all that waits in its topic and priority now.
    Tail,
    /// To the front after a pause that doubles with each failure, with jitter of a quarter either way.
    Backoff {
        /// The pause after the first failure.
        first: Millis,
        /// The longest pause.
        longest: Millis,
    },
}

/// What becomes of a message past its TTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnExpiry {
    /// It ends, with the reason `expired`.
    Drop,
    /// It becomes a dead letter.
    Dead,
}

/// How long a dedup id is remembered after the message that carried it was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DedupWindow {
    /// Not at all: a publish with a dedup id is refused.
    Off,
    /// For so long.
    For(Millis),
    /// For ever, or until it is forgotten by command.
    Forever,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            lease: Millis::seconds(30),
            max_failures: 10,
            retry: Retry::Backoff { first: Millis::seconds(1), longest: Millis::minutes(10) },
            ttl: None,
            on_expiry: OnExpiry::Drop,
            dedup_window: DedupWindow::For(Millis::minutes(10)),
            max_in_flight: None,
            max_waiting: None,
            overflow: Overflow::Reject,
            coalesce: Coalesce::Off,
            rate: None,
            run: 1,
            weight: 1,
            quotas: Quotas::default(),
            dispatch: Dispatch::Priority,
            ageing: None,
            retention: Retention::default(),
        }
    }
}

/// Why a policy was refused, as a sentence that says what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadPolicy(pub &'static str);

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for BadPolicy {}

impl Policy {
    /// Leases at a time, also where another value implies a limit.
    pub fn leases_at_a_time(&self) -> Option<u32> {
        if self.coalesce == Coalesce::Off { self.max_in_flight } else { Some(1) }
    }

    /// Whether messages of a topic go one at a time, or run, in the order of priority and sequence.
    pub fn is_strict(&self) -> bool {
        self.leases_at_a_time() == Some(1)
    }

    /// Whether messages are leased several together, to be finished one after another.
    pub fn leases_runs(&self) -> bool {
        self.run > 1
    }

    /// Whether the values make sense, each and together.
    pub fn validate(&self) -> Result<(), BadPolicy> {
        if self.lease < LEASE_MIN || self.lease > LEASE_MAX {
            return Err(BadPolicy("lease is from 100 ms to 12 h; a lease can be extended without end"));
        }
        if self.weight == 0 || self.weight > WEIGHT_MAX {
            return Err(BadPolicy("weight is from 1 to 1000"));
        }
        if self.max_in_flight == Some(0) {
            return Err(BadPolicy("max_in_flight is at least 1; to stop deliveries, pause the topics"));
        }
        if self.max_in_flight == Some(1) && self.retry == Retry::Tail {
            return Err(BadPolicy(
                "max_in_flight 1 keeps strict order, and retry = tail breaks it: use head or backoff",
            ));
        }
        if self.max_waiting == Some(0) {
            return Err(BadPolicy(
                "max_waiting is at least 1; a topic that takes nothing is one that nobody publishes to",
            ));
        }
        if self.coalesce != Coalesce::Off {
            if self.max_in_flight.is_some_and(|limit| limit != 1) {
                return Err(BadPolicy(
                    "coalesce works on one message of a topic at a time: max_in_flight is 1 or none",
                ));
            }
            if self.max_waiting.is_some() {
                return Err(BadPolicy("coalesce lets one message wait, so there is nothing for max_waiting to limit"));
            }
            if self.retry == Retry::Tail {
                return Err(BadPolicy("coalesce lets one message wait, so it has no tail: retry is head or backoff"));
            }
        }
        if self.overflow == Overflow::DropOldest && self.max_waiting.is_none() {
            return Err(BadPolicy(match self.coalesce {
                Coalesce::Off => "overflow = drop_oldest is for topics that can be full: set max_waiting too",
                _ => "coalesce lets one message wait, so no topic is ever full: overflow is reject",
            }));
        }
        if self.run == 0 || self.run > RUN_MAX {
            return Err(BadPolicy("run is from 1 to 100"));
        }
        if self.leases_runs() && self.coalesce != Coalesce::Off {
            return Err(BadPolicy("coalesce works on one message of a topic at a time, so there is no run of several"));
        }
        if self.leases_runs() && self.max_in_flight != Some(1) {
            return Err(BadPolicy(
                "run is for strict order, which is max_in_flight 1; without it any number may be leased as it is",
            ));
        }
        if self.ageing.is_some_and(|step| step < AGEING_MIN) {
            return Err(BadPolicy("a step of ageing is at least 1 s: each of them is work for every topic that waits"));
        }
        if self.retention.age.is_some_and(|age| age < RETENTION_AGE_MIN) {
            return Err(BadPolicy(
                "retention-age is at least 10 s: it is a bound in the long run; for less there is ttl",
            ));
        }
        if self.retention.count == Some(0) {
            return Err(BadPolicy("retention-count is at least 1; a group that is to keep nothing is one to delete"));
        }
        if let Some(rate) = &self.rate {
            rate.validate()?;
        }
        if let Retry::Backoff { first, longest } = self.retry
            && (first.0 == 0 || first > longest)
        {
            return Err(BadPolicy("the first pause of a backoff is at least 1 ms and at most the longest"));
        }
        if self.ttl == Some(Millis::ZERO) || self.dedup_window == DedupWindow::For(Millis::ZERO) {
            return Err(BadPolicy("a ttl or dedup window of zero is written as none or off"));
        }
        Ok(())
    }
}
