//! What always holds of the offices of exclusive groups.

use millpond_types::SessionId;

use crate::Core;
use crate::dispatch::consumer::Kind;
use crate::dispatch::offices::Seat;
use crate::fact::GroupNumber;
use crate::page::OfficePage;

pub(super) fn check(core: &Core) {
    for (number, group) in core.state.groups.iter() {
        let Some(office) = group.office.as_deref() else { continue };
        assert!(office.epoch <= core.state.numbers.epochs, "epochs are below the high water");
        if office.leader.is_none() && office.outgoing.is_none() {
            assert_eq!(group.counts.leased, 0, "group {number} has leases, and they are nobody's");
        }
        leases_are_of_one_epoch(core, number, office);
        a_leader_knows_what_it_leads(core, number, office);
        who_is_present_does_not_wait_for_a_vacant_office(core, number, office);
    }
    consumers_sit_where_their_offices_say(core);
}

/// Deliveries of one epoch begin when all leases of those before are over, so all leases that a session holds are of one.
fn leases_are_of_one_epoch(core: &Core, number: GroupNumber, office: &OfficePage) {
    let of = office.outgoing.map(|(session, _)| session).or(office.leader);
    for (_, lease) in &core.state.leases {
        if core.state.topics[lease.slot].group != number {
            continue;
        }
        if lease.holder != SessionId(0) {
            assert_eq!(Some(lease.holder), of, "a lease of group {number} is of an epoch that is over");
        }
        if let Some((_, until)) = office.outgoing.filter(|_| lease.holder == SessionId(0)) {
            assert!(lease.deadline <= until, "a lease of group {number} lasts longer than the hand-over");
        }
    }
}

/// Between a start and the next: a replay has no sessions.
#[expect(clippy::disallowed_methods, reason = "a count has no order")]
fn a_leader_knows_what_it_leads(core: &Core, number: GroupNumber, office: &OfficePage) {
    let leads = |leader: SessionId| core.dispatcher.sessions.get(&leader).map(|of| of.leads.contains(&number));
    let known = office.leader.and_then(leads);
    assert_ne!(known, Some(false), "the session that leads group {number} knows it");
    let leading = core.dispatcher.sessions.values().filter(|session| session.leads.contains(&number)).count();
    assert!(leading <= 1, "group {number} has one leader at most");
    assert_eq!(leading == 1, known.is_some(), "who leads group {number} holds its office");
}

fn who_is_present_does_not_wait_for_a_vacant_office(core: &Core, number: GroupNumber, office: &OfficePage) {
    let present = core.dispatcher.first_present(number, office.terms.term, core.state.now.run);
    assert!(office.leader.is_some() || present.is_none(), "{present:?} waits for group {number}, which nobody leads");
}

fn consumers_sit_where_their_offices_say(core: &Core) {
    for (_, consumer) in &core.dispatcher.consumers {
        let Some(office) = core.state.office(consumer.group) else {
            assert_eq!(consumer.seat, Seat::Shared, "a shared group has no office");
            continue;
        };
        let Kind::Attached { session, .. } = consumer.kind else { panic!("an exclusive group has a receive") };
        let is_served = office.served() == Some(session);
        assert_eq!(consumer.seat.is_served(), is_served, "the leader of a group is served, and nobody else");
        let is_leader = office.leader == Some(session);
        assert_eq!(consumer.seat.epoch(), is_leader.then_some(office.epoch), "a leader knows its epoch");
        let waits = core.dispatcher.offices.candidates(consumer.group).any(|candidate| candidate == session);
        assert!(waits != is_leader, "whoever does not lead a group waits for its office");
    }
}
