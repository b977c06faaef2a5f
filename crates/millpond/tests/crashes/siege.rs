//! The broker, its clients, and what is done to them.

use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::broker::{Broker, Running, call, fresh_directory, serve_at};
use crate::clients::{self, PUBLISHERS};
use crate::ledger::{Scribe, files, written};
use crate::load::{self, GROUPS, LATE, MIXED, set_up};
use crate::random::Random;
use crate::verdict::{Figures, verdict};

/// So little that topics leave it.
const MEMORY: &str = "64MiB";
/// Where nothing comes to its end for so long, it is stuck; leases of clients that were killed take the longest.
const STUCK: Duration = Duration::from_secs(40);

pub struct Siege {
    pub kills: u32,
    /// Kills of a broker that had confirmed publishes since its start, and delivered.
    pub kills_at_work: u32,
    /// What the ledger held when the broker was started.
    held: [u64; 2],
    broker: Option<Broker>,
    address: String,
    clients: Vec<Besieged>,
    ledger: TempDir,
}

struct Besieged {
    name: &'static str,
    life: u32,
    process: Running,
    stopped: bool,
}

impl Siege {
    /// Starts everything.
    pub fn lay() -> Siege {
        let ledger = fresh_directory();
        // On a disk where there is one: a sync takes its time there.
        let directory = TempDir::new().expect("there is room for a directory");
        let broker = Broker::run_on(serve_at(directory.path(), "127.0.0.1:0").args(["--memory", MEMORY]), directory);
        set_up(&broker);
        let address = broker.address.clone();
        let start = |name| Besieged {
            name,
            life: 1,
            process: clients::start(name, 1, &address, ledger.path()),
            stopped: false,
        };
        let clients = clients::names().map(start).collect();
        Siege { kills: 0, kills_at_work: 0, held: [0; 2], broker: Some(broker), address, clients, ledger }
    }

    /// Kills the broker and starts it again; now and then it is killed in its start too.
    pub fn kill(&mut self, random: &mut Random) {
        for client in &mut self.clients {
            assert!(!client.process.has_ended(), "{} has ended by itself", client.name);
        }
        self.kills_at_work += u32::from(self.is_at_work());
        let directory = self.broker.take().expect("it is running").kill_running();
        self.kills += 1;
        while random.one_in(5) {
            let starting = Running::of(serve_at(directory.path(), &self.address).args(["--memory", MEMORY]));
            random.pause(0, 60);
            assert_eq!(starting.kill(), None, "the broker has ended by itself in its start");
            self.kills += 1;
        }
        self.held = self.written();
        let mut command = serve_at(directory.path(), &self.address);
        self.broker = Some(Broker::run_on(command.args(["--memory", MEMORY]), directory));
    }

