//! Deciding commands: each is looked at against the state, and what it changes becomes facts. One command a file.

mod bring;
pub(crate) mod coalesce;
pub(crate) mod dedup;
mod exchange;
mod finish;
mod forward;
mod group;
mod look;
mod moves;
mod namespace;
mod office;
pub(crate) mod overflow;
mod producer;
mod publish;
mod quota;
pub(crate) mod receive;
mod route;
mod runs;
mod session;
mod setup;
mod storing;
pub(crate) mod topics;

use alloc::format;
use alloc::string::String;

use millpond_types::limits::{LEASE_MAX, LEASE_MIN};
use millpond_types::{Code, GroupName, LeaseNumber, Millis, NamespaceName, Priority, Sequence, TopicName, TopicNumber};

use crate::Core;
use crate::command::{Command, DeadWhich, Ticket, TopicRef};
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber};
use crate::jobs::DeadVerb;
use crate::state::TopicSlot;
use crate::state::topic::Topic;

/// Why a command is refused.
pub(crate) type Refusal = (Code, String);

impl Core {
    pub(crate) fn decide(&mut self, ticket: Ticket, command: Command, log: &mut dyn FactLog) {
        let reply = match command {
            Command::Publish(publish) => self.publish(publish, log).map(Some),
            Command::Receive(receive) => self.receive(ticket, receive).map(|()| None),
            Command::Withdraw(of) => {
                self.withdraw(of);
                self.withdraw_job(of);
                Ok(None)
            }
            Command::WithdrawRequest { namespace, request, call } => {
                self.withdraw_request(&namespace, (request, call), log);
                Ok(None)
            }
            Command::Finish(finish) => self.finish(&finish, log),
            Command::Forward(forward) => self.forward(forward, log).map(Some),
            Command::Route(route) => self.route(route, log).map(Some),
            Command::SessionBegin(begin) => self.session_begin(begin, log).map(Some),
            Command::SessionLost(session) => {
                self.dispatcher.lose(session, &mut self.state);
                Ok(None)
            }
            Command::Heartbeat { session, except } => {
                self.heartbeat(session, &except, log);
                Ok(None)
            }
            Command::SessionEnd(session) => {
                self.session_end(ticket, session, log);
                Ok(None)
            }
            Command::Attach(attach) => self.attach(attach).map(Some),
            Command::Credit { session, consumer, messages, bytes } => {
                self.credit(session, consumer, messages, bytes);
                Ok(None)
            }
            Command::Detach { session, consumer } => self.detach(session, consumer, log).map(Some),
            Command::Resign { session, consumer } => self.resign(session, consumer, log).map(Some),
            Command::Depose { namespace, group } => self.depose(&namespace, &group, log).map(Some),
            Command::Look(look) => self.look(look).map(Some),
            Command::Cancel { topic, which } => self.cancel(&topic, which, log).map(Some),
            Command::Reschedule { topic, which, delay } => self.reschedule(&topic, which, delay, log).map(Some),
            Command::Pause { namespace, topics, lasts } => self.pause(&namespace, topics, lasts, log).map(Some),
            Command::Resume { namespace, topics } => self.resume(&namespace, topics, log).map(Some),
            Command::Forget { topic, dedup_hash } => self.forget(&topic, dedup_hash, log).map(Some),
            Command::Purge { namespace, filter, group } => {
                self.purge(ticket, &namespace, filter, group, log).map(|()| None)
            }
            Command::NamespaceSet { name, policy, rules, based_on } => {
                self.namespace_set((name, based_on), policy, rules, log).map(Some)
            }
            Command::NamespaceDelete(name) => self.namespace_delete(&name, log).map(Some),
            Command::GroupCreate { namespace, name, start, kind } => {
                self.group_create(&namespace, name, start, kind, log).map(Some)
            }
            Command::GroupDelete { namespace, name } => self.group_delete(&namespace, &name, log).map(Some),
            Command::ExchangeCreate { namespace, name, kind, unroutable } => {
                self.exchange_create(&namespace, name, (kind, unroutable), log).map(Some)
            }
            Command::ExchangeDelete { namespace, name } => self.exchange_delete(&namespace, name, log).map(Some),
            Command::Bind { namespace, exchange, binding } => self.bind(&namespace, exchange, &binding, log).map(Some),
            Command::Unbind { namespace, exchange, binding } => {
                self.unbind(&namespace, exchange, &binding, log).map(Some)
            }
            Command::Exchanges(namespace) => self.exchanges(&namespace).map(Some),
            Command::Bindings { namespace, exchange } => self.bindings(&namespace, &exchange).map(Some),
            Command::Namespaces { after } => Ok(Some(self.namespaces(after.as_ref(), log))),
            Command::Stats(name) => self.stats(&name, log).map(Some),
            Command::Topics { listing, group } => self.list(ticket, &listing, &group, log).map(|()| None),
            Command::Topic(topic) => self.topic(&topic).map(Some),
            Command::Top(top) => self.top(ticket, &top, log).map(|()| None),
            Command::DeadList { listing, group } => self.dead_list(ticket, &listing, &group, log).map(|()| None),
            Command::DeadLook { topic: TopicRef { namespace, name }, group, id } => {
                let (which, verb) = (DeadWhich::One(name, id), DeadVerb::list(1));
                self.dead_verb(ticket, &namespace, &group, which, verb, log).map(|()| None)
            }
            Command::DeadRedrive { namespace, group, which } => {
                self.dead_verb(ticket, &namespace, &group, which, DeadVerb::Redrive, log).map(|()| None)
            }
            Command::DeadPurge { namespace, group, which } => {
                self.dead_verb(ticket, &namespace, &group, which, DeadVerb::Purge, log).map(|()| None)
            }
            Command::Move(of) => Ok(Some(self.move_messages(&of, log))),
            Command::DeadMove(of) => Ok(Some(self.move_dead(of, log))),
        };
        match reply {
            Ok(Some(reply)) => self.reply(ticket, reply),
            Ok(None) => {}
            Err((code, detail)) => self.refuse(ticket, code, detail),
        }
    }

