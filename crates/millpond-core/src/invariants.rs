//! What always holds of the state, as named functions: called by scripts, properties and the simulation after every
//! step. Each panics with what it found.

mod offices;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use millpond_types::{Counts, RunTime, Sequence, SessionId, WallTime};

use crate::Core;
use crate::fact::GroupNumber;
use crate::jobs::ROWS;
use crate::state::State;
use crate::state::line::InLine;
use crate::state::pieces::PieceTimers;
use crate::state::topic::{Aside, AsideWhy, Expiry, Left, Level, Topic};
use crate::store::{SHELVES, Shelf};

/// Turns in which somebody waits for what is at hand: far more than there is to be passed over in a test.
const TURNS_HELD_MAX: u32 = 100;

/// Checks everything; costs time in proportion to the state.
pub fn check(core: &Core) {
    let state = &core.state;
    for (slot, topic) in state.topics.iter() {
        for level in &topic.levels {
            messages_stand_once_and_in_order(level);
            ready_list_matches(level);
            nothing_is_kept_for_what_is_finished(level);
        }
        leases_match(state, slot, topic);
        numbers_are_below_the_high_water(state, topic);
        topic_is_found(state, slot, topic);
        what_a_start_has_not_come_to_is_held(state, topic);
        siblings_are_one_topic(state, topic);
    }
    every_lease_has_a_topic(state);
    holders_hold_what_is_held(state);
    counts_are_right(state);
    spans_count_what_was_published_in_them(state);
    entries_are_counted(state);
    residents_are_weighed(state);
    timers_are_as_many_as_what_waits(state);
    buckets_have_their_timers(state);
    raises_have_their_timers(state);
    ready_topics_are_offered(core);
    assert_eq!(state.setup, state.weigh_setup(), "what is set up is summed up");
    core.dispatcher.check_living();
    core.dispatcher.check_yielding(&core.state);
    rations_have_their_reason(core);
    jobs_read_ahead_what_is_not_in_memory(core);
    who_holds_leases_is_there_or_left_them_behind(core);
    offices::check(core);
}

/// What a job knows of a topic besides what memory says is the truth, and never much.
fn jobs_read_ahead_what_is_not_in_memory(core: &Core) {
    for (group, names) in core.jobs.known_ahead() {
        assert!(names.len() <= ROWS, "a job reads ahead what a turn looks at");
        for name in names {
            assert_eq!(core.state.topics.find(group, name), None, "what is in memory is the truth");
        }
    }
}

/// No sequence is in two places, nothing lies at or past `next`, and lines are in order.
fn messages_stand_once_and_in_order(level: &Level) {
    let mut at = level.scan();
    let mut goes_on = |(first, end)| {
        assert!(first < end && first >= at, "the line is in order: {first:?} to {end:?} at {at:?}");
        at = end;
    };
    let runs = level.line.runs().map(|run| (run.first, run.end()));
    let mut stored: Vec<_> = level.line.stored_from(level.scan()).map(|piece| (piece.first, piece.end)).collect();
    if stored.is_empty() {
        runs.for_each(&mut goes_on);
    } else {
        stored.extend(runs);
        stored.sort_unstable();
        stored.into_iter().for_each(&mut goes_on);
    }
    assert!(at <= level.next, "the line ends before the next sequence");
    let mut at = None;
    for (first, aside) in level.aside.iter() {
        assert!(aside.run.count > 0 && *first == aside.run.first, "an entry aside is found by its first sequence");
        assert!(Some(*first) >= at, "entries aside do not overlap");
        assert!(!matches!(level.line.find(*first), InLine::Run(_)), "what is aside is not in line");
        assert!(aside.run.is_slim(), "what is aside keeps nothing of a batch that is long finished");
        at = Some(aside.run.end());
    }
    assert!(at.is_none_or(|at| at <= level.next), "what is aside was published");
    let sum = |of: fn(&&Aside) -> bool| {
        let of = level.aside.values().map(|aside| &**aside).filter(of);
        of.map(|aside| aside.run.units()).sum::<u32>()
    };
    assert_eq!(sum(|aside| aside.state.rests()), level.rests, "a level counts what rests in memory");
    let unleased = sum(|aside| !matches!(aside.state, AsideWhy::Leased(_)));
    assert_eq!(unleased, level.unleased, "a level counts what is aside and not leased");
    let bytes = level.aside.values().map(|aside| aside.run.bytes()).sum::<usize>();
    assert_eq!(bytes, level.aside_bytes, "a level knows what those aside take");
    level.line.check_sums();
    let mut at = Sequence(0);
    for piece in level.resting_pieces() {
        assert!(at <= piece.first && piece.first < piece.end && piece.end <= level.next, "pieces are apart");
        assert!(level.aside_of(piece.first).is_none(), "what is in a piece is not in memory");
        assert!(piece.retrying <= piece.messages, "a piece counts its messages");
        at = piece.end;
    }
    assert!(level.completion() <= level.scan() && level.scan() <= level.next, "the cursors are in order");
}

