//! A scope: which topics some consumers are served from, and whose turn it is among them. It holds no topics: what is
//! ready is found in the order of names.
//!
//! Invariant: a priority that is not among the `maybe` of a scope has nothing for it, in memory or not.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use millpond_types::limits::PRIORITIES;
use millpond_types::{Dispatch, Priority};

use crate::dispatch::ConsumerSlot;
use crate::dispatch::domain::Domain;
use crate::dispatch::fair::{self, FairTurns, UnknownAt};
use crate::dispatch::reach::{Asker, Reach};
use crate::dispatch::remembered::Remembered;
use crate::dispatch::stretches::Span;
use crate::dispatch::turns::{Tenants, Turns};
use crate::dispatch::view::View;
use crate::fact::GroupNumber;
use crate::state::{State, TopicSlot};

/// A scope's place in memory.
pub(crate) type ScopeSlot = u32;

pub(crate) struct Scope {
    pub(crate) group: GroupNumber,
    pub(super) domain: Domain,
    maybe: Maybe,
    /// Per priority that was served from.
    turns: [Option<Box<Turns>>; PRIORITIES],
    /// In place of these, where tenants come before priorities.
    fair: Option<Box<FairTurns>>,
    /// Whether what comes next is on its way, by a read or with the next turn.
    pub(crate) is_held: bool,
    /// Consumers with credit, in the order of their turns.
    pub(crate) hungry: VecDeque<ConsumerSlot>,
    /// Consumers attached, hungry or not.
    pub(super) users: usize,
    /// When nobody used it any more, in the order of uses ([`Remembered::use_one`]).
    pub(super) left: u64,
}

/// Who is served next from a scope.
pub(crate) struct Turn {
    pub(crate) slot: TopicSlot,
    pub(crate) priority: Priority,
    /// What is left of the turn; zero for a whole one.
    pub(crate) left: u32,
    /// Whether no other topic is offered at this priority; where tenants come before priorities, at any.
    pub(crate) is_only: bool,
    /// What had better be read meanwhile.
    pub(crate) ahead: Option<Span>,
}

impl Turn {
    /// Whether it is at one of some priorities.
    pub(super) fn is_at(&self, priorities: Maybe) -> bool {
        priorities.priorities().any(|priority| priority == self.priority)
    }
}

/// The priorities at which topics may be offered, a bit each.
#[derive(Clone, Copy)]
pub(super) struct Maybe(u16);

impl Maybe {
    fn all() -> Maybe {
        Maybe((1 << PRIORITIES) - 1)
    }

    /// The highest first.
    pub(super) fn priorities(mut self) -> impl Iterator<Item = Priority> {
        core::iter::from_fn(move || {
            let priority = Priority::new(self.0.checked_ilog2()? as u8).expect("a level is a priority");
            self.rule_out(priority);
            Some(priority)
        })
    }

    pub(super) fn rule_out(&mut self, priority: Priority) {
        self.0 &= !(1 << priority.level());
    }

    fn note(&mut self, priority: Priority) {
        self.0 |= 1 << priority.level();
    }
}

impl Scope {
    pub(super) fn new(group: GroupNumber, domain: Domain) -> Scope {
        // What there is for it shows when it is first served.
        let (maybe, turns) = (Maybe::all(), [const { None }; PRIORITIES]);
        Scope { group, domain, maybe, turns, fair: None, is_held: false, hungry: VecDeque::new(), users: 0, left: 0 }
    }

    /// Lets tenants come before priorities, or not. Turns begin anew where that changes.
    pub(super) fn set_dispatch(&mut self, dispatch: Dispatch, remembered: &mut Remembered) {
        if (dispatch == Dispatch::Fair) != self.fair.is_some() {
            self.forget_turns(remembered);
            self.fair = (dispatch == Dispatch::Fair).then(Box::default);
        }
    }

    /// The topic whose turn it is at the highest priority, or what has to be read before that is known.
    pub(super) fn next_turn(
        &mut self,
        state: &State,
        reach: &Reach,
        remembered: &mut Remembered,
    ) -> Result<Option<Turn>, UnknownAt> {
        let view = View { state, reach, group: self.group, domain: &self.domain, priority: Priority::HIGHEST };
        let next = match &mut self.fair {
            Some(turns) => turns.next(&mut self.maybe, view, remembered)?,
            None => Scope::next_by_priority(&mut self.maybe, &mut self.turns, view, remembered)?,
        };
        let Some((slot, priority, left)) = next else { return Ok(None) };
        let view = view.at(priority);
        let others = self.turns[priority.level()].as_ref().is_some_and(|turns| turns.left_more(slot, view));
        let mut is_only = !others && view.is_only(slot).map_err(|unknown| (priority, unknown))?;
        if is_only && self.fair.is_some() {
            is_only = fair::is_only(priority, &mut self.maybe, view)?;
        }
        Ok(Some(Turn { slot, priority, left, is_only, ahead: view.ahead(slot) }))
    }

