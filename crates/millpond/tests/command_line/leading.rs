//! Exclusive groups: whatever becomes of a leader (stopped, killed, cut off), messages go to one leader at a time, in one
//! epoch after the other.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::broker::{Broker, Running, serve_at};
use crate::proxy::Proxy;

/// For commands that wait for something: nobody tells them when a test fails and its worker is killed.
const WORKER_LIVES: &str = "kill -0 $PPID 2>/dev/null";

/// The shortest term and hand-over that a test waits for.
const SECOND: Duration = Duration::from_secs(1);
/// In so long after a start of the broker no term and no hand-over ends.
const GRACE: Duration = Duration::from_secs(10);
/// What a machine that has much else to do may take beyond what is promised: for processes to be heard, and to be told. With what is
/// promised it is less than the 10 s for which a session may be resumed, so that it is the term that ends an office in time and
/// not the end of its leader's session.
const SLACK: Duration = Duration::from_secs(5);

/// A group with one leader, and what its workers note: a line for each message as it comes.
struct House {
    broker: Broker,
    notes: TempDir,
}

#[test]
fn a_stopped_leader_is_deposed_and_may_finish_what_it_has() {
    let (house, mut first, second) = House::with_two("1m");

    let stopped = Instant::now();
    first.signal(Signal::STOP);
    house.until("the second leads", |office| office["epoch"] == 2);
    // A term, from the last heartbeat; what the first has it keeps for the hand-over.
    within(SECOND, stopped, "the next leader was told after the first was stopped");
    assert_eq!(house.office()["handing_over"], true);
    let receipt = house.notes()[0][2].clone();
    house.broker.call(&["extend", "default", &receipt]).failed(1, &["replaced", "hand-over"]);

    // The leader goes on: it learns what it missed, and its command may end as if nothing had been.
    first.signal(Signal::CONT);
    assert_eq!(house.notes().len(), 1, "nothing comes before the last of it is finished");
    house.open_the_gate();
    house.until_finished();
    println!("all was done {} ms after the first was stopped", stopped.elapsed().as_millis());
    let notes = house.notes();
    assert_eq!((&*notes[0][0], &*notes[0][1], &*notes[0][3]), ("1", "first", "slow"));
    assert!(notes[1..].iter().all(|note| note[0] == "2" && note[1] == "second"), "{notes:?}");
    assert_eq!(house.broker.json(&["dead", "list", "default", "--group", "audit", "--output", "json"]).len(), 0);
    end(second);
    let said = end(first);
    assert!(said.contains("leading group audit in epoch 1"), "{said}");
    assert!(said.contains("no longer leading group audit"), "{said}");
    assert!(!said.contains("lost"), "{said}");
}

/// Its heartbeats go on, and so would its office for ever: who runs the broker ends that.
#[test]
fn a_leader_whose_command_hangs_is_deposed_by_hand() {
    let (house, first, second) = House::with_two("1m");
    house.broker.call(&["group", "depose", "default", "default"]).failed(1, &["shared by its consumers"]);
    house.broker.ok(&["group", "depose", "default", "audit"]);
    house.until("the second leads", |office| office["epoch"] == 2);
    assert_eq!(house.office()["handing_over"], true);
    house.open_the_gate();
    house.until_finished();
    let notes = house.notes();
    assert_eq!((&*notes[0][0], &*notes[0][1], &*notes[0][3]), ("1", "first", "slow"));
    assert!(notes[1..].iter().all(|note| note[0] == "2" && note[1] == "second"), "{notes:?}");
    end(second);
    assert!(end(first).contains("no longer leading group audit"));
    house.broker.call(&["group", "depose", "default", "audit"]).failed(1, &["nobody leads group audit"]);
}

/// One that is never heard of again, though its process and its connection are there.
#[test]
fn a_leader_that_stays_stopped_is_followed_at_the_end_of_its_handover() {
    let (house, mut first, second) = House::with_two("1s");
    let stopped = Instant::now();
    first.signal(Signal::STOP);
    house.open_the_gate();
    house.until_finished();
    within(SECOND + SECOND, stopped, "all was done after the leader was stopped for good");
    house.check_epochs();
    first.signal(Signal::CONT);
    end(second);
    end(first);
}

