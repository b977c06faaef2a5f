//! What dispatch knows of the topics that are not in memory.
//!
//! Per group and priority: how many topics stand on that shelf of the store and not in memory, and *stretches* of
//! the order of names in which there are none, because all of them were loaded. What dispatch would step over outside
//! of a stretch is *unknown*, and is wanted from the store before anything behind it has its turn. So the order of
//! dispatch is that of the names, wherever the topics are.
//!
//! Invariant: no topic stands on the shelf and not in memory within a stretch. To forget a stretch is always safe, and
//! costs a read at most.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::{Priority, TopicName};

use crate::fact::GroupNumber;
use crate::store::{Key, KeyBytes, Name, Range, Shelf, Want};

/// Topics asked for at once where dispatch goes on in one place: a read of some tens of kilobytes, and fewer than a
/// millisecond's work to take in.
pub(crate) const READ_AHEAD: u32 = 512;
/// Topics asked for at once where it goes from tenant to tenant, and each has a stretch: what is read ahead of all of
/// them has to stay in memory until their turns come.
pub(crate) const READ_AHEAD_MIN: u32 = 4;

/// Stretches kept per group and priority, the newest. Dispatch is in one place for each tenant with more than it can
/// be given in a turn; where there are more of them, each turn costs a read.
const STRETCHES_MAX: usize = 1024;

const LOWEST: Priority = Priority::new(0).expect("it is one");

/// Part of the order of names: from one on and before another, as they stand in keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    pub(crate) until: Vec<u8>,
}

/// What has to be read before it is known who is next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) spans: Vec<Span>,
}

#[derive(Default)]
pub(crate) struct Reach {
    shelves: BTreeMap<(GroupNumber, Priority), ColdShelf>,
    wanted: Vec<Want>,
}

#[derive(Default)]
struct ColdShelf {
    /// Topics here that are not in memory.
    cold: u64,
    /// In order; they neither meet nor overlap.
    stretches: Vec<Stretch>,
    /// What was asked for and not answered.
    asked: Vec<Span>,
    /// Stretches ever made.
    made: u64,
}

#[derive(Clone)]
struct Stretch {
    span: Span,
    /// Who is served from here on is near enough to the end to read on.
    ahead: Vec<u8>,
    /// Tells the older from the newer.
    made: u64,
}

impl Span {
    /// A single name.
    pub(crate) fn of(name: &TopicName) -> Span {
        Span { from: Name::bytes(name.as_bytes()), until: Name::behind(name.as_bytes()) }
    }

    /// All names with a prefix.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Span {
        Span { from: Name::bytes(prefix), until: Name::prefix_end(prefix) }
    }

    fn holds(&self, key: &[u8]) -> bool {
        *self.from <= *key && *key < *self.until
    }

    fn holds_name(&self, name: &TopicName) -> bool {
        Name::compare_key(name.as_bytes(), &self.from).is_ge()
            && Name::compare_key(name.as_bytes(), &self.until).is_lt()
    }
}

impl Reach {
    /// Whether all topics that offer something at a priority are in memory.
    pub(crate) fn is_all(&self, group: GroupNumber, priority: Priority) -> bool {
        self.shelf(group, priority).is_none()
    }

    /// Whether it is known without a closer look that nothing unknown is between two topics, the first one before the
    /// second.
    pub(crate) fn is_between(
        &self,
        group: GroupNumber,
        priority: Priority,
        first: &TopicName,
        second: &TopicName,
    ) -> bool {
        self.shelf(group, priority).is_none_or(|shelf| {
            let at = shelf.stretches.partition_point(|s| Name::compare_key(first.as_bytes(), &s.span.until).is_ge());
            shelf.stretches.get(at).is_some_and(|s| s.span.holds_name(first) && s.span.holds_name(second))
        })
    }

    /// The first unknown part of a span.
    pub(crate) fn first_unknown(&self, group: GroupNumber, priority: Priority, span: &Span) -> Option<Span> {
        let shelf = self.shelf(group, priority)?;
        let mut from = &span.from;
        let at = shelf.stretches.partition_point(|stretch| stretch.span.until <= span.from);
        let mut stretches = shelf.stretches[at..].iter();
        let mut next = stretches.next();
        if let Some(stretch) = next.filter(|stretch| stretch.span.from <= *from) {
            // The next one does not meet this one, so what follows is unknown.
            from = &stretch.span.until;
            next = stretches.next();
        }
        let until = next.map_or(&span.until, |stretch| (&stretch.span.from).min(&span.until));
        (from < until).then(|| Span { from: from.clone(), until: until.clone() })
    }

    /// Where to read on, if a topic that is served stands near the end of its stretch.
    pub(crate) fn read_on(&self, group: GroupNumber, priority: Priority, served: &TopicName) -> Option<&[u8]> {
        let shelf = self.shelf(group, priority)?;
        let at = shelf.stretches.partition_point(|s| Name::compare_key(served.as_bytes(), &s.span.until).is_ge());
        let stretch = shelf.stretches.get(at).filter(|stretch| stretch.span.holds_name(served))?;
        Name::compare_key(served.as_bytes(), &stretch.ahead).is_ge().then_some(&stretch.span.until[..])
    }

