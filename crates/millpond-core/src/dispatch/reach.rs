//! What dispatch knows of the topics that are not in memory.
//!
//! Per group and priority: how many topics stand on that shelf of the store and not in memory, and *stretches* of
//! the order of names in which there are none, because all of them were loaded. What dispatch would step over outside
//! of a stretch is *unknown*, and is wanted from the store before anything behind it has its turn. So the order of
//! dispatch is that of the names, wherever the topics are.
//!
//! Invariant: no topic stands on the shelf and not in memory within a stretch, but for those that are paused by their
//! name, which dispatch passes over wherever they are. To forget a stretch is always safe, and costs a read at most.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use millpond_types::limits::{PREFIXES_MAX, PRIORITIES};
use millpond_types::{Priority, TopicName};

use crate::dispatch::stretches::{FORGET_SHARE, Span, Stretches, Uses};
use crate::dispatch::turns::TENANTS_MAX;
use crate::fact::GroupNumber;
use crate::state::topics::Edge;
use crate::store::{Key, KeyBytes, Name, Range, Shelf, Spread, Want};

/// Topics asked for at once where dispatch goes on in one place: a read of some tens of kilobytes, and fewer than a
/// millisecond's work to take in.
pub(crate) const READ_AHEAD: u32 = 512;
/// Topics asked for at once at least, wherever it goes and however little room there is.
pub(crate) const READ_AHEAD_MIN: u32 = 2;
/// Topics of each tenant in a read that looks for tenants: so it finds sixteen of them at least.
const OF_TENANT_MAX: u32 = READ_AHEAD / TENANTS_FOUND;
const TENANTS_FOUND: u32 = 16;
/// One part in so many of the room for topics is for what is read ahead: there are two reads of each stretch in memory,
/// the one that is served and the next, and what was served stays until it is finished.
const AHEAD_SHARE: usize = 4;
/// Stretches that are kept in however little room: some quarter of a megabyte, or six times that with the longest names. To know
/// whose turn it is may take one of each prefix of a scope at each priority, and where they have to be read, they come one
/// after another.
const STRETCHES_MIN: usize = 1024;
const _: () = assert!(STRETCHES_MIN * (FORGET_SHARE - 1) / FORGET_SHARE > PREFIXES_MAX * PRIORITIES);
/// Reads for consumers of names or prefixes that are on their way at a time, of all of them: whoever attaches and goes again and
/// again asks for other ones each time, and others wait for these.
const NAMED_MAX: usize = 256;
/// About what a topic with a message or two takes of that room. Those that hold more are found to when they come.
const TOPIC_BYTES: usize = 512;

const LOWEST: Priority = Priority::new(0).expect("it is one");

/// For whom it is read on while dispatch goes from one place to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// For the one that is served: there is room for what comes next in each of them.
    Served,
    /// For the one whose turn comes after so many others: what is read for those behind it would be gone before theirs.
    After(usize),
    /// For none: they are more than are remembered, and nobody goes on with it; or nothing is read ahead.
    None,
}

/// For whom something is asked: dispatch at one of so many places of a shelf.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) group: GroupNumber,
    pub(crate) priority: Priority,
    pub(crate) places: usize,
    /// Whether it is for consumers of names or prefixes, and not of all topics.
    pub(crate) is_named: bool,
}

/// There is no room to ask for more.
struct Full;

/// What has to be read before it is known who is next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) spans: Vec<Span>,
    /// Whether it is which tenant is next, and not which topic.
    pub(crate) is_tenant: bool,
}

impl Unknown {
    /// Asks for it, as far as it is not on its way. False if there is no room for all of it.
    pub(crate) fn ask(self, reach: &mut Reach, of: Asker) -> bool {
        self.spans.into_iter().all(|span| match self.is_tenant {
            true => reach.ask_tenants(of, span),
            false => reach.ask(of, span),
        })
    }
}

/// The topics of a group that stand on the shelf of a priority.
#[derive(Default)]
struct ColdShelf {
    /// Those that are not in memory.
    cold: u64,
    /// Where there are none.
    stretches: Stretches,
    /// Where what was asked for and not answered begins.
    asked: BTreeSet<Vec<u8>>,
}

/// How many stretches there are, and what they take.
#[derive(Default, PartialEq, Debug)]
struct Known {
    count: usize,
    bytes: usize,
}

impl Known {
    fn add(&mut self, stretches: &Stretches) {
        self.count += stretches.count();
        self.bytes += stretches.bytes();
    }

    fn take_off(&mut self, stretches: &Stretches) {
        self.count -= stretches.count();
        self.bytes -= stretches.bytes();
    }
}

