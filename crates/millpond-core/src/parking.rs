//! Commands that wait for entries of the store.
//!
//! A command is parked when only the disk knows of something that it needs: a topic that it names, a piece of a line, a
//! dedup id, a producer session. It is parked, too, when it comes behind a parked command: one that names a topic of the same name, or a
//! batch of the same producer session. So commands on a topic are decided in the order in which they came, also where
//! the topic does not exist yet, and all others pass. Finishing is never parked, for a topic with leases is in memory.
//!
//! What keeps commands in order is a *gate*, with a queue before it. The first in a queue passes when all entries that
//! the gate's topic could be in were looked at; a command is decided when it may pass all its gates. A gate that was
//! opened stays open while anyone stands before it, for a topic that is awaited does not leave memory.

mod last;
mod needs;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem::size_of;

use hashbrown::HashMap;
use millpond_types::{ProducerId, TopicName};

use crate::Core;
use crate::command::{Command, Ticket};
use crate::fact::{FactLog, GroupNumber, NamespaceNumber};
use crate::state::hash::Keyed;
use crate::store::{Key, KeyBytes, Want};

pub(crate) struct Parking {
    /// In the order in which they came.
    parked: BTreeMap<u64, Parked>,
    next: u64,
    /// Bytes of the parked commands, and of what they wait for.
    bytes: usize,
    /// Nobody walks over them: a batch has thousands.
    gates: HashMap<Gate, Queue, Keyed>,
    /// Which gate an entry keeps shut.
    awaited: BTreeMap<KeyBytes, Gate>,
    /// Commands that have passed all their gates, by the entries that they look into and wait for.
    lookups: BTreeMap<KeyBytes, Vec<u64>>,
    /// Commands that may pass all their gates.
    free: BTreeSet<u64>,
}

struct Parked {
    ticket: Ticket,
    command: Command,
    gates: Vec<Gate>,
    /// Gates that it may not pass yet; then entries that have not come.
    shut: usize,
    /// Dedup ids that it has gone on behind, as [`Core::bring_for`] says.
    passed: usize,
    /// What was fetched for it, and is kept until it is decided.
    asked: Vec<KeyBytes>,
    /// With what was asked for because it came.
    bytes: usize,
}

/// Who stands before a gate.
#[derive(Default)]
struct Queue {
    ids: VecDeque<u64>,
    /// Entries that only the disk knows of; empty where the gate is open.
    missing: Vec<KeyBytes>,
}

/// Who stands before a gate that a command comes to.
enum Before {
    /// Somebody who came earlier.
    Somebody,
    /// Nobody. Only the disk knows of these entries.
    Nobody(Vec<KeyBytes>),
}

/// What keeps commands in order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Gate {
    Topic(NamespaceNumber, TopicName),
    Producer(NamespaceNumber, ProducerId),
}

impl Gate {
    /// It outlives the command whose buffer its name came in.
    fn detach(&mut self) {
        if let Gate::Topic(_, name) = self {
            *name = name.detach();
        }
    }

    /// About how many bytes it takes where the command names it, and where the commands stand that come to it.
    fn bytes(&self) -> usize {
        let name = match self {
            Gate::Topic(_, name) => name.as_bytes().len(),
            Gate::Producer(..) => 0,
        };
        2 * size_of::<Gate>() + size_of::<Queue>() + size_of::<u64>() + name
    }
}

impl Core {
    /// Bytes of the commands that are parked, with all that they wait for, so that the shell can take fewer new ones.
    pub fn parked_bytes(&self) -> usize {
        self.parking.bytes
    }

    /// How many of these are for what was parked last.
    pub fn last_parked_bytes(&self) -> usize {
        self.parking.parked.last_key_value().map_or(0, |(_, parked)| parked.bytes)
    }

    /// How many commands are parked.
    pub fn parked_count(&self) -> usize {
        self.parking.parked.len()
    }

    /// Copies what was parked last, where it holds less than so much of the buffer that it was read from: the shell knows how
    /// large that is, and only here is it known that it waits.
    pub fn detach_last_parked(&mut self, less_than: usize) {
        let Some(mut last) = self.parking.parked.last_entry() else { return };
        if last.get().command.shared_bytes() < less_than {
            last.get_mut().command.detach();
        }
    }

