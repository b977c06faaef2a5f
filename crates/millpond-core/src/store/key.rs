//! The order of the store, as bytes. It is the core's business and not the disk's, for topics are dispatched in it.
//!
//! | key | bytes, all numbers big-endian |
//! |---|---|
//! | numbers | `01` |
//! | namespace | `02`, number (4) |
//! | topic | `03`, group (4), shelf (1), name |
//! | piece | `04`, group (4), topic (8), priority (1), first (8) |
//! | due | `05`, clock (1), moment (8), group (4), name |
//! | dedup | `06`, namespace (4), hash (16) |
//! | producer | `07`, namespace (4), producer (16) |
//! | dead letter | `08`, namespace (4), group (4), name, `00`, topic (8), priority (1), sequence (8) |
//! | exchange | `09`, namespace (4), name |
//!
//! A shelf is its priority, 10 for idle and 11 for busy. A clock is 0 for wall time and 1 for run time. A name is written with its first `/` as `01`, which no name
//! holds: so a tenant's topics stand together, the one that is called like the tenant first.

use alloc::vec::Vec;
use core::cmp::Ordering;

use bytes::Bytes;
use millpond_types::limits::PRIORITIES;
use millpond_types::{ExchangeName, MessageId, Priority, ProducerId, Sequence, TopicName, TopicNumber};

use super::{Clock, Key, Moment, SHELVES, Shelf};
use crate::fact::{GroupNumber, NamespaceNumber};
use crate::page::Page;

/// A key's bytes, or a bound between keys.
pub type KeyBytes = Vec<u8>;

/// Room for most keys.
const KEY_BYTES: usize = 48;
/// Stands for the `/` behind a tenant.
const TENANT_END: u8 = 1;

/// Names in the order of dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Name;

impl Name {
    /// A name, or a prefix of names, as it stands in keys.
    pub fn bytes(name: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(name.len() + 1);
        Name::append(name, &mut bytes);
        bytes
    }

    /// Appends a name, or a prefix of names, as it stands in keys.
    fn append(name: &[u8], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(name);
        if let Some(slash) = name.iter().position(|byte| *byte == b'/') {
            bytes[start + slash] = TENANT_END;
        }
    }

    /// The name that stands in a key; `None` if none does. A tenant ends in one way only, so no two keys are of one name.
    pub fn parse(bytes: &[u8]) -> Option<TopicName> {
        let end = bytes.iter().find(|byte| matches!(**byte, TENANT_END | b'/'));
        if end == Some(&b'/') { None } else { TopicName::try_from(&Name::text(bytes)[..]).ok() }
    }

    /// What stands in a key, or in a bound between keys, as it stands in names.
    pub fn text(bytes: &[u8]) -> Vec<u8> {
        let mut name = Vec::from(bytes);
        if let Some(slash) = name.iter().position(|byte| *byte == TENANT_END) {
            name[slash] = b'/';
        }
        name
    }

    /// Which of two names comes first, without making their bytes.
    pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
        let common = common(a, b);
        let tenant_is_common = || a[..common].contains(&b'/');
        match (a.get(common), b.get(common)) {
            (Some(b'/'), Some(_)) if !tenant_is_common() => Ordering::Less,
            (Some(_), Some(b'/')) if !tenant_is_common() => Ordering::Greater,
            (a, b) => a.cmp(&b),
        }
    }

    /// Whether a name comes before or behind the bytes of another, or of a bound between names.
    pub fn compare_key(name: &[u8], key: &[u8]) -> Ordering {
        let common = common(name, key);
        let is_first_slash = || name.get(common) == Some(&b'/') && !name[..common].contains(&b'/');
        if is_first_slash() {
            // As the name's own bytes would go on.
            return match key.get(common) {
                Some(&TENANT_END) => name[common + 1..].cmp(&key[common + 1..]),
                other => Some(&TENANT_END).cmp(&other),
            };
        }
        name.get(common).cmp(&key.get(common))
    }

    /// The first key behind a name's.
    pub fn behind(name: &[u8]) -> Vec<u8> {
        let mut bytes = Name::bytes(name);
        bytes.push(0);
        bytes
    }

    /// Behind all topics of a tenant.
    pub fn tenant_end(tenant: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from(tenant);
        bytes.push(TENANT_END + 1);
        bytes
    }

    /// Whether the end of a tenant stands at a key or behind it, without making its bytes.
    pub(crate) fn is_tenant_end_within(tenant: &[u8], key: &[u8]) -> bool {
        match key.strip_prefix(tenant) {
            Some(rest) => rest <= &[TENANT_END + 1][..],
            None => tenant > key,
        }
    }

    /// Behind all names with a prefix.
    pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
        let mut bytes = Name::bytes(prefix);
        // No byte of UTF-8 is 0xff.
        bytes.push(0xff);
        bytes
    }
}

