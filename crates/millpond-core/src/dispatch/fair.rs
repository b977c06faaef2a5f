//! Turns where tenants come before priorities (`dispatch` = fair): the tenants with anything to give take turns in the
//! cyclic order of their names, and in each turn goes the highest priority of the tenant's topics, these in turn.
//!
//! Beside [`super::turns`], which does this at one priority, the same is kept: who was served last, what is left of a turn
//! that was cut short, and where tenants with more to give go on, here by priority. It costs a step at each priority in use.

use alloc::vec::Vec;

use millpond_types::Priority;
use millpond_types::limits::PRIORITIES;

use crate::dispatch::domain::Cursor;
use crate::dispatch::reach::Unknown;
use crate::dispatch::remembered::Remembered;
use crate::dispatch::scope::Maybe;
use crate::dispatch::turns::Tenants;
use crate::dispatch::view::{From, View};
use crate::state::{State, TopicSlot};
use crate::store::Name;

/// What has to be read at a priority before it is known who is next.
pub(crate) type UnknownAt = (Priority, Unknown);

#[derive(Default)]
pub(crate) struct FairTurns {
    /// Who was served last, and at which priority.
    last: Option<(Cursor, Priority)>,
    /// Messages left of the last turn, if it was cut short.
    left: u32,
    /// Where tenants go on, per priority.
    tenants: [Tenants; PRIORITIES],
}

impl FairTurns {
    /// The topic whose turn it is, at which priority, and what is left of the turn: zero for a whole one.
    pub(crate) fn next(
        &mut self,
        maybe: &mut Maybe,
        view: View<'_>,
        remembered: &mut Remembered,
    ) -> Result<Option<(TopicSlot, Priority, u32)>, UnknownAt> {
        if let Some((last, priority)) = &self.last {
            let tenant = last.name.tenant();
            if self.left > 0 && highest_of(tenant, maybe, view)?.is_some_and(|(_, highest)| highest == *priority) {
                let view = view.at(*priority);
                if let Some(slot) = view.again(last).map_err(|unknown| (*priority, unknown))? {
                    return Ok(Some((slot, *priority, self.left)));
                }
            }
            // What was left of the turn is over with its topic, or because something of the tenant goes before it.
            self.left = 0;
            self.leave(view, remembered)?;
        }
        let next = match &self.last {
            Some((last, _)) => first_from(From::TenantEnd(last), maybe, view)?,
            None => None,
        };
        let Some(next) = next.map_or_else(|| first_of_all(maybe, view), |slot| Ok(Some(slot)))? else {
            return Ok(None);
        };
        let tenant = view.state.topics[next].name.tenant();
        let (first, priority) = highest_of(tenant, maybe, view)?.expect("a tenant that is next has a topic");
        let slot = self.tenants[priority.level()].resume(first, view.at(priority));
        Ok(Some((slot.map_err(|unknown| (priority, unknown))?, priority, 0)))
    }

    /// A topic was served at a priority; `left` of its turn are for later.
    pub(super) fn served(
        &mut self,
        (slot, priority): (TopicSlot, Priority),
        left: u32,
        state: &State,
        remembered: &mut Remembered,
    ) {
        self.left = left;
        let number = state.topics[slot].number;
        match &mut self.last {
            Some((last, at)) if (last.slot, last.number) == (slot, number) => *at = priority,
            _ => {
                let before = self.last_bytes();
                self.last = Some((Cursor::at(slot, state), priority));
                remembered.last_changed(before, self.last_bytes());
            }
        }
    }

    pub(super) fn tenants(&mut self, level: usize) -> &mut Tenants {
        &mut self.tenants[level]
    }

    /// What its places take, and who was served last.
    pub(super) fn weigh(&self) -> (usize, usize) {
        (self.tenants.iter().map(Tenants::bytes).sum(), self.last_bytes())
    }

    fn last_bytes(&self) -> usize {
        self.last.as_ref().map_or(0, |(last, _)| size_of::<FairTurns>() + last.buffer())
    }