/// The ready list holds exactly what is aside and ready.
fn ready_list_matches(level: &Level) {
    let mut ready = 0;
    for aside in level.aside.values() {
        if let AsideWhy::Ready { behind } = aside.state {
            assert!(level.ready.contains(behind, aside.run.first), "what is ready is in the ready list");
            ready += 1;
        }
    }
    assert_eq!(level.ready.len(), ready, "the ready list holds what is ready");
}

/// TTLs go with their messages, so that one old message does not keep those of all later ones.
fn nothing_is_kept_for_what_is_finished(level: &Level) {
    for (first, expiry) in level.expiries.iter() {
        let Expiry { end, .. } = **expiry;
        assert!(level.holds_any(*first, end), "the TTL of {first:?} to {end:?} is kept, and all of them are finished");
    }
}

/// Each lease of a topic and the entry aside that it is of name each other.
fn leases_match(state: &State, slot: u32, topic: &Topic) {
    let (mut leased, mut retrying, mut set_aside) = (0, 0, 0);
    for level in &topic.levels {
        for aside in level.aside.values() {
            if !matches!(aside.state, AsideWhy::Leased(_)) {
                set_aside += u64::from(aside.run.count);
            }
            match aside.state {
                AsideWhy::Leased(lease_slot) => {
                    let lease = &state.leases[lease_slot as usize];
                    let of = (lease.slot, lease.priority, lease.first, lease.count);
                    assert_eq!(
                        of,
                        (slot, level.priority, aside.run.first, aside.run.count),
                        "a lease names its messages"
                    );
                    assert_eq!(topic.leases.get(&lease.number), Some(&lease_slot), "a lease is found by its number");
                    assert!(lease.end() <= topic.next_lease, "lease numbers were given out");
                    leased += u64::from(aside.run.count);
                }
                AsideWhy::Retrying { .. } => retrying += u64::from(aside.run.count),
                AsideWhy::Ready { .. } | AsideWhy::Delayed { .. } => {}
            }
        }
        for piece in level.resting_pieces() {
            set_aside += piece.messages;
            retrying += piece.retrying;
        }
    }
    let counted = (topic.in_flight, topic.retrying, topic.set_aside);
    assert_eq!(counted, (leased, retrying, set_aside), "a topic counts what is not in line");
    let numbered: u64 = topic.leases.values().map(|slot| u64::from(state.leases[*slot as usize].count)).sum();
    assert_eq!(numbered, leased, "every lease of a topic has messages");
}

fn numbers_are_below_the_high_water(state: &State, topic: &Topic) {
    assert!(topic.number.0 < state.numbers.next_topic, "topic numbers were given out");
    for level in topic.levels.iter().filter(|level| level.next.0 > topic.floor) {
        assert!(level.next.0 <= state.numbers.high_water, "sequences lie below the high water");
    }
    // Those of a topic that came to a group later than to others begin where the next number is.
    assert!(topic.next_lease.0 <= state.numbers.floor().max(topic.floor), "lease numbers lie below the high water");
}

fn topic_is_found(state: &State, slot: u32, topic: &Topic) {
    assert_eq!(state.topics.find(topic.group, &topic.name), Some(slot), "a topic is found by its name");
    assert_eq!(state.topics.by_number(topic.number, topic.group), Some(slot), "a topic is found by its number");
    if state.sweeps.is_empty() {
        let paused = state.namespaces[topic.namespace].paused.holds(&topic.name);
        assert_eq!(topic.paused, paused, "a topic knows whether it is paused");
    }
}

/// Nothing is delivered of a topic before its group has all that is older.
fn what_a_start_has_not_come_to_is_held(state: &State, topic: &Topic) {
    let group = &state.groups[topic.group];
    assert_eq!(
        topic.is_held,
        group.is_before(&topic.name) || topic.is_held && group.is_ending,
        "{} is held",
        topic.name
    );
    assert!(!topic.is_held || topic.offered.is_none() && topic.in_flight == 0, "what is held is not delivered");
}

