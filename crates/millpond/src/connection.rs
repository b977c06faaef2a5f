//! A command's connection to the broker, and what its errors mean for the exit code.

use millpond_client::{Client, ClientOptions, Error};
use millpond_types::Code;
use tokio::runtime::Runtime;

use crate::cli::Globals;
use crate::failure::Failure;

/// The event loop of a command.
pub fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|why| Failure::refused(format!("no event loop could be made: {why}")))
}

/// Runs what a command does with the broker. A connection that is lost is not taken up again: a script decides itself
/// whether to repeat a command.
pub fn with_client<T>(globals: &Globals, work: impl AsyncFnOnce(&Client) -> Result<T, Failure>) -> Result<T, Failure> {
    runtime()?.block_on(async {
        let client = Client::connect(ClientOptions { reconnect: None, ..options(globals) }).await?;
        let done = work(&client).await;
        client.close().await;
        done
    })
}

/// How to connect, as the command line says.
pub fn options(globals: &Globals) -> ClientOptions {
    let name = concat!("millpond-cli/", env!("CARGO_PKG_VERSION")).to_owned();
    ClientOptions { name, ..ClientOptions::new(globals.server.as_str()) }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match &error {
            // It goes away: as far as a script is concerned, it is away.
            Error::Refused { code: Code::Stopping, .. } => Failure::unreachable(error),
            Error::Refused { .. } => Failure::refused(error),
            Error::Invalid(_) => Failure::usage(error),
            Error::Partial { source, .. } => Failure { text: error.to_string(), ..Failure::from((**source).clone()) },
            // Whatever else goes wrong, there is no broker that could say yes or no.
            _ => Failure::unreachable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_broker_that_is_going_away_is_no_refusal() {
        let exit = |code| Failure::from(Error::Refused { code, detail: String::new() }).exit;
        assert_eq!((exit(Code::Stopping), exit(Code::DiskFull)), (Exit::Unreachable, Exit::Refused));
    }
}
