//! The crawler over real documentation, with the real broker: what it finds is what a plain walk over the files finds,
//! also when crawlers and broker are killed in the middle of it.

mod blows;
mod programs;
mod server;
mod walk;
mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, thread};

use millpond_client::{Client, GroupName, Listing, NamespaceName, ReceiveOptions};
use serde_json::Value;

use blows::{BLOWS, Blow, Random};
use programs::{Broker, CRAWL, Crawler, free_address, refusal, seed};
use server::Server;
use walk::{End, Expected, walk};
use world::World;

/// Requests to a site at a time, as the crawl is told and the sites check.
const PER_SITE: usize = 2;
/// No run takes as long: what is still at work then is stuck.
const STUCK: Duration = Duration::from_secs(600);

#[test]
fn a_crawl_finds_what_a_walk_finds() {
    let Some(mut world) = World::of(&["git"]) else { return };
    world.silent = Some("/giteveryday.html");
    let crawl = Crawl::begin(world, &["--max-failures", "2", "--backoff", "20ms", "--backoff-longest", "100ms"]);
    let record = crawl.directory.path().join("record.jsonl");
    let options = ["--timeout", "3s", "--record", record.to_str().unwrap()];
    let crawlers: Vec<Crawler> = (0..2).map(|_| Crawler::start(&crawl.broker, &options)).collect();
    let reports = crawl.end(crawlers);
    crawl.check(&reports);
    crawl.check_politeness();

    // Nobody was killed, so what the processes saw adds up as well.
    let sum = |name: &str| reports.iter().map(|report| number(&report["this_process"], name)).sum::<u64>();
    let finished = crawl.expected.ends.values().filter(|end| **end != End::Dead).count() as u64;
    assert_eq!(sum("finished"), finished);
    assert_eq!(sum("links_new") + sum("links_duplicate"), crawl.expected.links);
    assert_eq!(sum("links_duplicate"), number(&reports[0], "duplicates"));

    // And nobody has fetched a page twice.
    let recorded = fs::read_to_string(record).unwrap();
    let lines = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut fetched: Vec<String> =
        lines.filter(|line| line["status"] == 200).map(|line| line["url"].as_str().unwrap().to_owned()).collect();
    fetched.sort();
    let pages = crawl.expected.ends.iter().filter(|(_, end)| **end == End::Page).map(|(address, _)| address);
    assert!(fetched.iter().eq(pages), "the pages that were recorded are not those that there are, once each");
}

#[test]
fn kills_lose_nothing_and_double_nothing() {
    let Some(world) = World::of(&["python", "git", "postgresql"]) else { return };
    let mut crawl = Crawl::begin(world, &["--max-failures", "10", "--backoff", "20ms", "--backoff-longest", "250ms"]);
    let mut crawlers: Vec<Crawler> = (0..3).map(|_| Crawler::start(&crawl.broker, &[])).collect();
    let mut random = Random::new();
    let pages = crawl.expected.ends.len() as u64;
    let mut moments: Vec<u64> = BLOWS.iter().map(|_| pages / 20 + random.below(pages * 17 / 20)).collect();
    moments.sort_unstable();
    for (moment, blow) in moments.into_iter().zip(BLOWS) {
        crawl.wait_for(moment, &mut crawlers);
        let victim = random.below(crawlers.len() as u64) as usize;
        if blow == Blow::Hold {
            crawlers[victim].signal("STOP");
            continue;
        }
        if blow != Blow::KillBroker {
            crawlers.swap_remove(victim).kill();
        }
        if blow != Blow::KillCrawler {
            crawl.broker.kill_and_restart();
        }
        if blow != Blow::KillBroker {
            crawlers.push(Crawler::start(&crawl.broker, &[]));
        }
    }
    crawl.check_politeness();
    // What was held goes on as if its leases were current, and may send a request before it learns that they are not: no
    // lease can bind a process that stands still. So politeness is not checked behind this.
    crawlers.iter().for_each(|crawler| crawler.signal("CONT"));
    let reports = crawl.end(crawlers);
    crawl.check(&reports);
}

