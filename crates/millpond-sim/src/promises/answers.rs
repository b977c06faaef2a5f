//! What clients are told: each answer is held against the model as it is when the answer is made, and each turn's deliveries
//! when everything was dispatched.

use millpond_core::command::{Command, Publish, Route, Ticket};
use millpond_core::output::{Output, Reply};
use millpond_core::{Decision, Now};
use millpond_types::TopicName;

use super::{
    Kept, Promises, coalescing, dedup, pauses, quotas, receipts, refusals, routes, sessions, shares, tallies, told,
    watermark,
};

/// A command that is being decided.
pub struct Asking {
    ticket: Ticket,
    pub(super) command: Command,
    /// What the model says to it beforehand.
    expected: Expected,
    /// The messages that were stored since, by tag and topic.
    pub(super) stored: Vec<(u64, TopicName)>,
    /// Of one that quotas may refuse, what was held meanwhile.
    pub(super) uses: Option<quotas::Uses>,
}

/// What the answer to a command has to be, as far as that is known before it is decided.
enum Expected {
    Nothing,
    Routed(routes::Routed),
    /// Of a session's batch, and where it has to go if it is routed.
    Session(sessions::Known, Option<routes::Routed>),
    Finished(receipts::Receipts),
    /// Of a forward to an exchange.
    Forwarded(receipts::Receipts, routes::Routed),
}

impl Promises {
    /// A command is about to be decided.
    pub fn asks(&mut self, ticket: Ticket, command: &Command) {
        if self.violation.is_some() {
            return;
        }
        self.wanted.note(command);
        self.reasons.asks(ticket, command);
        self.carried_out.asks(ticket, command, &self.model, self.told);
        self.whereabouts.asks();
        let expected = match command {
            Command::Route(route @ Route { receipts: Some(receipts), .. }) => {
                let routed = routes::Routed::by(&self.model, route);
                Expected::Forwarded(receipts::Receipts::of(&self.model, receipts), routed)
            }
            Command::Route(route) if route.publish.producer.is_none() => {
                Expected::Routed(routes::Routed::by(&self.model, route))
            }
            Command::Publish(Publish { namespace, producer: Some(batch), .. }) => {
                Expected::Session(sessions::Known::of(&self.model, namespace, *batch), None)
            }
            Command::Route(route) => {
                let batch = route.publish.producer.expect("the others were looked at");
                let known = sessions::Known::of(&self.model, &route.publish.namespace, batch);
                Expected::Session(known, Some(routes::Routed::by(&self.model, route)))
            }
            Command::Finish(finish) => Expected::Finished(receipts::Receipts::of(&self.model, &finish.receipts)),
            Command::Forward(forward) => Expected::Finished(receipts::Receipts::of(&self.model, &forward.receipts)),
            _ => Expected::Nothing,
        };
        let command = command.clone();
        self.repeats.asks(&command, &self.model, self.now.run);
        let uses = quotas::Uses::of(&self.model, &command);
        self.asking = Some(Asking { ticket, command, expected, stored: Vec::new(), uses });
    }

    /// It was decided, or has to wait: then what it needs to be right is not known any more when it is. Others that wait take
    /// so many bytes, where it matters.
    pub fn decided(&mut self, decision: Decision, outputs: &[Output], others: Option<usize>) {
        let Some(asking) = self.asking.take() else { return };
        if decision == Decision::Parked {
            self.whereabouts.waits(asking.ticket, &asking.command);
            self.sights.saw("commands that waited for topics");
            let Promises { rooms, sights, .. } = self;
            let kept = others.map_or(Ok(()), |others| shares::waits(&asking.command, others, rooms, sights));
            return self.note(kept);
        }
        let of = |output: &&Output| matches!(output, Output::Reply { ticket, .. } if *ticket == asking.ticket);
        let reply = match outputs.iter().rev().find(of) {
            Some(Output::Reply { reply, .. }) => Some(reply),
            _ => None,
        };
        let kept = self.judge(&asking, reply);
        self.note(kept);
    }

