//! The broker's process, as the server runs it: the core, the storage, one batch on its way to the disk while the next
//! one fills, and outputs that wait for it.
//!
//! Each stage of a batch (sealed, written, synced) is a step of its own here, so that a crash can come between any two.

use std::sync::Arc;

use millpond_core::command::{Command, Level, Ticket};
use millpond_core::output::{Notice, Output, Reply};
use millpond_core::{Core, Now};
use millpond_storage::store::LayeredStore;
use millpond_storage::tree::TreeError;
use millpond_storage::twin::TwinDisk;
use millpond_storage::{
    Appender, Batch, CommitError, Committer, Failure, Housekeeper, Mark, Mover, Moves, OpenError, OpenOptions, Opened,
    ReadError, Reader, Recovery, open,
};

use crate::canary::Canary;
use crate::clock::Clock;
use crate::fetching::Fetching;
use crate::ledger::{Ledger, Witness};
use crate::promises::Promises;
use crate::streams::Stream;

/// What was taken from the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nothing: an orderly stop.
    Nothing,
    /// The process; what it had written stays.
    Process,
    /// The power; of what was not synced anything may be gone.
    Power,
}

/// A running broker.
pub struct Broker {
    /// The state.
    pub core: Core,
    /// For deliveries.
    pub reader: Reader,
    appender: Appender,
    committer: Committer,
    housekeeper: Housekeeper,
    mover: Mover,
    /// What the core keeps outside of its memory.
    pub store: LayeredStore,
    filling: Waiting,
    flight: Option<Flight>,
    /// Whether something is written that no sync has covered.
    unsynced: bool,
    /// What its edges are told.
    pub notices: Vec<Notice>,
    /// Answers that tell nobody of the state, and only give back what a publish held.
    pub at_once: Vec<Output>,
    canary: Option<Canary>,
    fetching: Fetching,
    /// Whether turns go by while it reads.
    reads_late: bool,
    /// Bytes that topics may take in memory.
    room: usize,
}

/// Outputs that wait.
#[derive(Default)]
struct Waiting {
    written: Vec<Output>,
    durable: Vec<Output>,
}

/// A batch on its way.
struct Flight {
    batch: Option<Batch>,
    sync: bool,
    waiting: Waiting,
}

/// What a step on the disk's side did.
pub enum Progress {
    /// Nothing was to do.
    Idle,
    /// Something was done, and this may be told now.
    Told(Vec<Output>),
    /// A batch could not be written: there is no space at all.
    Full,
}

impl Broker {
    /// Opens the directory and begins service.
    pub fn start(
        disk: &TwinDisk,
        (options, reads_late): (&OpenOptions, bool),
        clock: &mut Clock,
        canary: Option<Canary>,
    ) -> Result<(Broker, Recovery), OpenError> {
        let given = canary.map_or_else(|| options.clone(), |canary| canary.swells(options));
        let mut opened: Opened = open(Arc::new(disk.clone()), &given)?;
        clock.restart(opened.report.now);
        opened.start(clock.tick())?;
        let Opened { core, store, appender, committer, reader, housekeeper, mover, report } = opened;
        let broker = Broker {
            core,
            store,
            reader,
            appender,
            committer,
            housekeeper,
            mover,
            filling: Waiting::default(),
            flight: None,
            unsynced: false,
            notices: Vec::new(),
            at_once: Vec::new(),
            canary,
            fetching: Fetching::default(),
            reads_late,
            room: options.room,
        };
        Ok((broker, report))
    }

    /// A turn of the writer. It fails where the tree cannot be read: then the broker stops in the middle of it.
    pub fn turn(
        &mut self,
        now: Now,
        commands: Vec<(Ticket, Command)>,
        ledger: &mut Ledger,
        promises: &mut Promises,
        is_numb: bool,
    ) -> Result<(), Failure> {
        self.core.set_time(self.canary.map_or(now, |canary| canary.hurries(now)));
        // Who stands where for what happened while nobody was there is still being read.
        let is_numb = is_numb || self.core.is_behind_time();
        self.core.set_disk_full(self.appender.disk_full());
        ledger.now = now.wall;
        promises.begin(now);
        let mut log = Witness { log: &mut self.appender, ledger, promises };
        self.fetching.load(&self.store, &mut self.core, &mut log);
        for (ticket, command) in commands {
            log.promises.asks(ticket, &command);
            let command = match self.canary {
                Some(canary) => canary.mistakes(command),
                None => command,
            };
            let decision = self.core.submit(ticket, command, &mut log);
            if let Some(canary) = self.canary {
                canary.misleads(self.core.outputs());
            }
            log.promises.decided(decision, self.core.outputs());
        }
        self.core.advance(&mut log);
        self.core.dispatch(&mut log);
        if self.reads_late {
            self.fetching.send(&mut self.core);
        } else {
            match self.store.supply(&mut self.core, &mut log) {
                Ok(true) => {
                    // As the server's next turn would: what has fallen due of what was read comes first.
                    self.core.advance(&mut log);
                    self.core.dispatch(&mut log);
                }
                Ok(false) => {}
                Err(error) => return Err(self.appender.unreadable(error)),
            }
        }
        let is_numb = is_numb || self.fetching.is_waiting();
        promises.dispatched(self.core.outputs(), is_numb);
        promises.rests(&self.core, self.room);
        self.appender.capture(&mut self.core);
        self.appender.hold(self.core.holdings());
        self.notices.append(self.core.notices());
        for output in self.core.outputs().drain(..) {
            match &output {
                Output::Reply { reply: Reply::Published { level: Level::None, .. }, .. } => self.at_once.push(output),
                Output::Reply { reply: Reply::Published { level: Level::Buffered, .. }, .. } => {
                    self.filling.written.push(output);
                }
                output if self.canary.is_some_and(|canary| canary.tells_early(output)) => {
                    self.filling.written.push(output.clone());
                }
                _ => self.filling.durable.push(output),
            }
        }
        Ok(())
    }

