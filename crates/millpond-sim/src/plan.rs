//! What kind of life a seed leads: sizes, policies, names and how often things go wrong. Small sizes bring out the
//! edges: segments that fill after a few batches, old messages that are moved as soon as half of the disk is pinned, a tail that forgets at once, few topics so that clients meet.

use millpond_core::LevelBounds;
use millpond_core::command::Command;
use millpond_server::manual::Rooms;
use millpond_storage::store::FilterBounds;
use millpond_storage::tree::TreeOptions;
use millpond_storage::{BATCH_BYTES, Identity, OpenOptions, SLACK};
use millpond_types::{
    Coalesce, DedupWindow, Dispatch, Millis, NamespaceName, OnExpiry, Overflow, Overrides, Pattern, Policy, Quotas,
    Rate, Retention, Retry, Rule, Rules, TopicName,
};

use crate::streams::Stream;

/// Levels whose lines and resting messages are in pieces as soon as there are a few of them.
const SHORT: LevelBounds = LevelBounds { head: 2, tail: 1, piece: 4, resting: 2, out_of_line: 6 };

/// See the module.
pub struct Plan {
    /// How the directory is opened.
    pub options: OpenOptions,
    /// Bytes that leased topics may take: as much as all topics may, or as these few clients need to be on rations.
    pub leases_room: usize,
    /// Bytes that commands may take which wait for the disk.
    pub parked: usize,
    /// Bytes that producer sessions may take in memory.
    pub producers: usize,
    /// Bytes of a sector of the disk.
    pub sector: usize,
    /// The namespaces and their first policies; the first is `default`.
    pub namespaces: Vec<(NamespaceName, Policy)>,
    /// The names of topics, the same in all namespaces.
    pub topics: Vec<TopicName>,
    /// Producers, attached consumers, and consumers that receive one shot at a time.
    pub clients: [usize; 3],
    /// Steps between two losses, on average.
    pub steps_per_loss: u64,
    /// Bytes of the largest batch that the writer writes itself.
    pub own_hand_max: u64,
    /// Whether turns go by while topics are read from the disk.
    pub reads_late: bool,
    /// Whether the disk has faults and runs full.
    pub disk_is_bad: bool,
    /// The size of most bodies at most.
    pub body_max: u64,
    /// Whether now and then all is done in its midst that needs no time.
    pub has_lulls: bool,
    /// Whether some turns of the writer are short.
    pub hastens: bool,
    /// Messages that a turn of the writer leases, about.
    pub turn: u32,
}

impl Plan {
    /// Draws one.
    pub fn new(stream: &mut Stream) -> Plan {
        let options = OpenOptions {
            segment_bytes: *stream.pick(&[8 << 10, 16 << 10, 64 << 10]),
            checkpoint_entries: *stream.pick(&[10, 100, 400_000]),
            young_bytes: *stream.pick(&[1 << 10, 4 << 10, 128 << 20]),
            filter: FilterBounds {
                bytes: *stream.pick(&[0, 256, 1 << 10, 4 << 10, 64 << 20]),
                least: *stream.pick(&[1, 4, 16, 100, 1 << 16]),
            },
            room: *stream.pick(&[0, 4 << 10, 64 << 10, 256 << 20]),
            bounds: *stream.pick(&[LevelBounds::ENDS, SHORT]),
            tree: TreeOptions::default(),
            checkpoint_after: *stream.pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]),
            tail_bytes: *stream.pick(&[0, 2 << 10, 16 << 10, 1 << 20]),
            batch_bytes: BATCH_BYTES,
            slack: *stream.pick(&[0, 0, 32 << 10, SLACK]),
            identity: Identity {
                directory: u128::from(stream.draw()) << 64 | u128::from(stream.draw()),
                hash_key: [stream.draw(), stream.draw()],
            },
            cut: None,
        };
        let namespaces = ["default", "strict", "loose"].map(|name| (namespace(name), policy(stream))).to_vec();
        let names = ["a/1", "a/2", "a/3", "b/1", "b/2", "c", "d/x/1", "d/x/2", "größe/☃", "e"];
        let count = stream.between(2, names.len() as u64) as usize;
        let leases_room = options.room.max(*stream.pick(&[2 << 10, 8 << 10, 32 << 10, 1 << 20, 1 << 20]));
        let least = Rooms::least();
        Plan {
            options,
            leases_room,
            parked: *stream.pick(&[0, 1 << 10, 4 << 10, least.parked]),
            producers: *stream.pick(&[0, 1 << 10, least.producers, least.producers]),
            sector: *stream.pick(&[512, 4096]),
            namespaces,
            topics: names[..count].iter().map(|name| TopicName::try_from(*name).expect("a valid name")).collect(),
            clients: [0; 3].map(|_| stream.between(1, 3) as usize),
            steps_per_loss: *stream.pick(&[40, 100, 300]),
            disk_is_bad: stream.one_in(2),
            reads_late: stream.one_in(2),
            own_hand_max: *stream.pick(&[0, 0, 300, 16 << 10]),
            body_max: *stream.pick(&[40, 200, 2000]),
            has_lulls: stream.one_in(2),
            hastens: stream.one_in(2),
            turn: *stream.pick(&[1, 40, 1024, 1024]),
        }
    }

    /// What there is room for.
    pub fn rooms(&self) -> Rooms {
        let OpenOptions { room: topics, young_bytes, .. } = self.options;
        Rooms { topics, layers: 2 * young_bytes, parked: self.parked, producers: self.producers }
    }
}

