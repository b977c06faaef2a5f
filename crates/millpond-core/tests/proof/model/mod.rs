//! The broker as plain collections: one object a message, every question answered by a walk over all of them.
//!
//! Obviously right and slow. It knows nothing of runs, turns, wheels, facts or pages. What the design leaves open, which
//! of several tenants goes first, it does not predict: [`dispatch`] takes the core's choice and holds it against the
//! rules. One namespace, `default`; each of its groups has topics, messages and dead letters of its own.

mod coalesce;
mod decide;
mod dispatch;
mod finish;
mod groups;
mod publish;
mod quota;
mod rate;
mod retention;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::GroupNumber;
use millpond_types::{
    Filter, LeaseNumber, MessageId, OnExpiry, Pattern, PausedTopics, Policy, Priority, Rules, Sequence, TopicName,
    TopicNumber,
};

pub struct Model {
    pub run: u64,
    pub wall: u64,
    policy: Policy,
    rules: Rules,
    /// By their numbers, which are never given out again.
    pub groups: BTreeMap<GroupNumber, groups::Group>,
    pub topics: BTreeMap<Place, Topic>,
    pub dead: BTreeMap<(Place, MessageId), Dead>,
    dedup: BTreeMap<u128, (MessageId, u64)>,
    /// With the time when it is over.
    pub paused: BTreeMap<PausedTopics, u64>,
    pub sessions: BTreeMap<u64, Session>,
    consumers: Vec<Consumer>,
    next_group: GroupNumber,
    next_topic: u64,
    high_water: u64,
    raised: u64,
    grace: u64,
    waits: dispatch::Waits,
    /// The run that a consumer is being given.
    in_run: Option<InRun>,
    /// When it is looked next at what groups are not to keep.
    next_look: u64,
}

/// A topic of a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub group: GroupNumber,
    pub name: TopicName,
}

pub struct Topic {
    /// In all groups that have it the same.
    pub number: TopicNumber,
    floor: u64,
    pub next: BTreeMap<Priority, u64>,
    tokens: rate::Tokens,
    /// All that are not finished.
    pub messages: BTreeMap<Key, Message>,
}

/// A message of a topic: its priority and sequence.
pub type Key = (Priority, u64);

#[derive(Clone, Debug)]
pub struct Message {
    pub body: String,
    size: u64,
    published: u64,
    /// Since when it waits, but for the times at which it was leased.
    since: u64,
    expires: Option<u64>,
    dedup: Option<u128>,
    /// It is its group's alone.
    is_redriven: bool,
    pub deliveries: u32,
    pub failures: u32,
    pub state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Never looked at.
    InLine,
    /// Came back or fell due; goes before everything in line from this sequence on, unless the order is strict.
    Back(u64),
    /// Until this wall time.
    Delayed(u64),
    /// Until this run time.
    Retrying(u64),
    Leased {
        lease: u64,
        /// The first lease of its run.
        run: Option<u64>,
        holder: u64,
        duration: u64,
        deadline: u64,
    },
}

pub struct Dead {
    pub message: Message,
    pub reason: &'static str,
}

pub struct Session {
    resume: u64,
    /// When it expires, if its connection is lost.
    pub lost: Option<u64>,
}

struct InRun {
    who: Who,
    place: Place,
    /// Its first lease.
    first: LeaseNumber,
    left: u64,
    /// Where the topic stood when it began.
    stand: Priority,
}

struct Consumer {
    who: Who,
    group: GroupNumber,
    filter: Filter,
    messages: u64,
    /// Less than nothing where the last message took more than were left.
    bytes: i64,
    /// Whether it has been given anything.
    has_got: bool,
    lease: Option<u64>,
    /// Its messages end as it is given them.
    at_most_once: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    Attached { session: u64, consumer: u32 },
    Once { ticket: u64, until: u64 },
}

impl Model {
    pub fn new(run: u64, wall: u64) -> Model {
        Model {
            run,
            wall,
            policy: Policy::default(),
            rules: Rules::default(),
            groups: BTreeMap::from([(0, groups::Group::default())]),
            topics: BTreeMap::new(),
            dead: BTreeMap::new(),
            dedup: BTreeMap::new(),
            paused: BTreeMap::new(),
            sessions: BTreeMap::new(),
            consumers: Vec::new(),
            next_group: 1,
            next_topic: 0,
            high_water: 0,
            raised: 0,
            grace: 0,
            waits: dispatch::Waits::default(),
            in_run: None,
            next_look: 0,
        }
    }

    /// What time has brought; the sessions that have expired.
    pub fn advance(&mut self) -> Vec<u64> {
        let (run, wall) = (self.run, self.wall);
        self.paused.retain(|_, until| *until > wall);
        if run >= self.grace {
            let ran_out = |message: &Message| match message.state {
                State::Leased { holder: 0, deadline, .. } => deadline <= run,
                _ => false,
            };
            let mut leases = self.find(ran_out);
            // Those that ran out first, also while they had to wait for the grace after a start.
            leases.sort_by_key(|(place, key)| {
                let topic = &self.topics[place];
                let State::Leased { deadline, .. } = topic.messages[key].state else { unreachable!("it is leased") };
                (deadline.max(self.grace), topic.number, *key)
            });
            self.run_out(leases);
        }
        for (place, key) in self.find(|message| {
            matches!(message.state, State::Retrying(due) if due <= run)
                || matches!(message.state, State::Delayed(due) if due <= wall)
        }) {
            self.message(&place, key).state = State::Back(0);
        }
        for topic in self.topics.values_mut() {
            topic.tokens.dry = topic.tokens.dry.filter(|until| *until > run);
        }
        let is_over = |message: &Message| {
            message.expires.is_some_and(|at| at <= wall) && !matches!(message.state, State::Leased { .. })
        };
        for (place, key) in self.find(is_over) {
            self.expire(&place, key);
        }
        let over = |session: &Session| session.lost.is_some_and(|at| at <= run);
        let mut expired: Vec<(u64, u64)> =
            self.sessions.iter().filter(|(_, s)| over(s)).map(|(id, s)| (s.lost.unwrap(), *id)).collect();
        expired.sort_unstable();
        for (_, session) in &expired {
            self.sessions.remove(session);
            self.run_out(self.held_by(*session));
        }
        let too_much = self.too_much();
        self.start_group();
        self.retain_out(too_much);
        expired.into_iter().map(|(_, session)| session).collect()
    }

