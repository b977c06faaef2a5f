//! Flipped bits, and leftovers that look like batches: what is damage, what is a torn tail, what is nothing.

use std::sync::Arc;

use bytes::Bytes;
use millpond_core::fact::{Fact, FactLog};
use millpond_core::output::{Extent, Holdings};
use millpond_core::page::{NumbersPage, Page};
use millpond_core::store::{Answer, Key, Store, Want};
use millpond_core::{LevelBounds, Now};
use millpond_types::block::Sizes;
use millpond_types::{LeaderEpoch, Priority, RunTime, Sequence, TopicNumber, WallTime};

use crate::store::LayeredStore;
use crate::twin::{Fault, SECTOR, Seed, TwinDisk};
use crate::{CommitError, Mark, OpenError, OpenOptions, Opened, ReadError, Replica, open};

use super::workload::{SEGMENT, Workload, options, publish, scrub, state};

/// A stand-in for the core that remembers what it was told.
#[derive(Default)]
struct Tape {
    facts: Vec<(Fact, u64)>,
    store: Option<LayeredStore>,
    holdings: Holdings,
}

impl Replica for Tape {
    fn create(hash_key: [u64; 2], store: LayeredStore, log: &mut dyn FactLog) -> Tape {
        let fact = Fact::Created { hash_key };
        let position = log.append(&fact);
        Tape { facts: vec![(fact, position)], store: Some(store), holdings: Holdings::default() }
    }

    fn empty(_: [u64; 2], store: LayeredStore) -> Tape {
        Tape { store: Some(store), ..Tape::default() }
    }

    fn recover(store: LayeredStore, _: NumbersPage, _: Vec<Page>) -> Result<Tape, String> {
        Ok(Tape { store: Some(store), ..Tape::default() })
    }

    fn needs(&mut self, _: &Fact) -> Option<Want> {
        None
    }

    fn recall(&mut self, _: Answer) {}

    fn apply(&mut self, fact: &Fact, position: u64) {
        self.holdings.clear();
        self.holdings.stored.extend(fact.block().map(|block| (0, block.len() as u64)));
        self.facts.push((fact.clone(), position));
    }

    fn pass_epoch(&mut self, _: Now) {}

    fn holdings(&mut self) -> &mut Holdings {
        &mut self.holdings
    }

    fn set_bounds(&mut self, _: LevelBounds) {}

    fn make_room(&mut self, _: usize) {}

    fn raise(&mut self, _: u64, _: &mut dyn FactLog) {}

    fn freeze(&mut self) -> NumbersPage {
        let store = self.store.as_mut().unwrap();
        let numbers = NumbersPage {
            hash_key: [1, 2],
            next_topic: 1,
            next_namespace: 1,
            next_group: 1,
            high_water: 1,
            epochs: LeaderEpoch(1),
            raised: 1,
            run: RunTime(1),
            wall: WallTime(1),
            epoch: 1,
        };
        store.freeze();
        store.capture(&Key::Numbers, &Page::Numbers(numbers));
        store.seal();
        numbers
    }

    fn capture(&mut self, _: usize) -> Option<bool> {
        None
    }

    fn changed(&self) -> usize {
        0
    }
}

fn open_tape(disk: &TwinDisk) -> Result<Opened<Tape>, OpenError> {
    open(Arc::new(disk.clone()), &options())
}

/// A run of one message whose fact takes the same bytes but for the body.
fn published(body: usize) -> Fact {
    let mut block = Vec::new();
    millpond_types::block::push(&mut block, b"", &[], &vec![7; body]).unwrap();
    let sizes = Sizes::Uniform(block.len() as u32);
    Fact::Published {
        topic: TopicNumber(1),
        except: Vec::new(),
        priority: Priority::DEFAULT,
        first: Sequence(1),
        count: 1,
        published: WallTime(1),
        due: None,
        expires: None,
        dedup_until: WallTime(0),
        dedup: Vec::new(),
        block: Bytes::from(block),
        sizes,
    }
}

