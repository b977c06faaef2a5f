//! What a connection has received and is not a whole frame yet, and the room that all connections share for it.
//!
//! The beginning of a small frame may always be held, so acks and heartbeats come in whatever other clients do. For more
//! a connection needs *room* of a bound that is common to all. A larger frame takes what it needs at once, and waits its
//! turn for it holding none: so whoever has room can finish with it, and nobody waits for somebody who waits. A busy
//! connection that reads many frames at a time uses what is left for that, and does with little where nothing is.
//!
//! A large frame that carries messages needs room of a second bound before that, and its connection has this until the writer has
//! taken what it asks: while publishes wait, each of very many connections would hold one otherwise. Publishes have one such bound and
//! forwards another, for these may be all that ends the leases for which publishes wait.
//!
//! Who waits is read again as soon as it has room. Where it has waited long and next to nothing of its frame is there by then, its client
//! lets the frame stand half sent, and is closed while others wait ([`LONG`], [`FITTING`]).
//!
//! Invariant: buffers of all connections together take no more than the room and [`SMALL`] for each. A connection that
//! waits is not read. Taking frames out of the bytes is left to the decoder.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use millpond_protocol::{FORWARDING, PUBLISHING};
use millpond_types::limits::FRAME_MAX;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;

use super::room::{Held, Room, SMALL, Turn};
use super::turns::Length;

/// Bytes of a read, and room for one of a busy connection: as much as a connection may do in a turn.
const READ_MAX: usize = Length::WHOLE.bytes;

/// Room for what all connections have received in part.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    /// For frames that were announced.
    frames: Arc<Room>,
    /// For reads of many frames at a time; never waited for.
    bursts: Arc<Room>,
    /// For frames with messages, until the writer has them: publishes, and forwards.
    messages: [Arc<Room>; 2],
}

impl Receiving {
    /// Bytes below which the largest frame would not fit.
    pub(crate) const MIN: usize = FRAME_MAX + 4 + BURSTS_MIN;

    /// Divides so many bytes, at least [`Receiving::MIN`]. What connections hold for the writer may take about as many as `held`.
    pub(crate) fn new(bytes: usize, held: usize) -> Receiving {
        assert!(bytes >= Receiving::MIN, "every frame finds room once it is alone");
        let (frames, messages) = ((bytes / 2).max(FRAME_MAX + 4), held.max(FRAME_MAX + 4));
        let messages = [messages; 2].map(Room::new);
        Receiving { frames: Room::new(frames), bursts: Room::new(bytes - frames), messages }
    }
}

/// Enough for some busy connections.
const BURSTS_MIN: usize = 4 * READ_MAX;

/// Who has waited for room as long as this has sent what fits the system's buffers, if it sends anything.
const LONG: Duration = Duration::from_secs(1);
/// So much of a frame fits these, whatever the system.
const FITTING: usize = 32 * 1024;

/// What one connection has received.
pub(crate) struct Intake {
    pub(crate) bytes: BytesMut,
    /// Bytes of the memory that they are a part of. What was taken out of it may hold all of it.
    whole: usize,
    room: Receiving,
    /// How much the next read asks for.
    read_size: usize,
    /// Room for many frames at a time, and how much of it is space behind the frame that is coming in.
    burst: Option<(Held, usize)>,
    /// Room for the frame that is coming in.
    frame: Option<Held>,
    /// Room for what it asks, if it carries messages, and of which of the bounds.
    messages: Option<(usize, Held)>,
    /// The same of either, for what the writer has not taken yet.
    kept: [Option<Held>; 2],
    /// What is waited for: room for a frame with messages, or then for the frame.
    turn: Option<(Stage, Turn)>,
    /// Since when.
    asked: Option<Instant>,
    /// Whether that took [`LONG`], and it is still to be seen what was sent meanwhile.
    is_late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Messages(usize),
    Frame,
}

/// What a read brought.
pub(crate) enum Brought {
    /// So many bytes.
    Something(usize),
    /// The socket has nothing for now.
    Nothing,
    /// The stream has ended.
    End,
}

