//! Processes that stand still for a while, and clocks that jump.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::broker::{Broker, Said, fresh_directory, is_left_out, serve};

#[test]
fn a_broker_that_stood_still_takes_no_lease_away() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n").ok();
    let leased = broker.json(&["receive", "default", "--lease", "3s"]);
    broker.signal(Signal::STOP);
    sleep(Duration::from_secs(4));
    broker.signal(Signal::CONT);
    broker.ok(&["ack", "default", leased[0]["receipt"].as_str().unwrap()]);
    assert_eq!(broker.json(&["receive", "default", "--ack"])[0]["body"], "2");
    assert_eq!(broker.counts("default")["unfinished"], 0);
}

#[test]
fn what_a_worker_had_that_stands_still_goes_to_another_which_it_learns() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "head"]);
    broker.ok(&["publish", "default/a", "x"]);
    let wait = "trap 'echo told; exit 0' TERM; echo started; while kill -0 $PPID; do sleep 0.02; done";
    let mut first = broker.spawn(&["work", "default", "--", "sh", "-c", wait]);
    assert_eq!(first.next_line(), "started");
    first.signal(Signal::STOP);
    // Its session is over when nothing was heard of it for ten seconds.
    let mut second = broker.spawn(&["work", "default", "--", "sh", "-c", "echo $MILLPOND_DELIVERIES"]);
    assert_eq!(second.next_line(), "2");
    first.signal(Signal::CONT);
    assert_eq!(first.next_line(), "told");
    for mut worker in [first, second] {
        worker.signal(Signal::TERM);
        worker.wait().ok();
    }
    let counts = broker.counts("default");
    assert_eq!((&counts["unfinished"], &counts["dead"]), (&0.into(), &0.into()));
}

#[test]
fn a_clock_that_is_set_back_or_forward_holds_nothing_up_and_takes_nothing_away() {
    if is_left_out("gcc") {
        return;
    }
    let directory = fresh_directory();
    let clock = Clock::build(directory.path());
    let place = directory.path().join("data");
    let serve = || {
        let mut command = serve(&place);
        command.env("LD_PRELOAD", &clock.library).env("CLOCK_JUMP", &clock.jump);
        command
    };
    let broker = Broker::run(&mut serve());
    broker.ok(&["publish", "default/a", "before", "--delay", "2s"]);
    broker.ok(&["publish", "default/a", "in a day", "--delay", "1d"]);
    broker.ok(&["publish", "default/b", "leased"]);
    let leased = broker.json(&["receive", "default/b", "--lease", "1m"]);
    clock.jump(-3600);
    // Wall time goes on at half its speed.
    broker.ok(&["publish", "default/a", "after", "--delay", "1s"]);
    let took = Instant::now();
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let message = &broker.json(&["receive", "default/a", "--wait", "30s", "--ack"])[0];
        bodies.push(message["body"].as_str().unwrap().to_owned());
    }
    bodies.sort_unstable();
    assert_eq!(bodies, ["after", "before"]);
    assert!(took.elapsed() < Duration::from_secs(30), "{:?}", took.elapsed());
    // Also over a restart, which begins where the journal left it.
    drop(broker);
    let broker = Broker::run(&mut serve());
    broker.ok(&["publish", "default/a", "restarted", "--delay", "1s"]);
    let rows = broker.json(&["receive", "default/a", "--wait", "30s", "--ack"]);
    assert_eq!(rows[0]["body"], "restarted");
    // A day forward: what is due then is due, and a lease, which is counted in run time, is as good as before.
    clock.jump(25 * 3600);
    let rows = broker.json(&["receive", "default/a", "--wait", "30s", "--ack"]);
    assert_eq!(rows[0]["body"], "in a day");
    broker.ok(&["ack", "default", leased[0]["receipt"].as_str().unwrap()]);
}

/// The clock of a process, which jumps when a file says so: the broker has no hook for that, but its system's library does.
struct Clock {
    library: std::path::PathBuf,
    jump: std::path::PathBuf,
}

impl Clock {
    fn build(directory: &Path) -> Clock {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command_line/clock.c");
        let clock = Clock { library: directory.join("clock.so"), jump: directory.join("jump") };
        let flags = ["-shared", "-fPIC", "-O", "-Wall", "-Wextra", "-Werror", "-o"];
        let compiled = Command::new("gcc").args(flags).arg(&clock.library).arg(source).output();
        Said::of(compiled.expect("there is gcc, or MILLPOND_TEST_WITHOUT=gcc")).ok();
        clock.jump(0);
        clock
    }

    /// Sets it by so many seconds from the real one.
    fn jump(&self, seconds: i64) {
        let unfinished = self.jump.with_extension("new");
        std::fs::write(&unfinished, seconds.to_string()).unwrap();
        std::fs::rename(unfinished, &self.jump).unwrap();
    }
}
