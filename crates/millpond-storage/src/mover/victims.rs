//! Which segments are to be emptied.

use std::collections::BTreeMap;

use millpond_core::output::Extent;

use super::Space;
use crate::journal::segments::Segment;

/// Segments that are to be emptied, by the position of their first batch, with the position behind them.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Victims(BTreeMap<u64, u64>);

impl Victims {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether messages lie in one of them.
    pub fn hold(&self, extent: Extent) -> bool {
        self.0.range(..=extent.position).next_back().is_some_and(|(_, end)| extent.position < *end)
    }
}

/// Chooses the segments that hold the least, as many as bring a directory down to its bound. Only what lies before a
/// checkpoint is known to whoever looks for it. Segments that hold nothing go without that.
pub fn choose(segments: &[Segment], checkpoint: u64, tree: u64, slack: u64) -> Victims {
    let Space { mut total, bound, .. } = Space::of(segments, tree, slack);
    let ends = segments.iter().skip(1).map(|next| next.base);
    let old: Vec<(&Segment, u64)> = segments.iter().zip(ends).filter(|(_, end)| *end <= checkpoint).collect();
    let gone: u64 = old.iter().filter(|(segment, _)| segment.live.is_empty()).map(|(segment, _)| segment.bytes).sum();
    total -= gone;
    let mut pinned: Vec<_> = old.into_iter().filter(|(segment, _)| !segment.live.is_empty()).collect();
    pinned.sort_by_key(|(segment, _)| segment.live.most());
    let mut victims = Victims::default();
    for (segment, end) in pinned {
        if total <= bound {
            break;
        }
        // What it holds is written once more.
        total -= segment.bytes - segment.live.most();
        victims.0.insert(segment.base, end);
    }
    victims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::journal::live::{ByGroup, OPEN};
    use crate::twin::TwinDisk;

    /// Segments of 100 bytes at 0, 100, ..., which hold so much.
    fn segments(live: &[u64]) -> Vec<Segment> {
        let file = TwinDisk::new(1).create("a").unwrap();
        let segment = |(n, bytes): (u64, &u64)| {
            let mut live = ByGroup::default();
            live.add(0, *bytes);
            Segment { base: n * 100, end: OPEN, name: String::new(), file: file.clone(), bytes: 100, live }
        };
        (0..).zip(live).map(segment).collect()
    }

    fn chosen(live: &[u64], checkpoint: u64, tree: u64, slack: u64) -> Vec<u64> {
        choose(&segments(live), checkpoint, tree, slack).0.into_keys().collect()
    }

    #[test]
    fn the_emptiest_segments_are_chosen_and_no_more_than_it_takes() {
        assert_eq!(chosen(&[10, 90, 5, 95, 0], 500, 0, 0), [0, 200], "500 of 400, then 405 of 400");
        assert_eq!(chosen(&[10, 90, 5, 95, 0], 500, 0, 300), [0; 0], "500 of 500");
        assert_eq!(chosen(&[1, 2, 3, 4, 50], 500, 0, 10), [0, 100, 200, 300], "all that are old, at most");
        assert_eq!(chosen(&[50, 60, 50], 500, 0, 0), [0; 0], "300 of 320");
        assert_eq!(chosen(&[1, 2, 50], 500, 0, 160), [0], "300 of 213, and one is the last");
        assert_eq!(chosen(&[1, 2, 50], 500, 1000, 100), [0; 0], "the tree is alive");
    }

    #[test]
    fn what_no_checkpoint_knows_stays_and_what_holds_nothing_goes_by_itself() {
        assert_eq!(chosen(&[1, 2, 3, 4], 250, 0, 0), [0, 100]);
        assert_eq!(chosen(&[0, 0, 0, 0, 60, 60], 600, 0, 0), [0; 0], "200 of 240 when they are gone");
    }

    #[test]
    fn victims_hold_what_lies_in_them() {
        let victims = choose(&segments(&[50, 1, 50, 50]), 400, 0, 0);
        let holds = |position| victims.hold(Extent { position, length: 1 });
        assert_eq!([99, 100, 199, 200].map(holds), [false, true, true, false]);
    }
}
