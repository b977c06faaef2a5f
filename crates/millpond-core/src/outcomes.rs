//! What a producer's batch was told, kept small: a producer session keeps it for [`PRODUCER_WINDOW`] batches, of which
//! each may have made thousands of topics.
//!
//! Each run of outcomes is a byte of flags and what the flags say follows, all numbers LEB128. An id is told by how it
//! differs from the one expected: the next topic, the same priority, the sequence behind the messages before. So a
//! message that made its topic takes a byte.
//!
//! | flag | | follows |
//! |---|---|---|
//! | bits 0 and 1 | 0 queued, 1 duplicate, 2 refused, 3 coalesced | |
//! | 4 | more than one message | how many |
//! | 8 | another topic than expected | the difference, folded |
//! | 16 | another priority than expected | it |
//! | 32 | another sequence than expected | the difference, folded |
//! | | duplicate | its state: 0 waiting, 1 delayed and when it is due, 2 retrying, 3 leased, 4 dead, 5 ended, 6 retrying and when it is due |
//! | | coalesced | 0 if it was declined; else 1, and the priority and the sequence of what it replaced, that as the difference, folded |
//! | | refused | the number of the code, the length of the detail, the detail |
//!
//! A difference is taken modulo 2⁶⁴ and folded, so that small ones of either sign take one byte. The first id is
//! expected to be that of topic 1, the default priority and sequence 0. A state 2 is due at time zero: bytes of before
//! that time was kept have no other.
//!
//! [`PRODUCER_WINDOW`]: millpond_types::limits::PRODUCER_WINDOW

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use millpond_types::{
    Code, MessageId, MessageState, OutcomeRun, Priority, PublishOutcome, Sequence, TopicNumber, WallTime,
};

const QUEUED: u8 = 0;
const DUPLICATE: u8 = 1;
const REFUSED: u8 = 2;
const COALESCED: u8 = 3;
const KIND: u8 = 3;
const COUNT: u8 = 4;
const TOPIC: u8 = 8;
const PRIORITY: u8 = 16;
const SEQUENCE: u8 = 32;
const ALL: u8 = KIND | COUNT | TOPIC | PRIORITY | SEQUENCE;

/// The outcomes of one batch. Clones share their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcomes(Arc<[u8]>);

impl Outcomes {
    /// Of these runs.
    pub fn new(runs: &[OutcomeRun<PublishOutcome>]) -> Outcomes {
        let mut bytes = Vec::with_capacity(runs.len() + 16);
        let mut expected = FIRST;
        for run in runs {
            push(&mut bytes, run, &mut expected);
        }
        Outcomes(bytes.into())
    }

    /// Reads what [`Outcomes::as_bytes`] gave out; `None` if these are not such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Outcomes> {
        let mut reader = Reader { bytes, expected: FIRST };
        while !reader.bytes.is_empty() {
            reader.run()?;
        }
        Some(Outcomes(bytes.into()))
    }

    /// As they are kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The runs.
    pub fn runs(&self) -> impl Iterator<Item = OutcomeRun<PublishOutcome>> {
        let mut reader = Reader { bytes: &self.0, expected: FIRST };
        core::iter::from_fn(move || {
            let run = (!reader.bytes.is_empty()).then(|| reader.run());
            run.map(|run| run.expect("outcomes are checked when they are made"))
        })
    }

    /// How many messages the batch had.
    pub fn messages(&self) -> u64 {
        self.runs().map(|run| u64::from(run.count)).sum()
    }
}

const FIRST: MessageId = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(0) };

/// The id that is expected behind `count` messages from `id` on.
fn behind(id: MessageId, count: u32) -> MessageId {
    let topic = TopicNumber(id.topic.0.wrapping_add(1));
    MessageId { topic, sequence: Sequence(id.sequence.0.wrapping_add(u64::from(count))), ..id }
}

