//! What clients are told: each output that is released goes past the checkers and on to its client.

use millpond_core::command::Level;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{Code, FinishOutcome, MessageId, OutcomeRun, PublishOutcome, Receipt, Sequence};

use crate::audit::{Blocks, compare};
use crate::clients::{Asked, Sent};
use crate::forwards::is_done;
use crate::hand::Verb;
use crate::stuck;
use crate::subscribers::Of;
use crate::verdict::Violation;
use crate::world::World;

impl World {
    /// Tells outputs, in order.
    pub(crate) fn release(&mut self, outputs: Vec<Output>) -> Result<(), Violation> {
        let outputs = match self.options.canary {
            Some(canary) => canary.mixes(outputs, &mut self.late),
            None => outputs,
        };
        for output in outputs {
            self.tape.note(format_args!("told {output:?}"));
            if self.options.canary.is_some_and(|canary| canary.swallows(&output)) && self.swallows_now() {
                continue;
            }
            self.promises.told(&output);
            if self.broker.as_ref().is_some_and(|broker| broker.is_for_connection(&output)) {
                self.tell_wire(output)?;
                continue;
            }
            if let Output::Reply { reply: Reply::Published { level: Level::None, .. }, .. } = output {
                // It tells a program nothing, and gives a connection back what the publish held.
                continue;
            }
            match output {
                Output::Reply { ticket, reply } => {
                    let asked = self.open.remove(&ticket);
                    let asked = asked.ok_or_else(|| Violation::back(format!("{} is answered twice", ticket.0)))?;
                    if let Asked::Subscriber(of) = &asked {
                        self.tell_subscriber(of, &reply)?;
                        continue;
                    }
                    self.judge(&asked, &reply)?;
                    self.clients.answer(&asked, &reply, &mut self.sights)?;
                }
                Output::Delivery { session, epoch, leases, consumer } => {
                    if let Some(epoch) = epoch {
                        self.offices.delivered(session, epoch, &mut self.sights)?;
                    }
                    if self.candidates.deliver(session, epoch, &leases) {
                        continue;
                    }
                    if self.subscribers.deliver(session, consumer, &leases) {
                        self.copies_given(&leases)?;
                        continue;
                    }
                    if self.clients.deliver(session, &leases) {
                        self.delivered(&leases)?;
                    }
                }
                Output::Standing { session, standing, .. } => {
                    self.offices.standing(session, standing, &mut self.sights)?;
                }
                Output::SessionExpired(_) => self.sights.saw("sessions expired"),
            }
        }
        Ok(())
    }

    /// The canary drops one output in eight.
    pub(crate) fn swallows_now(&mut self) -> bool {
        self.sights.saw("outputs that the canary saw");
        self.sights.of("outputs that the canary saw").is_multiple_of(8)
    }

