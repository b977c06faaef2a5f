//! A history, run on a core with a store beside it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_core::page::{AsidePage, AsideState, Page, RunPage};
use millpond_core::store::Want;
use millpond_core::{Core, Decision, Now, invariants};
use millpond_types::block::Sizes;
use millpond_types::{
    Filter, GroupName, LeaseNumber, MessageId, Millis, NamespaceName, PausedTopics, Priority, PublishOutcome, Receipt,
    RunTime, Sequence, SessionId, TopBy, WallTime,
};

use super::{Change, PREFIXES, Round};
use crate::checkpoint::{self, canonical};
use crate::history::{Known, TOPICS, name, publish_run, set_policy};
use crate::journal::Journal;
use crate::moves::moves;
use crate::shell::HASH_KEY;
use crate::store::SharedStore;

/// A core with a store beside it.
pub struct Run {
    pub core: Core,
    pub journal: Journal,
    pub now: Now,
    pub store: SharedStore,
    /// Whether a checkpoint is complete and not written.
    is_sealed: bool,
    /// What the core wants and was not given yet.
    pub wanted: Vec<Want>,
    /// What decides when topics leave and when they come back; where there is none, they never leave.
    pub chances: Vec<u64>,
    pub chance: usize,
    pub tickets: u64,
    pub known: Known,
    pub ids: BTreeMap<Ticket, Vec<usize>>,
    /// Commands whose answers depend on what was decided before them.
    pub unanswered: BTreeSet<Ticket>,
    /// Lists that are asked for while topics change: each topic is shown once, as it is at some moment meanwhile.
    pub names_only: BTreeSet<Ticket>,
    pub messages: Vec<(usize, MessageId)>,
    /// Those of this round, which no command names before the next one.
    pub new_messages: Vec<(usize, MessageId)>,
    pub answers: BTreeMap<Ticket, String>,
    pub received: Vec<LeasedRun>,
    pub delivered: Vec<String>,
}

impl Run {
    pub fn new(chances: Vec<u64>) -> Run {
        let mut journal = Journal::default();
        let store = SharedStore::default();
        let mut core = Core::create(HASH_KEY, Box::new(store.clone()), &mut journal);
        let now = Now { run: RunTime(0), wall: WallTime(0) };
        core.start(now, false, &mut journal);
        let mut run = Run {
            core,
            journal,
            now,
            store,
            is_sealed: false,
            wanted: Vec::new(),
            chances,
            chance: 0,
            tickets: 0,
            known: Known::default(),
            ids: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            names_only: BTreeSet::new(),
            messages: Vec::new(),
            new_messages: Vec::new(),
            answers: BTreeMap::new(),
            received: Vec::new(),
            delivered: Vec::new(),
        };
        run.submit(vec![set_policy(0, 1)]);
        for topic in TOPICS {
            let anchor = run.anchor(topic);
            run.submit(vec![anchor]);
        }
        run
    }

