//! A seeded workload on the real core and the twin disk, and what must hold of it after each restart.
//!
//! The oracle is a plain map: for the end of every batch that was ever sealed, the pages of the state there.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, Ticket};
use millpond_core::fact::FactLog;
use millpond_core::output::{Extent, Output, Reply};
use millpond_core::page::Page;
use millpond_core::{Core, Now};
use millpond_types::block::{self};
use millpond_types::{Millis, RunTime, WallTime};

use super::calls::{self, receive};
use crate::checkpoint::LiveBytes;
use crate::tree::TreeError;
use crate::twin::{Seed, TwinDisk};
use crate::{CommitError, Failure, Identity, Mark, Moves, OpenError, OpenOptions, Opened, Scrubbed, open};

pub const YEAR: Millis = Millis::seconds(365 * 24 * 60 * 60);
pub const SEGMENT: u64 = 16 * 1024;

pub fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes: SEGMENT,
        checkpoint_after: 40 * 1024,
        tail_bytes: 8 * 1024,
        batch_bytes: crate::BATCH_BYTES,
        slack: 3 * SEGMENT,
        identity: Identity { directory: 0x0123_4567_89ab_cdef, hash_key: [1, 2] },
        cut: None,
        ..OpenOptions::default()
    }
}

/// What must be remembered over crashes.
pub struct Workload {
    pub disk: TwinDisk,
    seed: Seed,
    /// By the end of a batch: the state behind it.
    history: BTreeMap<u64, Vec<Page>>,
    /// Everything before this position was reported durable.
    durable: u64,
    time: u64,
    leased: Vec<ReceiptRun>,
}

/// The power is cut, or something failed.
#[derive(Debug)]
pub struct Stopped;

impl Workload {
    pub fn new(disk: TwinDisk, seed: u64) -> Workload {
        let history = BTreeMap::from([(0, Vec::new())]);
        Workload { disk, seed: Seed::new(seed), history, durable: 0, time: 0, leased: Vec::new() }
    }

    /// Opens the directory and checks what came back.
    pub fn open(&mut self) -> Result<Opened, OpenError> {
        let mut opened = open::<Core>(Arc::new(self.disk.clone()), &options())?;
        let end = opened.report.end;
        let (known, pages) = self.history.range(..=end).next_back().expect("there is the beginning");
        assert!(end >= self.durable, "{} was durable, and the journal ends at {end}", self.durable);
        if *known > 0 {
            // An open that was cut short may have left its mark behind; nothing else stands between known batches.
            let marks = end - known;
            assert!(marks.is_multiple_of(64), "the journal ends at {end}, where no batch ended (but one at {known})");
            assert_eq!(state(&opened.core), *pages, "the state at {end}");
        }
        check_extents(&opened);
        self.history.split_off(&(end + 1));
        self.sealed(&opened);
        self.durable = opened.reader.durable();
        let now = opened.report.now;
        self.time = self.time.max(now.run.0).max(now.wall.0) + 1;
        // A start changes numbers alone, and where it fails the state cannot be told any more.
        let pages = state(&opened.core);
        let started = opened.start(now);
        self.history.insert(opened.appender.position(), pages);
        started?;
        self.durable = opened.reader.durable();
        Ok(opened)
    }

    /// Does something.
    pub fn step(&mut self, opened: &mut Opened) -> Result<(), Stopped> {
        self.time += 50;
        match self.seed.below(16) {
            0..6 => {
                let mut command = publish(&mut self.seed);
                if self.seed.below(10) == 0 {
                    delay(&mut command, YEAR);
                }
                self.turn(opened, command)?;
            }
            6..9 => self.receive(opened)?,
            9..12 => self.ack(opened)?,
            12 => self.mark(opened, Mark::Idle)?,
            13 => _ = self.move_some(opened)?,
            _ => {
                if opened.appender.checkpoint_due(&opened.core, false) {
                    self.mark(opened, Mark::Idle)?;
                    opened.appender.checkpoint(&mut opened.core);
                }
                opened.housekeeper.step()?;
            }
        }
        Ok(())
    }

