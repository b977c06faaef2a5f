//! What time brings: messages fall due, leases run out, TTLs pass, lost sessions expire. It happens because time was
//! handed in, in the order of the deadlines, and after the commands of the turn.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::{EndReason, FinishOutcome, OnExpiry, Priority, Sequence, SessionId};

use crate::Core;
use crate::fact::{DeadReason, Fact, FactLog, Victims};
use crate::left_behind::Why;
use crate::output::Output;
use crate::state::pieces::{PieceKind, PieceTimer};
use crate::state::topic::{AsideWhy, Expiry};
use crate::state::{LeaseSlot, State, Timer, TopicSlot};
use crate::store::Want;

/// Deadlines that are decided in one turn, and dead letters that become of them; the next one follows at once. Each becomes a
/// few facts, which must fit a batch of the journal, and nobody is served meanwhile.
const DUE_MAX: usize = 10_000;
/// Pieces that are fetched at a time because time changes them: about as many runs as can be decided in one turn, where each
/// is of one message.
const DUE_PIECES_MAX: usize = 16;

impl State {
    /// Whether messages of a topic become dead letters when their TTL has passed.
    pub(crate) fn dies_by_ttl(&self, slot: TopicSlot) -> bool {
        self.policy(slot).on_expiry == OnExpiry::Dead
    }

    /// Whether the time of a stored piece has come because messages of it become dead letters.
    fn is_of_letters(&self, timer: &PieceTimer) -> bool {
        let &PieceTimer { slot, priority, first, kind } = timer;
        let is_over = match kind {
            PieceKind::Line => true,
            PieceKind::Resting => {
                let level = self.topics[slot].level(priority);
                let mut pieces = level.into_iter().flat_map(|level| level.resting_from(first));
                pieces.next().is_some_and(|piece| piece.first == first && piece.expires <= self.now.wall)
            }
        };
        is_over && self.dies_by_ttl(slot)
    }

    /// Lets the timers know of the time of this turn. Those of one moment go off in an order that follows from the
    /// state alone, and not from what was in memory before.
    fn advance_timers(&mut self) {
        let State { run_timers, wall_timers, topics, leases, now, .. } = self;
        let place = |timer: &Timer| {
            let (slot, priority, kind, first) = match *timer {
                Timer::Lease(lease) => {
                    let lease = &leases[lease as usize];
                    (lease.slot, lease.priority, 0, lease.first)
                }
                Timer::Expiry { slot, priority, first } => (slot, priority, 1, first),
                Timer::Ripe { slot, priority, first } => (slot, priority, 2, first),
                Timer::Refill(slot) => (slot, Priority::HIGHEST, 3, Sequence(0)),
                Timer::Raise(slot) => (slot, Priority::HIGHEST, 4, Sequence(0)),
            };
            // One timer may be that of several messages, or each may have its own: by their numbers last, it is the same.
            (topics[slot].number, topics[slot].group, priority, kind, first)
        };
        run_timers.advance(now.run.0, place);
        wall_timers.advance(now.wall.0, place);
    }
}

impl Core {
    /// Decides what has fallen due up to the time of this turn, or a good deal of it.
    pub fn advance(&mut self, log: &mut dyn FactLog) {
        self.look_ahead();
        self.bring_due();
        self.state.advance_timers();
        let mut left = DUE_MAX;
        while left > 0 {
            let Some(timer) = self.next_due() else { break };
            left -= 1;
            match timer {
                Timer::Lease(lease) => left = left.saturating_sub(self.lease_ran_out(lease, log)),
                Timer::Ripe { slot, priority, first } => self.ripen(slot, priority, first, log),
                Timer::Expiry { slot, priority, first } => self.ttl_passed(slot, priority, first, &mut left, log),
                Timer::Refill(slot) => self.refill(slot, log),
                Timer::Raise(slot) => {
                    self.state.disarm_raise(slot);
                    self.age(slot, log);
                }
            }
        }
        self.end_pauses(log);
        self.go_on_with_left_behind(log);
        let now = self.state.now.run;
        // Where they have many leases one a turn, so that no turn looks at those of all, and nobody keeps another from its end.
        while let Some((_, session)) = self.dispatcher.losing.first().copied().filter(|(at, _)| *at <= now) {
            self.session_expired(session, log);
            if self.left_behind.any() {
                break;
            }
        }
        self.tend_offices(log);
        self.begin_asked_by_state();
        self.retain();
        self.go_on_with_jobs(log);
    }

