//! The promises that are watched, and what a life ends with where one is broken.

use std::fmt;

/// The promises that are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checker {
    /// Confirmed and lost: what was confirmed is there, with the body that was sent, or has ended by one reason.
    Lost,
    /// Ended and back: what has ended stays so; nothing is leased or stored twice; numbers only grow.
    Back,
    /// Ready and stuck: with willing consumers and enough time everything comes to its end.
    Stuck,
    /// Office and epoch: an epoch is one leader's, and deliveries of two never mix.
    Offices,
    /// Delayed and early: nothing that is delayed is ready before its time.
    Early,
    /// By halves: what is acked and published as one is both or neither.
    Halves,
    /// Order: inside a topic messages go in their order, and in strict order they are completed in it.
    Order,
    /// Coalescing: one message of a topic is worked on and one waits, which stands for all that came.
    Coalescing,
    /// Cursors are what they say.
    Watermark,
    /// What stands higher, by priority or by age, goes first.
    Priority,
    /// Nobody waits for more than a turn of each of the others.
    Fairness,
    /// Idle topics are not in memory where there is no room for them.
    Memory,
    /// A group sees what is published while it is there, and what its start says.
    Starts,
    /// Nothing is retained out but what is beyond the bounds.
    Retention,
    /// What is delivered at most once never comes again.
    Once,
    /// A receive that is asked for again is told the same leases.
    Repeats,
    /// A message goes where the bindings of an exchange lead, to all of these topics or none.
    Routes,
    /// Nothing ends for its TTL before that has passed.
    Expiry,
    /// A dedup id is known for its window, and no longer.
    Dedup,
    /// A batch of a producer session is decided once.
    Sessions,
    /// A message survives as many failures as it may.
    Failures,
    /// A connection has what its client has asked for, and only as long as its session is its own.
    Connections,
    /// A lease lasts for as long as it should, and no longer.
    Leases,
    /// After a start nothing runs out before the grace is over.
    Grace,
    /// Nobody is given more than it has granted.
    Credit,
    /// What is answered survives a cut of the power.
    Survival,
    /// The life itself was no use: it saw too little to prove anything.
    Sights,
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checker::Lost => "confirmed and lost",
            Checker::Back => "ended and back",
            Checker::Stuck => "ready and stuck",
            Checker::Offices => "office and epoch",
            Checker::Early => "delayed and early",
            Checker::Halves => "forwarded by halves",
            Checker::Order => "out of order",
            Checker::Coalescing => "coalesced wrongly",
            Checker::Watermark => "cursor and watermark",
            Checker::Priority => "priority and age",
            Checker::Fairness => "turn and weight",
            Checker::Memory => "idle and in memory",
            Checker::Starts => "seen by a group",
            Checker::Retention => "retained out",
            Checker::Once => "at most once",
            Checker::Repeats => "received again",
            Checker::Routes => "routed by halves",
            Checker::Expiry => "expired early",
            Checker::Dedup => "dedup and window",
            Checker::Sessions => "batch and session",
            Checker::Failures => "failed and dead",
            Checker::Connections => "connection and session",
            Checker::Leases => "lease and deadline",
            Checker::Grace => "start and grace",
            Checker::Credit => "credit and delivery",
            Checker::Survival => "answered and gone",
            Checker::Sights => "saw too little",
        })
    }
}

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{checker}: {what}")]
pub struct Violation {
    /// Who found it.
    pub checker: Checker,
    /// What was found.
    pub what: String,
}

impl Violation {
    /// Something that was confirmed is not there.
    pub fn lost(what: String) -> Violation {
        Violation { checker: Checker::Lost, what }
    }

    /// Something is there again, or twice.
    pub fn back(what: String) -> Violation {
        Violation { checker: Checker::Back, what }
    }

    /// An answer was told too early.
    pub fn survival(what: String) -> Violation {
        Violation { checker: Checker::Survival, what }
    }

    /// Two leaders at a time, or messages of one among those of another.
    pub fn offices(what: String) -> Violation {
        Violation { checker: Checker::Offices, what }
    }

    /// Something is ready before its time.
    pub fn early(what: String) -> Violation {
        Violation { checker: Checker::Early, what }
    }

    /// One half of what is one is there.
    pub fn halves(what: String) -> Violation {
        Violation { checker: Checker::Halves, what }
    }

    /// Something does not come to its end.
    pub fn stuck(what: String) -> Violation {
        Violation { checker: Checker::Stuck, what }
    }
}

macro_rules! violations {
    ($($name:ident: $checker:ident,)*) => {
        impl Violation {
            $(#[doc = concat!("Of [`Checker::", stringify!($checker), "`].")]
            pub fn $name(what: String) -> Violation {
                Violation { checker: Checker::$checker, what }
            })*
        }
    };
}

violations! {
    order: Order,
    coalescing: Coalescing,
    watermark: Watermark,
    priority: Priority,
    fairness: Fairness,
    memory: Memory,
    starts: Starts,
    retention: Retention,
    once: Once,
    repeats: Repeats,
    routes: Routes,
    expiry: Expiry,
    dedup: Dedup,
    sessions: Sessions,
    failures: Failures,
    connections: Connections,
    leases: Leases,
    grace: Grace,
    credit: Credit,
}
