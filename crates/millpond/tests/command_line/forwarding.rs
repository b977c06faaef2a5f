//! `work --forward`: a chain of stages, and what is left of it when its processes are killed.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::broker::{Broker, Running, fresh_directory, serve, serve_at};

/// Each stage takes from the first topic and adds its mark for the second.
const STAGES: [(&str, &str, &str); 3] =
    [("default/in", "default/two", "a"), ("default/two", "default/three", "b"), ("default/three", "default/out", "c")];

#[test]
fn what_a_command_writes_is_published_as_its_message_is_acked() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/in", "--lines"], b"one\nnothing\nbad\n").ok();
    let script = "case $(cat) in one) printf 'two lines\nof it';; nothing) ;; bad) echo lost; exit 65;; esac";
    let worker = broker.spawn(&["work", "default/in", "--forward", "default/out", "--", "sh", "-c", script]);
    until(|| broker.counts("default")["dead"] == 1 && broker.counts("default")["leased"] == 0);
    let out = broker.json(&["receive", "default", "--max", "10", "--ack"]);
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!((&out[0]["topic"], &out[0]["body"]), (&"out".into(), &"two lines\nof it".into()));
    assert!(out[0]["dedup_id"].as_str().unwrap().ends_with("/0/0"), "it is made of the input's id");
    stop(worker);
}

#[test]
fn a_message_is_published_as_others_are_acked_or_nothing_is_done() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "made", "--max-waiting", "1"]);
    broker.call_with(&["publish", "default/in", "--lines"], b"1\n2\n").ok();
    let leased = broker.json(&["receive", "default", "--max", "2"]);
    let receipts: Vec<&str> = leased.iter().map(|message| message["receipt"].as_str().unwrap()).collect();
    let publish = |receipts: &[&str]| {
        let acks = receipts.iter().flat_map(|receipt| ["--ack", receipt]);
        broker.call(&["publish", "made/out", "1 and 2"].into_iter().chain(acks).collect::<Vec<_>>())
    };
    publish(&[receipts[0], "0.99.99"]).failed(1, &["lost", "Nothing was published, and nothing acked"]);
    broker.ok(&["publish", "made/out", "before"]);
    publish(&receipts).failed(1, &["topic_full", "lets 1 message wait", "Nothing was acked"]);
    assert_eq!(broker.counts("default")["leased"], 2);
    broker.ok(&["receive", "made", "--ack"]);
    let said = publish(&receipts).ok();
    assert!(said.lines().filter(|line| line.starts_with("acked ")).count() == 2, "{said}");
    assert_eq!((&broker.counts("default")["leased"], &broker.counts("made")["waiting"]), (&0.into(), &1.into()));
    broker.call(&["publish", "made/out", "--lines", "--ack", receipts[0]]).failed(2, &["cannot be used with"]);
}

#[test]
fn a_message_goes_to_an_exchange_as_others_are_acked_or_nothing_is_done() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "made", "--rule", "audit max-waiting=1"]);
    broker.ok(&["exchange", "create", "made", "events", "--kind", "topic"]);
    broker.ok(&["exchange", "bind", "made", "events", "audit", "--key", "paid.*"]);
    broker.ok(&["exchange", "bind", "made", "events", "mail/{key}", "--key", "paid.eu"]);
    broker.ok(&["exchange", "create", "made", "quiet", "--kind", "fanout", "--unroutable", "drop"]);
    broker.call_with(&["publish", "default/in", "--lines"], b"1\n2\n3\n4\n").ok();
    let leased = broker.json(&["receive", "default", "--max", "4"]);
    let receipts: Vec<&str> = leased.iter().map(|message| message["receipt"].as_str().unwrap()).collect();
    let hand_off = |to: &[&str], acks: &[&str]| {
        let acks = acks.iter().flat_map(|receipt| ["--ack", receipt]);
        let publish = ["publish", "made", "what came of it", "--exchange"];
        broker.call(&publish.into_iter().chain(to.iter().copied()).chain(acks).collect::<Vec<_>>())
    };
    let is_as_before = || {
        let made = broker.counts("made");
        assert_eq!((&broker.counts("default")["leased"], &made["waiting"]), (&4.into(), &1.into()), "{made}");
    };
    broker.ok(&["publish", "made/audit", "before"]);
    let eu = ["events", "--key", "paid.eu"];
    hand_off(&eu, &receipts[..1]).failed(1, &["topic_full: topic audit: ", "lets 1 message wait", "Nothing was acked"]);
    hand_off(&["events", "--key", "sent"], &receipts[..1])
        .failed(1, &["unroutable", "key \"sent\"", "Nothing was acked"]);
    hand_off(&["none"], &receipts[..1]).failed(1, &["exchange_unknown", "there is no exchange none"]);
    let lost = hand_off(&["quiet"], &[receipts[0], "0.99.99"]);
    assert!(!lost.out.contains("nowhere"), "{lost:?}");
    lost.failed(1, &["1 of 2 leases lost", "Nothing was published, and nothing acked"]);
    is_as_before();
    broker.ok(&["receive", "made", "--ack"]);
    hand_off(&eu, &[receipts[0], "0.99.99"]).failed(1, &["lost", "Nothing was published, and nothing acked"]);
    hand_off(&eu, &[receipts[0], receipts[0]]).failed(1, &["a receipt is named twice"]);
    let said = hand_off(&eu, &receipts[..2]).ok();
    let copies: Vec<&str> = said.lines().filter_map(|line| line.split_once(" queued ")).map(|(to, _)| to).collect();
    assert_eq!(copies, ["audit:", "mail/paid.eu:"], "{said}");
    assert!(said.lines().filter(|line| line.starts_with("acked ")).count() == 2, "{said}");
    // Whoever lost the answer asks again, and nothing comes twice, whatever is bound by then.
    broker.ok(&["exchange", "bind", "made", "events", "later", "--key", "#"]);
    hand_off(&eu, &receipts[..2]).failed(1, &["2 of 2 leases lost", "nothing acked"]);
    let said = hand_off(&["quiet", "--output", "json"], &receipts[2..3]).ok();
    assert_eq!(said.lines().next(), Some("{\"outcome\":\"unroutable\"}"), "{said}");
    let made = broker.counts("made");
    assert_eq!((&broker.counts("default")["leased"], &made["waiting"]), (&1.into(), &2.into()), "{made}");
}

