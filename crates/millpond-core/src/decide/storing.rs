//! What of a publish is let in: messages that no dedup id tells as known go through quotas, coalescing and overflow, in
//! this order, and are stored. What [`super::publish`] and [`super::forward`] do with it is theirs: each message for
//! itself, nothing but a trial, or all that a trial has let in.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use millpond_types::block::Sizes;
use millpond_types::limits::{FRAME_MAX, PUBLISH_MESSAGES_MAX};
use millpond_types::{
    Coalesce, Code, Counted, DedupWindow, MessageId, Millis, OutcomeRun, Overflow, Policy, Priority, PublishOutcome,
    TopicName, WallTime,
};

use crate::Core;
use crate::command::PublishRun;
use crate::decide::dedup::LookedUp;
use crate::decide::publish::DISK_FULL;
use crate::decide::quota::Pending;
use crate::fact::{DedupMark, Fact, FactLog, GroupNumber, NamespaceNumber};
use crate::state::dedup::FOREVER;

/// Bytes of the details in one answer: a hundred of them, which is more than anybody reads. A producer session keeps those of many
/// batches.
const DETAILS_MAX: usize = 16 * 1024;
/// What the outcome of a message takes in a frame at most, its detail apart.
const OUTCOME: usize = 40;
const OVER_BEFORE_DUE: &str = "a TTL counts from the publish, and this one, or that of the policy, ends before the delay does, so nobody would be given the message: ask for a shorter delay or another ttl";
const _: () = assert!(PUBLISH_MESSAGES_MAX * OUTCOME + DETAILS_MAX < FRAME_MAX);

pub(super) type Runs = Vec<OutcomeRun<PublishOutcome>>;

/// A publish on its way through the checks.
pub(super) struct Storing<'a> {
    pub(super) namespace: NamespaceNumber,
    pub(super) looked_up: LookedUp,
    /// What became of the messages so far.
    pub(super) outcomes: Runs,
    pub(super) way: Way<'a>,
}

/// How messages are let in.
pub(super) enum Way<'a> {
    /// Each for itself.
    Each(&'a mut dyn FactLog),
    /// Not at all: nothing is stored, and what would be is told that it was [refused together] with others.
    ///
    /// [refused together]: Code::RefusedTogether
    Trial(Trial),
    /// All of them, for a trial has let them in.
    Together(&'a mut dyn FactLog),
}

/// What a trial has let in so far.
#[derive(Default)]
pub(super) struct Trial {
    /// Messages, by topics that may be full.
    pub(super) let_in: Vec<(TopicName, u64)>,
    /// What they take of the namespace's quotas.
    pub(super) pending: Pending,
}

/// What the messages of a run have in common, resolved.
pub(super) struct Terms {
    pub(super) due: Option<WallTime>,
    expires: Option<WallTime>,
    /// `None` where the window is off.
    pub(super) dedup_until: Option<WallTime>,
    pub(super) taking: Taking,
}

impl Terms {
    /// Whether nobody would ever be given the message.
    fn is_over_before_due(&self) -> bool {
        self.due.is_some_and(|due| self.expires.is_some_and(|expires| expires <= due))
    }
}

/// What a topic takes in.
#[derive(Clone, Copy)]
pub(super) enum Taking {
    All,
    /// So many, and what becomes of others.
    UpTo(u32, Overflow),
    /// One, and whether that is the latest.
    One {
        latest: bool,
    },
}

/// Some consecutive messages of a run, none of which is known by its dedup id.
pub(super) struct Part<'a> {
    pub(super) run: &'a PublishRun,
    pub(super) range: Range<u32>,
    pub(super) dedup: Vec<DedupMark>,
}

impl<'a> Part<'a> {
    pub(super) fn count(&self) -> u32 {
        self.range.end - self.range.start
    }

    /// Bytes of some of the messages.
    pub(super) fn bytes(&self, of: Range<u32>) -> u64 {
        let (from, sizes) = (self.range.start, &self.run.sizes);
        u64::from(sizes.offset(from + of.end) - sizes.offset(from + of.start))
    }

    /// How many messages from the front have at most so many bytes together.
    pub(super) fn fitting(&self, bytes: u64) -> u32 {
        let (mut low, mut high) = (0, self.count() + 1);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.bytes(0..middle) <= bytes { low = middle } else { high = middle }
        }
        low
    }

    /// Cuts the first `count` messages off.
    pub(super) fn split_front(&mut self, count: u32) -> Part<'a> {
        let behind = self.dedup.split_off(self.dedup.partition_point(|mark| mark.index < count));
        let behind = behind.into_iter().map(|mark| DedupMark { index: mark.index - count, ..mark }).collect();
        let dedup = core::mem::replace(&mut self.dedup, behind);
        let range = self.range.start..self.range.start + count;
        self.range.start = range.end;
        Part { run: self.run, range, dedup }
    }
}