    /// Waits until the broker has taken something in since its start, and given something out.
    pub fn wait_for_work(&self) {
        let begun = Instant::now();
        while !self.is_at_work() {
            assert!(begun.elapsed() < STUCK, "nothing goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_at_work(&self) -> bool {
        self.written().iter().zip(self.held).all(|(now, then)| *now > then)
    }

    /// Bytes that publishers and consumers have written to the ledger.
    fn written(&self) -> [u64; 2] {
        let by = |publishers| written(self.ledger.path(), |name| PUBLISHERS.contains(&name) == publishers);
        [by(true), by(false)]
    }

    /// Lets the broker stand still for a moment.
    pub fn stop_the_broker(&mut self, random: &mut Random) {
        let broker = self.broker.as_ref().expect("it is running");
        broker.signal(Signal::STOP);
        random.pause(50, 800);
        broker.signal(Signal::CONT);
        random.pause(0, 200);
    }

    /// Kills a client and starts another one in its place.
    pub fn kill_a_client(&mut self, random: &mut Random) {
        let index = random.below(self.clients.len() as u64) as usize;
        let Besieged { name, life, .. } = self.clients[index];
        let process = clients::start(name, life + 1, &self.address, self.ledger.path());
        let after = Besieged { name, life: life + 1, process, stopped: false };
        let before = std::mem::replace(&mut self.clients[index], after);
        assert_eq!(before.process.kill(), None, "{name} has ended by itself");
    }

    /// Makes the group that is given what others hold, and tells its consumer.
    pub fn make_the_late_group(&self) {
        let broker = self.broker.as_ref().expect("it is running");
        broker.ok(&["group", "create", MIXED, LATE, "--start", "earliest"]);
        std::fs::write(self.ledger.path().join(LATE), "").expect("there is room for an empty file");
    }

    /// Lets a client stand still until all are let go on.
    pub fn stop_a_client(&mut self, random: &mut Random) {
        if self.clients.iter().filter(|client| client.stopped).count() > 2 {
            return self.let_all_go_on();
        }
        let index = random.below(self.clients.len() as u64) as usize;
        self.clients[index].process.signal(Signal::STOP);
        self.clients[index].stopped = true;
    }

    pub fn let_all_go_on(&mut self) {
        for client in self.clients.iter_mut().filter(|client| client.stopped) {
            client.process.signal(Signal::CONT);
            client.stopped = false;
        }
    }

    /// Lets the work come to its end, and judges.
    pub fn end(mut self) -> Figures {
        self.let_all_go_on();
        self.tell("stop", |name| PUBLISHERS.contains(&name));
        self.wait_until_nothing_is_left();
        self.tell("drained", |_| true);
        let mut scribe = Scribe::new(self.ledger.path(), "letters");
        let broker = self.broker.take().expect("it is running");
        for (space, group) in GROUPS {
            let listed =
                broker.json(&["dead", "list", space, "--group", group, "--limit", "10000000", "--output", "json"]);
            for row in &listed {
                let text = |name: &str| row[name].as_str().expect("a letter has it");
                let died = humantime::parse_rfc3339(text("died")).expect("a time");
                let died = died.duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
                let tag = load::tag(text("topic"), text("body").as_bytes());
                scribe.letter(space, group, text("id"), &tag, text("reason"), died);
            }
            assert_eq!(broker.json(&["topics", space, "--group", group, "--output", "json"]), Vec::<Value>::new());
        }
        scribe.write();
        let (code, directory) = broker.stop();
        assert_eq!(code, Some(0), "it stops in good order");
        call(&["inspect".as_ref(), directory.path().as_os_str()]).ok();
        let verdict = verdict(&files(self.ledger.path()));
        if !verdict.broken.is_empty() {
            let (ledger, directory): (PathBuf, PathBuf) = (self.ledger.keep(), directory.keep());
            let first: Vec<_> = verdict.broken.iter().take(20).collect();
            panic!(
                "{} promises are broken: {first:#?}\nthe ledger is in {}, the data in {}",
                verdict.broken.len(),
                ledger.display(),
                directory.display()
            );
        }
        verdict.figures
    }

    /// Tells all clients a word, and waits until these have ended.
    fn tell(&mut self, word: &str, to: impl Fn(&str) -> bool) {
        std::fs::write(self.ledger.path().join(word), "").expect("there is room for an empty file");
        let (told, others) = std::mem::take(&mut self.clients).into_iter().partition(|client| to(client.name));
        self.clients = others;
        for client in told {
            let (name, said) = (client.name, client.process.wait());
            assert_eq!(said.code, 0, "{name} has gone wrong");
        }
    }

    /// Where less is left every time that somebody looks, nothing is stuck.
    fn wait_until_nothing_is_left(&self) {
        let broker = self.broker.as_ref().expect("it is running");
        let left = |&(space, group): &(&'static str, &'static str)| {
            let groups = &broker.json(&["stats", space, "--json"])[0]["groups"];
            groups[group]["unfinished"].as_u64().expect("a group has counts")
        };
        let (mut least, mut at) = (u64::MAX, Instant::now());
        loop {
            let now: Vec<u64> = GROUPS.iter().map(left).collect();
            let sum = now.iter().sum();
            if sum == 0 {
                return;
            }
            if sum < least {
                (least, at) = (sum, Instant::now());
            }
            if at.elapsed() > STUCK {
                let spaces = GROUPS.iter().map(|(space, _)| broker.ok(&["stats", space])).collect::<String>();
                panic!("stuck: {now:?} are left of {GROUPS:?}\n{spaces}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
