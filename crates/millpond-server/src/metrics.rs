//! Figures for Prometheus. What is counted are facts, as they are appended: the figures say what happened and not what
//! was asked. Never a label for topics, tenants or namespaces: a million topics must not make a million series.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use millpond_core::Core;
use millpond_core::fact::{Fact, FactLog, Victims};
use millpond_storage::Space;
use millpond_storage::store::StoreMemory;
use millpond_storage::tree::TreeStats;
use millpond_types::{Counts, EndReason, Usage};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::writer::{Host, Reason};

/// All figures of a broker.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) published: Counter,
    pub(crate) delivered: Counter,
    pub(crate) acked: Counter,
    pub(crate) failed: Counter,
    pub(crate) released: Counter,
    pub(crate) dead: Counter,
    pub(crate) ended: Counter,
    pub(crate) damaged: Counter,
    pub(crate) batches: Counter,
    pub(crate) batch_bytes: Counter,
    pub(crate) sync_seconds: Histogram,
    pub(crate) turn_seconds: Histogram,
    pub(crate) checkpoints: Counter,
    pub(crate) checkpoint_seconds: Histogram,
    pub(crate) connected: Counter,
    pub(crate) refused: Counter,
    pub(crate) connections_over_quota: Counter,
    /// Where the program counts lines of its log that it had to drop.
    pub(crate) log_dropped: OnceLock<Arc<AtomicU64>>,
    gauges: Gauges,
    kept: Kept,
}

/// What the core and the store say of themselves. The core's figures are noted by the writer in each turn.
#[derive(Default)]
struct Kept {
    resident_topics: Gauge,
    cold_topics: Gauge,
    resident_bytes: Gauge,
    leased_bytes: Gauge,
    rationed: Gauge,
    parked: Gauge,
    messages_over_quota: Counter,
    messages_unroutable: Counter,
    log_dropped: Counter,
    forgotten: Counter,
    pushed_back: Family<Label, Gauge>,
    store_bytes: Family<Label, Gauge>,
    setup_kept: Gauge,
    setup_held: Gauge,
    tree_reads: Counter,
    tree_writes: Counter,
    tree_bytes: Gauge,
    space_bytes: Family<Label, Gauge>,
}

/// The one label of a figure.
type Label = [(&'static str, &'static str); 1];

/// Figures that are looked up when they are asked for.
#[derive(Default)]
struct Gauges {
    connections: Gauge,
    finishing: Gauge,
    publishing: Gauge,
    unread: Gauge,
    memory: Gauge,
    disk_free: Gauge,
    ready: Gauge,
    topics: Gauge,
    waiting: Gauge,
    delayed: Gauge,
    retrying: Gauge,
    leased: Gauge,
    dead_letters: Gauge,
    message_bytes: Gauge,
}

/// What the gauges are set to.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Readings {
    pub(crate) connections: usize,
    /// Bytes that wait in the writer's lanes.
    pub(crate) finishing: usize,
    pub(crate) publishing: usize,
    /// Bytes of answers that are not written.
    pub(crate) unread: usize,
    /// Bytes of the process that are in memory.
    pub(crate) memory: u64,
    /// Bytes left on the file system of the data directory.
    pub(crate) disk_free: u64,
    pub(crate) ready: bool,
    pub(crate) store: StoreMemory,
    pub(crate) tree: TreeStats,
    /// What all namespaces hold, and in which states, if the writer said in time.
    pub(crate) held: Option<(Usage, Counts)>,
}

