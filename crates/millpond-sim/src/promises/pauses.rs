//! Topics are paused when that is answered, for as long as it was asked; a time is over then, not before and no later.

use millpond_core::Core;
use millpond_core::command::Command;
use millpond_core::fact::Fact;
use millpond_core::output::Reply;
use millpond_types::WallTime;

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Pauses that the core ends in a turn, at least, where the time of so many is over: it goes on with the next.
const ENDED_IN_A_TURN: usize = 10;

/// The pauses that have ended by themselves in this turn.
#[derive(Default)]
pub struct Ended(usize);

/// A command was decided: what it asked for is so.
pub fn decided(command: &Command, reply: Option<&Reply>, model: &Model, now: WallTime) -> Kept {
    let (namespace, topics, expected) = match (command, reply) {
        (Command::Pause { namespace, topics, lasts }, Some(Reply::Done)) => {
            (namespace, topics, Some(lasts.map_or(WallTime::NEVER, |lasts| now + lasts)))
        }
        (Command::Resume { namespace, topics }, Some(Reply::Done)) => (namespace, topics, None),
        _ => return Ok(()),
    };
    let home = model.namespace(namespace).map(|number| &model.namespaces[&number]);
    match home.and_then(|home| home.paused.get(topics).copied()) {
        found if found == expected => Ok(()),
        found => Err(Violation::places(format!("{topics} is to be paused until {expected:?}, and is until {found:?}"))),
    }
}

impl Ended {
    /// A turn begins.
    pub fn begin(&mut self) {
        self.0 = 0;
    }

    /// Holds the end of a pause, which nobody asked for, against its time.
    pub fn ended(&mut self, model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
        let Fact::Paused { namespace, topics, until } = fact else { unreachable!("called for this fact alone") };
        let lasts = model.namespaces[namespace].paused.get(topics);
        if until.is_none() && lasts.is_some_and(|until| *until <= now) {
            sights.saw("topics paused for as long as it was asked");
            self.0 += 1;
            return Ok(());
        }
        Err(Violation::places(format!("at {now:?} the pause of {topics} becomes {until:?}, and lasts until {lasts:?}")))
    }

    /// Behind a turn no pause lasts whose time is over, unless very many have ended, or time is held.
    pub fn rests(&self, core: &Core, model: &Model, now: WallTime) -> Kept {
        if core.is_time_held() || self.0 >= ENDED_IN_A_TURN {
            return Ok(());
        }
        let mut paused = model.namespaces.values().flat_map(|home| &home.paused);
        match paused.find(|(_, until)| **until <= now) {
            None => Ok(()),
            Some((topics, until)) => Err(Violation::places(format!(
                "at {now:?} {topics} is still paused, which was to be over at {until:?}"
            ))),
        }
    }
}
