//! A core whose topics are on the disk alone, and a disk that answers a turn late. Each turn is weighed: what is brought,
//! what becomes a fact and what is in memory is never more than a slice, however much there is.

use std::collections::BTreeMap;

use millpond_core::command::*;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_core::store::{Answer, Want};
use millpond_core::{Core, LevelBounds, Now, invariants};
use millpond_types::{Filter, Millis, NamespaceName, Priority, RunTime, WallTime};

use crate::history::{Known, name, publish_run, receive};
use crate::journal::Journal;
use crate::shell::HASH_KEY;
use crate::store::SharedStore;

/// What a turn may look at, in entries.
pub const SLICE: usize = 1_000;
/// As short as a line in memory may well be, so that a line of some thousand messages has many pieces.
const SHORT: LevelBounds = LevelBounds { head: 4, tail: 4, piece: 8, resting: 8, out_of_line: 64 };

pub struct Cold {
    pub core: Core,
    store: SharedStore,
    pub journal: Journal,
    pub now: Now,
    pub known: Known,
    wanted: Vec<Want>,
    /// Whether topics have no room in memory.
    is_tight: bool,
    tickets: u64,
    pub replies: BTreeMap<Ticket, Reply>,
    pub turns: usize,
    /// Ranges of entries that were read.
    pub ranges: usize,
    /// Entries that came from the disk.
    pub brought: usize,
    /// The most of them that came in one turn.
    pub brought_at_once: usize,
    /// The most bytes that topics took in memory behind a turn.
    pub bytes: usize,
}

impl Cold {
    pub fn new() -> Cold {
        Cold::on(SharedStore::default())
    }

    /// With a store that looks on the disk for what is not there.
    pub fn among_strangers() -> Cold {
        let mut store = SharedStore::default();
        store.knows_no_strangers = true;
        Cold::on(store)
    }

    fn on(mut store: SharedStore) -> Cold {
        let mut journal = Journal::default();
        store.pieces_wait = true;
        let mut core = Core::create(HASH_KEY, Box::new(store.clone()), &mut journal);
        core.set_bounds(SHORT);
        // What is received comes in one turn.
        core.set_leases_of_turn(u32::MAX);
        let now = Now { run: RunTime(0), wall: WallTime(0) };
        core.start(now, false, &mut journal);
        core.set_room(0);
        let (known, wanted, replies) = (Known::default(), Vec::new(), BTreeMap::new());
        Cold {
            core,
            store,
            journal,
            now,
            known,
            wanted,
            is_tight: true,
            tickets: 0,
            replies,
            turns: 0,
            ranges: 0,
            brought: 0,
            brought_at_once: 0,
            bytes: 0,
        }
    }

    /// All of these topics with a message each, on the disk.
    pub fn filled(topics: impl Iterator<Item = String>) -> Cold {
        let mut cold = Cold::new();
        let topics: Vec<String> = topics.collect();
        for some in topics.chunks(SLICE) {
            let publish = cold.publish(some, Priority::DEFAULT, None);
            cold.begin(publish);
            cold.evict();
        }
        cold.write();
        cold.evict();
        assert_eq!((cold.core.resident_count(), cold.core.cold_count()), (0, topics.len() as u64));
        cold
    }

    /// A message for each of some topics.
    pub fn publish(&mut self, topics: &[String], priority: Priority, ttl: Option<Millis>) -> Command {
        let runs = topics.iter().map(|topic| publish_run(&mut self.known, topic, 1, None));
        let runs = runs.map(|run| PublishRun { priority, ttl, ..run }).collect();
        Command::Publish(Publish { namespace: NamespaceName::default(), producer: None, level: Level::Durable, runs })
    }

    /// Gives a command in a turn of its own.
    pub fn begin(&mut self, command: Command) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.turn(Some((ticket, command)));
        ticket
    }

    /// What a command is answered, after all the turns that it takes.
    pub fn answered(&mut self, command: Command) -> Reply {
        let ticket = self.begin(command);
        self.rest();
        self.replies.remove(&ticket).expect("all is answered when nothing is left to do")
    }

    /// Turns until there is nothing to do.
    pub fn rest(&mut self) {
        while self.is_busy() {
            self.turn(None);
        }
    }

    pub fn is_busy(&self) -> bool {
        !self.wanted.is_empty() || self.core.next_wake() == Some(Millis::ZERO)
    }

    /// A turn in which the disk answers what was wanted before it, with at most a slice of work.
    pub fn turn(&mut self, command: Option<(Ticket, Command)>) {
        let (facts, is_given) = (self.journal.facts.len(), command.is_some());
        self.core.set_time(self.now);
        let mut brought = 0;
        for want in std::mem::take(&mut self.wanted) {
            self.ranges += usize::from(!matches!(want, Want::Entry(_)));
            let answer = self.store.fetch(want);
            brought += match &answer {
                Answer::Entry(..) => 1,
                Answer::Range { entries, .. } => entries.len(),
                Answer::Spread { parts, .. } => parts.iter().map(|part| part.entries.len()).sum(),
            };
            self.core.load(answer, &mut self.journal);
        }
        if let Some((ticket, command)) = command {
            self.core.submit(ticket, command, &mut self.journal);
        }
        self.core.advance(&mut self.journal);
        self.core.dispatch(&mut self.journal);
        self.wanted.append(self.core.wanted());
        for output in self.core.outputs().drain(..) {
            let Output::Reply { ticket, reply } = output else { continue };
            self.replies.insert(ticket, reply);
        }
        (self.turns, self.brought) = (self.turns + 1, self.brought + brought);
        self.brought_at_once = self.brought_at_once.max(brought);
        self.bytes = self.bytes.max(self.core.resident_bytes());
        assert!(!self.is_tight || brought <= SLICE, "{brought} entries came in one turn");
        let facts = self.journal.facts.len() - facts;
        assert!(is_given || facts <= SLICE, "{facts} facts in one turn");
        let resident = self.core.resident_count();
        assert!(is_given || !self.is_tight || resident <= SLICE, "{resident} topics are in memory");
        if self.turns.is_multiple_of(50) {
            invariants::check(&self.core);
        }
    }

    pub fn evict(&mut self) {
        let mut before = usize::MAX;
        while self.core.resident_count() < before {
            before = self.core.resident_count();
            self.core.make_room();
        }
    }

    /// Writes a checkpoint.
    pub fn write(&mut self) {
        self.core.freeze();
        while !self.core.capture(SLICE) {}
        self.store.model().write_sealed();
    }

    /// Gives topics room in memory from here on.
    pub fn set_room(&mut self, bytes: usize) {
        self.core.set_room(bytes);
        self.is_tight = false;
    }

    /// What one receive after the other is given, until there is nothing more. Topics may stay in memory from here on.
    pub fn drain(&mut self) -> Vec<LeasedRun> {
        self.set_room(usize::MAX);
        let mut all = Vec::new();
        loop {
            let runs = self.receive(300);
            if runs.is_empty() {
                return all;
            }
            all.extend(runs);
        }
    }

    /// What a receive is given, which is acked.
    pub fn receive(&mut self, messages: u32) -> Vec<LeasedRun> {
        let Reply::Received(runs) = self.answered(receive(messages)) else { panic!("a receive is answered by leases") };
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        self.begin(Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
        runs
    }
}

pub fn prefix(text: &str) -> Filter {
    Filter::Prefixes(vec![name(text)])
}
