//! Looking at messages without leasing them, and the verbs that take a message by id: cancel and reschedule.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;

use bytes::Bytes;
use millpond_types::limits::PAGE_MAX;
use millpond_types::{Code, EndReason, MessageId, MessageState, MessageView, Millis, Sequence, TopicName, WallTime};

use crate::Core;
use crate::apply::Place;
use crate::command::{Look, LookWhich, TopicRef, Which};
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog, NamespaceNumber};
use crate::output::{Found, Reply};
use crate::page::RunPage;
use crate::state::ageing::Head;
use crate::state::line::InLine;
use crate::state::topic::{Aside, AsideWhy, Level, Topic};
use crate::state::{Now, State, TopicSlot};
use crate::store::{Key, Want};

/// Runs of messages aside that a look goes over behind what is ready: some ten milliseconds. Of a topic with more of them,
/// leased ones included, it shows the first ones by number.
const ASIDE_MAX: usize = 1 << 20;

impl Core {
    pub(super) fn look(&mut self, look: Look) -> Result<Reply, Refusal> {
        let slot = self.topic_in(&look.topic, look.group.as_ref())?;
        let rows = match look.which {
            LookWhich::First(count) => self.first_messages(slot, (count as usize).min(PAGE_MAX)),
            LookWhich::Due(count) => self.first_due(slot, (count as usize).min(PAGE_MAX)),
            LookWhich::One(which) => {
                let (slot, id, place) = match look.group {
                    Some(_) => self.find(slot, which)?,
                    None => self.find_each(slot, which)?[0],
                };
                Vec::from([self.state.view(slot, id, place)])
            }
        };
        Ok(Reply::Messages(rows))
    }

    pub(super) fn cancel(&mut self, topic: &TopicRef, which: Which, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let found = self.find_all(topic, which)?;
        let (slot, id, place) = found[0];
        let namespace = self.state.topics[slot].namespace;
        let hash = self.state.dedup_of(slot, id, place);
        let MessageId { topic, priority, sequence: first } = id;
        for (slot, ..) in found {
            let (group, count, reason) = (self.state.topics[slot].group, 1, EndReason::Cancelled);
            self.commit(Fact::Ended { topic, group, priority, first, count, reason }, log);
        }
        // What was cancelled may be published again. A dedup id that came again since is that message's, and stays.
        if let Some(hash) = hash.filter(|hash| self.state.remembered_of(namespace, *hash, id).is_some()) {
            self.commit(Fact::Forgotten { namespace, hash }, log);
        }
        Ok(Reply::Done)
    }

    pub(super) fn reschedule(
        &mut self,
        topic: &TopicRef,
        which: Which,
        delay: Millis,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let due = self.state.now.wall + delay;
        let found = self.find_all(topic, which)?;
        let (slot, id, place) = found[0];
        // What is due at once goes as what is ready goes, for as long as time has not come to it.
        let expires = self.state.piece(slot, id, place).run().expiry();
        if let Some(expires) = expires.filter(|at| *at <= due && delay > Millis::ZERO) {
            let left = expires.since(self.state.now.wall).0;
            let detail = format!(
                "the TTL of message {id} ends in {left} ms, before that delay does, so nobody would be given it: ask for a shorter one"
            );
            return Err((Code::ArgumentInvalid, detail));
        }
        for (slot, MessageId { topic, priority, sequence }, _) in found {
            let group = self.state.topics[slot].group;
            self.commit(Fact::Rescheduled { topic, group, priority, sequence, due }, log);
        }
        Ok(Reply::Done)
    }

    /// A message in each group that holds it, at least one. Refused if any of them has it leased: what is done to a message
    /// is done to it everywhere or nowhere.
    fn find_all(&mut self, topic: &TopicRef, which: Which) -> Result<Vec<(TopicSlot, MessageId, Place)>, Refusal> {
        let slot = self.topic_of(topic)?;
        let found = self.find_each(slot, which)?;
        found.iter().try_for_each(|(slot, id, place)| self.check_not_leased(*slot, *id, *place))?;
        Ok(found)
    }

