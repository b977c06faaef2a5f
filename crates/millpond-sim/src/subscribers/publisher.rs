//! Publishes to topics and to exchanges, alone and in batches of a session, which are repeated until they are answered and
//! now and then once more.

use bytes::Bytes;
use millpond_core::command::{Command, DedupMark, Level, ProducerBatch, Publish, PublishRun, Route, Routed};
use millpond_core::dedup_hash;
use millpond_types::{Millis, Priority, ProducerId, TopicName};

use super::{EXCHANGES, Edge, KEYS, Of, exchange, home, key};
use crate::bodies::{Draft, TAG, block_of, tags_of};
use crate::clients::{Asked, Request};
use crate::plan::Plan;
use crate::streams::Stream;

/// Tags of what is published here begin here.
const TAGS: u64 = 1 << 56;
/// The producer.
const PRODUCER: ProducerId = ProducerId(1 << 100);
/// Batches that are remembered, to be repeated.
const KEPT: usize = 4;

/// See the module.
pub struct Publisher {
    hash_key: [u64; 2],
    next_tag: u64,
    instance: u32,
    /// The last batch that was begun.
    last: u64,
    /// The last batches, the latest at the end.
    batches: Vec<(u64, Command)>,
    /// One of the instance before, which comes late.
    late: Option<Command>,
    /// Whether the last one has no answer yet, and whether it is on its way.
    unanswered: bool,
    is_sent: bool,
}

impl Publisher {
    pub(super) fn new(plan: &Plan) -> Publisher {
        Publisher {
            hash_key: plan.options.identity.hash_key,
            next_tag: TAGS,
            instance: 1,
            last: 0,
            batches: Vec::new(),
            late: None,
            unanswered: false,
            is_sent: false,
        }
    }

    /// Publishes something, by itself or with the help of an edge that resolves what is routed.
    pub(super) fn act(&mut self, topics: &[TopicName], edge: Option<&Edge>, load: &mut Stream) -> Option<Request> {
        if load.one_in(2) {
            let command = self.draw(None, topics, edge, load);
            return Some(request(command, None));
        }
        if self.unanswered && !self.is_sent {
            return self.again(self.last);
        }
        if !self.batches.is_empty() && load.one_in(3) {
            let (batch, _) = load.pick(&self.batches);
            return self.again(*batch);
        }
        if self.unanswered {
            return None;
        }
        if self.late.is_some() && load.one_in(3) {
            let command = self.late.take()?;
            return Some(request(command, None));
        }
        if load.one_in(10) {
            (self.instance, self.last) = (self.instance + 1, 0);
            self.late = self.batches.drain(..).next_back().map(|(_, command)| command);
        }
        self.last += 1;
        let batch = ProducerBatch { id: PRODUCER, instance: self.instance, sequence: self.last };
        let command = self.draw(Some(batch), topics, edge, load);
        if self.batches.len() == KEPT {
            self.batches.remove(0);
        }
        self.batches.push((self.last, command));
        self.unanswered = true;
        self.again(self.last)
    }

    /// Repeats what has no answer.
    pub(super) fn finish(&mut self) -> Option<Request> {
        if self.unanswered && !self.is_sent { self.again(self.last) } else { None }
    }

    pub(super) fn answered(&mut self, batch: u64) {
        if batch == self.last {
            self.unanswered = false;
        }
    }

    pub(super) fn connection_lost(&mut self) {
        self.is_sent = false;
    }

    fn again(&mut self, batch: u64) -> Option<Request> {
        let (_, command) = self.batches.iter().find(|(of, _)| *of == batch)?;
        self.is_sent |= batch == self.last;
        Some(request(command.clone(), Some(batch)))
    }

    fn draw(
        &mut self,
        producer: Option<ProducerBatch>,
        topics: &[TopicName],
        edge: Option<&Edge>,
        load: &mut Stream,
    ) -> Command {
        let priority = Priority::new(*load.pick(&[0, 3, 4, 4, 4, 4, 5, 9])).expect("0 to 9");
        let delay = if load.one_in(8) { Millis(load.between(1, 5000)) } else { Millis::ZERO };
        let ttl = if load.one_in(6) { Some(Millis(load.below(2) * load.between(1, 20_000))) } else { None };
        let (namespace, level) = (home(), Level::Durable);
        if load.one_in(2) {
            let dedup_id = if load.one_in(6) { vec![b'r', load.below(4) as u8] } else { Vec::new() };
            let (block, _) = block_of(&[self.draft(dedup_id, load)]);
            let (name, ..) = *load.pick(&EXCHANGES);
            let at = (exchange(name), key(load.word(&KEYS)));
            let message = Routed { priority, delay, ttl, block, too_large: None };
            let mut route = Route::new(namespace, at, message, producer, level);
            if let Some(known) = edge.and_then(|edge| edge.exchange(&route.exchange)) {
                known.resolve(&mut route, self.hash_key);
            }
            return Command::Route(route);
        }
        let mut runs = Vec::new();
        for _ in 0..load.between(1, 2) {
            let topic = load.pick(topics).clone();
            let drafts: Vec<Draft> = (0..load.between(1, 4))
                .map(|_| {
                    let id = if load.one_in(5) { vec![b's', load.below(6) as u8] } else { Vec::new() };
                    self.draft(id, load)
                })
                .collect();
            let ids = (0..).zip(&drafts).filter(|(_, draft)| !draft.dedup_id.is_empty());
            let mark = |(index, draft): (u32, &Draft)| DedupMark {
                index,
                hash: dedup_hash(self.hash_key, &namespace, &topic, &draft.dedup_id),
            };
            let dedup = ids.map(mark).collect();
            let (block, sizes) = block_of(&drafts);
            let (count, too_large) = (drafts.len() as u32, Vec::new());
            runs.push(PublishRun { topic, priority, delay, ttl, count, block, sizes, dedup, too_large });
        }
        Command::Publish(Publish { namespace, producer, level, runs })
    }

    fn draft(&mut self, dedup_id: Vec<u8>, load: &mut Stream) -> Draft {
        self.next_tag += 1;
        Draft { tag: self.next_tag, size: TAG + load.below(60) as usize, dedup_id }
    }
}

fn request(command: Command, batch: Option<u64>) -> Request {
    let (blocks, is_routed): (Vec<&Bytes>, bool) = match &command {
        Command::Publish(publish) => (publish.runs.iter().map(|run| &run.block).collect(), false),
        Command::Route(route) => (vec![&route.message.block], true),
        other => unreachable!("{other:?} is no publish"),
    };
    let tags = blocks.into_iter().flat_map(|block| tags_of(block).into_iter().flatten().flatten()).collect();
    Request { command, asked: Asked::Subscriber(Of::Publish { batch, tags, is_routed }) }
}
