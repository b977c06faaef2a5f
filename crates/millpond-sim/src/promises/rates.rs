//! Rates: of each topic, a group is leased no more messages than there are tokens in its bucket, of which up to `burst` gather
//! and one comes every so often; and no topic vanishes before its bucket is full, or the next one of its name would begin
//! with tokens that are used up. It holds over restarts, in which run time stands still.
//!
//! Where a rate changes, tokens may come sooner here than they do: then what is missing is cut to what the new one holds at
//! once, and not as topics are gone over.

use millpond_core::fact::Fact;
use millpond_types::RunTime;

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Messages are about to be leased.
pub fn leased(model: &Model, fact: &Fact, now: RunTime, sights: &mut Sights) -> Kept {
    let Fact::Leased { topic, group, count, .. } = fact else { unreachable!("called for this fact alone") };
    let found = &model.topics[&(*group, *topic)];
    let Some(rate) = model.home(*group).policy_of(&found.name).rate else { return Ok(()) };
    let tokens = found.bucket.tokens(&rate, now);
    sights.saw_many("given for tokens", u64::from(*count));
    sights.saw_many("last tokens taken", u64::from(tokens == u64::from(*count)));
    if tokens < u64::from(*count) {
        let what = format!("{} is given {count} at {now:?}, and has {tokens} tokens of {rate:?}", found.name);
        return Err(Violation::rates(what));
    }
    Ok(())
}

/// A topic is about to vanish.
pub fn vanished(model: &Model, fact: &Fact, now: RunTime, sights: &mut Sights) -> Kept {
    let Fact::TopicVanished { topic, group } = fact else { unreachable!("called for this fact alone") };
    let found = &model.topics[&(*group, *topic)];
    // Of a group that is being deleted, none ever comes again.
    let is_full = found.bucket.is_full(now);
    sights.saw_many("topics that vanished with a full bucket", u64::from(found.is_limited && is_full));
    match is_full || model.groups[group].is_ending {
        true => Ok(()),
        false => Err(Violation::rates(format!("{} vanishes at {now:?}, and its bucket is not full", found.name))),
    }
}
