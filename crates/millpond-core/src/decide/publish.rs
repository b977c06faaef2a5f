//! Publish. The checks come in this order: session repeat, dedup, limits and quotas, coalescing, overflow. Each message has its own
//! outcome.
//!
//! While the disk is full nothing that is new is stored. The outcomes of a session's batch are kept in the journal, of
//! which only the reserve is left then, and that belongs to finishing: so such a batch is refused as a whole, undecided,
//! and its number stays free. Every batch behind it is refused in the same way, until there is room and it comes again.

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::{
    PUBLISH_BYTES_MAX, PUBLISH_DEDUP_IDS_MAX, PUBLISH_DROPS_MAX, PUBLISH_MESSAGES_MAX, PUBLISH_PLACES_MAX,
    PUBLISH_RUNS_MAX,
};
use millpond_types::{Code, MessageState, PublishOutcome};

use crate::Core;
use crate::command::{ProducerBatch, Publish, PublishRun};
use crate::decide::Refusal;
use crate::decide::dedup::{Coming, LookedUp};
use crate::decide::storing::{Part, Runs, Storing, Way, push, refusal, refused_together, shorten};
use crate::fact::{DedupMark, Fact, FactLog, NamespaceNumber};
use crate::outcomes::Outcomes;
use crate::output::Reply;

