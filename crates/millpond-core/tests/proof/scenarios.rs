//! Runs the scripts in `tests/scenarios`: commands at the line's beginning, what the core must say to each indented
//! below it. `UPDATE_SCENARIOS=1 cargo test -p millpond-core scenarios` writes down what it says instead.
#![expect(clippy::disallowed_methods, reason = "this is the shell's side: it reads scripts, and it may update them")]

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, panic};

use millpond_core::command::{Command, Ticket};
use millpond_core::output::{LeasedRun, Notice, Output, Reply};
use millpond_types::{LeaseNumber, MessageId, PublishOutcome, Receipt, Sequence};

use crate::moves::moves;
use crate::say;
use crate::script::{Line, Names, bodies, command, duration, receipt};
use crate::shell::Shell;

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 10, "the scenarios are where they are looked for");
    // All of them are run before the test fails, so that one change shows all that it touches.
    let fails = |path: &&std::path::PathBuf| panic::catch_unwind(|| check(path)).is_err();
    let failed: Vec<_> = paths.iter().filter(fails).collect();
    assert!(failed.is_empty(), "the core does not say what stands in {failed:#?}");
}

/// Runs a script and holds what the core says against what stands in it.
fn check(path: &Path) {
    let expected = fs::read_to_string(path).unwrap();
    let mut found = String::new();
    let mut script = Script { shell: Shell::new(), names: Names::default(), publishes: Vec::new(), follows: true };
    for (number, line) in expected.lines().enumerate() {
        if line.starts_with("    ") {
            continue;
        }
        writeln!(found, "{line}").unwrap();
        if !line.is_empty() && !line.starts_with('#') {
            eprintln!("{}:{}: {line}", path.display(), number + 1);
            script.run(line).iter().for_each(|said| writeln!(found, "    {said}").unwrap());
        }
    }
    if env::var_os("UPDATE_SCENARIOS").is_some() {
        fs::write(path, &found).unwrap();
    } else if found != expected {
        let differs = expected.lines().zip(found.lines()).take_while(|(a, b)| a == b).count();
        panic!("{}:{}: the core says\n{}", path.display(), differs + 1, found.lines().nth(differs).unwrap_or(""));
    }
}

struct Script {
    shell: Shell,
    names: Names,
    /// Bodies by the publish that carried them.
    publishes: Vec<(Ticket, Vec<String>)>,
    /// Whether the edge hears what it has to know.
    follows: bool,
}

impl Script {
    /// Carries a line out; what the core says, as lines.
    fn run(&mut self, text: &str) -> Vec<String> {
        let line = Line::new(text);
        let time = |word: &str| duration(word.trim_start_matches('+')).0;
        match line.verb {
            // What that brings comes behind the commands of the next turn.
            "pass" => {
                self.shell.pass(time(line.words[0]), time(line.words[0]));
                return Vec::new();
            }
            "at" => self.shell.pass(time(line.words[0]), time(line.words[0])),
            "run" => self.shell.pass(time(line.words[0]), 0),
            "wall" => self.shell.pass(0, time(line.words[0])),
            "restart" => self.shell.restart(false),
            "crash" => self.shell.restart(true),
            "checkpoint" => self.shell.checkpoint(),
            "edge" => {
                self.follows = line.words == ["follows"];
                self.follow();
            }
            "room" => self.shell.core.set_room(line.words[0].parse().expect("bytes")),
            "disk" => self.shell.core.set_disk_full(line.words[0] == "full"),
            // The numbers of leases, as whoever is fenced by them sees them.
            "leases" => {
                let number = |word: &&str| format!("{word}: {}", receipt(word, &self.names).lease.0);
                return line.words.iter().map(number).collect();
            }
            "wake" => return vec![self.shell.next_wake().map_or("never".into(), |wait| format!("in {wait} ms"))],
            _ => return self.turn(text.split(" | ").map(str::trim).collect()),
        }
        self.turn(Vec::new())
    }

