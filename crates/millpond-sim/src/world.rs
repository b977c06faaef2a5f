//! A life: a broker on its disk, its clients, time, and what goes wrong, one small step after the other.

use std::collections::BTreeMap;

use millpond_core::command::{Command, Ticket};
use millpond_core::invariants;
use millpond_core::output::Output;
use millpond_server::manual::ManualBroker;
use millpond_storage::ReadError;
use millpond_storage::twin::{Fault, TwinDisk};
use millpond_types::RunTime;

use crate::Options;
use crate::STEPS;
use crate::back::Back;
use crate::broker::{Broker, Loss};
use crate::candidates::Candidates;
use crate::clients::{Asked, Clients, Request};
use crate::clock::Clock;
use crate::copies::Copies;
use crate::forwards::Forwards;
use crate::ledger::Ledger;
use crate::lost::Lost;
use crate::offices::Offices;
use crate::plan::Plan;
use crate::promises::Promises;
use crate::sights::Sights;
use crate::stage::Stage;
use crate::streams::Streams;
use crate::subscribers::Subscribers;
use crate::tape::{Brief, Tape};
use crate::verdict::Violation;
use crate::wires::{self, Wires};

/// Steps between two lulls, where a life has them: all that needs no time is done, and whoever waits has to have been told.
const LULL_EVERY: u64 = 200;

/// Steps of a life in which next to nothing happens, at most: those where one message stands for all that come.
const STEPS_MAX: u64 = 8 * STEPS;

/// How far the clock is set back, in milliseconds: seconds mostly, and hours once in so many times.
const BACK_MAX: u64 = 20_000;
const FAR_BACK_MAX: u64 = 3 * 60 * 60 * 1000;
const FAR_BACK: u64 = 8;

/// Reads of the tree between two that fail, about, on a disk that is bad, and steps of the mover. The first end the broker.
const TREE_READS_FAIL: u64 = 200;
const MOVES_FAIL: u64 = 10;

/// See the module.
pub struct World {
    pub(crate) streams: Streams,
    pub(crate) plan: Plan,
    pub(crate) disk: TwinDisk,
    /// Always there but while it restarts.
    pub(crate) broker: Option<Broker>,
    pub(crate) clock: Clock,
    pub(crate) clients: Clients,
    pub(crate) candidates: Candidates,
    pub(crate) subscribers: Subscribers,
    pub(crate) wires: Wires,
    /// What each open ticket is about.
    pub(crate) open: BTreeMap<Ticket, Asked>,
    next_ticket: u64,
    /// What the mover has found and read, on its way to the core.
    pub(crate) moves: Vec<Command>,
    /// Where this broker has lost wake-ups on purpose, the time by which the watch has found all of them.
    pub(crate) numb_until: Option<RunTime>,
    /// How much this one has found of that.
    pub(crate) found: u64,
    pub(crate) ledger: Ledger,
    pub(crate) promises: Promises,
    pub(crate) lost: Lost,
    pub(crate) back: Back,
    pub(crate) copies: Copies,
    pub(crate) forwards: Forwards,
    pub(crate) offices: Offices,
    pub(crate) tape: Tape,
    pub(crate) options: Options,
    /// What was planned to go wrong at some operation of the disk, and what is lost then.
    pub(crate) planned: Option<(Fault, Loss)>,
    /// Whether the disk has no more room.
    pub(crate) full: bool,
    /// Whether reads of it may fail.
    pub(crate) reads_fail: bool,
    /// Whether one has failed that the broker cannot do without, and it has not said so.
    pub(crate) unread: bool,
    /// What a canary holds back.
    pub(crate) late: Option<Output>,
    /// For how many more steps the disk does nothing.
    pub(crate) slow: u64,
    pub(crate) sights: Sights,
}