impl Core {
    pub(super) fn publish(&mut self, publish: Publish, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&publish.namespace)?;
        if let Some(batch) = publish.producer
            && let Some(outcomes) = self.repeated(namespace, batch, Some(&publish.runs))?
        {
            return Ok(Reply::Published { level: publish.level, outcomes, topics: Vec::new() });
        }
        self.check_size(namespace, &publish.runs)?;
        let mut looked_up = core::mem::take(&mut self.looked_up);
        self.check_disk(publish.producer, &looked_up, &publish.runs)?;
        self.expire_waiting(namespace, &publish.runs, &mut looked_up, log);
        let mut storing = Storing { namespace, looked_up, outcomes: Vec::new(), way: Way::Each(&mut *log) };
        for run in &publish.runs {
            self.publish_run(run, &mut storing);
        }
        let mut outcomes = storing.outcomes;
        shorten(&mut outcomes);
        self.note_batch(namespace, publish.producer, &outcomes, log);
        Ok(Reply::Published { level: publish.level, outcomes, topics: Vec::new() })
    }

    /// Refuses a publish that is larger than one may be.
    pub(super) fn check_size(&self, namespace: NamespaceNumber, runs: &[PublishRun]) -> Result<(), Refusal> {
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
        let ids = runs.iter().map(|run| run.dedup.len()).sum::<usize>();
        if runs.len() > PUBLISH_RUNS_MAX || ids > PUBLISH_DEDUP_IDS_MAX {
            let detail = format!(
                "a publish holds at most {PUBLISH_RUNS_MAX} runs of messages of one topic and equal options, and {PUBLISH_DEDUP_IDS_MAX} dedup ids; this one has {} and {ids}: put messages of a topic next to each other, or send it in parts",
                runs.len()
            );
            return Err((Code::LimitExceeded, detail));
        }
        let groups = self.state.namespaces[namespace].groups.len();
        let parts = self.parts(runs, PUBLISH_PLACES_MAX / groups.max(1));
        if parts * groups > PUBLISH_PLACES_MAX {
            let detail = format!(
                "the runs of a publish times the groups of its namespace are at most {PUBLISH_PLACES_MAX}; this one has {parts} runs of messages of one topic and equal options, between which others come or duplicates, and there are {groups} groups: put messages of a topic next to each other, or send it in parts"
            );
            return Err((Code::LimitExceeded, detail));
        }
        let ends = self.dropping.ends;
        if ends > PUBLISH_DROPS_MAX {
            let detail = format!(
                "a publish ends at most {PUBLISH_DROPS_MAX} messages of topics that are full, in all groups together; this one may end {ends} in {groups} groups: send it in parts"
            );
            return Err((Code::LimitExceeded, detail));
        }
        Ok(())
    }

    /// How many runs of messages a publish may come to: what is not stored of one stands between two. Which dedup ids are known is
    /// looked at where it matters, for more than so many.
    fn parts(&self, runs: &[PublishRun], most: usize) -> usize {
        let marks = || runs.iter().flat_map(|run| &run.dedup).map(|mark| mark.hash);
        let large = runs.iter().map(|run| run.too_large.len()).sum::<usize>();
        let (messages, runs) = (messages(runs) as usize, runs.len() + large);
        if messages.min(runs + marks().count()) <= most {
            return messages.min(runs);
        }
        let known = self.looked_up.known(marks());
        (messages - known.max(large)).min(runs + known)
    }

    /// Refuses a session's batch while the disk is full, unless all of it was seen before.
    pub(super) fn check_disk(
        &self,
        producer: Option<ProducerBatch>,
        looked_up: &LookedUp,
        runs: &[PublishRun],
    ) -> Result<(), Refusal> {
        if self.disk_full && producer.is_some() && !looked_up.are_all_seen(messages(runs)) {
            return Err((Code::DiskFull, DISK_FULL.into()));
        }
        Ok(())
    }

    /// Keeps what became of a session's batch.
    pub(super) fn note_batch(
        &mut self,
        namespace: NamespaceNumber,
        producer: Option<ProducerBatch>,
        outcomes: &Runs,
        log: &mut dyn FactLog,
    ) {
        let Some(ProducerBatch { id: producer, instance, sequence }) = producer else { return };
        let (at, outcomes) = (self.state.now.wall, Outcomes::new(outcomes));
        self.commit(Fact::ProducerBatch { namespace, producer, instance, sequence, at, outcomes }, log);
    }

    /// Stores the messages of a run, each for itself.
    pub(super) fn publish_run(&mut self, run: &PublishRun, storing: &mut Storing<'_>) {
        let namespace = storing.namespace;
        let terms = self.terms(self.state.namespaces[namespace].policies.of_name(&run.topic), run.delay, run.ttl);
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
            let part = Part { run, range: from..index, dedup: core::mem::take(&mut pending) };
            self.store_part(part, &terms, storing);
            let seen = match coming {
                _ if is_off => None,
                Some(Coming::Seen(id, before)) => Some((id, before)),
                Some(Coming::New | Coming::Repeated) => {
                    let hash = mark.expect("only a dedup id comes again").hash;
                    self.state.remembered(namespace, hash).map(|page| (page.id, MessageState::Waiting))
                }
                None => None,
            };
            let is_tried_again = matches!((&storing.way, coming), (Way::Trial(_), Some(Coming::Repeated)));
            let outcome = match (seen, large) {
                // Where the first is let in, this one is its duplicate; where it is not, nothing is done. But where the
                // first is declined nothing remembers it, and this one would be too large after all.
                _ if is_tried_again && !is_off => {
                    large.map_or_else(refused_together, |large| refusal(Code::MessageTooLarge, large))
                }
                (Some((id, before)), _) => {
                    // In this publish it may have been superseded or dropped, and nothing else.
                    let ended = if before == MessageState::Dead { before } else { MessageState::Ended };
                    PublishOutcome::Duplicate { id, state: self.state.unfinished_state(id).unwrap_or(ended) }
                }
                _ if is_off => refusal(
                    Code::DedupOff,
                    "the dedup window of the topic is off, by the namespace's policy or by a rule (`namespace show --topic` tells which); publish without a dedup id or set dedup_window",
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
        self.store_part(Part { run, range: from..run.count, dedup: pending }, &terms, storing);
    }
}

pub(super) fn messages(runs: &[PublishRun]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

pub(super) const DISK_FULL: &str = "the disk has no room for another journal segment; consume or purge messages, or make room on the disk, and publish again";
