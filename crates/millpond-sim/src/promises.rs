//! The promises of the broker, one checker a file. Each fact is held against the [model](crate::model) before the model
//! takes it in, and each answer against the model as it is when the answer is made.
//!
//! Policies, TTLs and dedup ids count as their clients asked for them, whatever the facts say: so a broker that mistakes
//! what it was asked for is caught by what it does. Nothing is said here about what a crash leaves: the facts that are gone
//! are taken back, and those who were told of them are [`crate::lost`]'s and [`crate::back`]'s business.

mod answers;
mod asked;
pub mod carried_out;
mod coalescing;
pub mod credit;
pub mod dedup;
mod duplicates;
pub mod epochs;
pub mod expiry;
pub mod failures;
pub mod fairness;
mod known;
pub mod leases;
pub mod letters;
pub mod memory;
pub mod newest;
pub mod once;
pub mod order;
mod pauses;
pub mod places;
mod quotas;
pub mod rates;
pub mod reasons;
pub mod receipts;
mod refusals;
pub mod repeats;
pub mod retention;
pub mod room;
pub mod routes;
pub mod seats;
pub mod sessions;
mod shares;
pub mod starts;
pub mod survival;
mod tallies;
pub mod terms;
pub mod told;
mod untold;
pub mod watermark;

use std::collections::{BTreeSet, VecDeque};

use millpond_core::command::Command;
use millpond_core::fact::Fact;
use millpond_core::output::Output;
use millpond_core::{Core, Now};
use millpond_server::manual::Rooms;
use millpond_types::{Millis, RunTime, WallTime};