    /// The next deadline that is decided. While jobs are held, TTLs whose messages become dead letters are too: each letter is an
    /// entry, and there may be as many as there are messages. While time is, leases alone run out.
    fn next_due(&mut self) -> Option<Timer> {
        while self.is_time_held
            && let Some(timer) = self.state.run_timers.next_due()
            && !matches!(timer, Timer::Lease(_))
        {
            self.state.run_timers.hold_next_due();
        }
        if let Some(timer) = self.state.run_timers.take_due() {
            return Some(timer);
        }
        while let Some(timer) = self.state.wall_timers.next_due()
            && (self.is_time_held || self.jobs.are_held() && self.makes_letters(timer))
        {
            self.state.wall_timers.hold_next_due();
        }
        self.state.wall_timers.take_due()
    }

    fn makes_letters(&self, timer: Timer) -> bool {
        matches!(timer, Timer::Expiry { slot, .. } if self.state.dies_by_ttl(slot))
    }

    /// Brings the pieces that time changes, whose runs then have timers of their own: not many more runs than are decided in
    /// this turn, for there may be very many of them.
    fn bring_due(&mut self) {
        self.state.advance_pieces();
        let mut runs = 0;
        while runs < DUE_MAX
            && self.has_room_for_due_pieces()
            && self.hold_pieces()
            && let Some(brought) = self.state.bring_next_due()
        {
            match brought {
                Ok(brought) => runs += brought,
                // What has to be fetched has timers that are overdue when it comes.
                Err(want) => self.want_due_piece(want),
            }
        }
    }

    /// While jobs are held, brings none whose messages would become dead letters: they would only be put back. While time is held,
    /// brings none at all.
    fn hold_pieces(&mut self) -> bool {
        while self.is_time_held && self.state.piece_timers.run.next_due().is_some() {
            self.state.piece_timers.run.hold_next_due();
        }
        while let Some(timer) = self.state.piece_timers.wall.next_due()
            && (self.is_time_held || self.jobs.are_held() && self.state.is_of_letters(&timer))
        {
            self.state.piece_timers.wall.hold_next_due();
        }
        true
    }

    /// Whether no more pieces are on their way than are fetched at a time.
    pub(crate) fn has_room_for_due_pieces(&self) -> bool {
        self.fetching.due_pieces.len() < DUE_PIECES_MAX
    }

    fn want_due_piece(&mut self, want: Want) {
        self.fetching.due_pieces.insert(want.clone());
        self.want(want);
    }

    /// How many dead letters that has made.
    fn lease_ran_out(&mut self, lease_slot: LeaseSlot, log: &mut dyn FactLog) -> usize {
        let grace = self.dispatcher.grace;
        if self.state.now.run < grace {
            let timer = self.state.run_timers.insert(grace.0, Timer::Lease(lease_slot));
            self.state.leases[lease_slot as usize].timer = Some(timer);
            return 0;
        }
        let lease = &self.state.leases[lease_slot as usize];
        let (slot, number, count) = (lease.slot, lease.number, lease.count);
        self.run_out(slot, number, count, log)
    }

    fn ripen(&mut self, slot: TopicSlot, priority: Priority, first: Sequence, log: &mut dyn FactLog) {
        let topic = &self.state.topics[slot];
        let aside = topic.level(priority).and_then(|level| level.aside.get(&first));
        // A TTL that passed in the same turn, and before, has ended it.
        let Some(count) = aside.map(|aside| aside.run.count) else { return };
        self.commit(Fact::Ripened { topic: topic.number, group: topic.group, priority, first, count }, log);
    }

