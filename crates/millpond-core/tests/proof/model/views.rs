//! What can be looked at.

use millpond_types::{Counts, Filter, Priority, TopicName};

use super::{Model, State, Who};

impl Model {
    /// The messages of a topic: ready ones in the order of delivery, then those not ready by when they will be, then those
    /// leased.
    pub fn rows(&self, name: &TopicName) -> Vec<String> {
        let topic = &self.topics[name];
        let rank = |state: State| match state {
            State::InLine | State::Back(_) => 0,
            State::Delayed(_) | State::Retrying(_) => 1,
            State::Leased { .. } => 2,
        };
        let mut found = Model::ready(topic);
        for wanted in [1, 2] {
            let mut rest: Vec<_> =
                topic.messages.iter().filter(|(_, m)| rank(m.state) == wanted).map(|(key, m)| (*key, m)).collect();
            let rests = |state: State| match state {
                State::Delayed(due) => due.saturating_sub(self.wall),
                State::Retrying(due) => due.saturating_sub(self.run),
                _ => 0,
            };
            rest.sort_by_key(|((priority, sequence), m)| (rests(m.state), std::cmp::Reverse(*priority), *sequence));
            found.extend(rest);
        }
        let row = |(key, message): (_, &super::Message)| {
            let (id, body, state) = (self.id(name, key), &message.body, message.state_name());
            format!("{id} {body} {state} {} {}", message.deliveries, message.failures)
        };
        found.into_iter().map(row).collect()
    }

    pub fn counts(&self, name: &TopicName) -> Counts {
        let mut counts = Counts::default();
        for message in self.topics[name].messages.values() {
            match message.state {
                State::InLine | State::Back(_) => counts.waiting += 1,
                State::Delayed(_) => counts.delayed += 1,
                State::Retrying(_) => counts.retrying += 1,
                State::Leased { .. } => counts.leased += 1,
            }
        }
        counts
    }

    /// Scan, completion and the next sequence.
    pub fn cursors(&self, name: &TopicName, priority: Priority) -> (u64, u64, u64) {
        let topic = &self.topics[name];
        let next = topic.next[&priority];
        let of_it = || topic.messages.iter().filter(|((of, _), _)| *of == priority);
        let scan = of_it().find(|(_, m)| m.state == State::InLine).map_or(next, |((_, sequence), _)| *sequence);
        let completion = of_it().next().map_or(next, |((_, sequence), _)| *sequence);
        (scan, completion, next)
    }

    pub fn dead_rows(&self, filter: &Filter) -> Vec<String> {
        let dead = self.dead.iter().filter(|((name, _), _)| filter.admits(name));
        let row = |((name, id), dead): (&(TopicName, _), &super::Dead)| {
            let message = &dead.message;
            format!("{name} {id} {} {} {} {}", message.body, dead.reason, message.deliveries, message.failures)
        };
        dead.map(row).collect()
    }

    /// The receive with a ticket.
    pub fn receive(&self, ticket: u64) -> Who {
        let mut all = self.consumers.iter().map(|consumer| consumer.who);
        all.find(|who| matches!(who, Who::Once { ticket: of, .. } if *of == ticket)).expect("a receive that waits")
    }
}
