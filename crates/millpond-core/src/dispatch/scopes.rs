//! The scopes in use. All topics of a group are one, and so is each set of prefixes and each set of names that
//! consumers ask for: a consumer has one scope, so the order of dispatch holds over all that it asks for, and consumers
//! that ask for the same share it and its turns.
//!
//! Invariant: a scope with a consumer with credit, and a topic offered that it admits, is among the *stirred*, so a turn
//! looks at what something has happened to and never at all scopes.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use millpond_types::limits::{PREFIX_SETS_MAX, PREFIXES_MAX};
use millpond_types::{Dispatch, Filter, Priority, TopicName};
use slab::Slab;

use crate::dispatch::ConsumerSlot;
use crate::dispatch::domain::{Domain, List, covers};
use crate::dispatch::fair::UnknownAt;
use crate::dispatch::living;
use crate::dispatch::reach::Reach;
use crate::dispatch::remembered::Remembered;
use crate::dispatch::scope::{Scope, ScopeSlot, Turn};
use crate::fact::GroupNumber;
use crate::state::topic::Topic;
use crate::state::{State, TopicSlot};
use crate::store::Name;

/// Sets of names per group that nobody uses and that are kept all the same: a receive that comes again and again
/// finds the turns where the one before has left them.
const LISTS_IDLE_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) slots: Slab<Scope>,
    homes: BTreeMap<GroupNumber, Home>,
    /// Scopes that topics or consumers have come to.
    stirred: BTreeSet<ScopeSlot>,
    /// Bytes that they take, about. That of all topics of a group is counted with the group.
    bytes: usize,
    /// Those that nobody uses.
    idle: BTreeSet<ScopeSlot>,
    /// Those that nobody uses and whose turns are remembered, in the order in which they were left.
    pub(super) left: BTreeSet<(u64, ScopeSlot)>,
    pub(super) remembered: Remembered,
    /// The scope that is served first in the next turn, so that none always has the first pick.
    first: ScopeSlot,
    /// Scopes of names or prefixes that need something of the disk before it is known who is next.
    asking: BTreeSet<ScopeSlot>,
    /// Which of them asks first.
    asks_first: ScopeSlot,
}

/// The scopes of a group.
#[derive(Default)]
struct Home {
    all: Option<ScopeSlot>,
    prefixes: Vec<(Vec<TopicName>, ScopeSlot)>,
    lists: BTreeMap<Vec<TopicName>, ScopeSlot>,
    /// Per name the lists that it is in.
    listed: BTreeMap<TopicName, Vec<ScopeSlot>>,
    /// Lists that nobody uses, in the order in which they were left.
    idle_lists: VecDeque<ScopeSlot>,
}

/// Why there is no scope for a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoScope {
    /// It needs more prefixes than a group may have in use.
    Prefixes,
    /// There is no room for it.
    Room,
    /// The client would hold more than it leaves free for others. It holds so much.
    Share { held: usize },
}

impl Scopes {
    /// The scope that a filter stands for, made in so many bytes where it is not there.
    pub(crate) fn open(
        &mut self,
        group: GroupNumber,
        filter: &Filter,
        of: (&State, &Reach),
        room: usize,
    ) -> Result<ScopeSlot, NoScope> {
        let found = match filter {
            Filter::All => self.all(group),
            Filter::Topics(names) => self.list(group, names, of, room)?,
            Filter::Prefixes(prefixes) => self.prefixes(group, prefixes, room)?,
        };
        self.idle.remove(&found);
        let namespace = of.0.groups[group].namespace;
        let scope = &mut self.slots[found as usize];
        self.left.remove(&(scope.left, found));
        scope.set_dispatch(of.0.namespaces[namespace].policies.base.dispatch, &mut self.remembered);
        scope.users += 1;
        Ok(found)
    }

