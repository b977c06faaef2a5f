//! What the looking verbs show. All of one answer is of one journal position.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::id::{MessageId, Priority, Sequence};
use crate::limits::{
    GROUPS_MAX, PAGE_BYTES_MAX, PAGE_MAX, PUBLISH_BYTES_MAX, REASON_MAX, RULES_MAX, SHORT_NAME_MAX, TOPIC_NAME_MAX,
};
use crate::name::{GroupName, NamespaceName, TopicName};
use crate::office::OfficeView;
use crate::outcome::MessageState;
use crate::paused::Pause;
use crate::policy::Policy;
use crate::rule::Rules;
use crate::start::Start;
use crate::time::WallTime;

/// What a view takes in a frame at most, its names, texts and messages apart.
const FIXED: usize = 256;

/// One row fits a page, whatever it holds.
const _: () = {
    // What is not UTF-8 is told as U+FFFD, which is three bytes for one.
    assert!(2 * FIXED + TOPIC_NAME_MAX + 3 * REASON_MAX + PUBLISH_BYTES_MAX <= PAGE_BYTES_MAX);
    let rules = RULES_MAX * (FIXED + TOPIC_NAME_MAX);
    let groups = GROUPS_MAX * (2 * FIXED + 2 * SHORT_NAME_MAX + TOPIC_NAME_MAX);
    let paused = PAGE_MAX * (FIXED + TOPIC_NAME_MAX);
    assert!(2 * FIXED + SHORT_NAME_MAX + rules + groups + paused <= PAGE_BYTES_MAX);
};

/// How many messages of a group are in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Ready, or would be if their topics were not paused or at their limit.
    pub waiting: u64,
    /// Not due yet.
    pub delayed: u64,
    /// Waiting out a back-off.
    pub retrying: u64,
    /// Leased to consumers.
    pub leased: u64,
    /// Dead letters.
    pub dead: u64,
}

impl Counts {
    /// Messages that may still be delivered. Zero means that the work is done.
    pub fn unfinished(&self) -> u64 {
        self.waiting + self.delayed + self.retrying + self.leased
    }
}

/// What has become in a group of the messages that were published since it was made, or that it was given as it started, as far
/// as policies decide it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Stored.
    pub accepted: u64,
    /// Not stored, because another one waited.
    pub declined: u64,
    /// Stored, and ended because a later one took their place: work that nobody had to do.
    pub superseded: u64,
    /// Stored, and ended because there were too many.
    pub dropped: u64,
    /// Stored, and ended because a group held more, or for longer, than it is to keep.
    pub retained_out: u64,
}

/// What a namespace holds of what its [quotas](crate::Quotas) limit. Of several groups the one that holds most counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Messages, dead letters among them.
    pub messages: u64,
    /// Bytes of these messages, as they lie in the journal.
    pub bytes: u64,
    /// Topics that exist now.
    pub topics: u64,
    /// Connections of clients; zero until the edge has filled it in, which alone knows of them.
    pub connections: u64,
}

