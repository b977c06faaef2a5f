//! A scope: which topics some consumers are served from, and whose turn it is among them. It holds no topics: what is
//! ready is found in the order of names.
//!
//! Invariant: a priority that is not among the `maybe` of a scope has nothing for it, in memory or not.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use millpond_types::Priority;
use millpond_types::limits::PRIORITIES;

use crate::dispatch::ConsumerSlot;
use crate::dispatch::domain::Domain;
use crate::dispatch::reach::{Reach, Unknown};
use crate::dispatch::stretches::Span;
use crate::dispatch::turns::Turns;
use crate::dispatch::view::View;
use crate::fact::GroupNumber;
use crate::state::{State, TopicSlot};

/// A scope's place in memory.
pub(crate) type ScopeSlot = u32;

pub(crate) struct Scope {
    pub(crate) group: GroupNumber,
    pub(super) domain: Domain,
    /// The priorities at which topics may be offered, a bit each.
    maybe: u16,
    /// Per priority that was served from.
    turns: [Option<Box<Turns>>; PRIORITIES],
    /// Whether what comes next is being read.
    pub(crate) is_held: bool,
    /// Consumers with credit, in the order of their turns.
    pub(crate) hungry: VecDeque<ConsumerSlot>,
    /// Consumers attached, hungry or not.
    pub(super) users: usize,
}

/// Who is served next from a scope.
pub(crate) struct Turn {
    pub(crate) slot: TopicSlot,
    pub(crate) priority: Priority,
    /// What is left of the turn; zero for a whole one.
    pub(crate) left: u32,
    /// Whether no other topic is offered at this priority.
    pub(crate) is_only: bool,
    /// What had better be read meanwhile.
    pub(crate) ahead: Option<Span>,
}

impl Turn {
    /// Whether it is at one of some priorities, a bit each.
    pub(super) fn is_at(&self, priorities: u16) -> bool {
        priorities & 1 << self.priority.level() != 0
    }
}

impl Scope {
    pub(super) fn new(group: GroupNumber, domain: Domain) -> Scope {
        // What there is for it shows when it is first served.
        let (maybe, turns) = ((1 << PRIORITIES) - 1, [const { None }; PRIORITIES]);
        Scope { group, domain, maybe, turns, is_held: false, hungry: VecDeque::new(), users: 0 }
    }

    /// The topic whose turn it is at the highest priority, or what has to be read before that is known.
    pub(crate) fn next_turn(&mut self, state: &State, reach: &Reach) -> Result<Option<Turn>, (Priority, Unknown)> {
        while let Some(level) = self.maybe.checked_ilog2() {
            let priority = Priority::new(level as u8).expect("a level is a priority");
            let view = View { state, reach, group: self.group, domain: &self.domain, priority };
            let turns = self.turns[level as usize].get_or_insert_default();
            let turn = turns.next(view).and_then(|next| match next {
                None => Ok(None),
                Some((slot, left)) => {
                    let (is_only, ahead) = (view.is_only(slot)?, view.ahead(slot));
                    Ok(Some(Turn { slot, priority, left, is_only, ahead }))
                }
            });
            match turn {
                Ok(None) => self.maybe &= !(1 << level),
                Ok(turn) => return Ok(turn),
                Err(unknown) => return Err((priority, unknown)),
            }
        }
        Ok(None)
    }

    /// In how many places dispatch goes on at a priority.
    pub(crate) fn places(&self, priority: Priority) -> usize {
        self.turns[priority.level()].as_ref().map_or(1, |turns| turns.places())
    }

    /// A topic was served; `left` messages of its turn are for later.
    pub(crate) fn served(&mut self, turn: &Turn, left: u32, state: &State) {
        let turns = self.turns[turn.priority.level()].as_mut().expect("it was asked whose turn it is");
        turns.served(turn.slot, left, state);
    }

    /// Nothing is known to be offered.
    pub(super) fn forget(&mut self) {
        self.maybe = 0;
    }

    /// Anything may be offered at every priority; where it was known before that it may be.
    pub(super) fn tell_all(&mut self) -> u16 {
        let before = self.maybe;
        (0..PRIORITIES as u8).filter_map(Priority::new).for_each(|priority| self.tell(priority, None));
        before
    }

    /// A topic of a tenant, or with `None` of any tenant, may be offered at a priority.
    pub(super) fn tell(&mut self, priority: Priority, tenant: Option<u64>) {
        self.maybe |= 1 << priority.level();
        if let Some(turns) = &mut self.turns[priority.level()] {
            turns.heard_of(tenant);
        }
    }
}
