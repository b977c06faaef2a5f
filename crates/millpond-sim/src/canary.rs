//! Faults put in on purpose, in the world around the core: each has to be caught by its checker, which proves that the
//! checker looks.

mod commands;
mod told;

use std::time::Instant;

use bytes::Bytes;
use millpond_core::Now;
use millpond_core::command::{Command, DeadMove, Move};
use millpond_core::fact::{Fact, Victims};
use millpond_core::page::Reached;
use millpond_server::manual::Rooms;
use millpond_storage::OpenOptions;
use millpond_types::Millis;

use crate::ledger::Ledger;
use crate::verdict::Checker;

/// How far ahead of time a core is that is hurried.
const HURRY: Millis = Millis::seconds(60);

/// Room in which whoever holds a lease is given no other.
const LITTLE_ROOM: usize = 1 << 10;

/// A deliberate fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Publishes are confirmed as durable when they are written only: a power cut loses confirmed messages.
    Lost,
    /// Publishes are confirmed as buffered before they are written: a kill loses confirmed messages.
    Buffered,
    /// Acks are confirmed when they are written only: a power cut brings ended messages back.
    Back,
    /// Purges, redrives, listings and the like are answered when it is written only.
    Answered,
    /// Leaders are told when it is written only: a power cut lets another one have their epoch.
    Reigns,
    /// A delivery is dropped on its way, and its session goes on extending the lease.
    Stuck,
    /// The core is told that it is later than it is.
    Early,
    /// Messages are published a second before they came.
    Stamps,
    /// Delays are half of what they should be.
    Delays,
    /// So are those that a message is given later.
    Reschedules,
    /// So are those with which it is given back.
    Releases,
    /// What fails goes to the tail where it should go first, and first where it should pause or go to the tail.
    Retries,
    /// What fails pauses twice as long as it should.
    Pauses,
    /// Who is given a message is told of one delivery too many.
    Counts,
    /// What a connection's client is given, it is told to be given once less.
    Stale,
    /// What a client says of a dead letter gets lost.
    Details,
    /// Dead letters are shown with a failure too many.
    Letters,
    /// Who is shown dead letters on a connection is told another reason.
    Shown,
    /// Of an ack and a publish as one, the ack gets lost.
    Halves,
    /// Of an ack and a publish as one, the publish gets lost.
    LostHalves,
    /// What an exchange led somewhere is confirmed when it is written only.
    Copies,
    /// What is moved is not what was read: the last byte of its body is another one.
    Moved,
    /// Topics of which several messages may be leased at a time have twice as many.
    InFlight,
    /// Buckets hold twice as many tokens, which come twice as fast.
    Rates,
    /// Policies of strict order lose their limit.
    Order,
    /// Policies that coalesce lose that.
    Coalescing,
    /// Completion cursors are told one too far.
    Watermark,
    /// The two ways of dispatch are mistaken for each other.
    Priority,
    /// Policies lose their ageing.
    Ageing,
    /// Weights are eight times what they should be.
    Fairness,
    /// Topics have more room in memory than they were given.
    Memory,
    /// Topics that are leased have more room in memory than they were given.
    Rations,
    /// They have next to none.
    Rationed,
    /// Commands that wait for the disk have more room than they were given.
    Parked,
    /// Producer sessions in memory have.
    Producers,
    /// Groups that begin at a time begin with all that there is.
    Starts,
    /// What others finish before a start has come to it is not given to the group that starts.
    Unsaved,
    /// Half of what a retention says is kept.
    Retention,
    /// All is kept, whatever a retention says.
    Kept,
    /// Whoever takes messages at most once is given them at least once.
    Once,
    /// Receives lose their request ids.
    Repeats,
    /// Who asks for something else under the id of a receive is told nothing, as if nothing had come.
    Unlike,
    /// One of the copies of a routed message gets lost.
    Routes,
    /// TTLs are half of what they should be.
    Expiry,
    /// TTLs are twice what they should be.
    LateExpiry,
    /// Dedup ids get lost.
    Dedup,
    /// Dedup ids are known for twice as long as they should be.
    LongDedup,
    /// Batches lose their sessions.
    Sessions,
    /// Messages survive one failure more.
    Failures,
    /// The last byte of what a connection's client is given is another one.
    Frames,
    /// An answer is dropped on its way to a connection.
    Answers,
    /// What a connection that is gone still waits for is not withdrawn.
    Connections,
    /// The broker looks at no clock for connections whose clients are gone.
    HalfOpen,
    /// Leases last half as long as they should.
    Leases,
    /// Heartbeats extend what they leave out as well.
    Exceptions,
    /// Sessions have half of the time to be resumed.
    Resumption,
    /// Who names a lease that is not current is told that it is done.
    Receipts,
    /// Each turn is told a run time that is a minute later.
    Grace,
    /// Run time goes on while the broker is down.
    Outage,
    /// Consumers that are attached have twice the credit.
    Credit,
    /// The frames of a connection ask for twice the credit that its client means.
    Overdrawn,
    /// The frames of a connection attach consumers of everything.
    Filter,
    /// They name none of the leases that a client holds.
    Held,
    /// On a connection a reject or fail is overtaken by what was sent behind it.
    Overtakes,
    /// What a connection is given is told to a consumer that is not its own.
    Strangers,
    /// A receive asks for twice as much.
    Receives,
    /// A receive that waits is not told.
    Waits,
    /// What nobody publishes to is purged, and what was asked for stays.
    Purges,
    /// Another dedup id is forgotten.
    Forgets,
    /// Another topic is paused.
    Paused,
    /// Topics are paused for half as long.
    PauseEnds,
    /// Topics are paused for twice as long.
    LongPauses,
    /// A delivery of a leader comes behind one of the next.
    Mixed,
    /// Groups with a leader are groups like all others.
    Exclusive,
    /// Terms of office are half as long as they should be.
    Terms,
    /// And twice as long.
    LongTerms,
    /// Hand-overs are half as long as they should be.
    Handover,
    /// Where the last one is to stand for all, the first one does.
    Newest,
    /// A newcomer gives way to the message whose place it takes.
    Older,
    /// A topic that comes back begins with the last sequence that it had.
    Growth,
    /// A lease has the number of the last one, which another group had of the topic.
    GrowthGroups,
    /// Leaders are given messages under an epoch that is one lower than theirs.
    GrowthEpochs,
    /// Consumers that are attached are granted nothing more.
    Starved,
    /// A purge ends more than it was asked to.
    Reasons,
    /// Twice as many messages may wait as should, where one more is refused.
    Room,
    /// The same, where the oldest give way.
    Overflow,
    /// Quotas let twice as many messages and topics in.
    Quotas,
    /// And twice as many bytes.
    QuotasBytes,
    /// They let half as much in.
    QuotasNarrow,
    /// Twice as many connections may use a namespace as should.
    Users,
    /// And half as many.
    NoUsers,
    /// Who publishes again what is known is told that the first one has ended, or waits where it has.
    Duplicates,
    /// Groups are told to have accepted one message more.
    Tallies,
    /// And what is delayed is told to wait.
    Counted,
    /// Half as many messages may wait as should, where one more is refused.
    Narrow,
    /// Who names a message by its id is understood to name another.
    Unknown,
    /// Who stands for others does not inherit their failures.
    HeirFailures,
    /// Nor their back-off.
    HeirPause,
    /// Who takes a place has no priority of its own.
    HeirPriority,
}