    /// Asks for a span, unless its beginning is on its way.
    pub(crate) fn ask(&mut self, group: GroupNumber, priority: Priority, span: Span) {
        let Some(shelf) = self.shelves.get_mut(&(group, priority)) else { return };
        if shelf.asked.iter().any(|asked| asked.holds(&span.from)) {
            return;
        }
        let bound = |name: &[u8]| Key::topic_bound(group, Shelf::Ready(priority), name);
        let limit = (READ_AHEAD / (shelf.stretches.len() as u32 + 1)).max(READ_AHEAD_MIN);
        let range = Range { from: bound(&span.from), until: bound(&span.until), limit };
        self.wanted.push(Want::Range(range));
        shelf.asked.push(span);
    }

    /// The priorities at which not all is in memory.
    pub(crate) fn priorities(&self, group: GroupNumber) -> impl Iterator<Item = Priority> {
        let shelves = self.shelves.range((group, LOWEST)..=(group, Priority::HIGHEST));
        shelves.map(|((_, priority), _)| *priority)
    }

    /// What has to be fetched, each told once.
    pub(crate) fn wanted(&mut self) -> &mut Vec<Want> {
        &mut self.wanted
    }

    /// Topics of a shelf are not in memory.
    pub(crate) fn add(&mut self, group: GroupNumber, priority: Priority, topics: u64) {
        if topics > 0 {
            self.shelves.entry((group, priority)).or_default().cold += topics;
        }
    }

    /// A topic has left memory for a shelf.
    pub(crate) fn evicted(&mut self, group: GroupNumber, priority: Priority, name: &TopicName) {
        let shelf = self.shelves.entry((group, priority)).or_default();
        shelf.cold += 1;
        let hole = Span::of(name);
        let at = shelf.stretches.partition_point(|stretch| stretch.span.until <= hole.from);
        if !shelf.stretches.get(at).is_some_and(|stretch| stretch.span.holds(&hole.from)) {
            return;
        }
        let Stretch { span, ahead, made } = shelf.stretches.remove(at);
        let before = Span { from: span.from, until: hole.from };
        let behind = Span { from: hole.until, until: span.until };
        let parts = [before, behind].into_iter().filter(|part| part.from < part.until);
        let parts: Vec<_> =
            parts.map(|span| Stretch { ahead: ahead.clone().max(span.from.clone()), span, made }).collect();
        shelf.stretches.splice(at..at, parts);
        shelf.forget_old();
    }

    /// A topic of a shelf has come into memory, or is gone.
    pub(crate) fn loaded(&mut self, group: GroupNumber, priority: Priority) {
        let shelf = self.shelves.get_mut(&(group, priority)).expect("a cold topic is on a shelf");
        shelf.cold -= 1;
        if shelf.cold == 0 {
            self.shelves.remove(&(group, priority));
        }
    }

    /// What was asked for has been read, and the topics of it that were found are in memory: all, or with `last` those
    /// up to this key.
    pub(crate) fn range_loaded(&mut self, range: &Range, last: Option<&KeyBytes>) {
        let (group, shelf, from) = Key::parse_topic_bound(&range.from).expect("a range of topics was asked for");
        let (_, _, until) = Key::parse_topic_bound(&range.until).expect("a range of topics was asked for");
        let Shelf::Ready(priority) = shelf else { unreachable!("dispatch asks for what is ready") };
        // None is cold any more, and that is known without stretches.
        let Some(shelf) = self.shelves.get_mut(&(group, priority)) else { return };
        let asked = Span { from: from.to_vec(), until: until.to_vec() };
        shelf.asked.retain(|other| *other != asked);
        let until = match last {
            None => asked.until,
            Some(last) => {
                let (_, _, name) = Key::parse_topic_bound(last).expect("a topic was found");
                [name, &[0]].concat()
            }
        };
        shelf.add(Span { from: asked.from, until });
    }

    fn shelf(&self, group: GroupNumber, priority: Priority) -> Option<&ColdShelf> {
        if self.shelves.is_empty() { None } else { self.shelves.get(&(group, priority)) }
    }
}

impl ColdShelf {
    /// Makes a stretch of a span, together with those that it meets.
    fn add(&mut self, mut span: Span) {
        let mut ahead = span.from.clone();
        let first = self.stretches.partition_point(|stretch| stretch.span.until < span.from);
        let end = self.stretches.partition_point(|stretch| stretch.span.from <= span.until);
        for met in self.stretches.drain(first..end) {
            span.from = span.from.min(met.span.from);
            if met.span.until > span.until {
                (span.until, ahead) = (met.span.until, met.ahead);
            }
        }
        self.made += 1;
        self.stretches.insert(first, Stretch { span, ahead, made: self.made });
        self.forget_old();
    }

    fn forget_old(&mut self) {
        while self.stretches.len() > STRETCHES_MAX {
            let oldest = (0..self.stretches.len()).min_by_key(|at| self.stretches[*at].made).expect("there are many");
            self.stretches.remove(oldest);
        }
    }
}
