//! How messages come to groups: they are published, or a group that starts is given what others hold.

use std::collections::BTreeSet;

use millpond_core::fact::{CopiedRun, Fact, GroupNumber};
use millpond_types::{MessageId, Sequence, Start, WallTime};

use super::follow::sequences;
use super::{Key, Message, Model, State, TopicKey};
use crate::bodies::tags_of;

impl Model {
    pub(super) fn published(&mut self, fact: &Fact) {
        let Fact::Published {
            topic,
            except,
            priority,
            first,
            count,
            published,
            due,
            expires,
            dedup_until,
            dedup,
            block,
            sizes,
        } = fact
        else {
            unreachable!("called for this fact alone")
        };
        let id = MessageId { topic: *topic, priority: *priority, sequence: *first };
        for mark in dedup {
            let sequence = Sequence(first.0 + u64::from(mark.index));
            self.dedups.insert(mark.hash, (MessageId { sequence, ..id }, *dedup_until));
        }
        let tags = (first.0..).map(Sequence).zip(tags_of(block).into_iter().flatten());
        self.tags.extend(tags.filter_map(|(sequence, tag)| Some((MessageId { sequence, ..id }, tag?))));
        let lengths = (0..*count).map(|at| sizes.offset(at + 1) - sizes.offset(at));
        let ids = sequences(*first, *count).map(|sequence| MessageId { sequence, ..id });
        self.lengths.extend(ids.zip(lengths));
        let message = Message::new(*published, *due, *expires);
        self.arrive(id, *count, |group| !except.contains(&group), &message);
        let (groups, topics) = (&mut self.groups, &self.topics);
        let has = |group: &GroupNumber| topics.contains_key(&(*group, *topic)) && !except.contains(group);
        for (_, group) in groups.iter_mut().filter(|(number, group)| has(number) && !group.is_ending) {
            group.tally.accepted += u64::from(*count);
        }
    }

    /// Messages come into a topic, in some groups; their sequences are given out in all.
    pub(super) fn arrive(
        &mut self,
        first: MessageId,
        count: u32,
        into: impl Fn(GroupNumber) -> bool,
        message: &Message,
    ) {
        let groups = &self.groups;
        let of = self.topics.iter_mut().filter(|((_, topic), _)| *topic == first.topic);
        for ((group, _), topic) in of.filter(|((group, _), _)| !groups[group].is_ending) {
            topic.next.insert(first.priority, Sequence(first.sequence.0 + u64::from(count)));
            if into(*group) {
                let keys = sequences(first.sequence, count).map(|sequence| (first.priority, sequence));
                topic.messages.extend(keys.map(|key| (key, message.clone())));
            }
        }
    }

    /// What the groups of a namespace hold and a start admits.
    pub(super) fn admitted(&self, namespace: u32, start: Start) -> BTreeSet<MessageId> {
        let topics = self.groups_of(namespace).flat_map(|group| self.topics_of(group));
        let messages = topics.flat_map(|(number, topic)| topic.messages.iter().map(move |of| (number, of)));
        let is_due = |message: &Message| !message.is_redriven && start.admits(message.published);
        let admitted = messages.filter(|(_, (_, message))| is_due(message));
        let id = |(topic, ((priority, sequence), _)): (_, (&Key, _))| MessageId {
            topic,
            priority: *priority,
            sequence: *sequence,
        };
        admitted.map(id).collect()
    }

    pub(super) fn copied(&mut self, key: TopicKey, CopiedRun { priority, run, due }: &CopiedRun, is_saved: bool) {
        self.group(key.0).tally.accepted += u64::from(run.count);
        let expires = Some(run.expires).filter(|at| *at != WallTime::NEVER);
        let message = Message::new(run.published, *due, expires);
        for sequence in sequences(run.first, run.count) {
            let id = MessageId { topic: key.1, priority: *priority, sequence };
            self.group(key.0).due.remove(&id);
            let state = if is_saved { State::Back(run.first) } else { message.state };
            self.topic(key.0, key.1).messages.insert((*priority, sequence), Message { state, ..message.clone() });
        }
    }

    /// What was saved for a group and has ended there before its start came to it, others may give it again.
    pub(super) fn is_due_again(&mut self, (group, topic): TopicKey, keys: &[Key]) {
        let (of, name) = (&self.groups[&group], &self.topics[&(group, topic)].name);
        let floor = self.topics[&(group, topic)].floor;
        let again = keys.iter().filter(|key| key.1 < floor && of.is_before(name, **key));
        let again: Vec<MessageId> =
            again.map(|(priority, sequence)| MessageId { topic, priority: *priority, sequence: *sequence }).collect();
        self.group(group).due.extend(again);
    }
}