impl Shelf {
    /// All shelves.
    pub fn all() -> impl Iterator<Item = Shelf> {
        (0..SHELVES as u8).filter_map(Shelf::from_byte)
    }

    /// Its place where something is kept per shelf.
    pub fn index(self) -> usize {
        usize::from(self.byte())
    }

    /// Its byte in keys.
    pub fn byte(self) -> u8 {
        match self {
            Shelf::Ready(priority) => priority.level() as u8,
            Shelf::Idle => PRIORITIES as u8,
            Shelf::Busy => PRIORITIES as u8 + 1,
        }
    }

    /// The shelf of a byte.
    pub fn from_byte(byte: u8) -> Option<Shelf> {
        match usize::from(byte) {
            PRIORITIES => Some(Shelf::Idle),
            busy if busy == PRIORITIES + 1 => Some(Shelf::Busy),
            _ => Priority::new(byte).map(Shelf::Ready),
        }
    }
}

impl Clock {
    /// Its byte in keys.
    pub fn byte(self) -> u8 {
        match self {
            Clock::Wall => 0,
            Clock::Run => 1,
        }
    }

    /// The clock of a byte.
    pub fn from_byte(byte: u8) -> Option<Clock> {
        [Clock::Wall, Clock::Run].into_iter().find(|clock| clock.byte() == byte)
    }
}

impl Key {
    /// Its place in the order of the store.
    pub fn bytes(&self) -> KeyBytes {
        let mut bytes = KeyBytes::with_capacity(KEY_BYTES);
        self.append(&mut bytes);
        bytes
    }

