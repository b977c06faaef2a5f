//! The HTTP listener: `GET /health` (the process answers), `GET /ready` (requests are served) and `GET /metrics`.
//!
//! A connection is for one request, which has to be there [`HEAD`] after it was taken in, and ends after [`EXCHANGE`], whatever
//! its client has read by then; there are [`CONNECTIONS_MAX`] at a time. So what clients can make this listener hold has a
//! bound, however slow they are. Where all places are taken, the oldest that has not sent its request gives way: who asks is
//! answered, however many others connect and do not.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use millpond_core::command::Command;
use millpond_core::output::Reply;
use millpond_types::{Counts, NamespaceView, Usage};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::limits::OpenFiles;
use super::listen;
use crate::metrics::Readings;
use crate::session::Shared;
use crate::writer::{BURYING, FINISHING, LOOKING, PUBLISHING, Request};

/// How long a request's line and headers may take: clients send them in one piece, as soon as they are connected.
const HEAD: Duration = Duration::from_secs(1);
/// How long a connection has in any case to send them: those that came with it are read by then.
const YOUNG: Duration = Duration::from_millis(10);
/// How long a request, its answer and all between them may take. As long as Prometheus waits for a scrape unless it is told
/// otherwise; an answer takes milliseconds.
const EXCHANGE: Duration = Duration::from_secs(10);
/// Connections at a time: some scrapers and probes, each for a moment. Further ones wait for their turn, but for one all in the
/// system's queue, where they hold neither memory nor a file of the process.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request's line and headers, several times what scrapers and browsers send; longer ones are answered with 431.
const HEADER_MAX: usize = 16 * 1024;
/// How long a scrape waits for the writer's counts; after that it goes without them.
const WRITER_ANSWERS: Duration = Duration::from_secs(1);

/// What the handlers look at.
struct Watched {
    shared: Arc<Shared>,
    data: PathBuf,
    /// Held by whoever sums up what all namespaces hold: the answers tell all their rules, too, and so are megabytes for each who asks.
    summing: Mutex<()>,
}

/// Serves until the task is ended.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, data: PathBuf, files: OpenFiles) {
    let mut places = Places::new();
    let watched = Arc::new(Watched { shared, data, summing: Mutex::default() });
    let routes = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(watched.clone());
    loop {
        let stream = listen::next(&listener).await;
        if !files.are_left_beside(&stream) {
            watched.shared.metrics.refused.inc();
            continue;
        }
        let place = places.next().await;
        let (routes, has_asked) = (routes.clone(), Arc::new(AtomicBool::new(false)));
        let asked = has_asked.clone();
        let task = tokio::spawn(async move {
            exchange(stream, routes, &asked, Times { head: HEAD, exchange: EXCHANGE }).await;
            drop(place);
        });
        places.taken.push_back(Taken { since: Instant::now(), has_asked, task: task.abort_handle() });
    }
}

/// The places of connections.
struct Places {
    free: Arc<Semaphore>,
    /// Those that may have to give way, in the order in which they were taken.
    taken: VecDeque<Taken>,
}

struct Taken {
    since: Instant,
    has_asked: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Places {
    fn new() -> Places {
        Places { free: Arc::new(Semaphore::new(CONNECTIONS_MAX)), taken: VecDeque::new() }
    }

    /// The next place that is free, or that of the oldest connection that has not asked anything.
    async fn next(&mut self) -> OwnedSemaphorePermit {
        loop {
            self.taken.retain(|taken| !taken.task.is_finished() && !taken.has_asked.load(Ordering::Relaxed));
            if let Ok(place) = self.free.clone().try_acquire_owned() {
                return place;
            }
            let free = self.free.clone().acquire_owned();
            let found = match self.taken.front() {
                // Each of them is being answered.
                None => Ok(free.await),
                Some(oldest) => timeout_at(oldest.since + YOUNG, free).await,
            };
            if let Ok(place) = found {
                return place.expect("it is never closed");
            }
            let oldest = self.taken.pop_front().expect("it was waited for");
            if !oldest.has_asked.load(Ordering::Relaxed) {
                oldest.task.abort();
                return self.free.clone().acquire_owned().await.expect("it is never closed");
            }
        }
    }
}

/// How long a connection may take: until its request is there, and to its end.
struct Times {
    head: Duration,
    exchange: Duration,
}

/// One request and its answer. There is nobody to tell when it fails: the client is gone, slow, or speaks something else.
async fn exchange(stream: TcpStream, routes: Router, has_asked: &AtomicBool, times: Times) {
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEADER_MAX).timer(TokioTimer::new()).header_read_timeout(times.head);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        routes.call(request)
    });
    match timeout(times.exchange, http.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection ended early"),
        Err(_) => tracing::debug!("an HTTP client took too long for its answer"),
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
    let Watched { shared, data, summing } = &*watched;
    let held = async {
        let _summing = summing.lock().await;
        held(shared).await
    };
    let readings = Readings {
        connections: shared.registry.connections(),
        finishing: [FINISHING, LOOKING, BURYING].map(|lane| shared.writer.weight(lane)).into_iter().sum(),
        publishing: shared.writer.weight(PUBLISHING),
        unread: shared.registry.unread(),
        memory: resident_bytes().unwrap_or_default(),
        disk_free: rustix::fs::statvfs(data).map_or(0, |disk| disk.f_bavail * disk.f_frsize),
        ready: shared.health.is_ready(),
        store: shared.store.memory(),
        tree: shared.store.tree().stats(),
        held: timeout(WRITER_ANSWERS, held).await.unwrap_or_default(),
    };
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], shared.metrics.text(readings))
}

