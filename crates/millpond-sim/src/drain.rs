//! The end of a life: with willing consumers and enough time, everything comes to its end, and whoever waits is told.

use millpond_core::command::Command;
use millpond_types::{Millis, Policy, Quotas};

use crate::audit::audit;
use crate::candidates;
use crate::clients::{Asked, Request};
use crate::stuck;
use crate::verdict::Violation;
use crate::world::World;

/// Rounds in which everything has to come to its end. A round brings the next deadline. A life leaves some hundred, and has
/// one for each receive that waits for less than a second, up to the last due time, which may be more than an hour away.
const ROUNDS: u32 = 10_000;
/// Seconds within which everything that waits has waited for long enough.
const SECONDS_LAST: u64 = 12;
/// In milliseconds.
const SECOND: u64 = 1000;
/// Rounds without a deadline or an end after which what is left is stuck: answers and hand-overs take two or three.
const ROUNDS_IDLE: u32 = 10;

/// Milliseconds after which a writer that holds publishes back has looked again whether it still has to.
const PRESSED_AGAIN: u64 = 11;
/// How often it may find that it has to: each time a checkpoint is written, and what was let in behind the one before may be
/// too much again; and one that found no room on the disk is tried again two seconds later at the latest.
const ROUNDS_PRESSED: u32 = 300;

impl World {
    /// Finishes everything.
    pub(crate) fn drain(&mut self) -> Result<(), Violation> {
        self.tape.note(format_args!("from here on everything is finished"));
        // Hours behind, it would be caught up with in as many rounds as there are seconds.
        self.clock.set_right();
        self.heal()?;
        self.reads_fail = false;
        self.wires.smooth();
        // Groups that are still to be made come before those who read for them.
        self.settle()?;
        self.let_in()?;
        self.let_all_connect()?;
        let (mut idle, mut left) = (0, 0);
        for _ in 0..ROUNDS {
            let mut requests = self.clients.finish();
            let is_led = self.is_anything_led();
            requests.extend(self.candidates.finish(is_led));
            requests.extend(self.subscribers.finish());
            self.ask(requests);
            self.settle()?;
            self.look_for_untold()?;
            // The model knows it without a walk.
            let is_left = self.promises.model.left().is_some() || stuck::left(&self.ledger).is_some();
            // What a half-open connection holds comes back when the broker notices, which it does in time.
            let is_half_open = self.wires.any_half_open();
            if !is_left && !is_half_open && !self.is_anything_led() {
                self.let_in()?;
                if self.promises.model.left().is_some() {
                    continue;
                }
                return self.look_at_the_end();
            }
            let wake = self.broker().core().next_wake();
            // It sleeps until the time comes or something does: where it sleeps for too long, everything stands still.
            match self.broker().sleeps() {
                Some(sleep) => {
                    let sleep = wake.map_or(0, |wake| wake.0).max(sleep.as_millis() as u64 + 1);
                    // The deadlines of connections are not the core's.
                    self.clock.pass(if is_half_open { sleep.min(SECOND) } else { sleep });
                }
                None if is_half_open && wake.is_none() => self.clock.pass(SECOND),
                None => {}
            }
            let topics = &self.promises.model.topics;
            let before = std::mem::replace(&mut left, topics.values().map(|topic| topic.messages.len()).sum());
            idle = if wake.is_some() || before != left || is_half_open { 0 } else { idle + 1 };
            if idle > ROUNDS_IDLE {
                break;
            }
        }
        Err(stuck::violation(&self.ledger, &self.promises.model))
    }

    /// From here on any number of connections may use a namespace: what is left is for all of them to finish.
    fn let_all_connect(&mut self) -> Result<(), Violation> {
        let homes = self.promises.model.namespaces.values();
        let limited = homes.filter(|home| home.policy.quotas.connections.is_some());
        let requests = limited.map(|home| {
            let quotas = Quotas { connections: None, ..home.policy.quotas };
            let policy = Policy { quotas, ..home.policy.clone() };
            let (name, rules) = (home.name.clone(), home.rules.clone());
            let command = Command::NamespaceSet { name, policy, rules, based_on: None };
            Request { command, asked: Asked::Other("policies changed") }
        });
        let requests = requests.collect();
        self.ask(requests);
        self.settle()
    }

    /// What waits for memory comes in: a checkpoint makes room for it, whatever else goes on.
    fn let_in(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_PRESSED {
            if !self.broker().is_pushed_back() {
                return Ok(());
            }
            self.clock.pass(PRESSED_AGAIN);
            self.settle()?;
        }
        Err(Violation::stuck("publishes wait for memory, and no checkpoint makes room".into()))
    }

    /// Whether anything is left of what the candidates were published.
    fn is_anything_led(&self) -> bool {
        let model = &self.promises.model;
        model.topics.keys().any(|(group, _)| model.home(*group).name.as_str() == candidates::NAMESPACE)
    }

    /// In the midst of a life, all that needs no time is done, and whoever waits is told. A disk that stands still or has no
    /// room keeps that from being done.
    pub(crate) fn lull(&mut self) -> Result<(), Violation> {
        if self.slow > 0 {
            return Ok(());
        }
        self.settle()?;
        let broker = self.broker();
        if broker.is_stuck() || broker.is_fetching() || broker.is_awake() {
            return Ok(());
        }
        self.sights.saw("lulls in the midst");
        self.look_for_untold()
    }

    /// Where nothing goes on, nobody waits for anything that is there.
    fn look_for_untold(&mut self) -> Result<(), Violation> {
        let now = self.broker().core().now().run;
        // What is behind messages whose ends are held is not to be had before a checkpoint has made room for these, nor is
        // anything while deliveries are, or where starts hold too much. And what is to be done at once waits for a moment behind a
        // batch that does not go.
        let core = self.broker.as_ref().expect("the broker runs").core();
        let is_held = core.has_time_on_hold() || core.are_deliveries_held() || core.do_starts_hold_too_much();
        let is_at_work = core.next_wake() == Some(Millis::ZERO);
        if self.numb_until.is_some_and(|until| now < until) || is_held || is_at_work {
            return Ok(());
        }
        self.promises.look_for_untold(core)
    }

    fn look_at_the_end(&mut self) -> Result<(), Violation> {
        // Receives that wait come to their end.
        for _ in 0..SECONDS_LAST {
            self.clock.pass(SECOND);
            self.settle()?;
        }
        let waits = self.promises.waits();
        let is_receive = |asked: &&Asked| matches!(asked, Asked::Receive(_));
        if waits > 0 || self.open.values().any(|asked| is_receive(&asked)) {
            return Err(Violation::stuck(format!(
                "{waits} receives wait for longer than they asked to, or are not told"
            )));
        }
        self.ask(vec![Request { command: Command::Namespaces { after: None }, asked: Asked::Drained }]);
        self.settle()?;
        assert!(!self.broker().is_fetching(), "counts are in memory");
        if let Some(asked) = self.wires.unanswered() {
            return Err(Violation::stuck(format!("nobody answers {asked:?}, and its connection is there")));
        }
        let broker = self.broker.as_ref().expect("the broker runs");
        audit(broker, &self.ledger, &self.promises.model)
    }
}
