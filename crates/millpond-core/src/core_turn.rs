//! The core as the shell sees it, and the contract of a turn.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use millpond_types::{Code, GroupKind, GroupName, Millis, NamespaceName, Policy, Rules, Start};

use crate::command::{Command, Ticket};
use crate::decide::dedup::LookedUp;
use crate::decide::overflow::Dropping;
use crate::dispatch::Dispatcher;
use crate::fact::{Fact, FactLog};
use crate::fetch::Fetching;
use crate::jobs::Jobs;
use crate::jobs::retaining::Retaining;
use crate::left_behind::LeftBehind;
use crate::output::{Holdings, Notice, Output, Reply};
use crate::parking::Parking;
use crate::state::bounds::LevelBounds;
use crate::state::numbers::RAISE;
use crate::state::{Now, State};
use crate::store::{Shelf, Store};

/// The state machine. One thread owns it.
///
/// **Starting.** [`Core::create`] for a fresh directory; else [`Core::recover`] with the newest checkpoint, then
/// [`Core::apply`] with each fact of the journal behind it, before which [`Core::recall`] hands in what it
/// [needs](Core::needs); then [`Core::start`], once.
///
/// **A turn** is: [`Core::set_time`], [`Core::submit`] for each command that waits, [`Core::advance`],
/// [`Core::dispatch`]. It appends facts to the log that it is given; all facts of a turn must become durable together.
/// The shell takes [`Core::outputs`], [`Core::notices`] and [`Core::holdings`] after each turn, and tells nobody of an output before the
/// turn's facts are durable.
///
/// **Topics not in memory.** A command that needs topics whose contents are in the store is parked, and what it needs
/// stands in [`Core::wanted`]. The shell fetches that and hands it in with [`Core::load`], late and in any order; then
/// the command is decided. Later commands on those topics queue behind it, all others pass.
pub struct Core {
    pub(crate) state: State,
    pub(crate) dispatcher: Dispatcher,
    /// Bytes that all may take which facts keep and clients set up.
    pub(crate) setup_max: usize,
    pub(crate) parking: Parking,
    /// Of the publish that is decided next.
    pub(crate) looked_up: LookedUp,
    pub(crate) dropping: Dropping,
    pub(crate) jobs: Jobs,
    pub(crate) retaining: Retaining,
    /// The leases of sessions that are over.
    pub(crate) left_behind: LeftBehind,
    pub(crate) fetching: Fetching,
    pub(crate) is_crowded: bool,
    /// Whether what time brings waits.
    pub(crate) is_time_held: bool,
    /// Topics that were looked at in a row, and none could leave memory.
    pub(crate) stayed: usize,
    pub(crate) outputs: Vec<Output>,
    pub(crate) disk_full: bool,
    /// Messages that were refused because of a quota.
    pub(crate) over_quota: u64,
    /// Messages that an exchange led nowhere and dropped.
    pub(crate) unroutable: u64,
}

/// What became of a submitted command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It was decided. Its answer, if it has one by now, is among the outputs.
    Decided,
    /// It needs topics that are not in memory, or comes behind a command that does.
    Parked,
}

/// How long after a start no lease expires, so that consumers can come back and resume.
const GRACE: Millis = Millis::seconds(10);

impl Core {
    /// The core of a fresh directory. `hash_key` is drawn at random by the shell.
    pub fn create(hash_key: [u64; 2], store: Box<dyn Store>, log: &mut dyn FactLog) -> Core {
        let mut core = Core::empty(hash_key, store);
        core.commit(Fact::Created { hash_key }, log);
        let (name, policy, rules) = (NamespaceName::default(), Policy::default(), Rules::default());
        core.commit(Fact::NamespaceSet { number: 0, name, policy, rules, version: 1 }, log);
        let (name, start, kind) = (GroupName::default(), Start::Latest, GroupKind::Shared);
        core.commit(Fact::GroupCreated { group: 0, namespace: 0, name, start, kind }, log);
        core
    }

    /// A core that knows nothing, to which the facts of a journal are applied from its beginning.
    pub fn empty(hash_key: [u64; 2], store: Box<dyn Store>) -> Core {
        Core {
            state: State::new(hash_key, store),
            dispatcher: Dispatcher { living_max: usize::MAX, ..Dispatcher::default() },
            setup_max: usize::MAX,
            parking: Parking::new(hash_key),
            looked_up: LookedUp::default(),
            dropping: Dropping::default(),
            jobs: Jobs::default(),
            retaining: Retaining::default(),
            left_behind: LeftBehind::default(),
            fetching: Fetching::default(),
            is_crowded: false,
            is_time_held: false,
            stayed: 0,
            outputs: Vec::new(),
            disk_full: false,
            over_quota: 0,
            unroutable: 0,
        }
    }