impl World {
    /// The world of a seed, before the broker's first start.
    pub fn new(seed: u64, options: Options) -> World {
        let mut streams = Streams::new(seed);
        let plan = Plan::new(&mut streams.plan);
        let (hash_key, rooms) = (plan.options.identity.hash_key, (plan.rooms(), plan.leases_room));
        World {
            disk: TwinDisk::new(plan.sector),
            reads_fail: plan.disk_is_bad,
            clients: Clients::new(&plan, &mut streams.load, &mut streams.network),
            wires: Wires::new(hash_key, options.canary),
            candidates: Candidates::new(&mut streams.offices),
            subscribers: Subscribers::new(&plan, &mut streams.groups, &mut streams.network),
            streams,
            plan,
            broker: None,
            clock: Clock::new(),
            open: BTreeMap::new(),
            next_ticket: 0,
            moves: Vec::new(),
            numb_until: None,
            found: 0,
            ledger: Ledger::default(),
            promises: Promises::new(hash_key, rooms, options.trace),
            lost: Lost::default(),
            back: Back::default(),
            copies: Copies::default(),
            forwards: Forwards::default(),
            offices: Offices::default(),
            tape: Tape::new(&options),
            options,
            planned: None,
            full: false,
            unread: false,
            late: None,
            slow: 0,
            sights: Sights::default(),
        }
    }

    /// Leads the life to its end.
    pub fn live(&mut self) -> Result<(), Violation> {
        self.go_on()?;
        self.drain()?;
        self.lose(Loss::Nothing)?;
        self.lost.at_end(&self.ledger)?;
        self.forwards.check(&self.ledger, &mut self.sights)?;
        self.tape.note(format_args!("the end"));
        Ok(())
    }

    /// Leads it up to where all is brought to its end.
    fn go_on(&mut self) -> Result<(), Violation> {
        self.begin()?;
        let mut requests = self.clients.set_up();
        requests.extend(self.candidates.set_up());
        requests.extend(self.subscribers.set_up(&mut self.streams.groups));
        self.ask(requests);
        self.settle()?;
        let (mut step, steps) = (0, self.options.steps);
        // A life of the usual length goes on until it has seen enough to prove anything.
        while step < steps || (STEPS..STEPS_MAX).contains(&step) && self.sights().check_life().is_err() {
            self.tape.note(format_args!("step {step}"));
            self.step()?;
            step += 1;
            if self.plan.has_lulls && step % LULL_EVERY == 0 {
                self.lull()?;
            }
        }
        Ok(())
    }

    /// The hash of the history and of every byte on the disk, the checkpoint's among them, if it was to be kept.
    pub fn hash(&mut self) -> Option<u64> {
        self.tape.hash()?;
        for (name, bytes) in self.disk.snapshot() {
            self.tape.bytes(name.as_bytes());
            self.tape.bytes(&bytes);
        }
        for (key, value) in self.disk.tree_entries() {
            self.tape.bytes(&key);
            self.tape.bytes(&value);
        }
        self.tape.hash()
    }

    /// What was seen.
    pub fn sights(&self) -> Sights {
        let mut sights = self.sights.clone();
        sights.add(&self.ledger.sights);
        sights.add(&self.promises.sights);
        sights
    }

    pub(crate) fn broker(&mut self) -> &mut Broker {
        self.broker.as_mut().expect("the broker runs")
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.exchange()?;
        match self.streams.schedule.weighted(&[10, 14, 4, 5, 3, 8]) {
            0 => {
                let clients = self.streams.schedule.below(4);
                let requests = (0..clients).flat_map(|_| self.clients.act(&mut self.streams.load));
                let mut requests: Vec<Request> = requests.collect();
                requests.extend(self.candidates.act(&mut self.streams.offices));
                let wall = self.broker().core().now().wall;
                requests.extend(self.subscribers.act(wall, &mut self.streams.groups));
                self.ask(requests);
                if !self.streams.schedule.one_in(3) {
                    self.write()?;
                }
            }
            1..=2 if self.slow > 0 => self.sights.saw("the disk did nothing"),
            1 => {
                self.endanger_office();
                self.commit()?;
            }
            2 => drop(self.keep_house()?),
            3 => drop(self.write()?),
            4 => self.move_on()?,
            _ => drop(self.fetch()?),
        }
        self.slow = self.slow.saturating_sub(1);
        self.time_passes();
        self.trouble()
    }

