//! The state told as plain data: what a checkpoint keeps and what a topic that leaves memory is turned into.
//!
//! Pages and facts are the only two forms in which state crosses the core's border. Their byte forms are
//! `millpond-storage`'s business. Everything here is in a fixed order: equal states give equal pages.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::block::Sizes;
use millpond_types::{
    Binding, Counts, ExchangeKind, ExchangeName, GroupName, LeaderEpoch, LeaseNumber, MessageId, Millis, NamespaceName,
    OfficeTerms, Pause, Policy, Priority, ProducerId, Rules, RunTime, Sequence, SessionId, Start, Tally, TopicName,
    TopicNumber, Unroutable, WallTime,
};

use crate::fact::{CopiedRun, DeadReason, Epoch, GroupNumber, NamespaceNumber};
pub use crate::marks::Marks;
use crate::outcomes::Outcomes;
use crate::store::{Key, Moment, Name, Range, SHELVES, Shelf};

/// A piece of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    /// Exactly one, and first.
    Numbers(NumbersPage),
    /// A namespace; before its topics.
    Namespace(Box<NamespacePage>),
    /// A topic.
    Topic(TopicPage),
    /// A dead letter.
    Dead(DeadPage),
    /// A dedup id.
    Dedup(DedupPage),
    /// A producer session.
    Producer(ProducerPage),
    /// The next deadline of a topic that is not in memory.
    Due(DuePage),
    /// Messages of a topic that have an entry of their own.
    Piece(PiecePage),
    /// An exchange; behind its namespace.
    Exchange(Box<ExchangePage>),
}

/// The numbers that outlive what they name, and the times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumbersPage {
    /// The key of every hash.
    pub hash_key: [u64; 2],
    /// The next topic's number.
    pub next_topic: u64,
    /// The next namespace's number.
    pub next_namespace: NamespaceNumber,
    /// The next group's number.
    pub next_group: GroupNumber,
    /// Above every sequence and lease number ever given out.
    pub high_water: u64,
    /// The highest epoch that an office ever had.
    pub epochs: LeaderEpoch,
    /// Every number given out from the last raise on is at least this.
    pub raised: u64,
    /// Where run time stood.
    pub run: RunTime,
    /// Where wall time stood.
    pub wall: WallTime,
    /// That of the facts behind the checkpoint.
    pub epoch: Epoch,
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespacePage {
    /// Its number.
    pub number: NamespaceNumber,
    /// Its name.
    pub name: NamespaceName,
    /// Its policy.
    pub policy: Policy,
    /// What it says otherwise for some topics.
    pub rules: Rules,
    /// The policy's version.
    pub version: u64,
    /// What is paused, in order.
    pub paused: Vec<Pause>,
    /// Its groups, in the order of their numbers.
    pub groups: Vec<GroupPage>,
}

/// An exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangePage {
    /// Its namespace.
    pub namespace: NamespaceNumber,
    /// Its name.
    pub name: ExchangeName,
    /// What its bindings ask.
    pub kind: ExchangeKind,
    /// What becomes of a message that none takes.
    pub unroutable: Unroutable,
    /// Its version.
    pub version: u64,
    /// Its bindings, in order.
    pub bindings: Vec<Binding>,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPage {
    /// Its number.
    pub number: GroupNumber,
    /// Its name.
    pub name: GroupName,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// Where it began.
    pub start: Start,
    /// How far its start has come; `None` if it is over.
    pub starting: Option<Reached>,
    /// The version of the policy that all its topics have still to be settled by; `None` if they are.
    pub unsettled: Option<u64>,
    /// Its office, if it is exclusive.
    pub office: Option<Box<OfficePage>>,
    /// What its messages are doing.
    pub counts: Counts,
    /// What has become of what was published to it.
    pub tally: Tally,
    /// When those of its messages were published that nobody has leased: spans of time, in order.
    pub spans: Vec<Span>,
    /// Bytes of the journal that it needs.
    pub bytes: u64,
    /// How many topics it has.
    pub topics: u64,
    /// How many of them have an entry in the store, by [`Shelf::index`](crate::store::Shelf::index).
    pub shelves: [u64; SHELVES],
}

