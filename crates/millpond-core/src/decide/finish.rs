//! Ack, release, fail, reject, extend: each on many receipts, with an outcome for each. A lease is current until a fact
//! ends it; a verb with one that is not current is refused, always.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::limits::{REASON_MAX, RECEIPTS_MAX};
use millpond_types::{Coalesce, Code, FinishOutcome, LeaseNumber, Millis, OutcomeRun, Retry, RunTime, Sequence};

use crate::Core;
use crate::command::{Finish, FinishVerb, ReceiptRun};
use crate::decide::Refusal;
use crate::decide::coalesce::Version;
use crate::fact::{DeadReason, Fact, FactLog, NamespaceNumber, ReturnPlace, Victims};
use crate::output::{Reply, lost};
use crate::state::hash::mix;
use crate::state::topic::{Left, Topic};
use crate::state::warm::TOGETHER;
use crate::state::{LeaseSlot, TopicSlot};

impl Finish {
    /// Why it is refused as a whole, whatever the state is, if it is.
    pub fn check(&self) -> Result<(), (Code, String)> {
        check_receipts(&self.receipts)?;
        match &self.verb {
            FinishVerb::Fail { reason, .. } | FinishVerb::Reject { reason } if reason.len() > REASON_MAX => {
                Err((Code::LimitExceeded, format!("a reason has at most {REASON_MAX} bytes; shorten it")))
            }
            FinishVerb::Extend { lease } => Core::check_lease(*lease),
            _ => Ok(()),
        }
    }
}

impl Core {
    pub(super) fn finish(&mut self, finish: &Finish, log: &mut dyn FactLog) -> Result<Option<Reply>, Refusal> {
        finish.check()?;
        if let Some(name) = &finish.namespace {
            let namespace = self.namespace_of(name)?;
            if let Some(refused) = self.of_another(namespace, &finish.receipts) {
                return Ok(Some(refused));
            }
        }
        let mut outcomes = Vec::new();
        let comes_back = matches!(finish.verb, FinishVerb::Release { .. } | FinishVerb::Fail { .. });
        let mut of_runs = Vec::new();
        for (at, run) in finish.receipts.iter().enumerate() {
            if at % TOGETHER == 0 && self.state.topics.are_far() {
                let next = finish.receipts[at..].iter().map(|run| run.first.topic).take(TOGETHER);
                self.state.warm_leased(next);
            }
            self.each_lease(run, &mut outcomes, |core, slot, of, (lease, count)| {
                if comes_back {
                    of_runs.extend(core.state.leases[of as usize].run.map(|run| (slot, run, lease)));
                }
                core.finish_leases(&finish.verb, slot, of, (lease, count), log)
            });
        }
        // What else is named in the call has ended as it was meant to.
        for (slot, run, lease) in of_runs {
            self.give_back_rest(slot, Some(run), lease, log);
        }
        if finish.confirm {
            return Ok(Some(Reply::Finished(outcomes)));
        }
        let lost = lost(&outcomes);
        Ok((lost > 0 || finish.namespace.is_some()).then_some(Reply::Lost(lost)))
    }

    /// Leases of topics of another namespace are a slip of whoever names it: it is refused. Topics that are gone have no leases.
    fn of_another(&self, namespace: NamespaceNumber, receipts: &[ReceiptRun]) -> Option<Reply> {
        receipts.iter().zip(1..).find_map(|(ReceiptRun { first, .. }, receipts)| {
            let slot = self.state.topics.by_number(first.topic, first.group)?;
            let other = Some(self.state.topics[slot].namespace).filter(|other| *other != namespace)?;
            let [name, other] = [namespace, other].map(|number| &self.state.namespaces[number].name);
            let detail = format!(
                "the receipt {first} is of namespace {other}, and the call names {name}; nothing was done. Name {other}"
            );
            Some(Reply::Refused { code: Code::ArgumentInvalid, detail, receipts })
        })
    }

