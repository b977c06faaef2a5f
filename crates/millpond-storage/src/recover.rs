//! Bringing the state back: the newest checkpoint, and every batch after it.
//!
//! The journal ends where no valid batch follows. Whether that end is in order is decided by what is *known durable*:
//! the checkpoint's position, the base of the last segment, and what the header of any valid batch vouches for, be it
//! before the end or behind it. An end before a position that is known durable is damage, and no batch is changed, though
//! checkpoints that were made on the way stay; any other is the torn tail of writes that were never confirmed, and is written over.

mod ends;
mod parts;
mod replica;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millpond_core::fact::Fact;
use millpond_core::output::Holdings;
use millpond_core::store::Want;
use millpond_core::{LevelBounds, Now};

use crate::checkpoint::{Checkpoint, LiveBytes};
use crate::codec::{self, BadRecord, decode_fact};
use crate::disk::{Disk, TREE};
use crate::journal::batch::{BatchHeader, EPOCH, HEADER, MARK, STOP};
use crate::journal::live::OPEN;
use crate::journal::scan::{Found, Scan};
use crate::journal::segment::segment_name;
use crate::journal::segments::Segment;
use crate::open::{OpenError, OpenOptions};
use crate::store::LayeredStore;

pub(crate) use self::ends::set_aside;
use self::ends::{note_ends, write_again};
use self::parts::Parts;
pub use self::replica::Replica;

/// What a start has found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Whether the directory was made by this start.
    pub fresh: bool,
    /// Whether the last thing before was an orderly stop, so that no number can have been given out and lost.
    pub orderly: bool,
    /// Where the checkpoint stood; of a long journal the last one that was made on the way.
    pub checkpoint: u64,
    /// Where the journal ended: new batches go on from here.
    pub end: u64,
    /// Batches replayed.
    pub batches: u64,
    /// Facts replayed.
    pub facts: u64,
    /// The torn batch that the journal ended in, for which nothing vouches.
    pub torn: Option<Torn>,
    /// What was cut off from [`Recovery::end`] on, by a person's order.
    pub cut: Option<Cut>,
    /// What was damaged in the tree, which was set aside and is made anew.
    pub rebuilt: Option<String>,
    /// Which start of the broker this is, from 1.
    pub start: u32,
    /// Where both times stood.
    pub now: Now,
    /// How long it took.
    pub took: Duration,
}

/// A batch that is not whole, which was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The file that it is in.
    pub file: String,
    /// Where in it it begins.
    pub offset: u64,
    /// Bytes of it, at least.
    pub bytes: u64,
}

/// What a person has decided to lose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The file that is cut.
    pub file: String,
    /// The offset in it.
    pub offset: u64,
    /// How many batches follow there and in later files, as far as their headers can be read.
    pub batches: u64,
    /// How many bytes of the journal that is, at least.
    pub bytes: u64,
}

pub(crate) struct Recovered<R> {
    /// `None` where nothing was ever written.
    pub state: Option<R>,
    pub report: Recovery,
    /// Everything before this position is known to have been durable.
    pub durable: u64,
    /// What the segments hold.
    pub live: LiveBytes,
    /// Which of the segments the checkpoint stands in.
    pub first: usize,
    /// How many of the segments hold the journal up to its end; fewer than all where it was cut.
    pub used: usize,
}

impl<R> Recovered<R> {
    /// Takes out the segments that were cut off.
    pub fn cut_off(&self, segments: &mut Vec<Segment>) -> Vec<Segment> {
        segments.split_off(self.used)
    }
}

/// Brings the state back and makes its end safe to go on from.
pub(crate) fn recover<R: Replica>(
    source: Source<'_>,
    checkpoint: Option<Checkpoint>,
    segments: &mut [Segment],
    options: &OpenOptions,
) -> Result<Recovered<R>, OpenError> {
    let Source { disk, directory, .. } = source;
    let parts = Parts::new(options.young_bytes, checkpoint.is_some());
    let recovered = replay_with(source, checkpoint, segments, options, Some(parts))?;
    note_ends(disk, directory, &mut segments[recovered.first..recovered.used], recovered.report.end)?;
    let last = segments[..recovered.used].last().expect("the checkpoint's segment is there");
    write_again(disk, last, recovered.durable, recovered.report.end)?;
    Ok(recovered)
}

