//! Names that users choose, and filters over them.

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::limits::{FILTER_MAX, ROUTING_WORDS_MAX, SHORT_NAME_MAX, TOPIC_NAME_MAX};
use crate::text::Text;

/// The name of a topic: UTF-8 of 1..=512 bytes without control characters.
///
/// Cheap to clone. A long name that was cut out of a frame keeps that frame's buffer alive: what is kept for long is
/// [`TopicName::detach`]ed first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Text);

/// The name of a namespace: 1..=64 of ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceName(Bytes);

/// The name of a group, of the same form as that of a namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Bytes);

/// The name of an exchange, of the same form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeName(Bytes);

/// Why a name was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadName {
    /// It has no bytes.
    Empty,
    /// It has more bytes than the limit given here.
    TooLong(usize),
    /// It is not UTF-8.
    NotUtf8,
    /// It holds a control character.
    Control,
    /// It holds something other than ASCII letters, digits, `-`, `_`, `.`, or begins with a sign.
    Character,
    /// It is a routing key of more words than a key may have.
    TooManyWords,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadName::Empty => f.write_str("a name needs at least one character"),
            BadName::TooLong(limit) => write!(f, "a name here has at most {limit} bytes"),
            BadName::NotUtf8 => f.write_str("a name is UTF-8 text"),
            BadName::Control => f.write_str("the name of a topic, or a routing key, holds no control characters"),
            BadName::TooManyWords => write!(f, "a routing key has at most {ROUTING_WORDS_MAX} words with dots between"),
            BadName::Character => f.write_str(
                "the name of a namespace, group or exchange holds letters, digits, '-', '_' and '.', and begins with a letter or digit",
            ),
        }
    }
}

impl core::error::Error for BadName {}

impl TopicName {
    /// Checks and takes a name.
    pub fn new(name: Bytes) -> Result<TopicName, BadName> {
        check_topic_name(&name)?;
        Ok(TopicName(Text::new(name)))
    }

    /// The name as bytes of UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The part before the first `/`, the whole name if there is none: the unit of fairness.
    pub fn tenant(&self) -> &[u8] {
        let name = self.as_bytes();
        let end = name.iter().position(|b| *b == b'/').unwrap_or(name.len());
        &name[..end]
    }

    /// The name that a text was checked to be.
    pub(crate) fn of_text(text: Text) -> TopicName {
        TopicName(text)
    }

    pub(crate) fn text(&self) -> &Text {
        &self.0
    }

    /// The same name in a buffer of its own.
    pub fn detach(&self) -> TopicName {
        TopicName(Text::copy_of(self.as_bytes()))
    }
}

impl TryFrom<&[u8]> for TopicName {
    type Error = BadName;
    fn try_from(name: &[u8]) -> Result<Self, BadName> {
        check_topic_name(name)?;
        Ok(TopicName(Text::copy_of(name)))
    }
}

impl TryFrom<&str> for TopicName {
    type Error = BadName;
    fn try_from(name: &str) -> Result<Self, BadName> {
        TopicName::try_from(name.as_bytes())
    }
}

