//! What fits into memory decides nothing: a history is run in several rooms at the same time, from no room at all to room
//! for everything, with as much of each level as there may be or less, and all of them write the same facts to the same places
//! of their journals and tell the same.
//!
//! The store answers at once, within the turn, so that all houses have the same timing, and what is ready is brought before
//! it is dispatched: a dispatch that has to read serves others meanwhile. What a disk's lateness may change is the business
//! of `parking`. Checkpoints begin and are written in the same turns, since facts say when one began (`TopicRecalled`).
//! What these histories lease has room everywhere: that it has not is the business of `rations`.
//! Nothing else is left out of the comparison: the order of timers, of what vanishes and of what is dispatched is the same.
//! Facts are compared as values with their positions; equal facts are equal bytes, for the storage's codec knows nothing
//! but them.
//!
//! A crash starts each house from its own last checkpoint, in its room. In the end each journal is replayed in every room,
//! from its beginning and from the checkpoint, and all come to one state.

mod house;

use std::collections::BTreeMap;

use millpond_core::LevelBounds;
use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_types::{
    GroupName, LeaseNumber, MessageId, NamespaceName, Receipt, Sequence, TopBy, TopicName, TopicNumber,
};
use proptest::prelude::*;

use crate::checkpoint::canonical;
use crate::history::{GROUPS, Known, Op, TOPICS, config, name, ops, set_policy};
use crate::moves::moves;
use house::House;

/// Bytes that topics may take, and producer sessions that stay: for nothing, one topic, a few, and all there is.
const ROOMS: [Room; 4] = [
    Room { bytes: 0, producers: 0, bounds: LevelBounds::WHOLE },
    Room { bytes: 1_200, producers: 1, bounds: LevelBounds::WHOLE },
    Room { bytes: 2_600, producers: 2, bounds: LevelBounds::WHOLE },
    Room { bytes: usize::MAX, producers: usize::MAX, bounds: LevelBounds::WHOLE },
];

#[derive(Clone, Copy, Debug)]
pub struct Room {
    bytes: usize,
    producers: usize,
    bounds: LevelBounds,
}

/// How much stays of a level, in each of the rooms.
type Bounds = [LevelBounds; ROOMS.len()];

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn memory_decides_nothing(ops in ops(150), weight in 1..4u32, turn in 1..4usize, bounds in bounds()) {
        let mut street = Street::new(weight, bounds);
        for ops in ops.chunks(turn) {
            street.turn(ops);
        }
        street.replay_everywhere();
    }
}

#[test]
fn small_rooms_do_without_topics_in_memory() {
    let mut street = Street::new(1, [LevelBounds::ENDS; ROOMS.len()]);
    let publish = |topic| Op::Publish { topic, priority: 4, count: 3, delay: 0, ttl: None, dedup: Some(1) };
    (0..6).for_each(|topic| street.turn(&[publish(topic)]));
    let resident: Vec<usize> = street.houses.iter().map(House::resident).collect();
    assert_eq!(resident[0], 0, "nothing stays where there is no room");
    assert!(resident.is_sorted() && resident[1] < resident[2] && resident[2] < 6, "what stays: {resident:?}");
    assert_eq!(resident[3], 6, "all stay where there is room");
}

/// What a look at one group brings from the disk is there before the others, and goes no further for that.
#[test]
fn topics_age_in_the_order_of_their_groups() {
    let mut street = Street::new(3, [LevelBounds::ENDS; ROOMS.len()]);
    let publish = |delay| Op::Publish { topic: 0, priority: 4, count: 1, delay, ttl: None, dedup: None };
    street.turn(&[Op::GroupCreate { group: 1, start: 0 }]);
    street.turn(&[publish(3_600_000)]);
    let topic = TopicRef { namespace: NamespaceName::default(), name: name(TOPICS[0]) };
    let group = GroupName::try_from(GROUPS[1]).expect("a good name");
    let look = Command::Look(Look { topic, which: LookWhich::First(1), group: Some(group) });
    let publish = publish(0).command(&mut street.known, 3).expect("a publish is a command");
    street.commands(vec![look, publish]);
    let facts = &street.spacious().journal.facts;
    let aged = facts.iter().filter(|(fact, _)| matches!(fact, Fact::Aged { .. })).count();
    assert_eq!(aged, 2, "there is something to compare");
}

/// From as little as there can be to all. What is due of the messages that rest waits for no room here: none of these histories
/// has so many of them (`in_strict_order_what_waits_for_room_goes_before_what_is_younger`).
fn bounds() -> impl Strategy<Value = Bounds> {
    let short = (1..3u16, 0..3u16, 1..4u16, 0..4u16);
    let short =
        short.prop_map(|(head, tail, piece, resting)| LevelBounds { head, tail, piece, resting, ..LevelBounds::WHOLE });
    let fixed = [LevelBounds::within(0), LevelBounds::ENDS, LevelBounds::WHOLE];
    proptest::array::uniform4(prop_oneof![short, proptest::sample::select(fixed.to_vec())])
}

