//! Stretches of the order of names that are known, and what is unknown between them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;

use millpond_types::TopicName;

use crate::dispatch::turns::TENANTS_MAX;
use crate::state::topics::Edge;
use crate::store::Name;

/// Stretches kept per group and priority, those that were of use last: some eight megabytes. Of all together there may be room
/// for fewer ([`super::remembered`]). Dispatch goes on in one place
/// for each tenant with more than it can be given in a turn, and has to know what lies between it and the tenant before;
/// where there are more of them, each turn costs a read.
const STRETCHES_MAX: usize = TENANTS_MAX;
/// Of them, one in so many is forgotten at a time.
pub(super) const FORGET_SHARE: usize = 8;
/// What a buffer takes beside its bytes.
const BUFFER: usize = 16;

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
    #[expect(clippy::vec_box, reason = "each hole in one of them moves those behind it, and there may be thousands")]
    all: Vec<Box<Stretch>>,
    /// What they take.
    bytes: usize,
    /// The one that was looked into last: turns go from one to the next, and look back at the one before.
    near: Cell<usize>,
}

#[derive(Clone)]
pub(crate) struct Stretch {
    pub(crate) span: Span,
    /// Who is served from here on is near enough to the end to read on.
    pub(crate) ahead: Vec<u8>,
    /// Which use of any was the last of this one.
    used: Cell<u64>,
}

/// How often any stretch of any shelf was of use.
#[derive(Default)]
pub(crate) struct Uses(Cell<u64>);

impl Uses {
    fn one(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

impl Stretch {
    /// What it takes, with its place among others.
    fn bytes(&self) -> usize {
        let buffers = self.span.from.len() + self.span.until.len() + self.ahead.len() + 3 * BUFFER;
        size_of::<Stretch>() + 2 * size_of::<Box<Stretch>>() + buffers
    }

    fn reaches_over(&self, from: Edge<'_>, until: Edge<'_>) -> bool {
        from.is_within(&self.span.from) && (!until.is_within(&self.span.until) || until.key() == self.span.until)
    }
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

    fn holds(&self, name: &TopicName) -> bool {
        Name::compare_key(name.as_bytes(), &self.from).is_ge()
            && Name::compare_key(name.as_bytes(), &self.until).is_lt()
    }
}

impl Stretches {
    /// One of all names.
    pub(crate) fn whole(uses: &Uses) -> Stretches {
        let mut whole = Stretches::default();
        whole.add(Span { from: Vec::new(), until: Vec::from([END]) }, uses);
        whole
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// What all of them take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The one that a name is in.
    pub(crate) fn with(&self, name: &TopicName, uses: &Uses) -> Option<&Stretch> {
        let is_before = |stretch: &Stretch| Name::compare_key(name.as_bytes(), &stretch.span.until).is_ge();
        self.find(|stretch| stretch.span.holds(name), is_before, uses)
    }

    /// Whether one of them begins at an edge or before it and ends at another or behind it.
    pub(crate) fn reach_over(&self, from: Edge<'_>, until: Edge<'_>, uses: &Uses) -> bool {
        let ends_before = |stretch: &Stretch| from.is_within(&stretch.span.until);
        self.find(|stretch| stretch.reaches_over(from, until), ends_before, uses).is_some()
    }

    /// The first one that is not before what is looked for, if it is that.
    fn find(
        &self,
        is_it: impl Fn(&Stretch) -> bool,
        is_before: impl Fn(&Stretch) -> bool,
        uses: &Uses,
    ) -> Option<&Stretch> {
        let near = self.near.get();
        let is_at = |at: &usize| self.all.get(*at).is_some_and(|stretch| is_it(stretch));
        let at = [near, near + 1, near.wrapping_sub(1)].into_iter().find(is_at);
        let at = at.or_else(|| Some(self.all.partition_point(|stretch| is_before(stretch))).filter(is_at))?;
        self.near.set(at);
        let found = &self.all[at];
        found.used.set(uses.one());
        Some(found)
    }

    /// The first part of a span that is in none of them.
    pub(crate) fn first_unknown(&self, span: &Span, uses: &Uses) -> Option<Span> {
        let mut from = &span.from;
        let at = self.all.partition_point(|stretch| stretch.span.until <= span.from);
        let mut stretches = self.all[at..].iter();
        let mut next = stretches.next();
        if let Some(stretch) = next.filter(|stretch| stretch.span.from <= *from) {
            stretch.used.set(uses.one());
            // The next one does not meet this one, so what follows is unknown.
            from = &stretch.span.until;
            next = stretches.next();
        }
        let until = next.map_or(&span.until, |stretch| (&stretch.span.from).min(&span.until));
        (from < until).then(|| Span { from: from.clone(), until: until.clone() })
    }

    /// Makes a stretch of a span, together with those that it meets.
    pub(crate) fn add(&mut self, mut span: Span, uses: &Uses) {
        let mut ahead = span.from.clone();
        let first = self.all.partition_point(|stretch| stretch.span.until < span.from);
        let end = self.all.partition_point(|stretch| stretch.span.from <= span.until);
        for met in self.all.drain(first..end) {
            self.bytes -= met.bytes();
            span.from = span.from.min(met.span.from);
            if met.span.until > span.until {
                (span.until, ahead) = (met.span.until, met.ahead);
            }
        }
        let stretch = Stretch { span, ahead, used: Cell::new(uses.one()) };
        self.bytes += stretch.bytes();
        self.all.insert(first, Box::new(stretch));
        self.bound();
    }

    /// Takes a name out of the one that it is in.
    pub(crate) fn forget(&mut self, name: &TopicName) {
        let is_behind = |until: &[u8]| Name::compare_key(name.as_bytes(), until).is_ge();
        let at = self.all.partition_point(|stretch| is_behind(&stretch.span.until));
        if !self.all.get(at).is_some_and(|stretch| stretch.span.holds(name)) {
            return;
        }
        let hole = Span::of(name);
        let cut = self.all.remove(at);
        self.bytes -= cut.bytes();
        let Stretch { span, ahead, used } = *cut;
        let before = Span { from: span.from, until: hole.from };
        let behind = Span { from: hole.until, until: span.until };
        let behind_ahead = ahead.max(behind.from.clone());
        // Before the hole it is near the end wherever it is served from.
        let parts = [(before.from.clone(), before), (behind_ahead, behind)].into_iter();
        let parts = parts.filter(|(_, span)| span.from < span.until);
        let parts: Vec<_> = parts.map(|(ahead, span)| Box::new(Stretch { span, ahead, used: used.clone() })).collect();
        self.bytes += parts.iter().map(|part| part.bytes()).sum::<usize>();
        self.all.splice(at..at, parts);
        self.bound();
    }

    fn bound(&mut self) {
        if self.all.len() > STRETCHES_MAX {
            let mut uses: Vec<u64> = self.uses().collect();
            let (_, last, _) = uses.select_nth_unstable(STRETCHES_MAX / FORGET_SHARE);
            self.forget_old(*last);
        }
    }

    /// The last use of each.
    pub(super) fn uses(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|stretch| stretch.used.get())
    }

    /// Forgets those that were of use last at a time or before. Of what the holes of topics that left have cut off, nothing is
    /// ever of use again.
    pub(super) fn forget_old(&mut self, last: u64) {
        self.all.retain(|stretch| stretch.used.get() > last);
        self.bytes = self.all.iter().map(|stretch| stretch.bytes()).sum();
        if self.all.capacity() > 4 * self.all.len() {
            self.all.shrink_to(2 * self.all.len());
        }
    }
}
