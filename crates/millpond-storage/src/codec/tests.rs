//! Every kind of fact and page comes back as it was, and no bytes make decoding panic.

use std::ops::Range;

use bytes::Bytes;
use millpond_core::fact::{CopiedRun, DeadReason, DedupMark, Fact, Letter, Remembered, ReturnPlace, Victims};
use millpond_core::outcomes::Outcomes;
use millpond_core::output::Extent;
use millpond_core::page::{
    AgePage, AsidePage, AsideState, BucketPage, DeadPage, DedupPage, DuePage, ExchangePage, GroupPage, LevelPage,
    Marks, NamespacePage, NumbersPage, OfficePage, Page, PieceMessages, PiecePage, ProducerPage, Reached, RunPage,
    Span, StoredPiece, StoredResting, TopicPage,
};
use millpond_core::store::{Clock, Key, Moment, SHELVES, Shelf};
use millpond_types::block::{self, Sizes};
use millpond_types::{
    Binding, Coalesce, Code, Condition, Counts, DedupWindow, Dispatch, EndReason, ExchangeKind, ExchangeName,
    GroupKind, GroupName, LeaderEpoch, LeaseNumber, MessageId, MessageState, Millis, NamespaceName, OfficeTerms,
    OnExpiry, OutcomeRun, Overflow, Overrides, Pattern, Pause, PausedTopics, Policy, Priority, ProducerId,
    PublishOutcome, Quotas, Rate, Retention, Retry, RoutingKey, Rule, Rules, RunTime, Sequence, SessionId, Start,
    Tally, TopicName, TopicNumber, Unroutable, WallTime,
};

use super::*;
use crate::twin::Seed;

/// Examples of each variant, each with its bytes. Does not compile while a variant is missing.
macro_rules! vectors {
    ($of:ty; $($variant:pat => $($example:expr, $bytes:literal),+;)*) => {
        fn vectors() -> Vec<($of, &'static str)> {
            let every = |example: &$of| match example {
                $($variant => {})*
            };
            vec![$($({
                let example = $example;
                every(&example);
                assert!(matches!(example, $variant), "{example:?} stands at another variant");
                (example, $bytes)
            },)+)*]
        }
    };
}

mod entries;
mod facts;
mod samples;

/// Holds that each of these is written as it was, and hands it on to be read.
fn hold<T: std::fmt::Debug>(vectors: Vec<(T, &str)>, write: impl Fn(&T) -> Bytes, mut read: impl FnMut(&T, &Bytes)) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut others = Vec::new();
    for (example, bytes) in vectors {
        let written = write(&example);
        read(&example, &written);
        if hex(&written) != bytes {
            others.push(format!("{} {example:?}", hex(&written)));
        }
    }
    // Another form on disk has a number of its own, and this one is read as well.
    assert!(others.is_empty(), "these had other bytes:\n{}", others.join("\n"));
}

const FACTS: u64 = 44;
const PAGES: u64 = 12;
/// Those that version 1 has had from the beginning. What rests in pieces stands beside that, and since when it waits what was
/// redriven.
const FIRST_PAGES: u64 = 9;

#[test]
fn facts_come_back_as_they_were() {
    let mut draw = Draw(Seed::new(1));
    for round in 0..4000 {
        let fact = draw.fact(round % FACTS);
        let bytes = fact_bytes(&fact);
        let mut source = Source::new(&bytes);
        assert_eq!(decode_fact(&mut source), Ok(fact));
        assert!(source.is_empty());
        for end in 0..bytes.len() {
            let cut = bytes.slice(..end);
            assert!(decode_fact(&mut Source::new(&cut)).is_err(), "cut to {end} of {}", bytes.len());
        }
    }
}

#[test]
fn pages_come_back_as_they_were() {
    let mut draw = Draw(Seed::new(2));
    for round in 0..2000 {
        let page = draw.page(round % PAGES);
        let bytes = page_bytes(&page);
        let mut source = Source::new(&bytes);
        assert_eq!(decode_page(&mut source), Ok(page));
        assert!(source.is_empty());
        for end in 0..bytes.len() {
            let cut = bytes.slice(..end);
            assert!(decode_page(&mut Source::new(&cut)).is_err(), "cut to {end} of {}", bytes.len());
        }
    }
}

#[test]
fn entries_come_back_as_they_were() {
    let mut draw = Draw(Seed::new(4));
    for round in 0..2000 {
        let page = draw.page(round % PAGES);
        let key = Key::of(&page, Shelf::Idle);
        let bytes = entry_bytes(&page);
        assert_eq!(decode_entry(&key, &bytes), Ok(page));
        for end in 0..bytes.len() {
            assert!(decode_entry(&key, &bytes.slice(..end)).is_err(), "cut to {end} of {}", bytes.len());
        }
    }
}

