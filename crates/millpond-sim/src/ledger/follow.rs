//! What each fact does to the ledger, and which facts cannot be.

use millpond_core::fact::{DeadReason, Fact, Victims};
use millpond_types::{EndReason, LeaseNumber, MessageId, Priority, Sequence, TopicNumber, WallTime};

use super::{Lease, Ledger, Message, Place, Topic};
use crate::verdict::Violation;

pub(super) type Followed = Result<(), Violation>;

/// Consecutive messages of one level.
pub(super) type Run = (TopicNumber, Priority, Sequence, u32);

pub(super) fn ids((topic, priority, first, count): Run) -> impl Iterator<Item = MessageId> {
    (0..u64::from(count)).map(move |index| MessageId { topic, priority, sequence: Sequence(first.0 + index) })
}

impl Ledger {
    /// Notes a fact; refuses one that cannot follow from those before it.
    pub(super) fn follow(&mut self, fact: &Fact, at: u64) -> Followed {
        match fact {
            Fact::Created { .. }
            | Fact::Raised { .. }
            | Fact::GroupCreated { .. }
            | Fact::Copied { .. }
            | Fact::GroupReached { .. }
            | Fact::GroupStarted { .. }
            | Fact::TopicsSettled { .. }
            | Fact::GroupEnding { .. }
            | Fact::GroupDeleted { .. }
            | Fact::OfficeTaken { .. }
            | Fact::OfficeLeft { .. }
            | Fact::HandedOver { .. }
            | Fact::ExchangeCreated { .. }
            | Fact::ExchangeDeleted { .. }
            | Fact::Bound { .. }
            | Fact::Unbound { .. }
            | Fact::Paused { .. }
            | Fact::ProducerBatch { .. }
            | Fact::Aged { .. }
            | Fact::Waits { .. } => Ok(()),
            Fact::Rescheduled { topic, priority, sequence, due, .. } => {
                let (topic, priority, sequence) = (*topic, *priority, *sequence);
                self.set_due(MessageId { topic, priority, sequence }, Some(*due), at)
            }
            Fact::NamespaceSet { number, name, .. } => {
                self.namespaces.set(at, *number, Some(name.clone()));
                Ok(())
            }
            Fact::NamespaceDeleted { number } => {
                self.namespaces.set(at, *number, None);
                let is_of_it = |id: &MessageId| self.topics.get(&id.topic).is_some_and(|of| of.namespace == *number);
                let forgotten = self.dedups.iter().filter(|(_, (id, _))| is_of_it(id)).map(|(hash, _)| *hash);
                forgotten.collect::<Vec<_>>().into_iter().for_each(|hash| self.dedups.set(at, hash, None));
                let left = self.topics.iter().find(|(_, topic)| topic.namespace == *number && !topic.gone);
                left.map_or(Ok(()), |left| Err(Violation::lost(format!("a namespace is deleted that holds {left:?}"))))
            }
            Fact::TopicCreated { topic, namespace, name, .. } => {
                let highest = self.topics.last();
                if highest.is_some_and(|(highest, _)| highest >= topic) {
                    return Err(Violation::growth(format!("topic {name} is made with the number {topic:?} again")));
                }
                if self.topics.iter().any(|(_, known)| known.namespace == *namespace && known.name == *name) {
                    self.sights.saw("topics back");
                }
                let (namespace, name) = (*namespace, name.clone());
                self.topics.set(at, *topic, Some(Topic { namespace, name, dry: false, gone: false }));
                Ok(())
            }
            Fact::TopicRecalled { topic, namespace, name, .. } => {
                let known = self.topic(*topic)?;
                if known.gone || known.namespace != *namespace || known.name != *name {
                    return Err(Violation::lost(format!("topic {topic:?} is recalled as {name}, and is {known:?}")));
                }
                Ok(())
            }
            Fact::TopicVanished { topic, .. } => {
                let open = self.open.get(topic).copied().unwrap_or(0);
                if open > 0 {
                    return Err(Violation::lost(format!("topic {topic:?} vanishes with {open} messages")));
                }
                let life = self.topic(*topic)?.clone();
                self.topics.set(at, *topic, Some(Topic { gone: true, ..life }));
                Ok(())
            }
            Fact::Published { .. } => self.published(fact, at),
            Fact::Declined { topic, count, .. } => self.declines(*topic, *count, at),
            Fact::Drawn { topic, dry, .. } => {
                self.sights.saw_many("out of tokens", u64::from(dry.is_some()));
                self.dry(*topic, dry.is_some(), at)
            }
            Fact::Refilled { topic, .. } => self.dry(*topic, false, at),
            Fact::Leased { topic, priority, first, count, lease, .. } => {
                self.leased((*topic, *priority, *first, *count), *lease, at)
            }
            Fact::Extended { topic, lease, count, .. } => {
                (0..u64::from(*count)).try_for_each(|index| self.current(*topic, lease.0 + index).map(drop))
            }
            Fact::Acked { topic, lease, count, .. } => {
                self.sights.saw_many("acked", u64::from(*count));
                self.end_leases(*topic, *lease, *count, Place::Ended(EndReason::Acked), at)
            }
            Fact::Returned { topic, lease, count, failed, .. } => {
                self.sights.saw_many(if *failed { "failed" } else { "released" }, u64::from(*count));
                self.end_leases(*topic, *lease, *count, Place::Open, at)
            }
            Fact::Died { topic, which, reason, .. } => {
                match reason {
                    DeadReason::Rejected => self.sights.saw("rejected"),
                    DeadReason::LeaseExpired => self.sights.saw("leases expired"),
                    DeadReason::Failed | DeadReason::Expired | DeadReason::Damaged => {}
                }
                self.sights.saw("dead");
                match which {
                    Victims::Leased { lease, count } => self.end_leases(*topic, *lease, *count, Place::Dead, at),
                    Victims::Waiting { priority, first, count } => {
                        self.move_all((*topic, *priority, *first, *count), Place::Open, Place::Dead, at)
                    }
                }
            }
            Fact::Ripened { topic, priority, first, count, .. } => {
                let run = (*topic, *priority, *first, *count);
                self.move_all(run, Place::Open, Place::Open, at)?;
                ids(run).try_for_each(|id| self.ripened(id, at))
            }
            Fact::Delivered { topic, lease, count, .. } => {
                self.end_leases(*topic, *lease, *count, Place::Ended(EndReason::Delivered), at)
            }
            Fact::Ended { topic, priority, first, count, reason, .. } => {
                let run = (*topic, *priority, *first, *count);
                match reason {
                    EndReason::Cancelled => self.cancelled(run, at),
                    EndReason::Expired => self.sights.saw_many("expired", u64::from(*count)),
                    EndReason::Purged => self.sights.saw_many("purged", u64::from(*count)),
                    EndReason::Dropped => self.sights.saw_many("dropped", u64::from(*count)),
                    EndReason::RetainedOut => self.sights.saw_many("retained out", u64::from(*count)),
                    EndReason::Acked | EndReason::Dead | EndReason::Delivered | EndReason::Superseded => {
                        return Err(Violation::back(format!("{run:?} ends by {reason:?} in a fact of another kind")));
                    }
                }
                self.move_all(run, Place::Open, Place::Ended(*reason), at)
            }
            Fact::Superseded { topic, which, priority, by, failures, until, since, .. } => {
                self.sights.saw("superseded");
                if until.is_some() {
                    // The back-off that it takes over is longer than its own delay, and counted in run time.
                    let (topic, priority, sequence) = (*topic, *priority, *by);
                    self.set_due(MessageId { topic, priority, sequence }, None, at)?;
                }
                // What stands for them is there; it may be worked on where it inherits nothing.
                let id = MessageId { topic: *topic, priority: *priority, sequence: *by };
                let place = self.messages.get(&id).map_or(Place::Open, |message| message.place);
                let inherits = *failures > 0 || until.is_some() || since.is_some();
                let is_leased = matches!(place, Place::Leased(_)) && !inherits;
                let place = if is_leased { place } else { Place::Open };
                self.change(id, place, place, at)?;
                let place = Place::Ended(EndReason::Superseded);
                match *which {
                    Victims::Leased { lease, count } => self.end_leases(*topic, lease, count, place, at),
                    Victims::Waiting { priority, first, count } => {
                        self.move_all((*topic, priority, first, count), Place::Open, place, at)
                    }
                }
            }
            Fact::Forgotten { hash, .. } => {
                self.sights.saw("dedup ids forgotten");
                self.dedups.set(at, *hash, None);
                Ok(())
            }
            Fact::Redriven { letter, topic, sequence, .. } => self.redriven(letter.id, *topic, *sequence, at),
            Fact::DeadPurged { letter } => {
                self.sights.saw("dead letters purged");
                self.change(letter.id, Place::Dead, Place::Ended(EndReason::Dead), at)
            }
            Fact::Moved { .. } | Fact::DeadMoved { .. } => self.moved(fact),
        }
    }

