//! The promises that are watched, and what a life ends with where one is broken.

use std::fmt;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{checker}: {what}")]
pub struct Violation {
    /// Who found it.
    pub checker: Checker,
    /// What was found.
    pub what: String,
}

macro_rules! checkers {
    ($($(#[$doc:meta])* $checker:ident $name:ident $told:literal,)*) => {
        /// The promises that are watched.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Checker {
            $($(#[$doc])* $checker,)*
        }

        impl Checker {
            /// All of them.
            pub const ALL: &[Checker] = &[$(Checker::$checker,)*];
        }

        impl fmt::Display for Checker {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Checker::$checker => $told,)*
                })
            }
        }

        impl Violation {
            $(#[doc = concat!("Of [`Checker::", stringify!($checker), "`].")]
            pub fn $name(what: String) -> Violation {
                Violation { checker: Checker::$checker, what }
            })*
        }
    };
}

checkers! {
    /// Confirmed and lost: what was confirmed is there, with the body that was sent, or has ended by one reason.
    Lost lost "confirmed and lost",
    /// Ended and back: what has ended stays so; nothing is leased or stored twice.
    Back back "ended and back",
    /// Reasons: nothing ends that nobody has asked for, and no limit.
    Reasons reasons "ended and unasked",
    /// Room: nothing is stored beyond what a topic or a namespace may hold.
    Room room "full and stored",
    /// Refusals: nothing is refused for a reason that there is not.
    Refusals refusals "refused without reason",
    /// Growth: sequences, lease numbers, epochs and the numbers of topics only grow, over lives of a topic and restarts.
    Growth growth "number and growth",
    /// Ready and stuck: with willing consumers and enough time everything comes to its end.
    Stuck stuck "ready and stuck",
    /// Office and epoch: an epoch is one leader's, and deliveries of two never mix.
    Offices offices "office and epoch",
    /// Office and term: an office lasts as long as it should, and no longer.
    Terms terms "office and term",
    /// Delayed and early: nothing that is delayed is ready before its time.
    Early early "delayed and early",
    /// Delay and pause: what waits does so for as long, and in the place, as its client or the policy said.
    Places places "delay and place",
    /// Told and true: what is told of a message beside its body is so.
    Told told "told and true",
    /// By halves: what is acked and published as one is both or neither.
    Halves halves "forwarded by halves",
    /// Order: inside a topic messages go in their order, and in strict order they are completed in it.
    Order order "out of order",
    /// Coalescing: one message of a topic is worked on and one waits, which stands for all that came.
    Coalescing coalescing "coalesced wrongly",
    /// Newest: what was published last is followed by a run that begins later, where one message stands for all.
    Newest newest "newest and missed",
    /// Cursors are what they say.
    Watermark watermark "cursor and watermark",
    /// What is counted of groups and namespaces is so.
    Tallies tallies "counted and told",
    /// What stands higher, by priority or by age, goes first.
    Priority priority "priority and age",
    /// Nobody waits for more than a turn of each of the others.
    Fairness fairness "turn and weight",
    /// Idle topics are not in memory where there is no room for them, and leased ones are counted for all that they may take.
    Memory memory "idle and in memory",
    /// A group sees what is published while it is there, and what its start says.
    Starts starts "seen by a group",
    /// Nothing is retained out but what is beyond the bounds.
    Retention retention "retained out",
    /// What is delivered at most once never comes again.
    Once once "at most once",
    /// A receive that is asked for again is told the same leases.
    Repeats repeats "received again",
    /// A message goes where the bindings of an exchange lead, to all of these topics or none.
    Routes routes "routed by halves",
    /// Nothing ends for its TTL before that has passed.
    Expiry expiry "expired early",
    /// A dedup id is known for its window, and no longer.
    Dedup dedup "dedup and window",
    /// A batch of a producer session is decided once.
    Sessions sessions "batch and session",
    /// A message survives as many failures as it may.
    Failures failures "failed and dead",
    /// A connection has what its client has asked for, and only as long as its session is its own.
    Connections connections "connection and session",
    /// A lease lasts for as long as it should, and no longer.
    Leases leases "lease and deadline",
    /// After a start nothing runs out before the grace is over.
    Grace grace "start and grace",
    /// Of a topic with a rate goes no more than that.
    Rates rates "rate and tokens",
    /// Nobody is given more than it has granted.
    Credit credit "credit and delivery",
    /// What is answered survives a cut of the power.
    Survival survival "answered and gone",
    /// The life itself was no use: it saw too little to prove anything.
    Sights sights "saw too little",
}
