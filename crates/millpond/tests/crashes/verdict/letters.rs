//! What a message becomes in a group where dead letters are put back to work: another one with the same tag and an id of its
//! own, for that group alone. And what becomes a dead letter because its time is over, never before that.

use std::collections::{BTreeMap, HashMap, HashSet};

use millpond_client::{LeaseNumber, MessageId};

use super::times::SLACK;
use super::{Ledger, Life};
use crate::ledger::Place;
use crate::load::MIXED;

/// The one group where they are.
pub(super) fn is_put_back(space: &str, group: &str) -> bool {
    (space, group) == (MIXED, "default")
}

/// Messages that were dead letters, and what stands for each.
#[derive(Default)]
pub(super) struct PutBack<'a> {
    /// By the message that was published: the last that came of it.
    last: HashMap<Place<'a>, MessageId>,
    before: HashSet<Place<'a>>,
}

impl<'a> PutBack<'a> {
    /// What has to end for this to have ended.
    pub(super) fn last(&self, place: Place<'a>) -> Place<'a> {
        Place { id: self.last.get(&place).copied().unwrap_or(place.id), ..place }
    }

    pub(super) fn is_before(&self, place: &Place<'a>) -> bool {
        self.before.contains(place)
    }
}

impl<'a> Ledger<'a> {
    /// Goes over what has come more than once under different ids.
    pub(super) fn judge_letters(&mut self, lives: &HashMap<Place<'a>, Life<'a>>) -> PutBack<'a> {
        let mut by_tag: BTreeMap<(&str, &str, &str), BTreeMap<MessageId, [LeaseNumber; 2]>> = BTreeMap::new();
        for seen in self.seen.iter().filter(|seen| is_put_back(seen.place.space, seen.place.group)) {
            let Place { space, group, id } = seen.place;
            let [first, last] =
                by_tag.entry((space, group, seen.tag)).or_default().entry(id).or_insert([seen.lease; 2]);
            (*first, *last) = (seen.lease.min(*first), seen.lease.max(*last));
        }
        let mut put_back = PutBack::default();
        for ((space, group, tag), ids) in by_tag {
            let place = |id| Place { space, group, id };
            // It may have died before anybody had it.
            let first = *ids.first_key_value().expect("something came").0;
            let published = *self.ids.entry((space, tag)).or_insert(first);
            let mut chain: Vec<MessageId> = ids.keys().copied().collect();
            if first != published {
                chain.insert(0, published);
            }
            for pair in chain.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                let life = lives.get(&place(before));
                let may_be_dead = self.brief.contains_key(&(space, tag)) || life.is_some_and(Life::may_be_dead);
                let is_there = life.is_some_and(|life| life.is_letter);
                let is_late = ids.get(&before).is_some_and(|[_, last]| *last > ids[&after][0]);
                if before > after || !may_be_dead || is_there || is_late {
                    self.broken(format!("{:?}: {tag} came again as {after}, and was no dead letter", place(before)));
                }
                put_back.before.insert(place(before));
                self.verdict.figures.put_back += 1;
            }
            put_back.last.insert(place(published), *chain.last().expect("something came"));
        }
        put_back
    }

    /// What a consumer did not make one has expired, and not early.
    pub(super) fn judge_expired(&mut self) {
        for (place, tag, reason, died) in std::mem::take(&mut self.letters) {
            let expires = self.brief.get(&(place.space, tag)).copied();
            if reason == "expired" && expires.is_none_or(|expires| died.saturating_add(SLACK) < expires) {
                self.broken(format!("{place:?} has expired at {died}, and not before {expires:?}"));
            }
            self.verdict.figures.expired += usize::from(reason == "expired");
        }
    }
}
