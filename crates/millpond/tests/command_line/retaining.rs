//! A group that nobody receives from holds no more than so much.

use std::time::Duration;

use crate::broker::Broker;

#[test]
fn a_group_that_nobody_takes_from_keeps_the_newest() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "n", "--retention-count", "10"]);
    broker.ok(&["group", "create", "n", "idle"]);
    for n in 0..30 {
        broker.ok(&["publish", &format!("n/t{}", n % 3), &n.to_string(), "--dedup-id", &n.to_string()]);
        broker.ok(&["receive", "n", "--ack"]);
    }
    let group = |name: &str| broker.json(&["stats", "n", "--json"])[0]["groups"][name].clone();
    while group("idle")["waiting"] != 10 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(group("idle")["retained_out"], 20);
    assert_eq!(group("default")["retained_out"], 0);
    let table = broker.ok(&["stats", "n"]);
    assert!(table.contains("retained out"), "{table}");
    let shown = broker.ok(&["namespace", "show", "n"]);
    assert!(shown.contains("of what nobody takes a group holds 10 messages"), "{shown}");

    let again = broker.json(&["publish", "n/t0", "0", "--dedup-id", "0", "--output", "json"])[0].clone();
    assert_eq!((&again["outcome"], &again["state"]), (&"duplicate".into(), &"ended".into()), "{again}");
    let bodies = broker.json(&["receive", "n", "--group", "idle", "--max", "99"]);
    let mut bodies: Vec<u64> = bodies.iter().map(|row| row["body"].as_str().unwrap().parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (20..30).collect::<Vec<_>>(), "the newest");
}
