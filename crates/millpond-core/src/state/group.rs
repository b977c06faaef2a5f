//! Groups: each is a namespace's own set of topics, with what is counted of them.

mod page;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use millpond_types::{Counts, GroupName, Start, Tally, TopicName, Usage};

use crate::fact::{GroupNumber, NamespaceNumber};
use crate::page::{OfficePage, Reached, RunPage};
use crate::state::spans::Spans;
use crate::store::{Name, SHELVES, Shelf};

#[derive(Clone, Default)]
pub(crate) struct Groups {
    by_number: BTreeMap<GroupNumber, Group>,
    /// Those that are being deleted.
    ending: BTreeSet<GroupNumber>,
    /// Those that are being given what they begin with.
    starting: BTreeSet<GroupNumber>,
    /// Those whose topics are gone over because a policy has changed that counts for topics which nothing happens to.
    unsettled: BTreeSet<GroupNumber>,
}

#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) namespace: NamespaceNumber,
    pub(crate) name: GroupName,
    /// Whether it is being deleted: it has topics still, and nothing comes to them.
    pub(crate) is_ending: bool,
    pub(crate) start: Start,
    /// How far its start has come; `None` if it is over.
    pub(crate) starting: Option<Reached>,
    /// The version of the policy that all its topics have still to be settled by; `None` if they are.
    pub(crate) unsettled: Option<u64>,
    /// Of an exclusive group, until it is being deleted.
    pub(crate) office: Option<Box<OfficePage>>,
    pub(crate) topics: u64,
    pub(crate) counts: Counts,
    pub(crate) tally: Tally,
    /// When those of its messages were published that nobody has leased.
    pub(crate) spans: Spans,
    /// Bytes of the journal that it needs: those of its messages and dead letters.
    pub(crate) bytes: u64,
    /// How many topics have an entry in the store, in memory or not, by [`Shelf::index`].
    pub(crate) shelves: [u64; SHELVES],
    /// How many of these are not in memory.
    pub(crate) cold: [u64; SHELVES],
    /// Bytes that its leases without a session are charged: those of receives, and what heartbeats have left out.
    pub(crate) held_by_none: usize,
}

impl Groups {
    pub(crate) fn insert(&mut self, number: GroupNumber, group: Group) {
        if group.is_ending {
            self.ending.insert(number);
        }
        if group.starting.is_some() {
            self.starting.insert(number);
        }
        if group.unsettled.is_some() {
            self.unsettled.insert(number);
        }
        let other = self.by_number.insert(number, group);
        assert!(other.is_none(), "a group's number is given out once");
    }

    pub(crate) fn remove(&mut self, number: GroupNumber) {
        let gone = self.by_number.remove(&number).expect("only a group that is there is deleted");
        assert!(gone.is_empty(), "only an empty group is deleted");
        self.ending.remove(&number);
        self.starting.remove(&number);
        self.unsettled.remove(&number);
    }

    /// A group is being deleted from here on.
    pub(crate) fn end(&mut self, number: GroupNumber) {
        self[number].is_ending = true;
        self[number].office = None;
        self.ending.insert(number);
        self.started(number);
        self.settled(number);
    }

    /// The start of a group is over.
    pub(crate) fn started(&mut self, number: GroupNumber) {
        self[number].starting = None;
        self.starting.remove(&number);
    }

    /// Whether there is a group whose start is not over.
    pub(crate) fn are_starting(&self) -> bool {
        !self.starting.is_empty()
    }

    /// The groups whose start is not over.
    pub(crate) fn starting(&self) -> impl Iterator<Item = GroupNumber> {
        self.starting.iter().copied()
    }

    /// From here on all topics of a group have to be settled, by the policy of a version.
    pub(crate) fn unsettle(&mut self, number: GroupNumber, version: u64) {
        self[number].unsettled = Some(version);
        self.unsettled.insert(number);
    }

    /// All topics of a group are settled.
    pub(crate) fn settled(&mut self, number: GroupNumber) {
        self[number].unsettled = None;
        self.unsettled.remove(&number);
    }

    /// The groups that have topics which are not settled.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = GroupNumber> {
        self.unsettled.iter().copied()
    }

    /// The groups that are being deleted.
    pub(crate) fn ending(&self) -> impl Iterator<Item = GroupNumber> {
        self.ending.iter().copied()
    }

    /// Whether nothing is left of a group, or it is being deleted.
    pub(crate) fn is_over(&self, number: GroupNumber) -> bool {
        self.get(number).is_none_or(|group| group.is_ending)
    }

    pub(crate) fn get(&self, number: GroupNumber) -> Option<&Group> {
        self.by_number.get(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupNumber, &Group)> {
        self.by_number.iter().map(|(number, group)| (*number, group))
    }

    /// The group with the next higher number.
    pub(crate) fn after(&self, number: GroupNumber) -> Option<GroupNumber> {
        self.by_number.range(number.checked_add(1)?..).next().map(|(number, _)| *number)
    }
}

impl core::ops::Index<GroupNumber> for Groups {
    type Output = Group;
    fn index(&self, number: GroupNumber) -> &Group {
        self.by_number.get(&number).expect("the group of a topic exists")
    }
}

impl core::ops::IndexMut<GroupNumber> for Groups {
    fn index_mut(&mut self, number: GroupNumber) -> &mut Group {
        self.by_number.get_mut(&number).expect("the group of a topic exists")
    }
}

impl Group {
    pub(crate) fn new(namespace: NamespaceNumber, name: GroupName, start: Start, office: Option<OfficePage>) -> Group {
        let starting = (start != Start::Latest).then(Reached::default);
        Group {
            namespace,
            name,
            is_ending: false,
            start,
            starting,
            unsettled: None,
            office: office.map(Box::new),
            topics: 0,
            counts: Counts::default(),
            tally: Tally::default(),
            spans: Spans::default(),
            bytes: 0,
            shelves: [0; SHELVES],
            cold: [0; SHELVES],
            held_by_none: 0,
        }
    }

    /// Whether its start has still to come to a topic. What was published there since waits until then, for older messages
    /// go before it.
    pub(crate) fn is_before(&self, name: &TopicName) -> bool {
        let is_behind = |reached: &Reached| Name::compare_key(name.as_bytes(), &reached.at).is_ge();
        self.starting.as_ref().is_some_and(is_behind)
    }

    /// A run is in line.
    pub(crate) fn queue(&mut self, run: &RunPage) {
        self.counts.waiting += u64::from(run.count);
        self.spans.add(run.published, run.count.into());
    }

    /// A run is no longer in line.
    pub(crate) fn dequeue(&mut self, run: &RunPage) {
        self.counts.waiting -= u64::from(run.count);
        self.spans.remove(run.published, run.count.into());
    }

    /// What it holds of what the quotas of its namespace limit.
    pub(crate) fn usage(&self) -> Usage {
        let messages = self.counts.unfinished() + self.counts.dead;
        Usage { messages, bytes: self.bytes, topics: self.topics, connections: 0 }
    }

    /// Whether it holds no topics and no dead letters.
    pub(crate) fn is_empty(&self) -> bool {
        self.topics == 0 && self.counts.dead == 0
    }

    /// Whether any of its topics is not in memory.
    pub(crate) fn is_cold(&self) -> bool {
        self.cold != [0; SHELVES]
    }

    /// The shelves on which topics stand that are not in memory.
    pub(crate) fn cold_shelves(&self) -> impl Iterator<Item = Shelf> + use<> {
        let cold = self.cold;
        Shelf::all().filter(move |shelf| cold[shelf.index()] > 0)
    }
}
