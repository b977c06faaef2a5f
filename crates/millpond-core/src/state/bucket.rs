//! Rate: a bucket of tokens per topic and group, of which each message that is leased takes one.
//!
//! What is kept is one moment, at which the bucket is full again: how many tokens are in it now follows from that, from
//! the time and from the rate ("generic cell rate algorithm"). A topic that was left without a token is *dry* until a
//! moment that a fact says, so that a replay, and whoever looks for it on the disk, needs to know no rate.
//!
//! Invariant: behind a turn, the bucket of a dry topic has its timer at the end of that, and the bucket of an empty topic
//! at the moment from which nothing is left of it. No other one has a timer.

use millpond_types::{Policy, Rate, RunTime};

use crate::page::BucketPage;
use crate::state::topic::Topic;
use crate::state::{State, Timer, TopicSlot};
use crate::time_index::TimerKey;

/// The units in which buckets are counted, in a millisecond: nanoseconds.
const UNITS: u64 = 1_000_000;

#[derive(Clone)]
pub(crate) struct Bucket {
    /// When it is full again, in nanoseconds of run time.
    pub(crate) full: u64,
    /// Until when there is no token.
    pub(crate) dry: Option<RunTime>,
    timer: Option<(RunTime, TimerKey)>,
}

/// What becomes of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Draw {
    pub(crate) full: u64,
    pub(crate) dry: Option<RunTime>,
}

impl Bucket {
    pub(crate) fn of_page(page: BucketPage) -> Bucket {
        Bucket { full: page.full, dry: page.dry, timer: None }
    }

    pub(crate) fn page(&self) -> BucketPage {
        BucketPage { full: self.full, dry: self.dry }
    }

    /// When its timer goes off.
    pub(crate) fn deadline(&self) -> Option<RunTime> {
        self.timer.map(|(at, _)| at)
    }
}

impl BucketPage {
    /// The first moment at which time changes a topic with this bucket.
    pub(crate) fn deadline(&self, is_empty: bool) -> Option<RunTime> {
        self.dry.or_else(|| is_empty.then_some(RunTime(self.full.div_ceil(UNITS))))
    }
}

/// How many tokens there are in a bucket that is full at a moment; `None` of one that was never drawn from.
pub(crate) fn tokens(rate: &Rate, full: Option<u64>, now: RunTime) -> u32 {
    let each = interval(rate);
    let capacity = each * u64::from(rate.burst);
    // At most `burst`.
    ((capacity - missing(rate, full, now)) / each) as u32
}

/// Takes tokens out of a bucket, as many as there are at most.
pub(crate) fn draw(rate: &Rate, full: Option<u64>, now: RunTime, count: u32) -> Draw {
    let each = interval(rate);
    let full = now.0 * UNITS + missing(rate, full, now) + each * u64::from(count);
    let is_dry = tokens(rate, Some(full), now) == 0;
    // There is one again when all others have still to come.
    let next = || full - each * u64::from(rate.burst - 1);
    Draw { full, dry: is_dry.then(|| RunTime(next().div_ceil(UNITS))) }
}

/// The time that one token takes to come.
fn interval(rate: &Rate) -> u64 {
    (rate.period.0 * UNITS).div_ceil(u64::from(rate.count))
}

/// The time until a bucket is full. It is never emptier than empty, also where another rate has emptied it.
fn missing(rate: &Rate, full: Option<u64>, now: RunTime) -> u64 {
    let missing = full.unwrap_or_default().saturating_sub(now.0 * UNITS);
    missing.min(interval(rate) * u64::from(rate.burst))
}

impl Topic {
    /// How many messages may be leased for its rate.
    pub(crate) fn tokens(&self, policy: &Policy, now: RunTime) -> u32 {
        let full = || self.bucket.as_ref().map(|bucket| bucket.full);
        policy.rate.as_ref().map_or(u32::MAX, |rate| tokens(rate, full(), now))
    }
}

impl State {
    /// What leasing so many messages makes of the bucket of a topic; `None` if its rate has no limit.
    pub(crate) fn draw(&self, slot: TopicSlot, count: u32) -> Option<Draw> {
        let rate = self.policy(slot).rate.as_ref()?;
        let full = self.topics[slot].bucket.as_ref().map(|bucket| bucket.full);
        Some(draw(rate, full, self.now.run, count))
    }

    /// What its rate makes of the bucket of a topic that is not full, if that is news: after a change of rate it is full when
    /// it would have been, or sooner where it holds less, and without one nothing is left of it.
    pub(crate) fn fit(&self, slot: TopicSlot) -> Option<Draw> {
        let bucket = self.topics[slot].bucket.as_ref()?;
        let before = Draw { full: bucket.full, dry: bucket.dry };
        let is_full = before.full <= self.now.run.0 * UNITS && before.dry.is_none();
        let fits = || self.draw(slot, 0).unwrap_or(Draw { full: 0, dry: None });
        if is_full { None } else { Some(fits()).filter(|after| *after != before) }
    }

