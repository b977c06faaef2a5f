//! Memory: where topics take more than their room, those that are idle leave it. What stays is busy: leased, in retry, awaited by a
//! start or about to change by itself; or somebody is about to come to it, which only the core knows. So an idle topic costs nothing.
//! What leased topics take is counted, each message that is leased as if it stood alone, for that is what it may come to
//! with all that clients do with leases; and whoever holds leases is given more only where half of the room is left, or more than
//! it holds. Receives are known by their group alone, which is given many at once while a quarter is left beside what it holds, and
//! one at a time while an eighth is; a session that holds nothing is always given something.
//!
//! What is counted here is the least that the core may count: where that leaves no room for a lease, none is given.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{Fact, GroupNumber};
use millpond_core::{Core, Now};
use millpond_types::{LeaseNumber, Millis, SessionId, TopicNumber};

use super::Kept;
use crate::model::{Model, State, Topic};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Topics that time changes so soon stay: the core looks as far ahead.
const SOON: Millis = Millis::seconds(60);

/// Bytes that a message takes at least that is leased alone: its lease, the run that it is, and where both are found.
const LEASE_BYTES: usize = 350;
/// Bytes that a topic takes at least beside that.
const TOPIC_BYTES: usize = 500;
/// One part in so many of the room, of which receives are given one message each.
const ONE_EACH: usize = 4;
/// One part in so many, of which only those are that hold less than is free.
const SPARED: usize = 8;
/// One part in so many, of which they are given nothing where they hold something.
const FIRST: usize = 16;
/// One part in so many, of which they are given nothing.
const LAST: usize = 32;
/// One part in so many, which heartbeats may leave out before sessions are given none that hold nothing.
const LEFT_OUT: usize = 8;

/// A lease, by where it is.
type LeaseKey = (GroupNumber, TopicNumber, LeaseNumber);

/// Who is given leases, and what room there is for them.
pub struct Rations {
    /// Bytes that leased topics may take.
    room: usize,
    /// Leases that there was no room for, and what is wrong with them: unless they end in this turn, for what ends as it is
    /// delivered is not counted.
    beyond: BTreeMap<LeaseKey, Violation>,
    /// Leases that heartbeats have left out. The core forgets it at a start, where it has no facts of it.
    left_out: BTreeSet<LeaseKey>,
}

impl Rations {
    /// With so much room.
    pub fn new(room: usize) -> Rations {
        Rations { room, beyond: BTreeMap::new(), left_out: BTreeSet::new() }
    }

    /// The broker has gone, with the turn that it was in.
    pub fn go_back(&mut self) {
        self.beyond.clear();
        self.left_out.clear();
    }

    /// Something has happened, or is about to.
    pub fn happens(&mut self, model: &Model, fact: &Fact, sights: &mut Sights) {
        match fact {
            Fact::Leased { topic, group, count, lease, holder, .. } => {
                // The last of them comes when the others are there. What its topic takes beside its leases is left out: it may be
                // the first to be leased, for which only the message's own bytes need room.
                let given = (*count as usize - 1) * LEASE_BYTES;
                let others = model.topics.iter().filter(|(key, _)| **key != (*group, *topic)).map(|(_, topic)| topic);
                let own = model.topics[&(*group, *topic)].leases.len() * LEASE_BYTES;
                let leased = others.map(least_of).sum::<usize>() + own + given;
                let held = held_by(model, *holder, *group) + given;
                if leased < self.room / 2 {
                    return;
                }
                sights.saw("leases where half of the room is taken");
                let has_free = |room: usize| held < room.saturating_sub(leased);
                let is_within = match holder {
                    SessionId(0) if *count > 1 => has_free(but_for(ONE_EACH, self.room)),
                    SessionId(0) if held == 0 => leased < but_for(LAST, self.room).max(1),
                    SessionId(0) => has_free(but_for(FIRST, self.room)) || leased < but_for(SPARED, self.room),
                    _ => has_free(self.room) || held == 0 && self.left_out(model) < self.room / LEFT_OUT,
                };
                if !is_within {
                    let what = format!(
                        "{holder:?} is given {count} leases, and holds {held} bytes of the {leased} that are leased, \
                         where there is room for {}",
                        self.room
                    );
                    self.beyond.insert((*group, *topic, *lease), Violation::memory(what));
                }
            }
            Fact::Extended { topic, group, lease, count, holder: SessionId(0), .. } => {
                for lease in (lease.0..lease.0 + u64::from(*count)).map(LeaseNumber) {
                    let key = (*group, *topic, lease);
                    if holder_of(model, key).is_some_and(|holder| holder != SessionId(0)) {
                        self.left_out.insert(key);
                    }
                }
            }
            Fact::Delivered { topic, group, lease, .. } => _ = self.beyond.remove(&(*group, *topic, *lease)),
            _ => {}
        }
    }

