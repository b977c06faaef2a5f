//! The one writer: a thread that owns the core, takes all commands that wait, and hands what they became to the journal.
//!
//! Invariant: nothing of a turn is told before the turn's facts are durable (written, for publishes that asked for no
//! more); and all facts of a turn are in one batch. When a batch goes is [`commit`]'s business, how it reaches the disk
//! [`journal`]'s.

mod clock;
mod commit;
mod fetching;
mod haste;
mod host;
mod journal;
mod outgoing;
mod pressure;
mod request;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millpond_core::command::{Command, Ticket};
use millpond_core::output::{Output, Reply};
use millpond_core::store::Want;
use millpond_core::{Core, Decision};
use millpond_storage::store::LayeredStore;
use millpond_storage::{Appender, Committer, Failure};
use millpond_types::Code;

pub(crate) use clock::Clock;
use commit::Filling;
use fetching::Fetching;
pub(crate) use fetching::{FetchThreads, Fetcher, Found, THREADS};
use haste::{Long, Rest};
pub use host::Host;
pub(crate) use host::Machine;
pub(crate) use journal::{Job, Journal};
use outgoing::{Calls, Outgoing};
use pressure::Pressure;
pub(crate) use pressure::Reason;
pub(crate) use request::{BURYING, FINISHING, FORWARDING, LANES, LOOKING, OF_CONNECTIONS, PUBLISHING, Request, lanes};
use request::{shut, small_part};

use crate::memory::Shares;
use crate::metrics::Counting;
use crate::session::Common;
use crate::session::outbox::Close;
use crate::session::ticket::{EMBEDDED, UNANSWERED, parts, ticket};
use crate::update_queue::{Answer, Batch, Next, Open, State, Submitter};

/// How much of a turn goes to what is done in slices. Publishing waits that much longer while there is something.
const TIDY_MAX: Duration = Duration::from_micros(300);

/// A request, and where its answer goes.
type Asked = (Request, Answer<Reply>);

/// The writer's state.
pub(crate) struct Writer<H> {
    pub(crate) host: H,
    core: Core,
    appender: Appender,
    clock: Clock,
    /// `None` while a batch is on its way.
    committer: Option<Committer>,
    /// A batch for which the disk had no room at all; nothing else goes before it.
    stuck: Option<Job>,
    /// Whether publishes were refused in the last turn, for the log.
    disk_full: bool,
    filling: Filling,
    fetching: Fetching,
    pressure: Pressure,
    /// What a turn has taken and not decided, for want of room that what came before it took, or because it is long; by lanes, and of
    /// each in order. No lane is taken from meanwhile that would overtake it.
    put_off: VecDeque<(usize, Asked)>,
    /// How many of these are there because they are long, or behind such: the next turn decides them, or the first behind the rest.
    left: usize,
    rest: Rest,
    /// When the checkpoint that is being made was begun.
    checkpoint: Option<Instant>,
    /// Whether there is work for a turn of its own: topics that should leave memory, or a checkpoint to be captured.
    unfinished: bool,
    /// Whether somebody who asks for little waits for turns.
    in_haste: bool,
    /// Whether the batch waits for what the next turn decides.
    goes_with_next: bool,
    store: LayeredStore,
    calls: Calls,
    own: Submitter<Request, Reply>,
    journal: Submitter<(Committer, Job), journal::Committed>,
    common: Common,
}

/// What a writer is made of.
pub(crate) struct Parts<H> {
    pub(crate) host: H,
    pub(crate) core: Core,
    pub(crate) store: LayeredStore,
    pub(crate) shares: Shares,
    pub(crate) fetchers: Vec<Submitter<Vec<Want>, Found>>,
    pub(crate) appender: Appender,
    pub(crate) committer: Committer,
    pub(crate) clock: Clock,
    pub(crate) journal: Submitter<(Committer, Job), journal::Committed>,
    pub(crate) common: Common,
}

