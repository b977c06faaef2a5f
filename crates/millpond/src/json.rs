//! The JSON forms of what the commands print. Field names are the words of the documents; times are RFC 3339 in UTC,
//! durations are written as they may be typed.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use millpond_types::{
    Counts, DeadView, GroupView, MessageState, MessageView, NamespaceView, OfficeView, Overrides, Pattern, Pause,
    PausedTopics, Policy, Quotas, Start, Tally, TopicName, TopicView, WallTime, block,
};
use serde_json::map::Entry;
use serde_json::{Map, Value, json};

use crate::quantity::millis_text;
use crate::{policy, quantity};

/// A time, in UTC.
pub fn time_text(time: WallTime) -> String {
    // A time past the year 9999 has no such form; nothing that is shown lies there but a delay without end.
    let longest = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time.0).min(longest)).to_string()
}

/// Adds `body` and `encoding`: `utf8` where the body is text, else `base64`.
pub fn insert_body(object: &mut Map<String, Value>, body: &[u8]) {
    let (encoding, text) = match std::str::from_utf8(body) {
        Ok(text) => ("utf8", text.to_owned()),
        Err(_) => ("base64", BASE64_STANDARD.encode(body)),
    };
    object.insert("encoding".into(), encoding.into());
    object.insert("body".into(), text.into());
}

/// Headers as an object; bytes that are not UTF-8 are shown as U+FFFD. A key that comes several times has a list of its
/// values.
pub fn headers<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Value {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut object = Map::new();
    for (key, value) in pairs {
        match object.entry(text(key)) {
            Entry::Vacant(entry) => _ = entry.insert(text(value).into()),
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Value::Array(values) => values.push(text(value).into()),
                first => *first = json!([first.take(), text(value)]),
            },
        }
    }
    Value::Object(object)
}

/// A message that was looked at.
pub fn message(topic: &TopicName, view: &MessageView) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("topic".into(), topic.as_str().into());
    object.insert("id".into(), view.id.to_string().into());
    object.insert("state".into(), state_name(view.state).into());
    if let MessageState::Delayed { due } | MessageState::Retrying { due } = view.state {
        object.insert("due".into(), time_text(due).into());
    }
    object.insert("priority".into(), view.id.priority.level().into());
    object.insert("published".into(), time_text(view.published).into());
    if let Some(expires) = view.expires {
        object.insert("expires".into(), time_text(expires).into());
    }
    object.insert("deliveries".into(), view.deliveries.into());
    object.insert("failures".into(), view.failures.into());
    match block::first(&view.block) {
        Ok(parts) => {
            if !parts.dedup_id.is_empty() {
                object.insert("dedup_id".into(), String::from_utf8_lossy(parts.dedup_id).into());
            }
            object.insert("headers".into(), headers(block::headers(parts.headers).flatten()));
            insert_body(&mut object, parts.body);
        }
        // A message whose bytes are damaged is shown by what is known of it.
        Err(_) => drop(object.insert("body".into(), Value::Null)),
    }
    object
}

/// A dead letter.
pub fn dead(view: &DeadView) -> Map<String, Value> {
    let mut object = message(&view.topic, &view.message);
    object.insert("reason".into(), view.reason.as_str().into());
    object.insert("detail".into(), view.detail.as_str().into());
    object.insert("died".into(), time_text(view.died).into());
    object
}

/// A message's state in one word.
pub fn state_name(state: MessageState) -> &'static str {
    match state {
        MessageState::Waiting => "waiting",
        MessageState::Delayed { .. } => "delayed",
        MessageState::Retrying { .. } => "retrying",
        MessageState::Leased => "leased",
        MessageState::Dead => "dead",
        MessageState::Ended => "ended",
    }
}

/// The counts of a group.
pub fn counts(counts: &Counts) -> Map<String, Value> {
    let pairs = [
        ("waiting", counts.waiting),
        ("delayed", counts.delayed),
        ("retrying", counts.retrying),
        ("leased", counts.leased),
        ("dead", counts.dead),
        ("unfinished", counts.unfinished()),
    ];
    pairs.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
}

/// What a namespace may hold; null for any number.
fn quotas(quotas: Quotas) -> Value {
    let Quotas { messages, bytes, topics, connections } = quotas;
    json!({ "messages": messages, "bytes": bytes, "topics": topics, "connections": connections })
}

/// Who leads an exclusive group, as people are told.
pub fn leader(office: &OfficeView) -> String {
    match office.leader {
        Some(leader) if office.is_handing_over => format!("{leader:08x} (handing over)"),
        Some(leader) => format!("{leader:08x}"),
        None if office.is_handing_over => "none (handing over)".to_owned(),
        None => "none".to_owned(),
    }
}

/// The office of an exclusive group.
pub fn office(office: &OfficeView) -> Value {
    json!({
        "leader": office.leader.map(|leader| format!("{leader:08x}")),
        "epoch": office.epoch.0,
        "handing_over": office.is_handing_over,
        "candidates": office.candidates,
        "term": millis_text(office.terms.term),
        "handover": millis_text(office.terms.handover),
    })
}

/// What `stats` says of a namespace.
pub fn stats(view: &NamespaceView) -> Value {
    let offices: Map<_, _> = view.offices.iter().map(|of| (of.group.to_string(), office(of))).collect();
    let groups: Map<_, _> =
        view.groups.iter().map(|group| (group.name.to_string(), Value::Object(held(group)))).collect();
    json!({
        "namespace": view.name.as_str(),
        "topics": view.usage.topics,
        "messages": view.usage.messages,
        "bytes": view.usage.bytes,
        "connections": view.usage.connections,
        "quotas": quotas(view.policy.quotas),
        "groups": groups,
        "offices": offices,
        "position": view.position,
    })
}

