//! Commands in buffers of their own. What a command was read from is mostly much larger than what it holds of it, and stays for
//! as long as any of that does: so what waits is copied where the rest would be more than it is worth.

use bytes::{Bytes, BytesMut};
use millpond_types::{Filter, GroupName, NamespaceName, TopicName};

use super::{Command, DeadWhich, FinishVerb, Forward, Listing, Publish, Route, TopicRef};

impl Command {
    /// Bytes of the buffer that a message or a verb on receipts was read from, which it shares with it.
    pub fn shared_bytes(&self) -> usize {
        match self {
            Command::Publish(publish) | Command::Forward(Forward { publish, .. }) => {
                publish.runs.iter().map(|run| run.block.len() + run.topic.as_bytes().len()).sum()
            }
            Command::Route(Route { message, .. }) => message.block.len(),
            Command::Finish(finish) => match &finish.verb {
                FinishVerb::Fail { reason, .. } | FinishVerb::Reject { reason } => reason.len(),
                FinishVerb::Ack | FinishVerb::Release { .. } | FinishVerb::Damaged | FinishVerb::Extend { .. } => 0,
            },
            _ => 0,
        }
    }

    /// Copies all that is a part of a larger buffer.
    pub fn detach(&mut self) {
        match self {
            Command::Publish(publish) | Command::Forward(Forward { publish, .. }) => publish.detach(),
            Command::Route(route) => route.detach(),
            Command::Finish(finish) => {
                finish.namespace = finish.namespace.as_ref().map(NamespaceName::detach);
                if let FinishVerb::Fail { reason, .. } | FinishVerb::Reject { reason } = &mut finish.verb {
                    copy(reason);
                }
            }
            Command::Receive(receive) => {
                named(&mut receive.namespace, &mut receive.group);
                filter(&mut receive.filter);
            }
            Command::Attach(attach) => {
                named(&mut attach.namespace, &mut attach.group);
                filter(&mut attach.filter);
            }
            Command::Look(look) => {
                look.topic.detach();
                look.group = look.group.as_ref().map(GroupName::detach);
            }
            Command::Cancel { topic, .. }
            | Command::Reschedule { topic, .. }
            | Command::Forget { topic, .. }
            | Command::Topic(topic) => topic.detach(),
            Command::Pause { namespace, topics, .. } | Command::Resume { namespace, topics } => {
                *namespace = namespace.detach();
                *topics = topics.detach();
            }
            Command::DeadLook { topic, group, .. } => {
                topic.detach();
                *group = group.detach();
            }
            Command::Purge { namespace, filter: of, group } => {
                *namespace = namespace.detach();
                *group = group.as_ref().map(GroupName::detach);
                filter(of);
            }
            Command::NamespaceSet { name, rules, .. } => {
                *name = name.detach();
                *rules = core::mem::take(rules).detach();
            }
            Command::GroupCreate { namespace, name, .. }
            | Command::GroupDelete { namespace, name }
            | Command::Depose { namespace, group: name } => named(namespace, name),
            Command::ExchangeCreate { namespace, name: exchange, .. }
            | Command::ExchangeDelete { namespace, name: exchange }
            | Command::Bindings { namespace, exchange } => {
                (*namespace, *exchange) = (namespace.detach(), exchange.detach());
            }
            Command::Bind { namespace, exchange, binding } | Command::Unbind { namespace, exchange, binding } => {
                (*namespace, *exchange) = (namespace.detach(), exchange.detach());
                *binding = binding.detach();
            }
            Command::NamespaceDelete(name)
            | Command::Exchanges(name)
            | Command::Stats(name)
            | Command::WithdrawRequest { namespace: name, .. } => *name = name.detach(),
            Command::Namespaces { after } => *after = after.as_ref().map(NamespaceName::detach),
            Command::Topics { listing, group } | Command::DeadList { listing, group } => {
                let Listing { namespace, prefix, after, .. } = listing;
                named(namespace, group);
                [prefix, after].into_iter().for_each(copy);
            }
            Command::Top(top) => {
                named(&mut top.namespace, &mut top.group);
                copy(&mut top.prefix);
            }
            Command::DeadRedrive { namespace, group, which } | Command::DeadPurge { namespace, group, which } => {
                named(namespace, group);
                match which {
                    DeadWhich::One(topic, _) => *topic = topic.detach(),
                    DeadWhich::Filter(of) | DeadWhich::First(of, _) => filter(of),
                }
            }
            // These hold nothing of the kind, or what the shell has read for them alone.
            Command::Withdraw(_)
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::SessionEnd(_)
            | Command::Heartbeat { .. }
            | Command::Credit { .. }
            | Command::Detach { .. }
            | Command::Resign { .. }
            | Command::Move(_)
            | Command::DeadMove(_) => {}
        }
    }
}

impl Publish {
    fn detach(&mut self) {
        self.namespace = self.namespace.detach();
        let mut own = BytesMut::with_capacity(self.runs.iter().map(|run| run.block.len()).sum());
        self.runs.iter().for_each(|run| own.extend_from_slice(&run.block));
        let mut own = own.freeze();
        for run in &mut self.runs {
            run.topic = run.topic.detach();
            run.block = own.split_to(run.block.len());
        }
    }
}

impl Route {
    /// The copies share the message, and the names of their topics are the bindings'.
    fn detach(&mut self) {
        copy(&mut self.message.block);
        self.publish.runs.iter_mut().for_each(|run| run.block = self.message.block.clone());
        self.publish.namespace = self.publish.namespace.detach();
        (self.exchange, self.key) = (self.exchange.detach(), self.key.detach());
    }
}

impl TopicRef {
    fn detach(&mut self) {
        (self.namespace, self.name) = (self.namespace.detach(), self.name.detach());
    }
}

fn named(namespace: &mut NamespaceName, group: &mut GroupName) {
    (*namespace, *group) = (namespace.detach(), group.detach());
}

fn filter(filter: &mut Filter) {
    match filter {
        Filter::All => {}
        Filter::Topics(names) | Filter::Prefixes(names) => {
            names.iter_mut().for_each(|name| *name = TopicName::detach(name))
        }
    }
}

fn copy(bytes: &mut Bytes) {
    *bytes = Bytes::copy_from_slice(bytes);
}
