//! Leases begin and are extended.

use millpond_types::{LeaseNumber, Millis, Priority, RunTime, SessionId};

use crate::fact::Fact;
use crate::page::RunPage;
use crate::state::topic::{AsideWhy, Lease};
use crate::state::{LeaseSlot, State, Timer, TopicSlot};

impl State {
    pub(super) fn leased(&mut self, fact: &Fact) {
        let Fact::Leased { topic, group, priority, first, count, lease, holder, duration, deadline, .. } = fact else {
            unreachable!("called for this fact alone")
        };
        let slot = self.slot(*topic, *group);
        let (run, tries) = match self.place_of(slot, *priority, *first) {
            super::Place::Line => (self.carve_line(slot, *priority, *first, *count), (0, 0)),
            super::Place::Aside(_) => {
                let aside = self.carve_aside(slot, *priority, *first, *count);
                (aside.run, (aside.deliveries, aside.failures))
            }
        };
        let topic = &mut self.topics[slot];
        assert!(*lease >= topic.next_lease, "lease numbers grow strictly");
        topic.next_lease = LeaseNumber(lease.0 + u64::from(*count));
        self.numbers.note(topic.next_lease.0);
        self.begin_lease(slot, *priority, run, (tries.0 + 1, tries.1), (*lease, *holder, *duration, *deadline));
    }

    /// Puts a run aside as leased; also for the parts of a lease that was cut, and for pages.
    pub(crate) fn begin_lease(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        run: RunPage,
        tries: (u32, u32),
        (number, holder, duration, deadline): (LeaseNumber, SessionId, Millis, RunTime),
    ) {
        let (first, count) = (run.first, run.count);
        let lease = Lease {
            slot,
            number,
            priority,
            first,
            count,
            holder,
            duration,
            deadline,
            timer: None,
            previous: None,
            next: None,
        };
        let lease_slot = self.leases.insert(lease) as LeaseSlot;
        self.arm(lease_slot);
        self.hold(lease_slot);
        let other = self.topics[slot].leases.insert(number, lease_slot);
        assert!(other.is_none(), "a lease number is given out once");
        self.set_aside(slot, priority, run, tries, AsideWhy::Leased(lease_slot));
    }

    pub(super) fn extended(
        &mut self,
        slot: TopicSlot,
        lease: LeaseNumber,
        count: u32,
        holder: SessionId,
        duration: Millis,
        deadline: RunTime,
    ) {
        let (priority, aside) = self.end_lease(slot, lease, count);
        let tries = (aside.deliveries, aside.failures);
        self.begin_lease(slot, priority, aside.run, tries, (lease, holder, duration, deadline));
    }

    /// Sets the timer of a lease that no session holds.
    pub(super) fn arm(&mut self, lease_slot: LeaseSlot) {
        let lease = &mut self.leases[lease_slot as usize];
        if lease.holder == SessionId(0) {
            lease.timer = Some(self.run_timers.insert(lease.deadline.0, Timer::Lease(lease_slot)));
        }
    }
}