/// The topics of a number are called alike, each of another group of one namespace, and none knows of a sequence that the
/// others would give out again.
fn siblings_are_one_topic(state: &State, topic: &Topic) {
    let siblings = || state.topics.siblings(topic.number).map(|slot| &state.topics[slot]);
    assert!(siblings().is_sorted_by(|a, b| a.group < b.group), "siblings are in the order of their groups");
    for sibling in siblings() {
        assert_eq!((sibling.namespace, &sibling.name), (topic.namespace, &topic.name), "siblings are one topic");
    }
}

fn every_lease_has_a_topic(state: &State) {
    let numbered: usize = state.topics.iter().map(|(_, topic)| topic.leases.len()).sum();
    assert_eq!(numbered, state.leases.len(), "every lease belongs to a topic");
}

/// The holders' lists hold each lease with a holder, once.
fn holders_hold_what_is_held(state: &State) {
    let mut held: BTreeMap<SessionId, usize> = BTreeMap::new();
    let mut charged: BTreeMap<SessionId, usize> = BTreeMap::new();
    let mut held_by_none: BTreeMap<GroupNumber, usize> = BTreeMap::new();
    let mut left_out = 0;
    for (_, lease) in &state.leases {
        let bytes = lease.bytes as usize;
        if lease.holder != SessionId(0) {
            *held.entry(lease.holder).or_default() += 1;
            *charged.entry(lease.holder).or_default() += bytes;
            assert!(lease.timer.is_none() && !lease.is_left_out, "a session's lease has no timer of its own");
        } else {
            *held_by_none.entry(state.topics[lease.slot].group).or_default() += bytes;
            left_out += if lease.is_left_out { bytes } else { 0 };
            assert!(lease.timer.is_some(), "a lease that nobody holds has a timer");
        }
    }
    assert_eq!(held.len(), state.holders.len(), "every holder holds something");
    for (session, count) in held {
        assert_eq!(state.held_by(session).count(), count, "a holder's list is whole");
    }
    for session in state.holders_in_order() {
        let bytes = charged.get(&session).copied().unwrap_or(0);
        assert_eq!(state.bytes_held_by(session), bytes, "a holder is charged for what it holds");
    }
    for (number, group) in state.groups.iter() {
        let bytes = held_by_none.remove(&number).unwrap_or(0);
        assert_eq!(group.held_by_none, bytes, "the receives of group {number} are charged for what they hold");
    }
    assert_eq!(state.leased.left_out, left_out, "what heartbeats have left out");
}

/// Nobody is kept on a ration who may be given something, once a dispatch is over.
fn rations_have_their_reason(core: &Core) {
    for (slot, has_reason) in core.rations() {
        let consumer = &core.dispatcher.consumers[slot as usize];
        assert!(consumer.is_rationed && !consumer.queued, "who is rationed is not among the hungry");
        assert!(has_reason || core.has_rationed_to_look_at(), "a consumer may be given something, and nobody looks");
    }
}

/// No lease is held by nobody that is there and never runs out, once a start is over.
fn who_holds_leases_is_there_or_left_them_behind(core: &Core) {
    let gone: Vec<SessionId> =
        core.state.holders_in_order().into_iter().filter(|id| !core.dispatcher.sessions.contains_key(id)).collect();
    if gone.is_empty() || core.state.replayed.is_some() {
        return;
    }
    let left: BTreeMap<_, _> = core.left_behind.all().map(|(of, from, to)| ((of, from), to)).collect();
    for lease in gone.into_iter().flat_map(|session| core.state.held_by(session)) {
        let lease = &core.state.leases[lease as usize];
        let topic = &core.state.topics[lease.slot];
        let of = (topic.number, topic.group);
        let range = left.range(..=(of, lease.number)).next_back();
        let is_left = range.is_some_and(|((other, _), to)| *other == of && lease.end() <= *to);
        assert!(is_left && lease.left == Left::Over, "a lease of a session that is gone was left behind");
    }
}