    /// Goes over the leases of a run of receipts: for current ones, as many of a lease run as there are at a time, `with`
    /// says what becomes of them; the others are lost.
    pub(super) fn each_lease(
        &mut self,
        run: &ReceiptRun,
        outcomes: &mut Vec<OutcomeRun<FinishOutcome>>,
        mut with: impl FnMut(&mut Core, TopicSlot, LeaseSlot, (LeaseNumber, u32)) -> FinishOutcome,
    ) {
        let slot = self.state.topics.by_number(run.first.topic, run.first.group);
        // All leases of a group are lost when it is deleted, and not one after the other as its end comes to them.
        let slot = slot.filter(|_| !self.state.groups.is_over(run.first.group));
        // A run that reaches past all numbers was never given out either.
        let end = run.first.lease.0.checked_add(u64::from(run.count)).map(LeaseNumber);
        let (Some(slot), Some(end)) = (slot, end) else {
            return push(outcomes, run.count, FinishOutcome::LeaseLost);
        };
        let mut number = run.first.lease;
        while number < end {
            let topic = &self.state.topics[slot];
            let covering = topic.lease(number).map(|of| (of, self.state.leases[of as usize].end()));
            match covering.filter(|(_, covered)| *covered > number) {
                Some((of, covered)) => {
                    let count = (covered.min(end).0 - number.0) as u32;
                    let outcome = with(self, slot, of, (number, count));
                    push(outcomes, count, outcome);
                    number = LeaseNumber(number.0 + u64::from(count));
                }
                None => {
                    let next = topic.leases.range(number..).next().map_or(end, |(next, _)| *next).min(end);
                    push(outcomes, (next.0 - number.0) as u32, FinishOutcome::LeaseLost);
                    number = next;
                }
            }
        }
    }

    /// Carries a verb out on leases of one run that are current.
    pub(super) fn finish_leases(
        &mut self,
        verb: &FinishVerb,
        slot: TopicSlot,
        of: LeaseSlot,
        (lease, count): (LeaseNumber, u32),
        log: &mut dyn FactLog,
    ) -> FinishOutcome {
        let Topic { number: topic, group, .. } = self.state.topics[slot];
        let now = self.state.now;
        match verb {
            FinishVerb::Ack | FinishVerb::Reject { .. } if !self.is_next_of_run(slot, of, lease) => {
                FinishOutcome::OutOfOrder
            }
            FinishVerb::Ack => {
                self.commit(Fact::Acked { topic, group, lease, count }, log);
                FinishOutcome::Done
            }
            FinishVerb::Release { delay } => self.give_back(slot, lease, count, false, after(now.run, *delay), log),
            FinishVerb::Fail { delay, reason } => {
                let place = delay.map(|delay| after(now.run, delay));
                self.fail(slot, (lease, count), place, (DeadReason::Failed, reason.clone()), log)
            }
            FinishVerb::Reject { reason } => self.bury(slot, lease, count, DeadReason::Rejected, reason.clone(), log),
            FinishVerb::Damaged => self.bury(slot, lease, count, DeadReason::Damaged, Bytes::new(), log),
            FinishVerb::Extend { .. } if self.is_deposed(group) => FinishOutcome::Deposed,
            FinishVerb::Extend { .. } if self.state.left(slot, lease) == Left::Over => FinishOutcome::LeaseLost,
            FinishVerb::Extend { lease: asked } => {
                let duration = asked.unwrap_or(self.state.policy(slot).lease);
                let holder = self.state.leases[of as usize].holder;
                let deadline = self.let_go_until(group, duration);
                self.commit(Fact::Extended { topic, group, lease, count, holder, duration, deadline }, log);
                FinishOutcome::Done
            }
        }
    }

    /// Makes leased messages dead letters.
    fn bury(
        &mut self,
        slot: TopicSlot,
        lease: LeaseNumber,
        count: u32,
        reason: DeadReason,
        detail: Bytes,
        log: &mut dyn FactLog,
    ) -> FinishOutcome {
        let Topic { number: topic, group, .. } = self.state.topics[slot];
        let which = Victims::Leased { lease, count };
        self.commit(Fact::Died { topic, group, which, reason, detail, at: self.state.now.wall }, log);
        FinishOutcome::Dead
    }

    /// Counts a failure of leased messages: they go to a place, that of the policy where none is given, or become dead letters.
    pub(crate) fn fail(
        &mut self,
        slot: TopicSlot,
        (lease, count): (LeaseNumber, u32),
        place: Option<ReturnPlace>,
        (reason, detail): (DeadReason, Bytes),
        log: &mut dyn FactLog,
    ) -> FinishOutcome {
        let topic = &self.state.topics[slot];
        let policy = self.state.policy(slot);
        let of = &self.state.leases[topic.lease(lease).expect("the lease is current") as usize];
        let aside = &topic.level(of.priority).expect("a lease has a level").aside[&of.first];
        let failures = aside.failures + 1;
        if failures > policy.max_failures {
            return self.bury(slot, lease, count, reason, detail, log);
        }
        let by_policy = || match policy.retry {
            Retry::Head => ReturnPlace::Head,
            Retry::Tail => ReturnPlace::Tail,
            Retry::Backoff { first, longest } => {
                let salt = mix(topic.number.0 ^ mix(lease.0));
                ReturnPlace::At(backoff(self.state.now.run, first, longest, failures, salt))
            }
        };
        let place = place.unwrap_or_else(by_policy);
        self.give_back(slot, lease, count, true, place, log)
    }

