//! The broker as a library: a data directory, opened by the program that wants it, without any socket.
//!
//! [`Broker::open`] starts the threads that belong to a directory (the writer, the journal, readers, a housekeeper);
//! [`Broker::shutdown`] ends them in good order. Between the two, any number of [`Handle`]s submit commands, from threads
//! and from tasks of any runtime. The server is one such program.
//!
//! ```
//! use millpond_server::{Broker, BrokerOptions, Message, Receive};
//! use millpond_types::{FinishOutcome, NamespaceName};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path();
//! let broker = Broker::open(directory, BrokerOptions::default()).unwrap();
//! let namespace = NamespaceName::default();
//! broker.publish(namespace.clone(), vec![Message::new("orders/7".try_into().unwrap(), "ship it")]).wait().unwrap();
//!
//! let leases = broker.receive(Receive::all(namespace, 10)).wait().unwrap(); // or `.await`
//! assert_eq!(leases[0].body(), b"ship it");
//! let outcome = broker.ack(&[leases[0].receipt]).wait().unwrap();
//! assert_eq!(outcome[0].outcome, FinishOutcome::Done);
//! broker.shutdown().unwrap();
//! ```

mod call;
mod handle;
mod message;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use millpond_core::{Core, LevelBounds};
use millpond_protocol::Limits;
use millpond_storage::store::FilterBounds;
use millpond_storage::tree::TreeOptions;
use millpond_storage::{Disk, Failure, OpenOptions, Opened, RealDisk, Trouble};
use millpond_types::limits::{BODY_MAX_DEFAULT, FRAME_MAX};

pub use call::{Call, CallError};
pub use handle::{Answer, Forwarded, Handle, Leased, Receive};
pub use message::{Message, Routed};

use crate::bodies::{Bodies, ReaderThreads};
use crate::memory::{MEMORY_DEFAULT, MEMORY_MIN, Shares};
use crate::moving::Moving;
use crate::session::{Common, Registry, Shared};
use crate::update_queue::UpdateQueue;
use crate::writer::{Clock, FetchThreads, Host, Journal, Machine, Parts, Writer, lanes};

/// How to open a broker's directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerOptions {
    /// Bytes of memory that the broker may take of its program's, at least [`MEMORY_MIN`].
    pub memory: u64,
    /// Bytes of the largest body that a connection may publish. The program's own calls are bound by the size of a
    /// publish alone.
    pub body_max: u32,
    /// The journal is cut off at this position, where recovery has found damage and said so. What is cut off is lost.
    pub cut_journal: Option<u64>,
}

impl Default for BrokerOptions {
    fn default() -> BrokerOptions {
        BrokerOptions { memory: MEMORY_DEFAULT, body_max: BODY_MAX_DEFAULT as u32, cut_journal: None }
    }
}

