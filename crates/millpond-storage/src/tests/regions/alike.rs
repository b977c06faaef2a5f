//! A sector that lies in the place of another one and holds a whole message of the same length where that one did.
//!
//! The checksum of a message does not say where it belongs, so a read takes it for the message that was there. The checksum
//! of its batch does not match, which the scrub and an inspection find.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::Core;
use millpond_core::output::Extent;

use super::super::calls;
use super::super::workload::{Workload, options, scrub};
use super::{Batch, Files, batches};
use crate::twin::{SMALL_SECTOR, TwinDisk};
use crate::{Mark, Opened, Verdict, inspect_disk, open};

/// Bodies on both sides of each that is looked at, all the same, so that nothing else of a sector tells whose it is.
const FILLING: [u8; 900] = [7; 900];

#[test]
fn a_message_of_the_same_length_in_a_misplaced_sector_is_found_by_the_scrub_and_an_inspection() {
    let (workload, files) = small_messages_between_others();
    let disk = |files: &Files| TwinDisk::from_snapshot(SMALL_SECTOR, files).with_tree_of(&workload.disk);
    let mut opened = open::<Core>(Arc::new(disk(&files)), &options()).unwrap();
    let blocks = blocks(&opened);
    assert_eq!(scrub(&mut opened), []);
    assert_eq!(inspection(disk(&files)).0, Verdict::InOrder);
    let (placed, wounded) = misplaced(&files, &blocks);
    let (batch, position, other) = placed;

    let mut opened = open::<Core>(Arc::new(disk(&wounded)), &options()).unwrap();
    let read = self::blocks(&opened);
    assert_eq!(read[&position], blocks[&other], "nothing tells a read that it is another one");
    let changed = read.iter().filter(|(at, block)| blocks[*at] != **block).count();
    assert_eq!((read.len(), changed), (blocks.len(), 1));

    assert_eq!(scrub(&mut opened), [(format!("twin/{}", batch.file), batch.offset as u64)]);
    drop(opened);
    let (verdict, told) = inspection(disk(&wounded));
    let place = format!("twin/{} at offset {}", batch.file, batch.offset);
    assert!(verdict == Verdict::Damaged && told.contains(&place), "{place} is not in: {told}");
}

/// Batches of one length in several segments before a checkpoint, and what is behind it.
fn small_messages_between_others() -> (Workload, Files) {
    let mut workload = Workload::new(TwinDisk::new(SMALL_SECTOR), 3);
    let mut opened = workload.open().unwrap();
    let publish = |number: u32| {
        let body = format!("message {number:04}");
        calls::publish(vec![
            calls::run("before", &[], [&FILLING[..]]),
            calls::run("small", &[], [body.as_bytes()]),
            calls::run("behind", &[], [&FILLING[..]]),
        ])
    };
    (0..40).for_each(|number| drop(workload.turn(&mut opened, publish(number)).unwrap()));
    workload.checkpoint(&mut opened);
    workload.turn(&mut opened, publish(40)).unwrap();
    workload.mark(&mut opened, Mark::Stop).unwrap();
    drop(opened);
    let mut files = workload.disk.snapshot();
    files.retain(|name, _| !name.starts_with("spare"));
    (workload, files)
}

/// A message: its position, its batch, its offset in the file, its length.
type Small<'a> = (u64, &'a Batch, usize, usize);

/// The files with a sector in the place of another: the batch and position of the message that was there, and the position
/// of that which stands there now.
fn misplaced(files: &Files, blocks: &BTreeMap<u64, Bytes>) -> ((Batch, u64, u64), Files) {
    let batches: BTreeMap<u64, Batch> =
        files.iter().filter(|(name, _)| name.ends_with(".journal")).flat_map(batches).collect();
    let small = blocks.iter().filter(|(_, block)| block.len() < FILLING.len());
    let placed: Vec<Small<'_>> = small
        .map(|(position, block)| {
            let (begin, batch) = batches.range(..=position).next_back().unwrap();
            let offset = batch.offset + (position - begin) as usize;
            (*position, batch, offset, block.len())
        })
        .filter(|(_, _, offset, length)| offset % SMALL_SECTOR + length <= SMALL_SECTOR)
        .collect();
    let is_alike = |(one, other): &(&Small<'_>, &Small<'_>)| {
        let place = |small: &Small<'_>| (small.2 % SMALL_SECTOR, small.3);
        one.0 != other.0 && place(one) == place(other)
    };
    let mut pairs = placed.iter().flat_map(|one| placed.iter().map(move |other| (one, other)));
    let (&(position, batch, offset, _), &(other, from, at, _)) = pairs.find(is_alike).expect("there are many");
    let sector = |offset: usize| offset - offset % SMALL_SECTOR..offset - offset % SMALL_SECTOR + SMALL_SECTOR;
    let mut wounded = files.clone();
    let bytes = files[&from.file][sector(at)].to_vec();
    wounded.get_mut(&batch.file).unwrap()[sector(offset)].copy_from_slice(&bytes);
    ((batch.clone(), position, other), wounded)
}

/// Every message that is needed, as a read has it.
fn blocks(opened: &Opened<Core>) -> BTreeMap<u64, Bytes> {
    let mut blocks = BTreeMap::new();
    opened.core.extents(&mut |_, extent: Extent| {
        blocks.insert(extent.position, opened.reader.read(extent).unwrap());
    });
    blocks
}

fn inspection(disk: TwinDisk) -> (Verdict, String) {
    let mut told = Vec::new();
    let verdict = inspect_disk(Arc::new(disk), false, &mut told).unwrap();
    (verdict, String::from_utf8(told).unwrap())
}
