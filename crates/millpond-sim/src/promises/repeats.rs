//! Receives that are asked for again: within their time a repeat is told the same leases, those that are current, and takes
//! the place of one that still waits. One that asks for something else is refused, and nothing is taken back with a call that was
//! repeated since.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Receive, Ticket};
use millpond_core::fact::GroupNumber;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::limits::RECEIVE_REPEAT;
use millpond_types::{Code, LeaseNumber, NamespaceName, Receipt, RequestId, RunTime};

use super::Kept;
use super::seats::group_of;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

type Request = (NamespaceName, RequestId);

/// See the module.
#[derive(Default)]
pub struct Repeats {
    /// Those that wait, and of which group.
    waiting: BTreeMap<Ticket, (Request, Option<GroupNumber>, Receive)>,
    /// When, to which call, and what.
    told: BTreeMap<Request, (RunTime, u64, Vec<LeasedRun>)>,
    /// What the command that is being decided is to be told.
    due: BTreeSet<Receipt>,
    /// Whether it asks for something else than what was asked for under its id.
    is_unlike: bool,
}

impl Repeats {
    /// A command is about to be decided.
    pub fn asks(&mut self, command: &Command, model: &Model, now: RunTime) {
        self.due.clear();
        let Some(request) = request(command) else { return };
        let told = self.told.get(&request).filter(|(at, ..)| *at + RECEIVE_REPEAT > now);
        let leases = told.into_iter().flat_map(|(.., leases)| leases).flat_map(receipts);
        self.due.extend(leases.filter(|receipt| is_current(model, *receipt)));
        if let Command::Receive(receive) = command {
            let group = group_of(model, &receive.namespace, &receive.group);
            let is_unlike = |(of, waiting, first): &(Request, Option<GroupNumber>, Receive)| {
                let is_the_same = *waiting == group && first.filter == receive.filter;
                *of == request && !(is_the_same && first.messages <= receive.messages)
            };
            let is_asked_for = |receipt: &Receipt| {
                let name = &model.topics[&(receipt.group, receipt.topic)].name;
                Some(receipt.group) == group && receive.filter.admits(name)
            };
            let is_of_due = self.due.iter().all(is_asked_for) && self.due.len() <= receive.messages as usize;
            self.is_unlike = self.waiting.values().any(is_unlike) || !is_of_due;
        }
    }

    /// It was decided.
    pub fn decided(
        &mut self,
        ticket: Ticket,
        command: &Command,
        reply: Option<&Reply>,
        model: &Model,
        sights: &mut Sights,
    ) -> Kept {
        let Some(request) = request(command) else { return Ok(()) };
        let is_refused = matches!(reply, Some(Reply::Refused { code: Code::ArgumentInvalid, .. }));
        match (command, reply) {
            // A group may be gone, and is not asked then.
            (Command::Receive(_), Some(Reply::Refused { .. })) if !is_refused => {}
            (Command::Receive(_), _) if is_refused != self.is_unlike => {
                let like = if self.is_unlike { "something else" } else { "the same" };
                return Err(Violation::repeats(format!("{request:?} asks for {like}, and is told {reply:?}")));
            }
            (Command::Receive(_), Some(Reply::Refused { .. })) => sights.saw("repeats for something else refused"),
            (Command::Receive(receive), Some(Reply::Received(leases))) => {
                self.waiting.retain(|_, (of, ..)| *of != request);
                if let Some((_, call, _)) = self.told.get_mut(&request) {
                    *call = receive.call;
                }
                let told: BTreeSet<Receipt> = leases.iter().flat_map(receipts).collect();
                if told != self.due {
                    let what =
                        format!("{request:?} is told {told:?}, and {:?} are current of its first answer", self.due);
                    return Err(Violation::repeats(what));
                }
                sights.saw_many("leases told again", told.len() as u64);
            }
            (Command::Receive(_), _) if !self.due.is_empty() => {
                let what = format!("{request:?} is not told {:?}, which it was told before", self.due);
                return Err(Violation::repeats(what));
            }
            (Command::Receive(receive), None) => {
                self.waiting.retain(|_, (of, ..)| *of != request);
                let group = group_of(model, &receive.namespace, &receive.group);
                self.waiting.insert(ticket, (request, group, receive.clone()));
            }
            (Command::WithdrawRequest { call, .. }, _) if self.last_call(&request) != Some(*call) => {
                sights.saw_many("calls withdrawn that were repeated since", self.last_call(&request).is_some().into());
                if let Some(gone) = self.due.iter().find(|receipt| !is_current(model, **receipt)) {
                    return Err(Violation::repeats(format!("{request:?} goes on, and {gone} went with call {call}")));
                }
            }
            (Command::WithdrawRequest { .. }, _) => {
                self.waiting.retain(|_, (of, ..)| *of != request);
                sights.saw_many("leases taken back", self.due.len() as u64);
                if let Some(left) = self.due.iter().find(|receipt| is_current(model, **receipt)) {
                    return Err(Violation::repeats(format!("{request:?} is withdrawn, and {left} is current")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A turn has made these outputs: receives were answered.
    pub fn made(&mut self, outputs: &[Output], now: RunTime) {
        for output in outputs {
            if let Output::Reply { ticket, reply } = output
                && let Some((request, _, receive)) = self.waiting.remove(ticket)
                && let Reply::Received(leases) = reply
                && !leases.is_empty()
            {
                self.told.insert(request, (now, receive.call, leases.clone()));
            }
        }
    }

    /// The last call that waits or was told leases.
    fn last_call(&self, request: &Request) -> Option<u64> {
        let waits = self.waiting.values().find(|(of, ..)| of == request).map(|(.., receive)| receive.call);
        waits.or_else(|| self.told.get(request).map(|(_, call, _)| *call))
    }
}

fn request(command: &Command) -> Option<Request> {
    match command {
        Command::Receive(Receive { namespace, request, at_most_once: false, .. }) => {
            Some((namespace.clone(), (*request)?))
        }
        Command::WithdrawRequest { namespace, request, .. } => Some((namespace.clone(), *request)),
        _ => None,
    }
}

fn receipts(run: &LeasedRun) -> impl Iterator<Item = Receipt> {
    let first = run.receipt;
    (0..u64::from(run.count)).map(move |at| Receipt { lease: LeaseNumber(first.lease.0 + at), ..first })
}

/// With a group all of its leases are over, though their end has still to come to them.
fn is_current(model: &Model, receipt: Receipt) -> bool {
    let topic = model.topics.get(&(receipt.group, receipt.topic));
    let is_there = model.groups.get(&receipt.group).is_some_and(|group| !group.is_ending);
    is_there && topic.is_some_and(|topic| topic.leases.contains_key(&receipt.lease))
}
