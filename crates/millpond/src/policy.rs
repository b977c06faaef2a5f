//! Policies and rules in text: as they may be typed, and what each value means.

use millpond_types::{
    Coalesce, Counted, DedupWindow, Dispatch, OnExpiry, Overflow, Overrides, Pattern, Policy, Quotas, Rate, Retention,
    Retry, Rule,
};

use crate::address::{self, Place};
use crate::quantity::{self, dedup_window_text, millis_text, retry_text, size_text};

/// A rule, `PATTERN KEY=VALUE,...`: a topic or `PREFIX*`, and values by the names of their flags.
pub fn rule(text: &str) -> Result<Rule, String> {
    let form = "a rule is written 'PATTERN KEY=VALUE,...', as in 'acme/* max-in-flight=1,weight=3'";
    let (pattern, values) = text.trim().rsplit_once(' ').ok_or(form)?;
    // The broker's refusals name a value with underscores.
    let flag = |key: &str| key.replace('_', "-");
    // A pattern may be any name, but hardly one of these: it is a setting that stands behind a blank too many.
    let known = entries(&Overrides::from(&Policy::default()));
    let is_setting = |word: &&str| {
        let key = word.trim_start_matches(',').split_once('=').map(|(key, _)| flag(key));
        known.iter().any(|(name, _)| key.as_deref() == Some(name))
    };
    if let Some(word) = pattern.split(' ').skip(1).find(is_setting) {
        return Err(format!(
            "{word} would be of the pattern: write the settings with commas between them, and no blank. For a topic with such a name, take a prefix"
        ));
    }
    let (mut overrides, mut keys) = (Overrides::default(), Vec::new());
    for value in values.split(',') {
        let (key, value) = value.split_once('=').ok_or(form)?;
        let key = flag(key);
        if keys.contains(&key) {
            return Err(format!("{key} is said twice; say it once"));
        }
        set(&mut overrides, &key, value).map_err(|why| format!("{key}: {why}"))?;
        keys.push(key);
    }
    Ok(Rule { pattern: self::pattern(pattern.trim_end())?, overrides })
}

/// A topic or `PREFIX*`.
pub fn pattern(text: &str) -> Result<Pattern, String> {
    match address::place(text)? {
        Place::Topic(name) => Ok(Pattern { is_prefix: false, name }),
        Place::Prefix(name) => Ok(Pattern { is_prefix: true, name }),
        Place::All => Err("what holds for all topics is the namespace's policy itself, and no rule".into()),
    }
}

/// Sets a value by the name of its flag.
fn set(overrides: &mut Overrides, key: &str, text: &str) -> Result<(), String> {
    let number = || quantity::number(text, "expected a whole number");
    match key {
        "lease" => overrides.lease = Some(quantity::millis(text)?),
        "max-failures" => overrides.max_failures = Some(number()?),
        "retry" => overrides.retry = Some(quantity::retry(text)?),
        "ttl" => overrides.ttl = Some(quantity::millis_or_none(text)?),
        "on-expiry" => overrides.on_expiry = Some(quantity::on_expiry(text)?),
        "dedup-window" => overrides.dedup_window = Some(quantity::dedup_window(text)?),
        "max-in-flight" => overrides.max_in_flight = Some(quantity::count_or_none(text)?),
        "max-waiting" => overrides.max_waiting = Some(quantity::count_or_none(text)?),
        "overflow" => overrides.overflow = Some(quantity::overflow(text)?),
        "coalesce" => overrides.coalesce = Some(quantity::coalesce(text)?),
        "run" => overrides.run = Some(number()?),
        "rate" => overrides.rate = Some(quantity::rate(text)?),
        "weight" => overrides.weight = Some(number()?),
        "dispatch" | "ageing" | "retention-age" | "retention-count" | "quota-messages" | "quota-bytes"
        | "quota-topics" | "quota-connections" => {
            return Err("it is that of the whole namespace, and no rule says otherwise".into());
        }
        _ => return Err("no such value; a rule takes those of `millpond namespace set`, by the same names".into()),
    }
    Ok(())
}