/// The counts of each group are those of its messages. Cold topics only wait, for their turn or for time.
fn counts_are_right(state: &State) {
    let mut found: BTreeMap<GroupNumber, (u64, Counts)> = BTreeMap::new();
    for (_, topic) in state.topics.iter() {
        let (topics, counts) = found.entry(topic.group).or_default();
        *topics += 1;
        for level in &topic.levels {
            counts.waiting += level.line.waiting();
            for aside in level.aside.values() {
                let count = u64::from(aside.run.count);
                match aside.state {
                    AsideWhy::Ready { .. } => counts.waiting += count,
                    AsideWhy::Delayed { .. } => counts.delayed += count,
                    AsideWhy::Retrying { .. } => counts.retrying += count,
                    AsideWhy::Leased(_) => counts.leased += count,
                }
            }
            for piece in level.resting_pieces() {
                counts.delayed += piece.messages - piece.retrying;
                counts.retrying += piece.retrying;
            }
        }
    }
    for (number, group) in state.groups.iter() {
        let (topics, mut counts) = found.remove(&number).unwrap_or_default();
        let cold: u64 = group.cold.iter().sum();
        // They are entries of the store.
        counts.dead = group.counts.dead;
        if cold > 0 {
            let Counts { waiting, delayed, retrying, .. } = group.counts;
            let is_less = counts.waiting <= waiting && counts.delayed <= delayed && counts.retrying <= retrying;
            assert!(is_less, "cold topics hold the rest");
            (counts.waiting, counts.delayed, counts.retrying) = (waiting, delayed, retrying);
        }
        assert_eq!(counts, group.counts, "the counts of group {number}");
        assert_eq!(group.spans.total(), counts.unfinished() - counts.leased, "what group {number} holds was published");
        assert_eq!(topics + cold, group.topics, "the topics of group {number}");
    }
    assert!(found.is_empty(), "every topic is of a group");
}

/// Where all is in memory, each span counts what was published in it and nobody has leased, and there is nothing else.
fn spans_count_what_was_published_in_them(state: &State) {
    for (number, group) in state.groups.iter().filter(|(_, group)| !group.is_cold()) {
        let levels = || state.topics.iter().filter(|(_, topic)| topic.group == number).flat_map(|(_, of)| &of.levels);
        let is_stored = |level: &Level| level.line.stored_from(Sequence(0)).next().is_some() || level.resting.is_some();
        if levels().any(is_stored) {
            continue;
        }
        let line = levels().flat_map(|level| level.line.runs());
        let aside = levels().flat_map(|level| level.aside.values());
        let aside = aside.filter(|aside| !matches!(aside.state, AsideWhy::Leased(_))).map(|aside| &aside.run);
        let mut held: Vec<(WallTime, u64)> = line.chain(aside).map(|run| (run.published, run.count.into())).collect();
        held.sort_unstable();
        let mut held = held.into_iter().peekable();
        for span in group.spans.page() {
            let mut count = 0;
            while let Some((_, more)) = held.next_if(|(at, _)| span.first <= *at && *at <= span.last) {
                count += more;
            }
            assert_eq!(count, span.count, "what group {number} holds of a span of time");
        }
        assert_eq!(held.next(), None, "group {number} counts when each of its messages was published");
    }
}

/// Every entry of a topic is counted on its shelf, and those whose topics are not in memory once more.
fn entries_are_counted(state: &State) {
    let mut found: BTreeMap<GroupNumber, [u64; SHELVES]> =
        state.groups.iter().map(|(number, group)| (number, group.cold)).collect();
    for (_, topic) in state.topics.iter() {
        if let Some(shelf) = topic.stored.shelf {
            found.get_mut(&topic.group).expect("a topic is of a group")[shelf.index()] += 1;
        }
    }
    for (number, group) in state.groups.iter() {
        let entries = found[&number];
        assert_eq!(entries, group.shelves, "the entries of group {number}");
        assert_eq!(group.cold[Shelf::Busy.index()], 0, "busy topics are in memory");
    }
    let cold: u64 = state.groups.iter().flat_map(|(_, group)| group.cold).sum();
    assert_eq!(cold, state.cold, "the topics that are not in memory");
}

/// Every topic stands once in the order of their last use, and what they take is summed up.
fn residents_are_weighed(state: &State) {
    let sum = |topics: &mut dyn Iterator<Item = &Topic>| topics.map(|topic| topic.residence.bytes()).sum::<usize>();
    assert_eq!(state.by_use().count(), state.topics.len(), "every topic has its turn to leave");
    assert_eq!(sum(&mut state.by_use()), state.residents.bytes, "what the topics take");
    let leased = state.by_use().map(|topic| topic.residence.leased()).sum::<usize>();
    assert_eq!(leased, state.leased.bytes, "what the topics take that are leased from");
    let held = state.by_use().map(|topic| topic.residence.held()).sum::<usize>();
    assert_eq!(held, state.residents.held, "what the topics take that starts have still to come to");
    for topic in state.by_use().filter(|topic| !topic.is_touched()) {
        let is_weighed = topic.residence.leased() >= topic.residence.bytes();
        assert_eq!(is_weighed, topic.in_flight > 0, "what is leased from is weighed as that");
        assert_eq!(topic.residence.held() > 0, topic.is_held, "what is held is weighed as that");
    }
}

