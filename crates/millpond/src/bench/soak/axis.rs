//! The axes of a plot: where a value stands between the ends, and which round values get a line.

/// From zero to a round value, or over whole powers of ten.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Axis {
    /// From zero.
    Linear {
        /// The top, a multiple of the step.
        top: f64,
        /// Between two lines.
        step: f64,
    },
    /// Over powers of ten.
    Log {
        /// The exponent at the bottom.
        low: i32,
        /// The exponent at the top.
        high: i32,
    },
}

/// An axis of more decades than this would hide what it shows; what is below stands at the bottom.
const DECADES_MAX: i32 = 6;

impl Axis {
    /// From zero to at least `most`, with at most `lines` steps.
    pub fn linear(most: f64, lines: u32) -> Axis {
        let most = if most > 0.0 { most } else { 1.0 };
        let rough = most / f64::from(lines);
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|digit| digit * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        Axis::Linear { top: (most / step).ceil() * step, step }
    }

    /// Over the powers of ten that hold all values.
    pub fn log(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let positive = values.filter(|value| *value > 0.0);
        let most = positive.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = positive.fold(most, f64::min);
        let high = most.log10().ceil() as i32;
        Axis::Log { low: (least.log10().floor() as i32).clamp(high - DECADES_MAX, high - 1), high }
    }

    /// Where a value stands: 0 at the bottom, 1 at the top.
    pub fn share(self, value: f64) -> f64 {
        let share = match self {
            Axis::Linear { top, .. } => value / top,
            Axis::Log { low, high } => (value.log10() - f64::from(low)) / f64::from(high - low),
        };
        share.clamp(0.0, 1.0)
    }

    /// The values that get a line.
    pub fn lines(self) -> Vec<f64> {
        match self {
            Axis::Linear { top, step } => (0..=(top / step).round() as u32).map(|i| f64::from(i) * step).collect(),
            Axis::Log { low, high } => (low..=high).map(|exponent| 10f64.powi(exponent)).collect(),
        }
    }
}

/// A round value as a label: `0.01`, `250`, `40k`, `1.5M`.
pub fn label(value: f64) -> String {
    let (value, unit) = match value {
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ if value >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Four digits take away what binary fractions leave at the end.
    let text = format!("{value:.4}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_round() {
        for (most, expected) in [
            (0.0, vec![0.0, 0.5, 1.0]),
            (3.0, vec![0.0, 1.0, 2.0, 3.0]),
            (41_000.0, vec![0.0, 20_000.0, 40_000.0, 60_000.0]),
            (160.0, vec![0.0, 50.0, 100.0, 150.0, 200.0]),
        ] {
            let axis = Axis::linear(most, if most > 3.0 { 4 } else { 3 });
            assert_eq!(axis.lines(), expected, "{most}");
            assert!(axis.share(most) <= 1.0 && axis.share(0.0) == 0.0);
        }
        let axis = Axis::log([0.2, 0.0, 30.0].into_iter());
        assert_eq!(axis, Axis::Log { low: -1, high: 2 });
        assert_eq!((axis.share(0.0), axis.share(100.0)), (0.0, 1.0));
        // One value has room around it, however it stands; values of any width have a bounded axis.
        assert_eq!(Axis::log([10.0].into_iter()), Axis::Log { low: 0, high: 1 });
        assert_eq!(Axis::log([1e-9, 10.0].into_iter()), Axis::Log { low: -5, high: 1 });
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.1, 0.01, 250.0, 1500.0, 40_000.0, 1_500_000.0].map(label);
        assert_eq!(labels, ["0", "0.1", "0.01", "250", "1500", "40k", "1.5M"]);
    }
}