    fn time_passes(&mut self) {
        let time = &mut self.streams.time;
        match time.weighted(&[80, 120, 8, 2, 2, 2]) {
            0 => {}
            1 => self.clock.pass(time.between(0, 60)),
            2 => self.clock.pass(time.between(100, 3000)),
            // The machine has stood still: connections think that nobody has spoken for long.
            3 => self.clock.pass(time.between(3000, 20_000)),
            4 => {
                self.clock.set_ahead(time.between(1, 2_000_000));
                self.sights.saw("the clock was set ahead");
            }
            _ => {
                let is_far = time.one_in(FAR_BACK);
                self.clock.set_back(if is_far {
                    time.between(BACK_MAX, FAR_BACK_MAX)
                } else {
                    time.between(1, BACK_MAX)
                });
                self.sights.saw(if is_far { "the clock was set back far" } else { "the clock was set back" });
            }
        }
    }

    /// Programs ask for something.
    pub(crate) fn ask(&mut self, requests: Vec<Request>) {
        for Request { command, asked } in requests {
            self.next_ticket += 1;
            let ticket = Broker::ticket(self.next_ticket);
            self.tape.note(format_args!("{} {}", ticket.0, Brief(&command)));
            wires::asks(&asked, &mut self.forwards, &mut self.sights);
            self.open.insert(ticket, asked);
            self.broker().ask(ticket, command);
        }
    }

    /// The writer takes a turn, if it is awake; where reading is quick, as many as it takes until all is read. False if it
    /// sleeps.
    fn write(&mut self) -> Result<bool, Violation> {
        let mut wrote = false;
        while self.broker().is_awake() {
            wrote = true;
            self.turn()?;
            if self.plan.reads_late || !self.fetch()? {
                break;
            }
        }
        Ok(wrote)
    }

    fn turn(&mut self) -> Result<(), Violation> {
        let broker = self.broker.as_mut().expect("the broker runs");
        broker.stage().numb_until = self.numb_until;
        broker.stage().connections = self.wires.numbers();
        broker.stage().lend(&mut self.ledger, &mut self.promises);
        let (was_stuck, was_marked) = (broker.is_stuck(), broker.is_marked());
        let was_pushed_back = broker.is_pushed_back();
        let turned = broker.write();
        self.sights.saw_many("publishes held back", u64::from(broker.is_pushed_back() && !was_pushed_back));
        self.sights.saw_many("batches without room", u64::from(broker.is_stuck() && !was_stuck));
        self.sights.saw_many("marks", u64::from(broker.is_marked() && !was_marked));
        self.sights.saw_many("short turns of the writer", u64::from(broker.stage().is_in_haste));
        self.sights.saw_many("long requests that let short ones pass", std::mem::take(&mut broker.stage().passed));
        broker.stage().lend(&mut self.ledger, &mut self.promises);
        let (asked, notices) = (std::mem::take(&mut broker.stage().asked), std::mem::take(&mut broker.stage().notices));
        self.ledger.verdict()?;
        self.promises.verdict()?;
        // Who uses a namespace is forgotten with it. Whether what was asked in the turn came before or behind that is not known.
        self.wires.note(&notices);
        for (ticket, command) in asked.iter().filter(|(ticket, _)| !self.open.contains_key(ticket)) {
            self.tape.note(format_args!("{} {}", ticket.0, Brief(command)));
            if let Some(connection) = ManualBroker::<Stage>::connection_of(*ticket) {
                self.wires.asks(connection, command, &mut self.sights)?;
            }
        }
        self.subscribers.hears(notices);
        self.tell()?;
        match turned {
            Ok(()) => self.check_told(),
            Err(failure) => self.failed(&failure),
        }
    }

    /// What may be told is told.
    fn tell(&mut self) -> Result<(), Violation> {
        let broker = self.broker();
        let (durable, told) = (broker.survives(Loss::Power), broker.take_told());
        self.ledger.settle(durable);
        self.promises.settle(durable);
        self.release(told)
    }

    /// The batch that is on its way is written and synced; false if there is none.
    fn commit(&mut self) -> Result<bool, Violation> {
        let committed = self.broker().commit();
        self.tell()?;
        Ok(committed)
    }

    pub(crate) fn keep_house(&mut self) -> Result<bool, Violation> {
        match self.broker().keep_house() {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(failure) => return self.failed(&failure.to_string()).map(|()| false),
        }
        match self.broker().tend_tree() {
            Ok(done) => Ok(done),
            Err(error) => self.failed(&error.to_string()).map(|()| false),
        }
    }

