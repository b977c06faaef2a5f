//! The wire form of the types of `millpond-types`: names, ids, times, policies, outcomes, views.

use bytes::Bytes;
use millpond_types::limits::{
    BINDING_HEADERS_MAX, BINDINGS_MAX, CREDIT_MESSAGES_MAX, EXCHANGES_MAX, FILTER_MAX, FRAME_MAX, GROUPS_MAX, PAGE_MAX,
    PUBLISH_MESSAGES_MAX, RECEIPTS_MAX, ROUTING_KEY_MAX, RULES_MAX, SHORT_NAME_MAX, TOPIC_NAME_MAX,
};
use millpond_types::{
    BadName, Binding, Coalesce, Code, Condition, Counts, DeadView, DedupWindow, Dispatch, ExchangeKind, ExchangeName,
    ExchangeView, Filter, FinishOutcome, GroupCursors, GroupKind, GroupName, GroupView, LeaderEpoch, LeaseNumber,
    MessageId, MessageState, MessageView, Millis, NamespaceName, NamespaceView, OfficeTerms, OfficeView, OnExpiry,
    OutcomeRun, Overflow, Overrides, Pattern, Pause, PausedTopics, Policy, Priority, ProducerId, PublishOutcome,
    Quotas, Rate, Receipt, RequestId, Retention, Retry, Role, RoutingKey, Rule, Rules, Sequence, SessionId, Standing,
    Start, Tally, TopBy, TopicName, TopicNumber, TopicView, Unroutable, Usage, WallTime,
};

use crate::encode::Sink;
use crate::wire::{Bad, Choice, Kind, Reader, Row, Wire, choice, put, put_rows, record, take};

// The lengths of names have to fit what is written before them.
const _: () = assert!(ROUTING_KEY_MAX <= u8::MAX as usize);
const _: () = assert!(SHORT_NAME_MAX <= u8::MAX as usize && TOPIC_NAME_MAX <= u16::MAX as usize);

macro_rules! newtype {
    ($($type:ident)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut impl Sink) {
                self.0.put(out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
                Wire::take(from).map($type)
            }
        }
    )*};
}

newtype!(TopicNumber Sequence LeaseNumber LeaderEpoch SessionId ProducerId RequestId Millis WallTime);

fn bad_name(bad: BadName) -> Bad {
    Bad::new(Code::NameInvalid, bad.to_string())
}

/// A name or a key behind one byte of length.
fn put_short_name(name: &[u8], out: &mut impl Sink) {
    out.bytes().push(name.len() as u8);
    out.bytes().extend_from_slice(name);
}

fn take_short_name(from: &mut Reader<'_>) -> Result<Bytes, Bad> {
    let length = u8::take(from)? as usize;
    Ok(from.part(length)?.freeze())
}

