//! Faults between those who ask and the core: what becomes of a command.

use bytes::Bytes;
use millpond_core::command::{
    Attach, Command, Finish, FinishVerb, Forward, Receive, Route, SessionBegin, Ticket, Which,
};
use millpond_types::{
    Coalesce, DedupWindow, Dispatch, Filter, GroupKind, MessageId, Millis, OfficeTerms, Overflow, Overrides,
    PausedTopics, Policy, Priority, Quotas, Rate, Retention, Retry, Rule, Rules, Sequence, Start, TopicName,
};

use super::Canary;

impl Canary {
    /// What becomes of a command on its way to the core.
    pub fn mistakes(self, command: Command) -> Command {
        match (self, command) {
            (Canary::Connections, Command::Withdraw(_)) => Command::Withdraw(Ticket(u64::MAX)),
            (Canary::Exclusive, Command::GroupCreate { namespace, name, start, .. }) => {
                Command::GroupCreate { namespace, name, start, kind: GroupKind::Shared }
            }
            (
                Canary::Terms | Canary::LongTerms | Canary::Handover,
                Command::GroupCreate { namespace, name, start, kind: GroupKind::Exclusive(terms) },
            ) => {
                let kind = GroupKind::Exclusive(self.mistimes(terms));
                Command::GroupCreate { namespace, name, start, kind }
            }
            (Canary::Leases, Command::Attach(attach)) => {
                Command::Attach(Attach { lease: attach.lease.map(half), ..attach })
            }
            (Canary::Leases, Command::Receive(receive)) => {
                Command::Receive(Receive { lease: receive.lease.map(half), ..receive })
            }
            (Canary::Exceptions, Command::Heartbeat { session, .. }) => {
                Command::Heartbeat { session, except: Vec::new() }
            }
            (Canary::Resumption, Command::SessionBegin(begin)) => {
                Command::SessionBegin(SessionBegin { resume: half(begin.resume), ..begin })
            }
            (Canary::Credit, command) => doubled(command),
            (Canary::Reasons, Command::Purge { namespace, group, .. }) => {
                Command::Purge { namespace, filter: Filter::All, group }
            }
            (Canary::Starved, Command::Credit { session, consumer, .. }) => {
                Command::Credit { session, consumer, messages: 0, bytes: 0 }
            }
            (Canary::Receives, Command::Receive(receive)) => {
                let (messages, bytes) = (receive.messages * 2, receive.bytes * 2);
                Command::Receive(Receive { messages, bytes, ..receive })
            }
            (Canary::LongPauses, Command::Pause { namespace, topics, lasts }) => {
                Command::Pause { namespace, topics, lasts: lasts.map(|lasts| Millis(lasts.0 * 2)) }
            }
            (Canary::Purges, Command::Purge { namespace, group, .. }) => {
                let nobodys = TopicName::try_from("nobody's").expect("a valid name");
                Command::Purge { namespace, filter: Filter::Topics(vec![nobodys]), group }
            }
            (Canary::Forgets, Command::Forget { topic, dedup_hash }) => {
                Command::Forget { topic, dedup_hash: dedup_hash ^ 1 }
            }
            (Canary::Paused, Command::Pause { namespace, topics, lasts }) => {
                Command::Pause { namespace, topics: mistaken(&topics), lasts }
            }
            (Canary::Paused, Command::Resume { namespace, topics }) => {
                Command::Resume { namespace, topics: mistaken(&topics) }
            }
            (Canary::PauseEnds, Command::Pause { namespace, topics, lasts }) => {
                Command::Pause { namespace, topics, lasts: lasts.map(half) }
            }
            (Canary::HeirPriority, Command::Publish(mut publish)) => {
                publish.runs.iter_mut().for_each(|run| run.priority = Priority::LOWEST);
                Command::Publish(publish)
            }
            (Canary::Delays, Command::Publish(mut publish)) => {
                publish.runs.iter_mut().for_each(|run| run.delay = half(run.delay));
                Command::Publish(publish)
            }
            (Canary::Reschedules, Command::Reschedule { topic, which, delay }) => {
                Command::Reschedule { topic, which, delay: half(delay) }
            }
            (Canary::Unknown, Command::Cancel { topic, which }) => Command::Cancel { topic, which: other(which) },
            (Canary::Unknown, Command::Reschedule { topic, which, delay }) => {
                Command::Reschedule { topic, which: other(which), delay }
            }
            (Canary::Releases | Canary::Details, Command::Finish(Finish { verb, receipts, confirm, namespace })) => {
                let verb = match verb {
                    FinishVerb::Release { delay } if self == Canary::Releases => {
                        FinishVerb::Release { delay: half(delay) }
                    }
                    FinishVerb::Reject { .. } if self == Canary::Details => FinishVerb::Reject { reason: Bytes::new() },
                    verb => verb,
                };
                Command::Finish(Finish { verb, receipts, confirm, namespace })
            }
            (Canary::Halves, Command::Forward(forward)) => Command::Publish(forward.publish),
            (Canary::Halves, Command::Route(route)) => Command::Route(Route { receipts: None, ..route }),
            (
                Canary::LostHalves,
                Command::Forward(Forward { receipts, .. }) | Command::Route(Route { receipts: Some(receipts), .. }),
            ) => Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: true, namespace: None }),
            (_, Command::NamespaceSet { name, policy, rules, based_on }) => {
                let own = |rule: &Rule| {
                    let policy = self.misreads(rule.overrides.over(&policy));
                    Rule { overrides: Overrides { dedup_window: None, ..Overrides::from(&policy) }, ..rule.clone() }
                };
                let changed = Rules::new(rules.iter().map(own).collect()).expect("they are as many and as they were");
                let rules = if self.misreads(policy.clone()) == policy { rules } else { changed };
                Command::NamespaceSet { name, policy: self.misreads(policy), rules, based_on }
            }
            (Canary::Starts, Command::GroupCreate { namespace, name, start: Start::At(_), kind }) => {
                Command::GroupCreate { namespace, name, start: Start::Earliest, kind }
            }
            (Canary::Once, Command::Attach(attach)) => Command::Attach(Attach { at_most_once: false, ..attach }),
            (Canary::Once, Command::Receive(receive)) => Command::Receive(Receive { at_most_once: false, ..receive }),
            (Canary::Repeats, Command::Receive(receive)) => Command::Receive(Receive { request: None, ..receive }),
            (Canary::Routes, Command::Route(mut route)) => {
                // One binding fewer, where it is not the only one.
                if let Some(bits) = route.taken.iter_mut().find(|bits| bits.count_ones() > 1) {
                    *bits &= *bits - 1;
                }
                Command::Route(route)
            }
            (Canary::Expiry | Canary::LateExpiry | Canary::Dedup | Canary::Sessions, Command::Publish(mut publish)) => {
                if self == Canary::Sessions {
                    publish.producer = None;
                }
                for run in &mut publish.runs {
                    match self {
                        Canary::Expiry => run.ttl = run.ttl.map(|ttl| Millis(ttl.0 / 2)),
                        Canary::LateExpiry => run.ttl = run.ttl.map(|ttl| Millis(ttl.0 * 2)),
                        Canary::Dedup => run.dedup.clear(),
                        _ => {}
                    }
                }
                Command::Publish(publish)
            }
            (_, command) => command,
        }
    }

    /// How the terms of an office are understood.
    fn mistimes(self, terms: OfficeTerms) -> OfficeTerms {
        let OfficeTerms { term, handover } = terms;
        match self {
            Canary::Terms => OfficeTerms { term: half(term), handover },
            Canary::LongTerms => OfficeTerms { term: Millis(term.0 * 2), handover },
            _ => OfficeTerms { term, handover: half(handover) },
        }
    }

    /// How a policy is understood.
    fn misreads(self, policy: Policy) -> Policy {
        let is_strict = policy.max_in_flight == Some(1);
        match self {
            Canary::Order if is_strict => Policy { max_in_flight: None, run: 1, ..policy },
            Canary::Newest if policy.coalesce == Coalesce::KeepLatest => {
                Policy { coalesce: Coalesce::KeepFirst, ..policy }
            }
            Canary::Coalescing => Policy { coalesce: Coalesce::Off, ..policy },
            Canary::Priority => {
                let other = if policy.dispatch == Dispatch::Fair { Dispatch::Priority } else { Dispatch::Fair };
                Policy { dispatch: other, ..policy }
            }
            Canary::Room if policy.overflow == Overflow::Reject => wider(policy),
            Canary::Narrow if policy.overflow == Overflow::Reject => narrower(policy),
            Canary::Overflow if policy.overflow == Overflow::DropOldest => wider(policy),
            Canary::Quotas | Canary::QuotasBytes | Canary::QuotasNarrow | Canary::Users | Canary::NoUsers => {
                Policy { quotas: self.mismeasures(policy.quotas), ..policy }
            }
            Canary::InFlight if !is_strict => {
                Policy { max_in_flight: policy.max_in_flight.map(|most| most * 2), ..policy }
            }
            Canary::LateExpiry => Policy { ttl: policy.ttl.map(|ttl| Millis(ttl.0 * 2)), ..policy },
            Canary::LongDedup => {
                let longer = match policy.dedup_window {
                    DedupWindow::For(window) => DedupWindow::For(Millis(window.0 * 2)),
                    other => other,
                };
                Policy { dedup_window: longer, ..policy }
            }
            Canary::Rates => {
                let doubled = |rate: Rate| Rate { count: rate.count * 2, burst: rate.burst * 2, ..rate };
                Policy { rate: policy.rate.map(doubled), ..policy }
            }
            Canary::Ageing => Policy { ageing: None, ..policy },
            Canary::Fairness => Policy { weight: policy.weight * 8, ..policy },
            Canary::Retention => {
                let Retention { age, count } = policy.retention;
                Policy { retention: Retention { age, count: count.map(|count| count / 2) }, ..policy }
            }
            Canary::Kept => Policy { retention: Retention::default(), ..policy },
            Canary::Leases => Policy { lease: half(policy.lease), ..policy },
            Canary::Retries => {
                let is_tail = policy.retry == Retry::Head && !is_strict && policy.coalesce == Coalesce::Off;
                Policy { retry: if is_tail { Retry::Tail } else { Retry::Head }, ..policy }
            }
            Canary::Pauses => {
                let longer = match policy.retry {
                    Retry::Backoff { first, longest } => {
                        Retry::Backoff { first: Millis(first.0 * 2), longest: Millis(longest.0 * 2) }
                    }
                    other => other,
                };
                Policy { retry: longer, ..policy }
            }
            Canary::Failures => Policy { max_failures: policy.max_failures.saturating_add(1), ..policy },
            _ => policy,
        }
    }

    /// How quotas are understood.
    fn mismeasures(self, quotas: Quotas) -> Quotas {
        let Quotas { messages, bytes, topics, connections } = quotas;
        let (double, half) = (|most| most * 2, |most| most / 2);
        match self {
            Canary::Quotas => Quotas { messages: messages.map(double), topics: topics.map(double), ..quotas },
            Canary::QuotasBytes => Quotas { bytes: bytes.map(double), ..quotas },
            Canary::Users => Quotas { connections: connections.map(double), ..quotas },
            Canary::NoUsers => Quotas { connections: connections.map(half), ..quotas },
            _ => Quotas { messages: messages.map(half), bytes: bytes.map(half), topics: topics.map(half), ..quotas },
        }
    }

    /// What a client's frame says for what the client means.
    pub fn overstates(self, command: Command) -> Command {
        match (self, command) {
            (Canary::Overdrawn, command) => doubled(command),
            (Canary::Filter, Command::Attach(attach)) => {
                Command::Attach(Attach { filter: Filter::All, lease: None, ..attach })
            }
            (Canary::Held, Command::SessionBegin(begin)) => {
                Command::SessionBegin(SessionBegin { held: Vec::new(), ..begin })
            }
            (_, command) => command,
        }
    }

    /// Whether a client's frame comes behind the next one.
    pub fn delays(self, command: &Command) -> bool {
        let makes_letters = |verb: &_| matches!(verb, FinishVerb::Fail { .. } | FinishVerb::Reject { .. });
        self == Canary::Overtakes && matches!(command, Command::Finish(Finish { verb, .. }) if makes_letters(verb))
    }
}

