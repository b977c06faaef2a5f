//! `pause` and `resume`: whether a topic, or all topics with a prefix, are delivered.

use clap::Args;
use millpond_client::TopicRef;
use millpond_types::TopicName;

use crate::address::{Address, Place};
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::json;
use crate::shell;

/// Stop deliveries of a topic, or of all topics with a prefix; publishing goes on
#[derive(Args)]
pub struct Pause {
    /// The topic or the prefix
    #[arg(value_name = "NS/TOPIC|NS/PREFIX*")]
    topics: Address,
}

/// Undo a pause of the same topic or prefix
#[derive(Args)]
pub struct Resume {
    /// The topic or the prefix
    #[arg(value_name = "NS/TOPIC|NS/PREFIX*")]
    topics: Address,
}

impl Pause {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (topic, is_prefix) = place(self.topics)?;
        with_client(globals, async |client| Ok(client.pause(topic, is_prefix).await?))
    }
}

impl Resume {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (topic, is_prefix) = place(self.topics)?;
        with_client(globals, async |client| {
            let paused = client.stats(topic.namespace.clone()).await?.paused;
            if paused.iter().any(|(name, prefix)| (name, *prefix) == (&topic.name, is_prefix)) {
                return Ok(client.resume(topic, is_prefix).await?);
            }
            Err(Failure::refused(not_paused(topic, is_prefix, &paused)))
        })
    }
}

/// What is not paused by itself may be by prefixes, and those are what to resume.
fn not_paused(TopicRef { namespace, name }: TopicRef, is_prefix: bool, paused: &[(TopicName, bool)]) -> String {
    let covers = |(other, prefix): &&(TopicName, bool)| *prefix && name.as_str().starts_with(other.as_str());
    let resume =
        |wide| format!("`millpond resume {}`", shell::quoted(&format!("{namespace}/{}", json::paused_text(wide))));
    let wider = paused.iter().filter(covers).map(resume);
    let (wider, shown) = (wider.collect::<Vec<_>>(), json::paused_text(&(name.clone(), is_prefix)));
    if wider.is_empty() {
        return format!("{shown} is not paused: `millpond namespace show {namespace}` lists what is");
    }
    format!("{shown} is not paused by itself, but with a prefix: {}", wider.join(", "))
}

/// A name and whether it is a prefix. A pause has a name, so a whole namespace cannot be paused.
fn place(address: Address) -> Result<(TopicRef, bool), Failure> {
    let Address { namespace, place } = address;
    match place {
        Place::Topic(name) => Ok((TopicRef { namespace, name }, false)),
        Place::Prefix(name) => Ok((TopicRef { namespace, name }, true)),
        Place::All => Err(Failure::usage(format!(
            "a whole namespace cannot be paused: name a topic or a prefix, as in {namespace}/a*"
        ))),
    }
}
