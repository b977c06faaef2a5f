//! The broker as plain collections, made of facts alone: one object a message and group, every question answered by a walk.
//!
//! It follows what any group of any namespace holds, where [`crate::ledger`] follows what becomes of the messages of the
//! `default` groups. What a fact may say is not its business: [`crate::promises`] holds each fact against the model before
//! the model takes it in. It is copied whole, so a crash goes back to the copy that is durable and on from there.

mod arrivals;
mod audit;
mod bucket;
mod counted;
mod follow;
mod given;
mod home;
mod letters;
mod newest;
mod ready;
mod states;
mod topic;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{GroupNumber, NamespaceNumber};
use millpond_core::store::Name;
use millpond_types::{
    GroupKind, GroupName, LeaderEpoch, LeaseNumber, MessageId, NamespaceName, OfficeTerms, OutcomeRun, Policy,
    Priority, ProducerId, PublishOutcome, Receipt, Rules, RunTime, Sequence, SessionId, Start, Tally, TopicName,
    TopicNumber, WallTime,
};

pub use self::follow::sequences;
pub use self::given::Given;
pub use self::home::{Exchange, Home};
pub use self::letters::Letters;
pub use self::newest::Newest;
pub use self::topic::{Message, State, Terms, Topic};

/// A message's place in its topic.
pub type Key = (Priority, Sequence);
/// A topic of a group.
pub type TopicKey = (GroupNumber, TopicNumber);

/// See the module.
#[derive(Clone)]
pub struct Model {
    /// How many facts it was made of.
    pub followed: u64,
    /// All namespaces.
    pub namespaces: BTreeMap<NamespaceNumber, Home>,
    /// All groups, those that are being deleted among them.
    pub groups: BTreeMap<GroupNumber, Group>,
    /// The topics of each.
    pub topics: BTreeMap<TopicKey, Topic>,
    /// What each message says of itself, whatever has become of it since.
    pub tags: BTreeMap<MessageId, u64>,
    /// The bytes that each takes, likewise.
    pub lengths: BTreeMap<MessageId, u32>,
    /// What each lease was given with.
    pub given: BTreeMap<Receipt, Given>,
    /// Dead letters.
    pub letters: Letters,
    /// What is remembered of dedup ids, and until when.
    pub dedups: BTreeMap<u128, (MessageId, WallTime)>,
    /// The namespaces of all topics that there ever were.
    homes: BTreeMap<TopicNumber, NamespaceNumber>,
    /// How many messages were published, stored or not, and how many before each that is known by its id.
    pub published: u64,
    order: BTreeMap<MessageId, u64>,
    /// Producer sessions.
    pub producers: BTreeMap<(NamespaceNumber, ProducerId), Producer>,
}

/// A group.
#[derive(Clone)]
pub struct Group {
    /// Its namespace.
    pub namespace: NamespaceNumber,
    /// Its name.
    pub name: GroupName,
    /// Where it begins.
    pub start: Start,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// Whether it has still to be given what it begins with.
    pub is_starting: bool,
    /// The place in the order of names that its start has come to.
    pub reached: Vec<u8>,
    /// Where it goes on in the topic that stands there, if it is in the midst of that.
    pub rest: Option<Key>,
    /// What others held when it was made, that its start admits, and it was not given.
    pub due: BTreeSet<MessageId>,
    /// Of these, what was in a topic where one message stood for all, at some time of its start.
    pub excused: BTreeSet<MessageId>,
    /// Whether the policies have changed since it was made.
    pub is_mixed: bool,
    /// Whether its topics have still to be settled by the policy.
    pub is_settling: bool,
    /// Of one that has a leader.
    pub office: Option<Office>,
    /// What has become of the messages that came to it.
    pub tally: Tally,
}

/// The office of a group.
#[derive(Clone, Copy, Debug)]
pub struct Office {
    /// How long it is held, and handed over.
    pub terms: OfficeTerms,
    /// Who holds it.
    pub leader: Option<SessionId>,
    /// Of the latest leader.
    pub epoch: LeaderEpoch,
    /// Until when leases of one who has left it last, while there are any.
    pub outgoing: Option<RunTime>,
}

/// A producer session.
#[derive(Clone, Default)]
pub struct Producer {
    /// Its instance.
    pub instance: u32,
    /// What was decided of each batch of that instance.
    pub batches: BTreeMap<u64, Vec<OutcomeRun<PublishOutcome>>>,
}