/// From that of a few topics to that of a hundred thousands on a slow disk.
const CHECKPOINT_BUCKETS: [f64; 7] = [0.01, 0.05, 0.2, 0.5, 1.0, 4.0, 16.0];
/// From 25 µs, a fast disk's sync and a short turn, to 1.6 s, a failing one's.
const SYNC_BUCKETS: [f64; 9] = [25e-6, 100e-6, 200e-6, 400e-6, 1.6e-3, 6.4e-3, 25.6e-3, 0.1, 1.6];

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("millpond"),
            published: Counter::default(),
            delivered: Counter::default(),
            acked: Counter::default(),
            failed: Counter::default(),
            released: Counter::default(),
            dead: Counter::default(),
            ended: Counter::default(),
            damaged: Counter::default(),
            batches: Counter::default(),
            batch_bytes: Counter::default(),
            sync_seconds: Histogram::new(SYNC_BUCKETS),
            turn_seconds: Histogram::new(SYNC_BUCKETS),
            checkpoints: Counter::default(),
            checkpoint_seconds: Histogram::new(CHECKPOINT_BUCKETS),
            connected: Counter::default(),
            refused: Counter::default(),
            connections_over_quota: Counter::default(),
            log_dropped: OnceLock::new(),
            gauges: Gauges::default(),
            kept: Kept::default(),
        };
        metrics.register();
        metrics.push_back(None);
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let counters = [
            ("messages_published", "Messages stored", &self.published),
            ("messages_delivered", "Leases given out", &self.delivered),
            ("messages_acked", "Messages finished by an ack", &self.acked),
            ("messages_failed", "Leases that ended as a failure and left their message alive", &self.failed),
            ("messages_released", "Leases that were given back without a failure", &self.released),
            ("messages_dead", "Messages that became dead letters", &self.dead),
            (
                "messages_ended_otherwise",
                "Messages that were cancelled, purged, superseded, dropped, retained out or expired",
                &self.ended,
            ),
            ("messages_damaged", "Messages that could not be read back", &self.damaged),
            ("journal_batches", "Batches made durable", &self.batches),
            ("checkpoints", "Checkpoints written", &self.checkpoints),
            ("tree_reads", "Entries of the checkpoint looked up or passed by a scan", &self.kept.tree_reads),
            ("tree_writes", "Entries changed by checkpoints", &self.kept.tree_writes),
            ("connections_accepted", "Connections taken in", &self.connected),
            ("connections_refused", "Connections closed because there were too many", &self.refused),
            (
                "forgotten",
                "Topics and scopes that somebody should have been told of, found by the watch: a bug, please report it",
                &self.kept.forgotten,
            ),
            (
                "messages_over_quota",
                "Messages refused because their namespace held as much as it may",
                &self.kept.messages_over_quota,
            ),
            (
                "messages_unroutable",
                "Messages that were dropped, as their exchange is set to, for no binding led anywhere",
                &self.kept.messages_unroutable,
            ),
            (
                "connections_over_quota",
                "Publishes, receives and attachments refused because their namespace had as many connections as it may",
                &self.connections_over_quota,
            ),
            (
                "log_lines_dropped",
                "Lines of the log that were dropped, for nobody read it in time",
                &self.kept.log_dropped,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register_with_unit("journal", "Bytes written to the journal", Unit::Bytes, self.batch_bytes.clone());
        let help = "Time from a checkpoint's beginning until it is on the disk";
        registry.register_with_unit("checkpoint", help, Unit::Seconds, self.checkpoint_seconds.clone());
        let help =
            "Memory of entries that are not on the disk, of what is known of the others' keys, and of their blocks";
        registry.register("store_bytes", help, self.kept.store_bytes.clone());
        let help = "Memory of what clients set up, about: kept by facts, and held by connections";
        let setup = Family::<Label, Gauge>::default();
        registry.register("setup_bytes", help, setup.clone());
        // Looked up once: they are set in each turn of the writer.
        self.kept.setup_kept = setup.get_or_create(&[("of", "kept")]).clone();
        self.kept.setup_held = setup.get_or_create(&[("of", "held")]).clone();
        let help = "Space of the journal and the checkpoints on the disk: what is alive of it, all, and what all comes back to";
        registry.register("space_bytes", help, self.kept.space_bytes.clone());
        let help = "Whether publishes wait, and for what";
        registry.register("pushed_back", help, self.kept.pushed_back.clone());
        let help = "Time that syncs of the journal took";
        registry.register_with_unit("journal_sync", help, Unit::Seconds, self.sync_seconds.clone());
        let help = "Time that turns of the writer took, with the syncs that it did itself";
        registry.register_with_unit("writer_turn", help, Unit::Seconds, self.turn_seconds.clone());
        let gauges = [
            ("connections", "Connections open now", &self.gauges.connections),
            ("queue_finishing_bytes", "Finishing requests that wait for the writer", &self.gauges.finishing),
            ("queue_publishing_bytes", "Publishes that wait for the writer", &self.gauges.publishing),
            (
                "unread_bytes",
                "Answers that wait to be told, or until their clients read those in front, about",
                &self.gauges.unread,
            ),
            ("memory_resident_bytes", "Memory of the process", &self.gauges.memory),
            ("disk_free_bytes", "Space left for the data directory", &self.gauges.disk_free),
            ("ready", "Whether requests are served", &self.gauges.ready),
            ("topics", "Topics that exist", &self.gauges.topics),
            ("messages_waiting", "Messages that are ready for delivery", &self.gauges.waiting),
            ("messages_delayed", "Messages that are not due", &self.gauges.delayed),
            ("messages_retrying", "Messages that wait out a back-off", &self.gauges.retrying),
            ("messages_leased", "Messages that are leased to consumers", &self.gauges.leased),
            ("dead_letters", "Dead letters", &self.gauges.dead_letters),
            ("message_bytes", "Bytes of the journal that messages and dead letters need", &self.gauges.message_bytes),
            ("resident_topics", "Topics in memory", &self.kept.resident_topics),
            ("cold_topics", "Topics on the disk alone, or about to be", &self.kept.cold_topics),
            ("resident_bytes", "Memory of the topics in memory, about", &self.kept.resident_bytes),
            (
                "leased_bytes",
                "Memory that the topics which are leased from take at most, about: they cannot leave it",
                &self.kept.leased_bytes,
            ),
            (
                "consumers_rationed",
                "Consumers with credit that are given nothing until their sessions hold less",
                &self.kept.rationed,
            ),
            ("parked_commands", "Commands that wait for topics from the disk", &self.kept.parked),
            ("tree_bytes", "Space that checkpoints take on the disk", &self.kept.tree_bytes),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }

    /// All figures in the text form of OpenMetrics.
    pub(crate) fn text(&self, readings: Readings) -> String {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.gauges.connections, readings.connections as u64);
        set(&self.gauges.finishing, readings.finishing as u64);
        set(&self.gauges.publishing, readings.publishing as u64);
        set(&self.gauges.unread, readings.unread as u64);
        set(&self.gauges.memory, readings.memory);
        set(&self.gauges.disk_free, readings.disk_free);
        set(&self.gauges.ready, readings.ready.into());
        if let Some((usage, counts)) = readings.held {
            set(&self.gauges.topics, usage.topics);
            set(&self.gauges.message_bytes, usage.bytes);
            set(&self.gauges.waiting, counts.waiting);
            set(&self.gauges.delayed, counts.delayed);
            set(&self.gauges.retrying, counts.retrying);
            set(&self.gauges.leased, counts.leased);
            set(&self.gauges.dead_letters, counts.dead);
        }
        self.note_store(readings.store, readings.tree);
        if let Some(dropped) = self.log_dropped.get() {
            catch_up(&self.kept.log_dropped, dropped.load(Ordering::Relaxed));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }

    /// Notes what the directory takes.
    pub(crate) fn note_space(&self, space: Space) {
        for (of, bytes) in [("alive", space.alive), ("total", space.total), ("bound", space.bound)] {
            self.kept.space_bytes.get_or_create(&[("of", of)]).set(bytes as i64);
        }
    }

    /// Notes what the core holds.
    pub(crate) fn note_core(&self, core: &Core) {
        self.kept.resident_topics.set(core.resident_count() as i64);
        self.kept.cold_topics.set(core.cold_count() as i64);
        self.kept.resident_bytes.set(core.resident_bytes() as i64);
        self.kept.leased_bytes.set(core.leased_bytes() as i64);
        self.kept.rationed.set(core.rationed() as i64);
        self.kept.parked.set(core.parked_count() as i64);
        let (kept, held) = core.setup_bytes();
        self.kept.setup_kept.set(kept as i64);
        self.kept.setup_held.set(held as i64);
        let over_quota = &self.kept.messages_over_quota;
        over_quota.inc_by(core.over_quota() - over_quota.get());
        let unroutable = &self.kept.messages_unroutable;
        unroutable.inc_by(core.unroutable() - unroutable.get());
        let forgotten = &self.kept.forgotten;
        if core.forgotten() > forgotten.get() {
            forgotten.inc_by(core.forgotten() - forgotten.get());
            tracing::error!("a consumer was not told of a topic, and is now; report this");
        }
    }

    /// Notes why publishes wait, if they do.
    pub(crate) fn push_back(&self, reason: Option<Reason>) {
        for each in Reason::ALL {
            let waits = i64::from(Some(each) == reason);
            self.kept.pushed_back.get_or_create(&[("reason", each.name())]).set(waits);
        }
    }

    /// Looks up what the store holds.
    fn note_store(&self, memory: StoreMemory, tree: TreeStats) {
        let kept = &self.kept;
        let layers = [("young", memory.young), ("frozen", memory.frozen), ("filter", memory.filter)];
        for (layer, bytes) in layers.into_iter().chain([("cache", tree.cache_bytes as usize)]) {
            kept.store_bytes.get_or_create(&[("layer", layer)]).set(bytes as i64);
        }
        kept.tree_bytes.set(tree.bytes as i64);
        catch_up(&kept.tree_reads, tree.keys_read + tree.keys_scanned);
        catch_up(&kept.tree_writes, tree.keys_written);
    }

    fn count(&self, fact: &Fact) {
        match fact {
            Fact::Published { count, .. } => self.published.inc_by(u64::from(*count)),
            Fact::Leased { count, .. } => self.delivered.inc_by(u64::from(*count)),
            Fact::Delivered { count, .. } => self.ended.inc_by(u64::from(*count)),
            Fact::Acked { count, .. } => self.acked.inc_by(u64::from(*count)),
            Fact::Returned { count, failed: true, .. } => self.failed.inc_by(u64::from(*count)),
            Fact::Returned { count, failed: false, .. } => self.released.inc_by(u64::from(*count)),
            Fact::Died { which: Victims::Leased { count, .. } | Victims::Waiting { count, .. }, .. } => {
                self.dead.inc_by(u64::from(*count))
            }
            Fact::Ended { count, reason, .. } if *reason != EndReason::Acked => self.ended.inc_by(u64::from(*count)),
            Fact::Superseded { which: Victims::Leased { count, .. } | Victims::Waiting { count, .. }, .. } => {
                self.ended.inc_by(u64::from(*count))
            }
            _ => return,
        };
    }
}

/// Brings a counter to what is counted elsewhere.
fn catch_up(counter: &Counter, total: u64) {
    // Two scrapes at a time may find the same rest.
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// A log that counts what goes through it, and lets the host see it.
pub(crate) struct Counting<'a, L, H> {
    pub(crate) log: &'a mut L,
    pub(crate) metrics: &'a Metrics,
    pub(crate) host: &'a mut H,
}

impl<L: FactLog, H: Host> FactLog for Counting<'_, L, H> {
    fn append(&mut self, fact: &Fact) -> u64 {
        self.metrics.count(fact);
        let position = self.log.append(fact);
        self.host.happened(fact, position);
        position
    }

    fn position(&self) -> u64 {
        self.log.position()
    }
}

