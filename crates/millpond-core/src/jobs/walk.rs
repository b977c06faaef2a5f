//! Going over topics in the order of their names, wherever they are, without taking them into memory: each is seen
//! once, as it is when the walk comes to it.
//!
//! What is not in memory is read ahead, shelf after shelf, from where the walk is. A shelf with more than fits, or of which very
//! many are gone, is read up to a name, and the walk then goes no further than this before it reads again.
//!
//! No step looks at more than what comes first, in memory and of what was read. Topics that hold nothing are gone by one after
//! the other, and count as if they had been shown: where a rate is low, there may be very many of them.
//!
//! Invariant: once all shelves were read, the topics from where the walk is up to [`Ahead::until`] that are not in memory
//! are those of [`Ahead::rows`]. A topic that comes into memory is taken out of them, and one that leaves is put there.
//! So it does not matter where a topic is at which moment.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::limits::TOPIC_NAME_MAX;
use millpond_types::{Counts, TopicName, TopicView};

use super::TOPICS_HELD;
use super::admitted::Names;

use crate::dispatch::reach::READ_AHEAD;
use crate::fact::GroupNumber;
use crate::page::Page;
use crate::state::topic::Topic;
use crate::state::topics::Edge;
use crate::state::{Now, State};
use crate::store::{Key, KeyBytes, Name, Range, Shelf, Want};

/// Topics that one read brings, and those that a walk knows ahead at most: those of a turn.
pub(crate) const ROWS: usize = super::SLICE;
/// Bytes that these take at most, so that long names do not make many jobs at once dear: 32 jobs take 8 MiB.
const BYTES: usize = 256 * 1024;

/// What dispatch reads it asks for in the same form, and both must know their answers.
const _: () = assert!(ROWS > READ_AHEAD as usize, "no walk asks for what dispatch asks for");
const _: () =
    assert!(BYTES / (size_of::<(Vec<u8>, TopicView)>() + 2 * TOPIC_NAME_MAX) > TOPICS_HELD, "all that come next");

/// Over nothing, where it is the default.
#[derive(Default)]
pub(super) struct Walk {
    /// What is still to be gone over where it is: from a name as it stands in keys and before another.
    span: Option<(Vec<u8>, Vec<u8>)>,
    /// The prefixes that come then.
    prefixes: Names,
    /// Whether it comes to topics that hold nothing as well.
    with_empty: bool,
    ahead: Option<Ahead>,
}

/// What is known of the topics that come next and are not in memory.
struct Ahead {
    /// Where the reads of the shelves begin.
    from: Vec<u8>,
    /// Before this name all of them, as far as shelves were read.
    until: Vec<u8>,
    /// By their names as they stand in keys.
    rows: BTreeMap<Vec<u8>, TopicView>,
    bytes: usize,
    /// The shelf that is to be read next, or is being read.
    shelf: usize,
}

/// Where a walk is.
pub(super) enum Place {
    /// At this topic. The next one is behind it.
    At(TopicView),
    /// It cannot go on without this.
    Before(Want),
    /// It has gone by as many as it may for now.
    Later,
    End,
}

impl Walk {
    /// Over all topics with one of these prefixes.
    pub(super) fn of_prefixes(prefixes: Names) -> Walk {
        let mut walk = Walk { prefixes, ..Walk::default() };
        walk.span = next_span(&mut walk.prefixes);
        walk
    }

    /// Over all topics with a prefix whose names stand at or behind `from`, as it stands in keys.
    pub(super) fn of_prefix(prefix: &[u8], from: Vec<u8>) -> Walk {
        let (from, until) = (from.max(Name::bytes(prefix)), Name::prefix_end(prefix));
        Walk { span: (from < until).then_some((from, until)), ..Walk::default() }
    }

    /// Over all topics, also those of which nothing is left but their bucket.
    pub(super) fn of_all() -> Walk {
        Walk { with_empty: true, ..Walk::of_prefix(b"", Vec::new()) }
    }

