//! The turn of dispatch: ready topics meet hungry consumers.
//!
//! The order is that of `docs/semantics.md`: highest priority, then tenants in turn, then their topics in turn, then
//! messages that came back or fell due before those in line, but in strict order by sequence alone. A turn is `weight`
//! messages.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use millpond_types::{Code, LeaseNumber, Millis, Priority, Receipt, SessionId};

use crate::Core;
use crate::dispatch::consumer::{Consumer, Kind};
use crate::dispatch::reach::Pace;
use crate::dispatch::scope::{ScopeSlot, Turn};
use crate::dispatch::sweep::SLICE;
use crate::dispatch::{ConsumerSlot, Dispatcher};
use crate::fact::{Fact, FactLog};
use crate::output::{LeasedRun, Output, Reply};
use crate::state::TopicSlot;
use crate::state::topic::Front;

/// Messages that a consumer is given before the next one's turn, so that a scarce supply is shared.
const SHARE: u32 = 32;

/// How long after its time a receive is answered at the latest, with nothing: a read takes a few milliseconds.
const OVERDUE: Millis = Millis(1000);

/// What a receive is told for which there is something, and no memory.
const RATIONED: &str = "messages are ready, but leases take the memory that there is for receives, or checkpoints are awaited: ack what is leased, or receive again later; give the broker more memory if this lasts";

/// Why a scope is not served any more in a turn.
enum Held {
    /// It has nothing more.
    Empty,
    /// What comes next is on its way, by a read or with the next turn.
    Up,
    /// All turns pass, as long as the ends of messages are held.
    Passed,
}

/// What has to be minded as a topic is served.
#[derive(Clone, Copy)]
struct Manner {
    is_strict: bool,
    leases_runs: bool,
    /// Whether it takes tokens of a rate.
    draws: bool,
    /// Whether it may be raised, or was.
    ages: bool,
}

impl Core {
    /// Delivers what is ready to everyone with credit, answers receives, and lets empty topics vanish. Once a turn,
    /// after the commands and [`Core::advance`].
    pub fn dispatch(&mut self, log: &mut dyn FactLog) {
        self.sweep();
        self.look_at_touched(log);
        // Leases that were cut since the last turn were given before it.
        self.state.leased.given = 0;
        self.look_at_rationed();
        self.watch();
        self.dispatcher.has_passed = false;
        self.dispatcher.measure.begin();
        let mut fed = Vec::new();
        let mut stirred = self.dispatcher.scopes.take_stirred();
        for scope in stirred.by_ref() {
            let (is_first, before) = (fed.is_empty(), self.dispatcher.measure.leased());
            self.serve_scope(scope, &mut fed, log);
            let has_given = self.dispatcher.measure.leased() > before;
            if self.dispatcher.measure.is_cut {
                self.dispatcher.scopes.goes_first(if has_given { scope + 1 } else { scope });
                break;
            }
            // Those that were only looked at do not count: what they are looked at for may be topics that leave memory and come back.
            if is_first && has_given {
                self.dispatcher.scopes.goes_first(scope + 1);
            }
        }
        self.dispatcher.scopes.put_back(stirred);
        self.deliver(fed);
        self.pass_on_wants();
        let is_held = !self.goes_on_at_once() && self.is_held_at_hand();
        self.dispatcher.turns_held = if is_held { self.dispatcher.turns_held + 1 } else { 0 };
        self.answer_receives();
        self.vanish(log);
        self.state.leased.weighed();
        self.make_room();
    }

    /// Whether something is on its way to somebody that is not being read: the next turn has it.
    pub(crate) fn is_held_at_hand(&self) -> bool {
        self.dispatcher.scopes.are_held() && !self.is_fetching()
    }

    /// Brings what a topic is offered at up to date, and tells those who may be waiting for it.
    pub(crate) fn refresh(&mut self, slot: TopicSlot) {
        if self.state.refresh(slot) {
            self.dispatcher.scopes.tell(slot, &self.state);
        }
    }