    pub fn round(&mut self, round: &Round) {
        for change in &round.changes {
            let commands = self.commands(change);
            // These go on for as long as it takes, and others pass.
            let is_alone = match change {
                Change::Redrive(_) | Change::Purge(_) | Change::PurgePrefix(_) => true,
                Change::List { quiet, .. } => *quiet,
                _ => false,
            };
            if is_alone {
                self.settle();
            }
            self.submit(commands);
            let purged = match change {
                Change::Purge(at) => TOPICS[*at],
                Change::PurgePrefix(at) => PREFIXES[*at],
                _ => "-",
            };
            if let Change::PurgePrefix(_) = change {
                self.touch_all_but(purged);
            }
            if is_alone {
                self.settle();
            }
            for topic in TOPICS.into_iter().filter(|topic| topic.starts_with(purged)) {
                let anchor = self.anchor(topic);
                self.submit(vec![anchor]);
                self.settle();
            }
        }
        self.settle();
        if let Some((at, stop)) = round.pause {
            let (namespace, topics) = (NamespaceName::default(), PausedTopics::from(&name(TOPICS[at])));
            self.submit(vec![match stop {
                true => Command::Pause { namespace, topics, lasts: None },
                false => Command::Resume { namespace, topics },
            }]);
        }
        let receive = Command::Receive(Receive {
            namespace: NamespaceName::default(),
            group: GroupName::default(),
            filter: Filter::Topics(vec![name(TOPICS[round.topic])]),
            messages: round.messages,
            bytes: 1_000_000,
            lease: None,
            wait: Millis(0),
            at_most_once: false,
            request: None,
            call: 0,
        });
        self.received.clear();
        self.submit(vec![receive]);
        self.settle();
        let verbs = round.verbs.iter().cycle();
        let finishes: Vec<Command> = receipts(&self.received).zip(verbs).filter_map(finish).collect();
        for finish in finishes {
            self.evict();
            let ticket = self.ticket();
            let decision = self.core.submit(ticket, finish, &mut self.journal);
            assert_eq!(decision, Decision::Decided, "finishing is never parked");
            self.end_turn();
        }
        self.settle();
        self.now = Now { run: RunTime(self.now.run.0 + round.pass), wall: WallTime(self.now.wall.0 + round.pass) };
        self.submit(Vec::new());
        self.settle();
        self.new_messages.sort();
        self.messages.append(&mut self.new_messages);
    }

    /// Gives everything that is ready to one consumer; what it was given, with the lease numbers.
    pub fn drain(&mut self) -> Vec<String> {
        self.attach();
        self.settle();
        self.delivered.sort();
        std::mem::take(&mut self.delivered)
    }

    /// A consumer of everything, with more credit than there are messages.
    pub fn attach(&mut self) {
        let (session, namespace, group) = (SessionId(1), NamespaceName::default(), GroupName::default());
        self.submit(vec![Command::SessionBegin(SessionBegin { session, resume: Millis(1000), held: Vec::new() })]);
        let (messages, bytes) = (10_000, 1_000_000);
        let attach = Attach {
            session,
            consumer: 1,
            namespace,
            group,
            filter: Filter::All,
            messages,
            bytes,
            lease: None,
            at_most_once: false,
        };
        self.submit(vec![Command::Attach(attach)]);
    }

    /// The whole state.
    pub fn pages(&mut self) -> Vec<Page> {
        let mut pages = canonical(self.core.pages());
        for page in &mut pages {
            match page {
                Page::Topic(topic) => topic.levels.iter_mut().for_each(|level| {
                    level.runs = level.runs.iter().flat_map(|run| self.each(run)).collect();
                    level.aside = level.aside.iter().flat_map(|aside| self.each_aside(aside)).collect();
                }),
                Page::Dead(dead) => dead.run = self.each(&dead.run).remove(0),
                _ => {}
            }
        }
        pages
    }

    /// The messages of a run one by one: where it was cut depends on who else had a turn. Where a block lies is told by
    /// its message, since the journals of two runs are in different orders.
    fn each(&self, run: &RunPage) -> Vec<RunPage> {
        let mut rest = run.clone();
        let one = |body: String| RunPage {
            position: body.trim_start_matches('m').parse().unwrap(),
            sizes: Sizes::Uniform(0),
            ..rest.split_front(1).compact()
        };
        self.journal.read(run.extent()).into_iter().map(one).collect()
    }

    fn each_aside(&self, aside: &AsidePage) -> Vec<AsidePage> {
        let one = |(n, run)| {
            let state = match aside.state {
                AsideState::Leased { lease, run, holder, duration, deadline } => {
                    AsideState::Leased { lease: LeaseNumber(lease.0 + n), run, holder, duration, deadline }
                }
                state => state,
            };
            AsidePage { run, state, ..aside.clone() }
        };
        (0..).zip(self.each(&aside.run)).map(one).collect()
    }

