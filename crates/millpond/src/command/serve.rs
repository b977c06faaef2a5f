//! `serve`: the broker itself, until a signal asks it to stop.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use millpond_server::{Config, Server};

use crate::failure::Failure;
use crate::log::Log;
use crate::settings::Settings;

const AFTER_HELP: &str = "\
A setting may also be given in its variable, or as a key of the TOML file that is named like the flag
without its dashes. A flag goes before a variable, a variable before the file.

The first line on stdout says where the broker listens, once it does:
  listening on ADDRESS, http ADDRESS
The log goes to stderr. Of lines that a client can cause, at most five a second of each kind are written from
level info on, and the next says how many were left out. Nothing waits for whoever reads the log: what does not
fit into a buffer of 1 MiB is dropped, counted (millpond_log_lines_dropped), and told of when the log goes on.
SIGTERM, SIGINT or SIGHUP stops the broker in order; with nohup, SIGHUP does not.";

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
        let log = Log::to_stderr(settings.log.unwrap_or_default().0);
        let log = log.map_err(|why| Failure::refused(format!("nothing can be logged: {why}")))?;
        let config = Config { cut_journal: self.cut_journal, ..settings.config() };
        let config = config.validate().map_err(Failure::usage)?;
        let ready = |server: &Server| {
            server.tell_dropped_lines(log.dropped());
            say_where(server);
        };
        millpond_server::serve(config, ready).map_err(Failure::refused)
    }
}

fn say_where(server: &Server) {
    let http = server.http_address().map_or_else(|| "off".to_owned(), |address| address.to_string());
    let mut output = std::io::stdout();
    // Whoever does not want to read where it listens may close stdout.
    let _ = writeln!(output, "listening on {}, http {http}", server.address()).and_then(|()| output.flush());
}