    fn serve_scope(&mut self, scope: ScopeSlot, fed: &mut Vec<ConsumerSlot>, log: &mut dyn FactLog) {
        self.dispatcher.scopes.let_go(scope);
        loop {
            let Some(place) = self.dispatcher.scopes.slots.get_mut(scope as usize) else { return };
            if self.dispatcher.measure.is_full() && !place.hungry.is_empty() {
                self.dispatcher.measure.is_cut = true;
                return self.dispatcher.scopes.stir(scope);
            }
            let Some(slot) = place.hungry.pop_front() else { return };
            let Some(ration) = self.ration(slot) else {
                self.set_on_ration(slot);
                continue;
            };
            let before = self.dispatcher.consumers[slot as usize].got.len();
            let end = self.serve_consumer(scope, (slot, ration), log);
            let consumer = &mut self.dispatcher.consumers[slot as usize];
            let has_got = consumer.got.len() > before;
            if before == 0 && has_got {
                fed.push(slot);
            }
            consumer.queued = consumer.is_hungry();
            if consumer.queued {
                let hungry = &mut self.dispatcher.scopes.slots[scope as usize].hungry;
                // Whoever got nothing has not had a turn.
                if has_got { hungry.push_back(slot) } else { hungry.push_front(slot) }
            }
            match end {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(Held::Empty) => return,
                ControlFlow::Break(Held::Up) => return self.dispatcher.scopes.hold(scope),
                ControlFlow::Break(Held::Passed) => return self.dispatcher.scopes.stir(scope),
            }
        }
    }

    /// Gives a consumer its share from a scope, while leased topics take less than its ration lets them. Breaks off where
    /// nothing more can be served from it in this turn.
    fn serve_consumer(
        &mut self,
        scope: ScopeSlot,
        (consumer, ration): (ConsumerSlot, usize),
        log: &mut dyn FactLog,
    ) -> ControlFlow<Held> {
        // Looks at topics that have nothing to give after all.
        let (mut share, mut looks) = (SHARE, SLICE);
        while share > 0
            && self.state.leased.total() < ration
            && self.dispatcher.consumers[consumer as usize].is_hungry()
        {
            let turn = match self.next_turn(scope) {
                Ok(Some(turn)) => turn,
                Ok(None) => return ControlFlow::Break(Held::Empty),
                Err(held) => return ControlFlow::Break(held),
            };
            let topic = &self.state.topics[turn.slot];
            let policy = self.state.policy(turn.slot);
            if topic.ready_level(policy) != Some(turn.priority) {
                // A policy has changed, and the sweep has not been here yet.
                self.refresh(turn.slot);
                looks -= 1;
                if looks == 0 {
                    return ControlFlow::Break(Held::Up);
                }
                continue;
            }
            let tokens = topic.tokens(policy, self.state.now.run);
            if tokens == 0 {
                // The rate has changed since the topic had a token.
                self.draw(turn.slot, 0, log);
                self.refresh(turn.slot);
                continue;
            }
            let whole = policy.weight.max(policy.run);
            // What is left of a turn that was longer when it was cut short is no more than a turn is now.
            let whole = if turn.left > 0 { whole.min(turn.left) } else { whole };
            // A run goes to one consumer, whatever is left of its share.
            let most = if policy.leases_runs() { policy.run } else { share };
            // With nobody else at this priority, every turn is its turn.
            let within = self.state.leased.messages_until(ration);
            let quota = if turn.is_only { most } else { whole.min(most) }.min(tokens).min(within);
            let of = topic.next_up(policy, self.state.now.wall).expect("a topic that is offered has something ready");
            let manner = Manner {
                is_strict: policy.is_strict(),
                leases_runs: policy.leases_runs(),
                draws: policy.rate.is_some(),
                ages: policy.ageing.is_some() || topic.age.is_some(),
            };
            if self.passes_its_turn(turn.slot) {
                self.dispatcher.has_passed = true;
                self.dispatcher.scopes.served(scope, &turn, 0, &self.state);
                looks -= 1;
                if looks == 0 {
                    return ControlFlow::Break(Held::Passed);
                }
                continue;
            }
            if self.end_expired(turn.slot, (of, manner.is_strict), &mut looks, log) {
                self.refresh(turn.slot);
                if looks == 0 {
                    return ControlFlow::Break(Held::Up);
                }
                continue;
            }
            let served = self.serve_topic(turn.slot, (of, turn.priority), (consumer, quota), manner, log);
            if served == 0 {
                match self.dispatcher.consumers[consumer as usize].is_hungry() {
                    true => return ControlFlow::Break(Held::Up),
                    // What comes next is too large for what a receive has left.
                    false => break,
                }
            }
            share = share.saturating_sub(served);
            let is_attached = matches!(self.dispatcher.consumers[consumer as usize].kind, Kind::Attached { .. });
            self.dispatcher.measure.add(served, is_attached);
            if manner.draws {
                self.draw(turn.slot, served, log);
            }
            if manner.ages {
                self.age(turn.slot, log);
            }
            // The consumer's share or credit may have run out in mid-turn: the next one goes on with it.
            let left = if turn.is_only { 0 } else { whole.saturating_sub(served) };
            self.refresh(turn.slot);
            self.dispatcher.scopes.served(scope, &turn, left, &self.state);
        }
        ControlFlow::Continue(())
    }

