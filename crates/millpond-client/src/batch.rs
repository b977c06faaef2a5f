//! Messages put together for publishing: runs of equal topic and options, cut where one publish may hold no more.

use std::sync::Arc;

use bytes::Bytes;
use millpond_protocol::PublishRun;
use millpond_types::limits::{
    FRAME_MAX, PUBLISH_BYTES_MAX, PUBLISH_DEDUP_IDS_MAX, PUBLISH_MESSAGES_MAX, PUBLISH_RUNS_MAX,
};
use millpond_types::{Millis, Priority, TopicName, block};

use crate::error::{Error, Result};
use crate::message::Message;

/// What the envelope of a run takes on the wire at most, its topic's name apart.
const RUN_ENVELOPE: usize = 64;
/// What all envelopes of one publish may take: what a frame has beyond the blocks, less room for the frame's own fields.
const ENVELOPES_MAX: usize = FRAME_MAX - PUBLISH_BYTES_MAX - 4096;

/// Messages in the byte form that they are sent in. Cheap to clone, so it can be published many times.
///
/// Consecutive messages of one topic with equal priority, delay and TTL become one run, and a run of a thousand costs the
/// broker little more than one message: put messages of one topic next to each other.
///
/// A batch is published by one request, and all of its messages at once, unless it is over the limits of one (4 MiB,
/// 65,536 messages, 1,024 runs, 10,000 dedup ids): then it is published in parts, in order.
#[derive(Clone, Debug)]
pub struct Batch {
    parts: Arc<[Part]>,
    messages: usize,
}

/// What goes into one publish.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) runs: Vec<PublishRun>,
    pub(crate) messages: u32,
}

impl Batch {
    /// An empty batch to push messages to.
    pub fn builder() -> BatchBuilder {
        BatchBuilder::default()
    }

    /// Messages in the batch.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Whether it has none. Publishing an empty batch does nothing.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

impl TryFrom<Message> for Batch {
    type Error = Error;
    fn try_from(message: Message) -> Result<Batch> {
        let mut builder = Batch::builder();
        builder.push(&message)?;
        Ok(builder.build())
    }
}

impl TryFrom<Vec<Message>> for Batch {
    type Error = Error;
    fn try_from(messages: Vec<Message>) -> Result<Batch> {
        let mut builder = Batch::builder();
        messages.iter().try_for_each(|message| builder.push(message))?;
        Ok(builder.build())
    }
}

/// A batch in the making.
#[derive(Default, Debug)]
pub struct BatchBuilder {
    parts: Vec<Part>,
    /// The closed runs of the part that is being filled.
    runs: Vec<PublishRun>,
    open: Option<OpenRun>,
    /// Of the part that is being filled: messages, dedup ids, bytes of blocks, bytes of envelopes.
    messages: usize,
    ids: usize,
    bytes: usize,
    envelopes: usize,
}

#[derive(Debug)]
struct OpenRun {
    topic: TopicName,
    priority: Priority,
    delay: Millis,
    ttl: Option<Millis>,
    block: Vec<u8>,
}

impl OpenRun {
    fn takes(&self, message: &Message) -> bool {
        self.topic == message.to
            && self.priority == message.priority
            && self.delay == message.delay
            && self.ttl == message.ttl
    }
}

impl BatchBuilder {
    /// Adds a message. Refuses one that no publish could hold; the batch is as before then.
    pub fn push(&mut self, message: &Message) -> Result<()> {
        let size = size_in_block(message);
        if size > PUBLISH_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "a message for {} has {size} bytes, and a publish holds {PUBLISH_BYTES_MAX}: keep large bodies elsewhere \
                 and publish where they are",
                message.to
            )));
        }
        let envelope = RUN_ENVELOPE + message.to.as_bytes().len();
        let id = usize::from(!message.dedup_id.is_empty());
        let run = usize::from(!self.open.as_ref().is_some_and(|open| open.takes(message)));
        let runs = self.runs.len() + usize::from(self.open.is_some()) + run;
        let is_over = self.messages == PUBLISH_MESSAGES_MAX
            || self.bytes + size > PUBLISH_BYTES_MAX
            || self.envelopes + run * envelope > ENVELOPES_MAX
            || runs > PUBLISH_RUNS_MAX
            || self.ids + id > PUBLISH_DEDUP_IDS_MAX;
        if is_over {
            self.close_part();
        }
        if !self.open.as_ref().is_some_and(|open| open.takes(message)) {
            self.close_run();
            self.envelopes += envelope;
            self.open = Some(OpenRun {
                topic: message.to.clone(),
                priority: message.priority,
                delay: message.delay,
                ttl: message.ttl,
                block: Vec::new(),
            });
        }
        let open = self.open.as_mut().expect("a run was opened above");
        let pushed = if message.headers.is_empty() {
            block::push(&mut open.block, &message.dedup_id, &[], &message.body)
        } else {
            let headers: Vec<(&[u8], &[u8])> = message.headers.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            block::push(&mut open.block, &message.dedup_id, &headers, &message.body)
        };
        pushed.map_err(|large| Error::Invalid(format!("a message for {} is refused: {large}", message.to)))?;
        self.messages += 1;
        self.ids += id;
        self.bytes += size;
        Ok(())
    }

    /// The batch.
    pub fn build(mut self) -> Batch {
        self.close_part();
        let messages = self.parts.iter().map(|part| part.messages as usize).sum();
        Batch { parts: self.parts.into(), messages }
    }

    fn close_part(&mut self) {
        self.close_run();
        if self.messages > 0 {
            let runs = std::mem::take(&mut self.runs);
            self.parts.push(Part { runs, messages: self.messages as u32 });
        }
        (self.messages, self.ids, self.bytes, self.envelopes) = (0, 0, 0, 0);
    }

    fn close_run(&mut self) {
        // A run is opened before its first message is found to be too large: then it is empty, and nothing of it is kept.
        if let Some(open) = self.open.take().filter(|open| !open.block.is_empty()) {
            self.runs.push(PublishRun {
                topic: open.topic,
                priority: open.priority,
                delay: open.delay,
                ttl: open.ttl,
                block: Bytes::from(open.block),
            });
        }
    }
}

