//! The broker's process: the server's own, but that its threads, its sockets and its clocks are the life's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_core::Core;
use millpond_core::command::{Command, Ticket};
use millpond_core::output::Output;
use millpond_server::manual::{Edge, ManualBroker, Rooms};
use millpond_storage::store::{FilterStats, LayeredStore};
use millpond_storage::tree::TreeError;
use millpond_storage::twin::TwinDisk;
use millpond_storage::{Failure, Moves, OpenError, Reader, Recovery, open};

use crate::canary::Canary;
use crate::clock::Clock;
use crate::plan::Plan;
use crate::promises::Promises;
use crate::stage::Stage;
use crate::streams::Stream;

const SECOND: Duration = Duration::from_secs(1);

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
    manual: ManualBroker<Stage>,
    /// What the state keeps outside of the core's memory.
    store: LayeredStore,
    clock: Clock,
    canary: Option<Canary>,
    /// When the writer wakes by itself.
    wakes: Option<Instant>,
    /// When the housekeeper is told that a second has passed.
    second: Instant,
    /// Commands of programs that wait for room in their lane.
    waiting: VecDeque<(Ticket, Command)>,
}

impl Broker {
    /// Opens the directory and begins service.
    pub fn start(
        disk: &TwinDisk,
        plan: &Plan,
        clock: &Clock,
        canary: Option<Canary>,
    ) -> Result<(Broker, Recovery), OpenError> {
        let options = canary.map_or_else(|| plan.options.clone(), |canary| canary.swells(&plan.options));
        let mut opened = open::<Core>(Arc::new(disk.clone()), &options)?;
        let now = opened.report.now;
        opened.report.now = canary.map_or(now, |canary| canary.dates(now));
        opened.core.set_leases_room(canary.map_or(plan.leases_room, |canary| canary.allots(plan.leases_room)));
        opened.core.set_leases_of_turn(plan.turn);
        let rooms = Rooms { topics: options.room, ..plan.rooms() };
        let promises = Promises::new(plan.options.identity.hash_key, (plan.rooms(), plan.leases_room), false);
        let stage = Stage::new(clock, canary, (plan.own_hand_max, plan.hastens), !plan.reads_late, promises);
        let rooms = canary.map_or(rooms, |canary| canary.widens(rooms));
        let store = opened.store.clone();
        let (manual, report) = ManualBroker::start(opened, rooms, stage)?;
        let (clock, waiting) = (clock.clone(), VecDeque::new());
        let second = clock.now() + SECOND;
        Ok((Broker { manual, store, wakes: Some(clock.now()), second, clock, canary, waiting }, report))
    }

    /// The state.
    pub fn core(&self) -> &Core {
        self.manual.core()
    }

    /// Dispatch forgets whom it was to tell of what.
    pub fn forget_wake_ups(&mut self) {
        self.manual.core_mut().forget_wake_ups();
    }

    /// The order forgets one in so many of the topics that are ready; how many.
    pub fn forget_ready(&mut self, one_in: u64) -> u64 {
        self.manual.core_mut().forget_ready(one_in as usize) as u64
    }

    /// What is known of the keys on the disk, and was good for.
    pub fn filter_stats(&self) -> FilterStats {
        self.store.filter_stats()
    }

    /// For deliveries.
    pub fn reader(&self) -> &Reader {
        self.manual.reader()
    }

    /// What the writer runs in.
    pub fn stage(&mut self) -> &mut Stage {
        self.manual.host()
    }

    /// The ticket of a program's command.
    pub fn ticket(index: u64) -> Ticket {
        ManualBroker::<Stage>::ticket(index as u32)
    }

    /// A program asks for something: at once, or when there is room.
    pub fn ask(&mut self, ticket: Ticket, command: Command) {
        self.waiting.push_back((ticket, command));
        self.submit();
    }

    fn submit(&mut self) {
        while let Some((ticket, command)) = self.waiting.pop_front() {
            if let Some(command) = self.manual.submit(ticket, command) {
                return self.waiting.push_front((ticket, command));
            }
        }
    }

    /// Whether the writer does not sleep: somebody has woken it, or its time has come.
    pub fn is_awake(&self) -> bool {
        self.manual.is_writer_awake() || self.wakes.is_some_and(|at| at <= self.clock.now())
    }

    /// How long until the writer wakes by itself.
    pub fn sleeps(&self) -> Option<Duration> {
        self.wakes.map(|at| at.saturating_duration_since(self.clock.now()))
    }

    /// A turn of the writer; or why it has ended.
    pub fn write(&mut self) -> Result<(), String> {
        let wrote = self.manual.write();
        self.wakes = wrote?.map(|sleep| self.clock.now() + sleep);
        self.submit();
        Ok(())
    }

    /// Writes and syncs the batch that is on its way; false if there is none.
    pub fn commit(&mut self) -> bool {
        self.manual.commit()
    }

    /// One of the threads reads what the core wants of it; false if that is nothing.
    pub fn fetch(&mut self, disk: &mut Stream) -> bool {
        let first = disk.below(2) as usize;
        self.manual.fetch(first) || self.manual.fetch(first + 1)
    }

    /// Whether the core waits for what is read.
    pub fn is_fetching(&self) -> bool {
        self.manual.is_fetching()
    }

    /// Whether a batch waits for which the disk has no room at all.
    pub fn is_stuck(&self) -> bool {
        self.manual.is_stuck()
    }

    /// Whether publishes wait for memory.
    pub fn is_pushed_back(&self) -> bool {
        self.manual.is_pushed_back()
    }

    /// Whether the journal rests, and is marked.
    pub fn is_marked(&self) -> bool {
        self.manual.is_marked()
    }

    /// What may be told.
    pub fn take_told(&self) -> Vec<Output> {
        self.manual.take_told()
    }

    /// Whether an output is for a connection.
    pub fn is_for_connection(&self, output: &Output) -> bool {
        self.manual.is_for_connection(output)
    }

    /// Tells an output to its connection.
    pub fn tell(&self, output: Output) {
        self.manual.tell(output);
    }

    /// A client connects.
    pub fn connect(&mut self) -> Edge {
        self.manual.connect(self.clock.now())
    }

    /// Reads the messages that connections want.
    pub fn read(&mut self) {
        self.manual.read();
    }

    /// One step of the housekeeper; false if it had nothing to do.
    pub fn keep_house(&mut self) -> Result<bool, Failure> {
        let now = self.clock.now();
        if now >= self.second {
            self.second = now + SECOND;
            self.manual.housekeeper.second_passed();
        }
        self.manual.housekeeper.step()
    }

    /// One step of who keeps the tree in order, likewise. Fails where a read meets a cut of the power.
    pub fn tend_tree(&mut self) -> Result<bool, TreeError> {
        self.manual.housekeeper.tend()
    }

    /// One step of the mover: what it wants moved. Fails where a read of the tree does.
    pub fn look_for_moves(&mut self) -> Result<Moves, TreeError> {
        let mut moves = self.manual.mover.step()?;
        if let Some(canary) = self.canary {
            moves.commands.iter_mut().for_each(|command| canary.spoil(command));
        }
        Ok(moves)
    }

    /// Ends in good order. All connections have to be gone.
    pub fn stop(mut self) -> Result<Stage, String> {
        self.stage().is_stopping = true;
        self.manual.stop()
    }

    /// The position up to which everything survives a loss.
    pub fn survives(&self, loss: Loss) -> u64 {
        match loss {
            Loss::Nothing | Loss::Process => self.reader().written(),
            Loss::Power => self.reader().durable(),
        }
    }
}
