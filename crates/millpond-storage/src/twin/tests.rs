//! The twin is as unkind as it says.

use super::*;

#[test]
fn what_is_synced_survives_and_the_rest_is_anyones_guess() {
    let (mut lost, mut kept, mut torn, mut reordered) = (0, 0, 0, 0);
    for seed in 0..200 {
        let disk = TwinDisk::new(SMALL_SECTOR);
        let file = disk.create("a").unwrap();
        file.write_at(0, &[1; 2 * SMALL_SECTOR]).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(SMALL_SECTOR as u64, &[2; 2 * SMALL_SECTOR]).unwrap();
        disk.create("b").unwrap();
        disk.crash(seed);
        assert!(file.write_at(0, &[3]).is_err(), "opened before the crash");
        let bytes = disk.bytes("a");
        assert_eq!(bytes[..SMALL_SECTOR], [1; SMALL_SECTOR]);
        let count = |sector: usize| {
            bytes
                .get(sector * SMALL_SECTOR..(sector + 1) * SMALL_SECTOR)
                .map_or(0, |sector| sector.iter().filter(|byte| **byte == 2).count())
        };
        match (count(1), count(2)) {
            (0, 0) => lost += 1,
            (SMALL_SECTOR, SMALL_SECTOR) => kept += 1,
            (0, SMALL_SECTOR) => reordered += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 0 && kept > 0 && torn > 0 && reordered > 0, "{lost} {kept} {torn} {reordered}");
}

#[test]
fn names_may_be_as_before_until_the_directory_is_synced() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let disk = TwinDisk::new(SECTOR);
        disk.create("a").unwrap();
        disk.sync_dir().unwrap();
        disk.rename("a", "b").unwrap();
        disk.create("c").unwrap();
        disk.crash(seed);
        seen.insert(disk.list().unwrap());
    }
    assert_eq!(seen.len(), 4, "each of the two changes is kept or lost");
}

#[test]
fn what_was_synced_into_a_file_made_again_goes_with_its_new_name() {
    for seed in 0..50 {
        let disk = TwinDisk::new(SECTOR);
        disk.create("a").unwrap().write_at(0, b"old").unwrap();
        disk.sync_dir().unwrap();
        let file = disk.create("a").unwrap();
        file.write_at(0, b"new").unwrap();
        file.sync().unwrap();
        disk.rename("a", "b").unwrap();
        disk.crash(seed);
        let name = disk.list().unwrap().remove(0);
        assert_eq!(disk.bytes(&name), b"new", "{name} of seed {seed}");
    }
}

#[test]
fn faults_come_where_they_were_planned() {
    let disk = TwinDisk::new(SECTOR);
    let file = disk.create("a").unwrap();
    disk.plan(1, Fault::Error);
    file.write_at(0, b"x").unwrap();
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
    file.sync().unwrap();
    disk.plan(0, Fault::PowerCut);
    assert!(file.sync().is_err() && file.sync().is_err() && disk.list().is_err());
    disk.crash(1);
    disk.set_capacity(Some(10));
    let file = disk.create("b").unwrap();
    let error = file.preallocate(11, Preallocate::Filled).unwrap_err();
    assert!(crate::disk::is_full(&error));
}
