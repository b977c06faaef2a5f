//! The writer's end of the journal: facts become batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use millpond_core::Now;
use millpond_core::fact::{Fact, FactLog};
use millpond_core::output::Holdings;
use millpond_core::page::NumbersPage;

use super::batch::{ALIGN, Batch, BatchHeader, EPOCH, HEADER, MARK, START, STOP};
use super::shared::{Failure, Hold, Shared};
use crate::checkpoint::Job;
use crate::codec::{Context, encode_fact};
use crate::open::OpenOptions;
use crate::recover::Replica;
use crate::store::{LayeredStore, Sweep};
use crate::sync::lock;
use crate::tree::TreeError;

/// A batch's lengths are 32-bit numbers, and far below that something is wrong.
const BATCH_MAX: usize = 1 << 30;

/// Full batches that one comes to while the one before cannot go.
const OVERFULL: usize = 2;

/// While the journal rests, a checkpoint is due at one part in so many of what it is due at otherwise.
const REST_SHARE: usize = 8;
/// Topics that are captured for a checkpoint between two turns, fewer where they hold much: some tenths of a millisecond.
const CAPTURE_SLICE: usize = 256;

/// Builds batches. Owned by the writer thread.
///
/// A published block is copied once, into the memory from which it is written and delivered.
pub struct Appender {
    shared: Arc<Shared>,
    /// The rest of a chunk; what is filled is the batch being built, its header left blank.
    buffer: BytesMut,
    /// The position at which the batch being built begins.
    position: u64,
    facts: u32,
    /// What the facts so far have in common with the next.
    context: Context,
    holdings: Holdings,
    scratch: Vec<u8>,
    /// Bytes of the batch before: the next one is probably no larger by much.
    last: usize,
    /// Flags of the batch before.
    flags: u8,
    /// [`EPOCH`], where the batch being built is to have it.
    epoch: u8,
    store: LayeredStore,
    checkpoint_after: u64,
    /// Bytes of a batch that is full.
    batch_full: usize,
    checkpoint_entries: usize,
    young_bytes: usize,
    /// The position of the checkpoint that was asked for last.
    checkpointed: u64,
    _hold: Hold,
}

/// Why a mark is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Nothing has happened for a while.
    Idle,
    /// The broker stops in good order.
    Stop,
    /// The broker has started.
    Start,
}

impl Appender {
    pub(crate) fn new(
        shared: Arc<Shared>,
        hold: Hold,
        position: u64,
        options: &OpenOptions,
        store: LayeredStore,
    ) -> Appender {
        let OpenOptions { checkpoint_after, checkpoint_entries, young_bytes, .. } = *options;
        let checkpointed = shared.checkpoint.load(Ordering::Acquire);
        Appender {
            shared,
            buffer: BytesMut::new(),
            position,
            facts: 0,
            context: Context::default(),
            holdings: Holdings::default(),
            scratch: Vec::new(),
            last: 0,
            flags: 0,
            epoch: 0,
            store,
            checkpoint_after,
            checkpoint_entries,
            young_bytes,
            batch_full: options.batch_bytes as usize,
            checkpointed,
            _hold: hold,
        }
    }