    /// Whose turn it is in a scope. Asks for what has to be read before that is known, and for what had better be read
    /// meanwhile.
    fn next_turn(&mut self, scope: ScopeSlot) -> Result<Option<Turn>, Held> {
        let Dispatcher { scopes, reach, .. } = &mut self.dispatcher;
        let next = scopes.next_turn(scope, &self.state, reach);
        let of = &scopes.slots[scope as usize];
        match next {
            Ok(Some(mut turn)) => {
                let (priority, asker) = (turn.priority, of.asker(turn.priority));
                let spans = match reach.pace(asker.places) {
                    Pace::Served => turn.ahead.take().into_iter().collect(),
                    Pace::After(turns) => of.unknown_after(turns, priority, &self.state, reach),
                    Pace::None => Vec::new(),
                };
                // What finds no room is asked for again when it is its turn.
                spans.into_iter().for_each(|span| _ = reach.ask(asker, span));
                Ok(Some(turn))
            }
            Ok(None) => Ok(None),
            Err((priority, unknown)) => {
                let asker = of.asker(priority);
                match asker.is_named {
                    true => scopes.asks(scope),
                    false => _ = unknown.ask(reach, asker),
                }
                Err(Held::Up)
            }
        }
    }

    /// Asks for what scopes of names and prefixes need, one scope after the other, as far as there is room. The next turn begins with
    /// the first for which there was none.
    pub(crate) fn ask_for_named(&mut self) {
        let Dispatcher { scopes, reach, .. } = &mut self.dispatcher;
        for scope in scopes.take_asking() {
            if !scopes.slots.contains(scope as usize) {
                continue;
            }
            let Err((priority, unknown)) = scopes.next_turn(scope, &self.state, reach) else { continue };
            let asker = scopes.slots[scope as usize].asker(priority);
            if !unknown.ask(reach, asker) {
                return scopes.ask_first(scope);
            }
        }
    }

