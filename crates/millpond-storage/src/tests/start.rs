//! What a start makes durable before anything is told.

use std::sync::Arc;

use millpond_core::command::{Command, Level, Ticket};
use millpond_core::output::{Output, Reply};
use millpond_core::{Core, Now};
use millpond_types::{MessageId, PublishOutcome, RunTime, WallTime};

use super::workload::{options, publish};
use crate::twin::{SECTOR, Seed, TwinDisk};
use crate::{Mark, OpenOptions, open};

/// Opens, stores a message at level `buffered`, writes it, and tells its id; nothing is synced.
fn told_without_a_sync(disk: &TwinDisk, time: u64, options: &OpenOptions) -> MessageId {
    let mut opened = open::<Core>(Arc::new(disk.clone()), options).unwrap();
    let now = Now { run: RunTime(time), wall: WallTime(time) };
    opened.start(now).unwrap();
    let Command::Publish(mut publish) = publish(&mut Seed::new(1)) else { unreachable!("it is a publish") };
    publish.level = Level::Buffered;
    opened.core.submit(Ticket(1), Command::Publish(publish), &mut opened.appender);
    let outputs = std::mem::take(opened.core.outputs());
    opened.committer.write(opened.appender.seal(now).unwrap()).unwrap();
    let Some(Output::Reply { reply: Reply::Published { outcomes, .. }, .. }) = outputs.first() else {
        panic!("a publish is answered: {outputs:?}")
    };
    let PublishOutcome::Queued { id } = outcomes[0].outcome else { panic!("it is queued: {outcomes:?}") };
    id
}

/// Found by the simulation: the raise of a start stood in the same batch as the first publish, and went with it.
#[test]
fn ids_told_and_lost_in_two_power_cuts_are_not_told_again() {
    for seed in 0..20 {
        let disk = TwinDisk::new(SECTOR);
        let ids = [1, 2, 3].map(|start| {
            let id = told_without_a_sync(&disk, start, &options());
            disk.crash(seed + start);
            id
        });
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "seed {seed}: {ids:?}");
    }
}

/// The mark of the second start is damaged, and a person cuts there: what is left ends with an orderly stop. Or the first
/// batch is, and nothing is left.
#[test]
fn ids_told_and_cut_off_are_not_told_again() {
    for is_first in [false, true] {
        let disk = TwinDisk::new(SECTOR);
        let mut opened = open::<Core>(Arc::new(disk.clone()), &options()).unwrap();
        opened.start(Now::default()).unwrap();
        let stop = opened.appender.mark(Now::default(), Mark::Stop).unwrap();
        let at = if is_first { 0 } else { stop.end() };
        opened.committer.write(stop).unwrap();
        opened.committer.sync().unwrap();
        drop(opened);
        let told = told_without_a_sync(&disk, 1, &options());
        disk.kill();
        disk.flip("0000000000000000.journal", 4096 + at + 20, 0);
        let cut = OpenOptions { cut: Some(at), ..options() };
        let again = told_without_a_sync(&disk, 2, &cut);
        assert!(again.sequence.0 >= told.sequence.0 + (1 << 32), "{told:?}, and then {again:?}");
    }
}
