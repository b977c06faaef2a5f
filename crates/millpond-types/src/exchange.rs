//! Exchanges: a message that is published to one goes to the topics that are bound to it, by the key or the headers that
//! it comes with.

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::limits::{BINDING_HEADERS_BYTES_MAX, BINDING_HEADERS_MAX, ROUTING_KEY_MAX, ROUTING_WORDS_MAX};
use crate::name::{BadName, ExchangeName, TopicName};

/// What a binding of an exchange asks of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExchangeKind {
    /// That its key is the binding's.
    Direct,
    /// That its key, words with dots between, fits the binding's pattern: `*` is one word, `#` any number of them.
    Topic,
    /// Nothing.
    Fanout,
    /// That it has all of the binding's headers, or any of them.
    Headers,
}

/// What becomes of a message that no binding takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unroutable {
    /// It is refused.
    Refuse,
    /// It is not stored, and that is what its outcome says.
    Drop,
}

/// What a message is routed by: UTF-8 of at most 255 bytes without control characters, and of at most
/// [`ROUTING_WORDS_MAX`] words with dots between. It may be empty, and then it has no words.
///
/// Cheap to clone. One that was cut out of a frame keeps that frame's buffer alive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RoutingKey(Bytes);

impl RoutingKey {
    /// Checks and takes a key.
    pub fn new(key: Bytes) -> Result<RoutingKey, BadName> {
        if key.len() > ROUTING_KEY_MAX {
            return Err(BadName::TooLong(ROUTING_KEY_MAX));
        }
        let text = core::str::from_utf8(&key).map_err(|_| BadName::NotUtf8)?;
        if text.chars().any(char::is_control) {
            return Err(BadName::Control);
        }
        if text.split('.').count() > ROUTING_WORDS_MAX {
            return Err(BadName::TooManyWords);
        }
        Ok(RoutingKey(key))
    }

    /// The key as bytes of UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).expect("a key is checked when it is made")
    }

    /// Its words.
    pub fn words(&self) -> impl Iterator<Item = &str> + Clone {
        let words = if self.0.is_empty() { None } else { Some(self.as_str().split('.')) };
        words.into_iter().flatten()
    }

    /// The same key in a buffer of its own.
    pub fn detach(&self) -> RoutingKey {
        RoutingKey(Bytes::copy_from_slice(&self.0))
    }
}

impl TryFrom<&str> for RoutingKey {
    type Error = BadName;
    fn try_from(key: &str) -> Result<Self, BadName> {
        RoutingKey::new(Bytes::copy_from_slice(key.as_bytes()))
    }
}

impl fmt::Display for RoutingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RoutingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Which messages go to a topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Binding {
    /// What is asked of a message.
    pub condition: Condition,
    /// Where it goes: a topic's name, in which [`KEY_PLACE`] stands for the message's key.
    pub target: TopicName,
}

/// Stands in a binding's target for the key of the message.
pub const KEY_PLACE: &str = "{key}";

/// What a binding asks of a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Condition {
    /// Nothing: for fanout.
    Always,
    /// This key, or a pattern of keys: for direct and topic.
    Key(RoutingKey),
    /// These headers, with these values: for headers.
    Headers {
        /// All of them, or any.
        all: bool,
        /// Keys and values.
        headers: Vec<(Bytes, Bytes)>,
    },
}

/// Why a binding was refused, as a sentence that says what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBinding(pub &'static str);

impl fmt::Display for BadBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for BadBinding {}

impl Binding {
    /// Whether it is one for exchanges of a kind.
    pub fn validate(&self, kind: ExchangeKind) -> Result<(), BadBinding> {
        if has_other_place(self.target.as_str()) {
            return Err(BadBinding("of what stands in braces in a binding's topic, only {key} stands for something"));
        }
        match (kind, &self.condition) {
            (ExchangeKind::Direct | ExchangeKind::Topic, Condition::Key(_)) => Ok(()),
            (ExchangeKind::Direct | ExchangeKind::Topic, _) => Err(BadBinding("a binding of this exchange has a key")),
            (ExchangeKind::Fanout, Condition::Always) => Ok(()),
            (ExchangeKind::Fanout, _) => {
                Err(BadBinding("a fanout exchange gives every message to all: its bindings have no key and no headers"))
            }
            (ExchangeKind::Headers, Condition::Headers { headers, .. }) => {
                let bytes: usize = headers.iter().map(|(key, value)| key.len() + value.len()).sum();
                if headers.is_empty() || headers.len() > BINDING_HEADERS_MAX || bytes > BINDING_HEADERS_BYTES_MAX {
                    return Err(BadBinding(
                        "a binding of this exchange has from 1 to 16 headers of 1,024 bytes together",
                    ));
                }
                Ok(())
            }
            (ExchangeKind::Headers, _) => Err(BadBinding("a binding of this exchange has headers, and no key")),
        }
    }