    /// Steps to the next topic, as long as there is anything `left`: of that, each topic costs one that is gone by because it
    /// holds nothing.
    pub(super) fn next(&mut self, group: GroupNumber, state: &State, left: &mut usize) -> Place {
        while let Some((from, until)) = &mut self.span {
            if *left == 0 {
                return Place::Later;
            }
            let ahead = self.ahead.get_or_insert_with(|| Ahead::of(from.clone(), until.clone()));
            if let Some(want) = ahead.want(group, state) {
                return Place::Before(want);
            }
            // No further than to the first, for behind it there may be very many that are not asked for yet.
            let in_memory = state.topics.walk(group, Edge::Key(from)).next();
            let in_memory = in_memory.map(|(_, topic)| topic).filter(|topic| ahead.comes_before_rows(&topic.name));
            let found = match in_memory {
                Some(topic) => Some(topic.view(state.now)),
                None => ahead.take_first(),
            };
            let Some(mut view) = found else {
                if ahead.until == *until {
                    self.span = next_span(&mut self.prefixes);
                } else {
                    *from = core::mem::take(&mut ahead.until);
                }
                self.ahead = None;
                continue;
            };
            *from = Name::behind(view.name.as_bytes());
            // One that is empty is gone at the end of this turn, or shown no more than if it were.
            if view.counts == Counts::default() && !self.with_empty {
                *left -= 1;
                continue;
            }
            view.paused = state.pauses(group).holds(&view.name);
            return Place::At(view);
        }
        Place::End
    }

    /// The topics from a place on, at most so many and fewer only where there are no more, in order and whether they hold anything
    /// or not. The walk stays before them; it never goes back before a place that it was asked for.
    pub(super) fn upcoming(
        &mut self,
        group: GroupNumber,
        state: &State,
        place: &[u8],
        limit: usize,
    ) -> Result<Upcoming, Want> {
        let (from, until) = self.span.get_or_insert_with(|| (Vec::new(), Name::prefix_end(b"")));
        if &from[..] < place {
            *from = Vec::from(place);
        }
        loop {
            let ahead = self.ahead.get_or_insert_with(|| Ahead::of(from.clone(), until.clone()));
            ahead.forget_before(from);
            if let Some(want) = ahead.want(group, state) {
                return Err(want);
            }
            let in_memory = state.topics.walk(group, Edge::Key(from)).map(|(_, topic)| &topic.name);
            let in_memory = in_memory.take_while(|name| ahead.holds(name)).take(limit);
            let cold = ahead.rows.values().map(|row| &row.name).take(limit);
            let mut names: Vec<TopicName> = in_memory.chain(cold).cloned().collect();
            names.sort_unstable_by(|a, b| Name::compare(a.as_bytes(), b.as_bytes()));
            let known = (names.len() <= limit && ahead.until != *until).then(|| ahead.until.clone());
            let known = names.get(limit).map(|name| Name::bytes(name.as_bytes())).or(known);
            names.truncate(limit);
            if names.len() == limit || known.is_none() {
                return Ok(Upcoming { names, known });
            }
            // The others that were read are gone. What comes before the rest meanwhile is seen as well.
            ahead.read_on(from, until);
        }
    }

    /// Takes what was read of a shelf.
    pub(super) fn take(
        &mut self,
        group: GroupNumber,
        state: &State,
        entries: Vec<(KeyBytes, Page)>,
        rest: Option<KeyBytes>,
    ) {
        let ahead = self.ahead.as_mut().expect("a walk that has asked looks ahead");
        ahead.shelf += 1;
        ahead.cut(rest.map(|rest| Vec::from(name_in(&rest))));
        for (key, page) in entries {
            let Page::Topic(page) = page else { panic!("on a shelf there is nothing but topics: {page:?}") };
            // What is in memory is the truth.
            if state.topics.find(group, &page.name).is_none() {
                ahead.put(Vec::from(name_in(&key)), page.view(state.now));
            }
        }
    }

    /// A topic has come into memory.
    pub(super) fn came(&mut self, name: &TopicName) {
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| !ahead.rows.is_empty()) {
            ahead.remove(&Name::bytes(name.as_bytes()));
        }
    }

    /// A topic leaves memory.
    pub(super) fn left(&mut self, topic: &Topic, now: Now) {
        let Some((from, _)) = &self.span else { return };
        if let Some(ahead) = &mut self.ahead
            && Name::compare_key(topic.name.as_bytes(), from).is_ge()
            && ahead.holds(&topic.name)
        {
            ahead.put(Name::bytes(topic.name.as_bytes()), topic.view(now));
        }
    }

    /// The topics that are known ahead, and how many bytes they take.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &TopicName> {
        self.ahead.iter().flat_map(|ahead| ahead.rows.values().map(|row| &row.name))
    }
}

