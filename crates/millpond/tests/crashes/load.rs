//! The load: namespaces with the policies that make their topics behave differently, and messages that say themselves what
//! they have to be.

use std::time::Duration;

use bytes::Bytes;
use millpond_client::{Delivery, Message, Routed, TopicName};

use crate::broker::Broker;
use crate::random::Random;

/// Priorities, back-off, dead letters, topics in strict order, and very many topics; a second group has all of it too.
pub const WORK: &str = "work";
/// What comes of [`WORK`] by forwarding; an exclusive group has it too.
pub const OUT: &str = "out";
/// One message that waits stands for the others of its topic.
pub const COALESCING: [&str; 2] = ["first", "latest"];
pub const AUDIT: &str = "audit";
pub const LEAD: &str = "lead";
/// Delayed messages that are called off, purged or put to another time, copies of exchanges, messages that expire, and dead
/// letters that go back to work in one group. Another group takes all of it, one nothing before the end, and one is made midway.
pub const MIXED: &str = "mixed";
pub const SHELF: &str = "shelf";
pub const LATE: &str = "late";
/// Where a message is dropped of which the copies lie in several topics.
pub const EXCHANGE: &str = "fan";
/// A bucket of tokens, always with something that waits for it.
pub const RATED: &str = "rated";
pub const RATE_PER_SECOND: u64 = 5;
pub const RATE_BURST: u64 = 20;
/// Of what nobody takes before the end so many messages are kept, the newest.
pub const KEPT: &str = "kept";
pub const KEEP: usize = 100;

/// Topics of [`WORK`] whose messages come one at a time, in their order.
pub const STRICT: &str = "strict/";
/// So many topics that most are on the disk, and that checkpoints are made.
const MANY: u64 = 200_000;
/// Bodies of this size fill segments of the journal.
const LARGE: u64 = 60_000;

/// Every group, each of which has all messages of its namespace.
pub const GROUPS: [(&str, &str); 12] = [
    (WORK, "default"),
    (WORK, AUDIT),
    (OUT, "default"),
    (OUT, LEAD),
    ("first", "default"),
    ("latest", "default"),
    (MIXED, "default"),
    (MIXED, AUDIT),
    (MIXED, SHELF),
    (MIXED, LATE),
    (RATED, "default"),
    (KEPT, "default"),
];

pub fn set_up(broker: &Broker) {
    let retry = ["--lease", "2s", "--retry", "backoff:1ms..20ms"];
    let create = |name: &str, more: &[&str]| {
        broker.ok(&[&["namespace", "create", name], &retry[..], more].concat());
    };
    create(WORK, &["--max-failures", "2", "--rule", "strict/* max-in-flight=1,retry=head", "--rule", "t/1* weight=5"]);
    create(OUT, &["--max-failures", "1000"]);
    create("first", &["--max-failures", "1000", "--coalesce", "keep-first"]);
    create("latest", &["--max-failures", "1000", "--coalesce", "keep-latest"]);
    create(MIXED, &["--max-failures", "1000", "--on-expiry", "dead"]);
    create(RATED, &["--max-failures", "1000", "--rate", &format!("{RATE_PER_SECOND}/s:{RATE_BURST}")]);
    create(KEPT, &["--max-failures", "1000", "--retention-count", &KEEP.to_string()]);
    broker.ok(&["group", "create", MIXED, AUDIT]);
    broker.ok(&["group", "create", MIXED, SHELF]);
    broker.ok(&["exchange", "create", MIXED, EXCHANGE, "--kind", "topic"]);
    for (topic, key) in [("fan/all", "#"), ("fan/x", "*.x"), ("fan/{key}", "a.*")] {
        broker.ok(&["exchange", "bind", MIXED, EXCHANGE, topic, "--key", key]);
    }
    broker.ok(&["group", "create", WORK, AUDIT]);
    broker.ok(&["group", "create", OUT, LEAD, "--exclusive", "--term", "1s", "--handover", "1s"]);
}

/// A message for [`WORK`].
pub fn work(random: &mut Random, tag: &str) -> Message {
    let topic = match random.below(10) {
        0..3 => format!("{STRICT}{}", random.below(8)),
        3..7 => format!("t/{}", random.below(40)),
        _ => format!("many/{}", random.below(MANY)),
    };
    let size = if random.one_in(100) { random.below(LARGE) } else { random.below(200) };
    let message = message(&topic, tag, size);
    if topic.starts_with(STRICT) {
        return message;
    }
    let message = match random.below(6) {
        0 => message.priority(millpond_client::Priority::HIGHEST),
        1 => message.priority(millpond_client::Priority::LOWEST),
        _ => message,
    };
    if random.one_in(20) { message.delay(Duration::from_millis(random.below(500))) } else { message }
}

/// What becomes of a message of [`WORK`].
pub fn output(of: &Delivery) -> Message {
    message(&format!("o/{}", of.id.sequence.0 % 16), &format!("out-{}", of.id), 20)
}

/// A message for a topic of one of [`COALESCING`].
pub fn trigger(random: &mut Random, tag: &str) -> Message {
    message(&format!("c/{}", random.below(30)), tag, 10)
}

/// A message for [`EXCHANGE`], and the topics that it leads to. Each copy has a tag of its own.
pub fn routed(random: &mut Random, tag: &str) -> (Routed, Vec<String>) {
    let key = ["a.x", "a.y", "b.x", "b.y"][random.below(4) as usize];
    let mut topics = vec!["fan/all".to_owned(), "fan/x".to_owned(), format!("fan/{key}")];
    topics.retain(|topic| match topic.as_str() {
        "fan/all" => true,
        "fan/x" => key.ends_with(".x"),
        _ => key.starts_with("a."),
    });
    topics.sort();
    let exchange = EXCHANGE.try_into().expect("a valid name");
    (Message::routed(exchange, key.try_into().expect("a valid key"), body(ANY, tag, 100)), topics)
}

/// The tag of a copy.
pub fn copy(tag: &str, topic: &str) -> String {
    format!("{tag}{ANY}{topic}")
}

/// What a copy says instead of its topic.
const ANY: &str = "@";

pub fn message(topic: &str, tag: &str, size: u64) -> Message {
    Message::new(TopicName::try_from(topic).expect("a valid name"), body(topic, tag, size))
}

/// A body is the tag, the topic, how many bytes follow, and these.
fn body(topic: &str, tag: &str, size: u64) -> Bytes {
    let mut body = format!("{tag} {topic} {size} ").into_bytes();
    body.extend(filling(tag, size));
    body.into()
}

fn filling(tag: &str, size: u64) -> impl Iterator<Item = u8> + '_ {
    tag.bytes().cycle().take(size as usize)
}

/// The tag of a message, which has to be as it was made.
pub fn tag(topic: &str, body: &[u8]) -> String {
    let mut parts = body.splitn(4, |byte| *byte == b' ');
    let mut word = || parts.next().and_then(|word| std::str::from_utf8(word).ok()).expect("the body is of ours");
    let (tag, to, size) = (word(), word(), word().parse().expect("a number of bytes"));
    assert!(to == topic || to == ANY, "the message came in {topic}, and was published to {to}");
    let rest = parts.next().expect("the body is of ours");
    assert!(rest.iter().copied().eq(filling(tag, size)), "the body of {tag} is not the one that was published");
    if to == ANY { copy(tag, topic) } else { tag.to_owned() }
}
