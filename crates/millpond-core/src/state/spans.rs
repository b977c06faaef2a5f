//! How many of the messages that a group holds, and nobody has leased, were published when: the count of each of some
//! spans of time. From this follows what is to go where a group keeps no more than so much.
//!
//! Invariant: spans are in order and apart, none is empty, and a message belongs to the one in which it was published. So
//! counts are exact whatever enters and leaves. Only neighbours are ever joined, and these the further back the more: what
//! is told of an age, or of so many of the newest messages, is true but for a part of it, [`PART`], however long the line.

use alloc::vec::Vec;

use millpond_types::{Millis, Retention, WallTime};

use crate::page::Span;

/// The part of an age, and of a number of messages, that a span may be long and hold, and by which there has to be too
/// much before anything goes: an eighth. All told a group holds a third more than it is to keep, at most.
const PART: u64 = 8;
/// How long a span may always be: to a second an age is told.
const GRAIN: Millis = Millis(1000);
/// Each time that there are so many more spans, neighbours are joined. A backlog of years and of a hundred million messages
/// is some hundred and fifty of them, of 24 bytes.
const JOINED_EVERY: usize = 256;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<Span>,
}

impl Spans {
    pub(crate) fn of_page(spans: Vec<Span>) -> Spans {
        Spans { spans }
    }

    pub(crate) fn page(&self) -> &[Span] {
        &self.spans
    }

    /// How many messages there are.
    pub(crate) fn total(&self) -> u64 {
        self.spans.iter().map(|span| span.count).sum()
    }

    /// Messages are there from here on, or again.
    pub(crate) fn add(&mut self, published: WallTime, count: u64) {
        let at = self.at(published);
        match self.spans.get_mut(at).filter(|span| span.first <= published) {
            Some(span) => span.count += count,
            None => {
                self.spans.insert(at, Span { first: published, last: published, count });
                if self.spans.len().is_multiple_of(JOINED_EVERY) {
                    self.join();
                }
            }
        }
    }

    /// Messages are gone, or leased.
    pub(crate) fn remove(&mut self, published: WallTime, count: u64) {
        let at = self.at(published);
        let span = self.spans.get_mut(at).filter(|span| span.first <= published && span.count >= count);
        let span = span.expect("what leaves a group was counted when it came");
        span.count -= count;
        if span.count == 0 {
            self.spans.remove(at);
        }
    }

    /// Before which publish time all is to go, as long as it is enough to be worth going over the topics for.
    pub(crate) fn too_much(&self, keep: &Retention, now: WallTime) -> Option<WallTime> {
        let old = keep.age.and_then(|age| self.too_old(age, now));
        let many = keep.count.and_then(|count| self.too_many(count));
        old.max(many)
    }

    fn too_old(&self, age: Millis, now: WallTime) -> Option<WallTime> {
        let is_older = |span: &Span, age: u64| span.last.0.saturating_add(age) < now.0;
        let is_worth_it = is_older(self.spans.first()?, age.0.saturating_add(age.0 / PART));
        let old = self.spans.partition_point(|span| is_older(span, age.0));
        is_worth_it.then(|| self.end_of(old)).flatten()
    }

    fn too_many(&self, count: u64) -> Option<WallTime> {
        let (mut kept, mut old) = (0, self.spans.len());
        while kept < count && old > 0 {
            old -= 1;
            kept += self.spans[old].count;
        }
        self.end_of(old).filter(|_| self.total() - kept >= (count / PART).max(1))
    }

    /// The time behind all that is of the first spans.
    fn end_of(&self, spans: usize) -> Option<WallTime> {
        self.spans[..spans].last().map(|span| WallTime(span.last.0 + 1))
    }

    /// The index of the first span that ends at a time or later.
    fn at(&self, published: WallTime) -> usize {
        match self.spans.last() {
            // What comes is nearly always the newest, and what goes the oldest.
            Some(last) if last.last < published => self.spans.len(),
            Some(_) if published <= self.spans[0].last => 0,
            _ => self.spans.partition_point(|span| span.last < published),
        }
    }

