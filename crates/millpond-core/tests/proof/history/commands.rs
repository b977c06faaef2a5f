//! The commands of a history's operations, and what these may refer to.

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::dedup_hash;
use millpond_types::{
    Coalesce, DedupWindow, Dispatch, Filter, GroupKind, GroupName, MessageId, Millis, NamespaceName, OnExpiry,
    Overflow, Overrides, Pattern, PausedTopics, Policy, Priority, ProducerId, Quotas, Rate, Receipt, Retention, Retry,
    Rule, Rules, SessionId, Start, TopicName, WallTime, block,
};

use super::{GROUPS, Op, TOPICS};
use crate::journal::sizes_of;
use crate::shell::{HASH_KEY, WALL_START};

/// A time at which groups start: a history begins a little earlier.
const MIDWAY: WallTime = WallTime(WALL_START + 62_000);

/// What an operation may refer to.
#[derive(Default)]
pub struct Known {
    /// With the topics that they were stored in.
    pub ids: Vec<(TopicName, MessageId)>,
    pub receipts: Vec<Receipt>,
    pub receives: Vec<Ticket>,
    /// The last batch of each producer.
    batches: [u64; 3],
    /// What can be moved, or could once.
    pub moves: Vec<Command>,
    /// For bodies that are never the same.
    published: u32,
}

impl Op {
    /// The command of an operation; `None` for one that is none, or that refers to what is not there yet.
    pub fn command(&self, known: &mut Known, weight: u32) -> Option<Command> {
        let namespace = NamespaceName::default();
        let group = |at: usize| GroupName::try_from(GROUPS[at]).unwrap();
        let topic = |topic: usize| TopicRef { namespace: NamespaceName::default(), name: name(TOPICS[topic]) };
        let some = |indexes: &[usize], known: &Known| -> Vec<Receipt> {
            indexes.iter().filter_map(|index| pick(&known.receipts, *index)).collect()
        };
        Some(match self {
            Op::Publish { topic, priority, count, delay, ttl, dedup } => {
                let run = publish_run(known, TOPICS[*topic], *count, *dedup);
                let priority = Priority::new(*priority).unwrap();
                let runs = vec![PublishRun { priority, delay: Millis(*delay), ttl: ttl.map(Millis), ..run }];
                let producer = known.next_batch(*topic);
                Command::Publish(Publish { namespace, producer: Some(producer), level: Level::Durable, runs })
            }
            Op::Receive { group: at, filter, messages, bytes, lease, wait, at_most_once } => {
                Command::Receive(Receive {
                    namespace,
                    group: group(*at),
                    filter: self::filter(*filter),
                    messages: *messages,
                    bytes: *bytes,
                    lease: lease.map(Millis),
                    wait: Millis(*wait),
                    at_most_once: *at_most_once,
                    request: None,
                    call: 0,
                })
            }
            Op::Withdraw(index) => Command::Withdraw(pick(&known.receives, *index)?),
            Op::Finish { verb, receipts, delay } => {
                let runs = receipts.iter().filter_map(|(index, count)| {
                    Some(ReceiptRun { first: pick(&known.receipts, *index)?, count: *count })
                });
                let receipts: Vec<_> = runs.collect();
                let verb = match verb {
                    0..=2 => FinishVerb::Ack,
                    3 => FinishVerb::Release { delay: Millis(*delay) },
                    4 => {
                        let delay = (*delay % 3 == 0).then_some(Millis(*delay));
                        FinishVerb::Fail { delay, reason: Bytes::new() }
                    }
                    5 => FinishVerb::Reject { reason: Bytes::new() },
                    _ => FinishVerb::Extend { lease: (*delay >= 500).then_some(Millis(*delay)) },
                };
                Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }).not_empty()?
            }
            Op::Forward { receipts, topic, count, dedup } => {
                let mut receipts = some(receipts, known);
                receipts.sort_unstable();
                receipts.dedup();
                if receipts.is_empty() {
                    return None;
                }
                let receipts = receipts.into_iter().map(|first| ReceiptRun { first, count: 1 }).collect();
                let runs = vec![publish_run(known, TOPICS[*topic], *count, *dedup)];
                let publish = Publish { namespace, producer: None, level: Level::Durable, runs };
                Command::Forward(Forward { receipts, publish })
            }
            Op::Begin { session, held } => {
                let held = some(held, known).into_iter().map(|first| ReceiptRun { first, count: 2 }).collect();
                Command::SessionBegin(SessionBegin { session: SessionId(*session), resume: Millis(1000), held })
            }
            Op::Lose(session) => Command::SessionLost(SessionId(*session)),
            Op::End(session) => Command::SessionEnd(SessionId(*session)),
            Op::Heartbeat { session, except } => {
                Command::Heartbeat { session: SessionId(*session), except: some(except, known) }
            }
            Op::Attach { session, consumer, group: at, filter, messages, bytes, at_most_once } => {
                Command::Attach(Attach {
                    session: SessionId(*session),
                    consumer: *consumer,
                    namespace,
                    group: group(*at),
                    filter: self::filter(*filter),
                    messages: *messages,
                    bytes: *bytes,
                    lease: None,
                    at_most_once: *at_most_once,
                })
            }
            Op::Credit { session, consumer, messages, bytes } => Command::Credit {
                session: SessionId(*session),
                consumer: *consumer,
                messages: *messages,
                bytes: *bytes,
            },
            Op::Detach { session, consumer } => Command::Detach { session: SessionId(*session), consumer: *consumer },
            Op::Cancel { topic: at, dedup: Some(dedup), .. } => {
                Command::Cancel { topic: topic(*at), which: Which::Dedup(hash(TOPICS[*at], *dedup)) }
            }
            Op::Cancel { message, .. } => {
                let (name, id) = pick(&known.ids, *message)?;
                Command::Cancel { topic: TopicRef { namespace, name }, which: Which::Id(id) }
            }
            Op::Reschedule { message, delay } => {
                let (name, id) = pick(&known.ids, *message)?;
                let (topic, delay) = (TopicRef { namespace, name }, Millis(*delay));
                Command::Reschedule { topic, which: Which::Id(id), delay }
            }
            Op::Pause { name, stop, lasts } => {
                let topics = match TOPICS.get(*name) {
                    Some(topic) => PausedTopics::from(&self::name(topic)),
                    None => match ["a", "b/"].get(*name - TOPICS.len()) {
                        Some(prefix) => PausedTopics::prefix(&self::name(prefix)),
                        None => PausedTopics::all(),
                    },
                };
                match stop {
                    true => Command::Pause { namespace, topics, lasts: lasts.map(Millis) },
                    false => Command::Resume { namespace, topics },
                }
            }
            Op::Forget { topic: at, dedup } => {
                Command::Forget { topic: topic(*at), dedup_hash: hash(TOPICS[*at], *dedup) }
            }
            Op::Purge { filter, group: at } => {
                Command::Purge { namespace, filter: self::filter(*filter), group: at.map(group) }
            }
            Op::Redrive { filter, group: at, first } => {
                let which = dead_which(*filter, *first);
                Command::DeadRedrive { namespace, group: group(*at), which }
            }
            Op::DeadPurge { filter, group: at, first } => {
                let which = dead_which(*filter, *first);
                Command::DeadPurge { namespace, group: group(*at), which }
            }
            Op::GroupCreate { group: at, start } => {
                let start = [Start::Latest, Start::Earliest, Start::At(MIDWAY)][*start];
                Command::GroupCreate { namespace, name: group(*at), start, kind: GroupKind::Shared }
            }
            Op::GroupDelete(at) => Command::GroupDelete { namespace, name: group(*at) },
            Op::Policy(at) => set_policy(*at, weight),
            Op::Move(at) => pick(&known.moves, *at)?,
            Op::Pass { .. } | Op::Wake | Op::Restart { .. } | Op::Checkpoint => return None,
        })
    }
}

