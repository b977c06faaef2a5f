//! What a command waits for once it may pass its gates: what can be told only when it is its turn.
//!
//! What was fetched for it is kept until it is decided, for it may need more when it has that.

use super::{Parking, needs};
use crate::Core;
use crate::store::{Key, KeyBytes, Want};

impl Core {
    /// Asks for what can be told only when it is a command's turn: the pieces of lines, dedup ids and producer sessions
    /// that it looks into. False if there is nothing to ask for.
    pub(super) fn fetch_last(&mut self, id: u64) -> bool {
        let mut parked = self.parking.parked.remove(&id).expect("only a parked command is looked at");
        let wants = self.bring_for(&parked.command, &mut parked.passed);
        parked.shut = wants.len();
        let keys = || {
            wants.iter().map(|want| match want {
                Want::Entry(key) => key,
                want => panic!("a command looks into entries, not into {want:?}"),
            })
        };
        let bytes = needs::bytes_of_keys(keys());
        parked.bytes += bytes;
        self.parking.bytes += bytes;
        for key in keys() {
            self.parking.lookups.entry(key.clone()).or_default().push(id);
            if Key::is_looked_up(key) {
                parked.asked.push(key.clone());
            }
        }
        self.parking.parked.insert(id, parked);
        let is_missing = !wants.is_empty();
        wants.into_iter().for_each(|want| self.want(want));
        is_missing
    }
}

impl Parking {
    /// Whether a parked command waits to look into an entry.
    pub(crate) fn looks_into(&self, key: &KeyBytes) -> bool {
        self.lookups.contains_key(key)
    }

    /// An entry has come that commands look into.
    pub(super) fn arrived(&mut self, key: &KeyBytes) {
        for id in self.lookups.remove(key).unwrap_or_default() {
            let parked = self.parked.get_mut(&id).expect("who waits for an entry is parked");
            parked.shut -= 1;
            if parked.shut == 0 {
                self.free.insert(id);
            }
        }
    }
}
