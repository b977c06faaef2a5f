//! What a broker's writer runs in: clocks that the life sets, and those who see all that it does. Now and then a canary
//! comes between.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use millpond_core::command::{Command, Ticket};
use millpond_core::fact::Fact;
use millpond_core::output::{Notice, Output, Reply};
use millpond_core::{Core, Decision, Now};
use millpond_server::manual::{Host, ManualBroker};
use millpond_types::RunTime;

use crate::canary::Canary;
use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::promises::Promises;
use crate::verdict::Violation;

/// Runs that requests of a turn may add beyond the first of each, and be short: the clients of a life add few.
const SHORT_RUNS: usize = 0;

/// See the module.
pub struct Stage {
    clock: Clock,
    canary: Option<Canary>,
    own_hand_max: u64,
    /// Whether some turns are short, and whether the next one is; and how many there were.
    hastens: bool,
    pub is_in_haste: bool,
    turns: u64,
    /// How many requests have let others pass.
    pub passed: u64,
    /// Whether a turn is over only when all is there that it wants to be read.
    reads_at_once: bool,
    /// Lent for a turn, as are the promises.
    ledger: Ledger,
    promises: Promises,
    /// Until when nobody knows of what is ready, on purpose.
    pub numb_until: Option<RunTime>,
    /// The same of the turn that goes on.
    is_numb: bool,
    /// Whether the broker stops, and decides what it has put off whatever memory that takes.
    pub is_stopping: bool,
    /// What the core has told its edges.
    pub notices: Vec<Notice>,
    /// What was decided, by whom it was asked.
    pub asked: Vec<(Ticket, Command)>,
    /// The connections that there are.
    pub connections: BTreeSet<u64>,
    /// The position of the last office that somebody took.
    pub office_taken: Option<u64>,
    /// Of turns that are not over.
    outputs: Vec<Output>,
}

impl Stage {
    /// Before the broker begins.
    pub fn new(
        clock: &Clock,
        canary: Option<Canary>,
        (own_hand_max, hastens): (u64, bool),
        reads_at_once: bool,
        promises: Promises,
    ) -> Stage {
        Stage {
            clock: clock.clone(),
            canary,
            own_hand_max,
            hastens,
            is_in_haste: false,
            turns: 0,
            passed: 0,
            reads_at_once,
            ledger: Ledger::default(),
            promises,
            numb_until: None,
            is_numb: false,
            is_stopping: false,
            notices: Vec::new(),
            asked: Vec::new(),
            connections: BTreeSet::new(),
            office_taken: None,
            outputs: Vec::new(),
        }
    }
}

impl Stage {
    /// Those who look on come or go.
    pub fn lend(&mut self, ledger: &mut Ledger, promises: &mut Promises) {
        std::mem::swap(&mut self.ledger, ledger);
        std::mem::swap(&mut self.promises, promises);
    }

    /// Whoever is gone is given nothing: its receives were withdrawn before anything was dispatched. What is decided at once
    /// was asked for before.
    fn look_for_withdrawn(&mut self, outputs: &[Output]) {
        for output in outputs {
            if let Output::Reply { ticket, reply: Reply::Received(leases) } = output
                && !leases.is_empty()
                && ManualBroker::<Stage>::connection_of(*ticket).is_some_and(|of| !self.connections.contains(&of))
                && self.asked.iter().all(|(asked, _)| asked != ticket)
            {
                let what = format!("{leases:?} is given to a connection that is gone");
                self.promises.broken(Violation::connections(what));
            }
        }
    }
}

impl Host for Stage {
    fn now(&mut self) -> Instant {
        self.clock.look()
    }

    fn system(&mut self) -> Duration {
        self.clock.system()
    }

    fn own_hand_max(&self) -> u64 {
        self.own_hand_max
    }

    /// In two turns of three, as if somebody had asked for little before them.
    fn is_in_haste(&mut self, _is_somebody_waiting: bool) -> bool {
        self.turns += 1;
        self.is_in_haste = self.hastens && !self.turns.is_multiple_of(3);
        self.is_in_haste
    }

    fn short_runs(&self) -> usize {
        SHORT_RUNS
    }

    fn lets_pass(&mut self) {
        self.passed += 1;
    }

    fn begins(&mut self, core: &mut Core, now: Now) {
        let told = self.canary.map_or(now, |canary| canary.hurries(now));
        core.set_time(told);
        // Who stands where for what happened while nobody was there is still being read.
        self.is_numb |= self.numb_until.is_some_and(|until| now.run <= until) || core.is_behind_time();
        self.ledger.begin(now.wall);
        self.promises.begin(Now { run: told.run, ..now }, told.wall, now.run);
    }

    fn asks(&mut self, ticket: Ticket, command: Command) -> Command {
        self.promises.asks(ticket, &command);
        self.asked.push((ticket, command.clone()));
        match self.canary {
            Some(canary) => canary.mistakes(command),
            None => command,
        }
    }

    fn decided(&mut self, decision: Decision, core: &mut Core) {
        if let Some(canary) = self.canary {
            canary.misleads(core.outputs());
        }
        let others = (!self.is_stopping).then(|| core.parked_bytes() - core.last_parked_bytes());
        self.promises.decided(decision, core.outputs(), others);
    }

    fn happened(&mut self, fact: &Fact, position: u64) {
        let retold = self.canary.and_then(|canary| canary.retells(fact, &self.ledger));
        let fact = retold.as_ref().unwrap_or(fact);
        if let Fact::OfficeTaken { .. } = fact {
            self.office_taken = Some(position);
        }
        self.ledger.happened(fact, position);
        self.promises.happened(fact, position);
    }

    fn dispatched(&mut self, core: &mut Core, is_fetching: bool) {
        self.look_for_withdrawn(core.outputs());
        self.promises.made(core.outputs());
        self.notices.extend(core.notices().iter().cloned());
        self.outputs.extend(core.outputs().iter().cloned());
        // Turns pass whose messages wait for their end, or for their time.
        self.is_numb |= core.has_time_on_hold();
        if self.reads_at_once && is_fetching {
            return;
        }
        if let Some(canary) = self.canary {
            canary.miscounts(&mut self.outputs);
        }
        self.promises.dispatched(&self.outputs, self.is_numb || is_fetching);
        self.outputs.clear();
        self.is_numb = false;
        self.promises.rests(core, is_fetching);
    }

    fn is_told_early(&self, output: &Output) -> bool {
        self.canary.is_some_and(|canary| canary.tells_early(output))
    }
}
