//! A broker with its listeners: the protocol on TCP, and health and metrics on HTTP.
//!
//! Ports are bound before the data directory is opened, so that a wrong address is told at once; connections are taken
//! in once the state is back. An orderly stop goes the way of the data: no new connections, what was asked is answered,
//! connections are closed with a reason, the writer drains and syncs, the directory is closed.

mod granted;
mod http;
mod limits;
mod listen;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millpond_types::Code;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::broker::{Broker, BrokerOptions, Handle, OpenError, ShutdownError};
use crate::config::ValidConfig;
use crate::session::Shared;
use crate::session::outbox::{Close, Out};
use crate::session::turns::threads;
use crate::signals::{Signals, heed_file_size_limit};
use limits::OpenFiles;

/// A running server.
pub struct Server {
    /// Takes connections in, and serves HTTP: whoever floods keeps nobody from connecting, nor from asking how it goes.
    front: Runtime,
    /// Serves connections.
    sessions: Runtime,
    broker: Broker,
    address: SocketAddr,
    http: Option<SocketAddr>,
    listeners: Vec<JoinHandle<()>>,
}

/// Why a server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("cannot listen on {address}: {error}{}", listen::advice(.error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        error: io::Error,
    },
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The async runtime or a signal handler could not be set up.
    #[error("starting up failed: {0}")]
    Runtime(io::Error),
    /// The end was not orderly.
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
}

/// How long connections are given to take the answers to what they have asked.
const DRAIN: Duration = Duration::from_secs(5);
/// How long they are given to take the last frame.
const CLOSE: Duration = Duration::from_secs(2);

/// Serves until a [signal](Signals) asks it to stop, then stops in good order; or until the journal fails, which is an error.
/// `ready` is called once connections are taken in and signals are heeded.
pub fn serve(config: ValidConfig, ready: impl FnOnce(&Server)) -> Result<(), ServeError> {
    heed_file_size_limit().map_err(ServeError::Runtime)?;
    let server = Server::start(config)?;
    let stopped_by = server.front.block_on(async {
        let mut signals = Signals::new()?;
        let health = &server.shared().health;
        ready(&server);
        Ok(tokio::select! {
            signal = signals.next() => signal,
            () = health.failed() => "a failure of the journal",
        })
    });
    let reason = stopped_by.map_err(ServeError::Runtime)?;
    tracing::info!(reason, "stopping");
    let result = server.shutdown();
    match &result {
        Ok(()) => tracing::info!("stopped in good order"),
        Err(error) => tracing::error!(%error, "the stop was not orderly"),
    }
    result
}

/// Tasks that a thread comes to before it looks at the sockets again. Those of a crowd that has just connected take tens of
/// microseconds each, and who is not of it waits for them.
const TASKS_IN_A_ROW: u32 = 16;

impl Server {
    /// Opens the data directory and listens. Returns once connections are taken in.
    pub fn start(config: ValidConfig) -> Result<Server, ServeError> {
        let config = config.get();
        let files = OpenFiles::raise();
        granted::warn_if_less(config.memory);
        let workers = threads();
        let (front, sessions) = (runtime("front", 1)?, runtime("session", workers)?);
        let _inside = front.enter();
        let (socket, http) = (listen::bind(config.listen)?, config.http.map(listen::bind).transpose()?);
        let options =
            BrokerOptions { memory: config.memory, body_max: config.body_max, cut_journal: config.cut_journal };
        let broker = Broker::open(&config.data, options)?;
        let shared = broker.shared().clone();

        let listener = listen::start(socket, config.listen)?;
        let address = listener.local_addr().map_err(ServeError::Runtime)?;
        let connections_max = config.connections_max.min(shared.connections_max);
        if connections_max < config.connections_max {
            tracing::info!(connections_max, "the memory is enough for so many connections; give more for more");
        }
        let handle = sessions.handle().clone();
        let accept = listen::accept(listener, handle, shared.clone(), connections_max, files);
        files.make_room(connections_max);
        let mut listeners = vec![front.spawn(accept)];
        let http = match http {
            Some(socket) => {
                let listener = listen::start(socket, config.http.expect("its socket was made for it"))?;
                let address = listener.local_addr().map_err(ServeError::Runtime)?;
                listeners.push(front.spawn(http::serve(listener, shared, config.data.clone(), files)));
                Some(address)
            }
            None => None,
        };
        tracing::info!(
            %address,
            http = http.map(|http| http.to_string()),
            workers,
            open_files = files.limit,
            "ready"
        );
        Ok(Server { front, sessions, broker, address, http, listeners })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where HTTP is served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The broker behind the listeners, for the program that runs the server.
    pub fn handle(&self) -> Handle {
        self.broker.handle()
    }

    /// Puts the count of lines that the program's log has dropped beside the broker's figures. The first one stays.
    pub fn tell_dropped_lines(&self, count: Arc<AtomicU64>) {
        let _ = self.shared().metrics.log_dropped.set(count);
    }

    /// Stops in good order.
    pub fn shutdown(self) -> Result<(), ServeError> {
        let Server { front, sessions, broker, listeners, .. } = self;
        let shared = broker.shared().clone();
        shared.health.stop();
        listeners.iter().for_each(JoinHandle::abort);
        front.block_on(async {
            for listener in listeners {
                // It was just told to end.
                let _ = listener.await;
            }
            shared.registry.tell_all(|| Out::Drain);
            wait_for_connections(&shared, DRAIN).await;
            let detail = "the broker is shutting down; connect again soon".to_owned();
            shared.registry.close_all(&Close { code: Code::Stopping, detail });
            wait_for_connections(&shared, CLOSE).await;
        });
        // Connections that are left are dropped here, and with them what they hold of the writer's queue.
        sessions.shutdown_timeout(CLOSE);
        front.shutdown_timeout(CLOSE);
        drop(shared);
        Ok(broker.shutdown()?)
    }

    fn shared(&self) -> &Arc<Shared> {
        self.broker.shared()
    }
}

/// A runtime of so many threads.
fn runtime(name: &str, threads: usize) -> Result<Runtime, ServeError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).thread_name(name).event_interval(TASKS_IN_A_ROW).enable_io().enable_time();
    builder.build().map_err(ServeError::Runtime)
}

async fn wait_for_connections(shared: &Shared, longest: Duration) {
    let end = Instant::now() + longest;
    while shared.registry.connections() > 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).field("http", &self.http).finish()
    }
}
