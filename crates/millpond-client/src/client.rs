//! The handle on a broker: one connection, shared by everything that is made from it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use millpond_protocol::{Request, Response};
use millpond_types::{GroupName, Receipt, Standing};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::link::{Link, Unanswered, dial};
use crate::message::millis;
use crate::options::ClientOptions;
use crate::session::Session;
use crate::supervisor::supervise;

/// Events that a slow listener may be behind by before it misses some.
const EVENTS_KEPT: usize = 64;

/// A connection to a broker. Cheap to clone; all clones share the one connection, and so do the producers and
/// subscriptions made from it. The connection ends when the last of them is dropped, or with [`Client::close`].
///
/// A lost connection is taken up again in the background. A request that is made meanwhile waits for it, up to
/// `request_timeout`; one whose answer was lost is repeated where that is harmless, and is [`Error::Unconfirmed`] where it
/// is not.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Something that happened to the connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection was lost; the client tries to take it up again.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The connection is back.
    Reconnected,
    /// The consumer session was lost, and with it all leases of this client's subscriptions: their messages go to
    /// others. Deliveries that were not handed out yet are dropped; verbs on those that were answer `lease_lost`.
    SessionLost {
        /// How many leases.
        leases: u64,
    },
    /// A subscription to an exclusive group was told what it is from now on.
    Standing {
        /// The group.
        group: GroupName,
        /// What it is.
        standing: Standing,
    },
    /// The client is closed for good.
    Closed {
        /// Why.
        reason: String,
    },
}

/// Ends the connection with the last clone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close.notify_one();
    }
}

/// What the client shares with its tasks.
pub(crate) struct Shared {
    pub(crate) options: ClientOptions,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) session: Arc<Session>,
    pub(crate) events: broadcast::Sender<Event>,
    /// Asks the supervisor to close.
    pub(crate) close: Notify,
}

/// Where the connection stands.
#[derive(Clone)]
pub(crate) enum Phase {
    Up(Arc<Link>),
    /// Being taken up again; what went wrong last.
    Down(Error),
    /// For good.
    Closed(Error),
}

impl Client {
    /// Connects, once: an address that does not answer is [`Error::Unreachable`] at once, or after `connect_timeout`.
    /// Needs a tokio runtime, which then runs the connection.
    ///
    /// # Errors
    /// `Unreachable`; `Refused` if the broker will not have this client; `Protocol` if something else answers.
    pub async fn connect(options: impl Into<ClientOptions>) -> Result<Client> {
        let options = options.into();
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        let session = Arc::new(Session::new(millis(options.resume), events.clone()));
        let (link, tasks) = dial(&options, 1, &session).await?;
        let (phase, _) = watch::channel(Phase::Up(Arc::clone(&link)));
        let shared = Arc::new(Shared { options, phase, session, events, close: Notify::new() });
        tokio::spawn(supervise(Arc::clone(&shared), link, tasks));
        Ok(Client { handle: Arc::new(Handle { shared }) })
    }

    /// The address that this client was made with.
    pub fn server(&self) -> &str {
        &self.shared().options.server
    }

    /// Closes the connection in an orderly way: what was sent goes out, and the leases of all subscriptions are released. It
    /// waits up to 2 s for the broker to confirm that, and then none of them counts as failed, whatever happens.
    /// Calls that are open get [`Error::Unconfirmed`], later ones [`Error::Closed`].
    pub async fn close(self) {
        let mut phase = self.shared().phase.subscribe();
        self.shared().close.notify_one();
        // The supervisor ends in this phase, whatever happens to the connection.
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Closed(_))).await;
    }

    /// What happens to the connection from now on. A listener that lags by more than 64 events misses the oldest.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared().events.subscribe()
    }

    /// Asks the broker for a sign of life.
    pub async fn ping(&self) -> Result<()> {
        match self.call(Request::Ping, Repeat::Harmless).await? {
            Response::Pong => Ok(()),
            other => Err(self.wrong_answer("ping", &other)),
        }
    }

    /// Whether the lease of a subscription's delivery is still this client's, as far as it knows. False once it was
    /// finished through this client (and that is confirmed, if it is to be: a forward that was refused leaves it), was found
    /// lost, or went with its session. False as well for a lease that was
    /// received without a subscription: nobody extends it, so its deadline alone tells.
    pub fn is_current(&self, receipt: &Receipt) -> bool {
        self.shared().session.is_current(receipt)
    }

    /// Waits until a lease is lost: for a handler that has to stop when its work is no longer its own. Returns at once if
    /// [`Client::is_current`] is false already, and maybe never once the lease was finished through this client.
    pub async fn lease_lost(&self, receipt: &Receipt) {
        self.shared().session.lease_lost(receipt).await;
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Sends a request and waits for the answer; an error of the broker is an error here.
    pub(crate) async fn call(&self, request: Request, repeat: Repeat) -> Result<Response> {
        self.shared().call(request, repeat, Duration::ZERO).await
    }

    pub(crate) fn wrong_answer(&self, what: &str, answer: &Response) -> Error {
        let mut answer = format!("{answer:?}");
        answer.truncate(answer.char_indices().nth(80).map_or(answer.len(), |(end, _)| end));
        Error::Protocol { server: self.server().to_owned(), detail: format!("it answers a {what} with {answer}") }
    }
}