/// The same, with a checksum that a reader verifies.
fn checked(body: usize) -> Fact {
    let mut fact = published(body);
    let Fact::Published { block, .. } = &mut fact else { unreachable!("it is published") };
    let mut bytes = block.to_vec();
    let checksum = crc32c::crc32c(&bytes[millpond_types::block::PREFIX..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    *block = bytes.into();
    fact
}

/// Where a segment says how long it is.
const LENGTH: std::ops::Range<usize> = 44..56;
const NOW: Now = Now { run: RunTime(1), wall: WallTime(1) };

/// Writes a batch with one fact, and returns where the fact stands and where the batch begins.
fn write<R>(opened: &mut Opened<R>, fact: &Fact) -> (u64, u64) {
    let position = opened.appender.append(fact);
    opened.appender.hold(&mut holdings(fact.block().map_or(0, |block| block.len() as u64), &[]));
    let batch = opened.appender.seal(NOW).unwrap();
    let begins = batch.position();
    opened.committer.write(batch).unwrap();
    (position, begins)
}

#[test]
fn facts_come_back_at_the_positions_they_were_given() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    let mut expected = std::mem::take(&mut opened.core.facts);
    // The last batch is larger than a segment.
    for body in [0, 1, 300, 5000, 50_000] {
        let fact = published(body);
        let (position, _) = write(&mut opened, &fact);
        if let Fact::Published { block, .. } = &fact {
            let read = opened.reader.read(Extent { position, length: block.len() as u32 }).unwrap();
            assert_eq!(read, *block, "a position is that of the block");
        }
        expected.push((fact, position));
    }
    opened.committer.sync().unwrap();
    disk.crash(0);
    assert_eq!(open_tape(&disk).unwrap().core.facts, expected);
}

#[test]
fn the_last_batch_is_a_torn_tail_and_an_earlier_one_is_damage() {
    for damaged in 0..3 {
        let disk = TwinDisk::new(SECTOR);
        let mut opened = open_tape(&disk).unwrap();
        let begins = [published(100), published(100), published(100)].map(|fact| {
            let begins = write(&mut opened, &fact).1;
            opened.committer.sync().unwrap();
            begins
        });
        disk.kill();
        let name = "0000000000000000.journal";
        disk.flip(name, 4096 + begins[damaged] + 80, 3);
        match open_tape(&disk) {
            Ok(opened) => {
                assert_eq!(damaged, 2, "nothing vouches for the last batch");
                assert_eq!(opened.report.end, begins[2]);
                assert!(opened.report.torn.is_some_and(|torn| torn.bytes > 100));
            }
            Err(OpenError::Damaged { file, offset, position, durable, .. }) => {
                assert!(file.ends_with(name) && damaged < 2);
                assert_eq!((offset, position), (4096 + begins[damaged], begins[damaged]));
                assert!(durable > position, "a later batch says that this one was durable");
                // A person accepts the loss. What follows is gone, and stays gone.
                let cut = OpenOptions { cut: Some(position), ..options() };
                disk.kill();
                let mut opened = open::<Tape>(Arc::new(disk.clone()), &cut).unwrap();
                assert_eq!(opened.report.torn, None, "what others vouch for is no torn tail");
                let told = opened.report.cut.as_ref().unwrap();
                assert!(told.file.ends_with(name) && told.offset == offset, "{told:?}");
                assert!(told.batches == 3 - damaged as u64 && told.bytes > 100 * told.batches, "{told:?}");
                assert_eq!((opened.report.end, opened.core.facts.len()), (position, 1 + damaged));
                write(&mut opened, &published(10));
                disk.kill();
                let again = open_tape(&disk).unwrap();
                assert_eq!(again.core.facts.len(), 2 + damaged);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A segment has its full length before it has its name, so no crash leaves a shorter one.
#[test]
fn a_segment_that_is_shorter_than_it_was_is_damage() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    // The last one is larger than the others, for a batch that is.
    for body in [6000, 6000, 6000, 40_000, 300] {
        write(&mut opened, &published(body));
        opened.committer.sync().unwrap();
    }
    let end = opened.reader.written();
    drop(opened);
    let files = disk.snapshot();
    let names: Vec<&String> = files.keys().filter(|name| name.ends_with(".journal")).collect();
    assert!(names.len() > 2, "{names:?}");
    for name in names {
        let length = files[name].len();
        // One that an older version has made.
        let mut of_old = files.clone();
        of_old.get_mut(name).unwrap()[LENGTH].fill(0);
        assert_eq!(open_tape(&TwinDisk::from_snapshot(SECTOR, &of_old)).unwrap().report.end, end, "{name}");
        // What another one says.
        for other in files.keys().filter(|other| other.ends_with(".journal") && *other != name) {
            let mut mixed = files.clone();
            mixed.get_mut(name).unwrap()[LENGTH].copy_from_slice(&files[other][LENGTH]);
            let error = open_tape(&TwinDisk::from_snapshot(SECTOR, &mixed)).err().unwrap().to_string();
            assert!(error.contains(&format!("{name} at offset 52 has a checksum that the length")), "{error}");
        }
        for left in [length - 1, length / 2, 4096 + 64, 4096] {
            let mut files = files.clone();
            files.get_mut(name).unwrap().truncate(left);
            let disk = TwinDisk::from_snapshot(SECTOR, &files);
            let error = open_tape(&disk).err().unwrap_or_else(|| panic!("{name} is cut to {left} bytes")).to_string();
            let said = [format!("{name} "), format!(" {left} "), format!(" {length}: "), "--salvage".to_owned()];
            assert!(said.iter().all(|word| error.contains(word)), "{error}");
            let mut told = Vec::new();
            let verdict = crate::inspect_disk(Arc::new(disk), false, &mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert!(verdict == crate::Verdict::Damaged && told.contains(&error), "{told}");
        }
    }
    assert_eq!(open_tape(&disk).unwrap().report.end, end);
}

#[test]
fn what_an_earlier_start_wrote_and_lost_never_comes_back() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    opened.committer.sync().unwrap();
    // Two batches, not synced: the first is lost, the second survives the power cut.
    let (_, lost) = write(&mut opened, &published(264));
    write(&mut opened, &published(30));
    disk.kill();
    disk.flip("0000000000000000.journal", 4096 + lost + 80, 0);
    // The next start writes its mark and a batch of just the size that makes the survivor follow it.
    let mut opened = open_tape(&disk).unwrap();
    assert_eq!(opened.report.end, lost);
    let (_, begins) = write(&mut opened, &published(200));
    assert_eq!(begins, lost + 64);
    assert_eq!(disk.bytes("0000000000000000.journal")[(4096 + opened.reader.written()) as usize..][..4], *b"MPB1");
    disk.kill();
    let opened = open_tape(&disk).unwrap();
    assert_eq!(opened.core.facts.len(), 2);
}

#[test]
fn no_flipped_bit_goes_unnoticed_or_costs_more_than_it_must() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 21);
    let mut opened = workload.open().unwrap();
    while opened.report.checkpoint == 0 {
        for _ in 0..200 {
            workload.step(&mut opened).unwrap();
        }
        workload.mark(&mut opened, Mark::Stop).unwrap();
        drop(opened);
        opened = workload.open().unwrap();
    }
    // Messages on both sides of a checkpoint.
    let mut seed = Seed::new(5);
    for _ in 0..5 {
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
    }
    workload.checkpoint(&mut opened);
    workload.turn(&mut opened, publish(&mut seed)).unwrap();
    workload.mark(&mut opened, Mark::Stop).unwrap();
    let pages = state(&opened.core);
    let names = workload.disk.snapshot();
    drop(opened);
    let (mut refused, mut unharmed, mut damaged) = (0, 0, 0);
    for (name, bytes) in names.iter().filter(|(name, _)| !name.starts_with("spare")) {
        let step = if bytes.len() < 2000 { 1 } else { 97 };
        for offset in (0..bytes.len()).step_by(step) {
            let disk = TwinDisk::from_snapshot(SECTOR, &names).with_tree_of(&workload.disk);
            disk.flip(name, offset as u64, seed.draw() as u8);
            match open::<millpond_core::Core>(Arc::new(disk), &options()) {
                Err(error) => {
                    assert!(error.to_string().contains(name.as_str()), "{name} at {offset}: {error}");
                    refused += 1;
                }
                Ok(opened) => {
                    assert!(state(&opened.core) == pages, "{name} at {offset}");
                    let mut bad = 0;
                    opened.core.extents(&mut |_, extent| match opened.reader.read(extent) {
                        Ok(_) => {}
                        Err(ReadError::Damaged { file, offset: at }) => {
                            assert!(file.ends_with(name) && at <= offset as u64, "{name} at {offset}: {file} {at}");
                            bad += 1;
                        }
                        Err(error) => panic!("{error}"),
                    });
                    assert!(bad <= 1, "one bit damages one message");
                    damaged += bad;
                    unharmed += 1 - bad;
                }
            }
        }
    }
    assert!(refused > 50 && unharmed > 50 && damaged > 5, "{refused} {unharmed} {damaged}");
}

/// What a turn has stored and freed for the group `default`.
fn holdings(stored: u64, freed: &[Extent]) -> Holdings {
    let freed = freed.iter().map(|extent| (0, *extent)).collect();
    Holdings { stored: vec![(0, stored)], freed, ..Holdings::default() }
}

/// Writes batches of equal length, so that old ones stand exactly where new ones will, and lets their segments go.
fn run(opened: &mut Opened<Tape>, batches: usize) -> Result<(), CommitError> {
    for _ in 0..batches {
        let fact = published(936);
        let position = opened.appender.append(&fact);
        opened.appender.hold(&mut holdings(945, &[Extent { position, length: 945 }]));
        let batch = opened.appender.seal(NOW).unwrap();
        opened.committer.write(batch)?;
        opened.committer.sync()?;
    }
    opened.appender.checkpoint(&mut opened.core);
    while opened.housekeeper.step()? {}
    Ok(())
}

#[test]
fn a_recycled_segment_is_one_thing_or_the_other_after_a_power_cut() {
    // What is done until segments are first taken back is cut elsewhere.
    let made = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&made).unwrap();
    while opened.housekeeper.step().unwrap() {}
    run(&mut opened, 30).unwrap();
    drop(opened);
    let files = made.snapshot();
    let mut cuts = 0;
    for operation in 0.. {
        let mut ended = false;
        for seed in 0..6 {
            let disk = TwinDisk::from_snapshot(SECTOR, &files).with_tree_of(&made);
            disk.plan(operation, Fault::PowerCut);
            let mut durable = 0;
            if let Ok(mut opened) = open_tape(&disk) {
                // A segment at a time, so that nothing else syncs the names.
                ended = (0..4).all(|_| run(&mut opened, 11).is_ok());
                durable = opened.reader.durable();
            }
            disk.crash(seed);
            let opened = open_tape(&disk).unwrap_or_else(|error| panic!("cut at {operation}, seed {seed}: {error}"));
            assert!(opened.report.end >= durable, "cut at {operation}, seed {seed}");
        }
        if ended {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn a_recycled_segment_holds_nothing_of_its_former_use() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    while opened.housekeeper.step().unwrap() {}
    for _ in 0..4 {
        run(&mut opened, 30).unwrap();
    }
    let files = disk.snapshot().len();
    for _ in 0..4 {
        run(&mut opened, 30).unwrap();
        assert_eq!(disk.snapshot().len(), files, "space is used again");
    }
    let last = || disk.snapshot().into_keys().rfind(|name| name.ends_with(".journal")).unwrap();
    let before = last();
    while last() == before {
        write(&mut opened, &published(936));
    }
    opened.committer.sync().unwrap();
    let (last, end) = (last(), opened.reader.written());
    disk.kill();
    let stale = disk.bytes(&last).windows(4).filter(|four| *four == b"MPB1").count() as u64;
    let base = u64::from_str_radix(&last[..16], 16).unwrap();
    assert!(stale > (end - base) / 1000 + 2, "there is something of the former use to be taken for a batch");
    let opened = open_tape(&disk).unwrap();
    assert_eq!(opened.report.end, end);
    assert!(disk.used() < 10 * SEGMENT);
}

#[test]
fn bodies_stay_until_what_ended_them_is_durable() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    let fact = published(700);
    let (position, _) = write(&mut opened, &fact);
    let extent = Extent { position, length: 709 };
    while opened.reader.written() < 3 * SEGMENT {
        let (position, _) = write(&mut opened, &published(3000));
        opened.appender.hold(&mut holdings(0, &[Extent { position, length: 3009 }]));
    }
    opened.appender.checkpoint(&mut opened.core);
    while opened.housekeeper.step().unwrap() {}
    assert!(opened.store.tree().head().is_none(), "nothing up to there is durable");
    opened.committer.sync().unwrap();
    opened.appender.hold(&mut holdings(0, &[extent]));
    write(&mut opened, &published(1));
    while opened.housekeeper.step().unwrap() {}
    assert!(opened.store.tree().head().is_some());
    opened.reader.read(extent).expect("the end is written, and may yet be lost");
    opened.committer.sync().unwrap();
    while opened.housekeeper.step().unwrap() {}
    assert!(matches!(opened.reader.read(extent), Err(ReadError::Gone(_))));
}

#[test]
fn a_place_in_a_segment_that_is_gone_is_not_damage_of_the_one_before() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    let pin = Extent { position: write(&mut opened, &published(700)).0, length: 709 };
    // Too much for the first segment, and a message at its front that would lie within that file.
    let position = opened.appender.append(&checked(700));
    let behind = opened.appender.append(&published(3 * SEGMENT as usize));
    let gone = [Extent { position, length: 709 }, Extent { position: behind, length: 3 * SEGMENT as u32 + 9 }];
    opened.appender.hold(&mut holdings(gone.iter().map(|extent| u64::from(extent.length)).sum(), &[]));
    let batch = opened.appender.seal(NOW).unwrap();
    opened.committer.write(batch).unwrap();
    opened.appender.hold(&mut holdings(0, &gone));
    write(&mut opened, &published(3000));
    opened.committer.sync().unwrap();
    opened.appender.checkpoint(&mut opened.core);
    while opened.housekeeper.step().unwrap() {}
    let is_gone = |opened: &Opened<Tape>| matches!(opened.reader.read(gone[0]), Err(ReadError::Gone(_)));
    assert!(is_gone(&opened));
    disk.kill();
    let opened = open_tape(&disk).unwrap();
    assert!(is_gone(&opened), "{:?}", opened.reader.read(gone[0]));
    opened.reader.read(pin).expect("the segment before is needed");
}

#[test]
fn a_scrub_finds_damage_in_old_bytes_and_reads_on_behind_it() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    while opened.reader.written() < 4 * SEGMENT {
        write(&mut opened, &published(1000));
    }
    opened.committer.sync().unwrap();
    assert_eq!(scrub(&mut opened), []);
    let snapshot = disk.snapshot();
    let names: Vec<_> = snapshot.keys().filter(|name| name.ends_with(".journal")).collect();
    // The first two have an end; nobody can tell what the last one should hold.
    for name in [names[1], names[2], names[names.len() - 1]] {
        disk.flip(name, 4096 + 100, 5);
    }
    let place = |name: &str| (format!("twin/{name}"), 4096);
    assert_eq!(scrub(&mut opened), [place(names[1]), place(names[2])]);
    assert_eq!(scrub(&mut opened), [place(names[1]), place(names[2])], "each pass begins anew");
}

