//! Receive: leases once. Served by the dispatch of the same turn, or of a later one within its wait.
//!
//! One that carries a request id may be asked for again: it takes the place of the first while that waits, and is told
//! the same leases once that was answered, as far as they are current.

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::{CREDIT_MESSAGES_MAX, FILTER_MAX, PREFIX_SETS_MAX, PREFIXES_MAX, WAIT_MAX_MS};
use millpond_types::{Code, Filter, LeaseNumber, Millis, NamespaceName, RequestId};

use crate::Core;
use crate::command::{Receive, Ticket};
use crate::decide::Refusal;
use crate::dispatch::consumer::{Kind, NewConsumer};
use crate::dispatch::offices::Seat;
use crate::dispatch::repeats::{RepeatKey, Repeatable};
use crate::dispatch::scopes::NoScope;
use crate::fact::{FactLog, ReturnPlace};
use crate::output::{LeasedRun, Reply};
use crate::state::hash;

const NO_REPEAT: &str = "a receive with this request id asked for another group, other topics or more messages: a repeat asks for the same, and every other receive has an id of its own";

impl Core {
    pub(super) fn receive(&mut self, ticket: Ticket, receive: Receive) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&receive.namespace)?;
        let group = self.group_of(namespace, &receive.group)?;
        if self.state.office(group).is_some() {
            let detail = format!(
                "group {} is exclusive: its messages go to the session that leads it, and a receive has none; attach a consumer, as `millpond work` does, or receive from another group",
                receive.group
            );
            return Err((Code::GroupExclusive, detail));
        }
        check_filter(&receive.filter)?;
        Core::check_lease(receive.lease)?;
        if receive.messages == 0 || receive.bytes == 0 {
            return Err((Code::ArgumentInvalid, "a receive asks for at least one message and one byte".into()));
        }
        let filter_hash = || hash::filter_hash(self.state.hash_key, &receive.filter);
        let repeat =
            receive.request.map(|request| Repeatable::new((namespace, request), group, filter_hash(), &receive));
        if let Some(repeat) = repeat {
            let first = self.dispatcher.repeats.waits(repeat.key);
            let leases = self.still_leased(repeat.key);
            let is_asked_for = |run: &LeasedRun| {
                run.receipt.group == group && receive.filter.admits(&run.topic) && !receive.at_most_once
            };
            let told: u64 = leases.iter().map(|run| u64::from(run.count)).sum();
            let is_like_first = first.is_none_or(|(_, first)| repeat.repeats(&first));
            if !(is_like_first && leases.iter().all(is_asked_for) && told <= receive.messages.into()) {
                return Err((Code::ArgumentInvalid, NO_REPEAT.into()));
            }
            if let Some((first, _)) = first {
                self.take_back(first);
            }
            if !leases.is_empty() {
                self.dispatcher.repeats.told_again(repeat);
                self.reply(ticket, Reply::Received(leases));
                return Ok(());
            }
        }
        let until = self.state.now.run + Millis(receive.wait.0.min(WAIT_MAX_MS));
        let new = NewConsumer {
            kind: Kind::Once { ticket, until, repeat },
            group,
            seat: Seat::Shared,
            filter: &receive.filter,
            messages: receive.messages.min(CREDIT_MESSAGES_MAX),
            bytes: receive.bytes,
            lease: receive.lease,
            at_most_once: receive.at_most_once,
        };
        self.dispatcher.add(new, &self.state).map(|_| ()).map_err(|why| self.no_scope(why))
    }

    /// Why nobody is served from what a filter asks for.
    pub(super) fn no_scope(&self, why: NoScope) -> Refusal {
        match why {
            NoScope::Prefixes => too_many_prefixes(),
            NoScope::Room => self.too_many_living(),
            NoScope::Share { held } => self.too_much_of_one(held),
        }
    }

    /// Those of the leases that a receive was told which are current.
    fn still_leased(&mut self, key: RepeatKey) -> Vec<LeasedRun> {
        let mut current = Vec::new();
        for run in self.dispatcher.repeats.told(key, self.state.now.run) {
            let slot = self.state.topics.by_number(run.receipt.topic, run.receipt.group);
            let Some(slot) = slot.filter(|_| !self.state.groups.is_over(run.receipt.group)) else { continue };
            let topic = &self.state.topics[slot];
            let mut index = 0;
            while index < run.count {
                let number = LeaseNumber(run.receipt.lease.0 + u64::from(index));
                let covering = topic.lease(number).map(|slot| &self.state.leases[slot as usize]);
                let covered = covering.map_or(0, |lease| lease.end().0.saturating_sub(number.0));
                let count = u32::try_from(covered).unwrap_or(u32::MAX).min(run.count - index);
                if let Some(lease) = covering.filter(|_| count > 0) {
                    // They may have been moved since they were told.
                    let mut lies =
                        topic.level(lease.priority).expect("a lease has a level").aside[&lease.first].run.clone();
                    lies.split_front((number.0 - lease.number.0) as u32);
                    current.push(run.part(index, count).lying_in(&lies.split_front(count)));
                }
                index += count.max(1);
            }
        }
        current
    }

    pub(super) fn withdraw_request(
        &mut self,
        namespace: &NamespaceName,
        (request, call): (RequestId, u64),
        log: &mut dyn FactLog,
    ) {
        let Some(namespace) = self.state.namespaces.number(namespace) else { return };
        let key = (namespace, request);
        if self.dispatcher.repeats.last_call(key) != Some(call) {
            return;
        }
        if let Some((receive, _)) = self.dispatcher.repeats.waits(key) {
            return self.take_back(receive);
        }
        for run in self.still_leased(key) {
            let slot = self.state.slot(run.receipt.topic, run.receipt.group);
            self.give_back(slot, run.receipt.lease, run.count, false, ReturnPlace::Head, log);
        }
    }

    /// A receive that waits is given nothing.
    fn take_back(&mut self, receive: Ticket) {
        self.withdraw(receive);
        self.reply(receive, Reply::Received(Vec::new()));
    }

    pub(super) fn withdraw(&mut self, receive: Ticket) {
        if let Some(slot) = self.dispatcher.receives.get(&receive) {
            self.dispatcher.remove(*slot);
        }
    }
}

pub(crate) fn check_filter(filter: &Filter) -> Result<(), Refusal> {
    if filter.size_is_valid() {
        return Ok(());
    }
    Err((Code::LimitExceeded, format!("a filter names from 1 to {FILTER_MAX} topics or prefixes")))
}

fn too_many_prefixes() -> Refusal {
    let detail = format!(
        "at most {PREFIXES_MAX} prefixes are in use in a group at a time, in at most {PREFIX_SETS_MAX} sets; ask for a set that is in use already, or for a list of topics"
    );
    (Code::LimitExceeded, detail)
}
