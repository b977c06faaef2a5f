//! Terms of office: a leader leads until it has resigned, was deposed, has detached its last consumer, ended its session, had
//! that expire, or was not heard of for a term; not for less, and no longer. What it has leased lasts for the hand-over then.
//! Who comes to lead was heard of within a term.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Attach, Command, Finish, FinishVerb};
use millpond_core::fact::{Fact, GroupNumber};
use millpond_core::output::{Output, Reply};
use millpond_types::{RunTime, SessionId};

use super::Kept;
use super::leases::Leases;
use super::seats::group_of;
use crate::model::{Model, Office};
use crate::sights::Sights;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Terms {
    now: RunTime,
    /// The consumers of sessions in exclusive groups.
    seats: BTreeSet<(GroupNumber, SessionId, u32)>,
    /// When each session was heard of last.
    heard: BTreeMap<SessionId, RunTime>,
    /// When the term of each group's leader began last.
    begun: BTreeMap<GroupNumber, RunTime>,
}

impl Terms {
    /// The broker has started: time has stood still for the leaders that it found.
    pub fn started(&mut self, now: RunTime, model: &Model) {
        self.begun = offices(model).map(|(group, _)| (group, now)).collect();
    }

    /// A turn begins.
    pub fn begin(&mut self, now: RunTime) {
        self.now = now;
    }

