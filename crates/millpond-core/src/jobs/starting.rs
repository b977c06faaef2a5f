//! Groups that start with what the others hold: all topics of the namespace are gone over in the order of their names, and
//! the group is given of each what any other group holds of it, once; but not what was redriven, which is its group's own.
//! What others finish before that is [saved](crate::saving) for it.
//!
//! Nothing is copied when a message is published. A topic that the start has still to come to is *held* instead
//! ([`Topic::is_held`]): what is published there is stored for the group as for any other, and is delivered when all that is
//! older has been put before it. So a publish costs what it costs always, however long the line is behind which it comes.
//! What is older is known by its sequence: the group's topic begins above all that was given out before it came to be, and
//! stays until the start has come to it, though it may be empty by then.
//!
//! How far this has come is state: a fact for each topic of which something is given, and one for each stretch of names
//! without any. Nothing that was not noted is gone by: whatever has to be waited for, the stretch is begun again.
//!
//! [`Topic::is_held`]: crate::state::topic::Topic::is_held

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::{Coalesce, Priority, Sequence, Start, TopicName, WallTime};

use super::walk::{Upcoming, Walk};
use super::{MESSAGES, Needs, Step, TOPICS_HELD, Task, WRITING};
use crate::Core;
use crate::decide::coalesce::{Version, Waiting};
use crate::fact::{CopiedRun, Fact, FactLog, GroupNumber};
use crate::output::Reply;
use crate::page::{Page, RunPage};
use crate::state::topic::Topic;
use crate::state::{State, TopicSlot};
use crate::store::{Key, KeyBytes, Name, Want};

/// A start goes over the topics of all groups at a time.
#[derive(Default)]
pub(crate) struct StartJob {
    walks: BTreeMap<GroupNumber, Walk>,
}

/// What a group is given of a topic.
struct Part {
    messages: Vec<CopiedRun>,
    /// Where the next part begins, if there may be one.
    rest: Option<(Priority, Sequence)>,
    /// What was saved for it, and is older than the one message that it is given.
    replaced: Option<(Waiting, Version)>,
    cost: usize,
}

impl StartJob {
    /// Its walks begin where the state says.
    pub(super) fn begin() -> (Walk, Task) {
        (Walk::default(), Task::Starting(StartJob::default()))
    }

    pub(super) fn walks(&self) -> impl Iterator<Item = (GroupNumber, &Walk)> {
        self.walks.iter().map(|(group, walk)| (*group, walk))
    }

    pub(super) fn walk_of(&mut self, group: GroupNumber) -> Option<&mut Walk> {
        self.walks.get_mut(&group)
    }

    /// Takes what was read of a shelf of one of the groups.
    pub(super) fn take(&mut self, want: &Want, state: &State, entries: Vec<(KeyBytes, Page)>, rest: Option<KeyBytes>) {
        let Want::Range(range) = want else { panic!("topics are read in ranges") };
        let (group, ..) = Key::parse_topic_bound(&range.from).expect("topics were read");
        let walk = self.walks.get_mut(&group).expect("a walk that has asked is there");
        walk.take(group, state, entries, rest);
    }
}

impl Core {
    pub(super) fn start_step(
        &mut self,
        job: &mut StartJob,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        while *left > 0 {
            let names = match self.next_to_start(job, group) {
                Ok(names) => names,
                Err(wants) => return Step::Waits(wants),
            };
            if names.is_empty() {
                self.commit(Fact::GroupStarted { group }, log);
                return Step::Done(Ok(Reply::Done));
            }
            let missing = self.bring_all(job, group, &names, needs);
            if !missing.is_empty() {
                return Step::Waits(missing.into_iter().map(Want::Entry).collect());
            }
            if let Err(want) = self.start_topics(group, &names, left, log) {
                return Step::Waits(Vec::from([want]));
            }
        }
        Step::Later
    }

