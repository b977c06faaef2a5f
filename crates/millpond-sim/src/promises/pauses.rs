//! A pause of topics that was asked for a time is over then, not before and no later.

use millpond_core::fact::Fact;
use millpond_types::WallTime;

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Holds the end of a pause, which nobody asked for, against its time.
pub fn ended(model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
    let Fact::Paused { namespace, topics, until } = fact else { unreachable!("called for this fact alone") };
    let lasts = model.namespaces[namespace].paused.get(topics);
    if until.is_none() && lasts.is_some_and(|until| *until <= now) {
        sights.saw("topics paused for as long as it was asked");
        return Ok(());
    }
    Err(Violation::places(format!("at {now:?} the pause of {topics} becomes {until:?}, and lasts until {lasts:?}")))
}

/// Behind a turn no pause lasts whose time is over.
pub fn rests(model: &Model, now: WallTime) -> Kept {
    let mut paused = model.namespaces.values().flat_map(|home| &home.paused);
    match paused.find(|(_, until)| **until <= now) {
        None => Ok(()),
        Some((topics, until)) => {
            Err(Violation::places(format!("at {now:?} {topics} is still paused, which was to be over at {until:?}")))
        }
    }
}
