//! Turns at one priority of a scope: tenants in the cyclic order of their names, and the topics of each in the cyclic
//! order of theirs.
//!
//! Kept are the topic that was served last, what is left of its turn if that was cut short, and for tenants that were
//! left with more to give, where they go on. Nothing is kept per topic.

use alloc::collections::VecDeque;

use hashbrown::HashMap;

use crate::dispatch::domain::Cursor;
use crate::dispatch::reach::Unknown;
use crate::dispatch::remembered::Remembered;
use crate::dispatch::view::{From, View};
use crate::state::hash::FixedState;
use crate::state::warm::TOGETHER;
use crate::state::{State, TopicSlot};

/// Tenants with several topics to serve of which it is known where they go on, per scope and priority: about eight megabytes,
/// unless names are very long. A tenant that is forgotten among more of them begins with its first topic again. Of all scopes
/// together there may be room for fewer ([`super::remembered`]).
pub(crate) const TENANTS_MAX: usize = 32_768;
/// Uses kept beside those that are the last ones of their tenants: so few places are not tidied up again and again.
const USES_BESIDE: usize = 8;
/// Among fewer places no notice is taken of the loss of one: what is read ahead for them is little, and most are used.
const LOSS_MIN: usize = 256;

#[derive(Default)]
pub(crate) struct Turns {
    last: Option<Cursor>,
    /// Messages left of the last turn, if it was cut short.
    left: u32,
    /// Set where it is known that no other tenant than the last one has anything at this priority.
    is_sole: bool,
    tenants: Tenants,
    /// Turns whose topics were brought near.
    near: usize,
}

impl Turns {
    /// The topic whose turn it is, and what is left of the turn: zero for a whole one.
    pub(super) fn next(
        &mut self,
        view: View<'_>,
        remembered: &mut Remembered,
    ) -> Result<Option<(TopicSlot, u32)>, Unknown> {
        self.warm(view);
        let Some(last) = &self.last else { return Ok(view.first()?.map(|slot| (slot, 0))) };
        if self.left > 0 {
            if let Some(slot) = view.again(last)? {
                return Ok(Some((slot, self.left)));
            }
            // What was left of the turn is over with its topic: no other one of the tenant goes on with it.
            self.left = 0;
        }
        if !self.is_sole {
            let (more, behind) = view.around(last);
            view.check_tenants(From::TenantEnd(last), behind)?;
            let Some(other) = behind.map_or_else(|| view.first_tenant(From::Start), |slot| Ok(Some(slot)))? else {
                return Ok(None);
            };
            if view.tenant(other) != last.tenant {
                view.check_more(last, more)?;
                let slot = self.tenants.resume(other, view)?;
                match more {
                    Some(next) => self.tenants.keep(last.clone(), next, remembered),
                    // Its next turn begins with its first anyway.
                    None => self.tenants.forget(last.tenant, remembered),
                }
                return Ok(Some((slot, 0)));
            }
            self.is_sole = true;
        }
        let behind = view.next(From::Behind(last))?;
        let found = behind.map_or_else(|| view.first(), |slot| Ok(Some(slot)))?;
        assert!(
            found.is_none_or(|slot| view.tenant(slot) == last.tenant),
            "of another tenant it would have been heard"
        );
        self.is_sole &= found.is_some();
        Ok(found.map(|slot| (slot, 0)))
    }

    /// Brings near the topics whose turn is next, if nobody comes between.
    fn warm(&mut self, view: View<'_>) {
        self.near = self.near.saturating_sub(1);
        if self.near > 0 || !view.state.topics.are_far() {
            return;
        }
        self.near = TOGETHER;
        match &self.last {
            Some(last) if self.is_sole => view.state.warm_waiting(view.behind(last).take(TOGETHER)),
            _ => view.state.warm_waiting(self.tenants.next_up().take(TOGETHER)),
        }
    }

    /// Whether the topic that was served last is another one than this, and has more. If so there are two, and nobody has
    /// to look for a second.
    pub(crate) fn left_more(&self, slot: TopicSlot, view: View<'_>) -> bool {
        self.last.as_ref().is_some_and(|last| last.slot != slot && view.offers(last))
    }

    /// How many tenants go on somewhere.
    pub(crate) fn places(&self) -> usize {
        self.tenants.places()
    }

