//! The report of a crawl: over all processes that ever worked on it, made from what the broker holds. It is complete
//! once nothing is left to do, and says so where something is.

use std::collections::BTreeSet;

use millpond_client::{Client, GroupName, Listing, NamespaceName, TopicName, block};
use serde_json::json;

use crate::address::Address;
use crate::arguments;
use crate::crawl::unfinished;
use crate::failure::Failure;
use crate::records::{Kind, pages_of, records, seeds};
use crate::tally::Tally;
use crate::tasks::address;

/// Dead letters of one page of a listing.
const DEAD_PAGE: u32 = 1_000;

/// A crawl in figures. Every page is counted once, however often it was fetched.
#[derive(Default, Debug)]
struct Report {
    seeds: u64,
    /// Answered with the page.
    pages: u64,
    /// Answered with another address.
    redirects: u64,
    /// Not there.
    missing: u64,
    /// Left alone, as its site asks.
    barred: u64,
    /// Given up on after too many failures.
    dead: u64,
    /// Not finished yet.
    unfinished: u64,
    /// Links in scope on all pages, each once a page; where a redirect leads is one.
    links: u64,
    sites: u64,
    /// When the first and the last record were published, in milliseconds since the epoch.
    span: Option<(u64, u64)>,
}

/// `crawler report`.
pub async fn run(arguments: arguments::Report) -> Result<(), Failure> {
    let client = Client::connect(arguments.which.server.as_str()).await?;
    print(&client, &arguments.which.namespace, arguments.json, None).await
}

/// Prints the report as it is now, with what this process has done.
pub async fn print(
    client: &Client,
    crawl: &NamespaceName,
    json: bool,
    this_process: Option<&Tally>,
) -> Result<(), Failure> {
    let report = gather(client, crawl).await.map_err(|failure| failure.of_crawl(crawl))?;
    if json {
        let mut report = report.json();
        report["this_process"] = this_process.map(Tally::json).into();
        println!("{report}");
    } else {
        print!("{}", report.table(crawl));
        print!("{}", this_process.map(Tally::line).unwrap_or_default());
    }
    Ok(())
}

async fn gather(client: &Client, crawl: &NamespaceName) -> Result<Report, Failure> {
    let pages = pages_of(crawl)?;
    let stats = client.stats(crawl.clone()).await?;
    let mut report = Report { unfinished: unfinished(&stats), ..Report::default() };
    report.seeds = seeds(client, &pages).await?.len() as u64;
    let mut dead = dead_letters(client, crawl).await?;
    let mut sites: BTreeSet<TopicName> = dead.iter().map(|address| address.site().clone()).collect();
    records(client, &pages, |record, published| {
        // Finished, its crawler killed before the ack, and given up on by the next one: it counts as finished.
        dead.remove(&record.address);
        let counter = match record.kind {
            Kind::Page => &mut report.pages,
            Kind::Redirect => &mut report.redirects,
            Kind::Missing => &mut report.missing,
            Kind::Barred => &mut report.barred,
        };
        *counter += 1;
        report.links += record.links;
        let (first, last) = report.span.unwrap_or((published, published));
        report.span = Some((first.min(published), last.max(published)));
        sites.insert(record.address.site().clone());
    })
    .await?;
    report.dead = dead.len() as u64;
    report.sites = sites.len() as u64;
    Ok(report)
}

async fn dead_letters(client: &Client, crawl: &NamespaceName) -> Result<BTreeSet<Address>, Failure> {
    let mut dead = BTreeSet::new();
    let (namespace, limit) = (crawl.clone(), DEAD_PAGE);
    let mut listing = Listing { namespace, prefix: Default::default(), after: Default::default(), limit };
    loop {
        let page = client.dead_letters(listing.clone(), GroupName::default()).await?;
        for row in &page.rows {
            // What was rejected because it is no task is not a page either.
            let Ok(parts) = block::first(&row.message.block) else { continue };
            dead.extend(address(parts.body));
        }
        if page.next.is_empty() {
            return Ok(dead);
        }
        listing.after = page.next;
    }
}

impl Report {
    fn finished(&self) -> u64 {
        self.pages + self.redirects + self.missing + self.barred
    }

    /// Links and seeds that led to an address that was known: all but the first for each.
    fn duplicates(&self) -> u64 {
        (self.seeds + self.links).saturating_sub(self.finished() + self.dead + self.unfinished)
    }

    fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| (last - first) as f64 / 1000.0)
    }

    fn per_second(&self) -> f64 {
        if self.seconds() > 0.0 { self.finished() as f64 / self.seconds() } else { 0.0 }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "seeds": self.seeds,
            "pages": self.pages,
            "redirects": self.redirects,
            "missing": self.missing,
            "barred": self.barred,
            "dead": self.dead,
            "unfinished": self.unfinished,
            "links": self.links,
            "duplicates": self.duplicates(),
            "sites": self.sites,
            "seconds": self.seconds(),
            "pages_per_second": self.per_second(),
        })
    }

    fn table(&self, crawl: &NamespaceName) -> String {
        let state = match self.unfinished {
            0 => "complete".to_owned(),
            left => format!("{left} pages are left to do; figures are of now"),
        };
        format!(
            "crawl {crawl}: {state}\n\
             pages             {:>10}\n\
             redirects         {:>10}\n\
             barred            {:>10}\n\
             failures: missing {:>10}\n\
             failures: dead    {:>10}\n\
             links             {:>10}\n\
             duplicates        {:>10}\n\
             sites             {:>10}\n\
             seconds           {:>10.1}\n\
             pages per second  {:>10.1}\n",
            self.pages,
            self.redirects,
            self.barred,
            self.missing,
            self.dead,
            self.links,
            self.duplicates(),
            self.sites,
            self.seconds(),
            self.per_second(),
        )
    }
}
