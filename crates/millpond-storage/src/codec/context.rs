//! What the facts of a batch have in common, and so write once.
//!
//! Neighbours in a batch are much alike: they concern the same topic or the next one, count on from the same numbers,
//! happen at the same time and lease to the same session. So topics, sequences, leases and times are written as steps
//! from the last one of their kind in the batch. A batch begins with nothing before it ([`Context::default`]), so that
//! it can be read without any other. A step is a *difference*: one byte takes it up to 63 either way, and any number is
//! some step from any other.

use millpond_types::{LeaseNumber, Millis, RunTime, Sequence, SessionId, TopicNumber, WallTime};

use super::{BadRecord, Sink, Source};

/// The last of each kind in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    topic: u64,
    sequence: u64,
    lease: u64,
    wall: u64,
    pub(super) terms: LeaseTerms,
}

/// Who holds leases, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LeaseTerms {
    pub holder: SessionId,
    pub duration: Millis,
    pub deadline: RunTime,
}

impl Source<'_> {
    pub(super) fn next_topic(&mut self) -> Result<TopicNumber, BadRecord> {
        self.context.topic = self.beside(self.context.topic)?;
        Ok(TopicNumber(self.context.topic))
    }

    /// A sequence, or where sequences begin.
    pub(super) fn next_sequence(&mut self) -> Result<Sequence, BadRecord> {
        self.context.sequence = self.beside(self.context.sequence)?;
        Ok(Sequence(self.context.sequence))
    }

    pub(super) fn next_lease(&mut self) -> Result<LeaseNumber, BadRecord> {
        self.context.lease = self.beside(self.context.lease)?;
        Ok(LeaseNumber(self.context.lease))
    }

    /// When a fact happened.
    pub(super) fn moment(&mut self) -> Result<WallTime, BadRecord> {
        self.context.wall = self.beside(self.context.wall)?;
        Ok(WallTime(self.context.wall))
    }

    /// A time some way from when facts happen: the next fact is not near it.
    pub(super) fn far(&mut self) -> Result<WallTime, BadRecord> {
        self.beside(self.context.wall).map(WallTime)
    }

    pub(super) fn terms(&mut self) -> Result<LeaseTerms, BadRecord> {
        let (holder, duration) = (SessionId(self.number()?), self.millis()?);
        let deadline = RunTime(self.beside(self.context.terms.deadline.0)?);
        self.context.terms = LeaseTerms { holder, duration, deadline };
        Ok(self.context.terms)
    }
}

impl Sink<'_> {
    pub(super) fn next_topic(&mut self, topic: TopicNumber) {
        self.difference(topic.0, self.context.topic);
        self.context.topic = topic.0;
    }

    pub(super) fn next_sequence(&mut self, sequence: Sequence) {
        self.difference(sequence.0, self.context.sequence);
        self.context.sequence = sequence.0;
    }

    pub(super) fn next_lease(&mut self, lease: LeaseNumber) {
        self.difference(lease.0, self.context.lease);
        self.context.lease = lease.0;
    }

    pub(super) fn moment(&mut self, time: WallTime) {
        self.difference(time.0, self.context.wall);
        self.context.wall = time.0;
    }

    pub(super) fn far(&mut self, time: WallTime) {
        self.difference(time.0, self.context.wall);
    }

    pub(super) fn terms(&mut self, terms: LeaseTerms) {
        self.number(terms.holder.0);
        self.number(terms.duration.0);
        self.difference(terms.deadline.0, self.context.terms.deadline.0);
        self.context.terms = terms;
    }
}
