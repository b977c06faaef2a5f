//! Durations, sizes, headers and the like as they are written on the command line and in the configuration.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millpond_types::{
    Coalesce, DedupWindow, Dispatch, Millis, OnExpiry, Overflow, Priority, Rate, Retry, Start, WallTime,
};

/// A duration with its unit: `100ms`, `5s`, `10m`, `1h`, `7d`.
pub fn millis(text: &str) -> Result<Millis, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|why| format!("{why}; a duration is written with its unit: 100ms, 5s, 10m, 1h, 7d"))?;
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err("time is counted in whole milliseconds: the shortest is 1ms".into());
    }
    u64::try_from(duration.as_millis()).map(Millis).map_err(|_| "a duration this long never ends".into())
}

/// The same as a [`Duration`].
pub fn duration(text: &str) -> Result<Duration, String> {
    millis(text).map(|millis| Duration::from_millis(millis.0))
}

/// What `read` reads, or `none`.
pub fn or_none<T>(text: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == "none" { Ok(None) } else { read(text).map(Some) }
}

/// A duration, or `none`.
pub fn millis_or_none(text: &str) -> Result<Option<Millis>, String> {
    or_none(text, millis)
}

/// How long a message lives: a duration, or `none`, which is zero in a publish and goes before the namespace's TTL.
pub fn ttl(text: &str) -> Result<Millis, String> {
    match millis_or_none(text)? {
        Some(Millis::ZERO) => Err("such a message would be over at once; one that never expires has none".into()),
        ttl => Ok(ttl.unwrap_or(Millis::ZERO)),
    }
}

/// A dedup id. An empty one is what a script gives whose variable is not set; it would go for no id at all.
pub fn dedup_id(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a dedup id has at least one byte".into()) } else { Ok(text.to_owned()) }
}

/// A whole number. One that is too large is told as such, and everything else by what is expected in its place.
pub fn number<N: FromStr<Err = ParseIntError>>(text: &str, expected: &str) -> Result<N, String> {
    text.parse().map_err(|why: ParseIntError| match why.kind() {
        IntErrorKind::PosOverflow => format!("{text} is too large"),
        _ => expected.into(),
    })
}

/// A number, or `none`.
pub fn count_or_none<N: FromStr<Err = ParseIntError>>(text: &str) -> Result<Option<N>, String> {
    or_none(text, |text| number(text, "expected a whole number, or none"))
}

/// Where a group starts: `earliest`, `latest`, a time, or how long ago.
pub fn start(text: &str) -> Result<Start, String> {
    let time = match text {
        "earliest" => return Ok(Start::Earliest),
        "latest" => return Ok(Start::Latest),
        text => match text.strip_suffix(" ago") {
            Some(ago) => SystemTime::now().checked_sub(duration(ago.trim_end())?),
            None => humantime::parse_rfc3339(text).ok(),
        },
    };
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let since = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    since.map(|millis| Start::At(WallTime(millis))).ok_or_else(|| {
        "a group starts at earliest, latest, a time as in 2026-11-21T12:00:00Z, or some time ago as in '10m ago'".into()
    })
}

/// A size in bytes: `4096`, `64K`, `192M`, `1GiB`. Units are powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err("a size is written as 4096, 64K, 192M or 1GiB; units are powers of 1024".into()),
    };
    let number = self::number::<u64>(number, "a size begins with a whole number: 4096, 64K, 192M, 1GiB")?;
    number.checked_mul(1 << shift).ok_or_else(|| "a size this large is not of this world".into())
}

/// The same size with the largest unit that leaves a whole number.
pub fn size_text(bytes: u64) -> String {
    let unit = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// A duration as it may be written.
pub fn millis_text(millis: Millis) -> String {
    humantime::format_duration(Duration::from_millis(millis.0)).to_string().replace(' ', "")
}

/// A header, `KEY=VALUE`.
pub fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("a header is written KEY=VALUE".into()),
    }
}

