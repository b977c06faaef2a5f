//! How a client connects, and how it behaves when the connection is lost.

use std::time::Duration;

/// The address that `millpond serve` listens on by default.
pub const DEFAULT_SERVER: &str = "127.0.0.1:7640";

/// How to connect. Made from an address, changed by field:
///
/// ```
/// use millpond_client::ClientOptions;
/// let options = ClientOptions { name: "billing".into(), ..ClientOptions::new("127.0.0.1:7640") };
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct ClientOptions {
    /// The broker, as `HOST:PORT`.
    pub server: String,
    /// A name for the broker's log.
    pub name: String,
    /// The longest wait for a connection, from the look-up of the name to the broker's welcome.
    pub connect_timeout: Duration,
    /// The longest wait for an answer, and for a lost connection to come back before a request is sent. A receive waits
    /// its own time on top.
    pub request_timeout: Duration,
    /// How a lost connection is taken up again; `None` closes the client with its connection. The first connection is
    /// tried once: whoever calls `connect` wants to know.
    pub reconnect: Option<Reconnect>,
    /// How long the broker keeps this client's consumer session after a lost connection; zero for the broker's default
    /// of 10 s.
    pub resume: Duration,
}

/// Exponential back-off between attempts to connect. Each pause is drawn between half of its length and all of it, so
/// that the clients of a broker that comes back do not arrive together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reconnect {
    /// The first pause; each one after it is twice as long.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl ClientOptions {
    /// The defaults, for a broker at `HOST:PORT`.
    pub fn new(server: impl Into<String>) -> ClientOptions {
        ClientOptions {
            server: server.into(),
            name: concat!("millpond-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            reconnect: Some(Reconnect::default()),
            resume: Duration::ZERO,
        }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions::new(DEFAULT_SERVER)
    }
}

impl From<&str> for ClientOptions {
    fn from(server: &str) -> Self {
        ClientOptions::new(server)
    }
}

impl From<String> for ClientOptions {
    fn from(server: String) -> Self {
        ClientOptions::new(server)
    }
}

impl Default for Reconnect {
    /// From 50 ms to 3 s: well inside the 10 s that a session waits to be resumed.
    fn default() -> Self {
        Reconnect { first: Duration::from_millis(50), longest: Duration::from_secs(3) }
    }
}

impl Reconnect {
    /// The pause before attempt number `attempt` (from 0), with `random` drawn evenly from all numbers.
    pub(crate) fn pause(&self, attempt: u32, random: u32) -> Duration {
        let longest = self.longest.max(self.first);
        let full = self.first.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(longest);
        full / 2 + (full / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        let reconnect = Reconnect { first: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let bounds =
            |attempt| (reconnect.pause(attempt, 0).as_millis(), reconnect.pause(attempt, u32::MAX).as_millis());
        assert_eq!(bounds(0), (50, 100));
        assert_eq!(bounds(1), (100, 200));
        assert_eq!(bounds(3), (400, 800));
        assert_eq!(bounds(4), (500, 1000));
        assert_eq!(bounds(u32::MAX), (500, 1000));
    }
}