    /// Appends its bytes, where memory is at hand.
    pub fn append(&self, bytes: &mut KeyBytes) {
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| bytes.extend_from_slice(part));
        match self {
            Key::Numbers => put(&[&[1]]),
            Key::Namespace(number) => put(&[&[2], &number.to_be_bytes()]),
            Key::Topic { group, shelf, name } => {
                put(&[&Key::topic_start(*group, *shelf)]);
                Name::append(name.as_bytes(), bytes);
            }
            Key::Piece { group, topic, priority, first } => put(&[
                &[4],
                &group.to_be_bytes(),
                &topic.0.to_be_bytes(),
                &[priority.level() as u8],
                &first.0.to_be_bytes(),
            ]),
            Key::Due { at, group, name } => {
                put(&[&Key::due_start(*at), &group.to_be_bytes()]);
                Name::append(name.as_bytes(), bytes);
            }
            Key::Dedup { namespace, hash } => put(&[&[6], &namespace.to_be_bytes(), &hash.to_be_bytes()]),
            Key::Producer { namespace, id } => put(&[&[7], &namespace.to_be_bytes(), &id.0.to_be_bytes()]),
            Key::Exchange { namespace, name } => put(&[&[9], &namespace.to_be_bytes(), name.as_bytes()]),
            Key::Dead { namespace, group, topic, id } => {
                put(&[&Key::dead_start(*namespace, *group)]);
                Name::append(topic.as_bytes(), bytes);
                let place =
                    [&[0], &id.topic.0.to_be_bytes()[..], &[id.priority.level() as u8], &id.sequence.0.to_be_bytes()];
                place.iter().for_each(|part| bytes.extend_from_slice(part));
            }
        }
    }

    /// Where the topics of a shelf begin whose names stand at or behind `name` ([`Name::bytes`]).
    pub fn topic_bound(group: GroupNumber, shelf: Shelf, name: &[u8]) -> KeyBytes {
        [&Key::topic_start(group, shelf), name].concat()
    }

    /// What a topic's key, or a bound between those of topics, is made of.
    pub fn parse_topic_bound(bytes: &[u8]) -> Option<(GroupNumber, Shelf, &[u8])> {
        let (group, rest) = take_u32(bytes.strip_prefix(&[3])?)?;
        let (shelf, name) = rest.split_first()?;
        Some((group, Shelf::from_byte(*shelf)?, name))
    }

    /// Where the dead letters of a group begin whose topics stand at or behind `name` ([`Name::bytes`]).
    pub fn dead_bound(namespace: NamespaceNumber, group: GroupNumber, name: &[u8]) -> KeyBytes {
        [&Key::dead_start(namespace, group), name].concat()
    }

    /// Where the topics begin that are due at a moment.
    pub fn due_bound(moment: Moment) -> KeyBytes {
        Vec::from(Key::due_start(moment))
    }

    /// The moment of a topic that is due, or of a bound between such.
    pub fn parse_due_bound(bytes: &[u8]) -> Option<Moment> {
        Some(take_moment(bytes.strip_prefix(&[5])?)?.0)
    }

    /// What stands before a topic's name.
    fn topic_start(group: GroupNumber, shelf: Shelf) -> [u8; 6] {
        let [a, b, c, d] = group.to_be_bytes();
        [3, a, b, c, d, shelf.byte()]
    }

    /// What stands before the name of a dead letter's topic.
    fn dead_start(namespace: NamespaceNumber, group: GroupNumber) -> [u8; 9] {
        let ([a, b, c, d], [e, f, g, h]) = (namespace.to_be_bytes(), group.to_be_bytes());
        [8, a, b, c, d, e, f, g, h]
    }

    /// What stands before the group of a topic that is due.
    fn due_start(Moment { clock, at }: Moment) -> [u8; 10] {
        let [a, b, c, d, e, f, g, h] = at.to_be_bytes();
        [5, clock.byte(), a, b, c, d, e, f, g, h]
    }

    /// The key of a page; a topic's is that on `shelf`.
    pub fn of(page: &Page, shelf: Shelf) -> Key {
        match page {
            Page::Numbers(_) => Key::Numbers,
            Page::Namespace(page) => Key::Namespace(page.number),
            Page::Topic(page) => Key::Topic { group: page.group, shelf, name: page.name.clone() },
            Page::Piece(page) => page.key(),
            Page::Exchange(page) => Key::Exchange { namespace: page.namespace, name: page.name.clone() },
            Page::Dead(page) => {
                Key::Dead { namespace: page.namespace, group: page.group, topic: page.topic.clone(), id: page.id }
            }
            Page::Dedup(page) => Key::Dedup { namespace: page.namespace, hash: page.hash },
            Page::Producer(page) => Key::Producer { namespace: page.namespace, id: page.id },
            Page::Due(page) => Key::Due { at: page.at, group: page.group, name: page.name.clone() },
        }
    }

    /// Whether the entry of a key is looked up by itself, for one command: a dedup id, a producer session or a
    /// dead letter.
    pub fn is_looked_up(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(6..=8))
    }

    /// Whether entries of a key's kind are only ever looked up by their whole keys: dedup ids and producer sessions, of
    /// which no range is asked for but by those who want everything.
    pub fn is_point(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(6 | 7))
    }

    /// Whether keys of such entries may lie from one bound on and before another.
    pub fn may_hold_points(from: &[u8], until: &[u8]) -> bool {
        *from < [8][..] && *until > [6][..]
    }

    /// The key that bytes are of; `None` if they are none's.
    pub fn parse(bytes: &[u8]) -> Option<Key> {
        let (kind, rest) = bytes.split_first()?;
        Some(match (kind, rest) {
            (1, []) => Key::Numbers,
            (2, rest) => Key::Namespace(u32::from_be_bytes(rest.try_into().ok()?)),
            (3, _) => {
                let (group, shelf, name) = Key::parse_topic_bound(bytes)?;
                Key::Topic { group, shelf, name: Name::parse(name)? }
            }
            (4, rest) => {
                let (group, rest) = take_u32(rest)?;
                let (topic, priority, first) = take_message(rest)?;
                Key::Piece { group, topic, priority, first }
            }
            (5, rest) => {
                let (at, rest) = take_moment(rest)?;
                let (group, name) = take_u32(rest)?;
                Key::Due { at, group, name: Name::parse(name)? }
            }
            (6, rest) => {
                let (namespace, hash) = take_u32(rest)?;
                Key::Dedup { namespace, hash: u128::from_be_bytes(hash.try_into().ok()?) }
            }
            (7, rest) => {
                let (namespace, id) = take_u32(rest)?;
                Key::Producer { namespace, id: ProducerId(u128::from_be_bytes(id.try_into().ok()?)) }
            }
            (8, rest) => {
                let (namespace, rest) = take_u32(rest)?;
                let (group, rest) = take_u32(rest)?;
                let (name, id) = rest.split_at_checked(rest.len().checked_sub(18)?)?;
                let (topic, priority, sequence) = take_message(&id[1..])?;
                let id = (id[0] == 0).then_some(MessageId { topic, priority, sequence })?;
                Key::Dead { namespace, group, topic: Name::parse(name)?, id }
            }
            (9, rest) => {
                let (namespace, name) = take_u32(rest)?;
                Key::Exchange { namespace, name: ExchangeName::new(Bytes::copy_from_slice(name)).ok()? }
            }
            _ => return None,
        })
    }
}

