//! Messages that take much memory beside their runs, because they have dedup ids or are of many sizes: a level keeps as few
//! bytes of them as of any others, and its topic's page stays as short.

use millpond_core::Now;
use millpond_core::command::*;
use millpond_core::output::{Output, Reply};
use millpond_core::page::{Page, RunPage};
use millpond_types::block::{self, Sizes};
use millpond_types::{MessageState, Millis, NamespaceName, Priority, PublishOutcome};

use crate::ask::asked;
use crate::bare::Bare;
use crate::history::{name, receive};
use crate::journal::{Journal, sizes_of};

/// What a level may take of memory, and its runs of its topic's page: the ends of its line, and two pieces that are not full.
const BYTES: usize = 192 << 10;
const HOUR: u64 = 3_600_000;
/// Shorter than a dedup id is remembered.
const MINUTE: Millis = Millis(60_000);

struct House {
    bare: Bare<Journal>,
    published: u64,
    /// The most bytes that the runs of a topic's page took, and the topic itself.
    page: usize,
    resident: usize,
    /// Of what is published from now on.
    ttl: Option<Millis>,
}

impl House {
    fn new() -> House {
        House { bare: Bare::new(), published: 0, page: 0, resident: 0, ttl: None }
    }

    /// A turn with all that follows from it; how many messages were received, each of which is done.
    fn turn(&mut self, command: Command) -> u64 {
        self.bare.submit(command);
        let mut received = 0;
        loop {
            let runs = self.bare.turn();
            received += runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
            let receipts: Vec<_> = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
            let wanted = self.bare.wanted();
            if receipts.is_empty() && wanted.is_empty() && self.bare.core.next_wake() != Some(Millis::ZERO) {
                return received;
            }
            self.bare.load(wanted);
            if !receipts.is_empty() {
                self.bare.submit(Command::Finish(Finish {
                    verb: FinishVerb::Ack,
                    receipts,
                    confirm: false,
                    namespace: None,
                }));
            }
        }
    }

    /// Messages in one run, with bodies of so many bytes each.
    fn publish(&mut self, bodies: impl Iterator<Item = usize>, has_ids: bool, delay: u64) {
        let first = self.published + 1;
        let messages: Vec<_> = (first..).zip(bodies).collect();
        self.published += messages.len() as u64;
        let messages = messages.into_iter().map(|(id, length)| (has_ids.then_some(id), length));
        self.turn(publish(messages, delay, self.ttl));
        self.resident = self.resident.max(self.bare.core.resident_bytes());
    }