    pub(crate) fn judge(&mut self, asked: &Asked, reply: &Reply) -> Result<(), Violation> {
        if let Reply::Refused { code: Code::DiskFull, .. } = reply {
            self.sights.saw("disk full refusals");
        }
        match (asked, reply) {
            (Asked::Publish { messages, level, .. }, Reply::Published { outcomes, .. }) => {
                self.published(messages, *level, outcomes)
            }
            // Of a session, a later attempt may have stored what this answer refuses.
            (Asked::Publish { messages, batch: None, .. }, Reply::Refused { .. }) => {
                messages.iter().try_for_each(|sent| self.lost.refused(sent.tag, &self.ledger))
            }
            (Asked::Receive(_), Reply::Received(leases)) => self.delivered(leases),
            (Asked::Finish { verb, leases }, Reply::Finished(outcomes)) => self.finished(*verb, leases, outcomes),
            (Asked::Forward { leases, outputs }, Reply::Forwarded { finished, published, topics }) => {
                self.sights.saw_many("forwarded to exchanges", topics.len() as u64);
                self.forwarded(leases, outputs, finished, published)
            }
            (Asked::Cancel(id), Reply::Done) => self.ended(*id),
            (Asked::Drained, reply) => stuck::check_views(reply, &self.promises.model),
            (Asked::Other(what), Reply::Messages(rows)) => {
                self.sights.saw(what);
                rows.iter().try_for_each(|found| self.bodies(found.extent, 1, found.row.id))
            }
            (Asked::Other(what), Reply::Dead { rows, .. }) => {
                self.sights.saw(what);
                rows.iter().try_for_each(|found| self.bodies(found.extent, 1, found.row.message.id))
            }
            (_, Reply::Refused { code: Code::ConsumerExists, detail, .. }) => {
                Err(Violation::connections(detail.to_string()))
            }
            (Asked::Receive(_), Reply::Refused { code: Code::Overloaded, .. }) => {
                self.sights.saw("receives refused on rations");
                Ok(())
            }
            (_, Reply::Refused { .. }) => Ok(()),
            (Asked::Other(what), _) => {
                self.sights.saw(what);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn published(
        &mut self,
        messages: &[Sent],
        level: Level,
        outcomes: &[OutcomeRun<PublishOutcome>],
    ) -> Result<(), Violation> {
        let told: u64 = outcomes.iter().map(|run| u64::from(run.count)).sum();
        if told != messages.len() as u64 {
            return Err(Violation::lost(format!("{} messages were sent, and {told} outcomes told", messages.len())));
        }
        let mut messages = messages.iter();
        for run in outcomes {
            for (index, sent) in messages.by_ref().take(run.count as usize).enumerate() {
                match &run.outcome {
                    PublishOutcome::Queued { id } => {
                        let id = MessageId { sequence: Sequence(id.sequence.0 + index as u64), ..*id };
                        self.sights.saw("confirmed");
                        self.lost.confirmed(id, sent.tag, level, &self.ledger)?;
                    }
                    PublishOutcome::Duplicate { id, .. } => {
                        self.sights.saw("duplicates");
                        let dedup = sent.dedup.ok_or_else(|| {
                            Violation::lost(format!("tag {} has no dedup id and is a duplicate", sent.tag))
                        })?;
                        self.lost.duplicate(*id, sent.tag, dedup, &self.ledger)?;
                    }
                    PublishOutcome::Coalesced { id, replaced: Some(_) } => {
                        self.sights.saw("took a place");
                        self.lost.confirmed(*id, sent.tag, level, &self.ledger)?;
                    }
                    PublishOutcome::Coalesced { replaced: None, .. } => {
                        self.sights.saw("declined");
                        self.lost.refused(sent.tag, &self.ledger)?;
                    }
                    PublishOutcome::Refused { code, .. } => {
                        if *code == Code::DiskFull {
                            self.sights.saw("disk full refusals");
                        }
                        self.lost.refused(sent.tag, &self.ledger)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn forwarded(
        &mut self,
        leases: &[(Receipt, MessageId)],
        outputs: &[Sent],
        finished: &[OutcomeRun<FinishOutcome>],
        published: &[OutcomeRun<PublishOutcome>],
    ) -> Result<(), Violation> {
        if is_done(finished)? {
            self.sights.saw("forwarded");
            self.finished(Verb::Ack, leases, finished)?;
            return self.published(outputs, Level::Durable, published);
        }
        self.sights.saw("forwards refused");
        outputs.iter().try_for_each(|sent| self.lost.refused(sent.tag, &self.ledger))
    }

    fn finished(
        &mut self,
        verb: Verb,
        leases: &[(Receipt, MessageId)],
        outcomes: &[OutcomeRun<FinishOutcome>],
    ) -> Result<(), Violation> {
        let outcomes = outcomes.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome));
        let outcomes: Vec<_> = outcomes.collect();
        if outcomes.len() != leases.len() {
            let told = outcomes.len();
            return Err(Violation::lost(format!("{} receipts were sent, and {told} outcomes told", leases.len())));
        }
        for ((receipt, id), outcome) in leases.iter().zip(outcomes) {
            match outcome {
                FinishOutcome::LeaseLost => {
                    self.sights.saw("lease lost");
                    if verb == Verb::Ack {
                        self.back.ack_refused(*receipt, *id, &self.ledger, &mut self.sights);
                    }
                }
                FinishOutcome::Kept => return Err(Violation::lost("a finish keeps no lease".to_owned())),
                FinishOutcome::OutOfOrder => {
                    self.sights.saw("finished out of order");
                    self.clients.keep(*receipt, *id);
                }
                FinishOutcome::Deposed => return Err(Violation::lost("only leaders are deposed".to_owned())),
                FinishOutcome::Done if verb == Verb::Extend => self.sights.saw("extended"),
                FinishOutcome::Done | FinishOutcome::Dead => {
                    self.back.spent(*receipt, verb)?;
                    if verb == Verb::Ack {
                        self.ended(*id)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn ended(&mut self, id: MessageId) -> Result<(), Violation> {
        self.sights.saw("end confirmed");
        self.back.ended(id, &self.ledger)
    }

    pub(crate) fn delivered(&mut self, leases: &[LeasedRun]) -> Result<(), Violation> {
        for run in leases {
            self.sights.saw_many("delivered", u64::from(run.count));
            self.back.delivered(run, &self.ledger, &mut self.sights)?;
            let (sizes, index) = &run.sizes;
            let length = sizes.offset(index + run.count) - sizes.offset(*index);
            if length != run.extent.length {
                return Err(Violation::lost(format!("a delivery of {length} bytes lies in {:?}", run.extent)));
            }
            self.bodies(run.extent, run.count, run.id())?;
        }
        Ok(())
    }

    pub(crate) fn tell_subscriber(&mut self, of: &Of, reply: &Reply) -> Result<(), Violation> {
        self.copies.told(of, reply, &self.promises.model, &mut self.sights)?;
        if let Reply::Received(leases) = reply {
            self.copies_given(leases)?;
        }
        self.subscribers.answer(of, reply);
        Ok(())
    }

    /// Readers are handed these messages.
    fn copies_given(&mut self, leases: &[LeasedRun]) -> Result<(), Violation> {
        let is_cut = self.is_cut();
        for run in leases {
            self.copies.given(run, &mut self.sights)?;
            if !is_cut {
                let reader = self.broker.as_ref().expect("the broker runs").reader();
                compare(run.count, run.id(), Blocks::of(reader).tags(run.extent), &self.promises.model)?;
            }
        }
        Ok(())
    }

    fn bodies(&mut self, extent: millpond_core::output::Extent, count: u32, first: MessageId) -> Result<(), Violation> {
        if self.is_cut() {
            // It could be told before, and cannot be read now.
            return Ok(());
        }
        self.sights.saw_many("bodies compared", u64::from(count));
        let long = u64::from(extent.length) > self.plan.options.segment_bytes;
        self.sights.saw_many("body beyond a segment", u64::from(long));
        let reader = self.broker.as_ref().expect("the broker runs").reader();
        compare(count, first, Blocks::of(reader).tags(extent), &self.ledger)
    }
}