    /// Parks a command that cannot be decided now; hands it back if it can.
    pub(crate) fn park(&mut self, ticket: Ticket, command: Command) -> Option<Command> {
        let is_all_here = self.state.cold == 0 && self.parking.parked.is_empty();
        if is_all_here && self.bring_for(&command, &mut 0).is_empty() {
            return Some(command);
        }
        let Some(gates) = self.state.gates_of(&command) else { return Some(command) };
        let mut gates: Vec<_> = gates.into_iter().map(|gate| self.look_at(gate)).collect();
        let is_open = gates.iter().all(|(_, before)| matches!(before, Before::Nobody(missing) if missing.is_empty()));
        if is_open && self.bring_for(&command, &mut 0).is_empty() {
            return Some(command);
        }
        gates.iter_mut().for_each(|(gate, _)| gate.detach());
        gates.sort_unstable_by(|(gate, _), (other, _)| gate.cmp(other));
        gates.dedup_by(|(gate, _), (other, _)| gate == other);
        let id = self.parking.next;
        self.parking.next += 1;
        let mut bytes = needs::bytes_of(&command)
            + gates.iter().map(|(gate, _)| gate.bytes()).sum::<usize>()
            + self.state.places_of(&command);
        let mut shut = 0;
        let mut own = Vec::with_capacity(gates.len());
        for (gate, before) in gates {
            if let Before::Nobody(missing) = before {
                bytes += needs::bytes_of_keys(missing.iter());
                for key in &missing {
                    self.parking.awaited.insert(key.clone(), gate.clone());
                    self.want(Want::Entry(key.clone()));
                }
                self.parking.gates.insert(gate.clone(), Queue { ids: VecDeque::new(), missing });
            }
            let queue = self.parking.gates.get_mut(&gate).expect("it was there, or put there above");
            queue.ids.push_back(id);
            shut += usize::from(queue.ids.len() > 1 || !queue.missing.is_empty());
            own.push(gate);
        }
        self.parking.bytes += bytes;
        self.parking
            .parked
            .insert(id, Parked { ticket, command, gates: own, shut, passed: 0, asked: Vec::new(), bytes });
        if shut == 0 {
            // It waits for nobody.
            self.fetch_last(id);
        }
        None
    }

    /// Whether a topic stays in memory because a parked command needs it.
    pub(crate) fn is_awaited(&self, namespace: NamespaceNumber, name: &TopicName) -> bool {
        !self.parking.gates.is_empty() && self.parking.gates.contains_key(&Gate::Topic(namespace, name.clone()))
    }

    /// The entry of a key has come.
    pub(crate) fn arrived(&mut self, key: &KeyBytes) {
        self.parking.arrived(key);
        let Some(gate) = self.parking.awaited.remove(key) else { return };
        let queue = self.parking.gates.get_mut(&gate).expect("a gate that waits is there");
        queue.missing.retain(|missing| missing != key);
        if queue.missing.is_empty() {
            self.parking.open(&gate);
        }
    }

    /// Decides the parked commands that have nothing more to wait for, in the order in which they came.
    pub(crate) fn unpark(&mut self, log: &mut dyn FactLog) {
        while let Some(id) = self.parking.free.pop_first() {
            if !self.fetch_last(id) {
                let parked = self.parking.take(id);
                self.decide(parked.ticket, parked.command, log);
                parked.asked.iter().for_each(|key| _ = self.state.fetched.remove(key));
            }
        }
    }

    /// Who stands before a gate, or what it would wait for.
    fn look_at(&mut self, gate: Gate) -> (Gate, Before) {
        let before = match &gate {
            gate if self.parking.gates.contains_key(gate) => Before::Somebody,
            Gate::Topic(namespace, name) => Before::Nobody(self.look_up(*namespace, name)),
            Gate::Producer(..) => Before::Nobody(Vec::new()),
        };
        (gate, before)
    }
}

impl Parking {
    pub(crate) fn new(hash_key: [u64; 2]) -> Parking {
        Parking {
            parked: BTreeMap::new(),
            next: 0,
            bytes: 0,
            gates: HashMap::with_hasher(Keyed(hash_key)),
            awaited: BTreeMap::new(),
            lookups: BTreeMap::new(),
            free: BTreeSet::new(),
        }
    }

    /// A group's topic is in memory, whatever else is still asked for on its account.
    pub(crate) fn appeared(&mut self, namespace: NamespaceNumber, group: GroupNumber, name: &TopicName) {
        if self.awaited.is_empty() {
            return;
        }
        let gate = Gate::Topic(namespace, name.clone());
        let Some(queue) = self.gates.get_mut(&gate).filter(|queue| !queue.missing.is_empty()) else { return };
        let is_its_own = |key: &mut KeyBytes| matches!(Key::parse_topic_bound(key), Some((of, ..)) if of == group);
        for key in queue.missing.extract_if(.., is_its_own) {
            self.awaited.remove(&key);
        }
        if queue.missing.is_empty() {
            self.open(&gate);
        }
    }

    /// The first before a gate may pass it.
    fn open(&mut self, gate: &Gate) {
        let first = self.gates[gate].ids.front().expect("somebody stands before a gate");
        let parked = self.parked.get_mut(first).expect("who stands before a gate is parked");
        parked.shut -= 1;
        if parked.shut == 0 {
            self.free.insert(*first);
        }
    }

    fn take(&mut self, id: u64) -> Parked {
        let parked = self.parked.remove(&id).expect("a parked command is taken once");
        self.bytes -= parked.bytes;
        for gate in &parked.gates {
            let queue = self.gates.get_mut(gate).expect("a parked command stands before its gates");
            assert_eq!(queue.ids.pop_front(), Some(id), "a command that passes a gate was the first before it");
            if queue.ids.is_empty() {
                self.gates.remove(gate);
            } else {
                self.open(gate);
            }
        }
        parked
    }
}
