//! Rules: what a namespace's policy says otherwise for some of its topics.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::limits::RULES_MAX;
use crate::name::TopicName;
use crate::policy::{Coalesce, DedupWindow, OnExpiry, Overflow, Policy, Retry};
use crate::rate::Rate;
use crate::time::Millis;

/// A pattern and what the policy says otherwise for the topics that it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The topics.
    pub pattern: Pattern,
    /// The values.
    pub overrides: Overrides,
}

/// One topic, or all topics whose name begins in one way. Ordered so that names come before prefixes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pattern {
    /// Whether `name` is a prefix.
    pub is_prefix: bool,
    /// The name or the prefix.
    pub name: TopicName,
}

/// As it is written on the command line, but that nothing is escaped.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "*" } else { "" })
    }
}

macro_rules! overrides {
    ($($field:ident: $type:ty,)*) => {
        /// Some of the values of a policy: all but those that are of the namespace alone.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Overrides {
            $(#[doc = concat!("In place of [`Policy::", stringify!($field), "`].")] pub $field: Option<$type>,)*
        }

        /// All of those values.
        impl From<&Policy> for Overrides {
            fn from(policy: &Policy) -> Overrides {
                Overrides { $($field: Some(policy.$field),)* }
            }
        }

        impl Overrides {
            /// The policy with these values in place of its own.
            pub fn over(&self, base: &Policy) -> Policy {
                Policy { $($field: self.$field.unwrap_or(base.$field),)* ..base.clone() }
            }
        }
    };
}

overrides! {
    lease: Millis,
    max_failures: u32,
    retry: Retry,
    ttl: Option<Millis>,
    on_expiry: OnExpiry,
    dedup_window: DedupWindow,
    max_in_flight: Option<u32>,
    max_waiting: Option<u32>,
    overflow: Overflow,
    coalesce: Coalesce,
    rate: Option<Rate>,
    run: u32,
    weight: u32,
}

/// The rules of a namespace, at most one for a pattern.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// In the order of their patterns.
    all: Vec<Rule>,
    /// How many of them are for one topic.
    names: usize,
}

/// As the list that they are.
impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

/// Why rules, or a policy with them, were refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRules(pub String);

impl fmt::Display for BadRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadRules {}

impl Rules {
    /// Takes rules in any order.
    pub fn new(mut all: Vec<Rule>) -> Result<Rules, BadRules> {
        if all.len() > RULES_MAX {
            return Err(BadRules(format!("a namespace has at most {RULES_MAX} rules, and these are {}", all.len())));
        }
        all.sort_unstable_by(|a, b| a.pattern.cmp(&b.pattern));
        if let Some(pair) = all.windows(2).find(|pair| pair[0].pattern == pair[1].pattern) {
            return Err(BadRules(format!(
                "there are two rules for {}; write all that it says in one",
                pair[0].pattern
            )));
        }
        if let Some(rule) = all.iter().find(|rule| rule.overrides == Overrides::default()) {
            return Err(BadRules(format!(
                "the rule for {} says nothing; give it a value, or leave it out",
                rule.pattern
            )));
        }
        let names = all.partition_point(|rule| !rule.pattern.is_prefix);
        Ok(Rules { all, names })
    }

    /// What each rule makes of the policy of the namespace, by the rule's index.
    pub fn resolve(&self, base: &Policy) -> Vec<Policy> {
        self.all.iter().map(|rule| rule.overrides.over(base)).collect()
    }

    /// Whether the policy of the namespace makes sense, and what each rule makes of it.
    pub fn validate(&self, base: &Policy) -> Result<(), BadRules> {
        base.validate().map_err(|bad| BadRules(format!("{bad}")))?;
        self.all.iter().zip(self.resolve(base)).try_for_each(|(rule, policy)| {
            policy.validate().map_err(|bad| BadRules(format!("with the rule for {}: {bad}", rule.pattern)))
        })
    }

    /// The index of the rule that is for a topic: the one for its name, else the one with the longest prefix.
    pub fn find(&self, name: &TopicName) -> Option<usize> {
        let (names, prefixes) = self.all.split_at(self.names);
        if let Ok(found) = names.binary_search_by(|rule| rule.pattern.name.cmp(name)) {
            return Some(found);
        }
        // Of the prefixes up to `end`, a prefix of this name stands at or before the last one, and is a prefix of what
        // the two have in common.
        let mut end = prefixes.partition_point(|rule| rule.pattern.name <= *name);
        while let Some(last) = end.checked_sub(1) {
            let (prefix, name) = (prefixes[last].pattern.name.as_bytes(), name.as_bytes());
            let common = prefix.iter().zip(name).take_while(|(a, b)| a == b).count();
            if common == prefix.len() {
                return Some(self.names + last);
            }
            end = prefixes[..last].partition_point(|rule| *rule.pattern.name.as_bytes() <= name[..common]);
        }
        None
    }

