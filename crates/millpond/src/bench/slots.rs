//! Publish frames that were encoded once and are sent over and over.
//!
//! A producer has as many slots as frames may be unconfirmed. All frames lie one behind the other in one buffer, each
//! with its slot as correlation number, so that any run of free slots is one write without a copy. What changes from
//! one sending to the next (topic, time, number) has fixed places and is written over.

use bytes::Bytes;
use millpond_protocol::{HEADER, Level, Publish, PublishRun, Request, encode_request};
use millpond_types::block::{self, MESSAGE_MIN};
use millpond_types::{Millis, NamespaceName, Priority, TopicName};

/// Bytes at the front of a body that tell when it was sent and which message it is.
pub const STAMP: usize = 16;
/// Digits of a topic's number in its name.
const DIGITS: usize = 8;

/// What the frames of a producer hold.
#[derive(Clone)]
pub struct Shape {
    /// The namespace.
    pub namespace: NamespaceName,
    /// Topics that messages are spread over.
    pub topics: u32,
    /// Bytes of a body.
    pub size: usize,
    /// Messages in a frame.
    pub batch: usize,
    /// Messages unconfirmed at a time.
    pub window: usize,
    /// When they are confirmed.
    pub level: Level,
}

/// The frames of one producer.
pub struct Slots {
    bytes: Vec<u8>,
    frame: usize,
    batch: usize,
    /// Bytes of a message in its block.
    stride: usize,
    /// Where the topic's digits stand in a frame.
    topic_at: usize,
    /// Where the first body stands in a frame; `None` where bodies are too small for a stamp.
    body_at: Option<usize>,
}

impl Slots {
    /// Encodes the frames.
    pub fn new(shape: &Shape) -> Slots {
        let mut messages = Vec::new();
        let body = vec![b'x'; shape.size];
        (0..shape.batch).for_each(|_| block::push(&mut messages, b"", &[], &body).expect("bodies are below 4 GiB"));
        let topic = topic_name(0);
        let run = PublishRun {
            topic: TopicName::try_from(topic.as_str()).expect("the name is valid"),
            priority: Priority::DEFAULT,
            delay: Millis::ZERO,
            ttl: None,
            block: Bytes::from(messages),
        };
        let publish =
            Publish { namespace: shape.namespace.clone(), level: shape.level, producer: None, runs: vec![run] };
        let mut frame = Vec::new();
        encode_request(&Request::Publish(publish), 0, &mut frame);

        let stride = MESSAGE_MIN + shape.size;
        // The block is a publish's last field: its messages end where the frame does.
        let body_at = frame.len() - shape.batch * stride + MESSAGE_MIN;
        assert!(frame[body_at..].starts_with(&body), "a block stands at its frame's end");
        let name_at = frame.windows(topic.len()).position(|bytes| bytes == topic.as_bytes());
        let topic_at = name_at.expect("a publish holds its topic's name") + topic.len() - DIGITS;

        let count = (shape.window / shape.batch).max(1);
        let mut bytes = frame.repeat(count);
        for (slot, frame) in bytes.chunks_exact_mut(frame.len()).enumerate() {
            frame[HEADER - 4..HEADER].copy_from_slice(&(slot as u32).to_le_bytes());
        }
        let body_at = (shape.size >= STAMP).then_some(body_at);
        Slots { bytes, frame: frame.len(), batch: shape.batch, stride, topic_at, body_at }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.frame
    }

    /// Bytes of one frame.
    pub fn frame_length(&self) -> usize {
        self.frame
    }

    /// Makes a slot's frame the next one to be sent: for `topic`, at `time`, its messages numbered from `first`.
    pub fn stamp(&mut self, slot: usize, topic: u32, time: u64, first: u64) {
        let frame = &mut self.bytes[slot * self.frame..][..self.frame];
        let mut rest = topic;
        for digit in frame[self.topic_at..][..DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let Some(body_at) = self.body_at else { return };
        for i in 0..self.batch {
            let stamp = &mut frame[body_at + i * self.stride..][..STAMP];
            stamp[..8].copy_from_slice(&time.to_le_bytes());
            stamp[8..].copy_from_slice(&(first + i as u64).to_le_bytes());
        }
    }

    /// The frames of consecutive slots.
    pub fn frames(&self, first: usize, count: usize) -> &[u8] {
        &self.bytes[first * self.frame..][..count * self.frame]
    }
}

/// How the names of these topics begin.
pub const TOPICS: &str = "bench/";

/// The name of a topic of the load generator.
pub fn topic_name(number: u32) -> String {
    format!("{TOPICS}{number:0DIGITS$}")
}

/// When a body was sent and which message it is.
pub fn read_stamp(body: &[u8]) -> Option<(u64, u64)> {
    let (time, rest) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*time), u64::from_le_bytes(*rest.first_chunk::<8>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use millpond_protocol::{Decoder, Incoming, VERSION};

    #[test]
    fn a_stamped_frame_is_a_valid_publish() {
        let shape = Shape {
            namespace: NamespaceName::default(),
            topics: 10,
            size: 24,
            batch: 3,
            window: 6,
            level: Level::Durable,
        };
        let mut slots = Slots::new(&shape);
        assert_eq!(slots.count(), 2);
        slots.stamp(1, 1234, 7, 100);
        let mut bytes = Vec::new();
        encode_request(&Request::Hello { version: VERSION, client: String::new() }, 0, &mut bytes);
        bytes.extend_from_slice(slots.frames(1, 1));
        let mut buffer = BytesMut::from(&bytes[..]);
        let mut decoder = Decoder::default();
        decoder.next_request(&mut buffer).unwrap().unwrap();
        let Incoming { correlation, frame, .. } = decoder.next_request(&mut buffer).unwrap().unwrap();
        let Request::Publish(publish) = frame else { panic!("{frame:?}") };
        assert_eq!(correlation, 1);
        assert_eq!(publish.runs[0].topic.as_str(), topic_name(1234));
        let found = block::messages(&publish.runs[0].block.bytes).map(|m| read_stamp(m.unwrap().body).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), [(7, 100), (7, 101), (7, 102)]);
    }
}