    /// Joins neighbours that are together small for how far back they lie.
    fn join(&mut self) {
        let newest = self.spans.last().map_or(0, |span| span.last.0);
        let (mut newer, mut joined) = (0, Vec::<Span>::with_capacity(self.spans.len()));
        for span in core::mem::take(&mut self.spans).into_iter().rev() {
            let Some(next) = joined.last_mut() else {
                joined.push(span);
                continue;
            };
            let is_short = next.last.0 - span.first.0 <= ((newest - next.last.0) / PART).max(GRAIN.0);
            if is_short && span.count + next.count <= newer / PART {
                (next.first, next.count) = (span.first, span.count + next.count);
            } else {
                newer += next.count;
                joined.push(span);
            }
        }
        joined.reverse();
        self.spans = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// A day of a message a millisecond, published a thousand at a time.
    fn long() -> Spans {
        let mut spans = Spans::default();
        (0..86_400).for_each(|at| spans.add(WallTime(at * 1_000), 1_000));
        spans
    }

    #[test]
    fn a_long_backlog_is_told_to_a_part_in_few_spans() {
        let spans = long();
        assert!(spans.page().len() < 2 * JOINED_EVERY, "{} spans", spans.page().len());
        assert_eq!(spans.total(), 86_400_000);
        for count in [1, 1_000, 1_000_000, 50_000_000] {
            let end = spans.too_much(&Retention { age: None, count: Some(count) }, WallTime(86_400_000)).unwrap();
            let kept = 86_400_000 - end.0;
            assert!(kept >= count && kept <= count + count / PART + 2_000, "{kept} of {count}");
        }
        for seconds in [10, 600, 36_000] {
            let (age, now) = (Millis::seconds(seconds), WallTime(86_400_000));
            let end = spans.too_much(&Retention { age: Some(age), count: None }, now).unwrap();
            let kept = now.0 - end.0;
            assert!(kept >= age.0 && kept <= age.0 + age.0 / PART + 2_000, "{kept} of {age:?}");
        }
    }

    #[test]
    fn nothing_is_too_much_before_it_is_worth_it() {
        let mut spans = Spans::default();
        let keep = Retention { age: Some(Millis(8_000)), count: Some(16) };
        assert_eq!(spans.too_much(&keep, WallTime(1_000_000)), None, "there is nothing");
        (0..17).for_each(|at| spans.add(WallTime(at), 1));
        assert_eq!(spans.too_much(&keep, WallTime(17)), None, "one more is not worth it");
        spans.add(WallTime(17), 1);
        assert_eq!(spans.too_much(&keep, WallTime(17)), Some(WallTime(2)), "the newest stay");
        spans.remove(WallTime(3), 1);
        assert_eq!(spans.too_much(&keep, WallTime(9_000)), None, "to the age, and an eighth");
        assert_eq!(spans.too_much(&keep, WallTime(9_001)), Some(WallTime(18)), "and then all that are too old");
    }

    proptest! {
        #[test]
        fn counts_are_exact_whatever_comes_and_goes(steps in proptest::collection::vec((0..5_000u64, 1..4u64, any::<bool>()), 0..4_000)) {
            let (mut spans, mut held) = (Spans::default(), BTreeMap::<u64, u64>::new());
            for (at, count, is_coming) in steps {
                let at = at * 7_919 % 5_000_000;
                if is_coming || held.is_empty() {
                    *held.entry(at).or_default() += count;
                    spans.add(WallTime(at), count);
                } else {
                    let (&at, &there) = held.range(at..).next().or(held.iter().next()).unwrap();
                    spans.remove(WallTime(at), there);
                    held.remove(&at);
                }
                prop_assert_eq!(spans.total(), held.values().sum::<u64>());
            }
            prop_assert!(spans.page().is_sorted_by(|a, b| a.last < b.first));
            for span in spans.page() {
                let of: u64 = held.range(span.first.0..=span.last.0).map(|(_, count)| count).sum();
                prop_assert_eq!((span.count, span.count > 0), (of, true));
            }
        }
    }
}
