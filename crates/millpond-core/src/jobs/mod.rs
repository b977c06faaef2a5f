//! What goes over many entries: commands, which are lists of topics and which of them stand out, purges, and dead letters
//! by filter; and what the state itself asks for, which is the start of a group and its end, that its topics are settled,
//! and that what it is not to keep ends.
//!
//! No turn looks at more than a slice, so such a job may take many turns, others pass meanwhile, and each entry
//! counts as it was in the turn that came to it. The answer comes at the end. Jobs take turns with each other, a slice
//! each. While one waits for the disk the others wait too, so what comes back for them is never more than a slice, and
//! what they hold has a bound. A job is not journaled, only what it does: a stop in its middle leaves the front of its
//! range done. One that the state asks for begins again where that says that it was.
//!
//! Those that write wait while they are [put on hold](Jobs::hold), because what they change comes faster than the disk takes
//! it. They stay where they are, and those that only look pass.
//!
//! Where the store answers at once, a job does in each turn what it would do if all were in memory.

mod admitted;
mod coming;
mod dead;
mod ending;
mod list;
mod purge;
pub(crate) mod retaining;
mod settling;
pub(crate) mod starting;
mod top;
mod turns;
mod walk;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use millpond_types::{Counts, MessageId, TopicName, TopicView};

use crate::command::Ticket;
use crate::decide::Refusal;
use crate::fact::GroupNumber;
use crate::output::Reply;
use crate::page::{DeadPage, Page};
use crate::state::Now;
use crate::state::entries::Fetched;
use crate::state::topic::Topic;
use crate::store::{KeyBytes, Want};

use dead::DeadJob;
pub(crate) use dead::DeadVerb;
use ending::EndJob;
use list::ListJob;
use purge::PurgeJob;
use retaining::RetainJob;
use settling::SettleJob;
use starting::StartJob;
use top::TopJob;
pub(crate) use walk::ROWS;
use walk::Walk;

/// What one turn looks at, in entries: some 100 microseconds, so that nobody behind the turn notices.
const SLICE: usize = 1_000;
/// An entry for which facts are written counts as so many.
const WRITING: usize = 2;
/// Messages of a topic that count as an entry: they are looked at run by run, and no run is shorter than one of them.
const MESSAGES: u64 = 16;
/// Topics that all jobs together keep in memory at a time because they come to them next: each may hold very much.
const TOPICS_HELD: usize = 64;
/// Those of one job, at least.
const TOPICS_HELD_MIN: usize = 4;
/// Jobs at a time. Each is asked for by a person or a console, and holds at most a page of rows beside what it read ahead.
const JOBS_MAX: usize = 32;

#[derive(Default)]
pub(crate) struct Jobs {
    /// The one whose turn it is in front. No other waits.
    queue: VecDeque<Job>,
    /// What may still be looked at in this turn.
    room: usize,
    /// Whether a group's start has come to its end in this turn: the next one begins with the next turn.
    has_started: bool,
    /// Whether those that write wait.
    on_hold: bool,
}

struct Job {
    asked: Asked,
    /// Whose topics or dead letters it goes over.
    group: GroupNumber,
    /// Where it is, if it goes over topics.
    walk: Walk,
    task: Task,
    /// What it may still look at before it is another one's turn.
    left: usize,
    /// What it waits for.
    waits: BTreeSet<Want>,
    /// What it needs of what comes next.
    needs: Needs,
    /// Bytes of the topics and prefixes that it was asked for by.
    filter_bytes: usize,
}

/// Who wants to know how a job ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// The command with this ticket.
    By(Ticket),
    /// Nobody any more: it is let go when what it waits for has come.
    Gone,
    /// Nobody: the state asks for it.
    ByState,
}

/// What stays at hand until a job has come to it.
#[derive(Default)]
struct Needs {
    /// Topics. Each of them is in memory or does not exist, once nothing is waited for.
    topics: BTreeSet<TopicName>,
    /// Entries that are looked up.
    entries: BTreeSet<KeyBytes>,
}

enum Task {
    Settling(SettleJob),
    Dead(DeadJob),
    Ending(EndJob),
    List(ListJob),
    Purge(PurgeJob),
    Retaining(RetainJob),
    Starting(StartJob),
    Top(TopJob),
}

/// What was found of a range that a job has asked for.
pub(crate) struct Entries {
    pub(crate) entries: Vec<(KeyBytes, Page)>,
    /// Where to read on, if the range does not end with them.
    pub(crate) rest: Option<KeyBytes>,
}

/// What a job came to.
enum Step {
    Done(Result<Reply, Refusal>),
    /// It has looked at what it may for now.
    Later,
    /// What it comes to next happens at the end of the turn.
    NextTurn,
    Waits(Vec<Want>),
}

impl Jobs {
    /// A turn begins.
    pub(crate) fn set_room(&mut self) {
        (self.room, self.has_started) = (SLICE, false);
    }

