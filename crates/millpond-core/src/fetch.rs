//! What the core asks of the disk, and what it does with the answers: they bring topics into memory, open the gates of
//! parked commands, tell these what they look up, and let time look ahead.
//!
//! Answers come late and in any order. One about a topic that is in memory by then is news of the past, and is ignored.

use alloc::collections::BTreeSet;
use alloc::collections::btree_map::{BTreeMap, Entry};
use alloc::vec::Vec;

use millpond_types::{Millis, RunTime, TopicName, WallTime};

use crate::Core;
use crate::fact::{FactLog, GroupNumber, NamespaceNumber};
use crate::jobs::Entries;
use crate::page::{DuePage, Page, TopicPage};
use crate::state::entries::Kept;
use crate::state::topic::Topic;
use crate::state::{Now, TopicSlot};
use crate::store::{Answer, Clock, Found, Key, KeyBytes, Moment, Part, Range, Shelf, Spread, Want};

/// Deadlines of topics in the store are looked for this far ahead while there is room: longer than any answer takes.
pub(crate) const HORIZON: Millis = Millis::seconds(60);
/// Topics that are loaded at a time because a deadline is near, at most, and with no room for any.
const DUE_SLICE: usize = 1_000;
const DUE_SLICE_MIN: usize = 16;
/// So many bytes topics may take whatever the room, of which some fall due before long.
const DUE_ROOM: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Fetching {
    /// What was asked for and has not come, and whether it may bring what somebody is to be served.
    asked: BTreeMap<Want, bool>,
    /// Of how many of these that is so.
    serving: usize,
    /// Those that the shell has not been told.
    wanted: Vec<Want>,
    /// Pieces that were asked for because time changes them.
    pub(crate) due_pieces: BTreeSet<Want>,
    wall: Horizon,
    run: Horizon,
}

/// How far ahead the deadlines of topics in the store are known, by one clock. Its moments are in milliseconds.
#[derive(Default)]
struct Horizon {
    /// Up to here: topics with a deadline up to this moment are in memory, or asked for.
    seen: u64,
    /// Where to go on among the deadlines of that moment, if the last slice ended there, with entries or among what is gone.
    rest: Option<KeyBytes>,
    /// The slice that was asked for, and the last moment of its stretch.
    slice: Option<(Want, u64)>,
    /// The first deadline of topics that have left since it was asked for.
    left: Option<u64>,
    /// Topics of the last slice that have not come.
    loading: BTreeSet<KeyBytes>,
    /// Up to here they have come.
    known: u64,
}

impl Core {
    /// What something waits for, each told once. The shell drains it and hands the answers in with [`Core::load`].
    pub fn wanted(&mut self) -> &mut Vec<Want> {
        &mut self.fetching.wanted
    }

    /// Hands in an answer, and decides what waited for nothing else. Belongs into a turn, beside its commands.
    pub fn load(&mut self, answer: Answer, log: &mut dyn FactLog) {
        let want = answer.want();
        self.fetching.came(&want);
        let mut for_jobs = None;
        match answer {
            Answer::Entry(key, page) => {
                self.fetching.horizons().into_iter().for_each(|horizon| horizon.came(&key));
                self.take_in(&key, page);
                self.arrived(&key);
            }
            Answer::Range { entries, rest, .. } if self.jobs.wait_for(&want) => {
                for_jobs = Some(Entries { entries, rest });
            }
            Answer::Range { entries, rest, .. } if self.fetching.wall.waits_for(&want) => {
                self.saw_deadlines(Clock::Wall, entries, rest);
            }
            Answer::Range { entries, rest, .. } if self.fetching.run.waits_for(&want) => {
                self.saw_deadlines(Clock::Run, entries, rest);
            }
            Answer::Range { range, entries, rest } => {
                self.take_in_ahead(entries);
                self.dispatcher.range_loaded(&range, rest.as_ref());
            }
            Answer::Spread { spread, parts } => {
                for Part { from, until, entries } in parts {
                    self.take_in_ahead(entries);
                    self.dispatcher.reach.know(&from, &until);
                }
                self.dispatcher.reach.answered(&spread.range);
            }
        }
        self.unpark(log);
        self.arrived_for_jobs(&want, for_jobs, log);
    }

    /// How many entries are kept that were fetched for parked commands and for jobs.
    pub fn fetched_count(&self) -> usize {
        self.state.fetched.len()
    }