    /// Ends leases and keeps their messages, unless their TTL has passed in the meantime, or a newer one stands for them.
    pub(super) fn give_back(
        &mut self,
        slot: TopicSlot,
        lease: LeaseNumber,
        count: u32,
        failed: bool,
        place: ReturnPlace,
        log: &mut dyn FactLog,
    ) -> FinishOutcome {
        let topic = &self.state.topics[slot];
        let of = &self.state.leases[topic.lease(lease).expect("the lease is current") as usize];
        let (priority, first) = (of.priority, Sequence(of.first.0 + (lease.0 - of.number.0)));
        let aside = &topic.level(priority).expect("a lease has a level").aside[&of.first];
        let (is_expired, failures) = (aside.run.is_expired(self.state.now.wall), aside.failures + u32::from(failed));
        let since = aside.since;
        let version = Version::of(&aside.run, priority, first);
        let (topic, group, mut older) = (topic.number, topic.group, None);
        if self.state.policy(slot).coalesce != Coalesce::Off {
            if count > 1 {
                // Leased together before the policy came: the last of them is the one that waits. They were published
                // together as well, so that the same becomes of all.
                let mut outcome = FinishOutcome::Done;
                for lease in (lease.0..).take(count as usize).map(LeaseNumber) {
                    outcome = self.give_back(slot, lease, 1, failed, place, log);
                }
                return outcome;
            }
            let until = if let ReturnPlace::At(until) = place { Some(until) } else { None };
            match self.waits_beside(slot, log) {
                Some(waiting) if !waiting.is_older_than(&version) => {
                    self.give_way(slot, (lease, since), &waiting, failures, until, log);
                    return FinishOutcome::Done;
                }
                waiting => older = waiting,
            }
        }
        self.commit(Fact::Returned { topic, group, lease, count, failed, place }, log);
        if is_expired {
            return self.expire(slot, priority, first, count, log);
        }
        if let Some(older) = older {
            self.replace(slot, &older, (version, failures), log);
        }
        FinishOutcome::Done
    }
}

pub(super) fn check_receipts(receipts: &[ReceiptRun]) -> Result<(), Refusal> {
    let asked: u64 = receipts.iter().map(|run| u64::from(run.count)).sum();
    if asked == 0 || asked > RECEIPTS_MAX as u64 || receipts.iter().any(|run| run.count == 0) {
        let detail = format!("a call names from 1 to {RECEIPTS_MAX} receipts, and this one names {asked}");
        return Err((Code::LimitExceeded, detail));
    }
    Ok(())
}

/// Where messages go that are ready again after a delay.
fn after(now: RunTime, delay: Millis) -> ReturnPlace {
    if delay == Millis::ZERO { ReturnPlace::Head } else { ReturnPlace::At(now + delay) }
}

/// The end of a pause that doubles with each failure, with a quarter of it either way by chance. The chance is a
/// function of the lease, so that the core stays deterministic and neighbours still spread.
pub(super) fn backoff(now: RunTime, first: Millis, longest: Millis, failures: u32, salt: u64) -> RunTime {
    let doubled = first.0.saturating_mul(1 << (failures - 1).min(40)).min(longest.0);
    let spread = (doubled / 2).max(1);
    now + Millis((doubled - doubled / 4).saturating_add(salt % spread))
}

fn push(outcomes: &mut Vec<OutcomeRun<FinishOutcome>>, count: u32, outcome: FinishOutcome) {
    match outcomes.last_mut().filter(|last| last.outcome == outcome) {
        Some(last) => last.count += count,
        None => outcomes.push(OutcomeRun { count, outcome }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_longest_and_stays_within_a_quarter() {
        for (failures, pause) in [(1, 1000), (2, 2000), (3, 4000), (4, 5000), (200, 5000)] {
            for salt in [0, 1, 777, u64::MAX] {
                let end = backoff(RunTime(100), Millis(1000), Millis(5000), failures, salt).0 - 100;
                assert!((pause - pause / 4..=pause + pause / 4).contains(&end), "{failures} failures: {end}");
            }
        }
    }
}
