//! Reading the messages that outputs name by their place in the journal.
//!
//! Recent messages are in memory and are taken from there at once. Older ones are read by a few threads of their own, so
//! that neither the writer nor a task of tokio ever waits for the disk. A message that does not match its checksum is
//! never handed on: it is left out and reported, and its lease is rejected, so that it becomes a dead letter.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::{Extent, Found, LeasedRun, Reply};
use millpond_protocol as frame;
use millpond_storage::{ReadError, Reader};
use millpond_types::limits::PAGE_BYTES_MAX;
use millpond_types::{Code, DeadView, MessageView, Millis, Receipt};

use crate::convert::response as convert;
use crate::lines::may_say;
use crate::metrics::Metrics;
use crate::session::conversation::Telling;
use crate::update_queue::{Batch, Gone, Lane, Next, Panicked, Pending, State, Submitter, UpdateQueue};
use crate::writer::{FINISHING, Request};

/// Threads that read. Two keep a disk's queue filled while one of them checks what it has read.
const READERS: usize = 2;
/// Reads that may wait for a thread: each connection has one at most, so this never fills before connections do.
const WAITING_READS: usize = 1_000_000;

/// The reason of a failure that is the disk's: the next attempt may succeed.
const UNREADABLE: &str = "unreadable: the disk could not be read";

/// What a receive is told of which nothing can be told. It is not told of nothing: it would take the topics for empty.
const DAMAGED: &str = "what is damaged has become dead letters, and what was moved as it was read comes again, unless it was to come at most once; receive again, for others may be ready";
const NOT_GIVEN: &str = "the disk did not give some of what was leased, and none of the rest is whole: what it did not give has failed, and comes again as the policy says, unless it was to come at most once; the broker's log names the file";

/// What has to be read.
pub(crate) enum Unread {
    /// Leased messages.
    Leases(Vec<LeasedRun>),
    /// Messages to look at.
    Messages(Vec<Found<MessageView>>),
    /// Dead letters to look at, and where the next page begins.
    Dead(Vec<Found<DeadView>>, Vec<u8>),
}

/// The same, read.
pub(crate) enum Read {
    /// Leased messages, those that cannot be read left out; there are some, or none were leased.
    Leases(Vec<frame::LeasedRun>),
    /// None of the leased messages can be told: why, and in words.
    NoLeases(Code, &'static str),
    /// A message that cannot be read has an empty block, and so have those behind what fits a frame.
    Messages(Vec<MessageView>),
    /// A message that cannot be read has an empty block.
    Dead(Vec<DeadView>, Vec<u8>),
}

/// Messages that are being read, and whom for.
pub(crate) struct Reading {
    pub(crate) what: Telling,
    pub(crate) pending: Pending<Read>,
}

impl Reading {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Read, Gone>> {
        std::pin::Pin::new(&mut self.pending).poll(context)
    }
}

/// Reads messages.
#[derive(Clone)]
pub(crate) struct Bodies {
    source: Source,
    threads: Arc<[Submitter<Unread, Read>]>,
}

/// The threads behind [`Bodies`].
pub(crate) struct ReaderThreads(Vec<UpdateQueue<Source>>);

/// Where messages are read from, and who is told of those that cannot be read.
#[derive(Clone)]
pub(crate) struct Source {
    reader: Reader,
    metrics: Arc<Metrics>,
    writer: Submitter<Request, Reply>,
}

impl Bodies {
    /// Starts the threads.
    pub(crate) fn start(
        reader: Reader,
        metrics: Arc<Metrics>,
        writer: Submitter<Request, Reply>,
    ) -> io::Result<(Bodies, ReaderThreads)> {
        let source = Source::new(reader, metrics, writer);
        let start = |i| UpdateQueue::start(&format!("reader-{i}"), &[Lane::new(WAITING_READS)], source.clone());
        let queues = (0..READERS).map(start).collect::<io::Result<Vec<_>>>()?;
        let threads = queues.iter().map(UpdateQueue::submitter).collect();
        Ok((Bodies::new(source, threads), ReaderThreads(queues)))
    }

    /// Bodies that these threads read.
    pub(crate) fn new(source: Source, threads: Arc<[Submitter<Unread, Read>]>) -> Bodies {
        Bodies { source, threads }
    }

    /// Reads at once if all of it is in memory, or else on a thread. `number` spreads the work over the threads.
    pub(crate) fn read(&self, number: u64, unread: Unread) -> Result<Read, Pending<Read>> {
        let unread = match self.source.read_recent(unread) {
            Ok(read) => return Ok(read),
            Err(unread) => unread,
        };
        let thread = &self.threads[(number % self.threads.len() as u64) as usize];
        match thread.submit(0, unread) {
            Ok(pending) => Err(pending),
            Err(refused) => unreachable!("readers stop after all connections: {refused}"),
        }
    }
}

impl ReaderThreads {
    /// Finishes what is being read.
    pub(crate) fn stop(self) -> Result<(), Panicked> {
        self.0.into_iter().try_for_each(|queue| queue.stop().map(|_| ()))
    }
}

impl State for Source {
    type Request = Unread;
    type Answer = Read;

