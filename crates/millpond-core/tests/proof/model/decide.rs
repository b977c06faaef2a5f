//! Commands, each answered in words: one a message, one a receipt, or one in all.

use millpond_core::command::*;
use millpond_core::fact::GroupNumber;
use millpond_types::{Coalesce, Code, Filter, GroupName, MessageId, Millis, Receipt, TopicName};

use super::coalesce::is_later;
use super::finish::each;
use super::{Consumer, Key, Message, Model, Place, Session, State, Who};

impl Model {
    /// What the core must answer; nothing where it is silent or answers later.
    pub fn decide(&mut self, ticket: Ticket, command: &Command) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match command {
            Command::Publish(publish) => {
                self.expire_waiting_of(&publish.runs);
                publish.runs.iter().flat_map(|run| self.publish(run, false)).collect()
            }
            Command::Receive(receive) => {
                let Ok(group) = self.group(&receive.group) else { return one(Code::GroupUnknown.name()) };
                let who = Who::Once { ticket: ticket.0, until: self.run + receive.wait.0 };
                let credit = (receive.messages, receive.bytes);
                self.consume((who, group), &receive.filter, credit, receive.lease, receive.at_most_once);
                Vec::new()
            }
            Command::Withdraw(Ticket(gone)) => {
                self.consumers.retain(|c| !matches!(c.who, Who::Once { ticket, .. } if ticket == *gone));
                Vec::new()
            }
            Command::Finish(finish) => self.finish(finish),
            Command::Forward(forward) => self.forward(forward),
            Command::SessionBegin(begin) => self.begin(begin),
            Command::SessionLost(session) => {
                self.detach_all(session.0);
                let (run, grace) = (self.run, self.grace);
                if let Some(session) = self.sessions.get_mut(&session.0).filter(|session| session.lost.is_none()) {
                    session.lost = Some((run + session.resume).max(grace));
                }
                Vec::new()
            }
            Command::Heartbeat { session, except } => {
                for receipt in except {
                    let Some((place, key)) = self.leased(*receipt) else { continue };
                    if let State::Leased { holder, duration, .. } = self.message(&place, key).state
                        && holder == session.0
                    {
                        self.extend(&place, key, duration, |_| 0);
                    }
                }
                Vec::new()
            }
            Command::SessionEnd(session) => {
                self.detach_all(session.0);
                self.sessions.remove(&session.0);
                self.release_all(self.held_by(session.0));
                one("ok")
            }
            Command::Attach(attach) => {
                let who = Who::Attached { session: attach.session.0, consumer: attach.consumer };
                let Ok(group) = self.group(&attach.group) else { return one(Code::GroupUnknown.name()) };
                if self.sessions.get(&attach.session.0).is_none_or(|session| session.lost.is_some()) {
                    return one(Code::SessionUnknown.name());
                }
                if self.consumers.iter().any(|consumer| consumer.who == who) {
                    return one(Code::ConsumerExists.name());
                }
                let credit = (attach.messages, attach.bytes);
                self.consume((who, group), &attach.filter, credit, attach.lease, attach.at_most_once);
                one("ok")
            }
            Command::Credit { session, consumer, messages, bytes } => {
                let who = Who::Attached { session: session.0, consumer: *consumer };
                for consumer in self.consumers.iter_mut().filter(|consumer| consumer.who == who) {
                    consumer.messages += u64::from(*messages);
                    consumer.bytes = consumer.bytes.saturating_add_unsigned(*bytes);
                }
                Vec::new()
            }
            Command::Detach { session, consumer } => {
                let (who, before) = (Who::Attached { session: session.0, consumer: *consumer }, self.consumers.len());
                self.consumers.retain(|consumer| consumer.who != who);
                one(if self.consumers.len() < before { "ok" } else { Code::ConsumerUnknown.name() })
            }
            Command::Cancel { topic, which } => match self.movable(&topic.name, *which) {
                Err(code) => one(code.name()),
                Ok((places, key)) => {
                    let id = self.id(&places[0], key);
                    places.iter().for_each(|place| _ = self.take(place, key));
                    self.dedup.retain(|_, (of, _)| *of != id);
                    one("ok")
                }
            },
            Command::Reschedule { topic, which, delay } => match self.movable(&topic.name, *which) {
                Err(code) => one(code.name()),
                Ok((places, key)) => {
                    let due = self.wall + delay.0;
                    if delay.0 > 0 && self.message(&places[0], key).expires.is_some_and(|at| at <= due) {
                        return one(Code::ArgumentInvalid.name());
                    }
                    for place in &places {
                        let message = self.message(place, key);
                        (message.state, message.since) = (State::Delayed(due), due);
                    }
                    one("ok")
                }
            },
            Command::Pause { lasts: Some(Millis(0)), .. } => one(Code::ArgumentInvalid.name()),
            Command::Pause { topics, lasts, .. } => {
                let until = lasts.map_or(u64::MAX, |lasts| self.wall + lasts.0);
                self.paused.insert(topics.clone(), until);
                one("ok")
            }
            Command::Resume { topics, .. } => {
                self.paused.remove(topics);
                one("ok")
            }
            Command::Forget { dedup_hash, .. } => {
                let known = self.remembered(*dedup_hash).is_some();
                self.dedup.remove(dedup_hash);
                vec![u64::from(known).to_string()]
            }
            Command::Purge { filter, group, .. } => {
                let group = match group.as_ref().map(|group| self.group(group)).transpose() {
                    Ok(group) => group,
                    Err(code) => return one(code.name()),
                };
                let mut purged = self.find(|message| message.holder().is_none());
                purged.retain(|(place, _)| filter.admits(&place.name) && group.is_none_or(|of| of == place.group));
                purged.iter().for_each(|(place, key)| _ = self.take(place, *key));
                vec![purged.len().to_string()]
            }
            Command::GroupCreate { name, start, .. } => self.create_group(name, *start),
            Command::GroupDelete { name, .. } => self.delete_group(name),
            Command::NamespaceSet { policy, rules, .. } => {
                // Turns begin anew with another dispatch, and what is left of one that was cut short, of which some may have
                // been given already, is no more than a turn is now.
                self.waits.clear();
                (self.policy, self.rules) = (policy.clone(), rules.clone());
                one("ok")
            }
            Command::DeadRedrive { group, which, .. } => match self.dead_of(group, which) {
                Err(code) => one(code.name()),
                Ok(dead) => {
                    dead.iter().for_each(|key| self.redrive(key));
                    vec![dead.len().to_string()]
                }
            },
            Command::DeadPurge { group, which, .. } => match self.dead_of(group, which) {
                Err(code) => one(code.name()),
                Ok(dead) => {
                    dead.iter().for_each(|key| _ = self.dead.remove(key));
                    vec![dead.len().to_string()]
                }
            },
            command => panic!("the histories have no {command:?}"),
        }
    }

    /// All of it or nothing.
    fn forward(&mut self, forward: &Forward) -> Vec<String> {
        let Forward { receipts, publish } = forward;
        let all: Vec<Receipt> = receipts.iter().flat_map(each).collect();
        let stands = |(at, receipt): (usize, &Receipt)| match self.leased(*receipt) {
            None => "lease_lost",
            Some((place, key)) if !self.is_next_of_run(&place, key, &all[..at]) => "out_of_order",
            Some(_) => "kept",
        };
        let stands: Vec<&str> = all.iter().enumerate().map(stands).collect();
        self.expire_waiting_of(&publish.runs);
        let trial = self.try_publish(&publish.runs, self.given_back(receipts, &publish.runs));
        let let_in = Code::RefusedTogether.name();
        if stands.iter().any(|stands| *stands != "kept")
            || trial.iter().any(|told| told != let_in && !told.starts_with("duplicate"))
        {
            let mut lines: Vec<String> = stands.into_iter().map(str::to_owned).collect();
            lines.extend(trial);
            return lines;
        }
        let finish = Finish { verb: FinishVerb::Ack, receipts: receipts.clone(), confirm: true, namespace: None };
        let mut lines = self.finish(&finish);
        lines.extend(publish.runs.iter().flat_map(|run| self.publish(run, true)).collect::<Vec<_>>());
        lines
    }

    fn redrive(&mut self, key: &(Place, MessageId)) {
        let (place, old) = key;
        let coalesces = self.policy_of(&place.name).coalesce != Coalesce::Off;
        self.expire_waiting(place);
        let (waits, runs) = (self.slot(place).filter(|_| coalesces), self.running(place).filter(|_| coalesces));
        let dead = self.dead.remove(key).unwrap().message;
        let hash = dead.dedup;
        // As a dead letter it did not wait.
        let since = self.wall;
        let state = State::InLine;
        let message = Message { since, expires: None, is_redriven: true, deliveries: 0, failures: 0, state, ..dead };
        self.make(place);
        let id = self.store(std::slice::from_ref(place), old.priority, &message);
        let is_held_by_others = self.holders_of(*old).next().is_some();
        let entry = hash.and_then(|hash| self.dedup.get_mut(&hash)).filter(|entry| entry.0 == *old);
        if let Some(entry) = entry.filter(|_| !is_held_by_others) {
            entry.0 = id;
        }
        // The last word of two that died is the one that was published last.
        let by_its_own_id = (old.priority, old.sequence.0);
        let gives_way = |key: Key| {
            let other = &self.topics[place].messages[&key];
            let is_tie = other.is_redriven && other.published == message.published;
            !is_tie && !is_later((by_its_own_id, &message), (key, other))
        };
        let own = (id.priority, id.sequence.0);
        if waits.into_iter().chain(runs).any(gives_way) {
            self.take(place, own);
        } else if let Some(older) = waits {
            let Message { failures, state, since, .. } = self.take(place, older);
            self.inherit(place, own, failures, (state, since));
        }
    }

    fn begin(&mut self, begin: &SessionBegin) -> Vec<String> {
        let id = begin.session.0;
        self.detach_all(id);
        let was_there = self.sessions.insert(id, Session { resume: begin.resume.0, lost: None }).is_some();
        let held: Vec<_> = begin.held.iter().flat_map(each).filter_map(|receipt| self.leased(receipt)).collect();
        let mut gone = self.held_by(id);
        gone.retain(|held_by| !held.contains(held_by));
        self.release_all(gone);
        vec![if was_there { "resumed".into() } else { "begun".into() }]
    }

    /// A session gives back what it holds, with what comes behind it in a run.
    fn release_all(&mut self, leases: Vec<(Place, Key)>) {
        for (place, key) in leases {
            let message = self.topics[&place].messages.get(&key);
            let Some(State::Leased { lease, run, .. }) = message.map(|message| message.state) else { continue };
            self.give_back(&place, key, State::Back(0));
            self.give_back_rest(&place, run, lease);
        }
    }

    fn consume(
        &mut self,
        (who, group): (Who, GroupNumber),
        filter: &Filter,
        (messages, bytes): (u32, u64),
        lease: Option<Millis>,
        at_most_once: bool,
    ) {
        let (filter, lease) = (filter.clone(), lease.map(|lease| lease.0));
        let (messages, bytes) = (u64::from(messages), i64::try_from(bytes).unwrap_or(i64::MAX));
        let has_got = false;
        self.consumers.push(Consumer { who, group, filter, messages, bytes, has_got, lease, at_most_once });
    }

    fn detach_all(&mut self, id: u64) {
        self.consumers.retain(|c| !matches!(c.who, Who::Attached { session, .. } if session == id));
    }

    /// The message that a command by id means, in all groups that hold it, if it may be moved in all of them.
    fn movable(&self, name: &TopicName, which: Which) -> Result<(Vec<Place>, Key), Code> {
        let (_, topic) = self.siblings(name).find(|(_, topic)| !topic.messages.is_empty()).ok_or(Code::TopicUnknown)?;
        let id = match which {
            Which::Id(id) => Some(id),
            Which::Dedup(hash) => self.remembered(hash),
        };
        let id = id.filter(|id| id.topic == topic.number).ok_or(Code::MessageUnknown)?;
        let key = (id.priority, id.sequence.0);
        let mut places = self.everywhere(name);
        places.retain(|place| self.topics.get(place).is_some_and(|topic| topic.messages.contains_key(&key)));
        if places.is_empty() {
            return Err(Code::MessageUnknown);
        }
        let is_leased = |place: &Place| self.topics[place].messages[&key].holder().is_some();
        if places.iter().any(is_leased) { Err(Code::MessageLeased) } else { Ok((places, key)) }
    }

    pub(super) fn remembered(&self, hash: u128) -> Option<MessageId> {
        self.dedup.get(&hash).filter(|(_, until)| *until > self.wall).map(|(id, _)| *id)
    }

    /// Of the groups that have a message, one that has it not leased is told of first, and a dead letter last.
    pub(super) fn state_of(&self, id: MessageId) -> String {
        match self.holders_of(id).min_by_key(|message| message.holder().is_some()) {
            Some(message) => self.state(message.state),
            None if self.dead.keys().any(|(_, dead)| *dead == id) => "dead".into(),
            None => "ended".into(),
        }
    }

    /// A message as each group has it that has still to finish it.
    fn holders_of(&self, id: MessageId) -> impl Iterator<Item = &Message> {
        let of_it = self.topics.values().filter(move |topic| topic.number == id.topic);
        of_it.filter_map(move |topic| topic.messages.get(&(id.priority, id.sequence.0)))
    }

    fn dead_of(&self, group: &GroupName, which: &DeadWhich) -> Result<Vec<(Place, MessageId)>, Code> {
        let group = self.group(group)?;
        let (filter, most) = match which {
            DeadWhich::Filter(filter) => (filter, usize::MAX),
            DeadWhich::First(filter, most) => (filter, *most as usize),
            DeadWhich::One(..) => panic!("the histories name no dead letter"),
        };
        let is_it = |(place, _): &&(Place, MessageId)| place.group == group && filter.admits(&place.name);
        Ok(self.dead.keys().filter(is_it).take(most).cloned().collect())
    }
}
