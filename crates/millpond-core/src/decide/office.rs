//! The offices of exclusive groups: taken by the first who waits, kept by heartbeats, and handed over.
//!
//! Whoever leaves an office may finish what it has leased, and nobody is delivered to before all of that is over: so
//! deliveries of one epoch never mix with those of another.

use alloc::format;
use alloc::vec::Vec;

use millpond_types::{
    Code, GroupName, LeaderEpoch, Millis, NamespaceName, OfficeTerms, OfficeView, Role, RunTime, SessionId, Standing,
};

use crate::Core;
use crate::decide::Refusal;
use crate::dispatch::ConsumerSlot;
use crate::dispatch::consumer::Kind;
use crate::dispatch::offices::Seat;
use crate::fact::{Fact, FactLog, GroupNumber};
use crate::left_behind::Why;
use crate::output::{Output, Reply};
use crate::state::namespace::Namespace;

impl Core {
    pub(super) fn resign(
        &mut self,
        session: SessionId,
        consumer: u32,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let slot = self.dispatcher.attached(session, consumer);
        let slot = slot.ok_or_else(|| super::session::consumer_unknown(consumer))?;
        let group = self.dispatcher.consumers[slot as usize].group;
        if self.state.office(group).is_none_or(|office| office.leader != Some(session)) {
            let detail =
                format!("consumer {consumer} does not hold the office of its group, so there is nothing to resign");
            return Err((Code::NotLeader, detail));
        }
        self.leave_office(group, log);
        Ok(Reply::Done)
    }

    /// Whoever asks ends the leader's term.
    pub(super) fn depose(
        &mut self,
        namespace: &NamespaceName,
        name: &GroupName,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let group = self.group_of(self.namespace_of(namespace)?, name)?;
        let Some(office) = self.state.office(group) else {
            let detail = format!(
                "group {name} is shared by its consumers and has no leader: `group list` says which are exclusive"
            );
            return Err((Code::NotLeader, detail));
        };
        if office.leader.is_none() {
            let detail = format!("nobody leads group {name} now, so there is nobody to depose");
            return Err((Code::NotLeader, detail));
        }
        self.leave_office(group, log);
        Ok(Reply::Done)
    }

    /// A consumer has come to a group, or its session was heard of.
    pub(super) fn heard_in(&mut self, session: SessionId, group: GroupNumber) {
        let Some(office) = self.state.office(group) else { return };
        let (now, until) = (self.state.now.run, self.term_from_now(office.terms.term));
        self.dispatcher.sessions.get_mut(&session).expect("a consumer's session is there").heard = now;
        let offices = &mut self.dispatcher.offices;
        if office.leader == Some(session) {
            offices.renew(group, until);
            offices.stir(group);
        } else {
            offices.came(group, session);
        }
    }

    /// A heartbeat: a session keeps what it leads, and may take what it waits for.
    pub(super) fn renew_offices(&mut self, id: SessionId) {
        let Some(session) = self.dispatcher.sessions.get(&id) else { return };
        let consumers = session.consumers.iter().map(|slot| &self.dispatcher.consumers[*slot as usize]);
        let exclusive = consumers.filter(|consumer| consumer.seat != Seat::Shared).map(|consumer| consumer.group);
        for group in exclusive.collect::<Vec<_>>() {
            self.heard_in(id, group);
        }
    }

    /// A session is over, and its consumers are gone: it leads no group any more.
    pub(super) fn leave_offices(&mut self, session: SessionId, log: &mut dyn FactLog) {
        let leads = self.dispatcher.sessions.get(&session).map(|session| session.leads.clone());
        leads.unwrap_or_default().into_iter().for_each(|group| self.leave_office(group, log));
    }

    /// A consumer of a session has gone from a group, which the session leads no more if that was its last one there. Others that it
    /// leads wait for theirs: who is back on another connection attaches one consumer after the other.
    pub(super) fn leave_office_without_seat(&mut self, session: SessionId, group: GroupNumber, log: &mut dyn FactLog) {
        let leads = self.state.office(group).is_some_and(|office| office.leader == Some(session));
        if leads && self.dispatcher.seats(session, group).is_empty() {
            self.leave_office(group, log);
        }
    }

    /// A lease that nobody extends from here on ends with the hand-over, were the office lost right now.
    pub(super) fn let_go_until(&self, group: GroupNumber, duration: Millis) -> RunTime {
        let now = self.state.now.run;
        match self.state.office(group) {
            None => now + duration,
            Some(office) => {
                let latest = office.outgoing.map_or(now + office.terms.handover, |(_, until)| until);
                latest.min(now + duration)
            }
        }
    }

    /// Whether leases of a group are those of a leader that has lost its office.
    pub(super) fn is_deposed(&self, group: GroupNumber) -> bool {
        self.state.office(group).is_some_and(|office| office.outgoing.is_some())
    }

    /// Brings the offices up to date: once a turn, behind all that may end a lease or a term.
    pub(crate) fn tend_offices(&mut self, log: &mut dyn FactLog) {
        let now = self.state.now.run;
        if self.dispatcher.offices.is_quiet(now) {
            return;
        }
        for group in self.dispatcher.offices.lapsed(now) {
            self.leave_office(group, log);
        }
        for (group, is_up) in self.dispatcher.offices.handing(now) {
            if is_up {
                self.cut_off(group, log);
            }
            if self.state.groups[group].counts.leased == 0 {
                self.commit(Fact::HandedOver { group }, log);
                self.dispatcher.offices.handed_over(group);
            }
        }
        for group in self.dispatcher.offices.take_stirred() {
            self.fill_office(group, log);
            self.tell_standings(group);
        }
    }

