//! Draws frames at random, from a seed. A kind that is missing here fails the tests.

use bytes::Bytes;
use millpond_types::limits::{BINDING_HEADERS_MAX, DEDUP_ID_MAX, REASON_MAX, SHORT_NAME_MAX, TOPIC_NAME_MAX};
use millpond_types::{
    Binding, Coalesce, Code, Condition, Counts, DeadView, DedupWindow, Dispatch, ExchangeKind, ExchangeName,
    ExchangeView, Filter, FinishOutcome, GroupCursors, GroupKind, GroupName, GroupView, LeaderEpoch, LeaseNumber,
    MessageId, MessageState, MessageView, Millis, NamespaceName, NamespaceView, OfficeTerms, OfficeView, OnExpiry,
    OutcomeRun, Overflow, Overrides, Pattern, Pause, PausedTopics, Policy, Priority, ProducerId, PublishOutcome,
    Quotas, Rate, Receipt, RequestId, Retention, Retry, Role, RoutingKey, Rule, Rules, Sequence, SessionId, Standing,
    Start, Tally, TopBy, TopicName, TopicNumber, TopicView, Unroutable, Usage, WallTime, block,
};

use crate::*;

/// A source of values that likes the ends of their ranges.
pub(crate) struct Draw(pub u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn u64(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => self.next(),
        }
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn option<T>(&mut self, value: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    fn list<T>(&mut self, from: usize, mut row: impl FnMut(&mut Draw) -> T) -> Vec<T> {
        (0..from + self.below(4)).map(|_| row(self)).collect()
    }

    fn length(&mut self, from: usize, max: usize) -> usize {
        match self.below(8) {
            0 => from,
            1 => max,
            _ => from + self.below(20.min(max - from)),
        }
    }

    fn bytes(&mut self, from: usize, max: usize) -> Bytes {
        (0..self.length(from, max)).map(|_| self.next() as u8).collect::<Vec<_>>().into()
    }

    fn text(&mut self) -> String {
        let length = self.length(0, 100);
        (0..length).map(|_| ['a', 'ß', '☃', '\n'][self.below(4)]).collect()
    }

    fn letters(&mut self, max: usize) -> String {
        (0..self.length(1, max)).map(|_| char::from(b"abc-._019"[self.below(3)])).collect()
    }

    fn topic(&mut self) -> TopicName {
        TopicName::try_from(self.letters(TOPIC_NAME_MAX).as_str()).unwrap()
    }

    fn namespace(&mut self) -> NamespaceName {
        NamespaceName::try_from(self.letters(SHORT_NAME_MAX).as_str()).unwrap()
    }

    fn group(&mut self) -> GroupName {
        GroupName::try_from(self.letters(SHORT_NAME_MAX).as_str()).unwrap()
    }

    fn topic_ref(&mut self) -> TopicRef {
        TopicRef { namespace: self.namespace(), name: self.topic() }
    }

    fn paused_topics(&mut self) -> PausedTopics {
        let name = self.topic();
        [PausedTopics::all(), PausedTopics::prefix(&name), PausedTopics::from(&name)][self.below(3)].clone()
    }

    fn pause(&mut self) -> Pause {
        let until = self.option(|draw| WallTime(draw.u64() / 2)).unwrap_or(WallTime::NEVER);
        Pause { topics: self.paused_topics(), until }
    }

    fn priority(&mut self) -> Priority {
        Priority::new(self.below(10) as u8).unwrap()
    }

    fn millis(&mut self) -> Millis {
        Millis(self.u64())
    }

    fn wall(&mut self) -> WallTime {
        WallTime(self.u64())
    }

    fn id(&mut self) -> MessageId {
        MessageId { topic: TopicNumber(self.u64()), priority: self.priority(), sequence: Sequence(self.u64()) }
    }

    fn receipt(&mut self) -> Receipt {
        Receipt { topic: TopicNumber(self.u64()), group: self.u32(), lease: LeaseNumber(self.u64()) }
    }

    fn receipts(&mut self) -> Vec<(Receipt, u32)> {
        self.list(0, |d| (d.receipt(), 1 + d.below(1000) as u32))
    }

    fn filter(&mut self) -> Filter {
        match self.below(3) {
            0 => Filter::All,
            1 => Filter::Topics(self.list(1, Draw::topic)),
            _ => Filter::Prefixes(self.list(1, Draw::topic)),
        }
    }

    fn code(&mut self) -> Code {
        Code::ALL[self.below(Code::ALL.len())]
    }

    /// Messages in block form, their checksums filled in as the broker would.
    fn block(&mut self) -> Bytes {
        let mut bytes = Vec::new();
        for _ in 0..1 + self.below(4) {
            let start = bytes.len();
            let (dedup_id, key, value) = (self.bytes(0, DEDUP_ID_MAX), self.bytes(0, 255), self.bytes(0, 300));
            let headers: &[(&[u8], &[u8])] = &[(&key[..], &value[..]), (b"", b"")];
            let headers = &headers[..self.below(3)];
            block::push(&mut bytes, &dedup_id, headers, &self.bytes(0, 3000)).unwrap();
            let checksum = crc32c::crc32c(&bytes[start + block::PREFIX..]);
            bytes[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes.into()
    }

    fn policy(&mut self) -> Policy {
        Policy {
            lease: self.millis(),
            max_failures: self.u32(),
            retry: match self.below(3) {
                0 => Retry::Head,
                1 => Retry::Tail,
                _ => Retry::Backoff { first: self.millis(), longest: self.millis() },
            },
            ttl: self.option(Draw::millis),
            on_expiry: [OnExpiry::Drop, OnExpiry::Dead][self.below(2)],
            dedup_window: match self.below(3) {
                0 => DedupWindow::Off,
                1 => DedupWindow::For(self.millis()),
                _ => DedupWindow::Forever,
            },
            max_in_flight: self.option(Draw::u32),
            max_waiting: self.option(Draw::u32),
            overflow: [Overflow::Reject, Overflow::DropOldest][self.below(2)],
            coalesce: [Coalesce::Off, Coalesce::KeepFirst, Coalesce::KeepLatest][self.below(3)],
            run: self.u32(),
            rate: self.option(|d| Rate { count: d.u32(), period: d.millis(), burst: d.u32() }),
            weight: self.u32(),
            quotas: Quotas {
                messages: self.option(Draw::u64),
                bytes: self.option(Draw::u64),
                topics: self.option(Draw::u64),
                connections: self.option(Draw::u64),
            },
            dispatch: [Dispatch::Priority, Dispatch::Fair][self.below(2)],
            ageing: self.option(Draw::millis),
            retention: Retention { age: self.option(Draw::millis), count: self.option(Draw::u64) },
        }
    }

    fn rules(&mut self) -> Rules {
        let rule = |d: &mut Draw| {
            let policy = d.policy();
            let overrides = Overrides {
                lease: Some(policy.lease),
                max_failures: d.option(|_| policy.max_failures),
                retry: d.option(|_| policy.retry),
                ttl: d.option(|_| policy.ttl),
                on_expiry: d.option(|_| policy.on_expiry),
                dedup_window: d.option(|_| policy.dedup_window),
                max_in_flight: d.option(|_| policy.max_in_flight),
                max_waiting: d.option(|_| policy.max_waiting),
                overflow: d.option(|_| policy.overflow),
                coalesce: d.option(|_| policy.coalesce),
                run: d.option(|_| policy.run),
                rate: d.option(|_| policy.rate),
                weight: d.option(|_| policy.weight),
            };
            Rule { pattern: Pattern { is_prefix: d.flag(), name: d.topic() }, overrides }
        };
        let mut rules = self.list(0, rule);
        rules.sort_by(|a, b| a.pattern.cmp(&b.pattern));
        rules.dedup_by(|a, b| a.pattern == b.pattern);
        Rules::new(rules).unwrap()
    }

    fn state(&mut self) -> MessageState {
        match self.below(6) {
            0 => MessageState::Waiting,
            1 => MessageState::Delayed { due: self.wall() },
            2 => MessageState::Retrying { due: self.wall() },
            3 => MessageState::Leased,
            4 => MessageState::Dead,
            _ => MessageState::Ended,
        }
    }

    fn exchange(&mut self) -> ExchangeName {
        ExchangeName::try_from(["events", "x"][self.below(2)]).unwrap()
    }

    fn key(&mut self) -> RoutingKey {
        RoutingKey::try_from(["", "a.b", "*.#"][self.below(3)]).unwrap()
    }

    fn exchange_kind(&mut self) -> ExchangeKind {
        [ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Fanout, ExchangeKind::Headers][self.below(4)]
    }

    fn unroutable(&mut self) -> Unroutable {
        if self.flag() { Unroutable::Refuse } else { Unroutable::Drop }
    }

    fn binding(&mut self) -> Binding {
        let condition = match self.below(3) {
            0 => Condition::Always,
            1 => Condition::Key(self.key()),
            _ => {
                let (all, header) = (self.flag(), |d: &mut Draw| (d.bytes(0, 40), d.bytes(0, 40)));
                let mut headers = self.list(1, header);
                headers.truncate(BINDING_HEADERS_MAX);
                Condition::Headers { all, headers }
            }
        };
        Binding { condition, target: self.topic() }
    }

    fn exchange_view(&mut self) -> ExchangeView {
        let (name, kind, unroutable) = (self.exchange(), self.exchange_kind(), self.unroutable());
        ExchangeView { name, kind, unroutable, bindings: self.u64(), version: self.u64() }
    }

    fn which(&mut self) -> Which {
        if self.flag() { Which::Id(self.id()) } else { Which::Dedup(self.bytes(1, DEDUP_ID_MAX)) }
    }

    fn dead_which(&mut self) -> DeadWhich {
        match self.below(3) {
            0 => DeadWhich::One(self.topic(), self.id()),
            1 => DeadWhich::Filter(self.filter()),
            _ => DeadWhich::First(self.filter(), self.u32()),
        }
    }

    fn listing(&mut self) -> Listing {
        Listing {
            namespace: self.namespace(),
            prefix: self.bytes(0, TOPIC_NAME_MAX),
            after: self.bytes(0, TOKEN_MAX),
            limit: self.u32(),
        }
    }

    fn publish(&mut self) -> Publish {
        let producer = |d: &mut Draw| {
            let id = ProducerId(u128::from(d.u64()) << 64 | u128::from(d.u64()));
            ProducerBatch { id, instance: d.u32(), sequence: d.u64() }
        };
        let run = |d: &mut Draw| PublishRun {
            topic: d.topic(),
            priority: d.priority(),
            delay: d.millis(),
            ttl: d.option(Draw::millis),
            block: d.block(),
        };
        Publish {
            namespace: self.namespace(),
            level: [Level::Durable, Level::Buffered, Level::None][self.below(3)],
            producer: self.option(producer),
            runs: self.list(1, run),
        }
    }

    fn finish(&mut self) -> Finish {
        let verb = match self.below(5) {
            0 => FinishVerb::Ack,
            1 => FinishVerb::Release { delay: self.millis() },
            2 => FinishVerb::Fail { delay: self.option(Draw::millis), reason: self.bytes(0, REASON_MAX) },
            3 => FinishVerb::Reject { reason: self.bytes(0, REASON_MAX) },
            _ => FinishVerb::Extend { lease: self.option(Draw::millis) },
        };
        Finish { verb, confirm: self.flag(), namespace: self.option(Draw::namespace), receipts: self.receipts() }
    }

    /// A request of the kind.
    pub(crate) fn request(&mut self, kind: &str) -> Request {
        match kind {
            "Hello" => Request::Hello { version: VERSION, client: self.text() },
            "Ping" => Request::Ping,
            "Publish" => Request::Publish(self.publish()),
            "Forward" => {
                let Publish { namespace, runs, .. } = self.publish();
                Request::Forward(Forward { receipts: self.receipts(), namespace, runs })
            }
            "ForwardRoute" => {
                let Publish { namespace, mut runs, .. } = self.publish();
                let PublishRun { priority, delay, ttl, block, .. } = runs.remove(0);
                let (receipts, exchange, key) = (self.receipts(), self.exchange(), self.key());
                let route = ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block };
                Request::ForwardRoute(route)
            }
            "Route" => {
                let Publish { namespace, level, producer, mut runs } = self.publish();
                let PublishRun { priority, delay, ttl, block, .. } = runs.remove(0);
                let (exchange, key) = (self.exchange(), self.key());
                Request::Route(Route { namespace, level, producer, exchange, key, priority, delay, ttl, block })
            }
            "ExchangeCreate" => Request::ExchangeCreate {
                namespace: self.namespace(),
                exchange: self.exchange(),
                kind: self.exchange_kind(),
                unroutable: self.unroutable(),
            },
            "ExchangeDelete" => Request::ExchangeDelete { namespace: self.namespace(), exchange: self.exchange() },
            "Exchanges" => Request::Exchanges { namespace: self.namespace() },
            "Bind" => Request::Bind { namespace: self.namespace(), exchange: self.exchange(), binding: self.binding() },
            "Unbind" => {
                Request::Unbind { namespace: self.namespace(), exchange: self.exchange(), binding: self.binding() }
            }
            "Bindings" => Request::Bindings { namespace: self.namespace(), exchange: self.exchange() },
            "Receive" => Request::Receive(Receive {
                namespace: self.namespace(),
                group: self.group(),
                filter: self.filter(),
                messages: self.u32(),
                bytes: self.u64(),
                lease: self.option(Draw::millis),
                wait: self.millis(),
                at_most_once: self.flag(),
                request: self.option(|d| RequestId(u128::from(d.u64()) << 64 | u128::from(d.u64()))),
            }),
            "Finish" => Request::Finish(self.finish()),
            "SessionBegin" => {
                let (session, resume) = (SessionId(self.u64()), self.millis());
                Request::SessionBegin { session, resume, held: self.receipts() }
            }
            "Heartbeat" => Request::Heartbeat { except: self.list(0, Draw::receipt) },
            "SessionEnd" => Request::SessionEnd,
            "Attach" => Request::Attach(Attach {
                consumer: self.u32(),
                namespace: self.namespace(),
                group: self.group(),
                filter: self.filter(),
                messages: self.u32(),
                bytes: self.u64(),
                lease: self.option(Draw::millis),
                at_most_once: self.flag(),
            }),
            "Credit" => Request::Credit { consumer: self.u32(), messages: self.u32(), bytes: self.u64() },
            "Detach" => Request::Detach { consumer: self.u32() },
            "Resign" => Request::Resign { consumer: self.u32() },
            "Look" => {
                let which = match self.u32() % 3 {
                    0 => LookWhich::One(self.which()),
                    1 => LookWhich::First(self.u32()),
                    _ => LookWhich::Due(self.u32()),
                };
                Request::Look { topic: self.topic_ref(), which, group: self.option(Draw::group) }
            }
            "Cancel" => Request::Cancel { topic: self.topic_ref(), which: self.which() },
            "Reschedule" => Request::Reschedule { topic: self.topic_ref(), which: self.which(), delay: self.millis() },
            "Pause" => {
                let (namespace, topics) = (self.namespace(), self.paused_topics());
                Request::Pause { namespace, topics, lasts: self.option(Draw::millis) }
            }
            "Resume" => Request::Resume { namespace: self.namespace(), topics: self.paused_topics() },
            "Forget" => Request::Forget { topic: self.topic_ref(), dedup_id: self.bytes(1, DEDUP_ID_MAX) },
            "Purge" => {
                let group = self.option(Draw::group);
                Request::Purge { namespace: self.namespace(), filter: self.filter(), group }
            }
            "NamespaceSet" => {
                let (namespace, policy) = (self.namespace(), self.policy());
                Request::NamespaceSet { namespace, policy, rules: self.rules(), based_on: self.option(Draw::u64) }
            }
            "NamespaceDelete" => Request::NamespaceDelete { namespace: self.namespace() },
            "GroupCreate" => {
                let kind = self.option(Draw::terms).map_or(GroupKind::Shared, GroupKind::Exclusive);
                Request::GroupCreate { namespace: self.namespace(), group: self.group(), start: self.start(), kind }
            }
            "GroupDelete" => Request::GroupDelete { namespace: self.namespace(), group: self.group() },
            "Depose" => Request::Depose { namespace: self.namespace(), group: self.group() },
            "Namespaces" => Request::Namespaces { after: self.option(Draw::namespace) },
            "Stats" => Request::Stats { namespace: self.namespace() },
            "Topics" => Request::Topics { listing: self.listing(), group: self.group() },
            "Topic" => Request::Topic(self.topic_ref()),
            "TopTopics" => Request::TopTopics {
                namespace: self.namespace(),
                prefix: self.bytes(0, TOPIC_NAME_MAX),
                by: if self.flag() { TopBy::Depth } else { TopBy::Age },
                limit: self.u32(),
                group: self.group(),
            },
            "DeadList" => Request::DeadList { listing: self.listing(), group: self.group() },
            "DeadLook" => Request::DeadLook { topic: self.topic_ref(), id: self.id(), group: self.group() },
            "DeadRedrive" => {
                Request::DeadRedrive { namespace: self.namespace(), group: self.group(), which: self.dead_which() }
            }
            "DeadPurge" => {
                Request::DeadPurge { namespace: self.namespace(), group: self.group(), which: self.dead_which() }
            }
            other => panic!("{other} is not drawn"),
        }
    }

    fn leased(&mut self) -> LeasedRun {
        LeasedRun {
            topic: self.topic(),
            receipt: self.receipt(),
            priority: self.priority(),
            first: Sequence(self.u64()),
            count: self.u32(),
            published: self.wall(),
            deliveries: self.u32(),
            failures: self.u32(),
            run: self.option(|d| LeaseNumber(d.u64())),
            block: self.block(),
        }
    }

    fn publish_outcome(&mut self) -> PublishOutcome {
        match self.below(4) {
            0 => PublishOutcome::Queued { id: self.id() },
            2 => PublishOutcome::Coalesced { id: self.id(), replaced: self.option(Draw::id) },
            1 => PublishOutcome::Duplicate { id: self.id(), state: self.state() },
            _ => PublishOutcome::Refused { code: self.code(), detail: self.text() },
        }
    }

    fn counts(&mut self) -> Counts {
        let [waiting, delayed, retrying, leased, dead] = std::array::from_fn(|_| self.u64());
        Counts { waiting, delayed, retrying, leased, dead }
    }

    fn message(&mut self) -> MessageView {
        MessageView {
            id: self.id(),
            state: self.state(),
            published: self.wall(),
            expires: self.option(Draw::wall),
            deliveries: self.u32(),
            failures: self.u32(),
            bytes: self.u32(),
            block: self.block(),
        }
    }

    fn start(&mut self) -> Start {
        [Start::Latest, Start::Earliest, Start::At(self.wall())][self.below(3)]
    }

    fn group_view(&mut self) -> GroupView {
        GroupView {
            name: self.group(),
            start: self.start(),
            is_starting: self.flag(),
            reached: self.option(Draw::topic),
            counts: self.counts(),
            tally: Tally {
                accepted: self.u64(),
                declined: self.u64(),
                superseded: self.u64(),
                dropped: self.u64(),
                retained_out: self.u64(),
            },
        }
    }

    fn namespace_view(&mut self) -> NamespaceView {
        NamespaceView {
            name: self.namespace(),
            policy: self.policy(),
            rules: self.rules(),
            version: self.u64(),
            usage: Usage { messages: self.u64(), bytes: self.u64(), topics: self.u64(), connections: self.u64() },
            groups: self.list(0, Draw::group_view),
            offices: self.list(0, Draw::office),
            paused: self.list(0, Draw::pause),
            position: self.u64(),
        }
    }

    fn terms(&mut self) -> OfficeTerms {
        OfficeTerms { term: self.millis(), handover: self.millis() }
    }

    fn office(&mut self) -> OfficeView {
        OfficeView {
            group: self.group(),
            terms: self.terms(),
            epoch: LeaderEpoch(self.u64()),
            leader: self.option(Draw::u32),
            is_handing_over: self.flag(),
            candidates: self.u32(),
        }
    }

    fn standing(&mut self) -> Standing {
        let role = [Role::Candidate, Role::Inaugurate, Role::Lead, Role::Deposed][self.below(4)];
        Standing { role, epoch: LeaderEpoch(self.u64()), term: self.millis(), handover: self.millis() }
    }

    fn topic_view(&mut self) -> TopicView {
        let cursors = |d: &mut Draw| GroupCursors {
            group: d.group(),
            priority: d.priority(),
            scan: Sequence(d.u64()),
            completion: Sequence(d.u64()),
            next: Sequence(d.u64()),
            lag: d.u64(),
        };
        TopicView {
            name: self.topic(),
            paused: self.flag(),
            counts: self.counts(),
            oldest: self.option(Draw::wall),
            due: self.option(Draw::wall),
            cursors: self.list(0, cursors),
        }
    }

    fn dead(&mut self) -> DeadView {
        let (topic, message, reason) = (self.topic(), self.message(), self.text());
        DeadView { topic, message, reason, detail: self.text(), died: self.wall() }
    }

    /// A response of the kind.
    pub(crate) fn response(&mut self, kind: &str) -> Response {
        use FinishOutcome::{Dead, Deposed, Done, Kept, LeaseLost, OutOfOrder};
        const FINISHED: [FinishOutcome; 6] = [Done, Dead, LeaseLost, Kept, Deposed, OutOfOrder];
        let code = self.code();
        match kind {
            "Welcome" => {
                let version = self.u32() as u16;
                Response::Welcome { version, frame_max: self.u32(), body_max: self.u32(), idle: self.millis() }
            }
            "Pong" => Response::Pong,
            "Published" => {
                Response::Published(self.list(0, |d| OutcomeRun { count: d.u32(), outcome: d.publish_outcome() }))
            }
            "Routed" => Response::Routed {
                topics: self.list(1, Draw::topic),
                outcomes: self.list(0, |d| OutcomeRun { count: d.u32(), outcome: d.publish_outcome() }),
            },
            "Forwarded" => Response::Forwarded {
                finished: self.list(0, |d| OutcomeRun { count: d.u32(), outcome: FINISHED[d.below(4)].clone() }),
                published: self.list(0, |d| OutcomeRun { count: d.u32(), outcome: d.publish_outcome() }),
            },
            "ForwardRouted" => Response::ForwardRouted {
                topics: self.list(1, Draw::topic),
                finished: self.list(0, |d| OutcomeRun { count: d.u32(), outcome: FINISHED[d.below(4)].clone() }),
                published: self.list(0, |d| OutcomeRun { count: d.u32(), outcome: d.publish_outcome() }),
            },
            "PublishCredit" => Response::PublishCredit { bytes: self.u32() },
            "Received" => Response::Received(self.list(0, Draw::leased)),
            "Finished" => Response::Finished(
                self.list(0, |d| OutcomeRun { count: d.u32(), outcome: FINISHED[d.below(4)].clone() }),
            ),
            "SessionBegun" => {
                let session = SessionId(self.u64());
                Response::SessionBegun { session, resumed: self.flag(), heartbeat: self.millis() }
            }
            "Delivery" => {
                let (consumer, epoch) = (self.u32(), self.option(|d| LeaderEpoch(d.u64())));
                Response::Delivery { consumer, epoch, leases: self.list(0, Draw::leased) }
            }
            "SessionExpired" => Response::SessionExpired,
            "Standing" => Response::Standing { consumer: self.u32(), standing: self.standing() },
            "Done" => Response::Done,
            "Count" => Response::Count(self.u64()),
            "Messages" => Response::Messages(self.list(0, Draw::message)),
            "Namespaces" => {
                let (rows, next) = (self.list(0, Draw::namespace_view), self.option(Draw::namespace));
                Response::Namespaces { rows, next }
            }
            "Exchanges" => Response::Exchanges(self.list(0, Draw::exchange_view)),
            "Bindings" => Response::Bindings(self.list(0, Draw::binding)),
            "Topics" => Response::Topics(self.list(0, Draw::topic_view)),
            "Dead" => Response::Dead { rows: self.list(0, Draw::dead), next: self.bytes(0, TOKEN_MAX) },
            "Error" => Response::Error { code, detail: self.text() },
            "Closing" => Response::Closing { code, detail: self.text() },
            other => panic!("{other} is not drawn"),
        }
    }
}
