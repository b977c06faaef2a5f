//! Leases begin and are extended.

use millpond_types::{LeaseNumber, Millis, Priority, RunTime, SessionId};

use crate::fact::Fact;
use crate::page::RunPage;
use crate::state::topic::{AsideWhy, Lease, Left, Past, Terms};
use crate::state::{LeaseSlot, State, Timer, TopicSlot};

impl State {
    pub(super) fn leased(&mut self, fact: &Fact) {
        let Fact::Leased { topic, group, priority, first, count, lease, run, holder, duration, deadline } = fact else {
            unreachable!("called for this fact alone")
        };
        let slot = self.slot(*topic, *group);
        if self.topics[slot].residence.bytes() == 0 {
            // It has come in this turn.
            self.used(slot);
        }
        let aside = self.take_unleased(slot, *priority, *first, *count);
        let past = Past { deliveries: aside.deliveries + 1, ..aside.past() };
        let topic = &mut self.topics[slot];
        assert!(*lease >= topic.next_lease, "lease numbers grow strictly");
        topic.next_lease = LeaseNumber(lease.0 + u64::from(*count));
        self.numbers.note(topic.next_lease.0);
        assert!(run.is_none_or(|run| run <= *lease), "a run begins with its first lease");
        let (holder, duration, deadline) = (*holder, *duration, *deadline);
        let terms = Terms { run: *run, holder, duration, deadline, left: Left::No, is_left_out: false };
        self.begin_lease(slot, *priority, aside.run, past, (*lease, terms));
    }

    /// Puts a run aside as leased; also for the parts of a lease that was cut, and for pages.
    pub(crate) fn begin_lease(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        run: RunPage,
        past: Past,
        (number, terms): (LeaseNumber, Terms),
    ) {
        let (first, count) = (run.first, run.count);
        let Terms { run: of_run, holder, duration, deadline, left, is_left_out } = terms;
        let lease = Lease {
            slot,
            number,
            priority,
            first,
            count,
            run: of_run,
            holder,
            bytes: 0,
            duration,
            deadline,
            timer: None,
            previous: None,
            next: None,
            left,
            is_left_out,
        };
        let lease_slot = self.leases.insert(lease) as LeaseSlot;
        self.arm(lease_slot);
        self.hold(lease_slot);
        let other = self.topics[slot].leases.insert(number, lease_slot);
        assert!(other.is_none(), "a lease number is given out once");
        self.set_aside(slot, priority, run, past, AsideWhy::Leased(lease_slot));
    }

    pub(super) fn extended(
        &mut self,
        slot: TopicSlot,
        lease: LeaseNumber,
        count: u32,
        (holder, duration, deadline): (SessionId, Millis, RunTime),
    ) {
        let of = self.topics[slot].lease(lease).expect("a fact extends leases that are current");
        let before = self.leases[of as usize].terms();
        let is_left_out = holder == SessionId(0) && (before.is_left_out || before.holder != SessionId(0));
        let terms = Terms { holder, duration, deadline, left: Left::No, is_left_out, ..before };
        let (priority, aside) = self.end_lease(slot, lease, count);
        let past = aside.past();
        self.begin_lease(slot, priority, aside.run, past, (lease, terms));
    }

    /// Sets the timer of a lease that no session holds.
    pub(super) fn arm(&mut self, lease_slot: LeaseSlot) {
        let lease = &mut self.leases[lease_slot as usize];
        if lease.holder == SessionId(0) {
            lease.timer = Some(self.run_timers.insert(lease.deadline.0, Timer::Lease(lease_slot)));
        }
    }
}
