//! `publish --ack`: a message is published as others are acked, both or neither.

use millpond_client::{Batch, Client, Error, Receipts};
use millpond_types::{NamespaceName, Receipt};

use super::told::Told;
use crate::cli::Output;
use crate::command::finish;
use crate::failure::Failure;

/// Publishes messages as leases are acked, and tells what became of both.
pub(super) async fn hand_off(
    client: &Client,
    output: Output,
    (namespace, batch): (&NamespaceName, &Batch),
    leases: &[Receipt],
) -> Result<(), Failure> {
    let mut receipts = Receipts::default();
    leases.iter().for_each(|receipt| receipts.push(*receipt));
    let mut told = Told::new(output, false);
    let forwarded = match client.ack_and_publish(receipts, namespace, batch).await {
        Ok(forwarded) => forwarded,
        Err(error) => {
            if let Error::Refused { code, detail } = &error {
                told.refused(1, *code, detail);
            }
            return Err(error.into());
        }
    };
    told.add(forwarded.published.runs().to_vec());
    let published = told.finish();
    finish::tell(output, leases, &forwarded.finished, "acked")
        .map_err(|why| Failure::refused(format!("{why}. Nothing was published, and nothing acked")))?;
    published.map_err(|why| Failure::refused(format!("{why}. Nothing was acked")))
}