/// What a group holds, and what has become of what was published since it was made.
fn held(group: &GroupView) -> Map<String, Value> {
    let mut fields = counts(&group.counts);
    let Tally { accepted, declined, superseded, dropped, retained_out } = group.tally;
    let tally = [
        ("accepted", accepted),
        ("declined", declined),
        ("superseded", superseded),
        ("dropped", dropped),
        ("retained_out", retained_out),
    ];
    fields.extend(tally.map(|(name, count)| (name.to_owned(), count.into())));
    fields
}

/// What `group list` says of a group.
pub fn group(view: &GroupView, office: Option<&OfficeView>) -> Value {
    let mut fields = held(view);
    fields.insert("group".into(), view.name.as_str().into());
    fields.insert("office".into(), office.map(self::office).into());
    fields.insert("start".into(), start_text(view.start).into());
    fields.insert("starting".into(), view.is_starting.into());
    fields.insert("reached".into(), view.reached.as_ref().map(|name| name.as_str()).into());
    Value::Object(fields)
}

/// Where a group began, as it may be written.
pub fn start_text(start: Start) -> String {
    match start {
        Start::Earliest => "earliest".into(),
        Start::Latest => "latest".into(),
        Start::At(time) => time_text(time),
    }
}

/// Messages of all groups of a namespace that are not finished.
pub fn unfinished(view: &NamespaceView) -> u64 {
    view.groups.iter().map(|group| group.counts.unfinished()).sum()
}

/// Dead letters of all groups of a namespace.
pub fn dead_letters(view: &NamespaceView) -> u64 {
    view.groups.iter().map(|group| group.counts.dead).sum()
}

/// What `namespace show` and `namespace list` say.
pub fn namespace(view: &NamespaceView) -> Value {
    let rules = view
        .rules
        .iter()
        .map(|rule| json!({ "pattern": pattern_text(&rule.pattern), "policy": values(&rule.overrides) }));
    json!({
        "namespace": view.name.as_str(),
        "version": view.version,
        "topics": view.usage.topics,
        "unfinished": unfinished(view),
        "dead": dead_letters(view),
        "policy": policy(&view.policy),
        "quotas": quotas(view.policy.quotas),
        "rules": rules.collect::<Vec<_>>(),
        "paused": view.paused.iter().map(paused).collect::<Vec<_>>(),
    })
}

/// What `namespace show --topic` says.
pub fn topic_policy(view: &NamespaceView, topic: &TopicName) -> Value {
    let rule = view.rules.find(topic).and_then(|at| view.rules.iter().nth(at));
    let effective = rule.map_or(view.policy.clone(), |rule| rule.overrides.over(&view.policy));
    json!({
        "namespace": view.name.as_str(),
        "version": view.version,
        "topic": topic.as_str(),
        "rule": rule.map(|rule| pattern_text(&rule.pattern)),
        "policy": policy(&effective),
    })
}

/// A pause.
fn paused(Pause { topics, until }: &Pause) -> Value {
    json!({ "topics": paused_text(topics), "until": (*until != WallTime::NEVER).then(|| time_text(*until)) })
}

/// What is paused as it may be typed behind its namespace.
pub fn paused_text(topics: &PausedTopics) -> String {
    typed(topics.as_str(), topics.is_prefix())
}

/// A pattern as it may be typed.
pub fn pattern_text(pattern: &Pattern) -> String {
    typed(pattern.name.as_str(), pattern.is_prefix)
}

fn typed(name: &str, is_prefix: bool) -> String {
    let escaped = name.replace('\\', r"\\").replace('*', r"\*");
    if is_prefix { escaped + "*" } else { escaped }
}

/// A policy, by the names of its flags.
pub fn policy(policy: &Policy) -> Value {
    let mut values = values(&Overrides::from(policy));
    values["dispatch"] = quantity::dispatch_text(policy.dispatch).into();
    values["retention-age"] = policy.retention.age.map_or_else(|| "none".into(), quantity::millis_text).into();
    values["retention-count"] = policy.retention.count.map_or_else(|| "none".into(), |count| count.to_string()).into();
    values["ageing"] = policy.ageing.map_or_else(|| "none".into(), quantity::millis_text).into();
    values
}

fn values(overrides: &Overrides) -> Value {
    let entries = policy::entries(overrides);
    Value::Object(entries.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}

/// A topic.
pub fn topic(view: &TopicView) -> Value {
    let mut object = Map::new();
    object.insert("topic".into(), view.name.as_str().into());
    object.insert("paused".into(), view.paused.into());
    let mut counts = counts(&view.counts);
    counts.remove("dead");
    object.append(&mut counts);
    object.insert("lag".into(), view.counts.unfinished().into());
    object.insert("oldest".into(), view.oldest.map_or(Value::Null, |time| time_text(time).into()));
    object.insert("due".into(), view.due.map_or(Value::Null, |time| time_text(time).into()));
    if !view.cursors.is_empty() {
        let cursors = view.cursors.iter().map(|c| {
            json!({
                "group": c.group.as_str(),
                "priority": c.priority.level(),
                "completion": c.completion.0,
                "scan": c.scan.0,
                "next": c.next.0,
                "lag": c.lag,
            })
        });
        object.insert("cursors".into(), cursors.collect());
    }
    Value::Object(object)
}