/// Brings the state back, and writes nothing.
pub(crate) fn replay<R: Replica>(
    source: Source<'_>,
    checkpoint: Option<Checkpoint>,
    segments: &[Segment],
    options: &OpenOptions,
) -> Result<Recovered<R>, OpenError> {
    replay_with(source, checkpoint, segments, options, None)
}

fn replay_with<R: Replica>(
    source: Source<'_>,
    checkpoint: Option<Checkpoint>,
    segments: &[Segment],
    options: &OpenOptions,
    parts: Option<Parts>,
) -> Result<Recovered<R>, OpenError> {
    let began = Instant::now();
    let position = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.position);
    let mut replay = Replay {
        source,
        room: options.room,
        bounds: options.bounds,
        parts,
        state: None,
        report: Recovery { checkpoint: position, end: position, ..Recovery::default() },
        durable: position,
        live: LiveBytes::default(),
    };
    if let Some(checkpoint) = checkpoint {
        replay.load(checkpoint)?;
    }
    let Source { disk, directory, .. } = replay.source;
    let first = replay.first(segments)?;
    replay.note_ended(&segments[..=first]);
    let mut used = segments.len();
    for index in first..segments.len() {
        replay.walk(&segments[index], segments.get(index + 1), options.cut)?;
        if let Some(cut) = &mut replay.report.cut {
            used = index + 1;
            for segment in &segments[used..] {
                let io = |error| OpenError::Io { place: disk.place(&segment.name), what: "reading", error };
                let behind = Scan::new(segment, directory, segment.base, 0).behind().map_err(io)?;
                cut.batches += behind.batches;
                cut.bytes = cut.bytes.max(behind.end - replay.report.end);
            }
            break;
        }
    }
    let Replay { state, mut report, durable, live, .. } = replay;
    if let Some(position) = live.bases().find(|base| segments.iter().all(|segment| segment.base != *base)) {
        let file = disk.place(&segment_name(position));
        return Err(match report.cut {
            None => OpenError::MessagesMissing { file },
            Some(_) => OpenError::CutTooFar { file, position: report.end },
        });
    }
    report.start += 1;
    report.fresh = state.is_none();
    report.took = began.elapsed();
    Ok(Recovered { state, report, durable, live, first, used })
}

/// Facts that a replay reads for together: many make a good read, and the topics that they are about are in memory meanwhile.
const TOGETHER: usize = 1024;

/// Where a state is brought back from.
#[derive(Clone)]
pub(crate) struct Source<'a> {
    pub disk: &'a dyn Disk,
    /// The directory's id.
    pub directory: u128,
    pub store: &'a LayeredStore,
}

struct Replay<'a, R> {
    source: Source<'a>,
    room: usize,
    bounds: LevelBounds,
    /// None where nothing is to be written.
    parts: Option<Parts>,
    state: Option<R>,
    report: Recovery,
    /// Everything before this position is known to have been durable.
    durable: u64,
    live: LiveBytes,
}