    fn leased(&mut self, run: Run, first: LeaseNumber, at: u64) -> Followed {
        let life = self.topic(run.0)?;
        if life.dry {
            return Err(Violation::back(format!("topic {} is out of tokens, and {run:?} is leased", life.name)));
        }
        for (index, id) in ids(run).enumerate() {
            let number = LeaseNumber(first.0 + index as u64);
            if let Some(due) = self.messages.get(&id).and_then(|message| message.due) {
                return Err(Violation::early(format!("{id} is leased, and was never said to be ready; due {due:?}")));
            }
            self.change(id, Place::Open, Place::Leased(number), at)?;
            self.leases.set(at, (id.topic, number), Some(Lease { id, current: true, acked: None }));
        }
        Ok(())
    }

    /// A delay is over, or a back-off, which the ledger leaves to the core.
    fn ripened(&mut self, id: MessageId, at: u64) -> Followed {
        let due = self.messages.get(&id).and_then(|message| message.due);
        let Some(due) = due else { return Ok(()) };
        if due > self.now {
            return Err(Violation::early(format!("{id} is ready at {:?}, and due {due:?}", self.now)));
        }
        self.sights.saw("delays over");
        self.set_due(id, None, at)
    }

    fn set_due(&mut self, id: MessageId, due: Option<WallTime>, at: u64) -> Followed {
        let message = self.messages.get(&id).cloned();
        let message = message.ok_or_else(|| Violation::back(format!("a fact names {id}, which was never stored")))?;
        self.messages.set(at, id, Some(Message { due, ..message }));
        Ok(())
    }

