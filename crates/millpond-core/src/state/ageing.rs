//! Ageing: what waits at the head of a topic's priority is raised a level for each step that it has waited.
//!
//! A fact says at which level a topic stands, and when the next raise is due; both are resolved anew whenever something
//! happens to the topic, and at that time. So who looks for a topic, in memory or on the disk, needs to know no policy, and
//! a namespace without ageing keeps nothing.
//!
//! Invariant: behind a turn, a topic with something ready has its timer at the next raise, if one is due.

use alloc::boxed::Box;
use core::cmp::Reverse;

use millpond_types::{Millis, Policy, Priority, WallTime};

use crate::page::AgePage;
use crate::state::topic::{Front, Level, Topic};
use crate::state::{State, Timer, TopicSlot};
use crate::time_index::TimerKey;

const LOWEST: Priority = Priority::new(0).expect("it is one");

#[derive(Clone)]
pub(crate) struct Age {
    stand: AgePage,
    timer: Option<(WallTime, TimerKey)>,
}

impl Age {
    pub(crate) fn of_page(stand: AgePage) -> Age {
        Age { stand, timer: None }
    }

    pub(crate) fn page(&self) -> AgePage {
        self.stand
    }

    /// When its timer goes off.
    pub(crate) fn deadline(&self) -> Option<WallTime> {
        self.timer.map(|(at, _)| at)
    }
}

/// A message that is next at its priority.
pub(crate) struct Head {
    pub(crate) priority: Priority,
    /// Since when it waits.
    pub(crate) since: WallTime,
}

impl Head {
    /// Its place among those that are next at other priorities of its topic: the greatest goes first. Of those that were raised
    /// as far, that is the one that has waited for longer.
    pub(crate) fn rank(&self, policy: &Policy, now: WallTime) -> (Priority, Reverse<WallTime>, Priority) {
        let step = policy.ageing.filter(|_| !policy.is_strict());
        let level = step.map_or(self.priority, |step| self.level(step, now));
        (level, Reverse(self.since), self.priority)
    }

    /// The level that it is raised to.
    fn level(&self, step: Millis, now: WallTime) -> Priority {
        let steps = now.since(self.since).0 / step.0;
        let level = steps.saturating_add(self.priority.level() as u64);
        u8::try_from(level).ok().and_then(Priority::new).unwrap_or(Priority::HIGHEST)
    }

    /// When it is raised to a level.
    fn raise(&self, to: Priority, step: Millis) -> WallTime {
        let steps = to.level().saturating_sub(self.priority.level()) as u64;
        self.since + Millis(step.0.saturating_mul(steps))
    }
}

impl Topic {
    /// The level at which it stands if messages of this priority are ready.
    pub(crate) fn stand(&self, ready: Priority) -> Priority {
        self.age.as_ref().map_or(ready, |age| age.stand.level.max(ready))
    }

    /// The priority whose messages go next, of those that are ready.
    pub(crate) fn next_up(&self, policy: &Policy, now: WallTime) -> Option<Priority> {
        if policy.ageing.is_none() {
            return self.highest_ready();
        }
        self.heads(policy).max_by_key(|head| head.rank(policy, now)).map(|head| head.priority)
    }

    /// The level that the next message of a priority is raised to, where there is ageing.
    pub(crate) fn level_of_head(&self, priority: Priority, policy: &Policy, now: WallTime) -> Option<Priority> {
        let step = policy.ageing?;
        let level = self.level(priority).filter(|level| level.is_ready())?;
        Some(Head { priority, since: level.since(policy.is_strict())? }.level(step, now))
    }

    /// Where it stands by now, and until when; `None` if that is where its messages stand by themselves.
    fn aged(&self, policy: &Policy, now: WallTime) -> Option<AgePage> {
        let ready = self.highest_ready().filter(|_| !self.is_dry())?;
        let Some(step) = policy.ageing else {
            // It was raised when there was ageing.
            let age = self.age.as_ref().filter(|age| age.stand.level > ready || age.stand.raise.is_some());
            return age.map(|_| AgePage { level: LOWEST, raise: None });
        };
        let level = self.heads(policy).map(|head| head.level(step, now)).max()?;
        let above = Priority::new(level.level() as u8 + 1);
        let raise = above.and_then(|above| self.heads(policy).map(|head| head.raise(above, step)).min());
        Some(AgePage { level, raise })
    }

    /// The messages that compete for the next turn: one of each priority or, in strict order, that of the highest.
    fn heads(&self, policy: &Policy) -> impl Iterator<Item = Head> {
        let is_strict = policy.is_strict();
        let most = if is_strict { 1 } else { usize::MAX };
        let ready = self.levels.iter().rev().filter(|level| level.is_ready()).take(most);
        ready.filter_map(move |level| Some(Head { priority: level.priority, since: level.since(is_strict)? }))
    }
}

impl Level {
    /// Since when its next message waits.
    fn since(&self, is_strict: bool) -> Option<WallTime> {
        match self.front(is_strict)? {
            Front::Aside(first) => Some(self.aside[&first].since),
            Front::Line => self.line.head(),
        }
    }
}

impl State {
    /// Where a topic stands from here on, if that is news.
    pub(crate) fn age(&self, slot: TopicSlot) -> Option<AgePage> {
        let (topic, policy) = (&self.topics[slot], self.policy(slot));
        if policy.ageing.is_none() && topic.age.is_none() {
            return None;
        }
        let stand = topic.aged(policy, self.now.wall)?;
        (topic.age.as_ref().map(|age| age.stand) != Some(stand)).then_some(stand)
    }

    pub(crate) fn stands(&mut self, slot: TopicSlot, stand: AgePage) {
        match &mut self.topics[slot].age {
            Some(age) => age.stand = stand,
            none => *none = Some(Box::new(Age { stand, timer: None })),
        }
        self.touch(slot);
    }

    /// Sets the timer of the next raise, of a topic that something has happened to.
    pub(crate) fn arm_raise(&mut self, slot: TopicSlot) {
        let topic = &mut self.topics[slot];
        let is_up = topic.age.is_some() && topic.highest_ready().is_some() && !topic.is_dry();
        let Some(age) = &mut topic.age else { return };
        let at = age.stand.raise.filter(|_| is_up);
        if age.deadline() != at {
            if let Some((_, timer)) = age.timer.take() {
                self.wall_timers.remove(timer);
            }
            age.timer = at.map(|at| (at, self.wall_timers.insert(at.0, Timer::Raise(slot))));
        }
    }

    /// The timer has gone off, or goes with its topic.
    pub(crate) fn disarm_raise(&mut self, slot: TopicSlot) {
        let age = self.topics[slot].age.as_mut();
        if let Some((_, timer)) = age.and_then(|age| age.timer.take()) {
            self.wall_timers.remove(timer);
        }
    }
}