    /// Leases up to `quota` messages of one topic and priority, that stand at a level, to a consumer; returns how many.
    fn serve_topic(
        &mut self,
        slot: TopicSlot,
        (priority, stand): (Priority, Priority),
        (consumer_slot, quota): (ConsumerSlot, u32),
        Manner { is_strict, leases_runs, .. }: Manner,
        log: &mut dyn FactLog,
    ) -> u32 {
        let mut served = 0;
        let mut run = None;
        if is_strict && !self.bring_older(slot, priority) || leases_runs && !self.bring_run(slot, priority, quota) {
            return 0;
        }
        self.state.topics.take_up(slot);
        self.state.served(slot);
        while served < quota {
            if !self.bring_front(slot, priority, is_strict) {
                break;
            }
            let consumer = &self.dispatcher.consumers[consumer_slot as usize];
            let topic = &self.state.topics[slot];
            let policy = self.state.policy(slot);
            let level = topic.level(priority).expect("a ready level is there");
            if policy.ageing.is_some()
                && served > 0
                && run.is_none()
                && (topic.next_up(policy, self.state.now.wall) != Some(priority)
                    || topic.level_of_head(priority, policy, self.state.now.wall) < Some(stand))
            {
                // What comes next is younger, or of another priority.
                break;
            }
            // A run that has begun goes on, up to the quota.
            let room = if run.is_some() { u32::MAX } else { u32::try_from(topic.room(policy)).unwrap_or(u32::MAX) };
            let allowed = (quota - served).min(consumer.messages).min(room);
            let next = level.front_run(is_strict);
            let Some((next, tries)) = next.filter(|_| allowed > 0 && consumer.is_hungry()) else { break };
            if next.is_expired(self.state.now.wall) {
                // The next turn of the topic ends it.
                break;
            }
            let fitting = next.fitting(consumer.bytes.unsigned_abs());
            if fitting == 0 && consumer.is_exact() {
                self.dispatcher.consumers[consumer_slot as usize].bytes = 0;
                break;
            }
            let count = allowed.min(next.count).min(fitting.max(1));
            let part = next.clone().split_front(count);
            let duration = consumer.lease.unwrap_or(policy.lease);
            // Above those of all groups that have the topic: what is fenced by it need not know of groups.
            let lease = LeaseNumber(self.state.numbers.floor());
            let at_most_once = consumer.at_most_once;
            if leases_runs && !at_most_once {
                run.get_or_insert(lease);
            }
            let fact = Fact::Leased {
                topic: topic.number,
                group: consumer.group,
                priority,
                first: part.first,
                count,
                lease,
                run,
                holder: if consumer.at_most_once { SessionId(0) } else { consumer.holder() },
                duration,
                deadline: self.state.now.run + duration,
            };
            let leased = LeasedRun {
                topic: topic.name.clone(),
                receipt: Receipt { topic: topic.number, group: consumer.group, lease },
                priority,
                first: part.first,
                count,
                published: part.published,
                deliveries: tries.0 + 1,
                failures: tries.1,
                run,
                extent: part.extent(),
                sizes: (part.sizes.clone(), part.index),
            };
            self.commit(fact, log);
            if at_most_once {
                let Receipt { topic, group, lease } = leased.receipt;
                self.commit(Fact::Delivered { topic, group, lease, count }, log);
            }
            let consumer = &mut self.dispatcher.consumers[consumer_slot as usize];
            consumer.messages -= count;
            consumer.bytes -= i64::from(leased.extent.length);
            if consumer.got.is_empty() {
                consumer.got.reserve(consumer.last_count.min(consumer.messages as usize));
            }
            consumer.got.push(leased);
            served += count;
        }
        served
    }

    /// Whether a topic has nothing to give, though it is ready, for the TTL of what comes next has passed, and its end is held with
    /// the jobs. What comes behind it is not to be had before that.
    fn passes_its_turn(&self, slot: TopicSlot) -> bool {
        if !self.jobs.are_held() || !self.state.dies_by_ttl(slot) {
            return false;
        }
        let (topic, policy, now) = (&self.state.topics[slot], self.state.policy(slot), self.state.now.wall);
        let level = topic.next_up(policy, now).and_then(|priority| topic.level(priority));
        let next = level.and_then(|level| level.front_run(policy.is_strict()));
        next.is_some_and(|(run, _)| run.is_expired(now))
    }

