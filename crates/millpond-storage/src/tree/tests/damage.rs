//! Damage of a certain kind, or as somebody meets it who only looks. Every region of the files is wounded by `regions/tree.rs`
//! of the storage's tests.

use std::path::PathBuf;

use super::*;

fn filled() -> (TempDir, Scanned) {
    let directory = TempDir::new().unwrap();
    let tree = open(&directory);
    commit(&tree, 1, &draw_changes(&mut Seed::new(1))).unwrap();
    while tree.compact_step().unwrap() {}
    commit(&tree, 2, &draw_changes(&mut Seed::new(2))).unwrap();
    let state = everything(&tree);
    drop(tree);
    // A start removes old versions.
    drop(open(&directory));
    (directory, state)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (folders, mut files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| self::files(folder)));
    files.sort();
    files
}

/// What a start and a full read make of a directory.
fn read(directory: &Path) -> Result<Scanned, TreeError> {
    let tree = LsmTree::open(directory, OPTIONS)?;
    let found = tree.scan(&Range { from: FIRST_KEY.to_vec(), until: vec![255], limit: u32::MAX })?;
    tree.verify()?;
    Ok(found)
}

#[test]
fn a_table_that_says_it_has_very_many_sections_is_damaged() {
    let (directory, _) = filled();
    let mut tables = files(directory.path());
    tables.retain(|file| file.parent().is_some_and(|folder| folder.ends_with("tables")));
    assert!(!tables.is_empty());
    for table in tables {
        let whole = std::fs::read(&table).unwrap();
        let contents = whole.windows(4).rposition(|bytes| bytes == b"TOC!").unwrap();
        for sections in [u32::MAX, 1 << 30, 1000] {
            let mut bytes = whole.clone();
            bytes[contents + 4..contents + 8].copy_from_slice(&sections.to_le_bytes());
            std::fs::write(&table, &bytes).unwrap();
            let why = read(directory.path()).unwrap_err().to_string();
            assert!(why.contains("more sections than it has room for"), "{why}");
        }
        std::fs::write(&table, &whole).unwrap();
    }
}

#[test]
fn a_table_that_a_killed_writer_left_is_not_judged() {
    let (directory, state) = filled();
    let unfinished = directory.path().join("tables").join("99999");
    // Where a whole table would name the place of its contents stands zero, and there no number of sections.
    std::fs::write(unfinished, [vec![0xff; 5000], vec![0; 38]].concat()).unwrap();
    assert_eq!(read(directory.path()).unwrap(), state);
}

/// Each is whole, and what it says of itself is the other's: the older entries would count.
#[test]
fn tables_that_were_exchanged_are_noticed_by_the_start() {
    let (directory, state) = filled();
    let tables = files(&directory.path().join("tables"));
    let (first, other) = (&tables[0], &tables[1]);
    let exchange = || {
        let aside = directory.path().join("aside");
        std::fs::rename(first, &aside).unwrap();
        std::fs::rename(other, first).unwrap();
        std::fs::rename(aside, other).unwrap();
    };
    exchange();
    for opened in [LsmTree::open, LsmTree::open_read_only] {
        let why = opened(directory.path(), OPTIONS).err().expect("they are not where they were written").to_string();
        assert!(tables.iter().any(|table| why.contains(&table.display().to_string())), "{why}");
    }
    exchange();
    assert_eq!(read(directory.path()).unwrap(), state);
}

/// Who only looks does it through links, which are gone when a person reads what was found.
#[test]
fn damage_is_told_by_the_file_itself() {
    let (directory, _) = filled();
    for file in files(&directory.path().join("tables")) {
        let whole = std::fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() / 3] ^= 4;
        std::fs::write(&file, bytes).unwrap();
        let found = LsmTree::open_read_only(directory.path(), OPTIONS).and_then(|tree| tree.verify());
        assert!(
            found.is_err_and(|error| error.to_string().contains(&file.display().to_string())),
            "{}",
            file.display()
        );
        std::fs::write(&file, &whole).unwrap();
    }
}
