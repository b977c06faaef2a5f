//! The dedup ids of a publish: all are looked up before anything of it is stored, once each.

use alloc::collections::{BTreeSet, VecDeque};

use hashbrown::HashSet;
use millpond_types::{MessageId, MessageState, TopicName};

use crate::command::PublishRun;
use crate::fact::DedupMark;
use crate::state::hash::FixedState;

/// What is known of the dedup ids of a publish, in order.
#[derive(Clone, Default)]
pub(crate) struct LookedUp {
    /// The message that each was seen with before, and what had become of it before the publish.
    seen: VecDeque<Option<(MessageId, MessageState)>>,
    /// Those that came up in this publish and were not seen before.
    new: HashSet<u128, FixedState>,
}

/// A dedup id that comes up in a publish.
#[derive(Clone, Copy)]
pub(super) enum Coming {
    /// For the first time.
    New,
    /// With a message of this publish already.
    Repeated,
    /// With this message, of which this had become before the publish.
    Seen(MessageId, MessageState),
}

impl LookedUp {
    pub(super) fn push(&mut self, seen: Option<(MessageId, MessageState)>) {
        self.seen.push_back(seen);
    }

    /// These have expired and become dead letters, right before the publish.
    pub(super) fn died(&mut self, letters: &BTreeSet<MessageId>) {
        let seen = self.seen.iter_mut().flatten().filter(|(id, _)| letters.contains(id));
        seen.for_each(|(_, state)| *state = MessageState::Dead);
    }

    /// Whether so many messages are to come, and each of them was seen before.
    pub(super) fn are_all_seen(&self, messages: u64) -> bool {
        self.seen.len() as u64 == messages && self.seen.iter().all(Option::is_some)
    }

    /// How many of these dedup ids, which are all those of the publish, were seen before or come up again.
    pub(super) fn known(&self, hashes: impl Iterator<Item = u128>) -> usize {
        let mut new: HashSet<u128, FixedState> = HashSet::default();
        let is_known = |(seen, hash): &(&Option<_>, u128)| seen.is_some() || !new.insert(*hash);
        self.seen.iter().zip(hashes).filter(is_known).count()
    }

    /// How many messages of each run of the publish may be stored: not those that are too large or were seen before, and of those
    /// with one dedup id in one topic a single one, whichever finds room.
    pub(super) fn storable<'a>(&self, runs: &'a [PublishRun]) -> impl Iterator<Item = (&'a PublishRun, u32)> {
        let mut seen = self.seen.iter();
        let mut new: HashSet<(&TopicName, u128), FixedState> = HashSet::default();
        runs.iter().map(move |run| {
            let mut large = run.too_large.iter().map(|large| large.index).peekable();
            let is_known = |(mark, seen): &(&DedupMark, &Option<_>)| {
                while large.next_if(|index| *index < mark.index).is_some() {}
                large.peek() != Some(&mark.index) && (seen.is_some() || !new.insert((&run.topic, mark.hash)))
            };
            let known = run.dedup.iter().zip(seen.by_ref()).filter(is_known).count();
            (run, run.count - (run.too_large.len() + known) as u32)
        })
    }

    /// What the next dedup id of the publish is.
    pub(super) fn next(&mut self, hash: u128) -> Coming {
        match self.seen.pop_front().expect("each dedup id of the publish was looked up") {
            Some((id, state)) => Coming::Seen(id, state),
            None if self.new.insert(hash) => Coming::New,
            None => Coming::Repeated,
        }
    }
}
