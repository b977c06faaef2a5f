//! How far a run has come, on a terminal; silence elsewhere. Drawn by a thread of its own from counters that the run
//! counts anyway, so that it costs the run nothing.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar; it vanishes when dropped.
pub struct Progress {
    stop: Arc<AtomicBool>,
    drawing: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows the time that has passed of `duration` and what is counted.
    pub fn of_time(duration: Duration, counter: Arc<AtomicU64>, noun: &'static str) -> Progress {
        let begin = Instant::now();
        Progress::start(duration.as_millis() as u64, move |bar| {
            let count = counter.load(Relaxed);
            bar.set_position(begin.elapsed().as_millis() as u64);
            let rate = count as f64 / begin.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!("{count} {noun}, {rate:.0}/s"));
        })
    }

    /// Shows how many of `total` are done.
    pub fn of_count(total: u64, counter: Arc<AtomicU64>, noun: &'static str) -> Progress {
        Progress::start(total, move |bar| {
            let count = counter.load(Relaxed);
            bar.set_position(count);
            bar.set_message(format!("{count} of {total} {noun}"));
        })
    }

    fn start(length: u64, draw: impl Fn(&ProgressBar) + Send + 'static) -> Progress {
        let stop = Arc::new(AtomicBool::new(false));
        if !std::io::stderr().is_terminal() {
            return Progress { stop, drawing: None };
        }
        let stopped = Arc::clone(&stop);
        let drawing = std::thread::spawn(move || {
            let style = ProgressStyle::with_template("{bar:40} {msg}").expect("the template is valid");
            let bar = ProgressBar::new(length).with_style(style);
            while !stopped.load(Relaxed) {
                draw(&bar);
                std::thread::park_timeout(Duration::from_millis(200));
            }
            bar.finish_and_clear();
        });
        Progress { stop, drawing: Some(drawing) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(drawing) = self.drawing.take() {
            drawing.thread().unpark();
            // A bar that failed to draw is no reason to lose the figures.
            let _ = drawing.join();
        }
    }
}
