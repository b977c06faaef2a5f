//! Figures that docs/semantics.md gives are those of the code.

use millpond_types::{DedupWindow, Millis, OnExpiry, Policy, Priority, Retry, limits};

const PAGE: &str = include_str!("../../docs/semantics.md");

/// The right-hand cell of the table of limits.
fn limit(what: &str) -> &'static str {
    let rows = PAGE.lines().skip_while(|line| *line != "## Limits");
    let row = rows.filter_map(|line| line.strip_prefix("| ")).find(|row| row.starts_with(&format!("{what} |")));
    let cell = row.and_then(|row| row.split('|').nth(1));
    cell.unwrap_or_else(|| panic!("docs/semantics.md has no limit of a {what}")).trim()
}

/// With a comma before each three digits, as the page writes numbers.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let cuts = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.chars().enumerate().flat_map(|(at, digit)| cuts(at).then_some(',').into_iter().chain([digit])).collect()
}

#[test]
fn the_table_of_limits_is_that_of_the_code() {
    assert_eq!(limit("topic name"), format!("{} bytes", limits::TOPIC_NAME_MAX));
    assert!(limit("name of a namespace or group").starts_with(&format!("{} ", limits::SHORT_NAME_MAX)));
    assert!(limit("body").starts_with(&format!("{} MiB ", limits::BODY_MAX_DEFAULT >> 20)));
    assert_eq!(limit("headers of a message"), format!("{} KiB", limits::HEADERS_MAX >> 10));
    assert_eq!(limit("dedup id"), format!("{} bytes", limits::DEDUP_ID_MAX));
    let publish = (grouped(limits::PUBLISH_MESSAGES_MAX), limits::PUBLISH_BYTES_MAX >> 20);
    assert_eq!(limit("a publish"), format!("{} messages, {} MiB", publish.0, publish.1));
    assert_eq!(limit("runs of a publish times groups of the namespace"), grouped(limits::PUBLISH_PLACES_MAX));
    assert_eq!(limit("messages that a publish drops, in all groups"), grouped(limits::PUBLISH_DROPS_MAX as usize));
    assert_eq!(limit("receipts in a call"), grouped(limits::RECEIPTS_MAX));
    assert_eq!(limit("wait of a one-shot receive"), format!("{} minutes", limits::WAIT_MAX_MS / 60_000));
    let (prefixes, sets) =
        ("distinct prefixes in use, per namespace and group", "sets of prefixes in use, per namespace and group");
    assert_eq!(limit(prefixes), limits::PREFIXES_MAX.to_string());
    assert_eq!(limit(sets), limits::PREFIX_SETS_MAX.to_string());
    assert_eq!(limit("namespaces"), grouped(limits::NAMESPACES_MAX));
    assert_eq!(limit("topics and prefixes paused at a time, per namespace"), grouped(limits::PAGE_MAX));
    assert_eq!(limit("a lease, asked for at once"), "100 ms to 12 h");
    let may_be = |lease| Policy { lease: Millis(lease), ..Policy::default() }.validate().is_ok();
    let hours = 12 * 3_600_000;
    assert_eq!([99, 100, hours, hours + 1].map(may_be), [false, true, true, false]);
}

#[test]
fn the_defaults_are_those_of_the_code() {
    let policy = Policy::default();
    let Retry::Backoff { first, longest } = policy.retry else { panic!("the page says that back-off is the default") };
    let DedupWindow::For(window) = policy.dedup_window else { panic!("the page says that ids are kept for a time") };
    assert_eq!((policy.ttl, policy.max_in_flight, policy.on_expiry), (None, None, OnExpiry::Drop));
    let text = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        format!(
            "a priority of 0 to {} (default {}, 9 goes first)",
            Priority::HIGHEST.level(),
            Priority::DEFAULT.level()
        ),
        format!("begins at {} s, doubles with each failure up to {} minutes", first.0 / 1000, longest.0 / 60_000),
        format!("| `lease` | {} s |", policy.lease.0 / 1000),
        format!("| `max_failures` | {} |", policy.max_failures),
        format!("| `retry` | backoff {} s to {} min |", first.0 / 1000, longest.0 / 60_000),
        format!("| `dedup_window` | {} min |", window.0 / 60_000),
        format!("| `weight` | {} |", policy.weight),
        format!("`max_failures` ({}) is", policy.max_failures),
        format!("runs out after `lease` ({} s unless", policy.lease.0 / 1000),
        format!("The outcomes of the last {} batches are kept", limits::PRODUCER_WINDOW),
    ] {
        assert!(text.contains(&sentence), "docs/semantics.md does not say: {sentence}");
    }
}
