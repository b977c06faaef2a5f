//! The small language of scenarios: one command a line, read here.
//!
//! `VERB WORD... KEY=VALUE...`. Messages are known by their bodies: `ack m1` takes the last receipt that `m1` was
//! delivered with, `ack m1@1` that of its first delivery, and `leases m1@1 m1` tells the numbers of such leases. `m*3`
//! stands for `m1 m2 m3`, and `m1#x` carries the dedup id
//! `x`. `body_max=2` says that the edge takes no body of more bytes. `move m1` moves the run that was stored with `m1` in front. A filter is nothing for all topics, names for a list, and `a/*` for a prefix. Commands joined by ` | ` come in
//! one turn. `route X m1 key=K` publishes to an exchange, by what the edge knows of it. `forward m1 m2 -> a m3 + b m4` acks the first and publishes
//! the others, and `forward m1 m2 -> route X m3 key=K` acks them and publishes one to an exchange.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::dedup_hash;
use millpond_core::routing::Exchange;
use millpond_types::block;
use millpond_types::{
    Binding, Coalesce, Condition, DedupWindow, Dispatch, ExchangeKind, ExchangeName, Filter, GroupKind, GroupName,
    LeaseNumber, MessageId, Millis, NamespaceName, OfficeTerms, OnExpiry, Overflow, Overrides, Pattern, PausedTopics,
    Policy, Priority, ProducerId, Quotas, Rate, Receipt, RequestId, Retention, Retry, RoutingKey, Rule, Rules,
    SessionId, Start, TopBy, TopicName, TopicNumber, Unroutable, WallTime,
};

use crate::journal::sizes_of;
use crate::shell::HASH_KEY;

/// What a script has seen so far, by the names that it uses.
#[derive(Default)]
pub struct Names {
    /// The ids that bodies were stored under, the last one where a body was published again.
    pub ids: BTreeMap<String, MessageId>,
    /// The receipts that bodies were delivered with, in order.
    pub receipts: BTreeMap<String, Vec<Receipt>>,
    /// Where the last listing of dead letters ended.
    pub next_page: Vec<u8>,
    /// What it is on the wall.
    pub wall: WallTime,
    /// Receives that were given a name.
    pub tickets: BTreeMap<String, Ticket>,
    /// The exchanges that the edge knows.
    pub exchanges: BTreeMap<(NamespaceName, ExchangeName), Arc<Exchange>>,
}

/// A line taken apart.
pub struct Line<'a> {
    pub verb: &'a str,
    pub words: Vec<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
    /// Those of them that were asked for.
    known: RefCell<BTreeSet<String>>,
}

impl<'a> Line<'a> {
    pub fn new(text: &'a str) -> Line<'a> {
        let mut tokens = text.split_whitespace();
        let verb = tokens.next().expect("a line begins with a verb");
        let mut line = Line { verb, words: Vec::new(), options: BTreeMap::new(), known: RefCell::default() };
        for token in tokens {
            match token.split_once('=') {
                Some((key, value)) => _ = line.options.insert(key, value),
                None => line.words.push(token),
            }
        }
        line
    }

    pub fn option(&self, key: &str) -> Option<&'a str> {
        self.known.borrow_mut().insert(key.into());
        self.options.get(key).copied()
    }

    /// What a part of it asked for.
    fn learn(&self, part: &Line<'_>) {
        self.known.borrow_mut().append(&mut part.known.borrow_mut());
    }

    /// An option that nobody asks for is a mistake in a script, which would show something else than it says.
    fn check(&self) {
        let known = self.known.borrow();
        let unknown = self.options.keys().find(|key| !known.contains(**key));
        assert_eq!(unknown, None, "`{}` has no such option", self.verb);
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.option(key).map(|text| text.parse().unwrap_or_else(|_| panic!("{key}={text} is no number")))
    }

    fn time(&self, key: &str) -> Option<Millis> {
        self.option(key).map(duration)
    }

    fn namespace(&self) -> NamespaceName {
        self.option("ns").map_or_else(NamespaceName::default, |name| NamespaceName::try_from(name).unwrap())
    }

    fn topic(&self) -> TopicRef {
        TopicRef { namespace: self.namespace(), name: name(self.words[0].trim_end_matches('*')) }
    }

