//! Whether a long run is flat: the medians of its last third beside those of the third that begins after a sixth. Of 30
//! minutes these are the last ten and those from 5 to 15. Medians, for a checkpoint or a machine's hiccup is no trend.

use std::ops::RangeInclusive;

use super::sample::Sample;

/// The earlier part, as shares of the run. The first sixth is for getting into the swing.
pub const EARLY: RangeInclusive<f64> = 1.0 / 6.0..=0.5;
/// The later part.
pub const LATE: RangeInclusive<f64> = 2.0 / 3.0..=1.0;
/// How much the later median may be, as a share of the earlier one. Falling as far is no better: what was measured early
/// would not be what the broker does for long.
const FLAT: RangeInclusive<f64> = 0.8..=1.2;

/// What is judged.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value in a sample.
    pub value: fn(&Sample) -> Option<f64>,
}

const MIB: f64 = (1 << 20) as f64;

/// 99 of 100 messages are confirmed within.
pub const PUBLISH_P99: Quantity =
    Quantity { name: "publish p99", unit: "ms", value: |sample| Some(sample.publish_p99? / 1e3) };
/// 99 of 100 messages are delivered within, where they are to be at once.
pub const DELIVERY_P99: Quantity =
    Quantity { name: "delivery p99", unit: "ms", value: |sample| Some(sample.delivery_p99? / 1e3) };
/// Memory that the broker has resident.
pub const RESIDENT: Quantity =
    Quantity { name: "resident memory", unit: "MiB", value: |sample| Some(sample.resident? as f64 / MIB) };
/// What its directory takes on the disk.
pub const DISK: Quantity =
    Quantity { name: "disk", unit: "MiB", value: |sample| Some(sample.disk?.allocated as f64 / MIB) };

/// The medians of a quantity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Medians {
    /// Of the earlier part.
    pub early: f64,
    /// Of the later part.
    pub late: f64,
}

impl Medians {
    /// The medians over a run; `None` if a part has no value.
    pub fn of(quantity: Quantity, samples: &[Sample]) -> Option<Medians> {
        let seconds = samples.last()?.at;
        let median = |part: RangeInclusive<f64>| {
            let inside = samples.iter().filter(|sample| part.contains(&(sample.at / seconds)));
            let mut values: Vec<f64> = inside.filter_map(quantity.value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Some(Medians { early: median(EARLY)?, late: median(LATE)? })
    }

    /// The later as a share of the earlier.
    pub fn ratio(self) -> f64 {
        self.late / self.early
    }

    /// Whether the two are near enough to one another.
    pub fn is_flat(self) -> bool {
        FLAT.contains(&self.ratio())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample each minute of half an hour, with a p99 in milliseconds.
    fn run(p99: fn(u32) -> Option<f64>) -> Option<Medians> {
        let sample = |minute: u32| Sample {
            at: f64::from(minute) * 60.0,
            publish_p99: p99(minute).map(|millis| millis * 1e3),
            ..Sample::default()
        };
        Medians::of(PUBLISH_P99, &(1..=30).map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn medians_are_of_minutes_5_to_15_and_of_the_last_ten() {
        let medians = run(|minute| Some(f64::from(minute))).unwrap();
        assert_eq!(medians, Medians { early: 10.0, late: 25.0 });
        assert!(!medians.is_flat());
        // A slow begin and single peaks are no trend; neither are samples without a value.
        let swing = |minute: u32| if minute < 5 || minute.is_multiple_of(4) { Some(900.0) } else { Some(2.0) };
        assert!(run(swing).unwrap().is_flat());
        assert!(run(|minute| minute.is_multiple_of(2).then_some(2.0)).unwrap().is_flat());
        assert_eq!(run(|minute| (minute < 20).then_some(2.0)), None);
    }

    #[test]
    fn a_fifth_more_or_less_is_flat() {
        for (late, flat) in [(1.19, true), (1.21, false), (0.81, true), (0.79, false)] {
            assert_eq!(Medians { early: 1.0, late }.is_flat(), flat, "{late}");
        }
    }
}
