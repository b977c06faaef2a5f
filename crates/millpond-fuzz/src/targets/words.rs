//! What people type and write: addresses, quantities, rules, ids, names, keys and patterns, headers, and the configuration
//! file.
//!
//! The first byte says what the rest is, as text. Reading never panics; and what is read comes back from the text in which it
//! is shown.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use std::str::FromStr;

use bytes::Bytes;
use millpond_core::command::{Level, Route, Routed};
use millpond_core::routing::Exchange;
use millpond_types::block;
use millpond_types::{
    Binding, Condition, ExchangeKind, ExchangeName, GroupName, MessageId, Millis, NamespaceName, Pattern, Priority,
    Receipt, RoutingKey, Rule, Start, TopicName, Unroutable,
};

use crate::address::{self, Address, Place, TopicAddress};
use crate::settings::Settings;
use crate::{policy, quantity};

/// Reads a text as one of the things that are written.
pub fn run(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let text = &*String::from_utf8_lossy(rest);
    match kind % 13 {
        0 => addresses(text),
        1 => back(text, quantity::millis, |millis| quantity::millis_text(*millis)),
        2 => back(text, quantity::size, |size| quantity::size_text(*size)),
        3 => back(text, quantity::rate, |rate| quantity::rate_text(*rate)),
        4 => back(text, quantity::retry, |retry| quantity::retry_text(*retry)),
        5 => back(text, quantity::dedup_window, |window| quantity::dedup_window_text(*window)),
        6 => back(text, policy::rule, rule_text),
        7 => ids(text),
        8 => names(text),
        9 => patterns(text),
        10 => headers(text),
        11 => starts(text),
        _ => settings(text),
    }
}

/// What is read of a text is read of the text in which that is shown, and is shown so again.
fn back<T: PartialEq + Debug, E: Debug>(text: &str, read: impl Fn(&str) -> Result<T, E>, show: impl Fn(&T) -> String) {
    let Ok(found) = read(text) else { return };
    let shown = show(&found);
    match read(&shown) {
        Ok(again) if again == found => {}
        other => panic!("{text:?} is read as {found:?}, shown as {shown:?}, and read again as {other:?}"),
    }
}

fn addresses(text: &str) {
    back(text, Address::from_str, |Address { namespace, place }| match place {
        Place::All => namespace.to_string(),
        Place::Topic(name) => format!("{namespace}/{}", escaped(name)),
        Place::Prefix(name) => format!("{namespace}/{}*", escaped(name)),
    });
    back(text, TopicAddress::from_str, |TopicAddress { namespace, topic }| format!("{namespace}/{}", escaped(topic)));
    back(text, policy::pattern, pattern_text);
    back(text, address::server, Clone::clone);
    let several: Vec<Address> = text.split('\n').filter_map(|line| line.parse().ok()).collect();
    if !several.is_empty() {
        _ = address::filter(&several);
    }
}

fn escaped(name: &TopicName) -> String {
    name.as_str().replace('\\', r"\\").replace('*', r"\*")
}

fn pattern_text(pattern: &Pattern) -> String {
    format!("{}{}", escaped(&pattern.name), if pattern.is_prefix { "*" } else { "" })
}

fn rule_text(Rule { pattern, overrides }: &Rule) -> String {
    format!("{} {}", pattern_text(pattern), policy::entries_text(overrides))
}

fn ids(text: &str) {
    fn both<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
        back(text, T::from_str, T::to_string);
    }
    both::<MessageId>(text);
    both::<Receipt>(text);
    back(text, quantity::priority, |priority: &Priority| priority.level().to_string());
    _ = (quantity::ttl(text), quantity::dedup_id(text), quantity::count_or_none::<u32>(text));
    _ = (quantity::dispatch(text), quantity::coalesce(text), quantity::overflow(text), quantity::on_expiry(text));
}

fn names(text: &str) {
    back(text, |text| TopicName::try_from(text), |name| name.as_str().to_owned());
    back(text, |text| NamespaceName::try_from(text), |name| name.as_str().to_owned());
    back(text, |text| GroupName::try_from(text), |name| name.as_str().to_owned());
    back(text, |text| ExchangeName::try_from(text), |name| name.as_str().to_owned());
    back(text, |text| RoutingKey::try_from(text), |key| key.as_str().to_owned());
}