    /// Ends what would be leased next of a topic and priority if its TTL has passed. Time has not come to that yet where very
    /// much ends at once.
    fn end_expired(
        &mut self,
        slot: TopicSlot,
        (priority, is_strict): (Priority, bool),
        looks: &mut usize,
        log: &mut dyn FactLog,
    ) -> bool {
        let level = self.state.topics[slot].level(priority).expect("a ready level is there");
        let next = level.front_run(is_strict);
        let next = next.filter(|(run, _)| run.is_expired(self.state.now.wall));
        let Some((run, _)) = next else { return false };
        let of = (run.first, run.count);
        self.expire_some(slot, priority, of, looks, log);
        true
    }

    /// Sees to it that in strict order nothing goes before what is due and stands before it. False if that has to be waited for.
    fn bring_older(&mut self, slot: TopicSlot, priority: Priority) -> bool {
        match self.state.bring_due_before_next(slot, priority) {
            Ok(comes) => !comes,
            Err(want) => {
                self.want(want);
                false
            }
        }
    }

    /// Sees to it that the front of a line is in memory, and enough of what comes next. False if what is to be served
    /// now has to be waited for.
    fn bring_front(&mut self, slot: TopicSlot, priority: Priority, is_strict: bool) -> bool {
        while let Some(first) = self.state.topics[slot].level(priority).and_then(|level| level.line.wanted()) {
            if let Err(want) = self.state.bring_line(slot, priority, first) {
                self.want(want);
                break;
            }
        }
        let level = self.state.topics[slot].level(priority).expect("a ready level is there");
        level.front(is_strict) != Some(Front::Line) || level.line.front().is_some()
    }

    fn deliver(&mut self, fed: Vec<ConsumerSlot>) {
        for slot in fed {
            let consumer = &mut self.dispatcher.consumers[slot as usize];
            let leases = core::mem::take(&mut consumer.got);
            consumer.last_count = leases.len();
            match consumer.kind {
                Kind::Attached { session, number } => {
                    let epoch = consumer.seat.epoch();
                    self.outputs.push(Output::Delivery { session, consumer: number, epoch, leases });
                }
                Kind::Once { ticket, repeat, .. } => {
                    if let Some(receive) = repeat {
                        self.dispatcher.repeats.answered(receive, &leases, self.state.now.run);
                    }
                    self.outputs.push(Output::Reply { ticket, reply: Reply::Received(leases) });
                    self.dispatcher.remove(slot);
                }
            }
        }
    }

    /// Answers receives whose time is up, unless they were left to the next turn, which comes to them, or something that could be
    /// theirs is still being looked for: for others that may go on for ever, so not for longer than [`OVERDUE`]. Whoever is [rationed](super::rations) is refused where there is
    /// something, or may be: told of nothing, it would take the topics for empty.
    fn answer_receives(&mut self) {
        let now = self.state.now.run;
        let up: Vec<_> = self.dispatcher.waiting.iter().copied().take_while(|(until, _)| *until <= now).collect();
        for (until, slot) in up {
            let Consumer { scope, is_rationed, .. } = self.dispatcher.consumers[slot as usize];
            if self.goes_on_at_once() && !is_rationed && self.dispatcher.scopes.is_stirred(scope) {
                continue;
            }
            // Whether there is something for it that it was not given; none if that is not known yet.
            let is_something_left = match is_rationed {
                true => self.next_turn(scope).ok().map(|turn| turn.is_some()),
                false => (!self.dispatcher.is_held(slot)).then_some(false),
            };
            self.pass_on_wants();
            let is_looked_for = self.is_fetching() || !self.state.sweeps.is_empty() || is_something_left.is_none();
            if is_looked_for && now < until + OVERDUE {
                continue;
            }
            let reply = match is_something_left.unwrap_or(is_rationed) {
                true => Reply::Refused { code: Code::Overloaded, detail: RATIONED.into(), receipts: 0 },
                false => Reply::Received(Vec::new()),
            };
            let Kind::Once { ticket, .. } = self.dispatcher.remove(slot).kind else {
                unreachable!("only receives wait")
            };
            self.outputs.push(Output::Reply { ticket, reply });
        }
    }
}
