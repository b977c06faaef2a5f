//! Whether publishes have to wait, because memory or the disk's pace does not suffice for more; and before them those jobs of the
//! core that change many entries, which are in no hurry.
//!
//! Finishing always goes on, for it is what makes room; but for what makes dead letters, which takes some. Who looks at topics
//! that are on the disk goes on behind where publishes wait for those, and has a bound there as well. An ack takes some, too,
//! until a checkpoint is written. So where checkpoints do not come, as on a disk that is full, deliveries wait in the end, and
//! with them the acks that they lead to. Invariant: what makes publishes wait is held against its bound in
//! each turn, so that they go on by themselves; a little below it, so that they do not stop and go with each turn.

use std::time::{Duration, Instant};

use millpond_core::Core;
use millpond_storage::store::LayeredStore;

use crate::memory::Shares;
use crate::metrics::Metrics;
use crate::update_queue::Open;
use crate::writer::request::{BURYING, FORWARDING, LOOKING, PUBLISHING, shut};

/// Of a bound, one part in so many lies between where publishes stop and where they go on.
const SLACK: usize = 16;
/// So much more than their share entries take while deliveries wait: a half more.
const DELIVERIES: usize = 2;
/// How often one reason is said in the log, for as long as it lasts.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What there is too much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Topics in memory, because they cannot do without or because others come faster than they leave.
    Topics,
    /// Topics among these that starts of groups have still to come to.
    Starts,
    /// Commands that wait for topics from the disk.
    Parked,
    /// Entries that are not on the disk yet.
    Entries,
}

impl Reason {
    pub(crate) const ALL: [Reason; 4] = [Reason::Topics, Reason::Starts, Reason::Parked, Reason::Entries];

    /// Its name in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Topics => "topics",
            Reason::Starts => "starts",
            Reason::Parked => "parked",
            Reason::Entries => "entries",
        }
    }

    fn because(self) -> &'static str {
        match self {
            Reason::Topics => {
                "topics take all memory that there is for them, and leave it more slowly than others come"
            }
            Reason::Starts => {
                "topics that groups which start have still to come to take most of the memory that there is for topics"
            }
            Reason::Parked => "commands wait for topics from the disk, as many as there may be",
            Reason::Entries => "checkpoints are written more slowly than topics change",
        }
    }

    /// What to do if that lasts.
    fn advice(self) -> &'static str {
        match self {
            Reason::Topics | Reason::Starts | Reason::Parked => "give the broker more memory",
            // More memory only puts it off.
            Reason::Entries => {
                "give the broker a faster disk, or more of the processors if other programs keep them busy"
            }
        }
    }
}

/// For each reason whether it holds.
type Short = [bool; Reason::ALL.len()];

pub(super) struct Pressure {
    shares: Shares,
    short: Short,
    /// Whether jobs wait, as of the last look.
    is_on_for_jobs: bool,
    /// Whether deliveries wait, likewise.
    holds_deliveries: bool,
    /// Whether those wait who look at topics that may be on the disk alone, likewise.
    holds_looks: bool,
    /// When each was said last.
    said: [Option<Instant>; Reason::ALL.len()],
}

impl Pressure {
    pub(super) fn new(shares: Shares) -> Pressure {
        Pressure {
            shares,
            short: Short::default(),
            is_on_for_jobs: false,
            holds_deliveries: false,
            holds_looks: false,
            said: Default::default(),
        }
    }

    /// Whether publishes wait.
    pub(super) fn is_on(&self) -> bool {
        first(self.short).is_some()
    }

    /// Whether jobs wait that write, where a checkpoint is on its way that makes room, or due.
    pub(super) fn is_on_for_jobs(&self) -> bool {
        self.is_on_for_jobs
    }

    /// Whether deliveries wait for a checkpoint.
    pub(super) fn holds_deliveries(&self) -> bool {
        self.holds_deliveries
    }

