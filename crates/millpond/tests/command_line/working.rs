//! `work`: what the command sees, what its exit status does, and how a worker ends.

use std::io::BufRead;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::broker::{Broker, Running, Said, fresh_directory, hangup, serve, serve_at};

/// For commands that wait for something: nobody tells them when a test fails and its worker is killed.
const WORKER_LIVES: &str = "kill -0 $PPID 2>/dev/null";

#[test]
fn the_command_sees_body_and_variables() {
    let broker = Broker::start();
    let id = broker.ok(&["publish", "default/acme/1", "the body", "--priority", "7", "--header", "reply-to=me"]);
    let id = id.trim().strip_prefix("queued ").unwrap();
    let script = "cat; echo \" $MILLPOND_NAMESPACE $MILLPOND_TOPIC $MILLPOND_ID $MILLPOND_PRIORITY \
                  $MILLPOND_DELIVERIES $MILLPOND_FAILURES $MILLPOND_HEADER_REPLY_TO $MILLPOND_SERVER \
                  ${MILLPOND_RECEIPT##*.} $MILLPOND_LEASE\"";
    let mut worker = work(&broker, &[], script);
    let line = worker.next_line();
    let (seen, lease) = line.rsplit_once(' ').unwrap();
    let expected = format!("the body default acme/1 {id} 7 1 0 me {} {lease}", broker.address);
    assert_eq!(seen, expected);
    until_finished(&broker);
    assert_eq!(broker.counts("default")["dead"], 0);
    end(worker).ok();
}

#[test]
fn the_exit_status_decides() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "head", "--max-failures", "1"]);
    broker.call_with(&["publish", "default/a", "--lines"], b"ack\nrelease\nreject\nfail\nkill\n").ok();
    // A released message comes again without a failure; the second time it is acked.
    let script = "case $(cat) in \
        ack) exit 0;; \
        release) if [ $MILLPOND_DELIVERIES = 1 ]; then exit 75; fi; [ $MILLPOND_FAILURES = 0 ];; \
        reject) echo not wanted >&2; exit 65;; \
        fail) echo out of ink >&2; exit 3;; \
        kill) kill -9 $$;; \
        esac";
    let worker = work(&broker, &["--concurrency", "1..4"], script);
    until_finished(&broker);
    let dead = broker.json(&["dead", "list", "default", "--output", "json"]);
    let mut dead: Vec<_> = dead
        .iter()
        .map(|d| [&d["body"], &d["reason"], &d["detail"], &d["failures"]].map(|v| v.to_string().replace('"', "")))
        .collect();
    dead.sort();
    assert_eq!(dead[0], ["fail", "failed", "out of ink", "2"]);
    assert_eq!(dead[1], ["kill", "failed", "killed by signal 9", "2"]);
    assert_eq!(dead[2], ["reject", "rejected", "not wanted", "0"]);
    assert_eq!(dead.len(), 3);
    let said = end(worker);
    // What the commands say on stderr is passed on.
    assert!(said.err.contains("out of ink"), "{said:?}");
    said.ok();
}

#[test]
fn a_signal_lets_the_running_finish_and_releases_the_rest() {
    for signal in [Signal::TERM].into_iter().chain(hangup()) {
        the_running_finish(signal);
    }
}

fn the_running_finish(signal: Signal) {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n3\n").ok();
    let gate = tempfile::TempDir::new().unwrap();
    let script = format!(
        "echo started; while [ ! -e {}/open ] && {WORKER_LIVES}; do sleep 0.02; done; echo done",
        gate.path().display()
    );
    let mut worker = work(&broker, &[], &script);
    assert_eq!(worker.next_line(), "started");
    worker.signal(signal);
    // The command runs on: what it waits for comes only now.
    std::fs::write(gate.path().join("open"), "").unwrap();
    assert_eq!(worker.wait().ok(), "done\n");
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["leased"]), (&2.into(), &0.into()));
}

#[test]
fn a_second_signal_stops_the_commands() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "head"]);
    broker.ok(&["publish", "default/a", "x"]);
    let script = format!("trap 'echo told >&2; exit 1' TERM; echo started; while {WORKER_LIVES}; do sleep 0.02; done");
    let mut worker = work(&broker, &[], &script);
    assert_eq!(worker.next_line(), "started");
    // Two signals that arrive together are one: the second is sent until it is seen.
    while !worker.has_ended() {
        worker.signal(Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let said = worker.wait();
    assert!(said.err.contains("told"), "{said:?}");
    said.ok();
    assert_eq!(broker.counts("default")["waiting"], 1);
}

/// Whoever reads what the commands print has seen enough, as `head` does. That is no fault of a message: the worker gives
/// back what it holds and ends.
#[test]
fn a_worker_whose_stdout_is_closed_gives_its_messages_back_and_ends() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "head", "--max-failures", "0"]);
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n3\n4\n5\n").ok();
    let gate = tempfile::TempDir::new().unwrap();
    let script = format!(
        "line=$(cat); if [ $line != 1 ]; then while [ ! -e {}/open ] && {WORKER_LIVES}; \
         do sleep 0.02; done; fi; echo $line",
        gate.path().display()
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = broker.command(&["work", "default", "--window", "4", "--", "sh", "-c", &script]);
    let worker = Running::of(command.stdout(writer));
    // It holds the writing end, too.
    drop(command);
    let mut first = String::new();
    std::io::BufReader::with_capacity(2, reader).read_line(&mut first).unwrap();
    assert_eq!(first, "1\n");
    std::fs::write(gate.path().join("open"), "").unwrap();
    worker.wait().failed(1, &["stdout is closed", "given back"]);
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["unfinished"], &counts["dead"]), (&4.into(), &4.into(), &0.into()));
    for row in broker.json(&["look", "default/a", "--output", "json"]) {
        assert_eq!(row["failures"], 0, "{row}");
    }
}