    /// Whether a topic without messages is kept for the sake of its bucket.
    pub(crate) fn is_filling(&self, topic: &Topic) -> bool {
        topic.bucket.as_ref().is_some_and(|bucket| bucket.full > self.now.run.0 * UNITS)
    }

    /// Sets the timer of a bucket, of a topic that something has happened to.
    pub(crate) fn arm_bucket(&mut self, slot: TopicSlot) {
        let topic = &mut self.topics[slot];
        let is_empty = topic.bucket.is_some() && topic.is_empty();
        let Some(bucket) = &mut topic.bucket else { return };
        let at = bucket.page().deadline(is_empty);
        if bucket.deadline() != at {
            if let Some((_, timer)) = bucket.timer.take() {
                self.run_timers.remove(timer);
            }
            bucket.timer = at.map(|at| (at, self.run_timers.insert(at.0, Timer::Refill(slot))));
        }
    }

    /// The timer of a bucket has gone off, or goes with its topic.
    pub(crate) fn disarm_bucket(&mut self, slot: TopicSlot) {
        let bucket = self.topics[slot].bucket.as_mut();
        if let Some((_, timer)) = bucket.and_then(|bucket| bucket.timer.take()) {
            self.run_timers.remove(timer);
        }
    }

    pub(crate) fn drawn(&mut self, slot: TopicSlot, Draw { full, dry }: Draw) {
        match &mut self.topics[slot].bucket {
            Some(bucket) => (bucket.full, bucket.dry) = (full, dry),
            none => *none = Some(alloc::boxed::Box::new(Bucket { full, dry, timer: None })),
        }
        self.touch(slot);
    }

    pub(crate) fn refilled(&mut self, slot: TopicSlot) {
        let bucket = self.topics[slot].bucket.as_mut().expect("a topic that is dry has a bucket");
        assert!(bucket.dry.take().is_some(), "only a topic that is dry comes to have a token");
        self.touch(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use millpond_types::Millis;
    use proptest::prelude::*;

    proptest! {
        /// Against the bucket that it stands for: so many tokens, of which one comes every so often.
        #[test]
        fn agrees_with_a_bucket_of_tokens(
            each in 1..50u64,
            burst in 1..10u32,
            steps in proptest::collection::vec((0..200u64, 0..12u32), 1..60),
        ) {
            let rate = Rate { count: 1, period: Millis(each), burst };
            let (mut now, mut full, mut coming) = (0, None, VecDeque::new());
            for (pass, wanted) in steps {
                now += pass;
                coming.retain(|at| *at > now);
                let left = burst - coming.len() as u32;
                prop_assert_eq!(tokens(&rate, full, RunTime(now)), left);
                let count = wanted.min(left);
                let Draw { full: after, dry } = draw(&rate, full, RunTime(now), count);
                for _ in 0..count {
                    coming.push_back(coming.back().copied().unwrap_or(now) + each);
                }
                let first = coming.front().copied().filter(|_| coming.len() as u32 == burst);
                prop_assert_eq!(dry.map(|at| at.0), first);
                full = Some(after);
            }
        }

        /// In no stretch of time more goes than the burst and what comes meanwhile.
        #[test]
        fn holds_at_any_rate(count in 1..1_000_000u32, burst in 1..2_000u32, steps in proptest::collection::vec(1..2_000u64, 1..100)) {
            let rate = Rate { count, period: Millis(1_000), burst };
            let (mut now, mut full, mut given) = (0, None, 0);
            for pass in steps {
                now += pass;
                let left = tokens(&rate, full, RunTime(now));
                full = Some(draw(&rate, full, RunTime(now), left).full);
                given += u64::from(left);
                prop_assert!(given <= u64::from(burst) + (now * u64::from(count)).div_ceil(1_000));
            }
        }
    }

    #[test]
    fn a_slower_rate_takes_a_token_away_and_no_more() {
        let (fast, slow) =
            (Rate { count: 1, period: Millis(1_000), burst: 60 }, Rate { count: 1, period: Millis(5_000), burst: 1 });
        let Draw { full, dry } = draw(&fast, None, RunTime(0), 60);
        assert_eq!(dry, Some(RunTime(1_000)));
        assert_eq!(tokens(&slow, Some(full), RunTime(1_000)), 0);
        assert_eq!(draw(&slow, Some(full), RunTime(1_000), 0).dry, Some(RunTime(6_000)));
    }
}
