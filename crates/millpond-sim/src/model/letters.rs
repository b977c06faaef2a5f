//! Dead letters: what each was when it died, also of those that are gone since, for a listing may have come to them before.

use std::collections::BTreeMap;

use bytes::Bytes;
use millpond_core::fact::{DeadReason, GroupNumber};
use millpond_types::{
    DeadView, MessageId, MessageState, MessageView, Priority, Sequence, TopicName, TopicNumber, WallTime,
};

use super::Message;

/// A dead letter.
#[derive(Clone, Debug)]
pub struct Letter {
    /// What is to be shown of it, but for the message itself and its length.
    view: DeadView,
    /// The fact that made it one.
    from: u64,
    /// The fact with which it was redriven or thrown away.
    until: Option<u64>,
}

/// All that there ever were.
#[derive(Clone, Default)]
pub struct Letters(BTreeMap<(GroupNumber, MessageId), Letter>);

impl Letters {
    /// Those that there are.
    pub fn current(&self) -> impl Iterator<Item = ((GroupNumber, MessageId), &Letter)> {
        self.0.iter().filter(|(_, letter)| letter.until.is_none()).map(|(of, letter)| (*of, letter))
    }

    /// Those of a group.
    pub fn of(&self, group: GroupNumber) -> impl Iterator<Item = MessageId> {
        let least = MessageId { topic: TopicNumber(0), priority: Priority::LOWEST, sequence: Sequence(0) };
        let of = self.0.range((group, least)..).take_while(move |((of, _), _)| *of == group);
        of.filter(|(_, letter)| letter.until.is_none()).map(|((_, id), _)| *id)
    }

    /// Whether there is one of a message.
    pub fn is_one(&self, of: (GroupNumber, MessageId)) -> bool {
        self.0.get(&of).is_some_and(|letter| letter.until.is_none())
    }

    /// One that there is, or has been there since a fact.
    pub fn since(&self, of: (GroupNumber, MessageId), fact: u64) -> Option<&Letter> {
        self.0.get(&of).filter(|letter| letter.until.is_none_or(|until| until > fact))
    }

    /// One that a client is told of later, in whichever group that is.
    pub fn ever(&self, id: MessageId) -> impl Iterator<Item = &Letter> {
        self.0.iter().filter(move |((_, of), _)| *of == id).map(|(_, letter)| letter)
    }

    pub(super) fn died(
        &mut self,
        (group, id): (GroupNumber, MessageId),
        (topic, message): (&TopicName, &Message),
        (reason, detail, died): (DeadReason, &Bytes, WallTime),
        fact: u64,
    ) {
        let is_failure = matches!(reason, DeadReason::Failed | DeadReason::LeaseExpired);
        let message = MessageView {
            id,
            state: MessageState::Dead,
            published: message.published,
            expires: message.expires,
            deliveries: message.deliveries,
            failures: message.failures + u32::from(is_failure),
            bytes: 0,
            block: Bytes::new(),
        };
        let (topic, reason) = (topic.clone(), reason.name().to_owned());
        let detail = String::from_utf8_lossy(detail).into_owned();
        let view = DeadView { topic, message, reason, detail, died };
        self.0.insert((group, id), Letter { view, from: fact, until: None });
    }

    pub(super) fn left(&mut self, of: (GroupNumber, MessageId), fact: u64) {
        self.0.entry(of).and_modify(|letter| letter.until = Some(fact));
    }
}

impl Letter {
    /// Whether it is shown as what it is. How long its message is, and what that says, is not known here.
    pub fn is_shown_as(&self, shown: &DeadView) -> bool {
        let MessageView { bytes, block, .. } = &shown.message;
        let message = MessageView { bytes: *bytes, block: block.clone(), ..self.view.message.clone() };
        *shown == DeadView { message, ..self.view.clone() }
    }

    /// Whether it was one before a fact, and of a topic with a prefix.
    pub fn is_listed(&self, fact: u64, prefix: &[u8]) -> bool {
        self.from <= fact && self.view.topic.as_bytes().starts_with(prefix)
    }
}
