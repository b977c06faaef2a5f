//! A checkpoint made in slices between turns holds the state as it was when it began, each topic in one entry.

use std::collections::BTreeMap;

use millpond_core::Core;
use millpond_core::fact::GroupNumber;
use millpond_core::page::{
    AsideState, BucketPage, GroupPage, LevelPage, Page, PieceMessages, Reached, StoredPiece, StoredResting, TopicPage,
};
use millpond_core::store::{Clock, Key, Moment, Name, Range, SHELVES, Shelf};
use millpond_types::limits::PRODUCER_EXPIRY;
use millpond_types::{Priority, TopicNumber, WallTime};

use crate::store::SharedStore;

/// What a checkpoint must hold, taken down when it began: all of the state that it captures.
pub struct Expected(Vec<Page>);

impl Expected {
    pub fn of(pages: impl Iterator<Item = Page>) -> Expected {
        Expected(canonical(pages.filter(is_captured)))
    }

    /// Holds it against what is on disk.
    pub fn check(self, disk: &[(Key, Page)]) {
        let Some(Page::Numbers(numbers)) = self.0.first() else { panic!("a checkpoint has the numbers") };
        // Dedup ids and producer sessions lie there longer than they are remembered.
        let is_over = |page: &Page| match page {
            Page::Dedup(page) => page.until <= numbers.wall,
            Page::Producer(page) => page.used + PRODUCER_EXPIRY <= numbers.wall,
            _ => false,
        };
        let pages = disk.iter().map(|(_, page)| page.clone()).filter(is_captured);
        let mut pages: Vec<Page> = pages.filter(|page| !is_over(page)).collect();
        // Topics stand in the order of names there.
        pages.sort_by_key(|page| match page {
            Page::Numbers(_) | Page::Namespace(_) => (0, 0),
            Page::Topic(page) => (1, page.number.0),
            _ => (2, 0),
        });
        assert_eq!(canonical(pages), self.0, "a checkpoint holds what was when it began");
        entries_are_where_they_belong(disk);
    }
}

/// Pages without what depends on when checkpoints were made and on how much of a line is in memory.
pub fn canonical(pages: impl IntoIterator<Item = Page>) -> Vec<Page> {
    let (pieces, mut pages): (Vec<Page>, Vec<Page>) =
        pages.into_iter().partition(|page| matches!(page, Page::Piece(_)));
    let mut stored: BTreeMap<(TopicNumber, GroupNumber, Priority), Vec<PieceMessages>> = BTreeMap::new();
    for page in pieces {
        let Page::Piece(piece) = page else { unreachable!("set apart above") };
        stored.entry((piece.topic, piece.group, piece.priority)).or_default().push(piece.messages);
    }
    for page in &mut pages {
        match page {
            Page::Numbers(page) => page.epoch = 0,
            Page::Namespace(page) => page.groups.iter_mut().for_each(|group| group.shelves = [0; SHELVES]),
            Page::Topic(page) => {
                page.epoch = 0;
                for level in &mut page.levels {
                    for piece in stored.remove(&(page.number, page.group, level.priority)).unwrap_or_default() {
                        match &piece {
                            PieceMessages::Line(runs) => assert!(level.stored.contains(&StoredPiece::of(runs))),
                            PieceMessages::Resting(of) => assert!(level.resting.contains(&StoredResting::of(of))),
                        }
                        level.take_in(piece);
                    }
                    assert!(level.stored.is_empty() && level.resting.is_empty(), "every piece has its entry");
                }
            }
            _ => {}
        }
    }
    assert!(stored.is_empty(), "every piece is of a level");
    pages
}

/// A core that begins with what a crash has left, and with what is not captured yet but kept in memory.
pub fn recover(store: &SharedStore, kept: &[Page]) -> Core {
    let (mut numbers, mut pages) = (None, Vec::new());
    let mut loaded: Vec<Range> = Vec::new();
    for (key, page) in store.disk() {
        match (&key, page) {
            (_, Page::Numbers(page)) => numbers = Some(page),
            (Key::Namespace(_), page) => {
                let Page::Namespace(of) = &page else { panic!("it is the key of a namespace") };
                loaded.extend(of.groups.iter().flat_map(GroupPage::loaded));
                pages.push(page);
            }
            (Key::Exchange { .. }, page) => pages.push(page),
            (Key::Topic { .. }, page) => {
                let key = key.bytes();
                if loaded.iter().any(|range| (&range.from..&range.until).contains(&&key)) {
                    pages.push(page);
                }
            }
            _ => {}
        }
    }
    pages.extend(kept.iter().cloned());
    Core::recover(Box::new(store.clone()), numbers.expect("a checkpoint has the numbers"), pages)
        .expect("a checkpoint is good")
}

pub fn is_captured(page: &Page) -> bool {
    !matches!(page, Page::Due(_))
}

