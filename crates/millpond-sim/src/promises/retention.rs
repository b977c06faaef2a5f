//! Retention: what nobody has leased ends as `retained out` only where the namespace bounds what is kept, and only what is
//! beyond the bound: older than the age, or with as many that are newer as are to be kept.
//!
//! What is beyond is told when the broker begins to go over the topics of a group. That takes it several turns, in which
//! some of the newer messages may go, and leaves no fact: so what was beyond once may end from then on, until a restart.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{EndReason, Retention, Sequence, WallTime};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Per group the time before which all that was published has been beyond the bounds, for its age and for how many are newer.
#[derive(Default)]
pub struct Retained {
    beyond: BTreeMap<GroupNumber, (WallTime, WallTime)>,
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
