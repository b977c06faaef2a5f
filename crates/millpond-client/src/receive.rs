//! Receiving without a subscription: messages are leased once, and nothing extends their leases but their owner.

use std::time::Duration;

use millpond_protocol::{Receive, Request, Response};
use millpond_types::{Code, Filter, GroupName, NamespaceName, RequestId};
use tokio::time::Instant;

use crate::client::{Client, Repeat};
use crate::delivery::Deliveries;
use crate::error::{Error, Result};
use crate::message::millis;
use crate::producer::draw;

/// What to receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveOptions {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The group; `default` unless set.
    pub group: GroupName,
    /// Which topics; all unless set.
    pub filter: Filter,
    /// At most so many messages; 1 unless set.
    pub messages: u32,
    /// At most so many bytes, but at least one message; 4 MiB unless set.
    pub bytes: u64,
    /// How long the leases last; the policy's where `None`.
    pub lease: Option<Duration>,
    /// How long to wait for a first message, 10 minutes at most; zero unless set.
    pub wait: Duration,
    /// Each message ends as it is delivered, so it comes at most once, and there is nothing to finish. Off unless set.
    pub at_most_once: bool,
    /// The name of this receive, drawn at random where `None`. A broker that has answered it tells the same leases again
    /// within 30 s to whoever asks by it: to a program that keeps it and is started anew, say. With `at_most_once` it is
    /// not asked for, as there are no leases to tell.
    pub request: Option<RequestId>,
}

impl ReceiveOptions {
    /// One message of any topic of a namespace, for the group `default`, if one is there.
    pub fn new(namespace: NamespaceName) -> ReceiveOptions {
        ReceiveOptions {
            namespace,
            group: GroupName::default(),
            filter: Filter::All,
            messages: 1,
            bytes: 4 * 1024 * 1024,
            lease: None,
            wait: Duration::ZERO,
            at_most_once: false,
            request: None,
        }
    }
}

impl Client {
    /// Leases messages once; empty if none was ready in time. Where all that was leased is damaged, the broker is asked again, for
    /// as long as this waits and `request_timeout` beyond it. The leases keep their deadline, whatever happens to this
    /// client: they are extended by [`Client::extend`] alone. If the connection is lost it is asked again, under the same
    /// request id: a broker that has answered tells the same leases again within 30 s.
    ///
    /// # Errors
    /// `Refused` as `unreadable` where the disk does not give what was leased, and as `damaged` where all of it is and was to come
    /// at most once, or the time is over. After `Timeout`, or when this is cancelled, messages may be leased that nobody knows
    /// of: they come again when their leases end. After `Unconfirmed`, which is of messages that come at most once, they may be lost.
    pub async fn receive(&self, options: ReceiveOptions) -> Result<Deliveries> {
        let ReceiveOptions { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request } = options;
        let until = Instant::now() + wait;
        let last = until + self.shared().options.request_timeout;
        let request = match request {
            _ if at_most_once => None,
            None => Some(RequestId(draw("a request")?)),
            named => named,
        };
        let repeat = if at_most_once { Repeat::Never } else { Repeat::Harmless };
        let (lease, mut left) = (lease.map(millis), wait);
        loop {
            let (namespace, group, filter, wait) = (namespace.clone(), group.clone(), filter.clone(), millis(left));
            let receive = Receive { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request };
            match self.shared().call(Request::Receive(receive), repeat, left).await {
                Ok(Response::Received(runs)) => {
                    return Deliveries::checked(runs, None)
                        .map_err(|detail| Error::Protocol { server: self.server().to_owned(), detail });
                }
                Ok(other) => return Err(self.wrong_answer("receive", &other)),
                // Those leases have ended, and the next ones are of others. Not where messages end as they are leased: all would.
                Err(Error::Refused { code: Code::Damaged, .. }) if !at_most_once && Instant::now() < last => {
                    left = until.saturating_duration_since(Instant::now());
                }
                Err(error) => return Err(error),
            }
        }
    }
}
