//! Random histories: what happens in them, as proptest draws it, and the commands that come of it.
//!
//! An operation names messages and receipts by index; which ones there are is known only when its turn comes.

mod commands;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed};

use commands::{FILTERS, POLICIES};

pub use commands::{Known, hash, name, publish_run, receive, set_policy};

/// How properties are run here: so many cases, and the same ones each time. `PROPTEST_RNG_SEED` and `PROPTEST_CASES`
/// ask for others, and for more.
pub fn config(cases: u32) -> Config {
    let of = Config::default();
    let cases = if of.cases == CASES_UNSET { cases } else { of.cases };
    let rng_seed = if of.rng_seed == RngSeed::Random { RngSeed::Fixed(2026) } else { of.rng_seed };
    Config { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4000, ..of }
}

/// What proptest does where nobody says how many.
const CASES_UNSET: u32 = 256;

/// Three tenants, one of them with several topics.
pub const TOPICS: [&str; 6] = ["a/1", "a/2", "a/3", "b/1", "b/2", "c"];
/// The first is always there.
pub const GROUPS: [&str; 3] = ["default", "audit", "index"];
/// Where groups start: with nothing, with all that others hold, or with what of that was published since some time.
pub const STARTS: usize = 3;

#[derive(Clone, Debug)]
pub enum Op {
    Publish {
        topic: usize,
        priority: u8,
        count: u32,
        delay: u64,
        ttl: Option<u64>,
        dedup: Option<u8>,
    },
    Receive {
        group: usize,
        filter: usize,
        messages: u32,
        bytes: u64,
        lease: Option<u64>,
        wait: u64,
        at_most_once: bool,
    },
    Withdraw(usize),
    Finish {
        verb: usize,
        receipts: Vec<(usize, u32)>,
        delay: u64,
    },
    Forward {
        receipts: Vec<usize>,
        topic: usize,
        count: u32,
        dedup: Option<u8>,
    },
    Begin {
        session: u64,
        held: Vec<usize>,
    },
    Lose(u64),
    End(u64),
    Heartbeat {
        session: u64,
        except: Vec<usize>,
    },
    Attach {
        session: u64,
        consumer: u32,
        group: usize,
        filter: usize,
        messages: u32,
        bytes: u64,
        at_most_once: bool,
    },
    Credit {
        session: u64,
        consumer: u32,
        messages: u32,
        bytes: u64,
    },
    Detach {
        session: u64,
        consumer: u32,
    },
    Cancel {
        topic: usize,
        message: usize,
        dedup: Option<u8>,
    },
    Reschedule {
        message: usize,
        delay: u64,
    },
    Pause {
        name: usize,
        stop: bool,
        lasts: Option<u64>,
    },
    Forget {
        topic: usize,
        dedup: u8,
    },
    /// Of all groups, or of one.
    Purge {
        filter: usize,
        group: Option<usize>,
    },
    Redrive {
        filter: usize,
        group: usize,
        first: Option<u32>,
    },
    DeadPurge {
        filter: usize,
        group: usize,
        first: Option<u32>,
    },
    GroupCreate {
        group: usize,
        start: usize,
    },
    GroupDelete(usize),
    Policy(usize),
    /// Of something that was stored at some time.
    Move(usize),
    /// Both times pass, wall time a little more.
    Pass {
        run: u64,
        wall: u64,
    },
    /// Until the core has something to do by itself.
    Wake,
    Restart {
        crash: bool,
    },
    Checkpoint,
}

pub fn ops(length: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), length / 2..length)
}