impl GroupPage {
    /// Where in the store its topics are that are never cold, and that every start of the broker loads: those that are leased
    /// from, and those that its own start has still to come to, all of which are idle.
    pub fn loaded(&self) -> impl Iterator<Item = Range> {
        let of = |shelf, from: &[u8]| Range {
            from: Key::topic_bound(self.number, shelf, from),
            until: Key::topic_bound(self.number, shelf, &[u8::MAX]),
            limit: u32::MAX,
        };
        let held = self.starting.iter().map(move |reached| of(Shelf::Idle, &reached.at));
        core::iter::once(of(Shelf::Busy, &[])).chain(held)
    }
}

/// How many messages of a group were published in a span of time, of those that it holds and nobody has leased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When the first of them was published, or none that is there still.
    pub first: WallTime,
    /// The same of the last.
    pub last: WallTime,
    /// How many there are; at least one.
    pub count: u64,
}

/// How far the start of a group has come: the topics before a place have what it is given of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reached {
    /// The place in the order of names, as they stand in keys.
    pub at: Vec<u8>,
    /// Of the topic that stands there: the first message, in the order of descending priorities, that was not gone over.
    pub rest: Option<(Priority, Sequence)>,
}

impl Reached {
    /// Before all messages of a topic.
    pub const BEGINNING: (Priority, Sequence) = (Priority::HIGHEST, Sequence(0));

    /// Whether messages that a group was given were saved for it, and its start is where it was.
    pub fn is_of_saved(messages: &[CopiedRun], rest: Option<(Priority, Sequence)>) -> bool {
        !messages.is_empty() && rest == Some(Reached::BEGINNING)
    }

    /// Where it goes on in a topic, if it is in the midst of that.
    pub(crate) fn rest_of(&self, name: &TopicName) -> Option<(Priority, Sequence)> {
        self.rest.filter(|_| Name::compare_key(name.as_bytes(), &self.at).is_eq())
    }

    /// The first message of a priority of a topic that it has not gone over, and whose line it is still to come to.
    pub(crate) fn first_of(&self, name: &TopicName, priority: Priority) -> Sequence {
        match self.rest_of(name) {
            Some((of, _)) if priority > of => Sequence(u64::MAX),
            Some((of, sequence)) if priority == of => sequence,
            _ => Sequence(0),
        }
    }
}

/// The office of an exclusive group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfficePage {
    /// How long it is held.
    pub terms: OfficeTerms,
    /// That of the last leader.
    pub epoch: LeaderEpoch,
    /// Who holds it.
    pub leader: Option<SessionId>,
    /// Whose leases may last, and until when at most: nothing is delivered before they are over.
    pub outgoing: Option<(SessionId, RunTime)>,
}

/// A group's topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPage {
    /// Its number.
    pub number: TopicNumber,
    /// The group that it is of.
    pub group: GroupNumber,
    /// Its name.
    pub name: TopicName,
    /// Where the sequences of a priority that it has not used yet begin.
    pub floor: u64,
    /// Above every lease number that it was given.
    pub next_lease: LeaseNumber,
    /// In which it last came into being or was recalled ([`Fact::TopicRecalled`](crate::fact::Fact::TopicRecalled)).
    pub epoch: Epoch,
    /// What it holds, by priority, lowest first; priorities never used are absent.
    pub levels: Vec<LevelPage>,
    /// Its tokens, where something was leased under a rate.
    pub bucket: Option<BucketPage>,
    /// Where it stands, if something that waits in it was raised or will be.
    pub age: Option<AgePage>,
    /// Whether all else in it waits for what is in retry, as strict order says.
    pub waits_for_retry: bool,
}

impl TopicPage {
    /// A topic in which messages of the default priority wait that were never looked at, and nothing else happened.
    pub fn of_line(number: TopicNumber, group: GroupNumber, name: TopicName, floor: u64, runs: Vec<RunPage>) -> Self {
        let next = runs.last().map_or(Sequence(floor), RunPage::end);
        let (stored, aside, resting) = (Vec::new(), Vec::new(), Vec::new());
        let levels = alloc::vec![LevelPage { priority: Priority::DEFAULT, next, runs, stored, aside, resting }];
        let (next_lease, epoch, bucket, age, waits_for_retry) = (LeaseNumber(floor), 0, None, None, false);
        TopicPage { number, group, name, floor, next_lease, epoch, levels, bucket, age, waits_for_retry }
    }
}

