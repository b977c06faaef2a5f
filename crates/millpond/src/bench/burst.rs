//! `bench burst`: many devices wake at once, and each connects, publishes one durable message and waits for its
//! confirmation. All stay connected until the last is done.
//!
//! Ten thousand threads would measure the scheduler, so this benchmark alone runs on an event loop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::BytesMut;
use clap::Args;
use millpond_protocol::{Decoder, Level, Response, encode_request};
use millpond_types::{Policy, PublishOutcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::producer::histogram;
use super::progress::Progress;
use super::report::Report;
use super::slots::{Shape, Slots, TOPICS};
use super::target::{Costs, TargetArgs};
use super::wire::{hello, nanos, next};
use crate::cli::Globals;
use crate::failure::Failure;
use crate::quantity;

/// Connect, publish one durable message and wait for its confirmation, all clients at once
#[derive(Args)]
pub struct Burst {
    #[command(flatten)]
    target: TargetArgs,
    /// How many clients
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    clients: u64,
    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "24", value_parser = quantity::size)]
    size: u64,
    /// Topics that the messages are spread over
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=99_999_999))]
    topics: u32,
    /// Milliseconds over which the clients begin; 0 is all at once
    #[arg(long, value_name = "MS", default_value = "0")]
    ramp: u64,
    /// How long a client waits for its confirmation before it counts as an error
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    timeout: Duration,
}

/// Files that the process needs beside its connections.
const OTHER_FILES: u64 = 64;

/// One client that was confirmed. Its connection stays open until all are done.
struct Confirmed {
    _stream: TcpStream,
    connecting: u64,
    whole: u64,
    at: u64,
}

impl Burst {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        super::publish::check_batch(self.size, 1, 1)?;
        let allowed = crate::files::raise_limit();
        if allowed < self.clients + OTHER_FILES {
            return Err(Failure::refused(format!(
                "{} clients need as many open files, and the system allows {allowed}: raise it with `ulimit -n`",
                self.clients
            )));
        }
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let shape = Shape {
            namespace: target.namespace.clone(),
            topics: self.topics,
            size: self.size as usize,
            batch: 1,
            window: 1,
            level: Level::Durable,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Failure::refused(format!("no event loop could be made: {why}")))?;
        let frames: Vec<Vec<u8>> = (0..self.clients).map(|index| self.frames(&shape, index)).collect();
        let before = Costs::now(&target);
        let begin = nanos();
        let (confirmed, errors) = runtime.block_on(self.clients(target.address, frames, begin));
        let seconds = (nanos() - begin) as f64 / 1e9;

        let mut report = Report::new(&target);
        let (mut connecting, mut whole) = (histogram(), histogram());
        for client in &confirmed {
            connecting.saturating_record(client.connecting.max(1));
            whole.saturating_record(client.whole.max(1));
        }
        let last = confirmed.iter().map(|client| client.at).max().unwrap_or(begin);
        report.figure("clients", self.clients as f64, "");
        report.figure("ramp", self.ramp as f64, "ms");
        report.figure("confirmed", confirmed.len() as f64, "");
        report.figure("share confirmed", confirmed.len() as f64 * 100.0 / self.clients as f64, "%");
        report.figure("time to the last confirmation", (last - begin) as f64 / 1e9, "s");
        report.latency("connect", &connecting);
        report.latency("connect to confirmation", &whole);
        target.costs(&mut report, before, seconds, confirmed.len() as u64);
        for (error, count) in errors {
            report.figure(format!("errors: {error}"), count as f64, "");
            report.fault(format!("{count} clients failed: {error}"));
        }
        drop(confirmed);
        target.close(&report)
    }

    async fn clients(
        &self,
        address: SocketAddr,
        frames: Vec<Vec<u8>>,
        begin: u64,
    ) -> (Vec<Confirmed>, BTreeMap<String, u64>) {
        let done = Arc::new(AtomicU64::new(0));
        let _progress = Progress::of_count(self.clients, Arc::clone(&done), "confirmed");
        let mut tasks = JoinSet::new();
        for (index, frames) in (0..self.clients).zip(frames) {
            let (done, timeout) = (Arc::clone(&done), self.timeout);
            let wait = begin + self.ramp * 1_000_000 * index / self.clients;
            tasks.spawn(async move {
                let early = wait.saturating_sub(nanos());
                if early > 0 {
                    tokio::time::sleep(Duration::from_nanos(early)).await;
                }
                let confirmed = tokio::time::timeout(timeout, client(address, &frames)).await;
                done.fetch_add(1, Relaxed);
                confirmed.unwrap_or_else(|_| Err("no confirmation in time".into()))
            });
        }
        let (mut confirmed, mut errors) = (Vec::new(), BTreeMap::new());
        while let Some(joined) = tasks.join_next().await {
            match joined.expect("a client does not panic") {
                Ok(client) => confirmed.push(client),
                Err(error) => *errors.entry(error).or_default() += 1,
            }
        }
        (confirmed, errors)
    }

    /// A client's hello and its publish, which wait for nothing and go out together.
    fn frames(&self, shape: &Shape, index: u64) -> Vec<u8> {
        let mut frames = Vec::new();
        encode_request(&hello(), 0, &mut frames);
        let mut slots = Slots::new(shape);
        slots.stamp(0, (index % u64::from(self.topics)) as u32, 0, index);
        frames.extend_from_slice(slots.frames(0, 1));
        frames
    }
}

async fn client(address: SocketAddr, frames: &[u8]) -> Result<Confirmed, String> {
    let begin = nanos();
    let mut stream = TcpStream::connect(address).await.map_err(|why| format!("connect: {}", why.kind()))?;
    let connecting = nanos() - begin;
    let lost = |why: std::io::Error| format!("connection lost: {}", why.kind());
    stream.set_nodelay(true).map_err(lost)?;
    stream.write_all(frames).await.map_err(lost)?;
    let (mut decoder, mut inbox) = (Decoder::default(), BytesMut::with_capacity(512));
    loop {
        while let Some(incoming) = next(&mut decoder, &mut inbox).map_err(|failure| failure.text)? {
            match incoming.frame {
                Response::Published(outcomes) => match &outcomes[..] {
                    [run] if matches!(run.outcome, PublishOutcome::Queued { .. }) => {
                        let at = nanos();
                        return Ok(Confirmed { _stream: stream, connecting, whole: at - begin, at });
                    }
                    other => return Err(format!("not queued: {other:?}")),
                },
                Response::Error { code, .. } => return Err(format!("refused: {}", code.name())),
                _ => {}
            }
        }
        if stream.read_buf(&mut inbox).await.map_err(lost)? == 0 {
            return Err("closed by the broker".into());
        }
    }
}