fn next_span(prefixes: &mut Names) -> Option<(Vec<u8>, Vec<u8>)> {
    prefixes.next().map(|prefix| (Name::bytes(prefix.as_bytes()), Name::prefix_end(prefix.as_bytes())))
}

/// What comes next on a walk.
pub(super) struct Upcoming {
    pub(super) names: Vec<TopicName>,
    /// Before this place in the order of names these are all; `None` if there are no more.
    pub(super) known: Option<Vec<u8>>,
}

impl Ahead {
    fn of(from: Vec<u8>, until: Vec<u8>) -> Ahead {
        Ahead { from, until, rows: BTreeMap::new(), bytes: 0, shelf: 0 }
    }

    /// What has to be read before it is known what comes next.
    fn want(&mut self, group: GroupNumber, state: &State) -> Option<Want> {
        if self.from >= self.until {
            return None;
        }
        let shelf = self.next_shelf(&state.groups[group].cold)?;
        let bound = |name: &[u8]| Key::topic_bound(group, shelf, name);
        Some(Want::Range(Range { from: bound(&self.from), until: bound(&self.until), limit: ROWS as u32 }))
    }

    /// Reads on behind what is known, at or behind a place, and keeps that.
    fn read_on(&mut self, place: &[u8], until: &[u8]) {
        let known = core::mem::replace(&mut self.until, Vec::from(until));
        self.from = known.max(Vec::from(place));
        self.shelf = 0;
    }

    /// The next shelf on which there is anything that is not in memory. What leaves for one of the others later is told.
    fn next_shelf(&mut self, cold: &[u64]) -> Option<Shelf> {
        while *cold.get(self.shelf)? == 0 {
            self.shelf += 1;
        }
        Shelf::all().nth(self.shelf)
    }

    fn holds(&self, name: &TopicName) -> bool {
        Name::compare_key(name.as_bytes(), &self.until).is_lt()
    }

    /// Whether a topic in memory comes before all that are not, as far as those are known.
    fn comes_before_rows(&self, name: &TopicName) -> bool {
        let first = self.rows.first_key_value();
        self.holds(name) && first.is_none_or(|(row, _)| Name::compare_key(name.as_bytes(), row).is_lt())
    }

    fn take_first(&mut self) -> Option<TopicView> {
        let (key, view) = self.rows.pop_first()?;
        self.bytes -= weight(&key);
        Some(view)
    }

    /// Nothing before a place is of interest any more.
    fn forget_before(&mut self, place: &[u8]) {
        while let Some(first) = self.rows.first_entry().filter(|first| &first.key()[..] < place) {
            self.bytes -= weight(first.key());
            first.remove();
        }
    }

    fn put(&mut self, key: Vec<u8>, view: TopicView) {
        if key >= self.until {
            return;
        }
        let added = weight(&key);
        // One that left for a shelf which is read only then is told twice, and is the same both times.
        if self.rows.insert(key, view).is_none() {
            self.bytes += added;
        }
        while self.rows.len() > ROWS || self.bytes > BYTES {
            let (last, _) = self.rows.pop_last().expect("there are many");
            self.bytes -= weight(&last);
            self.until = last;
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if self.rows.remove(key).is_some() {
            self.bytes -= weight(key);
        }
    }

    /// Nothing is known from here on.
    fn cut(&mut self, until: Option<Vec<u8>>) {
        let Some(until) = until.filter(|until| *until < self.until) else { return };
        let gone = self.rows.split_off(&until);
        self.bytes -= gone.keys().map(|key| weight(key)).sum::<usize>();
        self.until = until;
    }
}

/// About how many bytes a row takes: its name stands in it twice.
fn weight(key: &[u8]) -> usize {
    size_of::<(Vec<u8>, TopicView)>() + 2 * key.len()
}

fn name_in(key: &[u8]) -> &[u8] {
    Key::parse_topic_bound(key).expect("a topic was read").2
}
