//! Who asks for messages: which group, which topics, and how; so that a lease can be told whose it is.

use std::collections::BTreeMap;

use millpond_core::command::{Attach, Command, Receive, Ticket};
use millpond_core::fact::GroupNumber;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{Filter, GroupName, NamespaceName, SessionId};

use crate::model::Model;

/// One who asks.
#[derive(Clone)]
pub struct Seat {
    /// The group.
    pub group: GroupNumber,
    /// Which topics.
    pub filter: Filter,
    /// Whether messages end as they are delivered.
    pub at_most_once: bool,
}

/// See the module.
#[derive(Default)]
pub struct Seats {
    attached: BTreeMap<(SessionId, u32), Seat>,
    receiving: BTreeMap<Ticket, Seat>,
}

impl Seats {
    /// A command was decided, and this is the answer if there is one yet.
    pub fn decided(&mut self, ticket: Ticket, command: &Command, reply: Option<&Reply>, model: &Model) {
        match (command, reply) {
            (Command::Attach(attach), Some(Reply::Done)) => {
                let Attach { session, consumer, namespace, group, filter, at_most_once, .. } = attach;
                if let Some(seat) = seat(model, namespace, group, filter, *at_most_once) {
                    self.attached.insert((*session, *consumer), seat);
                }
            }
            (Command::Receive(Receive { namespace, group, filter, at_most_once, .. }), None) => {
                if let Some(seat) = seat(model, namespace, group, filter, *at_most_once) {
                    self.receiving.insert(ticket, seat);
                }
            }
            _ => {}
        }
    }

    /// What was leased to whom in this turn. A repeat of an answer is not among it.
    pub fn given<'a>(&self, outputs: &'a [Output]) -> Vec<(Seat, &'a LeasedRun)> {
        let mut given = Vec::new();
        for output in outputs {
            let (seat, leases) = match output {
                Output::Delivery { session, consumer, leases, .. } => {
                    (self.attached.get(&(*session, *consumer)), leases)
                }
                Output::Reply { ticket, reply: Reply::Received(leases) } => (self.receiving.get(ticket), leases),
                _ => continue,
            };
            if let Some(seat) = seat {
                given.extend(leases.iter().map(|run| (seat.clone(), run)));
            }
        }
        given
    }

    /// Receives that were answered are over.
    pub fn answered(&mut self, outputs: &[Output]) {
        for output in outputs {
            if let Output::Reply { ticket, .. } = output {
                self.receiving.remove(ticket);
            }
        }
    }
}

fn seat(
    model: &Model,
    namespace: &NamespaceName,
    group: &GroupName,
    filter: &Filter,
    at_most_once: bool,
) -> Option<Seat> {
    let namespace = model.namespace(namespace)?;
    let group = model.groups_of(namespace).find(|number| model.groups[number].name == *group)?;
    Some(Seat { group, filter: filter.clone(), at_most_once })
}
