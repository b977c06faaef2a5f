//! Groups: each has its own topics, messages and dead letters. A topic has the same number in all groups that have it, and a
//! message the same id.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::GroupNumber;
use millpond_types::{Coalesce, Code, GroupName, MessageId, Priority, Start, TopicName, TopicNumber, WallTime};

use super::coalesce::is_later;
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

    /// Whether a group is still to be given what it starts with. It takes what any other one does until then, whatever waits there.
    pub(super) fn is_starting(&self, place: &Place) -> bool {
        self.groups[&place.group].start.is_some()
    }

    /// What a lease of another group is about to end, the groups have that have still to start.
    pub(super) fn save(&mut self, place: &Place, key: Key) {
        let message = self.topics[place].messages[&key].clone();
        if message.is_redriven || message.expires.is_some_and(|at| at <= self.wall) {
            return;
        }
        let admits = |start: Option<Start>| start.is_some_and(|start| start.admits(WallTime(message.published)));
        let starting = self.groups.iter().filter(|(_, group)| admits(group.start)).map(|(group, _)| *group);
        for group in starting.collect::<Vec<_>>() {
            let to = Place { group, name: place.name.clone() };
            let own = self.topics.get(&to);
            if own.is_some_and(|own| key.1 >= own.floor || own.messages.contains_key(&key)) {
                continue;
            }
            let is_one_enough = self.policy_of(&to.name).coalesce != Coalesce::Off;
            if is_one_enough && !self.stands(&to, (key, &message)) {
                continue;
            }
            self.make(&to);
            self.give(&to, (key, message.clone()), State::Back(key.1), is_one_enough);
        }
    }

    /// Whether a message is the last of all that a group is given of a topic where one stands for all, as far as it was given any.
    fn stands(&self, place: &Place, (key, message): (Key, &Message)) -> bool {
        let Some(own) = self.topics.get(place) else { return true };
        let saved = self.saved(place).filter(|_| !was_published_to(own));
        !was_published_to(own) && saved.is_none_or(|saved| is_later((key, message), (saved, &own.messages[&saved])))
    }

    /// The one message that waits in a topic, if it has not expired.
    fn saved(&self, place: &Place) -> Option<Key> {
        self.slot(place).filter(|_| self.waiting(place).len() == 1)
    }

    /// A group has a message that was published before. Where one is enough, it takes the place of the one that waits.
    fn give(&mut self, place: &Place, (key, message): (Key, Message), state: State, is_one_enough: bool) {
        let saved = self.saved(place).filter(|_| is_one_enough);
        let since = if let State::Delayed(due) = state { due } else { message.published };
        let topic = self.topics.get_mut(place).unwrap();
        topic.next.entry(key.0).or_insert(topic.floor);
        topic.messages.insert(key, Message { state, since, deliveries: 0, failures: 0, ..message });
        self.groups.get_mut(&place.group).unwrap().accepted += 1;
        if let Some(saved) = saved {
            let Message { failures, state, since, .. } = self.take(place, saved);
            self.inherit(place, key, failures, (state, since));
        }
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
        let is_one_enough = self.policy_of(&place.name).coalesce != Coalesce::Off;
        if is_one_enough {
            // The last stands for all: of a priority that of the highest sequence, and of those of one moment one that waits. What
            // came since the group was made is later.
            let waits = |key: &Key| {
                let has_it = |topic: &Topic| topic.messages.get(key).is_some_and(|message| message.holder().is_none());
                self.siblings(&place.name).any(|(other, topic)| other != place && has_it(topic))
            };
            let lasts: BTreeMap<_, _> = held.into_iter().map(|(key, message)| (key.0, (key, message))).collect();
            let last = lasts.into_values().max_by_key(|(key, message)| (message.published, waits(key), *key));
            held = last.filter(|(key, message)| self.stands(place, (*key, message))).into_iter().collect();
        }
        let has = |key: &Key| self.topics.get(place).is_some_and(|own| own.messages.contains_key(key));
        held.retain(|key, _| !has(key));
        for (key, message) in held {
            self.make(place);
            let state = if let State::Delayed(due) = message.state { State::Delayed(due) } else { State::InLine };
            self.give(place, (key, message), state, is_one_enough);
        }
    }
}

/// Whether any sequence was given out since a group has a topic.
fn was_published_to(topic: &Topic) -> bool {
    topic.next.values().any(|next| *next > topic.floor)
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of group {}", self.name, self.group)
    }
}
