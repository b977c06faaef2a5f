//! `pause` and `resume`: whether a topic, or all topics with a prefix, are delivered.

use clap::Args;
use millpond_client::TopicRef;

use crate::address::{Address, Place};
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;

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
        with_client(globals, async |client| Ok(client.resume(topic, is_prefix).await?))
    }
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
