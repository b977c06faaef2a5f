//! Ledgers of what is called off, expires, is copied, put back to work, limited and kept: one in order, and each promise broken.

use super::broken;
use crate::load::{KEEP, RATE_BURST};

const NEVER: u64 = u64::MAX;

fn taken(space: &str, group: &str, topic: &str, id: &str, lease: u64, tag: &str, at: u64) -> String {
    format!(
        "delivered {space} {group} {topic} {id} {lease} 1 0 {tag} {at}\n\
         asked ack {space} {group} {id} {lease}\ndone ack {space} {group} {id} {lease}\n"
    )
}

/// Each group takes and acks it.
fn taken_by(groups: &[&str], topic: &str, id: &str, lease: u64, tag: &str, at: u64) -> String {
    groups.iter().map(|group| taken("mixed", group, topic, id, lease, tag, at)).collect()
}

const ALL: [&str; 4] = ["default", "audit", "shelf", "late"];

/// A delayed message that is put to an earlier time, one that is cancelled, and one whose cancel was refused.
fn delays() -> String {
    let asked = "due mixed p 1000 9000\ndue mixed q 1000 9000\ndue mixed r 1000 9000\n\
                 published mixed wait/1 7.4.1 p\npublished mixed wait/1 7.4.2 q\npublished mixed wait/1 7.4.3 r\n\
                 due mixed p 1100 4000\nsettled done mixed p 1200\n";
    let off = format!(
        "due mixed q 1100 {NEVER}\nsettled done mixed q 1200\ndue mixed r 1100 {NEVER}\nsettled refused mixed r 1200\n"
    );
    [
        asked,
        &off,
        &taken_by(&ALL, "wait/1", "7.4.1", 10, "p", 4_000),
        &taken_by(&ALL, "wait/1", "7.4.3", 11, "r", 9_000),
    ]
    .concat()
}

#[test]
fn what_comes_early_or_though_it_was_called_off_is_noticed() {
    assert_eq!(broken(&delays()), Vec::<String>::new());
    let early = delays().replace("0 p 4000", "0 p 2000");
    assert!(broken(&early)[0].contains("early"));
    let not_put = early.replace("settled done mixed p", "settled refused mixed p");
    assert!(broken(&not_put)[0].contains("due at 9000"));
    let came = format!("{}{}", delays(), taken("mixed", "audit", "wait/1", "7.4.2", 12, "q", 9_500));
    assert!(broken(&came)[0].contains("called off"));
    let was_unanswered = came.replace("settled done mixed q 1200\n", "");
    assert_eq!(broken(&was_unanswered), Vec::<String>::new(), "nobody knows");
    let was_late = came.replace("settled done mixed q 1200", "settled done mixed q 9400");
    assert_eq!(broken(&was_late), Vec::<String>::new(), "somebody may have had it before");
}

#[test]
fn what_is_gone_and_was_not_called_off_is_lost() {
    let refused = delays().replace("settled done mixed q", "settled refused mixed q");
    assert_eq!(broken(&refused).len(), 4, "in each group");
    let not_given = delays().replace("ack mixed late 7.4.1", "release mixed late 7.4.1");
    assert!(broken(&not_given)[0].contains("mixed late: 7.4.1 was confirmed and is lost"));
}

/// A publish to an exchange that leads to two topics.
fn copies() -> String {
    let asked = "routed mixed m fan/all,fan/x\npublished mixed fan/all 7.4.1 m@fan/all\n\
                 published mixed fan/x 8.4.1 m@fan/x\nrouted mixed n fan/all,fan/x\n";
    let taken = |topic, id, lease| taken_by(&ALL, topic, id, lease, &format!("m@{topic}"), 100);
    [asked, &taken("fan/all", "7.4.1", 10), &taken("fan/x", "8.4.1", 11)].concat()
}

#[test]
fn a_publish_to_an_exchange_by_halves_is_noticed() {
    assert_eq!(broken(&copies()), Vec::<String>::new(), "none of a publish may be there");
    let one_of_two = format!("{}{}", copies(), taken_by(&ALL, "fan/x", "8.4.2", 12, "n@fan/x", 100));
    assert!(broken(&one_of_two)[0].contains("1 copies of n"));
    let elsewhere = format!("{}{}", copies(), taken_by(&ALL, "fan/y", "9.4.1", 13, "m@fan/y", 100));
    assert!(broken(&elsewhere)[0].contains("no binding leads"));
}

