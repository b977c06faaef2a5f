//! Moves that meet with the end of what they move. Whoever ends a dead letter says where it lies by then, for that is how
//! the journal knows what it need not keep; and what is gone is moved for nobody.

use bytes::Bytes;
use millpond_core::command::{Command, DeadMove, Finish, FinishVerb, Move, ReceiptRun};
use millpond_core::fact::{Fact, GroupNumber, Letter, NamespaceNumber};
use millpond_core::store::{Key, Want};
use millpond_types::MessageId;

use crate::bare::Bare;
use crate::script::{Line, Names, command};
use crate::store::SharedStore;

#[test]
fn a_letter_that_moves_while_its_group_is_deleted_ends_where_it_lies() {
    let mut desk = Desk::with_letters();
    desk.ask("group-delete work");
    let ending = desk.turn_until(is_of_letters);
    desk.0.submit(desk.moved(1));
    let moving = desk.turn();
    // Both are read before either is taken in.
    desk.0.load(moving.into_iter().chain(ending).collect());
    let (at, ended) = (desk.last_move(), desk.ended());
    assert_eq!((ended.group, ended.extent.position), (1, at));
}

#[test]
fn a_letter_that_moves_is_not_taken_for_that_of_another_group() {
    let mut desk = Desk::with_letters();
    // The topic is on the disk, so the letter waits for it.
    desk.ask("redrive");
    let letters = desk.turn_until(is_of_letters);
    desk.0.load(letters);
    let topic = desk.turn_until(|want| matches!(want, Want::Entry(_)));
    desk.0.submit(desk.moved(1));
    let moving = desk.turn();
    desk.0.load(moving);
    desk.last_move();
    desk.0.load(topic);
    assert_eq!(desk.ended().group, 0, "what was asked for was to put back that of the first group");
}

fn is_of_letters(want: &Want) -> bool {
    matches!(want, Want::Range(range) if range.from[..] >= Key::dead_bound(0, 0, b"")[..])
}

#[test]
fn a_move_that_was_seen_in_a_group_that_is_gone_moves_nothing() {
    let mut desk = Desk::with_letters();
    let published = |fact: &Fact| matches!(fact, Fact::Published { due: Some(_), .. });
    let (fact, from) = desk.0.journal.facts.iter().find(|(fact, _)| published(fact)).cloned().expect("one is delayed");
    let Fact::Published { topic, priority, first: sequence, block, sizes, .. } = fact else {
        unreachable!("just seen")
    };
    desk.ask("group-delete work");
    while !matches!(desk.0.journal.facts.last(), Some((Fact::GroupDeleted { .. }, _))) {
        let wants = desk.turn();
        desk.0.load(wants);
    }
    // Of the other group it is in memory, and in a replay it need not be.
    desk.ask("look t");
    let wants = desk.turn();
    desk.0.load(wants);
    let (name, first) = ("t".try_into().unwrap(), MessageId { topic, priority, sequence });
    desk.0.submit(Command::Move(Move { group: 1, name, first, count: 1, from, block, sizes }));
    desk.turn();
    assert!(!desk.0.journal.facts.iter().any(|(fact, _)| matches!(fact, Fact::Moved { .. })));
}

#[test]
fn a_letter_that_was_seen_in_a_namespace_that_is_gone_is_moved_for_nobody() {
    // Only the disk can tell that it is no more.
    let mut store = SharedStore::default();
    store.knows_no_strangers = true;
    let mut desk = Desk(Bare::on(store));
    for text in ["namespace work", "publish t m ns=work", "receive t ns=work"] {
        desk.ask(text);
    }
    desk.reject();
    let seen = desk.moved_of((1, 1));
    desk.ask("dead-purge ns=work");
    let letters = desk.turn_until(is_of_letters);
    desk.0.load(letters);
    desk.ask("namespace-delete work");
    desk.turn();
    assert!(matches!(desk.0.journal.facts.last(), Some((Fact::NamespaceDeleted { .. }, _))));
    desk.checkpoint();
    desk.0.submit(seen);
    desk.turn();
    assert!(!desk.0.journal.facts.iter().any(|(fact, _)| matches!(fact, Fact::DeadMoved { .. })));
}

/// A core with the dead letters of one message in two groups, whose topic is on the disk.
struct Desk(Bare);

impl Desk {
    fn with_letters() -> Desk {
        let mut desk = Desk(Bare::new());
        for text in ["group work", "publish t m", "publish t later delay=1h", "receive t", "receive t group=work"] {
            desk.ask(text);
        }
        desk.reject();
        desk.0.core.set_room(0);
        while desk.0.core.make_room() {}
        desk.checkpoint();
        assert_eq!(desk.0.core.cold_count(), 2, "its topic is on the disk, in both groups");
        desk
    }

    /// Rejects what is received in a turn.
    fn reject(&mut self) {
        let received = self.0.turn();
        let receipts = received.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        let verb = FinishVerb::Reject { reason: Bytes::new() };
        self.0.submit(Command::Finish(Finish { verb, receipts, confirm: false, namespace: None }));
        self.0.turn();
    }

    fn checkpoint(&mut self) {
        self.0.core.freeze();
        while !self.0.core.capture(100) {}
        self.0.store.model().write_sealed();
    }

    fn ask(&mut self, text: &str) {
        self.0.submit(command(&Line::new(text), text, &Names::default()));
    }

    /// A turn; what it wants.
    fn turn(&mut self) -> Vec<Want> {
        self.0.turn();
        self.0.wanted()
    }

    /// Turns until one wants what is looked for, and nothing but what others want has been taken in.
    fn turn_until(&mut self, is_it: impl Fn(&Want) -> bool) -> Vec<Want> {
        for _ in 0..10 {
            let (found, others): (Vec<_>, Vec<_>) = self.turn().into_iter().partition(&is_it);
            self.0.load(others);
            if !found.is_empty() {
                return found;
            }
        }
        panic!("nobody wants it");
    }

    /// A move of the letter of a group, as it was seen where the message was published.
    fn moved(&self, group: GroupNumber) -> Command {
        self.moved_of((0, group))
    }

    fn moved_of(&self, (namespace, group): (NamespaceNumber, GroupNumber)) -> Command {
        let found = self.0.journal.facts.iter().find_map(|(fact, position)| match fact {
            Fact::Published { topic, priority, first, block, .. } => {
                Some(((*topic, *priority, *first), block, *position))
            }
            _ => None,
        });
        let ((topic, priority, sequence), block, from) = found.expect("it was published");
        let id = MessageId { topic, priority, sequence };
        let topic = "t".try_into().unwrap();
        Command::DeadMove(DeadMove { namespace, group, topic, id, from, block: block.clone() })
    }

    /// Where the last letter that moved lies.
    fn last_move(&self) -> u64 {
        let mut facts = self.0.journal.facts.iter().rev();
        let moved = facts.find(|(fact, _)| matches!(fact, Fact::DeadMoved { .. }));
        moved.expect("a letter has moved").1
    }

    /// The letter that ended last.
    fn ended(&self) -> Letter {
        let ended = self.0.journal.facts.iter().rev().find_map(|(fact, _)| match fact {
            Fact::DeadPurged { letter } | Fact::Redriven { letter, .. } => Some(letter.clone()),
            _ => None,
        });
        ended.expect("a letter has ended")
    }
}
