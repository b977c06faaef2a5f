//! Lists, the topics that stand out and purges, over topics that are on the disk.

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_core::output::Reply;
use millpond_types::limits::FILTER_MAX;
use millpond_types::{
    Counts, Filter, GroupName, Millis, NamespaceName, Policy, Priority, Rate, Rules, TopBy, TopicName, TopicView,
};

use super::cold::{Cold, SLICE, prefix};

const TOPICS: usize = 100_000;
/// Many times what a purge keeps in memory.
const PURGED: usize = 10_000;

fn names(topics: usize) -> impl Iterator<Item = String> {
    (0..topics).map(|at| format!("t/{at:06}"))
}

fn list(prefix: &'static str, after: &str, limit: u32) -> Command {
    let (namespace, prefix, after) = (NamespaceName::default(), Bytes::from(prefix), Bytes::from(after.to_owned()));
    Command::Topics { listing: Listing { namespace, prefix, after, limit }, group: GroupName::default() }
}

fn purge(filter: Filter) -> Command {
    Command::Purge { namespace: NamespaceName::default(), filter, group: None }
}

fn top(by: TopBy) -> Command {
    Command::Top(Top {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        prefix: Bytes::from("t/"),
        by,
        limit: 2,
    })
}

fn rows(reply: Reply) -> Vec<TopicView> {
    let Reply::Topics(rows) = reply else { panic!("{reply:?}") };
    rows
}

/// All topics, page by page.
fn all(cold: &mut Cold) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    loop {
        let page = rows(cold.answered(list("t/", found.last().map_or("", |last| last), 1_000)));
        if page.is_empty() {
            return found;
        }
        found.extend(page.iter().map(|row| row.name.as_str().to_owned()));
    }
}

#[test]
fn lists_read_what_they_show_and_load_nothing() {
    let mut cold = Cold::filled(names(TOPICS));
    lists(&mut cold);
    topics_that_stand_out(&mut cold);
}

fn lists(cold: &mut Cold) {
    assert!(all(cold).into_iter().eq(names(TOPICS)), "all of them, in order, once");
    assert_eq!((cold.core.resident_count(), cold.core.cold_count()), (0, TOPICS as u64), "all the while on the disk");
    assert!(cold.brought <= TOPICS + SLICE, "{} entries were read", cold.brought);
    let page = rows(cold.answered(list("t/0999", "", 3)));
    let shown = |row: &TopicView| (row.name.as_str().to_owned(), row.counts, row.oldest.is_some());
    let counts = Counts { waiting: 1, ..Counts::default() };
    let expected = ["t/099900", "t/099901", "t/099902"].map(|name| (name.to_owned(), counts, true));
    assert_eq!(page.iter().map(shown).collect::<Vec<_>>(), expected);
}

fn topics_that_stand_out(cold: &mut Cold) {
    cold.now.wall.0 += 5;
    for topic in ["t/077777", "t/000003", "t/077777"] {
        let publish = cold.publish(&[topic.to_owned()], Priority::HIGHEST, None);
        cold.answered(publish);
        cold.evict();
    }
    let before = cold.turns;
    let found = |reply| {
        let row = |row: &TopicView| (row.name.as_str().to_owned(), row.counts.waiting, row.oldest.map(|at| at.0));
        rows(reply).iter().map(row).collect::<Vec<_>>()
    };
    let deepest = cold.answered(top(TopBy::Depth));
    assert_eq!(found(deepest), [("t/077777".to_owned(), 3, Some(0)), ("t/000003".to_owned(), 2, Some(0))]);
    assert!(cold.turns - before >= TOPICS / SLICE, "a slice a turn: {} turns", cold.turns - before);
    let oldest = cold.answered(top(TopBy::Age));
    assert_eq!(found(oldest), [("t/000000".to_owned(), 1, Some(0)), ("t/000001".to_owned(), 1, Some(0))]);
    assert_eq!(cold.core.cold_count(), TOPICS as u64, "all the while on the disk");
}

