//! Groups: each has its own topics, messages and dead letters. A topic has the same number in all groups that have it, and a
//! message the same id.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::GroupNumber;
use millpond_types::{Coalesce, Code, GroupName, MessageId, Priority, Start, TopicName, TopicNumber, WallTime};

use super::rate::Tokens;
use super::{Key, Message, Model, Place, State, Topic};

#[derive(Default)]
pub struct Group {
    pub name: GroupName,
    /// What it has still to be given of what others hold: until then nothing of it is delivered.
    pub(super) start: Option<Start>,
    /// Messages that were published to it, or that it was given as it started.
    pub accepted: u64,
    /// Messages of it that ended because it was not to keep them.
    pub retained_out: u64,
}

impl Model {
    pub(super) fn create_group(&mut self, name: &GroupName, start: Start) -> Vec<String> {
        let answer = match (self.group(name), start) {
            (Ok(_), _) => Code::GroupExists.name(),
            (_, Start::At(WallTime(time))) if time > self.wall => Code::ArgumentInvalid.name(),
            _ => {
                let group = Group {
                    name: name.clone(),
                    start: Some(start).filter(|start| *start != Start::Latest),
                    ..Group::default()
                };
                self.groups.insert(self.next_group, group);
                self.next_group += 1;
                "ok"
            }
        };
        vec![answer.to_owned()]
    }

    pub(super) fn delete_group(&mut self, name: &GroupName) -> Vec<String> {
        let answer = match self.group(name) {
            Err(code) => code.name(),
            Ok(group) if group == 0 || self.consumers.iter().any(|consumer| consumer.group == group) => {
                Code::GroupInUse.name()
            }
            Ok(group) => {
                self.groups.remove(&group);
                self.topics.retain(|place, _| place.group != group);
                self.dead.retain(|(place, _), _| place.group != group);
                "ok"
            }
        };
        vec![answer.to_owned()]
    }

    pub fn group(&self, name: &GroupName) -> Result<GroupNumber, Code> {
        let found = self.groups.iter().find(|(_, group)| group.name == *name);
        found.map(|(number, _)| *number).ok_or(Code::GroupUnknown)
    }

    /// A topic in each group, whether that has it or not.
    pub(super) fn everywhere(&self, name: &TopicName) -> Vec<Place> {
        self.groups.keys().map(|group| Place { group: *group, name: name.clone() }).collect()
    }

    /// The groups' topics of a name.
    pub(super) fn siblings<'a>(&'a self, name: &'a TopicName) -> impl Iterator<Item = (&'a Place, &'a Topic)> {
        self.topics.iter().filter(move |(place, _)| place.name == *name)
    }

    pub(super) fn place(&self, number: TopicNumber, group: GroupNumber) -> Option<Place> {
        let is_it = |(place, topic): &(&Place, &Topic)| topic.number == number && place.group == group;
        self.topics.iter().find(is_it).map(|(place, _)| place.clone())
    }

    /// Stores a message in some groups, under an id that no other message ever has.
    pub(super) fn store(&mut self, places: &[Place], priority: Priority, message: &Message) -> MessageId {
        let name = &places[0].name;
        let next = self.siblings(name).map(|(_, topic)| topic.next.get(&priority).copied().unwrap_or(topic.floor));
        let sequence = next.max().expect("the topics are there").max(self.raised);
        for topic in self.topics.iter_mut().filter(|(place, _)| place.name == *name).map(|(_, topic)| topic) {
            topic.next.insert(priority, sequence + 1);
        }
        self.high_water = self.high_water.max(sequence + 1);
        for place in places {
            self.topics.get_mut(place).unwrap().messages.insert((priority, sequence), message.clone());
        }
        self.id(&places[0], (priority, sequence))
    }

    /// A group has a topic from here on.
    pub(super) fn make(&mut self, place: &Place) {
        if self.topics.contains_key(place) {
            return;
        }
        let above_all = self.high_water.max(self.raised);
        let highest = |topic: &Topic| topic.next.values().copied().fold(topic.floor, u64::max);
        let others = self.siblings(&place.name).map(|(_, topic)| (topic.number, highest(topic)));
        let (number, floor) = others.max_by_key(|(_, floor)| *floor).unwrap_or_else(|| {
            let number = self.next_topic.max(self.raised);
            (TopicNumber(number), above_all)
        });
        self.next_topic = self.next_topic.max(number.0 + 1);
        let (next, messages, tokens) = (BTreeMap::new(), BTreeMap::new(), Tokens::default());
        self.topics.insert(place.clone(), Topic { number, floor, next, tokens, messages });
    }

    /// The first group that starts is given what the others hold, each message once and as if it were new.
    pub(super) fn start_group(&mut self) {
        let mut groups = self.groups.iter_mut();
        let Some((group, start)) = groups.find_map(|(number, group)| Some((*number, group.start.take()?))) else {
            return;
        };
        let names: BTreeSet<TopicName> = self.topics.keys().map(|place| place.name.clone()).collect();
        names.into_iter().for_each(|name| self.start(&Place { group, name }, start));
    }

    fn start(&mut self, place: &Place, start: Start) {
        let own = self.topics.get(place).map(|topic| topic.floor);
        let mut held: BTreeMap<Key, Message> = BTreeMap::new();
        for (_, other) in self.siblings(&place.name).filter(|(other, _)| *other != place) {
            for (key, message) in other.messages.iter().filter(|(_, message)| !message.is_redriven) {
                held.entry(*key).or_insert_with(|| message.clone());
            }
        }
        held.retain(|(_, sequence), message| {
            let is_older = own.is_none_or(|floor| *sequence < floor);
            let is_over = message.expires.is_some_and(|at| at <= self.wall);
            is_older && !is_over && start.admits(WallTime(message.published))
        });
        if self.policy_of(&place.name).coalesce != Coalesce::Off {
            // The last stands for all: of a priority that of the highest sequence, and of those of one moment one that waits. What
            // came since the group was made is later.
            let waits = |key: &Key| {
                let has_it = |topic: &Topic| topic.messages.get(key).is_some_and(|message| message.holder().is_none());
                self.siblings(&place.name).any(|(other, topic)| other != place && has_it(topic))
            };
            let lasts: BTreeMap<_, _> = held.into_iter().map(|(key, message)| (key.0, (key, message))).collect();
            let last = lasts.into_values().max_by_key(|(key, message)| (message.published, waits(key), *key));
            held = last.filter(|_| own.is_none()).into_iter().collect();
        }
        for ((priority, sequence), message) in held {
            self.make(place);
            let (state, since) = match message.state {
                State::Delayed(due) => (State::Delayed(due), due),
                _ => (State::InLine, message.published),
            };
            let message = Message { state, since, deliveries: 0, failures: 0, ..message };
            let topic = self.topics.get_mut(place).unwrap();
            topic.next.entry(priority).or_insert(topic.floor);
            topic.messages.insert((priority, sequence), message);
            self.groups.get_mut(&place.group).unwrap().accepted += 1;
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of group {}", self.name, self.group)
    }
}