/// Where a topic stands for the time that its messages have waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgePage {
    /// The level, unless something of a higher priority is ready.
    pub level: Priority,
    /// When it stands one higher, if nothing happens to it before.
    pub raise: Option<WallTime>,
}

/// The tokens of a topic's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketPage {
    /// When all of them are there again, in nanoseconds of run time.
    pub full: u64,
    /// Until when there is none, where that was so when something was leased last.
    pub dry: Option<RunTime>,
}

/// One priority of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelPage {
    /// The priority.
    pub priority: Priority,
    /// The next sequence.
    pub next: Sequence,
    /// Messages never looked at, in order, but for those of `stored`.
    pub runs: Vec<RunPage>,
    /// The pieces of the line that have entries of their own, in order. Each stands between two of `runs` by its
    /// sequences.
    pub stored: Vec<StoredPiece>,
    /// Messages looked at or set aside and not finished, in order, but for those of `resting`.
    pub aside: Vec<AsidePage>,
    /// The pieces of messages that rest which have entries of their own, in order.
    pub resting: Vec<StoredResting>,
}

impl LevelPage {
    /// How many messages are in line.
    pub fn waiting(&self) -> u64 {
        let stored: u64 = self.stored.iter().map(|piece| piece.messages).sum();
        self.runs.iter().map(|run| u64::from(run.count)).sum::<u64>() + stored
    }
}

/// What a line remembers of a piece of it that is in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredPiece {
    /// Its first message.
    pub first: Sequence,
    /// The sequence behind its last message.
    pub end: Sequence,
    /// How many messages there are. Those missing in between are finished, or aside.
    pub messages: u64,
    /// Since when the first message waits.
    pub head: WallTime,
    /// When the oldest was published.
    pub published: WallTime,
    /// When the first TTL passes; [`WallTime::NEVER`] for none.
    pub expires: WallTime,
}

impl StoredPiece {
    /// Whether none is missing from its first message to its last.
    pub(crate) fn is_whole(&self) -> bool {
        self.messages == self.end.0 - self.first.0
    }
}

/// What a level remembers of a piece of its resting messages that is in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredResting {
    /// Its first message.
    pub first: Sequence,
    /// The sequence behind its last message.
    pub end: Sequence,
    /// How many messages there are. Those missing in between are finished, in line, or aside in memory.
    pub messages: u64,
    /// How many of them are in retry.
    pub retrying: u64,
    /// When the oldest was published.
    pub published: WallTime,
    /// When the first delay ends; [`WallTime::NEVER`] for none.
    pub due: WallTime,
    /// When the first TTL passes; [`WallTime::NEVER`] for none.
    pub expires: WallTime,
    /// When the first back-off ends; `None` where no message is in retry.
    pub retry: Option<RunTime>,
}

/// Messages of a level that have an entry of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PiecePage {
    /// The topic.
    pub topic: TopicNumber,
    /// The group that it is of.
    pub group: GroupNumber,
    /// The priority.
    pub priority: Priority,
    /// What they are doing.
    pub messages: PieceMessages,
}

/// The messages of a piece, in order; at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PieceMessages {
    /// Never looked at: a piece of a line.
    Line(Vec<RunPage>),
    /// Delayed or in retry.
    Resting(Vec<AsidePage>),
}

impl LevelPage {
    /// Puts the messages of a piece back where they would be if it had none: for those who compare states, whatever is in
    /// pieces.
    pub fn take_in(&mut self, piece: PieceMessages) {
        match piece {
            PieceMessages::Line(runs) => {
                self.stored.retain(|stored| stored.first != runs[0].first);
                self.runs.extend(runs);
                self.runs.sort_by_key(|run| run.first);
            }
            PieceMessages::Resting(messages) => {
                self.resting.retain(|stored| stored.first != messages[0].run.first);
                self.aside.extend(messages);
                self.aside.sort_by_key(|aside| aside.run.first);
            }
        }
    }
}

