//! What clients set up has a bound in memory: what goes beyond it is refused, nothing that is there goes for it, and to take
//! something back makes room. What facts keep and what connections hold do not take it from each other.

use std::collections::BTreeMap;

use millpond_core::command::{Attach, Command, Finish, FinishVerb, ReceiptRun, Receive, SessionBegin, Ticket};
use millpond_core::output::{Notice, Output, Reply};
use millpond_types::{Binding, Code, Condition, ExchangeName, Filter, Millis, NamespaceName, RoutingKey, SessionId};

use crate::ask::{answer, answers, asked, say};
use crate::history::{name, receive};
use crate::shell::Shell;

const ROOM: usize = 128 * 1024;
/// More than there is room for of anything.
const MANY: usize = 2_000;

fn is_refused(reply: &Reply) -> bool {
    match reply {
        Reply::Refused { code: Code::Overloaded, detail, .. } => {
            assert!(detail.contains("--memory") && detail.contains("bytes"), "it says what to do: {detail}");
            true
        }
        Reply::Refused { code, detail, .. } => panic!("{code:?}: {detail}"),
        _ => false,
    }
}

/// How many of some commands are taken.
fn taken(shell: &mut Shell, commands: impl Iterator<Item = Command>) -> usize {
    let commands: Vec<_> = commands.collect();
    let asked = commands.len();
    asked - answers(shell, commands).iter().filter(|reply| is_refused(reply)).count()
}

/// Each takes as much as another one gives back.
fn bind(at: usize) -> Command {
    let key = RoutingKey::try_from(format!("{at:04}-{}", "k".repeat(200)).as_str()).unwrap();
    let target = name(&format!("{at:04}-{}", "t".repeat(300)));
    let (namespace, exchange) = (NamespaceName::default(), ExchangeName::try_from("events").unwrap());
    Command::Bind { namespace, exchange, binding: Binding { condition: Condition::Key(key), target } }
}

fn small() -> Shell {
    let mut shell = Shell::new();
    shell.core.set_setup_room(ROOM);
    say(&mut shell, "exchange events kind=direct");
    say(&mut shell, "begin s1");
    shell
}

/// Nothing more fits, and what others hold does.
fn is_full(shell: &mut Shell) {
    for text in [
        "pause very/much",
        "pause very/*",
        "namespace other",
        "namespace default + very/much/* weight=2",
        "group audit",
        "exchange other kind=fanout",
    ] {
        assert!(is_refused(&say(shell, text)), "{text}");
    }
}

#[test]
fn bindings_have_a_bound_together_and_make_room_when_they_go() {
    let mut shell = small();
    let bound = taken(&mut shell, (0..900).map(bind));
    assert!((50..120).contains(&bound), "{bound} of 500 bytes in {} bytes", ROOM / 2);
    assert!(shell.core.setup_bytes().0 <= ROOM / 2);
    // Something small may fit where a binding did not.
    taken_until_full(&mut shell);
    is_full(&mut shell);
    assert!(!is_refused(&say(&mut shell, "attach s1.1 max=1")), "who is served has a half of his own");
    assert!(!is_refused(&say(&mut shell, "publish a x")), "and all else goes on");
    let Command::Bind { namespace, exchange, binding } = bind(0) else { unreachable!("it is one") };
    assert_eq!(answer(&mut shell, Command::Unbind { namespace, exchange, binding }), Reply::Count(1));
    assert_eq!(answer(&mut shell, bind(1_000)), Reply::Count(1), "there is room for another");
    assert!(is_refused(&answer(&mut shell, bind(1_001))));
    assert_eq!(answer(&mut shell, bind(1_000)), Reply::Count(0), "one that is there is none more");
    assert_eq!(say(&mut shell, "exchange-delete events"), Reply::Done);
    say(&mut shell, "exchange events kind=direct");
    assert!(taken(&mut shell, (0..900).map(bind)) >= bound - 5, "all of it came back");
}