impl Core {
    /// Takes messages in that are not known yet, or says why not.
    pub(super) fn store_part(&mut self, part: Part<'_>, terms: &Terms, storing: &mut Storing<'_>) {
        if part.range.is_empty() {
            return;
        }
        if terms.is_over_before_due() {
            return push(&mut storing.outcomes, part.count(), refusal(Code::ArgumentInvalid, OVER_BEFORE_DUE));
        }
        if self.disk_full {
            return push(&mut storing.outcomes, part.count(), refusal(Code::DiskFull, DISK_FULL));
        }
        let quotas = &self.state.namespaces[storing.namespace].policies.base.quotas;
        match storing.way {
            Way::Each(_) | Way::Trial(_) if quotas.limit_publishes() => {
                let quotas = *quotas;
                self.store_within(&quotas, part, terms, storing);
            }
            _ => self.store_fitting(part, terms, storing),
        }
    }

    /// Takes messages in as far as their topic's policy lets it, or says why not.
    pub(super) fn store_fitting(&mut self, part: Part<'_>, terms: &Terms, storing: &mut Storing<'_>) {
        let Storing { namespace, outcomes, way, .. } = storing;
        let namespace = *namespace;
        let log = match way {
            Way::Trial(trial) => return self.try_fitting(namespace, &part, terms, trial, outcomes),
            Way::Each(log) | Way::Together(log) => &mut **log,
        };
        match terms.taking {
            Taking::All => {}
            Taking::One { latest } => return self.coalesce(namespace, part, terms, latest, outcomes, log),
            Taking::UpTo(limit, Overflow::Reject) => {
                return self.store_up_to(namespace, part, terms, limit, outcomes, log);
            }
            Taking::UpTo(limit, Overflow::DropOldest) => {
                let (count, topic) = (part.count(), &part.run.topic);
                let id = self.store(namespace, part, terms, log);
                push(outcomes, count, PublishOutcome::Queued { id });
                return self.drop_oldest(namespace, topic, limit, log);
            }
        }
        let count = part.count();
        let id = self.store(namespace, part, terms, log);
        push(outcomes, count, PublishOutcome::Queued { id });
    }

    /// Says what would become of messages of which nothing is stored.
    fn try_fitting(
        &self,
        namespace: NamespaceNumber,
        part: &Part<'_>,
        terms: &Terms,
        trial: &mut Trial,
        outcomes: &mut Runs,
    ) {
        let mut fitting = part.count();
        if let Taking::UpTo(limit, Overflow::Reject) = terms.taking {
            let topic = &part.run.topic;
            let rooms = self.limited(namespace, topic).map(|group| self.room_to_wait(group, topic, limit));
            let room = rooms.max().unwrap_or(0);
            let known = trial.let_in.iter().position(|(name, _)| name == topic);
            let at = known.unwrap_or_else(|| {
                trial.let_in.push((topic.clone(), 0));
                trial.let_in.len() - 1
            });
            let let_in = &mut trial.let_in[at].1;
            fitting = u64::from(fitting).min(room.saturating_sub(*let_in)) as u32;
            *let_in += u64::from(fitting);
        }
        if fitting > 0 {
            push(outcomes, fitting, refused_together());
        }
        if let (Taking::UpTo(limit, _), 1..) = (terms.taking, part.count() - fitting) {
            push(outcomes, part.count() - fitting, topic_full(limit));
        }
    }

    /// Stores as many messages as any group has room for, in those that have.
    fn store_up_to(
        &mut self,
        namespace: NamespaceNumber,
        mut part: Part<'_>,
        terms: &Terms,
        limit: u32,
        outcomes: &mut Runs,
        log: &mut dyn FactLog,
    ) {
        while part.count() > 0 {
            let groups = self.limited(namespace, &part.run.topic);
            let rooms: Vec<_> = groups.map(|group| (group, self.room_to_wait(group, &part.run.topic, limit))).collect();
            let Some(room) = rooms.iter().map(|(_, room)| *room).filter(|room| *room > 0).min() else {
                return push(outcomes, part.count(), topic_full(limit));
            };
            let full: Vec<_> = rooms.into_iter().filter(|(_, room)| *room == 0).map(|(group, _)| group).collect();
            let fitting = part.split_front(room.min(u64::from(part.count())) as u32);
            let (count, priority) = (fitting.count(), fitting.run.priority);
            let id = self.store_at(namespace, fitting, (priority, full.clone()), terms, log);
            full.into_iter().for_each(|group| self.commit(Fact::Declined { topic: id.topic, group, count }, log));
            push(outcomes, count, PublishOutcome::Queued { id });
        }
    }

