//! A directory as a power cut may leave it, made from the calls of a process: what was synced is there, and of all else any
//! part.
//!
//! A file is what was written to it before the beginning of its last sync, and a name is there if a sync of its directory
//! began later. No file system forgets more, and most forget less. Of two changes of names that were not synced the
//! second may be there alone, unless it is the first one's name that it changes.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::random::Random;
use crate::strace::{Call, ours};

/// What is left or lost of a write as a whole.
const PAGE: usize = 4096;

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    Nothing,
    /// The names, as if all directories had been synced.
    Names,
    /// The bytes, as if all files had been.
    Bytes,
    /// Half of either, by chance, page by page and name by name.
    Halves,
    All,
}

/// The files and names of a directory, with what is known to be durable of them.
pub struct Disk {
    contents: Vec<Content>,
    names: BTreeMap<String, Node>,
    /// The names that are durable, and what has changed since.
    durable: BTreeMap<String, Node>,
    changes: Vec<(usize, Naming)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

enum Naming {
    Added(String, Node),
    Removed(String),
    Renamed(String, String, Node),
}

/// The bytes of a file that are durable, and what was written since, each with where in the trace that stands.
#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    writes: Vec<(usize, Write)>,
    /// With all of these.
    length: usize,
}

enum Write {
    Bytes(usize, Vec<u8>),
    Length(usize),
}

impl Disk {
    /// An empty directory.
    pub fn new() -> Disk {
        let names = BTreeMap::from([(String::new(), Node::Directory)]);
        Disk { contents: Vec::new(), durable: names.clone(), names, changes: Vec::new() }
    }

    /// Does what a call did in the directory.
    pub fn take(&mut self, call: &Call<'_>, place: &Path) {
        let open = call.open().and_then(|path| ours(path, place));
        let file = open.as_ref().and_then(|path| self.names.get(path)).copied();
        match (call.name(), file) {
            ("openat", _) if call.says("O_CREAT") => {
                let [path] = &call.paths(place)[..] else { return };
                match self.names.get(path) {
                    Some(Node::File(file)) if call.says("O_TRUNC") => self.write(*file, call, Write::Length(0)),
                    Some(_) => {}
                    None => {
                        self.contents.push(Content::default());
                        self.name(call, Naming::Added(path.clone(), Node::File(self.contents.len() - 1)));
                    }
                }
            }
            ("mkdir", _) => {
                let [path] = &call.paths(place)[..] else { return };
                if !path.is_empty() {
                    self.name(call, Naming::Added(path.clone(), Node::Directory));
                }
            }
            ("unlink", _) => {
                let [path] = &call.paths(place)[..] else { return };
                self.name(call, Naming::Removed(path.clone()));
            }
            ("rename" | "renameat" | "renameat2", _) => {
                let [from, to] = &call.paths(place)[..] else { return };
                let node = self.names[from];
                assert!(node != Node::Directory && parent(from) == parent(to), "no directory goes anywhere");
                self.name(call, Naming::Renamed(from.clone(), to.clone(), node));
            }
            ("pwrite64", Some(Node::File(file))) => {
                let [length, offset] = call.numbers();
                self.write(file, call, Write::Bytes(offset, written(call, length)));
            }
            ("write", Some(Node::File(file))) => {
                // Whoever writes without saying where does so behind all else.
                let ([length], offset) = (call.numbers(), self.contents[file].length);
                self.write(file, call, Write::Bytes(offset, written(call, length)));
            }
            ("fallocate", Some(Node::File(file))) => {
                let [offset, length] = call.numbers();
                let length = (offset + length).max(self.contents[file].length);
                self.write(file, call, Write::Length(length));
            }
            ("ftruncate", Some(Node::File(file))) => {
                let [length] = call.numbers();
                self.write(file, call, Write::Length(length));
            }
            ("fsync" | "fdatasync", Some(Node::File(file))) => {
                let Content { durable, writes, .. } = &mut self.contents[file];
                let until = writes.partition_point(|(at, _)| *at < call.begun);
                writes.drain(..until).for_each(|(_, write)| write.apply(durable, &mut |_| true));
            }
            ("fsync", Some(Node::Directory)) => {
                let directory = open.expect("it was found by its path");
                let is_synced = |(at, naming): &mut (usize, Naming)| {
                    *at < call.begun && parent(naming.path()) == Some(Path::new(&directory))
                };
                let synced: Vec<_> = self.changes.extract_if(.., is_synced).collect();
                synced.iter().for_each(|(_, naming)| naming.apply(&mut self.durable));
            }
            (_, None) => {}
            (name, Some(_)) => panic!("{name} is not known: {}", &call.line[..call.line.len().min(200)]),
        }
    }