    /// Where the tenant goes on whose turn comes after so many others, as far as that can be told.
    pub(crate) fn cursor_after(&self, turns: usize) -> Option<&Cursor> {
        self.tenants.cursor_after(turns)
    }

    /// A topic was served; `left` of its turn are for later.
    pub(super) fn served(&mut self, slot: TopicSlot, left: u32, state: &State, remembered: &mut Remembered) {
        self.left = left;
        let topic = &state.topics[slot];
        match &self.last {
            Some(last) if (last.slot, last.number) == (slot, topic.number) => {}
            last => {
                self.is_sole &= last.as_ref().is_some_and(|last| last.tenant == topic.hashes.tenant);
                let before = self.last_bytes();
                self.last = Some(Cursor::at(slot, state));
                remembered.last_changed(before, self.last_bytes());
            }
        }
    }

    pub(super) fn tenants(&mut self) -> &mut Tenants {
        &mut self.tenants
    }

    /// What its places take, and who was served last.
    pub(super) fn weigh(&self) -> (usize, usize) {
        (self.tenants.bytes(), self.last_bytes())
    }

    fn last_bytes(&self) -> usize {
        self.last.as_ref().map_or(0, |last| size_of::<Turns>() + last.buffer())
    }

    /// A topic of a tenant is offered, or a topic of any tenant may be.
    pub(crate) fn heard_of(&mut self, tenant: Option<u64>) {
        self.is_sole &= self.last.as_ref().is_some_and(|last| Some(last.tenant) == tenant);
    }
}

/// Where a tenant goes on.
struct Place {
    /// The number of its last use.
    used: u64,
    cursor: Cursor,
    /// What came behind it then: a guess at what it goes on with.
    next: TopicSlot,
}

impl Place {
    /// What it takes, in tables that are half empty.
    fn bytes(&self) -> usize {
        2 * size_of::<(u64, Place)>() + 2 * size_of::<(u64, u64)>() + self.cursor.buffer()
    }
}

/// Where tenants go on, by the hashes of their names.
#[derive(Default)]
pub(super) struct Tenants {
    cursors: HashMap<u64, Place, FixedState>,
    /// Uses and whose they were, in order. A tenant that was used again since, or is forgotten, stands here for nothing.
    by_use: VecDeque<(u64, u64)>,
    /// What they take.
    bytes: usize,
    /// How many there were when one was last forgotten for want of room.
    lost_among: usize,
}

impl Tenants {
    /// The topic that a tenant goes on with. Its first one in memory is given.
    pub(super) fn resume(&self, first: TopicSlot, view: View<'_>) -> Result<TopicSlot, Unknown> {
        if let Some(Place { cursor, .. }) = self.cursors.get(&view.tenant(first))
            && let Some(behind) = view.next_of_tenant(cursor, first)?
        {
            return Ok(behind);
        }
        view.first_of_tenant(first)
    }