    /// Takes what is ready and remembers the receipts.
    pub fn receive(&mut self, opened: &mut Opened) -> Result<(), Stopped> {
        let outputs = self.turn(opened, receive(20))?;
        for output in outputs {
            if let Output::Reply { reply: Reply::Received(runs), .. } = output {
                self.leased.extend(runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }));
            }
        }
        Ok(())
    }

    /// Finishes what was received.
    pub fn ack(&mut self, opened: &mut Opened) -> Result<(), Stopped> {
        let receipts = std::mem::take(&mut self.leased);
        if receipts.is_empty() {
            return Ok(());
        }
        let ack = Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: true, namespace: None });
        self.turn(opened, ack).map(|_| ())
    }

    /// Moves what pins segments, as far as a step comes.
    pub fn move_some(&mut self, opened: &mut Opened) -> Result<bool, Stopped> {
        let Moves { commands, unreadable, rests } = opened.mover.step()?;
        assert!(unreadable.is_empty(), "{unreadable:?}");
        commands.into_iter().try_for_each(|command| self.turn(opened, command).map(|_| ()))?;
        Ok(!rests)
    }

    /// So many publishes, delayed for a year where they are to stay.
    pub fn publish_some(&mut self, opened: &mut Opened, seed: &mut Seed, count: u32, stays: bool) {
        for _ in 0..count {
            let mut command = publish(seed);
            if stays {
                delay(&mut command, YEAR);
            }
            self.turn(opened, command).unwrap();
        }
    }

    /// Makes a checkpoint of all that there is.
    pub fn checkpoint(&mut self, opened: &mut Opened) {
        self.mark(opened, Mark::Idle).unwrap();
        checkpoint(opened);
    }

    /// Drains it, stops in good order, and has segments taken back that hold nothing any more.
    pub fn wind_up(&mut self, mut opened: Opened) {
        self.drain(&mut opened);
        self.mark(&mut opened, Mark::Stop).unwrap();
        while opened.housekeeper.step().unwrap() {}
    }

    /// Whatever is ready is received and acked.
    pub fn drain(&mut self, opened: &mut Opened) {
        for _ in 0..60 {
            self.receive(opened).unwrap();
            self.ack(opened).unwrap();
        }
    }

    /// A turn with one command. One batch in four is written and not synced yet.
    pub fn turn(&mut self, opened: &mut Opened, command: Command) -> Result<Vec<Output>, Stopped> {
        let now = Now { run: RunTime(self.time), wall: WallTime(self.time) };
        let Opened { core, store, appender, committer, reader, .. } = opened;
        core.set_disk_full(appender.disk_full());
        core.set_time(now);
        core.submit(Ticket(self.time), command, appender);
        core.advance(appender);
        core.dispatch(appender);
        while store.supply(core, appender)? {
            core.dispatch(appender);
        }
        appender.hold(core.holdings());
        appender.capture(core);
        let outputs = core.outputs().drain(..).collect();
        if let Some(batch) = appender.seal(now) {
            self.sealed(opened);
            opened.committer.write(batch)?;
            if self.seed.below(4) > 0 {
                self.durable = opened.committer.sync()?;
            }
        } else if reader.durable() < reader.written() {
            self.durable = committer.sync()?;
        }
        Ok(outputs)
    }

    pub fn mark(&mut self, opened: &mut Opened, mark: Mark) -> Result<(), Stopped> {
        self.durable = opened.committer.sync()?;
        // What a start has appended waits for a first turn.
        if let Some(batch) = opened.appender.seal(opened.core.now()) {
            self.sealed(opened);
            opened.committer.write(batch)?;
            self.durable = opened.committer.sync()?;
        }
        if let Some(batch) = opened.appender.mark(opened.core.now(), mark) {
            self.sealed(opened);
            opened.committer.write(batch)?;
            self.durable = opened.committer.sync()?;
        }
        Ok(())
    }

    /// The state behind the batch that ended there, if one did.
    pub fn state_at(&self, end: u64) -> Option<&[Page]> {
        self.history.get(&end).map(Vec::as_slice)
    }

    /// Notes the state behind a batch that was just sealed.
    fn sealed(&mut self, opened: &Opened) {
        self.history.insert(opened.appender.position(), state(&opened.core));
    }
}