#[test]
fn what_a_command_writes_goes_to_an_exchange_as_its_message_is_acked() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "made"]);
    broker.ok(&["exchange", "create", "made", "events", "--kind", "topic"]);
    broker.ok(&["exchange", "bind", "made", "events", "audit", "--key", "#"]);
    broker.ok(&["exchange", "bind", "made", "events", "mail/{key}", "--key", "order.*"]);
    broker.ok(&["exchange", "create", "made", "orders", "--kind", "direct"]);
    broker.ok(&["exchange", "bind", "made", "orders", "order", "--key", "by order.eu"]);
    broker.ok(&["publish", "default/order.eu", "one"]);
    let flags = ["work", "default", "--forward", "made", "--exchange"];
    let work = |to: &[&str]| broker.spawn(&[&flags, to, &["--", "sed", "s/$/ more/"]].concat());
    let worker = work(&["events", "--key", "{topic}"]);
    until(|| broker.counts("made")["waiting"] == 2);
    let out = broker.json(&["receive", "made", "--max", "9", "--ack"]);
    let got: Vec<_> = out.iter().map(|message| (&message["topic"], &message["body"])).collect();
    assert_eq!(got, [(&"audit".into(), &"one more".into()), (&"mail/order.eu".into(), &"one more".into())]);
    assert!(out.iter().all(|message| message["dedup_id"].as_str().unwrap().ends_with("/0/0")), "{out:?}");
    stop(worker);

    // By a key that is each message's own, what goes nowhere is a fault of the message alone.
    broker.ok(&["publish", "default/order.us", "two"]);
    broker.ok(&["publish", "default/order.eu", "three"]);
    let worker = work(&["orders", "--key", "by {topic}"]);
    until(|| broker.counts("made")["waiting"] == 1 && broker.counts("default")["dead"] == 1);
    let dead = &broker.json(&["dead", "list", "default", "--output", "json"])[0];
    assert!(dead["detail"].as_str().unwrap().contains("goes nowhere: unroutable"), "{dead}");
    stop(worker);

    // By one key for all, every other one would go nowhere too.
    broker.ok(&["publish", "default/order.eu", "four"]);
    let mut worker = work(&["orders"]);
    until(|| worker.has_ended());
    worker.wait().failed(1, &["exchange orders of made", "unroutable", "its message was released"]);
    assert_eq!(broker.counts("default")["waiting"], 1);
    for (flags, why) in [
        (&["--exchange", "orders"][..], "--forward"),
        (&["--forward", "made/x", "--exchange", "orders"], "write made alone"),
        (&["--forward", "made"], "name an exchange with --exchange"),
        (&["--forward", "made", "--key", "k"], "--exchange"),
    ] {
        broker.call(&[&["work", "default"], flags, &["--", "cat"]].concat()).failed(2, &[why]);
    }
}

