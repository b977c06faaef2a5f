//! Publish. The checks come in this order: session repeat, dedup, limits. Each message has its own outcome.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use millpond_types::block::Sizes;
use millpond_types::limits::{PUBLISH_BYTES_MAX, PUBLISH_MESSAGES_MAX};
use millpond_types::{Code, DedupWindow, Millis, OutcomeRun, Policy, PublishOutcome, Sequence, WallTime};

use crate::Core;
use crate::command::{ProducerBatch, Publish, PublishRun};
use crate::decide::Refusal;
use crate::decide::dedup::{Coming, LookedUp};
use crate::fact::{DedupMark, Fact, FactLog, NamespaceNumber};
use crate::outcomes::Outcomes;
use crate::output::Reply;
use crate::state::dedup::FOREVER;

type Runs = Vec<OutcomeRun<PublishOutcome>>;

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
        if self.disk_full {
            let detail = "the disk has no room for another journal segment; consume or purge messages, or make room on the disk, and publish again";
            return Err((Code::DiskFull, detail.into()));
        }
        let (mut outcomes, mut looked_up) = (Vec::new(), core::mem::take(&mut self.looked_up));
        for run in &publish.runs {
            self.publish_run(namespace, run, &mut looked_up, &mut outcomes, log);
        }
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

    /// The outcomes of a batch that was decided before; `None` if the batch is the next one.
    fn repeated(
        &self,
        namespace: NamespaceNumber,
        batch: ProducerBatch,
        runs: &[PublishRun],
    ) -> Result<Option<Runs>, Refusal> {
        let known = self.state.producers.get(&(namespace, batch.id));
        let known = known.filter(|producer| !producer.is_forgotten(self.state.now.wall));
        let Some(producer) = known.filter(|producer| producer.instance >= batch.instance) else {
            return match batch.sequence {
                1 => Ok(None),
                n => Err((
                    Code::SessionUnknown,
                    format!("batch {n} begins a producer session that is not known here; begin a new one with batch 1"),
                )),
            };
        };
        if producer.instance > batch.instance {
            let detail =
                format!("instance {} of this producer has taken over from {}", producer.instance, batch.instance);
            return Err((Code::ProducerFenced, detail));
        }
        let last = producer.last;
        if batch.sequence == last + 1 {
            return Ok(None);
        }
        match producer.outcomes(batch.sequence) {
            Some(outcomes) => {
                let decided = outcomes.messages();
                let came: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
                if decided != came {
                    let detail = format!(
                        "batch {} was decided with {decided} messages, and this one has {came}: it is another batch; a producer that starts anew takes a higher instance",
                        batch.sequence
                    );
                    return Err((Code::ProducerFenced, detail));
                }
                Ok(Some(outcomes.runs().collect()))
            }
            None if batch.sequence > last => {
                let detail =
                    format!("batch {} came, and the last one here is {last}; send {} first", batch.sequence, last + 1);
                Err((Code::SequenceGap, detail))
            }
            None => {
                let detail = format!(
                    "batch {} was decided, but its outcomes are no longer kept (the last is {last})",
                    batch.sequence
                );
                Err((Code::SequenceGap, detail))
            }
        }
    }

    fn publish_run(
        &mut self,
        namespace: NamespaceNumber,
        run: &PublishRun,
        looked_up: &mut LookedUp,
        outcomes: &mut Runs,
        log: &mut dyn FactLog,
    ) {
        let terms = self.terms(&self.state.namespaces[namespace].policy, run.delay, run.ttl);
        let mut pending: Vec<DedupMark> = Vec::new();
        let mut from = 0;
        for mark in run.dedup.iter().copied() {
            let coming = looked_up.next(mark.hash);
            let refused = terms.dedup_until.is_none();
            if !refused && matches!(coming, Coming::New) {
                pending.push(DedupMark { index: mark.index - from, hash: mark.hash });
                continue;
            }
            // The messages before this one are stored first: it may repeat one of them.
            self.store(namespace, run, from..mark.index, core::mem::take(&mut pending), &terms, outcomes, log);
            from = mark.index + 1;
            let seen = match coming {
                _ if refused => None,
                Coming::Seen(id) => Some(id),
                Coming::New | Coming::Repeated => self.state.remembered(namespace, mark.hash).map(|page| page.id),
            };
            let outcome = match seen {
                Some(id) => {
                    let state = self.state.state_of(namespace, &run.topic, id);
                    let state = state.expect("what a command needs is fetched before it is decided");
                    PublishOutcome::Duplicate { id, state }
                }
                None => refusal(
                    Code::DedupOff,
                    "the namespace's dedup window is off; publish without a dedup id or set dedup_window",
                ),
            };
            push(outcomes, 1, outcome);
        }
        self.store(namespace, run, from..run.count, pending, &terms, outcomes, log);
    }

    /// Stores some consecutive messages of a run.
    #[allow(clippy::too_many_arguments, reason = "one caller, and a struct would only rename its locals")]
    fn store(
        &mut self,
        namespace: NamespaceNumber,
        run: &PublishRun,
        part: core::ops::Range<u32>,
        dedup: Vec<DedupMark>,
        terms: &Terms,
        outcomes: &mut Runs,
        log: &mut dyn FactLog,
    ) {
        if part.is_empty() {
            return;
        }
        let slot = self.topics_or_new(namespace, &run.topic, log);
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
        self.commit(fact, log);
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

fn check_size(runs: &[PublishRun]) -> Result<(), Refusal> {
    let messages: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
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

fn refusal(code: Code, detail: &str) -> PublishOutcome {
    PublishOutcome::Refused { code, detail: String::from(detail) }
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