    fn next_by_priority(
        maybe: &mut Maybe,
        turns: &mut [Option<Box<Turns>>; PRIORITIES],
        view: View<'_>,
        remembered: &mut Remembered,
    ) -> Result<Option<(TopicSlot, Priority, u32)>, UnknownAt> {
        while let Some(priority) = maybe.priorities().next() {
            let next = match &mut turns[priority.level()] {
                Some(turns) => turns.next(view.at(priority), remembered),
                // It begins with the first, and is remembered when that was served.
                None => view.at(priority).first().map(|first| first.map(|slot| (slot, 0))),
            };
            match next.map_err(|unknown| (priority, unknown))? {
                None => maybe.rule_out(priority),
                Some((slot, left)) => return Ok(Some((slot, priority, left))),
            }
        }
        Ok(None)
    }

    /// For whom something is asked at a priority.
    pub(super) fn asker(&self, priority: Priority) -> Asker {
        let is_named = !matches!(self.domain, Domain::All);
        Asker { group: self.group, priority, places: self.places(priority), is_named }
    }

    /// In how many places dispatch goes on at a priority.
    pub(crate) fn places(&self, priority: Priority) -> usize {
        match &self.fair {
            Some(turns) => turns.places(priority),
            None => self.turns[priority.level()].as_ref().map_or(1, |turns| turns.places()),
        }
    }

    /// What has to be read for the tenant whose turn at a priority comes after so many others.
    pub(crate) fn unknown_after(&self, turns: usize, priority: Priority, state: &State, reach: &Reach) -> Vec<Span> {
        if reach.is_all(self.group, priority) {
            return Vec::new();
        }
        let view = View { state, reach, group: self.group, domain: &self.domain, priority };
        let cursor = match &self.fair {
            Some(fair) => fair.cursor_after(turns, priority),
            None => self.turns[priority.level()].as_ref().and_then(|of| of.cursor_after(turns)),
        };
        cursor.and_then(|cursor| view.two_behind(cursor).err()).map_or_else(Vec::new, |unknown| unknown.spans)
    }

    /// A topic was served; `left` messages of its turn are for later.
    pub(super) fn served(&mut self, turn: &Turn, left: u32, state: &State, remembered: &mut Remembered) {
        match &mut self.fair {
            Some(turns) => turns.served((turn.slot, turn.priority), left, state, remembered),
            None => {
                let turns = self.turns[turn.priority.level()].get_or_insert_default();
                turns.served(turn.slot, left, state, remembered);
            }
        }
    }

    /// Turns begin anew.
    pub(super) fn forget_turns(&mut self, remembered: &mut Remembered) {
        self.forget_places(remembered);
        let (_, lasts) = self.weigh_turns();
        remembered.last_changed(lasts, 0);
        self.turns = [const { None }; PRIORITIES];
        self.fair = None;
    }

    /// Every tenant begins with its first topic again.
    pub(super) fn forget_places(&mut self, remembered: &mut Remembered) {
        for level in 0..PRIORITIES {
            if let Some(tenants) = self.tenants(level) {
                tenants.forget_all(remembered);
            }
        }
    }

    /// Where tenants go on at a level.
    pub(super) fn tenants(&mut self, level: usize) -> Option<&mut Tenants> {
        match &mut self.fair {
            Some(turns) => Some(turns.tenants(level)),
            None => self.turns[level].as_mut().map(|turns| turns.tenants()),
        }
    }

    /// What its places take, and who was served last.
    pub(super) fn weigh_turns(&self) -> (usize, usize) {
        let by_priority = self.turns.iter().flatten().map(|turns| turns.weigh());
        let all = by_priority.chain(self.fair.iter().map(|turns| turns.weigh()));
        all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// Nothing is known to be offered.
    pub(super) fn forget(&mut self) {
        self.maybe = Maybe(0);
    }

    /// Anything may be offered at every priority; where it was known before that it may be.
    pub(super) fn tell_all(&mut self) -> Maybe {
        let before = self.maybe;
        (0..PRIORITIES as u8).filter_map(Priority::new).for_each(|priority| self.tell(priority, None));
        before
    }

    /// A topic of a tenant, or with `None` of any tenant, may be offered at a priority.
    pub(super) fn tell(&mut self, priority: Priority, tenant: Option<u64>) {
        self.maybe.note(priority);
        if let Some(turns) = &mut self.turns[priority.level()] {
            turns.heard_of(tenant);
        }
    }
}
