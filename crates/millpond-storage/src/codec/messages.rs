//! The byte forms of the two facts that there are most of, a run of messages is published and a run is leased; and of the
//! one that stores messages again, a run is moved.
//!
//! A byte of flags says what stands there beside the usual: a run of one at the default priority, without times, in a
//! topic that was just made, takes five bytes and its block. The sizes of the messages are not kept: they are found
//! again by walking the block, which is there anyway.

use bytes::Bytes;
use millpond_core::fact::{DedupMark, Fact};
use millpond_types::block::{Sizes, messages};
use millpond_types::{LeaseNumber, Priority, WallTime};

use super::context::LeaseTerms;
use super::{BadRecord, Sink, Source};

// Of all.
const HAS_PRIORITY: u8 = 1;
const HAS_COUNT: u8 = 2;
// Of a published run.
const HAS_DUE: u8 = 4;
const HAS_EXPIRES: u8 = 8;
const HAS_DEDUP: u8 = 16;
const HAS_EXCEPT: u8 = 32;
// Of a leased one.
const HAS_GROUP: u8 = 4;
const HAS_TERMS: u8 = 8;
const HAS_RUN: u8 = 16;

impl Sink<'_> {
    /// All but the block, which the caller appends.
    pub(super) fn published(&mut self, fact: &Fact) {
        let Fact::Published {
            topic,
            except,
            priority,
            first,
            count,
            published,
            due,
            expires,
            dedup_until,
            dedup,
            block,
            sizes: _,
        } = fact
        else {
            unreachable!("called for a published run only");
        };
        let flags = run_flags(*priority, *count)
            | flag(due.is_some(), HAS_DUE)
            | flag(expires.is_some(), HAS_EXPIRES)
            | flag(!dedup.is_empty(), HAS_DEDUP)
            | flag(!except.is_empty(), HAS_EXCEPT);
        self.byte(flags);
        self.next_topic(*topic);
        self.run_start(flags, *priority, *count);
        self.next_sequence(*first);
        self.moment(*published);
        [due, expires].into_iter().flatten().for_each(|time| self.far(*time));
        if !dedup.is_empty() {
            self.flag(*dedup_until == WallTime::NEVER);
            if *dedup_until != WallTime::NEVER {
                self.far(*dedup_until);
            }
            self.list(dedup, |sink, mark| {
                sink.number32(mark.index);
                sink.wide(mark.hash);
            });
        }
        if !except.is_empty() {
            self.list(except, |sink, group| sink.number32(*group));
        }
        self.number(block.len() as u64);
    }

    pub(super) fn leased(&mut self, fact: &Fact) {
        let Fact::Leased { topic, group, priority, first, count, lease, run, holder, duration, deadline } = fact else {
            unreachable!("called for a leased run only");
        };
        let terms = LeaseTerms { holder: *holder, duration: *duration, deadline: *deadline };
        let flags = run_flags(*priority, *count)
            | flag(*group != 0, HAS_GROUP)
            | flag(terms != self.context.terms, HAS_TERMS)
            | flag(run.is_some(), HAS_RUN);
        self.byte(flags);
        self.next_topic(*topic);
        self.run_start(flags, *priority, *count);
        self.next_sequence(*first);
        self.next_lease(*lease);
        if flags & HAS_GROUP != 0 {
            self.number32(*group);
        }
        if flags & HAS_TERMS != 0 {
            self.terms(terms);
        }
        if let Some(run) = run {
            self.number(lease.0 - run.0);
        }
    }

    /// All but the block, which the caller appends.
    pub(super) fn moved(&mut self, fact: &Fact) {
        let Fact::Moved { topic, priority, first, count, from, block, sizes: _ } = fact else {
            unreachable!("called for a moved run only");
        };
        let flags = run_flags(*priority, *count);
        self.byte(flags);
        self.next_topic(*topic);
        self.run_start(flags, *priority, *count);
        self.next_sequence(*first);
        self.number(*from);
        self.number(block.len() as u64);
    }

    fn run_start(&mut self, flags: u8, priority: Priority, count: u32) {
        if flags & HAS_PRIORITY != 0 {
            self.priority(priority);
        }
        if flags & HAS_COUNT != 0 {
            self.number32(count);
        }
    }
}

fn run_flags(priority: Priority, count: u32) -> u8 {
    flag(priority != Priority::DEFAULT, HAS_PRIORITY) | flag(count != 1, HAS_COUNT)
}

fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

