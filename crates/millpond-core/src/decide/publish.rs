//! Publish. The checks come in this order: session repeat, dedup, limits. Each message has its own outcome.
//!
//! While the disk is full nothing that is new is stored. The outcomes of a session's batch are kept in the journal, of
//! which only the reserve is left then, and that belongs to finishing: so such a batch is refused as a whole, undecided,
//! and its number stays free. Every batch behind it is refused in the same way, until there is room and it comes again.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use millpond_types::block::Sizes;
use millpond_types::limits::{PUBLISH_BYTES_MAX, PUBLISH_MESSAGES_MAX};
use millpond_types::{Code, DedupWindow, Millis, OutcomeRun, Policy, PublishOutcome, Sequence, WallTime};

use crate::Core;
use crate::command::{Publish, PublishRun};
use crate::decide::Refusal;
use crate::decide::dedup::{Coming, LookedUp};
use crate::fact::{DedupMark, Fact, FactLog, NamespaceNumber};
use crate::outcomes::Outcomes;
use crate::output::Reply;
use crate::state::dedup::FOREVER;

pub(super) type Runs = Vec<OutcomeRun<PublishOutcome>>;

/// A publish on its way through the checks.
pub(super) struct Storing<'a> {
    pub(super) namespace: NamespaceNumber,
    pub(super) looked_up: LookedUp,
    /// What became of the messages so far.
    pub(super) outcomes: Runs,
    /// `None` for a trial: nothing is stored, and what would be is told that it was [refused together] with others.
    ///
    /// [refused together]: Code::RefusedTogether
    pub(super) log: Option<&'a mut dyn FactLog>,
}

/// What the messages of a run have in common, resolved.
struct Terms {
    due: Option<WallTime>,
    expires: Option<WallTime>,
    /// `None` where the window is off.
    dedup_until: Option<WallTime>,
}

impl Core {
    pub(super) fn publish(&mut self, publish: Publish, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&publish.namespace)?;
        if let Some(batch) = publish.producer
            && let Some(outcomes) = self.repeated(namespace, batch, &publish.runs)?
        {
            return Ok(Reply::Published { level: publish.level, outcomes });
        }
        check_size(&publish.runs)?;
        let looked_up = core::mem::take(&mut self.looked_up);
        if self.disk_full && publish.producer.is_some() && !looked_up.are_all_seen(messages(&publish.runs)) {
            return Err((Code::DiskFull, DISK_FULL.into()));
        }
        let mut storing = Storing { namespace, looked_up, outcomes: Vec::new(), log: Some(&mut *log) };
        for run in &publish.runs {
            self.publish_run(run, &mut storing);
        }
        let outcomes = storing.outcomes;
        if let Some(batch) = publish.producer {
            let fact = Fact::ProducerBatch {
                namespace,
                producer: batch.id,
                instance: batch.instance,
                sequence: batch.sequence,
                at: self.state.now.wall,
                outcomes: Outcomes::new(&outcomes),
            };
            self.commit(fact, log);
        }
        Ok(Reply::Published { level: publish.level, outcomes })
    }

    /// Stores the messages of a run, each for itself.
    pub(super) fn publish_run(&mut self, run: &PublishRun, storing: &mut Storing<'_>) {
        let namespace = storing.namespace;
        let terms = self.terms(&self.state.namespaces[namespace].policy, run.delay, run.ttl);
        let (mut from, mut pending) = (0, Vec::new());
        let (mut marks, mut large) = (run.dedup.iter().peekable(), run.too_large.iter().peekable());
        while let Some(index) =
            [marks.peek().map(|m| m.index), large.peek().map(|l| l.index)].into_iter().flatten().min()
        {
            let mark = marks.next_if(|mark| mark.index == index);
            let large = large.next_if(|large| large.index == index);
            let coming = mark.map(|mark| storing.looked_up.next(mark.hash));
            let is_off = mark.is_some() && terms.dedup_until.is_none();
            let marked = |mark: &DedupMark, from| DedupMark { index: mark.index - from, hash: mark.hash };
            if large.is_none() && !is_off && matches!(coming, None | Some(Coming::New)) {
                pending.extend(mark.map(|mark| marked(mark, from)));
                continue;
            }
            // The messages before this one are stored first: it may repeat one of them.
            self.store(run, from..index, core::mem::take(&mut pending), &terms, storing);
            let seen = match coming {
                _ if is_off => None,
                Some(Coming::Seen(id)) => Some(id),
                Some(Coming::New | Coming::Repeated) => {
                    let hash = mark.expect("only a dedup id comes again").hash;
                    self.state.remembered(namespace, hash).map(|page| page.id)
                }
                None => None,
            };
            let outcome = match (seen, large) {
                (Some(id), _) => {
                    let state = self.state.state_of(namespace, &run.topic, id);
                    let state = state.expect("what a command needs is fetched before it is decided");
                    PublishOutcome::Duplicate { id, state }
                }
                _ if is_off => refusal(
                    Code::DedupOff,
                    "the namespace's dedup window is off; publish without a dedup id or set dedup_window",
                ),
                (None, Some(large)) => refusal(Code::MessageTooLarge, large),
                (None, None) => {
                    // The one that it repeats was refused.
                    from = index;
                    pending.extend(mark.map(|mark| marked(mark, from)));
                    continue;
                }
            };
            from = index + 1;
            push(&mut storing.outcomes, 1, outcome);
        }
        self.store(run, from..run.count, pending, &terms, storing);
    }

    /// Stores some consecutive messages of a run, or says why not.
    fn store(
        &mut self,
        run: &PublishRun,
        part: core::ops::Range<u32>,
        dedup: Vec<DedupMark>,
        terms: &Terms,
        storing: &mut Storing<'_>,
    ) {
        if part.is_empty() {
            return;
        }
        let Storing { namespace, outcomes, log, .. } = storing;
        if self.disk_full {
            return push(outcomes, part.end - part.start, refusal(Code::DiskFull, DISK_FULL));
        }
        let Some(log) = log else {
            return push(outcomes, part.end - part.start, refused_together());
        };
        let slot = self.topics_or_new(*namespace, &run.topic, *log);
        let topic = &self.state.topics[slot];
        let next = self.state.topics.next(topic.number, run.priority);
        let first = Sequence(next.0.max(self.state.numbers.raised));
        let id = topic.id(run.priority, first);
        let count = part.end - part.start;
        let (from, to) = (run.sizes.offset(part.start), run.sizes.offset(part.end));
        let sizes = match &run.sizes {
            sizes if count == run.count => sizes.clone(),
            Sizes::Uniform(size) => Sizes::Uniform(*size),
            Sizes::Ends(ends) => {
                let ends: Vec<u32> = part.clone().map(|i| ends[i as usize] - from).collect();
                Sizes::from_ends(&ends)
            }
        };
        let fact = Fact::Published {
            topic: topic.number,
            except: Vec::new(),
            priority: run.priority,
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
        self.commit(fact, *log);
        push(outcomes, count, PublishOutcome::Queued { id });
    }

    fn terms(&self, policy: &Policy, delay: Millis, ttl: Option<Millis>) -> Terms {
        let now = self.state.now.wall;
        Terms {
            due: (delay > Millis::ZERO).then_some(now + delay),
            expires: ttl.or(policy.ttl).filter(|ttl| *ttl > Millis::ZERO).map(|ttl| now + ttl),
            dedup_until: match policy.dedup_window {
                DedupWindow::Off => None,
                DedupWindow::For(window) => Some(now + window),
                DedupWindow::Forever => Some(FOREVER),
            },
        }
    }
}

