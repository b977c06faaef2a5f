//! What a pause is of, and how long it lasts.

use core::fmt;

use bytes::Bytes;

use crate::name::{BadName, TopicName, check_topic_name};
use crate::text::Text;
use crate::time::WallTime;

/// A pause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    /// What is paused.
    pub topics: PausedTopics,
    /// When it is over; [`WallTime::NEVER`] for not before it is taken back.
    pub until: WallTime,
}

/// One topic, all topics whose name begins in one way, or with the empty prefix all topics of a namespace. Ordered by the
/// name, a topic before the prefix that is written in the same way.
///
/// Cheap to clone. As with a [`TopicName`], a long one keeps the buffer alive that it was cut out of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PausedTopics {
    start: Text,
    is_prefix: bool,
}

impl PausedTopics {
    /// Checks and takes a name, or a prefix of names, which may be empty.
    pub fn new(name: Bytes, is_prefix: bool) -> Result<PausedTopics, BadName> {
        if !(is_prefix && name.is_empty()) {
            check_topic_name(&name)?;
        }
        Ok(PausedTopics { start: Text::new(name), is_prefix })
    }

    /// All topics of a namespace.
    pub fn all() -> PausedTopics {
        PausedTopics { start: Text::copy_of(b""), is_prefix: true }
    }

    /// All topics whose name begins with that of a topic.
    pub fn prefix(name: &TopicName) -> PausedTopics {
        PausedTopics { is_prefix: true, ..PausedTopics::from(name) }
    }

    /// The name or the prefix, as bytes of UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.start.as_bytes()
    }

    /// The name or the prefix, as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).expect("a name is checked when it is made")
    }

    /// The topic, if it is one alone.
    pub fn topic(&self) -> Option<TopicName> {
        (!self.is_prefix).then(|| TopicName::of_text(self.start.clone()))
    }

    /// Whether it is a prefix.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Whether a topic of this name is among them.
    pub fn covers(&self, name: &TopicName) -> bool {
        match self.is_prefix {
            true => name.as_bytes().starts_with(self.as_bytes()),
            false => name.as_bytes() == self.as_bytes(),
        }
    }

    /// The same in a buffer of its own.
    pub fn detach(&self) -> PausedTopics {
        PausedTopics { start: Text::copy_of(self.as_bytes()), is_prefix: self.is_prefix }
    }
}

/// That topic alone.
impl From<&TopicName> for PausedTopics {
    fn from(name: &TopicName) -> PausedTopics {
        PausedTopics { start: name.text().clone(), is_prefix: false }
    }
}

/// As it is written on the command line behind its namespace, but that nothing is escaped.
impl fmt::Display for PausedTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.as_str(), if self.is_prefix { "*" } else { "" })
    }
}

impl fmt::Debug for PausedTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)?;
        f.write_str(if self.is_prefix { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn topics(text: &'static str) -> Result<PausedTopics, BadName> {
        PausedTopics::new(Bytes::from_static(text.trim_end_matches('*').as_bytes()), text.ends_with('*'))
    }

    #[test]
    fn the_empty_prefix_is_of_all_topics_and_no_topic_has_an_empty_name() {
        let name = |text: &str| TopicName::try_from(text).unwrap();
        assert_eq!(topics("*").unwrap(), PausedTopics::all());
        assert_eq!(topics(""), Err(BadName::Empty));
        assert_eq!(topics("a\n*"), Err(BadName::Control));
        for (of, covered) in [("*", [true, true, true]), ("a*", [true, true, false]), ("a", [true, false, false])] {
            let of = topics(of).unwrap();
            assert_eq!(["a", "ab", "b"].map(|text| of.covers(&name(text))), covered, "{of}");
        }
    }

    #[test]
    fn they_stand_in_the_order_of_their_names() {
        let all = ["*", "a", "a*", "ab", "b*"].map(|text| topics(text).unwrap());
        assert!(all.is_sorted() && all[0].to_string() == "*");
        assert_eq!(
            (PausedTopics::from(&TopicName::try_from("a").unwrap()), all[2].clone()),
            (all[1].clone(), PausedTopics::prefix(&TopicName::try_from("a").unwrap()))
        );
    }
}
