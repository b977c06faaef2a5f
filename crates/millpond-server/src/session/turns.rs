//! Turns of connections that have much to do.
//!
//! Whoever asks for little is served when the runtime comes to its task. A connection that has done a turn's work in a
//! short while ([`Effort`]) stands in line for each further turn, and of all those who stand there only as many go on at a
//! time as threads serve connections ([`Turns`]). So whoever asks for little finds one turn in front of it, and not one of
//! each connection that floods; and those that flood share what is left evenly. Turns are long ([`Length::WHOLE`]) where
//! nobody asks for little, and short ([`Length::SHORT`]) where somebody does; and so are the writer's.
//!
//! What one frame asks for may take as long as thousands do. A message that is held against all bindings of an exchange is so in
//! parts, a turn each. What names a thousand topics is not divided: who has had it lets the others have as many turns as it took.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use millpond_protocol::{Block, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

use crate::sync::atomic::{AtomicU64, Ordering};

/// How much a connection does in a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Length {
    /// Bytes read and written.
    pub(crate) bytes: usize,
    /// Frames taken in. A read brings thousands of small ones: sixteen clients that flooded a broker with pings held
    /// everyone else up for seconds.
    pub(crate) frames: usize,
}

impl Length {
    /// Some tens of microseconds of loopback.
    pub(crate) const WHOLE: Length = Length { bytes: 128 * 1024, frames: 512 };
    /// Some ten microseconds: a request and its answer wait for such a turn at each step, six times from a publish to an
    /// ack. To go from one connection to the next takes one or two, so where nobody waits turns are not so short.
    pub(crate) const SHORT: Length = Length { bytes: 16 * 1024, frames: 64 };
}

/// What a frame counts beside its bytes.
const FRAME: usize = Length::WHOLE.bytes / Length::WHOLE.frames;
/// Steps of routing ([`millpond_core::command::Route::steps`]) that take about as long as a frame does.
pub(crate) const STEPS: usize = 64;
/// Who takes longer than this over a whole turn's work leaves others enough time, and does not stand in line: 25 MB/s, or
/// 100,000 frames.
const SHORT: Duration = Duration::from_millis(5);
/// Bytes, and frames as bytes, below which a connection asks for little in [`RECENT`]: half of what is a flood. A client that
/// waits for each answer before it asks again does less, however fast both are.
const LITTLE: usize = 64 * 1024;
/// What is counted together.
const RECENT: Duration = Duration::from_millis(5);
/// So long after somebody asked for little, somebody is taken to wait for turns: longer than what was asked for takes, or turns
/// would be long while it is waited for.
const WAITS: Duration = Duration::from_millis(20);