    /// A message in each group that holds it, at least one; by the topic in the first group that has that.
    fn find_each(&mut self, first: TopicSlot, which: Which) -> Result<Vec<(TopicSlot, MessageId, Place)>, Refusal> {
        let (mut found, mut refused) = (Vec::new(), None);
        let mut next = Some(first);
        while let Some(slot) = next {
            next = self.state.topics[slot].siblings.next;
            if self.state.groups[self.state.topics[slot].group].is_ending {
                continue;
            }
            match self.find(slot, which) {
                Ok(held) => found.push(held),
                Err(refusal) => refused = Some(refusal),
            }
        }
        refused.filter(|_| found.is_empty()).map_or(Ok(found), Err)
    }

    fn find(&mut self, slot: TopicSlot, which: Which) -> Result<(TopicSlot, MessageId, Place), Refusal> {
        let id = match which {
            Which::Id(id) => Some(id),
            Which::Dedup(hash) => {
                let namespace = self.state.topics[slot].namespace;
                self.state.remembered(namespace, hash).map(|page| page.id)
            }
        };
        let id = id.filter(|id| id.topic == self.state.topics[slot].number);
        let place = id.and_then(|id| Some((slot, id, self.state.where_is(slot, id.priority, id.sequence)?)));
        place.ok_or_else(|| {
            let name = &self.state.topics[slot].name;
            let else_why = match which {
                Which::Id(_) => "",
                Which::Dedup(_) => "; or its dedup id is no longer remembered, then name it by its id",
            };
            let detail =
                format!("the topic {name} holds no such message now; it may be finished, or a dead letter{else_why}");
            (Code::MessageUnknown, detail)
        })
    }

    fn check_not_leased(&self, slot: TopicSlot, id: MessageId, place: Place) -> Result<(), Refusal> {
        match self.state.piece(slot, id, place).state(self.state.now) {
            MessageState::Leased => {
                let detail = format!("message {id} is leased to a consumer right now; try again when it is back");
                Err((Code::MessageLeased, detail))
            }
            _ => Ok(()),
        }
    }

    /// Messages in the order in which they would be delivered now: what is ready, what is due first of the others, and behind
    /// them those leased.
    fn first_messages(&self, slot: TopicSlot, limit: usize) -> Vec<Found<MessageView>> {
        let topic = &self.state.topics[slot];
        let levels = || topic.levels.iter().rev();
        let (policy, now) = (self.state.policy(slot), self.state.now.wall);
        let of_levels = levels().map(|level| level.ready_in_order(policy.is_strict()).peekable());
        let mut of_levels: Vec<_> = of_levels.collect();
        let ready = core::iter::from_fn(move || {
            let heads = of_levels.iter_mut().filter_map(|pieces| {
                let (level, piece) = pieces.peek()?;
                Some((Head { priority: level.priority, since: piece.since() }.rank(policy, now), pieces))
            });
            heads.max_by_key(|(rank, _)| *rank)?.1.next()
        });
        // What is behind is only looked at where what is before is not enough.
        let resting = core::iter::once_with(|| self.resting(topic, limit)).flatten();
        let leased = aside(topic).filter(|(_, aside)| matches!(aside.state, AsideWhy::Leased(_)));
        let pieces = ready.chain(resting.chain(leased).map(|(level, aside)| (level, Piece::Aside(aside))));
        self.rows(topic, pieces, limit)
    }

    /// Of the messages that are not due those that are due first.
    fn first_due(&self, slot: TopicSlot, limit: usize) -> Vec<Found<MessageView>> {
        let topic = &self.state.topics[slot];
        let pieces = self.resting(topic, limit).map(|(level, aside)| (level, Piece::Aside(aside)));
        self.rows(topic, pieces, limit)
    }