    /// The topics that come next in any group of the namespace; none if there are no more.
    fn next_to_start(&mut self, job: &mut StartJob, group: GroupNumber) -> Result<Vec<TopicName>, Vec<Want>> {
        let state = &self.state;
        let of = &state.groups[group];
        let groups = &state.namespaces[of.namespace].groups;
        let place = &of.starting.as_ref().expect("it starts").at;
        job.walks.retain(|walked, _| groups.contains(walked));
        let (mut names, mut wants): (Vec<TopicName>, Vec<Want>) = Default::default();
        let mut known: Option<Vec<u8>> = None;
        for other in groups {
            let walk = job.walks.entry(*other).or_default();
            match walk.upcoming(*other, state, place, TOPICS_HELD) {
                Ok(Upcoming { names: found, known: until }) => {
                    names.extend(found);
                    known = known.into_iter().chain(until).min();
                }
                Err(want) => wants.push(want),
            }
        }
        if !wants.is_empty() {
            return Err(wants);
        }
        names.sort_unstable_by(|a, b| Name::compare(a.as_bytes(), b.as_bytes()));
        names.dedup();
        if let Some(known) = known {
            names.retain(|name| Name::compare_key(name.as_bytes(), &known).is_lt());
        }
        names.truncate(self.jobs.held_by_each());
        Ok(names)
    }

    /// Keeps topics in memory, in all groups; what has to be fetched for that.
    fn bring_all(
        &mut self,
        job: &mut StartJob,
        group: GroupNumber,
        names: &[TopicName],
        needs: &mut Needs,
    ) -> Vec<KeyBytes> {
        let (namespace, mut missing) = (self.state.groups[group].namespace, Vec::new());
        needs.topics.retain(|name| names.contains(name));
        for name in names {
            // What was looked up for one that is kept has come, or is not there, which the store may not know.
            if needs.topics.insert(name.clone()) {
                missing.extend(self.look_up(namespace, name));
            }
            // The job whose turn it is hears nothing of what comes into memory.
            for (walked, walk) in &mut job.walks {
                if self.state.topics.find(*walked, name).is_some() {
                    walk.came(name);
                }
            }
        }
        missing
    }

    /// Gives the group what it is to have of some topics, as far as there is room for; what has to be fetched before.
    fn start_topics(
        &mut self,
        group: GroupNumber,
        names: &[TopicName],
        left: &mut usize,
        log: &mut dyn FactLog,
    ) -> Result<(), Want> {
        let mut room = *left;
        // What was gone by since the last fact.
        let mut passed = None;
        for name in names {
            if room == 0 {
                break;
            }
            let Part { messages, rest, replaced, cost } = self.part_of(group, name, room)?;
            room = room.saturating_sub(cost);
            let slot = self.state.topics.find(group, name);
            if messages.is_empty() && slot.is_none() {
                let key = if rest.is_some() { Name::bytes } else { Name::behind };
                passed = Some((key(name.as_bytes()), rest));
            } else {
                let slot = slot.unwrap_or_else(|| self.topic_or_new(group, name, log));
                let topic = self.state.topics[slot].number;
                self.commit(Fact::Copied { topic, group, messages, rest }, log);
                if let Some((saved, by)) = replaced {
                    self.replace(slot, &saved, (by, 0), log);
                }
                (*left, passed) = (room, None);
            }
            if rest.is_some() {
                break;
            }
        }
        if let Some((at, rest)) = passed {
            self.commit(Fact::GroupReached { group, at, rest }, log);
        }
        *left = room;
        Ok(())
    }

