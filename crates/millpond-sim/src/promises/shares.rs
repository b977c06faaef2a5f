//! What the core holds beside topics: of each kind no more than its share, with what pushes back where that is used up, and
//! nothing for nobody.
//!
//! What waits for the disk is held where a command comes to it, for only the last one may be beyond the bound: publishes and the
//! like at three quarters of the share, who looks or makes room at all of it, and nobody else is made to wait. A broker that stops
//! decides all that it has put off.

use millpond_core::Core;
use millpond_core::command::Command;
use millpond_server::manual::Rooms;

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::tape::Brief;
use crate::verdict::Violation;

/// A command has to wait for the disk, beside others that take so many bytes.
pub fn waits(command: &Command, before: usize, rooms: &Rooms, sights: &mut Sights) -> Kept {
    let most = match command {
        Command::Look(_) | Command::Topic(_) | Command::Cancel { .. } | Command::Forget { .. } => rooms.parked,
        Command::Publish(_)
        | Command::Route(_)
        | Command::Forward(_)
        | Command::Reschedule { .. }
        | Command::Move(_)
        | Command::DeadMove(_) => rooms.parked - rooms.parked / 4,
        _ => return Err(Violation::memory(format!("{} waits for the disk", Brief(command)))),
    };
    sights.saw_many("commands that waited beside others", u64::from(before > 0));
    if before > most {
        let what = format!("{} waits beside others of {before} bytes, and {most} may be", Brief(command));
        return Err(Violation::memory(what));
    }
    Ok(())
}

/// A turn is over.
pub fn rests(core: &Core, model: &Model, rooms: &Rooms, sights: &mut Sights) -> Kept {
    let (waiting, bytes) = (core.parked_count(), core.parked_bytes());
    if (waiting == 0) != (bytes == 0) {
        return Err(Violation::memory(format!("{waiting} commands wait for the disk, and take {bytes} bytes")));
    }
    let fetched = core.fetched_count();
    sights.saw_many("entries that were fetched for somebody", fetched as u64);
    if fetched > 0 && waiting == 0 && !core.has_jobs() {
        return Err(Violation::memory(format!("{fetched} entries are kept that nobody waits for")));
    }
    let (here, bytes) = core.producers_resident();
    sights.saw_many("producer sessions out of memory", model.producers.len().saturating_sub(here) as u64);
    if bytes > rooms.producers {
        let what = format!("{here} producer sessions take {bytes} bytes, and {} may be", rooms.producers);
        return Err(Violation::memory(what));
    }
    Ok(())
}