impl PiecePage {
    /// The first message.
    pub fn first(&self) -> Sequence {
        self.runs().next().expect("a piece is not empty").first
    }

    /// Its messages.
    pub fn runs(&self) -> impl Iterator<Item = &RunPage> {
        let (line, aside) = self.messages.parts();
        line.iter().chain(aside.iter().map(|aside| &aside.run))
    }
}

impl PieceMessages {
    /// Those in line, and those aside.
    pub fn parts(&self) -> (&[RunPage], &[AsidePage]) {
        match self {
            PieceMessages::Line(runs) => (runs, &[]),
            PieceMessages::Resting(messages) => (&[], messages),
        }
    }
}

/// Consecutive messages whose blocks lie together. What they were published with is shared by all that is cut from
/// them; in a page stands only what is of these messages ([`RunPage::compact`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunPage {
    /// The first message.
    pub first: Sequence,
    /// The journal position of message 0 of `sizes`.
    pub position: u64,
    /// When they were published.
    pub published: WallTime,
    /// When their TTL passes; [`WallTime::NEVER`] for none.
    pub expires: WallTime,
    /// Where each message lies.
    pub sizes: Sizes,
    /// The dedup ids that they came with.
    pub marks: Option<Arc<Marks>>,
    /// How many.
    pub count: u32,
    /// The index in `sizes` and `marks` of the first message.
    pub index: u32,
}

/// Messages out of line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AsidePage {
    /// The messages.
    pub run: RunPage,
    /// Times they were delivered.
    pub deliveries: u32,
    /// Failures.
    pub failures: u32,
    /// Since when they wait, but for the times at which they were leased.
    pub since: WallTime,
    /// Why they are out of line.
    pub state: AsideState,
}

/// Why messages are out of line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsideState {
    /// Ready, once everything before this sequence has been looked at; zero for at once.
    Ready {
        /// The sequence.
        behind: Sequence,
    },
    /// Not due.
    Delayed {
        /// When.
        due: WallTime,
    },
    /// Failed or released with a delay.
    Retrying {
        /// When.
        due: RunTime,
    },
    /// Leased.
    Leased {
        /// The first lease; the others follow one by one.
        lease: LeaseNumber,
        /// The first lease of the run that they were leased in.
        run: Option<LeaseNumber>,
        /// The session, zero for none.
        holder: SessionId,
        /// How long a lease lasts from a heartbeat.
        duration: Millis,
        /// When it runs out, where no session holds it.
        deadline: RunTime,
    },
}

/// A dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadPage {
    /// Its namespace.
    pub namespace: NamespaceNumber,
    /// Its group.
    pub group: GroupNumber,
    /// The topic it came from.
    pub topic: TopicName,
    /// Its id.
    pub id: MessageId,
    /// A run of one.
    pub run: RunPage,
    /// Times it was delivered.
    pub deliveries: u32,
    /// Failures.
    pub failures: u32,
    /// Why.
    pub reason: DeadReason,
    /// What the consumer said.
    pub detail: Bytes,
    /// When.
    pub died: WallTime,
}

/// A dedup id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DedupPage {
    /// Its namespace.
    pub namespace: NamespaceNumber,
    /// Its hash.
    pub hash: u128,
    /// The message that it came with.
    pub id: MessageId,
    /// Until when it is remembered.
    pub until: WallTime,
}

/// When time changes a topic that is not in memory, if nothing else does before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DuePage {
    /// The moment.
    pub at: Moment,
    /// The topic's group.
    pub group: GroupNumber,
    /// The topic's name.
    pub name: TopicName,
    /// Where the topic's entry is.
    pub shelf: Shelf,
}

/// A producer session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerPage {
    /// Its namespace.
    pub namespace: NamespaceNumber,
    /// The producer.
    pub id: ProducerId,
    /// Its instance.
    pub instance: u32,
    /// When it was last used.
    pub used: WallTime,
    /// The number of its last batch.
    pub last: u64,
    /// What was told of its last batches, in order, that of the last one at the end.
    pub batches: Vec<Outcomes>,
}
