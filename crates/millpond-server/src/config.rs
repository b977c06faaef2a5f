//! The settings of a server: what is given, and what it is checked into.
//!
//! Few things can be set; the rest are named constants where they are used. Flags, environment and file are the command
//! line's business, which fills in a [`Config`].

use std::net::SocketAddr;
use std::path::PathBuf;

use millpond_types::limits::{BODY_MAX_DEFAULT, HEADERS_MAX, PUBLISH_BYTES_MAX};

use crate::memory::{MEMORY_DEFAULT, MEMORY_MIN};

/// The settings as they are given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The data directory, made where there is none.
    pub data: PathBuf,
    /// Where clients connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where health, readiness and metrics are served; `None` for nowhere.
    pub http: Option<SocketAddr>,
    /// Bytes of memory that the broker may take, at least [`MEMORY_MIN`].
    pub memory: u64,
    /// Bytes of the largest body, at most [`BODY_MAX_LIMIT`].
    pub body_max: u32,
    /// Connections at a time, if the memory is enough for so many; further ones are refused with a reason.
    pub connections_max: usize,
    /// Cuts the journal off at this position, where recovery has found damage and said so. What is cut off is lost.
    pub cut_journal: Option<u64>,
}

/// The largest body that a publish of [`PUBLISH_BYTES_MAX`] holds beside its headers.
pub const BODY_MAX_LIMIT: u32 = (PUBLISH_BYTES_MAX - 2 * HEADERS_MAX) as u32;
/// Connections unless the settings say otherwise; a thousand times as many as a machine has cores to serve.
pub const CONNECTIONS_DEFAULT: usize = 20_000;

/// Settings that were checked: a server can be started with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidConfig(Config);

/// Why settings make no sense, with what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadConfig {
    /// No room to work in.
    #[error("memory is {0} bytes, and a broker needs at least {MEMORY_MIN} (64 MiB); the default is 1 GiB")]
    Memory(u64),
    /// A body has to fit a publish.
    #[error("body_max is {0} bytes; it is from 1 to {BODY_MAX_LIMIT}, so that a body fits one publish")]
    Body(u32),
    /// Nobody could connect.
    #[error("connections_max is 0, and nobody could connect; give at least 1")]
    Connections,
    /// One port cannot serve both.
    #[error("listen and http are both {0}; give them different ports")]
    SameAddress(SocketAddr),
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data: PathBuf::from("millpond-data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 7640)),
            http: Some(SocketAddr::from(([127, 0, 0, 1], 7641))),
            memory: MEMORY_DEFAULT,
            body_max: BODY_MAX_DEFAULT as u32,
            connections_max: CONNECTIONS_DEFAULT,
            cut_journal: None,
        }
    }
}

impl Config {
    /// Checks the settings, each and together.
    pub fn validate(self) -> Result<ValidConfig, BadConfig> {
        if self.memory < MEMORY_MIN {
            return Err(BadConfig::Memory(self.memory));
        }
        if self.body_max == 0 || self.body_max > BODY_MAX_LIMIT {
            return Err(BadConfig::Body(self.body_max));
        }
        if self.connections_max == 0 {
            return Err(BadConfig::Connections);
        }
        if self.listen.port() != 0 && self.http == Some(self.listen) {
            return Err(BadConfig::SameAddress(self.listen));
        }
        Ok(ValidConfig(self))
    }
}

impl ValidConfig {
    /// The settings.
    pub fn get(&self) -> &Config {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_and_the_default_is_not() {
        assert!(Config::default().validate().is_ok());
        let refused = |config: Config| config.validate().unwrap_err().to_string();
        assert!(refused(Config { memory: 1, ..Config::default() }).contains("64 MiB"));
        assert!(refused(Config { body_max: 0, ..Config::default() }).contains("body_max"));
        assert!(refused(Config { body_max: u32::MAX, ..Config::default() }).contains("body_max"));
        assert!(refused(Config { connections_max: 0, ..Config::default() }).contains("at least 1"));
        let same = Config { http: Some(Config::default().listen), ..Config::default() };
        assert!(refused(same).contains("different ports"));
    }
}