#[test]
fn a_killed_leader_is_followed_by_the_next_also_when_the_broker_dies() {
    let mut house = House::new(&["--term", "1s", "--handover", "1s"]);
    let mut leader = house.work("0");
    for round in 1..=3 {
        house.publish(&format!("slow{round} a{round} b{round}"));
        house.until_notes_of(round);
        let next = house.work(&round.to_string());
        house.until("the next one waits", |office| office["candidates"] == 1);
        let killed = Instant::now();
        leader.signal(Signal::KILL);
        if round == 2 {
            house = house.with_another_broker();
        }
        house.until_finished();
        let grace = if round == 2 { GRACE } else { Duration::ZERO };
        within(SECOND + SECOND + grace, killed, "all was done after the leader was killed");
        leader = next;
    }
    end(leader);
    house.check_epochs();
    let epochs: Vec<_> = house.notes().iter().map(|note| note[0].clone()).collect();
    assert_ne!(epochs.first(), epochs.last(), "there were several leaders");
}

#[test]
fn a_leader_that_is_cut_off_is_followed_and_its_command_is_stopped() {
    let house = House::new(&["--term", "1s", "--handover", "1s"]);
    house.publish("hold 1 2 3");
    let proxy = Proxy::to(&house.broker.address);
    let first = house.work_at("first", &proxy.address);
    house.until_notes(1);
    let second = house.work("second");
    house.until("the second waits", |office| office["candidates"] == 1);
    let cut = Instant::now();
    proxy.cut(true);
    // The second has what the first held as well, for that was never finished.
    house.until_notes(2);
    within(SECOND + SECOND, cut, "the next leader worked after the first was cut off");
    // Back among the others, the first learns that its lease is lost, and tells its command.
    proxy.cut(false);
    house.until_stopped("first");
    house.open_the_gate();
    house.until_finished();
    end(second);
    let said = end(first);
    assert!(said.contains("its command is told to stop"), "{said}");
    house.check_epochs();
    let notes = house.notes();
    assert_eq!((&*notes[0][1], &*notes[0][3]), ("first", "hold"));
    assert!(notes[1..].iter().all(|note| note[1] == "second"), "{notes:?}");
}

#[test]
fn who_holds_an_office_is_shown_and_a_receive_is_refused() {
    let house = House::new(&[]);
    let office = house.office();
    assert_eq!((&office["leader"], &office["epoch"]), (&().into(), &0.into()));
    assert_eq!((&office["term"], &office["handover"]), (&"10s".into(), &"30s".into()));
    house.broker.call(&["receive", "default", "--group", "audit"]).failed(1, &["exclusive", "millpond work"]);
    let worker = house.work("only");
    house.until("it leads", |office| office["epoch"] == 1);
    assert_eq!(house.office()["leader"].as_str().map(str::len), Some(8));
    let table = house.broker.ok(&["group", "list", "default"]);
    let stats = house.broker.ok(&["stats", "default", "--group", "audit"]);
    assert!(table.contains("hand-over") && table.contains(" 10s") && table.contains(" 30s"), "{table}");
    for table in [table, stats] {
        assert!(table.contains("leader") && table.contains("candidates"), "{table}");
    }
    let stats = house.broker.ok(&["stats", "default", "--group", "default"]);
    assert!(!stats.contains("leader"), "no office is of that group: {stats}");
    house.publish("one");
    house.until_finished();
    assert_eq!(house.notes()[0][0], "1");
    end(worker);
    house.until("nobody leads", |office| office["leader"].is_null());

    let broker = &house.broker;
    broker.call(&["group", "create", "default", "x", "--exclusive", "--term", "1ms"]).failed(1, &["500 ms"]);
    broker.call(&["group", "create", "default", "x", "--term", "1s"]).failed(2, &["--exclusive"]);
}

impl House {
    fn new(office: &[&str]) -> House {
        let broker = Broker::start();
        // What is lost with a leader comes again at once.
        broker.ok(&["namespace", "set", "default", "--retry", "head"]);
        broker.ok(&[&["group", "create", "default", "audit", "--exclusive"], office].concat());
        House { broker, notes: TempDir::new().unwrap() }
    }