    /// The same binding in buffers of its own, headers in order.
    pub fn detach(&self) -> Binding {
        let condition = match &self.condition {
            Condition::Always => Condition::Always,
            Condition::Key(key) => Condition::Key(key.detach()),
            Condition::Headers { all, headers } => {
                let own = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
                let mut headers: Vec<_> = headers.iter().map(|(key, value)| (own(key), own(value))).collect();
                headers.sort_unstable();
                headers.dedup();
                Condition::Headers { all: *all, headers }
            }
        };
        Binding { condition, target: self.target.detach() }
    }
}

/// Whether a word stands in braces that is not the key: all messages would go to a topic of that very name.
fn has_other_place(target: &str) -> bool {
    let is_word =
        |text: &str| !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || "_-.".contains(char));
    let rest = target.replace(KEY_PLACE, "");
    rest.split('{').skip(1).filter_map(|open| open.split_once('}')).any(|(within, _)| is_word(within))
}

/// An exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeView {
    /// Its name.
    pub name: ExchangeName,
    /// What its bindings ask.
    pub kind: ExchangeKind,
    /// What becomes of a message that none takes.
    pub unroutable: Unroutable,
    /// How many bindings it has.
    pub bindings: u64,
    /// The journal position behind its last change.
    pub version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn a_routing_key_has_so_many_bytes_and_words() {
        let key = |text: &str| RoutingKey::try_from(text);
        assert_eq!(key("").unwrap().words().count(), 0);
        assert_eq!(key("a..b").unwrap().words().collect::<Vec<_>>(), ["a", "", "b"]);
        assert!(key(&"x".repeat(255)).is_ok());
        assert_eq!(key(&"x".repeat(256)), Err(BadName::TooLong(255)));
        assert_eq!(key("a\nb"), Err(BadName::Control));
        let words = |count: usize| key(&core::iter::repeat_n("a", count).collect::<Vec<_>>().join("."));
        assert!(words(ROUTING_WORDS_MAX).is_ok());
        assert_eq!(words(ROUTING_WORDS_MAX + 1), Err(BadName::TooManyWords));
    }

    #[test]
    fn only_the_key_stands_in_braces_for_something() {
        let is_good = |target: &str| {
            let target = TopicName::try_from(target).unwrap();
            Binding { condition: Condition::Always, target }.validate(ExchangeKind::Fanout).is_ok()
        };
        for good in ["{key}", "a/{key}/{key}", "{", "}{", "{}", "{ a }", "{{key}}", "{\"a\": 1}"] {
            assert!(is_good(good), "{good}");
        }
        for bad in ["{Key}", "a/{routing_key}", "{key}/{tenant}", "{{tenant}}"] {
            assert!(!is_good(bad), "{bad}");
        }
    }

    #[test]
    fn a_binding_is_of_its_exchanges_kind() {
        let target = TopicName::try_from("t").unwrap();
        let headers = |count: usize| Condition::Headers {
            all: true,
            headers: (0..count).map(|n| (Bytes::from(String::from("k") + &n.to_string()), Bytes::new())).collect(),
        };
        let is_good = |kind, condition: &Condition| {
            Binding { condition: condition.clone(), target: target.clone() }.validate(kind).is_ok()
        };
        let kinds = [ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Fanout, ExchangeKind::Headers];
        let good = |condition: Condition| kinds.map(|kind| is_good(kind, &condition));
        assert_eq!(good(Condition::Key(RoutingKey::default())), [true, true, false, false]);
        assert_eq!(good(Condition::Always), [false, false, true, false]);
        assert_eq!(good(headers(1)), [false, false, false, true]);
        assert_eq!(good(headers(BINDING_HEADERS_MAX)), [false, false, false, true]);
        assert_eq!([good(headers(0)), good(headers(BINDING_HEADERS_MAX + 1))], [[false; 4]; 2]);
        let long = |bytes: usize| Condition::Headers {
            all: false,
            headers: Vec::from([(Bytes::from_static(b"k"), Bytes::from("v".repeat(bytes - 1)))]),
        };
        assert_eq!(good(long(BINDING_HEADERS_BYTES_MAX)), [false, false, false, true]);
        assert_eq!(good(long(BINDING_HEADERS_BYTES_MAX + 1)), [false; 4]);
    }
}
