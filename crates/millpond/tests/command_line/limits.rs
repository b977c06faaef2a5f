//! What is too long or too large is refused, and what just fits is taken: the limits of `docs/semantics.md` that a command meets.

use crate::broker::Broker;

#[test]
fn what_just_fits_is_taken_and_one_more_is_refused() {
    let broker = Broker::start();
    let long = |count: usize| "x".repeat(count);
    let topic = |count: usize| format!("default/{}", long(count));
    broker.ok(&["publish", &topic(512), "fits"]);
    broker.call(&["publish", &topic(513), "does not"]).failed(2, &["at most 512 bytes"]);
    broker.ok(&["namespace", "create", &long(64)]);
    broker.call(&["namespace", "create", &long(65)]).failed(2, &["at most 64 bytes"]);
    broker.ok(&["group", "create", "default", &long(64)]);
    broker.call(&["group", "create", "default", &long(65)]).failed(2, &["at most 64 bytes"]);
    broker.ok(&["publish", "default/a", "fits", "--dedup-id", &long(255)]);
    broker.call(&["publish", "default/a", "does not", "--dedup-id", &long(256)]).failed(2, &["at most 255 bytes"]);
    // Three bytes of lengths and a key of one.
    let header = |count: usize| format!("k={}", long(count - 4));
    broker.ok(&["publish", "default/a", "fits", "--header", &header(16 * 1024)]);
    broker
        .call(&["publish", "default/a", "does not", "--header", &header(16 * 1024 + 1)])
        .failed(2, &["at most 16 KiB"]);
    let body = vec![b'x'; 1024 * 1024 + 1];
    broker.call_with(&["publish", "default/large", "-"], &body[1..]).ok();
    broker.call_with(&["publish", "default/large", "-"], &body).failed(1, &["message_too_large", "at most 1048576"]);
}

#[test]
fn a_time_is_within_its_bounds() {
    let broker = Broker::start();
    // With something to receive nobody waits.
    let receive = |option: &str, time: &str| {
        broker.ok(&["publish", "default/a", "x"]);
        broker.call(&["receive", "default", option, time])
    };
    receive("--wait", "10m").ok();
    receive("--wait", "601s").failed(2, &["at most 10m"]);
    for (fits, over) in [("100ms", "99ms"), ("12h", "43201s")] {
        receive("--lease", fits).ok();
        receive("--lease", over).failed(1, &["100 ms to 12 h"]);
    }
    let exclusive = |name: &str, option: &str, time: &str| {
        broker.call(&["group", "create", "default", name, "--exclusive", option, time])
    };
    for (at, (option, fits, over)) in
        [("--term", "500ms", "499ms"), ("--term", "10m", "601s"), ("--handover", "12h", "43201s")]
            .into_iter()
            .enumerate()
    {
        exclusive(&format!("g{at}"), option, fits).ok();
        exclusive("g", option, over).failed(1, &["500 ms to 10 min"]);
    }
}