fn push(bytes: &mut Vec<u8>, run: &OutcomeRun<PublishOutcome>, expected: &mut MessageId) {
    let (kind, id) = match &run.outcome {
        PublishOutcome::Queued { id } => (QUEUED, *id),
        PublishOutcome::Duplicate { id, .. } => (DUPLICATE, *id),
        PublishOutcome::Coalesced { id, .. } => (COALESCED, *id),
        PublishOutcome::Refused { .. } => (REFUSED, *expected),
    };
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes.push(
        kind | flag(run.count != 1, COUNT)
            | flag(id.topic != expected.topic, TOPIC)
            | flag(id.priority != expected.priority, PRIORITY)
            | flag(id.sequence != expected.sequence, SEQUENCE),
    );
    if run.count != 1 {
        push_number(bytes, u64::from(run.count));
    }
    if id.topic != expected.topic {
        push_number(bytes, fold(id.topic.0.wrapping_sub(expected.topic.0)));
    }
    if id.priority != expected.priority {
        bytes.push(id.priority.level() as u8);
    }
    if id.sequence != expected.sequence {
        push_number(bytes, fold(id.sequence.0.wrapping_sub(expected.sequence.0)));
    }
    match &run.outcome {
        PublishOutcome::Queued { .. } => *expected = behind(id, run.count),
        PublishOutcome::Duplicate { state, .. } => {
            push_state(bytes, *state);
            *expected = behind(id, run.count);
        }
        PublishOutcome::Coalesced { replaced, .. } => {
            bytes.push(u8::from(replaced.is_some()));
            if let Some(MessageId { priority, sequence, .. }) = replaced {
                bytes.push(priority.level() as u8);
                push_number(bytes, fold(id.sequence.0.wrapping_sub(sequence.0)));
            }
            *expected = behind(id, run.count);
        }
        PublishOutcome::Refused { code, detail } => {
            push_number(bytes, u64::from(code.number()));
            push_number(bytes, detail.len() as u64);
            bytes.extend_from_slice(detail.as_bytes());
        }
    }
}

fn push_state(bytes: &mut Vec<u8>, state: MessageState) {
    match state {
        MessageState::Waiting => bytes.push(0),
        MessageState::Delayed { due } => {
            bytes.push(1);
            push_number(bytes, due.0);
        }
        MessageState::Retrying { due: WallTime(0) } => bytes.push(2),
        MessageState::Retrying { due } => {
            bytes.push(6);
            push_number(bytes, due.0);
        }
        MessageState::Leased => bytes.push(3),
        MessageState::Dead => bytes.push(4),
        MessageState::Ended => bytes.push(5),
    }
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Small differences of either sign as small numbers.
fn fold(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

fn unfold(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

struct Reader<'a> {
    bytes: &'a [u8],
    expected: MessageId,
}

impl<'a> Reader<'a> {
    fn run(&mut self) -> Option<OutcomeRun<PublishOutcome>> {
        let flags = self.byte()?;
        if flags & !ALL != 0 {
            return None;
        }
        let count = if flags & COUNT != 0 { u32::try_from(self.number()?).ok()? } else { 1 };
        let mut id = self.expected;
        if flags & TOPIC != 0 {
            id.topic = TopicNumber(id.topic.0.wrapping_add(unfold(self.number()?)));
        }
        if flags & PRIORITY != 0 {
            id.priority = Priority::new(self.byte()?)?;
        }
        if flags & SEQUENCE != 0 {
            id.sequence = Sequence(id.sequence.0.wrapping_add(unfold(self.number()?)));
        }
        let outcome = match flags & KIND {
            QUEUED => PublishOutcome::Queued { id },
            DUPLICATE => PublishOutcome::Duplicate { id, state: self.state()? },
            REFUSED => {
                let code = Code::from_number(u16::try_from(self.number()?).ok()?)?;
                let length = usize::try_from(self.number()?).ok()?;
                let (detail, rest) = self.bytes.split_at_checked(length)?;
                self.bytes = rest;
                PublishOutcome::Refused { code, detail: String::from(core::str::from_utf8(detail).ok()?) }
            }
            COALESCED => PublishOutcome::Coalesced { id, replaced: self.replaced(id)? },
            _ => unreachable!("a kind has two bits"),
        };
        if flags & KIND != REFUSED {
            self.expected = behind(id, count);
        }
        Some(OutcomeRun { count, outcome })
    }

    #[expect(clippy::option_option, reason = "it may be unreadable, and it may be none")]
    fn replaced(&mut self, id: MessageId) -> Option<Option<MessageId>> {
        match self.byte()? {
            0 => Some(None),
            1 => {
                let priority = Priority::new(self.byte()?)?;
                let sequence = Sequence(id.sequence.0.wrapping_sub(unfold(self.number()?)));
                Some(Some(MessageId { priority, sequence, ..id }))
            }
            _ => None,
        }
    }

    fn state(&mut self) -> Option<MessageState> {
        Some(match self.byte()? {
            0 => MessageState::Waiting,
            1 => MessageState::Delayed { due: WallTime(self.number()?) },
            2 => MessageState::Retrying { due: WallTime(0) },
            3 => MessageState::Leased,
            4 => MessageState::Dead,
            5 => MessageState::Ended,
            6 => MessageState::Retrying { due: WallTime(self.number()?) },
            _ => return None,
        })
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
