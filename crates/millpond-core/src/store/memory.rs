//! The model of a store: a sorted map and two small ones before it. Tests hold the others against it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Included};

use super::{Answer, Found, Gather, Key, KeyBytes, Part, Range, Slice, Spread, Store, Taken, Want};
use crate::page::Page;

/// An entry, or the news that it is gone.
type Change = Option<Box<Page>>;

/// Keeps everything in memory. What counts as on disk is answered only through [`MemoryStore::fetch`].
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MemoryStore {
    young: BTreeMap<KeyBytes, Change>,
    frozen: BTreeMap<KeyBytes, Change>,
    disk: BTreeMap<KeyBytes, Box<Page>>,
    sealed: bool,
}

impl MemoryStore {
    /// Writes the sealed checkpoint to what counts as the disk, if there is one.
    pub fn write_sealed(&mut self) {
        if !core::mem::take(&mut self.sealed) {
            return;
        }
        for (key, change) in core::mem::take(&mut self.frozen) {
            match change {
                Some(page) => _ = self.disk.insert(key, page),
                None => _ = self.disk.remove(&key),
            }
        }
    }

    /// What a crash leaves: the last checkpoint that was written.
    pub fn crash(&mut self) {
        self.young.clear();
        self.frozen.clear();
        self.sealed = false;
    }

    /// Answers a want, all layers merged.
    pub fn fetch(&self, want: Want) -> Answer {
        match want {
            Want::Entry(key) => {
                let page = self.in_memory(&key).cloned().unwrap_or_else(|| self.disk.get(&key).cloned());
                Answer::Entry(key, page.map(|page| *page))
            }
            Want::Range(range) => {
                let mut slice = Slice::new(&range, 0);
                self.changes(&range).all(|(key, page)| slice.take(Cow::Borrowed(key), page.cloned()));
                slice.answer(range, None)
            }
            Want::Spread(spread) => Answer::Spread { parts: self.parts(&spread), spread },
        }
    }

    fn parts(&self, spread: &Spread) -> Vec<Part> {
        let mut gather = Gather::new(spread);
        if self.entries(&spread.range).all(|(key, page)| gather.take(key, page) != Taken::Full) {
            gather.end(&spread.range.until);
        }
        gather.parts()
    }

    /// All entries of a range, whatever its limit.
    pub fn entries<'a>(&'a self, range: &Range) -> impl Iterator<Item = (KeyBytes, Page)> + use<'a> {
        self.changes(range).filter_map(|(key, page)| Some((key.clone(), page?.clone())))
    }

    /// All keys of a range, those that are gone and were since the last checkpoint among them.
    fn changes<'a>(&'a self, range: &Range) -> impl Iterator<Item = (&'a KeyBytes, Option<&'a Page>)> + use<'a> {
        let until = range.until.clone().max(range.from.clone());
        let bounds = (Included(range.from.clone()), Excluded(until));
        let mut layers = [&self.young, &self.frozen].map(|layer| layer.range(bounds.clone()).peekable());
        let mut disk = self.disk.range(bounds).peekable();
        core::iter::from_fn(move || {
            let keys = layers.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| *key));
            let key = keys.chain(disk.peek().map(|(key, _)| *key)).min()?;
            let on_disk = disk.next_if(|(other, _)| *other == key).map(|(_, page)| page);
            let mut newest = None;
            for layer in &mut layers {
                let change = layer.next_if(|(other, _)| *other == key);
                newest = newest.or(change.map(|(_, change)| change.as_ref()));
            }
            Some((key, newest.unwrap_or(on_disk).map(Box::as_ref)))
        })
    }

    fn in_memory(&self, key: &KeyBytes) -> Option<&Change> {
        self.young.get(key).or_else(|| self.frozen.get(key))
    }
}

impl Store for MemoryStore {
    fn put(&mut self, key: &Key, page: &Page) {
        self.young.insert(key.bytes(), Some(Box::new(page.clone())));
    }

    fn remove_all(&mut self, keys: &[Key]) {
        self.young.extend(keys.iter().map(|key| (key.bytes(), None)));
    }

    fn find(&mut self, key: &Key) -> Found {
        let key = key.bytes();
        match self.in_memory(&key) {
            Some(Some(page)) => Found::Here(page.clone()),
            Some(None) => Found::Absent,
            None if self.disk.contains_key(&key) => Found::OnDisk,
            None => Found::Absent,
        }
    }

    fn freeze(&mut self) {
        assert!(self.frozen.is_empty() && !self.sealed, "one checkpoint at a time");
        self.frozen = core::mem::take(&mut self.young);
    }

    fn capture(&mut self, key: &Key, page: &Page) {
        assert!(!self.sealed, "a sealed checkpoint does not change");
        self.frozen.insert(key.bytes(), Some(Box::new(page.clone())));
    }

    fn capture_removal(&mut self, key: &Key) {
        assert!(!self.sealed, "a sealed checkpoint does not change");
        self.frozen.insert(key.bytes(), None);
    }

    fn seal(&mut self) {
        self.sealed = true;
    }

    fn dump(&self) -> Vec<Page> {
        let all = Range { from: KeyBytes::new(), until: [u8::MAX].into(), limit: u32::MAX };
        self.entries(&all).map(|(_, page)| page).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::DedupPage;
    use millpond_types::{MessageId, Priority, Sequence, TopicNumber, WallTime};

    fn page(hash: u128, until: u64) -> Page {
        let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
        Page::Dedup(DedupPage { namespace: 0, hash, id, until: WallTime(until) })
    }

    fn key(hash: u128) -> Key {
        Key::Dedup { namespace: 0, hash }
    }

    #[test]
    fn newer_layers_hide_older_ones() {
        let mut store = MemoryStore::default();
        (1..=3).for_each(|hash| store.put(&key(hash), &page(hash, 1)));
        store.freeze();
        store.capture(&key(4), &page(4, 1));
        store.seal();
        store.write_sealed();
        assert_eq!(store.find(&key(1)), Found::OnDisk);
        store.remove(&key(1));
        store.put(&key(2), &page(2, 2));
        assert_eq!(store.find(&key(1)), Found::Absent);
        assert_eq!(store.find(&key(2)), Found::Here(Box::new(page(2, 2))));
        assert_eq!(store.find(&key(9)), Found::Absent);
        let range = Range { from: key(0).bytes(), until: key(9).bytes(), limit: 2 };
        let entries = Vec::from([(key(2).bytes(), page(2, 2)), (key(3).bytes(), page(3, 1))]);
        assert_eq!(
            store.fetch(Want::Range(range.clone())),
            Answer::Range { range, entries, rest: Some([&key(3).bytes()[..], &[0]].concat()) },
            "merged, and more than asked for"
        );
        store.crash();
        assert_eq!(store.fetch(Want::Entry(key(1).bytes())), Answer::Entry(key(1).bytes(), Some(page(1, 1))));
    }
}
