//! What commands look into that may be in the store: pieces of lines and of what rests, dedup ids, producer sessions, and dead letters.
//!
//! [`Core::bring_for`] comes right before a command is decided, in the same turn, so the decision finds all it needs.
//!
//! A publish may have some ten thousand dedup ids. They are asked for some at a time, for each that is on its way is in several
//! places; and of those behind which it is gone on no more is looked at until all are there, so that each is looked at a few times,
//! however many there are.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::limits::{PAGE_MAX, PUBLISH_DROPS_MAX};
use millpond_types::{
    Coalesce, MessageId, MessageState, NamespaceName, Overflow, Policy, Priority, Sequence, TopicName, TopicNumber,
};

use crate::Core;
use crate::command::{Command, Forward, Look, LookWhich, Move, Publish, PublishRun, Route, TopicRef, Which};
use crate::decide::dedup::LookedUp;
use crate::decide::overflow::Dropping;
use crate::fact::NamespaceNumber;
use crate::page::DedupPage;
use crate::state::{State, TopicSlot};
use crate::store::Want;

/// Dedup ids of a publish that are on their way at a time, or dead letters of them: enough for reads that go on beside each other.
pub(crate) const IDS_AT_A_TIME: usize = 4096;

impl Core {
    /// Brings back what a command needs; what has to be fetched for it, as far as that can be told by now. Of a publish, so many
    /// dedup ids as `passed` says have come before, and more by the end.
    pub(crate) fn bring_for(&mut self, command: &Command, passed: &mut usize) -> Vec<Want> {
        let brought = match command {
            Command::Publish(publish)
            | Command::Forward(Forward { publish, .. })
            | Command::Route(Route { publish, .. }) => {
                return self.bring_publish(publish, passed);
            }
            Command::Cancel { topic, which } => self.bring_cancelled(topic, *which),
            Command::Reschedule { topic, which, .. } => self.bring_which(topic, *which).map(|_| ()),
            Command::Move(of) => self.bring_moved(of),
            Command::DeadMove(of) => self.state.dead_letter(&of.key()).map(|_| ()),
            Command::Look(look) => self.bring_look(look),
            Command::Forget { topic, dedup_hash } => self.bring_dedup(&topic.namespace, *dedup_hash).map(|_| ()),
            _ => Ok(()),
        };
        brought.err().into_iter().collect()
    }

    /// Looks up the session and the dedup ids of a publish. A repeat is told what has become of the first.
    fn bring_publish(&mut self, publish: &Publish, passed: &mut usize) -> Vec<Want> {
        let mut wants = Vec::new();
        let Some(namespace) = self.state.namespaces.number(&publish.namespace) else { return wants };
        if let Some(batch) = publish.producer {
            wants.extend(self.state.bring_producer((namespace, batch.id)).err());
        }
        let begun = *passed > 0;
        let mut found = self.look_up_ids(namespace, publish, passed);
        if begun && found.is_ok() {
            // Those in front may have become others meanwhile.
            *passed = 0;
            found = self.look_up_ids(namespace, publish, passed);
        }
        let looked_up = match found {
            Ok(looked_up) => looked_up,
            Err(ids) => {
                wants.extend(ids);
                return wants;
            }
        };
        self.looked_up = looked_up;
        self.dropping = Dropping::default();
        let mut coming = self.coming(namespace, publish.runs.iter().map(|run| (run, run.count)));
        self.dropping.ends = self.ends_in_all(namespace, &coming);
        if self.dropping.ends > PUBLISH_DROPS_MAX {
            // Duplicates are looked for where it matters.
            coming = self.coming(namespace, self.looked_up.storable(&publish.runs));
            self.dropping.ends = self.ends_in_all(namespace, &coming);
        }
        if self.dropping.ends > PUBLISH_DROPS_MAX {
            return wants;
        }
        for (topic, coming) in coming {
            wants.extend(self.bring_for_limits(namespace, topic, coming).err());
        }
        wants
    }

    /// What is known of the dedup ids of a publish, from one of them on; or some of what has to be fetched, and `passed` is how many
    /// stand before these.
    fn look_up_ids(
        &mut self,
        namespace: NamespaceNumber,
        publish: &Publish,
        passed: &mut usize,
    ) -> Result<LookedUp, Vec<Want>> {
        let (mut wants, mut looked_up) = (Vec::new(), LookedUp::default());
        let marks = publish.runs.iter().flat_map(|run| run.dedup.iter().map(|mark| (&run.topic, mark.hash)));
        for (topic, hash) in marks.skip(*passed) {
            match self.bring_first_of(namespace, topic, hash) {
                Ok(seen) if wants.is_empty() => {
                    looked_up.push(seen);
                    *passed += 1;
                }
                Ok(_) => {}
                Err(want) => wants.push(want),
            }
            if wants.len() == IDS_AT_A_TIME {
                break;
            }
        }
        if wants.is_empty() { Ok(looked_up) } else { Err(wants) }
    }