macro_rules! short_name {
    ($($name:ty)*) => {
        $(impl Wire for $name {
            fn put(&self, out: &mut impl Sink) {
                put_short_name(self.as_bytes(), out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
                <$name>::new(take_short_name(from)?).map_err(bad_name)
            }
        })*
    };
}

short_name!(NamespaceName GroupName ExchangeName RoutingKey);

impl Wire for TopicName {
    fn put(&self, out: &mut impl Sink) {
        (self.as_bytes().len() as u16).put(out);
        out.bytes().extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let length = u16::take(from)? as usize;
        TopicName::new(from.part(length)?.freeze()).map_err(bad_name)
    }
}

impl Row for TopicName {
    const MAX: usize = FILTER_MAX;

    fn check(list: &[Self]) -> Result<(), Bad> {
        if list.is_empty() {
            return Err(Bad::new(Code::ArgumentInvalid, "a filter names at least one topic or prefix"));
        }
        Ok(())
    }
}

impl Wire for PausedTopics {
    fn put(&self, out: &mut impl Sink) {
        (self.as_bytes().len() as u16).put(out);
        out.bytes().extend_from_slice(self.as_bytes());
        self.is_prefix().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let length = u16::take(from)? as usize;
        let name = from.part(length)?.freeze();
        PausedTopics::new(name, bool::take(from)?).map_err(bad_name)
    }
}

impl Wire for Pause {
    fn put(&self, out: &mut impl Sink) {
        self.topics.put(out);
        Some(self.until).filter(|until| *until != WallTime::NEVER).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (topics, until) = (PausedTopics::take(from)?, <Option<WallTime> as Wire>::take(from)?);
        if until == Some(WallTime::NEVER) {
            return Err(Bad::new(Code::Malformed, "a pause without an end has no time"));
        }
        Ok(Pause { topics, until: until.unwrap_or(WallTime::NEVER) })
    }
}

impl Wire for Priority {
    fn put(&self, out: &mut impl Sink) {
        out.bytes().push(self.level() as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let level = u8::take(from)?;
        let unknown = || Bad::new(Code::ArgumentInvalid, format!("a priority is 0 to 9, and this is {level}"));
        Priority::new(level).ok_or_else(unknown)
    }
}

impl Wire for Code {
    fn put(&self, out: &mut impl Sink) {
        self.number().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let number = u16::take(from)?;
        let unknown = || Bad::new(Code::UnsupportedVersion, format!("error code {number} is of a later version"));
        Code::from_number(number).ok_or_else(unknown)
    }
}

record!(MessageId { topic, priority, sequence });
record!(Receipt { topic, group, lease });

/// A receipt and how many leases of consecutive numbers begin with it.
impl Row for (Receipt, u32) {
    const MAX: usize = RECEIPTS_MAX;
    const BYTES: usize = 24;

    fn check(list: &[Self]) -> Result<(), Bad> {
        if list.iter().any(|(_, count)| *count == 0) {
            return Err(Bad::new(Code::ArgumentInvalid, "a receipt stands for at least one lease"));
        }
        // Without this, a frame of a few bytes could ask for four billion outcomes.
        let leases: u64 = list.iter().map(|(_, count)| u64::from(*count)).sum();
        if leases > u64::from(CREDIT_MESSAGES_MAX) {
            return Err(Bad::limit(format!("{leases} leases, and one call names at most {CREDIT_MESSAGES_MAX}")));
        }
        Ok(())
    }
}

/// A receipt alone.
impl Row for Receipt {
    const MAX: usize = RECEIPTS_MAX;
}

choice!(Filter { 0 All, 1 Topics(topics), 2 Prefixes(prefixes) });

record!(Policy {
    lease,
    max_failures,
    retry,
    ttl,
    on_expiry,
    dedup_window,
    max_in_flight,
    max_waiting,
    overflow,
    coalesce,
    rate,
    run,
    weight,
    quotas,
    dispatch,
    ageing,
    retention
});
record!(Retention { age, count });
record!(Quotas { messages, bytes, topics, connections });
record!(Overrides {
    lease,
    max_failures,
    retry,
    ttl,
    on_expiry,
    dedup_window,
    max_in_flight,
    max_waiting,
    overflow,
    coalesce,
    rate,
    run,
    weight
});
choice!(ExchangeKind { 0 Direct, 1 Topic, 2 Fanout, 3 Headers });
choice!(Unroutable { 0 Refuse, 1 Drop });
record!(Binding { condition, target });
choice!(Condition { 0 Always, 1 Key(key), 2 Headers { all, headers } });
record!(ExchangeView { name, kind, unroutable, bindings, version });

impl Row for ExchangeView {
    const MAX: usize = EXCHANGES_MAX;
}

impl Row for Binding {
    const MAX: usize = BINDINGS_MAX;
}

/// A header that a binding asks for.
impl Row for (Bytes, Bytes) {
    const MAX: usize = BINDING_HEADERS_MAX;
}

record!(Pattern { is_prefix, name });
record!(Rate { count, period, burst });
record!(Rule { pattern, overrides });
choice!(Dispatch { 0 Priority, 1 Fair });
choice!(Retry { 0 Head, 1 Tail, 2 Backoff { first, longest } });
choice!(Overflow { 0 Reject, 1 DropOldest });
choice!(Coalesce { 0 Off, 1 KeepFirst, 2 KeepLatest });
choice!(OnExpiry { 0 Drop, 1 Dead });
choice!(DedupWindow { 0 Off, 1 For(window), 2 Forever });

impl Wire for Rules {
    fn put(&self, out: &mut impl Sink) {
        put_rows(self.iter().as_slice(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Rules::new(Wire::take(from)?).map_err(|bad| Bad::new(Code::PolicyInvalid, bad.0))
    }
}

impl Row for Rule {
    const MAX: usize = RULES_MAX;
}

impl<T: Wire> Wire for OutcomeRun<T> {
    fn put(&self, out: &mut impl Sink) {
        self.count.put(out);
        self.outcome.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(OutcomeRun { count: take!(from, count), outcome: take!(from, outcome) })
    }
}

impl Row for OutcomeRun<PublishOutcome> {
    const MAX: usize = PUBLISH_MESSAGES_MAX;
}

impl Row for OutcomeRun<FinishOutcome> {
    const MAX: usize = CREDIT_MESSAGES_MAX as usize;
}

choice!(PublishOutcome { 0 Queued { id }, 1 Duplicate { id, state }, 2 Refused { code, detail }, 3 Coalesced { id, replaced } });
choice!(FinishOutcome { 0 Done, 1 Dead, 2 LeaseLost, 3 Kept, 4 Deposed, 5 OutOfOrder });
choice!(TopBy { 0 Depth, 1 Age, 2 Due });
choice!(Start { 0 Latest, 1 Earliest, 2 At(time) });
choice!(MessageState { 0 Waiting, 1 Delayed { due }, 2 Retrying { due }, 3 Leased, 4 Dead, 5 Ended });

record!(Counts { waiting, delayed, retrying, leased, dead });
record!(NamespaceView { name, policy, rules, version, usage, groups, offices, paused, position });
record!(Usage { messages, bytes, topics, connections });
record!(Tally { accepted, declined, superseded, dropped, retained_out });
record!(GroupView { name, start, is_starting, reached, counts, tally });
choice!(GroupKind { 0 Shared, 1 Exclusive(terms) });
record!(OfficeTerms { term, handover });
record!(OfficeView { group, terms, epoch, leader, is_handing_over, candidates });
record!(Standing { role, epoch, term, handover });
choice!(Role { 0 Candidate, 1 Inaugurate, 2 Lead, 3 Deposed });
record!(TopicView { name, paused, counts, oldest, due, cursors });
record!(GroupCursors { group, priority, scan, completion, next, lag });
record!(MessageView { id, state, published, expires, deliveries, failures, bytes, block });
record!(DeadView { topic, message, reason, detail, died });

impl Row for NamespaceView {
    const MAX: usize = PAGE_MAX;
}

impl Row for GroupView {
    const MAX: usize = GROUPS_MAX;
}

/// As many offices as a frame holds.
impl Row for OfficeView {
    const MAX: usize = FRAME_MAX;
}

/// As many pauses as a frame holds.
impl Row for Pause {
    const MAX: usize = FRAME_MAX;
}

/// As many cursors as a frame holds.
impl Row for GroupCursors {
    const MAX: usize = FRAME_MAX;
}

impl Row for TopicView {
    const MAX: usize = PAGE_MAX;
}

impl Row for MessageView {
    const MAX: usize = PAGE_MAX;
}

impl Row for DeadView {
    const MAX: usize = PAGE_MAX;
}
