//! The log of `serve`: a thread of its own writes it to stderr, so that a reader who is slow, or has stopped, holds up nobody.
//!
//! What waits to be written has a bound. Lines beyond it are dropped and counted, and the next one that finds room says how
//! many. Nothing waits for the thread but the end of the process, and that not for long.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Bytes of lines that may wait to be written: some 4,000 lines, for a reader who pauses.
const WAITING_MAX: usize = 1024 * 1024;
/// What a line takes beside its text.
const LINE: usize = 64;
/// How long the end of the process waits for the lines that are left.
const FLUSH: Duration = Duration::from_secs(1);

/// The log; what waits is written when it is dropped, if it is read.
pub struct Log(Arc<Lines>);

/// Where lines go.
struct Lines {
    queue: Sender<Entry>,
    /// Bytes that wait.
    waiting: Arc<AtomicUsize>,
    /// Lines that were dropped, or could not be written.
    dropped: Arc<AtomicU64>,
    /// How many of them the log has told of.
    told: AtomicU64,
}

enum Entry {
    Line(Vec<u8>),
    /// All lines before this are written.
    Flushed(Sender<()>),
}

impl Log {
    /// Everything from `level` on is logged to stderr from here on.
    pub fn to_stderr(level: tracing::Level) -> io::Result<Log> {
        // A description of its own: whoever else writes to stderr would wait for the standard library's lock.
        let lines = Arc::new(Lines::start(File::from(io::stderr().as_fd().try_clone_to_owned()?))?);
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(lines.clone())
            // Without colours, also on a terminal: the feature for them is not built in, and who asks for it is told so there.
            .with_ansi(false)
            .init();
        let last = lines.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let trace = Backtrace::capture();
            let trace = if trace.status() == BacktraceStatus::Captured { format!("{trace}\n") } else { String::new() };
            let thread = thread::current();
            last.put(format!("thread '{}' {panic}\n{trace}", thread.name().unwrap_or("unnamed")).into());
            last.flush();
        }));
        Ok(Log(lines))
    }

    /// The count of lines that were dropped.
    pub fn dropped(&self) -> Arc<AtomicU64> {
        self.0.dropped.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush();
    }
}

impl Lines {
    fn start(output: impl Write + Send + 'static) -> io::Result<Lines> {
        let (queue, entries) = channel();
        let (waiting, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let lines = Lines { queue, waiting: waiting.clone(), dropped: dropped.clone(), told: AtomicU64::new(0) };
        thread::Builder::new().name("log".into()).spawn(move || write_out(&entries, output, &waiting, &dropped))?;
        Ok(lines)
    }

    /// Takes a line whatever waits.
    fn put(&self, line: Vec<u8>) {
        self.waiting.fetch_add(line.len() + LINE, Ordering::Relaxed);
        // The thread takes entries for as long as this is there.
        let _ = self.queue.send(Entry::Line(line));
    }

    /// Waits until the lines are written, or for [`FLUSH`].
    fn flush(&self) {
        let (done, is_done) = channel();
        let _ = self.queue.send(Entry::Flushed(done));
        let _ = is_done.recv_timeout(FLUSH);
    }
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Lines that come at once may be one or two beyond the bound together.
        if self.waiting.load(Ordering::Relaxed) + line.len() + LINE > WAITING_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(line.len());
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        let told = self.told.fetch_max(dropped, Ordering::Relaxed);
        if told < dropped {
            self.put(gap(dropped - told).into());
        }
        self.put(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line about lines that are not there. It cannot go through the subscriber, which is about to write another one.
fn gap(lines: u64) -> String {
    let mut text = String::new();
    // A string takes any text.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text + &format!("  WARN millpond::log: lines of the log were dropped, for nobody read it in time lines={lines}\n")
}

fn write_out(entries: &Receiver<Entry>, mut output: impl Write, waiting: &AtomicUsize, dropped: &AtomicU64) {
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                if output.write_all(&line).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
                waiting.fetch_sub(line.len() + LINE, Ordering::Relaxed);
            }
            // Whoever waited may have gone.
            Entry::Flushed(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn what_nobody_reads_is_dropped_and_told_of_and_nobody_waits() {
        let (reader, writer) = io::pipe().unwrap();
        let lines = Lines::start(writer).unwrap();
        let say = |text: String| (&lines).write_all(text.as_bytes()).unwrap();
        (0..20_000).for_each(|n| say(format!("{n:0100}\n")));
        lines.flush();
        let dropped = lines.dropped.load(Ordering::Relaxed);
        assert!((12_000..15_000).contains(&dropped), "{dropped}");
        let mut read = BufReader::new(reader).lines();
        // Each line is there, or counted where it is not: some find room again before the pipe is full.
        let (mut next, mut kept) = (0, 0);
        loop {
            let line = read.next().unwrap().unwrap();
            if line == "again" {
                break;
            }
            match line.split_once(" WARN millpond::log: ").and_then(|(_, text)| text.rsplit_once("lines=")) {
                Some((_, lost)) => next += lost.parse::<u64>().unwrap(),
                None => {
                    assert_eq!(line.parse(), Ok(next));
                    (next, kept) = (next + 1, kept + 1);
                }
            }
            if kept == 20_000 - dropped {
                say("again\n".into());
            }
        }
        assert_eq!(next, 20_000);
    }
}