impl Intake {
    pub(crate) fn new(room: Receiving) -> Intake {
        let (bytes, burst, frame, messages, turn, asked) = (BytesMut::new(), None, None, None, None, None);
        let (whole, read_size, kept, is_late) = (0, SMALL, [None, None], false);
        Intake { bytes, whole, room, read_size, burst, frame, messages, kept, turn, asked, is_late }
    }

    /// What was received, and how large the memory is that it is a part of.
    pub(crate) fn received(&mut self) -> (&mut BytesMut, usize) {
        (&mut self.bytes, self.whole)
    }

    fn replace(&mut self, bytes: BytesMut) {
        self.whole = bytes.capacity();
        self.bytes = bytes;
    }

    /// Whether a frame waits for room. Nothing is read meanwhile.
    pub(crate) fn is_waiting(&self) -> bool {
        self.turn.is_some()
    }

    /// Resolves when the frame that waits has its room.
    pub(crate) async fn granted(&mut self) {
        let Some((stage, turn)) = &mut self.turn else { return std::future::pending().await };
        let (stage, held) = (*stage, poll_fn(|context| turn.poll(context)).await);
        self.turn = None;
        match stage {
            Stage::Messages(bound) => {
                self.messages = Some((bound, held));
                self.ask_for_room();
            }
            Stage::Frame => {
                self.burst = None;
                self.take_room(held);
            }
        }
    }

