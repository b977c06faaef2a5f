//! The system's limits of memory: a broker that was given less stays inside, and one that was given more says so.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use millpond_client::{Batch, Client, Level, Message, NamespaceName};
use rustix::process::Signal;

use crate::broker::{Broker, Running, fresh_directory, is_left_out, serve};
use crate::starving::{in_runtime, limited};

const MIB: usize = 1 << 20;

#[test]
fn a_limit_below_what_it_may_take_is_told() {
    let directory = fresh_directory();
    let mut command = limited("ulimit -v 900000", &serve(directory.path()));
    let mut broker = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert!(broker.next_line().starts_with("listening on"));
    broker.signal(Signal::TERM);
    broker.wait().failed(0, &["WARN", "grants less memory", "921600000", "ulimit -v"]);
}

#[test]
fn a_broker_stays_inside_its_control_group() {
    /// The broker's share of this is `--memory`; the rest is for pages of its files, of which the system takes back what it needs.
    const GRANTED: usize = 160 * MIB;
    const BODIES: usize = 200;
    const TOPICS: usize = 60;
    let Some(group) = Group::make(GRANTED) else { return };
    // On a real disk: what is stored in memory would count.
    let directory = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = serve(directory.path());
    let enter = format!("echo $$ > {}", group.0.join("cgroup.procs").display());
    let broker = Broker::run(&mut limited(&enter, command.args(["--memory", "64MiB"])));
    let namespace = NamespaceName::default();
    in_runtime(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        let bulk = Message::new("bulk".try_into().unwrap(), vec![b'x'; MIB]);
        let two = Batch::try_from(vec![bulk; 2]).unwrap();
        for _ in 0..BODIES / 2 {
            let outcomes = client.publish_batch(&namespace, Level::Durable, &two).await.unwrap();
            assert_eq!(outcomes.queued(), 2);
        }
        for round in 0..TOPICS {
            let mut batch = Batch::builder();
            for n in 0..1000 {
                let topic = format!("many/{round}/{n}/{}", "x".repeat(200));
                batch.push(&Message::new(topic.as_str().try_into().unwrap(), "x")).unwrap();
            }
            let outcomes = client.publish_batch(&namespace, Level::Durable, &batch.build()).await.unwrap();
            assert_eq!(outcomes.queued(), 1000);
        }
    });
    let resident = broker.resident() as usize;
    assert!(resident < GRANTED, "{resident} bytes");
    assert_eq!(broker.counts("default")["waiting"], BODIES + 1000 * TOPICS);
}

/// A control group with a limit of memory, of the first version or the second.
struct Group(PathBuf);

impl Group {
    /// Nothing where the tests were told to do without.
    fn make(bytes: usize) -> Option<Group> {
        if is_left_out("groups") {
            return None;
        }
        let first = Path::new("/sys/fs/cgroup/memory");
        let root = if first.is_dir() { first } else { Path::new("/sys/fs/cgroup") };
        let group = Group(root.join(format!("millpond-test-{}", std::process::id())));
        let made = std::fs::create_dir(&group.0);
        made.unwrap_or_else(|e| panic!("no control group can be made (MILLPOND_TEST_WITHOUT=groups): {e}"));
        let limit = ["memory.limit_in_bytes", "memory.max"].map(|file| group.0.join(file));
        let limit = limit.iter().find(|file| file.exists()).expect("it limits memory, or MILLPOND_TEST_WITHOUT=groups");
        std::fs::write(limit, bytes.to_string()).unwrap();
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once the last process has left it, which takes a moment.
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}