#[cfg(test)]
mod tests {
    use millpond_core::command::{Command, Level, Publish, PublishRun, Ticket};
    use millpond_core::{Now, WATCH_EVERY};
    use millpond_storage::twin::TwinDisk;
    use millpond_storage::{OpenOptions, Opened, open};
    use millpond_types::block::{self, Sizes};
    use millpond_types::{Millis, NamespaceName, Priority, RunTime, TopicName, WallTime};

    use super::*;

    #[test]
    fn the_text_holds_what_was_counted() {
        let metrics = Metrics::new();
        metrics.published.inc_by(7);
        metrics.sync_seconds.observe(0.0002);
        let text = metrics.text(Readings { connections: 3, ready: true, ..Readings::default() });
        for line in [
            "millpond_messages_published_total 7",
            "millpond_connections 3",
            "millpond_ready 1",
            "millpond_journal_sync_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_the_watch_finds_is_counted_and_what_it_found_before_is_not_counted_again() {
        let Opened { mut core, mut appender, .. } =
            open::<Core>(Arc::new(TwinDisk::new(512)), &OpenOptions::default()).unwrap();
        let at = |time: u64| Now { run: RunTime(time), wall: WallTime(1_700_000_000_000 + time) };
        core.start(at(0), false, &mut appender);
        core.submit(Ticket(1), publish(["a", "b"]), &mut appender);
        core.dispatch(&mut appender);
        let metrics = Metrics::new();
        let mut found = |time: u64, figure: u64| {
            core.set_time(at(time));
            core.dispatch(&mut appender);
            metrics.note_core(&core);
            let (text, line) = (metrics.text(Readings::default()), format!("millpond_forgotten_total {figure}"));
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
            core.forget_ready(figure as usize + 1);
        };
        found(WATCH_EVERY.0, 0);
        found(2 * WATCH_EVERY.0, 2);
        found(3 * WATCH_EVERY.0, 3);
    }

    /// A message for each of some topics.
    fn publish(topics: [&str; 2]) -> Command {
        let mut block = Vec::new();
        block::push(&mut block, b"", &[], b"body").unwrap();
        let run = |topic| PublishRun {
            topic: TopicName::try_from(topic).unwrap(),
            priority: Priority::DEFAULT,
            delay: Millis::ZERO,
            ttl: None,
            count: 1,
            block: block.clone().into(),
            sizes: Sizes::Uniform(block.len() as u32),
            dedup: Vec::new(),
            too_large: Vec::new(),
        };
        let runs = topics.map(run).into();
        Command::Publish(Publish { namespace: NamespaceName::default(), producer: None, level: Level::Durable, runs })
    }
}
