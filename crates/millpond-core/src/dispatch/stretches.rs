//! Stretches of the order of names that are known, and what is unknown between them.

use alloc::vec::Vec;
use core::cell::Cell;

use millpond_types::TopicName;

use crate::store::Name;

/// Stretches kept per group and priority, the newest. Dispatch is in one place for each tenant with more than it can
/// be given in a turn; where there are more of them, each turn costs a read.
const STRETCHES_MAX: usize = 1024;

/// Behind all names: no byte of UTF-8 is 0xff.
pub(crate) const END: u8 = 0xff;

/// Part of the order of names: from one on and before another, as they stand in keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    pub(crate) until: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Stretches {
    /// In order; they neither meet nor overlap.
    all: Vec<Stretch>,
    /// Stretches ever made.
    made: u64,
    /// The one that was looked into last: turns go from one to the next.
    near: Cell<usize>,
}

#[derive(Clone)]
pub(crate) struct Stretch {
    pub(crate) span: Span,
    /// Who is served from here on is near enough to the end to read on.
    pub(crate) ahead: Vec<u8>,
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

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        *self.from <= *key && *key < *self.until
    }

    fn holds_name(&self, name: &TopicName) -> bool {
        Name::compare_key(name.as_bytes(), &self.from).is_ge()
            && Name::compare_key(name.as_bytes(), &self.until).is_lt()
    }
}

impl Stretches {
    /// One of all names.
    pub(crate) fn whole() -> Stretches {
        let mut whole = Stretches::default();
        whole.add(Span { from: Vec::new(), until: Vec::from([END]) });
        whole
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The one that a name is in.
    pub(crate) fn with(&self, name: &TopicName) -> Option<&Stretch> {
        let near = self.near.get();
        let is_in = |at: &usize| self.all.get(*at).is_some_and(|stretch| stretch.span.holds_name(name));
        let at = [near, near + 1].into_iter().find(is_in).or_else(|| {
            let is_before = |stretch: &Stretch| Name::compare_key(name.as_bytes(), &stretch.span.until).is_ge();
            Some(self.all.partition_point(is_before)).filter(is_in)
        })?;
        self.near.set(at);
        Some(&self.all[at])
    }

    /// The first part of a span that is in none of them.
    pub(crate) fn first_unknown(&self, span: &Span) -> Option<Span> {
        let mut from = &span.from;
        let at = self.all.partition_point(|stretch| stretch.span.until <= span.from);
        let mut stretches = self.all[at..].iter();
        let mut next = stretches.next();
        if let Some(stretch) = next.filter(|stretch| stretch.span.from <= *from) {
            // The next one does not meet this one, so what follows is unknown.
            from = &stretch.span.until;
            next = stretches.next();
        }
        let until = next.map_or(&span.until, |stretch| (&stretch.span.from).min(&span.until));
        (from < until).then(|| Span { from: from.clone(), until: until.clone() })
    }

    /// Makes a stretch of a span, together with those that it meets.
    pub(crate) fn add(&mut self, mut span: Span) {
        let mut ahead = span.from.clone();
        let first = self.all.partition_point(|stretch| stretch.span.until < span.from);
        let end = self.all.partition_point(|stretch| stretch.span.from <= span.until);
        for met in self.all.drain(first..end) {
            span.from = span.from.min(met.span.from);
            if met.span.until > span.until {
                (span.until, ahead) = (met.span.until, met.ahead);
            }
        }
        self.made += 1;
        self.all.insert(first, Stretch { span, ahead, made: self.made });
        self.forget_old();
    }

    /// Takes the span of a name out of the one that it is in.
    pub(crate) fn forget(&mut self, hole: Span) {
        let at = self.all.partition_point(|stretch| stretch.span.until <= hole.from);
        if !self.all.get(at).is_some_and(|stretch| stretch.span.holds(&hole.from)) {
            return;
        }
        let Stretch { span, ahead, made } = self.all.remove(at);
        let before = Span { from: span.from, until: hole.from };
        let behind = Span { from: hole.until, until: span.until };
        let parts = [before, behind].into_iter().filter(|part| part.from < part.until);
        let parts: Vec<_> =
            parts.map(|span| Stretch { ahead: ahead.clone().max(span.from.clone()), span, made }).collect();
        self.all.splice(at..at, parts);
        self.forget_old();
    }

    fn forget_old(&mut self) {
        while self.all.len() > STRETCHES_MAX {
            let oldest = (0..self.all.len()).min_by_key(|at| self.all[*at].made).expect("there are many");
            self.all.remove(oldest);
        }
    }
}