impl Source<'_> {
    pub(super) fn published(&mut self) -> Result<Fact, BadRecord> {
        let flags = self.flags(HAS_PRIORITY | HAS_COUNT | HAS_DUE | HAS_EXPIRES | HAS_DEDUP | HAS_EXCEPT)?;
        let topic = self.next_topic()?;
        let (priority, count) = self.run_start(flags)?;
        let (first, published) = (self.next_sequence()?, self.moment()?);
        let mut time = |flag| if flags & flag != 0 { self.far().map(Some) } else { Ok(None) };
        let (due, expires): (Option<WallTime>, Option<WallTime>) = (time(HAS_DUE)?, time(HAS_EXPIRES)?);
        let (mut dedup_until, mut dedup) = (WallTime::default(), Vec::new());
        if flags & HAS_DEDUP != 0 {
            dedup_until = if self.flag()? { WallTime::NEVER } else { self.far()? };
            dedup = self.list(|source| Ok(DedupMark { index: source.number32()?, hash: source.wide()? }))?;
            if dedup.is_empty() {
                return Err(self.bad("has a window for dedup ids, and none of these"));
            }
        }
        let except = if flags & HAS_EXCEPT != 0 { self.list(Source::number32)? } else { Vec::new() };
        let (block, sizes) = self.block_of(count)?;
        if first.0.checked_add(u64::from(count)).is_none() || dedup.iter().any(|mark| mark.index >= count) {
            return Err(self.bad("has a run that does not fit its numbers"));
        }
        Ok(Fact::Published {
            topic,
            except,
            priority,
            first,
            count,
            published,
            due,
            expires,
            dedup_until,
            dedup,
            block,
            sizes,
        })
    }

    pub(super) fn leased(&mut self) -> Result<Fact, BadRecord> {
        let flags = self.flags(HAS_PRIORITY | HAS_COUNT | HAS_GROUP | HAS_TERMS | HAS_RUN)?;
        let topic = self.next_topic()?;
        let (priority, count) = self.run_start(flags)?;
        let (first, lease) = (self.next_sequence()?, self.next_lease()?);
        let group = if flags & HAS_GROUP != 0 { self.number32()? } else { 0 };
        let terms = if flags & HAS_TERMS != 0 { self.terms()? } else { self.context.terms };
        let LeaseTerms { holder, duration, deadline } = terms;
        let run = if flags & HAS_RUN != 0 { Some(self.run_before(lease)?) } else { None };
        Ok(Fact::Leased { topic, group, priority, first, count, lease, run, holder, duration, deadline })
    }

    /// The first lease of a run, by how far before another one of it.
    pub(super) fn run_before(&mut self, lease: LeaseNumber) -> Result<LeaseNumber, BadRecord> {
        let first = lease.0.checked_sub(self.number()?).map(LeaseNumber);
        first.ok_or_else(|| self.bad("has a run that begins before all numbers"))
    }

    pub(super) fn moved(&mut self) -> Result<Fact, BadRecord> {
        let flags = self.flags(HAS_PRIORITY | HAS_COUNT)?;
        let topic = self.next_topic()?;
        let (priority, count) = self.run_start(flags)?;
        let (first, from) = (self.next_sequence()?, self.number()?);
        let (block, sizes) = self.block_of(count)?;
        if first.0.checked_add(u64::from(count)).is_none() {
            return Err(self.bad("has a run that does not fit its numbers"));
        }
        Ok(Fact::Moved { topic, priority, first, count, from, block, sizes })
    }

    fn flags(&mut self, known: u8) -> Result<u8, BadRecord> {
        let flags = self.byte()?;
        if flags & !known == 0 { Ok(flags) } else { Err(self.bad("has flags that this version does not know")) }
    }

    fn run_start(&mut self, flags: u8) -> Result<(Priority, u32), BadRecord> {
        let priority = if flags & HAS_PRIORITY != 0 { self.priority()? } else { Priority::DEFAULT };
        let count = if flags & HAS_COUNT != 0 { self.number32()? } else { 1 };
        Ok((priority, count))
    }

    /// The block that a fact ends with, of so many messages.
    pub(super) fn block_of(&mut self, count: u32) -> Result<(Bytes, Sizes), BadRecord> {
        let block = self.shared()?;
        let sizes = self.sizes(&block, count)?;
        Ok((block, sizes))
    }

    fn sizes(&self, block: &Bytes, count: u32) -> Result<Sizes, BadRecord> {
        let bad = self.bad("has a block that does not hold its messages");
        // A block's bytes bound its messages, so a wrong count reserves nothing.
        let mut ends = Vec::with_capacity((count as usize).min(block.len() / millpond_types::block::MESSAGE_MIN));
        let mut end = 0u32;
        for message in messages(block) {
            let length = u32::try_from(message.map_err(|_| bad)?.length).map_err(|_| bad)?;
            end = end.checked_add(length).ok_or(bad)?;
            ends.push(end);
        }
        if count == 0 || ends.len() != count as usize {
            return Err(bad);
        }
        Ok(Sizes::from_ends(&ends))
    }
}
