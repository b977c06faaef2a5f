//! The store of a test: the model, held by the core and by the test alike.
#![allow(clippy::disallowed_types, reason = "this is the shell's side, and a store must be fit to be sent")]

use std::sync::{Arc, Mutex, MutexGuard};

use millpond_core::page::Page;
use millpond_core::store::{Answer, Found, Key, KeyBytes, MemoryStore, Range, Store, Want};

#[derive(Clone, Default)]
pub struct SharedStore {
    model: Arc<Mutex<MemoryStore>>,
    /// Whether pieces of lines that are on the disk have to be waited for. If not, they are found at once.
    pub pieces_wait: bool,
    /// Whether the store has to look on the disk for what is not there, as where it knows too little of it.
    pub knows_no_strangers: bool,
}

impl SharedStore {
    pub fn model(&self) -> MutexGuard<'_, MemoryStore> {
        self.model.lock().unwrap()
    }

    /// What a crash leaves, for another core.
    pub fn crashed(&self) -> SharedStore {
        let mut model = self.model().clone();
        model.crash();
        SharedStore { model: Arc::new(Mutex::new(model)), ..*self }
    }

    pub fn fetch(&self, want: Want) -> Answer {
        self.model().fetch(want)
    }

    /// What the last checkpoint holds.
    pub fn disk(&self) -> Vec<(Key, Page)> {
        let crashed = self.crashed();
        let model = crashed.model();
        let all = Range { from: KeyBytes::new(), until: vec![u8::MAX], limit: u32::MAX };
        model.entries(&all).map(|(key, page)| (Key::parse(&key).expect("a key of the core"), page)).collect()
    }
}

impl Store for SharedStore {
    fn put(&mut self, key: &Key, page: &Page) {
        self.model().put(key, page);
    }

    fn remove_all(&mut self, keys: &[Key]) {
        self.model().remove_all(keys);
    }

    fn find(&mut self, key: &Key) -> Found {
        let mut model = self.model();
        match (model.find(key), key) {
            // A disk that answers at once.
            (Found::OnDisk, Key::Piece { .. }) if !self.pieces_wait => match model.fetch(Want::Entry(key.bytes())) {
                Answer::Entry(_, Some(page)) => Found::Here(Box::new(page)),
                answer => panic!("an entry that is on disk: {answer:?}"),
            },
            (Found::Absent, Key::Topic { .. } | Key::Dead { .. }) if self.knows_no_strangers => Found::OnDisk,
            (found, _) => found,
        }
    }

    fn freeze(&mut self) {
        self.model().freeze();
    }

    fn capture(&mut self, key: &Key, page: &Page) {
        self.model().capture(key, page);
    }

    fn capture_removal(&mut self, key: &Key) {
        self.model().capture_removal(key);
    }

    fn seal(&mut self) {
        self.model().seal();
    }

    fn dump(&self) -> Vec<Page> {
        self.model().dump()
    }
}