/// Nothing has to come for it.
#[test]
fn a_worker_that_waits_ends_when_stdout_is_closed() {
    let broker = Broker::start();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = broker.command(&["work", "default", "--", "cat"]);
    let worker = Running::of(command.stdout(writer));
    drop((command, reader));
    worker.wait().failed(1, &["stdout is closed"]);
}

/// What the worker stops itself is no fault of the message, so it is given back and not failed.
#[test]
fn a_command_that_a_second_signal_killed_gives_its_message_back() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--max-failures", "0"]);
    broker.ok(&["publish", "default/a", "x"]);
    let mut worker = work(&broker, &[], &format!("echo started; while {WORKER_LIVES}; do sleep 0.02; done"));
    assert_eq!(worker.next_line(), "started");
    while !worker.has_ended() {
        worker.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.wait().ok();
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["dead"]), (&1.into(), &0.into()), "{counts}");
    assert_eq!(broker.json(&["look", "default/a", "--output", "json"])[0]["failures"], 0);
}

/// Whoever starts a worker with `nohup` wants it to outlive the terminal.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let broker = Broker::start();
    let script = format!(
        "trap '' HUP; exec '{}' work default --server {} -- sh -c 'echo done'",
        crate::broker::millpond().get_program().display(),
        broker.address
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut worker = Running::of(&mut command);
    broker.ok(&["publish", "default/a", "x"]);
    assert_eq!(worker.next_line(), "done");
    worker.signal(Signal::HUP);
    broker.ok(&["publish", "default/a", "x"]);
    assert_eq!(worker.next_line(), "done");
    end(worker).ok();
}

/// A command that cannot do its work for now is not started over and over.
#[test]
fn a_message_that_a_command_gives_back_stays_away_for_a_while() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    let mut worker = work(&broker, &[], "echo started; exit 75");
    let began = Instant::now();
    assert_eq!((worker.next_line(), worker.next_line()), ("started".into(), "started".into()));
    assert!(began.elapsed() > Duration::from_millis(700), "{:?}", began.elapsed());
    end(worker).ok();

    broker.ok(&["publish", "default/b", "x"]);
    let mut worker =
        broker.spawn(&["work", "default/b", "--release-delay", "1h", "--", "sh", "-c", "echo started; exit 75"]);
    assert_eq!(worker.next_line(), "started");
    end(worker).ok();
    let looked = &broker.json(&["look", "default/b", "--output", "json"])[0];
    assert_eq!((&looked["state"], &looked["failures"]), (&"retrying".into(), &0.into()));
}

#[test]
fn what_a_command_has_started_is_stopped_with_it() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    let began = Instant::now();
    // The shell waits for another process, which holds the worker's stdout open for as long as it lives.
    let mut worker = work(&broker, &[], "echo started; sleep 60; echo never");
    assert_eq!(worker.next_line(), "started");
    while !worker.has_ended() {
        worker.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(worker.wait().ok(), "");
    assert!(began.elapsed() < Duration::from_secs(50));
}

#[test]
fn a_lost_lease_stops_the_command() {
    let directory = fresh_directory();
    let first = Broker::run(&mut serve(directory.path()));
    first.ok(&["publish", "default/a", "x"]);
    let script = format!("trap 'echo stopped; exit 0' TERM; echo started; while {WORKER_LIVES}; do sleep 0.02; done");
    let mut worker = work(&first, &[], &script);
    assert_eq!(worker.next_line(), "started");
    // A broker on another directory comes up in its place, and knows nothing of the session.
    let address = first.address.clone();
    drop(first);
    let other = fresh_directory();
    let _second = Broker::run(&mut serve_at(other.path(), &address));
    assert_eq!(worker.next_line(), "stopped");
    let said = end(worker);
    assert!(said.err.contains("is lost; its command is told to stop"), "{said:?}");
}

#[test]
fn a_command_that_cannot_be_started_gives_its_message_back() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    broker.call(&["work", "default", "--", "no-such-command-anywhere"]).failed(2, &["no-such-command-anywhere"]);
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["retrying"]), (&1.into(), &0.into()));
}

#[test]
fn workers_share_and_nothing_is_done_twice() {
    let broker = Broker::start();
    let lines: String = (0..60).map(|i| format!("{i}\n")).collect();
    broker.call_with(&["publish", "default/a", "--lines"], lines.as_bytes()).ok();
    let workers: Vec<_> = (0..3).map(|_| work(&broker, &["--concurrency", "4"], "echo $(cat)")).collect();
    until_finished(&broker);
    let mut done: Vec<u32> =
        workers.into_iter().flat_map(|w| end(w).ok().lines().map(|l| l.parse().unwrap()).collect::<Vec<_>>()).collect();
    done.sort_unstable();
    assert_eq!(done, (0..60).collect::<Vec<_>>());
}

fn work(broker: &Broker, options: &[&str], script: &str) -> Running {
    broker.spawn(&[&["work", "default"], options, &["--", "sh", "-c", script]].concat())
}

/// Waits until no message can be delivered any more. A worker that hangs is the test runner's business.
fn until_finished(broker: &Broker) {
    while broker.counts("default")["unfinished"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Ends a worker that has nothing to do.
fn end(mut worker: Running) -> Said {
    worker.signal(Signal::TERM);
    worker.wait()
}
