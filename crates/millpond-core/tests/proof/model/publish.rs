//! What becomes of each message that is published: known, refused, declined, or stored in the groups that take it.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::PublishRun;
use millpond_types::{Coalesce, Code, DedupWindow, MessageId, Millis, Overflow, Policy, Priority, TopicName, block};

use super::quota::{Pending, size};
use super::{Key, Message, Model, Place, State};

/// Whether a message's time is over before it is due.
fn is_over_before_due(run: &PublishRun, policy: &Policy) -> bool {
    run.delay > Millis::ZERO && run.ttl.or(policy.ttl).is_some_and(|ttl| ttl <= run.delay)
}

impl Model {
    /// What has expired where one message stands for others ends before anything is published there.
    pub(super) fn expire_waiting_of(&mut self, runs: &[PublishRun]) {
        let places = runs.iter().flat_map(|run| self.everywhere(&run.topic)).collect::<Vec<_>>();
        places.iter().for_each(|place| self.expire_waiting(place));
    }

    /// What is told of messages none of which is stored.
    pub(super) fn try_publish(&self, runs: &[PublishRun], mut pending: Pending) -> Vec<String> {
        let (mut told, mut let_in) = (Vec::new(), BTreeMap::<TopicName, usize>::new());
        let mut new = BTreeSet::new();
        for (run, index) in runs.iter().flat_map(|run| (0..run.count).map(move |index| (run, index))) {
            let policy = self.policy_of(&run.topic);
            let hash = run.dedup.iter().find(|mark| mark.index == index).map(|mark| mark.hash);
            let is_limited = policy.overflow == Overflow::Reject && policy.coalesce == Coalesce::Off;
            // As much as the group lets in that has most room.
            let limited = self.everywhere(&run.topic).into_iter().filter(|place| !self.is_starting(place));
            let waiting = limited.map(|place| self.waiting(&place).len()).min().unwrap();
            let limit = policy.max_waiting.filter(|_| is_limited);
            let room = limit.map_or(usize::MAX, |most| (most as usize).saturating_sub(waiting));
            told.push(match hash.and_then(|hash| self.remembered(hash)) {
                _ if policy.dedup_window == DedupWindow::Off && hash.is_some() => Code::DedupOff.name().to_owned(),
                Some(id) => format!("duplicate {id} {}", self.state_of(id)),
                None if hash.is_some_and(|hash| !new.insert(hash)) => Code::RefusedTogether.name().to_owned(),
                None if is_over_before_due(run, &policy) => Code::ArgumentInvalid.name().to_owned(),
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
    pub(super) fn publish(&mut self, run: &PublishRun, granted: bool) -> Vec<String> {
        let messages = block::messages(&run.block).map(|parts| parts.unwrap());
        let outcomes = (0..).zip(messages).map(|(index, parts)| {
            let policy = self.policy_of(&run.topic);
            let hash = run.dedup.iter().find(|mark| mark.index == index).map(|mark| mark.hash);
            if hash.is_some() && policy.dedup_window == DedupWindow::Off {
                return Code::DedupOff.name().to_owned();
            }
            if let Some(id) = hash.and_then(|hash| self.remembered(hash)) {
                return format!("duplicate {id} {}", self.state_of(id));
            }
            if is_over_before_due(run, &policy) {
                return Code::ArgumentInvalid.name().to_owned();
            }
            if !granted && self.is_over_quota(&run.topic, parts.length as u64, &mut Pending::default()) {
                return Code::QuotaExceeded.name().to_owned();
            }
            let wall = self.wall;
            let message = Message {
                body: String::from_utf8(parts.body.to_vec()).unwrap(),
                size: parts.length as u64,
                published: wall,
                since: wall + run.delay.0,
                expires: run.ttl.or(policy.ttl).map(|ttl| wall + ttl.0),
                dedup: hash,
                is_redriven: false,
                deliveries: 0,
                failures: 0,
                state: if run.delay == Millis::ZERO { State::InLine } else { State::Delayed(wall + run.delay.0) },
            };
            match policy.coalesce {
                Coalesce::Off => self.publish_beside(run, &policy, message),
                Coalesce::KeepFirst => self.publish_where_none_waits(run, &policy, message),
                Coalesce::KeepLatest => self.publish_in_place(run, &policy, message),
            }
        });
        outcomes.collect()
    }

    /// Where all wait side by side: the groups have it in which there is room.
    fn publish_beside(&mut self, run: &PublishRun, policy: &Policy, message: Message) -> String {
        let mut places = self.everywhere(&run.topic);
        let most = policy.max_waiting.map_or(usize::MAX, |most| most as usize);
        if policy.overflow == Overflow::Reject {
            places.retain(|place| self.is_starting(place) || self.waiting(place).len() < most);
        }
        if places.iter().all(|place| self.is_starting(place)) {
            return Code::TopicFull.name().to_owned();
        }
        let id = self.take_in(&places, run.priority, policy, message);
        for place in &places {
            while !self.is_starting(place) && self.waiting(place).len() > most {
                let oldest = self.first_to_drop(place);
                self.take(place, oldest);
            }
        }
        format!("queued {id}")
    }

    fn publish_where_none_waits(&mut self, run: &PublishRun, policy: &Policy, message: Message) -> String {
        let mut places = self.everywhere(&run.topic);
        places.retain(|place| self.slot(place).is_none());
        if places.is_empty() {
            let first = Place { group: 0, name: run.topic.clone() };
            return format!("declined {}", self.id(&first, self.slot(&first).unwrap()));
        }
        let id = self.take_in(&places, run.priority, policy, message);
        format!("queued {id}")
    }

    fn publish_in_place(&mut self, run: &PublishRun, policy: &Policy, message: Message) -> String {
        let places = self.everywhere(&run.topic);
        let slots: Vec<(&Place, Key)> = places.iter().filter_map(|place| Some((place, self.slot(place)?))).collect();
        let priority = slots.iter().map(|(_, (priority, _))| *priority).fold(run.priority, Priority::max);
        let id = self.take_in(&places, priority, policy, message);
        let replaced = slots.first().map(|(place, key)| self.id(place, *key));
        for (place, key) in slots {
            let Message { failures, state, since, .. } = self.take(place, key);
            self.inherit(place, (id.priority, id.sequence.0), failures, (state, since));
        }
        match replaced {
            Some(old) => format!("queued {id} in place of {old}"),
            None => format!("queued {id}"),
        }
    }

    /// Stores what was published.
    fn take_in(&mut self, places: &[Place], priority: Priority, policy: &Policy, message: Message) -> MessageId {
        // The others know its id all the same.
        self.everywhere(&places[0].name).iter().for_each(|place| self.make(place));
        let id = self.store(places, priority, &message);
        places.iter().for_each(|place| self.groups.get_mut(&place.group).unwrap().accepted += 1);
        let until = match policy.dedup_window {
            DedupWindow::For(window) => self.wall + window.0,
            _ => u64::MAX,
        };
        message.dedup.into_iter().for_each(|hash| _ = self.dedup.insert(hash, (id, until)));
        id
    }
}