#[test]
fn damaged_entries_are_refused_or_are_other_pages() {
    let mut draw = Draw(Seed::new(5));
    let (mut refused, mut others) = (0, 0);
    for round in 0..60 {
        let page = draw.page(round % PAGES);
        let key = Key::of(&page, Shelf::Idle);
        let whole = entry_bytes(&page).to_vec();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match decode_entry(&key, &bytes.into()) {
                Ok(other) => {
                    assert_ne!(other, page, "two values of one page");
                    others += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000 && others > 1000, "{refused} {others}");
}

#[test]
fn the_bytes_of_entries_are_those_of_version_1() {
    let mut draw = Draw(Seed::new(6));
    let mut bytes = Vec::new();
    for round in 0..600 {
        encode_entry(&draw.page(round % FIRST_PAGES), &mut bytes);
    }
    // Another sum here is another form on disk: raise its version, and read the old one too.
    assert_eq!((bytes.len(), crc32c::crc32c(&bytes)), (135_035, 1_305_843_803));
}

/// Such a pause is younger than the version: the empty prefix, which no other name may be.
#[test]
fn a_pause_of_all_is_that_of_an_empty_prefix() {
    let fact = Fact::Paused { namespace: 7, topics: PausedTopics::all(), until: Some(WallTime::NEVER) };
    let mut bytes = Vec::new();
    encode_fact(&fact, &mut Context::default(), &mut bytes);
    assert_eq!(decode_fact(&mut Source::new(&bytes.clone().into())), Ok(fact));
    let at = bytes.len() - 2;
    assert_eq!(bytes[at - 1..], [0, 1, 1]);
    bytes[at] = 0;
    assert!(decode_fact(&mut Source::new(&bytes.into())).is_err(), "no topic has an empty name");
}

/// Such a pause is younger than the version as well: its end stands behind a byte that was 0 or 1.
#[test]
fn a_pause_for_a_time_is_read_as_it_was_written() {
    let topics = PausedTopics::prefix(&TopicName::try_from("a/").unwrap());
    let until = WallTime(1_790_000_000_000);
    let fact = Fact::Paused { namespace: 7, topics: topics.clone(), until: Some(until) };
    let mut bytes = Vec::new();
    encode_fact(&fact, &mut Context::default(), &mut bytes);
    assert_eq!(decode_fact(&mut Source::new(&bytes.clone().into())), Ok(fact));
    let at = bytes.iter().rposition(|byte| *byte == b'/').unwrap() + 2;
    assert_eq!(bytes[at - 1..=at], [1, 2]);
    bytes[at] = 3;
    assert!(decode_fact(&mut Source::new(&bytes.into())).is_err(), "a pause ends never, at a time, or now");

    let mut page = NamespacePage {
        number: 0,
        name: NamespaceName::default(),
        policy: Policy::default(),
        rules: Rules::default(),
        version: 1,
        paused: vec![Pause { topics: topics.clone(), until }, Pause { topics, until: WallTime::NEVER }],
        groups: Vec::new(),
    };
    let (key, mut bytes) = (Key::Namespace(0), Vec::new());
    for _ in 0..2 {
        bytes.clear();
        let entry = Page::Namespace(Box::new(page.clone()));
        encode_entry(&entry, &mut bytes);
        assert_eq!(decode_entry(&key, &bytes.clone().into()), Ok(entry));
        page.paused.pop();
    }
    let at = bytes.iter().rposition(|byte| *byte == b'/').unwrap() + 1;
    assert_eq!(bytes[at], 0b11);
    bytes[at] = 0b111;
    assert!(decode_entry(&key, &bytes.into()).is_err(), "a flag that is not known is no flag");
}

#[test]
fn a_topic_with_one_message_costs_some_30_bytes() {
    let floor = 1 << 27;
    let run = RunPage {
        first: Sequence(floor),
        position: 1 << 33,
        published: WallTime(1_795_000_000_000),
        expires: WallTime::NEVER,
        sizes: Sizes::Uniform(33),
        marks: None,
        count: 1,
        index: 0,
    };
    let name = TopicName::try_from("0123456789abcdef").unwrap();
    let page = Page::Topic(TopicPage::of_line(TopicNumber(9_000_000), 0, name, floor, vec![run]));
    assert_eq!(entry_bytes(&page).len(), 30);
}

#[test]
fn the_tree_sees_when_entries_expire() {
    let mut draw = Draw(Seed::new(7));
    for _ in 0..200 {
        let (Page::Dedup(dedup), Page::Producer(producer)) = (draw.page(4), draw.page(5)) else { unreachable!() };
        assert_eq!(dedup_until(&entry_bytes(&Page::Dedup(dedup))), Some(dedup.until));
        let until = producer.used + millpond_types::limits::PRODUCER_EXPIRY;
        assert_eq!(producer_until(&entry_bytes(&Page::Producer(producer))), Some(until));
    }
    assert_eq!(dedup_until(&Bytes::new()), None);
    assert_eq!(producer_until(&Bytes::from_static(&[VERSION, 0x80])), None);
}

#[test]
fn decoding_bytes_of_any_kind_never_panics() {
    let mut draw = Draw(Seed::new(3));
    let (mut facts, mut pages) = (0, 0);
    for round in 0..60_000 {
        let mut bytes = match round % 3 {
            0 => fact_bytes(&draw.fact(round / 3 % FACTS)).to_vec(),
            1 => page_bytes(&draw.page(round / 3 % PAGES)).to_vec(),
            _ => (0..draw.below(40)).map(|_| draw.below(256) as u8).collect(),
        };
        for _ in 0..draw.below(4) {
            if !bytes.is_empty() {
                let at = draw.below(bytes.len() as u64) as usize;
                bytes[at] = if draw.flag() { 0xff } else { draw.below(256) as u8 };
            }
        }
        let bytes = Bytes::from(bytes);
        facts += u32::from(decode_fact(&mut Source::new(&bytes)).is_ok());
        pages += u32::from(decode_page(&mut Source::new(&bytes)).is_ok());
    }
    assert!(facts > 1000 && pages > 1000, "many changes leave a value valid: {facts} {pages}");
}

#[test]
fn a_run_of_a_hundred_plain_messages_costs_some_twenty_bytes() {
    let mut block = Vec::new();
    for _ in 0..100 {
        block::push(&mut block, b"", &[], &[7; 24]).unwrap();
    }
    let fact = Fact::Published {
        topic: TopicNumber(1_000_000),
        except: Vec::new(),
        priority: Priority::DEFAULT,
        first: Sequence(20_000_000_000),
        count: 100,
        published: WallTime(1_795_000_000_000),
        due: None,
        expires: None,
        dedup_until: WallTime(u64::MAX),
        dedup: Vec::new(),
        sizes: Sizes::Uniform(33),
        block: block.into(),
    };
    let mut bytes = Vec::new();
    encode_fact(&fact, &mut Context::default(), &mut bytes);
    assert!(bytes.len() <= 24, "{}", bytes.len());
}

#[test]
fn a_long_line_costs_little() {
    let mut draw = Draw(Seed::new(4));
    // Published one message a frame, three a millisecond, among others; and in frames of ten messages of all sizes.
    let mut bytes_a_run = |count: u32| {
        let (mut runs, mut position, floor) = (Vec::new(), 1 << 36, 1 << 34);
        for n in 0..1000 {
            let sizes = (0..count).map(|_| if count == 1 { 33 } else { 33 + draw.below(4000) as u32 });
            let ends: Vec<u32> = sizes.scan(0, |end, size| (*end += size, Some(*end)).1).collect();
            let (sizes, length) = (Sizes::from_ends(&ends), *ends.last().unwrap());
            let (first, published) = (Sequence(floor + n * u64::from(count)), WallTime(1_795_000_000_000 + n / 3));
            let expires = WallTime::NEVER;
            runs.push(RunPage { first, position, published, expires, sizes, marks: None, count, index: 0 });
            position += u64::from(length) + 16 + 64 * draw.below(2);
        }
        let name = TopicName::try_from("t").unwrap();
        let page = Page::Topic(TopicPage::of_line(TopicNumber(1), 0, name, floor, runs));
        page_bytes(&page).len() as u64 / 1000
    };
    assert!(bytes_a_run(1) < 4, "single messages of one size");
    assert!(bytes_a_run(10) < 10 * 3, "ten messages of all sizes");
}

#[test]
fn the_facts_of_a_batch_come_back_as_they_were() {
    let mut draw = Draw(Seed::new(4));
    for _ in 0..300 {
        let facts = (0..draw.below(40)).map(|_| draw.any_fact()).collect::<Vec<_>>();
        let (mut context, mut bytes) = (Context::default(), Vec::new());
        facts.iter().for_each(|fact| append(fact, &mut context, &mut bytes));
        let bytes = Bytes::from(bytes);
        let mut source = Source::new(&bytes);
        facts.iter().for_each(|fact| assert_eq!(decode_fact(&mut source).as_ref(), Ok(fact)));
        assert!(source.is_empty());
    }
}

#[test]
fn a_batch_writes_once_what_its_facts_have_in_common() {
    let count = 1000;
    let [mut created, mut published, mut leased, mut finished] = [0; 4];
    let (mut context, mut bytes) = (Context::default(), Vec::new());
    let mut cost = |fact: &Fact| {
        bytes.clear();
        encode_fact(fact, &mut context, &mut bytes);
        bytes.len()
    };
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], &[7; 24]).unwrap();
    let block = Bytes::from(block);
    for i in 0..count {
        let (topic, first, floor) = (TopicNumber(7_000_000 + i), Sequence(9_000_000 + i), 9_000_000 + i);
        let name = TopicName::try_from(format!("tenant{i:010}").as_str()).unwrap();
        created += cost(&Fact::TopicCreated { topic, group: 0, namespace: 0, name, floor, lease: LeaseNumber(floor) });
        published += cost(&Fact::Published {
            topic,
            except: Vec::new(),
            priority: Priority::DEFAULT,
            first,
            count: 1,
            published: WallTime(1_795_000_000_000),
            due: None,
            expires: None,
            dedup_until: WallTime(0),
            dedup: Vec::new(),
            sizes: Sizes::Uniform(block.len() as u32),
            block: block.clone(),
        });
    }
    for i in 0..count {
        let (topic, lease) = (TopicNumber(7_000_000 + i), LeaseNumber(9_000_000 + i));
        leased += cost(&Fact::Leased {
            topic,
            group: 0,
            priority: Priority::DEFAULT,
            first: Sequence(9_000_000 + i),
            count: 1,
            lease,
            run: None,
            holder: SessionId(u64::MAX / 3),
            duration: Millis::seconds(30),
            deadline: RunTime(90_000_000),
        });
    }
    for i in 0..count {
        let (topic, lease) = (TopicNumber(7_000_000 + i), LeaseNumber(9_000_000 + i));
        finished += cost(&Fact::Acked { topic, group: 0, lease, count: 1 });
        finished += cost(&Fact::TopicVanished { topic, group: 0 });
    }
    let each = |bytes: usize| (bytes as f64 / count as f64 * 10.0).round() / 10.0;
    let each = [created, published, leased, finished].map(each);
    assert_eq!(each, [23.0, 6.0, 5.0, 8.0], "bytes of a fact: created, published but for the block, leased, finished");
}