    /// Bytes of the batch being built.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the batch should be sealed before more commands are decided.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= self.batch_full
    }

    /// Whether the batch has outgrown what a full one may come to in a turn. Its chunk has room for no more, and is copied.
    pub fn is_overfull(&self) -> bool {
        self.buffer.len() >= OVERFULL * self.batch_full
    }

    /// Whether publishes are to be refused: there is no space but the reserve.
    pub fn disk_full(&self) -> bool {
        self.shared.spares.disk_full.load(Ordering::Acquire)
    }

    /// Takes what this turn has changed of what the groups hold, before the turn's batch is sealed. What was freed is kept
    /// until that batch is durable.
    pub fn hold(&mut self, holdings: &mut Holdings) {
        self.holdings.stored.append(&mut holdings.stored);
        self.holdings.shared.append(&mut holdings.shared);
        self.holdings.freed.append(&mut holdings.freed);
        self.holdings.delivered.append(&mut holdings.delivered);
    }

    /// Ends the batch; `None` if nothing was appended.
    pub fn seal(&mut self, now: Now) -> Option<Batch> {
        (self.facts > 0).then(|| self.seal_with(now, 0))
    }

    /// A batch that vouches for those before it. To be called when everything before is durable: it is worth nothing
    /// sooner. `None` if the batch before was such a mark already.
    ///
    /// # Panics
    /// If facts wait to be sealed.
    pub fn mark(&mut self, now: Now, mark: Mark) -> Option<Batch> {
        assert_eq!(self.facts, 0, "a mark vouches for what is sealed");
        let (flags, needless) = match mark {
            Mark::Idle => (MARK, MARK),
            Mark::Stop => (MARK | STOP, STOP),
            Mark::Start => (MARK | START, 0),
        };
        if self.flags & needless != 0 {
            return None;
        }
        self.begin(HEADER);
        Some(self.seal_with(now, flags))
    }

    /// What the core wants cannot be read: the broker has to stop.
    pub fn unreadable(&self, error: TreeError) -> Failure {
        let tree = self.store.tree().as_ref();
        let error = match error {
            // It is noted before the file is looked for.
            error @ TreeError::Damaged(_) => error,
            error => tree.named(error),
        };
        self.shared.poison_by(tree, "reading", error)
    }

    /// Whether a checkpoint was begun and is not on the disk.
    pub fn is_checkpointing(&self) -> bool {
        self.shared.checkpointing.load(Ordering::Acquire)
    }

    /// Whether it is time for a checkpoint. One comes earlier while the journal rests: there is time for it, and the next
    /// start has so much less to replay.
    ///
    /// What the store holds in memory makes one due also where the journal has not grown since the last: who only looks has
    /// entries brought into memory and put back, and what waits for the room that they take would wait for ever.
    pub fn checkpoint_due<R: Replica>(&self, core: &R, at_rest: bool) -> bool {
        if self.is_checkpointing() {
            return false;
        }
        let behind = self.position - self.checkpointed;
        let (share, young) = (if at_rest { REST_SHARE } else { 1 }, self.store.young());
        behind > 0 && behind >= self.checkpoint_after / share as u64
            || young.changes + core.changed() >= self.checkpoint_entries / share
            || young.bytes >= self.young_bytes
            // On a full disk a checkpoint is the only way to get a segment back.
            || behind > 0 && self.disk_full() && self.shared.segments.any_dead(self.checkpointed)
    }

    /// When a checkpoint is due on a journal that rests, though it has nothing to say but the time: so much of what the last ones
    /// hold is over by then.
    pub fn sweep(&self) -> Sweep {
        if self.is_checkpointing() { Sweep::Unknown } else { self.store.sweep() }
    }

    /// Begins a checkpoint of the state behind the last batch. The shell goes on with [`Appender::capture`] until it is
    /// complete, and calls it after every turn meanwhile.
    ///
    /// # Panics
    /// If facts wait to be sealed: a checkpoint stands between batches.
    pub fn checkpoint<R: Replica>(&mut self, core: &mut R) {
        self.begin_epoch();
        self.shared.checkpointing.store(true, Ordering::Release);
        self.checkpointed = self.position;
        self.shared.segments.note_at(self.position);
        let NumbersPage { epoch, wall, .. } = core.freeze();
        let job = Job { position: self.position, start: self.shared.start, epoch, wall, live: None };
        *lock(&self.shared.job) = Some(job);
    }

    /// The next batch says that a checkpoint begins before it.
    ///
    /// # Panics
    /// If facts wait to be sealed.
    pub(crate) fn begin_epoch(&mut self) {
        assert_eq!(self.facts, 0, "a checkpoint stands between batches");
        self.epoch = EPOCH;
    }

    /// Goes on with a checkpoint, if there is one, and hands it to the housekeeper when it is complete. True if there is
    /// more to do.
    pub fn capture<R: Replica>(&mut self, core: &mut R) -> bool {
        match core.capture(CAPTURE_SLICE) {
            None => false,
            Some(false) => true,
            Some(true) => {
                self.shared.bell.ring();
                false
            }
        }
    }

    /// The first batch of a start, with what was appended so far.
    pub(crate) fn seal_first(&mut self, now: Now) -> Batch {
        self.begin(0);
        self.seal_with(now, START)
    }

    fn seal_with(&mut self, now: Now, flags: u8) -> Batch {
        let flags = flags | std::mem::take(&mut self.epoch);
        let length = self.buffer.len() - HEADER;
        self.buffer.resize(self.buffer.len().next_multiple_of(ALIGN), 0);
        let header = BatchHeader {
            length: u32::try_from(length).expect("a batch's length is bounded"),
            facts: std::mem::take(&mut self.facts),
            position: self.position,
            durable: 0,
            run: now.run,
            wall: now.wall,
            start: self.shared.start,
            flags,
            payload_checksum: 0,
        };
        let buffer = self.buffer.split();
        self.context = Context::default();
        self.last = buffer.len();
        self.flags = flags;
        self.position = header.end();
        assert_eq!(buffer.len() as u64, header.total(), "a batch is as long as its header says");
        Batch { buffer, header, holdings: std::mem::take(&mut self.holdings) }
    }

    /// Leaves room for the header, where a batch begins, and finds memory for so many bytes more.
    fn begin(&mut self, bytes: usize) {
        let held = self.buffer.len();
        let likely = if held == 0 { (self.last + self.last / 4).max(HEADER) } else { 0 };
        let needed = held + (bytes + HEADER + ALIGN).max(likely);
        assert!(needed <= BATCH_MAX, "a batch is sealed when it is full");
        if self.buffer.capacity() < needed {
            // A batch that outgrows its chunk moves; it gets as much again, so that it moves rarely.
            let mut chunk = self.shared.tail.chunk(if held == 0 { needed } else { 2 * needed });
            chunk.extend_from_slice(&self.buffer);
            self.buffer = chunk;
        }
        if held == 0 {
            self.buffer.resize(HEADER, 0);
        }
    }
}

impl FactLog for Appender {
    fn append(&mut self, fact: &Fact) -> u64 {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        encode_fact(fact, &mut self.context, &mut scratch);
        let block = fact.block().map_or(&[][..], |block| &block[..]);
        self.begin(scratch.len() + block.len());
        let at = self.position + self.buffer.len() as u64;
        self.buffer.extend_from_slice(&scratch);
        self.buffer.extend_from_slice(block);
        self.facts += 1;
        let before_block = if block.is_empty() { 0 } else { scratch.len() as u64 };
        self.scratch = scratch;
        at + before_block
    }
    /// Behind all facts so far, where the batch ends if it is sealed now; with nothing to seal, where the next one begins.
    fn position(&self) -> u64 {
        self.position + self.buffer.len().next_multiple_of(ALIGN) as u64
    }
}