/// Pauses, which are small, until nothing is left of the room.
fn taken_until_full(shell: &mut Shell) -> usize {
    taken(shell, (0..900).map(|at| asked(&format!("pause p{at}"))))
}

#[test]
fn pauses_and_namespaces_have_a_bound_and_make_room_when_they_go() {
    let mut shell = small();
    let (mut namespaces, mut pauses) = (0, 0);
    // A namespace has so many pauses at most, and there may be many namespaces.
    while !is_refused(&say(&mut shell, &format!("namespace n{namespaces}"))) {
        let names = (0..20).map(|at| asked(&format!("pause {at}-{} ns=n{namespaces}", "p".repeat(400))));
        pauses += taken(&mut shell, names);
        namespaces += 1;
        assert!(namespaces < 100, "no end of them");
    }
    assert!((40..200).contains(&pauses), "{pauses} of 400 bytes in {} bytes", ROOM / 2);
    let before = shell.core.setup_bytes().0;
    assert_eq!(say(&mut shell, &format!("resume 0-{} ns=n0", "p".repeat(400))), Reply::Done);
    assert!(shell.core.setup_bytes().0 < before - 400);
    assert_eq!(say(&mut shell, "namespace-delete n0"), Reply::Done);
    assert!(shell.core.setup_bytes().0 < before - 20 * 400, "a namespace goes with its pauses");
    assert!(!is_refused(&say(&mut shell, "namespace again")));
}

#[test]
fn what_is_there_at_a_start_with_less_memory_stays() {
    let mut shell = small();
    let bound = taken(&mut shell, (0..900).map(bind));
    for crash in [false, true] {
        shell.restart(crash);
        shell.core.set_setup_room(1_000);
        say(&mut shell, "publish a x");
        let Reply::Exchanges(rows) = say(&mut shell, "exchanges") else { panic!("exchanges") };
        assert_eq!(rows[0].bindings, bound as u64, "nothing goes");
        assert!(is_refused(&answer(&mut shell, bind(1_000))), "nothing comes");
        assert_eq!(say(&mut shell, "namespace default retry=head"), Reply::Done, "what takes no more is as before");
    }
    say(&mut shell, "exchange-delete events");
    shell.core.set_setup_room(ROOM);
    assert_eq!(shell.core.setup_bytes().0, Shell::new().core.setup_bytes().0, "all of it was given back");
}

/// A receive that waits for a name of its own.
fn waiting(at: usize) -> Command {
    let Command::Receive(any) = receive(1) else { unreachable!("it is one") };
    let filter = Filter::Topics(vec![name(&format!("{at}-{}", "t".repeat(200)))]);
    Command::Receive(Receive { filter, wait: Millis::minutes(10), ..any })
}

fn ticket_of(shell: &mut Shell, client: u64) -> Ticket {
    Ticket(client << Ticket::INDEX_BITS | shell.ticket().0)
}