    /// There is a token for a topic again, or its bucket is full and it may vanish.
    fn refill(&mut self, slot: TopicSlot, log: &mut dyn FactLog) {
        self.state.disarm_bucket(slot);
        let topic = &self.state.topics[slot];
        if topic.is_dry() {
            self.commit(Fact::Refilled { topic: topic.number, group: topic.group }, log);
        }
        // So that it vanishes, if it holds nothing else.
        self.state.came(slot);
    }

    fn ttl_passed(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        first: Sequence,
        left: &mut usize,
        log: &mut dyn FactLog,
    ) {
        let level = self.state.topics[slot].level_mut(priority).expect("a timer goes with what it was set for");
        // What came before in the same turn may have finished the last of them.
        let Some(expiry) = level.expiries.remove(&first) else { return };
        let end = expiry.end;
        let in_line = level.line.runs_between(first, end);
        let mut parts: Vec<(Sequence, u32)> = in_line
            .filter(|run| run.expiry().is_some())
            .map(|run| {
                let from = run.first.max(first);
                (from, (run.end().min(end).0 - from.0) as u32)
            })
            .collect();
        let aside = level.aside.range(first..end).filter(|(_, aside)| !matches!(aside.state, AsideWhy::Leased(_)));
        parts.extend(aside.map(|(first, aside)| (*first, aside.run.count)));
        // In order, whether or not they were in the store in between and have timers of their own.
        parts.sort_unstable();
        for (first, count) in parts {
            let ended = self.expire_some(slot, priority, (first, count), left, log);
            if ended < count {
                // The turn is full, and the next one goes on with the rest.
                let first = Sequence(first.0 + u64::from(ended));
                let timer =
                    self.state.wall_timers.insert(self.state.now.wall.0, Timer::Expiry { slot, priority, first });
                let level = self.state.topics[slot].level_mut(priority).expect("it has a timer");
                level.expiries.insert(first, Box::new(Expiry { end, timer }));
                return;
            }
        }
    }

    /// The same as [`Core::expire`] with no more dead letters than are left to make in a turn, but for one; how many messages
    /// have ended.
    pub(crate) fn expire_some(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        (first, count): (Sequence, u32),
        left: &mut usize,
        log: &mut dyn FactLog,
    ) -> u32 {
        let becomes_letters = self.state.dies_by_ttl(slot);
        let count = if becomes_letters { count.min((*left).max(1) as u32) } else { count };
        *left = left.saturating_sub(if becomes_letters { count as usize } else { 1 });
        self.expire(slot, priority, first, count, log);
        count
    }

    /// Ends messages that are not leased because their TTL has passed; what became of them.
    pub(crate) fn expire(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        first: Sequence,
        count: u32,
        log: &mut dyn FactLog,
    ) -> FinishOutcome {
        let topic = &self.state.topics[slot];
        let (number, group) = (topic.number, topic.group);
        let (fact, outcome) = match self.state.policy(slot).on_expiry {
            OnExpiry::Drop => {
                let reason = EndReason::Expired;
                (Fact::Ended { topic: number, group, priority, first, count, reason }, FinishOutcome::Done)
            }
            OnExpiry::Dead => {
                let which = Victims::Waiting { priority, first, count };
                let (reason, detail, at) = (DeadReason::Expired, Bytes::new(), self.state.now.wall);
                (Fact::Died { topic: number, group, which, reason, detail, at }, FinishOutcome::Dead)
            }
        };
        self.commit(fact, log);
        outcome
    }

    fn session_expired(&mut self, session: SessionId, log: &mut dyn FactLog) {
        self.leave_behind(session, None, Why::Expired, log);
        self.session_over(session, log);
        self.outputs.push(Output::SessionExpired(session));
    }
}