/// Threads that serve connections: half the cores, for the writer, the journal and the clients' work want theirs.
pub(crate) fn threads() -> usize {
    available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// How many frames take as long as one: each topic that it publishes to is decoded, checked and weighed.
pub(crate) fn frames_of(request: &Request<Block>) -> usize {
    match request {
        Request::Publish(publish) => publish.runs.len().max(1),
        Request::Forward(forward) => forward.runs.len().max(1),
        _ => 1,
    }
}

/// The line of connections that have much to do.
#[derive(Debug)]
pub(crate) struct Turns {
    line: Arc<Semaphore>,
    begun: Instant,
    /// When something was read last of somebody who asks for little, in microseconds since it was begun.
    called: AtomicU64,
}

/// A turn, until it is dropped. Nothing is waited for in it.
pub(crate) type Turn = OwnedSemaphorePermit;

impl Turns {
    pub(crate) fn new() -> Turns {
        let line = Arc::new(Semaphore::new(threads()));
        Turns { line, begun: Instant::now(), called: AtomicU64::new(0) }
    }

    /// How long turns are now.
    fn length(&self, now: Instant) -> Length {
        if self.is_somebody_waiting(now) { Length::SHORT } else { Length::WHOLE }
    }

    /// Whether somebody who asks for little does so now, and waits for each turn of others.
    pub(crate) fn is_somebody_waiting(&self, now: Instant) -> bool {
        let called = Duration::from_micros(self.called.load(Ordering::Relaxed));
        self.since_begin(now).saturating_sub(called) < WAITS
    }

    /// Counted from [`WAITS`] on: at the beginning nobody has called.
    fn since_begin(&self, now: Instant) -> Duration {
        WAITS + now.saturating_duration_since(self.begun)
    }

    /// Waits for a turn.
    pub(crate) async fn next(&self) -> Turn {
        let turn = self.line.clone().acquire_owned().await.expect("it is never closed");
        // The first time the runtime looks at all sockets, and comes back before it comes to whoever is ready; which it does the second
        // time.
        yield_now().await;
        yield_now().await;
        turn
    }
}

/// What a connection has done of late.
pub(crate) struct Effort {
    spent: usize,
    since: Instant,
    /// What it did of late, from when on that is counted, and how much in [`RECENT`] before that.
    recent: usize,
    counted: Instant,
    before: usize,
    /// What it did in a turn beyond what may be in one.
    owed: usize,
    /// How long its turns are.
    length: Length,
}

impl Effort {
    pub(crate) fn new(now: Instant) -> Effort {
        Effort { spent: 0, since: now, recent: 0, counted: now, before: 0, owed: 0, length: Length::WHOLE }
    }

    /// How much it may do in a turn.
    pub(crate) fn length(&self) -> Length {
        self.length
    }

    /// So many bytes were read or written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.spent += bytes;
        self.recent += bytes;
    }

    /// So many frames were taken in, or what takes as long. Where it is more than may be in a turn, it was one that cannot be
    /// divided.
    pub(crate) fn took_in(&mut self, frames: usize) {
        let (bytes, turn) = (frames * FRAME, self.length.bytes);
        // A frame more than fits, the last of a turn, is no turn more.
        let beyond = (bytes / turn).saturating_sub(1) * turn;
        self.spent += bytes - beyond;
        self.owed += beyond;
        self.recent += bytes;
    }

    /// As many outputs became bytes as may in a turn, however few the bytes are.
    pub(crate) fn said_much(&mut self) {
        self.moved(Length::WHOLE.bytes);
    }

    /// Something comes: those who flood take note of it if it is from somebody who asks for little, and does not wait for much by now.
    pub(crate) fn called(&mut self, turns: &Turns, waits_for_much: bool, now: Instant) {
        let since = now.saturating_duration_since(self.counted);
        if since >= RECENT {
            // Who floods is not waited for, and may not have been heard of here for long.
            self.before = (self.recent as u128 * RECENT.as_micros() / since.as_micros()) as usize;
            (self.recent, self.counted) = (0, now);
        }
        if !waits_for_much && self.recent.max(self.before) < LITTLE {
            turns.called.store(turns.since_begin(now).as_micros() as u64, Ordering::Relaxed);
        }
    }

    /// A turn begins. How long it was waited for says nothing of what the connection would do.
    pub(crate) fn begins(&mut self, now: Instant) {
        self.since = now;
    }

    /// Whether the connection leaves a turn that it has come to in line to others, for what it did beyond its last one.
    pub(crate) fn gives_way(&mut self) -> bool {
        let gives = self.owed > 0;
        self.owed = self.owed.saturating_sub(self.length.bytes);
        gives
    }

    /// Whether the connection stands in line before it goes on. It is asked once for a turn.
    pub(crate) fn needs_turn(&mut self, turns: &Turns) -> bool {
        let turn = self.length.bytes;
        if self.spent < turn {
            return false;
        }
        let now = Instant::now();
        let short = SHORT * turn as u32 / Length::WHOLE.bytes as u32;
        let floods = self.owed > 0 || now.saturating_duration_since(self.since) < short;
        self.since = now;
        self.spent = if floods { self.spent - turn } else { 0 };
        self.length = turns.length(now);
        floods
    }
}

#[cfg(test)]
mod tests {
    use millpond_core::command::Command;
    use millpond_types::NamespaceName;

    use super::*;
    use crate::broker::{Broker, BrokerOptions};
    use crate::session::ticket::{EMBEDDED, UNANSWERED, ticket};
    use crate::writer::{FORWARDING, Request};

    #[test]
    fn who_floods_stands_in_line_and_who_asks_for_little_does_not() {
        let (begin, turns) = (Instant::now(), Turns::new());
        let (mut little, mut much) = (Effort::new(begin), Effort::new(begin));
        for _ in 0..Length::WHOLE.frames - 1 {
            little.took_in(1);
            assert!(!little.needs_turn(&turns));
        }
        (0..2).for_each(|_| much.took_in(Length::WHOLE.frames));
        much.moved(Length::WHOLE.bytes - 1);
        assert!(much.needs_turn(&turns) && much.needs_turn(&turns), "each turn counts");
        assert!(!much.needs_turn(&turns));
        // Nor is it the less of one for having waited.
        much.since -= SHORT;
        much.begins(Instant::now());
        much.moved(Length::WHOLE.bytes);
        assert!(much.needs_turn(&turns));
        // What was done over a long time is no flood.
        let long_ago = begin.checked_sub(SHORT).expect("the clock runs for longer");
        let mut slow = Effort { spent: 5 * Length::WHOLE.bytes, since: long_ago, ..Effort::new(begin) };
        assert!(!slow.needs_turn(&turns) && !slow.needs_turn(&turns));
    }

    #[test]
    fn who_did_more_than_a_turn_with_one_frame_leaves_others_as_many_as_it_took() {
        let (begin, turns) = (Instant::now(), Turns::new());
        let long_ago = begin.checked_sub(Duration::from_secs(1)).expect("the clock runs for longer");
        let mut routes = Effort { since: long_ago, ..Effort::new(begin) };
        routes.took_in(4 * Length::WHOLE.frames);
        assert!(routes.needs_turn(&turns), "however long it took for it");
        assert_eq!((0..10).filter(|_| routes.gives_way()).count(), 3, "and it had one");
        assert!(!routes.needs_turn(&turns), "that is all");
        routes.took_in(2 * Length::WHOLE.frames - 1);
        assert!(!routes.gives_way(), "it is less than a turn more");
        // Whoever waits for its answer asks for more than little.
        let at = |since: Duration| turns.begun + since;
        let mut asks = Effort::new(at(Duration::ZERO));
        asks.took_in(4 * Length::WHOLE.frames);
        for nth in 1..6 {
            asks.called(&turns, false, at(nth * RECENT));
            asks.took_in(4 * Length::WHOLE.frames);
        }
        assert_eq!(turns.length(at(6 * RECENT)), Length::WHOLE);
    }

