//! Moves old messages that pin much of the disk, as storage's [`Mover`] finds them: on a thread of its own, and so slowly
//! that others hardly notice.
//!
//! A batch of moves goes to the writer as publishes do. The next is looked for when that one is durable, and after a pause of
//! several times as long as it took; where nobody else has anything stored meanwhile, of once as long.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millpond_core::output::Reply;
use millpond_storage::{Mover, Moves};

use crate::metrics::Metrics;
use crate::update_queue::{Panicked, Submitter};
use crate::writer::{PUBLISHING, Request};

/// Of the time that moves take of the writer and its disk, so much more is left to others before the next: a fifth of the
/// turns at most are of moves.
const OTHERS: u32 = 4;
/// How long until it is looked again whether something pins space.
const AGAIN: Duration = Duration::from_secs(5);
/// How long after a pass that found what cannot be read, messages or entries: they pin segments until somebody sees to them.
const AGAIN_UNREADABLE: Duration = Duration::from_secs(10 * 60);

/// The thread, until it is stopped.
pub(crate) struct Moving {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Moving {
    pub(crate) fn start(
        mover: Mover,
        writer: Submitter<Request, Reply>,
        metrics: std::sync::Arc<Metrics>,
    ) -> io::Result<Moving> {
        let (stop, stopped) = channel();
        let thread =
            thread::Builder::new().name("mover".into()).spawn(move || run(mover, &writer, &metrics, &stopped))?;
        Ok(Moving { stop, thread })
    }

    /// Ends it, when the writer has stopped.
    pub(crate) fn stop(self) -> Result<(), Panicked> {
        drop(self.stop);
        self.thread.join().map_err(|_| Panicked)
    }
}

fn run(mut mover: Mover, writer: &Submitter<Request, Reply>, metrics: &Metrics, stopped: &Receiver<()>) {
    let (mut is_damaged, mut noted) = (false, Instant::now());
    loop {
        let began = Instant::now();
        let moves = match mover.step() {
            Ok(moves) => moves,
            Err(error) => {
                is_damaged = true;
                tracing::error!(%error, "old messages cannot be looked for: space that they pin does not come back until they are");
                Moves { rests: true, ..Moves::default() }
            }
        };
        for error in &moves.unreadable {
            is_damaged = true;
            metrics.damaged.inc();
            tracing::error!(%error, "a message cannot be moved: it pins its segment");
        }
        let rests = moves.rests;
        if rests || noted.elapsed() > AGAIN {
            metrics.note_space(mover.space());
            noted = Instant::now();
        }
        if !carry_out(moves, writer) {
            return;
        }
        let pause = pause(began.elapsed(), rests, is_damaged);
        is_damaged &= !rests;
        let stored = metrics.batches.get();
        let waits = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        if !waits(pause.always) || metrics.batches.get() != stored && !waits(pause.for_others) {
            return;
        }
    }
}

/// How long is waited behind a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pause {
    always: Duration,
    /// So much longer, if others had something stored until then.
    for_others: Duration,
}

/// How long until the next step, after one that took so long: the pass goes on or is over, and some of it could not be read.
fn pause(took: Duration, is_over: bool, is_damaged: bool) -> Pause {
    let always = match (is_over, is_damaged) {
        (false, _) => return Pause { always: took, for_others: took * (OTHERS - 1) },
        (true, false) => AGAIN,
        (true, true) => AGAIN_UNREADABLE,
    };
    Pause { always, for_others: Duration::ZERO }
}

/// Whether the writer has decided all of them.
fn carry_out(moves: Moves, writer: &Submitter<Request, Reply>) -> bool {
    let submitted = moves.commands.into_iter().map(|command| writer.submit(PUBLISHING, Request::Call(command)).ok());
    let Some(pending) = submitted.collect::<Option<Vec<_>>>() else { return false };
    pending.into_iter().all(|pending| pending.wait().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_leaves_others_most_of_the_time_and_one_that_cannot_read_is_not_begun_again_for_long() {
        let took = Duration::from_millis(3);
        for is_damaged in [false, true] {
            let goes_on = Pause { always: took, for_others: took * 3 };
            assert_eq!(pause(took, false, is_damaged), goes_on, "with what can be read");
        }
        let rests = |time| Pause { always: time, for_others: Duration::ZERO };
        assert_eq!(pause(took, true, false), rests(Duration::from_secs(5)));
        assert_eq!(pause(took, true, true), rests(Duration::from_secs(600)));
    }
}
