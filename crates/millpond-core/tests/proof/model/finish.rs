//! What consumers do with their leases.

use millpond_core::command::{Finish, FinishVerb, ReceiptRun};
use millpond_types::{Coalesce, LeaseNumber, Millis, Policy, Receipt, Retry};

use super::coalesce::is_later;
use super::{Key, Message, Model, Place, State};

impl Model {
    pub(super) fn finish(&mut self, finish: &Finish) -> Vec<String> {
        let comes_back = matches!(finish.verb, FinishVerb::Release { .. } | FinishVerb::Fail { .. });
        let receipts: Vec<Receipt> = finish.receipts.iter().flat_map(each).collect();
        let named = |receipt: &Receipt| {
            let (place, key) = self.leased(*receipt)?;
            Some((self.run_of(&place, key)?, place, receipt.lease.0))
        };
        let named: Vec<_> = receipts.iter().filter_map(named).collect();
        let lines = receipts.into_iter().map(|receipt| self.finish_one(&finish.verb, receipt).to_owned()).collect();
        for (run, place, lease) in named.into_iter().filter(|_| comes_back) {
            self.give_back_rest(&place, Some(run), lease);
        }
        lines
    }

    /// The first lease of the run that a message is leased in.
    pub(super) fn run_of(&self, place: &Place, key: Key) -> Option<u64> {
        match self.topics[place].messages.get(&key)?.state {
            State::Leased { run, .. } => run,
            _ => None,
        }
    }

    /// Whether no lease of its run comes before one, but for those that are finished with it.
    pub(super) fn is_next_of_run(&self, place: &Place, key: Key, finished: &[Receipt]) -> bool {
        let topic = &self.topics[place];
        let State::Leased { lease, run, .. } = topic.messages[&key].state else { unreachable!("it is leased") };
        let is_before = |message: &Message| match message.state {
            State::Leased { lease: other, run: of, .. } => {
                let is_finished = |receipt: &Receipt| {
                    (receipt.topic, receipt.group, receipt.lease.0) == (topic.number, place.group, other)
                };
                of == run && other < lease && !finished.iter().any(is_finished)
            }
            _ => false,
        };
        run.is_none() || !topic.messages.values().any(is_before)
    }

    /// What was leased in a run behind a lease that has ended comes back.
    pub(super) fn give_back_rest(&mut self, place: &Place, run: Option<u64>, ended: u64) {
        if run.is_some() {
            let is_behind = |message: &Message| matches!(message.state, State::Leased { lease, run: of, .. } if of == run && lease > ended);
            let rest: Vec<_> = self.find(is_behind).into_iter().filter(|(of, _)| of == place).collect();
            rest.iter().for_each(|(place, key)| _ = self.give_back(place, *key, State::Back(0)));
        }
    }

    /// Leases run out: of a run only the first has failed.
    pub(super) fn run_out(&mut self, leases: Vec<(Place, Key)>) {
        for (place, key) in leases {
            let message = self.topics[&place].messages.get(&key);
            let Some(State::Leased { lease, run, .. }) = message.map(|message| message.state) else { continue };
            self.fail(&place, key, None, "lease_expired");
            self.give_back_rest(&place, run, lease);
        }
    }

    fn finish_one(&mut self, verb: &FinishVerb, receipt: Receipt) -> &'static str {
        let Some((place, key)) = self.leased(receipt) else { return "lease_lost" };
        let is_early = !self.is_next_of_run(&place, key, &[]);
        match verb {
            FinishVerb::Ack | FinishVerb::Reject { .. } if is_early => return "out_of_order",
            FinishVerb::Ack => {
                self.save(&place, key);
                self.take(&place, key);
            }
            FinishVerb::Release { delay } => return self.give_back(&place, key, after(self.run, *delay)),
            FinishVerb::Fail { delay, .. } => {
                let state = delay.map(|delay| after(self.run, delay));
                return self.fail(&place, key, state, "failed");
            }
            FinishVerb::Reject { .. } => {
                self.save(&place, key);
                self.die(&place, key, "rejected");
                return "dead";
            }
            FinishVerb::Damaged => {
                self.save(&place, key);
                self.die(&place, key, "damaged");
                return "dead";
            }
            FinishVerb::Extend { lease } => {
                let length = lease.unwrap_or(self.policy_of(&place.name).lease).0;
                self.extend(&place, key, length, |holder| holder);
            }
        }
        "done"
    }

    /// The message that a receipt is of, if its lease is current.
    pub(super) fn leased(&self, receipt: Receipt) -> Option<(Place, Key)> {
        let place = self.place(receipt.topic, receipt.group)?;
        let is_it = |state| matches!(state, State::Leased { lease, .. } if LeaseNumber(lease) == receipt.lease);
        let key = self.topics[&place].messages.iter().find(|(_, message)| is_it(message.state)).map(|(key, _)| *key)?;
        Some((place, key))
    }

    pub(super) fn extend(&mut self, place: &Place, key: Key, length: u64, holds: impl Fn(u64) -> u64) {
        let ends = self.run + length;
        let message = self.message(place, key);
        if let State::Leased { holder, duration, deadline, .. } = &mut message.state {
            (*holder, *duration, *deadline) = (holds(*holder), length, ends);
        }
    }

    fn fail(&mut self, place: &Place, key: Key, state: Option<State>, reason: &'static str) -> &'static str {
        let Policy { retry, max_failures, .. } = self.policy_of(&place.name);
        let run = self.run;
        let next = self.topics[place].next[&key.0];
        let message = self.message(place, key);
        message.failures += 1;
        if message.failures > max_failures {
            self.save(place, key);
            self.die(place, key, reason);
            return "dead";
        }
        let by_policy = match retry {
            Retry::Head => State::Back(0),
            Retry::Tail => State::Back(next),
            // Pauses of one and two milliseconds have no jitter: a quarter of them is less than one.
            Retry::Backoff { first, longest } => {
                State::Retrying(run + longest.0.min(first.0 << (message.failures - 1).min(10)))
            }
        };
        self.give_back(place, key, state.unwrap_or(by_policy))
    }

    pub(super) fn give_back(&mut self, place: &Place, key: Key, state: State) -> &'static str {
        let mut older = None;
        self.expire_waiting(place);
        if let [heir] = self.waiting(place)[..]
            && self.policy_of(&place.name).coalesce != Coalesce::Off
        {
            let messages = &self.topics[place].messages;
            if !is_later((key, &messages[&key]), (heir, &messages[&heir])) {
                let Message { failures, since, .. } = self.take(place, key);
                self.inherit(place, heir, failures, (state, since));
                return "done";
            }
            older = Some(heir);
        }
        let wall = self.wall;
        let message = self.message(place, key);
        message.state = state;
        if message.expires.is_some_and(|at| at <= wall) {
            return self.expire(place, key);
        }
        if let Some(older) = older {
            let Message { failures, state, since, .. } = self.take(place, older);
            self.inherit(place, key, failures, (state, since));
        }
        "done"
    }
}

/// The receipts of a run, one by one.
pub fn each(run: &ReceiptRun) -> impl Iterator<Item = Receipt> {
    let first = run.first;
    (0..u64::from(run.count)).map(move |n| Receipt { lease: LeaseNumber(first.lease.0 + n), ..first })
}

/// What is ready again after a delay.
fn after(run: u64, delay: Millis) -> State {
    if delay.0 == 0 { State::Back(0) } else { State::Retrying(run + delay.0) }
}
