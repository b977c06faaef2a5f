//! Finishing: ack, release, fail, reject and extend, for one receipt or thousands, each with its own outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millpond_protocol::{Finish, FinishVerb, Request, Response};
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{FinishOutcome, NamespaceName, Receipt};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::link::{Asked, Link, Unanswered};
use crate::message::millis;
use crate::outcomes::Outcomes;
use crate::receipts::Receipts;

impl Client {
    /// The messages are done. Confirmed when that is durable.
    ///
    /// # Errors
    /// A lease that is not current any more is an outcome, [`FinishOutcome::LeaseLost`], not an error. After `Unconfirmed`
    /// or `Timeout` a message may be acked, or may be delivered again. `Refused` where the receipts have to be of a namespace
    /// ([`Receipts::within`]) and one is not.
    pub async fn ack(&self, receipts: impl Into<Receipts>) -> Result<Outcomes<FinishOutcome>> {
        self.finish(FinishVerb::Ack, receipts).await
    }

    /// Gives the messages back without fault; they are ready again after the delay.
    pub async fn release(&self, receipts: impl Into<Receipts>, delay: Duration) -> Result<Outcomes<FinishOutcome>> {
        self.finish(FinishVerb::Release { delay: millis(delay) }, receipts).await
    }

    /// Gives the messages back as failures: the policy says when they come again, and how often until they are dead
    /// letters. The reason, of at most 1,024 bytes, is kept with those.
    pub async fn fail(
        &self,
        receipts: impl Into<Receipts>,
        reason: impl Into<Bytes>,
    ) -> Result<Outcomes<FinishOutcome>> {
        self.finish(FinishVerb::Fail { delay: None, reason: reason.into() }, receipts).await
    }

    /// The same, with the messages ready again after a delay, whatever the policy says: for who knows when it is worth another
    /// attempt.
    pub async fn fail_for(
        &self,
        receipts: impl Into<Receipts>,
        delay: Duration,
        reason: impl Into<Bytes>,
    ) -> Result<Outcomes<FinishOutcome>> {
        let (delay, reason) = (Some(millis(delay)), reason.into());
        self.finish(FinishVerb::Fail { delay, reason }, receipts).await
    }

    /// Makes the messages dead letters, with a reason of at most 1,024 bytes.
    pub async fn reject(
        &self,
        receipts: impl Into<Receipts>,
        reason: impl Into<Bytes>,
    ) -> Result<Outcomes<FinishOutcome>> {
        self.finish(FinishVerb::Reject { reason: reason.into() }, receipts).await
    }

    /// Lets the leases run anew from now: for so long, or as the policy says.
    pub async fn extend(
        &self,
        receipts: impl Into<Receipts>,
        lease: Option<Duration>,
    ) -> Result<Outcomes<FinishOutcome>> {
        self.finish(FinishVerb::Extend { lease: lease.map(millis) }, receipts).await
    }

    /// Any of these verbs. More receipts than one call may name (10,000) are sent in several, one after the other; an
    /// error then leaves out the outcomes of those in front.
    pub async fn finish(&self, verb: FinishVerb, receipts: impl Into<Receipts>) -> Result<Outcomes<FinishOutcome>> {
        let (mut outcomes, all) = (Outcomes::default(), receipts.into());
        for receipts in all.chunks(RECEIPTS_MAX) {
            outcomes.append(self.start_finish(&verb, all.namespace(), receipts).await?.outcomes().await?);
        }
        Ok(outcomes)
    }

    /// Carries out a verb without waiting for anything but a connection with room to send it. Nobody says what became of
    /// it: a message whose ack was lost with the connection is delivered again.
    pub async fn finish_unconfirmed(&self, verb: FinishVerb, receipts: impl Into<Receipts>) -> Result<()> {
        let all = receipts.into();
        for receipts in all.chunks(RECEIPTS_MAX) {
            let namespace = all.namespace().cloned();
            let ended = if ends_leases(&verb) { receipts.clone() } else { Vec::new() };
            let request = Request::Finish(Finish { verb: verb.clone(), confirm: false, namespace, receipts });
            let shared = self.shared();
            loop {
                let link = shared.link(shared.deadline()).await?;
                link.room().await;
                let (_, frame) = link.encode(&request);
                if shared.session.finish(&link, &ended, false, || link.submit(frame, None)).is_ok() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The cheapest ack: see [`Client::finish_unconfirmed`]. It makes the broker sync nothing by itself.
    pub async fn ack_unconfirmed(&self, receipts: impl Into<Receipts>) -> Result<()> {
        self.finish_unconfirmed(FinishVerb::Ack, receipts).await
    }

    /// Hands a verb to the connection, for receipts that one call may name: what is sent next comes behind it.
    pub(crate) async fn start_finish(
        &self,
        verb: &FinishVerb,
        namespace: Option<&NamespaceName>,
        receipts: Vec<(Receipt, u32)>,
    ) -> Result<Finishing> {
        let (shared, what) = (self.shared(), self::verb(verb));
        let deadline = shared.deadline();
        let is_end = ends_leases(verb);
        let request = Request::Finish(Finish {
            verb: verb.clone(),
            confirm: true,
            namespace: namespace.cloned(),
            receipts: receipts.clone(),
        });
        let (link, asked) = loop {
            let link = shared.link(deadline).await?;
            link.room().await;
            let started = match is_end {
                true => {
                    let frame = link.encode(&request);
                    shared.session.finish(&link, &receipts, true, || link.start_end(frame, &receipts))
                }
                false => link.start(&request),
            };
            if let Ok(asked) = started {
                break (link, asked);
            }
        };
        let extended = if is_end { Vec::new() } else { receipts };
        Ok(Finishing { client: self.clone(), link, asked, what, extended, deadline })
    }
}

/// A verb that was sent, and is not confirmed yet.
pub(crate) struct Finishing {
    client: Client,
    link: Arc<Link>,
    asked: Asked,
    what: &'static str,
    /// Leases that may be found lost by that.
    extended: Vec<(Receipt, u32)>,
    deadline: Instant,
}

impl Finishing {
    /// Waits for the confirmation.
    pub(crate) async fn outcomes(self) -> Result<Outcomes<FinishOutcome>> {
        let Finishing { client, link, asked, what, extended, deadline } = self;
        let outcomes = match link.answer(asked, deadline).await {
            Ok(Response::Finished(runs)) => Outcomes::from(runs),
            Ok(Response::Error { code, detail }) => return Err(Error::Refused { code, detail }),
            Ok(other) => return Err(client.wrong_answer(what, &other)),
            Err(Unanswered::Lost(loss)) => return Err(loss.unconfirmed(what, client.server())),
            Err(Unanswered::NotSent | Unanswered::TimedOut) => {
                return Err(client.shared().timed_out(what, Duration::ZERO));
            }
        };
        let lost = outcomes.of(&extended, &FinishOutcome::LeaseLost);
        if !lost.is_empty() {
            client.shared().session.found_lost(&link, lost.runs());
        }
        Ok(outcomes)
    }
}

fn ends_leases(verb: &FinishVerb) -> bool {
    !matches!(verb, FinishVerb::Extend { .. })
}

/// The name of a verb.
pub(crate) fn verb(verb: &FinishVerb) -> &'static str {
    match verb {
        FinishVerb::Ack => "ack",
        FinishVerb::Release { .. } => "release",
        FinishVerb::Fail { .. } => "fail",
        FinishVerb::Reject { .. } => "reject",
        FinishVerb::Extend { .. } => "extend",
    }
}