    /// How many there are, with one that begins: more than are remembered, while there are about as many as when there was no
    /// room for more.
    pub(super) fn places(&self) -> usize {
        let places = self.cursors.len();
        let is_short = self.lost_among >= LOSS_MIN && (self.lost_among / 2..2 * self.lost_among).contains(&places);
        if is_short { TENANTS_MAX + 1 } else { places + 1 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What those go on with that had no turn for longest, as far as that can be told: they are next.
    fn next_up(&self) -> impl Iterator<Item = TopicSlot> {
        self.by_use.iter().filter_map(|(_, tenant)| self.cursors.get(tenant)).map(|place| place.next)
    }

    /// Where the tenant goes on that has so many before it in the order of uses, if it was not used again since.
    pub(super) fn cursor_after(&self, turns: usize) -> Option<&Cursor> {
        let of = self.by_use.get(turns).filter(|of| is_last_use(&self.cursors, of))?;
        self.cursors.get(&of.1).map(|place| &place.cursor)
    }

    /// A tenant goes on behind a topic, with this one as it is now.
    pub(super) fn keep(&mut self, cursor: Cursor, next: TopicSlot, remembered: &mut Remembered) {
        let (tenant, used, before) = (cursor.tenant, remembered.use_one(), self.bytes);
        self.by_use.push_back((used, tenant));
        let place = Place { used, cursor, next };
        self.bytes += place.bytes();
        self.bytes -= self.cursors.insert(tenant, place).map_or(0, |before| before.bytes());
        remembered.places_changed(before, self.bytes);
        self.drop_old_uses();
        if self.cursors.len() > TENANTS_MAX {
            self.forget_oldest(remembered);
        }
        if self.by_use.len() > 2 * self.cursors.len() + USES_BESIDE {
            let cursors = &self.cursors;
            self.by_use.retain(|of| is_last_use(cursors, of));
        }
    }

    pub(super) fn forget(&mut self, tenant: u64, remembered: &mut Remembered) {
        let Some(place) = self.cursors.remove(&tenant) else { return };
        self.bytes -= place.bytes();
        remembered.places_changed(place.bytes(), 0);
        self.shrink();
    }

    pub(super) fn forget_all(&mut self, remembered: &mut Remembered) {
        remembered.places_changed(self.bytes, 0);
        *self = Tenants::default();
    }

    /// The use of the one that had no turn for longest.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        self.drop_old_uses();
        self.by_use.front().map(|(used, _)| *used)
    }

    /// Forgets the one that had no turn for longest, for want of room.
    pub(super) fn lose_oldest(&mut self, remembered: &mut Remembered) {
        self.lost_among = self.cursors.len();
        self.forget_oldest(remembered);
    }

    fn forget_oldest(&mut self, remembered: &mut Remembered) {
        self.drop_old_uses();
        let (_, tenant) = self.by_use.pop_front().expect("each cursor has its last use");
        self.forget(tenant, remembered);
    }

    /// What stands first among the uses is the last one of its tenant.
    fn drop_old_uses(&mut self) {
        while self.by_use.pop_front_if(|of| !is_last_use(&self.cursors, of)).is_some() {}
    }

    /// Gives back what tables take for places that are forgotten, once most of them are.
    fn shrink(&mut self) {
        let places = self.cursors.len();
        if self.cursors.capacity() > 4 * places.max(1) {
            self.cursors.shrink_to(2 * places);
            let cursors = &self.cursors;
            self.by_use.retain(|of| is_last_use(cursors, of));
            self.by_use.shrink_to(2 * places);
        }
    }
}

fn is_last_use(cursors: &HashMap<u64, Place, FixedState>, (used, tenant): &(u64, u64)) -> bool {
    cursors.get(tenant).is_some_and(|place| place.used == *used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_types::{TopicName, TopicNumber};

    #[test]
    fn who_was_not_served_for_longest_is_forgotten_among_very_many() {
        let (mut tenants, mut remembered) = (Tenants::default(), Remembered::default());
        let cursor = |tenant| {
            let name = TopicName::try_from("a").expect("a name");
            Cursor { slot: 0, group: 0, number: TopicNumber(tenant), tenant, name }
        };
        let all = TENANTS_MAX as u64;
        (0..all).for_each(|tenant| tenants.keep(cursor(tenant), 0, &mut remembered));
        tenants.keep(cursor(0), 0, &mut remembered);
        tenants.forget(2, &mut remembered);
        (all..all + 2).for_each(|tenant| tenants.keep(cursor(tenant), 0, &mut remembered));
        let bytes = (0..all + 2).filter_map(|tenant| tenants.cursors.get(&tenant)).map(Place::bytes).sum();
        assert_eq!((bytes, remembered.weigh()), (tenants.bytes, (bytes, 0)), "what they take is summed up");
        let is_known = [0, 1, 2, 3, all, all + 1].map(|tenant| tenants.cursors.contains_key(&tenant));
        assert_eq!(is_known, [true, false, false, true, true, true]);
        (0..10 * all).for_each(|use_of| tenants.keep(cursor(use_of % 3), 0, &mut remembered));
        assert!(tenants.by_use.len() <= 2 * TENANTS_MAX + USES_BESIDE, "what is kept of uses is bounded");
        assert_eq!(tenants.cursors.len(), TENANTS_MAX, "and nobody is forgotten for it");
        (0..2 * all).for_each(|tenant| tenants.forget(tenant, &mut remembered));
        assert_eq!((tenants.bytes, remembered.weigh()), (0, (0, 0)));
        assert!(tenants.cursors.capacity() < 8 && tenants.by_use.capacity() < 8, "and the tables are small again");
    }
}