impl<H: Host> State for Writer<H> {
    type Request = Request;
    type Answer = Reply;

    fn weight(request: &Request) -> usize {
        request.weight()
    }

    fn open_lanes(&self) -> Open {
        self.open_lanes_now()
    }

    fn is_in_haste(&self) -> bool {
        self.in_haste
    }

    fn has_left(&self) -> bool {
        self.left > 0
    }

    fn update(&mut self, batch: &mut Batch<Request, Reply>) -> Next {
        match self.turn(batch) {
            Ok(sleep) => Next::Sleep(sleep),
            Err(failure) => {
                self.fail(&failure);
                Next::End
            }
        }
    }
}

impl<H: Host> Writer<H> {
    pub(crate) fn new(parts: Parts<H>, own: Submitter<Request, Reply>) -> Writer<H> {
        let Parts { mut host, mut core, store, shares, fetchers, appender, committer, clock, journal, common } = parts;
        core.set_room(shares.room);
        core.set_setup_room(shares.setup);
        core.set_turns_room(shares.turns);
        core.set_producers_room(shares.producers);
        core.notices().drain(..).for_each(|notice| common.known.note(notice));
        Writer {
            filling: Filling::new(host.now()),
            host,
            core,
            appender,
            clock,
            committer: Some(committer),
            stuck: None,
            disk_full: false,
            fetching: Fetching::new(store.clone(), fetchers),
            pressure: Pressure::new(shares),
            put_off: VecDeque::new(),
            left: 0,
            rest: Rest::default(),
            checkpoint: None,
            unfinished: false,
            in_haste: false,
            goes_with_next: false,
            store,
            calls: Calls::default(),
            own,
            journal,
            common,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Whether anything that the core wants is being read.
    pub(crate) fn is_fetching(&self) -> bool {
        self.fetching.is_waiting()
    }

    /// How many calls of the program itself have no answer yet.
    #[cfg(test)]
    pub(crate) fn open_calls(&self) -> usize {
        self.calls.open()
    }

    /// Whether publishes wait for memory.
    pub(crate) fn is_pushed_back(&self) -> bool {
        self.pressure.is_on() || self.put_off.len() > self.left
    }

    /// One turn; returns how long the writer may sleep if nothing comes.
    fn turn(&mut self, batch: &mut Batch<Request, Reply>) -> Result<Option<Duration>, Failure> {
        let now = self.host.now();
        let times = self.clock.tick(now, self.host.system());
        self.host.begins(&mut self.core, times);
        self.note_disk_full();
        // A queue that stops gives what came behind what is left, and nobody is in haste any more.
        let rests = self.in_haste && !batch.is_stopping() && self.rest.left(now).is_some();
        let (mut put_off, left) = match rests && self.is_only_left() {
            true => (VecDeque::new(), 0),
            false => (std::mem::take(&mut self.put_off), std::mem::take(&mut self.left)),
        };
        let mut open = Open::ALL;
        // What was put off for one reason is not put off for another.
        let lets_pass = self.in_haste && put_off.is_empty();
        let mut long = Long::new(lets_pass.then(|| self.host.short_runs()));
        // What was left goes with what is short and has come meanwhile, which then waits for one sync and not for two.
        self.goes_with_next = left > 0 && self.in_haste && !self.filling.is_waited_for();
        for (lane, asked) in batch.drain_lanes() {
            // A queue that stops gives what came behind it.
            while let Some((lane, asked)) = put_off.pop_front_if(|(before, _)| *before <= lane) {
                self.handle_or_put_off(lane, asked, &mut open)?;
            }
            if let Some(asked) = long.sift(lane, asked) {
                self.handle_or_put_off(lane, asked, &mut open)?;
            }
        }
        for (lane, asked) in put_off {
            self.handle_or_put_off(lane, asked, &mut open)?;
        }
        let is_long = self.handle_or_leave(long, rests, &mut open)? || left > 0;
        self.go_on_from_commands();
        self.fetching.send(self.core.wanted(), &self.own);
        self.host.dispatched(&mut self.core, self.fetching.is_waiting());
        self.appender.hold(self.core.holdings());
        self.core.notices().drain(..).for_each(|notice| self.common.known.note(notice));
        self.sort_outputs(now);
        self.goes_with_next &= !self.appender.is_full();
        if !self.goes_with_next {
            self.commit(now)?;
        }
        self.unfinished = self.tidy();
        self.pressure.look(&self.core, &self.store, &self.common.metrics, now);
        self.hold_back();
        self.note_checkpoint(now);
        self.common.metrics.note_core(&self.core);
        self.in_haste = self.host.is_in_haste(self.common.turns.is_somebody_waiting(now));
        let end = self.host.now();
        let took = end.saturating_duration_since(now);
        self.common.metrics.turn_seconds.observe(took.as_secs_f64());
        if is_long && self.in_haste {
            self.rest.begin(end, took);
        }
        Ok(self.sleep(end))
    }

    /// Whether what waits from the turns before does so for nothing but that it is long, or behind such.
    fn is_only_left(&self) -> bool {
        self.left > 0 && self.left == self.put_off.len()
    }

    /// What a turn decides behind its commands.
    fn go_on_from_commands(&mut self) {
        let mut log = Counting { log: &mut self.appender, metrics: &self.common.metrics, host: &mut self.host };
        self.core.advance(&mut log);
        self.core.set_in_haste(self.in_haste);
        self.core.dispatch(&mut log);
    }

    /// Goes on with what is done in slices between turns: a checkpoint is captured, topics leave memory. True if there is
    /// more to do.
    fn tidy(&mut self) -> bool {
        let begin = self.host.now();
        loop {
            let more = self.appender.capture(&mut self.core) | self.core.make_room();
            if !more || self.host.now() >= begin + TIDY_MAX {
                return more;
            }
        }
    }

    /// Lets wait what the core does by itself. Jobs that write wait while a checkpoint makes room that is on its way, or due: nobody
    /// else would begin one for them. They all wait where no checkpoint comes, and where no batch goes.
    fn hold_back(&mut self) {
        let is_relieved = || self.appender.is_checkpointing() || self.appender.checkpoint_due(&self.core, false);
        let is_held = self.pressure.holds_deliveries() || self.appender.is_overfull();
        self.core.hold_jobs(is_held || self.pressure.is_on_for_jobs() && is_relieved());
        self.core.hold_deliveries(is_held);
        self.core.hold_time(is_held);
    }

    fn note_disk_full(&mut self) {
        let full = self.appender.disk_full();
        self.core.set_disk_full(full);
        match (std::mem::replace(&mut self.disk_full, full), full) {
            (false, true) => tracing::warn!(
                "the disk is full: publishes are refused, finishing goes on; make room, the broker goes on by itself"
            ),
            (true, false) => tracing::info!("the disk has room again: publishes are taken"),
            _ => {}
        }
    }

    /// One request may take as much memory as there is, so it is looked before each. Memory may come back in mid-turn, too: then
    /// nothing overtakes what was put off before.
    fn handle_or_put_off(&mut self, lane: usize, mut asked: Asked, open: &mut Open) -> Result<(), Failure> {
        if open.has(lane) && self.goes_on(lane) {
            return self.handle(lane, asked);
        }
        *open = shut(*open, lane);
        asked.0.waits();
        self.put_off.push_back((lane, asked));
        self.host.puts_off();
        Ok(())
    }

    fn handle(&mut self, lane: usize, (request, answer): Asked) -> Result<(), Failure> {
        match request {
            Request::Command(ticket, command, _) if lane == BURYING => self.submit_late(ticket, command),
            Request::Command(ticket, command, buffer) => {
                if self.submit(ticket, command) == Decision::Parked {
                    self.core.detach_last_parked(small_part(buffer));
                }
            }
            Request::Call(command) => {
                let ticket = ticket(EMBEDDED, self.calls.insert(answer));
                self.submit(ticket, command);
            }
            Request::Goodbye { withdrawn, lost } => {
                let unanswered = ticket(EMBEDDED, UNANSWERED);
                Request::last_word(withdrawn, lost).for_each(|command| _ = self.submit(unanswered, command));
            }
            Request::Committed(committed) => self.take_back(*committed)?,
            Request::Fetched(found) => {
                let fetched = found.map_err(|error| self.appender.unreadable(error))?;
                let mut log = Counting { log: &mut self.appender, metrics: &self.common.metrics, host: &mut self.host };
                for answer in self.fetching.returned(fetched) {
                    self.core.load(answer, &mut log);
                }
            }
        }
        Ok(())
    }

    /// Decides what a connection has asked that makes dead letters, or comes behind such. It may have waited for
    /// long, and its session may be another connection's by then.
    fn submit_late(&mut self, ticket: Ticket, command: Command) {
        let (number, registry) = (parts(ticket).0, self.common.registry.clone());
        if Request::session(&command).is_none_or(|session| registry.speaks_for(number, session)) {
            self.submit(ticket, command);
        }
        registry.buried(number);
    }

    fn submit(&mut self, ticket: Ticket, command: Command) -> Decision {
        let command = self.host.asks(ticket, command);
        let mut log = Counting { log: &mut self.appender, metrics: &self.common.metrics, host: &mut self.host };
        // What is parked is decided when what it waits for is loaded.
        let decision = self.core.submit(ticket, command, &mut log);
        self.host.decided(decision, &mut self.core);
        decision
    }

    /// Puts each output of the turn where it waits for what it needs.
    fn sort_outputs(&mut self, now: Instant) {
        let mut at_once = Outgoing::default();
        self.common.registry.decided(self.core.outputs());
        for mut output in self.core.outputs().drain(..) {
            if let Output::Reply { reply: Reply::Namespaces { rows, .. }, .. } = &mut output {
                // The core knows of no connections.
                rows.iter_mut().for_each(|row| row.usage.connections = self.common.known.uses.count(&row.name));
            }
            let to = match level(&output) {
                Level::Durable if self.host.is_told_early(&output) => &mut self.filling.written,
                Level::Written if self.host.is_told_early(&output) => &mut at_once,
                Level::Durable => &mut self.filling.durable,
                Level::Written => &mut self.filling.written,
                Level::AtOnce => &mut at_once,
            };
            match output {
                Output::Reply { ticket, reply } if parts(ticket).0 == EMBEDDED => {
                    to.calls.extend(self.calls.remove(parts(ticket).1).map(|answer| (answer, reply)));
                }
                output => to.outputs.push(output),
            }
        }
        at_once.release(&self.common.registry);
        self.filling.note(now, self.appender.bytes());
    }

    /// A write or a sync failed, or the checkpoint is damaged: everyone is told, and nothing is decided any more.
    fn fail(&mut self, failure: &Failure) {
        tracing::error!(%failure, "the broker stops");
        self.common.health.fail(failure.to_string());
        let detail = "the broker's data directory failed; see its log".to_owned();
        self.common.registry.close_all(&Close { code: Code::StorageFailed, detail });
    }
}

/// What an output waits for.
enum Level {
    Durable,
    Written,
    /// Nothing: it tells no client of the state.
    AtOnce,
}

fn level(output: &Output) -> Level {
    use millpond_core::command::Level as Asked;
    match output {
        Output::Reply { reply: Reply::Published { level: Asked::Buffered, .. }, .. } => Level::Written,
        Output::Reply { reply: Reply::Published { level: Asked::None, .. } | Reply::Lost(_), .. } => Level::AtOnce,
        _ => Level::Durable,
    }
}
