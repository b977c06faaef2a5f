//! Every frame of the protocol, as data. `docs/protocol.md` says what each byte is; `table.rs` which number each has
//! and in which order its fields stand.
//!
//! `B` is the form of a publish's blocks: [`Bytes`] as a client sends them, [`crate::Block`] as the broker takes them in.

mod consuming;
mod naming;
mod publishing;

use bytes::Bytes;
use millpond_types::{
    Binding, Code, DeadView, ExchangeKind, ExchangeName, ExchangeView, Filter, FinishOutcome, GroupKind, GroupName,
    LeaderEpoch, MessageId, MessageView, Millis, NamespaceName, NamespaceView, OutcomeRun, PausedTopics, Policy,
    PublishOutcome, Receipt, Rules, SessionId, Standing, Start, TopBy, TopicName, TopicView, Unroutable,
};

pub use consuming::{Attach, Finish, FinishVerb, LeasedRun, Receive};
pub use naming::{DeadWhich, Listing, LookWhich, TopicRef, Which};
pub use publishing::{Forward, ForwardRoute, Level, ProducerBatch, Publish, PublishRun, Route};

/// The protocol's version, told in [`Request::Hello`].
pub const VERSION: u16 = 1;

/// A frame from the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<B = Bytes> {
    /// The first frame of a connection. Nothing has to be waited for before the next frame is sent.
    Hello {
        /// The version that the client speaks.
        version: u16,
        /// The client's name and version, for the broker's log.
        client: String,
    },
    /// Asks for [`Response::Pong`].
    Ping,
    /// Stores messages. Answered by [`Response::Published`] when the level allows, or [`Response::Error`] for the whole.
    Publish(Publish<B>),
    /// Acks leases and stores messages, all of it or nothing. Answered by [`Response::Forwarded`], when that is durable, or
    /// [`Response::Error`].
    Forward(Forward<B>),
    /// Acks leases and gives a message to the topics that an exchange leads to, all of it or nothing. Answered by
    /// [`Response::ForwardRouted`], or [`Response::Forwarded`] where there are no topics to name, when that is durable; or by
    /// [`Response::Error`].
    ForwardRoute(ForwardRoute<B>),
    /// Gives a message to the topics that an exchange leads to, all of them or none. Answered by [`Response::Published`], with
    /// an outcome for each topic, when the level allows, or [`Response::Error`].
    Route(Route<B>),
    /// Leases messages once. Answered by [`Response::Received`].
    Receive(Receive),
    /// A verb on receipts. Answered by [`Response::Finished`] if `confirm` is set, and by [`Response::Error`] if it was refused
    /// as a whole, also without. For each receipt that names no current lease, here and in a forward, the broker does not read
    /// the connection for 10 µs, a quarter of a second at most; likewise for each that it looked at until it came to one of
    /// another namespace.
    Finish(Finish),
    /// Begins a consumer session on this connection, or resumes the one named. Answered by [`Response::SessionBegun`].
    SessionBegin {
        /// The session to resume, zero for a new one.
        session: SessionId,
        /// How long after a lost connection the session may be resumed; zero for the broker's default of 10 s.
        resume: Millis,
        /// When resuming, the leases that the client still holds, as runs like those of [`Finish::receipts`]. The
        /// session's other leases are released: their deliveries, or their acks, were lost with the connection, and
        /// heartbeats would keep them from everyone for ever. Empty for a new session.
        held: Vec<(Receipt, u32)>,
    },
    /// Extends all leases of the session but those named. Not answered.
    Heartbeat {
        /// Leases that are left to run out.
        except: Vec<Receipt>,
    },
    /// The orderly end of the session: its leases are released. Answered by [`Response::Done`].
    SessionEnd,
    /// Deliveries begin. Needs a session. Answered by [`Response::Done`].
    Attach(Attach),
    /// More credit for an attached consumer. Not answered.
    Credit {
        /// The consumer.
        consumer: u32,
        /// Messages to add.
        messages: u32,
        /// Bytes of blocks to add.
        bytes: u64,
    },
    /// Deliveries to the consumer end; its leases stay with the session. Answered by [`Response::Done`], behind the last
    /// delivery, and then the number is free for another consumer.
    Detach {
        /// The consumer.
        consumer: u32,
    },
    /// Gives up the office that a consumer's group has: its session waits for it again, behind all others. Answered by
    /// [`Response::Done`], and [`Response::Standing`] follows.
    Resign {
        /// The consumer.
        consumer: u32,
    },
    /// Looks at messages without leasing them. Answered by [`Response::Messages`].
    Look {
        /// The topic.
        topic: TopicRef,
        /// Which.
        which: LookWhich,
        /// The group whose messages they are; where `None`, the first that has the topic or, of one message, that message.
        group: Option<GroupName>,
    },
    /// Ends a message that is not leased. Answered by [`Response::Done`].
    Cancel {
        /// The topic.
        topic: TopicRef,
        /// Which.
        which: Which,
    },
    /// Gives a message that is not leased another delay from now. Answered by [`Response::Done`].
    Reschedule {
        /// The topic.
        topic: TopicRef,
        /// Which.
        which: Which,
        /// The delay.
        delay: Millis,
    },
    /// Stops deliveries of a topic, of all topics with a prefix, or of all; what is paused already is so from then on as this
    /// says. Answered by [`Response::Done`].
    Pause {
        /// The namespace.
        namespace: NamespaceName,
        /// Which of its topics.
        topics: PausedTopics,
        /// For how long, at least 1 ms; until they are resumed where `None`.
        lasts: Option<Millis>,
    },
    /// The opposite of a pause with the same arguments. Answered by [`Response::Done`].
    Resume {
        /// The namespace.
        namespace: NamespaceName,
        /// Which of its topics.
        topics: PausedTopics,
    },
    /// Forgets a dedup id. Answered by [`Response::Count`]: 1 if it was remembered.
    Forget {
        /// The topic.
        topic: TopicRef,
        /// The dedup id.
        dedup_id: Bytes,
    },
    /// Ends all messages that are not leased. Answered by [`Response::Count`].
    Purge {
        /// The namespace.
        namespace: NamespaceName,
        /// The topics.
        filter: Filter,
        /// In this group; in all where `None`.
        group: Option<GroupName>,
    },
    /// Makes a namespace or gives it another policy and other rules. Answered by [`Response::Done`].
    NamespaceSet {
        /// Its name.
        namespace: NamespaceName,
        /// Its policy.
        policy: Policy,
        /// What it says otherwise for some topics.
        rules: Rules,
        /// The version that is to be changed, 0 where there is to be none; `None` for whatever is there.
        based_on: Option<u64>,
    },
    /// Deletes a namespace that holds nothing. Answered by [`Response::Done`].
    NamespaceDelete {
        /// Its name.
        namespace: NamespaceName,
    },
    /// Makes a group, which has all that is published from then on. Answered by [`Response::Done`] at once; what it starts
    /// with it is given after that.
    GroupCreate {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        group: GroupName,
        /// What it is given of what was published before.
        start: Start,
        /// How its consumers share its messages.
        kind: GroupKind,
    },
    /// Deletes a group with all that it holds. Answered by [`Response::Done`] at once; what it holds ends after that.
    GroupDelete {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        group: GroupName,
    },
    /// Ends the term of the leader of an exclusive group, as if it had resigned. Answered by [`Response::Done`];
    /// [`Response::Standing`] tells those whom it concerns. Refused with `not_leader` where nobody leads.
    Depose {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        group: GroupName,
    },
    /// Makes an exchange. Answered by [`Response::Done`].
    ExchangeCreate {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        exchange: ExchangeName,
        /// What its bindings ask of a message.
        kind: ExchangeKind,
        /// What becomes of a message that none takes.
        unroutable: Unroutable,
    },
    /// Deletes an exchange with its bindings. Answered by [`Response::Done`].
    ExchangeDelete {
        /// Its namespace.
        namespace: NamespaceName,
        /// Its name.
        exchange: ExchangeName,
    },
    /// Lists the exchanges of a namespace. Answered by [`Response::Exchanges`].
    Exchanges {
        /// The namespace.
        namespace: NamespaceName,
    },
    /// Adds a binding to an exchange. Answered by [`Response::Count`]: 0 if it was there.
    Bind {
        /// Its namespace.
        namespace: NamespaceName,
        /// The exchange.
        exchange: ExchangeName,
        /// The binding.
        binding: Binding,
    },
    /// Drops a binding of an exchange. Answered by [`Response::Count`]: 0 if it was not there.
    Unbind {
        /// Its namespace.
        namespace: NamespaceName,
        /// The exchange.
        exchange: ExchangeName,
        /// The binding.
        binding: Binding,
    },
    /// Lists the bindings of an exchange. Answered by [`Response::Bindings`].
    Bindings {
        /// Its namespace.
        namespace: NamespaceName,
        /// The exchange.
        exchange: ExchangeName,
    },
    /// Lists the namespaces in the order of their names. Answered by [`Response::Namespaces`].
    Namespaces {
        /// Only names after this: `next` of the page before.
        after: Option<NamespaceName>,
    },
    /// Counts a namespace's messages at one journal position. Answered by [`Response::Namespaces`] with one row.
    Stats {
        /// Its name.
        namespace: NamespaceName,
    },
    /// Lists topics by name. Answered by [`Response::Topics`].
    Topics {
        /// The page.
        listing: Listing,
        /// The group whose topics they are.
        group: GroupName,
    },
    /// Shows one topic with its cursors. Answered by [`Response::Topics`] with one row.
    Topic(TopicRef),
    /// Lists the topics that stand out, the first of them first. Answered by [`Response::Topics`].
    TopTopics {
        /// The namespace.
        namespace: NamespaceName,
        /// Only names that begin with this.
        prefix: Bytes,
        /// What puts a topic before others.
        by: TopBy,
        /// At most so many rows, and never more than [`millpond_types::limits::TOP_MAX`].
        limit: u32,
        /// The group whose topics they are.
        group: GroupName,
    },
    /// Lists dead letters by topic. Answered by [`Response::Dead`].
    DeadList {
        /// The page.
        listing: Listing,
        /// The group.
        group: GroupName,
    },
    /// Looks at one dead letter. Answered by [`Response::Dead`] with one row.
    DeadLook {
        /// The topic that it came from.
        topic: TopicRef,
        /// The message.
        id: MessageId,
        /// The group.
        group: GroupName,
    },
    /// Puts dead letters back to work. Answered by [`Response::Count`].
    DeadRedrive {
        /// The namespace.
        namespace: NamespaceName,
        /// The group.
        group: GroupName,
        /// Which.
        which: DeadWhich,
    },
    /// Throws dead letters away. Answered by [`Response::Count`].
    DeadPurge {
        /// The namespace.
        namespace: NamespaceName,
        /// The group.
        group: GroupName,
        /// Which.
        which: DeadWhich,
    },
}