impl<R: Replica> Replay<'_, R> {
    fn load(&mut self, checkpoint: Checkpoint) -> Result<(), OpenError> {
        let Checkpoint { position, start, live, numbers, pages } = checkpoint;
        self.report.now = Now { run: numbers.run, wall: numbers.wall };
        self.report.start = start;
        self.live = live;
        let state = R::recover(self.source.store.clone(), numbers, pages);
        let mut state = state.map_err(|reason| OpenError::Pages { position, reason })?;
        state.set_bounds(self.bounds);
        self.state = Some(state);
        Ok(())
    }

    /// Which segment the journal goes on in behind the checkpoint.
    ///
    /// Files of which one begins within another are refused, for what lies behind that place would be looked for in the
    /// wrong one. The checkpoint knows where those segments ended that hold anything, and each says so itself. Whether the
    /// journal goes on behind the checkpoint in one of the others, a batch tells; where there is none, the segment has to
    /// hold the journal up to the checkpoint, or else it is not the one. Behind that, [`Replay::walk`] sees where each ends.
    fn first(&self, segments: &[Segment]) -> Result<usize, OpenError> {
        let Source { disk, directory, .. } = self.source;
        let position = self.report.checkpoint;
        let before = &segments[..segments.partition_point(|segment| segment.base <= position)];
        let reaches = |segment: &Segment, at| self.live.end(segment.base).is_some_and(|end| at < end.min(position));
        if let Some([within, file]) = before.array_windows().find(|[segment, next]| reaches(segment, next.base)) {
            return Err(overlap(disk, file, within));
        }
        // Where it ends just there, the next one is missing, and a person may decide to do without.
        let Some((last, others)) = before.split_last().filter(|(last, _)| position <= self.end(last)) else {
            return Err(OpenError::Missing { place: disk.place(""), position });
        };
        // What cannot be read there is no batch, and nothing that is needed.
        let goes_on =
            |segment| matches!(Scan::new(segment, directory, position, self.report.start).step(), Ok(Found::Batch(..)));
        if let Some(other) = others.iter().find(|segment| goes_on(segment)) {
            return Err(overlap(disk, last, other));
        }
        if !goes_on(last) {
            let io = |error| OpenError::Io { place: disk.place(&last.name), what: "reading", error };
            let end = Scan::new(last, directory, last.base, 0).end_before(position).map_err(io)?;
            if end != position {
                let (file, offset) = (disk.place(&last.name), last.offset(end));
                return Err(OpenError::BeforeCheckpoint { file, offset, end, position });
            }
        }
        Ok(others.len())
    }

    /// The checkpoint takes the segment that it stands in for one that goes on. Where the next one begins just there, it does not: a
    /// checkpoint that is made on the way has to know that.
    fn note_ended(&mut self, segments: &[Segment]) {
        for [segment, next] in segments.array_windows() {
            if self.live.end(segment.base) == Some(OPEN) {
                self.live.ended(segment.base, next.base);
            }
        }
    }

    /// Where a segment has ended: as it says itself, as the checkpoint knows, or where the next one begins.
    fn end(&self, segment: &Segment) -> u64 {
        self.live.end(segment.base).map_or(segment.end, |end| end.min(segment.end))
    }

    /// Replays a segment from where the journal ends so far, and decides about its end.
    fn walk(&mut self, segment: &Segment, next: Option<&Segment>, cut: Option<u64>) -> Result<(), OpenError> {
        let Source { disk, directory, .. } = self.source;
        let io = |error| OpenError::Io { place: disk.place(&segment.name), what: "reading", error };
        // A base vouches for everything before it.
        self.durable = self.durable.max(segment.base);
        let ended = self.end(segment);
        let mut scan = Scan::new(segment, directory, self.report.end, self.report.start);
        let mut torn = None;
        let what = loop {
            match scan.step().map_err(io)? {
                Found::Batch(header, payload) => self.replay(segment, &header, payload)?,
                Found::Version(version) => {
                    let place = disk.place(&segment.name);
                    return Err(OpenError::Version { place, version: version.into() });
                }
                Found::Torn(bytes) => {
                    let (file, offset) = (disk.place(&segment.name), segment.offset(scan.position));
                    torn = Some(Torn { file, offset, bytes });
                    break "holds a batch that does not match its checksum";
                }
                Found::Nothing => break "does not hold a batch",
                Found::Lost => break "holds a batch of an earlier start",
            }
        };
        let end = scan.position;
        self.report.end = end;
        if next.is_some_and(|next| next.base == end) {
            self.live.ended(segment.base, end);
            return Ok(());
        }
        if let Some(next) = next.filter(|next| next.base < end) {
            return Err(overlap(disk, next, segment));
        }
        let behind = scan.behind().map_err(io)?;
        let later = next.map_or(0, |next| next.base).max(if ended == OPEN { 0 } else { ended });
        let durable = self.durable.max(behind.durable).max(later);
        let is_last = next.is_none() && ended != end;
        if is_last && end >= durable {
            self.report.torn = torn;
            return Ok(());
        }
        if cut == Some(end) {
            let (file, offset) = (disk.place(&segment.name), segment.offset(end));
            let bytes = behind.end.max(durable) - end;
            self.report.cut = Some(Cut { file, offset, batches: behind.batches, bytes });
            self.report.orderly = false;
            // What is cut off stands behind the end still, and must look older than what is written from now on.
            self.report.start = behind.start;
            self.durable = self.durable.min(end);
            return Ok(());
        }
        if ended == end {
            return Err(OpenError::NextMissing { file: disk.place(&segment_name(end)), position: end });
        }
        let (file, offset) = (disk.place(&segment.name), segment.offset(end));
        Err(OpenError::Damaged { file, offset, position: end, durable, what })
    }

    /// Reads what facts need, in bulk, and each once: they may be about very many topics of the checkpoint.
    fn fetch(&mut self, facts: &[(Fact, u64)]) -> Result<(), OpenError> {
        let Source { disk, store, .. } = self.source;
        let Some(state) = &mut self.state else { return Ok(()) };
        loop {
            let wants: BTreeSet<Want> = facts.iter().filter_map(|(fact, _)| state.needs(fact)).collect();
            if wants.is_empty() {
                return Ok(());
            }
            let tree = |error| OpenError::Tree { place: disk.place(TREE), error };
            let fetched = store.read(wants.into_iter().collect::<Vec<_>>()).map_err(tree)?;
            store.resolve(fetched).into_iter().for_each(|answer| state.recall(answer));
        }
    }

    fn replay(&mut self, segment: &Segment, header: &BatchHeader, payload: Bytes) -> Result<(), OpenError> {
        let disk = self.source.disk;
        let begin = header.position + HEADER as u64;
        let bad = |offset: usize, what: &'static str| OpenError::Record {
            file: disk.place(&segment.name),
            offset: segment.offset(begin + offset as u64),
            what,
        };
        if header.flags & EPOCH != 0 && header.position > self.report.checkpoint {
            self.pass_epoch(segment, header.position)?;
        }
        let facts = facts_of(header, &payload).map_err(|error| bad(error.offset, error.what))?;
        self.report.facts += facts.len() as u64;
        for facts in facts.chunks(TOGETHER) {
            self.fetch(facts)?;
            for (fact, position) in facts {
                match (&mut self.state, fact) {
                    (Some(state), fact) => state.apply(fact, *position),
                    (none, Fact::Created { hash_key }) => {
                        let state = none.insert(R::empty(*hash_key, self.source.store.clone()));
                        state.set_bounds(self.bounds);
                        state.apply(fact, *position);
                    }
                    (None, _) => return Err(bad(0, "comes before the one that begins a journal")),
                }
                let state = self.state.as_mut().expect("a fact was applied to it");
                // Nobody is told of what was delivered before.
                let Holdings { stored, shared, freed, delivered: _ } = state.holdings();
                stored.drain(..).for_each(|(group, bytes)| self.live.stored(segment.base, group, bytes));
                if !shared.drain(..).all(|(group, extent)| self.live.shared(group, extent)) {
                    return Err(bad((position - begin) as usize, "shares messages that its segment does not hold"));
                }
                if !freed.drain(..).all(|(group, extent)| self.live.freed(group, extent)) {
                    return Err(bad((position - begin) as usize, "ends messages that its segment does not hold"));
                }
            }
            let room = self.room;
            self.state.iter_mut().for_each(|state| state.make_room(room));
        }
        self.durable = self.durable.max(header.durable);
        self.report.batches += 1;
        self.report.orderly = header.flags & (MARK | STOP) == MARK | STOP;
        self.report.start = header.start;
        self.report.now = Now { run: header.run, wall: header.wall };
        Ok(())
    }
}

fn overlap(disk: &dyn Disk, file: &Segment, within: &Segment) -> OpenError {
    OpenError::Overlap { file: disk.place(&file.name), position: file.base, within: disk.place(&within.name) }
}

/// The facts of a batch, each with the position that [`FactLog::append`](millpond_core::fact::FactLog::append) returned for it.
pub(crate) fn facts_of(header: &BatchHeader, payload: &Bytes) -> Result<Vec<(Fact, u64)>, BadRecord> {
    let begin = header.position + HEADER as u64;
    let mut source = codec::Source::new(payload);
    let mut facts = Vec::new();
    for _ in 0..header.facts {
        let at = source.at();
        let fact = decode_fact(&mut source)?;
        let within = fact.block().map_or(at, |block| source.at() - block.len());
        facts.push((fact, begin + within as u64));
    }
    if source.is_empty() {
        Ok(facts)
    } else {
        Err(BadRecord { offset: source.at(), what: "stands behind the last one" })
    }
}
