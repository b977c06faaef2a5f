//! What goes wrong, and the start after it.

use std::sync::Arc;

use millpond_core::{Core, WATCH_EVERY};
use millpond_storage::store::FilterStats;
use millpond_storage::twin::{Fault, Parts, TwinDisk, Wreck};
use millpond_storage::{Disk, OpenError, Recovery, open};

use crate::audit::audit;
use crate::broker::{Broker, Loss};
use crate::ledger::Ledger;
use crate::verdict::Violation;
use crate::world::World;
use crate::wreck;

/// Of the batches by which somebody takes an office, and which are about to be synced, one in so many is cut short.
const OFFICES_CUT: u64 = 3;
/// Steps of a life between losses of wake-ups, about.
const WAKE_UPS_LOST: u64 = 400;
/// Of the topics that are ready then, one in so many is lost as well, or in fewer.
const READY_LOST: u64 = 4;
/// Steps of a life between times in which the disk stands still, about, and how many these last at most.
const DISK_SLOW: u64 = 300;
const SLOW_MAX: u64 = 80;
/// Reads of a start of which one may fail: there are a few dozen.
const READS_OF_START: u64 = 60;
/// Attempts to start, each with its own fault, before one is left alone.
const FAULTY_STARTS: u32 = 3;

impl World {
    /// The first start, on an empty disk.
    pub(crate) fn begin(&mut self) -> Result<(), Violation> {
        self.start(Loss::Process, [0, 0])
    }

    /// Losses by themselves, and faults that are planned for later.
    pub(crate) fn trouble(&mut self) -> Result<(), Violation> {
        if self.plan.disk_is_bad {
            self.trouble_disk();
        }
        if self.streams.disk.one_in(DISK_SLOW) {
            self.slow = self.streams.disk.between(5, SLOW_MAX);
        }
        if self.streams.crashes.one_in(WAKE_UPS_LOST) {
            self.lose_wake_ups();
        }
        let crashes = &mut self.streams.crashes;
        if !crashes.one_in(self.plan.steps_per_loss) {
            return Ok(());
        }
        match crashes.weighted(&[2, 5, 6, 1]) {
            0 => self.lose(Loss::Process),
            1 => self.lose(Loss::Power),
            2 => {
                // In the middle of something, soon.
                let (after, loss) = (crashes.below(12), *crashes.pick(&[Loss::Process, Loss::Power]));
                self.plan_fault(after, Fault::PowerCut, loss);
                Ok(())
            }
            _ => self.lose(Loss::Nothing),
        }
    }

    fn trouble_disk(&mut self) {
        let disk = &mut self.streams.disk;
        // A disk that stays full for most of a life leaves little else to see.
        match disk.weighted(&[200, 1, if self.full { 8 } else { 2 }]) {
            1 => {
                let after = disk.below(20);
                self.plan_fault(after, Fault::Error, Loss::Process);
            }
            2 if self.full => {
                self.disk.set_capacity(None);
                self.full = false;
                self.tape.note(format_args!("the disk has room again"));
            }
            2 => {
                let room = disk.below(2) * disk.below(2 * self.plan.options.segment_bytes);
                self.disk.set_capacity(Some(self.disk.used() + room));
                self.full = true;
                self.tape.note(format_args!("the disk has room for {room} bytes"));
            }
            _ => {}
        }
    }

    /// On a disk that is bad, one of the next reads may fail.
    pub(crate) fn plan_read(&mut self, one_in: u64) {
        if self.reads_fail && self.streams.disk.one_in(one_in) {
            self.disk.plan_read(self.streams.disk.below(3));
        }
    }

    /// Dispatch forgets whom it was to tell, and some of what is ready: the watch has to find out.
    fn lose_wake_ups(&mut self) {
        let Some(broker) = &mut self.broker else { return };
        broker.forget_wake_ups();
        let lost = broker.forget_ready(self.streams.crashes.between(1, READY_LOST));
        self.numb_until = Some(broker.core().now().run + WATCH_EVERY);
        self.sights.saw("wake-ups lost");
        self.sights.saw_many("ready topics lost", lost);
        self.tape.note(format_args!("wake-ups are lost, and {lost} ready topics"));
    }

    /// Of a cut, the process or the power is lost: either way nothing is done any more.
    fn plan_fault(&mut self, after: u64, fault: Fault, loss: Loss) {
        if self.planned.is_none() {
            self.disk.plan(after, fault);
            self.planned = Some((fault, loss));
            self.tape.note(format_args!("{fault:?} is planned after {after} operations, and {loss:?} is lost"));
        }
    }