    fn judge(&mut self, asking: &Asking, reply: Option<&Reply>) -> Kept {
        let Promises { model, now, sights, .. } = self;
        self.seats.decided(asking.ticket, &asking.command, reply, model);
        self.credits.decided(asking.ticket, &asking.command, reply);
        self.letters.decided(asking.ticket, &asking.command, reply, model);
        self.leases.decided(&asking.command, reply, model, sights)?;
        self.terms.decided(&asking.command, reply, model, sights)?;
        pauses::decided(&asking.command, reply, model, self.told)?;
        self.repeats.decided(asking.ticket, &asking.command, reply, model, sights)?;
        if let (Expected::Session(known, routed), Some(reply)) = (&asking.expected, reply) {
            known.check(reply, &asking.stored, sights)?;
            if !known.is_next() {
                return Ok(());
            }
            sights.saw_many("batches routed", u64::from(routed.is_some()));
        }
        if let Some(reply) = reply {
            refusals::told(&asking.command, reply, model, sights)?;
            self.carried_out.decided(&asking.command, reply, model, self.told, sights)?;
            self.whereabouts.decided(reply, model, Now { wall: self.told, ..*now }, sights)?;
            asking.uses.as_ref().map_or(Ok(()), |uses| uses.told(&asking.command, reply, sights))?;
        }
        match (&asking.command, &asking.expected, reply) {
            (_, _, Some(Reply::Namespaces { rows, .. })) => tallies::shown(rows, model, sights),
            (Command::Topic(topic), _, Some(reply)) => watermark::shown(topic, reply, model, sights),
            (Command::Route(_), Expected::Routed(routed) | Expected::Session(_, Some(routed)), Some(reply)) => {
                routed.check(reply, &asking.stored, sights)
            }
            (command, Expected::Finished(receipts), Some(reply)) => receipts.check(command, reply, sights),
            (command, Expected::Forwarded(receipts, routed), Some(reply)) => {
                receipts.check(command, reply, sights)?;
                routed.check(reply, &asking.stored, sights)
            }
            (Command::Publish(publish), _, Some(Reply::Published { outcomes, .. })) => {
                dedup::told(publish, outcomes, model, (self.hash_key, now.wall), sights)?;
                coalescing::told(outcomes, model, sights)
            }
            _ => Ok(()),
        }
    }

    /// A turn of the core has made these outputs.
    pub(super) fn judge_outputs(&mut self, outputs: &[Output]) -> Kept {
        self.credits.made(outputs, &mut self.sights)?;
        self.repeats.made(outputs, self.now.run);
        let by_core = self.by_core();
        self.whereabouts.made(outputs, &self.model, by_core, &mut self.sights)?;
        self.carried_out.made(outputs, &self.model, &mut self.sights)?;
        let given = self.seats.given(outputs);
        self.leases.made(outputs, &given, &self.model, &mut self.sights)?;
        self.terms.made(outputs, &self.model, &self.leases)
    }

    /// Everything was dispatched. `outputs` are those of the turn.
    pub fn dispatched(&mut self, outputs: &[Output], is_numb: bool) {
        if self.violation.is_some() {
            return;
        }
        let kept = self.judge_turn(outputs, is_numb);
        self.note(kept);
    }

    fn judge_turn(&mut self, outputs: &[Output], is_numb: bool) -> Kept {
        self.order.end();
        self.overflowing.end(&self.model, &mut self.sights)?;
        let given = self.seats.given(outputs);
        told::given(outputs, &self.model, &mut self.sights)?;
        self.letters.dispatched(outputs, &self.model, &mut self.sights)?;
        self.once.dispatched(&given, &self.model, &mut self.sights)?;
        self.fairness.dispatched(&given, &self.model, self.now.wall, is_numb, &mut self.sights)?;
        self.coalescing.dispatched(std::mem::take(&mut self.touched), &self.model, &mut self.sights)?;
        self.seats.answered(outputs);
        Ok(())
    }
}