/// The values that are given, by the names of their flags and as they may be typed.
pub fn entries(overrides: &Overrides) -> Vec<(&'static str, String)> {
    let none = || "none".to_owned();
    let entries = [
        ("lease", overrides.lease.map(millis_text)),
        ("max-failures", overrides.max_failures.map(|n| n.to_string())),
        ("retry", overrides.retry.map(retry_text)),
        ("ttl", overrides.ttl.map(|ttl| ttl.map_or_else(none, millis_text))),
        (
            "on-expiry",
            overrides.on_expiry.map(|what| if what == OnExpiry::Drop { "drop".into() } else { "dead".into() }),
        ),
        ("dedup-window", overrides.dedup_window.map(dedup_window_text)),
        ("max-in-flight", overrides.max_in_flight.map(|n| n.map_or_else(none, |n| n.to_string()))),
        ("max-waiting", overrides.max_waiting.map(|n| n.map_or_else(none, |n| n.to_string()))),
        ("overflow", overrides.overflow.map(|overflow| quantity::overflow_text(overflow).into())),
        ("coalesce", overrides.coalesce.map(|coalesce| quantity::coalesce_text(coalesce).into())),
        ("run", overrides.run.map(|n| n.to_string())),
        ("rate", overrides.rate.map(quantity::rate_text)),
        ("weight", overrides.weight.map(|n| n.to_string())),
    ];
    entries.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// A rule's values as they may be typed.
pub fn entries_text(overrides: &Overrides) -> String {
    entries(overrides).into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// What each value of a policy means, in words and in the order of [`entries`].
pub fn meanings(policy: &Policy) -> Vec<String> {
    let Policy {
        lease,
        max_failures,
        retry,
        ttl,
        on_expiry,
        dedup_window,
        max_in_flight,
        max_waiting,
        overflow,
        coalesce,
        run,
        rate,
        weight,
        // Told by [`alone`].
        quotas: _,
        dispatch: _,
        ageing: _,
        retention: _,
    } = policy;
    let retry = match retry {
        Retry::Head => "a failed message is ready again at once, before all others".into(),
        Retry::Tail => "a failed message goes behind all that waits in its topic and priority".into(),
        Retry::Backoff { first, longest } => format!(
            "a failed message waits {}, twice as long after each further failure, {} at most; then it goes first",
            millis_text(*first),
            millis_text(*longest)
        ),
    };
    let ttl = match ttl {
        None => "a message is worth delivering for ever, unless its publish says otherwise".into(),
        Some(ttl) => {
            format!("a message is worth delivering for {}, unless its publish says otherwise", millis_text(*ttl))
        }
    };
    let dedup_window = match dedup_window {
        DedupWindow::Off => "a publish with a dedup id is refused".into(),
        DedupWindow::For(time) => {
            format!("of all messages with one dedup id, one is stored within {}", millis_text(*time))
        }
        DedupWindow::Forever => "of all messages with one dedup id, one is stored until the id is forgotten".into(),
    };
    let max_in_flight = match max_in_flight {
        _ if *coalesce != Coalesce::Off => "one message of a topic is worked on at a time, for one is enough".into(),
        None => "any number of a topic's messages are worked on at a time".into(),
        Some(1) => {
            "strict order: one message of a topic at a time, and one that waits for its retry holds the others".into()
        }
        Some(n) => format!("at most {n} messages of a topic are worked on at a time"),
    };
    Vec::from([
        format!("who does not finish a message in {} loses it, unless the lease is extended", millis_text(*lease)),
        format!("failure {} of a message makes it a dead letter", u64::from(*max_failures) + 1),
        retry,
        ttl,
        match on_expiry {
            OnExpiry::Drop => "a message past its time ends".into(),
            OnExpiry::Dead => "a message past its time becomes a dead letter".into(),
        },
        dedup_window,
        max_in_flight,
        match max_waiting {
            _ if *coalesce != Coalesce::Off => "one message waits in a topic at a time, for one is enough".into(),
            None => "any number of messages may wait in a topic".into(),
            Some(n) => {
                format!("{} may wait in a topic, delayed and retrying ones included", Counted((*n).into(), "message"))
            }
        },
        match (max_waiting, overflow) {
            _ if *coalesce != Coalesce::Off => {
                "nothing, for what comes to a topic where one waits is told of in coalesce".into()
            }
            (None, _) => "nothing, for a topic is never full".into(),
            (Some(_), Overflow::Reject) => "a message that comes to a full topic is refused: topic_full".into(),
            (Some(_), Overflow::DropOldest) => {
                "a message that comes to a full topic is stored, and the oldest of the lowest priority ends".into()
            }
        },
        match coalesce {
            Coalesce::Off => "every message of a topic is worked on".into(),
            Coalesce::KeepFirst => "while a message of a topic waits, another one is declined".into(),
            Coalesce::KeepLatest => "while a message of a topic waits, another one takes its place".into(),
        },
        match run {
            1 => "messages of a topic are leased as they are ready, each by itself".into(),
            n => format!(
                "up to {n} messages of a topic are leased together to one consumer, who finishes them one after another"
            ),
        },
        match rate {
            None => "messages of a topic go as fast as they are asked for".into(),
            Some(Rate { count, period, burst }) => format!(
                "a topic gives {} in {}, evenly; {burst} at once where none went for long enough",
                Counted((*count).into(), "message"),
                millis_text(*period)
            ),
        },
        match weight {
            1 => "a topic is given one message in its turn".into(),
            n => format!("a topic is given up to {n} messages in its turn"),
        },
    ])
}

/// The values of a policy that are of the namespace alone: their names, as they may be typed, and what they mean.
pub fn alone(policy: &Policy) -> Vec<(&'static str, String, String)> {
    let Quotas { messages, bytes, topics, connections } = policy.quotas;
    let quota = |name, quota: Option<u64>, text: fn(u64) -> String, (one, which): (&'static str, &str)| match quota {
        None => (name, "none".to_owned(), format!("any number of {one}s {which}")),
        Some(most) => (name, text(most), format!("at most {} {which}; beyond that quota_exceeded", Counted(most, one))),
    };
    let number = |number: u64| number.to_string();
    let dispatch = match policy.dispatch {
        Dispatch::Priority => "the highest priority goes first, and at that tenants take turns",
        Dispatch::Fair => "tenants take turns, and of each the highest priority goes first",
    };
    let ageing = policy.ageing.map(millis_text);
    let meaning = match &ageing {
        None => "what waits keeps its priority, and may wait for ever behind higher ones".into(),
        Some(step) => format!("what waits goes as one of a higher priority after each {step}"),
    };
    let Retention { age, count } = policy.retention;
    let age = age.map(millis_text);
    let old = match &age {
        None => "a group holds messages for however long nobody takes them".into(),
        Some(age) => format!("what nobody has taken ends when it is older than {age}, a third later at most"),
    };
    let many = match count {
        None => "a group holds any number of messages that nobody takes".into(),
        Some(count) => {
            let count = Counted(count, "message");
            format!("of what nobody takes a group holds {count}, a third more at most; the oldest end")
        }
    };
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".into());
    Vec::from([
        ("ageing", or_none(ageing), meaning),
        ("dispatch", quantity::dispatch_text(policy.dispatch).into(), dispatch.into()),
        ("retention-age", or_none(age), old),
        ("retention-count", or_none(count.map(number)), many),
        quota("quota-messages", messages, number, ("message", "in the namespace, dead letters among them")),
        quota("quota-bytes", bytes, size_text, ("byte", "that its messages take in the journal")),
        quota("quota-topics", topics, number, ("topic", "in the namespace")),
        quota("quota-connections", connections, number, ("connection", "to publish to it or receive from it")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_their_text_form() {
        for (text, pattern) in [
            ("acme/* max-in-flight=1,weight=3", "acme/*"),
            ("a b lease=5s,ttl=none,retry=backoff:1s..2s", "a b"),
            ("a* rate=10/m:2,max-in-flight=none", "a*"),
            ("a* max-in-flight=1,run=4", "a*"),
            ("a=b lease=5s", "a=b"),
            ("a weigh=2 weight=2", "a weigh=2"),
            (r"a\* max-failures=0,on-expiry=dead,dedup-window=off", "a*"),
        ] {
            let found = rule(text).unwrap();
            assert_eq!(found.pattern.to_string(), pattern);
            let mut values: Vec<_> = text.rsplit(' ').next().unwrap().split(',').map(str::to_owned).collect();
            let mut again: Vec<_> = entries_text(&found.overrides).split(',').map(str::to_owned).collect();
            values.sort();
            again.sort();
            assert_eq!(again, values, "{text}");
        }
        assert!(!rule(r"a\* weight=2").unwrap().pattern.is_prefix);
        for of_namespace in ["ageing=1s", "quota-topics=1", "retention-age=1d"] {
            assert!(rule(&format!("a {of_namespace}")).unwrap_err().contains("of the whole namespace"));
        }
        for bad in ["a", "a weight", "* weight=1", "a weight=x", "a colour=red", "a max-in-flight=", "a*b weight=1"] {
            assert!(rule(bad).is_err(), "{bad}");
        }
        for parted in ["a  weight=2 , ttl=5s", "a weight=2 ttl=5s", "a lease=1s ,weight=2 ,ttl=5s"] {
            assert!(rule(parted).unwrap_err().contains("no blank"), "{parted}");
        }
        let underscored = rule("a max_waiting=5,overflow=drop_oldest").unwrap();
        assert_eq!(entries_text(&underscored.overrides), "max-waiting=5,overflow=drop-oldest");
    }

    #[test]
    fn where_one_message_is_enough_no_more_may_wait() {
        let policy = Policy { coalesce: Coalesce::KeepLatest, ..Policy::default() };
        let meanings = meanings(&policy);
        assert!(meanings.iter().any(|meaning| meaning.starts_with("one message waits in a topic")), "{meanings:?}");
        assert!(!meanings.iter().any(|meaning| meaning.contains("any number")), "{meanings:?}");
    }

    #[test]
    fn each_value_has_a_meaning() {
        let policy = Policy::default();
        assert_eq!(meanings(&policy).len(), entries(&Overrides::from(&policy)).len());
    }
}
