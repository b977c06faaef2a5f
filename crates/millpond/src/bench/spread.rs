//! Publish frames for filling a broker: of many runs to as many topics, or of one run to a single topic.
//!
//! A frame is encoded once; what changes from one to the next (the runs' topics and the messages' numbers) has fixed
//! places and is written over. Neither names nor messages are stored anywhere: the message numbered n belongs to the
//! topic that [`Order`] gives to run n / (messages of a run), and a topic's name and a message's dedup id follow from
//! numbers. So a hundred million topics cost the generator no more memory than one.

use bytes::Bytes;
use millpond_protocol::{HEADER, Level, Publish, PublishRun, Request, encode_request};
use millpond_types::block::{self, MESSAGE_MIN};
use millpond_types::limits::FRAME_MAX;
use millpond_types::{Millis, NamespaceName, Priority, TopicName};

use super::order::Order;
use super::slots::STAMP;

/// The most tenants that a name has digits for, where it is not each topic's own.
pub const TENANTS_MAX: u32 = 99_999;
/// The most topics that a name has digits for.
pub const TOPICS_MAX: u32 = 999_999_999;
/// Bytes of a topic's name: a letter, the tenant's digits, a slash, the topic's digits. Where each topic is a tenant of its own, a
/// dash is in place of the slash.
const NAME: usize = 16;
/// Where the tenant's digits stand in a name.
const TENANT: std::ops::Range<usize> = 1..6;
/// Where the slash stands.
const SLASH: usize = TENANT.end;
/// Where the topic's digits stand in a name.
const TOPIC: std::ops::Range<usize> = 7..NAME;
/// Bytes of a dedup id: the digits of the message's number.
const DEDUP_ID: usize = 16;

/// What the frames hold.
#[derive(Clone)]
pub struct Spread {
    /// The namespace.
    pub namespace: NamespaceName,
    /// Topics that messages are spread over.
    pub topics: u32,
    /// Tenants that topics are spread over, each with as many that are next to one another: [`TENANTS_MAX`] at most, or as many as
    /// topics.
    pub tenants: u32,
    /// Which topic comes next.
    pub order: Order,
    /// Whether each message has a dedup id of its own.
    pub dedup: bool,
    /// Runs in a frame, each to the topic after the one before.
    pub runs: usize,
    /// Messages in a run.
    pub run: usize,
    /// Bytes of a body, at least [`STAMP`].
    pub size: usize,
    /// How long each message is delayed.
    pub delay: Millis,
}

/// A frame that is written over before each sending.
pub struct Frame {
    bytes: Vec<u8>,
    topics: u32,
    /// Topics of a tenant; `None` if each is one.
    each: Option<u32>,
    order: Order,
    /// Messages in a run.
    run: usize,
    /// Bytes of a run.
    length: usize,
    /// Where the first run begins.
    runs_at: usize,
    /// Where the topic's name stands in a run.
    name_at: usize,
    /// Where the first body stands in a run.
    body_at: usize,
    /// Whether a dedup id stands before each body.
    dedup: bool,
    /// Bytes of a message in its block.
    stride: usize,
}

impl Spread {
    /// Messages in a frame.
    pub fn batch(&self) -> usize {
        self.runs * self.run
    }

    /// The bytes of a frame; `None` if no broker takes one that large.
    pub fn frame_length(&self) -> Option<usize> {
        Some(self.frame().bytes.len()).filter(|length| *length <= FRAME_MAX)
    }

    /// Encodes the frame.
    pub fn frame(&self) -> Frame {
        assert!(self.size >= STAMP && self.runs > 0 && self.run > 0 && self.topics > 0 && self.tenants > 0);
        let (bytes, shorter) = (self.encode(self.runs + 1), self.encode(self.runs));
        // Runs are a publish's last field, and all are of one length.
        let length = bytes.len() - shorter.len();
        let runs_at = shorter.len() - self.runs * length;
        let name = topic_name(0);
        let run = &shorter[runs_at..][..length];
        let name_at = run.windows(NAME).position(|bytes| bytes == name).expect("a run holds its topic's name");
        // A dedup id has its length before it.
        let stride = MESSAGE_MIN + if self.dedup { 1 + DEDUP_ID } else { 0 } + self.size;
        // A block is a run's last field.
        let body_at = length - (self.run - 1) * stride - self.size;
        assert!(run[body_at..].starts_with(&vec![b'x'; self.size]), "a block stands at its run's end");
        let Spread { topics, order, run, dedup, .. } = *self;
        let each = (self.tenants == 1 || self.tenants < topics).then(|| topics.div_ceil(self.tenants));
        Frame { bytes: shorter, topics, each, order, run, length, runs_at, name_at, body_at, dedup, stride }
    }

    fn encode(&self, runs: usize) -> Vec<u8> {
        let mut messages = Vec::new();
        let body = vec![b'x'; self.size];
        let dedup_id = if self.dedup { &[b'0'; DEDUP_ID][..] } else { b"" };
        (0..self.run).for_each(|_| block::push(&mut messages, dedup_id, &[], &body).expect("bodies are below 4 GiB"));
        let run = PublishRun {
            topic: TopicName::new(Bytes::copy_from_slice(&topic_name(0))).expect("the name is valid"),
            priority: Priority::DEFAULT,
            delay: self.delay,
            ttl: None,
            block: Bytes::from(messages),
        };
        let publish =
            Publish { namespace: self.namespace.clone(), level: Level::Durable, producer: None, runs: vec![run; runs] };
        let mut frame = Vec::new();
        encode_request(&Request::Publish(publish), 0, &mut frame);
        frame
    }
}

