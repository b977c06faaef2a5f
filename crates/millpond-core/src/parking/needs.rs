//! What a command needs in memory before it can be decided, and what it takes there while it waits.

use alloc::vec::Vec;
use core::mem::size_of;

use millpond_types::{Filter, NamespaceName, ProducerId, TopicName};

use crate::command::{Command, DeadWhich, Listing, Look, Move, Publish, Top};
use crate::fact::NamespaceNumber;
use crate::state::State;

/// What a command needs before it can be decided.
pub(super) enum Needs {
    Names(NamespaceNumber, Vec<TopicName>, Option<ProducerId>),
    /// All topics that the filter admits.
    All(NamespaceNumber, Filter),
}

impl State {
    /// What a command needs; `None` if nothing that could be missing.
    pub(super) fn needs_of(&self, command: &Command) -> Option<Needs> {
        let one = |topic: &TopicName| Vec::from([topic.clone()]);
        let mut producer = None;
        let (namespace, names) = match command {
            Command::Publish(publish) => {
                let Publish { namespace, runs, .. } = publish;
                producer = publish.producer.map(|batch| batch.id);
                let mut names: Vec<TopicName> = runs.iter().map(|run| run.topic.clone()).collect();
                names.dedup();
                (namespace, names)
            }
            Command::Look(Look { topic, .. })
            | Command::Cancel { topic, .. }
            | Command::Reschedule { topic, .. }
            | Command::Forget { topic, .. }
            | Command::Topic(topic) => (&topic.namespace, one(&topic.name)),
            Command::Purge { namespace, filter: Filter::Topics(names) } => (namespace, names.clone()),
            Command::DeadRedrive { namespace, which: DeadWhich::One(topic, _), .. } => (namespace, one(topic)),
            Command::DeadRedrive { namespace, which: DeadWhich::Filter(filter), .. } => {
                (namespace, self.dead_names(namespace, filter))
            }
            Command::Purge { namespace, filter } => {
                return Some(Needs::All(self.namespaces.number(namespace)?, filter.clone()));
            }
            Command::Move(Move { namespace, name, .. }) => {
                return self.namespaces.get(*namespace).map(|_| Needs::Names(*namespace, one(name), None));
            }
            Command::Topics(Listing { namespace, .. }) | Command::Top(Top { namespace, .. }) => {
                return Some(Needs::All(self.namespaces.number(namespace)?, Filter::All));
            }
            // These touch no topic's contents, or only those of topics with leases, which are in memory.
            Command::Receive(_)
            | Command::Withdraw(_)
            | Command::Finish(_)
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::Heartbeat { .. }
            | Command::SessionEnd(_)
            | Command::Attach(_)
            | Command::Credit { .. }
            | Command::Detach { .. }
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::NamespaceSet { .. }
            | Command::NamespaceDelete(_)
            | Command::Namespaces
            | Command::Stats(_)
            | Command::DeadList { .. }
            | Command::DeadPurge { .. }
            | Command::DeadMove(_) => return None,
        };
        Some(Needs::Names(self.namespaces.number(namespace)?, names, producer))
    }

    /// The topics that a filter's dead letters came from.
    fn dead_names(&self, namespace: &NamespaceName, filter: &Filter) -> Vec<TopicName> {
        let Some(number) = self.namespaces.number(namespace) else { return Vec::new() };
        let dead = self.namespaces[number].dead_by_topic.iter();
        dead.map(|(_, topic, _)| topic).filter(|topic| filter.admits(topic)).cloned().collect()
    }
}

/// About how many bytes a parked command takes.
pub(super) fn bytes_of(command: &Command) -> usize {
    let held = match command {
        Command::Publish(publish) => {
            let runs = publish.runs.iter();
            runs.map(|run| {
                size_of_val(run) + run.topic.as_bytes().len() + run.block.len() + size_of_val(&run.dedup[..])
            })
            .sum()
        }
        Command::Move(Move { block, .. }) => block.len(),
        _ => 0,
    };
    size_of::<super::Parked>() + held
}
