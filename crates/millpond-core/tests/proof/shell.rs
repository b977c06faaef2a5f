//! The shell around a core in a test: it owns the core, its journal and both times, drives turns, and checks after each
//! of them all that must hold whatever the history.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Ticket};
use millpond_core::fact::GroupNumber;
use millpond_core::output::{Holdings, Notice, Output, Reply};
use millpond_core::page::Page;
use millpond_core::store::Want;
use millpond_core::{Core, LevelBounds, Now, invariants};
use millpond_types::{RunTime, WallTime};

use crate::checkpoint::{self, Expected, canonical};
use crate::journal::Journal;
use crate::store::SharedStore;

pub const HASH_KEY: [u64; 2] = [7, 11];
/// Where wall time begins: not at zero, so that it is not confused with run time.
pub const WALL_START: u64 = 1_000_000_000;

/// Producer sessions that stay in memory: fewer than there are.
const PRODUCERS: usize = 1;
/// Turns between two recoveries from the last checkpoint.
const RECOVER_EVERY: usize = 5;

pub struct Shell {
    pub core: Core,
    store: SharedStore,
    pub journal: Journal,
    pub now: Now,
    /// What the checkpoint must hold that is being captured.
    expected: Option<Expected>,
    /// How many facts there were when the checkpoint began that is being captured, and what it does not capture; then
    /// the same of the last one that was written.
    began: (usize, Vec<Page>),
    written: Option<(usize, Vec<Page>)>,
    /// How many facts there were behind each turn.
    turns: Vec<usize>,
    /// A core that is fed with the journal's facts alone.
    replica: Core,
    applied: usize,
    holdings: Holdings,
    /// What edges have to know, and were not told yet.
    pub notices: Vec<Notice>,
    tickets: u64,
    /// How much of its levels the core keeps in memory. The replica keeps more.
    bounds: LevelBounds,
}

impl Shell {
    pub fn new() -> Shell {
        Shell::with_bounds(LevelBounds::ENDS)
    }

    /// A shell whose core keeps so much of each line in memory.
    pub fn with_bounds(bounds: LevelBounds) -> Shell {
        let mut journal = Journal::default();
        let store = SharedStore::default();
        let mut core = Core::create(HASH_KEY, Box::new(store.clone()), &mut journal);
        core.set_bounds(bounds);
        core.set_producers_resident(PRODUCERS);
        let now = Now { run: RunTime(0), wall: WallTime(WALL_START) };
        core.start(now, false, &mut journal);
        let replica = empty();
        let (expected, holdings) = (None, Holdings::default());
        let mut shell = Shell {
            core,
            store,
            journal,
            now,
            expected,
            began: (0, Vec::new()),
            written: None,
            turns: Vec::new(),
            replica,
            applied: 0,
            holdings,
            notices: Vec::new(),
            tickets: 0,
            bounds,
        };
        // A start gives every lease some grace: that is over when a test begins, but where it restarts.
        shell.pass(60_000, 60_000);
        shell.turn(Vec::new());
        shell
    }

    pub fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Lets both times pass. What that brings comes with the next turn.
    pub fn pass(&mut self, run: u64, wall: u64) {
        self.now = Now { run: RunTime(self.now.run.0 + run), wall: WallTime(self.now.wall.0 + wall) };
    }

    /// A turn with some commands, checked.
    pub fn turn(&mut self, commands: Vec<(Ticket, Command)>) -> Vec<Output> {
        let outputs = self.bare_turn(commands);
        self.check();
        self.capture();
        self.turns.push(self.journal.facts.len());
        if self.turns.len().is_multiple_of(RECOVER_EVERY) {
            self.recover();
        }
        outputs
    }

    /// The answer to a question, which changes nothing.
    pub fn ask(&mut self, command: Command) -> Reply {
        let (ticket, facts) = (self.ticket(), self.journal.facts.len());
        let mut outputs = self.bare_turn(vec![(ticket, command)]);
        assert_eq!(self.journal.facts.len(), facts, "a question is no fact");
        match outputs.pop() {
            Some(Output::Reply { reply, .. }) if outputs.is_empty() => reply,
            other => panic!("one answer to a question, and no other output: {other:?}"),
        }
    }

    fn bare_turn(&mut self, commands: Vec<(Ticket, Command)>) -> Vec<Output> {
        self.core.set_time(self.now);
        for (ticket, command) in commands {
            self.core.submit(ticket, command, &mut self.journal);
            self.answer();
        }
        self.core.advance(&mut self.journal);
        self.answer();
        self.core.dispatch(&mut self.journal);
        let Holdings { stored, shared, freed, .. } = self.core.holdings();
        self.holdings.stored.append(stored);
        self.holdings.shared.append(shared);
        self.holdings.freed.append(freed);
        self.notices.append(self.core.notices());
        std::mem::take(self.core.outputs())
    }

    /// A disk that answers before the next command, so that commands are decided in the order in which they come.
    fn answer(&mut self) {
        while !self.core.wanted().is_empty() {
            for want in std::mem::take(self.core.wanted()) {
                self.core.load(self.store.fetch(want), &mut self.journal);
            }
        }
    }