    /// Reads once, at most so many bytes.
    pub(crate) async fn read(&mut self, stream: &mut ReadHalf<'_>, most: usize) -> Brought {
        self.make_space();
        let space = (self.bytes.capacity() - self.bytes.len()).min(most);
        // Not `try_read`: this way tokio takes a read that does not fill the buffer as the end of what is there, and
        // saves the second call that only finds that out.
        let mut buffer = (&mut self.bytes).limit(space);
        let read = poll_fn(|context| match pin!(stream.read_buf(&mut buffer)).poll(context) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => Poll::Ready(None),
        });
        let read: Option<io::Result<usize>> = read.await;
        let bytes = match read {
            None => {
                self.settle();
                self.look_at_late(Instant::now());
                return Brought::Nothing;
            }
            Some(Ok(0) | Err(_)) => return Brought::End,
            Some(Ok(bytes)) => bytes,
        };
        if bytes >= space {
            self.read_size = (self.read_size * 2).min(READ_MAX);
        } else if bytes < self.read_size / 4 {
            self.read_size = (self.read_size / 2).max(SMALL);
        }
        let of_messages = self.messages.iter_mut().map(|(_, held)| held);
        self.frame.iter_mut().chain(of_messages).for_each(|held| held.used(bytes));
        if bytes < space {
            self.look_at_late(Instant::now());
        }
        Brought::Something(bytes)
    }

    /// To be called when all whole frames are taken out: gives back the room that is not needed, and asks for what the
    /// next frame needs.
    pub(crate) fn settle(&mut self) {
        let needed = self.needed();
        if needed <= SMALL {
            self.frame = None;
            if self.whole > SMALL || self.bytes.is_empty() {
                // What is left is little and must not keep the buffer of a burst. A connection that rests holds none.
                self.replace(BytesMut::from(&self.bytes[..]));
            }
            self.burst = None;
            return;
        }
        let has_room = self.messages.is_some() || self.carried().is_none();
        if let Some(held) = self.frame.take_if(|held| has_room && held.is_enough(needed)) {
            if self.bytes.capacity() >= needed {
                self.frame = Some(held);
            } else {
                self.take_room(held);
            }
            return;
        }
        // Who asks for room has given back what it had.
        self.frame = None;
        self.ask_for_room();
    }

    /// The frame at the front was taken out, and what it asks is with the connection.
    pub(crate) fn taken(&mut self) {
        let Some((bound, held)) = self.messages.take() else { return };
        match &mut self.kept[bound] {
            Some(kept) => kept.merge(held),
            kept => *kept = Some(held),
        }
    }

    /// Of what was taken out, the writer has all but so many bytes of publishes, and of forwards. Who always has a little that waits
    /// keeps room for no more.
    pub(crate) fn told(&mut self, held: [usize; 2]) {
        for (kept, held) in self.kept.iter_mut().zip(held) {
            match kept {
                Some(kept) if held > 0 => kept.shrink(held),
                kept => *kept = None,
            }
        }
    }

    /// All that has come is read. Who has waited long for the room, and sent next to nothing of the frame meanwhile, lets it stand.
    fn look_at_late(&mut self, now: Instant) {
        let least = self.needed().min(FITTING);
        if std::mem::take(&mut self.is_late) && self.bytes.len() < least {
            let of_messages = self.messages.iter_mut().map(|(_, held)| held);
            self.frame.iter_mut().chain(of_messages).for_each(|held| held.was_left(now));
        }
    }

    /// Asks for room for the large frame at the front: for what it asks, and then for itself.
    fn ask_for_room(&mut self) {
        let needed = self.needed();
        self.asked.get_or_insert_with(Instant::now);
        if let (None, Some(bound)) = (&self.messages, self.carried()) {
            let room = &self.room.messages[bound];
            let Some(held) = room.try_take(needed) else {
                self.turn = Some((Stage::Messages(bound), room.wait(needed)));
                return;
            };
            self.messages = Some((bound, held));
        }
        match self.room.frames.try_take(needed) {
            Some(held) => self.take_room(held),
            None => self.turn = Some((Stage::Frame, self.room.frames.wait(needed))),
        }
    }

    /// The client took so many bytes of what it was told.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.kept.iter_mut().flatten().for_each(|kept| kept.used(bytes));
    }

    /// When [`Intake::is_overdue`] is to be asked, and [`Intake::is_left_unread`] where the client leaves its answers unread, if ever.
    pub(crate) fn deadline(&self, is_stuck: bool) -> Option<Instant> {
        let of_messages = self.messages.iter().map(|(_, held)| held);
        let of_frame = self.frame.iter().chain(of_messages.filter(|_| self.frame.is_some()));
        let kept = self.kept.iter().flatten().filter(|_| is_stuck);
        of_frame.chain(kept).map(Held::look).min()
    }

    /// Whether what it asked waits for the client to read, as `is_stuck` says that its answers do now, who hardly does so while
    /// others wait for the room.
    pub(crate) fn is_left_unread(&mut self, is_stuck: bool, now: Instant) -> bool {
        self.kept.iter_mut().flatten().fold(false, |overdue, kept| kept.is_left_unread(is_stuck, now) | overdue)
    }

    /// Whether the frame takes too long while others wait for its room.
    pub(crate) fn is_overdue(&mut self, now: Instant) -> bool {
        let Some(frame) = &mut self.frame else { return false };
        let is_overdue = frame.is_overdue(now);
        self.messages.as_mut().is_some_and(|(_, held)| held.is_overdue(now)) || is_overdue
    }

    /// Moves the frame to a buffer that has space for the whole of it, and for what a busy connection reads behind it.
    fn take_room(&mut self, held: Held) {
        let behind = self.burst.as_ref().map_or(0, |(_, bytes)| *bytes);
        let mut whole = BytesMut::with_capacity(self.needed() + behind);
        whole.extend_from_slice(&self.bytes);
        self.replace(whole);
        self.frame = Some(held);
        self.is_late = self.asked.take().is_some_and(|asked| asked.elapsed() >= LONG);
        // The others have waited since its first bytes, and it could not be made use of.
        self.messages.iter_mut().for_each(|(_, held)| held.begin(Instant::now()));
    }

    /// Makes space for a read: for the rest of the frame that has room, else as much as the connection is busy, where
    /// there is room for that.
    fn make_space(&mut self) {
        if self.frame.is_some() {
            assert!(self.bytes.len() < self.bytes.capacity(), "a frame that is whole was taken out");
            return;
        }
        if self.read_size > SMALL && self.burst.is_none() {
            // A part of a small frame may be before it.
            let held = self.room.bursts.try_take(self.read_size + SMALL);
            self.burst = held.map(|held| (held, self.read_size));
        }
        let little = SMALL - self.bytes.len();
        let before = self.bytes.as_ptr();
        self.bytes.reserve(self.burst.as_ref().map_or(little, |(_, bytes)| *bytes));
        if self.bytes.as_ptr() != before || self.bytes.capacity() > self.whole {
            // They are somewhere else, or in front of it again.
            self.whole = self.bytes.capacity();
        }
    }

    /// Bytes of the frame at the front, once it is known what it is.
    fn needed(&self) -> usize {
        let Some([length @ .., _]) = self.bytes.first_chunk::<5>() else { return 0 };
        u32::from_le_bytes(*length) as usize + 4
    }

    /// Which bound the frame at the front has to do with, if it carries messages.
    fn carried(&self) -> Option<usize> {
        let kind = self.bytes.get(4).filter(|kind| PUBLISHING.contains(kind))?;
        Some(usize::from(FORWARDING.contains(kind)))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// A frame of so many bytes, of which the first `have` have come.
    fn announce(intake: &mut Intake, bytes: usize, have: usize) {
        announce_kind(intake, 0, bytes, have);
    }

    fn announce_kind(intake: &mut Intake, kind: u8, bytes: usize, have: usize) {
        let length = (bytes - 4) as u32;
        intake.bytes.extend_from_slice(&length.to_le_bytes());
        intake.bytes.extend_from_slice(&[kind]);
        intake.bytes.resize(have, 0);
        intake.settle();
    }

    /// The frame at the front is whole, and was taken out.
    fn take(intake: &mut Intake) {
        intake.bytes.clear();
        intake.taken();
        intake.settle();
    }

    fn is_granted(intake: &mut Intake) -> bool {
        pin!(intake.granted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn large_frames_wait_their_turn_and_small_ones_do_not() {
        let room = Receiving::new(Receiving::MIN, 0);
        let mut intakes: Vec<Intake> = (0..4).map(|_| Intake::new(room.clone())).collect();
        let [first, second, third, small] = &mut intakes[..] else { unreachable!() };
        announce(first, FRAME_MAX, 100);
        announce(second, FRAME_MAX, 100);
        announce(third, SMALL + 1, 100);
        announce(small, SMALL, 100);
        assert!(!first.is_waiting() && second.is_waiting() && !small.is_waiting());
        assert!(third.is_waiting(), "what needs little does not overtake what has waited longer");
        assert!(!is_granted(second));
        // The first one's frame is whole and was taken out.
        first.bytes.clear();
        first.settle();
        assert!(is_granted(second) && !second.is_waiting());
        assert_eq!(second.bytes.len(), 100, "what had come is still there");
        assert!(!is_granted(third));
        intakes.remove(1);
        assert!(is_granted(&mut intakes[1]), "a connection that ends gives its room back");
    }

    /// Very many that stand half sent are over as soon as it is their turn, and not one after the other.
    #[test]
    fn who_has_waited_long_and_sent_nothing_meanwhile_holds_room_no_longer() {
        let room = Receiving::new(Receiving::MIN, 0);
        let [mut first, mut idle, mut busy, mut last] = [(); 4].map(|()| Intake::new(room.clone()));
        let now = Instant::now();
        announce(&mut first, FRAME_MAX, SMALL);
        for waiting in [&mut idle, &mut busy, &mut last] {
            announce(waiting, FRAME_MAX, SMALL);
            waiting.asked = now.checked_sub(LONG);
        }
        first.look_at_late(now);
        assert!(!first.is_overdue(now), "it had its room at once");
        drop(first);
        assert!(is_granted(&mut idle));
        idle.look_at_late(now);
        assert!(idle.is_overdue(now));
        drop(idle);
        assert!(is_granted(&mut busy));
        busy.bytes.resize(FITTING, 0);
        busy.look_at_late(now);
        assert!(!busy.is_overdue(now), "its client is at work");
    }

    /// Forwards of a client that does not read go no further, and what they hold others may wait for.
    #[test]
    fn who_leaves_answers_unread_does_not_hold_for_long_what_others_wait_for() {
        let room = Receiving::new(Receiving::MIN, 0);
        let [mut unread, mut other] = [(); 2].map(|()| Intake::new(room.clone()));
        let begin = Instant::now();
        announce_kind(&mut unread, FORWARDING[0], FRAME_MAX, 100);
        take(&mut unread);
        let later = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(unread.deadline(false), None);
        assert!(!unread.is_left_unread(true, begin) && !unread.is_left_unread(true, later(10)), "nobody waits");
        announce_kind(&mut other, FORWARDING[1], FRAME_MAX, 100);
        assert!(other.is_waiting());
        assert!(!unread.is_left_unread(false, later(20)), "nor is it due to its client");
        assert!(!unread.is_left_unread(true, later(21)) && !unread.is_left_unread(true, later(22)));
        assert!(unread.deadline(true).is_some());
        unread.wrote(FRAME_MAX / 2);
        assert!(!unread.is_left_unread(true, later(31)), "it reads");
        assert!(unread.is_left_unread(true, later(41)));
    }

    #[test]
    fn large_publishes_wait_for_those_that_the_writer_has_not_taken_and_acks_do_not() {
        let room = Receiving::new(Receiving::MIN, 0);
        let mut intakes: Vec<Intake> = (0..4).map(|_| Intake::new(room.clone())).collect();
        let [first, second, acks, forwards] = &mut intakes[..] else { unreachable!() };
        let publish = |intake: &mut Intake| announce_kind(intake, PUBLISHING[0], FRAME_MAX, 100);
        publish(first);
        assert!(!first.is_waiting());
        take(first);
        publish(second);
        assert!(second.is_waiting() && !is_granted(second), "the writer has not taken the first");
        announce(acks, FRAME_MAX, 100);
        assert!(!acks.is_waiting(), "room for frames is no matter of publishes");
        take(acks);
        announce_kind(forwards, FORWARDING[0], FRAME_MAX, 100);
        assert!(!forwards.is_waiting(), "they may be all that lets publishes go on");
        take(forwards);
        announce(acks, FRAME_MAX, 100);
        first.told([FRAME_MAX, 0]);
        assert!(!is_granted(second));
        first.told([4, 0]);
        assert!(is_granted(second) && second.is_waiting(), "now it waits for room as any other");
        take(acks);
        assert!(is_granted(second) && !second.is_waiting());
        // One that goes on with what it has room for asks for no more, and the next frame does.
        second.settle();
        assert!(!second.is_waiting());
        take(second);
        publish(second);
        assert!(second.is_waiting());
        assert!(!is_granted(second));
        second.told([0, 4]);
        assert!(is_granted(second) && !second.is_waiting());
    }

    #[test]
    fn a_connection_that_rests_holds_nothing() {
        let room = Receiving::new(Receiving::MIN, 0);
        let mut intake = Intake::new(room.clone());
        intake.read_size = READ_MAX;
        intake.make_space();
        assert!(intake.bytes.capacity() >= READ_MAX && room.bursts.free() < BURSTS_MIN);
        announce(&mut intake, 1000, 10);
        assert!(intake.bytes.capacity() <= SMALL, "a part of a small frame does not keep a burst's buffer");
        assert_eq!(room.bursts.free(), BURSTS_MIN);
        intake.bytes.clear();
        intake.settle();
        assert_eq!(intake.bytes.capacity(), 0);
    }

    #[test]
    fn what_is_left_of_a_buffer_is_known_to_be_a_part_of_it() {
        const LARGE: usize = 4 * READ_MAX;
        let mut intake = Intake::new(Receiving::new(Receiving::MIN, 0));
        intake.read_size = READ_MAX;
        intake.make_space();
        announce(&mut intake, LARGE, 100);
        intake.bytes.resize(LARGE, 0);
        intake.bytes.extend_from_slice(&5000u32.to_le_bytes());
        intake.bytes.extend_from_slice(&[0]);
        let taken = intake.bytes.split_to(LARGE).freeze();
        intake.settle();
        let (bytes, whole) = intake.received();
        assert!(bytes.capacity() < LARGE && whole >= LARGE, "{whole} bytes, and {} are left", bytes.capacity());
        drop(taken);
        // A small one takes nothing of it along.
        intake.bytes.clear();
        announce(&mut intake, 1000, 10);
        assert!(intake.received().1 <= SMALL);
    }

    #[test]
    fn where_no_room_is_left_reads_are_small() {
        let room = Receiving::new(Receiving::MIN, 0);
        let all = room.bursts.try_take(BURSTS_MIN).unwrap();
        let mut intake = Intake::new(room);
        intake.read_size = READ_MAX;
        intake.make_space();
        assert!(intake.bytes.capacity() <= SMALL);
        drop(all);
    }
}