    /// A consumer no longer uses the scope; `queued` is whether it stands among the hungry. A set of prefixes keeps
    /// its turns for the next one, and so does a list, unless there are too many.
    pub(crate) fn close(&mut self, slot: ScopeSlot, consumer: ConsumerSlot, queued: bool) {
        if queued {
            self.starve(slot, consumer);
        }
        let scope = &mut self.slots[slot as usize];
        scope.users -= 1;
        if scope.users == 0 && scope.weigh_turns() != (0, 0) {
            scope.left = self.remembered.use_one();
            self.left.insert((scope.left, slot));
        }
        if scope.users == 0 && !matches!(scope.domain, Domain::All) {
            self.idle.insert(slot);
        }
        if scope.users == 0 && matches!(scope.domain, Domain::List(_)) {
            let idle = &mut self.homes.get_mut(&scope.group).expect("a scope has a home").idle_lists;
            idle.push_back(slot);
            if idle.len() > LISTS_IDLE_MAX {
                let oldest = idle.pop_front().expect("there are some");
                self.remove(oldest);
            }
        }
    }

    /// The dispatch of a namespace with some groups is this from here on.
    pub(crate) fn set_dispatch(&mut self, groups: &[GroupNumber], dispatch: Dispatch) {
        for (slot, scope) in self.slots.iter_mut().filter(|(_, scope)| groups.contains(&scope.group)) {
            scope.set_dispatch(dispatch, &mut self.remembered);
            if scope.weigh_turns() == (0, 0) {
                self.left.remove(&(scope.left, slot as ScopeSlot));
            }
        }
    }

    /// The topic whose turn it is in a scope, or what has to be read before that is known.
    pub(super) fn next_turn(
        &mut self,
        slot: ScopeSlot,
        state: &State,
        reach: &Reach,
    ) -> Result<Option<Turn>, UnknownAt> {
        self.slots[slot as usize].next_turn(state, reach, &mut self.remembered)
    }

    /// A topic was served in a scope; `left` messages of its turn are for later.
    pub(super) fn served(&mut self, slot: ScopeSlot, turn: &Turn, left: u32, state: &State) {
        self.slots[slot as usize].served(turn, left, state, &mut self.remembered);
        // Not before: whose turn it is may be asked again, when what had to be read for it is there.
        self.forget_turns();
    }

    /// The scopes of a group that is deleted go with it.
    pub(crate) fn close_group(&mut self, group: GroupNumber) {
        if let Some(home) = self.homes.remove(&group) {
            let prefixes = home.prefixes.into_iter().map(|(_, slot)| slot);
            prefixes.chain(home.all).chain(home.lists.into_values()).for_each(|slot| self.remove(slot));
        }
    }

    /// A consumer with credit stands among the hungry of the scope.
    pub(crate) fn feed(&mut self, slot: ScopeSlot, consumer: ConsumerSlot) {
        self.slots[slot as usize].hungry.push_back(consumer);
        self.stirred.insert(slot);
    }

    /// A consumer stands among the hungry of the scope no more.
    pub(crate) fn starve(&mut self, slot: ScopeSlot, consumer: ConsumerSlot) {
        let hungry = &mut self.slots[slot as usize].hungry;
        // Receives give up in about the order in which they came, so this one stands near the front.
        let at = hungry.iter().position(|hungry| *hungry == consumer);
        hungry.remove(at.expect("a consumer that is queued stands among the hungry"));
    }

    /// Takes the scopes that something has happened to.
    pub(crate) fn take_stirred(&mut self) -> Stirred {
        Stirred { first: self.first, rest: core::mem::take(&mut self.stirred) }
    }

    /// Puts those back that this turn did not come to.
    pub(crate) fn put_back(&mut self, Stirred { mut rest, .. }: Stirred) {
        if rest.len() > self.stirred.len() {
            core::mem::swap(&mut rest, &mut self.stirred);
        }
        self.stirred.append(&mut rest);
    }

