//! Makes space come back that a few old messages pin: finds them, reads them, and says which are to move.
//!
//! *Alive* are the records of unfinished messages and the tree; in *total* a directory takes the files of its segments and
//! the tree. Where the total is above the larger of twice what is alive and [`SLACK`] more than it, the segments that hold
//! the least are emptied, as many as it takes: their messages are stored again at the tail of the journal. Segments that hold
//! next to nothing are emptied sooner. The core decides each move, for what was found may have ended meanwhile; then nothing
//! keeps the old segment any more.
//!
//! What groups need of a segment may be the same messages or different ones, and nothing tells which. As alive counts what the
//! group needs that needs the most, which is never too much. Where they need different ones, what they need is moved group by
//! group, and then lies so: of a segment that one group needs it is known what is alive. Until the last group's turn no
//! segment goes, so a pass counts what it writes for each of them, and goes no further than a directory may take beyond what is
//! alive, or two segments for each group: with less, what they need would lie mixed again.
//!
//! On a full disk there is less room than that, and groups that need the same messages would find none for long. Where nothing
//! else is left to empty, a survey goes through the entries first and finds out what is needed of each segment.
//!
//! What lies before a checkpoint's position the checkpoint knows of, unless it has ended since. So a pass looks through the
//! entries of the newest one, in order, and needs neither the core nor a table of who lies where. An entry that another
//! checkpoint puts behind the place where the pass stands is missed; the next pass finds it.

mod pass;
mod survey;
mod victims;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond_core::command::Command;

use crate::journal::segments::Segment;
use crate::journal::shared::Shared;
use crate::store::LayeredStore;
use crate::tree::TreeError;
use crate::{ReadError, Reader};
use pass::Pass;
use survey::{Survey, Surveyed};
use victims::Means;

/// Bytes that a directory may take beyond what is alive, however little that is: segments are not worth emptying one by
/// one, and a checkpoint's worth of them waits for the next checkpoint.
pub const SLACK: u64 = 1024 * 1024 * 1024;
/// Bytes of messages that are moved at a time: a turn of the writer takes little longer for them.
const BATCH_BYTES: usize = 256 * 1024;
/// While the disk is full, a pass moves so large a part of a segment: what it is stored in is the reserve, and that is for what
/// ends messages.
const OF_RESERVE: u64 = 4;
/// Moves at a time, for messages that are small.
const BATCH_MOVES: usize = 512;

/// See the module. To be asked again and again, on a thread of its own.
pub struct Mover {
    shared: Arc<Shared>,
    store: LayeredStore,
    reader: Reader,
    slack: u64,
    task: Option<Task>,
    /// Whether the task was begun while the disk was full.
    is_short: bool,
    /// The segments, by the position of their first batch, for which surveys have found no room on a full disk. When nothing else
    /// is left they are looked at anew.
    too_full: BTreeSet<u64>,
}

enum Task {
    Survey(Survey),
    Pass(Pass),
}

/// What a directory takes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The records of unfinished messages, and the tree.
    pub alive: u64,
    /// The files of all segments in use, and the tree.
    pub total: u64,
    /// The total comes back to this or less.
    pub bound: u64,
}

/// What a step has come to.
#[derive(Default)]
pub struct Moves {
    /// For the core. All of them belong into a few turns; when they are decided, the next step is due.
    pub commands: Vec<Command>,
    /// Messages that cannot be read, and so pin their segments.
    pub unreadable: Vec<ReadError>,
    /// Whether there is nothing more to do for now.
    pub rests: bool,
}

impl Mover {
    pub(crate) fn new(shared: Arc<Shared>, store: LayeredStore, reader: Reader, slack: u64) -> Mover {
        Mover { shared, store, reader, slack, task: None, is_short: false, too_full: BTreeSet::new() }
    }