impl Model {
    /// What there is before anything has happened: the namespace `default`, and its group.
    pub fn new() -> Model {
        let home = Home::new(NamespaceName::default(), Policy::default(), Rules::default());
        let group = Group::new(0, GroupName::default(), Start::Latest, GroupKind::Shared);
        Model {
            followed: 0,
            namespaces: BTreeMap::from([(0, home)]),
            groups: BTreeMap::from([(0, group)]),
            topics: BTreeMap::new(),
            tags: BTreeMap::new(),
            lengths: BTreeMap::new(),
            given: BTreeMap::new(),
            letters: Letters::default(),
            dedups: BTreeMap::new(),
            homes: BTreeMap::new(),
            published: 0,
            order: BTreeMap::new(),
            producers: BTreeMap::new(),
        }
    }

    /// The number of a namespace.
    pub fn namespace(&self, name: &NamespaceName) -> Option<NamespaceNumber> {
        self.namespaces.iter().find(|(_, home)| home.name == *name).map(|(number, _)| *number)
    }

    /// The namespace of a group.
    pub fn home(&self, group: GroupNumber) -> &Home {
        &self.namespaces[&self.groups[&group].namespace]
    }

    /// The groups of a namespace that are not being deleted.
    pub fn groups_of(&self, namespace: NamespaceNumber) -> impl Iterator<Item = GroupNumber> {
        let of = move |(_, group): &(&GroupNumber, &Group)| group.namespace == namespace && !group.is_ending;
        self.groups.iter().filter(of).map(|(number, _)| *number)
    }

    /// The topics of a group.
    pub fn topics_of(&self, group: GroupNumber) -> impl Iterator<Item = (TopicNumber, &Topic)> {
        let of = (group, TopicNumber(0))..=(group, TopicNumber(u64::MAX));
        self.topics.range(of).map(|((_, number), topic)| (*number, topic))
    }

    /// The topic of a name in a group.
    pub fn topic_named(&self, group: GroupNumber, name: &TopicName) -> Option<(TopicNumber, &Topic)> {
        self.topics_of(group).find(|(_, topic)| topic.name == *name)
    }

    /// A message that a group holds, and not as a dead letter.
    pub fn message(&self, group: GroupNumber, id: MessageId) -> Option<&Message> {
        self.topics.get(&(group, id.topic))?.messages.get(&(id.priority, id.sequence))
    }

    /// All current leases, each with its message and whose topic it is of.
    pub fn leases(&self) -> impl Iterator<Item = (TopicKey, LeaseNumber, &Message)> {
        self.topics.iter().flat_map(|(key, topic)| topic.leased().map(|(lease, message)| (*key, lease, message)))
    }

    /// What a dedup id is remembered as.
    pub fn remembered(&self, hash: u128, now: WallTime) -> Option<MessageId> {
        self.dedups.get(&hash).filter(|(_, until)| *until > now).map(|(id, _)| *id)
    }

    /// A message or topic that is not finished, in any group.
    pub fn left(&self) -> Option<String> {
        let ((group, number), topic) = self.topics.first_key_value()?;
        let messages = topic.messages.len();
        Some(format!("group {group} has topic {} ({number:?}) with {messages} messages", topic.name))
    }
}

impl Group {
    /// Whether its start has still to come to a message.
    pub fn is_before(&self, name: &TopicName, (priority, sequence): Key) -> bool {
        let is_past = |(of, next)| priority > of || priority == of && sequence < next;
        match Name::compare_key(name.as_bytes(), &self.reached) {
            _ if !self.is_starting || self.is_ending => false,
            Ordering::Equal => !self.rest.is_some_and(is_past),
            place => place.is_gt(),
        }
    }

    fn new(namespace: NamespaceNumber, name: GroupName, start: Start, kind: GroupKind) -> Group {
        let office = match kind {
            GroupKind::Shared => None,
            GroupKind::Exclusive(terms) => Some(Office { terms, leader: None, epoch: LeaderEpoch(0), outgoing: None }),
        };
        let (is_starting, due, excused) = (start != Start::Latest, BTreeSet::new(), BTreeSet::new());
        Group {
            namespace,
            name,
            start,
            is_ending: false,
            is_starting,
            reached: Vec::new(),
            rest: None,
            due,
            excused,
            is_mixed: false,
            is_settling: false,
            office,
            tally: Tally::default(),
        }
    }
}
