//! Every limit that a user can meet, with the reason for its number.

use crate::time::Millis;

/// Bytes in a topic's name. Long enough for a URL's host and path, short enough to be copied without thought.
pub const TOPIC_NAME_MAX: usize = 512;
/// Bytes in the name of a namespace or a group: they stand in every metric label and on every console page.
pub const SHORT_NAME_MAX: usize = 64;
/// Bytes in a dedup id: a SHA-512 in hex, or a long URL's digest with a prefix.
pub const DEDUP_ID_MAX: usize = 255;
/// Bytes that all headers of one message take together in a block, so that a length fits 16 bits.
pub const HEADERS_MAX: usize = 16 * 1024;
/// Bytes of one message body unless the server is configured otherwise.
pub const BODY_MAX_DEFAULT: usize = 1024 * 1024;
/// Bytes of all message blocks of one publish. A publish is one record of the journal, so this also bounds a batch's overshoot.
pub const PUBLISH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages of one publish; outcomes and producer sessions stay small.
pub const PUBLISH_MESSAGES_MAX: usize = 65_536;
/// Runs of one publish. Each may make a topic in each group, which takes a microsecond or more, and all others wait until the
/// publish is decided. So many are as many places as it may have with as many groups as there may be.
pub const PUBLISH_RUNS_MAX: usize = PUBLISH_PLACES_MAX / GROUPS_MAX;
/// Dedup ids of one publish: each is looked up by itself.
pub const PUBLISH_DEDUP_IDS_MAX: usize = 10_000;
/// Runs of one publish times the groups of its namespace. A run is of messages of one topic and equal options that come one after the
/// other, with none between them that is not stored. Each group has what it holds of one in a place of its own: some 600 bytes
/// where it makes the topic, and about as many where it is delayed.
pub const PUBLISH_PLACES_MAX: usize = 65_536;
/// Messages that one publish ends of topics that are full (`overflow` drop_oldest), in all groups together: each may be a record of its
/// own.
pub const PUBLISH_DROPS_MAX: u64 = 65_536;
/// Bytes of one frame on the wire: a full publish and its envelope.
pub const FRAME_MAX: usize = PUBLISH_BYTES_MAX + 1024 * 1024;
/// Receipts that one call may name.
pub const RECEIPTS_MAX: usize = 10_000;
/// Priorities are 0..=9; 9 goes first (as in JMS, where 4 is the default too).
pub const PRIORITIES: usize = 10;
/// Messages that one call may name, and that a consumer has credit for in the core.
pub const CREDIT_MESSAGES_MAX: u32 = 1_000_000;
/// Messages of the answer to one receive: with the longest names their envelopes take 640 KiB of its frame.
pub const RECEIVE_MESSAGES_MAX: u32 = 1024;
/// Bytes of blocks that are left in that frame beside those envelopes.
pub const RECEIVE_BYTES_MAX: u64 = (FRAME_MAX - RECEIVE_MESSAGES_MAX as usize * (TOPIC_NAME_MAX + 128)) as u64;
/// Topics or prefixes in one filter.
pub const FILTER_MAX: usize = 1_000;
/// Distinct prefixes in use per namespace and group: what is known of the topics behind each is remembered.
pub const PREFIXES_MAX: usize = 64;
/// Distinct sets of prefixes in use per namespace and group: each takes turns of its own, and a topic that becomes ready is held
/// against all of them, which takes a search of each: 64 sets of 64 prefixes are 64 searches of six steps.
pub const PREFIX_SETS_MAX: usize = 64;
/// Rows in one page of a listing.
pub const PAGE_MAX: usize = 1_000;
/// Bytes that the rows of a page take in its frame, messages included: what is left of the frame is for its head and for
/// where the next page begins.
pub const PAGE_BYTES_MAX: usize = FRAME_MAX - 4096;
/// Rows of a listing of the topics that stand out: what a person reads, and little to keep sorted while all are looked at.
pub const TOP_MAX: usize = 100;
/// Batches of a producer session whose outcomes are kept for a repeat; a client has at most this many unconfirmed.
pub const PRODUCER_WINDOW: usize = 64;
/// A producer session idle for so long is forgotten: a client that was away longer begins a new one.
pub const PRODUCER_EXPIRY: Millis = Millis(7 * 24 * 60 * 60 * 1000);
/// Groups of one namespace: each publish is put into every group's topic, so it costs as many times what it does in one.
pub const GROUPS_MAX: usize = 64;
/// Namespaces of one broker: each is in memory, with its policy, its counts and what is paused in it.
pub const NAMESPACES_MAX: usize = 10_000;
/// The longest wait of a one-shot receive.
pub const WAIT_MAX_MS: u64 = 10 * 60 * 1000;
/// How long a one-shot receive may be asked for again under its request id: a client that lost its connection is back by
/// then, and leases of the default length have not run out.
pub const RECEIVE_REPEAT: Millis = Millis(30 * 1000);
/// Bytes of a reason given with a reject, a fail or a cancel.
pub const REASON_MAX: usize = 1024;
/// The shortest lease; less than a round trip of a slow link makes every lease expire.
pub const LEASE_MIN: Millis = Millis(100);
/// The longest lease that may be asked for at once; a lease can be extended without end.
pub const LEASE_MAX: Millis = Millis(12 * 60 * 60 * 1000);
/// The highest weight: a turn stays short.
pub const WEIGHT_MAX: u32 = 1000;
/// The longest run: all of it comes again if its first message fails, and it goes to one consumer whatever others could do.
pub const RUN_MAX: u32 = 100;
/// The shortest step of ageing: in each of them every topic that waits is raised, and that is a record of the journal.
pub const AGEING_MIN: Millis = Millis(1000);
/// The shortest age of a retention: it is looked at once a second, and told to a second.
pub const RETENTION_AGE_MIN: Millis = Millis(10 * 1000);
/// The least time between two tokens of a rate, in nanoseconds: at a million a second a broker is at its own limit.
pub const TOKEN_MIN_NANOS: u64 = 1_000;
/// The longest time in which the bucket of a rate fills: so long a topic is remembered for its sake when it is empty, and
/// after so long everybody goes by a rate that has changed.
pub const RATE_FILL_MAX: Millis = Millis(24 * 60 * 60 * 1000);
/// The longest period of a rate: what comes in a year is told by what comes in a day as well, and in nanoseconds it fits 64 bits.
pub const RATE_PERIOD_MAX: Millis = Millis(365 * 24 * 60 * 60 * 1000);
/// Exchanges of a namespace: what a person can oversee.
pub const EXCHANGES_MAX: usize = 100;
/// Bindings of an exchange: a publish is held against each of them, which takes some tens of microseconds with so many, and
/// less than a millisecond whatever they ask. It is also the most topics that one publish goes to.
pub const BINDINGS_MAX: usize = 1_000;
/// Bytes of a routing key, as in AMQP.
pub const ROUTING_KEY_MAX: usize = 255;
/// Words of a routing key: deeper than any hierarchy that a person has in mind, so that a pattern is matched in no time.
pub const ROUTING_WORDS_MAX: usize = 64;
/// Headers that a binding asks for.
pub const BINDING_HEADERS_MAX: usize = 16;
/// Bytes that these headers take together, so that a whole exchange stays small beside a batch of the journal.
pub const BINDING_HEADERS_BYTES_MAX: usize = 1024;
/// Rules of a namespace: what a person can oversee. All of them are told with every change of one.
pub const RULES_MAX: usize = 256;
/// The shortest term of an office: less is lost by a scheduling hiccup.
pub const TERM_MIN: Millis = Millis(500);
/// The longest term of an office: nobody works for so long after a leader has died.
pub const TERM_MAX: Millis = Millis(10 * 60 * 1000);
/// The longest hand-over of an office: as long as a lease may be.
pub const HANDOVER_MAX: Millis = LEASE_MAX;