fn headers(text: &str) {
    back(text, quantity::header, |(key, value)| format!("{key}={value}"));
    let pairs: Vec<(String, String)> = text.split('\n').filter_map(|line| quantity::header(line).ok()).collect();
    let given: Vec<(&[u8], &[u8])> = pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
    let mut written = Vec::new();
    if block::push(&mut written, b"", &given, b"body").is_ok() {
        let message = block::first(&written).expect("what was written is read");
        let read: Vec<(&[u8], &[u8])> = block::headers(message.headers).map(|pair| pair.expect("a header")).collect();
        assert_eq!(read, given);
    }
}

fn starts(text: &str) {
    // How long ago something was depends on when that is said.
    if let Ok(Start::At(time)) = quantity::start(text)
        && !text.ends_with(" ago")
    {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(time.0);
        let shown = humantime::format_rfc3339_millis(time).to_string();
        assert_eq!(quantity::start(&shown), quantity::start(text), "{shown}");
    }
}

/// A pattern, a line each for further ones, and in the last line a key: the topics that it leads to are those of the patterns
/// that fit it, word by word.
fn patterns(text: &str) {
    let mut keys: Vec<RoutingKey> = text.split('\n').filter_map(|line| line.try_into().ok()).collect();
    let Some(key) = keys.pop() else { return };
    // A pattern of many `#` is tried in many ways here.
    keys.retain(|pattern| pattern.words().filter(|word| *word == "#").count() <= 4);
    let target = |at: usize| TopicName::try_from(at.to_string().as_str()).expect("a name");
    let binding = |(at, pattern): (usize, &RoutingKey)| {
        let condition = Condition::Key(pattern.clone());
        Binding { condition, target: target(at) }
    };
    let bindings: BTreeSet<Binding> = keys.iter().enumerate().map(binding).collect();
    let words: Vec<&str> = key.words().collect();
    let fitting = |pattern: &RoutingKey| fits(&pattern.words().collect::<Vec<_>>(), &words);
    let fitting = keys.iter().enumerate().filter(|(_, pattern)| fitting(pattern)).map(|(at, _)| target(at));
    let fitting: BTreeSet<TopicName> = fitting.collect();

    let bindings = bindings.into_iter().collect();
    let exchange = Exchange { kind: ExchangeKind::Topic, unroutable: Unroutable::Drop, version: 1, bindings };
    let mut message = Vec::new();
    block::push(&mut message, b"", &[], b"body").expect("a small message");
    let (priority, delay, ttl, block) = (Priority::DEFAULT, Millis::ZERO, None, Bytes::from(message));
    let message = Routed { priority, delay, ttl, block, too_large: None };
    let name = ExchangeName::try_from("x").expect("a name");
    let mut route = Route::new(NamespaceName::default(), (name, key.clone()), message, None, Level::Durable);
    exchange.resolve(&mut route, [1, 2]);
    exchange.copy(&mut route, [1, 2]);
    let found: BTreeSet<TopicName> = route.publish.runs.into_iter().map(|run| run.topic).collect();
    assert_eq!(found, fitting, "where {key:?} leads among {keys:?}");
}

/// `*` is one word and `#` any number of them, said as simply as can be.
fn fits(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], words) => words.is_empty(),
        (["#", rest @ ..], words) => (0..=words.len()).any(|skipped| fits(rest, &words[skipped..])),
        ([_, ..], []) => false,
        ([first, pattern @ ..], [word, words @ ..]) => (*first == "*" || first == word) && fits(pattern, words),
    }
}

/// A configuration file. Names of machines would be looked up, so only addresses may stand in it.
fn settings(text: &str) {
    let Ok(table) = text.parse::<toml::Table>() else { return };
    let is_named = |key: &str| {
        table.get(key).and_then(toml::Value::as_str).is_some_and(|text| text.parse::<SocketAddr>().is_err())
    };
    if is_named("listen") || is_named("http") {
        return;
    }
    if let Ok(settings) = toml::from_str::<Settings>(text) {
        _ = settings.or(Settings::default()).config().validate();
    }
}
