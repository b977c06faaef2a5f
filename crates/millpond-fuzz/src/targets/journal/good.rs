//! Directories in order, and every state that their journals have gone through.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use millpond_core::command::{Command, Finish, FinishVerb, Level, Publish, PublishRun, ReceiptRun, Receive, Ticket};
use millpond_core::fact::FactLog;
use millpond_core::output::{Output, Reply};
use millpond_core::page::Page;
use millpond_core::{Core, Now};
use millpond_storage::codec::{Source, decode_fact};
use millpond_storage::twin::{SMALL_SECTOR, TwinDisk};
use millpond_storage::{Identity, Mark, OpenOptions, Opened, open};
use millpond_types::block::{self, Sizes};
use millpond_types::{Filter, GroupName, Millis, NamespaceName, Priority, RunTime, TopicName, WallTime};

use super::{Files, state};

/// A directory in order.
pub struct Good {
    /// Its files.
    pub files: Files,
    /// With the tree that belongs to it.
    pub disk: TwinDisk,
    /// Its id.
    pub directory: u128,
    /// By the position behind a batch: the state there.
    pub states: BTreeMap<u64, Vec<Page>>,
}

/// Why it did not go on: an operation of the disk failed, which the broker would stop for.
pub struct Stopped;

const DIRECTORY: u128 = 0x0123_4567_89ab_cdef;

/// How they are opened: with segments so small that there are several.
pub fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes: 8 * 1024,
        tail_bytes: 4 * 1024,
        batch_bytes: 4 * 1024,
        slack: 64 * 1024,
        identity: Identity { directory: DIRECTORY, hash_key: [1, 2] },
        ..OpenOptions::default()
    }
}

impl Good {
    /// One whose journal is all there is, and one with a checkpoint, several segments and two starts.
    pub fn all() -> &'static [Good] {
        static ALL: OnceLock<Vec<Good>> = OnceLock::new();
        ALL.get_or_init(|| vec![Good::make(false), Good::make(true)])
    }

    fn make(with_checkpoint: bool) -> Good {
        let disk = TwinDisk::new(SMALL_SECTOR);
        let mut states = BTreeMap::new();
        let start = |states: &mut BTreeMap<u64, Vec<Page>>| {
            let mut opened = open::<Core>(Arc::new(disk.clone()), &options()).expect("a disk in order");
            states.insert(opened.appender.position(), state(&opened.core));
            let now = opened.report.now;
            opened.start(now).expect("a disk in order");
            states.insert(opened.appender.position(), state(&opened.core));
            opened
        };
        let mut opened = start(&mut states);
        for round in 0..3 {
            work(&mut opened, round, &mut states);
        }
        if with_checkpoint {
            opened.appender.checkpoint(&mut opened.core);
            while opened.appender.capture(&mut opened.core) {}
            while opened.housekeeper.step().expect("a disk in order") {}
            for round in 3..9 {
                work(&mut opened, round, &mut states);
            }
            drop(opened);
            opened = start(&mut states);
            work(&mut opened, 9, &mut states);
        }
        let now = opened.core.now();
        let stop = opened.appender.mark(now, Mark::Stop).expect("a stop is marked");
        opened.committer.write(stop).and_then(|()| Ok(opened.committer.sync()?)).expect("a disk in order");
        states.insert(opened.appender.position(), state(&opened.core));
        drop(opened);
        let mut files = disk.snapshot();
        files.retain(|name, _| !name.starts_with("spare"));
        Good { files, disk, directory: DIRECTORY, states }
    }
}

/// Publishes, leases and finishes something.
fn work(opened: &mut Opened, round: u64, states: &mut BTreeMap<u64, Vec<Page>>) {
    let mut turn = |command| {
        let outputs = turn(opened, command).unwrap_or_else(|Stopped| panic!("a disk in order"));
        states.insert(opened.appender.position(), state(&opened.core));
        outputs
    };
    turn(publish(round));
    turn(publish(round + 1));
    let receipts: Vec<ReceiptRun> = turn(receive())
        .into_iter()
        .filter_map(|output| match output {
            Output::Reply { reply: Reply::Received(runs), .. } => Some(runs),
            _ => None,
        })
        .flatten()
        .map(|run| ReceiptRun { first: run.receipt, count: run.count })
        .collect();
    let verbs = [
        FinishVerb::Ack,
        FinishVerb::Fail { delay: None, reason: "no".into() },
        FinishVerb::Reject { reason: "no".into() },
    ];
    let verb = verbs[round as usize % verbs.len()].clone();
    turn(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
}

/// Begins service on what was opened, and does something of each kind.
pub fn go_on(opened: &mut Opened) -> Result<(), Stopped> {
    let now = opened.report.now;
    opened.start(now).map_err(|_| Stopped)?;
    turn(opened, publish(1))?;
    turn(opened, receive())?;
    turn(opened, Command::Namespaces { after: None }).map(drop)
}

/// A turn with one command and what it leads to, made durable.
fn turn(opened: &mut Opened, command: Command) -> Result<Vec<Output>, Stopped> {
    let before = opened.core.now();
    let now = Now { run: RunTime(before.run.0 + 1), wall: WallTime(before.wall.0 + 1) };
    let Opened { core, store, appender, committer, .. } = opened;
    core.set_time(now);
    core.submit(Ticket(1), command, appender);
    core.advance(appender);
    core.dispatch(appender);
    while store.supply(core, appender).map_err(|_| Stopped)? {
        core.dispatch(appender);
    }
    appender.hold(core.holdings());
    let outputs = core.outputs().drain(..).collect();
    if let Some(batch) = appender.seal(now) {
        committer.write(batch).map_err(|_| Stopped)?;
        committer.sync().map_err(|_| Stopped)?;
    }
    Ok(outputs)
}

fn publish(round: u64) -> Command {
    let mut bytes = Vec::new();
    let count = 1 + round % 3;
    for _ in 0..count {
        let from = bytes.len();
        block::push(&mut bytes, b"", &[(&b"key"[..], &b"value"[..])], &[7; 300]).expect("a small message");
        let checksum = crc32c::crc32c(&bytes[from + block::PREFIX..]);
        bytes[from..from + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    let run = PublishRun {
        topic: TopicName::try_from(format!("site/{}", round % 4).as_str()).expect("a name"),
        priority: Priority::DEFAULT,
        delay: if round % 5 == 4 { Millis::seconds(60) } else { Millis::ZERO },
        ttl: None,
        count: count as u32,
        sizes: Sizes::Uniform((bytes.len() / count as usize) as u32),
        block: Bytes::from(bytes),
        dedup: Vec::new(),
        too_large: Vec::new(),
    };
    let namespace = NamespaceName::default();
    Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs: vec![run] })
}

fn receive() -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages: 3,
        bytes: u64::MAX,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: false,
        request: None,
        call: 0,
    })
}

/// Whether bytes are facts to their end.
pub fn are_facts(bytes: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut source = Source::new(&bytes);
    while !source.is_empty() {
        if decode_fact(&mut source).is_err() {
            return false;
        }
    }
    true
}
