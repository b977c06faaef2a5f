//! How long a lease lasts: one that nobody extends until its deadline, one of a session until that was not resumed in time. No
//! lease runs out before, none is current after it, and after a start none that was there runs out before the grace is
//! over, nor does its session or the office that it held. An orderly end gives leases back, and so does a session that is
//! resumed without them: that is no failure.
//!
//! What ends a lease at any other time is a verb that names it, or something before it in its run.

mod ends;
mod lasts;

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, ReceiptRun, SessionBegin};
use millpond_core::fact::{Fact, GroupNumber, Victims};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{LeaderEpoch, LeaseNumber, Millis, Receipt, RunTime, SessionId};

use super::Kept;
use super::seats::Seat;
use crate::model::{Message, Model, Terms, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// How long after a start nothing that was there before runs out.
const GRACE: Millis = Millis::seconds(10);

/// See the module.
#[derive(Default)]
pub struct Leases {
    sessions: BTreeMap<SessionId, Session>,
    now: RunTime,
    /// Run time, as it goes by the machine's clock.
    up: RunTime,
    /// When the grace of the last start is over.
    grace: RunTime,
    /// The leases and the offices that it found.
    found: BTreeSet<(TopicKey, LeaseNumber)>,
    led: BTreeSet<(GroupNumber, LeaderEpoch)>,
}

#[derive(Clone)]
struct Session {
    resume: Millis,
    /// Since its connection is gone.
    expires: Option<RunTime>,
    /// Whether the last start found it.
    is_found: bool,
}

impl Leases {
    /// The broker has started, and this is what it found.
    pub fn started(&mut self, now: RunTime, model: &Model) {
        let found: Vec<_> = model.leases().collect();
        let offices = model.groups.iter().filter_map(|(group, of)| Some((*group, of.office?)));
        let led: Vec<_> = offices.filter_map(|(group, office)| Some((group, office.epoch, office.leader?))).collect();
        let holders = found.iter().map(|(.., message)| message.terms.holder).filter(|holder| *holder != SessionId(0));
        let found_session = Session { resume: GRACE, expires: Some(now), is_found: true };
        self.sessions =
            holders.chain(led.iter().map(|(.., leader)| *leader)).map(|of| (of, found_session.clone())).collect();
        self.found = found.iter().map(|(key, lease, _)| (*key, *lease)).collect();
        self.led = led.into_iter().map(|(group, epoch, _)| (group, epoch)).collect();
        self.grace = now + GRACE;
    }

    /// A turn begins at a time, and by the machine's clock it is so late.
    pub fn begin(&mut self, now: RunTime, up: RunTime) {
        (self.now, self.up) = (now, up);
    }

    /// A command was decided.
    pub fn decided(&mut self, command: &Command, reply: Option<&Reply>, model: &Model, sights: &mut Sights) -> Kept {
        match (command, reply) {
            (Command::SessionBegin(begin), Some(Reply::SessionBegun { resumed })) => {
                self.begun(begin, *resumed, model, sights)
            }
            (Command::SessionLost(session), _) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.expires.get_or_insert(self.now + session.resume);
                }
                Ok(())
            }
            (Command::Heartbeat { session, except }, _) => {
                let terms = |of: &Receipt| {
                    let topic = model.topics.get(&(of.group, of.topic))?;
                    Some(topic.messages[topic.leases.get(&of.lease)?].terms)
                };
                sights.saw_many("leases left out of a heartbeat", except.len() as u64);
                match except.iter().find(|of| terms(of).is_some_and(|terms| terms.holder == *session)) {
                    None => Ok(()),
                    Some(of) => Err(Violation::leases(format!("{of} was left out of a heartbeat, and is held"))),
                }
            }
            (Command::SessionEnd(session), _) => {
                self.sessions.remove(session);
                let held = model.leases().find(|(.., message)| message.terms.holder == *session);
                match held.filter(|_| reply == Some(&Reply::Done)) {
                    None => Ok(()),
                    Some((key, lease, _)) => {
                        Err(Violation::leases(format!("{session:?} has ended, and has lease {} of {key:?}", lease.0)))
                    }
                }
            }
            _ => Ok(()),
        }
    }

    fn begun(&mut self, begin: &SessionBegin, resumed: bool, model: &Model, sights: &mut Sights) -> Kept {
        let SessionBegin { session, resume, held } = begin;
        let before = self.sessions.get(session);
        if before.is_some() != resumed {
            let what = format!("resumed is {resumed} of {session:?}, and by its time it is {}", before.is_some());
            return Err(Violation::leases(what));
        }
        let is_found = before.is_some_and(|session| session.is_found);
        self.sessions.insert(*session, Session { resume: *resume, expires: None, is_found });
        if !resumed {
            return Ok(());
        }
        for (key, lease, _) in model.leases().filter(|(.., message)| message.terms.holder == *session) {
            sights.saw("leases kept by a session that was resumed");
            if !is_named(held, key, lease) {
                let what = format!("{session:?} has lease {} of {key:?}, and its client does not", lease.0);
                return Err(Violation::leases(what));
            }
        }
        Ok(())
    }

    /// Something has happened, by the command of a client or else by itself.
    pub fn happened(&self, model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
        match fact {
            Fact::Extended { .. } => lasts::extended(model, fact, asked, self.now),
            Fact::Acked { .. } | Fact::Returned { .. } => self.ended(model, fact, asked, sights),
            Fact::Died { which: Victims::Leased { .. }, .. }
            | Fact::Superseded { which: Victims::Leased { .. }, .. } => self.ended(model, fact, asked, sights),
            Fact::OfficeLeft { group, .. } if asked.is_none() && self.is_graced() => {
                let epoch = model.groups[group].office.expect("it was left").epoch;
                match self.led.contains(&(*group, epoch)) {
                    true => Err(Violation::grace(format!("the office of group {group} lapses at {:?}", self.up))),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether a session that was lost was not resumed in time.
    pub fn has_expired(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.is_up(self.now))
    }

    /// Whether the grace of the last start goes on.
    pub fn is_graced(&self) -> bool {
        self.up < self.grace
    }

    /// Whether a lease's time is over.
    fn is_up(&self, model: &Model, (group, _): TopicKey, message: &Message) -> bool {
        let Terms { holder, deadline, .. } = message.terms;
        let is_over = match holder {
            SessionId(0) => deadline <= self.now,
            holder => self.sessions.get(&holder).is_none_or(|session| session.is_up(self.now)),
        };
        let outgoing = model.groups[&group].office.and_then(|office| office.outgoing);
        is_over || outgoing.is_some_and(|until| until <= self.now)
    }

    /// Whether the grace of a start holds for a lease.
    fn is_kept(&self, key: TopicKey, lease: LeaseNumber) -> bool {
        self.is_graced() && self.found.contains(&(key, lease))
    }

    /// A turn has made these outputs, and this is what was leased in it. Whatever should be over is.
    pub fn made(
        &mut self,
        outputs: &[Output],
        given: &[(Seat, &LeasedRun)],
        model: &Model,
        sights: &mut Sights,
    ) -> Kept {
        for output in outputs {
            let Output::SessionExpired(id) = output else { continue };
            match self.sessions.remove(id) {
                Some(session) if session.is_up(self.now) && session.is_found && self.is_graced() => {
                    return Err(Violation::grace(format!("{id:?} expires at {:?}", self.up)));
                }
                Some(session) if session.is_up(self.now) => sights.saw("sessions that expired in their time"),
                _ => return Err(Violation::leases(format!("{id:?} expires at {:?}, before its time", self.now))),
            }
        }
        given.iter().try_for_each(|(seat, run)| self.given(seat, run, model))?;
        let mut overdue = model.leases().filter(|(key, _, message)| self.is_up(model, *key, message));
        if self.is_graced() {
            sights.saw_many("leases that the grace of a start kept", overdue.count() as u64);
            return Ok(());
        }
        if let Some((id, _)) = self.sessions.iter().find(|(_, session)| session.is_up(self.now)) {
            return Err(Violation::leases(format!("{id:?} was not resumed, and is there at {:?}", self.now)));
        }
        match overdue.find(|((group, _), ..)| !model.groups[group].is_ending) {
            None => Ok(()),
            Some((key, lease, message)) => {
                let what = format!("lease {} of {key:?} is there at {:?}: {:?}", lease.0, self.now, message.terms);
                Err(Violation::leases(what))
            }
        }
    }
}

impl Session {
    fn is_up(&self, now: RunTime) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// Whether receipts name a lease.
pub fn is_named(receipts: &[ReceiptRun], (group, topic): TopicKey, lease: LeaseNumber) -> bool {
    receipts.iter().any(|run| {
        (run.first.group, run.first.topic) == (group, topic) && (run.first.lease..run.end()).contains(&lease)
    })
}
