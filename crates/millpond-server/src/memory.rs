//! What the memory of a broker is for: `--memory`, divided into shares. Whatever of the broker grows with use is in this
//! table, with what happens at its bound; nothing else grows.
//!
//! What the program takes before it is used ([`BASE`]) and a margin for what an allocator wastes ([`MARGIN`]) come first.
//! The rest is divided by thousandths, of which the first five are parts of what the others leave:
//!
//! | share | ‰ | of 1 GiB | what is in it | at the bound |
//! |---|---|---|---|---|
//! | topics | 245 | 199 MiB | topics in the core's memory, with lines, leases and deadlines | cold ones leave it; leases are rationed; where that does not help, publishes wait |
//! | layers | 170 | 138 MiB | entries of the store that are not on the disk yet | at half of it a checkpoint begins, at three quarters what changes many entries at a time waits for it, then publishes do |
//! | filter | 135 | 110 MiB | what is known of the keys on the disk, twice while it is made anew | it knows them less well |
//! | cache | 50 | 41 MiB | blocks of the tree | older ones go |
//! | parked | 20 | 16 MiB | commands that wait for topics from the disk | at three quarters of it publishes wait, then those who look at topics |
//! | set up | 60 | 52 MiB | bindings, pauses, rules, groups and namespaces; in its other half sessions, consumers and open receives | more of them are refused |
//! | turns | 20 | 18 MiB | where tenants go on; in its other half, between which topics in memory none stands on the disk | those that had no turn for longest begin anew; it is read again |
//! | producers | 5 | 4 MiB | producer sessions in the core's memory, with what was told of their last batches | those not used for longest leave it |
//! | tail | 60 | 52 MiB | recent batches of the journal, for deliveries | older batches are read from their files |
//! | batches | 70 | 61 MiB | the batch that fills, the one on its way, memory for the next | publishes wait for the disk; at twice a full batch everything does |
//! | lanes | | 3 MiB | requests that the writer's next turn takes | publishes wait in their connections, then all requests do |
//! | held | 30 | 26 MiB | publishes, and requests that look at topics or list, that connections have read while their lane is full | those connections are not read, nor are large publishes of others |
//! | receiving | 30 | 26 MiB | frames that are not whole yet | large frames wait their turn |
//! | sending | 40 | 35 MiB | bodies that are read and frames that wait to be written | further ones wait as envelopes |
//! | unread | 10 | 9 MiB | answers that wait to become frames, bodies apart | whoever has more than a few of them is not read |
//! | windows | 20 | 17 MiB | envelopes of deliveries | windows shrink |
//! | connections | 80 | 70 MiB | what a connection takes whether or not it does anything | further connections are refused |
//!
//! Outside of it are the pages of files that the system keeps for as long as nobody else wants them: it does not count
//! them to the process.

use millpond_storage::BATCH_BYTES;
use millpond_types::limits::FRAME_MAX;

use crate::session::intake::Receiving;

/// Less memory than this leaves too little beside the smallest buffers for topics to live in.
pub const MEMORY_MIN: u64 = 64 << 20;
/// Memory unless the settings say otherwise.
pub const MEMORY_DEFAULT: u64 = 1 << 30;

/// What a broker takes that nobody uses: code, stacks, tables, the first buffers.
const BASE: u64 = 16 << 20;
/// One part in so many is left for what an allocator cannot use: holes between allocations, and their heads.
const MARGIN: u64 = 8;