/// What a command leaves running may hold its output open for ever: that is not waited for any longer than the command itself.
#[test]
fn a_second_signal_stops_what_a_command_has_left_running() {
    let broker = Broker::start();
    let directory = fresh_directory();
    let noted = directory.path().join("shell");
    broker.ok(&["publish", "default/in", "x"]);
    let script = format!("sleep 60 & echo hi; echo $$ > {0}.new; mv {0}.new {0}", noted.display());
    let began = Instant::now();
    let mut worker = broker.spawn(&["work", "default/in", "--forward", "default/out", "--", "sh", "-c", &script]);
    until(|| noted.exists());
    let shell = std::fs::read_to_string(&noted).unwrap();
    until(|| !Path::new("/proc").join(shell.trim()).exists());
    while !worker.has_ended() && began.elapsed() < Duration::from_secs(40) {
        worker.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(worker.has_ended(), "it waits for what the command has left running");
    worker.wait().ok();
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["leased"]), (&1.into(), &0.into()), "{counts}");
    let looked = &broker.json(&["look", "default/in", "--output", "json"])[0];
    assert_eq!(looked["failures"], 0, "it is no fault of the message: {looked}");
}

/// A target that can never take an output ends the worker, and no message pays for it.
#[test]
fn a_target_that_takes_no_output_ends_the_worker() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "off", "--dedup-window", "off"]);
    broker.ok(&["namespace", "set", "default", "--max-failures", "0"]);
    broker.call_with(&["publish", "default/in", "--lines"], b"1\n2\n3\n").ok();
    for (target, why) in [("off/out", "dedup_off"), ("nowhere/out", "namespace_unknown")] {
        let mut worker = broker.spawn(&["work", "default/in", "--concurrency", "2", "--forward", target, "--", "cat"]);
        until(|| worker.has_ended() || broker.counts("default")["dead"] != 0);
        assert!(worker.has_ended(), "it goes on with {}", broker.counts("default"));
        worker.wait().failed(1, &[target, why, "its message was released"]);
        let counts = broker.counts("default");
        assert_eq!((&counts["waiting"], &counts["dead"]), (&3.into(), &0.into()), "{counts}");
    }
    assert_eq!(broker.counts("off")["waiting"], 0);
}

/// What was before it in its run may not be confirmed by then, and that is no failure of the output.
#[test]
fn what_is_forwarded_of_a_run_fails_for_nothing_before_it() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--max-in-flight", "1", "--run", "3", "--max-failures", "0"]);
    const TOPICS: usize = 10;
    for topic in 0..TOPICS {
        let messages = b"a1\na2\na3\nb1\nb2\nb3\nc1\nc2\nc3\nd1\nd2\nd3\n";
        broker.call_with(&["publish", &format!("default/in/{topic}"), "--lines"], messages).ok();
    }
    let flags = ["--concurrency", "4", "--window", "12", "--forward", "default/out"];
    let command = ["--", "sh", "-c", "read body; case $body in *3) echo $body;; esac"];
    let worker = broker.spawn(&[&["work", "default/in/*"][..], &flags, &command].concat());
    until(|| {
        let counts = broker.counts("default");
        assert_eq!(counts["dead"], 0, "{counts}");
        counts["unfinished"] == 4 * TOPICS && counts["leased"] == 0
    });
    stop(worker);
    assert_eq!(broker.json(&["look", "default/out", "--first", "100", "--output", "json"]).len(), 4 * TOPICS);
}

/// A target that is full for now is waited for, and the worker says so once: else its commands run over and over, and nobody
/// knows why.
#[test]
fn a_worker_says_once_that_its_target_is_full() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--max-waiting", "1"]);
    broker.ok(&["namespace", "create", "small", "--quota-messages", "1"]);
    for (target, why) in [("default/out", "topic_full"), ("small/out", "quota_exceeded")] {
        let directory = fresh_directory();
        let runs = || std::fs::read_to_string(directory.path().join("runs")).unwrap_or_default().len();
        broker.ok(&["publish", target, "in the way"]);
        broker.ok(&["publish", "default/in", "x"]);
        let script = format!("cat; printf . >> {}/runs", directory.path().display());
        let mut worker = broker.spawn(&["work", "default/in", "--forward", target, "--", "sh", "-c", &script]);
        until(|| runs() >= 3);
        assert!(!worker.has_ended());
        broker.ok(&["receive", target, "--ack"]);
        until(|| broker.json(&["receive", target, "--ack"]).iter().any(|message| message["body"] == "x"));
        worker.signal(Signal::TERM);
        let said = worker.wait();
        let told: Vec<&str> = said.err.lines().filter(|line| line.contains(target)).collect();
        assert!(told.len() == 1 && told[0].contains(why) && told[0].contains("run again"), "{said:?}");
        said.ok();
    }
}

