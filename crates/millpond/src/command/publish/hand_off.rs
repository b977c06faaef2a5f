//! `publish --ack`: a message is published as others are acked, both or neither.

use millpond_client::{Batch, Client, Error, Receipts, Routed};
use millpond_types::{NamespaceName, Receipt};

use super::told::Told;
use crate::cli::Output;
use crate::command::finish;
use crate::failure::Failure;

/// What is published.
pub(super) enum Handed {
    /// To a topic.
    Topic(Batch),
    /// To an exchange.
    Exchange(Routed),
}

/// Publishes a message as leases are acked, and tells what became of both.
pub(super) async fn hand_off(
    client: &Client,
    output: Output,
    (namespace, handed): (&NamespaceName, &Handed),
    leases: &[Receipt],
) -> Result<(), Failure> {
    let mut receipts = Receipts::default();
    leases.iter().for_each(|receipt| receipts.push(*receipt));
    let mut told = Told::new(output, false);
    let forwarded = match handed {
        Handed::Topic(batch) => client.ack_and_publish(receipts, namespace, batch).await,
        Handed::Exchange(message) => client.ack_and_route(receipts, namespace, message).await,
    };
    let forwarded = match forwarded {
        Ok(forwarded) => forwarded,
        Err(error) => {
            if let Error::Refused { code, detail } = &error {
                told.refused(1, *code, detail);
            }
            return Err(error.into());
        }
    };
    match handed {
        Handed::Topic(_) => told.add(forwarded.published.runs().to_vec()),
        Handed::Exchange(_) if forwarded.published.is_empty() && forwarded.is_done() => told.nowhere(),
        Handed::Exchange(_) => told.add_copies(forwarded.topics.clone(), &forwarded.published),
    }
    let published = told.finish();
    finish::tell(output, leases, &forwarded.finished, "acked")
        .map_err(|why| Failure::refused(format!("{why}. Nothing was published, and nothing acked")))?;
    published.map_err(|why| Failure::refused(format!("{why}. Nothing was acked")))
}
