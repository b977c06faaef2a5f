//! What a command waits for once it may pass its gates: what can be told only when it is its turn.
//!
//! What was fetched for it is kept until it is decided, for it may need more when it has that.

use millpond_types::Priority;

use super::{Gate, Parking};
use crate::Core;
use crate::store::{Key, KeyBytes, Range, Shelf, Want};

impl Core {
    /// Asks for what can be told only when it is a command's turn: all topics of its filter, or the pieces of lines, dedup
    /// ids and producer sessions that it looks into. False if there is nothing to ask for.
    pub(super) fn fetch_last(&mut self, id: u64) -> bool {
        if self.fetch_filtered(id) {
            return true;
        }
        let mut parked = self.parking.parked.remove(&id).expect("only a parked command is looked at");
        let wants = self.bring_for(&parked.command);
        parked.shut = wants.len();
        for want in &wants {
            let Want::Entry(key) = want else { panic!("a command looks into entries, not into {want:?}") };
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

    fn fetch_filtered(&mut self, id: u64) -> bool {
        let parked = self.parking.parked.get_mut(&id).expect("only a parked command is looked at");
        let gate = parked.gates.iter().find(|gate| matches!(gate, Gate::Filter(_, other) if *other == id));
        let Some(Gate::Filter(namespace, _)) = gate.cloned() else { return false };
        if !self.state.is_cold(namespace) {
            return false;
        }
        parked.shut = 1;
        let gate = Gate::Filter(namespace, id);
        for group in self.state.namespaces[namespace].groups.clone() {
            let from = Key::topic_bound(group, Shelf::Ready(Priority::LOWEST), &[]);
            let until = Key::topic_bound(group, Shelf::Busy, &[]);
            self.parking.gates.get_mut(&gate).expect("it is a gate").missing.push(until.clone());
            self.parking.awaited.insert(until.clone(), gate.clone());
            self.want(Want::Range(Range { from, until, limit: u32::MAX }));
        }
        true
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