    /// What dispatch counts as on its way for consumers of names or prefixes is so: what it counts in vain would hold them up for
    /// ever.
    pub(crate) fn check_named(&self) {
        let begin = |want: &Want| match want {
            Want::Range(range) | Want::Spread(Spread { range, .. }) => Some(range.from.clone()),
            Want::Entry(_) => None,
        };
        let asked: BTreeSet<KeyBytes> = self.fetching.asked.keys().filter_map(begin).collect();
        assert!(self.dispatcher.reach.named().all(|from| asked.contains(from)), "what was asked for is on its way");
    }

    /// Asks for what dispatch or a command waits for.
    pub(crate) fn want(&mut self, want: Want) {
        // What is looked up for a command is nothing that could be ready.
        let is_lookup = matches!(&want, Want::Entry(key) if Key::is_looked_up(key));
        self.fetching.ask(want, !is_lookup);
    }

    /// Asks for what a job waits for, or what time may change later.
    pub(crate) fn want_aside(&mut self, want: Want) {
        self.fetching.ask(want, false);
    }

    /// Whether something is on its way that may be ready to be served.
    pub(crate) fn is_fetching(&self) -> bool {
        self.fetching.serving > 0
    }

    /// Whether something was asked for and has not come.
    pub(crate) fn is_asked_for(&self, want: &Want) -> bool {
        self.fetching.asked.contains_key(want)
    }

    /// Lets the shell know what dispatch wants.
    pub(crate) fn pass_on_wants(&mut self) {
        self.ask_for_named();
        for want in core::mem::take(self.dispatcher.wanted()) {
            self.want(want);
        }
    }

    /// The entries in which topics of a name that are not in memory may be, and only the disk knows; none if there is no
    /// such topic in any group, or all are in memory from here on.
    pub(crate) fn look_up(&mut self, namespace: NamespaceNumber, name: &TopicName) -> Vec<KeyBytes> {
        let mut missing = Vec::new();
        for at in 0..self.state.namespaces[namespace].groups.len() {
            let group = self.state.namespaces[namespace].groups[at];
            if self.state.groups[group].is_cold() && self.state.topics.find(group, name).is_none() {
                self.look_up_in(group, name, &mut missing);
            }
        }
        missing
    }

    /// Where a group's topic may be that is not in memory, and only the disk knows; nothing is added if there is no such
    /// topic or it is in memory from here on.
    pub(crate) fn look_up_in(&mut self, group: GroupNumber, name: &TopicName, missing: &mut Vec<KeyBytes>) {
        let before = missing.len();
        for shelf in self.state.groups[group].cold_shelves() {
            let key = Key::Topic { group, shelf, name: name.clone() };
            match self.state.store.find(&key) {
                Found::Absent => {}
                Found::OnDisk => missing.push(key.bytes()),
                Found::Here(page) => {
                    let Page::Topic(page) = *page else { unreachable!("a topic's entry is a topic") };
                    self.take_in_topic(page, shelf);
                    return missing.truncate(before);
                }
            }
        }
    }

    /// Takes a topic into memory, unless it is there.
    fn take_in_topic(&mut self, page: TopicPage, shelf: Shelf) -> Option<TopicSlot> {
        let slot = self.state.take_in(page, shelf)?;
        let Core { state, dispatcher, parking, jobs, .. } = self;
        let topic = &state.topics[slot];
        dispatcher.loaded(topic.group, shelf, &topic.name);
        jobs.topic_came(topic.group, &topic.name);
        parking.appeared(topic.namespace, topic.group, &topic.name);
        Some(slot)
    }

    /// Takes topics into memory that were read because dispatch may come to them, those that are not there.
    fn take_in_ahead(&mut self, entries: Vec<(KeyBytes, Page)>) {
        let (mut topics, before) = (0, self.resident_bytes());
        for (key, page) in entries {
            let (Some((_, shelf, _)), Page::Topic(page)) = (Key::parse_topic_bound(&key), page) else {
                unreachable!("a range of topics was asked for")
            };
            if let Some(slot) = self.take_in_topic(page, shelf) {
                self.state.brought(slot);
                topics += 1;
            }
        }
        self.dispatcher.reach.took_in(topics, self.resident_bytes() - before);
    }