    fn turn(&mut self, texts: Vec<&str>) -> Vec<String> {
        let commands: Vec<(Ticket, Command)> = texts.iter().map(|text| self.command(text)).collect();
        let outputs = self.shell.turn(commands);
        self.follow();
        outputs.iter().for_each(|output| self.take_note(output));
        outputs.iter().flat_map(|o| say::output(o, &self.shell.journal, &self.names, self.shell.now)).collect()
    }

    fn command(&mut self, text: &str) -> (Ticket, Command) {
        let line = Line::new(text);
        self.names.wall = self.shell.now.wall;
        let ticket = self.shell.ticket();
        if matches!(line.verb, "publish" | "forward") && !text.contains(" -> route ") {
            self.publishes.push((ticket, bodies(text)));
        }
        if let Some(name) = line.option("as") {
            self.names.tickets.insert(name.into(), ticket);
        }
        let command = match line.verb {
            "move" | "move-dead" => self.moved(&line),
            _ => command(&line, text, &self.names),
        };
        (ticket, command)
    }

    /// The move of a run that begins with a body, or of one as a dead letter, from where it lies by the last word of the
    /// journal; `m1@1` is from where it lay at first.
    fn moved(&self, line: &Line<'_>) -> Command {
        let word = line.words[0];
        let (body, place) = word.split_once('@').map_or((word, None), |(body, n)| (body, n.parse::<usize>().ok()));
        let mut found = moves(&self.shell.journal.facts);
        found.retain(|command| match command {
            Command::Move(of) => line.verb == "move" && of.first == self.names.ids[body],
            Command::DeadMove(of) => line.verb == "move-dead" && of.id == self.names.ids[body],
            _ => false,
        });
        found.dedup();
        found.swap_remove(place.unwrap_or(found.len()) - 1)
    }

    /// Lets the edge know what it has to know.
    fn follow(&mut self) {
        for notice in self.shell.notices.extract_if(.., |_| self.follows) {
            match notice {
                Notice::Exchange { namespace, name, exchange: Some(exchange) } => {
                    self.names.exchanges.insert((namespace, name), exchange);
                }
                Notice::Exchange { namespace, name, exchange: None } => {
                    self.names.exchanges.remove(&(namespace, name));
                }
                Notice::Namespace { .. } | Notice::NamespaceGone(_) | Notice::Held(_) => {}
            }
        }
    }

    /// Learns the ids and receipts of bodies.
    fn take_note(&mut self, output: &Output) {
        match output {
            Output::Reply {
                ticket,
                reply: Reply::Published { outcomes, .. } | Reply::Forwarded { published: outcomes, .. },
            } => {
                // What was published to an exchange has as many outcomes as it has topics.
                let Some((_, bodies)) = self.publishes.iter().find(|(of, _)| of == ticket) else { return };
                let mut bodies = bodies.iter();
                for run in outcomes {
                    for (n, body) in (0..u64::from(run.count)).zip(&mut bodies) {
                        if let PublishOutcome::Queued { id } | PublishOutcome::Coalesced { id, replaced: Some(_) } =
                            run.outcome
                        {
                            let id = MessageId { sequence: Sequence(id.sequence.0 + n), ..id };
                            self.names.ids.insert(body.clone(), id);
                        }
                    }
                }
                assert_eq!(bodies.next(), None, "each message has an outcome");
            }
            Output::Reply { reply: Reply::Received(leases), .. } | Output::Delivery { leases, .. } => {
                leases.iter().for_each(|run| self.take_receipts(run));
            }
            Output::Reply { reply: Reply::Dead { next, .. }, .. } => self.names.next_page = next.clone(),
            Output::Reply { .. } | Output::Standing { .. } | Output::SessionExpired(_) => {}
        }
    }

    fn take_receipts(&mut self, run: &LeasedRun) {
        for (n, body) in (0..).zip(self.shell.journal.read(run.extent)) {
            let receipt = Receipt { lease: LeaseNumber(run.receipt.lease.0 + n), ..run.receipt };
            self.names.receipts.entry(body).or_default().push(receipt);
        }
    }
}
