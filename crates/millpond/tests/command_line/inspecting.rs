//! `inspect`: verifies and prints a directory offline.

use crate::broker::{Broker, call, fresh_directory};

#[test]
fn every_line_of_the_report_may_be_an_object() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    let place = broker.data().to_str().unwrap();
    let objects = broker.json(&["inspect", place, "--facts", "--output", "json"]);
    let about = |what: &str| objects.iter().filter(|object| object["about"] == what).count();
    assert!(
        about("directory") == 1 && about("in use") == 1 && about("segment") == 1 && about("fact") >= 1,
        "{objects:?}"
    );
    assert_eq!(objects.last().unwrap()["in_order"], true);
    // Nothing has to be read out of a sentence.
    let number = |what: &str, field: &str| {
        let of = objects.iter().find(|object| object["about"] == what);
        of.unwrap_or_else(|| panic!("nothing about {what}: {objects:?}"))[field].as_u64().unwrap()
    };
    let facts = number("segment end", "facts");
    assert_eq!(about("fact") as u64, facts);
    assert!(number("segment", "bytes") > 0 && number("segment end", "position") > number("batch", "position"));
    assert!(objects.iter().any(|fact| fact["block_bytes"].as_u64() > Some(0)), "{objects:?}");

    let said = call(&["inspect", "no/such/directory", "--output", "json"]).failed(1, &["no/such/directory"]);
    let objects: Vec<serde_json::Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&objects[0]["about"], &objects[1]["in_order"]), (&"damaged".into(), &false.into()));
}

#[test]
fn a_directory_is_verified_and_its_facts_are_printed() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/some-topic", "x"]);
    broker.ok(&["receive", "default", "--ack"]);
    let (_, directory) = broker.stop();
    let place = directory.path().to_str().unwrap();
    let said = call(&["inspect", place]).ok();
    assert!(!said.contains("some-topic"), "{said}");
    let facts = call(&["inspect", place, "--facts"]).ok();
    assert!(facts.contains("some-topic") && facts.len() > said.len(), "{facts}");
    call(&["inspect", "no/such/directory"]).failed(1, &["no/such/directory"]);
}

#[test]
fn what_cannot_be_started_is_salvaged_into_a_fresh_directory() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/some-topic", "kept"]);
    broker.ok(&["publish", "default/other", "done"]);
    broker.ok(&["receive", "default/other", "--ack"]);
    let (place, fresh) = (broker.data().to_str().unwrap().to_owned(), fresh_directory());
    let to = fresh.path().to_str().unwrap();
    call(&["inspect", &place, "--salvage", to]).failed(1, &["in use"]);
    let (_, directory) = broker.stop();
    std::fs::remove_file(directory.path().join("FORMAT")).unwrap();
    let said = call(&["inspect", &place, "--salvage", to]).ok();
    assert!(said.contains("1 messages and 0 dead letters of 1 topics"), "{said}");
    call(&["inspect", &place, "--salvage", to]).failed(1, &["not salvaged"]);
    let broker = Broker::start_on(fresh);
    let received = broker.json(&["receive", "default", "--ack"]);
    assert_eq!((received.len(), &received[0]["body"]), (1, &"kept".into()), "{received:?}");
}