    /// A turn is over. What leased topics take is known, and nobody was given what there was no room for.
    pub fn rests(&mut self, core: &Core, model: &Model, sights: &mut Sights) -> Kept {
        let leases: usize = model.topics.values().map(|topic| topic.leases.len()).sum();
        let (counted, least) = (core.leased_bytes(), model.topics.values().map(least_of).sum());
        sights.saw_many("leases counted", leases as u64);
        sights.saw_many("consumers on rations", core.rationed() as u64);
        if counted < least || leases == 0 && counted > 0 {
            let what =
                format!("{leases} messages that are leased, of at least {least} bytes, are counted as {counted}");
            return Err(Violation::memory(what));
        }
        self.beyond.pop_first().map_or(Ok(()), |(_, violation)| Err(violation))
    }

    /// Whether somebody may be given nothing of a group, because of what it holds and others do. What topics take that a start has
    /// still to come to is not there for leases, and where jobs are on hold it does not go on.
    pub fn may_ration(&self, core: &Core, model: &Model, (holder, group): (SessionId, GroupNumber)) -> bool {
        let by_starts = if core.has_jobs_on_hold() { core.held_bytes().min(self.room / 2) } else { 0 };
        let room = self.room - by_starts;
        let (leased, holds) = (core.leased_bytes(), held_by(model, holder, group) > 0);
        match holder {
            SessionId(0) => holds && leased >= but_for(SPARED, room) || leased >= but_for(LAST, room).max(1),
            // Of what heartbeats have left out before a start, the core may know more than is told here.
            _ => holds && leased >= room / 2 || leased >= room && is_any_held_by_none(model),
        }
    }

    /// Bytes that those leases take at least which heartbeats have left out.
    fn left_out(&self, model: &Model) -> usize {
        let current = self.left_out.iter().filter(|key| holder_of(model, **key) == Some(SessionId(0)));
        current.count() * LEASE_BYTES
    }
}

/// A room but for one part in so many.
fn but_for(parts: usize, room: usize) -> usize {
    room - room / parts
}

/// Whether there is a lease that no session holds.
fn is_any_held_by_none(model: &Model) -> bool {
    model.leases().any(|(.., message)| message.terms.holder == SessionId(0))
}

/// Who holds a lease that is current.
fn holder_of(model: &Model, (group, topic, lease): LeaseKey) -> Option<SessionId> {
    let topic = model.topics.get(&(group, topic))?;
    topic.leases.get(&lease).map(|key| topic.messages[key].terms.holder)
}

/// Bytes that a topic takes at least because of its leases.
fn least_of(topic: &Topic) -> usize {
    let leases = topic.leases.len();
    if leases > 0 { TOPIC_BYTES + leases * LEASE_BYTES } else { 0 }
}

/// Bytes that the leases take at least of a session, or with none those of a group that no session holds.
fn held_by(model: &Model, holder: SessionId, group: GroupNumber) -> usize {
    let leases = model.leases().filter(|((of, _), ..)| holder != SessionId(0) || *of == group);
    leases.filter(|(.., message)| message.terms.holder == holder).count() * LEASE_BYTES
}

/// A turn is over. There are never so many topics that some are left for the next turn.
pub fn rests(core: &Core, room: usize, model: &Model, sights: &mut Sights) -> Kept {
    // What is soon goes by the clock that the core was told, whatever that is.
    let (bytes, now) = (core.resident_bytes(), core.now());
    if bytes <= room {
        return Ok(());
    }
    sights.saw_many("idle topics out of memory", (model.topics.len() - core.resident_count()) as u64);
    for (group, number, _) in core.residents().filter(|(.., is_needed)| !is_needed) {
        let topic = &model.topics[&(group, number)];
        if !is_busy(model, group, topic, now) {
            let what =
                format!("{} of group {group} takes some of {bytes} bytes, where there is room for {room}", topic.name);
            return Err(Violation::memory(what));
        }
    }
    Ok(())
}

/// Whether something of it is up, or time is about to change it.
fn is_busy(model: &Model, group: GroupNumber, topic: &Topic, now: Now) -> bool {
    let (home, of) = (model.home(group), &model.groups[&group]);
    let soon = now.wall + SOON;
    let changes = topic.messages.values().any(|message| {
        let is_up = match message.state {
            State::Leased(_) | State::Retrying(_) => true,
            State::Delayed(due) => due <= soon,
            State::InLine | State::Back(_) => false,
        };
        is_up || message.expires.is_some_and(|at| at <= soon)
    });
    // Where ageing has ended, topics that wait for a raise are still to be told.
    let is_raised = (home.policy.ageing.is_some() || of.is_settling) && topic.is_ready();
    changes || topic.is_held || of.is_ending || topic.is_limited || is_raised
}