    /// Publishes again what these ids were given to, and is told at once where each is.
    fn repeat(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<MessageState> {
        self.bare.submit(publish(ids.into_iter().map(|id| (Some(id), 24)), 0, None));
        self.told()
    }

    /// Where the first messages are, as a publish is told whose dedup ids are all known.
    fn told(&mut self) -> Vec<MessageState> {
        let [Output::Reply { reply: Reply::Published { outcomes, .. }, .. }] = &self.bare.core.outputs()[..] else {
            panic!("{:?}", self.bare.core.outputs());
        };
        let states = outcomes.iter().flat_map(|run| {
            let PublishOutcome::Duplicate { state, .. } = run.outcome else { panic!("{run:?}") };
            std::iter::repeat_n(state, run.count as usize)
        });
        states.collect()
    }

    /// Whatever is in the store is on the disk.
    fn write(&mut self) {
        self.bare.core.freeze();
        while !self.bare.core.capture(1000) {}
        self.bare.store.model().write_sealed();
    }

    /// Looks at the topic's page.
    fn look(&mut self) {
        for page in self.bare.core.pages() {
            let Page::Topic(page) = page else { continue };
            let line = page.levels.iter().flat_map(|level| &level.runs);
            let aside = page.levels.iter().flat_map(|level| &level.aside).map(|aside| &aside.run);
            self.page = self.page.max(line.chain(aside).map(bytes_of).sum());
        }
    }

    /// Pieces of its line that are in the store alone.
    fn stored(&self) -> usize {
        self.bare.core.pages().filter(|page| matches!(page, Page::Piece(_))).count()
    }

    fn pass(&mut self, by: u64) {
        let Now { run, wall } = self.bare.core.now();
        self.bare.core.set_time(Now { run: run + Millis(by), wall: wall + Millis(by) });
    }

    /// All that is there comes, once.
    fn drain(&mut self) {
        let mut got = 0;
        loop {
            let some = self.turn(receive(1000));
            if some == 0 {
                break;
            }
            got += some;
        }
        assert_eq!((got, self.bare.core.resident_count()), (self.published, 0));
    }
}

/// Messages of one run, each with its dedup id, if it has one, and its length.
fn publish(messages: impl Iterator<Item = (Option<u64>, usize)>, delay: u64, ttl: Option<Millis>) -> Command {
    let (mut bytes, mut dedup, mut count) = (Vec::new(), Vec::new(), 0);
    for (id, length) in messages {
        let text = id.map(u64::to_le_bytes);
        block::push(&mut bytes, text.as_ref().map_or(&[], |text| &text[..]), &[], &vec![0; length]).unwrap();
        dedup.extend(id.map(|id| DedupMark { index: count, hash: u128::from(id) << 64 }));
        count += 1;
    }
    let (sizes, block) = (sizes_of(&bytes), bytes.into());
    let (topic, priority, too_large) = (name("big"), Priority::DEFAULT, Vec::new());
    let run = PublishRun { topic, priority, delay: Millis(delay), ttl, count, block, sizes, dedup, too_large };
    let (namespace, level) = (NamespaceName::default(), Level::Durable);
    Command::Publish(Publish { namespace, producer: None, level, runs: vec![run] })
}

/// What a run says of its messages, as it stands in a page.
fn bytes_of(run: &RunPage) -> usize {
    let sizes = if let Sizes::Ends(ends) = &run.sizes { size_of_val(&ends[..]) } else { 0 };
    size_of::<RunPage>() + sizes + 20 * run.dedup().count()
}

#[test]
fn a_topic_of_batches_with_dedup_ids_takes_no_more_than_any_other() {
    let mut house = House::new();
    for batch in 1..=60 {
        house.publish((0..1000).map(|_| 24), true, 0);
        if batch % 15 == 0 {
            house.look();
        }
    }
    assert!(house.page < BYTES && house.resident < BYTES, "{} and {} bytes", house.page, house.resident);
    assert!(house.resident > house.page / 2, "what it takes is known");
    house.drain();
}

/// Who publishes what waits already is told so, and none of it comes into memory for that.
#[test]
fn repeats_of_what_waits_in_line_bring_none_of_it() {
    let mut house = House::new();
    (0..60).for_each(|_| house.publish((0..1000).map(|_| 24), true, 0));
    let stored = house.stored();
    assert!(stored > 10, "most of it is in the store");
    let states = house.repeat((1..=house.published).step_by(50));
    assert_eq!(states, vec![MessageState::Waiting; 1200]);
    assert_eq!((house.stored(), house.bare.wanted()), (stored, vec![]));
    house.drain();
}

/// Those that are on their way are in several places: of a publish of thousands there are some thousands at a time.
#[test]
fn dedup_ids_of_a_publish_are_read_some_at_a_time() {
    const IDS: u64 = 9_000;
    const MOST: usize = 4096;
    let mut house = House::new();
    (0..IDS / 1000).for_each(|_| house.publish((0..1000).map(|_| 24), true, 0));
    house.write();
    house.bare.submit(publish((1..=IDS).map(|id| (Some(id), 24)), 0, None));
    let (mut reads, mut most) = (0, 0);
    loop {
        let wanted = house.bare.wanted();
        if wanted.is_empty() {
            break;
        }
        (reads, most) = (reads + wanted.len(), most.max(wanted.len()));
        house.bare.load(wanted);
    }
    assert_eq!(house.told().len() as u64, IDS);
    assert!(most <= MOST && reads as u64 == IDS, "{most} at a time, and {reads} in all");
    assert_eq!((house.bare.core.parked_count(), house.bare.core.parked_bytes()), (0, 0));
}

/// Those that have left the line while what is around them is in the store wait no more, and what is around them does.
#[test]
fn repeats_tell_what_has_ended_from_what_waits_around_it() {
    const BATCH: u64 = 100;
    let mut house = House::new();
    let mut short = Vec::new();
    for _ in 0..200 {
        house.publish((0..BATCH).map(|_| 24), true, 0);
        house.ttl = Some(MINUTE);
        house.publish([24].into_iter(), true, 0);
        house.ttl = None;
        short.push(house.published);
    }
    house.publish((0..BATCH).map(|_| 24), true, 0);
    house.pass(MINUTE.0 + 1);
    assert_eq!(house.turn(receive(0)), 0);
    assert!(house.stored() > 10, "most of it is in the store again");
    let states = house.repeat(short.iter().flat_map(|id| [id - 1, *id, id + 1]));
    let (waits, ended) = (MessageState::Waiting, MessageState::Ended);
    assert_eq!(states, [waits, ended, waits].repeat(short.len()));
    house.published -= short.len() as u64;
    house.drain();
}

#[test]
fn a_topic_of_messages_of_many_sizes_takes_no_more_than_a_few_of_its_frames() {
    const FRAME: usize = 20_000;
    let mut house = House::new();
    for frame in 1..=20 {
        house.publish((0..FRAME).map(|at| 1 + at * at % 5), false, 0);
        if frame % 5 == 0 {
            house.look();
        }
    }
    let most = 4 * 4 * FRAME;
    assert!(house.page < most && house.resident < most, "{} and {} bytes", house.page, house.resident);
    house.drain();
}

#[test]
fn delayed_batches_with_dedup_ids_leave_memory_and_are_back_in_time() {
    let mut house = House::new();
    for batch in 1..=60 {
        house.publish((0..1000).map(|_| 24), true, HOUR + batch);
        if batch % 15 == 0 {
            house.look();
        }
    }
    assert!(house.page < BYTES && house.resident < BYTES, "{} and {} bytes", house.page, house.resident);
    house.pass(2 * HOUR);
    house.drain();
}

#[test]
fn what_is_due_is_shown_behind_very_much_that_is_leased() {
    const LEASED: u64 = 70_000;
    let mut bare: Bare<Journal> = Bare::new();
    let mut leased = 0;
    // Of as many times to live, so that each message is a run of its own.
    for at in 0..LEASED {
        bare.submit(asked(&format!("publish a m ttl={}ms", 10 * HOUR + at)));
        if at % 1000 == 999 {
            bare.turn();
            bare.submit(asked("receive a max=1000 lease=1h"));
            leased += bare.turn().iter().map(|run| u64::from(run.count)).sum::<u64>();
        }
    }
    assert_eq!(leased, LEASED);
    bare.submit(asked("publish a d delay=1h"));
    bare.turn();
    bare.submit(asked("look a due=9"));
    let [Output::Reply { reply: Reply::Messages(found), .. }] = &bare.core.outputs()[..] else {
        panic!("{:?}", bare.core.outputs());
    };
    assert!(
        matches!(found[..], [ref due] if matches!(due.row.state, MessageState::Delayed { .. })),
        "{} rows",
        found.len()
    );
}