    fn paused(&self) -> PausedTopics {
        let (name, is_prefix) = (self.words[0].trim_end_matches('*'), self.words[0].ends_with('*'));
        PausedTopics::new(Bytes::copy_from_slice(name.as_bytes()), is_prefix).expect("a script names topics")
    }

    fn hash(&self, topic: &TopicName, dedup_id: &str) -> u128 {
        dedup_hash(HASH_KEY, &self.namespace(), topic, dedup_id.as_bytes())
    }

    /// A body or, behind `#`, a dedup id.
    fn which(&self, word: &str, names: &Names) -> Which {
        match word.strip_prefix('#') {
            Some(dedup_id) => Which::Dedup(self.hash(&self.topic().name, dedup_id)),
            None => Which::Id(id(word, names)),
        }
    }

    fn receipts(&self, names: &Names) -> Vec<ReceiptRun> {
        self.words.iter().map(|word| ReceiptRun { first: receipt(word, names), count: 1 }).collect()
    }

    fn listing(&self, names: &Names) -> Listing {
        let after = match self.option("after") {
            Some("next") => names.next_page.clone(),
            after => after.unwrap_or_default().as_bytes().to_vec(),
        };
        let prefix = self.option("prefix").unwrap_or_default().as_bytes().to_vec();
        let limit = self.number("limit").unwrap_or(100);
        Listing { namespace: self.namespace(), prefix: prefix.into(), after: after.into(), limit }
    }
}

/// The command of a line.
pub fn command(line: &Line<'_>, text: &str, names: &Names) -> Command {
    let command = parse(line, text, names);
    line.check();
    command
}