    /// Makes a fact of the journal true again. `position` is what [`FactLog::append`] returned for it. What the fact has
    /// changed of what is needed stands in [`Core::holdings`] until the next one.
    pub fn apply(&mut self, fact: &Fact, position: u64) {
        self.state.holdings.clear();
        self.state.apply(fact, position);
        self.state.settle_touched();
    }

    /// How much of each level stays in memory, of the topics that come into it from here on.
    pub fn set_bounds(&mut self, bounds: LevelBounds) {
        self.state.bounds = bounds;
    }

    /// Begins service after a replay. With `raise`, which is due after anything but an orderly stop, all numbers given
    /// out from here on lie above any that may have been told and lost. What this appends must be durable before
    /// anything is told: lost again, it would raise the next start no further.
    pub fn start(&mut self, now: Now, raise: bool, log: &mut dyn FactLog) {
        self.state.now = now;
        self.state.holdings.clear();
        self.state.end_replay();
        self.state.notices = self.state.all_notices();
        for (number, group) in self.state.groups.iter() {
            for shelf in Shelf::all() {
                self.dispatcher.found_cold(number, shelf, group.cold[shelf.index()]);
            }
        }
        if raise {
            let floor = self.state.numbers.floor().max(self.state.numbers.next_topic) + RAISE;
            self.commit(Fact::Raised { floor }, log);
        }
        // Where nobody has anything there is nobody to wait for.
        let is_awaited = !self.state.leases.is_empty() || self.state.is_led();
        self.dispatcher.grace = if is_awaited { now.run + GRACE } else { now.run };
        for id in self.state.holders_in_order() {
            self.dispatcher.restore(id, now.run, now.run + GRACE);
        }
        self.dispatcher.restore_offices(&self.state);
    }

    /// Begins a turn. Neither time may go back.
    pub fn set_time(&mut self, now: Now) {
        assert!(now.run >= self.state.now.run && now.wall >= self.state.now.wall, "time never goes back");
        self.state.now = now;
        self.jobs.set_room();
        self.left_behind.set_room();
        for session in core::mem::take(&mut self.state.emptied) {
            self.dispatcher.give_way(session, &mut self.state);
        }
    }

    /// Decides a command, or parks it until what it needs is loaded.
    pub fn submit(&mut self, ticket: Ticket, mut command: Command, log: &mut dyn FactLog) -> Decision {
        if let Command::Route(route) = &mut command {
            self.route_anew(route);
        }
        match self.park(ticket, command) {
            None => Decision::Parked,
            Some(command) => {
                self.decide(ticket, command, log);
                Decision::Decided
            }
        }
    }

    /// What there is to tell, in order. The shell drains it.
    pub fn outputs(&mut self) -> &mut Vec<Output> {
        &mut self.outputs
    }

    /// What has changed of what is needed of the journal. The shell drains it.
    pub fn holdings(&mut self) -> &mut Holdings {
        &mut self.state.holdings
    }

    /// What edges have to know by now. The shell drains it, and tells them before any output of the turn.
    pub fn notices(&mut self) -> &mut Vec<Notice> {
        self.state.notify_rebound();
        self.state.notify_held();
        &mut self.state.notices
    }

    /// Whether publishes are refused because the disk has no room.
    pub fn set_disk_full(&mut self, full: bool) {
        self.disk_full = full;
    }

    /// Lets wait what goes over many entries and changes them, though nobody waits for what a turn does of it: purges, the start
    /// and the end of groups, retention and the like. The shell holds them for as long as the disk does not take what is
    /// changed as fast as they change it, and no longer than until a checkpoint that was begun, or is due, or a batch that is on its way,
    /// is written.
    ///
    /// So does what becomes of messages whose TTL has passed, where it is dead letters: nobody is given them any more, and it is
    /// decided later.
    pub fn hold_jobs(&mut self, on_hold: bool) {
        self.jobs.hold(on_hold);
        if !on_hold && !self.is_time_held {
            self.state.wall_timers.let_go();
            self.state.piece_timers.wall.let_go();
        }
    }

    /// Lets wait what time brings: delays and pauses that are over, TTLs, tokens of rates, ageing, and the topics in the store that
    /// they are of. Each is a fact and most change an entry, and there are as many as there are messages. The shell holds them where
    /// neither a checkpoint nor a batch can be written, with deliveries. All of it comes afterwards, in order.
    ///
    /// The ends of leases, sessions and offices are not among it: there are no more of them than were given before.
    pub fn hold_time(&mut self, on_hold: bool) {
        if core::mem::replace(&mut self.is_time_held, on_hold) && !on_hold {
            let State { run_timers, wall_timers, piece_timers, .. } = &mut self.state;
            run_timers.let_go();
            wall_timers.let_go();
            piece_timers.run.let_go();
            piece_timers.wall.let_go();
        }
    }

