//! Bringing a connection up to date: the session is begun or resumed on it, and every consumer is attached.

use std::sync::atomic::Ordering;

use millpond_protocol::{Attach, Request, Response};
use millpond_types::SessionId;
use millpond_types::limits::RECEIPTS_MAX;
use tokio::time::Instant;

use super::{Consumer, Session, State};
use crate::error::Error;
use crate::leases::Spent;
use crate::link::{Link, Loss, Unanswered};

impl Session {
    /// Begins or resumes the session on this connection and attaches whoever is not attached. Does nothing where there is
    /// nothing to do. When it fails the connection is of no use to consumers, and has been failed.
    pub(crate) async fn sync(&self, link: &Link, deadline: Instant) {
        let _turn = self.syncing.lock().await;
        let synced = async {
            self.begin(link, deadline).await?;
            while let Some((number, attach)) = self.next_attach(link) {
                let answer = ask(link, &attach, deadline).await?;
                self.attached(number, link, answer)?;
            }
            Ok(())
        };
        if let Err(loss) = synced.await {
            link.fail(loss);
        }
    }

    async fn begin(&self, link: &Link, deadline: Instant) -> Result<(), Loss> {
        let (session, asked) = {
            let mut state = self.state();
            let unused = state.id == SessionId::default() && state.consumers.is_empty();
            if state.begun_on == link.epoch || unused {
                return Ok(());
            }
            // What one frame cannot name cannot be kept.
            if state.held.runs_len() > RECEIPTS_MAX {
                self.lose(&mut state);
            }
            // Sent with the state locked: see `Session::finish`.
            let (session, held) = (state.id, state.held.held());
            (session, link.start(&Request::SessionBegin { session, resume: self.resume, held })?)
        };
        let answer = match link.answer(asked, deadline).await.map_err(unanswered)? {
            // The broker may say so of a session that it has forgotten: the next one is new.
            Response::Error { code: millpond_types::Code::SessionUnknown, .. } if session != SessionId::default() => {
                self.lose(&mut self.state());
                let request =
                    Request::SessionBegin { session: SessionId::default(), resume: self.resume, held: Vec::new() };
                ask(link, &request, deadline).await?
            }
            answer => answer,
        };
        let Response::SessionBegun { session: begun, resumed, heartbeat } = answer else {
            return Err(refused_or_wrong("session", answer));
        };
        {
            let mut state = self.state();
            if !resumed && session != SessionId::default() {
                self.lose(&mut state);
            }
            state.id = begun;
            state.heartbeat = heartbeat;
            state.begun_on = link.epoch;
            // What was handed out before the connection was lost is good again or was dropped by `lose`.
            self.stamp.store(self.stamp() | 1, Ordering::Release);
            state.consumers.values_mut().for_each(Consumer::wake);
        }
        self.begun.notify_one();
        Ok(())
    }

    fn next_attach(&self, link: &Link) -> Option<(u32, Request)> {
        let mut state = self.state();
        let State { consumers, held, begun_on, .. } = &mut *state;
        if *begun_on != link.epoch {
            return None;
        }
        let (&number, consumer) = consumers
            .iter_mut()
            .find(|(_, consumer)| consumer.attached_on != link.epoch && consumer.refused.is_none())?;
        // The window less what is held is granted with the attach. What is finished from here on comes together until
        // the answer is there: credit for a consumer that the broker does not know yet would be lost.
        let mut bound = held.bound_by(number);
        if consumer.options.at_most_once {
            bound.add(consumer.buffer.spent());
        }
        let Spent { messages, bytes } = bound;
        (consumer.returned, consumer.owed) = (Spent::default(), Spent::default());
        let options = &consumer.options;
        let attach = Attach {
            consumer: number,
            namespace: options.namespace.clone(),
            group: options.group.clone(),
            filter: options.filter.clone(),
            messages: options.messages.saturating_sub(messages),
            bytes: options.bytes.saturating_sub(bytes),
            lease: options.lease.map(crate::message::millis),
            at_most_once: options.at_most_once,
        };
        Some((number, Request::Attach(attach)))
    }

    fn attached(&self, number: u32, link: &Link, answer: Response) -> Result<(), Loss> {
        let refused = match answer {
            Response::Done => None,
            Response::Error { code, detail } => Some(Error::Refused { code, detail }),
            other => return Err(refused_or_wrong("subscription", other)),
        };
        let mut state = self.state();
        let begun_on = state.begun_on;
        let Some(consumer) = state.consumers.get_mut(&number) else {
            // It was dropped meanwhile.
            link.tell(&Request::Detach { consumer: number });
            return Ok(());
        };
        if let Some(error) = refused {
            consumer.refused = Some(error);
            consumer.wake();
        } else if begun_on == link.epoch {
            consumer.attached_on = link.epoch;
            consumer.grant(number, link);
        }
        Ok(())
    }
}

async fn ask(link: &Link, request: &Request, deadline: Instant) -> Result<Response, Loss> {
    link.ask(request, deadline).await.map_err(unanswered)
}

fn unanswered(why: Unanswered) -> Loss {
    match why {
        Unanswered::NotSent => Loss::passing("it was lost"),
        Unanswered::Lost(loss) => loss,
        Unanswered::TimedOut => Loss::passing("the broker did not answer in time when the session was begun"),
    }
}

fn refused_or_wrong(what: &str, answer: Response) -> Loss {
    match answer {
        Response::Error { code, detail } => {
            Loss::passing(format!("the broker refused the {what}: {}: {detail}", code.name()))
        }
        other => Loss::passing(format!("the broker answered the begin of the {what} with {other:?}")),
    }
}