/// A frame from the broker. All but [`Response::Delivery`], [`Response::Standing`], [`Response::PublishCredit`],
/// [`Response::SessionExpired`] and [`Response::Closing`] carry the correlation number of the request that they answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// Answers a hello.
    Welcome {
        /// The version that the broker will speak.
        version: u16,
        /// Bytes of the largest frame it takes.
        frame_max: u32,
        /// Bytes of the largest body it takes.
        body_max: u32,
        /// A connection without a frame for so long is closed; a client sends a ping or heartbeat three times as often.
        idle: Millis,
    },
    /// Answers a ping.
    Pong,
    /// What became of a publish's messages, in order.
    Published(Vec<OutcomeRun<PublishOutcome>>),
    /// What became of a forward's receipts and messages, in order. Where one of them was refused, nothing was done.
    Forwarded {
        /// Of each receipt.
        finished: Vec<OutcomeRun<FinishOutcome>>,
        /// Of each message.
        published: Vec<OutcomeRun<PublishOutcome>>,
    },
    /// What became of the copies of a message that was published to an exchange.
    Routed {
        /// Their topics, in the order of their names.
        topics: Vec<TopicName>,
        /// What became of each, in that order.
        outcomes: Vec<OutcomeRun<PublishOutcome>>,
    },
    /// What became of a forward to an exchange. Where a receipt or a copy was refused, nothing was done.
    ForwardRouted {
        /// The topics of the copies, in the order of their names.
        topics: Vec<TopicName>,
        /// What became of each receipt.
        finished: Vec<OutcomeRun<FinishOutcome>>,
        /// What became of each copy, in the order of the topics.
        published: Vec<OutcomeRun<PublishOutcome>>,
    },
    /// The leases of a receive; empty if nothing came in time.
    Received(Vec<LeasedRun>),
    /// What became of a finish's receipts, in order.
    Finished(Vec<OutcomeRun<FinishOutcome>>),
    /// The session of this connection.
    SessionBegun {
        /// Its id: a secret, for it is all that resuming takes.
        session: SessionId,
        /// Whether it was there before, and its leases are still its own.
        resumed: bool,
        /// A session without a heartbeat for so long loses its leases.
        heartbeat: Millis,
    },
    /// Messages for a consumer. They have used up its credit by their count and by the bytes of their blocks.
    Delivery {
        /// The consumer.
        consumer: u32,
        /// That of the leader, where the group is exclusive.
        epoch: Option<LeaderEpoch>,
        /// The messages.
        leases: Vec<LeasedRun>,
    },
    /// What a consumer of an exclusive group is from now on.
    Standing {
        /// The consumer.
        consumer: u32,
        /// What it is.
        standing: Standing,
    },
    /// The session was not extended in time; its leases have expired.
    SessionExpired,
    /// Done, with nothing to say.
    Done,
    /// How many were touched.
    Count(u64),
    /// Messages looked at. The first come with their blocks, as many as fit the frame.
    Messages(Vec<MessageView>),
    /// Namespaces.
    Namespaces {
        /// The rows.
        rows: Vec<NamespaceView>,
        /// What `after` of the next page is; `None` if this was the last.
        next: Option<NamespaceName>,
    },
    /// Exchanges.
    Exchanges(Vec<ExchangeView>),
    /// Bindings of one exchange.
    Bindings(Vec<Binding>),
    /// Topics.
    Topics(Vec<TopicView>),
    /// Dead letters.
    Dead {
        /// The rows.
        rows: Vec<DeadView>,
        /// What [`Listing::after`] takes for the next page; empty if this was the last.
        next: Bytes,
    },
    /// The request was refused as a whole, and the connection goes on.
    Error {
        /// Why.
        code: Code,
        /// In words, with what to do.
        detail: String,
    },
    /// Bytes of publish frames that may be sent again, beyond the [`crate::PUBLISH_CREDIT`] of the connection's begin.
    PublishCredit {
        /// The bytes.
        bytes: u32,
    },
    /// The broker closes the connection after this frame.
    Closing {
        /// Why.
        code: Code,
        /// In words.
        detail: String,
    },
}