    /// Moves the batch on its way one stage further, or sends the next one; `old` where what nobody waits for is to be
    /// synced all the same.
    pub fn commit(&mut self, old: bool) -> Result<Progress, Failure> {
        match self.flight.take() {
            None => Ok(self.seal(old)),
            Some(mut flight) => {
                if let Some(batch) = flight.batch.take() {
                    return self.write(batch, flight);
                }
                if flight.sync {
                    self.committer.sync()?;
                    self.unsynced = false;
                }
                let Waiting { written: mut told, mut durable } = flight.waiting;
                told.append(&mut durable);
                Ok(Progress::Told(told))
            }
        }
    }

    fn seal(&mut self, old: bool) -> Progress {
        if self.appender.bytes() == 0 && !self.unsynced {
            let mut told = std::mem::take(&mut self.filling.written);
            told.append(&mut self.filling.durable);
            return if told.is_empty() { Progress::Idle } else { Progress::Told(told) };
        }
        let sync = !self.filling.durable.is_empty() || old;
        if !sync && self.filling.written.is_empty() {
            return Progress::Idle;
        }
        let batch = self.appender.seal(self.core.now());
        let waiting = std::mem::take(&mut self.filling);
        self.flight = Some(Flight { batch, sync, waiting });
        if self.appender.checkpoint_due(&self.core, false) {
            self.appender.checkpoint(&mut self.core);
        }
        Progress::Told(Vec::new())
    }

    fn write(&mut self, batch: Batch, mut flight: Flight) -> Result<Progress, Failure> {
        match self.committer.write(batch) {
            Ok(()) => {
                self.unsynced = true;
                let told = std::mem::take(&mut flight.waiting.written);
                self.flight = Some(flight);
                Ok(Progress::Told(told))
            }
            Err(CommitError::DiskFull(batch)) => {
                self.flight = Some(Flight { batch: Some(*batch), ..flight });
                Ok(Progress::Full)
            }
            Err(CommitError::Failed(failure)) => Err(failure),
        }
    }

    /// Reads a batch of what the core wants; false if it wants nothing.
    pub fn fetch(&mut self, disk: &mut Stream) -> Result<bool, Failure> {
        self.fetching.read(&self.store, disk).map_err(|error| self.appender.unreadable(error))
    }

    /// Whether the core waits for what is read.
    pub fn is_fetching(&self) -> bool {
        self.fetching.is_waiting()
    }

    /// Marks a journal that rests; false if it does not, or is marked.
    pub fn mark(&mut self) -> Result<bool, Failure> {
        let rests = self.flight.is_none() && self.appender.bytes() == 0 && !self.unsynced;
        let Some(batch) = rests.then(|| self.appender.mark(self.core.now(), Mark::Idle)).flatten() else {
            return Ok(false);
        };
        if self.appender.checkpoint_due(&self.core, true) {
            self.appender.checkpoint(&mut self.core);
        }
        self.flight = Some(Flight { batch: Some(batch), sync: true, waiting: Waiting::default() });
        Ok(true)
    }

    /// One step of the housekeeper; false if it had nothing to do.
    pub fn keep_house(&mut self) -> Result<bool, Failure> {
        self.housekeeper.step()
    }

    /// One step of the mover: what it wants moved. Fails where a read meets a cut of the power.
    pub fn look_for_moves(&mut self) -> Result<Moves, Failure> {
        let mut moves = self.mover.step().map_err(|error| self.appender.unreadable(error))?;
        if let Some(at) = moves.unreadable.iter().position(|error| matches!(error, ReadError::Io { .. })) {
            let error = std::io::Error::other(moves.unreadable.swap_remove(at));
            return Err(self.appender.unreadable(TreeError::Io(error)));
        }
        if let Some(canary) = self.canary {
            moves.commands.iter_mut().for_each(|command| canary.spoil(command));
        }
        Ok(moves)
    }

    /// Whether a batch is on its way or outputs wait for one.
    pub fn is_busy(&self) -> bool {
        self.flight.is_some() || self.appender.bytes() > 0 || self.unsynced || !self.filling.durable.is_empty()
    }

    /// Sets the mark of an orderly stop; nothing may be on its way.
    pub fn stop(mut self) -> Result<(), CommitError> {
        assert!(!self.is_busy(), "an orderly stop has finished its batches");
        if let Some(batch) = self.appender.mark(self.core.now(), Mark::Stop) {
            self.committer.write(batch)?;
            self.committer.sync()?;
        }
        Ok(())
    }

    /// The position up to which everything survives a loss.
    pub fn survives(&self, loss: Loss) -> u64 {
        match loss {
            Loss::Nothing | Loss::Process => self.committer.written(),
            Loss::Power => self.committer.durable(),
        }
    }
}
