//! Commands, each answered in words: one a message, one a receipt, or one in all.

use std::collections::BTreeMap;

use millpond_core::command::*;
use millpond_types::{
    Coalesce, Code, DedupWindow, Filter, MessageId, Millis, Overflow, Priority, Receipt, Sequence, TopicName,
    TopicNumber, block,
};

use super::finish::each;
use super::quota::{Pending, size};
use super::rate::Tokens;
use super::{Consumer, Message, Model, Session, State, Topic, Who};

impl Model {
    /// What the core must answer; nothing where it is silent or answers later.
    pub fn decide(&mut self, ticket: Ticket, command: &Command) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match command {
            Command::Publish(publish) => publish.runs.iter().flat_map(|run| self.publish(run, false)).collect(),
            Command::Receive(receive) => {
                let who = Who::Once { ticket: ticket.0, until: self.run + receive.wait.0 };
                let credit = (receive.messages, receive.bytes);
                self.consume(who, &receive.filter, credit, receive.lease, receive.at_most_once);
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
                let run = self.run;
                if let Some(session) = self.sessions.get_mut(&session.0).filter(|session| session.lost.is_none()) {
                    session.lost = Some(run + session.resume);
                }
                Vec::new()
            }
            Command::Heartbeat { session, except } => {
                for receipt in except {
                    let Some((name, key)) = self.leased(*receipt) else { continue };
                    if let State::Leased { holder, duration, .. } = self.message(&name, key).state
                        && holder == session.0
                    {
                        self.extend(&name, key, duration, |_| 0);
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
                if self.sessions.get(&attach.session.0).is_none_or(|session| session.lost.is_some()) {
                    return one(Code::SessionUnknown.name());
                }
                if self.consumers.iter().any(|consumer| consumer.who == who) {
                    return one(Code::ConsumerExists.name());
                }
                let credit = (attach.messages, attach.bytes);
                self.consume(who, &attach.filter, credit, attach.lease, attach.at_most_once);
                one("ok")
            }
            Command::Credit { session, consumer, messages, bytes } => {
                let who = Who::Attached { session: session.0, consumer: *consumer };
                for consumer in self.consumers.iter_mut().filter(|consumer| consumer.who == who) {
                    consumer.messages += u64::from(*messages);
                    consumer.bytes += bytes;
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
                Ok(key) => {
                    let id = self.id(&topic.name, key);
                    self.take(&topic.name, key);
                    self.dedup.retain(|_, (of, _)| *of != id);
                    one("ok")
                }
            },
            Command::Reschedule { topic, which, delay } => match self.movable(&topic.name, *which) {
                Err(code) => one(code.name()),
                Ok(key) => {
                    let due = self.wall + delay.0;
                    let message = self.message(&topic.name, key);
                    (message.state, message.since) = (State::Delayed(due), due);
                    one("ok")
                }
            },
            Command::Pause { topic, prefix } => {
                self.paused.insert((topic.name.clone(), *prefix));
                one("ok")
            }
            Command::Resume { topic, prefix } => {
                self.paused.remove(&(topic.name.clone(), *prefix));
                one("ok")
            }
            Command::Forget { dedup_hash, .. } => {
                let known = self.remembered(*dedup_hash).is_some();
                self.dedup.remove(dedup_hash);
                vec![u64::from(known).to_string()]
            }
            Command::Purge { filter, .. } => {
                let mut purged = self.find(|message| message.holder().is_none());
                purged.retain(|(name, _)| filter.admits(name));
                purged.iter().for_each(|(name, key)| _ = self.take(name, *key));
                vec![purged.len().to_string()]
            }
            Command::NamespaceSet { policy, rules, .. } => {
                if policy.dispatch != self.policy.dispatch {
                    self.waits.clear();
                }
                (self.policy, self.rules) = (policy.clone(), rules.clone());
                one("ok")
            }
            Command::DeadRedrive { which: DeadWhich::Filter(filter), .. } => {
                let dead = self.dead_of(filter);
                dead.iter().for_each(|key| self.redrive(key));
                vec![dead.len().to_string()]
            }
            Command::DeadPurge { which: DeadWhich::Filter(filter), .. } => {
                let dead = self.dead_of(filter);
                dead.iter().for_each(|key| _ = self.dead.remove(key));
                vec![dead.len().to_string()]
            }
            command => panic!("the histories have no {command:?}"),
        }
    }

    /// All of it or nothing.
    fn forward(&mut self, forward: &Forward) -> Vec<String> {
        let Forward { receipts, publish } = forward;
        let all: Vec<Receipt> = receipts.iter().flat_map(each).collect();
        let stands = |(at, receipt): (usize, &Receipt)| match self.leased(*receipt) {
            None => "lease_lost",
            Some((name, key)) if !self.is_next_of_run(&name, key, &all[..at]) => "out_of_order",
            Some(_) => "kept",
        };
        let stands: Vec<&str> = all.iter().enumerate().map(stands).collect();
        let trial = self.try_publish(&publish.runs, self.given_back(receipts, &publish.runs));
        let let_in = Code::RefusedTogether.name();
        if stands.iter().any(|stands| *stands != "kept")
            || trial.iter().any(|told| told != let_in && !told.starts_with("duplicate"))
        {
            let mut lines: Vec<String> = stands.into_iter().map(str::to_owned).collect();
            lines.extend(trial);
            return lines;
        }
        let finish = Finish { verb: FinishVerb::Ack, receipts: receipts.clone(), confirm: true };
        let mut lines = self.finish(&finish);
        lines.extend(publish.runs.iter().flat_map(|run| self.publish(run, true)).collect::<Vec<_>>());
        lines
    }

    /// What is told of messages none of which is stored.
    fn try_publish(&self, runs: &[PublishRun], mut pending: Pending) -> Vec<String> {
        let (mut told, mut let_in) = (Vec::new(), BTreeMap::<TopicName, usize>::new());
        for (run, index) in runs.iter().flat_map(|run| (0..run.count).map(move |index| (run, index))) {
            let policy = self.policy_of(&run.topic);
            let hash = run.dedup.iter().find(|mark| mark.index == index).map(|mark| mark.hash);
            let is_limited = policy.overflow == Overflow::Reject && policy.coalesce == Coalesce::Off;
            let room = policy
                .max_waiting
                .filter(|_| is_limited)
                .map_or(usize::MAX, |most| (most as usize).saturating_sub(self.waiting(&run.topic).len()));
            told.push(match hash.and_then(|hash| self.remembered(hash)) {
                _ if policy.dedup_window == DedupWindow::Off && hash.is_some() => Code::DedupOff.name().to_owned(),
                Some(id) => format!("duplicate {id} {}", self.state_of(id)),
                None if self.is_over_quota(&run.topic, size(run, index), &mut pending) => {
                    Code::QuotaExceeded.name().to_owned()
                }
                None => {
                    let let_in = let_in.entry(run.topic.clone()).or_default();
                    *let_in += 1;
                    if *let_in <= room { Code::RefusedTogether } else { Code::TopicFull }.name().to_owned()
                }
            });
        }
        told
    }

    /// With `granted`, a trial has let all of it in.
    fn publish(&mut self, run: &PublishRun, granted: bool) -> Vec<String> {
        let policy = self.policy_of(&run.topic);
        let messages = block::messages(&run.block).map(|parts| parts.unwrap());
        let outcomes = (0..).zip(messages).map(|(index, parts)| {
            let hash = run.dedup.iter().find(|mark| mark.index == index).map(|mark| mark.hash);
            if hash.is_some() && policy.dedup_window == DedupWindow::Off {
                return Code::DedupOff.name().to_owned();
            }
            if let Some(id) = hash.and_then(|hash| self.remembered(hash)) {
                return format!("duplicate {id} {}", self.state_of(id));
            }
            if !granted && self.is_over_quota(&run.topic, parts.length as u64, &mut Pending::default()) {
                return Code::QuotaExceeded.name().to_owned();
            }
            let full = policy.max_waiting.is_some_and(|most| self.waiting(&run.topic).len() >= most as usize);
            if full && policy.overflow == Overflow::Reject && policy.coalesce == Coalesce::Off {
                return Code::TopicFull.name().to_owned();
            }
            let slot = self.slot(&run.topic).filter(|_| policy.coalesce != Coalesce::Off);
            if let (Some(key), Coalesce::KeepFirst) = (slot, policy.coalesce) {
                return format!("declined {}", self.id(&run.topic, key));
            }
            let wall = self.wall;
            let message = Message {
                body: String::from_utf8(parts.body.to_vec()).unwrap(),
                size: parts.length as u64,
                published: wall,
                since: wall + run.delay.0,
                expires: run.ttl.or(policy.ttl).map(|ttl| wall + ttl.0),
                dedup: hash,
                deliveries: 0,
                failures: 0,
                state: if run.delay == Millis::ZERO { State::InLine } else { State::Delayed(wall + run.delay.0) },
            };
            let priority = slot.map_or(run.priority, |(priority, _)| priority.max(run.priority));
            let id = self.store(&run.topic, priority, message);
            let until = match policy.dedup_window {
                DedupWindow::For(window) => wall + window.0,
                _ => u64::MAX,
            };
            hash.into_iter().for_each(|hash| _ = self.dedup.insert(hash, (id, until)));
            if let Some(most) = policy.max_waiting {
                while self.waiting(&run.topic).len() > most as usize {
                    let oldest = self.first_to_drop(&run.topic);
                    self.take(&run.topic, oldest);
                }
            }
            match slot {
                Some(key) => {
                    let old = self.id(&run.topic, key);
                    let Message { failures, state, .. } = self.take(&run.topic, key);
                    self.inherit(&run.topic, (id.priority, id.sequence.0), failures, state);
                    format!("queued {id} in place of {old}")
                }
                None => format!("queued {id}"),
            }
        });
        outcomes.collect()
    }

    fn store(&mut self, name: &TopicName, priority: Priority, message: Message) -> MessageId {
        let floor = self.high_water.max(self.raised);
        let topic = self.topics.entry(name.clone()).or_insert_with(|| {
            let number = self.next_topic.max(self.raised);
            self.next_topic = number + 1;
            let (next, messages) = Default::default();
            let tokens = Tokens::default();
            Topic { number: TopicNumber(number), floor, next, next_lease: floor, tokens, messages }
        });
        let next = topic.next.entry(priority).or_insert(topic.floor);
        let sequence = (*next).max(self.raised);
        *next = sequence + 1;
        self.high_water = self.high_water.max(sequence + 1);
        topic.messages.insert((priority, sequence), message);
        self.id(name, (priority, sequence))
    }

    fn redrive(&mut self, key: &(TopicName, MessageId)) {
        let coalesces = self.policy_of(&key.0).coalesce != Coalesce::Off;
        let newer = self.topics.contains_key(&key.0) && self.slot(&key.0).is_some();
        let dead = self.dead.remove(key).unwrap().message;
        let hash = dead.dedup;
        // It waits since its publish, like all that is in line, though it was delayed in its first life.
        let since = dead.published;
        let message = Message { since, expires: None, deliveries: 0, failures: 0, state: State::InLine, ..dead };
        let id = self.store(&key.0, key.1.priority, message);
        if let Some(entry) = hash.and_then(|hash| self.dedup.get_mut(&hash)).filter(|entry| entry.0 == key.1) {
            entry.0 = id;
        }
        if coalesces && newer {
            self.take(&key.0, (id.priority, id.sequence.0));
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
    fn release_all(&mut self, leases: Vec<(TopicName, (Priority, u64))>) {
        for (name, key) in leases {
            let message = self.topics[&name].messages.get(&key);
            let Some(State::Leased { lease, run, .. }) = message.map(|message| message.state) else { continue };
            self.give_back(&name, key, State::Back(0));
            self.give_back_rest(&name, run, lease);
        }
    }

    fn consume(
        &mut self,
        who: Who,
        filter: &Filter,
        (messages, bytes): (u32, u64),
        lease: Option<Millis>,
        at_most_once: bool,
    ) {
        let (filter, lease) = (filter.clone(), lease.map(|lease| lease.0));
        self.consumers.push(Consumer { who, filter, messages: u64::from(messages), bytes, lease, at_most_once });
    }

    fn detach_all(&mut self, id: u64) {
        self.consumers.retain(|c| !matches!(c.who, Who::Attached { session, .. } if session == id));
    }

    /// The message that a command by id means, if it may be moved.
    fn movable(&self, name: &TopicName, which: Which) -> Result<(Priority, u64), Code> {
        let topic = self.topics.get(name).ok_or(Code::TopicUnknown)?;
        let id = match which {
            Which::Id(id) => Some(id),
            Which::Dedup(hash) => self.remembered(hash),
        };
        let id = id.filter(|id| id.topic == topic.number).ok_or(Code::MessageUnknown)?;
        let key = (id.priority, id.sequence.0);
        match topic.messages.get(&key) {
            None => Err(Code::MessageUnknown),
            Some(message) if message.holder().is_some() => Err(Code::MessageLeased),
            Some(_) => Ok(key),
        }
    }

    fn remembered(&self, hash: u128) -> Option<MessageId> {
        self.dedup.get(&hash).filter(|(_, until)| *until > self.wall).map(|(id, _)| *id)
    }

    fn state_of(&self, id: MessageId) -> &'static str {
        let topic = self.topics.values().find(|topic| topic.number == id.topic);
        let MessageId { priority, sequence: Sequence(sequence), .. } = id;
        match topic.and_then(|topic| topic.messages.get(&(priority, sequence))) {
            Some(message) => message.state_name(),
            None if self.dead.keys().any(|(_, dead)| *dead == id) => "dead",
            None => "ended",
        }
    }

    fn dead_of(&self, filter: &Filter) -> Vec<(TopicName, MessageId)> {
        self.dead.keys().filter(|(name, _)| filter.admits(name)).cloned().collect()
    }
}