fn parse(line: &Line<'_>, text: &str, names: &Names) -> Command {
    let namespace = line.namespace();
    let group = GroupName::try_from(line.option("group").unwrap_or("default")).unwrap();
    let (messages, bytes) = (line.number("max").unwrap_or(100), line.number("bytes").unwrap_or(1_000_000));
    let finish = |verb| {
        let confirm = line.option("confirm") != Some("no");
        let namespace = line.option("within").map(|name| NamespaceName::try_from(name).unwrap());
        Command::Finish(Finish { verb, receipts: line.receipts(names), confirm, namespace })
    };
    let reason = || Bytes::from(line.option("reason").unwrap_or_default().to_owned());
    match line.verb {
        "publish" => Command::Publish(publish(line, text)),
        "receive" => Command::Receive(Receive {
            namespace,
            group,
            filter: filter(&line.words),
            messages,
            bytes,
            lease: line.time("lease"),
            wait: line.time("wait").unwrap_or_default(),
            at_most_once: line.option("once") == Some("yes"),
            request: line.number("request").map(RequestId),
            call: line.number("call").unwrap_or_default(),
        }),
        "forward" => {
            let (receipts, outputs) = text.split_once(" -> ").expect("forward BODY... -> PUBLISH");
            let (receipts, parts) = (Line::new(receipts).receipts(names), Line::new(outputs));
            if parts.verb == "route" {
                let route = Route { receipts: Some(receipts), ..resolved(&parts, names) };
                line.learn(&parts);
                return Command::Route(route);
            }
            let mut publish = publish(&parts, outputs);
            line.learn(&parts);
            publish.namespace = namespace;
            Command::Forward(Forward { receipts, publish })
        }
        "withdraw-request" => {
            let request = RequestId(line.number("request").expect("request=ID"));
            Command::WithdrawRequest { namespace, request, call: line.number("call").unwrap_or_default() }
        }
        "withdraw" => Command::Withdraw(names.tickets[line.words[0]]),
        "ack" => finish(FinishVerb::Ack),
        "release" => finish(FinishVerb::Release { delay: line.time("delay").unwrap_or_default() }),
        "fail" => finish(FinishVerb::Fail { delay: line.time("delay"), reason: reason() }),
        "damaged" => finish(FinishVerb::Damaged),
        "reject" => finish(FinishVerb::Reject { reason: reason() }),
        "extend" => finish(FinishVerb::Extend { lease: line.time("lease") }),
        "begin" => {
            let held = line.option("held").unwrap_or_default().split(',').filter(|word| !word.is_empty());
            let held = held.map(|word| ReceiptRun { first: receipt(word, names), count: 1 }).collect();
            let resume = line.time("resume").unwrap_or(Millis::seconds(10));
            Command::SessionBegin(SessionBegin { session: session(line.words[0]), resume, held })
        }
        "lose" => Command::SessionLost(session(line.words[0])),
        "heartbeat" => {
            let except = line.option("except").unwrap_or_default().split(',').filter(|word| !word.is_empty());
            let except = except.map(|word| receipt(word, names)).collect();
            Command::Heartbeat { session: session(line.words[0]), except }
        }
        "end" => Command::SessionEnd(session(line.words[0])),
        "attach" => {
            let (session, consumer) = consumer(line.words[0]);
            let (filter, lease) = (filter(&line.words[1..]), line.time("lease"));
            let at_most_once = line.option("once") == Some("yes");
            Command::Attach(Attach {
                session,
                consumer,
                namespace,
                group,
                filter,
                messages,
                bytes,
                lease,
                at_most_once,
            })
        }
        "credit" => {
            let (session, consumer) = consumer(line.words[0]);
            let (messages, bytes) = (line.number("max").unwrap_or(0), line.number("bytes").unwrap_or(0));
            Command::Credit { session, consumer, messages, bytes }
        }
        "detach" => {
            let (session, consumer) = consumer(line.words[0]);
            Command::Detach { session, consumer }
        }
        "resign" => {
            let (session, consumer) = consumer(line.words[0]);
            Command::Resign { session, consumer }
        }
        "depose" => Command::Depose { namespace, group: GroupName::try_from(line.words[0]).unwrap() },
        "look" => {
            let which = match line.words.get(1) {
                Some(word) => LookWhich::One(line.which(word, names)),
                None => match line.number("due") {
                    Some(count) => LookWhich::Due(count),
                    None => LookWhich::First(line.number("first").unwrap_or(100)),
                },
            };
            Command::Look(Look { topic: line.topic(), which, group: line.option("group").map(|_| group) })
        }
        "cancel" => Command::Cancel { topic: line.topic(), which: line.which(line.words[1], names) },
        "reschedule" => {
            let (topic, which) = (line.topic(), line.which(line.words[1], names));
            Command::Reschedule { topic, which, delay: line.time("delay").unwrap_or_default() }
        }
        "pause" => Command::Pause { namespace, topics: line.paused(), lasts: line.time("for") },
        "resume" => Command::Resume { namespace, topics: line.paused() },
        "forget" => {
            let topic = line.topic();
            let dedup_hash = line.hash(&topic.name, line.words[1].trim_start_matches('#'));
            Command::Forget { topic, dedup_hash }
        }
        "purge" => {
            Command::Purge { namespace, filter: filter(&line.words), group: line.option("group").map(|_| group) }
        }
        "namespace" => {
            let name = NamespaceName::try_from(line.words[0]).unwrap();
            let (policy, rules) = policies(line, text);
            Command::NamespaceSet { name, policy, rules, based_on: line.number("based_on") }
        }
        "namespace-delete" => Command::NamespaceDelete(NamespaceName::try_from(line.words[0]).unwrap()),
        "group" => {
            let start = match line.option("start") {
                None => Start::Latest,
                Some("earliest") => Start::Earliest,
                Some(ago) => Start::At(WallTime(names.wall.0 - duration(ago).0)),
            };
            let kind = match line.words.get(1) {
                Some(&"exclusive") => GroupKind::Exclusive(OfficeTerms {
                    term: line.time("term").unwrap_or(Millis::seconds(10)),
                    handover: line.time("handover").unwrap_or(Millis::seconds(30)),
                }),
                _ => GroupKind::Shared,
            };
            Command::GroupCreate { namespace, name: GroupName::try_from(line.words[0]).unwrap(), start, kind }
        }
        "group-delete" => Command::GroupDelete { namespace, name: GroupName::try_from(line.words[0]).unwrap() },
        "route" => Command::Route(resolved(line, names)),
        "exchange" => {
            let kind = match line.option("kind").expect("kind=") {
                "direct" => ExchangeKind::Direct,
                "topic" => ExchangeKind::Topic,
                "fanout" => ExchangeKind::Fanout,
                _ => ExchangeKind::Headers,
            };
            let drops = line.option("unroutable") == Some("drop");
            let unroutable = if drops { Unroutable::Drop } else { Unroutable::Refuse };
            Command::ExchangeCreate { namespace, name: exchange(line.words[0]), kind, unroutable }
        }
        "exchange-delete" => Command::ExchangeDelete { namespace, name: exchange(line.words[0]) },
        "bind" => Command::Bind { namespace, exchange: exchange(line.words[0]), binding: binding(line) },
        "unbind" => Command::Unbind { namespace, exchange: exchange(line.words[0]), binding: binding(line) },
        "exchanges" => Command::Exchanges(namespace),
        "bindings" => Command::Bindings { namespace, exchange: exchange(line.words[0]) },
        "namespaces" => Command::Namespaces { after: line.option("after").map(|name| name.try_into().unwrap()) },
        "stats" => Command::Stats(namespace),
        "topics" => Command::Topics { listing: line.listing(names), group },
        "top" => {
            let by = match line.words[..] {
                ["age"] => TopBy::Age,
                ["due"] => TopBy::Due,
                _ => TopBy::Depth,
            };
            let Listing { namespace, prefix, limit, .. } = line.listing(names);
            Command::Top(Top { namespace, group, prefix, by, limit })
        }
        "topic" => Command::Topic(line.topic()),
        "dead" => Command::DeadList { listing: line.listing(names), group },
        "dead-look" => Command::DeadLook { topic: line.topic(), group, id: id(line.words[1], names) },
        "redrive" => Command::DeadRedrive { namespace, group, which: dead_which(line, names) },
        "dead-purge" => Command::DeadPurge { namespace, group, which: dead_which(line, names) },
        verb => panic!("no verb {verb}"),
    }
}

