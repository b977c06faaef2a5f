//! Turns of connections that have much to do.
//!
//! Whoever asks for little is served when the runtime comes to its task. A connection that has done a turn's work in a
//! short while ([`Effort`]) stands in line for each further turn, and of all those who stand there only as many go on at a
//! time as threads serve connections ([`Turns`]). So whoever asks for little finds one turn in front of it, and not one of
//! each connection that floods; and those that flood share what is left evenly.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

/// Bytes read and written in a turn, some tens of microseconds of loopback.
pub(crate) const TURN: usize = 128 * 1024;
/// Frames taken in in a turn. A read brings thousands of small ones: sixteen clients that flooded a broker with pings held
/// everyone else up for seconds.
pub(crate) const FRAMES_IN_A_TURN: usize = 512;
/// What a frame counts beside its bytes.
const FRAME: usize = TURN / FRAMES_IN_A_TURN;
/// Who takes longer than this over a turn's work leaves others enough time, and does not stand in line: 25 MB/s, or 100,000
/// frames.
const SHORT: Duration = Duration::from_millis(5);

/// Threads that serve connections: half the cores, for the writer, the journal and the clients' work want theirs.
pub(crate) fn threads() -> usize {
    available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// The line of connections that have much to do.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Semaphore>);

/// A turn, until it is dropped. Nothing is waited for in it.
pub(crate) type Turn = OwnedSemaphorePermit;

impl Turns {
    pub(crate) fn new() -> Turns {
        Turns(Arc::new(Semaphore::new(threads())))
    }

    /// Waits for a turn.
    pub(crate) async fn next(&self) -> Turn {
        let turn = self.0.clone().acquire_owned().await.expect("it is never closed");
        // The runtime looks at all sockets and comes to whoever is ready before it comes back.
        yield_now().await;
        turn
    }
}

/// What a connection has done of late.
pub(crate) struct Effort {
    spent: usize,
    since: Instant,
}

impl Effort {
    pub(crate) fn new(now: Instant) -> Effort {
        Effort { spent: 0, since: now }
    }

    /// So many bytes were read or written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.spent += bytes;
    }

    /// So many frames were taken in.
    pub(crate) fn took_in(&mut self, frames: usize) {
        self.spent += frames * FRAME;
    }

    /// Whether the connection stands in line before it goes on. It is asked once for a turn.
    pub(crate) fn needs_turn(&mut self) -> bool {
        if self.spent < TURN {
            return false;
        }
        let now = Instant::now();
        let is_short = now.saturating_duration_since(self.since) < SHORT;
        self.since = now;
        self.spent = if is_short { self.spent - TURN } else { 0 };
        is_short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_floods_stands_in_line_and_who_asks_for_little_does_not() {
        let begin = Instant::now();
        let (mut little, mut much) = (Effort::new(begin), Effort::new(begin));
        for _ in 0..FRAMES_IN_A_TURN - 1 {
            little.took_in(1);
            assert!(!little.needs_turn());
        }
        much.took_in(2 * FRAMES_IN_A_TURN);
        much.moved(TURN - 1);
        assert!(much.needs_turn() && much.needs_turn(), "each turn counts");
        assert!(!much.needs_turn());
        // What was done over a long time is no flood.
        let long_ago = begin.checked_sub(SHORT).expect("the clock runs for longer");
        let mut slow = Effort { spent: 5 * TURN, since: long_ago };
        assert!(!slow.needs_turn() && !slow.needs_turn());
    }
}
