//! What leaves memory where there is too little of it, and when that is not enough.

use std::iter::once;

use millpond_core::command::*;
use millpond_core::output::{Output, Reply};
use millpond_core::{Core, Now};
use millpond_types::{Millis, NamespaceName, RunTime, WallTime};

use crate::history::{Known, publish_run, receive};
use crate::journal::Journal;
use crate::shell::HASH_KEY;
use crate::store::SharedStore;

/// More than are looked at in one turn.
const TOPICS: u32 = 3000;

#[test]
fn while_others_can_leave_those_that_are_leased_do_not_make_it_crowded() {
    let mut room = Room::new();
    room.turn(once(publish(TOPICS)));
    // The first half has not been used for longest.
    room.turn(once(receive(TOPICS / 2)));
    let bytes = room.core.resident_bytes();
    room.core.set_room(bytes * 3 / 4);
    while room.core.make_room() {
        assert!(!room.core.is_crowded(), "some can still leave");
    }
    assert!(!room.core.is_crowded() && room.core.resident_bytes() <= bytes * 3 / 4);
    assert!(room.core.cold_count() > 0);
}

#[test]
fn it_is_crowded_when_none_can_leave_and_no_longer_when_one_can() {
    let mut room = Room::new();
    room.turn(once(publish(TOPICS)));
    let receipts = room.turn(once(receive(TOPICS)));
    room.core.set_room(0);
    for _ in 0..=TOPICS {
        if !room.core.make_room() {
            break;
        }
    }
    assert!(room.core.is_crowded(), "all are leased");
    let release = FinishVerb::Release { delay: Millis::ZERO };
    room.turn(once(Command::Finish(Finish { verb: release, receipts, confirm: false })));
    assert!(!room.core.is_crowded());
}

struct Room {
    core: Core,
    journal: Journal,
    tickets: u64,
}

impl Room {
    fn new() -> Room {
        let mut journal = Journal::default();
        let mut core = Core::create(HASH_KEY, Box::new(SharedStore::default()), &mut journal);
        core.start(Now { run: RunTime(0), wall: WallTime(0) }, false, &mut journal);
        Room { core, journal, tickets: 0 }
    }

    /// A turn; the leases that it gives.
    fn turn(&mut self, commands: impl Iterator<Item = Command>) -> Vec<ReceiptRun> {
        for command in commands {
            self.tickets += 1;
            self.core.submit(Ticket(self.tickets), command, &mut self.journal);
        }
        self.core.dispatch(&mut self.journal);
        let received = self.core.outputs().drain(..).flat_map(|output| match output {
            Output::Reply { reply: Reply::Received(leases), .. } => leases,
            _ => Vec::new(),
        });
        received.map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect()
    }
}

fn publish(topics: u32) -> Command {
    let mut known = Known::default();
    let runs = (0..topics).map(|at| publish_run(&mut known, &format!("{at:05}"), 1, None));
    let (namespace, level) = (NamespaceName::default(), Level::Durable);
    Command::Publish(Publish { namespace, producer: None, level, runs: runs.collect() })
}
