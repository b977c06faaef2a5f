//! A topic as one group has it, and its messages.

use std::collections::BTreeMap;

use millpond_types::{LeaderEpoch, LeaseNumber, Millis, Priority, RunTime, Sequence, SessionId, TopicName, WallTime};

use super::bucket::Bucket;
use super::{Key, Newest};

/// A topic as one group has it.
#[derive(Clone)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Where the sequences of each priority begin.
    pub floor: Sequence,
    /// The next sequence of each priority in use.
    pub next: BTreeMap<Priority, Sequence>,
    /// All messages that are not finished.
    pub messages: BTreeMap<Key, Message>,
    /// Current leases.
    pub leases: BTreeMap<LeaseNumber, Key>,
    /// Whether the start of its group has still to come to it.
    pub is_held: bool,
    /// Whether a rate ever had a say in it: then when it is ready is left to the core.
    pub is_limited: bool,
    /// The tokens of its rate.
    pub bucket: Bucket,
    /// Whether anything of it was ever leased.
    pub was_leased: bool,
    /// What was published last, where one message is enough.
    pub newest: Option<Newest>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// When it was published.
    pub published: WallTime,
    /// Since when it waits, but for the times at which it was leased.
    pub since: WallTime,
    /// When its TTL passes, as it was asked for.
    pub expires: Option<WallTime>,
    /// It was redriven, and is its group's alone.
    pub is_redriven: bool,
    /// Times it was delivered.
    pub deliveries: u32,
    /// Failures.
    pub failures: u32,
    /// Its last lease, and the first of the run that this was of, if any.
    pub last_lease: Option<(LeaseNumber, Option<LeaseNumber>)>,
    /// How many messages had been published when that was given.
    pub leased_at: u64,
    /// On what that was given, or extended last.
    pub terms: Terms,
    /// What it does.
    pub state: State,
}

/// On what a lease was given, or extended last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// The session that extends it by being there; zero for none.
    pub holder: SessionId,
    /// How long it lasts once nobody extends it.
    pub duration: Millis,
    /// When it runs out, where no session holds it.
    pub deadline: RunTime,
    /// Of the leader that it was given to, where its group has leaders.
    pub epoch: Option<LeaderEpoch>,
}

/// What a message does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Never looked at.
    InLine,
    /// Came back or fell due; goes before everything in line from this sequence on, unless the order is strict.
    Back(Sequence),
    /// Not due.
    Delayed(WallTime),
    /// In back-off, or released with a delay.
    Retrying(RunTime),
    /// Leased.
    Leased(LeaseNumber),
}

impl Topic {
    /// The messages that are not leased.
    pub fn waiting(&self) -> impl Iterator<Item = (&Key, &Message)> {
        self.messages.iter().filter(|(_, message)| !message.is_leased())
    }

    /// Current leases, each with its message.
    pub fn leased(&self) -> impl Iterator<Item = (LeaseNumber, &Message)> {
        self.leases.iter().map(|(lease, key)| (*lease, &self.messages[key]))
    }

    /// The next sequence of a priority.
    pub fn next(&self, priority: Priority) -> Sequence {
        self.next.get(&priority).copied().unwrap_or(self.floor)
    }

    /// Every sequence of a priority before this one is finished, and it is the largest such of which that is known.
    pub fn completion(&self, priority: Priority) -> Sequence {
        self.first(priority, |_| true)
    }

    /// The next sequence of a priority that was never looked at.
    pub fn scan(&self, priority: Priority) -> Sequence {
        self.first(priority, |message| message.state == State::InLine)
    }

    fn first(&self, priority: Priority, is: impl Fn(&Message) -> bool) -> Sequence {
        if self.is_held {
            return Sequence(0);
        }
        let mut of = self.messages.iter().filter(|((at, _), message)| *at == priority && is(message));
        of.next().map_or_else(|| self.next(priority), |((_, sequence), _)| *sequence)
    }
}

impl Message {
    /// One that was published.
    pub(super) fn new(published: WallTime, due: Option<WallTime>, expires: Option<WallTime>) -> Message {
        let (since, state) = (due.unwrap_or(published), due.map_or(State::InLine, State::Delayed));
        let (is_redriven, deliveries, failures) = (false, 0, 0);
        let (last_lease, leased_at, terms) = (None, 0, Terms::default());
        Message { published, since, expires, is_redriven, deliveries, failures, last_lease, leased_at, terms, state }
    }

    /// One that was published, died and was redriven, and waits since then.
    pub(super) fn redriven(published: WallTime, since: WallTime) -> Message {
        Message { is_redriven: true, since, ..Message::new(published, None, None) }
    }

    /// Whether its last lease was one of a run.
    pub fn is_of_run(&self) -> bool {
        self.last_lease.is_some_and(|(_, run)| run.is_some())
    }

    /// Whether it is leased.
    pub fn is_leased(&self) -> bool {
        matches!(self.state, State::Leased(_))
    }
}
