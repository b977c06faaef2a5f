//! The core's own state and what the disk gives back, held against the ledger: every unfinished message stands where
//! the ledger says, nothing else is there, and every body can be read and is the one that was sent.

use std::collections::BTreeMap;

use millpond_core::Core;
use millpond_core::output::Extent;
use millpond_core::page::{AsideState, Page, PiecePage, RunPage, TopicPage};
use millpond_storage::{ReadError, Reader};
use millpond_types::{LeaseNumber, MessageId, Priority, Sequence, TopicNumber};

use crate::bodies;
use crate::ledger::{Ledger, Place};
use crate::verdict::Violation;

/// Compares everything.
pub fn audit(core: &Core, reader: &Reader, ledger: &Ledger) -> Result<(), Violation> {
    let mut found = BTreeMap::new();
    for page in core.pages() {
        let (topic, levels) = match page {
            Page::Topic(TopicPage { group, .. }) | Page::Piece(PiecePage { group, .. }) if ledger.is_aside(group) => {
                continue;
            }
            Page::Dead(page) if ledger.is_aside(page.group) => continue,
            Page::Topic(page) => (page.number, page.levels),
            Page::Piece(page) => {
                for run in page.runs {
                    let run = (page.topic, page.priority, run);
                    note(&mut found, &run, |_| Place::Open);
                    let first = MessageId { topic: page.topic, priority: page.priority, sequence: run.2.first };
                    check_bodies(&run, reader, ledger, first)?;
                }
                continue;
            }
            Page::Dead(page) => {
                let run = (page.id.topic, page.id.priority, page.run);
                note(&mut found, &run, |_| Place::Dead);
                check_bodies(&run, reader, ledger, page.id)?;
                continue;
            }
            _ => continue,
        };
        for level in levels {
            let waiting = level.runs.into_iter().map(|run| (run, None));
            let aside = level.aside.into_iter().map(|aside| match aside.state {
                AsideState::Leased { lease, .. } => (aside.run, Some(lease)),
                _ => (aside.run, None),
            });
            for (run, lease) in waiting.chain(aside) {
                let run = (topic, level.priority, run);
                let place = |index| lease.map_or(Place::Open, |lease| Place::Leased(LeaseNumber(lease.0 + index)));
                note(&mut found, &run, place);
                let first = MessageId { topic, priority: level.priority, sequence: run.2.first };
                check_bodies(&run, reader, ledger, first)?;
            }
        }
    }
    let expected = ledger.messages.iter().map(|(id, message)| (*id, message.place));
    let expected: BTreeMap<_, _> = expected.filter(|(_, place)| !place.is_over()).collect();
    if let Some((id, place)) = expected.iter().find(|(id, place)| found.get(id) != Some(place)) {
        return Err(Violation::lost(format!("{id} should be {place:?}, and is {:?}", found.get(id))));
    }
    if let Some((id, place)) = found.iter().find(|(id, _)| !expected.contains_key(id)) {
        let ended = ledger.messages.get(id).map(|message| message.place);
        return Err(Violation::back(format!("{id} is {place:?}, and by the facts it is {ended:?}")));
    }
    Ok(())
}

/// Messages of one level that lie together.
type Run = (TopicNumber, Priority, RunPage);

fn note(found: &mut BTreeMap<MessageId, Place>, (topic, priority, run): &Run, place: impl Fn(u64) -> Place) {
    for index in 0..u64::from(run.count) {
        let sequence = Sequence(run.first.0 + index);
        found.insert(MessageId { topic: *topic, priority: *priority, sequence }, place(index));
    }
}

fn check_bodies((_, _, run): &Run, reader: &Reader, ledger: &Ledger, first: MessageId) -> Result<(), Violation> {
    compare(run.extent(), run.count, first, reader, ledger)
}

/// Reads messages and compares their bodies with what was sent.
pub fn compare(
    extent: Extent,
    count: u32,
    first: MessageId,
    reader: &Reader,
    ledger: &Ledger,
) -> Result<(), Violation> {
    let ids = (0..u64::from(count)).map(|index| MessageId { sequence: Sequence(first.sequence.0 + index), ..first });
    let messages: Vec<_> = ids.map(|id| (id, ledger.messages.get(&id))).collect();
    let block = match reader.read(extent) {
        Ok(block) => block,
        // Between its lease and its delivery a message may have ended: then nobody needs its body.
        Err(ReadError::Gone(_)) if messages.iter().all(|(_, known)| known.is_some_and(|m| m.place.is_over())) => {
            return Ok(());
        }
        Err(error) => return Err(Violation::lost(format!("the body of {first} cannot be read: {error}"))),
    };
    let tags = bodies::tags_of(&block).map_err(|bad| Violation::lost(format!("the block of {first}: {bad}")))?;
    let sent: Vec<_> = messages.iter().map(|(_, known)| known.map(|message| message.tag)).collect();
    if tags != sent {
        return Err(Violation::lost(format!("{first} and behind: the bodies are {tags:?}, sent were {sent:?}")));
    }
    Ok(())
}
