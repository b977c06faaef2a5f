//! Which segments are to be emptied.

use std::collections::{BTreeMap, BTreeSet};

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

    #[cfg(test)]
    pub fn bases(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }
}

impl FromIterator<(u64, u64)> for Victims {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(segments: I) -> Victims {
        Victims(segments.into_iter().collect())
    }
}

/// What there is to go by.
#[derive(Clone, Copy)]
pub struct Means {
    /// Bytes of the tree.
    pub tree: u64,
    /// Bytes that a directory may take beyond what is alive.
    pub slack: u64,
    /// Bytes that may be written until any segment goes.
    pub room: u64,
}

/// One of so many bytes of a segment is little: to store it once more costs next to nothing.
const LITTLE: u64 = 1024;
/// A pass over the tree for segments that hold little is worth it where they take more than a quarter of what the tree
/// takes, and than a quarter of the slack, which with [`SLACK`](super::SLACK) is as much journal as a checkpoint may wait for: segments that are
/// just about to be empty are less.
const WORTH: u64 = 4;

/// Chooses the segments that hold the least, as many as bring a directory down to its bound, and sooner those that hold
/// little, when they are worth it. What they hold finds room even where no two groups need the same message. Only what lies
/// before a checkpoint is known to whoever looks for it. Segments that hold nothing go without that.
pub fn choose(segments: &[Segment], checkpoint: u64, means: Means) -> Victims {
    let needed = |segment: &Segment| segment.live.sum().min(segment.bytes);
    emptiest(segments, checkpoint, means, needed).into_iter().collect()
}

/// The same of segments that find room if all groups need the same messages of them, but for some that are known to be too full;
/// each with the position behind it, the emptiest first.
pub fn doubtful(segments: &[Segment], checkpoint: u64, means: Means, too_full: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let needed = |segment: &Segment| match too_full.contains(&segment.base) {
        true => u64::MAX,
        false => segment.live.most(),
    };
    emptiest(segments, checkpoint, means, needed)
}