/// The bodies of a publish, in order.
pub fn bodies(text: &str) -> Vec<String> {
    let text = text.split_once(" -> ").map_or(text, |(_, outputs)| outputs);
    let runs = text.split(" + ").map(|part| part.trim_start_matches("publish "));
    let words = runs.flat_map(|run| run.split_whitespace().skip(1).filter(|word| !word.contains('=')));
    words.flat_map(expand).map(|word| body_of(&word).0.to_owned()).collect()
}

fn publish(line: &Line<'_>, text: &str) -> Publish {
    let runs = text.split(" + ").map(|part| {
        let part = Line::new(part.trim_start_matches("publish "));
        let topic = name(part.verb);
        let mut run = PublishRun {
            topic: topic.clone(),
            priority: Priority::new(part.number("prio").unwrap_or(4)).expect("a priority"),
            delay: part.time("delay").unwrap_or_default(),
            ttl: part.time("ttl"),
            count: 0,
            block: Bytes::new(),
            sizes: block::Sizes::Uniform(0),
            dedup: Vec::new(),
            too_large: Vec::new(),
        };
        let mut bytes = Vec::new();
        for word in part.words.iter().flat_map(|word| expand(word)) {
            let (body, dedup_id) = body_of(&word);
            if let Some(dedup_id) = dedup_id {
                run.dedup.push(DedupMark { index: run.count, hash: line.hash(&topic, dedup_id) });
            }
            if let Some(limit) = part.number("body_max").filter(|limit| body.len() > *limit as usize) {
                run.too_large.push(TooLarge { index: run.count, bytes: body.len() as u32, limit });
            }
            block::push(&mut bytes, dedup_id.unwrap_or_default().as_bytes(), &[], body.as_bytes()).unwrap();
            run.count += 1;
        }
        (run.sizes, run.block) = (sizes_of(&bytes), bytes.into());
        line.learn(&part);
        run
    });
    let producer = producer(line);
    Publish { namespace: line.namespace(), producer, level: Level::Durable, runs: runs.collect() }
}

fn producer(line: &Line<'_>) -> Option<ProducerBatch> {
    line.option("producer").map(|text| {
        let parts: Vec<u64> = text.split('.').map(|part| part.parse().expect("ID.INSTANCE.SEQUENCE")).collect();
        ProducerBatch { id: ProducerId(u128::from(parts[0])), instance: parts[1] as u32, sequence: parts[2] }
    })
}

/// A message for an exchange, with what the edge knows of that.
fn resolved(line: &Line<'_>, names: &Names) -> Route {
    let mut route = route(line);
    if let Some(exchange) = names.exchanges.get(&(route.publish.namespace.clone(), route.exchange.clone())) {
        exchange.resolve(&mut route, HASH_KEY);
    }
    route
}