    /// Takes a topic or a piece of a line into memory, unless it is there, and what a parked command looks up.
    fn take_in(&mut self, key: &KeyBytes, page: Option<Page>) {
        match (Key::parse(key), page) {
            (Some(Key::Topic { shelf, .. }), Some(Page::Topic(page))) => {
                self.take_in_topic(page, shelf);
            }
            (Some(Key::Piece { .. }), Some(Page::Piece(page))) => self.state.take_in_piece(page),
            (Some(Key::Dedup { .. } | Key::Producer { .. } | Key::Dead { .. }), page)
                if self.parking.looks_into(key) || self.jobs.wait_for(&Want::Entry(key.clone())) =>
            {
                self.state.fetched.insert(key.clone(), Kept::new(page));
            }
            _ => {}
        }
    }

    /// Looks for topics in the store that time is about to change.
    pub(crate) fn look_ahead(&mut self) {
        if self.looks_ahead() {
            let Now { run, wall } = self.state.now;
            let (ahead, slice) = (self.ahead(), self.due_slice());
            let Fetching { wall: by_wall, run: by_run, .. } = &mut self.fetching;
            let wants =
                [by_wall.look((Clock::Wall, wall.0), ahead, slice), by_run.look((Clock::Run, run.0), ahead, slice)];
            wants.into_iter().flatten().for_each(|want| self.want_aside(want));
        }
    }

    fn looks_ahead(&self) -> bool {
        self.state.cold > 0 && !self.is_time_held
    }

    /// How far ahead deadlines are looked for. With little room topics are loaded when time has changed them, and not before.
    fn ahead(&self) -> Millis {
        if self.room_for_due() > 0 { HORIZON } else { Millis::ZERO }
    }

    /// What is loaded because it falls due makes nothing else leave, nor leaves itself, to be loaded again.
    fn room_for_due(&self) -> usize {
        let room = self.state.residents.room.max(DUE_ROOM);
        (room / 4 * 3).saturating_sub(self.resident_bytes())
    }

    /// As many topics as there is room for, if they are like those in memory.
    fn due_slice(&self) -> u32 {
        let of_one = self.resident_bytes() / self.resident_count().max(1);
        (self.room_for_due() / of_one.max(size_of::<Topic>())).clamp(DUE_SLICE_MIN, DUE_SLICE) as u32
    }

    /// How long until the next look ahead is due.
    pub(crate) fn next_look_ahead(&self) -> Option<u64> {
        let Now { run, wall } = self.state.now;
        let ahead = self.ahead();
        let waits = [self.fetching.wall.next_look(wall.0, ahead), self.fetching.run.next_look(run.0, ahead)];
        waits.into_iter().flatten().min().filter(|_| self.looks_ahead())
    }

    /// Whether topics in the store may have deadlines that have passed and nobody knows of: for some turns after a start or
    /// a leap of the clock. Until they are read, such a topic stands where it stood before.
    pub fn is_behind_time(&self) -> bool {
        let (Now { run, wall }, Fetching { run: by_run, wall: by_wall, .. }) = (self.state.now, &self.fetching);
        self.state.cold > 0 && (by_run.known < run.0 || by_wall.known < wall.0)
    }

    /// No topic leaves memory that time changes up to this moment: it would only be loaded again. Without room for them
    /// those leave that time has still to change.
    pub(crate) fn horizon(&self) -> Now {
        let Now { run, wall } = self.state.now;
        if self.resident_bytes() > self.state.residents.room.max(DUE_ROOM) {
            return Now { run, wall };
        }
        let (seen_run, seen_wall) = (RunTime(self.fetching.run.seen), WallTime(self.fetching.wall.seen));
        Now { run: seen_run.max(run + HORIZON), wall: seen_wall.max(wall + HORIZON) }
    }

    /// A topic has left that time changes at these moments: those behind the horizon up to which none leaves have to be found
    /// again.
    pub(crate) fn left_with(&mut self, moments: impl Iterator<Item = Moment>, Now { run, wall }: Now) {
        for Moment { clock, at } in moments {
            let end = match clock {
                Clock::Wall => wall.0,
                Clock::Run => run.0,
            };
            if at > end {
                self.fetching.horizon(clock).left_with(at);
            }
        }
    }

