//! Publishes to as many topics as one may name, each of which it makes.

use bytes::Bytes;
use millpond_protocol::{Level, Publish, PublishRun, Request, Response};
use millpond_types::limits::PUBLISH_LOOKUPS_MAX;
use millpond_types::{Millis, NamespaceName, Priority, TopicName, block};

use crate::broker::{Broker, fresh_directory, serve};
use crate::memory::LEAST;
use crate::setting_up::{ASKED, Raw};

/// Each goes on to other topics when it is answered.
const CLIENTS: usize = 8;
const EACH: usize = 5;

/// What a topic of one message takes is more than a place in a topic that is there.
#[test]
fn publishes_to_as_many_topics_as_one_may_name_have_a_bound() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let publishes = |client: usize| {
        let mut raw = Raw::connect(&broker);
        for at in 0..EACH {
            raw.send(&publish(client * EACH + at), ASKED);
            // Credit comes back as well.
            let told = std::iter::repeat_with(|| raw.next()).find(|(correlation, _)| *correlation == ASKED).unwrap();
            assert!(matches!(told.1, Response::Published(_)), "{told:?}");
        }
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|client| drop(scope.spawn(move || publishes(client)))));
    assert_eq!(broker.counts("default")["waiting"], (CLIENTS * EACH * PUBLISH_LOOKUPS_MAX) as u64);
    let most = broker.status("VmHWM:") * 1024;
    assert!(most < LEAST, "{most} bytes");
}

fn publish(number: usize) -> Request {
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], b"").unwrap();
    let block = Bytes::from(block);
    let run = |topic: usize| PublishRun {
        topic: TopicName::try_from(format!("{number:x}/{topic:x}").as_str()).unwrap(),
        priority: Priority::DEFAULT,
        delay: Millis::ZERO,
        ttl: None,
        block: block.clone(),
    };
    let (namespace, runs) = (NamespaceName::default(), (0..PUBLISH_LOOKUPS_MAX).map(run).collect());
    Request::Publish(Publish { namespace, level: Level::Durable, producer: None, runs })
}