    /// The first messages of some pieces, one by one.
    fn rows<'a>(
        &self,
        topic: &'a Topic,
        pieces: impl Iterator<Item = (&'a Level, Piece<'a>)>,
        limit: usize,
    ) -> Vec<Found<MessageView>> {
        let one_by_one = pieces.flat_map(|(level, piece)| {
            (0..piece.run().count).map(move |index| {
                let id = topic.id(level.priority, Sequence(piece.run().first.0 + u64::from(index)));
                row(id, piece, self.state.now)
            })
        });
        one_by_one.take(limit).collect()
    }

    /// Of the messages of a topic that are not due, at most so many runs: the ones that are due first, in that order.
    fn resting<'a>(&self, topic: &'a Topic, limit: usize) -> impl Iterator<Item = (&'a Level, &'a Aside)> {
        let Now { run, wall } = self.state.now;
        let place = |(level, aside): (&Level, &Aside)| {
            let rests = match aside.state {
                AsideWhy::Delayed { due, .. } => due.0.saturating_sub(wall.0),
                AsideWhy::Retrying { due, .. } => due.0.saturating_sub(run.0),
                AsideWhy::Ready { .. } | AsideWhy::Leased(_) => return None,
            };
            Some((rests, Reverse(level.priority), aside.run.first))
        };
        let mut resting: Vec<_> = aside(topic).filter_map(|piece| Some((place(piece)?, piece))).collect();
        if limit < resting.len() {
            resting.select_nth_unstable_by_key(limit, |(place, _)| *place);
            resting.truncate(limit);
        }
        resting.sort_unstable_by_key(|(place, _)| *place);
        resting.into_iter().map(|(_, piece)| piece)
    }
}

/// The runs of a topic that are aside, the highest priority first, as far as a look goes over them.
fn aside(topic: &Topic) -> impl Iterator<Item = (&Level, &Aside)> {
    let levels = topic.levels.iter().rev();
    levels.flat_map(|level| level.aside.values().map(move |aside| (level, &**aside))).take(ASIDE_MAX)
}

/// Messages in one state.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Line(&'a RunPage),
    Aside(&'a Aside),
}

impl<'a> Piece<'a> {
    fn run(self) -> &'a RunPage {
        match self {
            Piece::Line(run) => run,
            Piece::Aside(aside) => &aside.run,
        }
    }

    /// Since when they wait.
    fn since(self) -> WallTime {
        match self {
            Piece::Line(run) => run.since(),
            Piece::Aside(aside) => aside.since,
        }
    }

    /// What they are in.
    fn state(self, now: Now) -> MessageState {
        match self {
            Piece::Line(_) => MessageState::Waiting,
            Piece::Aside(aside) => match aside.state {
                AsideWhy::Ready { .. } => MessageState::Waiting,
                AsideWhy::Delayed { due, .. } => MessageState::Delayed { due },
                AsideWhy::Retrying { due, .. } => MessageState::Retrying { due: now.wall + due.since(now.run) },
                AsideWhy::Leased(_) => MessageState::Leased,
            },
        }
    }

    /// One of its messages.
    fn alone(self, sequence: Sequence) -> RunPage {
        let mut run = self.run().clone();
        run.split_front((sequence.0 - run.first.0) as u32);
        run.split_front(1)
    }
}

impl Level {
    /// What is ready, in the order of delivery.
    fn ready_in_order(&self, is_strict: bool) -> impl Iterator<Item = (&Level, Piece<'_>)> {
        // What is looked at is in memory, and what lies behind may not be.
        let mut line = self.line.runs().peekable();
        let mut aside = self.ready.in_order(is_strict).peekable();
        core::iter::from_fn(move || {
            let scan = line.peek().map_or(self.next, |run| run.first);
            let piece = match aside.peek() {
                Some(&(behind, first)) if behind <= scan || line.peek().is_none() => {
                    aside.next();
                    Piece::Aside(&self.aside[&first])
                }
                _ => Piece::Line(line.next()?),
            };
            Some((self, piece))
        })
    }
}

