//! `pause` and `resume`: whether topics are delivered: one, all with a prefix, or all of a namespace.

use clap::Args;
use millpond_types::{Millis, NamespaceName, PausedTopics};

use crate::address::{Address, Place};
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::shell;
use crate::{json, quantity};

/// Stop deliveries of a topic, of all topics with a prefix, or of all of a namespace; publishing goes on
#[derive(Args)]
pub struct Pause {
    /// The topic, the prefix, or the namespace
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]")]
    topics: Address,
    /// How long; what is paused already is so from now on for as long [default: until it is resumed]
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::millis)]
    lasts: Option<Millis>,
}

/// Undo a pause of the same topic, prefix or namespace
#[derive(Args)]
pub struct Resume {
    /// The topic, the prefix, or the namespace
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]")]
    topics: Address,
}

impl Pause {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Address { namespace, place } = self.topics;
        with_client(globals, async |client| Ok(client.pause(namespace, topics(place), self.lasts).await?))
    }
}

impl Resume {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Address { namespace, place } = self.topics;
        let topics = topics(place);
        with_client(globals, async |client| {
            let paused = client.stats(namespace.clone()).await?.paused;
            let paused: Vec<_> = paused.into_iter().map(|pause| pause.topics).collect();
            if paused.contains(&topics) {
                return Ok(client.resume(namespace, topics).await?);
            }
            Err(Failure::refused(not_paused(&namespace, &topics, &paused)))
        })
    }
}

fn topics(place: Place) -> PausedTopics {
    match place {
        Place::Topic(name) => PausedTopics::from(&name),
        Place::Prefix(name) => PausedTopics::prefix(&name),
        Place::All => PausedTopics::all(),
    }
}

/// What is not paused by itself may be by prefixes, and those are what to resume.
fn not_paused(namespace: &NamespaceName, topics: &PausedTopics, paused: &[PausedTopics]) -> String {
    let covers = |other: &&PausedTopics| other.is_prefix() && topics.as_bytes().starts_with(other.as_bytes());
    let resume = |wide: &PausedTopics| match *wide == PausedTopics::all() {
        true => format!("`millpond resume {namespace}`"),
        false => {
            let address = format!("{namespace}/{}", json::paused_text(wide));
            format!("`millpond resume {}`", shell::quoted(&address))
        }
    };
    let wider: Vec<_> = paused.iter().filter(covers).map(resume).collect();
    let shown = if *topics == PausedTopics::all() { namespace.to_string() } else { json::paused_text(topics) };
    if wider.is_empty() {
        return format!("{shown} is not paused: `millpond namespace show {namespace}` lists what is");
    }
    format!("{shown} is not paused by itself, but with a prefix: {}", wider.join(", "))
}
