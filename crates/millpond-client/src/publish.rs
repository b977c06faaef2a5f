//! Publishing without a producer session: an answer that is lost leaves it open whether the messages were stored.

use std::time::Duration;

use millpond_protocol::{Level, Publish, Request, Response};
use millpond_types::{Code, NamespaceName, PublishOutcome};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::batch::Batch;
use crate::client::{Client, Shared};
use crate::error::{Error, Result};
use crate::link::{Link, Pending};
use crate::message::Message;
use crate::outcomes::Outcomes;
use crate::route::Copies;

impl Client {
    /// Publishes one message and waits until it is durable.
    ///
    /// # Errors
    /// `Unconfirmed` or `Timeout` leave it open whether the message was stored: give it a dedup id, or use a
    /// [`crate::Producer`], if it matters. A message that the broker refused for itself is an outcome, not an error.
    pub async fn publish(&self, namespace: &NamespaceName, message: Message) -> Result<PublishOutcome> {
        let outcomes = self.publish_batch(namespace, Level::Durable, &Batch::try_from(message)?).await?;
        outcomes.iter().next().ok_or_else(|| self.wrong_answer("publish", &Response::Published(Vec::new())))
    }

    /// Publishes messages and waits until all of them are durable. Each has its own outcome, in their order.
    pub async fn publish_many(&self, namespace: &NamespaceName, messages: Vec<Message>) -> Result<Vec<PublishOutcome>> {
        let outcomes = self.publish_batch(namespace, Level::Durable, &Batch::try_from(messages)?).await?;
        Ok(outcomes.iter().collect())
    }

    /// Publishes a batch. Waits for what the level asks: until it is durable or written, or at [`Level::None`] only until
    /// it is handed to the connection, and then there are no outcomes.
    ///
    /// # Errors
    /// As for [`Client::publish`]; `Partial` where a batch over the limits of one publish was sent in parts.
    pub async fn publish_batch(
        &self,
        namespace: &NamespaceName,
        level: Level,
        batch: &Batch,
    ) -> Result<Outcomes<PublishOutcome>> {
        let mut outcomes = Outcomes::default();
        for part in batch.parts() {
            let runs = part.runs.clone();
            let request = Request::Publish(Publish { namespace: namespace.clone(), level, producer: None, runs });
            match self.shared().publish(request, level).await {
                Ok(more) => outcomes.append(more.outcomes),
                Err(error) if outcomes.is_empty() => return Err(error),
                Err(error) => return Err(Error::Partial { outcomes, source: Box::new(error) }),
            }
        }
        Ok(outcomes)
    }
}

impl Shared {
    /// Sends a publish and waits for what its level asks.
    pub(crate) async fn publish(&self, request: Request, level: Level) -> Result<Copies> {
        let deadline = self.deadline();
        let answer = loop {
            let link = self.link(deadline).await?;
            let (correlation, frame) = link.encode(&request);
            if !self.granted(&link, frame.len(), deadline).await? {
                continue;
            }
            let (sender, answer) = oneshot::channel();
            let pending = (level != Level::None).then_some((correlation, Pending::Call(sender)));
            // A link that is lost here has sent nothing of this.
            if link.submit(frame, pending).is_ok() {
                break answer;
            }
        };
        if level == Level::None {
            return Ok(Copies::default());
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(Ok(answer))) => copies(answer, &self.options.server),
            Ok(Ok(Err(loss))) => Err(loss.unconfirmed("publish", &self.options.server)),
            Ok(Err(_)) => unreachable!("whoever waits is answered or told of the loss"),
            Err(_) => Err(self.timed_out("publish", Duration::ZERO)),
        }
    }

    /// Spends publish credit for a frame and waits for room to write it; false if the link is lost meanwhile.
    pub(crate) async fn granted(&self, link: &Link, bytes: usize, deadline: Instant) -> Result<bool> {
        match timeout_at(deadline, link.credit.acquire_many(bytes as u32)).await {
            Ok(Ok(credit)) => credit.forget(),
            Ok(Err(_)) => return Ok(false),
            Err(_) => {
                let detail =
                    "it grants no publish credit: it has as much to store as it can hold. Publish slower".to_owned();
                return Err(Error::Refused { code: Code::Overloaded, detail });
            }
        }
        link.room().await;
        Ok(link.loss().is_none())
    }
}

/// What the answer to a publish says.
pub(crate) fn copies(answer: Response, server: &str) -> Result<Copies> {
    match answer {
        Response::Published(runs) => Ok(Copies { topics: Vec::new(), outcomes: Outcomes::from(runs) }),
        Response::Routed { topics, outcomes } => Ok(Copies { topics, outcomes: Outcomes::from(outcomes) }),
        Response::Error { code, detail } => Err(Error::Refused { code, detail }),
        other => {
            Err(Error::Protocol { server: server.to_owned(), detail: format!("it answers a publish with {other:?}") })
        }
    }
}