/// All of them, each with its name and the checker that has to catch it.
pub const CANARIES: [(&str, Canary, Checker); 99] = [
    ("lost", Canary::Lost, Checker::Lost),
    ("buffered", Canary::Buffered, Checker::Lost),
    ("back", Canary::Back, Checker::Back),
    ("answered", Canary::Answered, Checker::Survival),
    ("reigns", Canary::Reigns, Checker::Offices),
    ("stuck", Canary::Stuck, Checker::Stuck),
    ("early", Canary::Early, Checker::Early),
    ("delays", Canary::Delays, Checker::Places),
    ("stamps", Canary::Stamps, Checker::Places),
    ("reschedules", Canary::Reschedules, Checker::Places),
    ("releases", Canary::Releases, Checker::Places),
    ("retries", Canary::Retries, Checker::Places),
    ("pauses", Canary::Pauses, Checker::Places),
    ("counts", Canary::Counts, Checker::Told),
    ("stale", Canary::Stale, Checker::Told),
    ("details", Canary::Details, Checker::Told),
    ("letters", Canary::Letters, Checker::Told),
    ("shown", Canary::Shown, Checker::Told),
    ("halves", Canary::Halves, Checker::Halves),
    ("lost-halves", Canary::LostHalves, Checker::Halves),
    ("copies", Canary::Copies, Checker::Lost),
    ("moved", Canary::Moved, Checker::Lost),
    ("order", Canary::Order, Checker::Order),
    ("in-flight", Canary::InFlight, Checker::Order),
    ("coalescing", Canary::Coalescing, Checker::Coalescing),
    ("watermark", Canary::Watermark, Checker::Watermark),
    ("priority", Canary::Priority, Checker::Priority),
    ("ageing", Canary::Ageing, Checker::Order),
    ("fairness", Canary::Fairness, Checker::Fairness),
    ("memory", Canary::Memory, Checker::Memory),
    ("rations", Canary::Rations, Checker::Memory),
    ("rationed", Canary::Rationed, Checker::Stuck),
    ("parked", Canary::Parked, Checker::Memory),
    ("producers", Canary::Producers, Checker::Memory),
    ("starts", Canary::Starts, Checker::Starts),
    ("unsaved", Canary::Unsaved, Checker::Starts),
    ("retention", Canary::Retention, Checker::Retention),
    ("kept", Canary::Kept, Checker::Retention),
    ("once", Canary::Once, Checker::Once),
    ("repeats", Canary::Repeats, Checker::Repeats),
    ("unlike", Canary::Unlike, Checker::Repeats),
    ("routes", Canary::Routes, Checker::Routes),
    ("expiry", Canary::Expiry, Checker::Expiry),
    ("late-expiry", Canary::LateExpiry, Checker::Expiry),
    ("dedup", Canary::Dedup, Checker::Dedup),
    ("long-dedup", Canary::LongDedup, Checker::Dedup),
    ("sessions", Canary::Sessions, Checker::Sessions),
    ("failures", Canary::Failures, Checker::Failures),
    ("frames", Canary::Frames, Checker::Lost),
    ("answers", Canary::Answers, Checker::Stuck),
    ("connections", Canary::Connections, Checker::Connections),
    ("half-open", Canary::HalfOpen, Checker::Connections),
    ("leases", Canary::Leases, Checker::Leases),
    ("exceptions", Canary::Exceptions, Checker::Leases),
    ("resumption", Canary::Resumption, Checker::Leases),
    ("receipts", Canary::Receipts, Checker::Leases),
    ("grace", Canary::Grace, Checker::Grace),
    ("outage", Canary::Outage, Checker::Grace),
    ("rates", Canary::Rates, Checker::Rates),
    ("credit", Canary::Credit, Checker::Credit),
    ("overdrawn", Canary::Overdrawn, Checker::Credit),
    ("filter", Canary::Filter, Checker::Connections),
    ("held", Canary::Held, Checker::Connections),
    ("overtakes", Canary::Overtakes, Checker::Connections),
    ("strangers", Canary::Strangers, Checker::Connections),
    ("receives", Canary::Receives, Checker::Credit),
    ("waits", Canary::Waits, Checker::Stuck),
    ("purges", Canary::Purges, Checker::Reasons),
    ("forgets", Canary::Forgets, Checker::Dedup),
    ("paused", Canary::Paused, Checker::Order),
    ("pause-ends", Canary::PauseEnds, Checker::Places),
    ("long-pauses", Canary::LongPauses, Checker::Places),
    ("mixed", Canary::Mixed, Checker::Offices),
    ("exclusive", Canary::Exclusive, Checker::Offices),
    ("terms", Canary::Terms, Checker::Terms),
    ("long-terms", Canary::LongTerms, Checker::Terms),
    ("handover", Canary::Handover, Checker::Terms),
    ("newest", Canary::Newest, Checker::Newest),
    ("older", Canary::Older, Checker::Newest),
    ("growth", Canary::Growth, Checker::Growth),
    ("growth-groups", Canary::GrowthGroups, Checker::Growth),
    ("growth-epochs", Canary::GrowthEpochs, Checker::Growth),
    ("starved", Canary::Starved, Checker::Stuck),
    ("reasons", Canary::Reasons, Checker::Reasons),
    ("room", Canary::Room, Checker::Room),
    ("overflow", Canary::Overflow, Checker::Room),
    ("quotas", Canary::Quotas, Checker::Room),
    ("quotas-bytes", Canary::QuotasBytes, Checker::Room),
    ("quotas-narrow", Canary::QuotasNarrow, Checker::Refusals),
    ("users", Canary::Users, Checker::Room),
    ("no-users", Canary::NoUsers, Checker::Refusals),
    ("duplicates", Canary::Duplicates, Checker::Dedup),
    ("tallies", Canary::Tallies, Checker::Tallies),
    ("counted", Canary::Counted, Checker::Tallies),
    ("narrow", Canary::Narrow, Checker::Refusals),
    ("unknown", Canary::Unknown, Checker::Refusals),
    ("heir-failures", Canary::HeirFailures, Checker::Coalescing),
    ("heir-pause", Canary::HeirPause, Checker::Coalescing),
    ("heir-priority", Canary::HeirPriority, Checker::Coalescing),
];

