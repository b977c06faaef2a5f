//! Moves that a shell could ask for: of everything that a journal has ever held, where it lay then. Much of it has ended
//! since, or lies elsewhere.

use std::collections::BTreeMap;

use bytes::Bytes;
use millpond_core::command::{Command, DeadMove, Move};
use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_core::output::Extent;
use millpond_core::page::DeadPage;
use millpond_types::block::Sizes;
use millpond_types::{MessageId, Priority, Sequence, TopicName, TopicNumber};

type Homes = BTreeMap<TopicNumber, (NamespaceNumber, GroupNumber, TopicName)>;

/// A move of each run, and one of each message as the dead letter that it may be by now, in the order of the journal.
pub fn moves(facts: &[(Fact, u64)]) -> Vec<Command> {
    let (mut homes, mut moves) = (Homes::new(), Vec::new());
    let mut blocks: BTreeMap<u64, Bytes> = BTreeMap::new();
    for (fact, position) in facts {
        if let Some(block) = fact.block() {
            blocks.insert(*position, block.clone());
        }
        match fact {
            Fact::TopicCreated { topic, namespace, group, name, .. } => {
                homes.insert(*topic, (*namespace, *group, name.clone()));
            }
            Fact::Published { topic, priority, first, count, block, sizes, .. }
            | Fact::Moved { topic, priority, first, count, block, sizes, .. } => {
                let id = id(*topic, *priority, *first);
                run(&homes, (id, *count), *position, block, sizes, &mut moves);
            }
            Fact::Redriven { letter, topic, sequence, .. } => {
                let id = id(*topic, letter.id.priority, *sequence);
                let Extent { position, length } = letter.extent;
                let (at, block) = blocks.range(..=position).next_back().expect("a letter lies in a block");
                let from = (position - at) as usize;
                let block = block.slice(from..from + length as usize);
                run(&homes, (id, 1), position, &block, &Sizes::Uniform(length), &mut moves);
            }
            Fact::DeadMoved { letter, block } => {
                let DeadPage { namespace, group, topic, id, .. } = (**letter).clone();
                let (from, block) = (*position, block.clone());
                moves.push(Command::DeadMove(DeadMove { namespace, group, topic, id, from, block }));
            }
            _ => {}
        }
    }
    moves
}

fn run(
    homes: &Homes,
    (first, count): (MessageId, u32),
    from: u64,
    block: &Bytes,
    sizes: &Sizes,
    moves: &mut Vec<Command>,
) {
    let (namespace, group, name) = homes[&first.topic].clone();
    for index in 0..count {
        let id = id(first.topic, first.priority, Sequence(first.sequence.0 + u64::from(index)));
        let (begin, end) = (sizes.offset(index), sizes.offset(index + 1));
        let (from, block) = (from + u64::from(begin), block.slice(begin as usize..end as usize));
        let topic = name.clone();
        moves.push(Command::DeadMove(DeadMove { namespace, group, topic, id, from, block }));
    }
    let (block, sizes) = (block.clone(), sizes.clone());
    // As often as the messages as dead letters, so that a draw finds one as well as the other.
    let of = Move { group, name, first, count, from, block, sizes };
    moves.extend(std::iter::repeat_n(Command::Move(of), count as usize));
}

fn id(topic: TopicNumber, priority: Priority, sequence: Sequence) -> MessageId {
    MessageId { topic, priority, sequence }
}
