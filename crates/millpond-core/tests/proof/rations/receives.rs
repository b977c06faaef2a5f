//! One-shot receives: nobody knows which of them are of one client, so those of a group share what one session may hold. None
//! of them finds nothing because others have taken very much, in its own group or in another one.

use super::*;

/// The last part of the room, of which receives are given one message at a time.
const QUARTER: usize = ROOM / 4;
/// The last part of that, which is for those whose groups hold little.
const EIGHTH: usize = ROOM / 8;
/// The last part of all, of which receives are given nothing; of as much before it those whose groups hold nothing yet.
const LAST: usize = ROOM / 32;

#[test]
fn receives_share_a_ration() {
    let mut pond = Pond::stocked();
    for _ in 0..TOPICS / 500 {
        let before = pond.holds(NOBODY);
        pond.receive("max=500 lease=12h");
        assert!(pond.holds(NOBODY) > before, "none ends with nothing");
    }
    assert!(pond.most < ROOM / 2 + ROOM / 20, "{}", pond.most);
    pond.hoard("max=500 lease=12h");
    assert!(pond.most < ROOM - EIGHTH + ROOM / 50, "one at a time, they leave something: {}", pond.most);
    let refused = pond.refused;
    assert!(refused > 0, "who is told of nothing takes the topics for empty");
    pond.receive("nowhere max=1");
    assert_eq!(pond.refused, refused, "and that one is");
    pond.receive("max=1 wait=1m");
    let before = pond.holds(NOBODY);
    assert_eq!(pond.rationed(), 1, "one waits");
    pond.pass(Millis::seconds(59));
    pond.settle();
    assert_eq!((pond.rationed(), pond.refused), (1, refused), "for as long as it says");
    pond.finish(NOBODY, 10, FinishVerb::Ack);
    assert_eq!((pond.holds(NOBODY), pond.rationed()), (before - 10 + 1, 0), "until there is something for it");
    pond.attach(1, 10);
    assert_eq!(pond.holds(1), 10, "and sessions have theirs");
    invariants::check(&pond.bare.core);
}

/// Whatever others of its group hold, and however little there is, one message at a time goes on.
#[test]
fn a_receive_is_given_something_where_others_of_its_group_hold_what_one_may() {
    let mut pond = Pond::new();
    (0..40).for_each(|_| pond.pile_up(0, 1000));
    for _ in 0..10 {
        pond.receive("max=2048 lease=12h");
    }
    let (before, given) = (pond.most, pond.delivered);
    assert!(before < ROOM / 2 + ROOM / 20, "{before}");
    (0..100).for_each(|_| pond.receive("max=2048"));
    assert_eq!((pond.delivered, pond.refused), (given + 100, 0), "one each");
}

#[test]
fn receives_of_other_groups_find_something_whatever_those_of_one_hold() {
    let mut pond = Pond::stocked();
    pond.say("namespace quiet");
    pond.say("group other ns=quiet");
    pond.hoard("max=2048 lease=12h");
    pond.publish_to("quiet", 0..100, 1);
    let (refused, delivered) = (pond.refused, pond.delivered);
    (0..10).for_each(|_| pond.receive("ns=quiet max=1"));
    (0..10).for_each(|_| pond.receive("ns=quiet group=other max=10"));
    assert_eq!((pond.delivered, pond.refused), (delivered + 20, refused), "each is served");
    pond.attach(1, 10);
    assert_eq!(pond.holds(1), 10, "and so are sessions");
    invariants::check(&pond.bare.core);
}

