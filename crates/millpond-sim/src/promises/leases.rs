//! How long a lease lasts: one that nobody extends until its deadline, one of a session until that was not resumed in time. No
//! lease runs out before, none is current after it, and after a start none that was there runs out before the grace is
//! over, nor does its session or the office that it held. An orderly end gives leases back, and so does a session that is
//! resumed without them: that is no failure.
//!
//! What ends a lease at any other time is a verb that names it, or something before it in its run.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, SessionBegin};
use millpond_core::fact::{DeadReason, Fact, GroupNumber, Victims};
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
            Fact::Extended { .. } => extended(model, fact, asked, self.now),
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

    fn ended(&self, model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
        let (topic, group) = fact.topic().expect("a lease is of a topic");
        let key = (group.expect("and of a group"), topic);
        let (lease, count, end) = match fact {
            Fact::Acked { lease, count, .. } => (lease, count, End::Acked),
            Fact::Returned { lease, count, failed, .. } => (lease, count, End::Back { failed: *failed }),
            Fact::Died { which: Victims::Leased { lease, count }, reason, .. } => (lease, count, End::Dead(*reason)),
            Fact::Superseded { which: Victims::Leased { lease, count }, .. } => (lease, count, End::GaveWay),
            _ => unreachable!("called for these facts alone"),
        };
        for lease in (lease.0..lease.0 + u64::from(*count)).map(LeaseNumber) {
            let message = &model.topics[&key].messages[&model.topics[&key].leases[&lease]];
            self.may_end(model, (key, lease, message), end, asked, sights)?;
        }
        Ok(())
    }

    fn may_end(
        &self,
        model: &Model,
        (key, lease, message): (TopicKey, LeaseNumber, &Message),
        end: End,
        asked: Option<&Command>,
        sights: &mut Sights,
    ) -> Kept {
        let holder = message.terms.holder;
        // Who gives a message of a run back gives back what is behind it.
        let comes_back = matches!(end, End::Back { failed: false } | End::GaveWay);
        let is_rest = message.is_of_run() && comes_back;
        let may = match asked {
            Some(Command::Finish(Finish { verb, receipts, .. })) => {
                let is_meant = match verb {
                    FinishVerb::Ack => end == End::Acked,
                    FinishVerb::Release { .. } => comes_back,
                    FinishVerb::Fail { .. } => {
                        matches!(end, End::Back { failed: true } | End::GaveWay | End::Dead(DeadReason::Failed))
                    }
                    FinishVerb::Reject { .. } => end == End::Dead(DeadReason::Rejected),
                    FinishVerb::Damaged => end == End::Dead(DeadReason::Damaged),
                    FinishVerb::Extend { .. } => false,
                };
                let gives_back = matches!(verb, FinishVerb::Release { .. } | FinishVerb::Fail { .. });
                match is_named(receipts, key, lease) {
                    true => is_meant,
                    false => gives_back && is_rest,
                }
            }
            Some(Command::Forward(forward)) => end == End::Acked && is_named(&forward.receipts, key, lease),
            Some(Command::WithdrawRequest { .. }) => comes_back,
            Some(Command::SessionBegin(begin)) => {
                is_rest || comes_back && holder == begin.session && !is_named(&begin.held, key, lease)
            }
            Some(Command::SessionEnd(session)) => is_rest || comes_back && holder == *session,
            _ if model.groups[&key.0].is_ending && end == (End::Back { failed: false }) => true,
            Some(_) => false,
            // A forward that had to wait.
            None if end == End::Acked => true,
            None => match end {
                End::Back { failed: true } | End::Dead(DeadReason::LeaseExpired) | End::GaveWay => {
                    if self.is_up(model, key, message) && !self.is_kept(key, lease) {
                        sights.saw(match holder {
                            SessionId(0) => "leases that ran out at their deadline",
                            _ => "leases that ran out with their session",
                        });
                        return Ok(());
                    }
                    is_rest
                }
                _ => is_rest,
            },
        };
        if may {
            return Ok(());
        }
        let what = format!("lease {} of {key:?} ends by {end:?} at {:?}: {:?}", lease.0, self.now, message.terms);
        match asked {
            None if self.is_up(model, key, message) => Err(Violation::grace(what)),
            _ => Err(Violation::leases(what)),
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

    /// What was leased lasts for as long as was asked for.
    fn given(&self, seat: &Seat, run: &LeasedRun, model: &Model) -> Kept {
        let key = (run.receipt.group, run.receipt.topic);
        let Some(topic) = model.topics.get(&key).filter(|_| !seat.at_most_once) else { return Ok(()) };
        let duration = seat.lease.unwrap_or_else(|| model.home(key.0).policy_of(&topic.name).lease);
        for lease in (run.receipt.lease.0..).take(run.count as usize).map(LeaseNumber) {
            let Some(place) = topic.leases.get(&lease) else { continue };
            let Terms { holder, duration: lasts, deadline, .. } = topic.messages[place].terms;
            if (holder, lasts, deadline) != (seat.holder, duration, self.now + duration) {
                let what = format!(
                    "lease {} of {key:?} is {holder:?}'s for {lasts:?} until {deadline:?}, and was asked for by {:?} for \
                     {duration:?} at {:?}",
                    lease.0, seat.holder, self.now
                );
                return Err(Violation::leases(what));
            }
        }
        Ok(())
    }
}

impl Session {
    fn is_up(&self, now: RunTime) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// How a lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Acked,
    Back {
        failed: bool,
    },
    Dead(DeadReason),
    /// Another message stands for it.
    GaveWay,
}

/// A lease lasts for another time: for as long as was asked for, or what was left out of a heartbeat for as long as it was.
fn extended(model: &Model, fact: &Fact, asked: Option<&Command>, now: RunTime) -> Kept {
    let Fact::Extended { topic, group, lease, count, holder, duration, deadline } = fact else {
        unreachable!("called for this fact alone")
    };
    let (key, found) = ((*group, *topic), &model.topics[&(*group, *topic)]);
    for lease in (lease.0..lease.0 + u64::from(*count)).map(LeaseNumber) {
        let before = found.messages[&found.leases[&lease]].terms;
        let wanted = match asked {
            Some(Command::Finish(Finish { verb: FinishVerb::Extend { lease: asked }, receipts, .. }))
                if is_named(receipts, key, lease) =>
            {
                Some((before.holder, asked.unwrap_or_else(|| model.home(*group).policy_of(&found.name).lease)))
            }
            Some(Command::Heartbeat { session, except }) => {
                let is_left_out = except.iter().any(|of| ((of.group, of.topic), of.lease) == (key, lease));
                Some((SessionId(0), before.duration)).filter(|_| is_left_out && before.holder == *session)
            }
            _ => None,
        };
        let latest = model.groups[group].office.map(|office| match office.outgoing {
            Some(until) => until,
            None => now + office.terms.handover,
        });
        let until = now + *duration;
        let until = latest.map_or(until, |latest| latest.min(until));
        if wanted != Some((*holder, *duration)) || *deadline != until {
            let what = format!(
                "lease {} of {key:?} lasts {duration:?} until {deadline:?} for {holder:?}, and should {wanted:?} until {until:?}",
                lease.0
            );
            return Err(Violation::leases(what));
        }
    }
    Ok(())
}

/// Whether receipts name a lease.
fn is_named(receipts: &[ReceiptRun], (group, topic): TopicKey, lease: LeaseNumber) -> bool {
    receipts.iter().any(|run| {
        (run.first.group, run.first.topic) == (group, topic) && (run.first.lease..run.end()).contains(&lease)
    })
}