impl Frame {
    /// Appends the frame whose messages are numbered from `first` and sent at `time`, under a correlation number.
    pub fn append(&mut self, correlation: u32, first: u64, time: u64, out: &mut Vec<u8>) {
        self.bytes[HEADER - 4..HEADER].copy_from_slice(&correlation.to_le_bytes());
        let mut number = first;
        for run in self.bytes[self.runs_at..].chunks_exact_mut(self.length) {
            let topic = self.order.topic(number / self.run as u64, self.topics);
            let name = &mut run[self.name_at..][..NAME];
            match self.each {
                Some(each) => write_digits(u64::from(topic / each), &mut name[TENANT]),
                None => name[SLASH] = b'-',
            }
            write_digits(u64::from(topic), &mut name[TOPIC]);
            for i in 0..self.run {
                let body_at = self.body_at + i * self.stride;
                let stamp = &mut run[body_at..][..STAMP];
                stamp[..STAMP - 8].copy_from_slice(&time.to_le_bytes());
                stamp[STAMP - 8..].copy_from_slice(&number.to_le_bytes());
                if self.dedup {
                    write_digits(number, &mut run[body_at - DEDUP_ID..body_at]);
                }
                number += 1;
            }
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Bytes of the frame.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }
}

/// How the names of these topics begin.
pub const TOPICS: &str = "t";

/// The name of a topic of the first tenant.
pub fn topic_name(topic: u32) -> [u8; NAME] {
    let mut name = *b"t00000/000000000";
    write_digits(u64::from(topic), &mut name[TOPIC]);
    name
}

fn write_digits(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::read_stamp;
    use super::*;
    use bytes::BytesMut;
    use millpond_protocol::{Decoder, VERSION};

    const TIME: u64 = 1 << 40;

    /// Per run the topic's name, and number and dedup id of each message.
    fn sent(spread: &Spread, first: u64) -> Vec<(String, Vec<(u64, String)>)> {
        let mut bytes = Vec::new();
        encode_request(&Request::Hello { version: VERSION, client: String::new() }, 0, &mut bytes);
        spread.frame().append(7, first, TIME, &mut bytes);
        let (mut buffer, mut decoder) = (BytesMut::from(&bytes[..]), Decoder::default());
        decoder.next_request(&mut buffer).unwrap().unwrap();
        let incoming = decoder.next_request(&mut buffer).unwrap().unwrap();
        assert_eq!(incoming.correlation, 7);
        let Request::Publish(publish) = incoming.frame else { panic!("{:?}", incoming.frame) };
        let message = |parts: block::Parts<'_>| {
            let id = String::from_utf8(parts.dedup_id.to_vec()).unwrap();
            let (time, number) = read_stamp(parts.body).unwrap();
            assert_eq!(time, TIME);
            (number, id)
        };
        let messages = |block: &[u8]| block::messages(block).map(|parts| message(parts.unwrap())).collect();
        publish.runs.iter().map(|run| (run.topic.as_str().to_owned(), messages(&run.block.bytes))).collect()
    }

    fn spread() -> Spread {
        Spread {
            namespace: NamespaceName::default(),
            topics: 1,
            tenants: 1,
            order: Order::Sequential,
            dedup: false,
            runs: 1,
            run: 1,
            size: 24,
            delay: Millis::ZERO,
        }
    }

    #[test]
    fn the_runs_of_a_frame_go_from_topic_to_topic() {
        let spread = Spread { topics: 12_345, tenants: 100, runs: 3, ..spread() };
        let expected = [("t00099/000012343", 12_343), ("t00099/000012344", 12_344), ("t00000/000000000", 12_345)];
        let expected: Vec<_> = expected.map(|(name, number)| (name.to_owned(), vec![(number, "".to_owned())])).into();
        assert_eq!(sent(&spread, 12_343), expected);
        let random = Spread { order: Order::Random, ..spread };
        let (name, messages) = sent(&random, 12_343).remove(1);
        let topic = Order::Random.topic(12_344, 12_345);
        assert_eq!((name, messages[0].0), (format!("t{:05}/{topic:09}", topic / 124), 12_344));
    }

    #[test]
    fn a_topic_that_is_a_tenant_has_a_name_without_a_slash() {
        let spread = Spread { topics: 1_000_000, tenants: 1_000_000, ..spread() };
        assert_eq!(sent(&spread, 123_456)[0].0, "t00000-000123456");
    }

    #[test]
    fn a_run_of_several_is_of_one_topic() {
        let spread = Spread { run: 2, size: 16, dedup: true, ..spread() };
        let messages = vec![(6, "0000000000000006".to_owned()), (7, "0000000000000007".to_owned())];
        assert_eq!(sent(&spread, 6), [("t00000/000000000".to_owned(), messages)]);
    }
}