    #[test]
    fn turns_are_short_where_somebody_asks_for_little() {
        let turns = Turns::new();
        let at = |since: Duration| turns.begun + since;
        let (mut little, mut much) = (Effort::new(at(RECENT)), Effort::new(at(RECENT)));
        assert_eq!(turns.length(at(Duration::ZERO)), Length::WHOLE);
        much.moved(LITTLE);
        much.called(&turns, false, at(RECENT));
        assert_eq!(turns.length(at(RECENT)), Length::WHOLE, "who asks for much is not meant");
        little.moved(LITTLE - 1);
        little.called(&turns, false, at(RECENT));
        let over = RECENT + WAITS;
        assert_eq!(turns.length(at(over - RECENT / 5)), Length::SHORT);
        much.called(&turns, false, at(RECENT * 2));
        assert_eq!(turns.length(at(over)), Length::WHOLE, "what it did is not long ago");
        much.called(&turns, false, at(over));
        assert_eq!(turns.length(at(over)), Length::SHORT);
        let over = over + WAITS;
        little.called(&turns, true, at(over));
        assert_eq!(turns.length(at(over)), Length::WHOLE, "one of many who flood together may get little done");
        let mut floods = Effort::new(at(over));
        floods.moved(4 * LITTLE);
        floods.called(&turns, false, at(over + 4 * RECENT));
        assert_eq!(turns.length(at(over + 4 * RECENT)), Length::WHOLE, "it did as much all the time");
    }

    /// There is one thread for all, as on two cores.
    #[cfg(unix)]
    #[test]
    fn whoever_is_ready_goes_on_before_the_next_turn_of_those_who_flood() {
        const ROUNDS: usize = 100;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let turns = Turns { line: Arc::new(Semaphore::new(1)), ..Turns::new() };
        let (turns, begun, answered) = (Arc::new(turns), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (asks, quiet) = runtime.block_on(async { tokio::net::UnixStream::pair().unwrap() });
        let asks = Arc::new(asks);
        for _ in 0..3 {
            let (turns, begun, answered, asks) = (turns.clone(), begun.clone(), answered.clone(), asks.clone());
            runtime.spawn(async move {
                loop {
                    let turn = turns.next().await;
                    let nth = begun.fetch_add(1, Ordering::Relaxed) + 1;
                    if answered.swap(0, Ordering::Relaxed) > 0 {
                        // The client of somebody who asks for little says something in the midst of this turn.
                        asks.try_write(&nth.to_le_bytes()).unwrap();
                    }
                    drop(turn);
                }
            });
        }
        let waited = runtime.spawn(async move {
            let mut waited = Vec::new();
            let mut asked = [0; 8];
            while waited.len() < ROUNDS {
                answered.store(1, Ordering::Relaxed);
                quiet.readable().await.unwrap();
                if quiet.try_read(&mut asked).is_ok() {
                    waited.push(begun.load(Ordering::Relaxed) - u64::from_le_bytes(asked));
                }
            }
            waited
        });
        let waited = runtime.block_on(waited).unwrap();
        runtime.shutdown_background();
        // Now and then the runtime looks at sockets in between, and comes back one task earlier.
        let late = waited.iter().filter(|turns| **turns > 0).count();
        assert!(late <= ROUNDS / 10, "turns that began before it was heard: {waited:?}");
    }

    #[test]
    fn the_writer_lets_less_in_for_a_turn_while_somebody_asks_for_little() {
        let directory = tempfile::tempdir().unwrap();
        let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
        let shared = broker.shared();
        // So many of a client are let in, behind a turn in which somebody has asked for little or not.
        let let_in = |asks: bool| {
            if asks {
                Effort::new(Instant::now()).called(&shared.turns, false, Instant::now());
            }
            let look = || Command::Stats(NamespaceName::default());
            broker.call(look()).wait().unwrap();
            let asked = |_| Request::Command(ticket(EMBEDDED, UNANSWERED), look(), 0);
            let mut requests = (0..10_000).map(asked).collect();
            shared.writer.source().tell_all(FORWARDING, &mut requests, |_| 1).unwrap()
        };
        let whole = let_in(false);
        assert!(0 < whole && whole < 10_000);
        // The writer is a thread of its own, and may not have come to its next turn in time.
        let short = std::iter::repeat_with(|| let_in(true)).take(1000).find(|short| *short < whole / 4);
        assert!(short.is_some_and(|short| short >= whole / 10), "{short:?} of {whole}");
        broker.shutdown().unwrap();
    }
}