#[test]
fn what_cannot_be_done_is_said() {
    let (code, said) = refusal(&free_address(), "seed", &["http://127.0.0.1/"]);
    assert!(code == Some(3) && said.contains("cannot reach the broker"), "{code:?}: {said}");

    let (code, said) = refusal(&free_address(), "seed", &["https://127.0.0.1/"]);
    assert!(code == Some(2) && said.contains("only http is crawled"), "{code:?}: {said}");

    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(&directory.path().join("data"));
    for verb in ["crawl", "report"] {
        let (code, said) = refusal(&broker.address, verb, &[]);
        assert!(code == Some(2) && said.contains("say where to begin with `crawler seed"), "{code:?}: {said}");
    }
    let (code, said) = refusal(&broker.address, "seed", &["http://127.0.0.1/", "--per-site", "0"]);
    assert!(code == Some(1) && said.contains("max_in_flight is at least 1"), "{code:?}: {said}");

    let nowhere = directory.path().join("absent").join("file");
    let (code, said) = refusal(&broker.address, "crawl", &["--record", nowhere.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("cannot append to"), "{code:?}: {said}");
}

/// A crawl under way, and what it has to find.
struct Crawl {
    broker: Broker,
    server: Server,
    expected: Expected,
    started: Instant,
    /// Removed with the test.
    directory: tempfile::TempDir,
}

impl Crawl {
    fn begin(world: World, policy: &[&str]) -> Crawl {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(world);
        let expected = walk(&server.world);
        let names: Vec<&str> = server.world.packages.iter().map(|package| package.name).collect();
        let (addresses, sites) = (expected.ends.len(), server.world.sites.len());
        eprintln!("crawling {names:?}: {addresses} addresses, {} links, {sites} sites", expected.links);
        let broker = Broker::start(&directory.path().join("data"));
        let fronts: Vec<String> = server.world.sites.iter().map(|site| format!("{}/", site.origin)).collect();
        let per_site = PER_SITE.to_string();
        let options = [policy, &["--per-site", &per_site]].concat();
        let fronts: Vec<&str> = fronts.iter().map(String::as_str).collect();
        seed(&broker, &[options, fronts].concat());
        Crawl { broker, server, expected, started: Instant::now(), directory }
    }

    /// Waits until the sites have answered so many requests.
    fn wait_for(&self, answered: u64, crawlers: &mut [Crawler]) {
        while self.server.answered() < answered {
            self.look_for_life();
            assert!(crawlers.iter_mut().all(Crawler::is_running), "a crawler ended too early");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until all crawlers have ended by themselves, and takes their reports.
    fn end(&self, mut crawlers: Vec<Crawler>) -> Vec<Value> {
        while crawlers.iter_mut().any(Crawler::is_running) {
            self.look_for_life();
            thread::sleep(Duration::from_millis(5));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        eprintln!("ended after {seconds:.1} s and {} requests", self.server.answered());
        crawlers.into_iter().map(Crawler::report).collect()
    }

    fn look_for_life(&self) {
        let (answered, all) = (self.server.answered(), self.expected.ends.len());
        assert!(self.started.elapsed() < STUCK, "stuck after {answered} requests, with {all} addresses to find");
    }

    /// Holds what was found against the walk, and every report against it too.
    fn check(&self, reports: &[Value]) {
        let found = found(&self.broker);
        for (address, end) in &self.expected.ends {
            assert_eq!(found.get(address), Some(end), "{address}: found on the left, expected on the right");
        }
        assert_eq!(found.len(), self.expected.ends.len(), "more was found than there is");
        let count = |end: End| found.values().filter(|found| **found == end).count() as u64;
        for report in reports {
            eprintln!("{report}");
            assert_eq!(number(report, "pages"), count(End::Page));
            assert_eq!(number(report, "redirects"), count(End::Redirect));
            assert_eq!(number(report, "missing"), count(End::Missing));
            assert_eq!(number(report, "barred"), count(End::Barred));
            assert_eq!(number(report, "dead"), count(End::Dead));
            assert_eq!(number(report, "unfinished"), 0);
            let sites = self.server.world.sites.len() as u64;
            let links = self.expected.links;
            assert_eq!(number(report, "sites"), sites);
            assert_eq!(number(report, "links"), links);
            assert_eq!(number(report, "duplicates"), sites + links - found.len() as u64);
        }
    }

    /// Whether the sites have been spared as they were to be.
    fn check_politeness(&self) {
        let most = self.server.most_at_a_time();
        assert!(most <= PER_SITE, "a site had {most} requests at a time");
    }
}

/// Everything that the broker holds of the crawl, read without the crawler; every address at most once.
fn found(broker: &Broker) -> BTreeMap<String, End> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        let mut found = BTreeMap::new();
        let pages = NamespaceName::try_from(format!("{CRAWL}.pages").as_str()).unwrap();
        let options = ReceiveOptions { messages: 1_000, ..ReceiveOptions::new(pages) };
        loop {
            let records = client.receive(options.clone()).await.unwrap();
            if records.is_empty() {
                break;
            }
            for record in records.filter(|record| !record.topic.as_bytes().starts_with(b"seeds/")) {
                let end = match record.header("kind").unwrap() {
                    b"page" => End::Page,
                    b"redirect" => End::Redirect,
                    b"missing" => End::Missing,
                    b"barred" => End::Barred,
                    other => panic!("{other:?} is no kind"),
                };
                let address = String::from_utf8(record.body.to_vec()).unwrap();
                assert_eq!(found.insert(address.clone(), end), None, "{address} was finished twice");
            }
        }
        let namespace = NamespaceName::try_from(CRAWL).unwrap();
        let mut listing = Listing { namespace, prefix: Default::default(), after: Default::default(), limit: 100 };
        loop {
            let page = client.dead_letters(listing.clone(), GroupName::default()).await.unwrap();
            for row in page.rows {
                let body = millpond_client::block::first(&row.message.block).unwrap().body;
                let address = String::from_utf8(body.to_vec()).unwrap();
                assert_eq!(found.insert(address.clone(), End::Dead), None, "{address} is finished and dead");
            }
            if page.next.is_empty() {
                return found;
            }
            listing.after = page.next;
        }
    })
}

fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no `{name}` in {report}"))
}