/// Topics of which nothing is left but their buckets, in memory and on the disk by turns.
fn emptied(topics: usize) -> Cold {
    let mut cold = Cold::new();
    let rate = Rate { count: 1, period: Millis::seconds(3_600), burst: 1 };
    let policy = Policy { rate: Some(rate), ..Policy::default() };
    let (name, rules) = (NamespaceName::default(), Rules::default());
    cold.answered(Command::NamespaceSet { name, policy, rules, based_on: None });
    let topics: Vec<String> = names(topics).collect();
    for (at, some) in topics.chunks(SLICE).enumerate() {
        cold.set_room(usize::MAX);
        let publish = cold.publish(some, Priority::DEFAULT, None);
        cold.answered(publish);
        assert_eq!(cold.receive(u32::MAX).len(), some.len());
        if at == topics.len() / SLICE / 2 {
            cold.write();
            cold.set_room(0);
            cold.evict();
        }
    }
    cold
}

#[test]
fn topics_that_hold_nothing_count_for_those_who_go_by_them() {
    const EMPTY: usize = 20_000;
    let mut cold = emptied(EMPTY);
    let (in_memory, on_disk) = (cold.core.resident_count() as u64, cold.core.cold_count());
    assert!(in_memory > 5_000 && on_disk > 5_000, "{in_memory} in memory, {on_disk} on the disk");
    assert_eq!(in_memory + on_disk, EMPTY as u64);
    let publish = cold.publish(&["t/last".to_owned()], Priority::DEFAULT, None);
    let published = cold.answered(publish);
    assert!(matches!(published, Reply::Published { .. }), "{published:?}");
    for command in [list("t/", "", 10), top(TopBy::Depth), purge(prefix("t/"))] {
        let (before, what) = (cold.turns, format!("{command:?}"));
        match cold.answered(command) {
            Reply::Topics(rows) => assert!(rows.iter().map(|row| row.name.as_str()).eq(["t/last"]), "{what}: {rows:?}"),
            reply => assert_eq!(reply, Reply::Count(1)),
        }
        let turns = cold.turns - before;
        assert!(turns >= EMPTY / SLICE, "{what}: {turns} turns, so more than a slice in one of them");
    }
}

#[test]
fn a_purge_loads_a_few_topics_at_a_time() {
    let mut cold = Cold::filled(names(PURGED).chain(["other".to_owned()]));
    let ticket = cold.begin(purge(prefix("t/")));
    let publish = cold.publish(&["other".to_owned()], Priority::DEFAULT, None);
    cold.begin(publish);
    while !cold.replies.contains_key(&ticket) {
        assert!(cold.is_busy(), "a job asks for the next turn");
        cold.turn(None);
        assert!(cold.core.resident_count() <= 70, "{} topics are in memory", cold.core.resident_count());
    }
    assert_eq!(cold.replies[&ticket], Reply::Count(PURGED as u64));
    cold.rest();
    assert_eq!(all(&mut cold), Vec::<String>::new(), "nothing is left of them");
    assert_eq!(cold.drain().iter().map(|run| run.count).sum::<u32>(), 2, "and others are as they were");
}

#[test]
fn a_purge_by_names_waits_for_none_of_them_and_loads_a_few_at_a_time() {
    let mut cold = Cold::filled(names(FILTER_MAX));
    let topics = names(FILTER_MAX).map(|name| TopicName::try_from(&name[..]).expect("a name")).collect();
    let ticket = cold.begin(purge(Filter::Topics(topics)));
    while !cold.replies.contains_key(&ticket) {
        cold.turn(None);
        assert_eq!(cold.core.parked_count(), 0, "a command that waits for a thousand topics brings all of them");
        assert!(cold.core.resident_count() <= 70, "{} topics are in memory", cold.core.resident_count());
    }
    assert_eq!(cold.replies[&ticket], Reply::Count(FILTER_MAX as u64));
}

/// A topic with so many messages, each a run of its own and most of them in pieces on the disk.
fn long(messages: usize, ttl: Option<Millis>) -> Cold {
    let mut cold = Cold::new();
    for _ in 0..messages {
        let publish = cold.publish(&["t/long".to_owned()], Priority::DEFAULT, ttl);
        cold.begin(publish);
    }
    cold.write();
    cold.evict();
    cold.write();
    cold.bytes = 0;
    cold
}

