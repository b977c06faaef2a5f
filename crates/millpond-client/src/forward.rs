//! Forward: what came of a message is published as the message is acked, as one decision of the broker.

use std::time::Duration;

use bytes::Bytes;
use millpond_protocol::{Forward, Request, Response};
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{Code, FinishOutcome, NamespaceName, OutcomeRun, PublishOutcome, Receipt, TopicName};

use crate::batch::Batch;
use crate::client::Client;
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::link::Unanswered;
use crate::message::{Message, Routed};
use crate::outcomes::Outcomes;
use crate::receipts::Receipts;

/// What became of a forward.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// Of each receipt.
    pub finished: Outcomes<FinishOutcome>,
    /// Of each message; of one to an exchange, of the copy for each topic. There are none where it goes nowhere and the exchange
    /// lets such messages go.
    pub published: Outcomes<PublishOutcome>,
    /// The topics that a message to an exchange goes to, in the order of their names.
    pub topics: Vec<TopicName>,
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
            output.dedup_id = derived(input, index);
        }
        self.ack_and_publish(input, namespace, &Batch::try_from(outputs)?).await
    }

    /// Acks a message and publishes what came of it to an exchange, as one decision: all topics that it leads to have their copy,
    /// or nothing happens. An output without a dedup id gets one as for [`Client::forward`], which counts in each of the topics.
    ///
    /// Where no binding takes the output, it is refused as unroutable and the message is not acked; where the exchange lets such
    /// messages go, the message is acked and nothing is published.
    ///
    /// # Errors
    /// As for [`Client::forward`]; `Invalid` for an output that no publish holds.
    pub async fn forward_routed(
        &self,
        input: &Delivery,
        namespace: &NamespaceName,
        mut output: Routed,
    ) -> Result<Forwarded> {
        if output.dedup_id.is_empty() {
            output.dedup_id = derived(input, 0);
        }
        self.ack_and_route(input, namespace, &output).await
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
        let [part] = batch.parts() else {
            let detail = "one decision publishes at least one message, and what one publish holds: 4 MiB, 65,536 messages, 1,024 \
                 runs, 10,000 dedup ids";
            return Err(Error::Invalid(detail.to_owned()));
        };
        let (namespace, runs) = (namespace.clone(), part.runs.clone());
        let request = |receipts| Request::Forward(Forward { receipts, namespace, runs });
        self.forward_as(receipts.into(), request).await
    }

    /// Acks messages and publishes one to an exchange, as one decision, with the dedup id that it has.
    ///
    /// # Errors
    /// As for [`Client::forward_routed`]; `Invalid` also for more than 10,000 receipts.
    pub async fn ack_and_route(
        &self,
        receipts: impl Into<Receipts>,
        namespace: &NamespaceName,
        message: &Routed,
    ) -> Result<Forwarded> {
        let parts = message.parts()?;
        self.forward_as(receipts.into(), |receipts| parts.forward(receipts, namespace.clone())).await
    }

    async fn forward_as(
        &self,
        receipts: Receipts,
        request: impl FnOnce(Vec<(Receipt, u32)>) -> Request,
    ) -> Result<Forwarded> {
        if receipts.is_empty() || receipts.len() > RECEIPTS_MAX {
            return Err(Error::Invalid(format!("one decision acks from 1 to {RECEIPTS_MAX} messages")));
        }
        let receipts = receipts.runs().to_vec();
        let (request, shared) = (request(receipts.clone()), self.shared());
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
            Ok(Response::Forwarded { finished, published }) => Ok(told(finished, published, Vec::new())),
            Ok(Response::ForwardRouted { topics, finished, published }) => Ok(told(finished, published, topics)),
            Ok(Response::Error { code, detail }) => Err(Error::Refused { code, detail }),
            Ok(other) => Err(self.wrong_answer("forward", &other)),
            Err(Unanswered::Lost(loss)) => Err(loss.unconfirmed("forward", self.server())),
            Err(Unanswered::NotSent | Unanswered::TimedOut) => Err(shared.timed_out("forward", Duration::ZERO)),
        }
    }
}

/// The dedup id of what comes of an input, by its index among all that does.
fn derived(input: &Delivery, index: usize) -> Bytes {
    format!("{}/{}/{index}", input.id, input.receipt.group).into()
}

fn told(
    finished: Vec<OutcomeRun<FinishOutcome>>,
    published: Vec<OutcomeRun<PublishOutcome>>,
    topics: Vec<TopicName>,
) -> Forwarded {
    Forwarded { finished: Outcomes::from(finished), published: Outcomes::from(published), topics }
}
