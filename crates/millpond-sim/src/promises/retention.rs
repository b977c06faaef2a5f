//! Retention: what nobody has leased ends as `retained out` only where the namespace bounds what is kept, and only what is
//! beyond the bound: older than the age, or with as many that are newer as are to be kept.

use std::collections::BTreeMap;

use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{EndReason, Retention, Sequence, WallTime};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// When those messages were published that each group held at the beginning of the turn, leased or not: a pass goes by how
/// many there were when it began.
#[derive(Default)]
pub struct Retained {
    before: BTreeMap<GroupNumber, Vec<WallTime>>,
}

impl Retained {
    /// A turn begins.
    pub fn begin(&mut self, model: &Model) {
        self.before.clear();
        for group in model.groups.keys() {
            let home = model.home(*group);
            if home.policy.retention.is_any() || home.retained.is_any() {
                let messages = model.topics_of(*group).flat_map(|(_, topic)| topic.messages.values());
                self.before.insert(*group, messages.map(|message| message.published).collect());
            }
        }
    }

    /// Messages end.
    pub fn ended(&self, model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
        let Fact::Ended { topic, group, priority, first, count, reason: EndReason::RetainedOut } = fact else {
            return Ok(());
        };
        let (home, found) = (model.home(*group), &model.topics[&(*group, *topic)]);
        for at in first.0..first.0 + u64::from(*count) {
            let published = found.messages[&(*priority, Sequence(at))].published;
            let is_newer = |at: &&WallTime| **at > published;
            let there = model.topics_of(*group).flat_map(|(_, topic)| topic.messages.values());
            let there = there.map(|message| &message.published).filter(is_newer).count();
            let before = self.before.get(group).map_or(0, |before| before.iter().filter(is_newer).count());
            let newer = there.max(before) as u64;
            let is_beyond = |keep: &Retention| {
                let is_old = keep.age.is_some_and(|age| published + age < now);
                if is_old {
                    sights.saw("retained out for their age");
                }
                is_old || keep.count.is_some_and(|count| newer >= count)
            };
            if ![home.policy.retention, home.retained].iter().any(is_beyond) {
                let what = format!(
                    "{at} of {}, published at {published:?}, is retained out at {now:?} with {newer} newer",
                    found.name
                );
                return Err(Violation::retention(what));
            }
        }
        sights.saw_many("retained out rightly", u64::from(*count));
        Ok(())
    }
}