/// A namespace's name.
pub fn namespace(name: &str) -> NamespaceName {
    NamespaceName::try_from(name).expect("a valid name")
}

/// Gives a namespace a policy, and half the time rules that say otherwise for some topics.
pub fn set_policies(name: NamespaceName, stream: &mut Stream) -> Command {
    let base = policy(stream);
    let rule = |pattern: &str, stream: &mut Stream| {
        let overrides = Overrides { dedup_window: None, ..Overrides::from(&policy(stream)) };
        let is_prefix = pattern.ends_with('*');
        let name = TopicName::try_from(pattern.trim_end_matches('*')).expect("a valid name");
        Rule { pattern: Pattern { is_prefix, name }, overrides }
    };
    let patterns: &[&str] = if stream.one_in(2) { &["a*", "a/2", "d/x/*", "e"] } else { &[] };
    let rules = patterns.iter().map(|pattern| rule(pattern, stream)).collect();
    let rules = Rules::new(rules).expect("one rule for each pattern");
    Command::NamespaceSet { name, policy: base, rules, based_on: None }
}

/// A policy whose times are short beside a life.
fn policy(stream: &mut Stream) -> Policy {
    let max_in_flight = *stream.pick(&[None, None, Some(1), Some(3)]);
    let backoff = Retry::Backoff { first: Millis(stream.between(1, 500)), longest: Millis(stream.between(500, 5000)) };
    let retry = *stream.pick(&[Retry::Head, backoff, backoff, Retry::Tail]);
    let window = DedupWindow::For(Millis(stream.between(100, 20_000)));
    let coalesce = match (max_in_flight, retry) {
        (Some(3), _) | (_, Retry::Tail) => Coalesce::Off,
        _ => *stream.pick(&[
            Coalesce::Off,
            Coalesce::Off,
            Coalesce::Off,
            Coalesce::KeepFirst,
            Coalesce::KeepLatest,
            Coalesce::KeepLatest,
        ]),
    };
    let max_waiting = *stream.pick(&[None, None, Some(5)]);
    let max_waiting = max_waiting.filter(|_| coalesce == Coalesce::Off);
    let overflow = *stream.pick(&[Overflow::Reject, Overflow::DropOldest]);
    let burst = stream.between(1, 5) as u32;
    let rate = Rate { count: stream.between(5, 50) as u32, period: Millis(1000), burst };
    Policy {
        lease: Millis(stream.between(100, 20_000)),
        max_failures: stream.below(4) as u32,
        retry: if max_in_flight == Some(1) && retry == Retry::Tail { Retry::Head } else { retry },
        ttl: *stream.pick(&[None, None, None, Some(Millis(5000))]),
        on_expiry: *stream.pick(&[OnExpiry::Drop, OnExpiry::Dead]),
        dedup_window: *stream.pick(&[DedupWindow::Forever, window, window, window, window, window, DedupWindow::Off]),
        max_in_flight,
        max_waiting,
        overflow: if max_waiting.is_some() { overflow } else { Overflow::Reject },
        coalesce,
        run: if max_in_flight == Some(1) && coalesce == Coalesce::Off { *stream.pick(&[1, 2, 4]) } else { 1 },
        rate: *stream.pick(&[None, None, None, Some(rate)]),
        weight: stream.between(1, 3) as u32,
        quotas: Quotas {
            messages: *stream.pick(&[None, None, None, None, None, None, Some(30), Some(100)]),
            topics: *stream.pick(&[None, None, None, None, None, None, None, Some(4)]),
            bytes: *stream.pick(&[None, None, None, None, None, None, None, None, Some(4_000), Some(20_000)]),
            connections: *stream.pick(&[None, None, None, None, None, None, None, None, Some(2), Some(3)]),
        },
        dispatch: *stream.pick(&[Dispatch::Priority, Dispatch::Fair]),
        ageing: *stream.pick(&[None, None, Some(Millis(1000))]),
        retention: Retention {
            age: *stream.pick(&[None, None, None, None, None, Some(Millis::seconds(10))]),
            count: *stream.pick(&[None, None, None, None, None, Some(20)]),
        },
    }
}