pub(crate) struct Reach {
    shelves: BTreeMap<(GroupNumber, Priority), ColdShelf>,
    /// The stretches of all shelves.
    known: Known,
    /// How many bytes they may take.
    known_room: usize,
    uses: Uses,
    wanted: Vec<Want>,
    /// Where what was asked for consumers of names or prefixes and not answered begins, whether its shelf is still there or not.
    named: BTreeSet<KeyBytes>,
    /// Bytes that topics which are read ahead may take, of all stretches of a shelf together.
    room: usize,
    /// What one takes, by those that came last.
    topic_bytes: usize,
    /// Whether only what somebody waits for is read, and as little as may be.
    is_held_back: bool,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach {
            shelves: BTreeMap::new(),
            known: Known::default(),
            known_room: usize::MAX,
            uses: Uses::default(),
            wanted: Vec::new(),
            named: BTreeSet::new(),
            room: usize::MAX,
            topic_bytes: TOPIC_BYTES,
            is_held_back: false,
        }
    }
}

impl Reach {
    /// Sets how many bytes there are for topics in memory.
    pub(crate) fn set_room(&mut self, bytes: usize) {
        self.room = bytes / AHEAD_SHARE;
    }

    /// Sets how many bytes there are for stretches.
    pub(super) fn set_known_room(&mut self, bytes: usize) {
        self.known_room = bytes;
    }

    /// How many bytes stretches take.
    pub(super) fn known_bytes(&self) -> usize {
        self.known.bytes
    }

    /// Topics that were read ahead take so many bytes together: as many fewer are read ahead the more they take, and more
    /// again only bit by bit.
    pub(crate) fn took_in(&mut self, topics: usize, bytes: usize) {
        if let Some(of_one) = bytes.checked_div(topics) {
            self.topic_bytes = of_one.max((3 * self.topic_bytes + of_one) / 4).max(TOPIC_BYTES);
        }
    }

    /// Topics that may be read ahead at a time, of all stretches of a shelf together.
    fn ahead(&self) -> u32 {
        let topics = if self.is_held_back { 0 } else { self.room / self.topic_bytes };
        u32::try_from(topics).unwrap_or(u32::MAX)
    }

    /// Whether topics take all the room there is for them, so that nothing is read ahead.
    pub(crate) fn hold_back(&mut self, is_held_back: bool) {
        self.is_held_back = is_held_back;
    }

    /// Whether all topics that offer something at a priority are in memory.
    pub(crate) fn is_all(&self, group: GroupNumber, priority: Priority) -> bool {
        self.shelf(group, priority).is_none()
    }

    /// Whether it is known without a closer look that nothing unknown is between two edges.
    pub(crate) fn is_known(&self, group: GroupNumber, priority: Priority, from: Edge<'_>, until: Edge<'_>) -> bool {
        self.shelf(group, priority).is_none_or(|shelf| shelf.stretches.reach_over(from, until, &self.uses))
    }

    /// The first unknown part of a span.
    pub(crate) fn first_unknown(&self, group: GroupNumber, priority: Priority, span: &Span) -> Option<Span> {
        self.shelf(group, priority)?.stretches.first_unknown(span, &self.uses)
    }

    /// Where to read on, if a topic that is served stands near the end of its stretch and nobody has asked for more yet.
    pub(crate) fn read_on(&self, group: GroupNumber, priority: Priority, served: &TopicName) -> Option<&[u8]> {
        let shelf = self.shelf(group, priority)?;
        let stretch = shelf.stretches.with(served, &self.uses).filter(|_| !self.is_held_back)?;
        let is_near = Name::compare_key(served.as_bytes(), &stretch.ahead).is_ge();
        (is_near && !shelf.asked.contains(&stretch.span.until)).then_some(&stretch.span.until[..])
    }

    /// Asks for a span, unless that is on its way. False if there is no room for it.
    pub(crate) fn ask(&mut self, of: Asker, span: Span) -> bool {
        let range = self.range(of, span, limit(self.ahead() / of.places as u32));
        range.map(|range| self.wanted.extend(range.map(Want::Range))).is_ok()
    }

    /// For which of so many places it is read on while one of them is served.
    pub(crate) fn pace(&self, places: usize) -> Pace {
        let of_each = self.ahead() as usize / places;
        match of_each >= READ_AHEAD_MIN as usize {
            _ if places > TENANTS_MAX || self.is_held_back => Pace::None,
            true => Pace::Served,
            // Each takes two topics: one to be served with, and one that tells that it has more. Half of the room is for those
            // that have come, and half for those that are on their way.
            false => Pace::After((self.ahead() / 4).clamp(1, READ_AHEAD) as usize),
        }
    }

    /// Asks for the tenants in a span, and what each is to be served with first, unless that is on its way. False if there is no
    /// room for it.
    pub(crate) fn ask_tenants(&mut self, of: Asker, span: Span) -> bool {
        let (pace, of_each) = (self.pace(of.places), limit(self.ahead() / of.places as u32));
        let (most, of_tenant) = match pace {
            Pace::Served => (limit(self.ahead()), of_each.min(OF_TENANT_MAX)),
            // Most tenants go on somewhere else than at their first topics.
            Pace::After(_) => (2 * TENANTS_FOUND, 2),
            // None goes on with what is read for later: it is served with one topic, and another one tells that it has more.
            Pace::None => (limit(self.ahead()), 2),
        };
        let spread = |range| Want::Spread(Spread { range, of_tenant });
        self.range(of, span, most).map(|range| self.wanted.extend(range.map(spread))).is_ok()
    }