/// A message for an exchange, of which nothing is known yet.
fn route(line: &Line<'_>) -> Route {
    let (body, dedup_id) = body_of(line.words[1]);
    let (mut block, headers) = (Vec::new(), headers(line));
    let headers: Vec<(&[u8], &[u8])> = headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    block::push(&mut block, dedup_id.unwrap_or_default().as_bytes(), &headers, body.as_bytes()).unwrap();
    let over = |limit: &u32| body.len() > *limit as usize;
    let message = Routed {
        priority: Priority::new(line.number("prio").unwrap_or(4)).expect("a priority"),
        delay: line.time("delay").unwrap_or_default(),
        ttl: line.time("ttl"),
        block: block.into(),
        too_large: line.number("body_max").filter(over).map(|limit| TooLarge {
            index: 0,
            bytes: body.len() as u32,
            limit,
        }),
    };
    let key = RoutingKey::try_from(line.option("key").unwrap_or_default()).expect("a key");
    Route::new(line.namespace(), (exchange(line.words[0]), key), message, producer(line), Level::Durable)
}

fn exchange(word: &str) -> ExchangeName {
    ExchangeName::try_from(word).unwrap()
}

fn binding(line: &Line<'_>) -> Binding {
    let condition = match (line.option("key"), line.option("headers")) {
        (Some(key), _) => Condition::Key(RoutingKey::try_from(key).expect("a key")),
        (None, Some(_)) => Condition::Headers { all: line.option("match") != Some("any"), headers: headers(line) },
        (None, None) => Condition::Always,
    };
    Binding { condition, target: name(line.words[1]) }
}

/// `KEY:VALUE,...`
fn headers(line: &Line<'_>) -> Vec<(Bytes, Bytes)> {
    let pairs = line.option("headers").into_iter().flat_map(|text| text.split(','));
    let bytes = |text: &str| Bytes::from(text.to_owned());
    pairs.map(|pair| pair.split_once(':').expect("KEY:VALUE")).map(|(key, value)| (bytes(key), bytes(value))).collect()
}

/// A policy and, behind each ` + `, a rule: a topic or `PREFIX*`, and what is otherwise for it.
fn policies(line: &Line<'_>, text: &str) -> (Policy, Rules) {
    let rules = text.split(" + ").skip(1).map(|part| {
        let part = Line::new(part);
        let (is_prefix, name) = (part.verb.ends_with('*'), name(part.verb.trim_end_matches('*')));
        let overrides = overrides(&part);
        line.learn(&part);
        Rule { pattern: Pattern { is_prefix, name }, overrides }
    });
    let of_namespace = Line::new(text.split(" + ").next().expect("there is a first part"));
    assert_eq!(line.words[0], of_namespace.words[0]);
    let quota = |key| of_namespace.number(key);
    let quotas = Quotas {
        messages: quota("quota_messages"),
        bytes: quota("quota_bytes"),
        topics: quota("quota_topics"),
        connections: quota("quota_connections"),
    };
    let dispatch = if of_namespace.option("dispatch") == Some("fair") { Dispatch::Fair } else { Dispatch::Priority };
    let policy = Policy {
        quotas,
        dispatch,
        ageing: of_namespace.time("ageing"),
        retention: Retention { age: of_namespace.time("retention_age"), count: of_namespace.number("retention_count") },
        ..overrides(&of_namespace).over(&Policy::default())
    };
    line.learn(&of_namespace);
    (policy, Rules::new(rules.collect()).expect("rules that are rules"))
}