    /// Which lanes may go on in a turn, behind what it has decided so far.
    pub(super) fn open_lanes_after(&self, core: &Core, store: &LayeredStore) -> Open {
        let short_now = self.short_now(core, unwritten(store));
        let short = Reason::ALL.map(|reason| self.short[reason as usize] || short_now[reason as usize]);
        open_lanes(short, self.holds_looks || self.is_too_much_to_look_at(core))
    }

    /// Which lanes may be taken from. Forwards go on where topics are too many, for they may be all that ends leases; what is
    /// short otherwise comes back by itself. What makes dead letters adds entries, and has to wait for nothing else.
    pub(super) fn open_lanes(&self) -> Open {
        open_lanes(self.short, self.holds_looks)
    }

    fn is_too_much_to_look_at(&self, core: &Core) -> bool {
        let share = self.shares.parked;
        core.parked_bytes() > share - if self.holds_looks { share / SLACK } else { 0 }
    }

    /// What there is too much of, with so many bytes of entries that are not on the disk.
    fn short_now(&self, core: &Core, entries: usize) -> Short {
        Reason::ALL.map(|reason| match reason {
            Reason::Topics => core.is_crowded() || self.is_over(reason, core.resident_bytes(), self.shares.topics),
            Reason::Starts => core.do_starts_hold_nearly_all(),
            Reason::Parked => self.is_over(reason, core.parked_bytes(), self.shares.parked_of_publishes()),
            Reason::Entries => self.is_over(reason, entries, self.shares.layers),
        })
    }

    /// Looks at what there is, lets checkpoints hurry where somebody waits for the room that they make, and says so if publishes
    /// have to wait.
    pub(super) fn look(&mut self, core: &Core, store: &LayeredStore, metrics: &Metrics, now: Instant) {
        let entries = unwritten(store);
        let short = self.short_now(core, entries);
        let reason = first(short);
        if reason != first(self.short) {
            metrics.push_back(reason);
        }
        self.short = short;
        self.is_on_for_jobs = entries > self.shares.layers_of_jobs();
        let most = self.shares.layers + self.shares.layers / DELIVERIES;
        self.holds_deliveries = entries > most - if self.holds_deliveries { most / SLACK } else { 0 };
        self.holds_looks = self.is_too_much_to_look_at(core);
        store.tree().hurry(reason.is_some() || self.is_on_for_jobs);
        let Some(reason) = reason else { return };
        let said = &mut self.said[reason as usize];
        if said.is_none_or(|said| now >= said + SAY_AGAIN) {
            *said = Some(now);
            tracing::warn!(
                reason = reason.name(),
                deliveries_wait = self.holds_deliveries,
                looks_wait = self.holds_looks,
                "publishes wait, finishing goes on: {}; if that lasts, {}",
                reason.because(),
                reason.advice()
            );
        }
    }

    fn is_over(&self, reason: Reason, bytes: usize, share: usize) -> bool {
        let slack = if self.short[reason as usize] { share / SLACK } else { 0 };
        bytes > share - slack
    }
}

/// Bytes of entries that are not on the disk.
fn unwritten(store: &LayeredStore) -> usize {
    let memory = store.memory();
    memory.young + memory.frozen
}

/// The reason that is told where several hold.
fn first(short: Short) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| short[*reason as usize])
}