fn entries_are_where_they_belong(disk: &[(Key, Page)]) {
    let mut shelves: BTreeMap<u32, [u64; SHELVES]> = BTreeMap::new();
    let (mut due, mut expected_due) = (Vec::new(), Vec::new());
    let groups =
        disk.iter().filter_map(|(_, page)| if let Page::Namespace(page) = page { Some(&page.groups) } else { None });
    let starting: BTreeMap<GroupNumber, &Reached> =
        groups.flatten().filter_map(|group| Some((group.number, group.starting.as_ref()?))).collect();
    let is_held = |page: &TopicPage| {
        starting.get(&page.group).is_some_and(|reached| Name::bytes(page.name.as_bytes()) >= reached.at)
    };
    for (key, page) in disk {
        match (key, page) {
            (Key::Topic { group, shelf, name }, Page::Topic(page)) => {
                assert_eq!((page.group, &page.name), (*group, name), "a topic is found by its name");
                let expected = if is_held(page) { Shelf::Idle } else { shelf_of(page) };
                // A policy may have it wait, one that was in force when something last happened to it.
                let may_wait = *shelf == Shelf::Idle && first_retry(page).is_some();
                assert!(*shelf == expected || may_wait, "the shelf of {name} is {shelf:?}, and not {expected:?}");
                shelves.entry(*group).or_default()[shelf.index()] += 1;
                if *shelf != Shelf::Busy {
                    let due = |at| (at, *group, name.clone(), *shelf);
                    let raise = page.age.and_then(|age| age.raise).filter(|_| *shelf != Shelf::Idle);
                    let raise = raise.map(|at| Moment { clock: Clock::Wall, at: at.0 });
                    let in_wall = first_deadline(page).into_iter().chain(raise).min();
                    let in_run = refill(page).into_iter().chain(first_retry(page)).min();
                    expected_due.extend([in_wall, in_run].into_iter().flatten().map(due));
                }
            }
            (_, Page::Due(page)) => due.push((page.at, page.group, page.name.clone(), page.shelf)),
            _ => {}
        }
    }
    due.sort();
    expected_due.sort();
    assert_eq!(due, expected_due, "what falls due is noted");
    for (_, page) in disk {
        let Page::Namespace(page) = page else { continue };
        for group in &page.groups {
            let found = shelves.remove(&group.number).unwrap_or_default();
            assert_eq!(group.shelves, found, "the topics on each shelf");
            assert_eq!(group.topics, found.iter().sum::<u64>(), "the topics");
        }
    }
    assert!(shelves.is_empty(), "topics without a group");
}

fn shelf_of(page: &TopicPage) -> Shelf {
    let mut shelf = Shelf::Idle;
    for level in &page.levels {
        let states = || level.aside.iter().map(|aside| aside.state);
        if states().any(|state| matches!(state, AsideState::Leased { .. })) {
            return Shelf::Busy;
        }
        // All that is left of a line may be pieces.
        let has_line = !level.runs.is_empty() || !level.stored.is_empty();
        if has_line || states().any(|state| matches!(state, AsideState::Ready { .. })) {
            shelf = Shelf::Ready(level.priority);
        }
    }
    let is_dry = page.bucket.is_some_and(|bucket| bucket.dry.is_some());
    match (shelf, page.age) {
        _ if is_dry => Shelf::Idle,
        (Shelf::Ready(ready), Some(age)) => Shelf::Ready(ready.max(age.level)),
        (shelf, _) => shelf,
    }
}

/// When there is a token for the topic again, or when it may vanish.
fn refill(page: &TopicPage) -> Option<Moment> {
    let is_empty = |level: &LevelPage| {
        level.runs.is_empty() && level.stored.is_empty() && level.aside.is_empty() && level.resting.is_empty()
    };
    let BucketPage { full, dry } = page.bucket?;
    let full = page.levels.iter().all(is_empty).then_some(full.div_ceil(1_000_000));
    let at = dry.map(|at| at.0).or(full)?;
    Some(Moment { clock: Clock::Run, at })
}

fn first_retry(page: &TopicPage) -> Option<Moment> {
    let aside = page.levels.iter().flat_map(|level| &level.aside).filter_map(|aside| match aside.state {
        AsideState::Retrying { due } => Some(due),
        _ => None,
    });
    let resting = page.levels.iter().flat_map(|level| &level.resting).filter_map(|piece| piece.retry);
    aside.chain(resting).min().map(|at| Moment { clock: Clock::Run, at: at.0 })
}

fn first_deadline(page: &TopicPage) -> Option<Moment> {
    let mut first = None;
    let mut note = |at: Option<WallTime>| first = first.into_iter().chain(at).min();
    for level in &page.levels {
        level.runs.iter().for_each(|run| note(Some(run.expires)));
        level.stored.iter().for_each(|piece| note(Some(piece.expires)));
        level.resting.iter().for_each(|piece| note(Some(piece.due.min(piece.expires))));
        for aside in &level.aside {
            note(Some(aside.run.expires));
            if let AsideState::Delayed { due } = aside.state {
                note(Some(due));
            }
        }
    }
    first.filter(|at| *at != WallTime::NEVER).map(|at| Moment { clock: Clock::Wall, at: at.0 })
}
