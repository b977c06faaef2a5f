//! Putting messages aside and taking them from there, with the counts and timers that belong to it. Every change of
//! what is aside goes through here, so counts, timers and the ready list cannot drift.

use millpond_types::{Priority, Sequence, WallTime};

use crate::apply::Place;
use crate::page::RunPage;
use crate::state::group::Group;
use crate::state::topic::{Aside, AsideWhy, Past};
use crate::state::{State, Timer, TopicSlot};

impl State {
    /// Puts a run aside.
    pub(crate) fn set_aside(&mut self, slot: TopicSlot, priority: Priority, run: RunPage, past: Past, why: AsideWhy) {
        self.count(slot, why, run.published, i64::from(run.count));
        let level = self.topics[slot].level_mut(priority).expect("a level stays while its topic does");
        if let AsideWhy::Ready { behind } = why {
            level.ready.insert(behind, run.first);
        }
        let Past { deliveries, failures, since } = past;
        level.put_aside(Aside { deliveries, failures, since, state: why, run });
        self.touch(slot);
    }

    /// Takes a whole entry from aside. Its timer is removed; a lease is the caller's to undo.
    pub(super) fn take_aside(&mut self, slot: TopicSlot, priority: Priority, first: Sequence) -> Aside {
        let level = self.topics[slot].level_mut(priority).expect("a level stays while its topic does");
        let aside = level.take_from_aside(first);
        match aside.state {
            AsideWhy::Ready { behind } => level.ready.remove(behind, first),
            AsideWhy::Delayed { timer, .. } => self.wall_timers.remove(timer),
            AsideWhy::Retrying { timer, .. } => self.run_timers.remove(timer),
            AsideWhy::Leased(_) => {}
        }
        self.count(slot, aside.state, aside.run.published, -i64::from(aside.run.count));
        self.touch(slot);
        aside
    }

    /// Takes `count` messages from `sequence` on out of an entry aside that is not leased, leaving the rest as it is.
    pub(super) fn carve_aside(&mut self, slot: TopicSlot, priority: Priority, sequence: Sequence, count: u32) -> Aside {
        let level = self.topics[slot].level(priority).expect("a fact names a level that exists");
        let (first, _) = level.aside_of(sequence).expect("a fact names a message that is aside");
        let mut whole = self.take_aside(slot, priority, first);
        let before = whole.run.split_front((sequence.0 - first.0) as u32);
        let middle = whole.run.split_front(count);
        let past = whole.past();
        for part in [before, whole.run].into_iter().filter(|run| run.count > 0) {
            let why = self.same_again(whole.state, slot, priority, part.first);
            self.set_aside(slot, priority, part, past, why);
        }
        Aside { run: middle, ..whole }
    }

    /// Takes `count` messages from `sequence` on out of the line.
    pub(super) fn carve_line(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        sequence: Sequence,
        count: u32,
    ) -> RunPage {
        let topic = &mut self.topics[slot];
        let level = topic.level_mut(priority).expect("a fact names a level that exists");
        let run = level.line.carve(sequence, count);
        self.groups[topic.group].dequeue(&run);
        self.touch(slot);
        run
    }

    pub(super) fn ripened(&mut self, slot: TopicSlot, priority: Priority, first: Sequence, count: u32) {
        let place = self.place_of(slot, priority, first);
        assert_eq!(place, Place::Aside(first), "what ripens rests");
        let aside = self.take_aside(slot, priority, first);
        assert_eq!(aside.run.count, count, "what was set aside together ripens together");
        let why = AsideWhy::Ready { behind: Sequence(0) };
        let past = aside.past();
        self.set_aside(slot, priority, aside.run, past, why);
    }

    pub(super) fn rescheduled(&mut self, slot: TopicSlot, priority: Priority, sequence: Sequence, due: WallTime) {
        let aside = self.take_unleased(slot, priority, sequence, 1);
        let past = Past { since: due, ..aside.past() };
        let timer = self.wall_timers.insert(due.0, Timer::Ripe { slot, priority, first: sequence });
        self.set_aside(slot, priority, aside.run, past, AsideWhy::Delayed { due, timer });
    }

    /// The same reason for a part that was cut off, with a timer of its own.
    pub(super) fn same_again(
        &mut self,
        why: AsideWhy,
        slot: TopicSlot,
        priority: Priority,
        first: Sequence,
    ) -> AsideWhy {
        let what = Timer::Ripe { slot, priority, first };
        match why {
            AsideWhy::Ready { .. } => why,
            AsideWhy::Delayed { due, .. } => AsideWhy::Delayed { due, timer: self.wall_timers.insert(due.0, what) },
            AsideWhy::Retrying { due, .. } => AsideWhy::Retrying { due, timer: self.run_timers.insert(due.0, what) },
            AsideWhy::Leased(_) => panic!("leases are cut as leases"),
        }
    }

    fn count(&mut self, slot: TopicSlot, why: AsideWhy, published: WallTime, change: i64) {
        let topic = &mut self.topics[slot];
        let Group { counts, spans, .. } = &mut self.groups[topic.group];
        if !matches!(why, AsideWhy::Leased(_)) {
            topic.set_aside = topic.set_aside.strict_add_signed(change);
            if change > 0 {
                spans.add(published, change.unsigned_abs());
            } else {
                spans.remove(published, change.unsigned_abs());
            }
        }
        let counter = match why {
            AsideWhy::Ready { .. } => &mut counts.waiting,
            AsideWhy::Delayed { .. } => &mut counts.delayed,
            AsideWhy::Retrying { .. } => {
                topic.retrying = topic.retrying.strict_add_signed(change);
                &mut counts.retrying
            }
            AsideWhy::Leased(_) => {
                topic.in_flight = topic.in_flight.strict_add_signed(change);
                &mut counts.leased
            }
        };
        *counter = counter.strict_add_signed(change);
    }
}
