//! Where somebody is in haste, those who ask for little are decided, and told, before what takes long.
//!
//! A publish to a thousand topics takes a turn most of a millisecond, and whoever is decided in the same turn is told behind it. So a
//! turn in haste that has both decides what is short, and leaves what is long to the next one, which leaves nothing. What that
//! decides goes to the disk with what the turn behind it does. Then the writer rests from what is long, and leaves the processors to
//! those who take in, sync and tell what is short: where somebody is always in haste, what is long has a third of the writer's time.
//! Invariant: of a connection, nothing overtakes anything.

use std::time::{Duration, Instant};

use millpond_core::command::{Command, Forward, Route};
use millpond_storage::Failure;

use super::request::{RETURNING, Request};
use super::{Asked, Host, Writer};
use crate::session::ticket::{EMBEDDED, parts};
use crate::update_queue::Open;

/// Runs that the requests of a turn may add together and be short, the first of each not counted: what comes behind them is long. They
/// take some tens of microseconds, a part of a sync.
pub(super) const SHORT_RUNS: usize = 64;

/// As long as a run takes so many dedup ids: each is looked up and remembered.
const IDS_OF_A_RUN: usize = 2;

/// How many times as long as a turn has taken that decides what is long, no other one does while somebody is in haste. Beside
/// floods of publishes to a thousand topics others' p99 was twice as high with one less, and no better with one more.
pub(super) const REST: u32 = 2;
/// The longest rest: a process that was stopped in the midst of a turn makes nobody wait for as long again.
const REST_MAX: Duration = Duration::from_millis(20);

/// What a turn in haste has found that is long, with its lane, and what comes behind it.
pub(super) struct Long {
    /// How many runs there may still be in what is short; `None` where nothing is left to the next turn.
    short_runs: Option<usize>,
    waits: Vec<(usize, Asked)>,
    /// Whose these are.
    connections: Vec<u64>,
    /// Whether anything went before them.
    has_let_pass: bool,
}

impl Long {
    pub(super) fn new(short_runs: Option<usize>) -> Long {
        Long { short_runs, waits: Vec::new(), connections: Vec::new(), has_let_pass: false }
    }

    /// Keeps a request that is long, or comes behind such a one of the same connection; gives it back where it is neither.
    pub(super) fn sift(&mut self, lane: usize, asked: Asked) -> Option<Asked> {
        let short_runs = self.short_runs.as_mut().filter(|_| lane != RETURNING);
        let Some(short_runs) = short_runs else { return Some(asked) };
        let connection = match &asked.0 {
            Request::Command(ticket, ..) => parts(*ticket).0,
            _ => EMBEDDED,
        };
        let is_behind = self.connections.contains(&connection);
        let left = short_runs.checked_sub(runs(&asked.0).saturating_sub(1));
        if let Some(left) = left.filter(|_| !is_behind) {
            (*short_runs, self.has_let_pass) = (left, true);
            return Some(asked);
        }
        if !is_behind {
            self.connections.push(connection);
        }
        self.waits.push((lane, asked));
        None
    }

    /// What was kept, by lanes, and whether something went before it.
    fn end(self) -> (Vec<(usize, Asked)>, bool) {
        (self.waits, self.has_let_pass)
    }
}

/// Until when the writer rests from what is long, while somebody is in haste.
#[derive(Default)]
pub(super) struct Rest(Option<Instant>);

impl Rest {
    /// A turn has decided what is long, and took so much time until now.
    pub(super) fn begin(&mut self, now: Instant, took: Duration) {
        self.0 = Some(now + took.saturating_mul(REST).min(REST_MAX));
    }

    /// How much of it is left.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.0.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }
}

impl<H: Host> Writer<H> {
    /// Decides what is long, or leaves it to a turn behind this one, and behind what this one has put off of its lane: where something
    /// went before it, or the writer rests. Whether it has decided any.
    pub(super) fn handle_or_leave(&mut self, long: Long, rests: bool, open: &mut Open) -> Result<bool, Failure> {
        let (long, has_let_pass) = long.end();
        if !rests && !has_let_pass {
            let is_any = !long.is_empty();
            long.into_iter().try_for_each(|(lane, asked)| self.handle_or_put_off(lane, asked, open))?;
            return Ok(is_any);
        }
        for (lane, mut asked) in long {
            asked.0.waits();
            self.put_off.push_back((lane, asked));
            self.left += 1;
            self.host.lets_pass();
        }
        self.put_off.make_contiguous().sort_by_key(|(lane, _)| *lane);
        Ok(false)
    }
}

/// How many runs of messages a request adds, or what takes as long.
fn runs(request: &Request) -> usize {
    let (Request::Command(_, command, _) | Request::Call(command)) = request else { return 0 };
    match command {
        Command::Publish(publish) | Command::Forward(Forward { publish, .. }) => {
            let ids: usize = publish.runs.iter().map(|run| run.dedup.len()).sum();
            publish.runs.len() + ids / IDS_OF_A_RUN
        }
        Command::Route(Route { copies, .. }) => copies.count,
        _ => 0,
    }
}