/// An output that is too large is its message's own fault: that fails, the others go on.
#[test]
fn an_output_that_is_too_large_fails_alone() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--body-max", "10"]));
    broker.ok(&["namespace", "set", "default", "--max-failures", "0"]);
    broker.call_with(&["publish", "default/in", "--lines"], b"short\nlong\nhuge\n").ok();
    let script = "read body; case $body in short) echo $body;; long) echo more than ten bytes;; \
                  huge) head -c 5000000 /dev/zero;; esac";
    let mut worker = broker.spawn(&["work", "default/in", "--forward", "default/out", "--", "sh", "-c", script]);
    until(|| broker.counts("default")["dead"] == 2 && broker.counts("default")["waiting"] == 1);
    assert!(!worker.has_ended());
    worker.signal(Signal::TERM);
    let said = worker.wait();
    assert!(said.err.contains("message_too_large") && said.err.contains("more than 4194304 bytes"), "{said:?}");
    said.ok();
}

/// `CHAIN=2000,60 cargo test -p millpond --test command_line a_chain` is the same at length: so many inputs, so many kills.
#[test]
fn a_chain_of_stages_yields_each_output_once() {
    let asked = std::env::var("CHAIN").ok();
    let numbers = asked.as_deref().map(|text| text.split_once(',').expect("CHAIN=INPUTS,KILLS"));
    let (inputs, kills) = numbers.unwrap_or(("30", "4"));
    chain(inputs.parse().expect("how many inputs"), kills.parse().expect("how many kills"));
}

/// What is killed: the worker of each stage, and the broker.
const PROCESSES: usize = STAGES.len() + 1;

/// Publishes so many inputs, kills so many processes meanwhile, each in its turn and at a moment that is drawn, and holds
/// what comes out against what went in.
fn chain(inputs: u32, kills: u32) {
    assert!(kills as usize >= PROCESSES && inputs >= kills, "each process is killed once at least");
    let seed = Instant::now();
    let mut drawn = u64::from(std::process::id()) << 20;
    let mut draw = |below: u64| {
        drawn = drawn.wrapping_mul(6364136223846793005).wrapping_add(seed.elapsed().as_nanos() as u64 | 1);
        (drawn >> 33) % below
    };
    let mut broker = Broker::start();
    let address = broker.address.clone();
    // What is killed with its worker fails; it is to come again, at once and as often as it takes.
    broker.ok(&["namespace", "set", "default", "--retry", "head", "--max-failures", "1000"]);
    let start = |broker: &Broker, stage: usize| {
        let (from, to, mark) = STAGES[stage];
        // So slow that a kill finds it at work.
        let script = format!("cat; sleep 0.05; printf {mark}");
        broker.spawn(&["work", from, "--concurrency", "1..4", "--forward", to, "--", "sh", "-c", &script])
    };
    let mut workers: Vec<Running> = (0..STAGES.len()).map(|stage| start(&broker, stage)).collect();
    let first = draw(PROCESSES as u64) as usize;
    let mut killed = [0_u32; PROCESSES];
    // One moment in each part of the inputs.
    let part = inputs / kills;
    let mut moments = (0..kills).map(|kill| kill * part + draw(part.into()) as u32).peekable();
    for input in 0..inputs {
        let (body, id) = (format!("{input}-"), format!("input {input}"));
        // The ledger is outside: an input counts once its publish is confirmed, and is repeated until then.
        until(|| broker.call(&["publish", "default/in", &body, "--dedup-id", &id]).code == 0);
        if moments.next_if_eq(&input).is_some() {
            let which = (first + killed.iter().sum::<u32>() as usize) % PROCESSES;
            killed[which] += 1;
            match workers.get_mut(which) {
                None => {
                    let directory = broker.kill();
                    broker = Broker::run_on(&mut serve_at(directory.path(), &address), directory);
                }
                Some(worker) => {
                    assert!(!worker.has_ended(), "it is killed, and does not end by itself");
                    worker.signal(Signal::KILL);
                    *worker = start(&broker, which);
                }
            }
        }
    }
    assert!(killed.iter().all(|times| *times > 0), "the worker of each stage and the broker: {killed:?}");
    until(|| {
        let counts = broker.counts("default");
        counts["waiting"] == inputs && ["leased", "retrying", "delayed", "dead"].iter().all(|state| counts[*state] == 0)
    });
    workers.into_iter().for_each(stop);
    let max = (2 * inputs).to_string();
    let mut out: Vec<String> = broker
        .json(&["receive", "default/out", "--max", &max, "--ack"])
        .iter()
        .map(|message| message["body"].as_str().unwrap().to_owned())
        .collect();
    let mut expected: Vec<String> = (0..inputs).map(|input| format!("{input}-abc")).collect();
    out.sort_unstable();
    expected.sort_unstable();
    assert_eq!(out, expected, "each input yields one output");
}

fn stop(mut worker: Running) {
    worker.signal(Signal::TERM);
    worker.wait().ok();
}

/// Waits until it holds; a lease of a killed worker comes back within some ten seconds.
fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "it does not come to that");
        std::thread::sleep(Duration::from_millis(50));
    }
}