#[test]
fn a_long_line_is_purged_piece_by_piece_and_what_comes_later_stays() {
    let mut cold = long(4_000, None);
    let ticket = cold.begin(purge(prefix("t/")));
    let mut published = 0;
    while !cold.replies.contains_key(&ticket) {
        let first = cold.publish(&["t/long".to_owned()], Priority::DEFAULT, None);
        cold.begin(first);
        published += 1;
    }
    let Reply::Count(purged) = cold.replies[&ticket] else { panic!("{:?}", cold.replies[&ticket]) };
    // The purge came to the topic in a turn in which some had been published, and ended none that came after it.
    assert!((4_000..4_010).contains(&purged), "{purged} were purged");
    assert!(cold.bytes < 200_000, "{} bytes in memory at a time", cold.bytes);
    let left: u32 = cold.drain().iter().map(|run| run.count).sum();
    assert_eq!(u64::from(left) + purged, 4_000 + published, "each has ended or is there");
}

#[test]
fn a_long_line_expires_some_pieces_at_a_time() {
    let mut cold = long(4_000, Some(Millis::seconds(3_600)));
    cold.now.wall.0 += 4_000_000;
    cold.rest();
    let ended: u32 =
        cold.journal.facts.iter().map(|(fact, _)| if let Fact::Ended { count, .. } = fact { *count } else { 0 }).sum();
    assert_eq!((ended, cold.core.cold_count(), cold.core.resident_count()), (4_000, 0, 0), "all of it is gone");
    assert!(cold.brought_at_once <= 16, "{} pieces came in one turn", cold.brought_at_once);
    assert!(cold.bytes < 200_000, "{} bytes in memory at a time", cold.bytes);
}

#[test]
fn who_is_gone_is_not_gone_on_with() {
    let mut cold = Cold::filled(names(20_000));
    // One of them waits for the disk when its connection goes, the others for their turn.
    let tickets = [purge(prefix("t/")), top(TopBy::Depth), top(TopBy::Age)].map(|command| cold.begin(command));
    for _ in 0..20 {
        cold.turn(None);
    }
    for ticket in tickets {
        cold.begin(Command::Withdraw(ticket));
    }
    cold.turn(None);
    let facts = cold.journal.facts.len();
    cold.rest();
    assert_eq!(cold.journal.facts.len(), facts, "nothing is purged any more");
    assert!(tickets.iter().all(|ticket| !cold.replies.contains_key(ticket)), "and nobody is told");
    let left = all(&mut cold);
    assert!((10_000..20_000).contains(&left.len()), "{} topics are left", left.len());
    // What was on its way for them says nothing of what dispatch has to read.
    assert_eq!(cold.drain().len(), left.len(), "nothing is stuck");
}

#[test]
fn a_list_shows_each_topic_once_while_they_come_and_go() {
    const SOME: usize = 5_000;
    let mut cold = Cold::filled(names(SOME));
    let mut seed = 1_u64;
    for _ in 0..3 {
        let mut moved = Vec::new();
        let ticket = cold.begin(list("t/", "", 1_000));
        let mut page = Vec::new();
        while !cold.replies.contains_key(&ticket) {
            // They leave for another shelf than the one they came from, in the middle of what is being read.
            for _ in 0..40 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let topic = format!("t/{:06}", (seed >> 33) as usize % 1_500);
                let priority = Priority::new((seed >> 20) as u8 % 10).unwrap();
                let publish = cold.publish(std::slice::from_ref(&topic), priority, None);
                cold.begin(publish);
                moved.push(topic);
            }
            cold.evict();
        }
        page.extend(rows(cold.replies.remove(&ticket).unwrap()));
        let shown = page.iter().map(|row| row.name.as_str().to_owned());
        assert!(shown.eq(names(1_000)), "each once, and in order");
        assert!(moved.len() >= 40, "they moved meanwhile");
        cold.rest();
    }
    assert!(all(&mut cold).into_iter().eq(names(SOME)), "and all of them at the end");
}