/// All pages but the numbers, which hold the time, and without what depends on when checkpoints were made and on how much
/// of a line is in memory.
pub fn state(core: &Core) -> Vec<Page> {
    let (pieces, mut pages): (Vec<_>, Vec<_>) = core.pages().skip(1).partition(|page| matches!(page, Page::Piece(_)));
    let mut stored: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for page in pieces {
        let Page::Piece(piece) = page else { unreachable!("set apart above") };
        stored.entry((piece.group, piece.topic, piece.priority)).or_default().push(piece.messages);
    }
    for page in &mut pages {
        match page {
            Page::Namespace(page) => page.groups.iter_mut().for_each(|group| group.shelves = Default::default()),
            Page::Topic(page) => {
                page.epoch = 0;
                for level in &mut page.levels {
                    let pieces = stored.remove(&(page.group, page.number, level.priority)).unwrap_or_default();
                    pieces.into_iter().for_each(|piece| level.take_in(piece));
                }
            }
            _ => {}
        }
    }
    assert!(stored.is_empty(), "every piece is of a line");
    pages
}

/// Makes a checkpoint of the state, whole.
pub fn checkpoint(opened: &mut Opened) {
    opened.appender.checkpoint(&mut opened.core);
    while opened.appender.capture(&mut opened.core) {}
    while opened.housekeeper.step().unwrap() {}
}

/// Every message that is still needed is there and is what was written, and the segments are known to hold just these.
pub fn check_extents(opened: &Opened) {
    let mut live = opened.reader.live();
    opened.core.extents(&mut |group, extent| assert!(live.freed(group, extent), "{extent:?} counts"));
    assert_eq!(live, LiveBytes::default(), "nothing else counts");
    opened.core.extents(&mut |_, extent: Extent| {
        let block = opened.reader.read(extent).unwrap_or_else(|error| panic!("a live message at {extent:?}: {error}"));
        assert!(block::messages(&block).all(|message| message.is_ok()));
    });
}

/// A publish of a run of messages.
pub fn publish(seed: &mut Seed) -> Command {
    let count = 1 + seed.below(5);
    let bodies: Vec<Vec<u8>> = (0..count).map(|_| (0..seed.below(600)).map(|_| seed.draw() as u8).collect()).collect();
    let topic = format!("site/{}", seed.below(4));
    calls::publish(vec![calls::run(&topic, &[], bodies.iter().map(|body| &body[..]))])
}

/// Makes a publish one of messages that pin their segment.
pub fn delay(command: &mut Command, delay: Millis) {
    let Command::Publish(publish) = command else { panic!("only what is published is delayed") };
    publish.runs[0].delay = delay;
}

impl From<TreeError> for Stopped {
    fn from(_: TreeError) -> Stopped {
        Stopped
    }
}

impl From<Failure> for Stopped {
    fn from(_: Failure) -> Stopped {
        Stopped
    }
}

impl From<CommitError> for Stopped {
    fn from(_: CommitError) -> Stopped {
        Stopped
    }
}

/// What a pass of the scrub finds, by file and offset.
pub fn scrub<R>(opened: &mut Opened<R>) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    loop {
        match opened.housekeeper.scrub() {
            Scrubbed::Piece => {}
            Scrubbed::Damaged(damage) => found.push((damage.file, damage.offset)),
            Scrubbed::Checkpoint(error) => panic!("{error}"),
            Scrubbed::Pass => return found,
        }
    }
}
