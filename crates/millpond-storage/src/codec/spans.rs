//! The byte form of how many messages of a group were published when: each span after the one before it.

use millpond_core::page::Span;
use millpond_types::WallTime;

use super::{BadRecord, Sink, Source};

impl Sink<'_> {
    pub(super) fn spans(&mut self, spans: &[Span]) {
        let mut before = 0;
        self.list(spans, |sink, Span { first, last, count }| {
            sink.number(first.0 - before);
            sink.number(last.0 - first.0);
            sink.number(*count);
            before = last.0;
        });
    }
}

impl Source<'_> {
    pub(super) fn spans(&mut self) -> Result<Vec<Span>, BadRecord> {
        let mut before = 0;
        self.list(|source| {
            let first = source.later(before)?;
            let last = source.later(first)?;
            before = last;
            Ok(Span { first: WallTime(first), last: WallTime(last), count: source.number()? })
        })
    }

    fn later(&mut self, time: u64) -> Result<u64, BadRecord> {
        let by = self.number()?;
        time.checked_add(by).ok_or(self.bad("has a span of time that has no end"))
    }
}
