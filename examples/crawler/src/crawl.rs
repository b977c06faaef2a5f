//! `crawler crawl`: a pool of workers over all sites of a crawl, until nothing is left to do.
//!
//! The end is certain when one stats answer counts nothing that waits, is delayed, in retry or leased: a page is acked
//! after its links are published, so no moment lies between a last page and the links on it.

use std::sync::Arc;
use std::time::Duration;

use millpond_client::{Client, ClientOptions, GroupName, NamespaceView, SubscribeOptions, Workers};

use crate::arguments::{Crawl, Scope};
use crate::failure::Failure;
use crate::fetch::Fetcher;
use crate::page::Crawler;
use crate::recording::Recording;
use crate::records::{pages_of, seeds};
use crate::report;
use crate::robots::Robots;
use crate::tally::Tally;

/// How often the broker is asked whether anything is left. Nobody waits for it but the last crawler.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// Crawls until nothing is left or a signal comes, and prints the report.
pub async fn run(crawl: Crawl) -> Result<(), Failure> {
    let crawler = Arc::new(prepare(&crawl).await?);
    let client = &crawler.client;
    // No message more than there are workers: one that waits in here would take a place at its site.
    let options = SubscribeOptions { messages: crawl.concurrency, ..SubscribeOptions::new(crawler.crawl.clone()) };
    let subscription = client.subscribe(options).await?;
    let handler = {
        let crawler = Arc::clone(&crawler);
        move |delivery| {
            let crawler = Arc::clone(&crawler);
            async move { crawler.work(delivery).await }
        }
    };
    let mut workers = Workers::start(subscription, crawl.concurrency as usize, handler);
    let is_over = tokio::select! {
        ended = nothing_left(&crawler) => ended.map(|()| true),
        () = told_to_stop() => Ok(false),
        ended = workers.ended() => return Ok(ended.map(|_| ())?),
    };
    let stopped = workers.stop().await;
    let is_over = is_over?;
    stopped?;
    if !is_over {
        eprintln!("crawler: stopped before the end; whoever crawls {} next goes on from here", crawler.crawl);
    }
    report::print(client, &crawler.crawl, crawl.json, Some(&crawler.tally)).await
}

async fn prepare(crawl: &Crawl) -> Result<Crawler, Failure> {
    let namespace = crawl.which.namespace.clone();
    let pages = pages_of(&namespace)?;
    let recording = Recording::open(crawl.record.as_deref())?;
    let options = ClientOptions {
        name: "crawler".to_owned(),
        resume: crawl.resume,
        ..ClientOptions::new(crawl.which.server.as_str())
    };
    let client = Client::connect(options).await?;
    let seeds = seeds(&client, &pages).await.map_err(|failure| failure.of_crawl(&namespace))?;
    if seeds.is_empty() {
        return Err(Failure::NothingSeeded(namespace));
    }
    let scope = match crawl.scope {
        Scope::Seeds => Some(seeds.iter().map(|seed| seed.site().clone()).collect()),
        Scope::Anywhere => None,
    };
    let (fetcher, robots, tally) = (Fetcher::new(crawl.timeout), Robots::default(), Tally::default());
    Ok(Crawler { client, crawl: namespace, pages, fetcher, robots, scope, recording, tally })
}

/// Waits until one answer of the broker counts nothing that may still be delivered.
async fn nothing_left(crawler: &Crawler) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(LOOK_AROUND).await;
        match crawler.client.stats(crawler.crawl.clone()).await {
            Ok(stats) if unfinished(&stats) == 0 => return Ok(()),
            Ok(_) => {}
            // The broker is away, and so is whatever it knows.
            Err(error) if error.is_passing() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Pages of the crawl that are waiting, delayed, in retry or leased.
pub fn unfinished(stats: &NamespaceView) -> u64 {
    let crawlers = stats.groups.iter().find(|group| group.name == GroupName::default());
    crawlers.map_or(0, |group| group.counts.unfinished())
}

async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => signal.recv().await,
            // Without the means to be told, only the end of the work or of the process ends it.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = wait(SignalKind::interrupt()) => {}
        _ = wait(SignalKind::terminate()) => {}
    }
}
