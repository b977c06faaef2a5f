//! Faults put in on purpose, in the world around the core: each has to be caught by its checker, which proves that the
//! checker looks.

use millpond_core::Now;
use millpond_core::command::{Command, DeadMove, Move};
use millpond_core::output::{Output, Reply};
use millpond_types::Millis;

/// How far ahead of time a core is that is hurried.
const HURRY: Millis = Millis::seconds(60);

/// A deliberate fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Publishes are confirmed as durable when they are written only: a power cut loses confirmed messages.
    Lost,
    /// Acks are confirmed when they are written only: a power cut brings ended messages back.
    Back,
    /// Leaders are told when it is written only: a power cut lets another one have their epoch.
    Reigns,
    /// A delivery is dropped on its way, and its session goes on extending the lease.
    Stuck,
    /// The core is told that it is later than it is.
    Early,
    /// Of an ack and a publish as one, the ack gets lost.
    Halves,
    /// What is moved is not what was read: the last byte of its body is another one.
    Moved,
}

impl Canary {
    /// The canary of a name.
    pub fn named(name: &str) -> Option<Canary> {
        match name {
            "lost" => Some(Canary::Lost),
            "back" => Some(Canary::Back),
            "reigns" => Some(Canary::Reigns),
            "stuck" => Some(Canary::Stuck),
            "early" => Some(Canary::Early),
            "halves" => Some(Canary::Halves),
            "moved" => Some(Canary::Moved),
            _ => None,
        }
    }

    /// What the core is told the time is.
    pub fn hurries(self, now: Now) -> Now {
        if self == Canary::Early { Now { wall: now.wall + HURRY, ..now } } else { now }
    }

    /// What becomes of a command on its way to the core.
    pub fn halves(self, command: Command) -> Command {
        match command {
            Command::Forward(forward) if self == Canary::Halves => Command::Publish(forward.publish),
            command => command,
        }
    }

    /// Whether an output that has to wait for the sync is told without.
    pub fn tells_early(self, output: &Output) -> bool {
        match (self, output) {
            (Canary::Lost, Output::Reply { reply, .. }) => matches!(reply, Reply::Published { .. }),
            (Canary::Back, Output::Reply { reply, .. }) => matches!(reply, Reply::Finished(_)),
            (Canary::Reigns, Output::Standing { .. } | Output::Delivery { epoch: Some(_), .. }) => true,
            _ => false,
        }
    }

    /// Changes a move on its way to the core.
    pub fn spoil(self, command: &mut Command) {
        if self != Canary::Moved {
            return;
        }
        let (Command::Move(Move { block, .. }) | Command::DeadMove(DeadMove { block, .. })) = command else {
            unreachable!("a mover moves")
        };
        let mut bytes = block.to_vec();
        *bytes.last_mut().expect("a message has bytes") ^= 1;
        *block = bytes.into();
    }

    /// Whether an output is dropped on its way.
    pub fn swallows(self, output: &Output) -> bool {
        self == Canary::Stuck && matches!(output, Output::Delivery { epoch: None, .. })
    }
}
