//! `inspect`: verifies and prints a directory offline.

use crate::broker::{Broker, call};

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
