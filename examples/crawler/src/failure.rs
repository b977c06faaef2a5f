//! Why a command ended without having done what was asked, and the exit code for it: those of the `millpond` command.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use millpond_client::{BadName, Code, Error, NamespaceName};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Broker(#[from] Error),
    #[error("nothing has been seeded into {0} yet: say where to begin with `crawler seed URL --namespace {0}`")]
    NothingSeeded(NamespaceName),
    #[error("the name of the namespace for what is found, {name}, is not valid ({reason}): take a shorter --namespace")]
    PagesName { name: String, reason: BadName },
    #[error("cannot append to {}: {error}", path.display())]
    Record { path: PathBuf, error: io::Error },
    #[error(
        "what lies in {topic} of {namespace} is not of this crawler: {what}. Give the crawl a namespace of its own"
    )]
    Foreign { namespace: String, topic: String, what: String },
    #[error("some seeds were not taken: {0}")]
    SeedRefused(String),
}

impl Failure {
    /// 1 refused by the broker, 2 wrong usage, 3 broker unreachable.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Broker(Error::Refused { .. }) | Failure::Foreign { .. } | Failure::SeedRefused(_) => 1,
            Failure::Broker(Error::Invalid(_))
            | Failure::NothingSeeded(_)
            | Failure::PagesName { .. }
            | Failure::Record { .. } => 2,
            Failure::Broker(_) => 3,
        })
    }

    /// The same about a crawl: that a namespace is unknown means that nothing was seeded into it.
    pub fn of_crawl(self, crawl: &NamespaceName) -> Failure {
        match self {
            Failure::Broker(Error::Refused { code: Code::NamespaceUnknown, .. }) => {
                Failure::NothingSeeded(crawl.clone())
            }
            failure => failure,
        }
    }
}