    fn saw_deadlines(&mut self, clock: Clock, entries: Vec<(KeyBytes, Page)>, rest: Option<KeyBytes>) {
        let horizon = self.fetching.horizon(clock);
        let (_, until) = horizon.slice.take().expect("a slice was asked for");
        horizon.seen = until;
        if let Some(rest) = rest {
            horizon.seen = Key::parse_due_bound(&rest).expect("deadlines were asked for").at;
            horizon.rest = Some(rest);
        }
        if let Some(at) = horizon.left.take() {
            horizon.left_with(at);
        }
        for (_, page) in entries {
            let Page::Due(DuePage { group, name, shelf, .. }) = page else { continue };
            if self.state.topics.find(group, &name).is_none() {
                let key = Key::Topic { group, shelf, name }.bytes();
                self.fetching.horizon(clock).loading.insert(key.clone());
                self.want_aside(Want::Entry(key));
            }
        }
        self.fetching.horizon(clock).take_note();
    }
}

impl Fetching {
    /// Asks for something, once; several may wait for it, of whom one is to be served.
    fn ask(&mut self, want: Want, serves: bool) {
        match self.asked.entry(want) {
            Entry::Vacant(place) => {
                self.wanted.push(place.key().clone());
                place.insert(serves);
                self.serving += usize::from(serves);
            }
            Entry::Occupied(mut place) => {
                self.serving += usize::from(serves && !place.insert(serves || *place.get()));
            }
        }
    }

    /// Something has come.
    fn came(&mut self, want: &Want) {
        self.serving -= usize::from(self.asked.remove(want) == Some(true));
        self.due_pieces.remove(want);
    }

    fn horizon(&mut self, clock: Clock) -> &mut Horizon {
        match clock {
            Clock::Wall => &mut self.wall,
            Clock::Run => &mut self.run,
        }
    }

    fn horizons(&mut self) -> [&mut Horizon; 2] {
        [&mut self.wall, &mut self.run]
    }
}

impl Horizon {
    /// The next slice, if it is time to look at it.
    fn look(&mut self, (clock, now): (Clock, u64), ahead: Millis, limit: u32) -> Option<Want> {
        if self.next_look(now, ahead)? > 0 {
            return None;
        }
        let (bound, until) = (|at| Key::due_bound(Moment { clock, at }), now + ahead.0);
        let from = self.rest.take().unwrap_or_else(|| bound(self.seen + 1));
        let want = Want::Range(Range { from, until: bound(until + 1), limit });
        self.slice = Some((want.clone(), until));
        Some(want)
    }

    /// How long until it is time to look, if nothing of the last look is on its way.
    fn next_look(&self, now: u64, ahead: Millis) -> Option<u64> {
        if self.is_busy() {
            return None;
        }
        let at = match self.rest {
            Some(_) => self.seen.saturating_sub(ahead.0),
            None => (self.seen + 1).saturating_sub(ahead.0 / 2),
        };
        Some(at.saturating_sub(now))
    }

    /// A deadline is to be found from here on.
    fn left_with(&mut self, at: u64) {
        if self.slice.is_some() {
            self.left = Some(self.left.map_or(at, |before| before.min(at)));
        }
        if at <= self.seen {
            self.seen = at - 1;
            self.known = self.known.min(self.seen);
            self.rest = None;
        }
    }

    /// Whether a slice is on its way, or topics of the last one are.
    fn is_busy(&self) -> bool {
        self.slice.is_some() || !self.loading.is_empty()
    }

    fn came(&mut self, key: &KeyBytes) {
        self.loading.remove(key);
        self.take_note();
    }

    fn take_note(&mut self) {
        if self.loading.is_empty() {
            self.known = self.seen;
        }
    }

    fn waits_for(&self, want: &Want) -> bool {
        self.slice.as_ref().is_some_and(|(slice, _)| slice == want)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_wait_for_hides_nothing_that_is_to_be_served() {
        let want = |byte| Want::Entry(KeyBytes::from(&[byte][..]));
        let mut fetching = Fetching::default();
        // Time and a job wait for the same topics, and dispatch for another one.
        for (of, serves) in [(1, false), (1, false), (2, false), (2, false), (3, true)] {
            fetching.ask(want(of), serves);
        }
        assert_eq!((fetching.serving, fetching.wanted.len()), (1, 3), "each is asked for once");
        fetching.ask(want(1), true);
        fetching.ask(want(1), false);
        fetching.came(&want(3));
        assert_eq!(fetching.serving, 1, "dispatch waits for what time has asked for, too");
        fetching.came(&want(1));
        fetching.came(&want(1));
        fetching.came(&want(2));
        assert_eq!((fetching.serving, fetching.asked.len()), (0, 0));
    }
}