    /// How many tenants go on somewhere.
    pub(crate) fn places(&self, priority: Priority) -> usize {
        self.tenants[priority.level()].places()
    }

    /// Where the tenant goes on at a priority whose turn comes after so many others, as far as that can be told.
    pub(crate) fn cursor_after(&self, turns: usize, priority: Priority) -> Option<&Cursor> {
        self.tenants[priority.level()].cursor_after(turns)
    }

    /// The turn of the last tenant is over: takes note of where it goes on.
    fn leave(&mut self, view: View<'_>, remembered: &mut Remembered) -> Result<(), UnknownAt> {
        let Some((last, priority)) = &self.last else { return Ok(()) };
        let until = Name::tenant_end(last.name.tenant());
        let behind = before(view.at(*priority).next(From::Behind(last)), &until);
        let behind = behind.map_err(|unknown| (*priority, unknown))?;
        let tenants = &mut self.tenants[priority.level()];
        match behind.filter(|slot| view.tenant(*slot) == last.tenant) {
            Some(next) => tenants.keep(last.clone(), next, remembered),
            // Its next turn begins with its first anyway.
            None => tenants.forget(last.tenant, remembered),
        }
        Ok(())
    }
}

/// Whether nothing is offered at any other priority.
pub(super) fn is_only(priority: Priority, maybe: &mut Maybe, view: View<'_>) -> Result<bool, UnknownAt> {
    let others: Vec<Priority> = maybe.priorities().filter(|other| *other != priority).collect();
    for other in others {
        if view.at(other).first().map_err(|unknown| (other, unknown))?.is_some() {
            return Ok(false);
        }
        maybe.rule_out(other);
    }
    Ok(true)
}

/// The first topic of all. A priority at which there is none is not looked at again until a topic is told of.
fn first_of_all(maybe: &mut Maybe, view: View<'_>) -> Result<Option<TopicSlot>, UnknownAt> {
    let first = first_from(From::Start, maybe, view)?;
    let is_over = |priority: &Priority| matches!(view.at(*priority).first(), Ok(None));
    let over: Vec<Priority> = maybe.priorities().filter(is_over).collect();
    over.into_iter().for_each(|priority| maybe.rule_out(priority));
    Ok(first)
}

/// The first topic from a place on, at whatever priority.
fn first_from(from: From<'_>, maybe: &Maybe, view: View<'_>) -> Result<Option<TopicSlot>, UnknownAt> {
    let name = |slot: TopicSlot| view.state.topics[slot].name.as_bytes();
    let found: Vec<_> = maybe.priorities().map(|priority| (priority, view.at(priority).next(from))).collect();
    let known = found.iter().filter_map(|(_, found)| found.as_ref().ok().copied().flatten());
    let first = known.min_by(|a, b| Name::compare(name(*a), name(*b)));
    let until = first.map(|slot| Name::bytes(name(slot)));
    for (priority, found) in found {
        let found = match &until {
            Some(until) => before(found, until),
            None => found,
        };
        found.map_err(|unknown| (priority, unknown))?;
    }
    Ok(first)
}

/// The first topic of a tenant at the highest priority of any of its topics.
fn highest_of(tenant: &[u8], maybe: &Maybe, view: View<'_>) -> Result<Option<(TopicSlot, Priority)>, UnknownAt> {
    let until = Name::tenant_end(tenant);
    for priority in maybe.priorities() {
        let found = before(view.at(priority).next(From::Tenant(tenant)), &until);
        let found = found.map_err(|unknown| (priority, unknown))?;
        if let Some(slot) = found.filter(|slot| view.state.topics[*slot].name.tenant() == tenant) {
            return Ok(Some((slot, priority)));
        }
    }
    Ok(None)
}

/// What is unknown behind a key does not matter to who looks before it.
fn before(found: Result<Option<TopicSlot>, Unknown>, until: &[u8]) -> Result<Option<TopicSlot>, Unknown> {
    found.or_else(|mut unknown| {
        unknown.spans.retain(|span| *span.from < *until);
        if unknown.spans.is_empty() { Ok(None) } else { Err(unknown) }
    })
}