#[test]
fn the_bytes_are_those_of_format_1() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    write(&mut opened, &published(24));
    opened.committer.sync().unwrap();
    while opened.housekeeper.step().unwrap() {}
    let mut files = disk.snapshot();
    files.retain(|name, _| !name.starts_with("spare"));
    let length = &mut files.get_mut("0000000000000000.journal").unwrap()[LENGTH];
    assert_eq!(length[..8], SEGMENT.to_le_bytes());
    // Without what older versions left zero, and do not look at.
    length.fill(0);
    let sums = files.iter().map(|(name, bytes)| (name.as_str(), crc32c::crc32c(bytes))).collect::<Vec<_>>();
    // Another sum here is another form on disk: raise its version, and read the old one too.
    let expected = [("0000000000000000.journal", 2_794_763_066), ("FORMAT", 3_208_087_160)];
    assert_eq!(sums, expected);
}

#[test]
fn a_cut_holds_for_later_segments_and_later_starts() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    let (_, begins) = write(&mut opened, &published(100));
    // Four more starts, whose batches stand in this segment and in others.
    for _ in 0..4 {
        opened.committer.sync().unwrap();
        for _ in 0..3 {
            write(&mut opened, &published(3000));
            opened.committer.sync().unwrap();
        }
        drop(opened);
        opened = open_tape(&disk).unwrap();
    }
    drop(opened);
    disk.flip("0000000000000000.journal", 4096 + begins + 70, 2);
    let Err(OpenError::Damaged { position, .. }) = open_tape(&disk) else { panic!("the batch is damaged") };
    assert_eq!(position, begins);
    let elsewhere = OpenOptions { cut: Some(position + 8), ..options() };
    assert!(open::<Tape>(Arc::new(disk.clone()), &elsewhere).is_err(), "a cut is made where the damage is");
    let cut = OpenOptions { cut: Some(position), ..options() };
    let mut opened = open::<Tape>(Arc::new(disk.clone()), &cut).unwrap();
    assert!(opened.core.facts.len() == 1);
    let told = opened.report.cut.as_ref().unwrap();
    // That of the first start, and with those that say where each other begins, all of the four.
    assert!(told.batches > 4 * 4 && told.bytes > 12 * 3000, "{told:?}");
    assert!(disk.snapshot().keys().any(|name| name.ends_with(".journal.cut")));
    // Just so long that the batch of the second start follows it.
    write(&mut opened, &published(36));
    opened.committer.sync().unwrap();
    assert_eq!(scrub(&mut opened), [], "where the segment ended before is of no interest");
    assert_eq!(disk.bytes("0000000000000000.journal")[(4096 + opened.reader.written()) as usize..][..4], *b"MPB1");
    disk.crash(0);
    let opened = open_tape(&disk).unwrap();
    assert_eq!(opened.core.facts.len(), 2, "neither damage nor what was cut off is seen again");
}

#[test]
fn a_checkpoint_may_take_the_space_of_the_reserve() {
    let disk = TwinDisk::new(SECTOR);
    let mut opened = open_tape(&disk).unwrap();
    while opened.housekeeper.step().unwrap() {}
    write(&mut opened, &published(100));
    opened.committer.sync().unwrap();
    disk.set_capacity(Some(disk.used()));
    opened.appender.checkpoint(&mut opened.core);
    while opened.housekeeper.step().unwrap() {}
    assert!(opened.store.tree().head().is_some());
    assert!(opened.appender.disk_full());
    disk.set_capacity(None);
    while opened.housekeeper.step().unwrap() {}
    assert!(!opened.appender.disk_full());
}
