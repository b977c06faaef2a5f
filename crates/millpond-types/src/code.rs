//! The registry of error codes. A number, once given, is never used for anything else.

/// Why something was refused. The number is the same on the wire, over HTTP and in the documents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the table in `Code::meaning` says what each one means")]
pub enum Code {
    Malformed = 1,
    UnsupportedVersion = 2,
    FrameTooLarge = 3,
    UnexpectedFrame = 4,
    NameInvalid = 10,
    PolicyInvalid = 11,
    LimitExceeded = 12,
    ArgumentInvalid = 13,
    NamespaceUnknown = 20,
    NamespaceInUse = 21,
    GroupUnknown = 22,
    MessageUnknown = 23,
    MessageLeased = 24,
    TopicUnknown = 25,
    GroupExists = 26,
    GroupInUse = 27,
    NamespaceChanged = 28,
    MessageTooLarge = 30,
    DedupOff = 31,
    DiskFull = 32,
    SequenceGap = 33,
    SessionUnknown = 34,
    ProducerFenced = 35,
    RefusedTogether = 36,
    TopicFull = 37,
    LeaseLost = 40,
    ConsumerUnknown = 41,
    ConsumerExists = 42,
    PublishCreditExceeded = 43,
    Stopping = 50,
    StorageFailed = 51,
    Overloaded = 52,
    Damaged = 53,
    Unreadable = 54,
    QuotaExceeded = 65,
    ExchangeUnknown = 66,
    ExchangeExists = 67,
    Unroutable = 68,
    GroupExclusive = 75,
    NotLeader = 76,
}

/// What the caller should do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// The same request may succeed later.
    Retry,
    /// The request has to change.
    Fix,
    /// A person has to look at the broker.
    Report,
}

impl Code {
    /// Every code, in the order of their numbers.
    pub const ALL: [Code; 40] = [
        Code::Malformed,
        Code::UnsupportedVersion,
        Code::FrameTooLarge,
        Code::UnexpectedFrame,
        Code::NameInvalid,
        Code::PolicyInvalid,
        Code::LimitExceeded,
        Code::ArgumentInvalid,
        Code::NamespaceUnknown,
        Code::NamespaceInUse,
        Code::GroupUnknown,
        Code::MessageUnknown,
        Code::MessageLeased,
        Code::TopicUnknown,
        Code::GroupExists,
        Code::GroupInUse,
        Code::NamespaceChanged,
        Code::MessageTooLarge,
        Code::DedupOff,
        Code::DiskFull,
        Code::SequenceGap,
        Code::SessionUnknown,
        Code::ProducerFenced,
        Code::RefusedTogether,
        Code::TopicFull,
        Code::LeaseLost,
        Code::ConsumerUnknown,
        Code::ConsumerExists,
        Code::PublishCreditExceeded,
        Code::Stopping,
        Code::StorageFailed,
        Code::Overloaded,
        Code::Damaged,
        Code::Unreadable,
        Code::QuotaExceeded,
        Code::ExchangeUnknown,
        Code::ExchangeExists,
        Code::Unroutable,
        Code::GroupExclusive,
        Code::NotLeader,
    ];