/// Whether a request whose answer was lost may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A second time changes nothing.
    Harmless,
    /// A second time may do it twice, or find it done and say that it cannot be.
    Never,
}

impl Shared {
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.request_timeout
    }

    /// The connection, once there is one.
    pub(crate) async fn link(&self, deadline: Instant) -> Result<Arc<Link>> {
        // A link that is lost stays in the phase until the supervisor has seen it.
        let usable = |phase: &Phase| match phase {
            Phase::Up(link) => link.loss().is_none(),
            Phase::Down(_) => false,
            Phase::Closed(_) => true,
        };
        {
            let phase = self.phase.borrow();
            if let (Phase::Up(link), true) = (&*phase, usable(&phase)) {
                return Ok(Arc::clone(link));
            }
        }
        let mut phases = self.phase.subscribe();
        let found = timeout_at(deadline, phases.wait_for(usable)).await.map(|found| found.map(|phase| phase.clone()));
        match found {
            Ok(Ok(Phase::Up(link))) => Ok(link),
            Ok(Ok(Phase::Closed(error) | Phase::Down(error))) => Err(error),
            Ok(Err(_)) => unreachable!("the sender lives in self"),
            Err(_) => Err(match &*self.phase.borrow() {
                Phase::Down(error) => error.clone(),
                _ => self.unreachable("no connection in time"),
            }),
        }
    }

    pub(crate) async fn call(&self, request: Request, repeat: Repeat, extra: Duration) -> Result<Response> {
        let what = verb(&request);
        let deadline = self.deadline() + extra;
        loop {
            let link = self.link(deadline).await?;
            let loss = match link.ask(&request, deadline).await {
                Ok(Response::Error { code, detail }) => return Err(Error::Refused { code, detail }),
                Ok(answer) => return Ok(answer),
                Err(Unanswered::NotSent) => continue,
                Err(Unanswered::Lost(loss)) => loss,
                Err(Unanswered::TimedOut) => return Err(self.timed_out(what, extra)),
            };
            if repeat == Repeat::Never {
                return Err(loss.unconfirmed(what, &self.options.server));
            }
        }
    }

    pub(crate) fn timed_out(&self, what: &'static str, extra: Duration) -> Error {
        Error::Timeout { what, server: self.options.server.clone(), after: self.options.request_timeout + extra }
    }

    pub(crate) fn unreachable(&self, reason: &str) -> Error {
        let source = Arc::new(io::Error::new(io::ErrorKind::NotConnected, reason));
        Error::Unreachable { server: self.options.server.clone(), source }
    }
}

/// The verb of a request, for messages.
fn verb<B>(request: &Request<B>) -> &'static str {
    match request {
        Request::Hello { .. } => "hello",
        Request::Ping => "ping",
        Request::Publish(_) | Request::Route(_) => "publish",
        Request::Forward(_) | Request::ForwardRoute(_) => "forward",
        Request::Receive(_) => "receive",
        Request::Finish(finish) => crate::finish::verb(&finish.verb),
        Request::SessionBegin { .. } | Request::SessionEnd | Request::Heartbeat { .. } => "session verb",
        Request::Attach(_) | Request::Credit { .. } | Request::Detach { .. } => "subscription verb",
        Request::Look { .. } => "look",
        Request::Cancel { .. } => "cancel",
        Request::Reschedule { .. } => "reschedule",
        Request::Pause { .. } => "pause",
        Request::Resume { .. } => "resume",
        Request::Forget { .. } => "forget",
        Request::Purge { .. } => "purge",
        Request::NamespaceSet { .. } | Request::NamespaceDelete { .. } | Request::Namespaces { .. } => "namespace verb",
        Request::Resign { .. } => "resignation",
        Request::GroupCreate { .. } | Request::GroupDelete { .. } | Request::Depose { .. } => "group verb",
        Request::ExchangeCreate { .. }
        | Request::ExchangeDelete { .. }
        | Request::Exchanges { .. }
        | Request::Bind { .. }
        | Request::Unbind { .. }
        | Request::Bindings { .. } => "exchange verb",
        Request::Stats { .. } => "stats",
        Request::Topics { .. } | Request::Topic(_) | Request::TopTopics { .. } => "listing of topics",
        Request::DeadList { .. }
        | Request::DeadLook { .. }
        | Request::DeadRedrive { .. }
        | Request::DeadPurge { .. } => "dead letter verb",
    }
}
