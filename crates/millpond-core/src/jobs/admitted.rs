//! What of a group's topics a job goes over, as its command named it: in order, each once, and in no frame's buffer, for a job
//! may take long. Who goes over it has a place in it, and makes out where a name stands only when it comes to that.
//!
//! What all jobs keep of this together has a bound ([`FILTERS_MAX`]).

use alloc::sync::Arc;
use alloc::vec::Vec;

use millpond_types::limits::{FILTER_MAX, TOPIC_NAME_MAX};
use millpond_types::{Filter, TopicName};

use crate::store::Name;

/// Bytes that the topics and prefixes of all jobs take together. One job always has room: the largest filter takes half of them.
pub(super) const FILTERS_MAX: usize = 1 << 20;
const _: () = assert!(FILTER_MAX * weight(TOPIC_NAME_MAX) <= FILTERS_MAX);

/// See the module.
#[derive(Clone)]
pub(super) enum Admitted {
    /// All topics.
    All,
    /// Those with one of these prefixes, of which none begins with another.
    Prefixes(Names),
    /// These topics.
    Topics(Names),
}

/// Names in the order of topics, those that are still to be gone over. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Names {
    all: Arc<[TopicName]>,
    next: usize,
}

impl Admitted {
    pub(super) fn of(filter: Filter) -> Admitted {
        match filter {
            Filter::All => Admitted::All,
            Filter::Prefixes(prefixes) => {
                let is_within = |name: &TopicName, prefix: &TopicName| name.as_bytes().starts_with(prefix.as_bytes());
                Admitted::Prefixes(Names::of(prefixes, is_within))
            }
            Filter::Topics(names) => Admitted::Topics(Names::of(names, TopicName::eq)),
        }
    }

    /// Bytes that it takes, whatever was gone over.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Admitted::All => 0,
            Admitted::Prefixes(names) | Admitted::Topics(names) => {
                names.all.iter().map(|name| weight(name.as_bytes().len())).sum()
            }
        }
    }
}

/// Nothing.
impl Default for Admitted {
    fn default() -> Admitted {
        Admitted::Topics(Names::default())
    }
}

impl Names {
    /// Without those that another one stands for.
    fn of(mut names: Vec<TopicName>, is_within: fn(&TopicName, &TopicName) -> bool) -> Names {
        names.sort_unstable_by(|a, b| Name::compare(a.as_bytes(), b.as_bytes()));
        names.dedup_by(|name, before| is_within(name, before));
        Names { all: names.iter().map(TopicName::detach).collect(), next: 0 }
    }
}

impl Iterator for Names {
    type Item = TopicName;

    fn next(&mut self) -> Option<TopicName> {
        let name = self.all.get(self.next)?;
        self.next += 1;
        Some(name.clone())
    }
}

/// About how many bytes a name of this length takes.
const fn weight(length: usize) -> usize {
    size_of::<TopicName>() + length
}