/// One operation.
pub fn op() -> impl Strategy<Value = Op> {
    let (topic, filter) = (|| 0..TOPICS.len(), || 0..FILTERS);
    let group = || select(vec![0, 0, 1, 2]);
    // An age of retention passes now and then.
    let long = select(vec![0, 0, 0, 0, 0, 0, 12_000]);
    let time = || select(vec![0, 0, 0, 1, 500, 1000, 3000]);
    let ttl = option::weighted(0.2, select(vec![1, 1000, 2000]));
    let messages = || select(vec![1, 1, 2, 3, 5, 100]);
    let bytes = || select(vec![1, 25, 40, 10_000, 10_000]);
    let lease = option::of(select(vec![100, 1000, 5000]));
    let (session, consumer) = (|| 1..4u64, || 0..2u32);
    let once = || prop::bool::weighted(0.1);
    let dedup = || option::weighted(0.4, 0..2u8);
    let priority = select(vec![4, 4, 4, 4, 9, 0]);
    prop_oneof![
        8 => (topic(), priority, 1..5u32, time(), ttl, dedup()).prop_map(
            |(topic, priority, count, delay, ttl, dedup)| Op::Publish { topic, priority, count, delay, ttl, dedup }
        ),
        7 => (group(), filter(), messages(), bytes(), lease, time(), once()).prop_map(
            |(group, filter, messages, bytes, lease, wait, at_most_once)| {
                Op::Receive { group, filter, messages, bytes, lease, wait, at_most_once }
            }
        ),
        1 => any::<usize>().prop_map(Op::Withdraw),
        8 => (0..7usize, vec((any::<usize>(), 1..4u32), 1..5), time())
            .prop_map(|(verb, receipts, delay)| Op::Finish { verb, receipts, delay }),
        2 => (vec(any::<usize>(), 1..3), topic(), 1..3u32, dedup())
            .prop_map(|(receipts, topic, count, dedup)| Op::Forward { receipts, topic, count, dedup }),
        3 => (session(), vec(any::<usize>(), 0..4)).prop_map(|(session, held)| Op::Begin { session, held }),
        1 => session().prop_map(Op::Lose),
        1 => session().prop_map(Op::End),
        1 => (session(), vec(any::<usize>(), 0..4)).prop_map(|(session, except)| Op::Heartbeat { session, except }),
        5 => (session(), consumer(), group(), filter(), messages(), bytes(), once()).prop_map(
            |(session, consumer, group, filter, messages, bytes, at_most_once)| {
                Op::Attach { session, consumer, group, filter, messages, bytes, at_most_once }
            }
        ),
        4 => (session(), consumer(), messages(), bytes()).prop_map(
            |(session, consumer, messages, bytes)| Op::Credit { session, consumer, messages, bytes }
        ),
        1 => (session(), consumer()).prop_map(|(session, consumer)| Op::Detach { session, consumer }),
        4 => (topic(), any::<usize>(), dedup()).prop_map(|(topic, message, dedup)| Op::Cancel { topic, message, dedup }),
        2 => (any::<usize>(), time()).prop_map(|(message, delay)| Op::Reschedule { message, delay }),
        2 => (0..TOPICS.len() + 3, any::<bool>(), proptest::option::of(0..20_000u64))
            .prop_map(|(name, stop, lasts)| Op::Pause { name, stop, lasts }),
        2 => (topic(), 0..2u8).prop_map(|(topic, dedup)| Op::Forget { topic, dedup }),
        1 => (filter(), option::of(group())).prop_map(|(filter, group)| Op::Purge { filter, group }),
        2 => (filter(), group(), option::of(1..4u32)).prop_map(|(filter, group, first)| Op::Redrive { filter, group, first }),
        1 => (filter(), group(), option::of(1..4u32)).prop_map(|(filter, group, first)| Op::DeadPurge { filter, group, first }),
        4 => (1..GROUPS.len(), 0..STARTS).prop_map(|(group, start)| Op::GroupCreate { group, start }),
        1 => (1..GROUPS.len()).prop_map(Op::GroupDelete),
        1 => (0..POLICIES).prop_map(Op::Policy),
        4 => any::<usize>().prop_map(Op::Move),
        5 => (time(), time(), long).prop_map(|(run, wall, long)| Op::Pass { run, wall: run + wall + long }),
        2 => Just(Op::Wake),
        1 => any::<bool>().prop_map(|crash| Op::Restart { crash }),
        1 => Just(Op::Checkpoint),
    ]
}