    /// Starts anew with what the journal holds; after a crash, with all numbers raised.
    pub fn restart(&mut self, crash: bool) {
        self.store = SharedStore::default();
        (self.expected, self.written) = (None, None);
        let mut core = Core::empty(HASH_KEY, Box::new(self.store.clone()));
        core.set_bounds(self.bounds);
        core.set_producers_resident(PRODUCERS);
        self.journal.facts.iter().for_each(|(fact, position)| core.apply(fact, *position));
        core.start(self.now, crash, &mut self.journal);
        self.core = core;
        self.turn(Vec::new());
    }

    /// Lets the replica go on from a dump of the core instead of from the journal's beginning, and begins a checkpoint, of
    /// which each turn captures a little.
    pub fn checkpoint(&mut self) {
        self.replica = Core::from_pages(self.core.pages()).expect("a core's own pages are good");
        if !self.core.is_capturing() {
            self.expected = Some(Expected::of(self.core.pages()));
            let kept = self.core.pages().filter(|page| !checkpoint::is_captured(page)).collect();
            self.began = (self.journal.facts.len(), kept);
            self.core.freeze();
        }
    }

    /// A core that begins with the last checkpoint and has no room at all comes to the same state.
    fn recover(&mut self) {
        let Some((written, kept)) = &self.written else { return };
        let store = self.store.crashed();
        let mut core = checkpoint::recover(&store, kept);
        core.set_room(0);
        core.set_producers_resident(0);
        core.set_bounds(self.bounds);
        let mut from = *written;
        for to in self.turns.iter().copied().filter(|end| *end > *written) {
            let facts = &self.journal.facts[from..to];
            loop {
                let wants: BTreeSet<Want> = facts.iter().filter_map(|(fact, _)| core.needs(fact)).collect();
                if wants.is_empty() {
                    break;
                }
                wants.into_iter().for_each(|want| core.recall(store.fetch(want)));
            }
            facts.iter().for_each(|(fact, position)| core.apply(fact, *position));
            while core.make_room() {}
            invariants::check(&core);
            from = to;
        }
        core.set_time(self.now);
        let expected = canonical(self.core.pages());
        assert_same(&expected, core.pages(), "a checkpoint and the facts behind it give the same state");
    }

    fn capture(&mut self) {
        if self.core.is_capturing() && self.core.capture(1) {
            self.store.model().write_sealed();
            self.written = Some(std::mem::take(&mut self.began));
            let expected = self.expected.take().expect("taken down when the checkpoint began");
            expected.check(&self.store.disk());
        }
    }

    /// Time until the core wants a turn without being asked; `None` if never.
    pub fn next_wake(&self) -> Option<u64> {
        self.core.next_wake().map(|wait| wait.0)
    }

    fn check(&mut self) {
        invariants::check(&self.core);
        assert_eq!(self.core.forgotten(), 0, "everybody is told of what is ready");
        let pages: Vec<Page> = self.core.pages().collect();
        let state = canonical(pages.iter().cloned());

        for (fact, position) in &self.journal.facts[self.applied..] {
            self.replica.apply(fact, *position);
        }
        self.applied = self.journal.facts.len();
        self.replica.set_time(self.now);
        assert_same(&state, self.replica.pages(), "the facts replay to the same state");

        let read_back = Core::from_pages(pages).expect("a core's own pages are good");
        invariants::check(&read_back);
        assert_same(&state, read_back.pages(), "pages read back are the same pages");

        self.bytes_are_counted(&state);
        self.every_byte_is_live_or_freed();
    }

    /// Each group counts the bytes that it needs of the journal.
    fn bytes_are_counted(&self, state: &[Page]) {
        let mut needed: BTreeMap<GroupNumber, u64> = BTreeMap::new();
        self.core.extents(&mut |group, extent| *needed.entry(group).or_default() += u64::from(extent.length));
        for page in state {
            let Page::Namespace(page) = page else { continue };
            for group in &page.groups {
                assert_eq!(group.bytes, needed.get(&group.number).copied().unwrap_or(0), "the bytes of {}", group.name);
            }
        }
    }

    fn every_byte_is_live_or_freed(&self) {
        let mut known = self.holdings.freed.clone();
        self.core.extents(&mut |group, extent| known.push((group, extent)));
        known.sort_unstable();
        let mut stored: BTreeMap<GroupNumber, u64> = BTreeMap::new();
        self.holdings.stored.iter().for_each(|(group, bytes)| *stored.entry(*group).or_default() += bytes);
        for (group, extent) in &self.holdings.shared {
            *stored.entry(*group).or_default() += u64::from(extent.length);
        }
        let mut end = (0, 0);
        for (group, extent) in known {
            assert!((group, extent.position) >= end, "no byte of the journal is live twice, or freed and live");
            end = (group, extent.position + u64::from(extent.length));
            *stored.get_mut(&group).expect("what is known was stored") -= u64::from(extent.length);
        }
        assert!(stored.values().all(|bytes| *bytes == 0), "every byte stored is live or freed: {stored:?}");
        let all: u64 = self.journal.stored().map(|extent| u64::from(extent.length)).sum();
        let counted: u64 = self.holdings.stored.iter().map(|(_, bytes)| bytes).sum();
        assert!(counted >= all, "every byte is stored for somebody");
    }
}

fn empty() -> Core {
    Core::empty(HASH_KEY, Box::new(SharedStore::default()))
}

fn assert_same(expected: &[Page], found: impl Iterator<Item = Page>, what: &str) {
    let found = canonical(found);
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found, "{what}");
    }
    assert_eq!(expected.len(), found.len(), "{what}");
}