/// A message that is rejected in one group and put back to work there.
fn put_back() -> String {
    let rejected = "published mixed fan/a 7.4.1 s\ndelivered mixed default fan/a 7.4.1 10 1 0 s 100\n\
                    asked reject mixed default 7.4.1 10\ndead reject mixed default 7.4.1 10\n";
    [
        rejected,
        &taken_by(&ALL[1..], "fan/a", "7.4.1", 11, "s", 100),
        &taken_by(&ALL[..1], "fan/a", "7.4.2", 12, "s", 100),
    ]
    .concat()
}

#[test]
fn a_dead_letter_that_goes_back_to_work_elsewhere_or_twice_is_noticed() {
    assert_eq!(broken(&put_back()), Vec::<String>::new());
    let elsewhere = format!("{}{}", put_back(), taken_by(&["late"], "fan/a", "7.4.2", 13, "s", 100));
    assert!(broken(&elsewhere)[0].contains("stored twice"));
    let twice = format!("{}{}", put_back(), taken_by(&ALL[..1], "fan/a", "7.4.3", 14, "s", 100));
    assert!(broken(&twice)[0].contains("and was no dead letter"));
    let is_still_there = format!("{}letter mixed default 7.4.1 s rejected 100\n", put_back());
    assert!(broken(&is_still_there)[0].contains("and was no dead letter"));
    let was_not_dead = put_back().replace("reject mixed", "ack mixed").replace("dead ack", "done ack");
    assert!(broken(&was_not_dead)[0].contains("and was no dead letter"));
    let came_before = put_back().replace("7.4.2 12", "7.4.2 9");
    assert!(broken(&came_before)[0].contains("and was no dead letter"));
    let lost = put_back().replace("ack mixed default 7.4.2", "release mixed default 7.4.2");
    assert!(broken(&lost)[0].contains("lost"));
}

/// A message that has expired in one group, and was not given to another that was made later.
fn expired() -> String {
    let letter = "brief mixed t 2000\npublished mixed brief/1 7.4.1 t\nletter mixed shelf 7.4.1 t expired 2000\n";
    [letter, &taken_by(&ALL[..2], "brief/1", "7.4.1", 10, "t", 500)].concat()
}

#[test]
fn what_expires_early_or_without_a_time_is_noticed() {
    assert_eq!(broken(&expired()), Vec::<String>::new());
    let early = expired().replace("expired 2000", "expired 999");
    assert!(broken(&early)[0].contains("has expired at 999"));
    let for_no_reason = expired().replace("brief mixed t 2000\n", "");
    assert!(broken(&for_no_reason).iter().any(|what| what.contains("not before None")));
    let gone = expired().replace("letter mixed shelf 7.4.1 t expired 2000\n", "");
    assert!(broken(&gone)[0].contains("mixed shelf: 7.4.1 was confirmed and is lost"));
}

#[test]
fn more_than_a_rate_lets_go_is_noticed() {
    let ledger = |count: u64, at: u64| {
        let taken = |nth: u64| {
            let id = format!("7.4.{nth}");
            format!(
                "due rated u{nth} 1000 1000\n{}",
                taken("rated", "default", "rated/1", &id, nth, &format!("u{nth}"), at)
            )
        };
        (1..=count).map(taken).collect::<String>()
    };
    assert_eq!(broken(&ledger(RATE_BURST, 1_000)), Vec::<String>::new());
    assert_eq!(broken(&ledger(RATE_BURST + 2, 1_200)), Vec::<String>::new());
    assert!(broken(&ledger(RATE_BURST + 2, 1_000))[0].contains("too many for its rate"));
}

#[test]
fn what_is_to_be_kept_and_is_gone_is_noticed() {
    let ledger = |oldest: usize| {
        let published =
            |nth: usize| format!("due kept v{nth:03} {nth} {nth}\npublished kept kept/1 7.4.{nth} v{nth:03}\n");
        let taken = |nth: usize| {
            taken("kept", "default", "kept/1", &format!("7.4.{nth}"), nth as u64, &format!("v{nth:03}"), 900)
        };
        [(1..=KEEP).map(published).collect::<String>(), (oldest..=KEEP).map(taken).collect()].concat()
    };
    assert_eq!(broken(&ledger(KEEP / 2 + 1)), Vec::<String>::new(), "those before may go for others");
    assert_eq!(broken(&ledger(KEEP / 2 + 2)).len(), 1);
}
