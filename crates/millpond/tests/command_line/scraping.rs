//! Scrapes of the metrics by very many at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use millpond_client::Client;
use millpond_types::limits::{RULES_MAX, TOPIC_NAME_MAX};
use millpond_types::{NamespaceName, Overrides, Pattern, Policy, Rule, Rules, TopicName};

use crate::broker::Broker;
use crate::memory::runtime;

/// With as many rules as they may have, of the longest names.
const NAMESPACES: usize = 100;
/// As many as are answered at a time.
const SCRAPERS: usize = 64;
const MIB: u64 = 1 << 20;

/// The writer's answers to what all namespaces hold tell their rules, too.
#[test]
fn scrapes_of_namespaces_with_very_many_rules_take_memory_one_at_a_time() {
    let broker = Broker::start();
    runtime().block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        for at in 0..NAMESPACES {
            let name = NamespaceName::try_from(format!("n{at}").as_str()).unwrap();
            client.set_namespace(name, Policy::default(), rules()).await.unwrap();
        }
    });
    assert!(broker.metrics().contains("200 OK"));
    let before = broker.status("VmHWM:") * 1024;
    let mut scrapers: Vec<TcpStream> = (0..SCRAPERS).map(|_| TcpStream::connect(&broker.http).unwrap()).collect();
    for scraper in &mut scrapers {
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    }
    let answers = scrapers.into_iter().map(|mut scraper| {
        thread::spawn(move || {
            let mut answer = String::new();
            scraper.read_to_string(&mut answer).unwrap();
            answer
        })
    });
    for answer in answers.collect::<Vec<_>>() {
        assert!(answer.join().unwrap().contains("200 OK"));
    }
    let more = broker.status("VmHWM:") * 1024 - before;
    println!("{} KiB more", more / 1024);
    assert!(more < 4 * MIB, "{SCRAPERS} scrapes take {more} bytes more than one");
}

fn rules() -> Rules {
    let rule = |at: usize| {
        let name = TopicName::try_from(format!("{at:0TOPIC_NAME_MAX$}").as_str()).unwrap();
        let overrides = Overrides { weight: Some(2), ..Overrides::default() };
        Rule { pattern: Pattern { is_prefix: false, name }, overrides }
    };
    Rules::new((0..RULES_MAX).map(rule).collect()).unwrap()
}