impl Usage {
    /// The larger of each.
    pub fn most(self, other: Usage) -> Usage {
        Usage {
            messages: self.messages.max(other.messages),
            bytes: self.bytes.max(other.bytes),
            topics: self.topics.max(other.topics),
            connections: self.connections.max(other.connections),
        }
    }
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceView {
    /// Its name.
    pub name: NamespaceName,
    /// Its policy.
    pub policy: Policy,
    /// What it says otherwise for some topics.
    pub rules: Rules,
    /// Grows with each change of the policy or the rules.
    pub version: u64,
    /// What it holds of what its quotas limit.
    pub usage: Usage,
    /// Its groups, `default` first.
    pub groups: Vec<GroupView>,
    /// The offices of exclusive groups.
    pub offices: Vec<OfficeView>,
    /// What is paused, in order.
    pub paused: Vec<Pause>,
    /// The journal position that all of this is true of.
    pub position: u64,
}

impl NamespaceView {
    /// What it takes in a frame at most.
    pub fn frame_bytes(&self) -> usize {
        let rules = self.rules.iter().map(|rule| FIXED + rule.pattern.name.as_bytes().len());
        let groups = self.groups.iter().map(|group| {
            let reached = group.reached.as_ref().map_or(0, |name| name.as_bytes().len());
            FIXED + group.name.as_bytes().len() + reached
        });
        let offices = self.offices.iter().map(|office| FIXED + office.group.as_bytes().len());
        let paused = self.paused.iter().map(|pause| 12 + pause.topics.as_bytes().len());
        let lists = rules.sum::<usize>() + groups.sum::<usize>() + offices.sum::<usize>() + paused.sum::<usize>();
        2 * FIXED + self.name.as_bytes().len() + lists
    }
}

/// A group of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupView {
    /// Its name.
    pub name: GroupName,
    /// Where it began.
    pub start: Start,
    /// Whether it is still being given what it begins with.
    pub is_starting: bool,
    /// The topic that this has come to, in the order of names; `None` at its beginning, and when it is over.
    pub reached: Option<TopicName>,
    /// What its messages are doing.
    pub counts: Counts,
    /// What has become of what was published since it was made.
    pub tally: Tally,
}

/// A topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicView {
    /// Its name.
    pub name: TopicName,
    /// Whether deliveries are paused, by name or by a prefix.
    pub paused: bool,
    /// In listings messages of the group that was asked for, else of the first group that has the topic; `dead` is zero here, dead
    /// letters do not belong to a topic.
    pub counts: Counts,
    /// When the oldest message that waits was published; `None` if none waits.
    pub oldest: Option<WallTime>,
    /// When the first of its messages that are delayed or in retry is due; `None` if none is.
    pub due: Option<WallTime>,
    /// Cursors per group and priority in use; empty in listings, filled where one topic is asked for.
    pub cursors: Vec<GroupCursors>,
}

/// What puts a topic before others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopBy {
    /// How many messages wait.
    Depth,
    /// How long ago the oldest message that waits was published.
    Age,
    /// How soon the first of its messages that are delayed or in retry is due.
    Due,
}

/// How far a group has come in one priority of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupCursors {
    /// The group.
    pub group: GroupName,
    /// The priority.
    pub priority: Priority,
    /// The next sequence that was never looked at; 0 until the start of the group has come to the topic.
    pub scan: Sequence,
    /// Every sequence before this one is finished: the watermark. 0 until then, too.
    pub completion: Sequence,
    /// The next sequence that a publish will get.
    pub next: Sequence,
    /// Messages that are not finished: how far it is behind.
    pub lag: u64,
}

/// A message, looked at without leasing it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageView {
    /// Its id.
    pub id: MessageId,
    /// Where it is.
    pub state: MessageState,
    /// When it was published.
    pub published: WallTime,
    /// When its TTL passes.
    pub expires: Option<WallTime>,
    /// Times it was delivered.
    pub deliveries: u32,
    /// Failures so far.
    pub failures: u32,
    /// Bytes of its block, wherever that is.
    pub bytes: u32,
    /// The message in block form ([`crate::block`]); empty until the shell has read it from the journal, and where an answer
    /// has no room for it or it cannot be read.
    pub block: Bytes,
}

impl MessageView {
    /// What it takes in a frame at most, its block apart.
    pub fn frame_bytes(&self) -> usize {
        FIXED
    }
}

/// A dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadView {
    /// The topic it came from.
    pub topic: TopicName,
    /// The message; `state` is [`MessageState::Dead`].
    pub message: MessageView,
    /// Why it was given up on: `rejected`, `failed`, `lease_expired`, `expired` or `damaged`.
    pub reason: String,
    /// What the consumer said, if anything.
    pub detail: String,
    /// When it was given up on.
    pub died: WallTime,
}

impl DeadView {
    /// What it takes in a frame at most, its message's block apart.
    pub fn frame_bytes(&self) -> usize {
        FIXED + self.message.frame_bytes() + self.topic.as_bytes().len() + self.reason.len() + self.detail.len()
    }
}