pub(super) fn check_size(runs: &[PublishRun]) -> Result<(), Refusal> {
    let messages = messages(runs);
    let bytes: u64 = runs.iter().map(|run| run.block.len() as u64).sum();
    if messages == 0 || runs.iter().any(|run| run.count == 0) {
        return Err((Code::ArgumentInvalid, "a publish, and each run in it, holds at least one message".into()));
    }
    if messages > PUBLISH_MESSAGES_MAX as u64 || bytes > PUBLISH_BYTES_MAX as u64 {
        let detail = format!(
            "a publish holds at most {PUBLISH_MESSAGES_MAX} messages and {PUBLISH_BYTES_MAX} bytes; this one has {messages} and {bytes}: send it in parts"
        );
        return Err((Code::LimitExceeded, detail));
    }
    Ok(())
}

pub(super) fn messages(runs: &[PublishRun]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

pub(super) const DISK_FULL: &str = "the disk has no room for another journal segment; consume or purge messages, or make room on the disk, and publish again";

/// What is told of a message that nothing speaks against but what comes with it.
pub(super) fn refused_together() -> PublishOutcome {
    refusal(
        Code::RefusedTogether,
        "a receipt or another message of the same call was refused, so nothing of it was done",
    )
}

fn refusal(code: Code, detail: impl ToString) -> PublishOutcome {
    PublishOutcome::Refused { code, detail: detail.to_string() }
}

/// Adds an outcome, joined with its neighbour where the two are a run.
fn push(outcomes: &mut Runs, count: u32, outcome: PublishOutcome) {
    if let Some(last) = outcomes.last_mut() {
        let joins = match (&last.outcome, &outcome) {
            (PublishOutcome::Queued { id: first }, PublishOutcome::Queued { id }) => {
                first.topic == id.topic
                    && first.priority == id.priority
                    && first.sequence.0 + u64::from(last.count) == id.sequence.0
            }
            (a @ PublishOutcome::Refused { .. }, b) => a == b,
            _ => false,
        };
        if joins {
            last.count += count;
            return;
        }
    }
    outcomes.push(OutcomeRun { count, outcome });
}