impl Known {
    /// The next batch of one of three producers.
    pub fn next_batch(&mut self, of: usize) -> ProducerBatch {
        let producer = of % self.batches.len();
        self.batches[producer] += 1;
        ProducerBatch { id: ProducerId(producer as u128), instance: 1, sequence: self.batches[producer] }
    }
}

/// Some messages for a topic, the first of them with the dedup id.
pub fn publish_run(known: &mut Known, topic: &str, count: u32, dedup: Option<u8>) -> PublishRun {
    let mut bytes = Vec::new();
    for index in 0..count {
        known.published += 1;
        let id = dedup.filter(|_| index == 0).map(|id| vec![id]).unwrap_or_default();
        block::push(&mut bytes, &id, &[], format!("m{}", known.published).as_bytes()).unwrap();
    }
    let dedup = dedup.map(|id| DedupMark { index: 0, hash: hash(topic, id) }).into_iter().collect();
    let (sizes, block) = (sizes_of(&bytes), bytes.into());
    let (topic, priority, delay, ttl) = (name(topic), Priority::DEFAULT, Millis::ZERO, None);
    PublishRun { topic, priority, delay, ttl, count, block, sizes, dedup, too_large: Vec::new() }
}

pub const FILTERS: usize = 6;

fn dead_which(at: usize, first: Option<u32>) -> DeadWhich {
    match first {
        Some(count) => DeadWhich::First(filter(at), count),
        None => DeadWhich::Filter(filter(at)),
    }
}

fn filter(at: usize) -> Filter {
    let names = |names: &[&str]| names.iter().map(|text| name(text)).collect();
    match at {
        0 | 1 => Filter::All,
        2 => Filter::Topics(names(&["a/1", "b/1"])),
        3 => Filter::Topics(names(&["a/2", "c", "nowhere"])),
        4 => Filter::Prefixes(names(&["a/", "c"])),
        _ => Filter::Prefixes(names(&["b"])),
    }
}