    fn commands(&mut self, change: &Change) -> Vec<Command> {
        let namespace = NamespaceName::default();
        let topic = |at: usize| TopicRef { namespace: NamespaceName::default(), name: name(TOPICS[at]) };
        match change {
            Change::Publish { topics, priority, count, delay, dedup, repeats } => {
                let (priority, delay) = (Priority::new(*priority).unwrap(), Millis(*delay));
                let runs = topics.iter().map(|at| publish_run(&mut self.known, TOPICS[*at], *count, *dedup));
                let runs: Vec<_> = runs.map(|run| PublishRun { priority, delay, ..run }).collect();
                // Batches of one session: none may overtake another.
                let producer = Some(self.known.next_batch(topics[0]));
                let publish = Command::Publish(Publish { namespace, producer, level: Level::Durable, runs });
                let of: Vec<usize> = topics.iter().flat_map(|at| vec![*at; *count as usize]).collect();
                self.ids.insert(Ticket(self.tickets + 1), of);
                if *repeats { vec![publish.clone(), publish] } else { vec![publish] }
            }
            Change::Cancel(index) => {
                let found = self.message(*index);
                found.map(|(at, id)| Command::Cancel { topic: topic(at), which: Which::Id(id) }).into_iter().collect()
            }
            Change::Reschedule(index, delay) => {
                let (found, delay) = (self.message(*index), Millis(*delay));
                let command = |(at, id)| Command::Reschedule { topic: topic(at), which: Which::Id(id), delay };
                found.map(command).into_iter().collect()
            }
            Change::Look(at) => {
                vec![Command::Look(Look { topic: topic(*at), which: LookWhich::First(100), group: None })]
            }
            Change::Topic(at) => vec![Command::Topic(topic(*at))],
            Change::Purge(at) => {
                vec![Command::Purge { namespace, filter: Filter::Topics(vec![name(TOPICS[*at])]), group: None }]
            }
            Change::PurgePrefix(at) => {
                let filter = match PREFIXES[*at] {
                    "" => Filter::All,
                    prefix => Filter::Prefixes(vec![name(prefix)]),
                };
                vec![Command::Purge { namespace, filter, group: None }]
            }
            Change::List { prefix, top, quiet } => {
                let (prefix, limit) = (Bytes::from(PREFIXES[*prefix]), 100);
                if !quiet {
                    self.names_only.insert(Ticket(self.tickets + 1));
                }
                vec![match top {
                    true => {
                        Command::Top(Top { namespace, group: GroupName::default(), prefix, by: TopBy::Depth, limit })
                    }
                    false => {
                        let listing = Listing { namespace, prefix, after: Bytes::new(), limit };
                        Command::Topics { listing, group: GroupName::default() }
                    }
                }]
            }
            Change::Move(index) => {
                let moves = moves(&self.journal.facts);
                let of = moves.len().checked_sub(1).map(|last| moves[last - index % moves.len().min(40)].clone());
                self.unanswered.insert(Ticket(self.tickets + 1));
                of.into_iter().collect()
            }
            Change::Redrive(at) => {
                let which = DeadWhich::Filter(Filter::Topics(vec![name(TOPICS[*at])]));
                vec![Command::DeadRedrive { namespace, group: GroupName::default(), which }]
            }
        }
    }

    /// Brings all topics into memory, and changes those without a prefix.
    fn touch_all_but(&mut self, prefix: &str) {
        for topic in TOPICS {
            if topic.starts_with(prefix) {
                self.unanswered.insert(Ticket(self.tickets + 1));
                let topic = TopicRef { namespace: NamespaceName::default(), name: name(topic) };
                self.submit(vec![Command::Look(Look { topic, which: LookWhich::First(1), group: None })]);
            } else {
                let anchor = self.anchor(topic);
                self.submit(vec![anchor]);
            }
        }
    }

