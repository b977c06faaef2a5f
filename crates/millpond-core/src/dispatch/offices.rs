//! The offices of exclusive groups as connections have them: who waits for one, and when a term or a hand-over is up.
//!
//! Nothing of it is journaled: a term is renewed by heartbeats, and it is its lapse that becomes a fact. Who holds an
//! office is told by facts ([`crate::state::office`]), and what follows is decided in [`crate::decide::office`].
//!
//! Invariant: the candidates of a group are the sessions with consumers in it, but for its leader; and nothing is kept of
//! a group without candidates, leader or hand-over.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use millpond_types::{LeaderEpoch, RunTime, SessionId};

use crate::dispatch::{ConsumerSlot, Dispatcher};
use crate::fact::GroupNumber;
use crate::state::State;

/// What a consumer is in its group, as it was told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seat {
    /// Its group is shared.
    Shared,
    /// Its group is exclusive, and it has been told nothing yet.
    New,
    Candidate,
    Deposed,
    Inaugurate(LeaderEpoch),
    Lead(LeaderEpoch),
}

impl Seat {
    /// Whether it is delivered to.
    pub(crate) fn is_served(self) -> bool {
        matches!(self, Seat::Shared | Seat::Lead(_))
    }

    /// That of the office that it holds.
    pub(crate) fn epoch(self) -> Option<LeaderEpoch> {
        match self {
            Seat::Inaugurate(epoch) | Seat::Lead(epoch) => Some(epoch),
            Seat::Shared | Seat::New | Seat::Candidate | Seat::Deposed => None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Offices {
    /// Who waits, in the order in which they came.
    candidates: BTreeMap<GroupNumber, VecDeque<SessionId>>,
    /// When the terms of the leaders lapse, and the same in the order of time.
    terms: BTreeMap<GroupNumber, RunTime>,
    lapsing: BTreeSet<(RunTime, GroupNumber)>,
    /// Hand-overs that go on; with a time, until leases of the outgoing leader's session have been ended.
    handing: BTreeMap<GroupNumber, Option<RunTime>>,
    /// Groups that something has happened to.
    stirred: BTreeSet<GroupNumber>,
}

impl Offices {
    /// Whether nothing is to be done at a time.
    pub(crate) fn is_quiet(&self, now: RunTime) -> bool {
        let is_due = self.lapsing.first().is_some_and(|(at, _)| *at <= now);
        !is_due && self.stirred.is_empty() && self.handing.is_empty()
    }

    /// When something is to be done if nothing happens before.
    pub(crate) fn next(&self) -> Option<RunTime> {
        let lapse = self.lapsing.first().map(|(at, _)| *at);
        lapse.into_iter().chain(self.handing.values().copied().flatten()).min()
    }

    /// Something has happened to a group: it is looked at in this turn.
    pub(crate) fn stir(&mut self, group: GroupNumber) {
        self.stirred.insert(group);
    }

    pub(crate) fn take_stirred(&mut self) -> BTreeSet<GroupNumber> {
        core::mem::take(&mut self.stirred)
    }

    /// The sessions that wait for the office of a group.
    pub(crate) fn candidates(&self, group: GroupNumber) -> impl ExactSizeIterator<Item = SessionId> {
        self.candidates.get(&group).map(VecDeque::iter).unwrap_or_default().copied()
    }

    /// A session waits for the office, behind all others unless it does already.
    pub(crate) fn came(&mut self, group: GroupNumber, session: SessionId) {
        let waiting = self.candidates.entry(group).or_default();
        if !waiting.contains(&session) {
            waiting.push_back(session);
        }
        self.stir(group);
    }

    /// A session does not wait for the office any more.
    pub(crate) fn went(&mut self, group: GroupNumber, session: SessionId) {
        let Some(waiting) = self.candidates.get_mut(&group) else { return };
        waiting.retain(|other| *other != session);
        if waiting.is_empty() {
            self.candidates.remove(&group);
        }
    }

    /// The term of a group's leader lapses at this time, and not before.
    pub(crate) fn renew(&mut self, group: GroupNumber, until: RunTime) {
        self.end_term(group);
        self.terms.insert(group, until);
        self.lapsing.insert((until, group));
    }

    pub(crate) fn end_term(&mut self, group: GroupNumber) {
        if let Some(at) = self.terms.remove(&group) {
            self.lapsing.remove(&(at, group));
        }
    }

    /// The groups whose leaders were not heard of for a term.
    pub(crate) fn lapsed(&self, now: RunTime) -> Vec<GroupNumber> {
        self.lapsing.iter().take_while(|(at, _)| *at <= now).map(|(_, group)| *group).collect()
    }

    /// Leases of an outgoing leader last until this time at most.
    pub(crate) fn hand_over(&mut self, group: GroupNumber, until: RunTime) {
        self.handing.insert(group, Some(until));
    }

    /// The hand-overs that go on, and whether what an outgoing leader's session holds is to end at a time.
    pub(crate) fn handing(&self, now: RunTime) -> Vec<(GroupNumber, bool)> {
        self.handing.iter().map(|(group, until)| (*group, until.is_some_and(|until| until <= now))).collect()
    }

    /// What an outgoing leader's session held has ended.
    pub(crate) fn cut_off(&mut self, group: GroupNumber) {
        self.handing.insert(group, None);
    }

    pub(crate) fn handed_over(&mut self, group: GroupNumber) {
        self.handing.remove(&group);
        self.stir(group);
    }

    /// The group is gone, and nobody was attached to it.
    fn forget(&mut self, group: GroupNumber) {
        self.end_term(group);
        self.handing.remove(&group);
        self.stirred.remove(&group);
    }
}

impl Dispatcher {
    /// The session of a consumer is a candidate or a leader no more, if this was its last one in the group.
    pub(crate) fn left_seat(&mut self, session: SessionId, group: GroupNumber) {
        if self.seats(session, group).is_empty() {
            self.offices.went(group, session);
        }
    }

    /// The consumers of a session in a group.
    pub(crate) fn seats(&self, session: SessionId, group: GroupNumber) -> Vec<ConsumerSlot> {
        let Some(session) = self.sessions.get(&session) else { return Vec::new() };
        let is_in = |slot: &ConsumerSlot| self.consumers[*slot as usize].group == group;
        session.consumers.iter().copied().filter(is_in).collect()
    }

    /// Gives a consumer another seat. True if it had another one.
    pub(crate) fn seat(&mut self, slot: ConsumerSlot, seat: Seat) -> bool {
        let consumer = &mut self.consumers[slot as usize];
        let is_news = core::mem::replace(&mut consumer.seat, seat) != seat;
        if seat.is_served() {
            self.feed(slot);
        } else if core::mem::take(&mut consumer.queued) {
            self.scopes.starve(consumer.scope, slot);
        }
        is_news
    }

    /// After a start: leaders may come back to their offices, and hand-overs go on.
    pub(crate) fn restore_offices(&mut self, state: &State) {
        let (now, grace) = (state.now.run, self.grace);
        for (group, office) in state.groups.iter().filter_map(|(group, of)| Some((group, of.office.as_deref()?))) {
            if let Some(leader) = office.leader {
                self.restore(leader, now, grace).leads.push(group);
                self.offices.renew(group, grace.max(now + office.terms.term));
            }
            if let Some((_, until)) = office.outgoing {
                self.offices.hand_over(group, until.max(grace));
            }
        }
    }

    /// A group goes, and its office with it.
    pub(crate) fn close_office(&mut self, group: GroupNumber, leader: Option<SessionId>) {
        if let Some(session) = leader.and_then(|leader| self.sessions.get_mut(&leader)) {
            session.leads.retain(|other| *other != group);
        }
        self.offices.forget(group);
    }
}
