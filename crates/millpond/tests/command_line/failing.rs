//! A disk that fails at one call, which `strace` sees to: what was done, to which file, why, and what to do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use millpond_client::{Client, Message, NamespaceName};

use crate::broker::{Broker, Running, Said, fresh_directory, is_left_out, serve};
use crate::starving::in_runtime;

/// The command that serves a directory, with some calls failing that have to do with a path.
fn serve_failing(place: &Path, calls: &str, path: &Path) -> Command {
    let broker = serve(place);
    let mut command = Command::new("strace");
    // The broker is the child, and strace its grandchild.
    command.args(["-D", "-f", "-o", "/dev/null", "-e", &format!("inject={calls}:error=EIO"), "-P"]).arg(path);
    command.arg(broker.get_program()).args(broker.get_args());
    broker.get_envs().for_each(|(name, _)| _ = command.env_remove(name));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(place: &Path, calls: &str, path: &Path) -> Said {
    Running::of(&mut serve_failing(place, calls, path)).wait()
}

/// Enough for a checkpoint, which is due after 32 MiB as soon as nothing happens, and the checkpoint.
fn fill(broker: &Broker, checkpoints: u32) {
    let body = vec![b'x'; 1 << 20];
    (0..40).for_each(|_| drop(broker.call_with(&["publish", "default/a", "-"], &body)));
    let line = format!("millpond_checkpoints_total {checkpoints}");
    assert!((0..600).any(|_| broker.metrics().lines().any(|found| found == line) || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
}

#[test]
fn a_start_says_which_file_of_the_checkpoint_cannot_be_read_or_removed() {
    if is_left_out("strace") {
        return;
    }
    let directory = fresh_directory();
    let place = directory.path().canonicalize().unwrap().join("data");
    let broker = Broker::run_on(&mut serve(&place), directory);
    fill(&broker, 1);
    let (code, directory) = broker.stop();
    assert_eq!(code, Some(0));

    let (tree, table) = (place.join("tree"), place.join("tree/tables/0"));
    // What a commit or a merge that was cut short leaves behind.
    let left = [tree.join("v77"), tree.join("tables/77")];
    left.iter().for_each(|left| std::fs::copy(&table, left).map(drop).unwrap());
    for (calls, path, what) in [
        ("unlink", &left[0], "removing"),
        ("unlink", &left[1], "removing"),
        ("read", &tree.join("current"), "reading"),
        ("read,pread64", &table, "reading"),
    ] {
        let said = start(&place, calls, path);
        let cause = format!("{what} {} failed: Input/output error", path.display());
        said.failed(1, &["opening the checkpoint in ", &cause, "start again once the disk is in order"]);
    }
    let (code, _directory) = Broker::run_on(&mut serve(&place), directory).stop();
    assert!(code == Some(0) && left.iter().all(|left| !left.exists()));
}

#[test]
fn a_broker_that_stops_says_which_file_of_the_checkpoint_could_not_be_written() {
    if is_left_out("strace") {
        return;
    }
    let directory = fresh_directory();
    let place = directory.path().canonicalize().unwrap().join("data");
    let table = place.join("tree/tables/0");
    let mut broker = Running::of(&mut serve_failing(&place, "fsync", &table));
    let line = broker.next_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(", ")).expect("it listens").0;
    let namespace = NamespaceName::default();
    in_runtime(async {
        let client = Client::connect(address).await.unwrap();
        for _ in 0..40 {
            let message = Message::new("t".try_into().unwrap(), vec![b'x'; 1 << 20]);
            let published = client.publish(&namespace, message);
            // It may have stopped by now.
            drop(tokio::time::timeout(Duration::from_secs(5), published).await);
        }
    });
    let cause = format!("writing {}, or the version that names it, failed: Input/output error", table.display());
    broker.wait().failed(1, &["writing a checkpoint to ", &cause, "restart the broker once the disk is in order"]);
    let code = Broker::run_on(&mut serve(&place), directory).stop().0;
    assert_eq!(code, Some(0));
}

#[test]
fn what_is_damaged_does_not_end_a_receive_for_which_there_is_more() {
    const DAMAGED: usize = 20;
    let broker = Broker::start();
    let lines: String = (0..DAMAGED).map(|number| format!("to be damaged {number}\n")).collect();
    broker.call_with(&["publish", "default/a", "--lines"], lines.as_bytes()).ok();
    broker.ok(&["publish", "default/a", "whole"]);
    // What lies behind the checkpoint is verified at the start.
    fill(&broker, 1);
    let (_, directory) = broker.stop();
    let mut damaged = 0;
    for file in std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "journal") {
            let mut bytes = std::fs::read(&file).unwrap();
            while let Some(at) = bytes.windows(13).position(|window| window == b"to be damaged") {
                bytes[at] = b'T';
                damaged += 1;
            }
            std::fs::write(&file, bytes).unwrap();
        }
    }
    assert_eq!(damaged, DAMAGED);
    let broker = Broker::start_on(directory);
    let received = broker.json(&["receive", "default/a"]);
    assert_eq!((received.len(), &received[0]["body"]), (1, &"whole".into()));
    assert_eq!(broker.json(&["dead", "list", "default", "--limit", "100", "--output", "json"]).len(), DAMAGED);
}