    fn anchor(&mut self, topic: &str) -> Command {
        let run = publish_run(&mut self.known, topic, 1, None);
        let runs = vec![PublishRun { priority: Priority::new(0).unwrap(), ..run }];
        let namespace = NamespaceName::default();
        Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs })
    }

    fn message(&self, index: usize) -> Option<(usize, MessageId)> {
        self.messages.get(index % self.messages.len().max(1)).copied()
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Gives a command in a turn of its own, in which the disk tells nothing.
    pub fn give(&mut self, command: Command) -> Ticket {
        let ticket = self.ticket();
        self.core.set_time(self.now);
        self.core.submit(ticket, command, &mut self.journal);
        self.end_turn();
        ticket
    }

    pub fn answer(&self, ticket: Ticket) -> Option<String> {
        self.answers.get(&ticket).cloned()
    }

    pub fn submit(&mut self, commands: Vec<Command>) {
        self.evict();
        self.core.set_time(self.now);
        for command in commands {
            let ticket = self.ticket();
            self.core.submit(ticket, command, &mut self.journal);
        }
        self.load_some();
        self.end_turn();
    }

    fn end_turn(&mut self) {
        self.core.advance(&mut self.journal);
        self.core.dispatch(&mut self.journal);
        self.wanted.append(self.core.wanted());
        invariants::check(&self.core);
        for output in std::mem::take(self.core.outputs()) {
            self.take_note(output);
        }
    }

    /// Turns until nothing is wanted any more.
    fn settle(&mut self) {
        while !self.wanted.is_empty() || self.core.next_wake() == Some(Millis::ZERO) {
            if self.chances.is_empty() {
                // Nothing leaves memory, and what is in the store alone comes at once.
                self.bring_everything();
            }
            self.submit(Vec::new());
        }
    }

    /// Lets topics go and checkpoints be made, by chance.
    fn evict(&mut self) {
        if self.chances.is_empty() {
            return;
        }
        let room = [0, 3000, usize::MAX][self.draw() as usize % 3];
        let sessions = self.draw() as usize % 3;
        self.core.set_room(room);
        self.core.set_producers_resident(sessions);
        if self.core.is_capturing() {
            let slice = self.draw() as usize % 3;
            self.is_sealed = self.core.capture(slice);
        } else if self.is_sealed {
            if self.draw().is_multiple_of(2) {
                self.store.model().write_sealed();
                self.is_sealed = false;
            }
        } else if self.draw().is_multiple_of(3) {
            self.core.freeze();
        }
    }

    /// Lets all topics go to the disk that can do without memory.
    pub fn evict_all(&mut self) {
        self.core.freeze();
        while !self.core.capture(1) {}
        self.store.model().write_sealed();
        self.core.set_room(0);
        self.core.set_producers_resident(0);
        while self.core.make_room() {}
    }

    /// Goes on with a core that begins with the last checkpoint and the facts behind it; these are given.
    pub fn recover(&mut self, behind: usize) {
        self.store = self.store.crashed();
        self.core = checkpoint::recover(&self.store, &[]);
        self.wanted.clear();
        let facts = &self.journal.facts[self.journal.facts.len() - behind..];
        loop {
            let wants: BTreeSet<Want> = facts.iter().filter_map(|(fact, _)| self.core.needs(fact)).collect();
            if wants.is_empty() {
                break;
            }
            wants.into_iter().for_each(|want| self.core.recall(self.store.fetch(want)));
        }
        facts.iter().for_each(|(fact, position)| self.core.apply(fact, *position));
        self.core.start(self.now, false, &mut self.journal);
    }

    /// Brings all that is wanted, in a turn.
    pub fn bring_all(&mut self) {
        for want in std::mem::take(&mut self.wanted) {
            self.load(want);
        }
        self.end_turn();
    }

    /// Brings what is wanted, and what is wanted then.
    pub fn bring_everything(&mut self) {
        while !self.wanted.is_empty() {
            self.bring_all();
        }
    }

    /// Brings the first thing that is wanted, in a turn.
    pub fn bring_one(&mut self) {
        let want = self.wanted.remove(0);
        self.load(want);
        self.end_turn();
    }

    /// Brings some of what is wanted, in any order.
    fn load_some(&mut self) {
        while !self.wanted.is_empty() && !self.draw().is_multiple_of(3) {
            let at = self.draw() as usize % self.wanted.len();
            let want = self.wanted.swap_remove(at);
            self.load(want);
        }
    }

    fn load(&mut self, want: Want) {
        let answer = self.store.fetch(want);
        self.core.load(answer, &mut self.journal);
        self.wanted.append(self.core.wanted());
    }

    fn draw(&mut self) -> u64 {
        self.chance += 1;
        let seed = self.chances.get(self.chance % self.chances.len().max(1)).copied().unwrap_or(0);
        // The list is short: each time round it says something else.
        (seed >> (self.chance / self.chances.len().max(1) % 48)) & 0xffff
    }

    fn take_note(&mut self, output: Output) {
        match output {
            Output::Reply { ticket, .. } if self.unanswered.contains(&ticket) => {}
            Output::Reply { ticket, reply: Reply::Published { outcomes, .. } } => {
                let mut topics = self.ids.remove(&ticket).unwrap_or_default().into_iter();
                for run in &outcomes {
                    for n in 0..u64::from(run.count) {
                        if let (Some(at), PublishOutcome::Queued { id }) = (topics.next(), &run.outcome) {
                            let id = MessageId { sequence: Sequence(id.sequence.0 + n), ..*id };
                            self.new_messages.push((at, id));
                        }
                    }
                }
                self.answers.insert(ticket, format!("{outcomes:?}"));
            }
            Output::Reply { ticket, reply: Reply::Received(leases) } => {
                self.answers.insert(ticket, leases.iter().map(|run| self.tell(run)).collect());
                self.received.extend(leases);
            }
            Output::Reply { ticket, reply: Reply::Messages(rows) } => {
                let row = |row: &millpond_core::output::Found<_>| {
                    format!("{:?} {:?}", self.journal.read(row.extent), row.row)
                };
                self.answers.insert(ticket, rows.iter().map(row).collect());
            }
            Output::Reply { ticket, reply: Reply::Topics(rows) } if self.names_only.contains(&ticket) => {
                let mut names: Vec<_> = rows.iter().map(|row| row.name.as_str().to_owned()).collect();
                names.sort();
                self.answers.insert(ticket, names.join(" "));
            }
            Output::Reply { ticket, reply } => _ = self.answers.insert(ticket, format!("{reply:?}")),
            Output::Delivery { leases, .. } => {
                for run in &leases {
                    for (n, body) in (0..).zip(self.journal.read(run.extent)) {
                        let lease = run.receipt.lease.0 + n;
                        self.delivered
                            .push(format!("{} {lease} {body} {} {}", run.topic, run.deliveries, run.failures));
                    }
                }
            }
            Output::Standing { .. } | Output::SessionExpired(_) => {}
        }
    }

    fn tell(&self, run: &LeasedRun) -> String {
        let each = (0..).zip(self.journal.read(run.extent)).map(|(n, body)| {
            let lease = run.receipt.lease.0 + n;
            format!("{} {lease} {body} {} {}; ", run.topic, run.deliveries, run.failures)
        });
        each.collect()
    }
}

/// Each receipt, with whether it is an anchor's.
fn receipts(runs: &[LeasedRun]) -> impl Iterator<Item = (Receipt, bool)> {
    runs.iter().flat_map(|run| {
        let leases = (0..u64::from(run.count)).map(|n| LeaseNumber(run.receipt.lease.0 + n));
        leases.map(|lease| (Receipt { lease, ..run.receipt }, run.priority.level() == 0))
    })
}

fn finish(((first, is_anchor), verb): ((Receipt, bool), &u8)) -> Option<Command> {
    let verb = match verb {
        _ if is_anchor => FinishVerb::Release { delay: Millis(0) },
        0 | 1 => FinishVerb::Ack,
        2 => FinishVerb::Release { delay: Millis(0) },
        3 => FinishVerb::Reject { reason: Default::default() },
        _ => return None,
    };
    Some(Command::Finish(Finish {
        verb,
        receipts: vec![ReceiptRun { first, count: 1 }],
        confirm: true,
        namespace: None,
    }))
}
