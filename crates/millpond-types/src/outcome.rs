//! What became of each message of a publish and of each receipt of a finish, as runs of equal neighbours.

use alloc::string::String;

use crate::code::Code;
use crate::id::MessageId;
use crate::time::WallTime;

/// `count` neighbours of a batch with one outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutcomeRun<T> {
    /// How many messages or receipts, at least one.
    pub count: u32,
    /// What became of them.
    pub outcome: T,
}

/// What became of a message that was published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishOutcome {
    /// Stored. In a run, `id` is the first message's; the sequences of the others follow it one by one.
    Queued {
        /// The message, or the first of the run.
        id: MessageId,
    },
    /// Its dedup id was seen before; nothing was stored.
    Duplicate {
        /// The message that the dedup id came with.
        id: MessageId,
        /// Where that message is now.
        state: MessageState,
    },
    /// Another message of its topic waits, or waited: one of the two stands for both.
    Coalesced {
        /// The message that waits now.
        id: MessageId,
        /// The message that it took the place of; `None` where it had been there, and this one was not stored.
        replaced: Option<MessageId>,
    },
    /// Not stored.
    Refused {
        /// Why.
        code: Code,
        /// The same in words, with what to do.
        detail: String,
    },
}

/// What became of a receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FinishOutcome {
    /// The verb was carried out. What was given back may have ended by it: its TTL was over, or a newer message stood for it.
    Done,
    /// The verb was carried out, and the message is a dead letter now: it failed once too often, was rejected, or was given
    /// back after its TTL where the policy keeps what expires.
    Dead,
    /// The lease is not current: it was finished, expired or taken over. Or it was not extended, because its session is over
    /// and it is about to end.
    LeaseLost,
    /// The lease is current, and stays so: another part of the same call was refused, so nothing of it was done.
    Kept,
    /// The lease is current and was not extended: its session has lost the office of the group. It can be finished for as
    /// long as it lasts.
    Deposed,
    /// The lease is current, and stays so: it is of a run, and what comes before it there is not finished.
    OutOfOrder,
}

/// Where a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageState {
    /// Ready for delivery, or would be if its topic were not paused or at its limit.
    Waiting,
    /// Published with a delay that has not passed.
    Delayed {
        /// When it becomes ready.
        due: WallTime,
    },
    /// Failed or released with a delay, and waiting out its pause.
    Retrying {
        /// When that is over if the broker runs until then without a break: a pause runs in run time.
        due: WallTime,
    },
    /// Leased to a consumer.
    Leased,
    /// A dead letter.
    Dead,
    /// Finished: nothing is left but, perhaps, its dedup id.
    Ended,
}

/// Why a message ended. *Lost* is any other end, and there is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EndReason {
    /// A consumer finished it.
    Acked,
    /// It is a dead letter that was purged, or its group is gone.
    Dead,
    /// It was cancelled by id.
    Cancelled,
    /// Its TTL passed.
    Expired,
    /// It was purged with others.
    Purged,
    /// It was delivered to a consumer that takes each message at most once.
    Delivered,
    /// A later message of its topic took its place.
    Superseded,
    /// Its topic held more than it may, and others came.
    Dropped,
    /// Its group held more, or for longer, than it is to keep of what nobody takes.
    RetainedOut,
}
