//! The command line. What it cannot say wrong is said here by types; what the broker has to check, it checks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use millpond_client::{BadName, DEFAULT_SERVER, NamespaceName};

use crate::address::Address;

/// Crawls websites with a topic per site on a Millpond broker.
#[derive(Parser, Debug)]
#[command(name = "crawler", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Say where to begin and how politely; may be repeated while crawlers run
    Seed(Seed),
    /// Fetch pages until nothing of the crawl is left to do, then print the report
    Crawl(Crawl),
    /// Print what has been found so far
    Report(Report),
}

/// Which crawl, and where.
#[derive(Args, Clone, Debug)]
pub struct Which {
    /// The broker, as HOST:PORT
    #[arg(long, env = "MILLPOND_SERVER", default_value = DEFAULT_SERVER)]
    pub server: String,
    /// The namespace that holds the crawl; what was found is kept in NAMESPACE.pages
    #[arg(long, default_value = "crawl", value_parser = namespace)]
    pub namespace: NamespaceName,
}

#[derive(Args, Debug)]
pub struct Seed {
    #[command(flatten)]
    pub which: Which,
    /// Pages to begin with
    #[arg(required = true, value_name = "URL", value_parser = Address::parse)]
    pub pages: Vec<Address>,
    /// Requests to one site at a time, over all crawlers
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub per_site: u32,
    /// Failures that a page survives; the one past them makes it a dead letter
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub max_failures: u32,
    /// The pause after a page's first failure; each further one is twice as long
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub backoff: Duration,
    /// The longest pause
    #[arg(long, default_value = "1m", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub backoff_longest: Duration,
}

#[derive(Args, Debug)]
pub struct Crawl {
    #[command(flatten)]
    pub which: Which,
    /// Pages to fetch at a time
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub concurrency: u32,
    /// Which links to follow
    #[arg(long, value_enum, default_value_t = Scope::Seeds)]
    pub scope: Scope,
    /// The longest wait for a page, from connecting to its last byte
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub timeout: Duration,
    /// How long the broker waits for a crawler that has gone silent before others get its pages, at least 500ms
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub resume: Duration,
    /// Append a JSON object for each page that this process fetches
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct Report {
    #[command(flatten)]
    pub which: Which,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Which links are followed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those that stay on the sites of the seeds
    Seeds,
    /// All
    Anywhere,
}

fn namespace(text: &str) -> Result<NamespaceName, BadName> {
    NamespaceName::try_from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_cannot_be_crawled_is_no_seed() {
        for bad in [&["seed"][..], &["seed", "ftp://a/"], &["crawl", "--concurrency", "0"], &["crawl", "--scope", "x"]]
        {
            assert!(Arguments::try_parse_from([&["crawler"], bad].concat()).is_err(), "{bad:?}");
        }
    }
}