    /// Nothing is left of empty topics, but for those whose tokens are not all there, or whose group starts.
    pub fn vanish(&mut self) {
        let (run, groups) = (self.run, &self.groups);
        let is_starting = |group| groups[&group].start.is_some();
        self.topics
            .retain(|place, topic| !topic.messages.is_empty() || topic.tokens.full > run || is_starting(place.group));
    }

    /// The broker was started anew; `raised` is what its numbers were raised to.
    pub fn restart(&mut self, raised: u64) {
        self.raised = raised;
        self.consumers.clear();
        self.waits.clear();
        self.next_look = 0;
        let leased = self.topics.values().flat_map(|topic| topic.messages.values());
        let holders: BTreeSet<u64> = leased.filter_map(|message| message.holder()).collect();
        self.grace = if holders.is_empty() { self.run } else { self.run + 10_000 };
        let lost = |_| Session { resume: 10_000, lost: Some(self.grace) };
        self.sessions = holders.into_iter().filter(|id| *id != 0).map(|id| (id, lost(id))).collect();
    }

    /// The topic's messages that are ready, in the order of delivery, over all priorities.
    pub fn ready(&self, place: &Place) -> Vec<(Key, &Message)> {
        let (topic, is_strict) = (&self.topics[place], self.policy_of(&place.name).is_strict());
        let place = |priority: Priority, sequence: u64, message: &Message| match message.state {
            State::InLine => Some((9 - priority.level(), sequence, 1, sequence)),
            State::Back(_) if is_strict => Some((9 - priority.level(), sequence, 0, sequence)),
            State::Back(behind) => Some((9 - priority.level(), behind, 0, sequence)),
            _ => None,
        };
        let mut ready: Vec<_> = topic
            .messages
            .iter()
            .filter_map(|((priority, sequence), message)| {
                Some((place(*priority, *sequence, message)?, ((*priority, *sequence), message)))
            })
            .collect();
        ready.sort_unstable_by_key(|(place, _)| *place);
        ready.into_iter().map(|(_, found)| found).collect()
    }

    /// The policy of a topic: the namespace's, or what the rule that is closest to its name makes of it.
    fn policy_of(&self, name: &TopicName) -> Policy {
        let fits = |pattern: &Pattern| match pattern.is_prefix {
            true => name.as_bytes().starts_with(pattern.name.as_bytes()),
            false => pattern.name == *name,
        };
        let fitting = self.rules.iter().filter(|rule| fits(&rule.pattern));
        let closest = fitting.max_by_key(|rule| (!rule.pattern.is_prefix, rule.pattern.name.as_bytes().len()));
        closest.map_or(self.policy.clone(), |rule| rule.overrides.over(&self.policy))
    }

    pub fn is_paused(&self, name: &TopicName) -> bool {
        self.paused.keys().any(|paused| match paused.is_prefix() {
            true => name.as_bytes().starts_with(paused.as_bytes()),
            false => name.as_bytes() == paused.as_bytes(),
        })
    }

    fn expire(&mut self, place: &Place, key: Key) -> &'static str {
        match self.policy_of(&place.name).on_expiry {
            OnExpiry::Drop => {
                self.take(place, key);
                "done"
            }
            OnExpiry::Dead => {
                self.die(place, key, "expired");
                "dead"
            }
        }
    }

    fn die(&mut self, place: &Place, key: Key, reason: &'static str) {
        let id = self.id(place, key);
        let message = self.take(place, key);
        self.dead.insert((place.clone(), id), Dead { message, reason });
    }

    fn find(&self, which: impl Fn(&Message) -> bool) -> Vec<(Place, Key)> {
        let mut found = Vec::new();
        for (place, topic) in &self.topics {
            found.extend(topic.messages.iter().filter(|(_, m)| which(m)).map(|(key, _)| (place.clone(), *key)));
        }
        found
    }

    /// In the order in which a session gives back what it holds: that of the topics' numbers, and of the leases.
    fn held_by(&self, session: u64) -> Vec<(Place, Key)> {
        let mut held = self.find(|message| message.holder() == Some(session));
        held.sort_by_key(|(place, key)| {
            let topic = &self.topics[place];
            let State::Leased { lease, .. } = topic.messages[key].state else { unreachable!("it is held") };
            (topic.number, lease)
        });
        held
    }

    fn message(&mut self, place: &Place, key: Key) -> &mut Message {
        self.topics.get_mut(place).unwrap().messages.get_mut(&key).unwrap()
    }

    fn take(&mut self, place: &Place, key: Key) -> Message {
        self.topics.get_mut(place).unwrap().messages.remove(&key).unwrap()
    }

    fn id(&self, place: &Place, (priority, sequence): Key) -> MessageId {
        MessageId { topic: self.topics[place].number, priority, sequence: Sequence(sequence) }
    }
}

impl Message {
    fn holder(&self) -> Option<u64> {
        match self.state {
            State::Leased { holder, .. } => Some(holder),
            _ => None,
        }
    }
}