/// Thousandths that the state takes: topics, layers, filter, cache and parked commands.
const STATE: u64 = 245 + 170 + 135 + 50 + 20;
/// More producer sessions than that do not publish at a time, so they need not take turns on the disk.
const PRODUCERS_MAX: u64 = 16 << 20;
/// More than this of recent messages is read from the page cache nearly as fast.
const TAIL_MAX: u64 = 256 << 20;
/// Batches that fit the memory for them. A chunk is made for two; one fills, one is on its way, one is the tail's oldest
/// and only in part of use, and two are kept for use again.
const BATCHES: u64 = 10;
/// Smaller batches would be mostly syncs.
const BATCH_MIN: u64 = 512 << 10;
/// Larger ones would take too long on a slow disk.
const BATCH_MAX: u64 = BATCH_BYTES;
/// What a turn of the writer takes of finishing requests: some hundred acks, which it is done with in less than a
/// millisecond, or of eight thousand leases and the last call's, if each is one of its own. Whoever asks for anything
/// waits for the turn that goes on and for its own, so more would be time that a few clients take from everyone else; with
/// 16 MiB, sixteen that guessed receipts held others up for seconds.
pub(crate) const FINISHING_TURN: usize = 256 << 10;
/// What a turn takes of those who look at topics that may be on the disk: some hundred, which is more than may be parked of
/// those with long names in the least memory.
pub(crate) const LOOKING_TURN: usize = FINISHING_TURN / 4;
/// What a turn takes of what makes dead letters, by the bytes of the letters: what it overdraws the room for entries by, where
/// it was just let in.
pub(crate) const BURYING_TURN: usize = FINISHING_TURN;
/// What a turn takes of forwards, which are both.
pub(crate) const FORWARDING_TURN: usize = FINISHING_TURN;
/// What a turn takes of publishes: ten thousand small messages in frames of a hundred, which is as long. Beside a full
/// batch it stays below what a batch's memory has left.
pub(crate) const PUBLISHING_TURN: usize = 512 << 10;
/// Of each lane as much again is for those who ask for little.
const LANES: usize = 2 * (FINISHING_TURN + LOOKING_TURN + BURYING_TURN + FORWARDING_TURN + PUBLISHING_TURN);
/// The largest answer finds room when it is alone.
const SENDING_MIN: u64 = FRAME_MAX as u64;
/// A connection's task and its socket's state. The small frames that some hold in part, the small answers that some do not
/// take, and the bits of the namespaces that some use by the thousand, are in the margin.
const CONNECTION: u64 = 3500;
/// Fewer connections are of no use to anybody.
const CONNECTIONS_MIN: usize = 64;

/// The shares of a broker's memory, in bytes. See the module's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    pub(crate) topics: usize,
    /// Of the topics' share, what they are kept to; publishes wait only above the whole.
    pub(crate) room: usize,
    pub(crate) layers: usize,
    pub(crate) filter: usize,
    pub(crate) cache: u64,
    pub(crate) parked: usize,
    /// Half of it for what facts keep, half for what connections hold.
    pub(crate) setup: usize,
    /// Half of it for whose turn is next, half for what of it is known to be in memory.
    pub(crate) turns: usize,
    pub(crate) producers: usize,
    pub(crate) tail: u64,
    /// Of the batch that is full.
    pub(crate) batch: u64,
    pub(crate) held: usize,
    pub(crate) receiving: usize,
    pub(crate) sending: usize,
    pub(crate) unread: usize,
    pub(crate) windows: usize,
    /// How many connections the share is enough for.
    pub(crate) connections: usize,
}

impl Shares {
    /// Bytes of entries that have changed since the last checkpoint began, at which the next one does: one half fills while the
    /// other is written.
    pub(crate) fn young(&self) -> usize {
        self.layers / 2
    }

    /// Bytes of entries that are not on the disk yet, above which jobs wait that change many of them. They are in no hurry: the
    /// rest is for those who are.
    pub(crate) fn layers_of_jobs(&self) -> usize {
        self.layers - self.layers / 4
    }

    /// Bytes of commands that wait for topics from the disk, above which publishes wait. The rest is for who wants to see why.
    pub(crate) fn parked_of_publishes(&self) -> usize {
        self.parked - self.parked / 4
    }