    /// The message that a dedup id was seen with before, and what has become of it. Where this publish may end it in the groups
    /// that hold it still, it counts as the dead letter that it is in others: that is what is left of it then.
    fn bring_first_of(
        &mut self,
        namespace: NamespaceNumber,
        topic: &TopicName,
        hash: u128,
    ) -> Result<Option<(MessageId, MessageState)>, Want> {
        let Some(DedupPage { id, .. }) = self.state.look_up_dedup(namespace, hash)? else { return Ok(None) };
        let fate = self.bring_fate(namespace, topic, id)?;
        let is_over = matches!(fate, MessageState::Dead | MessageState::Ended);
        let may_end = !is_over && may_end_others(self.state.namespaces[namespace].policies.of_name(topic));
        let is_letter = may_end && self.state.is_letter(namespace, topic, id)?;
        Ok(Some((id, if is_letter { MessageState::Dead } else { fate })))
    }

    /// How many messages come to each topic in which they may end others, if so many of each run do.
    fn coming<'a>(
        &self,
        namespace: NamespaceNumber,
        runs: impl Iterator<Item = (&'a PublishRun, u32)>,
    ) -> BTreeMap<&'a TopicName, u64> {
        let policies = &self.state.namespaces[namespace].policies;
        let mut coming: BTreeMap<&TopicName, u64> = BTreeMap::new();
        for (run, count) in runs.filter(|(run, _)| may_end_others(policies.of_name(&run.topic))) {
            *coming.entry(&run.topic).or_default() += u64::from(count);
        }
        coming
    }

    /// How many messages of topics that are full may end because so many come to each.
    fn ends_in_all(&self, namespace: NamespaceNumber, coming: &BTreeMap<&TopicName, u64>) -> u64 {
        coming.iter().map(|(topic, coming)| self.ends_of(namespace, topic, *coming)).sum()
    }

    fn ends_of(&self, namespace: NamespaceNumber, topic: &TopicName, coming: u64) -> u64 {
        let Some(limit) = dropping(self.state.namespaces[namespace].policies.of_name(topic)) else { return 0 };
        let slots = self.limited(namespace, topic).filter_map(|group| self.state.topics.find(group, topic));
        slots.map(|slot| self.may_drop(slot, limit, coming)).sum()
    }

    /// What may end because so many messages come to a topic.
    fn bring_for_limits(&mut self, namespace: NamespaceNumber, topic: &TopicName, coming: u64) -> Result<(), Want> {
        let policy = self.state.namespaces[namespace].policies.of_name(topic);
        let dropping = dropping(policy);
        for at in 0..self.state.namespaces[namespace].groups.len() {
            let group = self.state.namespaces[namespace].groups[at];
            let Some(slot) = self.state.topics.find(group, topic) else { continue };
            if let Some(limit) = dropping {
                if !self.state.topics[slot].is_held {
                    self.bring_to_drop(slot, limit, coming)?;
                }
            } else {
                self.bring_waiting(slot)?;
            }
        }
        Ok(())
    }

    /// What tells what has become of a message. Of one that is known to wait nothing is read.
    fn bring_fate(
        &mut self,
        namespace: NamespaceNumber,
        topic: &TopicName,
        id: MessageId,
    ) -> Result<MessageState, Want> {
        self.bring_in_each(id.topic, |state, slot| match state.is_stored(slot, id) {
            true => Ok(()),
            false => state.bring(slot, id.priority, id.sequence).map(|_| ()),
        })?;
        self.state.state_of(namespace, topic, id)
    }

    /// What is cancelled is forgotten, if its dedup id is still its own.
    fn bring_cancelled(&mut self, topic: &TopicRef, which: Which) -> Result<(), Want> {
        let Some(id) = self.bring_which(topic, which)? else { return Ok(()) };
        let place = |slot| Some((slot, self.state.where_is(slot, id.priority, id.sequence)?));
        let Some((slot, place)) = self.state.topics.siblings(id.topic).find_map(place) else { return Ok(()) };
        let namespace = self.state.topics[slot].namespace;
        match self.state.dedup_of(slot, id, place) {
            Some(hash) => self.state.look_up_dedup(namespace, hash).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The message, if there is one, and where it is.
    fn bring_which(&mut self, topic: &TopicRef, which: Which) -> Result<Option<MessageId>, Want> {
        let id = match which {
            Which::Id(id) => Some(id),
            Which::Dedup(hash) => self.bring_dedup(&topic.namespace, hash)?,
        };
        if let Some(id) = id {
            self.bring_message(id)?;
        }
        Ok(id)
    }

    fn bring_dedup(&mut self, namespace: &NamespaceName, hash: u128) -> Result<Option<MessageId>, Want> {
        match self.state.namespaces.number(namespace) {
            Some(namespace) => Ok(self.state.look_up_dedup(namespace, hash)?.map(|page| page.id)),
            None => Ok(None),
        }
    }

    /// A message, in all groups that have its topic in memory.
    pub(crate) fn bring_message(&mut self, MessageId { topic, priority, sequence }: MessageId) -> Result<(), Want> {
        self.bring_in_each(topic, |state, slot| state.bring(slot, priority, sequence).map(|_| ()))
    }

    /// The same in each group that has a topic in memory.
    fn bring_in_each(
        &mut self,
        topic: TopicNumber,
        bring: impl Fn(&mut State, TopicSlot) -> Result<(), Want>,
    ) -> Result<(), Want> {
        let mut next = self.state.topics.siblings(topic).next();
        while let Some(slot) = next {
            bring(&mut self.state, slot)?;
            next = self.state.topics[slot].siblings.next;
        }
        Ok(())
    }

    /// A run that was cut may lie in several pieces by now.
    fn bring_moved(&mut self, of: &Move) -> Result<(), Want> {
        let MessageId { topic, priority, sequence } = of.first;
        let end = Sequence(sequence.0 + u64::from(of.count));
        self.bring_in_each(topic, |state, slot| state.bring_range(slot, priority, sequence, end))
    }

    fn bring_look(&mut self, Look { topic, which, group }: &Look) -> Result<(), Want> {
        let (is_due, count) = match *which {
            LookWhich::One(which) => return self.bring_which(topic, which).map(|_| ()),
            LookWhich::First(count) => (false, (count as usize).min(PAGE_MAX)),
            LookWhich::Due(count) => (true, (count as usize).min(PAGE_MAX)),
        };
        let Ok(slot) = self.topic_in(topic, group.as_ref()) else { return Ok(()) };
        if !is_due {
            self.bring_first(slot, count)?;
        }
        self.bring_first_due(slot, count)
    }

    /// The first messages of the lines of a topic, so many that those that are shown are among them.
    fn bring_first(&mut self, slot: TopicSlot, count: usize) -> Result<(), Want> {
        let (policy, levels) = (self.state.policy(slot), 0..self.state.topics[slot].levels.len());
        if policy.ageing.is_some() && !policy.is_strict() {
            // Any of them may have been raised above the others.
            for index in levels {
                self.bring_lines(slot, count as u64, index..index + 1)?;
            }
        } else {
            self.bring_lines(slot, count as u64, levels.rev())?;
        }
        Ok(())
    }

    /// Of the messages that rest, those whose time comes first: pieces come as long as one begins before so many that are in
    /// memory.
    fn bring_first_due(&mut self, slot: TopicSlot, count: usize) -> Result<(), Want> {
        let now = self.state.now;
        loop {
            let levels = || self.state.topics[slot].levels.iter();
            let pieces = levels().flat_map(|level| level.resting_pieces().map(move |piece| (level.priority, piece)));
            let first = pieces.min_by_key(|(_, piece)| piece.rest(now));
            let Some((rest, priority, first)) = first.map(|(at, piece)| (piece.rest(now), at, piece.first)) else {
                return Ok(());
            };
            let resting = levels().flat_map(|level| level.aside.values()).filter_map(|aside| aside.state.rest(now));
            if resting.filter(|other| *other < rest).count() >= count {
                return Ok(());
            }
            self.state.bring_piece(slot, priority, first)?;
        }
    }

    /// The first messages of the lines of a topic, level by level, until there are so many.
    pub(super) fn bring_lines(
        &mut self,
        slot: TopicSlot,
        mut left: u64,
        levels: impl Iterator<Item = usize>,
    ) -> Result<(), Want> {
        for index in levels {
            let mut next = Some(Sequence(0));
            while let Some(first) = next.filter(|_| left > 0).and_then(|next| self.next_in_line(slot, index, next)) {
                let priority: Priority = self.state.topics[slot].levels[index].priority;
                self.state.bring(slot, priority, first)?;
                let run = self.state.topics[slot].levels[index].line.runs_from(first).next();
                left = left.saturating_sub(run.map_or(0, |run| u64::from(run.count)));
                next = run.map(|run| run.end());
            }
        }
        Ok(())
    }

    fn next_in_line(&self, slot: TopicSlot, index: usize, from: Sequence) -> Option<Sequence> {
        self.state.topics[slot].levels[index].line.next_from(from)
    }
}

/// How many messages may wait where older ones end for newer ones.
fn dropping(policy: &Policy) -> Option<u32> {
    policy.max_waiting.filter(|_| policy.overflow == Overflow::DropOldest)
}

/// Whether what comes to a topic may end what waits in it.
fn may_end_others(policy: &Policy) -> bool {
    policy.overflow == Overflow::DropOldest || policy.coalesce != Coalesce::Off
}