/// Written anew it would be another fact.
#[test]
fn a_window_for_dedup_ids_and_none_of_these_is_refused() {
    let (hash, mut block) = (u128::MAX / 7, Vec::new());
    block::push(&mut block, b"id", &[], b"body").unwrap();
    let fact = Fact::Published {
        topic: TopicNumber(1),
        except: Vec::new(),
        priority: Priority::DEFAULT,
        first: Sequence(2),
        count: 1,
        published: WallTime(3),
        due: None,
        expires: None,
        dedup_until: WallTime::NEVER,
        dedup: vec![DedupMark { index: 0, hash }],
        sizes: Sizes::Uniform(block.len() as u32),
        block: block.into(),
    };
    let mut bytes = fact_bytes(&fact).to_vec();
    let at = bytes.windows(16).position(|bytes| *bytes == hash.to_le_bytes()).unwrap();
    // How many there are, and of the one its index.
    assert_eq!(bytes[at - 2..at], [1, 0]);
    bytes.splice(at - 2..at + 16, [0]);
    let refused = decode_fact(&mut Source::new(&bytes.into())).unwrap_err();
    assert!(refused.to_string().contains("none of these"), "{refused}");
}

#[test]
fn a_recalled_topic_is_its_key() {
    let (topic, name) = (TopicNumber(300), TopicName::try_from("a/b").unwrap());
    let fact = Fact::TopicRecalled { topic, group: 9, namespace: 7, name, shelf: Shelf::Idle };
    assert_eq!(&fact_bytes(&fact)[..], b"\x15\xd8\x04\x09\x07\x03a/b\x0a");
}

