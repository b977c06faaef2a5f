mod mixed;

use super::{Figures, verdict};

/// Two messages of one topic, the second of which is forwarded, and what came of it.
const IN_ORDER: &str = "\
published work strict/1 7.4.1 a
published work strict/1 7.4.2 b
delivered work default strict/1 7.4.1 10 1 0 a 100
asked fail work default 7.4.1 10
done fail work default 7.4.1 10
delivered work default strict/1 7.4.1 11 2 0 a 100
asked ack work default 7.4.1 11
done ack work default 7.4.1 11
delivered work default strict/1 7.4.2 12 1 0 b 100
asked forward work default 7.4.2 12
done forward work default 7.4.2 12
delivered work audit strict/1 7.4.1 10 1 0 a 100
asked ack work audit 7.4.1 10
delivered work audit strict/1 7.4.2 11 1 0 b 100
asked reject work audit 7.4.2 11
dead reject work audit 7.4.2 11
letter work audit 7.4.2 b rejected 100
published out o/1 8.4.1 out-7.4.2
delivered out default o/1 8.4.1 13 1 0 out-7.4.2 100
asked ack out default 8.4.1 13
done ack out default 8.4.1 13
delivered out lead o/1 8.4.1 13 1 5 out-7.4.2 100
asked ack out lead 8.4.1 13
done ack out lead 8.4.1 13
coalesced first c/1 9.4.1 t
delivered first default c/1 9.4.1 14 1 0 s 100
asked ack first default 9.4.1 14
done ack first default 9.4.1 14
";

fn broken(text: &str) -> Vec<String> {
    verdict(&[("one".to_owned(), text.to_owned())]).broken
}

#[test]
fn what_is_in_order_passes_and_a_torn_last_line_does_not_matter() {
    assert_eq!(broken(IN_ORDER), Vec::<String>::new());
    assert_eq!(broken(&format!("{IN_ORDER}published work t/")), Vec::<String>::new());
}

#[test]
fn what_is_confirmed_and_never_ended_is_lost() {
    let never_there = format!("{IN_ORDER}published work t/1 7.4.9 c\n");
    assert_eq!(broken(&never_there).len(), 2, "in both groups");
    let without = |line: &str| IN_ORDER.replace(&format!("{line}\n"), "");
    let not_asked = without("asked ack work audit 7.4.1 10");
    assert!(broken(&not_asked)[0].contains("lost"));
    let refused = format!("{IN_ORDER}lost ack work audit 7.4.1 10\n");
    assert!(broken(&refused)[0].contains("lost"));
    let delivered_later = "delivered work audit strict/1 7.4.1 12 2 0 a 100\n";
    let cannot_have_counted = format!("{not_asked}asked ack work audit 7.4.1 10\n{delivered_later}");
    assert!(broken(&cannot_have_counted)[0].contains("lost"));
    let nor_a_forward = cannot_have_counted.replace("asked ack work audit", "asked forward work audit");
    assert!(broken(&nor_a_forward)[0].contains("lost"));
    let no_letter = without("letter work audit 7.4.2 b rejected 100");
    assert!(broken(&no_letter).iter().any(|what| what.contains("dead letter")));
    let stands_for_nothing = IN_ORDER.replace("coalesced first c/1 9.4.1", "coalesced first c/1 9.4.2");
    assert!(broken(&stands_for_nothing)[0].contains("nothing was done"));
}

#[test]
fn what_was_ended_and_comes_back_is_noticed() {
    let again = format!("{IN_ORDER}delivered work default strict/1 7.4.1 13 3 0 a 100\n");
    assert!(broken(&again)[0].contains("ended under lease 11"));
    let twice = format!("{IN_ORDER}asked ack work default 7.4.1 9\ndone ack work default 7.4.1 9\n");
    assert!(broken(&twice).iter().any(|what| what.contains("ended 2 times")));
    let stored_twice = format!("{IN_ORDER}delivered out default o/1 8.4.2 15 1 0 out-7.4.2 100\n");
    assert!(broken(&stored_twice)[0].contains("stored twice"));
}

#[test]
fn a_forward_by_halves_is_noticed() {
    let of_output = |line: &&str| !line.contains("out-7.4.2") && !line.contains("8.4.1");
    let halves: String = IN_ORDER.lines().filter(of_output).map(|line| format!("{line}\n")).collect();
    assert!(broken(&halves)[0].contains("nothing came of it"));
    let unanswered = halves.replace("done forward work default 7.4.2 12\n", "");
    assert!(broken(&unanswered)[0].contains("nothing came of it"));
}

#[test]
fn numbers_that_do_not_grow_are_noticed() {
    let given_twice = format!("{IN_ORDER}delivered work default strict/1 7.4.3 12 1 0 c 100\n");
    assert!(broken(&given_twice)[0].contains("given out twice"));
    let order = IN_ORDER.replace("7.4.2 12 1", "7.4.2 9 1").replace("7.4.2 12\n", "7.4.2 9\n");
    assert!(broken(&order)[0].contains("out of order"));
    let count = IN_ORDER.replace("7.4.1 11 2", "7.4.1 11 1");
    assert!(broken(&count)[0].contains("are counted"));
    let epoch = format!("{IN_ORDER}delivered out lead o/1 8.4.2 14 1 4 x 100\n");
    assert!(broken(&epoch)[0].contains("out of order"));
}

#[test]
fn two_leaders_of_one_epoch_are_noticed() {
    let other = "delivered out lead o/2 8.4.3 15 1 5 y 100\n";
    let files = [("one".to_owned(), IN_ORDER.to_owned()), ("two".to_owned(), other.to_owned())];
    assert!(verdict(&files).broken[0].contains("both been leader"));
}

#[test]
fn a_run_that_saw_too_little_is_noticed() {
    let few = Figures { confirmed: 10, deliveries: 10, ended: 10, unanswered: 1, ..Figures::default() };
    assert_eq!(few.lacks(9), Vec::<String>::new());
    assert_eq!(few.lacks(10).len(), 6, "a run of some length has some of each");
    assert_eq!(few.lacks(20).len(), 10);
    assert_eq!(few.lacks(50).len(), 12);
    let without = Figures { confirmed: 9_000, deliveries: 9_000, ended: 9_000, ..Figures::default() };
    assert_eq!(without.lacks(10).len(), 7, "nothing of what kills and fates lead to");
    assert_eq!(Figures::default().lacks(1).len(), 3);
}