/// A priority, 0 to 9.
pub fn priority(text: &str) -> Result<Priority, String> {
    let level = text.parse().ok().and_then(Priority::new);
    level.ok_or_else(|| "a priority is a number from 0 to 9; 9 goes first".into())
}

/// `head`, `tail` or `backoff:FIRST..LONGEST`.
pub fn retry(text: &str) -> Result<Retry, String> {
    let form = || "retry is head, tail, or backoff:FIRST..LONGEST as in backoff:1s..10m".to_string();
    match text.split_once(':') {
        None if text == "head" => Ok(Retry::Head),
        None if text == "tail" => Ok(Retry::Tail),
        Some(("backoff", pauses)) => {
            let (first, longest) = pauses.split_once("..").ok_or_else(form)?;
            Ok(Retry::Backoff { first: millis(first)?, longest: millis(longest)? })
        }
        _ => Err(form()),
    }
}

/// A retry as it may be written.
pub fn retry_text(retry: Retry) -> String {
    match retry {
        Retry::Head => "head".into(),
        Retry::Tail => "tail".into(),
        Retry::Backoff { first, longest } => format!("backoff:{}..{}", millis_text(first), millis_text(longest)),
    }
}

/// `drop` or `dead`.
pub fn on_expiry(text: &str) -> Result<OnExpiry, String> {
    match text {
        "drop" => Ok(OnExpiry::Drop),
        "dead" => Ok(OnExpiry::Dead),
        _ => Err("a message past its TTL is dropped or becomes a dead letter: drop or dead".into()),
    }
}

/// `reject` or `drop-oldest`.
pub fn overflow(text: &str) -> Result<Overflow, String> {
    match text {
        "reject" => Ok(Overflow::Reject),
        "drop-oldest" | "drop_oldest" => Ok(Overflow::DropOldest),
        _ => Err("a full topic refuses messages or drops the oldest: reject or drop-oldest".into()),
    }
}

/// What becomes of a message past the limit, as it may be written.
pub fn overflow_text(overflow: Overflow) -> &'static str {
    match overflow {
        Overflow::Reject => "reject",
        Overflow::DropOldest => "drop-oldest",
    }
}

/// `off`, `keep-first` or `keep-latest`.
pub fn coalesce(text: &str) -> Result<Coalesce, String> {
    match text {
        "off" => Ok(Coalesce::Off),
        "keep-first" | "keep_first" => Ok(Coalesce::KeepFirst),
        "keep-latest" | "keep_latest" => Ok(Coalesce::KeepLatest),
        _ => Err("coalesce is off, keep-first or keep-latest".into()),
    }
}

/// Which of several messages stands for all, as it may be written.
pub fn coalesce_text(coalesce: Coalesce) -> &'static str {
    match coalesce {
        Coalesce::Off => "off",
        Coalesce::KeepFirst => "keep-first",
        Coalesce::KeepLatest => "keep-latest",
    }
}

/// `N/PERIOD`, `N/PERIOD:BURST`, or `none`. The period is `s`, `m`, `h`, `d`, or a duration; the burst is what comes in a
/// period, unless it is said.
pub fn rate(text: &str) -> Result<Option<Rate>, String> {
    let form = || "a rate is written N/PERIOD or N/PERIOD:BURST as in 100/s, 10/m:1 or 5/10s, or none".to_string();
    if text == "none" {
        return Ok(None);
    }
    let (count, rest) = text.split_once('/').ok_or_else(form)?;
    let (period, burst) = rest.split_once(':').unwrap_or((rest, count));
    let period =
        if period.starts_with(|c: char| c.is_ascii_digit()) { millis(period)? } else { millis(&format!("1{period}"))? };
    Ok(Some(Rate { count: number(count, &form())?, period, burst: number(burst, &form())? }))
}