    /// The next turn begins with this one.
    pub(crate) fn goes_first(&mut self, slot: ScopeSlot) {
        self.first = slot;
    }

    /// A scope of names or prefixes needs something of the disk.
    pub(super) fn asks(&mut self, slot: ScopeSlot) {
        self.asking.insert(slot);
    }

    /// Takes those that do, in the order in which they ask. Some may be gone.
    pub(super) fn take_asking(&mut self) -> Vec<ScopeSlot> {
        in_order_from(self.asks_first, core::mem::take(&mut self.asking))
    }

    /// There was no room for what a scope needs: in the next turn it asks first.
    pub(super) fn ask_first(&mut self, slot: ScopeSlot) {
        self.asks_first = slot;
    }

    /// Lets a scope be looked at again in the next turn.
    pub(crate) fn stir(&mut self, slot: ScopeSlot) {
        self.stirred.insert(slot);
    }

    /// What comes next in a scope is on its way: it is looked at again in the next turn, and who asks is not told of nothing.
    pub(crate) fn hold(&mut self, slot: ScopeSlot) {
        self.slots[slot as usize].is_held = true;
        self.stir(slot);
    }

    /// Nothing is known to be on its way in a scope that is served.
    pub(crate) fn let_go(&mut self, slot: ScopeSlot) {
        if let Some(scope) = self.slots.get_mut(slot as usize) {
            scope.is_held = false;
        }
    }

    /// Whether something is on its way to somebody.
    pub(crate) fn are_held(&self) -> bool {
        self.stirred.iter().any(|slot| {
            let scope = self.slots.get(*slot as usize);
            scope.is_some_and(|scope| scope.is_held && !scope.hungry.is_empty())
        })
    }

    pub(super) fn is_stirred(&self, slot: ScopeSlot) -> bool {
        self.stirred.contains(&slot)
    }

    pub(super) fn forget_wake_ups(&mut self) {
        self.stirred.clear();
        self.slots.iter_mut().for_each(|(_, scope)| scope.forget());
    }

    /// A topic is offered at another priority than before, or no longer: tells every scope that admits it.
    pub(crate) fn tell(&mut self, slot: TopicSlot, state: &State) {
        let topic = &state.topics[slot];
        self.for_lists(topic.group, &topic.name, |list| list.set(&topic.name, topic.offered));
        if let Some(priority) = topic.offered {
            self.tell_all(topic.group, &topic.name, priority, topic.hashes.tenant);
        }
    }

    /// A topic has left memory for a shelf.
    pub(crate) fn evicted(&mut self, topic: &Topic, priority: Priority, is_paused: bool) {
        self.for_lists(topic.group, &topic.name, |list| list.evicted(&topic.name, priority));
        if !is_paused {
            self.tell_all(topic.group, &topic.name, priority, topic.hashes.tenant);
        }
    }

    /// A name was looked for on a shelf: if it was there, it is in memory now.
    pub(crate) fn seen(&mut self, group: GroupNumber, priority: Priority, name: &TopicName) {
        self.for_lists(group, name, |list| list.seen(name, priority));
    }

    /// Anything that is not in memory may be offered again.
    pub(crate) fn reopen(&mut self, group: GroupNumber, reach: &Reach) {
        for (slot, scope) in self.slots.iter_mut().filter(|(_, scope)| scope.group == group) {
            for priority in reach.priorities(group) {
                scope.tell(priority, None);
                if !scope.hungry.is_empty() {
                    self.stirred.insert(slot as ScopeSlot);
                }
            }
        }
    }

    fn tell_all(&mut self, group: GroupNumber, name: &TopicName, priority: Priority, tenant: u64) {
        let Some(home) = self.homes.get(&group) else { return };
        let prefixes = home.prefixes.iter().filter(|(set, _)| covers(set, name)).map(|(_, scope)| scope);
        for scope_slot in home.all.iter().chain(prefixes).chain(home.listing(name)) {
            let scope = &mut self.slots[*scope_slot as usize];
            scope.tell(priority, Some(tenant));
            if !scope.hungry.is_empty() {
                self.stirred.insert(*scope_slot);
            }
        }
    }