/// Where several hold, what any of them keeps waiting waits.
fn open_lanes(short: Short, holds_looks: bool) -> Open {
    let first_shut = |reason| match reason {
        Reason::Topics => PUBLISHING,
        // A start waits for no lease, and forwards may add topics to it for ever.
        Reason::Starts | Reason::Parked => FORWARDING,
        Reason::Entries => BURYING,
    };
    let holding = Reason::ALL.into_iter().filter(|reason| short[*reason as usize]).map(first_shut);
    holding.chain(holds_looks.then_some(LOOKING)).fold(Open::ALL, shut)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millpond_core::page::{DedupPage, Page};
    use millpond_core::store::{Key, Shelf, Store};
    use millpond_storage::store::FilterBounds;
    use millpond_storage::tree::{CommitHead, MemoryTree};
    use millpond_types::{MessageId, Priority, Sequence, TopicNumber, WallTime};

    use super::*;
    use crate::memory::MEMORY_MIN;
    use crate::writer::request::{FINISHING, LANES};

    /// A store with so many bytes of entries that are not on the disk, or a few more.
    fn fill(store: &mut LayeredStore, bytes: usize) {
        let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
        for hash in 0.. {
            if unwritten(store) > bytes {
                return;
            }
            let page = Page::Dedup(DedupPage { namespace: 0, hash, id, until: WallTime(u64::MAX) });
            store.put(&Key::of(&page, Shelf::Idle), &page);
        }
    }

    /// Rejects of what leases keep in memory are entries, each with its reason.
    #[test]
    fn what_waits_for_checkpoints_waits_for_them_though_topics_are_too_many() {
        let short = |reasons: &[Reason]| Reason::ALL.map(|reason| reasons.contains(&reason));
        let shut = |reasons: &[Reason], holds_looks| {
            let open = open_lanes(short(reasons), holds_looks);
            (0..LANES).filter(|lane| !open.has(*lane)).collect::<Vec<_>>()
        };
        assert_eq!(shut(&[], false), []);
        assert_eq!(shut(&[Reason::Topics], false), [PUBLISHING]);
        assert_eq!(shut(&[Reason::Topics, Reason::Parked], false), [FORWARDING, PUBLISHING]);
        assert_eq!(shut(&[Reason::Starts], false), [FORWARDING, PUBLISHING]);
        assert_eq!(shut(&[Reason::Topics, Reason::Entries], false), [BURYING, FORWARDING, PUBLISHING]);
        // Who looks is never a reason for what finishes to wait, nor overtaken by what adds.
        assert_eq!(shut(&[Reason::Parked], true), [LOOKING, FORWARDING, PUBLISHING]);
        assert_eq!(shut(&[Reason::Entries], true), [LOOKING, BURYING, FORWARDING, PUBLISHING]);
        assert_eq!(first(short(&[Reason::Topics, Reason::Entries])), Some(Reason::Topics));
    }

    #[test]
    fn checkpoints_hurry_while_jobs_or_publishes_wait_for_the_room_that_they_make() {
        let mut store = LayeredStore::new(Arc::new(MemoryTree::default()), FilterBounds::within(0));
        let core = Core::empty([1, 2], Box::new(store.clone()));
        let shares = Shares { layers: 1 << 16, ..Shares::of(MEMORY_MIN) };
        let (mut pressure, metrics) = (Pressure::new(shares), Metrics::new());
        let mut look = |store: &LayeredStore| {
            pressure.look(&core, store, &metrics, Instant::now());
            // What makes dead letters waits where publishes do.
            assert_eq!(!pressure.open_lanes().has(BURYING), pressure.is_on());
            assert!(pressure.open_lanes().has(FINISHING) && pressure.open_lanes().has(LOOKING));
            (pressure.is_on_for_jobs(), pressure.is_on(), store.tree().stats().is_hurried, pressure.holds_deliveries())
        };
        assert_eq!(look(&store), (false, false, false, false));
        fill(&mut store, shares.young());
        assert_eq!(look(&store), (false, false, false, false), "one is due, and has time");
        fill(&mut store, shares.layers_of_jobs());
        assert_eq!(look(&store), (true, false, true, false));
        fill(&mut store, shares.layers);
        assert_eq!(look(&store), (true, true, true, false));
        fill(&mut store, shares.layers / 2 * 3);
        assert_eq!(look(&store), (true, true, true, true));
        store.freeze();
        assert_eq!(look(&store), (true, true, true, true), "that it was begun makes no room");
        store.seal();
        let sealed = store.sealed().unwrap();
        store.commit(sealed, &CommitHead::default()).unwrap();
        assert_eq!(look(&store), (false, false, false, false));
    }
}