/// What somebody asks in a turn: now one thing, now another, and mostly nothing, so that topics stay where they are.
fn question(turn: usize) -> Option<Command> {
    let (namespace, group) = (NamespaceName::default(), GroupName::default());
    let topic = || TopicRef { namespace: NamespaceName::default(), name: name(TOPICS[turn / 16 % TOPICS.len()]) };
    let listing = || Listing { namespace: NamespaceName::default(), prefix: "".into(), after: "".into(), limit: 1000 };
    Some(match turn % 16 {
        2 => Command::Topics { listing: listing(), group },
        4 => Command::Look(Look { topic: topic(), which: LookWhich::First(1000), group: None }),
        6 => Command::Topic(topic()),
        8 => Command::DeadList { listing: listing(), group },
        10 => Command::Stats(namespace),
        12 => Command::Top(Top { namespace, group, prefix: "".into(), by: TopBy::Depth, limit: 10 }),
        _ => return None,
    })
}

/// Houses to which the same happens. The last of them has room for everything, and what is known is known from it.
struct Street {
    houses: Vec<House>,
    known: Known,
    weight: u32,
    /// Of all topics that ever were.
    names: BTreeMap<TopicNumber, TopicName>,
    /// Facts of the last house that were compared.
    compared: usize,
    turns: usize,
}

impl Street {
    fn new(weight: u32, bounds: Bounds) -> Street {
        let houses = ROOMS.into_iter().zip(bounds).map(|(room, bounds)| House::new(Room { bounds, ..room })).collect();
        let mut street =
            Street { houses, known: Known::default(), weight, names: BTreeMap::new(), compared: 0, turns: 0 };
        street.commands(vec![set_policy(0, weight)]);
        street
    }

    fn spacious(&self) -> &House {
        self.houses.last().expect("there are rooms")
    }

    fn turn(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Pass { run, wall } => self.houses.iter_mut().for_each(|house| house.pass(*run, *wall)),
                Op::Wake => {
                    let wait = self.spacious().next_wake().unwrap_or(0);
                    self.houses.iter_mut().for_each(|house| house.pass(wait, wait));
                }
                Op::Restart { crash } => {
                    self.houses.iter_mut().for_each(|house| house.restart(*crash));
                    self.compare();
                }
                Op::Checkpoint if self.houses.iter().any(House::is_capturing) => {}
                Op::Checkpoint => self.houses.iter_mut().for_each(House::freeze),
                _ => {}
            }
        }
        self.known.moves = moves(&self.spacious().journal.facts);
        let mut commands: Vec<_> = ops.iter().filter_map(|op| op.command(&mut self.known, self.weight)).collect();
        self.turns += 1;
        commands.extend(question(self.turns));
        self.commands(commands);
        // What is captured is what has changed, whether it is in memory or not: some have less of it to do.
        let are_captured: Vec<bool> = self.houses.iter_mut().map(House::capture).collect();
        if are_captured.iter().all(|is_captured| *is_captured) {
            self.houses.iter_mut().for_each(House::write_checkpoint);
        }
    }

    fn commands(&mut self, commands: Vec<Command>) {
        let from = self.compared;
        let first = self.spacious().ticket().0 + 1;
        let receives = (first..).zip(&commands).filter(|(_, command)| matches!(command, Command::Receive(_)));
        self.known.receives.extend(receives.map(|(ticket, _)| Ticket(ticket)));
        for house in &mut self.houses {
            house.turn(&commands);
        }
        self.compare();
        self.learn(from);
    }

    /// What later commands may refer to.
    fn learn(&mut self, from: usize) {
        let facts = &self.houses.last().expect("there are rooms").journal.facts;
        for (fact, _) in &facts[from..] {
            match fact {
                Fact::TopicCreated { topic, name, .. } => _ = self.names.insert(*topic, name.clone()),
                Fact::Published { topic, priority, first, count, .. } => {
                    let id = |n| MessageId { topic: *topic, priority: *priority, sequence: Sequence(first.0 + n) };
                    let name = &self.names[topic];
                    self.known.ids.extend((0..u64::from(*count)).map(|n| (name.clone(), id(n))));
                }
                Fact::Leased { topic, group, lease, count, .. } => {
                    let each = (0..u64::from(*count)).map(|n| LeaseNumber(lease.0 + n));
                    let receipt = |lease| Receipt { topic: *topic, group: *group, lease };
                    self.known.receipts.extend(each.map(receipt));
                }
                _ => {}
            }
        }
    }

    /// All have written and told the same since the last time.
    fn compare(&mut self) {
        let (spacious, others) = self.houses.split_last().expect("there are rooms");
        for house in others {
            let (expected, found) = (&spacious.journal.facts[self.compared..], &house.journal.facts[self.compared..]);
            assert_eq!(expected, found, "the facts, with room for everything and with {:?}", house.room);
            assert_eq!(spacious.told, house.told, "the outputs, with room for everything and with {:?}", house.room);
        }
        self.compared = spacious.journal.facts.len();
    }

    fn replay_everywhere(&self) {
        let expected = canonical(self.spacious().core.pages());
        for house in &self.houses {
            assert_eq!(expected, canonical(house.core.pages()), "the state, with {:?}", house.room);
            for room in self.houses.iter().map(|house| house.room) {
                for from_checkpoint in [false, true] {
                    let replayed = house.replayed(room, from_checkpoint);
                    let found = canonical(replayed.pages());
                    assert_eq!(expected, found, "the journal of {:?}, replayed with {room:?}", house.room);
                }
            }
        }
    }
}