    fn for_lists(&mut self, group: GroupNumber, name: &TopicName, mut tell: impl FnMut(&mut List)) {
        let Some(home) = self.homes.get(&group) else { return };
        for scope in home.listing(name) {
            let Domain::List(list) = &mut self.slots[*scope as usize].domain else { unreachable!("it is a list") };
            tell(list);
        }
    }

    /// Whether a consumer with credit stands idle in a scope that admits a topic, and nothing is on its way to it, nor was it left to
    /// the next turn by one that [is cut](super::measure). Only true in the middle of a turn.
    pub(crate) fn hungry_for(&self, topic: &Topic, is_cut: bool) -> bool {
        self.slots.iter().any(|(slot, scope)| {
            let waits = (scope.is_held || is_cut) && self.is_stirred(slot as ScopeSlot);
            scope.group == topic.group && !scope.hungry.is_empty() && !waits && scope.domain.admits(&topic.name)
        })
    }

    fn all(&mut self, group: GroupNumber) -> ScopeSlot {
        if let Some(slot) = self.homes.get(&group).and_then(|home| home.all) {
            return slot;
        }
        let slot = self.insert(group, Domain::All);
        self.homes.entry(group).or_default().all = Some(slot);
        slot
    }

    fn prefixes(&mut self, group: GroupNumber, prefixes: &[TopicName], room: usize) -> Result<ScopeSlot, NoScope> {
        // In order and without those that another one covers, so that equal sets are one scope.
        let mut set: Vec<TopicName> = prefixes.iter().map(TopicName::detach).collect();
        set.sort_unstable_by(|a, b| Name::compare(a.as_bytes(), b.as_bytes()));
        set.dedup_by(|name, before| name.as_bytes().starts_with(before.as_bytes()));
        let known = |home: &Home| home.prefixes.iter().find(|(known, _)| *known == set).map(|(_, slot)| *slot);
        if let Some(slot) = self.homes.get(&group).and_then(known) {
            return Ok(slot);
        }
        while !self.have_room_for(group, &set) {
            let home = self.homes.get(&group).ok_or(NoScope::Prefixes)?;
            let mut slots = home.prefixes.iter().map(|(_, slot)| *slot);
            let idle = slots.find(|slot| self.slots[*slot as usize].users == 0).ok_or(NoScope::Prefixes)?;
            self.remove(idle);
        }
        self.find_room(living::of_scope(set.iter()), room)?;
        let slot = self.insert(group, Domain::Prefixes(set.clone()));
        self.homes.entry(group).or_default().prefixes.push((set, slot));
        Ok(slot)
    }

    /// Whether one set of prefixes more may be in use.
    fn have_room_for(&self, group: GroupNumber, set: &[TopicName]) -> bool {
        let sets: &[(Vec<TopicName>, ScopeSlot)] = self.homes.get(&group).map_or(&[], |home| &home.prefixes);
        let distinct: BTreeSet<&[u8]> =
            sets.iter().flat_map(|(known, _)| known).chain(set).map(|prefix| prefix.as_bytes()).collect();
        sets.len() < PREFIX_SETS_MAX && distinct.len() <= PREFIXES_MAX
    }

    fn list(
        &mut self,
        group: GroupNumber,
        names: &[TopicName],
        of: (&State, &Reach),
        room: usize,
    ) -> Result<ScopeSlot, NoScope> {
        let mut set: Vec<TopicName> = names.to_vec();
        set.sort_unstable_by(|a, b| Name::compare(a.as_bytes(), b.as_bytes()));
        set.dedup();
        let home = self.homes.entry(group).or_default();
        if let Some(slot) = home.lists.get(&set).copied() {
            home.idle_lists.retain(|idle| *idle != slot);
            return Ok(slot);
        }
        self.find_room(living::of_scope(set.iter()), room)?;
        let set: Vec<TopicName> = set.iter().map(TopicName::detach).collect();
        let slot = self.insert(group, Domain::List(List::new(set.clone(), group, of.0, of.1)));
        let home = self.homes.entry(group).or_default();
        set.iter().for_each(|name| home.listed.entry(name.clone()).or_default().push(slot));
        home.lists.insert(set, slot);
        Ok(slot)
    }

