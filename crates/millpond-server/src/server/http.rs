//! The HTTP listener: `GET /health` (the process answers), `GET /ready` (requests are served) and `GET /metrics`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use millpond_core::command::Command;
use millpond_core::output::Reply;
use millpond_types::{Counts, Usage};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::limits::OpenFiles;
use crate::metrics::Readings;
use crate::session::Shared;
use crate::writer::{FINISHING, PUBLISHING, Request};

/// How long a scrape waits for the writer's counts; after that it goes without them.
const WRITER_ANSWERS: Duration = Duration::from_secs(1);

/// What the handlers look at.
struct Watched {
    shared: Arc<Shared>,
    data: PathBuf,
}

/// Takes connections in as long as the process has files for them.
struct Sparing {
    listener: TcpListener,
    files: OpenFiles,
}

impl Listener for Sparing {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if self.files.are_left_beside(&stream) {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves until the task is ended.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, data: PathBuf, files: OpenFiles) {
    let routes = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Watched { shared, data }));
    if let Err(error) = axum::serve(Sparing { listener, files }, routes).await {
        tracing::error!(%error, "the HTTP listener ended; the broker goes on without it");
    }
}

/// A failed journal is not healthy: nothing but a restart helps.
async fn health(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    match watched.shared.health.failure() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(failure) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{failure}\n")),
    }
}

async fn ready(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    let health = &watched.shared.health;
    match health.failure() {
        _ if health.is_ready() => (StatusCode::OK, "ready\n".to_owned()),
        Some(failure) => (StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n")),
        None => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
    }
}

async fn metrics(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    let Watched { shared, data } = &*watched;
    let readings = Readings {
        connections: shared.registry.connections(),
        finishing: shared.writer.weight(FINISHING),
        publishing: shared.writer.weight(PUBLISHING),
        memory: resident_bytes().unwrap_or_default(),
        disk_free: rustix::fs::statvfs(data).map_or(0, |disk| disk.f_bavail * disk.f_frsize),
        ready: shared.health.is_ready(),
        store: shared.store.memory(),
        tree: shared.store.tree().stats(),
        held: timeout(WRITER_ANSWERS, held(shared)).await.unwrap_or_default(),
    };
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], shared.metrics.text(readings))
}

/// What all namespaces hold, and in which states, at one journal position.
async fn held(shared: &Shared) -> Option<(Usage, Counts)> {
    let asked = shared.writer.try_submit(FINISHING, Request::Call(Command::Namespaces)).ok()?;
    let Ok(Reply::Namespaces(rows)) = asked.await else { return None };
    let mut sum = (Usage::default(), Counts::default());
    for row in rows {
        sum.0.topics += row.usage.topics;
        sum.0.bytes += row.usage.bytes;
        for counts in row.groups.into_iter().map(|group| group.counts) {
            sum.1.waiting += counts.waiting;
            sum.1.delayed += counts.delayed;
            sum.1.retrying += counts.retrying;
            sum.1.leased += counts.leased;
            sum.1.dead += counts.dead;
        }
    }
    Some(sum)
}

/// The second number of statm is the resident set, in pages.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
