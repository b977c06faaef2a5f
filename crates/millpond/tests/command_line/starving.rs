//! What becomes of a broker that the system gives no more files, no more memory, no disk to write to, or not even its
//! directory.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use millpond_client::{Batch, Client, Level, Message, NamespaceName, PublishOutcome};

use crate::broker::{Broker, Running, Said, call, fresh_directory, serve};
use crate::small_disk::SmallDisk;

const MIB: usize = 1 << 20;

#[test]
fn clients_that_take_all_files_leave_those_of_the_journal() {
    let directory = fresh_directory();
    let broker = Broker::run(&mut limited("ulimit -n 100", &serve(directory.path())));
    in_runtime(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        let crowd: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&broker.address).unwrap()).collect();
        let http: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&broker.http).unwrap()).collect();
        // Enough for more segments, each of which is a file.
        for _ in 0..60 {
            let message = Message::new("t".try_into().unwrap(), vec![b'x'; MIB]);
            let outcome = client.publish(&NamespaceName::default(), message).await;
            assert!(matches!(outcome, Ok(PublishOutcome::Queued { .. })), "{outcome:?}");
        }
        drop((crowd, http));
    });
    // Those who come when the crowd is gone are taken in.
    assert!((0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        broker.call(&["publish", "default/t", "later"]).code == 0
    }));
    assert_eq!(broker.counts("default")["waiting"], 61);
}

#[test]
fn a_client_that_is_turned_away_for_want_of_files_is_told_so() {
    let directory = fresh_directory();
    let broker = Broker::run(&mut limited("ulimit -n 60", &serve(directory.path())));
    let mut crowd: Vec<TcpStream> = Vec::new();
    // While some are being turned away there may be a place for one more.
    let said = (0..10).map(|_| {
        crowd.extend((0..60).map(|_| TcpStream::connect(&broker.address).unwrap()));
        broker.call(&["publish", "default/t", "x"])
    });
    let turned_away = said.into_iter().find(|said| said.code != 0).expect("not all of them are taken in");
    turned_away.failed(1, &["open files", "ulimit -n"]);
}

#[test]
fn a_broker_that_runs_out_of_memory_loses_nothing() {
    let directory = fresh_directory();
    // It believes that it may take 1 GiB, and gets less than half of that, which is enough to come up with: but not where
    // glibc reserves 64 MiB of addresses for each of several threads.
    let limit = "export MALLOC_ARENA_MAX=1; ulimit -v 400000";
    let broker = Broker::run(&mut limited(limit, &serve(directory.path())));
    let mut confirmed = 0;
    in_runtime(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        for round in 0..400 {
            let mut batch = Batch::builder();
            for n in 0..1000 {
                let topic = format!("many/{round}/{n}/{}", "x".repeat(200));
                batch.push(&Message::new(topic.as_str().try_into().unwrap(), "x")).unwrap();
            }
            match client.publish_batch(&NamespaceName::default(), Level::Durable, &batch.build()).await {
                Ok(outcomes) => confirmed += outcomes.queued(),
                Err(_) => return,
            }
        }
        panic!("the limit was not met");
    });
    drop(broker);
    let broker = Broker::run(&mut serve(directory.path()));
    let waiting = broker.counts("default")["waiting"].as_u64().unwrap() as usize;
    assert!(waiting >= confirmed && waiting <= confirmed + 1000, "{waiting} of {confirmed}");
    assert!(confirmed > 1000, "{confirmed}");
}

#[test]
fn a_directory_that_is_removed_under_a_broker_stops_it() {
    #[derive(Clone, Copy, PartialEq)]
    enum How {
        Removed,
        /// Its files are there, and written to, where nobody will look for them.
        MovedAway,
        /// What is in its place looks like it.
        Replaced,
    }
    for how in [How::Removed, How::MovedAway, How::Replaced] {
        let directory = fresh_directory();
        let place = directory.path().join("data");
        let mut broker = Running::of(serve(&place).stdout(Stdio::piped()).stderr(Stdio::piped()));
        assert!(broker.next_line().starts_with("listening on"));
        // The reserve is made first, in peace.
        while !place.join("spare-1").exists() {}
        std::thread::sleep(Duration::from_secs(1));
        if how == How::Removed {
            std::fs::remove_dir_all(&place).unwrap();
        } else {
            std::fs::rename(&place, directory.path().join("elsewhere")).unwrap();
        }
        if how == How::Replaced {
            std::fs::create_dir(&place).unwrap();
            std::fs::copy(directory.path().join("elsewhere/FORMAT"), place.join("FORMAT")).unwrap();
        }
        let is_over = (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            broker.has_ended()
        });
        assert!(is_over, "it goes on where nobody will find what it confirms");
        broker.wait().failed(1, &[place.to_str().unwrap(), "restart the broker"]);
    }
}

/// A limit of a file's size stops a broker with its reason, and not without a word.
#[test]
fn a_limit_of_file_sizes_is_told() {
    let directory = fresh_directory();
    let mut command = limited("ulimit -f 30000", &serve(directory.path()));
    Said::of(command.output().unwrap()).failed(1, &["spare-", "File too large"]);
}

#[test]
fn a_full_disk_refuses_publishes_and_lets_work_go_on() {
    let Some(disk) = SmallDisk::mount(320) else { return };
    let broker = Broker::run(&mut serve(&disk.path("data")));
    let body = vec![b'x'; MIB];
    broker.ok(&["publish", "default/a", "first"]);
    let said = (0..400)
        .map(|_| broker.call_with(&["publish", "default/b"], &body))
        .find(|said| said.code != 0)
        .expect("400 MiB do not fit");
    said.failed(1, &["disk_full"]);
    // What is there can be worked on, and room that comes back is used again.
    assert_eq!(broker.json(&["receive", "default/a", "--ack"])[0]["body"], "first");
    broker.ok(&["purge", "default"]);
    let is_back = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        broker.call(&["publish", "default/a", "again"]).code == 0
    });
    assert!(is_back, "the room of what was purged does not come back");
}

#[test]
fn a_disk_that_is_read_only_is_told_and_can_be_read() {
    let Some(disk) = SmallDisk::mount(160) else { return };
    let place = disk.path("data");
    let broker = Broker::run(&mut serve(&place));
    broker.ok(&["publish", "default/a", "kept"]);
    drop(broker);
    disk.remount("ro");
    let place = place.to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "error"];
    call(&[&["serve", "--data", place], &listen[..]].concat()).failed(1, &[place, "Read-only"]);
    let said = call(&["inspect", place]).ok();
    assert!(said.contains("live "), "{said}");
    disk.remount("rw");
    let broker = Broker::run(&mut serve(Path::new(place)));
    assert_eq!(broker.json(&["receive", "default", "--ack"])[0]["body"], "kept");
}

/// A command under a limit of the shell.
pub fn limited(limit: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(command.get_program()).args(command.get_args());
    for (name, _) in command.get_envs() {
        shell.env_remove(name);
    }
    shell
}

pub fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
