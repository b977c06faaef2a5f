//! Who asks for messages: which group, which topics, and how; so that a lease can be told whose it is.

use std::collections::BTreeMap;

use millpond_core::command::{Attach, Command, Receive, Ticket};
use millpond_core::fact::GroupNumber;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{Filter, GroupName, Millis, NamespaceName, RequestId, SessionId};

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
    /// Its session; zero for a receive.
    pub holder: SessionId,
    /// How long leases are to last, if it says.
    pub lease: Option<Millis>,
    /// What a receive may be asked for again by, and which call it is.
    request: Option<(NamespaceName, RequestId, u64)>,
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
                let Attach { session, consumer, namespace, group, filter, lease, at_most_once, .. } = attach;
                if let Some(group) = group_of(model, namespace, group) {
                    let (filter, at_most_once, holder) = (filter.clone(), *at_most_once, *session);
                    let seat = Seat { group, filter, at_most_once, holder, lease: *lease, request: None };
                    self.attached.insert((*session, *consumer), seat);
                }
            }
            (Command::Receive(receive), None) => {
                let Receive { namespace, group, filter, lease, at_most_once, request, call, .. } = receive;
                if let Some(group) = group_of(model, namespace, group) {
                    let request = request.map(|request| (namespace.clone(), request, *call));
                    let (filter, at_most_once, holder) = (filter.clone(), *at_most_once, SessionId(0));
                    self.receiving.insert(ticket, Seat { group, filter, at_most_once, holder, lease: *lease, request });
                }
            }
            (Command::Withdraw(ticket), _) => _ = self.receiving.remove(ticket),
            (Command::WithdrawRequest { namespace, request, call }, _) => {
                let withdrawn = Some((namespace.clone(), *request, *call));
                self.receiving.retain(|_, seat| seat.request != withdrawn);
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

    /// Receives that wait.
    pub fn receiving(&self) -> impl Iterator<Item = &Seat> {
        self.receiving.values()
    }

    /// The consumer of a session with a number.
    pub fn attached(&self, of: (SessionId, u32)) -> Option<&Seat> {
        self.attached.get(&of)
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

/// The group of a name, if it is there and not being deleted.
pub fn group_of(model: &Model, namespace: &NamespaceName, group: &GroupName) -> Option<GroupNumber> {
    let namespace = model.namespace(namespace)?;
    model.groups_of(namespace).find(|number| model.groups[number].name == *group)
}