/// Why a broker was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory could not be made or reached.
    #[error("the data directory {place} cannot be used: {error}")]
    Directory {
        /// The directory.
        place: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// No room to work in.
    #[error("memory is {0} bytes, and a broker needs at least {MEMORY_MIN} (64 MiB)")]
    Memory(u64),
    /// What is in it could not be opened.
    #[error(transparent)]
    Storage(#[from] millpond_storage::OpenError),
    /// A thread could not be started.
    #[error("starting a thread failed: {0}")]
    Thread(io::Error),
}

/// Why a shutdown was not orderly. What was confirmed is safe all the same.
#[derive(Debug, thiserror::Error)]
pub enum ShutdownError {
    /// A write or a sync failed, now or before.
    #[error("{0}")]
    Failed(String),
    /// A thread panicked: report this.
    #[error("the thread {0} panicked; report this")]
    Panicked(&'static str),
}

/// An open broker. Dropping it without [`Broker::shutdown`] loses nothing that was confirmed, and is not orderly.
pub struct Broker {
    handle: Handle,
    writer: UpdateQueue<Writer<Machine>>,
    journal: UpdateQueue<Journal>,
    fetchers: FetchThreads,
    readers: ReaderThreads,
    moving: Moving,
    housekeeper: JoinHandle<Result<(), Failure>>,
}

impl Broker {
    /// Opens the directory, or makes it, and brings its state back.
    pub fn open(directory: impl AsRef<Path>, options: BrokerOptions) -> Result<Broker, OpenError> {
        let place = directory.as_ref();
        let failed = |error| OpenError::Directory { place: place.to_owned(), error };
        Broker::open_on(Arc::new(RealDisk::create(place).map_err(failed)?), options)
    }

    /// Opens a directory on a disk of the program's own making.
    pub fn open_on(disk: Arc<dyn Disk>, options: BrokerOptions) -> Result<Broker, OpenError> {
        if options.memory < MEMORY_MIN {
            return Err(OpenError::Memory(options.memory));
        }
        let shares = Shares::of(options.memory);
        let storage = OpenOptions {
            cut: options.cut_journal,
            tail_bytes: shares.tail,
            batch_bytes: shares.batch,
            room: shares.room,
            bounds: LevelBounds::within(shares.room),
            young_bytes: shares.young(),
            filter: FilterBounds::within(shares.filter / 2),
            tree: TreeOptions { cache_bytes: shares.cache, ..TreeOptions::default() },
            ..OpenOptions::default()
        };
        Broker::open_with(disk, options, &storage)
    }

    fn open_with(disk: Arc<dyn Disk>, options: BrokerOptions, storage: &OpenOptions) -> Result<Broker, OpenError> {
        let shares = Shares::of(options.memory);
        let place = disk.place("");
        let mut opened: Opened<Core> = millpond_storage::open(disk, storage)?;
        let report = &opened.report;
        tracing::info!(
            directory = place,
            orderly = report.orderly,
            batches = report.batches,
            facts = report.facts,
            milliseconds = report.took.as_millis() as u64,
            "the data directory is open"
        );
        if let Some(torn) = &report.torn {
            tracing::warn!(
                file = torn.file,
                offset = torn.offset,
                bytes = torn.bytes,
                "the journal ended in a batch that is not whole, for which nothing vouches, and which was given up: after a crash or \
                 a power cut that is in order, for it was on its way; if the disk damaged it, it may be the last one that was confirmed"
            );
        }
        if let Some(cut) = &report.cut {
            tracing::warn!(
                position = report.end,
                file = cut.file,
                offset = cut.offset,
                batches = cut.batches,
                bytes = cut.bytes,
                "the journal was cut off here, as it was asked for: at least so many batches and bytes that followed are lost; \
                 files of which nothing is left are named *.cut"
            );
        }
        if let Some(what) = &report.rebuilt {
            tracing::warn!(
                what,
                "the checkpoint was damaged: it is in tree.damaged, and was made anew from the whole journal"
            );
        }

        let mut host = Machine;
        let mut clock = Clock::starting_from(report.now, host.now());
        opened.start(clock.tick(host.now(), host.system()))?;
        let Opened { core, store, appender, committer, reader, housekeeper, mover, .. } = opened;
        let hash_key = core.hash_key();
        let common = Common::new(Registry::default());

        let told = common.health.clone();
        let housekeeper = thread::Builder::new().name("housekeeper".into()).spawn(move || {
            let kept = housekeeper.run(|trouble| match trouble {
                Trouble::Damage(damage) => tracing::error!(file = damage.file, offset = damage.offset, "{damage}"),
                Trouble::Tree(error) => {
                    tracing::error!(%error, "the checkpoint cannot be merged or read through; it grows until that is mended, and it is tried again");
                }
                Trouble::Checkpoint(failure) => {
                    tracing::error!(%failure, "the checkpoint is damaged; the broker goes on until it needs what is damaged");
                }
            });
            // A broker that nobody asks for anything would not notice.
            kept.inspect_err(|failure| told.fail(failure.to_string()))
        });
        let housekeeper = housekeeper.map_err(OpenError::Thread)?;
        let journal = UpdateQueue::start("journal", &Journal::LANES, Journal::new(&common));
        let journal = journal.map_err(OpenError::Thread)?;
        let fetchers = FetchThreads::start(&store).map_err(OpenError::Thread)?;
        let parts = Parts {
            host,
            core,
            store: store.clone(),
            shares,
            fetchers: fetchers.submitters(),
            appender,
            committer,
            clock,
            journal: journal.submitter(),
            common: common.clone(),
        };
        let writer = UpdateQueue::start_with("writer", &lanes(&shares), |own| Writer::new(parts, own));
        let writer = writer.map_err(OpenError::Thread)?;
        let readers = Bodies::start(reader, common.metrics.clone(), writer.submitter());
        let (bodies, readers) = readers.map_err(OpenError::Thread)?;
        let moving = Moving::start(mover, writer.submitter(), common.metrics.clone()).map_err(OpenError::Thread)?;
        let limits = Limits { frame_max: FRAME_MAX as u32, body_max: options.body_max };
        let shared = Shared::new(common, (writer.submitter(), bodies), (hash_key, limits), store, &shares);
        Ok(Broker { handle: Handle::new(Arc::new(shared)), writer, journal, fetchers, readers, moving, housekeeper })
    }

    /// A handle to be kept elsewhere; the broker itself is used as one, too.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Decides what was submitted, makes it durable, tells whoever waits, and marks the journal's end. Handles that are
    /// left are refused from here on. Waits for connections to be closed.
    pub fn shutdown(self) -> Result<(), ShutdownError> {
        let health = self.handle.shared().health.clone();
        health.stop();
        let writer = self.writer.stop().map_err(|_| ShutdownError::Panicked("writer"))?;
        self.journal.stop().map_err(|_| ShutdownError::Panicked("journal"))?;
        self.fetchers.stop().map_err(|_| ShutdownError::Panicked("fetch"))?;
        let closed = match health.failure() {
            Some(failure) => Err(ShutdownError::Failed(failure.to_owned())),
            None => writer.close().map(drop).map_err(|failure| ShutdownError::Failed(failure.to_string())),
        };
        self.moving.stop().map_err(|_| ShutdownError::Panicked("mover"))?;
        self.readers.stop().map_err(|_| ShutdownError::Panicked("reader"))?;
        let kept = self.housekeeper.join().map_err(|_| ShutdownError::Panicked("housekeeper"))?;
        closed.and(kept.map_err(|failure| ShutdownError::Failed(failure.to_string())))
    }
}

impl Deref for Broker {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Broker")
    }
}
