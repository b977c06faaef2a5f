//! A disk that fails under a running broker, so that the system makes it read-only.

use std::process::Stdio;
use std::time::Duration;

use millpond_client::{Client, Message, NamespaceName, PublishOutcome};

use crate::broker::{Broker, Running, call, serve};
use crate::small_disk::SmallDisk;
use crate::starving::in_runtime;

#[test]
fn a_disk_that_becomes_read_only_stops_the_broker_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(512) else { return };
    let place = disk.path("data");
    let mut broker = Running::of(serve(&place).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let line = broker.next_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(", ")).expect("it listens").0;
    let namespace = NamespaceName::default();
    let confirmed = in_runtime(async {
        let client = Client::connect(address).await.unwrap();
        let mut confirmed = Vec::new();
        for n in 0.. {
            if n == 200 {
                disk.fail();
            }
            let message = Message::new("t".try_into().unwrap(), n.to_string());
            // A client asks again for as long as there may be somebody to answer.
            let published = client.publish(&namespace, message);
            match tokio::time::timeout(Duration::from_secs(10), published).await {
                Ok(Ok(PublishOutcome::Queued { .. })) => confirmed.push(n.to_string()),
                _ => break,
            }
            assert!(n < 100_000, "a disk that is read-only takes everything");
        }
        confirmed
    });
    assert!(confirmed.len() >= 200, "{}", confirmed.len());
    broker.wait().failed(1, &[place.to_str().unwrap(), "Read-only file system", "restart the broker"]);
    // While the disk is as it is, a start says the same.
    let said = call(&["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", place.to_str().unwrap()]);
    said.failed(1, &[place.to_str().unwrap(), "Read-only"]);
    disk.repair();
    let broker = Broker::run(&mut serve(&place));
    let found = broker.json(&["receive", "default", "--max", "10000", "--ack"]);
    let bodies: Vec<&str> = found.iter().map(|message| message["body"].as_str().unwrap()).collect();
    assert!(confirmed.iter().all(|body| bodies.contains(&body.as_str())), "{} of {}", bodies.len(), confirmed.len());
    assert!(bodies.len() <= confirmed.len() + 1, "what was never asked for");
}
