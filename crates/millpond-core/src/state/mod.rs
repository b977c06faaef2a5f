//! All that the broker knows, as far as facts tell it.
//!
//! The state changes only by [`State::apply`](crate::apply), live and in replay alike. What stands beside it in
//! [`crate::Core`] (consumers and their turns, parked commands) is derived or belongs to connections, and is never journaled.
//! Timers live here because facts set them; what falls due is decided in [`crate::advance`].

pub(crate) mod ageing;
pub(crate) mod bounds;
pub(crate) mod bucket;
pub(crate) mod dead;
pub(crate) mod dedup;
pub(crate) mod entries;
pub(crate) mod exchanges;
pub(crate) mod few;
pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod held;
pub(crate) mod holders;
pub(crate) mod leased;
pub(crate) mod line;
pub(crate) mod namespace;
pub(crate) mod numbers;
pub(crate) mod office;
pub(crate) mod order;
pub(crate) mod pauses;
pub(crate) mod pieces;
pub(crate) mod policies;
pub(crate) mod producer;
pub(crate) mod ready;
pub(crate) mod resident;
pub(crate) mod resting;
pub(crate) mod series;
pub(crate) mod setup;
pub(crate) mod slots;
pub(crate) mod spans;
pub(crate) mod stored;
pub(crate) mod sweeps;
pub(crate) mod topic;
pub(crate) mod topics;
pub(crate) mod view;
pub(crate) mod warm;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use hashbrown::HashMap;
use millpond_types::{
    ExchangeName, LeaseNumber, PausedTopics, Policy, Priority, RunTime, Sequence, SessionId, TopicNumber, WallTime,
};
use slab::Slab;

use crate::fact::{Epoch, GroupNumber, NamespaceNumber};
use crate::output::{Holdings, Notice};
use crate::state::bounds::LevelBounds;
use crate::state::entries::Fetched;
use crate::state::group::Groups;
use crate::state::hash::FixedState;
use crate::state::holders::Holder;
use crate::state::leased::Leased;
use crate::state::namespace::{Namespace, Namespaces};
use crate::state::numbers::Numbers;
use crate::state::pauses::Pauses;
use crate::state::pieces::PieceTimers;
use crate::state::producer::Producers;
use crate::state::resident::Residents;
use crate::state::stored::{Capture, Replayed};
use crate::state::sweeps::{Sweep, Sweeps};
use crate::state::topic::{Lease, Topic, Touched};
use crate::state::topics::Topics;
use crate::store::{Key, Name, Store};
use crate::time_index::TimeIndex;

/// A topic's place in memory, reused after the topic has vanished.
pub(crate) type TopicSlot = u32;
/// A lease run's place in memory.
pub(crate) type LeaseSlot = u32;

/// The two times of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Continues where the journal left it; never goes back.
    pub run: RunTime,
    /// The clock on the wall; never goes back.
    pub wall: WallTime,
}

/// What a timer of the state is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// A lease run runs out.
    Lease(LeaseSlot),
    /// A message set aside becomes ready.
    Ripe { slot: TopicSlot, priority: Priority, first: Sequence },
    /// The TTL of a published run passes.
    Expiry { slot: TopicSlot, priority: Priority, first: Sequence },
    /// There is a token for a topic again, or all of them.
    Refill(TopicSlot),
    /// What waits in a topic for long enough is raised a level.
    Raise(TopicSlot),
}

pub(crate) struct State {
    pub(crate) hash_key: [u64; 2],
    /// What is not in memory.
    pub(crate) store: Box<dyn Store>,
    /// That of the facts which are applied now.
    pub(crate) epoch: Epoch,
    /// Topics that have changed in this epoch.
    pub(crate) changed: Vec<(TopicSlot, TopicNumber)>,
    /// The checkpoint that is being captured.
    pub(crate) capture: Option<Capture>,
    pub(crate) now: Now,
    pub(crate) numbers: Numbers,
    pub(crate) namespaces: Namespaces,
    /// Bytes that all takes which is set up, about.
    pub(crate) setup: usize,
    pub(crate) groups: Groups,
    pub(crate) topics: Topics,
    /// How much of each level stays in memory.
    pub(crate) bounds: LevelBounds,
    pub(crate) leases: Slab<Lease>,
    pub(crate) holders: HashMap<SessionId, Holder, FixedState>,
    /// Lost sessions that may hold nothing any more, for dispatch to look at as the next turn begins.
    pub(crate) emptied: Vec<SessionId>,
    pub(crate) leased: Leased,
    /// What was fetched for parked commands, of what is looked up one by one.
    pub(crate) fetched: Fetched,
    pub(crate) producers: Producers,
    /// Deadlines in run time.
    pub(crate) run_timers: TimeIndex<Timer>,
    /// Deadlines in wall time.
    pub(crate) wall_timers: TimeIndex<Timer>,
    /// When pauses are over, in wall time.
    pub(crate) pause_ends: BTreeSet<(WallTime, NamespaceNumber, PausedTopics)>,
    /// First deadlines of pieces that are in the store.
    pub(crate) piece_timers: PieceTimers,
    /// What has changed of what is needed of the journal, for the shell.
    pub(crate) holdings: Holdings,
    /// What edges have to know, for the shell.
    pub(crate) notices: Vec<Notice>,
    /// The namespaces that edges know of that they wait for starts.
    pub(crate) told_held: BTreeSet<NamespaceNumber>,
    /// Exchanges that have changed since edges were told.
    pub(crate) rebound: BTreeSet<(NamespaceNumber, ExchangeName)>,
    /// Topics that something has happened to, for what they are offered at and for vanishing.
    pub(crate) touched: Vec<TopicSlot>,
    /// Topics that something may have happened to.
    pub(crate) sweeps: Sweeps,
    /// The entries of topics that have vanished, of which the store has still to be told: many topics vanish at a time.
    pub(crate) gone: Vec<Key>,
    pub(crate) residents: Residents,
    /// Topics that are not in memory.
    pub(crate) cold: u64,
    /// While facts are replayed.
    pub(crate) replayed: Option<Replayed>,
}