#[test]
fn what_waits_since_its_publish_is_redriven_as_in_version_1() {
    let priority = Priority::DEFAULT;
    let id = MessageId { topic: TopicNumber(3), priority, sequence: Sequence(7) };
    let extent = Extent { position: 5, length: 10 };
    let letter = Letter { namespace: 1, group: 2, topic: TopicName::try_from("t").unwrap(), id, extent };
    let (topic, sequence, published) = (TopicNumber(4), Sequence(8), WallTime(100));
    let redriven = |since| Fact::Redriven { letter: letter.clone(), topic, sequence, published, since, dedup: None };
    assert_eq!(&fact_bytes(&redriven(published))[..], b"\x13\x01\x02\x01t\x03\x04\x07\x05\x0a\x08\x10\x64\x00");
    assert_eq!(&fact_bytes(&redriven(WallTime(101)))[..], b"\x3c\x01\x02\x01t\x03\x04\x07\x05\x0a\x08\x10\x64\x02\x00");
}

#[test]
fn who_waits_no_longer_than_itself_supersedes_as_in_version_1() {
    let which = Victims::Waiting { priority: Priority::DEFAULT, first: Sequence(7), count: 1 };
    let (topic, priority, by, until) = (TopicNumber(300), Priority::HIGHEST, Sequence(8), Some(RunTime(5)));
    let fact = |since| Fact::Superseded { topic, group: 2, which, priority, by, failures: 3, until, since };
    let fields = b"\xd8\x04\x02\x01\x04\x0e\x01\x09\x02\x03\x01\x05";
    assert_eq!(&fact_bytes(&fact(None))[..], [b"\x1c", &fields[..]].concat());
    assert_eq!(&fact_bytes(&fact(Some(WallTime(1))))[..], [b"\x3d", &fields[..], b"\x02"].concat());
}

#[test]
fn a_moved_run_is_its_name_and_its_block() {
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], b"m").unwrap();
    let (block, sizes) = (Bytes::from(block), Sizes::Uniform(10));
    let (topic, priority, first) = (TopicNumber(300), Priority::DEFAULT, Sequence(7));
    let fact = Fact::Moved { topic, priority, first, count: 1, from: 5, block: block.clone(), sizes };
    let head = fact_bytes(&fact);
    assert_eq!(&head[..], [&b"\x16\x00\xd8\x04\x0e\x05\x0a"[..], &block].concat());
}

fn fact_bytes(fact: &Fact) -> Bytes {
    let mut bytes = Vec::new();
    append(fact, &mut Context::default(), &mut bytes);
    bytes.into()
}

fn append(fact: &Fact, context: &mut Context, bytes: &mut Vec<u8>) {
    encode_fact(fact, context, bytes);
    if let Some(block) = fact.block() {
        bytes.extend_from_slice(block);
    }
}

fn entry_bytes(page: &Page) -> Bytes {
    let mut bytes = Vec::new();
    encode_entry(page, &mut bytes);
    bytes.into()
}

fn page_bytes(page: &Page) -> Bytes {
    let mut bytes = Vec::new();
    encode_page(page, &mut bytes);
    bytes.into()
}

