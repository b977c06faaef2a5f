//! The byte forms of where groups start and how far they have come.
//!
//! Messages that a group is given are runs, each told against the one before:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | priority |
//! | run | the messages |
//! | option of number | when they become ready |

use millpond_core::fact::CopiedRun;
use millpond_core::page::Reached;
use millpond_types::{Priority, Sequence, Start};

use super::run::Before;
use super::{BadRecord, Sink, Source};

impl Sink<'_> {
    pub(super) fn start(&mut self, start: Start) {
        match start {
            Start::Latest => self.byte(0),
            Start::Earliest => self.byte(1),
            Start::At(time) => {
                self.byte(2);
                self.number(time.0);
            }
        }
    }

    pub(super) fn reached(&mut self, Reached { at, rest }: &Reached) {
        self.string(at);
        self.option(*rest, Sink::rest);
    }

    pub(super) fn rest(&mut self, (priority, sequence): (Priority, Sequence)) {
        self.priority(priority);
        self.number(sequence.0);
    }

    pub(super) fn copied_runs(&mut self, messages: &[CopiedRun]) {
        let mut before = Before::first(0);
        self.list(messages, |sink, CopiedRun { priority, run, due }| {
            sink.priority(*priority);
            sink.run(run, &mut before);
            sink.option(*due, |sink, due| sink.number(due.0));
        });
    }
}

impl Source<'_> {
    pub(super) fn start(&mut self) -> Result<Start, BadRecord> {
        Ok(match self.byte()? {
            0 => Start::Latest,
            1 => Start::Earliest,
            2 => Start::At(self.wall()?),
            _ => return Err(self.bad("has an unknown start of a group")),
        })
    }

    pub(super) fn reached(&mut self) -> Result<Reached, BadRecord> {
        Ok(Reached { at: self.string()?.to_vec(), rest: self.option(Source::rest)? })
    }

    pub(super) fn rest(&mut self) -> Result<(Priority, Sequence), BadRecord> {
        Ok((self.priority()?, Sequence(self.number()?)))
    }

    pub(super) fn copied_runs(&mut self) -> Result<Vec<CopiedRun>, BadRecord> {
        let mut before = Before::first(0);
        self.list(|source| {
            let (priority, run) = (source.priority()?, source.run(&mut before)?);
            Ok(CopiedRun { priority, run, due: source.option(Source::wall)? })
        })
    }
}