/// How many bytes at their beginning are the same.
fn common(a: &[u8], b: &[u8]) -> usize {
    let (words, others) = (a.as_chunks().0, b.as_chunks().0);
    let differ = |(a, b): (&[u8; 8], &[u8; 8])| u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
    let mut pairs = words.iter().zip(others).map(differ).enumerate();
    if let Some((at, differ)) = pairs.find(|(_, differ)| *differ != 0) {
        return at * 8 + differ.trailing_zeros() as usize / 8;
    }
    let from = words.len().min(others.len()) * 8;
    from + a[from..].iter().zip(&b[from..]).take_while(|(a, b)| a == b).count()
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

fn take_moment(bytes: &[u8]) -> Option<(Moment, &[u8])> {
    let (clock, rest) = bytes.split_first()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    Some((Moment { clock: Clock::from_byte(*clock)?, at: u64::from_be_bytes(*at) }, rest))
}

fn take_message(bytes: &[u8]) -> Option<(TopicNumber, Priority, Sequence)> {
    let (topic, rest) = bytes.split_first_chunk::<8>()?;
    let (priority, sequence) = rest.split_first()?;
    let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
    Some((TopicNumber(u64::from_be_bytes(*topic)), Priority::new(*priority)?, Sequence(sequence)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(name: &str) -> TopicName {
        TopicName::try_from(name).unwrap()
    }

    #[test]
    fn a_tenants_topics_stand_together() {
        let mut names = ["a/x", "a-b", "a", "a/", "a/x/y", "a!", "a0/x", "a/x-y", "b"].map(name);
        names.sort_by_key(|name| Name::bytes(name.as_bytes()));
        let order = names.each_ref().map(|name| core::str::from_utf8(name.as_bytes()).unwrap());
        assert_eq!(order, ["a", "a/", "a/x", "a/x-y", "a/x/y", "a!", "a-b", "a0/x", "b"]);
        let end = Name::tenant_end(b"a");
        assert!(Name::bytes(b"a/\xf4") < end && end < Name::bytes(b"a!"));
    }

    proptest! {
        #[test]
        fn names_compare_as_their_bytes_do(a in "(tenants/)?[a/ -]{1,6}", b in "(tenants/)?[a/ -]{1,6}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            prop_assert_eq!(Name::compare(a, b), Name::bytes(a).cmp(&Name::bytes(b)));
            prop_assert_eq!(Name::compare_key(a, &Name::bytes(b)), Name::compare(a, b));
            prop_assert_eq!(Name::compare_key(a, &Name::prefix_end(b)), Name::bytes(a).cmp(&Name::prefix_end(b)));
            let read = Name::parse(&Name::bytes(a)).unwrap();
            prop_assert_eq!(read.as_bytes(), a);
            let tenant = &a[..a.iter().position(|byte| *byte == b'/').unwrap_or(a.len())];
            for key in [Name::bytes(b), Name::prefix_end(b), Name::behind(b), Name::tenant_end(tenant)] {
                prop_assert_eq!(Name::is_tenant_end_within(tenant, &key), Name::tenant_end(tenant) >= key);
            }
            prop_assert_eq!(b.starts_with(a), (Name::bytes(a)..Name::prefix_end(a)).contains(&Name::bytes(b)));
        }
    }

    #[test]
    fn no_two_keys_are_of_one_name() {
        let topic = Key::Topic { group: 1, shelf: Shelf::Idle, name: name("a/b/c") };
        let bytes = topic.bytes();
        assert_eq!(Key::parse(&bytes), Some(topic));
        let slash: KeyBytes = bytes.iter().map(|byte| if *byte == TENANT_END { b'/' } else { *byte }).collect();
        // The group's number has the byte as well: only the name is changed.
        let slash = [&bytes[..6], &slash[6..]].concat();
        assert_eq!(Key::parse(&slash), None);
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let id = MessageId { topic: TopicNumber(7), priority: Priority::DEFAULT, sequence: Sequence(1 << 40) };
        let (first, shelf) = (id.sequence, Shelf::Ready(Priority::HIGHEST));
        let keys = [
            Key::Numbers,
            Key::Namespace(3),
            Key::Topic { group: 1, shelf, name: name("a/b") },
            Key::Topic { group: 1, shelf: Shelf::Idle, name: name("a/b") },
            Key::Topic { group: 1, shelf: Shelf::Busy, name: name("a") },
            Key::Piece { group: 5, topic: id.topic, priority: id.priority, first },
            Key::Due { at: Moment { clock: Clock::Wall, at: 99 }, group: 2, name: name("x/y/z") },
            Key::Due { at: Moment { clock: Clock::Run, at: 98 }, group: 2, name: name("x/y/z") },
            Key::Dedup { namespace: 1, hash: 1 << 100 },
            Key::Producer { namespace: 1, id: ProducerId(1 << 90) },
            Key::Dead { namespace: 1, group: 2, topic: name("d/e"), id },
            Key::Exchange { namespace: 1, name: ExchangeName::try_from("events").unwrap() },
        ];
        for key in keys {
            assert_eq!(Key::parse(&key.bytes()), Some(key));
        }
        assert_eq!(Key::parse(b""), None);
    }
}