    /// Reads a batch of what the core wants; false if it wants nothing.
    fn fetch(&mut self) -> Result<bool, Violation> {
        self.plan_read(TREE_READS_FAIL);
        let broker = self.broker.as_mut().expect("the broker runs");
        let fetched = broker.fetch(&mut self.streams.disk);
        if self.disk.unplan_read() {
            self.unread = true;
            self.tape.note(format_args!("a read of the tree fails"));
        }
        self.sights.saw_many("batches read while turns went by", u64::from(fetched && self.plan.reads_late));
        Ok(fetched)
    }

    /// The journal failed: the process ends, and is started again.
    fn failed(&mut self, failure: &str) -> Result<(), Violation> {
        self.tape.note(format_args!("{failure}"));
        match self.planned.take() {
            Some((fault, loss)) => {
                self.sights.saw_many("faults of the disk", u64::from(fault == Fault::Error));
                self.lose(loss)
            }
            None if self.unread => {
                self.sights.saw("reads of the tree that failed");
                self.lose(Loss::Process)
            }
            None => Err(Violation::lost(format!("the storage failed without a fault of the disk: {failure}"))),
        }
    }

    /// Nobody was forgotten but for wake-ups that were lost on purpose, and those the watch finds in time.
    fn check_told(&mut self) -> Result<(), Violation> {
        let core = self.broker.as_ref().expect("the broker runs").core();
        let found = core.forgotten();
        match self.numb_until {
            None if found > 0 => return Err(Violation::stuck("the watch has found somebody who was not told".into())),
            Some(until) if core.now().run < until => return Ok(()),
            _ => invariants::check(core),
        }
        self.sights.saw_many("who was forgotten found", found - self.found);
        self.found = found;
        Ok(())
    }

    /// Looks for messages that pin space, or moves those that were found: much may have happened to them in between.
    fn move_on(&mut self) -> Result<(), Violation> {
        if self.moves.is_empty() {
            return self.look_for_moves();
        }
        let moves = std::mem::take(&mut self.moves);
        let request = |command| Request { command, asked: Asked::Other("moves decided") };
        self.ask(moves.into_iter().map(request).collect());
        Ok(())
    }

    /// What cannot be read now stays where it is for now.
    fn look_for_moves(&mut self) -> Result<(), Violation> {
        self.plan_read(MOVES_FAIL);
        let found = self.broker().look_for_moves();
        let has_failed = self.disk.unplan_read();
        self.sights.saw_many("reads for moves that failed", u64::from(has_failed));
        let found = match found {
            Ok(found) => found,
            Err(_) if has_failed => return Ok(()),
            Err(error) => return self.failed(&error.to_string()),
        };
        self.moves = found.commands;
        match found.unreadable.first() {
            None => Ok(()),
            Some(ReadError::Io { .. }) if has_failed => Ok(()),
            // The power is cut.
            Some(error @ ReadError::Io { .. }) => self.failed(&error.to_string()),
            Some(error) => Err(Violation::lost(format!("it cannot be moved: {error}"))),
        }
    }

    /// Until nothing goes on before time does.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        while self.exchange()? | self.write()? | self.commit()? | self.fetch()? {}
        while self.keep_house()? {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millpond_storage::Disk;
    use millpond_storage::tree::{CommitHead, TreeOptions};

    use super::*;
    use crate::{Canary, Checker};

    #[test]
    fn who_waits_and_is_not_told_is_found_in_the_midst_of_a_life() {
        let goes_on = |seed| {
            let canary = Some(Canary::Starved);
            World::new(seed, Options { canary, steps: 600, hashed: false, ..Options::default() }).go_on()
        };
        let found = (0..400).find_map(|seed| goes_on(seed).err()).expect("it is found before the end");
        assert_eq!(found.checker, Checker::Stuck);
    }

    #[test]
    fn what_is_in_the_checkpoint_alone_is_among_the_bytes_that_are_compared() {
        let hash = |value: &[u8]| {
            let mut world = World::new(1, Options::default());
            let tree = world.disk.tree(TreeOptions::default()).expect("a disk in order");
            let mut entries = [(&b"key"[..], Some(value))].into_iter();
            tree.commit(&CommitHead::default(), &mut entries).expect("a disk in order");
            world.hash().expect("it is kept")
        };
        assert_eq!(hash(b"one"), hash(b"one"));
        assert_ne!(hash(b"one"), hash(b"another"));
    }
}