impl Canary {
    /// The canary of a name.
    pub fn named(name: &str) -> Option<Canary> {
        CANARIES.into_iter().find(|(of, ..)| *of == name).map(|(_, canary, _)| canary)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let (name, ..) = CANARIES.into_iter().find(|(_, canary, _)| *canary == self).expect("all of them are there");
        name
    }

    /// What the core is told the time is.
    pub fn hurries(self, now: Now) -> Now {
        match self {
            Canary::Early => Now { wall: now.wall + HURRY, ..now },
            Canary::Grace => Now { run: now.run + HURRY, ..now },
            _ => now,
        }
    }

    /// What the broker thinks the time is when it looks at a connection.
    pub fn stops_the_clock(self, now: Instant, last_sign: Option<Instant>) -> Instant {
        last_sign.filter(|_| self == Canary::HalfOpen).unwrap_or(now)
    }

    /// What those who look on are told of a fact: in the core itself nothing can be got wrong.
    pub fn retells(self, fact: &Fact, ledger: &Ledger) -> Option<Fact> {
        let mut fact = fact.clone();
        match (self, &mut fact) {
            (Canary::Stamps, Fact::Published { published, .. }) => published.0 = published.0.saturating_sub(1000),
            (Canary::HeirFailures, Fact::Superseded { failures, .. }) => *failures = 0,
            (
                Canary::Older,
                Fact::Superseded { which: Victims::Waiting { priority: of, first, count: 1 }, priority, by, .. },
            ) => {
                std::mem::swap(of, priority);
                std::mem::swap(first, by);
            }
            (Canary::Growth, Fact::Published { topic, priority, first, .. }) => {
                let last = ledger.reached(*topic, *priority).filter(|last| last.topic != *topic)?;
                *first = last.sequence;
            }
            (Canary::GrowthGroups, Fact::Leased { topic, group, lease, .. }) => {
                *lease = ledger.leased_elsewhere(*topic, *group)?;
            }
            (Canary::HeirPause, Fact::Superseded { until, .. }) => *until = None,
            (Canary::Unsaved, Fact::Copied { messages, rest: Some(Reached::BEGINNING), .. }) => messages.clear(),
            _ => return None,
        }
        Some(fact)
    }

