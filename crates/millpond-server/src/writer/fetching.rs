//! What the core wants from the disk: reading threads fetch it in batches, and what they found comes back through the
//! writer's own queue, in the lane that is taken from first.
//!
//! Invariant: at most [`IN_FLIGHT`] batches are on their way, each with a place reserved for its return. What is wanted
//! beyond that waits here; it has a bound, for publishes are not taken while the core has many commands parked, and dispatch
//! asks for so much at a time. Where all that is named is in memory, nothing here costs anything.

use std::collections::VecDeque;
use std::io;

use millpond_core::output::Reply;
use millpond_core::store::{Answer, Want};
use millpond_storage::store::{Fetched, LayeredStore};
use millpond_storage::tree::TreeError;

use super::request::{RETURNING, Request};
use crate::update_queue::{Batch, Lane, Next, Panicked, State, Submitter, UpdateQueue};

/// Threads that read. While one waits for the disk the other has something to do.
pub(crate) const THREADS: usize = 2;
/// Batches on their way: one that is read by each thread, and the next one for it.
pub(super) const IN_FLIGHT: usize = 2 * THREADS;
/// Wants of a batch: enough for neighbours in the tree to be read together, few enough for a batch to take milliseconds.
const BATCH_MAX: usize = 256;
/// Ranges of a batch: each may be hundreds of entries.
const RANGES_MAX: usize = 4;

/// What a batch became.
pub(crate) type Found = Result<Fetched, TreeError>;

/// The threads.
pub(crate) struct FetchThreads(Vec<UpdateQueue<Fetcher>>);

/// What one of them has.
pub(crate) struct Fetcher(LayeredStore);

impl FetchThreads {
    pub(crate) fn start(store: &LayeredStore) -> io::Result<FetchThreads> {
        let start = |i| UpdateQueue::start(&format!("fetch-{i}"), &Fetcher::LANES, Fetcher::new(store));
        Ok(FetchThreads((0..THREADS).map(start).collect::<io::Result<_>>()?))
    }

    pub(crate) fn submitters(&self) -> Vec<Submitter<Vec<Want>, Found>> {
        self.0.iter().map(UpdateQueue::submitter).collect()
    }

    /// Ends the threads, once the writer has ended.
    pub(crate) fn stop(self) -> Result<(), Panicked> {
        self.0.into_iter().try_for_each(|queue| queue.stop().map(|_| ()))
    }
}

impl Fetcher {
    /// A batch is one request, and there are never more than these.
    pub(crate) const LANES: [Lane; 1] = [Lane::new(IN_FLIGHT)];

    pub(crate) fn new(store: &LayeredStore) -> Fetcher {
        Fetcher(store.clone())
    }
}

impl State for Fetcher {
    type Request = Vec<Want>;
    type Answer = Found;

    fn update(&mut self, batch: &mut Batch<Vec<Want>, Found>) -> Next {
        for (wants, answer) in batch.drain() {
            answer.give(self.0.read(wants));
        }
        Next::Sleep(None)
    }
}

/// The writer's end.
pub(super) struct Fetching {
    store: LayeredStore,
    threads: Vec<Submitter<Vec<Want>, Found>>,
    /// Entries that are wanted and not on their way, in the order in which they came.
    waiting: VecDeque<Want>,
    /// Ranges that are: for one of them everybody waits who is to be served, and for an entry one command does.
    ranges: VecDeque<Want>,
    /// Whether the last batch was of ranges: the next is of entries, if there are some.
    was_ranges: bool,
    in_flight: usize,
    /// The thread that is sent to next.
    next: usize,
}

impl Fetching {
    pub(super) fn new(store: LayeredStore, threads: Vec<Submitter<Vec<Want>, Found>>) -> Fetching {
        let (waiting, ranges) = (VecDeque::new(), VecDeque::new());
        Fetching { store, threads, waiting, ranges, was_ranges: false, in_flight: 0, next: 0 }
    }

    /// Sends what is wanted on its way, as far as the threads have room.
    pub(super) fn send(&mut self, wanted: &mut Vec<Want>, own: &Submitter<Request, Reply>) {
        for want in wanted.drain(..) {
            match want {
                Want::Entry(_) => self.waiting.push_back(want),
                Want::Range(_) | Want::Spread(_) => self.ranges.push_back(want),
            }
        }
        while self.in_flight < IN_FLIGHT {
            let Some(wants) = self.batch() else { return };
            let thread = &self.threads[self.next];
            self.next = (self.next + 1) % self.threads.len();
            let sent = thread.submit_into(0, wants, own, RETURNING, |found| Request::Fetched(Box::new(found)));
            sent.expect("there is room for all batches that are on their way");
            self.in_flight += 1;
        }
    }

    /// Whether anything is being read. If nothing is, nothing is wanted.
    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight > 0
    }

    /// What came back, as of now.
    pub(super) fn returned(&mut self, fetched: Fetched) -> Vec<Answer> {
        self.in_flight -= 1;
        self.store.resolve(fetched)
    }

    fn batch(&mut self) -> Option<Vec<Want>> {
        self.was_ranges = !self.ranges.is_empty() && (!self.was_ranges || self.waiting.is_empty());
        let (from, max) = match self.was_ranges {
            true => (&mut self.ranges, RANGES_MAX),
            false => (&mut self.waiting, BATCH_MAX),
        };
        let count = from.len().min(max);
        (count > 0).then(|| from.drain(..count).collect())
    }
}
