//! Checkpoints: the state at a journal position, as the entries of the tree and the head of the commit that made them so.
//!
//! The core freezes between two batches and captures what has changed, in slices; the writer notes the position. Once the
//! journal is durable up to there, the housekeeper commits what was captured. The commit is atomic: until it is there, the
//! one before and the journal behind that one are the truth.
//!
//! In the head of the commit, behind what the tree says of it, stands:
//!
//! | bytes | field | |
//! |---|---|---|
//! | | table | what each segment holds of live messages ([`LiveBytes`]) |

use std::sync::Arc;

use millpond_core::fact::Epoch;
use millpond_core::page::{GroupPage, NumbersPage, Page};
use millpond_core::store::{Key, Range};
use millpond_types::WallTime;

use crate::codec::decode_entry;
pub use crate::journal::live::LiveBytes;
use crate::tree::{CommitHead, Tree, TreeError};

/// A checkpoint that was begun.
pub(crate) struct Job {
    pub position: u64,
    pub start: u32,
    pub epoch: Epoch,
    pub wall: WallTime,
    /// Known once the journal is written up to the position.
    pub live: Option<LiveBytes>,
}

impl Job {
    /// The head of its commit.
    pub fn head(&self, directory: u128) -> CommitHead {
        let rest = self.live.as_ref().expect("what is durable was written").encode();
        let Job { position, start, epoch, wall, .. } = *self;
        CommitHead { position, epoch: epoch.into(), start, wall, directory, rest: rest.into() }
    }
}

/// What a start takes from a checkpoint before it replays.
pub(crate) struct Checkpoint {
    pub position: u64,
    pub start: u32,
    pub live: LiveBytes,
    pub numbers: NumbersPage,
    /// Namespaces, then the topics that are never cold, then exchanges.
    pub pages: Vec<Page>,
}

impl Checkpoint {
    /// Reads the checkpoint of a tree, if there is one.
    pub fn read(tree: &Arc<dyn Tree>, directory: u128) -> Result<Option<Checkpoint>, TreeError> {
        let Some(head) = tree.head() else { return Ok(None) };
        if head.directory != directory {
            return Err(damaged("it belongs to another data directory"));
        }
        let live = LiveBytes::decode(&head.rest).ok_or_else(|| damaged("its head makes no sense"))?;
        let numbers = tree.get_many(&[Key::Numbers.bytes()])?.remove(0);
        let Some(Ok(Page::Numbers(numbers))) = numbers.map(|value| decode_entry(&Key::Numbers, &value)) else {
            return Err(damaged("it has no numbers"));
        };
        let mut pages = entries(tree, Range { from: vec![2], until: vec![3], limit: u32::MAX })?;
        let groups = pages.iter().flat_map(|page| match page {
            Page::Namespace(page) => &page.groups[..],
            _ => &[],
        });
        for range in groups.flat_map(GroupPage::loaded).collect::<Vec<_>>() {
            pages.extend(entries(tree, range)?);
        }
        pages.extend(entries(tree, Range { from: vec![9], until: vec![10], limit: u32::MAX })?);
        Ok(Some(Checkpoint { position: head.position, start: head.start, live, numbers, pages }))
    }
}

fn entries(tree: &Arc<dyn Tree>, range: Range) -> Result<Vec<Page>, TreeError> {
    let entries = tree.scan(&range)?.entries.into_iter();
    let pages = entries.map(|(key, value)| {
        let key = Key::parse(&key).ok_or_else(|| damaged("it has a key that is none"))?;
        decode_entry(&key, &value).map_err(|bad| TreeError::Damaged(format!("its entry {key:?}: {bad}")))
    });
    pages.collect()
}

fn damaged(what: &str) -> TreeError {
    TreeError::Damaged(what.to_owned())
}
