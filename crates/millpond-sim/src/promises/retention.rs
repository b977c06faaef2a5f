//! Retention: what nobody has leased ends as `retained out` only where the namespace bounds what is kept, and only what is
//! beyond the bound: older than the age, or with as many that are newer as are to be kept.
//!
//! What is beyond is told when the broker begins to go over the topics of a group. That takes it several turns, in which
//! some of the newer messages may go, and leaves no fact: so what was beyond once may end from then on, until a restart.
//!
//! And it does end: what is a third more than a group is to keep waits no longer than the broker takes to come to it. A group to
//! which more and more is published may always hold too much, but not the same messages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use millpond_core::Now;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{EndReason, Millis, Priority, Retention, RunTime, Sequence, TopicNumber, WallTime};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Groups are looked at once a second, and what was leased may come back behind that. So what is too much waits for so long
/// while nothing has to be read, and for so many turns of that kind.
const COMES_WITHIN: Millis = Millis::seconds(5);
const TURNS: u32 = 10;
/// And whatever has to be read, no longer than this.
const COMES_AT_LAST: Millis = Millis::seconds(60);

/// Per group the time before which all that was published has been beyond the bounds, for its age and for how many are newer.
#[derive(Default)]
pub struct Retained {
    beyond: BTreeMap<GroupNumber, (WallTime, WallTime)>,
    full: BTreeMap<GroupNumber, Full>,
    /// The last turn, if nothing kept the broker from going over topics behind it.
    rested: Option<RunTime>,
}

/// A group that holds far too much.
struct Full {
    since: RunTime,
    /// How long it could have been gone over since.
    waited: Millis,
    turns: u32,
    /// What was too much then, and has waited ever since.
    waiting: BTreeSet<Place>,
}

/// Where a message of a group is.
type Place = (TopicNumber, Priority, Sequence);

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

    /// A turn is over, and something has to be read, or is held, before the broker goes on with topics.
    pub fn is_kept(&mut self) {
        self.rested = None;
    }

    /// A turn is over, and nothing keeps the broker from going over topics.
    pub fn rests(&mut self, model: &Model, now: Now, sights: &mut Sights) -> Kept {
        let passed = self.rested.replace(now.run).map_or(Millis(0), |before| now.run.since(before));
        for (group, of) in &model.groups {
            let mut too_much = match of.is_ending || of.is_starting {
                true => BTreeSet::new(),
                false => far_too_much(model, *group, now.wall),
            };
            let before = self.full.remove(group);
            let Some(Full { since, waited, turns, waiting }) = before else {
                if !too_much.is_empty() {
                    self.full.insert(*group, Full { since: now.run, waited: Millis(0), turns: 0, waiting: too_much });
                }
                continue;
            };
            too_much.retain(|message| waiting.contains(message));
            let Some(first) = too_much.first() else {
                sights.saw("what was far too much went");
                continue;
            };
            let (waited, turns) = (Millis(waited.0 + passed.0), turns + 1);
            if turns > TURNS && (waited > COMES_WITHIN || now.run > since + COMES_AT_LAST) {
                let (keep, count) = (&model.home(*group).policy.retention, too_much.len());
                let what = format!(
                    "group {group} keeps {keep:?}, and {count} messages beyond, {first:?} among them, have waited since \
                     {since:?}, {waited:?} and {turns} turns at rest"
                );
                return Err(Violation::retention(what));
            }
            self.full.insert(*group, Full { since, waited, turns, waiting: too_much });
        }
        self.full.retain(|group, _| model.groups.contains_key(group));
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

/// What a group holds beyond a third more than it is to keep, and a bit, and nobody has leased.
fn far_too_much(model: &Model, group: GroupNumber, now: WallTime) -> BTreeSet<Place> {
    let Retention { age, count } = model.home(group).policy.retention;
    if age.is_none() && count.is_none() {
        return BTreeSet::new();
    }
    let mut waiting: Vec<(WallTime, Place)> = Vec::new();
    for (number, topic) in model.topics_of(group) {
        waiting.extend(topic.waiting().map(|((priority, at), message)| (message.published, (number, *priority, *at))));
    }
    waiting.sort_unstable_by_key(|(published, _)| Reverse(*published));
    let is_old = |published: WallTime| age.is_some_and(|age| now.since(published).0 > age.0 + age.0 / 3 + 1000);
    // What was published in one millisecond goes together or stays.
    let last_kept = count.and_then(|count| waiting.get(usize::try_from(count).ok()?.checked_sub(1)?).copied());
    let beyond = |published: WallTime| last_kept.is_some_and(|(last, _)| published < last);
    let many = waiting.iter().filter(|(published, _)| beyond(*published)).count() as u64;
    let is_full = count.is_some_and(|count| many > count / 3 + 1);
    let is_too_much = |published: WallTime| is_old(published) || is_full && beyond(published);
    waiting.into_iter().filter(|(published, _)| is_too_much(*published)).map(|(_, place)| place).collect()
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
