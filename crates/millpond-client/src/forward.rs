//! Forward: what came of a message is published as the message is acked, as one decision of the broker.

use std::time::Duration;

use millpond_protocol::{Forward, Request, Response};
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{Code, FinishOutcome, NamespaceName, PublishOutcome};

use crate::batch::Batch;
use crate::client::Client;
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::link::Unanswered;
use crate::message::Message;
use crate::outcomes::Outcomes;
use crate::receipts::Receipts;

/// What became of a forward.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// Of each receipt.
    pub finished: Outcomes<FinishOutcome>,
    /// Of each message.
    pub published: Outcomes<PublishOutcome>,
}

impl Forwarded {
    /// Whether it was done. If not, nothing of it was, and the outcomes say what spoke against it: leases that were kept
    /// are still to be finished.
    pub fn is_done(&self) -> bool {
        self.finished.runs().iter().all(|run| run.outcome == FinishOutcome::Done)
    }

    /// Whether a lease was lost: others have got the message, or will.
    pub fn is_lost(&self) -> bool {
        self.finished.lost() > 0
    }

    /// The first refusal of a message that was not refused for the sake of others.
    pub fn refusal(&self) -> Option<(Code, &str)> {
        self.published.runs().iter().find_map(|run| match &run.outcome {
            PublishOutcome::Refused { code, detail } if *code != Code::RefusedTogether => Some((*code, &**detail)),
            _ => None,
        })
    }
}

impl Client {
    /// Acks a message and publishes what came of it, as one decision: all of it, or nothing. Confirmed when it is durable.
    ///
    /// Outputs that carry no dedup id get one, made of the input's id, its group and the output's index. So a stage that
    /// makes the same outputs, in the same order, of the same input publishes each of them once, whatever else becomes of
    /// its ack: the namespace needs a dedup window, longer than an input may come again after.
    ///
    /// # Errors
    /// A lease that is lost, or a message that is refused, is an outcome and not an error: see [`Forwarded`]. After
    /// `Unconfirmed` or `Timeout` all of it may be done, or the message is delivered again. `Invalid` if the outputs are
    /// more than one publish holds.
    pub async fn forward(
        &self,
        input: &Delivery,
        namespace: &NamespaceName,
        mut outputs: Vec<Message>,
    ) -> Result<Forwarded> {
        for (index, output) in outputs.iter_mut().enumerate().filter(|(_, output)| output.dedup_id.is_empty()) {
            output.dedup_id = format!("{}/{}/{index}", input.id, input.receipt.group).into();
        }
        self.ack_and_publish(input, namespace, &Batch::try_from(outputs)?).await
    }

    /// Acks messages and publishes others as one decision, with the dedup ids that the others have.
    ///
    /// # Errors
    /// As for [`Client::forward`]; `Invalid` also for more than 10,000 receipts.
    pub async fn ack_and_publish(
        &self,
        receipts: impl Into<Receipts>,
        namespace: &NamespaceName,
        batch: &Batch,
    ) -> Result<Forwarded> {
        let receipts = receipts.into();
        let [part] = batch.parts() else {
            let detail = "one decision publishes at least one message, and what one publish holds: 4 MiB, 65,536 messages, 1,024 \
                 runs, 10,000 dedup ids";
            return Err(Error::Invalid(detail.to_owned()));
        };
        if receipts.is_empty() || receipts.len() > RECEIPTS_MAX {
            return Err(Error::Invalid(format!("one decision acks from 1 to {RECEIPTS_MAX} messages")));
        }
        let receipts = receipts.runs().to_vec();
        let forward = Forward { receipts: receipts.clone(), namespace: namespace.clone(), runs: part.runs.clone() };
        let (request, shared) = (Request::Forward(forward), self.shared());
        let deadline = shared.deadline();
        let (link, asked) = loop {
            let link = shared.link(deadline).await?;
            let frame = link.encode(&request);
            if !shared.granted(&link, frame.1.len(), deadline).await? {
                continue;
            }
            // A link that is lost here has sent nothing of this.
            if let Ok(asked) = shared.session.finish(&link, &receipts, true, || link.start_end(frame, &receipts)) {
                break (link, asked);
            }
        };
        match link.answer(asked, deadline).await {
            Ok(Response::Forwarded { finished, published }) => {
                Ok(Forwarded { finished: Outcomes::from(finished), published: Outcomes::from(published) })
            }
            Ok(Response::Error { code, detail }) => Err(Error::Refused { code, detail }),
            Ok(other) => Err(self.wrong_answer("forward", &other)),
            Err(Unanswered::Lost(loss)) => Err(loss.unconfirmed("forward", self.server())),
            Err(Unanswered::NotSent | Unanswered::TimedOut) => Err(shared.timed_out("forward", Duration::ZERO)),
        }
    }
}
