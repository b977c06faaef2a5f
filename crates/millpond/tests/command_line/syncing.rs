//! In which order the broker writes, syncs and renames, as the system sees it: `strace` tells. The twin disk and the tree in
//! memory, on which most power cuts are tried, stand where the real ones do, so what these forget to sync is found here, by
//! rules about what rests on what, and in `cuts.rs`, by starts from what is left without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::broker::{Broker, fresh_directory, is_left_out};
use crate::strace::{Call, calls, ours, serve_traced, whole};

#[test]
fn what_is_renamed_was_synced_and_what_is_relied_on_has_a_name_that_was_synced() {
    if is_left_out("strace") {
        return;
    }
    let directory = fresh_directory();
    let (place, trace) = (directory.path().join("data"), directory.path().join("trace"));
    let broker = Broker::run_on(&mut serve_traced(&place, &trace, 0), directory);
    // The first segment is full after 4 MiB, and a checkpoint is due after 32 MiB as soon as nothing happens.
    let body = vec![b'x'; 1 << 20];
    (0..40).for_each(|_| drop(broker.call_with(&["publish", "default/a", "-"], &body).ok()));
    let has_checkpoint = || broker.metrics().lines().any(|line| line == "millpond_checkpoints_total 1");
    assert!((0..600).any(|_| has_checkpoint() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
    let (code, directory) = broker.stop();
    assert_eq!(code, Some(0));
    let text = whole(&trace, "exited with 0");
    drop(directory);

    let place = place.canonicalize().unwrap_or(place);
    let seen = Seen::of(&text, &place).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(seen.segments >= 2 && seen.commits >= 2, "{seen:?}");
    // Without any one of these, it would have been noticed.
    for sync in
        ["/FORMAT.tmp>", "/spare-0>", "/spare-1>", "/data>", "/tree>", "/tables>", "/tables/0>", "/v1>", "/.tmp"]
    {
        let is_one = |line: &&str| (line.contains("sync(") || line.contains("sync resumed")) && line.contains(sync);
        assert!(text.lines().any(|line| is_one(&line)), "{sync} is never synced");
        let without: Vec<&str> = text.lines().filter(|line| !is_one(line)).collect();
        assert!(Seen::of(&without.join("\n"), &place).is_err(), "nobody notices that {sync} is not synced");
    }
}

/// What a trace shows.
#[derive(Default, Debug)]
struct Seen {
    /// Files with bytes that are not synced, and which thread wrote them.
    unsynced: BTreeMap<String, String>,
    /// Names that are not.
    unnamed: BTreeSet<String>,
    /// Renames to a segment of the journal, and of a version of the tree.
    segments: usize,
    commits: usize,
}

impl Seen {
    /// Goes through a trace; an error where something was relied on that a power cut could have taken away.
    fn of(trace: &str, place: &Path) -> Result<Seen, String> {
        let mut seen = Seen::default();
        for call in calls(trace) {
            seen.call(&call, place).map_err(|wrong| format!("{wrong}: {}", call.line))?;
        }
        Ok(seen)
    }

    fn call(&mut self, call: &Call<'_>, place: &Path) -> Result<(), String> {
        let (open, paths) = (call.open().and_then(|path| ours(path, place)), call.paths(place));
        // The directory itself stands in one that is not ours.
        if call.is_sync() && call.open() == place.parent() {
            self.unnamed.remove("");
            return Ok(());
        }
        match (call.name(), open, &paths[..]) {
            ("openat", _, [path]) if call.says("O_CREAT") => _ = self.unnamed.insert(path.clone()),
            ("mkdir", _, [path]) => _ = self.unnamed.insert(path.clone()),
            ("unlink", _, [path]) => {
                if path.starts_with("tree/") && self.unnamed.contains("tree/current") {
                    return Err(format!("{path} may be what is current"));
                }
                self.forget(path);
            }
            ("write" | "pwrite64" | "fallocate" | "ftruncate", Some(file), _) => {
                if file.ends_with(".journal") && self.unnamed.contains(&file) {
                    return Err(format!("{file} may lose its name"));
                }
                self.unsynced.insert(file, call.thread.to_owned());
            }
            ("fsync" | "fdatasync", Some(file), _) => self.sync(call.thread, &file)?,
            ("rename" | "renameat" | "renameat2", _, [from, to]) => self.rename(from, to)?,
            _ => {}
        }
        Ok(())
    }

    fn forget(&mut self, path: &str) {
        self.unsynced.remove(path);
        self.unnamed.remove(path);
    }

    fn sync(&mut self, thread: &str, file: &str) -> Result<(), String> {
        self.unsynced.remove(file);
        if file.is_empty() {
            // Who makes a spare says so with this: it counts from here on.
            let spare = self.unsynced.iter().find(|(file, by)| file.starts_with("spare-") && *by == thread);
            if let Some((spare, _)) = spare {
                return Err(format!("{spare} may lose its space"));
            }
        }
        self.unnamed.retain(|path| Path::new(path).parent() != Some(Path::new(file)));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        if self.unsynced.contains_key(from) {
            return Err(format!("{from} may lose its bytes"));
        }
        self.forget(from);
        if to == "FORMAT" && self.unnamed.contains("") {
            return Err("the directory may lose its name".to_owned());
        }
        if to == "tree/current" {
            self.commits += 1;
            let lost = self.unsynced.keys().chain(&self.unnamed).find(|path| path.starts_with("tree/"));
            if let Some(lost) = lost {
                return Err(format!("the version rests on {lost}"));
            }
        }
        self.segments += usize::from(to.ends_with(".journal"));
        self.unnamed.insert(to.to_owned());
        Ok(())
    }
}