    /// The rules, in the order of their patterns.
    pub fn iter(&self) -> core::slice::Iter<'_, Rule> {
        self.all.iter()
    }

    /// The same rules with names in buffers of their own ([`TopicName::detach`]).
    pub fn detach(mut self) -> Rules {
        self.all.iter_mut().for_each(|rule| rule.pattern.name = rule.pattern.name.detach());
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn rule(pattern: &str, overrides: Overrides) -> Rule {
        let is_prefix = pattern.ends_with('*');
        let name = TopicName::try_from(pattern.trim_end_matches('*')).unwrap();
        Rule { pattern: Pattern { is_prefix, name }, overrides }
    }

    fn weights(patterns: &[&str]) -> Rules {
        let weight = |weight: usize| Overrides { weight: Some(weight as u32 + 1), ..Overrides::default() };
        Rules::new(patterns.iter().enumerate().map(|(at, pattern)| rule(pattern, weight(at))).collect()).unwrap()
    }

    #[test]
    fn a_name_goes_before_a_prefix_and_a_longer_prefix_before_a_shorter_one() {
        let patterns = ["a*", "ab/*", "ab/cd*", "ab/x", "b", "ab/cdz*"];
        let rules = weights(&patterns);
        for (name, expected) in [
            ("a", Some("a*")),
            ("ab", Some("a*")),
            ("ab/", Some("ab/*")),
            ("ab/x", Some("ab/x")),
            ("ab/xy", Some("ab/*")),
            ("ab/cd", Some("ab/cd*")),
            ("ab/cdy", Some("ab/cd*")),
            ("ab/cdz1", Some("ab/cdz*")),
            ("ab/ce", Some("ab/*")),
            ("b", Some("b")),
            ("bb", None),
            ("c", None),
        ] {
            let name = TopicName::try_from(name).unwrap();
            let found = rules.find(&name).map(|at| rules.iter().nth(at).unwrap().pattern.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
            // As a walk over all finds it.
            let fits = |rule: &&Rule| match rule.pattern.is_prefix {
                true => name.as_bytes().starts_with(rule.pattern.name.as_bytes()),
                false => rule.pattern.name == name,
            };
            let longest = rules.iter().filter(fits).max_by_key(|rule| {
                let Pattern { is_prefix, name } = &rule.pattern;
                (!is_prefix, name.as_bytes().len())
            });
            assert_eq!(found, longest.map(|rule| rule.pattern.to_string()), "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let of = Overrides::default();
        let strict = Overrides { max_in_flight: Some(Some(1)), retry: Some(Retry::Tail), ..of.clone() };
        let refused =
            |rules: Vec<Rule>| Rules::new(rules).and_then(|rules| rules.validate(&Policy::default())).unwrap_err();
        assert!(refused([rule("a*", of)].into()).0.contains("the rule for a* says nothing"));
        let dropping = Overrides { overflow: Some(Overflow::DropOldest), ..Overrides::default() };
        assert!(refused([rule("a", dropping.clone())].into()).0.contains("set max_waiting too"));
        let coalescing = Overrides { coalesce: Some(Coalesce::KeepLatest), ..dropping };
        assert!(refused([rule("a", coalescing)].into()).0.contains("no topic is ever full"));
        let (one, other) = (rule("a", strict.clone()), rule("a", strict.clone()));
        assert!(refused([one.clone(), other].into()).0.contains("two rules for a"));
        assert!(refused([one].into()).0.starts_with("with the rule for a: max_in_flight 1 keeps strict order"));
        // Each by itself makes sense, and the two together do not.
        let base = Policy { retry: Retry::Tail, ..Policy::default() };
        let one_at_a_time = Overrides { retry: None, ..strict };
        assert!(Rules::new([rule("a", one_at_a_time.clone())].into()).unwrap().validate(&base).is_err());
        let many = |count: usize| (0..count).map(|n| rule(&n.to_string(), one_at_a_time.clone())).collect();
        assert!(Rules::new(many(RULES_MAX)).is_ok());
        assert!(refused(many(RULES_MAX + 1)).0.contains("at most 256 rules"));
    }
}
