//! Starting from a checkpoint: the facts behind it are applied to topics that are fetched when the facts name them.
//!
//! The core of a checkpoint knows its numbers, its namespaces and the topics that are never cold; all others are in the store. A fact
//! names a topic by number, and the first one behind the checkpoint that is about a topic of it says where that is.

use alloc::boxed::Box;

use millpond_types::{Priority, Sequence};

use crate::fact::{Fact, Victims};
use crate::page::{NumbersPage, Page};
use crate::pages::BadPage;
use crate::state::State;
use crate::state::producer::ProducerKey;
use crate::state::stored::Place;
use crate::store::{Answer, Key, Shelf, Store, Want};
use crate::{Core, Now};

impl Core {
    /// The core of a checkpoint in a store: its numbers, its namespaces, then the topics that their groups
    /// [load](crate::page::GroupPage::loaded) and whatever else is kept in memory.
    pub fn recover(
        store: Box<dyn Store>,
        numbers: NumbersPage,
        pages: impl IntoIterator<Item = Page>,
    ) -> Result<Core, BadPage> {
        let mut core = Core::empty(numbers.hash_key, store);
        let state = &mut core.state;
        state.set_numbers(numbers);
        for page in pages {
            match page {
                Page::Namespace(page) => state.add_namespace(*page),
                Page::Exchange(page) if state.namespaces.get(page.namespace).is_some() => state.add_exchange(*page),
                Page::Topic(page) => {
                    let shelf = state.groups.get(page.group).and_then(|home| {
                        let shelf = if home.is_before(&page.name) { Shelf::Idle } else { Shelf::Busy };
                        (home.cold[shelf.index()] > 0).then_some(shelf)
                    });
                    let Some(shelf) = shelf else { return Err(BadPage("a topic is counted by its group")) };
                    if state.take_in(page, shelf).is_none() {
                        return Err(BadPage("a topic is in a checkpoint once"));
                    }
                }
                _ => return Err(BadPage("a start loads what is kept in memory")),
            }
        }
        if state.groups.iter().any(|(_, home)| home.cold[Shelf::Busy.index()] > 0) {
            return Err(BadPage("all busy topics of a checkpoint are loaded"));
        }
        if state.namespaces.get(0).is_none() {
            return Err(BadPage("a checkpoint holds the namespace `default`"));
        }
        state.settle_touched();
        Ok(core)
    }

    /// What has to be handed in with [`Core::recall`] before a fact is applied. To be asked for the facts of a batch in
    /// their order, again and again until they need nothing more; it takes note of where they say that topics are.
    pub fn needs(&mut self, fact: &Fact) -> Option<Want> {
        if let Fact::ProducerBatch { namespace, producer, sequence, .. } = fact {
            return self.needs_producer((*namespace, *producer), *sequence);
        }
        let (number, group) = fact.topic()?;
        let State { topics, replayed, .. } = &mut self.state;
        let replayed = replayed.as_mut().expect("asked for in a replay alone");
        if let Fact::TopicRecalled { group, name, shelf, .. } = fact {
            // Where the replay itself has put it is news of a later day.
            if replayed.places(number).all(|place| place.group != *group) {
                replayed.put(number, Place { group: *group, shelf: *shelf, name: name.detach() });
            }
        }
        // A topic that is not known comes into being in the same batch.
        let missing = replayed
            .places(number)
            .filter(|place| group.is_none_or(|group| place.group == group))
            .find(|place| topics.by_number(number, place.group).is_none());
        if let Some(Place { group, shelf, name }) = missing {
            return Some(Want::Entry(Key::Topic { group: *group, shelf: *shelf, name: name.clone() }.bytes()));
        }
        for (priority, first, end) in messages(fact).into_iter().flatten() {
            let mut next = match group {
                Some(group) => self.state.topics.by_number(number, group),
                None => self.state.topics.siblings(number).next(),
            };
            while let Some(slot) = next {
                if let Err(want) = self.state.bring_range(slot, priority, first, end) {
                    return Some(want);
                }
                next = self.state.topics[slot].siblings.next.filter(|_| group.is_none());
            }
        }
        None
    }

    /// A checkpoint began here, at this time, when the facts were first applied: the first of them about each topic from here on is
    /// preceded by one that says where the topic is. So this is a place at which [`Core::freeze`] is allowed in a replay.
    pub fn pass_epoch(&mut self, now: Now) {
        self.state.now = now;
        self.state.replayed.as_mut().expect("passed in a replay alone").pass_epoch();
    }

    /// Hands in what a fact needs.
    pub fn recall(&mut self, answer: Answer) {
        let Answer::Entry(key, Some(page)) = answer else { panic!("what a replay asks for is in the store") };
        match (Key::parse(&key), page) {
            (Some(Key::Topic { shelf, .. }), Page::Topic(page)) => _ = self.state.take_in(page, shelf),
            (Some(Key::Piece { .. }), Page::Piece(page)) => self.state.take_in_piece(page),
            (Some(Key::Producer { .. }), Page::Producer(page)) => self.state.take_in_producer(page),
            (key, _) => panic!("a replay does not ask for {key:?}"),
        }
        self.state.settle_touched();
    }

    fn needs_producer(&mut self, key: ProducerKey, sequence: u64) -> Option<Want> {
        let begun = &mut self.state.replayed.as_mut().expect("asked for in a replay alone").begun;
        if sequence == 1 {
            begun.insert(key);
        }
        if begun.contains(&key) { None } else { self.state.bring_producer(key).err() }
    }
}

/// The messages that have to be in memory: the first of those that a fact takes from where they are, or all that it moves.
fn messages(fact: &Fact) -> [Option<(Priority, Sequence, Sequence)>; 2] {
    let one = |priority: Priority, first: Sequence| Some((priority, first, Sequence(first.0 + 1)));
    match fact {
        Fact::Leased { priority, first, .. }
        | Fact::Ripened { priority, first, .. }
        | Fact::Ended { priority, first, .. }
        | Fact::Rescheduled { priority, sequence: first, .. }
        | Fact::Died { which: Victims::Waiting { priority, first, .. }, .. } => [one(*priority, *first), None],
        Fact::Superseded { which, priority, by, .. } => match which {
            Victims::Waiting { priority: of, first, .. } => [one(*of, *first), one(*priority, *by)],
            Victims::Leased { .. } => [one(*priority, *by), None],
        },
        Fact::Moved { priority, first, count, .. } => {
            [Some((*priority, *first, Sequence(first.0 + u64::from(*count)))), None]
        }
        _ => [None, None],
    }
}