/// Twice as much may wait.
fn wider(policy: Policy) -> Policy {
    Policy { max_waiting: policy.max_waiting.map(|most| most * 2), ..policy }
}

/// Half as much, and one at least.
fn narrower(policy: Policy) -> Policy {
    Policy { max_waiting: policy.max_waiting.map(|most| most.div_ceil(2)), ..policy }
}

/// A message that nobody has been told of.
fn other(which: Which) -> Which {
    match which {
        Which::Id(id) => Which::Id(MessageId { sequence: Sequence(id.sequence.0 + (1 << 40)), ..id }),
        which => which,
    }
}

fn half(time: Millis) -> Millis {
    Millis(time.0 / 2)
}

/// Twice the credit.
fn doubled(command: Command) -> Command {
    match command {
        Command::Attach(attach) => {
            let (messages, bytes) = (attach.messages * 2, attach.bytes * 2);
            Command::Attach(Attach { messages, bytes, ..attach })
        }
        Command::Credit { session, consumer, messages, bytes } => {
            Command::Credit { session, consumer, messages: messages * 2, bytes: bytes * 2 }
        }
        command => command,
    }
}

/// The same topic but for the end of its name.
fn mistaken(topics: &PausedTopics) -> PausedTopics {
    let name = format!("{}?", topics.as_str()).into();
    PausedTopics::new(name, topics.is_prefix()).expect("a name of a simulation is short")
}
