//! What may be dropped without anybody asking: dedup ids and producer sessions whose time is over, and all that belongs
//! to a namespace that is gone.
//!
//! Judged by the newest commit alone, by its wall time and its namespaces: a commit is a whole state, so an entry whose
//! namespace is not in it belongs to none. The core counts as absent whatever it finds expired, so it does not matter
//! when it is dropped.

use std::collections::BTreeSet;

use bytes::Bytes;
use millpond_core::store::Range;
use millpond_types::WallTime;

use crate::codec;

/// What is gone as of a commit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Expiry {
    wall: WallTime,
    namespaces: BTreeSet<[u8; 4]>,
}

/// The kinds of keys that begin with their namespace.
const DEDUP: u8 = 6;
const PRODUCER: u8 = 7;
const DEAD: u8 = 8;
/// The kind of a namespace's own key.
const NAMESPACE: u8 = 2;

/// When the dedup id of an entry ceases to count; `None` of an entry of another kind.
pub fn dedup_until(key: &[u8], value: &Bytes) -> Option<WallTime> {
    (key.first() == Some(&DEDUP)).then(|| codec::dedup_until(value)).flatten()
}

impl Expiry {
    /// Of a commit with the keys of its namespaces.
    pub fn new<'a>(wall: WallTime, namespaces: impl Iterator<Item = &'a [u8]>) -> Expiry {
        Expiry { wall, namespaces: namespaces.filter_map(Expiry::namespace).collect() }
    }

    /// Where the keys of namespaces are.
    pub fn namespaces_range(limit: u32) -> Range {
        Range { from: vec![NAMESPACE], until: vec![NAMESPACE + 1], limit }
    }

    /// Follows a commit's changes.
    pub fn note(&mut self, key: &[u8], is_there: bool) {
        if let Some(number) = Expiry::namespace(key) {
            if is_there {
                self.namespaces.insert(number)
            } else {
                self.namespaces.remove(&number)
            };
        }
    }

    /// Follows the time of commits.
    pub fn note_time(&mut self, wall: WallTime) {
        self.wall = wall;
    }

    /// Whether an entry may be dropped. Its value is looked at where the key does not tell.
    pub fn is_gone(&self, key: &[u8], value: impl FnOnce() -> Bytes) -> bool {
        let Some((&kind, rest)) = key.split_first() else { return false };
        let is_over = |until: Option<WallTime>| until.is_some_and(|until| until < self.wall);
        match kind {
            DEAD => !self.is_known(rest),
            DEDUP => !self.is_known(rest) || is_over(codec::dedup_until(&value())),
            PRODUCER => !self.is_known(rest) || is_over(codec::producer_until(&value())),
            _ => false,
        }
    }

    fn is_known(&self, rest: &[u8]) -> bool {
        rest.first_chunk::<4>().is_none_or(|number| self.namespaces.contains(number))
    }

    fn namespace(key: &[u8]) -> Option<[u8; 4]> {
        let (&kind, number) = key.split_first()?;
        (kind == NAMESPACE).then(|| number.try_into().ok()).flatten()
    }
}