    /// The offices of a namespace, as others see them.
    pub(super) fn offices<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = OfficeView> + 'a {
        namespace.groups.iter().filter_map(|number| {
            let group = &self.state.groups[*number];
            let office = group.office.as_deref()?;
            Some(OfficeView {
                group: group.name.clone(),
                terms: office.terms,
                epoch: office.epoch,
                leader: office.leader.map(SessionId::public),
                is_handing_over: office.outgoing.is_some(),
                candidates: self.dispatcher.offices.candidates(*number).len() as u32,
            })
        })
    }

    /// The leader of a group loses its office. If it is still there, it waits behind all others.
    fn leave_office(&mut self, group: GroupNumber, log: &mut dyn FactLog) {
        let office = self.state.office(group).expect("there is an office to leave");
        let leader = office.leader.expect("who leaves an office holds it");
        let latest = (self.state.now.run + office.terms.handover).max(self.dispatcher.grace);
        let until = office.outgoing.map_or(latest, |(_, until)| until);
        self.commit(Fact::OfficeLeft { group, until }, log);
        let dispatcher = &mut self.dispatcher;
        dispatcher.offices.end_term(group);
        dispatcher.offices.hand_over(group, until.max(dispatcher.grace));
        dispatcher.offices.stir(group);
        if let Some(session) = dispatcher.sessions.get_mut(&leader) {
            session.leads.retain(|other| *other != group);
            self.state.emptied.push(leader);
        }
        if !dispatcher.seats(leader, group).is_empty() {
            dispatcher.offices.came(group, leader);
        }
    }

    /// The hand-over is up: what the outgoing leader's session still holds has expired. What it has let go ends by then,
    /// too, each by its own timer.
    fn cut_off(&mut self, group: GroupNumber, log: &mut dyn FactLog) {
        self.dispatcher.offices.cut_off(group);
        let outgoing = self.state.office(group).and_then(|office| office.outgoing);
        let (session, _) = outgoing.expect("a hand-over is somebody's");
        self.leave_behind(session, Some(group), Why::CutOff, log);
    }

    /// When a term lapses that begins now: after a start not before the grace is over.
    fn term_from_now(&self, term: Millis) -> RunTime {
        (self.state.now.run + term).max(self.dispatcher.grace)
    }

    /// Gives a vacant office to the first who waits for it and was heard of within a term.
    fn fill_office(&mut self, group: GroupNumber, log: &mut dyn FactLog) {
        let Some(office) = self.state.office(group).filter(|office| office.leader.is_none()) else { return };
        let (OfficeTerms { term, .. }, epoch) = (office.terms, LeaderEpoch(office.epoch.0 + 1));
        let Some(session) = self.dispatcher.first_present(group, term, self.state.now.run) else { return };
        self.commit(Fact::OfficeTaken { group, session, epoch }, log);
        let until = self.term_from_now(term);
        let dispatcher = &mut self.dispatcher;
        dispatcher.offices.went(group, session);
        dispatcher.offices.renew(group, until);
        dispatcher.sessions.get_mut(&session).expect("a candidate's session is there").leads.push(group);
    }

    /// Tells the consumers of a group what they are, where that is news.
    fn tell_standings(&mut self, group: GroupNumber) {
        let Some(office) = self.state.office(group).copied() else { return };
        let sessions = office.leader.into_iter().chain(self.dispatcher.offices.candidates(group));
        let sessions: Vec<SessionId> = sessions.collect();
        for session in sessions {
            let is_leader = office.leader == Some(session);
            let seat = match office.outgoing {
                None if is_leader => Seat::Lead(office.epoch),
                Some(_) if is_leader => Seat::Inaugurate(office.epoch),
                Some((outgoing, _)) if outgoing == session => Seat::Deposed,
                _ => Seat::Candidate,
            };
            for slot in self.dispatcher.seats(session, group) {
                let held = self.dispatcher.consumers[slot as usize].seat.epoch();
                if held.is_some() && held != seat.epoch() {
                    // Also where nothing is left to hand over, or it holds the office again by now.
                    self.take_seat(slot, Seat::Deposed);
                }
                self.take_seat(slot, seat);
            }
        }
    }

    fn take_seat(&mut self, slot: ConsumerSlot, seat: Seat) {
        let role = match seat {
            Seat::Candidate => Role::Candidate,
            Seat::Deposed => Role::Deposed,
            Seat::Inaugurate(_) => Role::Inaugurate,
            Seat::Lead(_) => Role::Lead,
            Seat::Shared | Seat::New => unreachable!("nobody is told so"),
        };
        if !self.dispatcher.seat(slot, seat) {
            return;
        }
        let consumer = &self.dispatcher.consumers[slot as usize];
        let office = self.state.office(consumer.group).expect("a consumer with a standing is of an exclusive group");
        let OfficeTerms { term, handover } = office.terms;
        let over = |until: RunTime| until.max(self.dispatcher.grace).since(self.state.now.run);
        let left = office.outgoing.map_or(Millis::ZERO, |(_, until)| over(until));
        let handover = if matches!(role, Role::Deposed | Role::Inaugurate) { left } else { handover };
        let Kind::Attached { session, number } = consumer.kind else { unreachable!("a receive has no standing") };
        let standing = Standing { role, epoch: office.epoch, term, handover };
        self.outputs.push(Output::Standing { session, consumer: number, standing });
    }
}