#[test]
fn a_client_that_sets_up_as_much_as_it_can_leaves_room_for_others() {
    let mut shell = small();
    let commands = (0..MANY).map(|at| (ticket_of(&mut shell, 1), waiting(at))).collect();
    let refused = shell.turn(commands);
    let of_one = shell.core.setup_bytes().1;
    // With what the last one that was refused has left behind, which goes when somebody needs it.
    assert!((ROOM / 10..=ROOM / 8 + 2_048).contains(&of_one), "{of_one} bytes of one client");
    match &refused[0] {
        Output::Reply { reply: reply @ Reply::Refused { detail, .. }, .. } if is_refused(reply) => {
            assert!(detail.contains("no connection may hold more than it leaves"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    // With a session as well, which is bounded likewise.
    let attached = taken(&mut shell, (1..MANY).map(|at| asked(&format!("attach s1.{at} {at}/* max=1"))));
    assert!((2..20).contains(&attached), "{attached} consumers");
    let names = "a b c d e f";
    assert!(is_refused(&say(&mut shell, &format!("attach s1.{MANY} {names} max=1"))));
    say(&mut shell, "begin s2");
    assert!(!is_refused(&say(&mut shell, &format!("attach s2.1 {names} max=1"))), "others have what they need");
    let ticket = ticket_of(&mut shell, 2);
    assert!(shell.turn(vec![(ticket, waiting(MANY))]).is_empty(), "and wait for what they like");
    let publish = asked("publish a x");
    let ticket = shell.ticket();
    let delivered = |output: &Output| matches!(output, Output::Delivery { session: SessionId(2), .. });
    assert!(shell.turn(vec![(ticket, publish)]).iter().any(delivered), "and they work");
}

#[test]
fn however_many_hold_much_who_needs_little_finds_room() {
    let mut shell = small();
    shell.core.set_setup_room(8 * ROOM);
    let long = |of: usize, at: usize| name(&format!("{of}-{at}-{}", "n".repeat(480)));
    for session in 1..=12_u64 {
        say(&mut shell, &format!("begin s{session}"));
        // As much as it is given, in ever smaller pieces.
        let (mut number, mut names) = (0, 512);
        while names > 0 {
            number += 1;
            let filter = Filter::Topics((0..names).map(|at| long(session as usize, number * 1_000 + at)).collect());
            let Command::Attach(any) = asked(&format!("attach s{session}.{number} max=1")) else { unreachable!() };
            if is_refused(&answer(&mut shell, Command::Attach(Attach { filter, ..any }))) {
                names /= 2;
            }
        }
    }
    for session in 20..25 {
        assert!(!is_refused(&say(&mut shell, &format!("begin s{session}"))), "session {session}");
        let attach = format!("attach s{session}.1 quiet/{session}-{} max=1", "x".repeat(400));
        assert!(!is_refused(&say(&mut shell, &attach)), "{attach}");
        let receive = (ticket_of(&mut shell, session), waiting(session as usize));
        assert!(shell.turn(vec![receive]).is_empty(), "it waits");
    }
}

#[test]
fn open_receives_have_a_bound_together_and_make_room_when_they_end() {
    let mut shell = small();
    // Each client holds as much as it leaves, so several of them leave next to nothing.
    let mut of_clients = |from: usize| -> Vec<_> {
        (from..from + MANY).map(|at| (ticket_of(&mut shell, ((at - from) / (MANY / 8)) as u64), waiting(at))).collect()
    };
    let (commands, again) = (of_clients(0), of_clients(MANY));
    let tickets: Vec<Ticket> = commands.iter().map(|(ticket, _)| *ticket).collect();
    let refused = shell.turn(commands);
    assert!(refused.iter().all(|output| matches!(output, Output::Reply { reply, .. } if is_refused(reply))));
    let open = MANY - refused.len();
    assert!((15..100).contains(&open), "{open} receives in {} bytes", ROOM / 2);
    assert!(shell.core.setup_bytes().1 <= ROOM / 2);
    assert!(is_refused(&say(&mut shell, "attach s1.1 a b c d e f max=1")), "a consumer has no room either");
    assert!(is_refused(&say(&mut shell, "attach s1.1 a/* b/* c/* d/* e/* f/* max=1")));
    assert!(!is_refused(&say(&mut shell, "pause a")), "what facts keep has a half of its own");
    assert_eq!(say(&mut shell, "begin s1"), Reply::SessionBegun { resumed: true }, "a session goes on");
    // What was asked for and ended leaves its turns to the next one who asks, but nobody is refused for that.
    let withdraw = tickets.iter().map(|ticket| Command::Withdraw(*ticket));
    let withdraw: Vec<_> = withdraw.map(|command| (shell.ticket(), command)).collect();
    shell.turn(withdraw);
    assert_eq!(MANY - shell.turn(again).len(), open, "others have their place");
}

#[test]
fn sessions_have_a_bound_and_make_room_when_they_end() {
    let mut shell = small();
    let begun = taken(&mut shell, (2..MANY).map(|at| asked(&format!("begin s{at}"))));
    assert!((50..500).contains(&begun), "{begun} sessions in {} bytes", ROOM / 2);
    assert!(is_refused(&say(&mut shell, "attach s1.1 max=1")));
    assert_eq!(say(&mut shell, "begin s1"), Reply::SessionBegun { resumed: true }, "who is there may resume");
    say(&mut shell, "end s2");
    assert_eq!(say(&mut shell, "begin s9999"), Reply::SessionBegun { resumed: false });
    assert!(is_refused(&say(&mut shell, "begin s10000")));
}

/// Sessions that begin and are lost: more than there is room for, some at a time. Whether all were let in.
fn come_and_go(shell: &mut Shell, from: u64) -> bool {
    let some = |from: u64| (from..from + 50).flat_map(|at| [format!("begin s{at}"), format!("lose s{at}")]);
    (0..6).all(|nth| {
        shell.pass(1, 1);
        let texts: Vec<String> = some(from + 50 * nth).collect();
        taken(shell, texts.iter().map(|text| asked(text))) == texts.len()
    })
}

#[test]
fn lost_sessions_that_hold_nothing_give_way_to_newcomers_the_first_one_first() {
    let mut shell = small();
    assert!(come_and_go(&mut shell, 1_000));
    let full = shell.core.setup_bytes().1;
    assert!((ROOM / 2 - 1_024..=ROOM / 2).contains(&full), "{full}");
    assert_eq!(say(&mut shell, "begin s1299"), Reply::SessionBegun { resumed: true }, "it was lost last");
    assert_eq!(say(&mut shell, "begin s1000"), Reply::SessionBegun { resumed: false }, "it is over before its time");
    // Consumers and receives that wait have their room as well, with the names in their filters.
    assert!(!is_refused(&say(&mut shell, "attach s1000.1 a b c d max=1")));
    let ticket = ticket_of(&mut shell, 2);
    assert!(shell.turn(vec![(ticket, waiting(MANY))]).is_empty(), "it waits");
    assert!(shell.core.setup_bytes().1.abs_diff(full) < 2_048, "they have taken the room of others");
    // Who holds more than a little, too.
    assert!(!is_refused(&say(&mut shell, &format!("attach s1000.2 {} max=1", listed(20)))));
    let before = shell.core.setup_bytes().1;
    assert!(before < full, "many have gone, for half of the room is for who holds little");
    assert!(is_refused(&say(&mut shell, &format!("attach s1000.3 {} max=1", listed(300)))));
    assert_eq!(shell.core.setup_bytes().1, before, "nobody goes for what has no room even without them");
    // Who is there gives way to nobody.
    let begun = taken(&mut shell, (2_000..2_300).map(|at| asked(&format!("begin s{at}"))));
    assert!((50..120).contains(&begun), "{begun} newcomers");
    for there in ["begin s1299", "begin s1000"] {
        assert_eq!(say(&mut shell, there), Reply::SessionBegun { resumed: true }, "{there}");
    }
}

fn listed(names: usize) -> String {
    (0..names).map(|at| format!("n{at}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_lost_session_that_holds_a_lease_or_an_office_gives_way_when_it_does_not() {
    let mut shell = small();
    say(&mut shell, "group audit exclusive");
    // One of the four waits for the office, which is nothing to come back to.
    for (session, group) in [(2, "default"), (3, "audit"), (4, "default"), (5, "audit")] {
        say(&mut shell, &format!("begin s{session} resume=10m"));
        say(&mut shell, &format!("attach s{session}.1 group={group} max=1"));
    }
    let publish = (shell.ticket(), asked("publish a one two"));
    let mut held: BTreeMap<SessionId, Vec<ReceiptRun>> = BTreeMap::new();
    for output in shell.turn(vec![publish]) {
        if let Output::Delivery { session, leases, .. } = output {
            held.insert(session, vec![ReceiptRun { first: leases[0].receipt, count: 1 }]);
        }
    }
    assert_eq!(held.len(), 3, "two and the leader have something");
    taken(&mut shell, (2..6).map(|session| asked(&format!("lose s{session}"))));
    assert!(come_and_go(&mut shell, 1_000));
    // Each is lost again at once.
    let resumed = |shell: &mut Shell, session: u64| {
        let id = SessionId(session);
        let held = held.get(&id).cloned().unwrap_or_default();
        let begin = SessionBegin { session: id, resume: Millis::minutes(10), held };
        let begin = (shell.ticket(), Command::SessionBegin(begin));
        let lose = (shell.ticket(), Command::SessionLost(id));
        let is_there =
            |output: &Output| matches!(output, Output::Reply { reply: Reply::SessionBegun { resumed: true }, .. });
        shell.turn(vec![begin, lose]).iter().any(is_there)
    };
    let there = |shell: &mut Shell| -> Vec<u64> { (2..6).filter(|session| resumed(shell, *session)).collect() };
    assert_eq!(there(&mut shell), [2, 3, 4], "leases and an office are held");
    // The client finishes what it was given without its session.
    let receipts = held[&SessionId(2)].clone();
    answer(&mut shell, Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: true, namespace: None }));
    assert!(come_and_go(&mut shell, 2_000));
    assert_eq!(there(&mut shell), [3, 4]);
    // The term of the office lapses, and so does its hand-over.
    for _ in 0..5 {
        shell.pass(10_000, 10_000);
        shell.turn(Vec::new());
    }
    assert!(come_and_go(&mut shell, 3_000));
    assert_eq!(there(&mut shell), [4]);
}

#[test]
fn who_comes_back_after_a_start_with_less_memory_attaches_and_works() {
    let mut shell = small();
    let sessions = 1..60;
    for session in sessions.clone() {
        say(&mut shell, &format!("publish a{session} x"));
        say(&mut shell, &format!("begin s{session}"));
        say(&mut shell, &format!("attach s{session}.1 max=1"));
    }
    shell.restart(true);
    // Not nearly enough for all of them.
    shell.core.set_setup_room(20 * 1024);
    assert_eq!(shell.core.setup_bytes().1, 0, "none of them is there yet");
    for session in [7, 42] {
        assert_eq!(say(&mut shell, &format!("begin s{session}")), Reply::SessionBegun { resumed: true });
        assert!(!is_refused(&say(&mut shell, &format!("attach s{session}.1 new{session} max=1"))));
    }
    assert_eq!(say(&mut shell, "begin s100"), Reply::SessionBegun { resumed: false }, "there is room for others");
    let before = shell.core.setup_bytes().1;
    shell.pass(10_000, 10_000);
    sessions.for_each(|_| drop(shell.turn(Vec::new())));
    assert_eq!(shell.core.setup_bytes().1, before, "those that were not resumed are over, and were not counted");
}

/// Otherwise a turn could make as many exchanges of a thousand bindings as it makes changes.
#[test]
fn edges_are_told_once_a_turn_what_an_exchange_has_become() {
    let mut shell = small();
    shell.core.set_setup_room(usize::MAX);
    shell.notices.clear();
    taken(&mut shell, (0..100).map(bind));
    let told: Vec<_> = shell
        .notices
        .iter()
        .map(|notice| match notice {
            Notice::Exchange { exchange: Some(exchange), .. } => exchange.bindings.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [100]);
    shell.notices.clear();
    taken(&mut shell, (100..101).map(bind).chain([asked("exchange-delete events")]));
    assert!(matches!(shell.notices[..], [Notice::Exchange { exchange: None, .. }]), "{:?}", shell.notices);
}
