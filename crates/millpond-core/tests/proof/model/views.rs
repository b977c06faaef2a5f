//! What can be looked at.

use millpond_core::fact::GroupNumber;
use millpond_types::{Counts, Priority};

use super::{Dead, Message, Model, Place, State, Who};

impl Model {
    /// The messages of a topic: ready ones in the order of delivery, then those not ready by when they will be, then those
    /// leased.
    pub fn rows(&self, place: &Place) -> Vec<String> {
        let topic = &self.topics[place];
        let rank = |state: State| match state {
            State::InLine | State::Back(_) => 0,
            State::Delayed(_) | State::Retrying(_) => 1,
            State::Leased { .. } => 2,
        };
        let mut found = self.in_order(place);
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
        let row = |(key, message): (_, &Message)| {
            let (id, body, state) = (self.id(place, key), &message.body, self.state(message.state));
            format!("{id} {body} {state} {} {}", message.deliveries, message.failures)
        };
        found.into_iter().map(row).collect()
    }

    /// A state as users see it.
    pub fn state(&self, state: State) -> String {
        match state {
            State::InLine | State::Back(_) => "waiting".into(),
            State::Delayed(due) => format!("delayed until {due}"),
            State::Retrying(due) => format!("retrying until {}", self.wall + due.saturating_sub(self.run)),
            State::Leased { .. } => "leased".into(),
        }
    }

    pub fn counts(&self, place: &Place) -> Counts {
        let mut counts = Counts::default();
        for message in self.topics[place].messages.values() {
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
    pub fn cursors(&self, place: &Place, priority: Priority) -> (u64, u64, u64) {
        let topic = &self.topics[place];
        let next = topic.next[&priority];
        let of_it = || topic.messages.iter().filter(|((of, _), _)| *of == priority);
        let scan = of_it().find(|(_, m)| m.state == State::InLine).map_or(next, |((_, sequence), _)| *sequence);
        let completion = of_it().next().map_or(next, |((_, sequence), _)| *sequence);
        if self.groups[&place.group].start.is_some() {
            return (0, 0, next);
        }
        (scan, completion, next)
    }

    pub fn dead_rows(&self, group: GroupNumber) -> Vec<String> {
        let dead = self.dead.iter().filter(|((place, _), _)| place.group == group);
        let row = |((place, id), dead): (&(Place, _), &Dead)| {
            let (name, message) = (&place.name, &dead.message);
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