    /// Whether there are any.
    pub(crate) fn are_any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether one can go on without anything from the disk.
    pub(crate) fn any(&self) -> bool {
        let is_free = self.queue.front().is_some_and(|job| job.waits.is_empty());
        is_free && self.queue.iter().any(|job| !self.is_on_hold(job))
    }

    /// Lets those that write wait, or go on.
    pub(crate) fn hold(&mut self, on_hold: bool) {
        self.on_hold = on_hold;
    }

    /// Whether those that write wait, if there are any.
    pub(crate) fn are_held(&self) -> bool {
        self.on_hold
    }

    /// Whether one waits until those that write may go on.
    pub(crate) fn any_on_hold(&self) -> bool {
        self.queue.iter().any(|job| self.is_on_hold(job))
    }

    fn is_on_hold(&self, job: &Job) -> bool {
        self.on_hold && job.task.writes()
    }

    /// Topics that one job may keep in memory.
    fn held_by_each(&self) -> usize {
        (TOPICS_HELD / self.queue.len().max(1)).max(TOPICS_HELD_MIN)
    }

    /// Whether topics of a name stay in memory because a job comes to one of them. Those of other namespaces may.
    pub(crate) fn is_held(&self, name: &TopicName) -> bool {
        self.queue.iter().any(|job| job.needs.topics.contains(name))
    }

    /// Whether one waits for this.
    pub(crate) fn wait_for(&self, want: &Want) -> bool {
        self.queue.front().is_some_and(|job| job.waits.contains(want))
    }

    /// A topic has come into memory.
    pub(crate) fn topic_came(&mut self, group: GroupNumber, name: &TopicName) {
        self.walks(group).for_each(|walk| walk.came(name));
    }

    /// A topic leaves memory.
    pub(crate) fn topic_left(&mut self, topic: &Topic, now: Now) {
        self.walks(topic.group).for_each(|walk| walk.left(topic, now));
    }

    /// The topics that jobs know of and that are not in memory.
    pub(crate) fn known_ahead(&self) -> impl Iterator<Item = (GroupNumber, Vec<&TopicName>)> {
        let walks = self.queue.iter().flat_map(|job| match &job.task {
            Task::Starting(start) => start.walks().collect::<Vec<_>>(),
            _ => Vec::from([(job.group, &job.walk)]),
        });
        walks.map(|(group, walk)| (group, walk.ahead().collect()))
    }

    fn walks(&mut self, group: GroupNumber) -> impl Iterator<Item = &mut Walk> {
        self.queue.iter_mut().filter_map(move |job| match &mut job.task {
            Task::Starting(start) => start.walk_of(group),
            _ => (job.group == group).then_some(&mut job.walk),
        })
    }

    /// A dead letter is another one now, or has ended: who has fetched it comes to what it is.
    pub(crate) fn letter_changed(&mut self, which: (GroupNumber, MessageId), page: Option<&DeadPage>) {
        for letters in self.queue.iter_mut().filter_map(|job| job.task.letters()) {
            letters.letter_changed(which, page);
        }
    }

    /// Whether one of a kind is going on.
    fn any_is(&self, is_it: fn(&Task) -> bool) -> bool {
        self.queue.iter().any(|job| is_it(&job.task))
    }
}

/// What a topic counts as: the messages that it has, wherever they are.
fn cost(view: &TopicView) -> usize {
    let Counts { waiting, delayed, retrying, leased, .. } = view.counts;
    1 + usize::try_from((waiting + delayed + retrying + leased) / MESSAGES).unwrap_or(usize::MAX - 1)
}

impl Needs {
    fn clear(self, fetched: &mut Fetched) {
        self.entries.iter().for_each(|key| _ = fetched.remove(key));
    }
}

impl Task {
    /// Whether it may change very much.
    fn writes(&self) -> bool {
        match self {
            Task::List(_) | Task::Top(_) => false,
            Task::Dead(dead) => dead.writes_many(),
            Task::Settling(_) | Task::Ending(_) | Task::Purge(_) | Task::Retaining(_) | Task::Starting(_) => true,
        }
    }

    /// Bytes of the topics and prefixes that it was asked for by.
    fn filter_bytes(&self) -> usize {
        match self {
            Task::Dead(dead) => dead.filter_bytes(),
            Task::Purge(purge) => purge.filter_bytes(),
            _ => 0,
        }
    }

    /// Its letters, if it goes over dead letters now.
    fn letters(&mut self) -> Option<&mut DeadJob> {
        match self {
            Task::Dead(dead) => Some(dead),
            Task::Ending(ending) => ending.letters(),
            _ => None,
        }
    }

    /// The answer, should it end here.
    fn so_far(&mut self) -> Reply {
        match self {
            Task::Dead(dead) => dead.so_far(),
            Task::List(list) => list.so_far(),
            Task::Purge(purge) => purge.so_far(),
            Task::Ending(_) | Task::Settling(_) | Task::Retaining(_) | Task::Starting(_) => Reply::Done,
            Task::Top(top) => top.so_far(),
        }
    }
}