    fn update(&mut self, batch: &mut Batch<Unread, Read>) -> Next {
        for (unread, answer) in batch.drain() {
            answer.give(self.read(unread));
        }
        Next::Sleep(None)
    }
}

impl Source {
    pub(crate) fn new(reader: Reader, metrics: Arc<Metrics>, writer: Submitter<Request, Reply>) -> Source {
        Source { reader, metrics, writer }
    }

    /// Reads what is in memory as a whole; the rest is given back.
    fn read_recent(&self, unread: Unread) -> Result<Read, Unread> {
        let recent = |extent| self.reader.recent(extent);
        match unread {
            Unread::Leases(runs) => {
                let blocks: Option<Vec<Bytes>> = runs.iter().map(|run| recent(run.extent)).collect();
                let Some(blocks) = blocks else { return Err(Unread::Leases(runs)) };
                let runs = runs.into_iter().zip(blocks).map(|(run, block)| convert::leased(run, block));
                Ok(Read::Leases(runs.collect()))
            }
            Unread::Messages(rows) if rows.is_empty() => Ok(Read::Messages(Vec::new())),
            Unread::Dead(rows, next) if rows.is_empty() => Ok(Read::Dead(Vec::new(), next)),
            // Looking is rare, and what is looked at may be anywhere.
            unread => Err(unread),
        }
    }

    fn read(&self, unread: Unread) -> Read {
        match unread {
            Unread::Leases(runs) => {
                let (mut whole, mut has_failed) = (Vec::with_capacity(runs.len()), false);
                let extents: Vec<Extent> = runs.iter().map(|run| run.extent).collect();
                let blocks = self.reader.read_all(&extents);
                for (run, block) in runs.into_iter().zip(blocks) {
                    has_failed |= self.take_run(run, block, &mut whole);
                }
                match (whole.is_empty(), has_failed) {
                    (false, _) => Read::Leases(whole),
                    (true, false) => Read::NoLeases(Code::Damaged, DAMAGED),
                    (true, true) => Read::NoLeases(Code::Unreadable, NOT_GIVEN),
                }
            }
            Unread::Messages(rows) => {
                let envelopes: usize = rows.iter().map(|found| found.row.frame_bytes()).sum();
                let mut room = Some(PAGE_BYTES_MAX - envelopes);
                let rows = rows.into_iter().map(|found| {
                    room = room.and_then(|room| room.checked_sub(found.extent.length as usize));
                    let block = room.map_or_else(Bytes::new, |_| self.read_row(found.extent));
                    convert::message(found, block)
                });
                Read::Messages(rows.collect())
            }
            Unread::Dead(rows, next) => {
                let rows = rows.into_iter().map(|found| {
                    let block = self.read_row(found.extent);
                    convert::dead(found, block)
                });
                Read::Dead(rows.collect(), next)
            }
        }
    }

    /// Takes a run as it was read, and if a message of it cannot be told, reads each message on its own. Whether the disk did not
    /// give one.
    fn take_run(&self, run: LeasedRun, read: Result<Bytes, ReadError>, whole: &mut Vec<frame::LeasedRun>) -> bool {
        let error = match read {
            Ok(block) => {
                whole.push(convert::leased(run, block));
                return false;
            }
            Err(error) => error,
        };
        if run.count > 1 {
            let parts = (0..run.count).map(|index| run.part(index, 1));
            return parts.fold(false, |has_failed, part| {
                let read = self.reader.read(part.extent);
                has_failed | self.take_run(part, read, whole)
            });
        }
        self.report(&error);
        match error {
            ReadError::Damaged { .. } => self.end(run.receipt, FinishVerb::Damaged),
            ReadError::Io { .. } => {
                self.end(run.receipt, FinishVerb::Fail { delay: None, reason: UNREADABLE.into() });
                return true;
            }
            // It has ended, and then so has its lease; or it was moved, and is delivered again from where it lies.
            ReadError::Gone(_) => self.end(run.receipt, FinishVerb::Release { delay: Millis::ZERO }),
        }
        false
    }

    /// Ends a lease whose message nobody will see. Only what is not in memory is ever damaged, so this is a reader's
    /// thread, which may wait for room.
    fn end(&self, first: Receipt, verb: FinishVerb) {
        let finish = Finish { verb, receipts: vec![ReceiptRun { first, count: 1 }], confirm: false, namespace: None };
        if let Err(refused) = self.writer.submit(FINISHING, Request::Call(Command::Finish(finish))) {
            tracing::debug!(%refused, "a message that cannot be read is found again at the next start");
        }
    }

    /// The block of a row, in memory of its own; empty if it cannot be read.
    fn read_row(&self, extent: Extent) -> Bytes {
        if let Some(recent) = self.reader.recent(extent) {
            return Bytes::copy_from_slice(&recent);
        }
        self.reader.read(extent).unwrap_or_else(|error| {
            self.report(&error);
            Bytes::new()
        })
    }

    fn report(&self, error: &ReadError) {
        match error {
            ReadError::Gone(_) => tracing::debug!(%error, "a message ended or was moved before it was read"),
            ReadError::Damaged { .. } | ReadError::Io { .. } => {
                self.metrics.damaged.inc();
                if let Some(left_out) = may_say("unreadable") {
                    tracing::error!(%error, left_out, "a message cannot be read; it is not delivered and its lease is ended");
                }
            }
        }
    }
}
