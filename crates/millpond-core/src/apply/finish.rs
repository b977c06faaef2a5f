//! Leases end.

use bytes::Bytes;
use millpond_types::{EndReason, LeaseNumber, MessageId, Priority, Sequence, WallTime};

use crate::apply::Place;
use crate::fact::{DeadReason, ReturnPlace, Victims};
use crate::output::Extent;
use crate::page::{DeadPage, RunPage};
use crate::state::topic::{Aside, AsideWhy, Lease, Past, Topic};
use crate::state::{State, Timer, TopicSlot};

impl State {
    /// Returns where the messages lie.
    pub(super) fn done(&mut self, slot: TopicSlot, lease: LeaseNumber, count: u32) -> Extent {
        let (priority, aside) = self.end_lease(slot, lease, count);
        let extent = aside.run.extent();
        self.free(slot, extent);
        self.settle(slot, priority, aside.run.first);
        extent
    }

    pub(super) fn returned(
        &mut self,
        slot: TopicSlot,
        lease: LeaseNumber,
        count: u32,
        failed: bool,
        place: ReturnPlace,
    ) {
        let (priority, aside) = self.end_lease(slot, lease, count);
        let past = Past { failures: aside.failures + u32::from(failed), ..aside.past() };
        let why = match place {
            ReturnPlace::Head => AsideWhy::Ready { behind: Sequence(0) },
            ReturnPlace::Tail => AsideWhy::Ready { behind: self.topics[slot].next(priority) },
            ReturnPlace::At(due) => {
                let what = Timer::Ripe { slot, priority, first: aside.run.first };
                AsideWhy::Retrying { due, timer: self.run_timers.insert(due.0, what) }
            }
        };
        self.set_aside(slot, priority, aside.run, past, why);
    }

    pub(super) fn died(&mut self, slot: TopicSlot, which: Victims, reason: DeadReason, detail: &Bytes, at: WallTime) {
        let (priority, run, deliveries, failures) = match which {
            Victims::Leased { lease, count } => {
                let (priority, aside) = self.end_lease(slot, lease, count);
                (priority, aside.run, aside.deliveries, aside.failures)
            }
            Victims::Waiting { priority, first, count } => {
                let aside = self.take_unleased(slot, priority, first, count);
                (priority, aside.run, aside.deliveries, aside.failures)
            }
        };
        let failures = failures + u32::from(reason.is_failure());
        let Topic { number, group, namespace, ref name, .. } = self.topics[slot];
        let name = name.clone();
        let detail = Bytes::copy_from_slice(detail);
        let first = run.first;
        let mut rest = run;
        while rest.count > 0 {
            // One letter a message: each is redriven or thrown away on its own.
            let run = rest.split_front(1).compact();
            let id = MessageId { topic: number, priority, sequence: run.first };
            let (topic, detail) = (name.clone(), detail.clone());
            let died = at;
            self.put_dead(DeadPage { namespace, group, topic, id, run, deliveries, failures, reason, detail, died });
        }
        self.settle(slot, priority, first);
    }

    pub(super) fn ended(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        (first, count): (Sequence, u32),
        reason: EndReason,
    ) {
        let tally = &mut self.groups[self.topics[slot].group].tally;
        match reason {
            EndReason::Dropped => tally.dropped += u64::from(count),
            EndReason::RetainedOut => tally.retained_out += u64::from(count),
            _ => {}
        }
        let aside = self.take_unleased(slot, priority, first, count);
        self.free(slot, aside.run.extent());
        self.settle(slot, priority, aside.run.first);
    }

    /// Takes messages that are not leased from wherever they are.
    pub(super) fn take_unleased(&mut self, slot: TopicSlot, priority: Priority, first: Sequence, count: u32) -> Aside {
        match self.place_of(slot, priority, first) {
            Place::Aside(_) => self.carve_aside(slot, priority, first, count),
            Place::Line => {
                let run: RunPage = self.carve_line(slot, priority, first, count);
                let Past { deliveries, failures, since } = Past::of_line(&run);
                Aside { run, deliveries, failures, since, state: AsideWhy::Ready { behind: first } }
            }
        }
    }

    /// Ends `count` leases from a number on, all of one lease run, and hands out their messages. The run's other leases
    /// stay as they are.
    pub(super) fn end_lease(&mut self, slot: TopicSlot, number: LeaseNumber, count: u32) -> (Priority, Aside) {
        let lease_slot = self.topics[slot].lease(number).expect("a fact ends leases that are current");
        let lease: Lease = self.leases[lease_slot as usize].clone();
        assert!(number.0 + u64::from(count) <= lease.end().0, "a fact ends leases of one run");
        self.let_go(lease_slot);
        if let Some(timer) = lease.timer {
            self.run_timers.remove(timer);
        }
        self.leases.remove(lease_slot as usize);
        self.topics[slot].leases.remove(&lease.number);
        let mut whole = self.take_aside(slot, lease.priority, lease.first);
        if count == lease.count {
            // As most end: nothing is left of the run.
            return (lease.priority, whole);
        }
        let before = whole.run.split_front((number.0 - lease.number.0) as u32);
        let middle = whole.run.split_front(count);
        let past = whole.past();
        for part in [before, whole.run.clone()].into_iter().filter(|run| run.count > 0) {
            let number = LeaseNumber(lease.number.0 + (part.first.0 - lease.first.0));
            self.begin_lease(slot, lease.priority, part, past, (number, lease.terms()));
        }
        (lease.priority, Aside { run: middle, ..whole })
    }
}
