//! Receives that are asked for again: within their time a repeat is told the same leases, those that are current, and takes
//! the place of one that still waits.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Receive, Ticket};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::limits::RECEIVE_REPEAT;
use millpond_types::{LeaseNumber, NamespaceName, Receipt, RequestId, RunTime};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

type Request = (NamespaceName, RequestId);

/// See the module.
#[derive(Default)]
pub struct Repeats {
    waiting: BTreeMap<Ticket, Request>,
    told: BTreeMap<Request, (RunTime, Vec<LeasedRun>)>,
    /// What the command that is being decided is to be told.
    due: BTreeSet<Receipt>,
}

impl Repeats {
    /// A command is about to be decided.
    pub fn asks(&mut self, ticket: Ticket, command: &Command, model: &Model, now: RunTime) {
        self.due.clear();
        let Some(request) = request(command) else { return };
        let told = self.told.get(&request).filter(|(at, _)| *at + RECEIVE_REPEAT > now);
        let leases = told.into_iter().flat_map(|(_, leases)| leases).flat_map(receipts);
        self.due.extend(leases.filter(|receipt| is_current(model, *receipt)));
        if matches!(command, Command::Receive(_)) {
            self.waiting.insert(ticket, request);
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
        let Some((_, request)) = request(command) else { return Ok(()) };
        match (command, reply) {
            (Command::Receive(_), Some(Reply::Refused { .. })) => _ = self.waiting.remove(&ticket),
            (Command::Receive(_), Some(Reply::Received(leases))) => {
                self.waiting.remove(&ticket);
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
            (Command::WithdrawRequest { .. }, _) => {
                sights.saw_many("leases taken back", self.due.len() as u64);
                if let Some(left) = self.due.iter().find(|receipt| is_current(model, **receipt)) {
                    return Err(Violation::repeats(format!("{request:?} is withdrawn, and {left} is current")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Receives were answered.
    pub fn dispatched(&mut self, outputs: &[Output], now: RunTime) {
        for output in outputs {
            if let Output::Reply { ticket, reply: Reply::Received(leases) } = output
                && let Some(request) = self.waiting.remove(ticket)
                && !leases.is_empty()
            {
                self.told.insert(request, (now, leases.clone()));
            }
        }
    }
}

fn request(command: &Command) -> Option<Request> {
    match command {
        Command::Receive(Receive { namespace, request, at_most_once: false, .. }) => {
            Some((namespace.clone(), (*request)?))
        }
        Command::WithdrawRequest { namespace, request } => Some((namespace.clone(), *request)),
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