    /// Divides memory of at least [`MEMORY_MIN`].
    pub(crate) fn of(memory: u64) -> Shares {
        assert!(memory >= MEMORY_MIN, "settings are checked before");
        let rest = memory - BASE - memory / MARGIN;
        let share = |thousandths: u64| rest / 1000 * thousandths;
        let shares = Shares {
            topics: 0,
            room: 0,
            layers: 0,
            filter: 0,
            cache: 0,
            parked: 0,
            setup: share(60) as usize,
            turns: share(20) as usize,
            producers: share(5).min(PRODUCERS_MAX) as usize,
            tail: share(60).min(TAIL_MAX),
            batch: (share(70) / BATCHES).clamp(BATCH_MIN, BATCH_MAX),
            held: share(30) as usize,
            receiving: (share(30) as usize).max(Receiving::MIN),
            // A body that is read is there twice until it is a frame.
            sending: (share(40) / 2).max(SENDING_MIN) as usize,
            unread: share(10) as usize,
            windows: share(20) as usize,
            connections: ((share(80) / CONNECTION) as usize).max(CONNECTIONS_MIN),
        };
        // Of little memory the buffers take more than their share, for each has a size below which it is of no use; of
        // very much they take less, for each has one above which it is of none.
        let state = rest - shares.buffers() - (shares.setup + shares.turns + shares.producers) as u64;
        let part = |thousandths: u64| state / STATE * thousandths;
        Shares {
            topics: part(245) as usize,
            room: part(245 - 245 / 8) as usize,
            layers: part(170) as usize,
            filter: part(135) as usize,
            cache: part(50),
            parked: part(20) as usize,
            ..shares
        }
    }

    /// Bytes of all that is on its way into the state or out of it.
    fn buffers(&self) -> u64 {
        let Shares { tail, batch, held, receiving, sending, unread, windows, connections, .. } = *self;
        let bytes = LANES + held + receiving + 2 * sending + unread + windows;
        tail + BATCHES * batch + bytes as u64 + connections as u64 * CONNECTION
    }
}

#[cfg(test)]
mod tests {
    use millpond_core::CLIENT_BYTES;

    use super::*;
    use crate::config::CONNECTIONS_DEFAULT;

    #[test]
    fn the_shares_of_any_memory_fit_it() {
        for memory in [MEMORY_MIN, 96 << 20, 192 << 20, 512 << 20, MEMORY_DEFAULT, 64 << 30] {
            let shares = Shares::of(memory);
            let state = shares.topics + shares.layers + shares.filter + shares.parked;
            let state = state + shares.setup + shares.turns + shares.producers;
            let bytes = BASE + memory / MARGIN + state as u64 + shares.cache + shares.buffers();
            assert!(bytes <= memory, "{bytes} of {memory}: {shares:?}");
            assert!(shares.topics >= 2 << 20, "{memory}: {shares:?}");
        }
    }

    #[test]
    fn more_memory_makes_no_share_smaller() {
        let (small, large) = (Shares::of(MEMORY_MIN), Shares::of(MEMORY_DEFAULT));
        assert!(small.topics < large.topics && small.layers < large.layers && small.cache < large.cache);
        assert!(small.tail < large.tail && small.batch < large.batch && small.connections < large.connections);
        assert!(small.setup < large.setup && small.turns < large.turns && small.producers < large.producers);
        assert!(large.connections >= CONNECTIONS_DEFAULT);
    }

    /// So that a checkpoint is due where jobs wait for one, and publishes go on meanwhile.
    #[test]
    fn jobs_wait_behind_the_begin_of_a_checkpoint_and_before_publishes() {
        for memory in [MEMORY_MIN, 192 << 20, MEMORY_DEFAULT, 64 << 30] {
            let shares = Shares::of(memory);
            assert!(shares.young() < shares.layers_of_jobs() && shares.layers_of_jobs() < shares.layers, "{shares:?}");
        }
    }

    #[test]
    fn each_connection_may_have_a_session_and_a_consumer() {
        for memory in [MEMORY_MIN, 192 << 20, MEMORY_DEFAULT] {
            let Shares { setup, connections, .. } = Shares::of(memory);
            assert!(connections * CLIENT_BYTES <= setup / 2, "{connections} connections in {setup} bytes");
        }
    }
}