    /// The broker is gone, and comes back.
    pub(crate) fn lose(&mut self, loss: Loss) -> Result<(), Violation> {
        self.tape.note(format_args!("lost: {loss:?}"));
        let FilterStats { made_anew, in_vain, is_overfull } = self.broker().filter_stats();
        self.sights.saw_many("filters made anew", made_anew);
        self.sights.saw_many("filters that were too full", u64::from(is_overfull));
        self.sights.saw_many("keys looked for on the disk in vain", in_vain);
        if loss == Loss::Nothing {
            return self.stop();
        }
        let broker = self.broker.take().expect("the broker runs");
        let survives = [Loss::Process, Loss::Power].map(|loss| broker.survives(loss));
        drop(broker);
        self.sights.saw(if loss == Loss::Power { "power cuts" } else { "kills" });
        self.cut(loss);
        self.start(loss, survives)
    }

    /// An orderly stop, where the disk has room for it.
    fn stop(&mut self) -> Result<(), Violation> {
        self.heal()?;
        self.settle()?;
        // Connections close, and nobody hears what is still told.
        self.wires.close();
        let mut broker = self.broker.take().expect("the broker runs");
        broker.stage().lend(&mut self.ledger, &mut self.promises);
        let reader = broker.reader().clone();
        let stopped = broker.stop();
        let mut stage = stopped.map_err(|error| Violation::lost(format!("an orderly stop fails: {error}")))?;
        stage.lend(&mut self.ledger, &mut self.promises);
        self.ledger.verdict()?;
        self.promises.verdict()?;
        self.sights.saw("orderly stops");
        let survives = [reader.written(); 2];
        drop(reader);
        self.start(Loss::Nothing, survives)
    }

    /// The power may go when the batch by which somebody takes an office is written, and just before it is durable: another one
    /// might be told of the same epoch. By chance that is hardly ever met.
    pub(crate) fn endanger_office(&mut self) {
        let broker = self.broker();
        let durable = broker.survives(Loss::Power);
        let is_taken = broker.stage().office_taken.is_some_and(|position| position >= durable);
        if is_taken && self.planned.is_none() && self.streams.crashes.one_in(OFFICES_CUT) {
            // The write and the sync, and where a segment ends a few more.
            let after = self.streams.crashes.below(3);
            self.plan_fault(after, Fault::PowerCut, Loss::Power);
            self.sights.saw("offices taken in a cut");
        }
    }

    /// From here on the disk has room and no faults. Where something has gone wrong already, and nobody has noticed, that
    /// comes first.
    pub(crate) fn heal(&mut self) -> Result<(), Violation> {
        if self.disk.unplan()
            && let Some((_, loss)) = self.planned
        {
            self.lose(loss)?;
        }
        self.disk.set_capacity(None);
        (self.planned, self.full) = (None, false);
        Ok(())
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.disk.list().is_err()
    }

    fn cut(&mut self, loss: Loss) {
        self.planned = None;
        let Parts { failed, cut } = self.disk.take_parts();
        self.sights.saw_many("writes that failed in part", failed);
        match loss {
            Loss::Power => {
                let written = self.disk.snapshot();
                let Wreck { misdirected, flipped } = self.disk.crash(self.streams.disk.draw());
                wreck::count(&written, &self.disk.snapshot(), self.plan.sector, &mut self.sights);
                self.sights.saw_many("writes that went astray", misdirected);
                self.sights.saw_many("writes with a bit flipped", flipped);
            }
            Loss::Process | Loss::Nothing => {
                self.sights.saw_many("writes that a kill left in part", cut);
                self.disk.kill();
            }
        }
    }