/// As many segments as [`choose`] says, by what is needed of each, which is what is written once more.
fn emptiest(segments: &[Segment], checkpoint: u64, means: Means, needed: impl Fn(&Segment) -> u64) -> Vec<(u64, u64)> {
    let Means { tree, slack, mut room } = means;
    let Space { mut total, bound, .. } = Space::of(segments, tree, slack);
    let ends = segments.iter().skip(1).map(|next| next.base);
    let old = segments.iter().zip(ends).filter(|(_, end)| *end <= checkpoint);
    let (empty, mut pinned): (Vec<_>, Vec<_>) = old.partition(|(segment, _)| segment.live.is_empty());
    let bytes = |segments: &[(&Segment, u64)]| segments.iter().map(|(segment, _)| segment.bytes).sum::<u64>();
    total -= bytes(&empty);
    let holds_little = |segment: &Segment| needed(segment) <= segment.bytes / LITTLE;
    pinned.sort_by_key(|(segment, _)| (!holds_little(segment), needed(segment), segment.live.most()));
    let few = pinned.partition_point(|(segment, _)| holds_little(segment));
    let is_worth_it = bytes(&pinned[..few]) > slack.max(tree) / WORTH;
    let mut chosen = Vec::new();
    for (index, (segment, end)) in pinned.into_iter().enumerate() {
        let needed = needed(segment);
        if total <= bound && !(is_worth_it && index < few) || needed > room {
            break;
        }
        // Where that is not enough after all, the next pass chooses others.
        total -= segment.bytes - segment.live.most();
        room -= needed;
        chosen.push((segment.base, end));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::journal::live::{ByGroup, OPEN};
    use crate::twin::TwinDisk;

    /// Segments of 100 bytes at 0, 100, ..., which hold so much.
    fn segments(live: &[u64]) -> Vec<Segment> {
        segments_of(100, live)
    }

    fn segments_of(bytes: u64, live: &[u64]) -> Vec<Segment> {
        let file = TwinDisk::new(1).create("a").unwrap();
        let segment = |(n, held): (u64, &u64)| {
            let mut live = ByGroup::default();
            live.add(0, *held);
            Segment { base: n * bytes, end: OPEN, name: String::new(), file: file.clone(), bytes, live }
        };
        (0..).zip(live).map(segment).collect()
    }

    fn choose(segments: &[Segment], checkpoint: u64, tree: u64, slack: u64) -> Victims {
        super::choose(segments, checkpoint, Means { tree, slack, room: u64::MAX })
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
    fn what_holds_little_is_emptied_as_soon_as_that_is_worth_a_pass() {
        let chosen = |live: &[u64], tree, slack| choose(&segments_of(4096, live), 1 << 20, tree, slack).0.into_keys();
        let numbers = |live: &[u64], tree, slack| chosen(live, tree, slack).map(|base| base / 4096).collect::<Vec<_>>();
        assert_eq!(numbers(&[4, 4000, 4, 4000, 0], 0, 1 << 14), [0, 2], "8 KiB are more than a quarter of 16");
        assert_eq!(numbers(&[4, 4000, 5, 4000, 0], 0, 1 << 14), [0; 0], "4 KiB are not");
        assert_eq!(numbers(&[4, 4000, 4, 4000, 0], 1 << 15, 1 << 14), [0; 0], "nor are 8 of a tree of 32");
        assert_eq!(numbers(&[4, 4000, 4, 4000, 4], (1 << 15) - 4, 1 << 14), [0, 2], "the last is in use");
    }

    #[test]
    fn no_more_is_emptied_than_there_is_room_for_what_it_holds() {
        let segments = segments(&[10, 3, 20, 5, 50]);
        let chosen = |room| super::choose(&segments, 500, Means { tree: 0, slack: 0, room });
        let bases = |room| chosen(room).0.into_keys().collect::<Vec<_>>();
        assert_eq!(bases(u64::MAX), [0, 100, 200, 300]);
        assert_eq!([bases(18), bases(17), bases(2)], [vec![0, 100, 300], vec![100, 300], vec![]]);
    }

    #[test]
    fn what_each_group_needs_has_to_find_room_of_its_own() {
        let mut segments = segments(&[10, 4, 20, 5, 50]);
        segments.iter_mut().take(3).for_each(|segment| segment.live.add(1, 10));
        let chosen = |room| super::choose(&segments, 500, Means { tree: 0, slack: 0, room });
        let bases = |room| chosen(room).0.into_keys().collect::<Vec<_>>();
        assert_eq!([bases(69), bases(68)], [vec![0, 100, 200, 300], vec![0, 100, 300]]);
        assert_eq!([bases(38), bases(18), bases(4)], [vec![100, 300], vec![300], vec![]]);
    }

    #[test]
    fn what_groups_may_share_is_doubtful_but_not_what_is_known_to_be_too_full() {
        let mut segments = segments(&[10, 4, 20, 5, 50]);
        segments.iter_mut().take(3).for_each(|segment| segment.live.add(1, 10));
        let means = |room| Means { tree: 0, slack: 0, room };
        let doubtful = |room, too_full: &[u64]| {
            let too_full = too_full.iter().copied().collect();
            let chosen = super::doubtful(&segments, 500, means(room), &too_full);
            chosen.into_iter().map(|(base, _)| base).collect::<Vec<_>>()
        };
        assert_eq!([doubtful(25, &[]), doubtful(24, &[])], [vec![300, 0, 100], vec![300, 0]]);
        assert_eq!([doubtful(25, &[300]), doubtful(25, &[300, 0, 100, 200])], [vec![0, 100], vec![]]);
    }

    #[test]
    fn victims_hold_what_lies_in_them() {
        let victims = choose(&segments(&[50, 1, 50, 50]), 400, 0, 0);
        let holds = |position| victims.hold(Extent { position, length: 1 });
        assert_eq!([99, 100, 199, 200].map(holds), [false, true, true, false]);
    }
}