fn timers_are_as_many_as_what_waits(state: &State) {
    let (mut run, mut wall, mut run_pieces, mut wall_pieces) = (0, 0, 0, 0);
    for (_, topic) in state.topics.iter() {
        for level in &topic.levels {
            wall += level.expiries.len();
            let [of_wall, of_run] = level.resting_timers();
            // One that has gone off is of a piece that is on its way.
            let of_line = level.line.timers().filter(|timer| state.piece_timers.wall.deadline(*timer).is_some());
            wall_pieces += of_line.count() + of_wall.count();
            run_pieces += of_run.count();
            for aside in level.aside.values() {
                match aside.state {
                    AsideWhy::Delayed { .. } => wall += 1,
                    AsideWhy::Retrying { .. } => run += 1,
                    AsideWhy::Ready { .. } | AsideWhy::Leased(_) => {}
                }
            }
        }
    }
    let pauses = state.namespaces.iter().flat_map(|(number, of)| of.paused.iter().map(move |pause| (number, pause)));
    let ends = pauses.filter(|(_, pause)| pause.until != WallTime::NEVER);
    let ends: BTreeSet<_> = ends.map(|(number, pause)| (pause.until, number, pause.topics)).collect();
    assert_eq!(state.pause_ends, ends, "each pause that is over some time is known by that");
    run += state.topics.iter().filter(|(_, topic)| timer_of_bucket(topic).is_some()).count();
    wall += state.topics.iter().filter(|(_, topic)| timer_of_raise(topic).is_some()).count();
    run += state.leases.iter().filter(|(_, lease)| lease.timer.is_some()).count();
    let PieceTimers { run: of_run, wall: of_wall } = &state.piece_timers;
    assert_eq!(
        (of_run.len(), of_wall.len()),
        (run_pieces, wall_pieces),
        "each stored piece that time changes has a timer"
    );
    assert_eq!((state.run_timers.len(), state.wall_timers.len()), (run, wall), "each deadline has one timer");
}

/// When the timer of a topic's bucket goes off.
fn timer_of_bucket(topic: &Topic) -> Option<RunTime> {
    topic.bucket.as_ref().and_then(|bucket| bucket.deadline())
}

/// When the timer of a topic's next raise goes off.
fn timer_of_raise(topic: &Topic) -> Option<WallTime> {
    topic.age.as_ref().and_then(|age| age.deadline())
}

/// Whoever waits for a raise is raised then.
fn raises_have_their_timers(state: &State) {
    for (_, topic) in state.topics.iter().filter(|(_, topic)| !topic.is_touched()) {
        let is_up = topic.highest_ready().is_some() && !topic.is_dry();
        let expected = topic.age.as_ref().and_then(|age| age.page().raise).filter(|_| is_up);
        assert_eq!(timer_of_raise(topic), expected, "the timer of the next raise of {}", topic.name);
    }
}

/// Whoever waits for a token is told when there is one, and nobody else waits for his bucket but a topic that is empty.
fn buckets_have_their_timers(state: &State) {
    for (_, topic) in state.topics.iter().filter(|(_, topic)| !topic.is_touched()) {
        let expected = topic.bucket.as_ref().and_then(|bucket| bucket.page().deadline(topic.is_empty()));
        assert_eq!(timer_of_bucket(topic), expected, "the timer of the bucket of {}", topic.name);
    }
}

/// Nothing is ready while a consumer that could have it has credit, once a dispatch is over and every sweep done.
fn ready_topics_are_offered(core: &Core) {
    // What is on its way to somebody comes: there is not so much to be passed over before it, where this is looked at.
    core.check_named();
    assert!(core.dispatcher.turns_held < TURNS_HELD_MAX, "somebody is told for ever that something is on its way");
    if !core.state.sweeps.is_empty() || core.is_fetching() || !core.state.touched.is_empty() {
        return;
    }
    for (slot, topic) in core.state.topics.iter() {
        let group = &core.state.groups[topic.group];
        // A change of the policy of its namespace is none of a group that is being deleted.
        let is_settled = group.unsettled.is_none() && !group.is_ending;
        assert!(!is_settled || !core.state.has_other_wait(slot), "topic {} waits as strict order says", topic.name);
        let ready = topic.ready_level(core.state.policy(slot));
        assert_eq!(topic.offered, ready, "topic {} is offered at what is ready", topic.name);
        if ready.is_some() {
            // Where ends are held, turns pass until they are let go.
            let is_cut = core.goes_on_at_once();
            let stuck = !core.dispatcher.has_passed && core.dispatcher.scopes.hungry_for(topic, is_cut);
            assert!(!stuck, "topic {} is ready, a consumer has credit, and nobody was told", topic.name);
        }
    }
}