    /// Whether what time brings is held.
    pub fn is_time_held(&self) -> bool {
        self.is_time_held
    }

    /// Whether anything is going on that goes over many topics or dead letters.
    pub fn has_jobs(&self) -> bool {
        self.jobs.are_any()
    }

    /// Whether anything waits because jobs or time are held. A shell that has held them asks itself soon whether they still have
    /// to be.
    pub fn has_jobs_on_hold(&self) -> bool {
        self.jobs.any_on_hold() || self.has_time_on_hold()
    }

    /// Whether what TTLs end waits because jobs are held, or anything that time brings because that is.
    pub fn has_time_on_hold(&self) -> bool {
        let State { run_timers, wall_timers, piece_timers, .. } = &self.state;
        let is_pause_held = self.is_time_held && self.state.next_pause_over().is_some();
        let timers = run_timers.any_held() || wall_timers.any_held();
        timers || piece_timers.run.any_held() || piece_timers.wall.any_held() || is_pause_held
    }

    /// The key of the directory's hashes.
    pub fn hash_key(&self) -> [u64; 2] {
        self.state.hash_key
    }

    /// The times of the last turn.
    pub fn now(&self) -> Now {
        self.state.now
    }

    /// How long until a turn has something to do without a command; `None` if never.
    pub fn next_wake(&self) -> Option<Millis> {
        if self.jobs.any()
            || self.left_behind.any()
            || self.has_asked_by_state()
            || !self.state.sweeps.is_empty()
            || !self.state.touched.is_empty()
            || self.has_rationed_to_look_at()
            || self.goes_on_at_once()
            || self.is_held_at_hand()
        {
            return Some(Millis::ZERO);
        }
        let Now { run, wall } = self.state.now;
        let run_timer = self.state.run_timers.next();
        // Receives whose time is up wait for what is being fetched, and that brings a turn of its own.
        let waiting = self.dispatcher.waiting.first().map(|(until, _)| until.0).filter(|_| !self.is_fetching());
        let losing = self.dispatcher.losing.first().map(|(at, _)| at.0);
        let office = self.dispatcher.offices.next().map(|at| at.0);
        let retaining = self.next_retaining().map(|at| at.0);
        // Where enough pieces are on their way, those bring turns of their own.
        let [run_pieces, wall_pieces] = match self.has_room_for_due_pieces() {
            true => [self.state.piece_timers.run.next(), self.state.piece_timers.wall.next()],
            false => [None, None],
        };
        let pause = self.state.pause_ends.first().map(|(until, ..)| until.0).filter(|_| !self.is_time_held);
        let in_wall = [self.state.wall_timers.next(), wall_pieces, pause].into_iter().flatten();
        let in_wall = in_wall.map(|at| at.saturating_sub(wall.0));
        let brought = self.state.next_brought().map(|at| at.0);
        let in_run = [run_timer, run_pieces, waiting, losing, office, retaining, brought].into_iter().flatten();
        let in_run = in_run.map(|at| at.saturating_sub(run.0));
        in_run.chain(in_wall).chain(self.next_look_ahead()).min().map(Millis)
    }

    /// Begins a checkpoint of the state behind the last turn. The one before must have been written.
    pub fn freeze(&mut self) {
        self.state.freeze();
    }

    /// Goes on with the checkpoint, by at most so many topics, fewer where they hold much; true when it is complete, and the
    /// store has been told to seal it. Turns may come in between.
    pub fn capture(&mut self, topics: usize) -> bool {
        self.state.capture(topics)
    }

    /// How many topics have changed since the last checkpoint began, and are in memory as they are.
    pub fn changed(&self) -> usize {
        self.state.changed.len()
    }

    /// Whether a checkpoint was begun and is not complete.
    pub fn is_capturing(&self) -> bool {
        self.state.capture.is_some()
    }

    pub(crate) fn commit(&mut self, fact: Fact, log: &mut dyn FactLog) {
        if self.state.groups.are_starting() {
            self.save_what_ends(&fact, log);
        }
        if let Some((topic, group)) = fact.topic() {
            while let Some(recalled) = self.state.recall(topic, group) {
                let position = log.append(&recalled);
                self.state.apply(&recalled, position);
            }
        }
        let position = log.append(&fact);
        self.state.apply(&fact, position);
    }

    pub(crate) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.outputs.push(Output::Reply { ticket, reply });
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, code: Code, detail: impl Into<String>) {
        self.reply(ticket, Reply::Refused { code, detail: detail.into(), receipts: 0 });
    }
}
