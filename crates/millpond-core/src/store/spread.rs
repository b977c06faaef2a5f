//! The first topics of each tenant of a range: what dispatch reads where it is about to go from tenant to tenant, so that
//! many turns cost one read however much each tenant has.

use alloc::vec::Vec;

use super::{Key, KeyBytes, Name, Range};
use crate::page::Page;

/// The first topics of each tenant in a range.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Spread {
    /// The range. At most so many in all.
    pub range: Range,
    /// At most so many of a tenant. What one has beyond that is passed over.
    pub of_tenant: u32,
}

/// A part of a range, with all entries that are in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it begins.
    pub from: KeyBytes,
    /// The first key behind it.
    pub until: KeyBytes,
    /// The entries, with their keys, in order.
    pub entries: Vec<(KeyBytes, Page)>,
}

/// Takes the keys of topics one after the other, and says when a tenant has had its share.
pub struct Shares {
    of_tenant: u32,
    tenant: Vec<u8>,
    count: u32,
}

/// Takes the entries of a range in order, and makes the answer to a [`Spread`] of them.
pub struct Gather {
    shares: Shares,
    left: u32,
    /// Where the part begins that is being filled.
    from: KeyBytes,
    entries: Vec<(KeyBytes, Page)>,
    parts: Vec<Part>,
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is part of the answer.
    Kept,
    /// Its tenant has its share; [`Gather::next`] is behind that.
    PassedOver,
    /// There are as many as there may be.
    Full,
}

impl Shares {
    /// At most so many of a tenant.
    pub fn new(of_tenant: u32) -> Shares {
        Shares { of_tenant, tenant: Vec::new(), count: 0 }
    }

    /// Where the next tenant begins, if this key is one more than its tenant may have.
    ///
    /// # Panics
    /// If it is not the key of a topic.
    pub fn exceeded_by(&mut self, key: &[u8]) -> Option<KeyBytes> {
        let (group, shelf, bytes) = Key::parse_topic_bound(key).expect("it is the key of a topic");
        let name = Name::parse(bytes).expect("it is the key of a topic");
        if name.tenant() != self.tenant {
            (self.tenant, self.count) = (name.tenant().to_vec(), 0);
        }
        self.count += 1;
        (self.count > self.of_tenant).then(|| Key::topic_bound(group, shelf, &Name::tenant_end(&self.tenant)))
    }
}

impl Gather {
    /// Nothing yet.
    pub fn new(spread: &Spread) -> Gather {
        let (shares, from) = (Shares::new(spread.of_tenant), spread.range.from.clone());
        Gather { shares, left: spread.range.limit, from, entries: Vec::new(), parts: Vec::new() }
    }

    /// All entries from a key on follow. What lies between it and what came before was not looked at.
    pub fn begin(&mut self, from: KeyBytes) {
        self.from = self.from.clone().max(from);
    }

    /// Takes the next entry.
    pub fn take(&mut self, key: KeyBytes, page: Page) -> Taken {
        if key < self.from {
            return Taken::PassedOver;
        }
        if let Some(next) = self.shares.exceeded_by(&key) {
            self.end(&key);
            self.from = next;
            return Taken::PassedOver;
        }
        if self.left == 0 {
            self.end(&key);
            return Taken::Full;
        }
        self.left -= 1;
        self.entries.push((key, page));
        Taken::Kept
    }

    /// The first key that could be taken next.
    pub fn next(&self) -> KeyBytes {
        self.entries.last().map_or_else(|| self.from.clone(), |(key, _)| [&key[..], &[0]].concat())
    }

    /// Before this key there are no more.
    pub fn end(&mut self, until: &KeyBytes) {
        let entries = core::mem::take(&mut self.entries);
        if self.from < *until {
            let from = core::mem::replace(&mut self.from, until.clone());
            self.parts.push(Part { from, until: until.clone(), entries });
        }
    }

    /// What was found.
    pub fn parts(self) -> Vec<Part> {
        self.parts
    }
}