    /// A command was decided: somebody was heard of, or has gone.
    pub fn decided(&mut self, command: &Command, reply: Option<&Reply>, model: &Model, sights: &mut Sights) -> Kept {
        match (command, reply) {
            (Command::SessionBegin(begin), Some(Reply::SessionBegun { .. })) => {
                self.gone(begin.session);
                self.heard.insert(begin.session, self.now);
            }
            (Command::Attach(attach), Some(Reply::Done)) => self.attached(attach, model),
            (Command::Heartbeat { session, .. }, _) => {
                let groups = self.seats.iter().filter(|(_, of, _)| of == session).map(|(group, ..)| *group);
                for group in groups.collect::<Vec<_>>() {
                    sights.saw_many("terms that a heartbeat renewed", u64::from(leads(model, group, *session)));
                    self.hears(group, *session, model);
                }
            }
            (Command::SessionLost(session), _) => self.gone(*session),
            (Command::Detach { session, consumer }, Some(Reply::Done)) => {
                let seat = self.seats.iter().find(|(_, of, number)| (of, number) == (session, consumer)).copied();
                if let Some(seat) = seat.filter(|seat| self.seats.remove(seat) && leads(model, seat.0, *session)) {
                    return self.leads_where_attached(seat.0, *session, sights);
                }
            }
            (Command::SessionEnd(session), _) => {
                self.gone(*session);
                self.heard.remove(session);
                if let Some((group, _)) = offices(model).find(|(_, office)| office.leader == Some(*session)) {
                    return Err(Violation::terms(format!("{session:?} is over, and leads group {group}")));
                }
            }
            (Command::Resign { session, consumer }, Some(Reply::Done)) => {
                let group = self.seats.iter().find(|(_, of, number)| (of, number) == (session, consumer));
                if let Some((group, ..)) = group.filter(|(group, ..)| leads(model, *group, *session)) {
                    return Err(Violation::terms(format!("{session:?} has resigned, and leads group {group}")));
                }
            }
            (Command::Depose { namespace, group: name }, Some(Reply::Done)) => {
                let group = group_of(model, namespace, name);
                let office = group.and_then(|group| model.groups[&group].office);
                if office.is_none_or(|office| office.leader.is_some()) {
                    return Err(Violation::terms(format!("the leader of {name} is deposed, and it has {office:?}")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn attached(&mut self, attach: &Attach, model: &Model) {
        let group = group_of(model, &attach.namespace, &attach.group);
        if let Some(group) = group.filter(|group| model.groups[group].office.is_some()) {
            self.seats.insert((group, attach.session, attach.consumer));
            self.hears(group, attach.session, model);
        }
    }

    fn hears(&mut self, group: GroupNumber, session: SessionId, model: &Model) {
        self.heard.insert(session, self.now);
        if leads(model, group, session) {
            self.begun.insert(group, self.now);
        }
    }

    /// The consumers of a session are gone, and not its offices.
    fn gone(&mut self, session: SessionId) {
        self.seats.retain(|(_, of, _)| *of != session);
    }

    fn seats_of(&self, group: GroupNumber, session: SessionId) -> impl Iterator<Item = u32> {
        self.seats.range((group, session, 0)..=(group, session, u32::MAX)).map(|(.., number)| *number)
    }

    /// Who leads a group from which it has detached a consumer has another one there.
    fn leads_where_attached(&self, group: GroupNumber, session: SessionId, sights: &mut Sights) -> Kept {
        if self.seats_of(group, session).next().is_none() {
            return Err(Violation::terms(format!("{session:?} has no consumer in group {group}, and leads it")));
        }
        sights.saw("leaders that detached one consumer of two");
        Ok(())
    }

    /// Somebody takes an office.
    pub fn taken(&mut self, model: &Model, fact: &Fact) -> Kept {
        let Fact::OfficeTaken { group, session, epoch } = fact else { unreachable!("called for this fact alone") };
        let office = model.groups[group].office.expect("it is taken");
        let is_candidate = self.seats_of(*group, *session).next().is_some();
        let is_present = self.heard.get(session).is_some_and(|heard| *heard + office.terms.term > self.now);
        if office.leader.is_some() || *epoch <= office.epoch || !is_candidate || !is_present {
            let what = format!("{session:?} leads group {group} from {:?} on, and was {office:?}", self.now);
            return Err(Violation::terms(what));
        }
        self.begun.insert(*group, self.now);
        Ok(())
    }

    /// Leases of a group are extended: by nobody who asks for it while those of a leader that has lost its office last.
    pub fn extended(&self, model: &Model, group: GroupNumber, asked: Option<&Command>) -> Kept {
        let is_asked = matches!(asked, Some(Command::Finish(Finish { verb: FinishVerb::Extend { .. }, .. })));
        match model.groups[&group].office {
            Some(office) if is_asked && office.outgoing.is_some() => {
                Err(Violation::terms(format!("a lease of group {group} is extended, which is handed over: {office:?}")))
            }
            _ => Ok(()),
        }
    }

    /// A leader loses its office, by the command of a client or else by itself.
    pub fn left(
        &self,
        model: &Model,
        fact: &Fact,
        asked: Option<&Command>,
        leases: &Leases,
        sights: &mut Sights,
    ) -> Kept {
        let Fact::OfficeLeft { group, until } = fact else { unreachable!("called for this fact alone") };
        let office = model.groups[group].office.expect("it is left");
        let leader = office.leader.expect("somebody leaves it");
        let why = match asked {
            Some(Command::Resign { session, .. }) if *session == leader => Some("offices resigned"),
            Some(Command::Depose { namespace, group: name }) if group_of(model, namespace, name) == Some(*group) => {
                Some("leaders deposed")
            }
            Some(Command::Detach { session, consumer }) if *session == leader => {
                let is_last = self.seats_of(*group, leader).eq([*consumer]);
                Some("offices left by the last consumer").filter(|_| is_last)
            }
            Some(Command::SessionEnd(session)) if *session == leader => Some("offices left with a session"),
            None if leases.has_expired(leader) => Some("offices that went with an expired session"),
            None if self.has_lapsed(*group, &office) => Some("offices that lapsed"),
            _ => None,
        };
        let Some(why) = why else {
            let what = format!(
                "{leader:?} loses the office of group {group} at {:?} by {asked:?}, and was heard of at {:?}: {office:?}",
                self.now, self.begun[group]
            );
            return Err(Violation::terms(what));
        };
        sights.saw(why);
        let due = office.outgoing.unwrap_or(self.now + office.terms.handover);
        if *until < due || *until > due && !leases.is_graced() {
            return Err(Violation::terms(format!("group {group} is handed over until {until:?}: {office:?}")));
        }
        Ok(())
    }

    /// The turn is over: nobody leads who was not heard of for a term, unless the grace of a start goes on.
    pub fn made(&mut self, outputs: &[Output], model: &Model, leases: &Leases) -> Kept {
        for output in outputs {
            if let Output::SessionExpired(session) = output {
                self.gone(*session);
                self.heard.remove(session);
            }
        }
        let mut led = offices(model).filter(|(_, office)| office.leader.is_some() && !leases.is_graced());
        match led.find(|(group, office)| self.has_lapsed(*group, office)) {
            None => Ok(()),
            Some((group, office)) => {
                let (now, begun) = (self.now, self.begun[&group]);
                Err(Violation::terms(format!("at {now:?} the term of {begun:?} goes on in group {group}: {office:?}")))
            }
        }
    }

    fn has_lapsed(&self, group: GroupNumber, office: &Office) -> bool {
        self.begun[&group] + office.terms.term <= self.now
    }
}

/// The exclusive groups that are not being deleted.
fn offices(model: &Model) -> impl Iterator<Item = (GroupNumber, Office)> {
    let there = model.groups.iter().filter(|(_, of)| !of.is_ending);
    there.filter_map(|(group, of)| Some((*group, of.office?)))
}

fn leads(model: &Model, group: GroupNumber, session: SessionId) -> bool {
    model.groups.get(&group).and_then(|of| of.office).is_some_and(|office| office.leader == Some(session))
}
