//! The core's own state and what the disk gives back, held against the ledger and the model: every unfinished message stands
//! where they say, nothing else is there, and every body can be read and is the one that was sent.

use std::collections::BTreeMap;

use millpond_core::output::Extent;
use millpond_core::page::{AsideState, Page, PiecePage, RunPage, TopicPage};
use millpond_storage::{ReadError, Reader};
use millpond_types::block::BadBlock;
use millpond_types::{LeaseNumber, MessageId, Priority, Sequence, TopicNumber};

use crate::bodies;
use crate::broker::Broker;
use crate::ledger::{Ledger, Place};
use crate::model::Model;
use crate::verdict::Violation;

/// Compares everything.
pub fn audit(broker: &Broker, ledger: &Ledger, model: &Model) -> Result<(), Violation> {
    let pages: Vec<Page> = broker.core().pages().collect();
    let mut blocks = Blocks::of(broker.reader());
    hold_against(ledger, &pages, &mut blocks)?;
    model.audit(&pages, &mut blocks)
}

/// What the disk gives back, each block read once for all groups that hold of it.
pub struct Blocks<'a> {
    reader: &'a Reader,
    read: BTreeMap<(u64, u32), Result<Tags, ReadError>>,
}

/// The tags of the bodies in a block, `None` for one that is not whole; or why it is no block.
pub type Tags = Result<Vec<Option<u64>>, BadBlock>;

impl<'a> Blocks<'a> {
    /// Nothing was read yet.
    pub fn of(reader: &'a Reader) -> Blocks<'a> {
        Blocks { reader, read: BTreeMap::new() }
    }

    /// The tags of the messages at an extent.
    pub fn tags(&mut self, extent: Extent) -> Result<&Tags, &ReadError> {
        let read = || self.reader.read(extent).map(|block| bodies::tags_of(&block));
        self.read.entry((extent.position, extent.length)).or_insert_with(read).as_ref()
    }
}

fn hold_against(ledger: &Ledger, pages: &[Page], blocks: &mut Blocks<'_>) -> Result<(), Violation> {
    let mut found = BTreeMap::new();
    for page in pages {
        let page = match page {
            Page::Topic(TopicPage { group, .. }) | Page::Piece(PiecePage { group, .. }) if ledger.is_aside(*group) => {
                continue;
            }
            Page::Dead(page) if ledger.is_aside(page.group) => continue,
            Page::Topic(page) => page,
            Page::Piece(page) => {
                for run in page.runs() {
                    let run = (page.topic, page.priority, run);
                    note(&mut found, &run, |_| Place::Open);
                    check_bodies(&run, blocks, ledger)?;
                }
                continue;
            }
            Page::Dead(page) => {
                note(&mut found, &(page.id.topic, page.id.priority, &page.run), |_| Place::Dead);
                compare(page.run.count, page.id, blocks.tags(page.run.extent()), ledger)?;
                continue;
            }
            _ => continue,
        };
        for level in &page.levels {
            let waiting = level.runs.iter().map(|run| (run, None));
            let aside = level.aside.iter().map(|aside| match aside.state {
                AsideState::Leased { lease, .. } => (&aside.run, Some(lease)),
                _ => (&aside.run, None),
            });
            for (run, lease) in waiting.chain(aside) {
                let run = (page.number, level.priority, run);
                let place = |index| lease.map_or(Place::Open, |lease| Place::Leased(LeaseNumber(lease.0 + index)));
                note(&mut found, &run, place);
                check_bodies(&run, blocks, ledger)?;
            }
        }
    }
    let expected = || ledger.messages.iter().filter(|(_, message)| !message.place.is_over());
    if let Some((id, message)) = expected().find(|(id, message)| found.get(id) != Some(&message.place)) {
        return Err(Violation::lost(format!("{id} should be {:?}, and is {:?}", message.place, found.get(id))));
    }
    let place = |id| ledger.messages.get(id).map(|message| message.place);
    if let Some((id, is)) = found.iter().find(|(id, _)| place(id).is_none_or(Place::is_over)) {
        return Err(Violation::back(format!("{id} is {is:?}, and by the facts it is {:?}", place(id))));
    }
    Ok(())
}

/// Messages of one level that lie together.
type Run<'a> = (TopicNumber, Priority, &'a RunPage);

fn note(found: &mut BTreeMap<MessageId, Place>, (topic, priority, run): &Run<'_>, place: impl Fn(u64) -> Place) {
    for index in 0..u64::from(run.count) {
        let sequence = Sequence(run.first.0 + index);
        found.insert(MessageId { topic: *topic, priority: *priority, sequence }, place(index));
    }
}

fn check_bodies((topic, priority, run): &Run<'_>, blocks: &mut Blocks<'_>, ledger: &Ledger) -> Result<(), Violation> {
    let first = MessageId { topic: *topic, priority: *priority, sequence: run.first };
    compare(run.count, first, blocks.tags(run.extent()), ledger)
}

/// Those who know what was sent.
pub trait Sent {
    /// The tag of a message that was stored.
    fn tag(&self, id: MessageId) -> Option<u64>;

    /// Whether nobody needs it any more.
    fn is_over(&self, id: MessageId) -> bool;
}

impl Sent for Ledger {
    fn tag(&self, id: MessageId) -> Option<u64> {
        self.messages.get(&id).map(|message| message.tag)
    }

    fn is_over(&self, id: MessageId) -> bool {
        self.messages.get(&id).is_some_and(|message| message.place.is_over())
    }
}

impl Sent for Model {
    fn tag(&self, id: MessageId) -> Option<u64> {
        self.tags.get(&id).copied()
    }

    fn is_over(&self, id: MessageId) -> bool {
        let is_dead = self.letters.current().any(|((_, of), _)| of == id);
        self.tags.contains_key(&id) && !is_dead && self.groups.keys().all(|group| self.message(*group, id).is_none())
    }
}

/// Compares the bodies of messages with what was sent.
pub fn compare(count: u32, first: MessageId, read: Result<&Tags, &ReadError>, by: &impl Sent) -> Result<(), Violation> {
    let ids = (0..u64::from(count)).map(|index| MessageId { sequence: Sequence(first.sequence.0 + index), ..first });
    let tags = match read {
        Ok(Ok(tags)) => tags,
        Ok(Err(bad)) => return Err(Violation::lost(format!("the block of {first}: {bad}"))),
        // Between its lease and its delivery a message may have ended: then nobody needs its body.
        Err(ReadError::Gone(_)) if ids.clone().all(|id| by.is_over(id)) => return Ok(()),
        Err(error) => return Err(Violation::lost(format!("the body of {first} cannot be read: {error}"))),
    };
    let sent = ids.map(|id| by.tag(id));
    if !sent.clone().eq(tags.iter().copied()) {
        let sent: Vec<_> = sent.collect();
        return Err(Violation::lost(format!("{first} and behind: the bodies are {tags:?}, sent were {sent:?}")));
    }
    Ok(())
}