    /// The code's number.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The code of a number, if there is one.
    pub fn from_number(number: u16) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The code's name, as in logs and JSON.
    pub const fn name(self) -> &'static str {
        self.entry().0
    }

    /// What the caller should do.
    pub const fn advice(self) -> Advice {
        self.entry().1
    }

    /// What the code means, as a sentence for the documents.
    pub const fn meaning(self) -> &'static str {
        self.entry().2
    }

    const fn entry(self) -> (&'static str, Advice, &'static str) {
        use Advice::{Fix, Report, Retry};
        match self {
            Code::Malformed => ("malformed", Fix, "the frame does not have the form that the protocol gives it"),
            Code::UnsupportedVersion => ("unsupported_version", Fix, "the broker does not speak this protocol version"),
            Code::FrameTooLarge => ("frame_too_large", Fix, "the frame is larger than the broker's limit"),
            Code::UnexpectedFrame => ("unexpected_frame", Fix, "this kind of frame has no place here"),
            Code::NameInvalid => ("name_invalid", Fix, "a name breaks the rules for names"),
            Code::PolicyInvalid => ("policy_invalid", Fix, "a policy value is out of range or contradicts another"),
            Code::LimitExceeded => ("limit_exceeded", Fix, "more was asked for than one call may"),
            Code::ArgumentInvalid => ("argument_invalid", Fix, "an argument makes no sense"),
            Code::NamespaceUnknown => ("namespace_unknown", Fix, "no namespace has this name; create it first"),
            Code::NamespaceInUse => ("namespace_in_use", Fix, "the namespace still holds messages or dead letters"),
            Code::GroupUnknown => ("group_unknown", Fix, "the namespace has no group of this name"),
            Code::MessageUnknown => {
                ("message_unknown", Fix, "no unfinished message has this id, or a dedup id that is still remembered")
            }
            Code::MessageLeased => ("message_leased", Retry, "the message is leased to a consumer right now"),
            Code::TopicUnknown => ("topic_unknown", Fix, "nothing is left of a topic of this name"),
            Code::GroupExists => ("group_exists", Fix, "the namespace has a group of this name already"),
            Code::GroupInUse => ("group_in_use", Fix, "consumers are attached to the group, or it always exists"),
            Code::NamespaceChanged => {
                ("namespace_changed", Fix, "the namespace is of another version than that which was to be changed")
            }
            Code::MessageTooLarge => (
                "message_too_large",
                Fix,
                "the body is over the limit; a block with headers over theirs is `malformed`",
            ),
            Code::DedupOff => ("dedup_off", Fix, "a dedup id was given, and the dedup window is off"),
            Code::DiskFull => ("disk_full", Retry, "the disk has no room for another journal segment"),
            Code::SequenceGap => ("sequence_gap", Fix, "a batch of the producer session is missing before this one"),
            Code::SessionUnknown => ("session_unknown", Fix, "the session was never begun or is forgotten"),
            Code::ProducerFenced => ("producer_fenced", Fix, "a higher instance of the same producer has taken over"),
            Code::RefusedTogether => {
                ("refused_together", Fix, "another part of a call that is done whole or not at all was refused")
            }
            Code::TopicFull => ("topic_full", Retry, "the topic holds as many messages as its policy lets wait"),
            Code::LeaseLost => ("lease_lost", Fix, "the lease was finished, has expired or was taken over"),
            Code::ConsumerUnknown => ("consumer_unknown", Fix, "no consumer of this number is attached here"),
            Code::ConsumerExists => ("consumer_exists", Fix, "a consumer of this number is attached already"),
            Code::PublishCreditExceeded => {
                ("publish_credit_exceeded", Fix, "more was published unconfirmed than the broker granted")
            }
            Code::Stopping => ("stopping", Retry, "the broker is shutting down"),
            Code::StorageFailed => ("storage_failed", Report, "a write or a sync failed; the broker has stopped"),
            Code::Overloaded => ("overloaded", Retry, "the broker has as much to do as it may hold"),
            Code::Damaged => (
                "damaged",
                Retry,
                "all that a receive was leased is damaged, or was moved as it was read; the next one may be leased others",
            ),
            Code::Unreadable => (
                "unreadable",
                Retry,
                "the disk did not give some of what a receive was leased, and none of the rest is whole",
            ),
            Code::QuotaExceeded => ("quota_exceeded", Retry, "the namespace holds as much as its policy lets it"),
            Code::ExchangeUnknown => ("exchange_unknown", Fix, "the namespace has no exchange of this name"),
            Code::ExchangeExists => ("exchange_exists", Fix, "the namespace has an exchange of this name already"),
            Code::Unroutable => ("unroutable", Fix, "no binding of the exchange takes the message"),
            Code::GroupExclusive => {
                ("group_exclusive", Fix, "the group delivers to one leader, who has to be an attached consumer")
            }
            Code::NotLeader => ("not_leader", Fix, "the session does not hold the office of the group, or nobody does"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_found_again() {
        for (i, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(Code::from_number(code.number()), Some(code));
            assert!(Code::ALL[..i].iter().all(|other| other.number() < code.number() && other.name() != code.name()));
        }
        assert_eq!(Code::from_number(0), None);
    }
}
