//! Retention: what nobody has leased ends as `retained out` only where the namespace bounds what is kept, and only what is
//! beyond the bound: older than the age, or with as many that are newer as are to be kept.
//!
//! What is beyond is told when the broker begins to go over the topics of a group. That takes it several turns, in which
//! some of the newer messages may go, and leaves no fact: so what was beyond once may end from then on, until a restart.
//!
//! And it does end: no group holds a third more than it is to keep for longer than the broker takes to come to it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use millpond_core::Now;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{EndReason, Millis, Retention, RunTime, Sequence, WallTime};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Groups are looked at once a second, and what was leased may come back behind that. So a group holds too much for so long, and
/// for so many turns in which nothing had to be read.
const COMES_WITHIN: Millis = Millis::seconds(5);
const TURNS: u32 = 10;

/// Per group the time before which all that was published has been beyond the bounds, for its age and for how many are newer.
#[derive(Default)]
pub struct Retained {
    beyond: BTreeMap<GroupNumber, (WallTime, WallTime)>,
    /// Since when groups hold far too much, and for how many turns.
    full: BTreeMap<GroupNumber, (RunTime, u32)>,
}

impl Retained {
    /// A turn begins, or something has happened in it.
    pub fn look(&mut self, model: &Model, now: WallTime) {
        for group in model.groups.keys() {
            let keep = &model.home(*group).policy.retention;
            if keep.is_any() {
                let (old, many) = self.beyond.entry(*group).or_insert((WallTime(0), WallTime(0)));
                *old = keep.age.map_or(*old, |age| (*old).max(WallTime(now.0.saturating_sub(age.0))));
                *many = too_many(model, *group, keep).map_or(*many, |before| (*many).max(before));
            }
        }
    }

    /// A turn is over, and nothing keeps the broker from going over topics.
    pub fn rests(&mut self, model: &Model, now: Now, sights: &mut Sights) -> Kept {
        let far_too_much = |group: &GroupNumber| {
            let of = &model.groups[group];
            !of.is_ending && !of.is_starting && is_far_too_much(model, *group, now.wall)
        };
        let full: Vec<GroupNumber> = model.groups.keys().copied().filter(far_too_much).collect();
        let before = self.full.len();
        self.full.retain(|group, _| full.contains(group));
        sights.saw_many("groups that came to hold no more than they keep", (before - self.full.len()) as u64);
        for group in full {
            let (since, turns) = self.full.entry(group).or_insert((now.run, 0));
            *turns += 1;
            if *turns > TURNS && now.run > *since + COMES_WITHIN {
                let keep = &model.home(group).policy.retention;
                let what = format!("group {group} holds far more than {keep:?} since {since:?}, and it is {now:?}");
                return Err(Violation::retention(what));
            }
        }
        Ok(())
    }

    /// Whether more is held, or less is to be, behind a fact.
    pub fn grows_by(fact: &Fact) -> bool {
        matches!(fact, Fact::NamespaceSet { .. } | Fact::Published { .. } | Fact::Copied { .. } | Fact::Redriven { .. })
    }

    /// Messages end.
    pub fn ended(&self, model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
        let Fact::Ended { topic, group, priority, first, count, reason: EndReason::RetainedOut } = fact else {
            return Ok(());
        };
        let found = &model.topics[&(*group, *topic)];
        let (old, many) = self.beyond.get(group).copied().unwrap_or((WallTime(0), WallTime(0)));
        for at in first.0..first.0 + u64::from(*count) {
            let published = found.messages[&(*priority, Sequence(at))].published;
            if published >= old.max(many) {
                let name = &found.name;
                let what = format!(
                    "{at} of {name}, published at {published:?}, is retained out; too old is what was before {old:?}, \
                     and too much what was before {many:?}"
                );
                return Err(Violation::retention(what));
            }
            sights.saw_many("retained out for their age", u64::from(published < old));
        }
        sights.saw_many("retained out rightly", u64::from(*count));
        Ok(())
    }
}

/// Whether a group holds a third more than it is to keep, and a bit, of what nobody has leased.
fn is_far_too_much(model: &Model, group: GroupNumber, now: WallTime) -> bool {
    let Retention { age, count } = model.home(group).policy.retention;
    if age.is_none() && count.is_none() {
        return false;
    }
    let waiting = model.topics_of(group).flat_map(|(_, topic)| topic.waiting());
    let mut published: Vec<WallTime> = waiting.map(|(_, message)| message.published).collect();
    published.sort_unstable_by_key(|at| Reverse(*at));
    let is_older = |at: &WallTime, age: Millis| now.since(*at).0 > age.0 + age.0 / 3 + 1000;
    // What was published in one millisecond goes together or stays.
    let older = |count: u64| {
        let last = usize::try_from(count).ok()?.checked_sub(1).and_then(|last| published.get(last))?;
        Some(published.iter().filter(|at| *at < last).count() as u64)
    };
    let is_old = age.is_some_and(|age| published.last().is_some_and(|oldest| is_older(oldest, age)));
    is_old || count.is_some_and(|count| older(count).is_some_and(|older| older > count / 3 + 1))
}

/// Before which publish time all is beyond the count. What is leased counts here, for it may come back.
fn too_many(model: &Model, group: GroupNumber, keep: &Retention) -> Option<WallTime> {
    let kept = usize::try_from(keep.count?).ok()?;
    let messages = model.topics_of(group).flat_map(|(_, topic)| topic.messages.values());
    let mut published: Vec<WallTime> = messages.map(|message| message.published).collect();
    published.sort_unstable_by_key(|at| Reverse(*at));
    match kept.checked_sub(1) {
        Some(last) => published.get(last).copied(),
        None => Some(WallTime(u64::MAX)),
    }
}
