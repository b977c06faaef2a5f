//! `serve`: the broker itself, until a signal asks it to stop.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use millpond_server::{Config, Server};

use crate::failure::Failure;
use crate::settings::Settings;

const AFTER_HELP: &str = "\
A setting may also be given in its variable, or as a key of the TOML file that is named like the flag
without its dashes. A flag goes before a variable, a variable before the file.

The first line on stdout says where the broker listens, once it does:
  listening on ADDRESS, http ADDRESS
The log goes to stderr. SIGTERM, SIGINT or SIGHUP stops the broker in order; with nohup, SIGHUP does not.";

/// Run the broker
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Serve {
    #[command(flatten)]
    settings: Settings,
    /// Take settings from this TOML file
    #[arg(long, value_name = "FILE", env = "MILLPOND_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Cut the journal off at this position, where a start has found damage and said so; what follows it is lost
    #[arg(long, value_name = "POSITION")]
    cut_journal: Option<u64>,
}

impl Serve {
    /// Carries the command out.
    pub fn run(self) -> Result<(), Failure> {
        let file = self.config.as_deref().map(Settings::from_file).transpose()?.unwrap_or_default();
        let settings = self.settings.or(file);
        log_to_stderr(settings.log.unwrap_or_default().0);
        let config = Config { cut_journal: self.cut_journal, ..settings.config() };
        let config = config.validate().map_err(Failure::usage)?;
        millpond_server::serve(config, say_where).map_err(Failure::refused)
    }
}

fn say_where(server: &Server) {
    let http = server.http_address().map_or_else(|| "off".to_owned(), |address| address.to_string());
    let mut output = std::io::stdout();
    // Whoever does not want to read where it listens may close stdout.
    let _ = writeln!(output, "listening on {}, http {http}", server.address()).and_then(|()| output.flush());
}

/// Without colours, also on a terminal: the feature for them is not built in, and who asks for it is told so there.
fn log_to_stderr(level: tracing::Level) {
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
}