use self::answers::Asking;
use crate::model::{Model, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Whether a promise is kept.
pub type Kept = Result<(), Violation>;

/// See the module.
pub struct Promises {
    /// Whether to print each fact.
    trace: bool,
    hash_key: [u64; 2],
    /// What is.
    pub model: Model,
    /// What survives every loss.
    durable: Model,
    /// What happened since, each with its journal position and when.
    recent: VecDeque<(u64, RunTime, Fact)>,
    now: Now,
    /// What the core is told the wall time is.
    told: WallTime,
    /// The command that is being decided, as its client sent it.
    asking: Option<Asking>,
    /// What each message was sent with, by its tag.
    wanted: asked::Wanted,
    /// Topics that something has happened to in this turn.
    touched: BTreeSet<TopicKey>,
    seats: seats::Seats,
    credits: credit::Credits,
    leases: leases::Leases,
    letters: letters::Shown,
    reasons: reasons::Reasons,
    terms: terms::Terms,
    order: order::Runs,
    overflowing: room::Overflowing,
    coalescing: coalescing::Waiting,
    fairness: fairness::Turns,
    rooms: Rooms,
    rations: memory::Rations,
    retention: retention::Retained,
    once: once::Once,
    repeats: repeats::Repeats,
    carried_out: carried_out::Asked,
    pauses_ended: pauses::Ended,
    answers: survival::Answers,
    tallies: tallies::Tallies,
    whereabouts: duplicates::Whereabouts,
    violation: Option<Violation>,
    /// What was seen.
    pub sights: Sights,
}

impl Promises {
    /// Of a broker that has not begun, in which there is so much room, and so much for leased topics.
    pub fn new(hash_key: [u64; 2], (rooms, leases_room): (Rooms, usize), trace: bool) -> Promises {
        Promises {
            trace,
            hash_key,
            model: Model::new(),
            durable: Model::new(),
            recent: VecDeque::new(),
            now: Now { run: RunTime(0), wall: WallTime(0) },
            told: WallTime(0),
            asking: None,
            wanted: asked::Wanted::default(),
            touched: BTreeSet::new(),
            seats: seats::Seats::default(),
            credits: credit::Credits::default(),
            leases: leases::Leases::default(),
            letters: letters::Shown::default(),
            reasons: reasons::Reasons::default(),
            terms: terms::Terms::default(),
            order: order::Runs::default(),
            overflowing: room::Overflowing::default(),
            coalescing: coalescing::Waiting::default(),
            fairness: fairness::Turns::default(),
            rooms,
            rations: memory::Rations::new(leases_room),
            retention: retention::Retained::default(),
            once: once::Once::default(),
            repeats: repeats::Repeats::default(),
            carried_out: carried_out::Asked::default(),
            pauses_ended: pauses::Ended::default(),
            answers: survival::Answers::default(),
            tallies: tallies::Tallies::default(),
            whereabouts: duplicates::Whereabouts::default(),
            violation: None,
            sights: Sights::default(),
        }
    }

    /// The run time of the last turn.
    pub fn ran(&self) -> RunTime {
        self.now.run
    }

    /// The broker has started, after one whose last turn was at that run time.
    pub fn started(&mut self, now: Now, ran: RunTime) -> Kept {
        self.leases.started(now.run, &self.model);
        self.terms.started(now.run, &self.model);
        // The start itself takes a turn.
        if now.run > ran + Millis::seconds(1) {
            return Err(Violation::grace(format!(
                "run time was {ran:?} in the last turn, and is {:?} at the start",
                now.run
            )));
        }
        Ok(())
    }

    /// A turn begins; the core is told that it is `told` by the wall, and by the machine's clock it is so late.
    pub fn begin(&mut self, now: Now, told: WallTime, up: RunTime) {
        (self.now, self.told) = (now, told);
        self.whereabouts.begin();
        self.leases.begin(now.run, up);
        self.terms.begin(now.run);
        self.pauses_ended.begin();
        self.retention.look(&self.model, now.wall);
    }

    /// The turn is over: what the core holds in memory is what it may.
    pub fn rests(&mut self, core: &Core, is_fetching: bool) {
        self.sights.saw_many("turns of the writer that left some to the next", u64::from(core.goes_on_at_once()));
        if is_fetching || core.has_jobs_on_hold() {
            self.retention.is_kept();
        } else if self.violation.is_none() {
            let kept = self.retention.rests(&self.model, self.now, &mut self.sights);
            self.note(kept);
        }
        if self.violation.is_none() {
            let kept = memory::rests(core, self.rooms.topics, &self.model, &mut self.sights)
                .and_then(|()| self.pauses_ended.rests(core, &self.model, self.told))
                .and_then(|()| self.rations.rests(core, &self.model, &mut self.sights))
                .and_then(|()| shares::rests(core, &self.model, &self.rooms, &mut self.sights))
                .and_then(|()| self.tallies.rests(core, &self.model, &mut self.sights));
            self.note(kept);
        }
    }

    /// The time as the core has it.
    fn by_core(&self) -> Now {
        Now { wall: self.told, ..self.now }
    }

    /// Something has happened.
    pub fn happened(&mut self, fact: &Fact, position: u64) {
        if self.violation.is_some() {
            return;
        }
        let fact = self.as_asked(fact);
        if self.trace {
            println!("  fact {position} {fact:?}");
        }
        if let Err(violation) = self.hold(&fact) {
            self.violation = Some(violation);
            return;
        }
        if let Some((topic, group)) = fact.topic() {
            let groups = self.model.groups.keys().filter(|of| group.is_none_or(|group| group == **of));
            self.touched.extend(groups.map(|group| (*group, topic)));
        }
        self.whereabouts.happens(&self.model, &fact, self.by_core());
        self.carried_out.happened(&fact);
        self.model.follow(&fact, self.now.run);
        if let Some(Asking { uses: Some(uses), stored, .. }) = &mut self.asking {
            uses.happened(&self.model, &fact, stored.len());
        }
        self.overflowing.published(&self.model, &fact);
        if retention::Retained::grows_by(&fact) {
            self.retention.look(&self.model, self.now.wall);
        }
        self.recent.push_back((position, self.now.run, fact));
    }

    fn hold(&mut self, fact: &Fact) -> Kept {
        let Promises { model, now, told, sights, .. } = self;
        let by_core = Now { wall: *told, ..*now };
        let asked = self.asking.as_ref().map(|asking| &asking.command);
        known::check(model, fact, *now, sights)?;
        self.overflowing.happens(model, fact, sights)?;
        self.reasons.happened(model, fact, asked.is_some(), sights)?;
        newest::happened(model, fact, now.wall, sights)?;
        self.leases.happened(model, fact, asked, sights)?;
        self.rations.happens(model, fact, sights);
        starts::finished(model, fact, now.wall)?;
        match fact {
            Fact::Leased { .. } => {
                expiry::leased(model, fact, *now)?;
                self.once.leased(fact)?;
                epochs::leased(model, fact, sights)?;
                coalescing::leased(model, fact)?;
                rates::leased(model, fact, now.run, sights)?;
                self.fairness.leased(model, fact, now.wall);
                self.order.leased(model, fact, now.wall, sights)
            }
            Fact::TopicCreated { .. } => room::created(model, fact, asked, sights),
            Fact::TopicVanished { .. } => rates::vanished(model, fact, now.run, sights),
            Fact::Paused { .. } => match asked {
                Some(Command::Pause { .. } | Command::Resume { .. }) => Ok(()),
                _ => self.pauses_ended.ended(model, fact, *told, sights),
            },
            Fact::Acked { .. } => order::acked(model, fact, sights),
            Fact::Published { topic, except, .. } => {
                starts::published(model, *topic, except)?;
                places::published(fact, self.wanted.delay_of(fact), by_core, sights)?;
                room::published(model, fact, asked, sights)?;
                coalescing::published(model, fact, self.wanted.priority_of(fact), sights)?;
                dedup::published(model, fact)
            }
            Fact::NamespaceSet { number, .. } => {
                self.coalescing.changed(*number);
                self.fairness.changed(model, *number);
                carried_out::set(model, *number, asked, sights)
            }
            Fact::Superseded { .. } => coalescing::superseded(model, fact, asked, *now, sights),
            Fact::Rescheduled { .. } => places::rescheduled(fact, asked, by_core, sights),
            Fact::Returned { .. } => {
                failures::returned(model, fact, sights)?;
                places::returned(model, fact, asked, *now, sights)
            }
            Fact::Died { .. } => {
                expiry::died(model, fact, now.wall, sights)?;
                failures::died(model, fact, sights)?;
                told::died(fact, asked, sights)
            }
            Fact::Ended { .. } => {
                expiry::ended(model, fact, now.wall, sights)?;
                self.retention.ended(model, fact, sights)
            }
            Fact::Redriven { .. } => dedup::redriven(model, fact, *told),
            Fact::Extended { group, .. } => self.terms.extended(model, *group, asked),
            Fact::OfficeTaken { .. } => self.terms.taken(model, fact),
            Fact::OfficeLeft { .. } => self.terms.left(model, fact, asked, &self.leases, sights),
            Fact::Copied { .. } => starts::copied(model, fact, now.wall, sights),
            Fact::GroupStarted { group } => starts::started(model, *group, now.wall, sights),
            _ => Ok(()),
        }
    }

    /// The journal ends at this position now.
    pub fn go_back(&mut self, position: u64) {
        self.recent.retain(|(at, ..)| *at < position);
        self.model = self.durable.clone();
        for (_, run, fact) in &self.recent {
            self.model.follow(fact, *run);
        }
        self.asking = None;
        self.touched.clear();
        self.seats = seats::Seats::default();
        self.credits = credit::Credits::default();
        self.leases = leases::Leases::default();
        self.letters = letters::Shown::default();
        self.reasons = reasons::Reasons::default();
        self.terms = terms::Terms::default();
        self.order = order::Runs::default();
        self.overflowing = room::Overflowing::default();
        self.coalescing = coalescing::Waiting::of(&self.model);
        self.fairness = fairness::Turns::default();
        self.rations.go_back();
        self.tallies.go_back();
        self.retention = retention::Retained::default();
        self.repeats = repeats::Repeats::default();
        self.carried_out = carried_out::Asked::default();
        self.whereabouts = duplicates::Whereabouts::default();
        self.answers = survival::Answers::default();
        let kept = self.once.go_back(&self.model);
        self.note(kept);
    }

    /// What stands before this position survives every loss.
    pub fn settle(&mut self, position: u64) {
        while let Some((_, run, fact)) = self.recent.pop_front_if(|(at, ..)| *at < position) {
            self.durable.follow(&fact, run);
        }
    }

    /// Answers were made in a turn.
    pub fn made(&mut self, outputs: &[Output]) {
        self.reasons.made(outputs);
        self.answers.made(outputs, self.recent.back().map(|(at, ..)| *at));
        if self.violation.is_none() {
            let kept = self.judge_outputs(outputs);
            self.note(kept);
        }
    }

    /// An output was told.
    pub fn told(&mut self, output: &Output) {
        self.once.told(output);
        let kept = self.answers.told(output, self.recent.front().map(|(at, ..)| *at), &mut self.sights);
        self.note(kept);
    }

    /// The first promise that was not kept.
    pub fn verdict(&mut self) -> Kept {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// One was not kept.
    pub fn broken(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    fn note(&mut self, kept: Kept) {
        if let Err(violation) = kept {
            self.violation.get_or_insert(violation);
        }
    }
}