    fn dry(&mut self, topic: TopicNumber, dry: bool, at: u64) -> Followed {
        let life = Topic { dry, ..self.topic(topic)?.clone() };
        self.topics.set(at, topic, Some(life));
        Ok(())
    }

    fn end_leases(&mut self, topic: TopicNumber, first: LeaseNumber, count: u32, to: Place, at: u64) -> Followed {
        let acked = (to == Place::Ended(EndReason::Acked)).then_some(self.turn);
        for number in first.0..first.0 + u64::from(count) {
            let lease = self.current(topic, number)?;
            let number = LeaseNumber(number);
            self.leases.set(at, (topic, number), Some(Lease { current: false, acked, ..lease }));
            self.change(lease.id, Place::Leased(number), to, at)?;
        }
        Ok(())
    }

    fn move_all(&mut self, run: Run, from: Place, to: Place, at: u64) -> Followed {
        ids(run).try_for_each(|id| self.change(id, from, to, at))
    }

    /// Moves a message, which has to be where the fact takes it from.
    pub(super) fn change(&mut self, id: MessageId, from: Place, to: Place, at: u64) -> Followed {
        let message = self.messages.get(&id).cloned();
        let message = message.ok_or_else(|| Violation::back(format!("a fact moves {id}, which was never stored")))?;
        if message.place != from {
            let place = message.place;
            return Err(Violation::back(format!("a fact moves {id} from {from:?} to {to:?}, but it is {place:?}")));
        }
        if !matches!(to, Place::Open | Place::Leased(_)) && from != Place::Dead {
            self.count_open(id.topic, -1, at);
        }
        if to.is_over() {
            self.sights.saw("ended");
        }
        self.messages.set(at, id, Some(Message { place: to, ..message }));
        Ok(())
    }

    fn current(&self, topic: TopicNumber, number: u64) -> Result<Lease, Violation> {
        let lease = self.leases.get(&(topic, LeaseNumber(number))).filter(|lease| lease.current);
        lease.copied().ok_or_else(|| Violation::back(format!("a fact names lease {number} of {topic:?}, not current")))
    }

    pub(super) fn count_open(&mut self, topic: TopicNumber, by: i64, at: u64) {
        let open = self.open.get(&topic).copied().unwrap_or(0);
        self.open.set(at, topic, Some(open.checked_add_signed(by).expect("no more ends than were stored")));
    }

    pub(super) fn topic(&self, topic: TopicNumber) -> Result<&Topic, Violation> {
        let life = self.topics.get(&topic).filter(|life| !life.gone);
        life.ok_or_else(|| Violation::back(format!("a fact names topic {topic:?}, which is not there")))
    }
}