    /// The range of a span, unless it is on its way.
    fn range(&mut self, of: Asker, span: Span, limit: u32) -> Result<Option<Range>, Full> {
        let Asker { group, priority, is_named, .. } = of;
        let shelf = self.shelves.get_mut(&(group, priority)).filter(|shelf| !shelf.asked.contains(&span.from));
        let Some(shelf) = shelf else { return Ok(None) };
        let bound = |name: &[u8]| Key::topic_bound(group, Shelf::Ready(priority), name);
        let range = Range { from: bound(&span.from), until: bound(&span.until), limit };
        if is_named && self.named.len() >= NAMED_MAX {
            return Err(Full);
        }
        if is_named {
            self.named.insert(range.from.clone());
        }
        shelf.asked.insert(span.from);
        Ok(Some(range))
    }

    /// Where what was asked for consumers of names or prefixes begins.
    pub(crate) fn named(&self) -> impl Iterator<Item = &KeyBytes> {
        self.named.iter()
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

    /// A topic has left memory for a shelf, and is passed over there.
    pub(crate) fn pass_over(&mut self, group: GroupNumber, priority: Priority) {
        // Where there is no shelf, all of it is known, and stays so.
        let known = || {
            let stretches = Stretches::whole(&self.uses);
            self.known.add(&stretches);
            ColdShelf { stretches, ..ColdShelf::default() }
        };
        let shelf = self.shelves.entry((group, priority)).or_insert_with(known);
        shelf.cold += 1;
    }

    /// It is not known any more whether a topic stands on a shelf and not in memory.
    pub(crate) fn forget(&mut self, group: GroupNumber, priority: Priority, name: &TopicName) {
        self.change_known((group, priority), |stretches, _| stretches.forget(name));
    }

    /// A topic of a shelf has come into memory, or is gone.
    pub(crate) fn loaded(&mut self, group: GroupNumber, priority: Priority) {
        let shelf = self.shelves.get_mut(&(group, priority)).expect("a cold topic is on a shelf");
        shelf.cold -= 1;
        if shelf.cold == 0 {
            self.known.take_off(&shelf.stretches);
            self.shelves.remove(&(group, priority));
        }
    }

    /// What was asked for has been read.
    pub(crate) fn answered(&mut self, range: &Range) {
        self.named.remove(&range.from);
        let (group, priority, from) = parse_bound(&range.from);
        if let Some(shelf) = self.shelves.get_mut(&(group, priority)) {
            shelf.asked.remove(from);
        }
    }

    /// Between two keys of a shelf, all topics are in memory.
    pub(crate) fn know(&mut self, from: &KeyBytes, until: &KeyBytes) {
        let ((group, priority, from), (_, _, until)) = (parse_bound(from), parse_bound(until));
        // Where none is cold any more, that is known without stretches.
        let span = Span { from: from.to_vec(), until: until.to_vec() };
        self.change_known((group, priority), |stretches, uses| stretches.add(span, uses));
    }

    /// Changes what is known of a shelf, if it is there.
    fn change_known(&mut self, shelf: (GroupNumber, Priority), change: impl FnOnce(&mut Stretches, &Uses)) {
        let Some(ColdShelf { stretches, .. }) = self.shelves.get_mut(&shelf) else { return };
        self.known.take_off(stretches);
        change(stretches, &self.uses);
        self.known.add(stretches);
        if self.known.bytes > self.known_room {
            self.forget_stretches();
        }
    }

    /// Forgets those that were of use before all others, of whatever shelf, until there is room.
    fn forget_stretches(&mut self) {
        while self.known.bytes > self.known_room && self.known.count > STRETCHES_MIN {
            let mut uses: Vec<u64> = self.shelves.values().flat_map(|shelf| shelf.stretches.uses()).collect();
            let share = uses.len() / FORGET_SHARE;
            let (_, last, _) = uses.select_nth_unstable(share);
            self.shelves.values_mut().for_each(|shelf| shelf.stretches.forget_old(*last));
            self.known = self.weigh_known();
        }
    }

    fn weigh_known(&self) -> Known {
        let mut known = Known::default();
        self.shelves.values().for_each(|shelf| known.add(&shelf.stretches));
        known
    }

    pub(super) fn check_known_bytes(&self) {
        assert_eq!(self.known, self.weigh_known(), "what stretches take is summed up");
    }

    fn shelf(&self, group: GroupNumber, priority: Priority) -> Option<&ColdShelf> {
        if self.shelves.is_empty() { None } else { self.shelves.get(&(group, priority)) }
    }
}

/// Of so many topics, as many as may be asked for at once.
fn limit(topics: u32) -> u32 {
    topics.clamp(READ_AHEAD_MIN, READ_AHEAD)
}

fn parse_bound(key: &KeyBytes) -> (GroupNumber, Priority, &[u8]) {
    let (group, shelf, name) = Key::parse_topic_bound(key).expect("topics were asked for");
    let Shelf::Ready(priority) = shelf else { unreachable!("dispatch asks for what is ready") };
    (group, priority, name)
}