impl State {
    /// Where the message of an id is now that was published to a topic of this name; an error tells what has to be
    /// fetched to know.
    pub(super) fn state_of(
        &mut self,
        namespace: NamespaceNumber,
        name: &TopicName,
        id: MessageId,
    ) -> Result<MessageState, Want> {
        match self.unfinished_state(id) {
            Some(state) => Ok(state),
            None if self.is_letter(namespace, name, id)? => Ok(MessageState::Dead),
            None => Ok(MessageState::Ended),
        }
    }

    /// Whether any group has a message as a dead letter; an error as that of [`State::state_of`].
    pub(super) fn is_letter(
        &mut self,
        namespace: NamespaceNumber,
        name: &TopicName,
        id: MessageId,
    ) -> Result<bool, Want> {
        for at in 0..self.namespaces[namespace].groups.len() {
            let group = self.namespaces[namespace].groups[at];
            if self.groups[group].counts.dead > 0
                && self.entry(&Key::Dead { namespace, group, topic: name.clone(), id })?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where a message is; `None` if it is finished. Where groups have come to different states, that is told which is
    /// the furthest from its end.
    pub(super) fn unfinished_state(&self, id: MessageId) -> Option<MessageState> {
        let state = |(slot, place)| match self.is_stored(slot, id) {
            true => MessageState::Waiting,
            false => self.piece(slot, id, place).state(self.now),
        };
        self.places(id).map(state).min_by_key(|state| matches!(state, MessageState::Leased))
    }

    /// Whether a message waits in the line of a topic, in a piece that need not be in memory to tell.
    pub(super) fn is_stored(&self, slot: TopicSlot, id: MessageId) -> bool {
        let level = self.topics[slot].level(id.priority);
        level.is_some_and(|level| level.aside_of(id.sequence).is_none() && level.line.is_stored(id.sequence))
    }

    /// Whether any group has still to finish a message.
    pub(crate) fn is_unfinished(&self, id: MessageId) -> bool {
        self.places(id).next().is_some()
    }

    /// Where a message is in each group that holds it.
    fn places(&self, id: MessageId) -> impl Iterator<Item = (TopicSlot, Place)> {
        let is_ending = |slot: &TopicSlot| self.groups[self.topics[*slot].group].is_ending;
        let slots = self.topics.siblings(id.topic).filter(move |slot| !is_ending(slot));
        slots.filter_map(move |slot| Some((slot, self.where_is(slot, id.priority, id.sequence)?)))
    }

    /// A message that is where `place` says.
    fn view(&self, slot: TopicSlot, id: MessageId, place: Place) -> Found<MessageView> {
        row(id, self.piece(slot, id, place), self.now)
    }

    /// The hash of the dedup id that a message came with.
    pub(super) fn dedup_of(&self, slot: TopicSlot, id: MessageId, place: Place) -> Option<u128> {
        self.piece(slot, id, place).alone(id.sequence).dedup().next().map(|(_, hash)| hash)
    }

    fn piece(&self, slot: TopicSlot, id: MessageId, place: Place) -> Piece<'_> {
        let level = self.topics[slot].level(id.priority).expect("a message has a level");
        match place {
            Place::Line => match level.line.find(id.sequence) {
                InLine::Run(run) => Piece::Line(run),
                _ => panic!("what a command needs is fetched before it is decided"),
            },
            Place::Aside(first) => Piece::Aside(&level.aside[&first]),
        }
    }
}

fn row(id: MessageId, piece: Piece<'_>, now: Now) -> Found<MessageView> {
    let (deliveries, failures) = match piece {
        Piece::Line(_) => (0, 0),
        Piece::Aside(aside) => (aside.deliveries, aside.failures),
    };
    let state = piece.state(now);
    let one = piece.alone(id.sequence);
    let (published, expires) = (one.published, one.expiry());
    let (extent, block) = (one.extent(), Bytes::new());
    let row = MessageView { id, state, published, expires, deliveries, failures, bytes: extent.length, block };
    Found { row, extent }
}
