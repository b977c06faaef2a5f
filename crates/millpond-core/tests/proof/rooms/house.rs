//! A core in its room, with a store that answers at once and a journal of its own.

use std::collections::BTreeSet;

use millpond_core::command::{Command, Ticket};
use millpond_core::output::{Holdings, LeasedRun, Output, Reply};
use millpond_core::store::{Answer, Key, KeyBytes, Range, Shelf, Want};
use millpond_core::{Core, Now, invariants};
use millpond_types::block::Sizes;
use millpond_types::{RunTime, WallTime};

use super::Room;
use crate::checkpoint;
use crate::journal::Journal;
use crate::shell::{HASH_KEY, WALL_START};
use crate::store::SharedStore;

pub struct House {
    pub room: Room,
    pub core: Core,
    pub journal: Journal,
    /// The outputs of the last turn.
    pub told: Vec<Output>,
    store: SharedStore,
    now: Now,
    /// The times of the last turn.
    last: Now,
    /// How many facts there were behind each turn.
    turns: Vec<usize>,
    /// How many there were when the checkpoint began that is being captured, and when the one began that was written.
    began: usize,
    written: Option<usize>,
    is_captured: bool,
    tickets: u64,
}

impl House {
    pub fn new(room: Room) -> House {
        let (mut journal, store) = (Journal::default(), SharedStore::default());
        let mut core = Core::create(HASH_KEY, Box::new(store.clone()), &mut journal);
        furnish(&mut core, room);
        let now = Now { run: RunTime(0), wall: WallTime(WALL_START) };
        core.start(now, false, &mut journal);
        let (turns, told) = (vec![journal.facts.len()], Vec::new());
        let (began, written, is_captured) = (0, None, false);
        let (last, tickets) = (now, 0);
        House { room, core, journal, told, store, now, last, turns, began, written, is_captured, tickets }
    }

    pub fn pass(&mut self, run: u64, wall: u64) {
        self.now = Now { run: RunTime(self.now.run.0 + run), wall: WallTime(self.now.wall.0 + wall) };
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.core.next_wake().map(|wait| wait.0)
    }

    pub fn resident(&self) -> usize {
        self.core.resident_count()
    }

    /// A turn with some commands. Each has a number of its own, the same in every house.
    pub fn turn(&mut self, commands: &[Command]) {
        self.core.set_time(self.now);
        for command in commands {
            self.tickets += 1;
            self.core.submit(Ticket(self.tickets), command.clone(), &mut self.journal);
            self.answer();
        }
        self.core.advance(&mut self.journal);
        self.answer();
        self.bring_what_is_ready();
        self.core.dispatch(&mut self.journal);
        assert!(self.core.wanted().is_empty(), "what is ready is in memory: {:?}", self.core.wanted());
        self.end_turn();
    }

    /// The ticket of the last command.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.tickets)
    }

    pub fn is_capturing(&self) -> bool {
        self.core.is_capturing() || self.is_captured
    }

    pub fn freeze(&mut self) {
        self.began = self.journal.facts.len();
        self.core.freeze();
    }

    /// Goes on with a checkpoint a little. True if one was begun, and all of it is captured.
    pub fn capture(&mut self) -> bool {
        if self.core.is_capturing() {
            self.is_captured = self.core.capture(1);
        }
        self.is_captured
    }

    pub fn write_checkpoint(&mut self) {
        self.store.model().write_sealed();
        self.written = Some(self.began);
        self.is_captured = false;
    }

    /// Starts anew with the last checkpoint and what the journal holds behind it; after a crash, with all numbers raised.
    pub fn restart(&mut self, crash: bool) {
        (self.core, self.store) = self.replay(self.room, self.written);
        self.is_captured = false;
        // Time goes on when what is about to fall due was brought: what did so while nobody was there is late by a read.
        let later = std::mem::replace(&mut self.now, self.last);
        self.core.start(self.now, crash, &mut self.journal);
        self.turns.push(self.journal.facts.len());
        self.turn(&[]);
        self.now = later;
    }

    /// A core that has come to the state of this one in a room, from the last checkpoint or the journal's beginning.
    pub fn replayed(&self, room: Room, from_checkpoint: bool) -> Core {
        let (mut core, _) = self.replay(room, self.written.filter(|_| from_checkpoint));
        core.set_time(self.now);
        core
    }

    fn replay(&self, room: Room, written: Option<usize>) -> (Core, SharedStore) {
        let store = if written.is_some() { self.store.crashed() } else { SharedStore::default() };
        let mut core = match written {
            Some(_) => checkpoint::recover(&store, &[]),
            None => Core::empty(HASH_KEY, Box::new(store.clone())),
        };
        furnish(&mut core, room);
        let mut from = written.unwrap_or(0);
        for to in self.turns.iter().copied().filter(|end| *end > written.unwrap_or(0)) {
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
            from = to;
        }
        (core, store)
    }

    fn end_turn(&mut self) {
        self.last = self.now;
        invariants::check(&self.core);
        *self.core.holdings() = Holdings::default();
        self.told = std::mem::take(self.core.outputs());
        self.told.iter_mut().flat_map(leases).for_each(compact);
        self.turns.push(self.journal.facts.len());
    }

    fn answer(&mut self) {
        while !self.core.wanted().is_empty() {
            for want in std::mem::take(self.core.wanted()) {
                self.core.load(self.store.fetch(want), &mut self.journal);
            }
        }
    }

    /// What dispatch would wait for, one read after another, while it serves others.
    fn bring_what_is_ready(&mut self) {
        let all = Range { from: KeyBytes::new(), until: vec![u8::MAX], limit: u32::MAX };
        let entries: Vec<_> = self.store.model().entries(&all).collect();
        for (key, page) in entries {
            if let Some(Key::Topic { shelf: Shelf::Ready(_), .. }) = Key::parse(&key) {
                self.core.load(Answer::Entry(key, Some(page)), &mut self.journal);
            }
        }
    }
}

fn leases(output: &mut Output) -> &mut [LeasedRun] {
    match output {
        Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. } => leases,
        _ => &mut [],
    }
}

/// The sizes of a run's own messages. With them stand those of the block that it lies in while it stays in memory, which
/// nobody is told.
fn compact(run: &mut LeasedRun) {
    let (sizes, index) = &run.sizes;
    let end = |n| sizes.offset(index + n) - sizes.offset(*index);
    let ends: Vec<u32> = (1..=run.count).map(end).collect();
    run.sizes = (Sizes::from_ends(&ends), 0);
}

fn furnish(core: &mut Core, room: Room) {
    core.set_room(room.bytes);
    core.set_producers_resident(room.producers);
    core.set_bounds(room.bounds);
}