    /// Looks at some entries, or reads some messages. A survey or a pass whose entries cannot be read is over, and the next step
    /// begins another.
    pub fn step(&mut self) -> Result<Moves, TreeError> {
        self.look().inspect_err(|error| {
            self.task = None;
            if let TreeError::Damaged(what) = error {
                self.shared.damaged(self.store.tree().as_ref(), what.clone());
            }
        })
    }

    fn look(&mut self) -> Result<Moves, TreeError> {
        let is_short = self.shared.spares.disk_full.load(Ordering::Acquire);
        if is_short && !std::mem::replace(&mut self.is_short, is_short) {
            // What it would move may be more than there is room for.
            self.task = None;
        }
        match self.task.take() {
            None => self.task = self.begin(),
            Some(Task::Survey(mut survey)) => {
                let goes_on = survey.look_on(&self.store)?;
                self.task = if goes_on { Some(Task::Survey(survey)) } else { self.end(survey) };
            }
            Some(Task::Pass(mut pass)) => {
                let moves = self.move_on(&mut pass)?;
                self.task = (!moves.rests).then_some(Task::Pass(pass));
                return Ok(moves);
            }
        }
        Ok(Moves { rests: self.task.is_none(), ..Moves::default() })
    }

    fn begin(&mut self) -> Option<Task> {
        let checkpoint = self.shared.checkpoint.load(Ordering::Acquire);
        self.is_short = self.shared.spares.disk_full.load(Ordering::Acquire);
        let (segments, segment_bytes) = (self.shared.segments.all(), self.shared.segment_bytes);
        let (tree, slack) = (self.store.tree().stats().bytes, self.slack);
        let room = if self.is_short {
            segment_bytes / OF_RESERVE
        } else {
            let Space { alive, bound, .. } = Space::of(&segments, tree, slack);
            let groups = segments.iter().map(|segment| segment.live.groups() as u64).max();
            (bound - alive).max(2 * groups.unwrap_or(0) * segment_bytes)
        };
        let means = Means { tree, slack, room };
        let victims = victims::choose(&segments, checkpoint, means);
        if !victims.is_empty() {
            return Some(Task::Pass(Pass::begin(victims)));
        }
        if !self.is_short {
            return None;
        }
        let doubtful = victims::doubtful(&segments, checkpoint, means, &self.too_full);
        if doubtful.is_empty() {
            self.too_full.clear();
            return None;
        }
        Some(Task::Survey(Survey::begin(doubtful, room)))
    }

    fn end(&mut self, survey: Survey) -> Option<Task> {
        let Surveyed { fit, too_full } = survey.end();
        self.too_full.extend(too_full);
        (!fit.is_empty()).then(|| Task::Pass(Pass::begin(fit)))
    }

    fn move_on(&self, pass: &mut Pass) -> Result<Moves, TreeError> {
        let mut moves = Moves::default();
        if pass.has_found() {
            let mut bytes = 0;
            while bytes < BATCH_BYTES && moves.commands.len() < BATCH_MOVES {
                let Some(found) = pass.next() else { break };
                match self.reader.read(found.extent()) {
                    Ok(block) => {
                        bytes += block.len();
                        moves.commands.push(found.into_move(block));
                    }
                    // It has ended, or it was moved.
                    Err(ReadError::Gone(_)) => {}
                    Err(error) => moves.unreadable.push(error),
                }
            }
        } else {
            moves.rests = !pass.look_on(&self.store)?;
        }
        Ok(moves)
    }

    /// What the directory takes now.
    pub fn space(&self) -> Space {
        Space::of(&self.shared.segments.all(), self.store.tree().stats().bytes, self.slack)
    }
}

impl Space {
    fn of(segments: &[Segment], tree: u64, slack: u64) -> Space {
        let alive = tree + segments.iter().map(|segment| segment.live.most()).sum::<u64>();
        let total = tree + segments.iter().map(|segment| segment.bytes).sum::<u64>();
        Space { alive, total, bound: (2 * alive).max(alive + slack) }
    }
}