    /// With a term of a second, and two workers: the first leads and has its first message, and the second waits.
    fn with_two(handover: &str) -> (House, Running, Running) {
        let house = House::new(&["--term", "1s", "--handover", handover]);
        house.publish("slow 1 2 3");
        let first = house.work("first");
        house.until_notes(1);
        let second = house.work("second");
        house.until("the second waits", |office| office["candidates"] == 1);
        (house, first, second)
    }

    /// The broker is killed, and another one started in its place.
    fn with_another_broker(self) -> House {
        let House { broker, notes } = self;
        let address = broker.address.clone();
        let directory = broker.kill();
        let broker = Broker::run_on(&mut serve_at(directory.path(), &address), directory);
        House { broker, notes }
    }

    fn publish(&self, bodies: &str) {
        self.broker.call_with(&["publish", "default/a", "--lines"], bodies.replace(' ', "\n").as_bytes()).ok();
    }

    fn work(&self, name: &str) -> Running {
        self.work_at(name, &self.broker.address)
    }

    /// A worker that notes what comes. It takes its time over `slow`, and with `hold` waits to be told to stop.
    fn work_at(&self, name: &str, address: &str) -> Running {
        let notes = self.notes.path().display();
        let script = format!(
            "body=$(cat); trap 'touch {notes}/stopped-{name}; exit 1' TERM; \
             echo $MILLPOND_EPOCH {name} $MILLPOND_RECEIPT $body >> {notes}/notes; \
             case $body in slow | hold) while [ ! -e {notes}/open ] && {WORKER_LIVES}; do sleep 0.02; done;; \
             slow*) sleep 0.3;; esac"
        );
        let mut command = self.broker.command(&["work", "default", "--group", "audit", "--", "sh", "-c", &script]);
        Running::of(command.env("MILLPOND_SERVER", address))
    }

    fn open_the_gate(&self) {
        fs::write(self.notes.path().join("open"), "").unwrap();
    }

    /// Epoch, worker, receipt and body of each message, in the order in which they came.
    fn notes(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.notes.path().join("notes")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    fn office(&self) -> serde_json::Value {
        self.broker.json(&["stats", "default", "--json"])[0]["offices"]["audit"].clone()
    }

    fn until(&self, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        wait(what, || is_so(&self.office()));
    }

    fn until_notes(&self, count: usize) {
        wait("messages come", || self.notes().len() >= count);
    }

    fn until_notes_of(&self, round: u32) {
        let slow = format!("slow{round}");
        wait("the slow message comes", || self.notes().iter().any(|note| note[3] == slow));
    }

    fn until_stopped(&self, name: &str) {
        let path: PathBuf = self.notes.path().join(format!("stopped-{name}"));
        wait("the command is stopped", || path.exists());
    }

    fn until_finished(&self) {
        let audit = || self.broker.json(&["stats", "default", "--json"])[0]["groups"]["audit"]["unfinished"].clone();
        wait("all is finished", || audit() == 0);
    }

    /// Once a leader has had a message, no earlier one gets another.
    fn check_epochs(&self) {
        let notes = self.notes();
        let epochs: Vec<u64> = notes.iter().map(|note| note[0].parse().unwrap()).collect();
        assert!(epochs.is_sorted(), "{notes:?}");
        let leaders: std::collections::BTreeSet<_> = notes.iter().map(|note| (&note[0], &note[1])).collect();
        let distinct: std::collections::BTreeSet<_> = epochs.iter().collect();
        assert_eq!(leaders.len(), distinct.len(), "an epoch is one leader's: {notes:?}");
    }
}

/// What has happened since was promised within a time.
fn within(promised: Duration, since: Instant, what: &str) {
    let took = since.elapsed();
    println!("{what}: {} ms", took.as_millis());
    assert!(took <= promised + SLACK, "{what}: within {promised:?}, and it took {took:?}");
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends a worker in order; what it said on stderr.
fn end(mut worker: Running) -> String {
    worker.signal(Signal::TERM);
    let said = worker.wait();
    assert_eq!(said.code, 0, "{said:?}");
    said.err
}
