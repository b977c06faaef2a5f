//! What a command needs in memory before it can be decided, and what it takes there while it waits.

use alloc::vec::Vec;
use core::mem::size_of;

use millpond_types::TopicName;
use millpond_types::limits::PUBLISH_PLACES_MAX;

use super::{Gate, Parked};
use crate::command::{Command, DeadMove, Forward, Look, Move, Publish, PublishRun, Route, TopicRef};
use crate::state::State;
use crate::state::topic::Topic;
use crate::store::KeyBytes;

impl State {
    /// The gates that a command has to pass, some of them more than once; `None` if it needs nothing that could be missing.
    pub(super) fn gates_of(&self, command: &Command) -> Option<Vec<Gate>> {
        let one = |topic: &TopicName| Vec::from([topic.clone()]);
        let mut producer = None;
        let (namespace, names) = match command {
            Command::Publish(publish)
            | Command::Forward(Forward { publish, .. })
            | Command::Route(Route { publish, .. }) => {
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
            Command::DeadMove(DeadMove { namespace, .. }) => {
                return self.namespaces.get(*namespace).map(|_| Vec::new());
            }
            Command::Move(Move { group, name, .. }) => {
                let group = self.groups.get(*group)?;
                return Some(Vec::from([Gate::Topic(group.namespace, name.clone())]));
            }
            // These touch no topic's contents, or only those of topics with leases, which are in memory; or they go on
            // for as long as it takes, and load what they come to.
            Command::Receive(_)
            | Command::Withdraw(_)
            | Command::WithdrawRequest { .. }
            | Command::Finish(_)
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::Heartbeat { .. }
            | Command::SessionEnd(_)
            | Command::Attach(_)
            | Command::Credit { .. }
            | Command::Detach { .. }
            | Command::Resign { .. }
            | Command::Depose { .. }
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::NamespaceSet { .. }
            | Command::NamespaceDelete(_)
            | Command::GroupCreate { .. }
            | Command::GroupDelete { .. }
            | Command::ExchangeCreate { .. }
            | Command::ExchangeDelete { .. }
            | Command::Bind { .. }
            | Command::Unbind { .. }
            | Command::Exchanges(_)
            | Command::Bindings { .. }
            | Command::Namespaces { .. }
            | Command::Stats(_)
            | Command::Topics { .. }
            | Command::Top(_)
            | Command::Purge { .. }
            | Command::DeadList { .. }
            | Command::DeadLook { .. }
            | Command::DeadRedrive { .. }
            | Command::DeadPurge { .. } => return None,
        };
        let namespace = self.namespaces.number(namespace)?;
        let topics = names.into_iter().map(|name| Gate::Topic(namespace, name));
        Some(topics.chain(producer.map(|id| Gate::Producer(namespace, id))).collect())
    }
}

impl State {
    /// About how many bytes the places of a publish will take that is decided, but for those of one group: these are no more than
    /// its topics, and there may be sixty times as many. So few of such are parked at a time, for all of them may be decided
    /// in the turn in which what they wait for comes.
    pub(super) fn places_of(&self, command: &Command) -> usize {
        let (Command::Publish(publish)
        | Command::Forward(Forward { publish, .. })
        | Command::Route(Route { publish, .. })) = command
        else {
            return 0;
        };
        let groups = self.namespaces.number(&publish.namespace).map_or(0, |of| self.namespaces[of].groups.len());
        publish.runs.len().saturating_mul(groups.saturating_sub(1)).min(PUBLISH_PLACES_MAX) * size_of::<Topic>()
    }
}

/// About how many bytes a parked command takes, beside its gates.
pub(super) fn bytes_of(command: &Command) -> usize {
    size_of::<Parked>() + held(command)
}

/// About how many bytes the keys of entries take that are waited for.
pub(super) fn bytes_of_keys<'a>(keys: impl Iterator<Item = &'a KeyBytes>) -> usize {
    keys.map(|key| KEY_COPIES * (size_of::<KeyBytes>() + key.len()) + size_of::<Gate>()).sum()
}

/// A key is with its gate or its command, by itself with who waits for it, among what was asked for, and on its way.
const KEY_COPIES: usize = 4;

/// What a command that may be parked holds beside itself.
fn held(command: &Command) -> usize {
    let named = |topic: &TopicRef| topic.namespace.as_bytes().len() + topic.name.as_bytes().len();
    match command {
        Command::Publish(publish) => published(publish),
        Command::Forward(Forward { receipts, publish }) => size_of_val(&receipts[..]) + published(publish),
        Command::Route(Route { receipts, publish, exchange, key, message, refusal, .. }) => {
            // The copies share the message.
            let shared = publish.runs.iter().map(|run| run.block.len()).sum::<usize>();
            let names = exchange.as_bytes().len() + key.as_str().len();
            let refused = refusal.as_ref().map_or(0, |(_, detail)| detail.len());
            let acked = receipts.as_ref().map_or(0, |receipts| size_of_val(&receipts[..]));
            acked + published(publish) - shared + message.block.len() + names + refused
        }
        Command::Look(Look { topic, group, .. }) => {
            named(topic) + group.as_ref().map_or(0, |group| group.as_bytes().len())
        }
        Command::Cancel { topic, .. }
        | Command::Reschedule { topic, .. }
        | Command::Forget { topic, .. }
        | Command::Topic(topic) => named(topic),
        Command::Move(Move { name, block, sizes, .. }) => name.as_bytes().len() + block.len() + sizes.held_bytes(),
        Command::DeadMove(DeadMove { topic, block, .. }) => topic.as_bytes().len() + block.len(),
        other => unreachable!("a command that needs nothing is not parked: {other:?}"),
    }
}

fn published(Publish { namespace, runs, .. }: &Publish) -> usize {
    namespace.as_bytes().len() + runs.iter().map(PublishRun::held_bytes).sum::<usize>()
}
