//! What the clients know, outside of the broker: lines of words in a file for each life of a client process.
//!
//! A line is written before an end is asked for, and after each answer and each delivery, with one call for all lines that
//! belong together. What was written survives the process. A last line without its end was never finished, and the call
//! that was to follow it was never made.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use millpond_client::{Delivery, LeaseNumber, MessageId};

/// Writes one file of it.
pub struct Scribe {
    file: File,
    lines: String,
}

impl Scribe {
    pub fn new(ledger: &Path, name: &str) -> Scribe {
        let file = File::options().append(true).create_new(true).open(ledger.join(format!("{name}.ledger")));
        Scribe { file: file.expect("each life has a name of its own"), lines: String::new() }
    }

    /// A publish was confirmed.
    pub fn published(&mut self, space: &str, topic: &str, id: MessageId, tag: &str) {
        self.line(format_args!("published {space} {topic} {id} {tag}"));
    }

    /// A publish was confirmed: this message stands for it, or it for this one.
    pub fn coalesced(&mut self, space: &str, topic: &str, id: MessageId, tag: &str) {
        self.line(format_args!("coalesced {space} {topic} {id} {tag}"));
    }

    pub fn delivered(&mut self, space: &str, group: &str, delivery: &Delivery, tag: &str) {
        let Delivery { topic, id, deliveries, epoch, .. } = delivery;
        let (lease, epoch) = (delivery.lease().0, epoch.map_or(0, |epoch| epoch.0));
        let at = now();
        self.line(format_args!("delivered {space} {group} {topic} {id} {lease} {deliveries} {epoch} {tag} {at}"));
    }

    /// An end is asked for, and then answered: `done`, `dead`, `lost` or `kept`.
    pub fn end(&mut self, word: &str, verb: &str, space: &str, group: &str, delivery: &Delivery) {
        self.line(format_args!("{word} {verb} {space} {group} {} {}", delivery.id, delivery.lease().0));
    }

    /// A message is asked to come no earlier than so, by its publish or by what changes that; [`NEVER`] where it is called off.
    pub fn due(&mut self, space: &str, tag: &str, not_before: u64) {
        self.line(format_args!("due {space} {tag} {} {not_before}", now()));
    }

    /// The last of these was answered: `done` or `refused`.
    pub fn settled(&mut self, word: &str, space: &str, tag: &str) {
        self.line(format_args!("settled {word} {space} {tag} {}", now()));
    }

    /// A message is published that is worth nothing later than so.
    pub fn brief(&mut self, space: &str, tag: &str, expires: u64) {
        self.line(format_args!("brief {space} {tag} {expires}"));
    }

    /// A message is published to an exchange that leads to these topics.
    pub fn routed(&mut self, space: &str, tag: &str, topics: &[String]) {
        self.line(format_args!("routed {space} {tag} {}", topics.join(",")));
    }

    /// A dead letter is there in the end.
    pub fn letter(&mut self, space: &str, group: &str, id: &str, tag: &str, reason: &str, died: u64) {
        self.line(format_args!("letter {space} {group} {id} {tag} {reason} {died}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.lines, "{line}").expect("a string takes everything");
    }

    /// Hands all lines so far to the system.
    pub fn write(&mut self) {
        self.file.write_all(self.lines.as_bytes()).expect("the ledger can be written");
        self.lines.clear();
    }
}

/// Later than any time.
pub const NEVER: u64 = u64::MAX;

/// In milliseconds, by the clock that the broker has too.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64
}

/// A line, read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    Published {
        space: &'a str,
        topic: &'a str,
        id: MessageId,
        tag: &'a str,
    },
    Coalesced {
        space: &'a str,
        topic: &'a str,
        id: MessageId,
    },
    Delivered {
        place: Place<'a>,
        topic: &'a str,
        lease: LeaseNumber,
        deliveries: u32,
        epoch: u64,
        tag: &'a str,
        at: u64,
    },
    Asked {
        verb: &'a str,
        place: Place<'a>,
        lease: LeaseNumber,
    },
    Answered {
        answer: &'a str,
        verb: &'a str,
        place: Place<'a>,
        lease: LeaseNumber,
    },
    Due {
        space: &'a str,
        tag: &'a str,
        at: u64,
        not_before: u64,
    },
    Settled {
        is_done: bool,
        space: &'a str,
        tag: &'a str,
        at: u64,
    },
    Brief {
        space: &'a str,
        tag: &'a str,
        expires: u64,
    },
    Routed {
        space: &'a str,
        tag: &'a str,
        topics: &'a str,
    },
    Letter {
        place: Place<'a>,
        tag: &'a str,
        reason: &'a str,
        died: u64,
    },
}

/// A message as one group has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place<'a> {
    pub space: &'a str,
    pub group: &'a str,
    pub id: MessageId,
}

/// The files, by name.
pub fn files(ledger: &Path) -> Vec<(String, String)> {
    let paths = fs::read_dir(ledger).expect("the ledger is there").map(|entry| entry.expect("it is a file").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "ledger"));
    let mut files: Vec<_> = files
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Bytes that processes have written so far, of all lives, by their names.
pub fn written(ledger: &Path, by: impl Fn(&str) -> bool) -> u64 {
    let files = fs::read_dir(ledger).expect("the ledger is there").map(|entry| entry.expect("it is a file"));
    let is_by = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.ends_with(".ledger") && name.split('.').next().is_some_and(&by)
    };
    files.filter(is_by).map(|entry| entry.metadata().expect("it is a file").len()).sum()
}

/// The entries of a file.
pub fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let finished = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    finished.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        entry(&words).unwrap_or_else(|| panic!("no entry of a ledger: {line:?}"))
    })
}

fn entry<'a>(words: &[&'a str]) -> Option<Entry<'a>> {
    Some(match *words {
        ["published", space, topic, id, tag] => Entry::Published { space, topic, id: id.parse().ok()?, tag },
        ["coalesced", space, topic, id, _] => Entry::Coalesced { space, topic, id: id.parse().ok()? },
        ["delivered", space, group, topic, id, lease, deliveries, epoch, tag, at] => Entry::Delivered {
            place: Place { space, group, id: id.parse().ok()? },
            topic,
            lease: LeaseNumber(lease.parse().ok()?),
            deliveries: deliveries.parse().ok()?,
            epoch: epoch.parse().ok()?,
            tag,
            at: at.parse().ok()?,
        },
        ["due", space, tag, at, not_before] => {
            Entry::Due { space, tag, at: at.parse().ok()?, not_before: not_before.parse().ok()? }
        }
        ["settled", word @ ("done" | "refused"), space, tag, at] => {
            Entry::Settled { is_done: word == "done", space, tag, at: at.parse().ok()? }
        }
        ["brief", space, tag, expires] => Entry::Brief { space, tag, expires: expires.parse().ok()? },
        ["routed", space, tag, topics] => Entry::Routed { space, tag, topics },
        ["letter", space, group, id, tag, reason, died] => {
            let place = Place { space, group, id: id.parse().ok()? };
            Entry::Letter { place, tag, reason, died: died.parse().ok()? }
        }
        [word, verb, space, group, id, lease] => {
            let place = Place { space, group, id: id.parse().ok()? };
            let lease = LeaseNumber(lease.parse().ok()?);
            match word {
                "asked" => Entry::Asked { verb, place, lease },
                "done" | "dead" | "lost" | "kept" => Entry::Answered { answer: word, verb, place, lease },
                _ => return None,
            }
        }
        _ => return None,
    })
}