/// Who hoards in very many namespaces leaves some room to one message at a time, and most to those that hold nothing.
#[test]
fn who_hoards_by_receives_in_many_namespaces_leaves_something_to_each() {
    let mut pond = Pond::stocked();
    for at in 0..30 {
        let namespace = format!("n{at}");
        pond.say(&format!("namespace {namespace}"));
        pond.publish_to(&namespace, 0..(if at < 2 { 2000 } else { 500 }), 1);
    }
    for at in 0..10 {
        (0..8).for_each(|_| pond.receive(&format!("ns=n{at} max=2048 lease=12h")));
    }
    assert!(pond.most < ROOM - QUARTER + ROOM / 20, "{}", pond.most);
    assert_eq!(pond.refused, 0);
    for at in 0..20 {
        pond.hoard(&format!("ns=n{at} max=2048 lease=12h"));
    }
    assert!(pond.most < ROOM - 2 * LAST + ROOM / 100, "{}", pond.most);
    for at in 20..30 {
        let delivered = pond.delivered;
        pond.receive(&format!("ns=n{at} max=1"));
        assert_eq!(pond.delivered, delivered + 1, "a group whose receives hold nothing is given something");
    }
    pond.attach(1, 1);
    assert_eq!(pond.holds(1), 1, "and so is a session");
    invariants::check(&pond.bare.core);
}

/// There may be as many groups as one likes, and where leases take all of the room nobody publishes any more.
#[test]
fn receives_of_very_many_groups_leave_some_room_to_publishes() {
    let mut pond = Pond::stocked();
    pond.hoard("max=2048 lease=12h");
    for at in 0..40 {
        let namespace = format!("n{at}");
        pond.say(&format!("namespace {namespace}"));
        (1..64).for_each(|group| pond.say(&format!("group g{group} ns={namespace}")));
        pond.publish_to(&namespace, 0..1, 1);
        (1..64).for_each(|group| pond.receive(&format!("ns={namespace} group=g{group} max=1 lease=12h")));
    }
    assert!(pond.refused > 0 && pond.most < ROOM - LAST + ROOM / 100, "{} of {ROOM}", pond.most);
    pond.attach(1, 1);
    assert_eq!(pond.holds(1), 1, "a session is given something all the same");
    invariants::check(&pond.bare.core);
}

/// Whatever receives hold, heartbeats may leave something out, and who has nothing then is given something.
#[test]
fn what_receives_hold_does_not_count_as_left_out() {
    let mut pond = Pond::stocked();
    pond.hoard("max=2048 lease=12h");
    while pond.bare.core.leased_bytes() < ROOM {
        pond.publish(0..2000, 1);
    }
    pond.attach(1, ALL);
    assert_eq!((pond.holds(1), pond.rationed()), (1, 1));
    pond.leave_out(1, 1);
    assert_eq!(pond.holds(1), 1, "another one");
    invariants::check(&pond.bare.core);
}

/// Topics that were read ahead wait for their turn in memory, which may not come for as long as leases last.
#[test]
fn what_was_read_ahead_leaves_where_leases_take_most_of_the_room() {
    let mut pond = Pond::new();
    for topic in 0..200 {
        let mut runs = vec![publish_run(&mut Known::default(), &format!("t/{topic:05}"), 1, None)];
        let later = |at| PublishRun { delay: Millis::seconds(100_000 + at), ..runs[0].clone() };
        let later: Vec<PublishRun> = (0..250_u64).map(later).collect();
        runs.extend(later);
        pond.publish_runs("default", runs);
        if topic % 2 == 1 {
            pond.receive("max=1 lease=12h");
        }
    }
    pond.hoard("max=1 lease=12h");
    assert!(pond.refused > 0 && pond.most > ROOM / 4 * 3, "{} of {ROOM}", pond.most);
    pond.pass(Millis::seconds(2));
    pond.settle();
    assert!(!pond.bare.core.is_crowded(), "or nobody publishes: {} of {ROOM}", pond.bare.core.resident_bytes());
    pond.attach(1, 1);
    assert_eq!(pond.holds(1), 1, "it is read again for whoever asks");
    invariants::check(&pond.bare.core);
}

impl Pond {
    /// Receives until one is given nothing.
    fn hoard(&mut self, options: &str) {
        let mut before = usize::MAX;
        while self.delivered != before {
            before = self.delivered;
            self.receive(options);
        }
    }
}