fn size_in_block(message: &Message) -> usize {
    let dedup_id = if message.dedup_id.is_empty() { 0 } else { 1 + message.dedup_id.len() };
    let headers: usize = message.headers.iter().map(|(key, value)| 3 + key.len() + value.len()).sum();
    let headers = if message.headers.is_empty() { 0 } else { 2 + headers };
    block::MESSAGE_MIN + dedup_id + headers + message.body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(topic: &str, body: &str) -> Message {
        Message::new(topic.try_into().unwrap(), body.to_owned())
    }

    #[test]
    fn neighbours_of_equal_topic_and_options_are_one_run() {
        let high = message("a", "3").priority(Priority::HIGHEST);
        let messages = vec![message("a", "1"), message("a", "2"), high, message("b", "4"), message("a", "5")];
        let batch = Batch::try_from(messages).unwrap();
        assert_eq!((batch.len(), batch.parts().len()), (5, 1));
        let runs: Vec<_> = batch.parts()[0]
            .runs
            .iter()
            .map(|run| (run.topic.as_str(), run.priority.level(), block::messages(&run.block).count()))
            .collect();
        assert_eq!(runs, [("a", 4, 2), ("a", 9, 1), ("b", 4, 1), ("a", 4, 1)]);
    }

    #[test]
    fn a_batch_over_the_limits_is_cut() {
        let half = "x".repeat(PUBLISH_BYTES_MAX / 2 - 64);
        let batch = Batch::try_from(vec![message("a", &half); 5]).unwrap();
        assert_eq!(batch.parts().iter().map(|part| part.messages).collect::<Vec<_>>(), [2, 2, 1]);

        let mut builder = Batch::builder();
        for _ in 0..=PUBLISH_MESSAGES_MAX {
            builder.push(&message("a", "")).unwrap();
        }
        assert_eq!(builder.build().parts().len(), 2);

        let lengths = |messages: Vec<Message>| {
            let batch = Batch::try_from(messages).unwrap();
            batch.parts().iter().map(|part| part.messages as usize).collect::<Vec<_>>()
        };
        let in_turns = (0..=2 * PUBLISH_RUNS_MAX).map(|at| message(["a", "b"][at % 2], "")).collect();
        assert_eq!(lengths(in_turns), [PUBLISH_RUNS_MAX, PUBLISH_RUNS_MAX, 1]);
        let with_ids = vec![message("a", "").dedup_id("id"); PUBLISH_DEDUP_IDS_MAX + 1];
        assert_eq!(lengths(with_ids), [PUBLISH_DEDUP_IDS_MAX, 1]);

        // Many long topics: their names alone are more than a frame holds.
        let mut builder = Batch::builder();
        for i in 0..5_000 {
            builder.push(&message(&format!("{i:0512}"), "")).unwrap();
        }
        let batch = builder.build();
        assert!(batch.parts().len() > 1 && batch.len() == 5_000);
    }

    #[test]
    fn what_no_publish_holds_is_refused_and_leaves_the_batch_as_it_was() {
        let mut builder = Batch::builder();
        builder.push(&message("a", "1")).unwrap();
        builder.push(&message("a", &"x".repeat(PUBLISH_BYTES_MAX))).unwrap_err();
        builder.push(&message("b", "2").dedup_id(vec![b'x'; 256])).unwrap_err();
        builder.push(&message("a", "3")).unwrap();
        let batch = builder.build();
        assert_eq!((batch.len(), batch.parts()[0].runs.len()), (2, 2));
    }

    #[test]
    fn the_size_in_a_block_is_computed_as_it_is_written() {
        for message in [message("a", "body"), message("a", "").dedup_id("id").header("k", "v").header("", "")] {
            let batch = Batch::try_from(message.clone()).unwrap();
            assert_eq!(batch.parts()[0].runs[0].block.len(), size_in_block(&message));
        }
    }
}
