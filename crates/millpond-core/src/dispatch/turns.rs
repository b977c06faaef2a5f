//! Turns at one priority of a scope: tenants in the cyclic order of their names, and the topics of each in the cyclic
//! order of theirs.
//!
//! Kept are the topic that was served last, what is left of its turn if that was cut short, and for tenants that were
//! left with more to give, where they go on. Nothing is kept per topic.

use alloc::collections::BTreeMap;

use hashbrown::HashMap;

use crate::dispatch::domain::Cursor;
use crate::dispatch::reach::Unknown;
use crate::dispatch::view::{From, View};
use crate::state::hash::FixedState;
use crate::state::{State, TopicSlot};

/// Tenants with several topics to serve of which it is known where they go on, per scope and priority: about half a
/// megabyte. A tenant that is forgotten among more of them begins with its first topic again.
const TENANTS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Turns {
    last: Option<Cursor>,
    /// Messages left of the last turn, if it was cut short.
    left: u32,
    /// Set where it is known that no other tenant than the last one has anything at this priority.
    is_sole: bool,
    tenants: Tenants,
}

impl Turns {
    /// The topic whose turn it is, and what is left of the turn: zero for a whole one.
    pub(crate) fn next(&mut self, view: View<'_>) -> Result<Option<(TopicSlot, u32)>, Unknown> {
        let Some(last) = &self.last else { return Ok(view.first()?.map(|slot| (slot, 0))) };
        if self.left > 0 {
            if let Some(slot) = view.again(last)? {
                return Ok(Some((slot, self.left)));
            }
            // What was left of the turn is over with its topic: no other one of the tenant goes on with it.
            self.left = 0;
        }
        let behind = view.next(From::Behind(last))?;
        let Some(found) = behind.map_or_else(|| view.first(), |slot| Ok(Some(slot)))? else {
            self.is_sole = false;
            return Ok(None);
        };
        let is_of_last = |slot: TopicSlot| view.tenant(slot) == last.tenant;
        if !is_of_last(found) {
            // The last tenant has nothing behind its last topic, so its next turn begins with its first anyway.
            self.tenants.forget(last.tenant);
            return self.tenants.resume(found, view).map(|slot| Some((slot, 0)));
        }
        // Where nothing comes behind, and the first of all is the last tenant's, there is none beside it.
        self.is_sole |= behind.is_none();
        if !self.is_sole {
            let other = view.next(From::TenantEnd(last))?;
            let other = other.map_or_else(|| view.first(), |slot| Ok(Some(slot)))?.unwrap_or(found);
            if !is_of_last(other) {
                let slot = self.tenants.resume(other, view)?;
                self.tenants.keep(last.clone());
                return Ok(Some((slot, 0)));
            }
            self.is_sole = true;
        }
        Ok(Some((found, 0)))
    }

    /// A topic was served; `left` of its turn are for later.
    pub(crate) fn served(&mut self, slot: TopicSlot, left: u32, state: &State) {
        self.left = left;
        let topic = &state.topics[slot];
        match &self.last {
            Some(last) if (last.slot, last.number) == (slot, topic.number) => {}
            last => {
                self.is_sole &= last.as_ref().is_some_and(|last| last.tenant == topic.tenant);
                self.last = Some(Cursor::at(slot, state));
            }
        }
    }

    /// A topic of a tenant is offered, or a topic of any tenant may be.
    pub(crate) fn heard_of(&mut self, tenant: Option<u64>) {
        self.is_sole &= self.last.as_ref().is_some_and(|last| Some(last.tenant) == tenant);
    }
}

/// Where tenants go on, by the hashes of their names.
#[derive(Default)]
struct Tenants {
    /// With the number under which the tenant stands in `by_use`.
    cursors: HashMap<u64, (u64, Cursor), FixedState>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl Tenants {
    /// The topic that a tenant goes on with. `first` is its first one.
    fn resume(&self, first: TopicSlot, view: View<'_>) -> Result<TopicSlot, Unknown> {
        if self.cursors.is_empty() {
            return Ok(first);
        }
        let tenant = view.tenant(first);
        let Some((_, cursor)) = self.cursors.get(&tenant) else { return Ok(first) };
        if view.is_behind(first, cursor) {
            // All before it are gone, so it is the first behind the cursor, too.
            return Ok(first);
        }
        let behind = view.next(From::Behind(cursor))?;
        Ok(behind.filter(|slot| view.tenant(*slot) == tenant).unwrap_or(first))
    }

    fn keep(&mut self, cursor: Cursor) {
        let tenant = cursor.tenant;
        self.uses += 1;
        self.by_use.insert(self.uses, tenant);
        if let Some((before, _)) = self.cursors.insert(tenant, (self.uses, cursor)) {
            self.by_use.remove(&before);
        }
        if self.cursors.len() > TENANTS_MAX {
            let (_, oldest) = self.by_use.pop_first().expect("each cursor has its last use");
            self.cursors.remove(&oldest);
        }
    }

    fn forget(&mut self, tenant: u64) {
        if !self.cursors.is_empty()
            && let Some((used, _)) = self.cursors.remove(&tenant)
        {
            self.by_use.remove(&used);
        }
    }
}
