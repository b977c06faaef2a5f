//! Sessions and their consumers: begin, heartbeat, end; attach, credit, detach.

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::CREDIT_MESSAGES_MAX;
use millpond_types::{Code, Receipt, SessionId};

use crate::Core;
use crate::command::{Attach, ReceiptRun, SessionBegin, Ticket};
use crate::decide::Refusal;
use crate::decide::receive::check_filter;
use crate::dispatch::consumer::{Kind, NewConsumer};
use crate::dispatch::offices::Seat;
use crate::fact::{Fact, FactLog};
use crate::left_behind::{LeaseRange, Why};
use crate::output::Reply;
use crate::state::topic::Left;

impl Core {
    pub(super) fn session_begin(&mut self, begin: SessionBegin, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        if !self.dispatcher.sessions.contains_key(&begin.session) {
            self.check_session()?;
        }
        let resumed = self.dispatcher.begin(begin.session, begin.resume, self.state.now.run);
        // What one before it under the same id left behind is none of its own.
        if resumed {
            self.leave_all_but(begin.session, &in_order(begin.held), log);
        }
        Ok(Reply::SessionBegun { resumed })
    }

    pub(super) fn session_end(&mut self, ticket: Ticket, session: SessionId, log: &mut dyn FactLog) {
        self.leave_behind(session, None, Why::Ended(ticket), log);
        self.session_over(session, log);
    }

    /// Nothing is left of a session but leases that others will get, by and by.
    pub(crate) fn session_over(&mut self, session: SessionId, log: &mut dyn FactLog) {
        self.dispatcher.drop_consumers(session);
        self.leave_offices(session, log);
        self.dispatcher.end(session);
    }

    /// The session extends its leases by being there, so only the exceptions are facts: nobody holds them any more.
    pub(super) fn heartbeat(&mut self, session: SessionId, except: &[Receipt], log: &mut dyn FactLog) {
        self.renew_offices(session);
        for receipt in except {
            let slot = self.state.topics.by_number(receipt.topic, receipt.group);
            let Some(topic) = slot.map(|slot| &self.state.topics[slot]) else { continue };
            let Some(lease) = topic.lease(receipt.lease).map(|slot| &self.state.leases[slot as usize]) else {
                continue;
            };
            if lease.end() <= receipt.lease || lease.holder != session || lease.left == Left::Over {
                continue;
            }
            let (duration, group) = (lease.duration, receipt.group);
            let deadline = self.let_go_until(group, duration);
            let fact = Fact::Extended {
                topic: receipt.topic,
                group,
                lease: receipt.lease,
                count: 1,
                holder: SessionId(0),
                duration,
                deadline,
            };
            self.commit(fact, log);
        }
    }

    pub(super) fn attach(&mut self, attach: Attach) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&attach.namespace)?;
        let group = self.group_of(namespace, &attach.group)?;
        check_filter(&attach.filter)?;
        Core::check_lease(attach.lease)?;
        if self.dispatcher.sessions.get(&attach.session).is_none_or(|session| session.lost.is_some()) {
            return Err((Code::SessionUnknown, "a consumer needs a session; begin one first".into()));
        }
        if self.dispatcher.attached(attach.session, attach.consumer).is_some() {
            let detail = format!("consumer {} is attached in this session already; detach it first", attach.consumer);
            return Err((Code::ConsumerExists, detail));
        }
        let seat = if self.state.office(group).is_some() { Seat::New } else { Seat::Shared };
        let new = NewConsumer {
            kind: Kind::Attached { session: attach.session, number: attach.consumer },
            group,
            seat,
            filter: &attach.filter,
            messages: attach.messages.min(CREDIT_MESSAGES_MAX),
            bytes: attach.bytes,
            lease: attach.lease,
            at_most_once: attach.at_most_once,
        };
        self.dispatcher.add(new, &self.state).map_err(|why| self.no_scope(why))?;
        self.heard_in(attach.session, group);
        Ok(Reply::Done)
    }

    pub(super) fn credit(&mut self, session: SessionId, number: u32, messages: u32, bytes: u64) {
        let Some(slot) = self.dispatcher.attached(session, number) else { return };
        let consumer = &mut self.dispatcher.consumers[slot as usize];
        consumer.messages = consumer.messages.saturating_add(messages).min(CREDIT_MESSAGES_MAX);
        consumer.bytes = consumer.bytes.saturating_add_unsigned(bytes);
        self.dispatcher.feed(slot);
    }

    pub(super) fn detach(&mut self, session: SessionId, number: u32, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let slot = self.dispatcher.attached(session, number).ok_or_else(|| consumer_unknown(number))?;
        let consumer = self.dispatcher.remove(slot);
        if consumer.seat != Seat::Shared {
            self.leave_office_without_seat(session, consumer.group, log);
        }
        Ok(Reply::Done)
    }
}

pub(super) fn consumer_unknown(number: u32) -> Refusal {
    (Code::ConsumerUnknown, format!("no consumer {number} is attached in this session"))
}

/// Receipts in order, those that overlap or meet as one: per run its topic, its first lease and the one behind its last.
fn in_order(held: Vec<ReceiptRun>) -> Vec<LeaseRange> {
    let of = |first: Receipt| (first.topic, first.group);
    let mut runs: Vec<_> = held.iter().map(|run| (of(run.first), run.first.lease, run.end())).collect();
    runs.sort_unstable();
    runs.dedup_by(|run, before| {
        let is_one = run.0 == before.0 && run.1 <= before.2;
        if is_one {
            before.2 = before.2.max(run.2);
        }
        is_one
    });
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_types::{LeaseNumber, TopicNumber};

    #[test]
    fn receipts_that_overlap_or_meet_are_one() {
        let run = |first, count| ReceiptRun {
            first: Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(first) },
            count,
        };
        let in_order = |held: &[ReceiptRun]| -> Vec<(u64, u64)> {
            in_order(held.to_vec()).into_iter().map(|(_, from, to)| (from.0, to.0)).collect()
        };
        assert_eq!(in_order(&[run(15, 2), run(11, 1), run(16, 2), run(30, 5)]), [(11, 12), (15, 18), (30, 35)]);
        assert_eq!(in_order(&[run(12, 3), run(10, 2)]), [(10, 15)]);
    }
}