    /// Stores messages at their own priority and in all groups; the id of the first.
    fn store(&mut self, namespace: NamespaceNumber, part: Part<'_>, terms: &Terms, log: &mut dyn FactLog) -> MessageId {
        let priority = part.run.priority;
        self.store_at(namespace, part, (priority, Vec::new()), terms, log)
    }

    /// Stores messages, but for some groups; the id of the first.
    pub(super) fn store_at(
        &mut self,
        namespace: NamespaceNumber,
        part: Part<'_>,
        (priority, except): (Priority, Vec<GroupNumber>),
        terms: &Terms,
        log: &mut dyn FactLog,
    ) -> MessageId {
        let (count, Part { run, range, dedup }) = (part.count(), part);
        let slot = self.topics_or_new(namespace, &run.topic, log);
        let topic = &self.state.topics[slot];
        let first = self.next_sequence(topic.number, priority);
        let id = topic.id(priority, first);
        let (from, to) = (run.sizes.offset(range.start), run.sizes.offset(range.end));
        let sizes = match &run.sizes {
            sizes if count == run.count => sizes.clone(),
            Sizes::Uniform(size) => Sizes::Uniform(*size),
            Sizes::Ends(ends) => {
                let ends: Vec<u32> = range.map(|i| ends[i as usize] - from).collect();
                Sizes::from_ends(&ends)
            }
        };
        let fact = Fact::Published {
            topic: topic.number,
            except,
            priority,
            first,
            count,
            published: self.state.now.wall,
            due: terms.due,
            expires: terms.expires,
            dedup_until: terms.dedup_until.filter(|_| !dedup.is_empty()).unwrap_or_default(),
            dedup,
            block: run.block.slice(from as usize..to as usize),
            sizes,
        };
        self.commit(fact, log);
        id
    }

    pub(super) fn terms(&self, policy: &Policy, delay: Millis, ttl: Option<Millis>) -> Terms {
        let now = self.state.now.wall;
        Terms {
            due: (delay > Millis::ZERO).then_some(now + delay),
            expires: ttl.or(policy.ttl).filter(|ttl| *ttl > Millis::ZERO).map(|ttl| now + ttl),
            dedup_until: match policy.dedup_window {
                DedupWindow::Off => None,
                DedupWindow::For(window) => Some(now + window),
                DedupWindow::Forever => Some(FOREVER),
            },
            taking: match (policy.coalesce, policy.max_waiting) {
                (Coalesce::Off, None) => Taking::All,
                (Coalesce::Off, Some(limit)) => Taking::UpTo(limit, policy.overflow),
                (Coalesce::KeepFirst, _) => Taking::One { latest: false },
                (Coalesce::KeepLatest, _) => Taking::One { latest: true },
            },
        }
    }
}

/// What is told of a message that nothing speaks against but what comes with it.
pub(super) fn refused_together() -> PublishOutcome {
    refusal(
        Code::RefusedTogether,
        "a receipt or another message of the same call was refused, so nothing of it was done",
    )
}

/// Takes the details from refusals that come behind many others. The code of each is told, and the answer fits a frame, as
/// the outcomes of a session's batch fit the journal.
pub(super) fn shorten(outcomes: &mut Runs) {
    let mut room = DETAILS_MAX;
    for run in outcomes {
        if let PublishOutcome::Refused { detail, .. } = &mut run.outcome {
            room = room.saturating_sub(detail.len());
            if room == 0 {
                *detail = String::new();
            }
        }
    }
}

pub(super) fn refusal(code: Code, detail: impl ToString) -> PublishOutcome {
    PublishOutcome::Refused { code, detail: detail.to_string() }
}

fn topic_full(limit: u32) -> PublishOutcome {
    let waiting = Counted(limit.into(), "message");
    let detail = format!("the topic's policy lets {waiting} wait; publish again when there is room");
    PublishOutcome::Refused { code: Code::TopicFull, detail }
}

/// Adds an outcome, joined with its neighbour where the two are a run.
pub(super) fn push(outcomes: &mut Runs, count: u32, outcome: PublishOutcome) {
    if let Some(last) = outcomes.last_mut() {
        let joins = match (&last.outcome, &outcome) {
            (PublishOutcome::Queued { id: first }, PublishOutcome::Queued { id }) => {
                first.topic == id.topic
                    && first.priority == id.priority
                    && first.sequence.0 + u64::from(last.count) == id.sequence.0
            }
            (a @ (PublishOutcome::Refused { .. } | PublishOutcome::Coalesced { replaced: None, .. }), b) => a == b,
            _ => false,
        };
        if joins {
            last.count += count;
            return;
        }
    }
    outcomes.push(OutcomeRun { count, outcome });
}
