//! When a message may come: not before the time that it was published for, or was put to since, and never once it was called
//! off.
//!
//! A change that was answered while no earlier time had come took the message before anybody had it. Of any other, and of
//! one without an answer, nobody knows, so the earliest of these times is what counts.

use std::collections::HashSet;

use millpond_client::MessageId;

use super::Ledger;
use crate::ledger::NEVER;

/// The broker reads the clock when a turn begins, and may be stopped for nearly so long before it comes to a command.
pub(super) const SLACK: u64 = 1_000;

/// Something asked of when a message comes, or whether.
pub(super) struct Ask {
    pub(super) at: u64,
    pub(super) not_before: u64,
    /// When it was confirmed, by the clock of who asked.
    pub(super) done: Option<u64>,
}

/// From when on a message may come, after these in their order.
fn earliest(asks: &[Ask]) -> u64 {
    asks.iter().fold(NEVER, |earliest, ask| match ask.done {
        Some(done) if done.saturating_add(SLACK) < earliest => ask.not_before,
        _ => earliest.min(ask.not_before),
    })
}

impl<'a> Ledger<'a> {
    pub(super) fn judge_times(&mut self) {
        for seen in std::mem::take(&mut self.seen) {
            let earliest = self.asks.get(&(seen.place.space, seen.tag)).map_or(0, |asks| earliest(asks));
            if seen.at.saturating_add(SLACK) < earliest {
                let (place, lease, at) = (seen.place, seen.lease.0, seen.at);
                self.broken(match earliest {
                    NEVER => format!("{place:?} was called off, and came at {at} under lease {lease}"),
                    _ => format!("{place:?} came at {at} under lease {lease}, early: it was due at {earliest}"),
                });
            }
            self.seen.push(seen);
        }
    }

    /// Messages that may have ended by being called off, in all groups.
    pub(super) fn called_off(&self) -> HashSet<(&'a str, MessageId)> {
        let off = self.asks.iter().filter(|(_, asks)| asks.iter().any(|ask| ask.not_before == NEVER));
        off.filter_map(|((space, tag), _)| Some((*space, *self.ids.get(&(*space, *tag))?))).collect()
    }
}