    /// How the directory is opened.
    pub fn swells(self, options: &OpenOptions) -> OpenOptions {
        let room = if self == Canary::Memory { usize::MAX } else { options.room };
        OpenOptions { room, ..options.clone() }
    }

    /// How much room there is, which should be so much.
    pub fn widens(self, rooms: Rooms) -> Rooms {
        match self {
            Canary::Parked => Rooms { parked: usize::MAX, ..rooms },
            Canary::Producers => Rooms { producers: usize::MAX, ..rooms },
            _ => rooms,
        }
    }

    /// How much room topics have that are leased, which should have so much.
    pub fn allots(self, room: usize) -> usize {
        match self {
            Canary::Rations => usize::MAX,
            Canary::Rationed => LITTLE_ROOM,
            _ => room,
        }
    }

    /// What a start takes the times of the last run to have been.
    pub fn dates(self, now: Now) -> Now {
        if self == Canary::Outage { Now { run: now.run + HURRY, ..now } } else { now }
    }

    /// Changes a move on its way to the core.
    pub fn spoil(self, command: &mut Command) {
        if self != Canary::Moved {
            return;
        }
        let (Command::Move(Move { block, .. }) | Command::DeadMove(DeadMove { block, .. })) = command else {
            unreachable!("a mover moves")
        };
        *block = changed(block);
    }
}

/// The same but for the last byte.
fn changed(block: &[u8]) -> Bytes {
    let mut bytes = block.to_vec();
    *bytes.last_mut().expect("a message has bytes") ^= 1;
    bytes.into()
}
