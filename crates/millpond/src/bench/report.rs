//! What a run prints: the command line, the machine, the broker, and every figure; as a plain table or as one JSON
//! object. A figure that could not be taken is never shown as zero: it is left out, or stands as `-` (`null` in JSON) where
//! other runs have it.

use std::fmt;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::target::Target;
use crate::cli::Output;
use crate::say;
use crate::shell;
use crate::table::Table;

/// A report that is being filled.
pub struct Report {
    broker: Value,
    figures: Vec<Figure>,
    faults: Vec<String>,
}

struct Figure {
    name: String,
    value: Option<f64>,
    unit: &'static str,
}

impl Report {
    /// An empty report on a broker.
    pub fn new(target: &Target) -> Report {
        Report { broker: target.describe(), figures: Vec::new(), faults: Vec::new() }
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figure_or_dash(name, Some(value), unit);
    }

    /// Adds a figure that not every broker lets one take.
    pub fn figure_or_dash(&mut self, name: impl Into<String>, value: Option<f64>, unit: &'static str) {
        self.figures.push(Figure { name: name.into(), value, unit });
    }

    /// Adds the percentiles of a latency that was taken in nanoseconds.
    pub fn latency(&mut self, name: &str, latency: &Histogram<u64>) {
        if latency.is_empty() {
            return;
        }
        for (percentile, label) in [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9")] {
            self.figure(format!("{name} {label}"), latency.value_at_percentile(percentile) as f64 / 1e3, "us");
        }
        self.figure(format!("{name} max"), latency.max() as f64 / 1e3, "us");
    }

    /// Something that a good run does not have.
    pub fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Whether the run had a fault.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Prints the whole.
    pub fn print(&self, output: Output) {
        match output {
            Output::Table => say::print(self),
            Output::Json => say::line(self.json()),
        }
    }

    fn json(&self) -> Value {
        let figures: Map<String, Value> =
            self.figures.iter().map(|figure| (figure.key(), json!(figure.value))).collect();
        json!({
            "command": command_line(),
            "machine": machine(),
            "broker": self.broker,
            "figures": figures,
            "faults": self.faults,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "command  {}", command_line())?;
        writeln!(f, "machine  {}", sentence(&machine()))?;
        writeln!(f, "broker   {}\n", sentence(&self.broker))?;
        let mut table = Table::new(&["figure", "value", "unit"]);
        for figure in &self.figures {
            table.row([figure.name.clone(), figure.value_text(), figure.unit.into()]);
        }
        write!(f, "{table}")?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "\nFAULT: {fault}"))
    }
}

impl Figure {
    /// The name in JSON, with its unit: `broker_cpu_us_per_message`.
    fn key(&self) -> String {
        let unit = match self.unit {
            "" => String::new(),
            "%" => "_percent".into(),
            unit => format!("_{}", unit.replace('/', "_per_")),
        };
        self.name.replace([' ', '.', '-'], "_") + &unit.to_lowercase()
    }

    fn value_text(&self) -> String {
        let Some(value) = self.value else { return "-".into() };
        match value.abs() {
            size if size.fract() == 0.0 || size >= 1000.0 => format!("{value:.0}"),
            size if size >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.3}"),
        }
    }
}

/// The command line as it may be pasted into a shell.
fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    // Where the binary lies is nobody's business and differs from machine to machine.
    let binary = words.next().map(|_| "millpond".to_owned());
    binary.into_iter().chain(words.map(|word| shell::quoted(&word))).collect::<Vec<_>>().join(" ")
}

fn machine() -> Value {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = rustix::system::uname();
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        line.map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    json!({
        "cores": cores,
        "processor": field("/proc/cpuinfo", "model name"),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": kernel.release().to_string_lossy(),
    })
}

fn sentence(object: &Value) -> String {
    let entries = object.as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    entries.map(|(name, value)| format!("{name} {}", text(value))).collect::<Vec<_>>().join(", ")
}