    /// Starts the broker, if need be several times. `survives` is up to where the journal is there after a kill of the
    /// process and after a power cut.
    fn start(&mut self, mut loss: Loss, survives: [u64; 2]) -> Result<(), Violation> {
        let ran = self.promises.ran();
        self.stays_down();
        let (mut attempts, mut end) = (0, u64::MAX);
        let (broker, report) = loop {
            let is_faulty = self.plan.disk_is_bad && attempts < FAULTY_STARTS && self.streams.disk.one_in(4);
            if is_faulty {
                end = end.min(self.end_of_journal(loss)?);
                let after = self.streams.disk.below(12);
                let fault = if self.streams.disk.one_in(3) { Fault::Error } else { Fault::PowerCut };
                let loss = if fault == Fault::PowerCut { Loss::Power } else { Loss::Process };
                self.plan_fault(after, fault, loss);
            }
            attempts += 1;
            if self.plan.disk_is_bad && attempts <= FAULTY_STARTS && self.streams.disk.one_in(8) {
                end = end.min(self.end_of_journal(loss)?);
                self.disk.plan_read(self.streams.disk.below(READS_OF_START));
            }
            match Broker::start(&self.disk, &self.plan, &self.clock, self.options.canary) {
                Ok(_) if self.is_cut() => {
                    self.cut(Loss::Power);
                    loss = Loss::Power;
                }
                Ok(started) => break started,
                Err(error) => loss = self.not_opened(&error, loss)?,
            }
        };
        self.disk.unplan();
        self.disk.unplan_read();
        self.planned = None;
        self.unread = false;
        // Starts that failed may have left their marks behind what survived.
        let end = end.min(report.end);
        self.judge_recovery(&report, loss, (end, survives[usize::from(loss == Loss::Power)]))?;
        let over = over(&self.ledger);
        self.ledger.go_back(end);
        self.promises.go_back(end);
        self.promises.verdict()?;
        self.promises.started(broker.core().now(), ran)?;
        self.sights.saw_many("unconfirmed ends taken back", over.saturating_sub(self::over(&self.ledger)));
        self.open.clear();
        self.moves.clear();
        self.wires.close();
        (self.numb_until, self.found) = (None, 0);
        self.clients.connections_lost();
        self.candidates.connections_lost();
        self.subscribers.connections_lost();
        self.lost.after_restart(loss, &self.ledger, &mut self.sights)?;
        self.back.after_restart(&self.ledger)?;
        self.copies.after_restart(&self.promises.model)?;
        self.forwards.check(&self.ledger, &mut self.sights)?;
        audit(&broker, &self.ledger, &self.promises.model)?;
        millpond_core::invariants::check(broker.core());
        self.broker = Some(broker);
        Ok(())
    }

    /// The broker is down for a while, which counts for what goes by the wall alone.
    fn stays_down(&mut self) {
        let time = &mut self.streams.time;
        let down = match time.weighted(&[6, 3, 1]) {
            0 => 0,
            1 => time.between(1, 60_000),
            _ => time.between(60_000, 2 * 60 * 60 * 1000),
        };
        self.clock.pass(down);
        self.sights.saw_many("outages", u64::from(down > 0));
    }

    /// A start failed: with a fault that was planned, or without room, it is tried again.
    fn not_opened(&mut self, error: &OpenError, loss: Loss) -> Result<Loss, Violation> {
        self.tape.note(format_args!("does not start: {error}"));
        if self.disk.unplan_read() && self.planned.is_none() {
            self.sights.saw("reads that failed in a start");
            self.cut(Loss::Process);
            return Ok(if loss == Loss::Nothing { Loss::Process } else { loss });
        }
        match self.planned.take() {
            Some((Fault::PowerCut, _)) => {
                self.sights.saw("power cuts in a start");
                self.cut(Loss::Power);
                Ok(Loss::Power)
            }
            Some((Fault::Error, _)) => {
                self.sights.saw("faults of the disk in a start");
                self.cut(Loss::Process);
                Ok(if loss == Loss::Nothing { Loss::Process } else { loss })
            }
            None if self.full => {
                self.sights.saw("starts without room");
                self.disk.set_capacity(None);
                self.full = false;
                Ok(loss)
            }
            None => Err(Violation::lost(format!("the broker does not start after {loss:?}: {error}"))),
        }
    }

    /// Where a start would find the journal's end, asked of a copy of the disk.
    fn end_of_journal(&self, loss: Loss) -> Result<u64, Violation> {
        let copy = TwinDisk::from_snapshot(self.plan.sector, &self.disk.snapshot()).with_tree_of(&self.disk);
        match open::<Core>(Arc::new(copy), &self.plan.options) {
            Ok(opened) => Ok(opened.report.end),
            Err(error) => Err(Violation::lost(format!("a copy of the disk cannot be opened after {loss:?}: {error}"))),
        }
    }

    fn judge_recovery(&mut self, report: &Recovery, loss: Loss, (end, survives): (u64, u64)) -> Result<(), Violation> {
        let Recovery { fresh, orderly, checkpoint, batches, facts, torn, start, .. } = report;
        let torn = torn.as_ref().map_or(0, |torn| torn.bytes);
        self.tape.note(format_args!(
            "start {start}: fresh {fresh}, orderly {orderly}, checkpoint {checkpoint}, end {end}, \
             {batches} batches, {facts} facts, torn {torn}"
        ));
        if end < survives {
            return Err(Violation::lost(format!("the journal ends at {end} after {loss:?}, and reached {survives}")));
        }
        if loss == Loss::Nothing && !orderly {
            return Err(Violation::lost("an orderly stop is not known as one".into()));
        }
        self.sights.saw_many("restarts", u64::from(!fresh));
        self.sights.saw_many("checkpoints written", u64::from(*checkpoint > 0));
        self.sights.saw_many("torn batches", u64::from(torn > 0));
        Ok(())
    }
}

/// Messages that have ended.
fn over(ledger: &Ledger) -> u64 {
    ledger.messages.iter().filter(|(_, message)| message.place.is_over()).count() as u64
}