/// Draws values, small and extreme ones more often than chance would.
struct Draw(Seed);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(3),
            1 => u64::MAX - self.below(3),
            _ => self.0.draw() >> self.below(64),
        }
    }

    fn number32(&mut self) -> u32 {
        self.number() as u32
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.number()) << 64 | u128::from(self.number())
    }

    fn wall(&mut self) -> WallTime {
        WallTime(self.number())
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| draw(self))
    }

    fn list<T>(&mut self, most: u64, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| draw(self)).collect()
    }

    /// One of those that there were when the sums of bytes were noted: the others refuse receives, and are in no fact.
    fn code(&mut self) -> Code {
        let codes = Code::ALL.into_iter().filter(|code| !matches!(code, Code::Damaged | Code::Unreadable));
        let codes: Vec<Code> = codes.collect();
        codes[self.below(codes.len() as u64) as usize]
    }

    fn priority(&mut self) -> Priority {
        Priority::new(self.below(10) as u8).unwrap()
    }

    fn shelf(&mut self) -> Shelf {
        Shelf::from_byte(self.below(SHELVES as u64) as u8).unwrap()
    }

    fn topic_name(&mut self) -> TopicName {
        TopicName::try_from(["a", "site/größe", &"x".repeat(512)][self.below(3) as usize]).unwrap()
    }

    fn paused_topics(&mut self, name: &TopicName) -> PausedTopics {
        if self.flag() { PausedTopics::prefix(name) } else { PausedTopics::from(name) }
    }

    fn start(&mut self) -> Start {
        [Start::Latest, Start::Earliest, Start::At(self.wall())][self.below(3) as usize]
    }

    fn spans(&mut self) -> Vec<Span> {
        let mut at = 0u64;
        let mut later = |draw: &mut Self| {
            at = at.saturating_add(draw.number());
            WallTime(at)
        };
        self.list(4, |draw| Span { first: later(draw), last: later(draw), count: draw.number() })
    }

    fn group(&mut self) -> GroupPage {
        GroupPage {
            number: self.number32(),
            name: GroupName::try_from(["default", "audit"][self.below(2) as usize]).unwrap(),
            is_ending: self.flag(),
            start: self.start(),
            starting: self.maybe(|draw| Reached {
                at: b"t".to_vec(),
                rest: draw.maybe(|draw| (draw.priority(), Sequence(draw.number()))),
            }),
            unsettled: self.maybe(Self::number),
            office: self.maybe(|draw| Box::new(draw.office())),
            counts: Counts {
                waiting: self.number(),
                delayed: self.number(),
                retrying: self.number(),
                leased: self.number(),
                dead: self.number(),
            },
            tally: Tally {
                accepted: self.number(),
                declined: self.number(),
                superseded: self.number(),
                dropped: self.number(),
                retained_out: self.number(),
            },
            spans: self.spans(),
            bytes: self.number(),
            topics: self.number(),
            shelves: [0; SHELVES].map(|_| self.number()),
        }
    }

    fn office_terms(&mut self) -> OfficeTerms {
        OfficeTerms { term: Millis(self.number()), handover: Millis(self.number()) }
    }

    fn group_kind(&mut self) -> GroupKind {
        if self.flag() { GroupKind::Shared } else { GroupKind::Exclusive(self.office_terms()) }
    }

    fn office(&mut self) -> OfficePage {
        OfficePage {
            terms: self.office_terms(),
            epoch: LeaderEpoch(self.number()),
            leader: self.maybe(|draw| SessionId(draw.number())),
            outgoing: self.maybe(|draw| (SessionId(draw.number()), RunTime(draw.number()))),
        }
    }

    fn namespace_name(&mut self) -> NamespaceName {
        NamespaceName::try_from(["default", "orders-eu.v2"][self.below(2) as usize]).unwrap()
    }

    fn id(&mut self) -> MessageId {
        let (topic, priority) = (TopicNumber(self.number()), self.priority());
        MessageId { topic, priority, sequence: Sequence(self.number()) }
    }

    fn policy(&mut self) -> Policy {
        Policy {
            lease: Millis(self.number()),
            max_failures: self.number32(),
            retry: [
                Retry::Head,
                Retry::Tail,
                Retry::Backoff { first: Millis(self.number()), longest: Millis(self.number()) },
            ][self.below(3) as usize],
            ttl: self.maybe(|draw| Millis(draw.number())),
            on_expiry: [OnExpiry::Drop, OnExpiry::Dead][self.below(2) as usize],
            dedup_window: [DedupWindow::Off, DedupWindow::For(Millis(self.number())), DedupWindow::Forever]
                [self.below(3) as usize],
            max_in_flight: self.maybe(Self::number32),
            max_waiting: self.maybe(Self::number32),
            overflow: [Overflow::Reject, Overflow::DropOldest][self.below(2) as usize],
            coalesce: [Coalesce::Off, Coalesce::KeepFirst, Coalesce::KeepLatest][self.below(3) as usize],
            run: self.number32(),
            rate: self.maybe(|draw| Rate {
                count: draw.number32(),
                period: Millis(draw.number()),
                burst: draw.number32(),
            }),
            weight: self.number32(),
            quotas: Quotas {
                messages: self.maybe(Self::number),
                bytes: self.maybe(Self::number),
                topics: self.maybe(Self::number),
                connections: self.maybe(Self::number),
            },
            dispatch: [Dispatch::Priority, Dispatch::Fair][self.below(2) as usize],
            ageing: self.maybe(|draw| Millis(draw.number())),
            retention: Retention { age: self.maybe(|draw| Millis(draw.number())), count: self.maybe(Self::number) },
        }
    }

    fn rules(&mut self) -> Rules {
        let rule = |draw: &mut Self| {
            let policy = draw.policy();
            let overrides = Overrides {
                lease: draw.maybe(|_| policy.lease),
                max_failures: draw.maybe(|_| policy.max_failures),
                retry: draw.maybe(|_| policy.retry),
                ttl: draw.maybe(|_| policy.ttl),
                on_expiry: draw.maybe(|_| policy.on_expiry),
                dedup_window: draw.maybe(|_| policy.dedup_window),
                max_in_flight: draw.maybe(|_| policy.max_in_flight),
                max_waiting: draw.maybe(|_| policy.max_waiting),
                overflow: draw.maybe(|_| policy.overflow),
                coalesce: draw.maybe(|_| policy.coalesce),
                run: draw.maybe(|_| policy.run),
                rate: draw.maybe(|_| policy.rate),
                weight: draw.maybe(|_| policy.weight),
            };
            Rule { pattern: Pattern { is_prefix: draw.below(2) == 0, name: draw.topic_name() }, overrides }
        };
        let mut rules = self.list(4, rule);
        rules.sort_by(|a, b| a.pattern.cmp(&b.pattern));
        rules.dedup_by(|a, b| a.pattern == b.pattern);
        rules.retain(|rule| rule.overrides != Overrides::default());
        Rules::new(rules).expect("rules that are rules")
    }

    fn outcomes(&mut self) -> Outcomes {
        let runs = self.list(4, |draw| {
            let states = [
                MessageState::Waiting,
                MessageState::Delayed { due: draw.wall() },
                MessageState::Retrying { due: WallTime(0) },
                MessageState::Leased,
                MessageState::Dead,
                MessageState::Ended,
            ];
            let outcomes = [
                PublishOutcome::Queued { id: draw.id() },
                PublishOutcome::Duplicate { id: draw.id(), state: states[draw.below(6) as usize] },
                PublishOutcome::Coalesced { id: draw.id(), replaced: None },
                PublishOutcome::Refused { code: draw.code(), detail: "höher".into() },
            ];
            OutcomeRun { count: draw.number32(), outcome: outcomes[draw.below(4) as usize].clone() }
        });
        Outcomes::new(&runs)
    }

    fn run_page(&mut self) -> RunPage {
        let step = |draw: &mut Self| {
            let most = if draw.flag() { 2 } else { 100_000 };
            9 + draw.below(most) as u32
        };
        let mut sizes = self.list(5, step);
        sizes.push(9);
        let ends: Vec<u32> = sizes.iter().scan(0, |end, size| (*end += size, Some(*end)).1).collect();
        let count = sizes.len() as u32;
        let (until, is_redriven) = (self.wall(), self.flag() && count == 1);
        let marks: Vec<_> = (0..count).filter_map(|index| self.maybe(|draw| (index, draw.wide()))).collect();
        let hash = marks.first().map(|(_, hash)| *hash);
        let (first, position, published) = (Sequence(self.number() >> 1), self.number() >> 1, self.wall());
        RunPage {
            first,
            position,
            published,
            expires: self.maybe(Self::wall).unwrap_or(WallTime::NEVER),
            sizes: Sizes::from_ends(&ends),
            marks: if is_redriven {
                Some(Marks::of_redriven(published, until, hash))
            } else {
                Marks::new(until, marks)
            },
            count,
            index: 0,
        }
    }

    fn published(&mut self) -> Fact {
        let (mut block, mut ends) = (Vec::new(), Vec::new());
        let count = 1 + self.below(4) as u32;
        for _ in 0..count {
            let body = vec![1; self.below(40) as usize];
            let headers: &[(&[u8], &[u8])] = if self.flag() { &[(b"k", b"v")] } else { &[] };
            block::push(&mut block, if self.flag() { b"id" } else { b"" }, headers, &body).unwrap();
            ends.push(block.len() as u32);
        }
        let mark = |draw: &mut Self| DedupMark { index: draw.below(u64::from(count)) as u32, hash: draw.wide() };
        let dedup = self.list(3, mark);
        Fact::Published {
            topic: TopicNumber(self.number()),
            except: self.list(2, Self::number32),
            priority: self.priority(),
            first: Sequence(self.number() >> 1),
            count,
            published: self.wall(),
            due: self.maybe(Self::wall),
            expires: self.maybe(Self::wall),
            dedup_until: if dedup.is_empty() { WallTime::default() } else { self.wall() },
            dedup,
            block: block.into(),
            sizes: Sizes::from_ends(&ends),
        }
    }

    fn dead_reason(&mut self) -> DeadReason {
        use DeadReason::{Damaged, Expired, Failed, LeaseExpired, Rejected};
        [Rejected, Failed, LeaseExpired, Expired, Damaged][self.below(5) as usize]
    }

    /// The first lease of a run that a lease is of.
    fn run_of(&mut self, lease: LeaseNumber) -> Option<LeaseNumber> {
        self.maybe(|draw| LeaseNumber(draw.number().min(lease.0)))
    }

    fn any_fact(&mut self) -> Fact {
        let kind = self.below(FACTS);
        self.fact(kind)
    }

    fn victims(&mut self, lease: LeaseNumber, priority: Priority, first: Sequence, count: u32) -> Victims {
        [Victims::Leased { lease, count }, Victims::Waiting { priority, first, count }][self.below(2) as usize]
    }

    fn letter(&mut self) -> Letter {
        Letter {
            namespace: self.number32(),
            group: self.number32(),
            topic: self.topic_name(),
            id: self.id(),
            extent: Extent { position: self.number() >> 1, length: self.number32() },
        }
    }

    fn fact(&mut self, kind: u64) -> Fact {
        let (topic, group, priority) = (TopicNumber(self.number()), self.number32(), self.priority());
        let (first, lease, count) = (Sequence(self.number()), LeaseNumber(self.number()), self.number32());
        let (holder, duration, deadline) = (SessionId(self.number()), Millis(self.number()), RunTime(self.number()));
        let (namespace, name) = (self.number32(), self.topic_name());
        match kind {
            0 => Fact::Created { hash_key: [self.number(), self.number()] },
            1 => Fact::Raised { floor: self.number() },
            2 => Fact::NamespaceSet {
                number: namespace,
                name: self.namespace_name(),
                policy: self.policy(),
                rules: self.rules(),
                version: self.number(),
            },
            3 => Fact::NamespaceDeleted { number: namespace },
            4 => {
                let topics = self.paused_topics(&name);
                Fact::Paused { namespace, topics, until: self.flag().then_some(WallTime::NEVER) }
            }
            5 => Fact::TopicCreated { topic, group, namespace, name, floor: self.number(), lease },
            6 => Fact::TopicVanished { topic, group },
            7 => self.published(),
            8 => Fact::ProducerBatch {
                namespace,
                producer: ProducerId(self.wide()),
                instance: self.number32(),
                sequence: self.number(),
                at: self.wall(),
                outcomes: self.outcomes(),
            },
            9 => {
                let run = self.run_of(lease);
                Fact::Leased { topic, group, priority, first, count, lease, run, holder, duration, deadline }
            }
            10 => Fact::Extended { topic, group, lease, count, holder, duration, deadline },
            11 => Fact::Acked { topic, group, lease, count },
            12 => Fact::Returned {
                topic,
                group,
                lease,
                count,
                failed: self.flag(),
                place: [ReturnPlace::Head, ReturnPlace::Tail, ReturnPlace::At(deadline)][self.below(3) as usize],
            },
            13 => Fact::Died {
                topic,
                group,
                which: self.victims(lease, priority, first, count),
                reason: self.dead_reason(),
                detail: Bytes::from_static(b"no"),
                at: self.wall(),
            },
            14 => Fact::Ripened { topic, group, priority, first, count },
            15 => {
                use EndReason::{Acked, Cancelled, Dead, Delivered, Dropped, Expired, Purged, RetainedOut, Superseded};
                let reasons = [Acked, Dead, Cancelled, Expired, Purged, Superseded, Dropped, Delivered, RetainedOut];
                let reason = reasons[self.below(9) as usize];
                Fact::Ended { topic, group, priority, first, count, reason }
            }
            16 => Fact::Rescheduled { topic, group, priority, sequence: first, due: self.wall() },
            17 => Fact::Forgotten { namespace, hash: self.wide() },
            18 => {
                let published = self.wall();
                Fact::Redriven {
                    letter: self.letter(),
                    topic,
                    sequence: first,
                    published,
                    since: self.maybe(Self::wall).unwrap_or(published),
                    dedup: self.maybe(|draw| Remembered { hash: draw.wide(), until: draw.wall() }),
                }
            }
            19 => Fact::DeadPurged { letter: self.letter() },
            20 => Fact::TopicRecalled { topic, group, namespace, name, shelf: self.shelf() },
            21 => {
                let Fact::Published { topic, priority, first, count, block, sizes, .. } = self.published() else {
                    unreachable!("it publishes")
                };
                Fact::Moved { topic, priority, first, count, from: self.number(), block, sizes }
            }
            23 => Fact::GroupEnding { group },
            24 => Fact::GroupDeleted { group },
            22 => Fact::GroupCreated {
                group,
                namespace,
                name: self.group().name,
                start: self.start(),
                kind: self.group_kind(),
            },
            28 => Fact::Copied {
                topic,
                group,
                messages: self.list(3, |draw| CopiedRun {
                    priority: draw.priority(),
                    run: draw.run_page(),
                    due: draw.maybe(Self::wall),
                }),
                rest: self.maybe(|_| (priority, first)),
            },
            29 => Fact::GroupReached { group, at: b"t\0".to_vec(), rest: self.maybe(|_| (priority, first)) },
            30 => Fact::GroupStarted { group },
            31 => Fact::OfficeTaken { group, session: holder, epoch: LeaderEpoch(self.number()) },
            32 => Fact::OfficeLeft { group, until: deadline },
            33 => Fact::HandedOver { group },
            25 => Fact::Delivered { topic, group, lease, count },
            26 => Fact::Superseded {
                topic,
                group,
                which: self.victims(lease, priority, first, count),
                priority,
                by: Sequence(self.number()),
                failures: self.number32(),
                until: self.maybe(|_| deadline),
                since: self.maybe(Self::wall),
            },
            27 => Fact::Declined { topic, group, count },
            34 => Fact::ExchangeCreated {
                namespace: self.number32(),
                name: self.exchange_name(),
                kind: self.exchange_kind(),
                unroutable: self.unroutable(),
                version: self.number(),
            },
            35 => Fact::ExchangeDeleted { namespace: self.number32(), name: self.exchange_name() },
            36 => Fact::Bound {
                namespace: self.number32(),
                exchange: self.exchange_name(),
                binding: self.binding(),
                version: self.number(),
            },
            37 => Fact::Unbound {
                namespace: self.number32(),
                exchange: self.exchange_name(),
                binding: self.binding(),
                version: self.number(),
            },
            38 => Fact::Drawn { topic, group, full: self.number(), dry: self.maybe(|draw| RunTime(draw.number())) },
            39 => Fact::Refilled { topic, group },
            40 => Fact::Aged { topic, group, level: priority, raise: self.maybe(Self::wall) },
            41 => Fact::TopicsSettled { group },
            42 => Fact::Waits { topic, group, for_retry: self.flag() },
            _ => {
                let mut block = Vec::new();
                block::push(&mut block, b"", &[], &[1; 5]).unwrap();
                Fact::DeadMoved { letter: Box::new(self.dead_page()), block: block.into() }
            }
        }
    }

    fn exchange_name(&mut self) -> ExchangeName {
        ExchangeName::try_from(["events", "log"][self.below(2) as usize]).unwrap()
    }

    fn exchange_kind(&mut self) -> ExchangeKind {
        let kinds = [ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Fanout, ExchangeKind::Headers];
        kinds[self.below(4) as usize]
    }

    fn unroutable(&mut self) -> Unroutable {
        [Unroutable::Refuse, Unroutable::Drop][self.below(2) as usize]
    }

    fn binding(&mut self) -> Binding {
        let condition = match self.below(3) {
            0 => Condition::Always,
            1 => Condition::Key(RoutingKey::try_from(["", "a.b", "*.#"][self.below(3) as usize]).unwrap()),
            _ => {
                let header = |draw: &mut Self| (Bytes::from(vec![1; draw.below(9) as usize]), Bytes::from_static(b"v"));
                Condition::Headers { all: self.flag(), headers: self.list(3, header) }
            }
        };
        Binding { condition, target: self.topic_name() }
    }

    fn page(&mut self, kind: u64) -> Page {
        match kind {
            0 => Page::Numbers(NumbersPage {
                hash_key: [self.number(), self.number()],
                next_topic: self.number(),
                next_namespace: self.number32(),
                next_group: self.number32(),
                high_water: self.number(),
                epochs: LeaderEpoch(self.number()),
                raised: self.number(),
                run: RunTime(self.number()),
                wall: self.wall(),
                epoch: self.number32(),
            }),
            1 => Page::Namespace(Box::new(NamespacePage {
                number: self.number32(),
                name: self.namespace_name(),
                policy: self.policy(),
                rules: self.rules(),
                version: self.number(),
                paused: self.list(3, |draw| {
                    let name = draw.topic_name();
                    Pause { topics: draw.paused_topics(&name), until: WallTime::NEVER }
                }),
                groups: self.list(3, Self::group),
            })),
            2 => Page::Topic(TopicPage {
                number: TopicNumber(self.number()),
                group: self.number32(),
                name: self.topic_name(),
                floor: self.number(),
                next_lease: LeaseNumber(self.number()),
                epoch: self.number32(),
                levels: self.list(3, Self::level),
                bucket: self
                    .maybe(|draw| BucketPage { full: draw.number(), dry: draw.maybe(|draw| RunTime(draw.number())) }),
                age: self.maybe(|draw| AgePage { level: draw.priority(), raise: draw.maybe(Self::wall) }),
                waits_for_retry: false,
            }),
            3 => Page::Dead(self.dead_page()),
            4 => Page::Dedup(DedupPage {
                namespace: self.number32(),
                hash: self.wide(),
                id: self.id(),
                until: self.wall(),
            }),
            5 => Page::Producer(ProducerPage {
                namespace: self.number32(),
                id: ProducerId(self.wide()),
                instance: self.number32(),
                used: self.wall(),
                last: self.number(),
                batches: self.list(3, Self::outcomes),
            }),
            6 => Page::Piece(PiecePage {
                topic: TopicNumber(self.number()),
                group: self.number32(),
                priority: self.priority(),
                messages: PieceMessages::Line((0..=self.below(3)).map(|_| self.run_page()).collect()),
            }),
            7 => Page::Exchange(Box::new(ExchangePage {
                namespace: self.number32(),
                name: self.exchange_name(),
                kind: self.exchange_kind(),
                unroutable: self.unroutable(),
                version: self.number(),
                bindings: self.list(3, Self::binding),
            })),
            8 => Page::Due(DuePage {
                at: Moment { clock: [Clock::Wall, Clock::Run][self.below(2) as usize], at: self.number() },
                group: self.number32(),
                name: self.topic_name(),
                shelf: self.shelf(),
            }),
            9 => {
                let Page::Topic(page) = self.page(2) else { panic!("a topic was drawn") };
                let resting = |draw: &mut Self| StoredResting::of(&[draw.resting()]);
                let levels = page.levels.into_iter();
                let levels = levels.map(|level| LevelPage { resting: self.list(3, resting), ..level });
                Page::Topic(TopicPage { levels: levels.collect(), waits_for_retry: self.flag(), ..page })
            }
            10 => {
                let Page::Piece(page) = self.page(6) else { panic!("a piece was drawn") };
                let messages = (0..=self.below(3)).map(|_| self.resting()).collect();
                Page::Piece(PiecePage { messages: PieceMessages::Resting(messages), ..page })
            }
            _ => {
                let Page::Piece(page) = self.page(6) else { panic!("a piece was drawn") };
                let redriven = |draw: &mut Self| {
                    let (since, until, hash) = (draw.wall(), draw.wall(), draw.maybe(Self::wide));
                    let marks = Some(Marks::of_redriven(since, until, hash));
                    RunPage { count: 1, sizes: Sizes::Uniform(9), marks, ..draw.run_page() }
                };
                let messages = (0..=self.below(3)).map(|_| redriven(self)).collect();
                Page::Piece(PiecePage { messages: PieceMessages::Line(messages), ..page })
            }
        }
    }

    fn dead_page(&mut self) -> DeadPage {
        DeadPage {
            namespace: self.number32(),
            group: self.number32(),
            topic: self.topic_name(),
            id: self.id(),
            run: self.run_page(),
            deliveries: self.number32(),
            failures: self.number32(),
            reason: self.dead_reason(),
            detail: Bytes::from_static(b"said so"),
            died: self.wall(),
        }
    }

    fn level(&mut self) -> LevelPage {
        LevelPage {
            priority: self.priority(),
            next: Sequence(self.number()),
            stored: self.list(3, |draw| StoredPiece::of(&[draw.run_page()])),
            runs: self.list(3, Self::run_page),
            aside: self.list(3, |draw| draw.aside(0..4)),
            resting: Vec::new(),
        }
    }

    fn resting(&mut self) -> AsidePage {
        self.aside(1..3)
    }

    /// Messages aside in one of these states.
    fn aside(&mut self, which: Range<u64>) -> AsidePage {
        let lease = LeaseNumber(self.number());
        let states = [
            AsideState::Ready { behind: Sequence(self.number()) },
            AsideState::Delayed { due: self.wall() },
            AsideState::Retrying { due: RunTime(self.number()) },
            AsideState::Leased {
                lease,
                run: self.run_of(lease),
                holder: SessionId(self.number()),
                duration: Millis(self.number()),
                deadline: RunTime(self.number()),
            },
        ];
        AsidePage {
            run: self.run_page(),
            deliveries: self.number32(),
            failures: self.number32(),
            since: self.wall(),
            state: states[(which.start + self.below(which.end - which.start)) as usize],
        }
    }
}
