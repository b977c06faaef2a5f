//! A core with nothing around it but a store and a journal, for tests that have very many topics or look at one moment:
//! [`crate::shell::Shell`] checks all that there is after each turn.

use millpond_core::command::{Command, Ticket};
use millpond_core::fact::FactLog;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_core::store::Want;
use millpond_core::{Core, Now};
use millpond_types::{RunTime, WallTime};

use crate::journal::Journal;
use crate::shell::{HASH_KEY, WALL_START};
use crate::store::SharedStore;

pub struct Bare<L = Journal> {
    pub core: Core,
    pub store: SharedStore,
    pub journal: L,
    tickets: u64,
}

impl<L: FactLog + Default> Bare<L> {
    pub fn new() -> Bare<L> {
        Bare::on(SharedStore::default())
    }

    pub fn on(store: SharedStore) -> Bare<L> {
        let mut journal = L::default();
        let mut core = Core::create(HASH_KEY, Box::new(store.clone()), &mut journal);
        core.start(Now { run: RunTime(0), wall: WallTime(WALL_START) }, false, &mut journal);
        // What is received comes in one turn.
        core.set_leases_of_turn(u32::MAX);
        Bare { core, store, journal, tickets: 0 }
    }

    pub fn submit(&mut self, command: Command) {
        self.tickets += 1;
        self.core.submit(Ticket(self.tickets), command, &mut self.journal);
    }

    /// A turn; what it gives to whoever receives.
    pub fn turn(&mut self) -> Vec<LeasedRun> {
        self.core.set_time(self.core.now());
        self.core.advance(&mut self.journal);
        self.core.dispatch(&mut self.journal);
        let received = self.core.outputs().drain(..).flat_map(|output| match output {
            Output::Reply { reply: Reply::Received(leases), .. } => leases,
            _ => Vec::new(),
        });
        received.collect()
    }

    /// What is wanted, which nobody else is told from here on.
    pub fn wanted(&mut self) -> Vec<Want> {
        std::mem::take(self.core.wanted())
    }

    /// Reads all of it, and takes in one after the other.
    pub fn load(&mut self, wants: Vec<Want>) {
        let answers: Vec<_> = wants.into_iter().map(|want| self.store.fetch(want)).collect();
        answers.into_iter().for_each(|answer| self.core.load(answer, &mut self.journal));
    }
}