/// Without rules.
const BASE: usize = 16;
pub const POLICIES: usize = BASE + 4;

/// Gives the namespace one of some policies, whose rules turn to others of them.
pub fn set_policy(at: usize, weight: u32) -> Command {
    let rule = |pattern: &str, of: usize| {
        let overrides = Overrides::from(&policy(of, weight));
        let (is_prefix, name) = (pattern.ends_with('*'), name(pattern.trim_end_matches('*')));
        Rule { pattern: Pattern { is_prefix, name }, overrides }
    };
    let rules = match at.checked_sub(BASE) {
        None => Vec::new(),
        Some(0) => vec![rule("a/*", 2), rule("a/2", 3), rule("c", 14)],
        Some(1) => vec![rule("a*", 4), rule("a/1", 2), rule("b/*", 1)],
        Some(2) => vec![rule("a/1", 6), rule("b*", 7), rule("c", 8), rule("a/2", 10)],
        Some(_) => vec![rule("a/1", 3), rule("c*", 5)],
    };
    let rules = Rules::new(rules).expect("rules that are rules");
    let dispatch = if at % 3 == 2 { Dispatch::Fair } else { Dispatch::Priority };
    let ageing = (weight == 3).then(|| [Some(Millis(1000)), None, Some(Millis(3000))][at % 3]).flatten();
    let (old, many) = ((at % 4 == 1).then_some(Millis(10_000)), (at % 5 == 1).then_some(3));
    let retention = Retention { age: old, count: many };
    let policy = Policy { dispatch, ageing, retention, ..policy(at % BASE, weight) };
    Command::NamespaceSet { name: NamespaceName::default(), policy, rules, based_on: None }
}

/// Policies whose back-off has no jitter. `weight` is one for a whole history: turns are counted in it.
fn policy(at: usize, weight: u32) -> Policy {
    let of = Policy { weight, retry: Retry::Head, max_failures: 2, lease: Millis(2000), ..Policy::default() };
    let backoff = Retry::Backoff { first: Millis(1), longest: Millis(2) };
    let none = Quotas::default();
    match at {
        0 => of,
        1 => Policy { retry: Retry::Tail, dedup_window: DedupWindow::For(Millis(2000)), ..of },
        2 => Policy { retry: backoff, max_in_flight: Some(1), dedup_window: DedupWindow::Forever, ..of },
        3 => Policy { max_in_flight: Some(2), dedup_window: DedupWindow::Off, ..of },
        4 => Policy { ttl: Some(Millis(3000)), on_expiry: OnExpiry::Dead, max_failures: 0, ..of },
        5 => Policy { retry: backoff, ttl: Some(Millis(2000)), ..of },
        6 => Policy { retry: backoff, coalesce: Coalesce::KeepLatest, ..of },
        7 => Policy { coalesce: Coalesce::KeepFirst, max_in_flight: Some(1), ..of },
        8 => Policy { max_waiting: Some(3), overflow: Overflow::DropOldest, ..of },
        9 => Policy { quotas: Quotas { messages: Some(6), topics: Some(3), ..none }, max_waiting: Some(4), ..of },
        10 => Policy {
            quotas: Quotas { messages: Some(3), bytes: Some(50), ..none },
            coalesce: Coalesce::KeepLatest,
            ..of
        },
        11 => Policy { quotas: Quotas { bytes: Some(60), ..none }, ..of },
        12 => Policy { retry: backoff, max_waiting: Some(2), max_in_flight: Some(2), ..of },
        13 => Policy { rate: Some(Rate { count: 1, period: Millis(700), burst: 3 }), ..of },
        14 => Policy { retry: backoff, max_in_flight: Some(1), run: 3, ..of },
        _ => Policy { rate: Some(Rate { count: 1, period: Millis(4000), burst: 1 }), retry: backoff, ..of },
    }
}

pub fn name(text: &str) -> TopicName {
    TopicName::try_from(text).unwrap()
}

pub fn hash(topic: &str, dedup: u8) -> u128 {
    dedup_hash(HASH_KEY, &NamespaceName::default(), &name(topic), &[dedup])
}

fn pick<T: Clone>(of: &[T], index: usize) -> Option<T> {
    // The later ones more often: those are still of interest.
    let recent = of.len().saturating_sub(24);
    let from = if index.is_multiple_of(4) { 0 } else { recent };
    of.get(from + index / 4 % (of.len() - from).max(1)).cloned()
}

trait NotEmpty: Sized {
    fn not_empty(self) -> Option<Self>;
}

impl NotEmpty for Command {
    /// A finish without receipts is refused; the model has no word for that.
    fn not_empty(self) -> Option<Self> {
        match &self {
            Command::Finish(finish) if finish.receipts.is_empty() => None,
            _ => Some(self),
        }
    }
}

/// A receive from all topics that does not wait.
pub fn receive(messages: u32) -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages,
        bytes: u64::MAX,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: false,
        request: None,
        call: 0,
    })
}
