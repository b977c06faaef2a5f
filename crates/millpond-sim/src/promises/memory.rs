//! Memory: where topics take more than their room, those that are idle leave it. What stays is busy: leased, in retry, awaited by a
//! start or about to change by itself; or somebody is about to come to it, which only the core knows. So an idle topic costs nothing.
//! What leased topics take is counted, each message that is leased as if it stood alone, for that is what it may come to
//! with all that clients do with leases; and whoever holds leases is given more only where half of the room is left, or more than
//! it holds.
//!
//! What is counted here is the least that the core may count: where that leaves no room for a lease, none is given.

use std::collections::BTreeMap;

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
/// Of the room, the part that leases without a session may take of it before those are given none who hold nothing.
const LEFT_OUT: (usize, usize) = (5, 8);

/// Who is given leases, and what room there is for them.
pub struct Rations {
    /// Bytes that leased topics may take.
    room: usize,
    /// Leases that there was no room for, and what is wrong with them: unless they end in this turn, for what ends as it is
    /// delivered is not counted.
    beyond: BTreeMap<(GroupNumber, TopicNumber, LeaseNumber), Violation>,
}

impl Rations {
    /// With so much room.
    pub fn new(room: usize) -> Rations {
        Rations { room, beyond: BTreeMap::new() }
    }

    /// The broker has gone, with the turn that it was in.
    pub fn go_back(&mut self) {
        self.beyond.clear();
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
                let (held, by_none) = (held_by(model, *holder) + given, held_by(model, SessionId(0)));
                let is_poor = held == 0 && by_none < self.room / LEFT_OUT.1 * LEFT_OUT.0;
                if leased < self.room / 2 {
                    return;
                }
                sights.saw("leases where half of the room is taken");
                if !is_poor && held >= self.room.saturating_sub(leased) {
                    let what = format!(
                        "{holder:?} is given {count} leases, and holds {held} bytes of the {leased} that are leased, \
                         where there is room for {}",
                        self.room
                    );
                    self.beyond.insert((*group, *topic, *lease), Violation::memory(what));
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

    /// Whether somebody may be given nothing, because of what it holds and others do.
    pub fn may_ration(&self, core: &Core, model: &Model, holder: SessionId) -> bool {
        let holds = [holder, SessionId(0)].iter().any(|holder| held_by(model, *holder) > 0);
        holds && core.leased_bytes() >= self.room / 2
    }
}

/// Bytes that a topic takes at least because of its leases.
fn least_of(topic: &Topic) -> usize {
    let leases = topic.leases.len();
    if leases > 0 { TOPIC_BYTES + leases * LEASE_BYTES } else { 0 }
}

/// Bytes that the leases take at least of a session, or with none those of receives.
fn held_by(model: &Model, holder: SessionId) -> usize {
    model.leases().filter(|(.., message)| message.terms.holder == holder).count() * LEASE_BYTES
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
