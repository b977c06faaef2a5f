//! The watch heals what should not happen: consumers who were not told of what is ready, because wake-ups were lost on
//! purpose, or because what is ready was taken out of the order. All of them are found in the time that is promised and
//! counted; where nothing was lost nothing is, which the shell holds after each turn of every other history here. And who
//! waits comes to the end of it, whatever others keep in motion.

use millpond_core::command::{Command, Receive};
use millpond_core::output::{Output, Reply};
use millpond_core::{Now, WATCH_EVERY};
use millpond_types::{Filter, Millis, RunTime, TopicName, WallTime};

use crate::bare::Bare;
use crate::history::{name, receive};
use crate::script::{Line, Names, command};

/// Sets of topics that the watch gets through in a look, as it is promised.
const SETS: usize = 256;
/// Topics in memory that it gets through in a look.
const TOPICS: usize = 1000;

/// A core some of whose consumers wait, for a topic each, and were not told that a message is there.
fn numb(consumers: usize) -> Bare {
    let mut bare = Bare::new();
    (0..consumers).for_each(|at| say(&mut bare, &format!("publish {} m", topic(at))));
    bare.turn();
    for at in 0..consumers {
        let Command::Receive(any) = receive(1) else { unreachable!("it is one") };
        let filter = Filter::Topics(vec![topic(at)]);
        bare.submit(Command::Receive(Receive { filter, wait: Millis::minutes(10), ..any }));
    }
    bare.core.forget_wake_ups();
    assert_eq!(told(&mut bare), 0, "wake-ups are lost");
    bare
}

fn say(bare: &mut Bare, text: &str) {
    bare.submit(command(&Line::new(text), text, &Names::default()));
}

fn topic(at: usize) -> TopicName {
    name(&format!("t{at}"))
}

/// A turn; how many were given something.
fn told(bare: &mut Bare) -> usize {
    bare.turn().len()
}

/// A turn; how many receives were answered, with something or nothing.
fn answered(bare: &mut Bare) -> usize {
    bare.core.dispatch(&mut bare.journal);
    let answers = bare.core.outputs().drain(..);
    answers.filter(|output| matches!(output, Output::Reply { reply: Reply::Received(_), .. })).count()
}

fn pass(bare: &mut Bare, time: Millis) {
    let Now { run, wall } = bare.core.now();
    bare.core.set_time(Now { run: RunTime(run.0 + time.0), wall: WallTime(wall.0 + time.0) });
}

#[test]
fn who_was_not_told_is_found_at_the_next_look_and_counted() {
    let mut bare = numb(SETS);
    pass(&mut bare, Millis(WATCH_EVERY.0 - 1));
    assert_eq!((told(&mut bare), bare.core.forgotten()), (0, 0), "it is not time yet");
    assert!(bare.core.is_watched(), "so a turn comes, though nothing else is due");
    pass(&mut bare, Millis(1));
    assert_eq!((told(&mut bare), bare.core.forgotten()), (SETS, SETS as u64), "within a second, all of them");
    pass(&mut bare, WATCH_EVERY);
    assert_eq!((told(&mut bare), bare.core.forgotten()), (0, SETS as u64), "and each is counted once");
}

#[test]
fn of_very_many_who_were_not_told_each_look_finds_some_until_all_are_found() {
    let consumers = 4 * SETS;
    let (mut bare, mut found) = (numb(consumers), 0);
    // There may be places for twice as many.
    for _ in 0..2 * consumers / SETS {
        pass(&mut bare, WATCH_EVERY);
        let now = told(&mut bare);
        assert!(now <= SETS, "a look goes over so many at most, but {now} were found");
        found += now;
    }
    assert_eq!((found, bare.core.forgotten()), (consumers, consumers as u64));
}

#[test]
fn what_is_ready_and_out_of_the_order_is_put_back_at_the_next_look_and_counted() {
    let mut bare = Bare::new();
    (0..10).for_each(|at| say(&mut bare, &format!("publish {} m", topic(at))));
    bare.turn();
    assert_eq!(bare.core.forget_ready(2), 5, "one in two");
    (0..10).for_each(|at| say(&mut bare, &format!("receive {} wait=10m", topic(at))));
    assert_eq!((told(&mut bare), bare.core.forgotten()), (5, 0), "the others are not to be had");
    pass(&mut bare, WATCH_EVERY);
    assert_eq!((told(&mut bare), bare.core.forgotten()), (5, 5), "within a second, all of them");
    pass(&mut bare, WATCH_EVERY);
    assert_eq!((told(&mut bare), bare.core.forgotten()), (0, 5), "and each is counted once");
}

#[test]
fn of_very_many_topics_out_of_the_order_each_look_puts_a_thousand_back() {
    let (mut bare, topics) = (Bare::new(), 3 * TOPICS);
    (0..topics).for_each(|at| say(&mut bare, &format!("publish {} m", topic(at))));
    bare.turn();
    assert_eq!(bare.core.forget_ready(1), topics);
    // There are some more places than topics.
    let looks = 1 + topics / TOPICS;
    for _ in 0..looks {
        let before = bare.core.forgotten();
        pass(&mut bare, WATCH_EVERY);
        bare.turn();
        assert!(bare.core.forgotten() - before <= TOPICS as u64, "a look goes over so many at most");
    }
    assert_eq!(bare.core.forgotten(), topics as u64);
}

#[test]
fn who_was_not_told_that_nothing_came_from_the_disk_is_told_so() {
    let mut bare = Bare::new();
    say(&mut bare, "publish a m");
    bare.turn();
    bare.core.set_room(0);
    bare.turn();
    say(&mut bare, "receive b/*");
    assert_eq!(answered(&mut bare), 0, "there may be something on the disk");
    let wanted = bare.wanted();
    bare.core.forget_wake_ups();
    bare.load(wanted);
    assert_eq!(answered(&mut bare), 0, "wake-ups are lost");
    pass(&mut bare, WATCH_EVERY);
    assert_eq!(answered(&mut bare), 1, "there is nothing, at the next look at the latest");
}

#[test]
fn where_everybody_is_told_the_watch_finds_nothing() {
    let mut bare = Bare::new();
    for second in 0..20 {
        match second % 5 {
            0 => say(&mut bare, "receive a b wait=10m"),
            1 => say(&mut bare, "pause a"),
            2 => say(&mut bare, "publish a m m"),
            3 => say(&mut bare, "publish b m delay=1500ms"),
            _ => say(&mut bare, "resume a"),
        }
        bare.turn();
        pass(&mut bare, WATCH_EVERY);
        bare.turn();
        assert_eq!(bare.core.forgotten(), 0, "in second {second}");
    }
}

/// Each pause by prefix goes through all topics that it is about. Whoever keeps that going keeps nobody else's receive from its
/// end.
#[test]
fn a_receive_comes_to_its_end_though_pauses_follow_one_another_without_one() {
    let mut bare = Bare::new();
    (0..3000).for_each(|at| say(&mut bare, &format!("publish {} m", topic(at))));
    bare.turn();
    let Command::Receive(any) = receive(1) else { unreachable!("it is one") };
    let nothing = Filter::Topics(vec![name("nothing")]);
    bare.submit(Command::Receive(Receive { filter: nothing, wait: Millis(1000), ..any }));
    let step = Millis(100);
    let ends = (1..100).find(|at| {
        pass(&mut bare, step);
        say(&mut bare, if at % 2 == 0 { "pause t*" } else { "resume t*" });
        answered(&mut bare) > 0
    });
    assert_eq!(ends, Some(20), "a second after its time at the latest");
}