    fn insert(&mut self, group: GroupNumber, domain: Domain) -> ScopeSlot {
        self.bytes += domain.bytes();
        self.slots.insert(Scope::new(group, domain)) as ScopeSlot
    }

    /// Lets scopes that nobody uses go until one of so many bytes fits what there is room for.
    fn find_room(&mut self, bytes: usize, mut room: usize) -> Result<(), NoScope> {
        while bytes > room {
            let before = self.bytes;
            if !self.drop_idle() {
                return Err(NoScope::Room);
            }
            room += before - self.bytes;
        }
        Ok(())
    }

    /// Lets a scope that nobody uses go, if there is one.
    pub(super) fn drop_idle(&mut self) -> bool {
        let Some(idle) = self.idle.first().copied() else { return false };
        if let Some(home) = self.homes.get_mut(&self.slots[idle as usize].group) {
            home.idle_lists.retain(|other| *other != idle);
        }
        self.remove(idle);
        true
    }

    /// What they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn check_living(&self) {
        let bytes: usize = self.slots.iter().map(|(_, scope)| scope.domain.bytes()).sum();
        assert_eq!(bytes, self.bytes, "what the scopes take is summed up");
        let idle = self.slots.iter().filter(|(_, scope)| scope.users == 0 && !matches!(scope.domain, Domain::All));
        assert!(idle.map(|(slot, _)| slot as ScopeSlot).eq(self.idle.iter().copied()), "idle scopes are known");
        self.check_remembered();
    }

    fn remove(&mut self, slot: ScopeSlot) {
        let mut scope = self.slots.remove(slot as usize);
        scope.forget_turns(&mut self.remembered);
        self.left.remove(&(scope.left, slot));
        self.bytes -= scope.domain.bytes();
        self.idle.remove(&slot);
        self.stirred.remove(&slot);
        let Some(home) = self.homes.get_mut(&scope.group) else { return };
        home.prefixes.retain(|(_, other)| *other != slot);
        if let Domain::List(list) = &scope.domain {
            home.lists.remove(list.names());
            for name in list.names() {
                let Some(scopes) = home.listed.get_mut(name) else { continue };
                scopes.retain(|other| *other != slot);
                if scopes.is_empty() {
                    home.listed.remove(name);
                }
            }
        }
    }
}

/// Scopes that a turn takes one by one, from the one on that goes first.
pub(crate) struct Stirred {
    first: ScopeSlot,
    rest: BTreeSet<ScopeSlot>,
}

impl Iterator for Stirred {
    type Item = ScopeSlot;

    fn next(&mut self) -> Option<ScopeSlot> {
        let next = self.rest.range(self.first..).next().or_else(|| self.rest.first()).copied()?;
        self.rest.remove(&next);
        self.first = next + 1;
        Some(next)
    }
}

fn in_order_from(first: ScopeSlot, slots: BTreeSet<ScopeSlot>) -> Vec<ScopeSlot> {
    let mut slots: Vec<ScopeSlot> = slots.into_iter().collect();
    let at = slots.partition_point(|slot| *slot < first);
    slots.rotate_left(at);
    slots
}

impl Home {
    /// The lists that a name is in.
    fn listing(&self, name: &TopicName) -> impl Iterator<Item = &ScopeSlot> {
        let lists = if self.listed.is_empty() { None } else { self.listed.get(name) };
        lists.into_iter().flatten()
    }
}