    /// What a group is given next of a topic.
    fn part_of(&mut self, group: GroupNumber, name: &TopicName, room: usize) -> Result<Part, Want> {
        let of = &self.state.groups[group];
        let (namespace, start, now) = (of.namespace, of.start, self.state.now.wall);
        let reached = of.starting.as_ref().expect("it starts");
        let from = reached.rest.filter(|_| Name::compare_key(name.as_bytes(), &reached.at).is_eq());
        let home = &self.state.namespaces[namespace];
        let others = home.groups.iter().filter(|other| **other != group);
        let others: Vec<TopicSlot> = others.filter_map(|other| self.state.topics.find(*other, name)).collect();
        let slot = self.state.topics.find(group, name);
        let own = slot.map(|slot| &self.state.topics[slot]);
        let end = Sequence(own.map_or(u64::MAX, |own| own.floor));
        // A topic that was begun without is gone on with without.
        let is_one_enough = home.policies.of_name(name).coalesce != Coalesce::Off && from.is_none();
        let mut part = Part { messages: Vec::new(), rest: None, replaced: None, cost: 1 };
        if is_one_enough && own.is_some_and(Topic::was_published_to) {
            // What came since the group was made stands for all that came before.
            return Ok(part);
        }
        let mut priorities: Vec<Priority> =
            others.iter().flat_map(|slot| self.state.topics[*slot].levels.iter().map(|level| level.priority)).collect();
        priorities.sort_unstable();
        priorities.dedup();
        if is_one_enough {
            // It is found anew in each turn, so it is not put off.
            if let Some((priority, last)) = self.latest_to_give(&others, &priorities, start, &mut part.cost)? {
                let (mut run, due) = self.next_held(&others, priority, last, end)?.expect("it was just found");
                part.cost += 1 + WRITING;
                let (by, saved) = (Version::of(&run, priority, last), slot.and_then(|slot| self.last_saved(slot)));
                if saved.as_ref().is_none_or(|saved| saved.is_older_than(&by))
                    && let Some(run) = self.state.lacking(slot, priority, &mut run)
                {
                    part.messages.push(CopiedRun { priority, run: run.compact(), due });
                    part.replaced = saved.map(|saved| (saved, by));
                }
            }
            return Ok(part);
        }
        for priority in priorities.into_iter().rev().filter(|at| from.is_none_or(|(from, _)| *at <= from)) {
            let mut next = match from {
                Some((of, sequence)) if of == priority => sequence,
                _ => Sequence(0),
            };
            while let Some((mut run, due)) = self.next_held(&others, priority, next, end)? {
                if part.cost >= room {
                    part.rest = Some((priority, next));
                    return Ok(part);
                }
                part.cost += 1 + (u64::from(run.count) / MESSAGES) as usize;
                next = run.end();
                if run.is_redriven() || !start.admits(run.published) || run.is_expired(now) {
                    continue;
                }
                // What was saved for it, it has.
                while let Some(run) = self.state.lacking(slot, priority, &mut run) {
                    part.cost += WRITING;
                    part.messages.push(CopiedRun { priority, run: run.compact(), due });
                }
            }
        }
        Ok(part)
    }

    /// The message that was published last of all that these topics hold and a group is to be given. At one priority that is told by
    /// the sequence; of several priorities' last ones of one millisecond, one that waits came later than one that is worked on.
    fn latest_to_give(
        &mut self,
        slots: &[TopicSlot],
        priorities: &[Priority],
        start: Start,
        cost: &mut usize,
    ) -> Result<Option<(Priority, Sequence)>, Want> {
        let mut latest = None;
        for priority in priorities {
            if let Some((last, published)) = self.last_to_give(slots, *priority, start, cost)? {
                let waits = slots.iter().any(|slot| self.state.is_waiting(*slot, *priority, last));
                latest = latest.max(Some((published, waits, *priority, last)));
            }
        }
        Ok(latest.map(|(_, _, priority, last)| (priority, last)))
    }

    /// The first messages from one on and before another that any of these topics holds, with the end of their delay.
    fn next_held(
        &mut self,
        slots: &[TopicSlot],
        priority: Priority,
        from: Sequence,
        end: Sequence,
    ) -> Result<Option<(RunPage, Option<WallTime>)>, Want> {
        let mut first: Option<(RunPage, Option<WallTime>)> = None;
        for slot in slots {
            let found = self.state.next_held(*slot, priority, from)?.filter(|(run, _)| run.first < end);
            first = first.into_iter().chain(found).min_by_key(|(run, _)| run.first);
        }
        Ok(first)
    }

    /// The last message of all that these topics hold at a priority and a group is to be given, and when it was published.
    /// What is passed over, which is what was redriven and what has expired and is still there, counts as cost.
    fn last_to_give(
        &mut self,
        slots: &[TopicSlot],
        priority: Priority,
        start: Start,
        cost: &mut usize,
    ) -> Result<Option<(Sequence, WallTime)>, Want> {
        let (mut end, now) = (Sequence(u64::MAX), self.state.now.wall);
        loop {
            let mut found: Option<(Sequence, RunPage)> = None;
            for slot in slots {
                let last = self.state.last_held(*slot, priority, end)?;
                found = found.into_iter().chain(last).max_by_key(|(last, _)| *last);
            }
            let Some((last, run)) = found else { return Ok(None) };
            if run.is_redriven() || run.is_expired(now) {
                (end, *cost) = (run.first, *cost + 1);
            } else {
                // What stands before one that is too old is older.
                return Ok(Some((last, run.published)).filter(|_| start.admits(run.published)));
            }
        }
    }
}
