//! What a site asks crawlers to leave alone: its robots.txt (RFC 9309), fetched once per site and process, under the
//! lease of a page of that site, so that it counts among the requests that the site has at a time.
//!
//! Left out: `Crawl-delay` (no part of the RFC), redirects of robots.txt (taken as no rules), and asking again in the life
//! of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hyper::StatusCode;
use millpond_client::TopicName;
use tokio::sync::OnceCell;
use url::Position;

use crate::address::Address;
use crate::fetch::{AGENT, Fetcher};

/// Sites whose rules are kept; past them all are forgotten and asked for again.
const SITES_MAX: usize = 10_000;
/// Bytes of a robots.txt that are read; the RFC asks for as many.
const ROBOTS_MAX: usize = 500 * 1024;

/// The rules of all sites that were met so far.
#[derive(Default)]
pub struct Robots {
    sites: Mutex<HashMap<TopicName, Arc<OnceCell<Rules>>>>,
}

/// Which paths a site allows.
#[derive(PartialEq, Eq, Debug, Default)]
struct Rules {
    /// Whether a pattern allows or forbids.
    patterns: Vec<(String, bool)>,
}

impl Robots {
    /// Whether a page may be fetched. Fails where the site cannot say now: then nothing is fetched from it either.
    pub async fn allow(&self, fetcher: &Fetcher, page: &Address) -> Result<bool, String> {
        let rules = {
            let mut sites = self.sites.lock().expect("nothing panics while it holds this lock");
            if sites.len() >= SITES_MAX {
                sites.clear();
            }
            Arc::clone(sites.entry(page.site().clone()).or_default())
        };
        let rules = rules.get_or_try_init(|| ask(fetcher, page)).await?;
        Ok(rules.allow(&page.url()[Position::BeforePath..]))
    }
}

async fn ask(fetcher: &Fetcher, page: &Address) -> Result<Rules, String> {
    let robots = Address::follow(page.url(), "/robots.txt").expect("it is on an http site");
    let fetched = fetcher.fetch(&robots).await.map_err(|error| format!("its robots.txt: {error}"))?;
    match fetched.status {
        status if status.is_success() => {
            let text = &fetched.body[..fetched.body.len().min(ROBOTS_MAX)];
            Ok(Rules::read(&String::from_utf8_lossy(text)))
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(format!("the site answered {status} for its robots.txt"))
        }
        _ => Ok(Rules::default()),
    }
}

impl Rules {
    /// The rules for this crawler: those of the groups that name it, or else of the groups for all.
    fn read(text: &str) -> Rules {
        let (mut own, mut general) = (Vec::new(), Vec::new());
        let (mut is_own, mut is_general, mut in_rules, mut is_named) = (false, false, false, false);
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    // Several in a row share the rules behind them.
                    if std::mem::take(&mut in_rules) {
                        (is_own, is_general) = (false, false);
                    }
                    is_own |= AGENT.eq_ignore_ascii_case(value.split('/').next().unwrap_or_default());
                    is_general |= value == "*";
                    is_named |= is_own;
                }
                "allow" | "disallow" => {
                    in_rules = true;
                    // An empty rule says nothing.
                    let rule = || (value.to_owned(), key == "allow");
                    own.extend((is_own && !value.is_empty()).then(rule));
                    general.extend((is_general && !value.is_empty()).then(rule));
                }
                _ => {}
            }
        }
        Rules { patterns: if is_named { own } else { general } }
    }

    /// The longest pattern that matches decides; of equal ones the one that allows.
    fn allow(&self, path: &str) -> bool {
        let matching = self.patterns.iter().filter(|(pattern, _)| matches(pattern, path));
        matching.max_by_key(|(pattern, allows)| (pattern.len(), *allows)).is_none_or(|(_, allows)| *allows)
    }
}

/// Whether a path begins as the pattern says, in which `*` stands for anything and a `$` at the end for the path's end.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, to_the_end) = pattern.strip_suffix('$').map_or((pattern, false), |front| (front, true));
    let Some((first, others)) = pattern.split_once('*') else {
        return if to_the_end { path == pattern } else { path.starts_with(pattern) };
    };
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let mut parts = others.split('*').peekable();
    while let Some(part) = parts.next() {
        if to_the_end && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(robots: &str, path: &str) -> bool {
        Rules::read(robots).allow(path)
    }

    #[test]
    fn the_longest_rule_decides() {
        let robots = "User-Agent: *\nDisallow: /a # all of it\nAllow: /a/open\nDisallow:\n";
        assert!(allowed(robots, "/") && allowed(robots, "/a/open/x"));
        assert!(!allowed(robots, "/a") && !allowed(robots, "/a/closed"));
        assert!(allowed("", "/a") && allowed("Disallow: /", "/a"));
    }

    #[test]
    fn rules_for_this_crawler_replace_those_for_all() {
        let robots = "user-agent: other\nuser-agent: Millpond-Crawler/9\ndisallow: /x\n\nuser-agent: *\ndisallow: /\n";
        assert!(allowed(robots, "/y") && !allowed(robots, "/x"));
        assert!(!allowed("user-agent: other\nallow: /\nuser-agent: *\ndisallow: /", "/y"));
        assert!(allowed("user-agent: millpond-crawler\ndisallow:\nuser-agent: *\ndisallow: /", "/y"));
    }

    #[test]
    fn patterns_have_gaps_and_an_end() {
        for (pattern, path) in
            [("/*.gif$", "/a/b.gif"), ("/a*b*c", "/a1b2c3"), ("/a$", "/a"), ("*x", "/yx"), ("/*", "/")]
        {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [("/*.gif$", "/a.gif?x"), ("/a*b*c", "/a1c2b"), ("/a$", "/ab"), ("/a*a$", "/a")] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }
}
