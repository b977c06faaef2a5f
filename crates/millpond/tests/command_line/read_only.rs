//! A disk that fails under a running broker, so that the system makes it read-only.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use millpond_client::{Client, Message, NamespaceName, PublishOutcome};
use tempfile::TempDir;

use crate::broker::{Broker, Running, Said, call, is_left_out, serve};
use crate::starving::in_runtime;

#[test]
fn a_disk_that_becomes_read_only_stops_the_broker_and_loses_nothing() {
    let Some(disk) = LoopDisk::mount() else { return };
    let place = disk.place().join("data");
    let mut broker = Running::of(serve(&place).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let line = broker.next_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(", ")).expect("it listens").0;
    let namespace = NamespaceName::default();
    let confirmed = in_runtime(async {
        let client = Client::connect(address).await.unwrap();
        let mut confirmed = Vec::new();
        for n in 0.. {
            if n == 200 {
                disk.fail();
            }
            let message = Message::new("t".try_into().unwrap(), n.to_string());
            // A client asks again for as long as there may be somebody to answer.
            let published = client.publish(&namespace, message);
            match tokio::time::timeout(Duration::from_secs(10), published).await {
                Ok(Ok(PublishOutcome::Queued { .. })) => confirmed.push(n.to_string()),
                _ => break,
            }
            assert!(n < 100_000, "a disk that is read-only takes everything");
        }
        confirmed
    });
    assert!(confirmed.len() >= 200, "{}", confirmed.len());
    broker.wait().failed(1, &[place.to_str().unwrap(), "Read-only file system", "restart the broker"]);
    // While the disk is as it is, a start says the same.
    let said = call(&["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", place.to_str().unwrap()]);
    said.failed(1, &[place.to_str().unwrap(), "Read-only"]);
    disk.repair();
    let broker = Broker::run(&mut serve(&place));
    let found = broker.json(&["receive", "default", "--max", "10000", "--ack"]);
    let bodies: Vec<&str> = found.iter().map(|message| message["body"].as_str().unwrap()).collect();
    assert!(confirmed.iter().all(|body| bodies.contains(&body.as_str())), "{} of {}", bodies.len(), confirmed.len());
    assert!(bodies.len() <= confirmed.len() + 1, "what was never asked for");
}

/// A file system in a file, that can be made to fail.
struct LoopDisk {
    directory: TempDir,
}

impl LoopDisk {
    /// Nothing where the tests were told to do without.
    fn mount() -> Option<LoopDisk> {
        if is_left_out("loop") {
            return None;
        }
        let disk = LoopDisk { directory: TempDir::new().expect("there is room for a directory") };
        std::fs::create_dir(disk.place()).unwrap();
        std::fs::File::create(disk.image()).and_then(|image| image.set_len(512 << 20)).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.image()));
        disk.attach();
        Some(disk)
    }

    fn place(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn attach(&self) {
        run(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(self.image()).arg(self.place()));
    }

    /// As when the file system finds an error of the disk below it.
    fn fail(&self) {
        run(Command::new("mount").args(["-o", "remount,abort"]).arg(self.place()));
    }

    /// As an operator would.
    fn repair(&self) {
        run(Command::new("umount").arg(self.place()));
        // It ends with 1 when it has mended something.
        Command::new("e2fsck").args(["-p"]).arg(self.image()).output().expect("it comes with mkfs.ext4");
        self.attach();
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Lazily: the broker in the test may be dropped after this.
        let _ = Command::new("umount").arg("-l").arg(self.place()).status();
    }
}

fn run(command: &mut Command) {
    let said = Said::of(command.output().expect("there is such a program"));
    assert_eq!(said.code, 0, "no disk in a file (MILLPOND_TEST_WITHOUT=loop): {said:?}");
}
