//! `crawler seed`: makes the two namespaces of a crawl and publishes the pages to begin with.

use millpond_client::{Client, DedupWindow, Message, NamespaceName, Policy, PublishOutcome, Retry, Rules};

use crate::arguments::Seed;
use crate::failure::Failure;
use crate::records::{pages_of, seed_message};
use crate::tasks::Task;

/// Sets the policy of the crawl, and publishes each seed that is not known yet.
pub async fn run(seed: Seed) -> Result<(), Failure> {
    let (crawl, pages) = (seed.which.namespace.clone(), pages_of(&seed.which.namespace)?);
    let client = Client::connect(seed.which.server.as_str()).await?;
    client.set_namespace(crawl.clone(), policy(&seed), Rules::default()).await?;
    client.set_namespace(pages.clone(), remembering(), Rules::default()).await?;

    // The record first: it puts the site into the scope of crawlers that are already at work on the page.
    publish(&client, &pages, seed.pages.iter().map(seed_message).collect()).await?;
    let tasks = seed.pages.iter().map(|address| Task { address: address.clone(), depth: 0 }.message());
    let queued = publish(&client, &crawl, tasks.collect()).await?;
    println!("{queued} of {} seeds are new to {crawl}", seed.pages.len());
    client.close().await;
    Ok(())
}

/// What makes the crawl a crawl: every address once, few requests to a site at a time, patience with failures.
fn policy(seed: &Seed) -> Policy {
    let millis = |time: std::time::Duration| millpond_client::Millis(time.as_millis() as u64);
    Policy {
        max_in_flight: Some(seed.per_site),
        max_failures: seed.max_failures,
        retry: Retry::Backoff { first: millis(seed.backoff), longest: millis(seed.backoff_longest) },
        ..remembering()
    }
}

fn remembering() -> Policy {
    Policy { dedup_window: DedupWindow::Forever, ..Policy::default() }
}

/// Publishes, and says how many were new.
async fn publish(client: &Client, namespace: &NamespaceName, messages: Vec<Message>) -> Result<usize, Failure> {
    let mut queued = 0;
    for outcome in client.publish_many(namespace, messages).await? {
        match outcome {
            PublishOutcome::Queued { .. } | PublishOutcome::Coalesced { .. } => queued += 1,
            PublishOutcome::Duplicate { .. } => {}
            PublishOutcome::Refused { detail, .. } => return Err(Failure::SeedRefused(detail)),
        }
    }
    Ok(queued)
}
