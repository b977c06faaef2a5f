//! Addresses of pages. Invariant: an [`Address`] is an absolute http URL in one normal form, so two links to the same page
//! are the same text and thereby the same dedup id.

use std::fmt;
use std::hash::Hasher;

use bytes::Bytes;
use millpond_client::TopicName;
use siphasher::sip128::{Hasher128, SipHasher13};
use url::{Position, Url};

/// Bytes of an address. Longer ones are made by programs that talk to themselves, and by calendars without an end.
const ADDRESS_MAX: usize = 2_000;
/// Bytes that a dedup id may have.
const DEDUP_ID_MAX: usize = 255;
/// Bytes that the name of a topic may have.
const TOPIC_MAX: usize = 512;
/// Hex digits of the digest that stands for the rest of an address that is longer.
const DIGEST: usize = 32;

/// The address of a page, without a fragment, a user or a password.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    url: Url,
    topic: TopicName,
}

/// Why a text is not the address of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAddress {
    #[error("an address looks like http://example.org/a/page.html")]
    NotAnAddress,
    #[error("only http is crawled")]
    NotHttp,
    #[error("an address has at most {ADDRESS_MAX} bytes, and its host at most 253")]
    TooLong,
}

impl Address {
    /// An address that stands by itself.
    pub fn parse(text: &str) -> Result<Address, BadAddress> {
        Address::normalised(Url::parse(text).map_err(|_| BadAddress::NotAnAddress)?)
    }

    /// Where a reference on a page leads, given the base that the page names or is. `None` where it leads to nothing that
    /// is crawled.
    pub fn follow(base: &Url, reference: &str) -> Option<Address> {
        Address::normalised(base.join(reference).ok()?).ok()
    }

    /// The URL, as base of the references on its page.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// HOST:PORT of the site, which is its topic's name.
    pub fn site(&self) -> &TopicName {
        &self.topic
    }

    /// What the page is known by among those of its site.
    pub fn dedup_id(&self) -> Bytes {
        fitted(self.url.as_str(), DEDUP_ID_MAX).into()
    }

    /// A topic for this page alone: its address without the scheme, behind a word that says what the topic is for.
    pub fn topic_after(&self, word: &str) -> TopicName {
        let name = fitted(&format!("{word}{}{}", self.topic, &self.url[Position::BeforePath..]), TOPIC_MAX);
        TopicName::try_from(name.as_str()).expect("an address has neither control characters nor others than ASCII")
    }

    fn normalised(mut url: Url) -> Result<Address, BadAddress> {
        if url.scheme() != "http" {
            return Err(BadAddress::NotHttp);
        }
        url.set_fragment(None);
        if url.query() == Some("") {
            url.set_query(None);
        }
        let removed = url.set_username("").and_then(|()| url.set_password(None));
        removed.map_err(|()| BadAddress::NotAnAddress)?;
        if url.as_str().len() > ADDRESS_MAX {
            return Err(BadAddress::TooLong);
        }
        let host = &url[Position::BeforeHost..Position::AfterHost];
        let port = url.port_or_known_default().ok_or(BadAddress::NotAnAddress)?;
        let topic = TopicName::try_from(format!("{host}:{port}").as_str()).map_err(|_| BadAddress::TooLong)?;
        Ok(Address { url, topic })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

/// The text itself; of a long one the beginning, and a digest of all of it. Two addresses of one digest would be taken for
/// one, which nobody but the site that made them loses by.
fn fitted(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    format!("{}{:032x}", &text[..most - DIGEST], hasher.finish128().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(base: &str, reference: &str) -> Option<String> {
        Address::follow(&Url::parse(base).unwrap(), reference).map(|address| address.to_string())
    }

    #[test]
    fn one_page_has_one_address() {
        let normal = "http://example.org/a/b?q=1";
        for text in [
            "HTTP://Example.ORG:80/a/b?q=1#part",
            "http://user:secret@example.org/a/./c/../b?q=1",
            " http://example.org/a/b?q=1\n",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), normal, "{text}");
        }
        assert_eq!(Address::parse("http://example.org?").unwrap().to_string(), "http://example.org/");
    }

    #[test]
    fn references_lead_from_their_base() {
        let base = "http://h:8000/a/b.html";
        assert_eq!(followed(base, "c.html#x").unwrap(), "http://h:8000/a/c.html");
        assert_eq!(followed(base, "../../c").unwrap(), "http://h:8000/c");
        assert_eq!(followed(base, "//other/x").unwrap(), "http://other/x");
        assert_eq!(followed(base, "?q").unwrap(), "http://h:8000/a/b.html?q");
        assert_eq!(followed(base, "").unwrap(), base);
        for nothing in ["mailto:a@b", "javascript:x()", "https://h/", "data:text/html,x", "http://[bad"] {
            assert_eq!(followed(base, nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_site_is_a_host_with_its_port() {
        let site = |text: &str| Address::parse(text).unwrap().site().to_string();
        assert_eq!(site("http://example.org/x"), "example.org:80");
        assert_eq!(site("http://[::1]:81/"), "[::1]:81");
        let page = Address::parse("http://h/a?b#c").unwrap();
        assert_eq!(page.topic_after("seeds/").to_string(), "seeds/h:80/a?b");
    }

    #[test]
    fn long_addresses_keep_apart() {
        let long = |end: &str| Address::parse(&format!("http://h/{}{end}", "x".repeat(300))).unwrap().dedup_id();
        assert_eq!(long("a").len(), DEDUP_ID_MAX);
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
        let page =
            |end: &str| Address::parse(&format!("http://h/{}{end}", "x".repeat(600))).unwrap().topic_after("seeds/");
        assert_eq!(page("a").as_bytes().len(), TOPIC_MAX);
        assert_ne!(page("a"), page("b"));
        let over = format!("http://h/{}", "x".repeat(ADDRESS_MAX));
        assert_eq!(Address::parse(&over), Err(BadAddress::TooLong));
    }
}
