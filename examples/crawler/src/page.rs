//! What becomes of one page: fetch it, publish its links, publish its record, and only then ack its task. Invariant:
//! whatever is acked has its links and its record on the broker's disk, so a crawler may die anywhere in between; the
//! page is then fetched again, and dedup makes the repeated links and record harmless.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use hyper::StatusCode;
use millpond_client::{Client, Decision, Delivery, Message, NamespaceName, PublishOutcome, TopicName};

use crate::address::Address;
use crate::fetch::{Fetched, Fetcher};
use crate::links::links;
use crate::recording::Recording;
use crate::records::{Kind, Record};
use crate::robots::Robots;
use crate::tally::Tally;
use crate::tasks::Task;

/// The pause before a publish that nobody confirmed is made again.
const REPEAT: Duration = Duration::from_millis(100);

/// Everything that the work on a page needs.
pub struct Crawler {
    pub client: Client,
    pub crawl: NamespaceName,
    pub pages: NamespaceName,
    pub fetcher: Fetcher,
    pub robots: Robots,
    /// The sites whose links are followed; all where `None`.
    pub scope: Option<HashSet<TopicName>>,
    pub recording: Recording,
    pub tally: Tally,
}

impl Crawler {
    /// Works on the page of a delivery and says what becomes of its message.
    pub async fn work(&self, delivery: Delivery) -> Decision {
        let task = match Task::read(&delivery) {
            Ok(task) => task,
            Err(what) => return Decision::reject(what),
        };
        tokio::select! {
            visited = self.visit(&task) => visited.unwrap_or_else(|what| {
                self.tally.failed.add(1);
                Decision::fail(what)
            }),
            // Another crawler may be at this page by now: one more request would be one too many for the site.
            () = self.client.lease_lost(&delivery.receipt) => {
                self.tally.abandoned.add(1);
                Decision::Release { delay: Duration::ZERO }
            }
        }
    }

    /// Either the page is finished, or the reason why this attempt has failed.
    async fn visit(&self, task: &Task) -> Result<Decision, String> {
        if !self.robots.allow(&self.fetcher, &task.address).await? {
            return self.finish(task, Kind::Barred, 0, 0).await;
        }
        let fetched = self.fetcher.fetch(&task.address).await.map_err(|error| error.to_string())?;
        let found = self.found(task, &fetched);
        self.recording.note(task, &fetched, found.as_ref().map_or(0, |(_, links)| links.len()));
        let (kind, links) = found.ok_or_else(|| format!("the site answered {}", fetched.status))?;

        // A redirect is no step deeper: the site says that the page is elsewhere.
        let depth = if kind == Kind::Redirect { task.depth } else { task.depth.saturating_add(1) };
        let messages = links.iter().map(|link| Task { address: link.clone(), depth }.message()).collect();
        self.publish(&self.crawl, messages).await?;
        self.finish(task, kind, fetched.status.as_u16(), links.len() as u64).await
    }

    /// The last step before the ack.
    async fn finish(&self, task: &Task, kind: Kind, status: u16, links: u64) -> Result<Decision, String> {
        let record = Record { address: task.address.clone(), kind, status, depth: task.depth, links };
        if self.publish(&self.pages, vec![record.message()]).await? > 0 {
            self.tally.finished.add(1);
        }
        Ok(Decision::Ack)
    }

    /// What an answer says about its page, and which links to follow; `None` if it is to be asked for again.
    fn found(&self, task: &Task, fetched: &Fetched) -> Option<(Kind, BTreeSet<Address>)> {
        let status = fetched.status;
        let passing =
            status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        if passing {
            return None;
        }
        let target = fetched.location.as_deref().and_then(|to| Address::follow(task.address.url(), to));
        let (kind, mut found) = match target {
            Some(target) if status.is_redirection() => (Kind::Redirect, BTreeSet::from([target])),
            _ if !status.is_success() => (Kind::Missing, BTreeSet::new()),
            _ if fetched.is_html => (Kind::Page, links(&task.address, &fetched.body)),
            _ => (Kind::Page, BTreeSet::new()),
        };
        if let Some(sites) = &self.scope {
            found.retain(|link| sites.contains(link.site()));
        }
        Some((kind, found))
    }

    /// Publishes until all of it is durable; how many were new. Repeating is harmless: every message has a dedup id.
    async fn publish(&self, namespace: &NamespaceName, messages: Vec<Message>) -> Result<usize, String> {
        if messages.is_empty() {
            return Ok(0);
        }
        let outcomes = loop {
            match self.client.publish_many(namespace, messages.clone()).await {
                Ok(outcomes) => break outcomes,
                Err(error) if error.is_passing() => tokio::time::sleep(REPEAT).await,
                Err(error) => return Err(error.to_string()),
            }
        };
        let is_new = |outcome: &&PublishOutcome| matches!(outcome, PublishOutcome::Queued { .. });
        let new = outcomes.iter().filter(is_new).count();
        let refused = outcomes.iter().find_map(|outcome| match outcome {
            PublishOutcome::Refused { detail, .. } => Some(detail.clone()),
            _ => None,
        });
        if namespace == &self.crawl {
            self.tally.links_new.add(new);
            let is_known = |outcome: &&PublishOutcome| matches!(outcome, PublishOutcome::Duplicate { .. });
            self.tally.links_duplicate.add(outcomes.iter().filter(is_known).count());
        }
        refused.map_or(Ok(new), Err)
    }
}