impl State {
    /// Whether a lease is current. One of a run ends with those before it.
    pub(crate) fn is_leased(&self, slot: TopicSlot, number: LeaseNumber) -> bool {
        self.topics[slot].lease(number).is_some_and(|lease| self.leases[lease as usize].end() > number)
    }

    pub(crate) fn new(hash_key: [u64; 2], store: Box<dyn Store>) -> State {
        State {
            hash_key,
            store,
            epoch: 0,
            changed: Vec::new(),
            capture: None,
            now: Now::default(),
            numbers: Numbers::default(),
            namespaces: Namespaces::default(),
            setup: 0,
            groups: Groups::default(),
            topics: Topics::new(hash_key),
            bounds: LevelBounds::ENDS,
            leases: Slab::new(),
            holders: HashMap::default(),
            emptied: Vec::new(),
            leased: Leased::default(),
            fetched: Fetched::new(),
            producers: Producers::default(),
            run_timers: TimeIndex::new(),
            wall_timers: TimeIndex::new(),
            pause_ends: BTreeSet::new(),
            piece_timers: PieceTimers::new(),
            holdings: Holdings::default(),
            notices: Vec::new(),
            told_held: BTreeSet::new(),
            rebound: BTreeSet::new(),
            touched: Vec::new(),
            sweeps: Sweeps::default(),
            gone: Vec::new(),
            residents: Residents::default(),
            cold: 0,
            replayed: Some(Replayed::default()),
        }
    }

    /// Remembers that a topic may have become ready, or empty.
    pub(crate) fn touch(&mut self, slot: TopicSlot) {
        self.note_touched(slot, Touched::Changed);
    }

    /// Remembers that there is more of a topic in memory than there was.
    pub(crate) fn came(&mut self, slot: TopicSlot) {
        self.note_touched(slot, Touched::Came);
    }

    fn note_touched(&mut self, slot: TopicSlot, how: Touched) {
        let topic = &mut self.topics[slot];
        if topic.touched == Touched::No {
            self.touched.push(slot);
        }
        if topic.touched != Touched::Changed {
            topic.touched = how;
        }
    }

    /// Whether a topic that holds nothing stays, because the start of its group has still to come to it.
    pub(crate) fn is_kept_empty(&self, topic: &Topic) -> bool {
        (topic.is_held || self.is_filling(topic)) && !self.groups[topic.group].is_ending
    }

    /// Lets edges know of something. A start tells them all at once.
    pub(crate) fn notify(&mut self, notice: impl FnOnce(&State) -> Notice) {
        if self.replayed.is_none() {
            let notice = notice(self);
            self.notices.push(notice);
        }
    }

    /// The policy of a topic.
    pub(crate) fn policy(&self, slot: TopicSlot) -> &Policy {
        let topic = &self.topics[slot];
        self.namespaces[topic.namespace].policies.of(topic)
    }

    /// Brings what a topic is offered at in the order up to date. True if that was news.
    pub(crate) fn refresh(&mut self, slot: TopicSlot) -> bool {
        let topic = &mut self.topics[slot];
        let policies = &self.namespaces[topic.namespace].policies;
        policies.settle(topic);
        let level = topic.ready_level(policies.of(topic));
        level != topic.offered && {
            self.topics.offer(slot, level);
            true
        }
    }

    /// Nothing that happened to topics while facts were replayed is news any more.
    pub(crate) fn settle_touched(&mut self) {
        self.forget_gone();
        while let Some(slot) = self.touched.pop() {
            self.topics[slot].touched = Touched::No;
            self.store_middles(slot);
            // What would have to be fetched for it can wait until somebody reads.
            self.store_resting(slot);
            self.used(slot);
            self.refresh(slot);
            self.arm_bucket(slot);
            self.arm_raise(slot);
        }
    }

    /// Lets all topics with a prefix be looked at again, bit by bit.
    pub(crate) fn sweep_prefix(&mut self, namespace: NamespaceNumber, prefix: &[u8]) {
        let Namespace { groups, ending, .. } = &self.namespaces[namespace];
        for group in groups.iter().chain(ending) {
            let from = (*group, Name::bytes(prefix));
            self.sweeps.push(Sweep { from, until: (*group, Name::prefix_end(prefix)) });
        }
    }

    /// What is paused in the namespace of a group.
    pub(crate) fn pauses(&self, group: GroupNumber) -> &Pauses {
        &self.namespaces[self.groups[group].namespace].paused
    }
}
