//! How many rows are read for what is delivered.

use std::sync::Arc;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::{Output, Reply};
use millpond_core::{Core, Now};
use millpond_types::{RunTime, WallTime};

use super::calls::{self, receive, turn};
use super::workload::checkpoint;
use crate::twin::{SECTOR, TwinDisk};
use crate::{OpenOptions, open};

const TENANTS: u32 = 50;
const TOPICS: u32 = 200;
/// Memory for topics: a dozen of each tenant may be read ahead.
const ROOM: usize = 6 * 1024 * 1024;

fn publish(tenant: u32) -> Command {
    let names = (0..TOPICS).map(|topic| format!("{tenant:03}/{topic:05}"));
    calls::publish(names.map(|name| calls::run(&name, &[], [&b"body"[..]])).collect())
}

/// All tenants go on side by side. Where one of them ends, the next one's first topics were served long since: they are
/// gone in memory and still on the disk, and reading on into them would cost the more, the more there were.
#[test]
fn a_topic_on_the_disk_is_read_about_once() {
    let options = OpenOptions { room: ROOM, ..OpenOptions::default() };
    let mut opened = open::<Core>(Arc::new(TwinDisk::new(SECTOR)), &options).unwrap();
    opened.start(Now { run: RunTime(1), wall: WallTime(1) }).unwrap();
    (0..TENANTS).for_each(|tenant| _ = turn(&mut opened, publish(tenant)));
    checkpoint(&mut opened);
    opened.core.set_room(0);
    while opened.core.make_room() {}
    opened.core.set_room(ROOM);
    assert_eq!(opened.core.cold_count(), u64::from(TENANTS * TOPICS));
    let before = opened.store.tree().stats().keys_scanned;
    let mut delivered = 0;
    while delivered < TENANTS * TOPICS {
        let Some(Output::Reply { reply: Reply::Received(runs), .. }) = turn(&mut opened, receive(100)).pop() else {
            panic!("a receive is answered with what is there")
        };
        delivered += runs.iter().map(|run| run.count).sum::<u32>();
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        turn(&mut opened, Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: true }));
    }
    let rows = opened.store.tree().stats().keys_scanned - before;
    let each = rows as f64 / f64::from(delivered);
    assert!(each <= 1.5, "{each} rows read for each message");
}