fn overrides(line: &Line<'_>) -> Overrides {
    let or_none = |key| line.option(key).map(|text| (text != "none").then(|| line.number(key)).flatten());
    Overrides {
        lease: line.time("lease"),
        max_failures: line.number("max_failures"),
        retry: line.option("retry").map(|text| match text {
            "head" => Retry::Head,
            "tail" => Retry::Tail,
            pause => {
                let (first, longest) = pause.split_once("..").expect("retry=head, tail or FIRST..LONGEST");
                Retry::Backoff { first: duration(first), longest: duration(longest) }
            }
        }),
        ttl: line.option("ttl").map(|text| (text != "none").then(|| duration(text))),
        on_expiry: line.option("on_expiry").map(|text| if text == "dead" { OnExpiry::Dead } else { OnExpiry::Drop }),
        dedup_window: line.option("dedup").map(|text| match text {
            "off" => DedupWindow::Off,
            "forever" => DedupWindow::Forever,
            window => DedupWindow::For(duration(window)),
        }),
        max_in_flight: or_none("max_in_flight"),
        max_waiting: or_none("max_waiting"),
        overflow: line
            .option("overflow")
            .map(|text| if text == "drop_oldest" { Overflow::DropOldest } else { Overflow::Reject }),
        coalesce: line.option("coalesce").map(|text| match text {
            "keep_first" => Coalesce::KeepFirst,
            "keep_latest" => Coalesce::KeepLatest,
            _ => Coalesce::Off,
        }),
        run: line.number("run"),
        rate: line.option("rate").map(rate),
        weight: line.number("weight"),
    }
}

/// `N/PERIOD:BURST`, or none.
fn rate(text: &str) -> Option<Rate> {
    let (count, rest) = text.split_once('/')?;
    let (period, burst) = rest.split_once(':').expect("rate=N/PERIOD:BURST or none");
    let number = |text: &str| text.parse().expect("a number");
    Some(Rate { count: number(count), period: duration(period), burst: number(burst) })
}

fn filter(words: &[&str]) -> Filter {
    let names = || words.iter().map(|word| name(word.trim_end_matches('*'))).collect();
    match words {
        [] => Filter::All,
        ["none"] => Filter::Topics(Vec::new()),
        words if words.iter().all(|word| word.ends_with('*')) => Filter::Prefixes(names()),
        _ => Filter::Topics(names()),
    }
}

fn dead_which(line: &Line<'_>, names: &Names) -> DeadWhich {
    match line.option("body") {
        Some(body) => DeadWhich::One(line.topic().name, id(body, names)),
        None => match line.option("first") {
            Some(count) => DeadWhich::First(filter(&line.words), count.parse().expect("a number")),
            None => DeadWhich::Filter(filter(&line.words)),
        },
    }
}

fn id(word: &str, names: &Names) -> MessageId {
    names.ids.get(word).copied().unwrap_or_else(|| word.parse().expect("a body that was published, or an id"))
}

/// The receipt of a body's last delivery or, `m1@2`, of another one; `never` is one that nobody was ever given.
pub fn receipt(word: &str, names: &Names) -> Receipt {
    if word == "never" {
        return Receipt { topic: TopicNumber(9), group: 0, lease: LeaseNumber(u64::MAX) };
    }
    let (body, delivery) = word.split_once('@').map_or((word, None), |(body, n)| (body, n.parse::<usize>().ok()));
    let receipts = names.receipts.get(body).unwrap_or_else(|| panic!("{body} was never delivered"));
    receipts[delivery.unwrap_or(receipts.len()) - 1]
}

fn session(word: &str) -> SessionId {
    SessionId(word.trim_start_matches('s').parse().expect("sessions are s1, s2, ..."))
}

fn consumer(word: &str) -> (SessionId, u32) {
    let (of, number) = word.split_once('.').expect("SESSION.CONSUMER");
    (session(of), number.parse().expect("a consumer's number"))
}

fn name(word: &str) -> TopicName {
    TopicName::try_from(word).unwrap()
}

fn expand(word: &str) -> Vec<String> {
    match word.split_once('*') {
        Some((stem, count)) => (1..=count.parse().expect("STEM*COUNT")).map(|n: u32| format!("{stem}{n}")).collect(),
        None => vec![word.to_owned()],
    }
}

fn body_of(word: &str) -> (&str, Option<&str>) {
    word.split_once('#').map_or((word, None), |(body, dedup_id)| (body, Some(dedup_id)))
}

/// `100ms`, `5s`, `2m`, `1h`, `3d`.
pub fn duration(text: &str) -> Millis {
    let at = text.find(|c: char| !c.is_ascii_digit()).expect("a duration has a unit");
    let count: u64 = text[..at].parse().expect("a duration begins with a number");
    let unit = match &text[at..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        unit => panic!("no unit {unit}"),
    };
    Millis(count * unit)
}
