//! Addresses as they are written on the command line: `NS`, `NS/TOPIC` and `NS/PREFIX*`.
//!
//! The namespace ends at the first `/`; everything behind it is the topic, further `/` included. A `*` at the end makes
//! a prefix of what stands before it; inside a name it is written `\*`, and a backslash `\\`.

use std::str::FromStr;

use millpond_client::TopicRef;
use millpond_types::{BadName, Filter, NamespaceName, TopicName};

/// What an address means behind its namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// All topics of the namespace.
    All,
    /// One topic.
    Topic(TopicName),
    /// All topics whose name begins so.
    Prefix(TopicName),
}

/// A namespace, a topic or a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// The part before the first `/`.
    pub namespace: NamespaceName,
    /// The rest.
    pub place: Place,
}

/// An address that names exactly one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicAddress {
    /// The part before the first `/`.
    pub namespace: NamespaceName,
    /// The rest.
    pub topic: TopicName,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let (namespace, topic) = match text.split_once('/') {
            Some((namespace, topic)) => (namespace, Some(topic)),
            None => (text, None),
        };
        let namespace = NamespaceName::try_from(namespace).map_err(|bad| bad_name("namespace", namespace, bad))?;
        let place = topic.map_or(Ok(Place::All), place)?;
        Ok(Address { namespace, place })
    }
}

impl FromStr for TopicAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<TopicAddress, String> {
        let Address { namespace, place } = text.parse()?;
        match place {
            Place::Topic(topic) => Ok(TopicAddress { namespace, topic }),
            Place::All => Err(format!("a topic is needed here: write {namespace}/TOPIC")),
            Place::Prefix(_) => {
                Err("one topic is needed here, and a * at the end means many; a star in a name is written \\*".into())
            }
        }
    }
}

impl From<TopicAddress> for TopicRef {
    fn from(address: TopicAddress) -> TopicRef {
        TopicRef { namespace: address.namespace, name: address.topic }
    }
}

/// The address of a broker, `HOST:PORT`. Whether the host is known shows when it is looked up.
pub fn server(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0) => Ok(text.into()),
        _ => Err("a broker's address is written HOST:PORT, as in 127.0.0.1:7640".into()),
    }
}

/// One filter from several addresses of one namespace.
pub fn filter(addresses: &[Address]) -> Result<(NamespaceName, Filter), String> {
    let namespace = addresses[0].namespace.clone();
    if let Some(other) = addresses.iter().find(|address| address.namespace != namespace) {
        return Err(format!(
            "addresses of two namespaces, {namespace} and {}: one call works in one namespace",
            other.namespace
        ));
    }
    let (mut topics, mut prefixes) = (Vec::new(), Vec::new());
    for address in addresses {
        match &address.place {
            Place::All => return Ok((namespace, Filter::All)),
            Place::Topic(topic) => topics.push(topic.clone()),
            Place::Prefix(prefix) => prefixes.push(prefix.clone()),
        }
    }
    let filter = match (topics.is_empty(), prefixes.is_empty()) {
        (false, true) => Filter::Topics(topics),
        (true, false) => Filter::Prefixes(prefixes),
        _ => return Err("topics and prefixes cannot be mixed in one call: name only the one or only the other".into()),
    };
    if !filter.size_is_valid() {
        return Err(format!("one call names at most {} topics or prefixes", millpond_types::limits::FILTER_MAX));
    }
    Ok((namespace, filter))
}

/// What stands behind the namespace in an address.
pub fn place(text: &str) -> Result<Place, String> {
    let mut name = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut prefix = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('*' | '\\')) => name.push(escaped),
                _ => return Err("a backslash in a topic's name is written \\\\, and a star \\*".into()),
            },
            '*' if characters.peek().is_none() => prefix = true,
            '*' => return Err("a * stands at the end and makes a prefix; a star in a name is written \\*".into()),
            other => name.push(other),
        }
    }
    if prefix && name.is_empty() {
        return Ok(Place::All);
    }
    let topic = TopicName::try_from(name.as_str()).map_err(|bad| bad_name("topic", &name, bad))?;
    Ok(if prefix { Place::Prefix(topic) } else { Place::Topic(topic) })
}

fn bad_name(what: &str, name: &str, bad: BadName) -> String {
    // A name may be as long as the argument list allows: the start is enough to recognise it.
    let shown: String = name.chars().take(40).collect();
    let more = if shown.len() < name.len() { "..." } else { "" };
    format!("the {what} name {shown:?}{more} is not allowed: {bad}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> TopicName {
        TopicName::try_from(name).unwrap()
    }

    fn place_of(text: &str) -> Place {
        text.parse::<Address>().unwrap().place
    }

    #[test]
    fn the_namespace_ends_at_the_first_slash() {
        assert_eq!(place_of("ns"), Place::All);
        assert_eq!(place_of("ns/a/b"), Place::Topic(topic("a/b")));
        assert_eq!(place_of("ns//b"), Place::Topic(topic("/b")));
    }

    #[test]
    fn a_star_at_the_end_makes_a_prefix() {
        assert_eq!(place_of("ns/acme/*"), Place::Prefix(topic("acme/")));
        assert_eq!(place_of("ns/*"), Place::All);
        assert_eq!(place_of(r"ns/acme\*"), Place::Topic(topic("acme*")));
        assert_eq!(place_of(r"ns/acme\\*"), Place::Prefix(topic("acme\\")));
        assert_eq!(place_of(r"ns/\**"), Place::Prefix(topic("*")));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in ["", "/t", "n s/t", "ns/", "ns/a*b", r"ns/a\b", r"ns/a\", "ns/a\nb"] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
        for bad in ["ns", "ns/*", "ns/a*"] {
            assert!(bad.parse::<TopicAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_brokers_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:7640", "localhost:1", "[::1]:65535"] {
            assert_eq!(server(good).unwrap(), good);
        }
        for bad in ["", "localhost", ":7640", "localhost:", "localhost:0", "localhost:65536", "localhost:http"] {
            assert!(server(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_filter_is_of_one_namespace_and_one_kind() {
        let parse = |texts: &[&str]| filter(&texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<_>>());
        assert_eq!(parse(&["n/a", "n/b"]).unwrap().1, Filter::Topics(vec![topic("a"), topic("b")]));
        assert_eq!(parse(&["n/a*"]).unwrap().1, Filter::Prefixes(vec![topic("a")]));
        assert_eq!(parse(&["n/a", "n"]).unwrap().1, Filter::All);
        assert!(parse(&["n/a", "n/b*"]).is_err());
        assert!(parse(&["n/a", "m/a"]).is_err());
    }
}