macro_rules! name {
    ($name:ident) => {
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                core::str::from_utf8(self.as_bytes()).expect("a name is checked when it is made")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}

macro_rules! short_name {
    ($name:ident) => {
        impl TryFrom<&str> for $name {
            type Error = BadName;
            fn try_from(name: &str) -> Result<Self, BadName> {
                $name::new(Bytes::copy_from_slice(name.as_bytes()))
            }
        }

        impl $name {
            /// The name as bytes of UTF-8.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// The name as shared bytes.
            pub fn bytes(&self) -> &Bytes {
                &self.0
            }

            /// The same name in a buffer of its own.
            pub fn detach(&self) -> $name {
                $name(Bytes::copy_from_slice(&self.0))
            }

            /// Checks and takes a name.
            pub fn new(name: Bytes) -> Result<$name, BadName> {
                check_length(&name, SHORT_NAME_MAX)?;
                let sign = |b: &u8| matches!(b, b'-' | b'_' | b'.');
                if sign(&name[0]) || name.iter().any(|b| !b.is_ascii_alphanumeric() && !sign(b)) {
                    return Err(BadName::Character);
                }
                Ok($name(name))
            }
        }
    };
}

macro_rules! default_name {
    ($name:ident) => {
        impl Default for $name {
            /// The one that always exists: `default`.
            fn default() -> Self {
                $name(Bytes::from_static(b"default"))
            }
        }
    };
}

name!(TopicName);
name!(NamespaceName);
name!(GroupName);
name!(ExchangeName);
short_name!(NamespaceName);
short_name!(GroupName);
short_name!(ExchangeName);
default_name!(NamespaceName);
default_name!(GroupName);

pub(crate) fn check_topic_name(name: &[u8]) -> Result<(), BadName> {
    check_length(name, TOPIC_NAME_MAX)?;
    let text = core::str::from_utf8(name).map_err(|_| BadName::NotUtf8)?;
    // Printable ASCII is by far the most common and needs no look at characters.
    if name.iter().any(|b| !(0x20..0x7f).contains(b)) && text.chars().any(char::is_control) {
        return Err(BadName::Control);
    }
    Ok(())
}

fn check_length(name: &[u8], limit: usize) -> Result<(), BadName> {
    match name.len() {
        0 => Err(BadName::Empty),
        n if n > limit => Err(BadName::TooLong(limit)),
        _ => Ok(()),
    }
}

/// Which topics of a namespace are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// All of them.
    All,
    /// These, by name.
    Topics(Vec<TopicName>),
    /// Those whose name begins with one of these. A prefix has the form of a name.
    Prefixes(Vec<TopicName>),
}

impl Filter {
    /// Whether a topic of this name is meant.
    pub fn admits(&self, name: &TopicName) -> bool {
        match self {
            Filter::All => true,
            Filter::Topics(names) => names.contains(name),
            Filter::Prefixes(prefixes) => prefixes.iter().any(|p| name.as_bytes().starts_with(p.as_bytes())),
        }
    }

    /// Whether the filter names between one and [`FILTER_MAX`] things.
    pub fn size_is_valid(&self) -> bool {
        match self {
            Filter::All => true,
            Filter::Topics(list) | Filter::Prefixes(list) => (1..=FILTER_MAX).contains(&list.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names() {
        for good in ["a", "tenant/device 7", "größe/☃", "*", &"x".repeat(512)] {
            assert!(TopicName::try_from(good).is_ok(), "{good}");
        }
        assert_eq!(TopicName::try_from(""), Err(BadName::Empty));
        assert_eq!(TopicName::try_from("x".repeat(513).as_str()), Err(BadName::TooLong(512)));
        assert_eq!(TopicName::try_from("a\nb"), Err(BadName::Control));
        assert_eq!(TopicName::try_from("a\u{85}b"), Err(BadName::Control));
        assert_eq!(TopicName::new(Bytes::from_static(&[0xff])), Err(BadName::NotUtf8));
    }

    #[test]
    fn tenants() {
        assert_eq!(TopicName::try_from("acme/device/7").unwrap().tenant(), b"acme");
        assert_eq!(TopicName::try_from("acme").unwrap().tenant(), b"acme");
        assert_eq!(TopicName::try_from("/x").unwrap().tenant(), b"");
    }

    #[test]
    fn the_name_of_a_namespace_or_group_is_of_letters_digits_and_three_signs() {
        assert!(NamespaceName::try_from("orders-eu.v2").is_ok());
        for bad in ["-a", "a/b", "a b", "ä"] {
            assert_eq!(NamespaceName::try_from(bad), Err(BadName::Character), "{bad}");
        }
        for byte in 0..=u8::MAX {
            let (is_good, name) = (byte.is_ascii_alphanumeric() || b"-_.".contains(&byte), [b'a', byte]);
            assert_eq!(NamespaceName::new(Bytes::copy_from_slice(&name)).is_ok(), is_good, "{byte}");
            assert_eq!(GroupName::new(Bytes::copy_from_slice(&name)).is_ok(), is_good, "{byte}");
        }
    }
}