/// What all namespaces hold, and in which states: those of each page at one journal position.
async fn held(shared: &Shared) -> Option<(Usage, Counts)> {
    let mut sum = (Usage::default(), Counts::default());
    let mut after = None;
    loop {
        let asked = shared.writer.try_submit(FINISHING, Request::Call(Command::Namespaces { after })).ok()?;
        let Ok(Reply::Namespaces { rows, next }) = asked.await else { return None };
        rows.into_iter().for_each(|row| add(&mut sum, row));
        if next.is_none() {
            return Some(sum);
        }
        after = next;
    }
}

fn add((usage, sum): &mut (Usage, Counts), row: NamespaceView) {
    usage.topics += row.usage.topics;
    usage.bytes += row.usage.bytes;
    for counts in row.groups.into_iter().map(|group| group.counts) {
        sum.waiting += counts.waiting;
        sum.delayed += counts.delayed;
        sum.retrying += counts.retrying;
        sum.leased += counts.leased;
        sum.dead += counts.dead;
    }
}

/// The second number of statm is the resident set, in pages.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::AsyncWriteExt;
    use tokio::task::JoinHandle;

    use super::*;

    /// Far longer than anything takes.
    const PATIENCE: Duration = Duration::from_secs(20);

    impl Places {
        fn of(connections: usize) -> Places {
            Places { free: Arc::new(Semaphore::new(connections)), taken: VecDeque::new() }
        }

        /// A connection that never ends by itself.
        async fn connect(&mut self, has_asked: bool) -> JoinHandle<()> {
            let place = timeout(PATIENCE, self.next()).await.expect("nobody gives way");
            let task = tokio::spawn(async move {
                pending::<()>().await;
                drop(place);
            });
            let has_asked = Arc::new(AtomicBool::new(has_asked));
            self.taken.push_back(Taken { since: Instant::now(), has_asked, task: task.abort_handle() });
            task
        }
    }

    #[tokio::test]
    async fn the_oldest_that_has_not_asked_gives_way() {
        let mut places = Places::of(3);
        let asked = places.connect(true).await;
        let (oldest, other) = (places.connect(false).await, places.connect(false).await);
        let first = places.connect(true).await;
        assert!(oldest.await.is_err_and(|end| end.is_cancelled()));
        assert!(!asked.is_finished() && !other.is_finished() && !first.is_finished());
        let second = places.connect(true).await;
        assert!(other.await.is_err_and(|end| end.is_cancelled()));
        // All are being answered, so the next one waits until one has its answer.
        first.abort();
        let third = places.connect(true).await;
        assert!(!asked.is_finished() && !second.is_finished() && !third.is_finished());
    }

    #[tokio::test]
    async fn so_many_connections_have_a_place_and_the_next_one_takes_that_of_another() {
        let mut places = Places::new();
        let mut tasks = Vec::new();
        for _ in 0..64 {
            tasks.push(places.connect(false).await);
        }
        assert!(!tasks.iter().any(JoinHandle::is_finished));
        places.connect(false).await;
        let oldest = timeout(PATIENCE, tasks.swap_remove(0)).await.expect("nobody gives way");
        assert!(oldest.is_err_and(|end| end.is_cancelled()));
        assert!(!tasks.iter().any(JoinHandle::is_finished));
    }

    /// Each of the two times by itself: the other one would take too long.
    #[tokio::test]
    async fn a_connection_ends_without_its_request_and_without_its_answer() {
        let (short, long) = (Duration::from_millis(50), PATIENCE * 100);
        let never = Router::new().route("/", get(async || pending::<()>().await));
        let begun = "GET / HTTP/1.1\r\nHost: x\r\n";
        for (sent, times) in [
            (begun.to_owned(), Times { head: short, exchange: long }),
            (begun.to_owned() + "\r\n", Times { head: long, exchange: short }),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(sent.as_bytes()).await.unwrap();
            let stream = listener.accept().await.unwrap().0;
            let has_asked = AtomicBool::new(false);
            let ends = exchange(stream, never.clone(), &has_asked, times);
            timeout(PATIENCE, ends).await.expect("it is held for ever");
        }
    }
}