    pub(crate) fn namespace_of(&self, name: &NamespaceName) -> Result<NamespaceNumber, Refusal> {
        self.state.namespaces.number(name).ok_or_else(|| {
            (
                Code::NamespaceUnknown,
                format!("there is no namespace {name}; create it with `millpond namespace create {name}`"),
            )
        })
    }

    pub(crate) fn group_of(&self, namespace: NamespaceNumber, name: &GroupName) -> Result<GroupNumber, Refusal> {
        let mut groups = self.state.namespaces[namespace].groups.iter().copied();
        groups.find(|group| self.state.groups[*group].name == *name).ok_or_else(|| {
            (Code::GroupUnknown, format!("there is no group {name}; every namespace has the group `default`"))
        })
    }

    /// The group `default` of a namespace.
    pub(crate) fn default_group(&self, namespace: NamespaceNumber) -> GroupNumber {
        self.state.namespaces[namespace].groups[0]
    }

    /// The first of the topics of a name that hold something, in the order of their groups.
    pub(crate) fn topic_of(&self, topic: &TopicRef) -> Result<TopicSlot, Refusal> {
        let namespace = self.namespace_of(&topic.namespace)?;
        let mut groups = self.state.namespaces[namespace].groups.iter();
        let find = |group: &GroupNumber| {
            // One that is kept for its bucket, or for the start of its group, may be empty.
            let found = self.state.topics.find(*group, &topic.name);
            found.filter(|slot| !self.state.topics[*slot].is_empty())
        };
        groups.find_map(find).ok_or_else(|| {
            (
                Code::TopicUnknown,
                format!("nothing is left of a topic {}; a topic exists while it holds messages", topic.name),
            )
        })
    }

    /// The topic of a name in one group, or the first in the order of groups.
    pub(crate) fn topic_in(&self, topic: &TopicRef, group: Option<&GroupName>) -> Result<TopicSlot, Refusal> {
        let Some(name) = group else { return self.topic_of(topic) };
        let group = self.group_of(self.namespace_of(&topic.namespace)?, name)?;
        let found = self.state.topics.find(group, &topic.name);
        found.filter(|slot| !self.state.topics[*slot].is_empty()).ok_or_else(|| {
            let detail = format!(
                "nothing is left of a topic {} in group {name}; it exists there while it holds messages",
                topic.name
            );
            (Code::TopicUnknown, detail)
        })
    }

    /// The next sequence of a priority of a topic: behind all that any group knows of. One that is being deleted does not
    /// count: it hears of nothing any more, and its topic may be in memory or not.
    pub(crate) fn next_sequence(&self, topic: TopicNumber, priority: Priority) -> Sequence {
        let siblings = self.state.topics.siblings(topic).map(|slot| &self.state.topics[slot]);
        let alive = siblings.filter(|topic| !self.state.groups[topic.group].is_ending);
        let next = alive.map(|topic| topic.next(priority)).max();
        Sequence(next.unwrap_or_default().0.max(self.state.numbers.raised))
    }

    /// A length of a lease that was asked for.
    pub(crate) fn check_lease(lease: Option<Millis>) -> Result<(), Refusal> {
        match lease.filter(|lease| *lease < LEASE_MIN || *lease > LEASE_MAX) {
            None => Ok(()),
            Some(lease) => {
                let detail =
                    format!("a lease is from 100 ms to 12 h, not {} ms; it can be extended without end", lease.0);
                Err((Code::ArgumentInvalid, detail))
            }
        }
    }

    /// The topics of a name in all groups of a namespace, made where they are not there. Returns the first.
    pub(crate) fn topics_or_new(
        &mut self,
        namespace: NamespaceNumber,
        name: &TopicName,
        log: &mut dyn FactLog,
    ) -> TopicSlot {
        let slot = self.topic_or_new(self.default_group(namespace), name, log);
        for at in 1..self.state.namespaces[namespace].groups.len() {
            self.topic_or_new(self.state.namespaces[namespace].groups[at], name, log);
        }
        slot
    }

    /// A group's topic of a name, made where it is not there.
    pub(crate) fn topic_or_new(&mut self, group: GroupNumber, name: &TopicName, log: &mut dyn FactLog) -> TopicSlot {
        if let Some(slot) = self.state.topics.find(group, name) {
            return slot;
        }
        let namespace = self.state.groups[group].namespace;
        let floor = self.state.numbers.floor();
        // In all groups it is one topic, of one number, and its sequences go on where they are.
        let groups = self.state.namespaces[namespace].groups.iter();
        let other = groups.filter(|other| **other != group).find_map(|other| self.state.topics.find(*other, name));
        let other = other.map(|slot| &self.state.topics[slot]);
        let topic = other.map_or(TopicNumber(self.state.numbers.topic()), |other| other.number);
        let (lease, floor) = (LeaseNumber(floor), other.map_or(floor, Topic::next_of_all));
        let name = name.clone();
        self.commit(Fact::TopicCreated { topic, group, namespace, name, floor, lease }, log);
        self.state.slot(topic, group)
    }
}
