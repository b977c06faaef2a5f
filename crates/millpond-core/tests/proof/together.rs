//! Very many topics that grow together, because each publish goes to all of them: what becomes too long for memory does so in
//! some of them now and in some later, so that no turn has it to do for all.

use millpond_core::LevelBounds;
use millpond_core::page::{Page, PieceMessages};
use millpond_core::store::Store;

use crate::bare::Bare;
use crate::script::{Line, Names, command};

const TOPICS: usize = 100;
const ROUNDS: usize = 300;
const GROUPS: usize = 40;
/// As lines of a little room have: so few rounds are enough.
const BOUNDS: LevelBounds = LevelBounds { head: 32, tail: 32, piece: 64, resting: 64, out_of_line: 512 };

#[test]
fn lines_that_grow_together_are_not_cut_in_one_turn() {
    let (most, all) =
        pieces_of_a_turn(&mut bounded(), TOPICS, "", |messages| matches!(messages, PieceMessages::Line(_)));
    assert!(all >= 2 * TOPICS && most <= TOPICS / 4, "{most} of {all} pieces in one turn");
}

#[test]
fn what_is_delayed_in_topics_that_grow_together_does_not_leave_in_one_turn() {
    let (most, all) =
        pieces_of_a_turn(&mut bounded(), TOPICS, " delay=1h", |messages| matches!(messages, PieceMessages::Resting(_)));
    assert!(all >= 2 * TOPICS && most <= TOPICS, "{most} of {all} pieces in one turn");
}

#[test]
fn lines_of_a_topic_in_many_groups_are_not_cut_in_one_turn() {
    let mut bare = bounded();
    (0..GROUPS).for_each(|group| run(&mut bare, &format!("group g{group}")));
    let (most, all) = pieces_of_a_turn(&mut bare, 1, "", |messages| matches!(messages, PieceMessages::Line(_)));
    assert!(all >= 2 * GROUPS && most <= GROUPS / 4, "{most} of {all} pieces in one turn");
}

/// The most pieces that one turn gives to the store, of messages like these, and how many there are in the end.
fn pieces_of_a_turn(
    bare: &mut Bare,
    topics: usize,
    delay: &str,
    are_meant: fn(&PieceMessages) -> bool,
) -> (usize, usize) {
    let runs: Vec<_> = (0..topics).map(|topic| format!("t{topic} m{delay}")).collect();
    let text = format!("publish {}", runs.join(" + "));
    let (mut most, mut all) = (0, 0);
    for _ in 0..ROUNDS {
        run(bare, &text);
        let is_meant = |page: &&Page| matches!(page, Page::Piece(page) if are_meant(&page.messages));
        let now = bare.store.dump().iter().filter(is_meant).count();
        (most, all) = (most.max(now - all), now);
    }
    (most, all)
}

fn bounded() -> Bare {
    let mut bare = Bare::new();
    bare.core.set_bounds(BOUNDS);
    bare
}

fn run(bare: &mut Bare, text: &str) {
    bare.submit(command(&Line::new(text), text, &Names::default()));
    bare.turn();
}
