//! The load: namespaces with the policies that make their topics behave differently, and messages that say themselves what
//! they have to be.

use bytes::Bytes;
use millpond_client::{Delivery, Message, TopicName};

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

/// Topics of [`WORK`] whose messages come one at a time, in their order.
pub const STRICT: &str = "strict/";
/// So many topics that most are on the disk, and that checkpoints are made.
const MANY: u64 = 200_000;
/// Bodies of this size fill segments of the journal.
const LARGE: u64 = 60_000;

/// Every group, each of which has all messages of its namespace.
pub const GROUPS: [(&str, &str); 6] =
    [(WORK, "default"), (WORK, AUDIT), (OUT, "default"), (OUT, LEAD), ("first", "default"), ("latest", "default")];

pub fn set_up(broker: &Broker) {
    let retry = ["--lease", "2s", "--retry", "backoff:1ms..20ms"];
    let create = |name: &str, more: &[&str]| {
        broker.ok(&[&["namespace", "create", name], &retry[..], more].concat());
    };
    create(WORK, &["--max-failures", "2", "--rule", "strict/* max-in-flight=1,retry=head", "--rule", "t/1* weight=5"]);
    create(OUT, &["--max-failures", "1000"]);
    create("first", &["--max-failures", "1000", "--coalesce", "keep-first"]);
    create("latest", &["--max-failures", "1000", "--coalesce", "keep-latest"]);
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
    if random.one_in(20) { message.delay(std::time::Duration::from_millis(random.below(500))) } else { message }
}

/// What becomes of a message of [`WORK`].
pub fn output(of: &Delivery) -> Message {
    message(&format!("o/{}", of.id.sequence.0 % 16), &format!("out-{}", of.id), 20)
}

/// A message for a topic of one of [`COALESCING`].
pub fn trigger(random: &mut Random, tag: &str) -> Message {
    message(&format!("c/{}", random.below(30)), tag, 10)
}

/// Its body is its tag, its topic, how many bytes follow, and these.
fn message(topic: &str, tag: &str, size: u64) -> Message {
    let mut body = format!("{tag} {topic} {size} ").into_bytes();
    body.extend(filling(tag, size));
    Message::new(TopicName::try_from(topic).expect("a valid name"), Bytes::from(body))
}

fn filling(tag: &str, size: u64) -> impl Iterator<Item = u8> + '_ {
    tag.bytes().cycle().take(size as usize)
}

/// The tag of a message, which has to be as it was made.
pub fn tag(delivery: &Delivery) -> &str {
    let mut parts = delivery.body.splitn(4, |byte| *byte == b' ');
    let mut word = || parts.next().and_then(|word| std::str::from_utf8(word).ok()).expect("the body is of ours");
    let (tag, topic, size) = (word(), word(), word().parse().expect("a number of bytes"));
    assert_eq!(topic, delivery.topic.as_str(), "the message came in another topic than it was published to");
    let rest = parts.next().expect("the body is of ours");
    assert!(rest.iter().copied().eq(filling(tag, size)), "the body of {tag} is not the one that was published");
    tag
}