    fn name(&mut self, call: &Call<'_>, naming: Naming) {
        naming.apply(&mut self.names);
        self.changes.push((call.ended, naming));
    }

    fn write(&mut self, file: usize, call: &Call<'_>, write: Write) {
        let content = &mut self.contents[file];
        content.length = match &write {
            Write::Bytes(offset, bytes) => content.length.max(offset + bytes.len()),
            Write::Length(length) => *length,
        };
        content.writes.push((call.ended, write));
    }

    /// Makes the directory as a power cut at this moment may leave it.
    pub fn make(&self, left: Left, random: &mut Random, place: &Path) {
        let mut names = self.durable.clone();
        for (_, naming) in &self.changes {
            if left.keeps_name(random) {
                naming.apply(&mut names);
            }
        }
        for (path, node) in names {
            let at = place.join(&path);
            // What is in a directory that is lost is lost with it. A directory comes before what is in it.
            if parent(&path).is_none_or(|parent| !place.join(parent).is_dir()) {
                continue;
            }
            let Node::File(file) = node else {
                std::fs::create_dir(at).unwrap();
                continue;
            };
            let content = &self.contents[file];
            let mut bytes = content.durable.clone();
            content.writes.iter().for_each(|(_, write)| write.apply(&mut bytes, &mut |_| left.keeps_bytes(random)));
            let file = File::create(at).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
            // Zeros are there without being written.
            for (page, at) in bytes.chunks(PAGE).zip((0..).step_by(PAGE)).filter(|(page, _)| !is_zeros(page)) {
                file.write_all_at(page, at).unwrap();
            }
        }
    }
}

impl Write {
    /// Does the write, or those of its pages that are kept.
    fn apply(&self, bytes: &mut Vec<u8>, keeps: &mut dyn FnMut(usize) -> bool) {
        match self {
            Write::Length(length) if keeps(0) => bytes.resize(*length, 0),
            Write::Length(_) => {}
            Write::Bytes(offset, written) => {
                let mut from = 0;
                while from < written.len() {
                    let until = written.len().min(from + PAGE - (offset + from) % PAGE);
                    if keeps(offset + from) {
                        bytes.resize(bytes.len().max(offset + until), 0);
                        bytes[offset + from..offset + until].copy_from_slice(&written[from..until]);
                    }
                    from = until;
                }
            }
        }
    }
}

impl Naming {
    fn path(&self) -> &str {
        let (Naming::Added(path, _) | Naming::Removed(path) | Naming::Renamed(_, path, _)) = self;
        path
    }

    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Naming::Added(path, node) => _ = names.insert(path.clone(), *node),
            Naming::Removed(path) => _ = names.remove(path),
            // It went by another name, of which nothing is known.
            Naming::Renamed(from, _, node) if names.get(from) != Some(node) => {}
            Naming::Renamed(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

impl Left {
    fn keeps_name(self, random: &mut Random) -> bool {
        matches!(self, Left::Names | Left::All) || self == Left::Halves && random.one_in(2)
    }

    fn keeps_bytes(self, random: &mut Random) -> bool {
        matches!(self, Left::Bytes | Left::All) || self == Left::Halves && random.one_in(2)
    }
}

/// What a call wrote. Of a long run of zeros that sets space aside only the beginning is in the trace.
fn written(call: &Call<'_>, length: usize) -> Vec<u8> {
    let (mut bytes, is_more) = call.bytes();
    assert!(!is_more || is_zeros(&bytes) && call.says("/spare-"), "all that is written is in the trace");
    bytes.resize(length, 0);
    bytes.truncate(call.result().expect("it did not fail"));
    bytes
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(PAGE).all(|chunk| *chunk == [0; PAGE][..chunk.len()])
}

fn parent(path: &str) -> Option<&Path> {
    Path::new(path).parent()
}