/// A rate as it may be written.
pub fn rate_text(rate: Option<Rate>) -> String {
    let Some(Rate { count, period, burst }) = rate else { return "none".into() };
    let period = millis_text(period);
    let unit = period.strip_prefix('1').filter(|unit| unit.chars().all(|c| c.is_ascii_alphabetic()));
    let rate = format!("{count}/{}", unit.unwrap_or(&period));
    if burst == count { rate } else { format!("{rate}:{burst}") }
}

/// `priority` or `fair`.
pub fn dispatch(text: &str) -> Result<Dispatch, String> {
    match text {
        "priority" => Ok(Dispatch::Priority),
        "fair" => Ok(Dispatch::Fair),
        _ => Err("the highest priority goes first, or the tenant whose turn it is: priority or fair".into()),
    }
}

/// What comes first, as it may be written.
pub fn dispatch_text(dispatch: Dispatch) -> &'static str {
    match dispatch {
        Dispatch::Priority => "priority",
        Dispatch::Fair => "fair",
    }
}

/// `off`, a duration, or `forever`.
pub fn dedup_window(text: &str) -> Result<DedupWindow, String> {
    match text {
        "off" => Ok(DedupWindow::Off),
        "forever" => Ok(DedupWindow::Forever),
        _ => millis(text).map(DedupWindow::For).map_err(|why| format!("{why}; or off, or forever")),
    }
}

/// A dedup window as it may be written.
pub fn dedup_window_text(window: DedupWindow) -> String {
    match window {
        DedupWindow::Off => "off".into(),
        DedupWindow::Forever => "forever".into(),
        DedupWindow::For(millis) => millis_text(millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, expected) in
            [("100ms", 100), ("5s", 5_000), ("10m", 600_000), ("1h", 3_600_000), ("7d", 604_800_000)]
        {
            assert_eq!(millis(text), Ok(Millis(expected)), "{text}");
            assert_eq!(millis(&millis_text(Millis(expected))), Ok(Millis(expected)), "{text}");
        }
        for bad in ["", "5", "s", "-1s", "5 parsecs", "99999999999999999999s", "500us", "1.0005s"] {
            assert!(millis(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_told_as_such() {
        for why in [rate("5000000000/s").unwrap_err(), count_or_none::<u32>("5000000000").unwrap_err()] {
            assert_eq!(why, "5000000000 is too large");
        }
        assert_eq!(count_or_none::<u32>("-1").unwrap_err(), "expected a whole number, or none");
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, expected) in [("0", 0), ("4096", 4096), ("64K", 65_536), ("192M", 192 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(size(text), Ok(expected), "{text}");
            assert_eq!(size(&size_text(expected)), Ok(expected), "{text}");
        }
        for bad in ["", "M", "1MB", "1.5G", "-1", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn policies_survive_their_text_form() {
        for text in ["head", "tail", "backoff:1s..10m"] {
            assert_eq!(retry_text(retry(text).unwrap()), text);
        }
        for text in ["off", "10m", "forever"] {
            assert_eq!(dedup_window_text(dedup_window(text).unwrap()), text);
        }
        for text in ["none", "100/s", "10/m", "10/m:1", "5/10s", "1/h", "3/1m30s:7"] {
            assert_eq!(rate_text(rate(text).unwrap()), text);
        }
        assert_eq!(rate("10/m").unwrap(), Some(Rate { count: 10, period: Millis(60_000), burst: 10 }));
        for bad in ["", "10", "/s", "10/", "10/x", "x/s", "10/s:", "10/s:x", "-1/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        for bad in ["", "backoff", "backoff:1s", "backoff:1..2", "sometimes"] {
            assert!(retry(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_have_a_key() {
        assert_eq!(header("k=v=w"), Ok(("k".into(), "v=w".into())));
        assert_eq!(header("k="), Ok(("k".into(), String::new())));
        assert!(header("=v").is_err() && header("k").is_err());
    }
}
