//! The settings of `serve`. [`Settings`] is the one source of its flags, its `MILLPOND_*` variables, its configuration
//! file and the reference page; [`Settings::config`] fills in the defaults, and the server checks the
//! whole.
//!
//! A flag goes before a variable, a variable before the file, the file before the default.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use millpond_server::Config;
use serde::Deserialize;

use crate::failure::Failure;
use crate::quantity;

/// Every setting of `serve`, as it was given.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The data directory; it is made where there is none [default: millpond-data]
    #[arg(long, value_name = "DIR", env = "MILLPOND_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Where clients connect; port 0 takes any free one [default: 127.0.0.1:7640]
    #[arg(long, value_name = "HOST:PORT", env = "MILLPOND_LISTEN", hide_env_values = true)]
    pub listen: Option<Listen>,
    /// Where health, readiness and metrics are answered; port 0 takes any free one [default: 127.0.0.1:7641]
    #[arg(long, value_name = "HOST:PORT", env = "MILLPOND_HTTP", hide_env_values = true)]
    pub http: Option<Listen>,
    /// Memory that the broker may take, at least 64MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", env = "MILLPOND_MEMORY", hide_env_values = true)]
    pub memory: Option<Size>,
    /// The largest body that may be published [default: 1MiB]
    #[arg(long, value_name = "SIZE", env = "MILLPOND_BODY_MAX", hide_env_values = true)]
    pub body_max: Option<Size>,
    /// The least that is logged, on stderr: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL", env = "MILLPOND_LOG", hide_env_values = true)]
    pub log: Option<Level>,
}

impl Settings {
    /// Reads a configuration file. A key that is not a setting is an error that names it.
    pub fn from_file(path: &Path) -> Result<Settings, Failure> {
        let text = std::fs::read_to_string(path).map_err(|why| {
            Failure::usage(format!("the configuration file {} cannot be read: {why}", path.display()))
        })?;
        toml::from_str(&text)
            .map_err(|why| Failure::usage(format!("the configuration file {} is wrong: {why}", path.display())))
    }

    /// These settings, and `other`'s where these are silent.
    pub fn or(self, other: Settings) -> Settings {
        Settings {
            data: self.data.or(other.data),
            listen: self.listen.or(other.listen),
            http: self.http.or(other.http),
            memory: self.memory.or(other.memory),
            body_max: self.body_max.or(other.body_max),
            log: self.log.or(other.log),
        }
    }

    /// These settings, and the defaults where they are silent. Whether they make sense is [`Config::validate`]'s to say.
    pub fn config(self) -> Config {
        let default = Config::default();
        Config {
            data: self.data.unwrap_or(default.data),
            listen: self.listen.map_or(default.listen, |listen| listen.0),
            http: self.http.map(|http| http.0).or(default.http),
            memory: self.memory.map_or(default.memory, |size| size.0),
            // More than can be said is more than is allowed.
            body_max: self.body_max.map_or(default.body_max, |size| u32::try_from(size.0).unwrap_or(u32::MAX)),
            ..Config::default()
        }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Size, String> {
        quantity::size(text).map(Size)
    }
}

impl TryFrom<String> for Size {
    type Error = String;
    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

/// Where to listen: an address, or a name of this machine.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Listen, String> {
        let wrong = |why| format!("{why}; where to listen is written HOST:PORT, as in 127.0.0.1:7640");
        let mut found = text.to_socket_addrs().map_err(|why| wrong(why.to_string()))?;
        found.next().map(Listen).ok_or_else(|| wrong("no address has this name".into()))
    }
}

impl TryFrom<String> for Listen {
    type Error = String;
    fn try_from(text: String) -> Result<Listen, String> {
        text.parse()
    }
}

/// A level of the log.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Level(pub tracing::Level);

impl Default for Level {
    fn default() -> Level {
        Level(tracing::Level::INFO)
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Level, String> {
        text.parse().map(Level).map_err(|_| "a log level is error, warn, info, debug or trace".into())
    }
}

impl TryFrom<String> for Level {
    type Error = String;
    fn try_from(text: String) -> Result<Level, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    #[test]
    fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
        let file: Settings = toml::from_str("memory = '2GiB'\nlisten = '127.0.0.1:1'\n").unwrap();
        let flags = Settings { memory: Some(Size(128 << 20)), ..Settings::default() };
        let config = flags.or(file).config();
        assert_eq!(config.memory, 128 << 20);
        assert_eq!(config.listen.to_string(), "127.0.0.1:1");
        assert_eq!(config.http, Config::default().http);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = toml::from_str::<Settings>("memmory = '1GiB'").unwrap_err().to_string();
        assert!(error.contains("memmory") && error.contains("memory"), "{error}");
    }

    #[test]
    fn the_help_tells_the_true_defaults_and_variables() {
        let command = Settings::augment_args(clap::Command::new("serve"));
        let config = Config::default();
        let defaults = [
            ("data", config.data.display().to_string()),
            ("listen", config.listen.to_string()),
            ("http", config.http.unwrap().to_string()),
            ("memory", quantity::size_text(config.memory)),
            ("body_max", quantity::size_text(config.body_max.into())),
            ("log", Level::default().0.to_string().to_lowercase()),
        ];
        assert_eq!(command.get_arguments().count(), defaults.len());
        for (name, default) in defaults {
            let argument = command.get_arguments().find(|a| a.get_id() == name).unwrap();
            let help = argument.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "{help}");
            assert_eq!(argument.get_env().unwrap(), format!("MILLPOND_{}", name.to_uppercase()).as_str());
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let with = |text: &str| toml::from_str::<Settings>(text).unwrap().config().validate();
        assert!(with("memory = '1M'").is_err());
        assert!(with("listen = '127.0.0.1:9'\nhttp = '127.0.0.1:9'").is_err());
        assert!(toml::from_str::<Settings>("listen = 'nowhere'").is_err());
        assert!(toml::from_str::<Settings>("memory = 'much'").is_err());
    }
}
