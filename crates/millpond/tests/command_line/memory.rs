//! `--memory`: what a broker takes at rest, and that clients cannot make it take more than it was given.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millpond_client::{Client, Deliveries, Error, Message, Receipts, ReceiveOptions};
use millpond_protocol::{Listing, LookWhich, Receive, Request, TopicRef, VERSION, encode_request};
use millpond_types::limits::RECEIVE_MESSAGES_MAX;
use millpond_types::{
    Code, Filter, FinishOutcome, GroupName, LeaseNumber, Millis, NamespaceName, Priority, PublishOutcome, Receipt,
    TopicName,
};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use tokio::runtime::Runtime;

use crate::broker::{Broker, call, fresh_directory, serve};

const MIB: u64 = 1 << 20;
/// What a broker takes at most that was given the least memory, whatever one turn decides; docs/memory.md has this figure too.
pub const LEAST: u64 = 112 * MIB;
/// Clients that publish to very many places at once.
const PUBLISHES: u64 = 6;

#[test]
fn a_fresh_broker_takes_little() {
    let broker = Broker::start();
    assert!(broker.resident() < 30 * MIB, "{} bytes", broker.resident());
}

#[test]
fn too_little_memory_is_told_with_what_is_needed() {
    call(&["serve", "--memory", "63MiB"]).failed(2, &["64 MiB", "memory"]);
}

#[test]
fn slow_clients_with_large_frames_share_a_bound() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let before = broker.resident();
    // Each sends the greater part of a large frame and goes no further.
    let mut slow: Vec<Slow> = (0..40).map(|_| Slow::connect(&broker.address)).collect();
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        slow.iter_mut().for_each(Slow::push);
        sleep(Duration::from_millis(10));
    }
    assert!(slow.iter().any(|client| client.sent >= 3 * MIB as usize), "nobody was read");
    let taken = broker.resident() - before;
    assert!(taken < 24 * MIB, "forty frames of 4 MiB take {taken} bytes");
    // Small frames go past all of them.
    broker.ok(&["publish", "default/t", "small"]);
    assert!(broker.ok(&["receive", "default", "--ack"]).contains("small"));
    // Large ones do when there is room again.
    drop(slow);
    let large = "x".repeat(MIB as usize);
    broker.call_with(&["publish", "default/t", "-"], large.as_bytes()).ok();
}

#[test]
fn clients_that_ask_and_do_not_read_share_a_bound() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let large = "x".repeat(MIB as usize);
    for _ in 0..4 {
        broker.call_with(&["publish", "default/large", "-"], large.as_bytes()).ok();
    }
    let before = broker.resident();
    let topic = TopicRef { namespace: NamespaceName::default(), name: TopicName::try_from("large").unwrap() };
    let mut asked = Vec::new();
    encode_request(&Request::Hello { version: VERSION, client: "greedy".into() }, 1, &mut asked);
    // More than the system takes on its way.
    for correlation in 2..12 {
        let look = Request::Look { topic: topic.clone(), which: LookWhich::First(4), group: None };
        encode_request(&look, correlation, &mut asked);
    }
    let greedy = |_| {
        let mut stream = TcpStream::connect(&broker.address).unwrap();
        stream.write_all(&asked).unwrap();
        stream
    };
    let clients: Vec<TcpStream> = (0..40).map(greedy).collect();
    sleep(Duration::from_secs(2));
    let taken = broker.resident().saturating_sub(before);
    assert!(taken < 24 * MIB, "forty clients that do not read take {taken} bytes");
    // Small answers go past all of them.
    broker.ok(&["publish", "default/t", "small"]);
    assert!(broker.ok(&["receive", "default/t", "--ack"]).contains("small"));
    drop(clients);
    assert_eq!(
        broker.json(&["look", "default/large", "--output", "json"]).len(),
        4,
        "large ones do when there is room again"
    );
}

/// Each answer is small, or of some thousand rows that are in memory: it waits as it is for who does not read.
#[test]
fn answers_that_nobody_reads_share_a_bound() {
    let mut unread_at_once = 0;
    for (name, request) in unread() {
        let directory = fresh_directory();
        let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
        runtime().block_on(rows(&broker));
        let asked = request.repeat(64 * 1024 / request.len());
        let greedy = |_| Slow::with(&broker.address, asked.clone(), 8 * MIB as usize);
        let mut clients: Vec<Slow> = (0..25).map(greedy).collect();
        push_all(&mut clients);
        let most = broker.status("VmHWM:") * 1024;
        assert!(most < 64 * MIB, "25 clients that do not read {name} make the broker take {most} bytes");
        let told = broker.metrics();
        let waiting = told.lines().find_map(|line| line.strip_prefix("millpond_unread_bytes ")).unwrap();
        unread_at_once += u32::from(waiting != "0");
        // Those who read are served meanwhile, also who asks for much at a time.
        runtime().block_on(finishes(&broker));
        // Lists when there is room again.
        drop(clients);
        assert_eq!(broker.json(&["topics", "default", "--limit", "9", "--output", "json"]).len(), 9, "{name}");
    }
    // Who is not read any more may have had its last answer before that.
    assert!(unread_at_once > 0, "no answer ever waited");
}

fn unread() -> Vec<(&'static str, Vec<u8>)> {
    let namespace = NamespaceName::default;
    let receive = |group: &str, wait| {
        Request::Receive(Receive {
            namespace: namespace(),
            group: GroupName::try_from(group).unwrap(),
            filter: Filter::Topics(vec![TopicName::try_from("nothing").unwrap()]),
            messages: 1,
            bytes: 1,
            lease: None,
            wait: Millis(wait),
            at_most_once: false,
            request: None,
        })
    };
    let topic = TopicRef { namespace: namespace(), name: TopicName::try_from("rows").unwrap() };
    let look = Request::Look { topic, which: LookWhich::First(1000), group: None };
    let listing = Listing { namespace: namespace(), prefix: Bytes::new(), after: Bytes::new(), limit: 1000 };
    let requests = [
        ("answers to receives", receive("default", 0)),
        ("answers to receives that wait", receive("default", 1)),
        ("refusals", receive(&"x".repeat(64), 0)),
        ("looks", look),
        ("lists of topics", Request::Topics { listing, group: GroupName::default() }),
    ];
    let bytes = |request| {
        let mut bytes = Vec::new();
        encode_request(&request, 7, &mut bytes);
        bytes
    };
    requests.map(|(name, request)| (name, bytes(request))).into()
}

/// Sends until nobody is read any more.
fn push_all(clients: &mut [Slow]) {
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_secs(1) {
        let sent = |clients: &[Slow]| clients.iter().map(|client| client.sent).sum::<usize>();
        let before = sent(clients);
        clients.iter_mut().for_each(Slow::push);
        if sent(clients) > before {
            last = Instant::now();
        }
        sleep(Duration::from_millis(1));
    }
}

/// A thousand messages of a topic, and a thousand topics with a message.
async fn rows(broker: &Broker) {
    let client = Client::connect(broker.address.as_str()).await.unwrap();
    let topic = |name: &str| TopicName::try_from(name).unwrap();
    let messages = (0..1000).map(|_| Message::new(topic("rows"), "x"));
    let topics = (0..1000).map(|at| Message::new(topic(&format!("row/{at}/{}", "x".repeat(400))), "x"));
    client.publish_many(&NamespaceName::default(), messages.chain(topics).collect()).await.unwrap();
}

/// Publishes, receives and acks a thousand messages, all of whose acks are on their way at a time.
async fn finishes(broker: &Broker) {
    let (client, topic) = (Client::connect(broker.address.as_str()).await.unwrap(), TopicName::try_from("t").unwrap());
    let messages = (0..1000).map(|_| Message::new(topic.clone(), "x")).collect();
    client.publish_many(&NamespaceName::default(), messages).await.unwrap();
    let mut acks = tokio::task::JoinSet::new();
    while acks.len() < 1000 {
        let filter = Filter::Topics(vec![topic.clone()]);
        let options = ReceiveOptions { filter, messages: 1000, ..ReceiveOptions::new(NamespaceName::default()) };
        for delivery in client.receive(options).await.unwrap() {
            let client = client.clone();
            acks.spawn(async move { client.ack(&delivery).await.unwrap().done() });
        }
    }
    assert_eq!(acks.join_all().await, [1; 1000]);
}

/// A broker with so little memory, and leased topics that have come to take more than there is for topics: these cannot leave
/// it, and publishes wait. While there is room, receives are given as much as is left; then what is leased has grown.
fn full_of_leases(directory: &Path, runtime: &Runtime) -> (Broker, Client, Vec<Deliveries>) {
    let broker = Broker::run(serve(directory).args(["--memory", "64MiB"]));
    broker.ok(&["group", "create", "default", "audit"]);
    let client = runtime.block_on(Client::connect(broker.address.as_str())).unwrap();
    let namespace = NamespaceName::default();
    let message = |number: usize| Message::new(TopicName::try_from(format!("t/{number}").as_str()).unwrap(), "x");
    let mut leased: Vec<Deliveries> = Vec::new();
    while leased.last().is_none_or(|deliveries| deliveries.len() == 1000) {
        let from = 1000 * leased.len();
        let options = ReceiveOptions {
            messages: 1000,
            lease: Some(Duration::from_secs(3600)),
            ..ReceiveOptions::new(namespace.clone())
        };
        runtime.block_on(async {
            client.publish_many(&namespace, (from..from + 1000).map(message).collect()).await.unwrap();
            leased.push(client.receive(options).await.unwrap());
        });
    }
    let for_good = || {
        sleep(Duration::from_millis(500));
        is_pressed(&broker)
    };
    let mut pieces =
        (0..=9).flat_map(|level| (0..leased.len()).map(move |piece| (Priority::new(level).unwrap(), piece)));
    while !(is_pressed(&broker) && for_good()) {
        let (priority, piece) =
            pieces.next().expect("ten messages in each leased topic are more than there is room for");
        let more = (1000 * piece..1000 * (piece + 1)).map(|number| message(number).priority(priority)).collect();
        // If they have to wait already, it shows.
        let published =
            async { tokio::time::timeout(Duration::from_secs(5), client.publish_many(&namespace, more)).await };
        let _ = runtime.block_on(published);
    }
    (broker, client, leased)
}

fn is_pressed(broker: &Broker) -> bool {
    broker.metrics().contains("millpond_pushed_back{reason=\"topics\"} 1")
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn what_looks_or_makes_room_goes_on_while_publishes_wait() {
    let (directory, runtime) = (fresh_directory(), runtime());
    let (broker, client, leased) = full_of_leases(directory.path(), &runtime);
    let waiting = broker.spawn(&["publish", "default/one-more", "x"]);
    broker.ok(&["stats"]);
    broker.ok(&["namespace", "list"]);
    broker.ok(&["group", "list", "default"]);
    broker.ok(&["topics", "default", "--limit", "10"]);
    broker.ok(&["look", "default/t/0", "--first", "1"]);
    broker.ok(&["dead", "list", "default"]);
    assert!(is_pressed(&broker), "and publishes wait all the while");
    broker.ok(&["purge", "default/t/0"]);
    broker.ok(&["group", "delete", "default", "audit"]);
    for deliveries in leased {
        let acked = runtime.block_on(client.ack(deliveries.receipts())).unwrap();
        assert_eq!(acked.done(), deliveries.len());
    }
    waiting.wait().ok();
}

/// Each of very many connections may have read one before it is known that they wait.
#[test]
fn large_publishes_that_wait_share_a_bound() {
    const CLIENTS: u64 = 30;
    let (directory, runtime) = (fresh_directory(), runtime());
    let (broker, client, mut leased) = full_of_leases(directory.path(), &runtime);
    let before = broker.resident();
    let large = |_| Message::new(TopicName::try_from("large").unwrap(), vec![b'x'; 900 << 10]);
    runtime.block_on(async {
        let mut publishes = tokio::task::JoinSet::new();
        for _ in 0..CLIENTS {
            let client = Client::connect(broker.address.as_str()).await.unwrap();
            publishes.spawn(async move {
                client.publish_many(&NamespaceName::default(), (0..4).map(large).collect()).await.unwrap()
            });
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(is_pressed(&broker), "and publishes wait all the while");
        let taken = broker.resident().saturating_sub(before);
        assert!(taken < 24 * MIB, "{CLIENTS} frames of 3.6 MB take {taken} bytes");
        // Acks pass them, and forwards as large as they are.
        let one = leased[0].next().unwrap();
        let (to, output) = (NamespaceName::default(), (0..4).map(large).collect());
        let forwarded = tokio::time::timeout(Duration::from_secs(10), client.forward(&one, &to, output)).await;
        assert!(forwarded.expect("nothing is waited for").unwrap().is_done());
        for deliveries in leased {
            assert_eq!(client.ack(deliveries.receipts()).await.unwrap().done(), deliveries.len());
        }
        for told in publishes.join_all().await {
            assert!(told.iter().all(|outcome| matches!(outcome, PublishOutcome::Queued { .. })), "{told:?}");
        }
    });
}

/// They may be all that ends these leases.
#[test]
fn forwards_go_on_where_leased_topics_take_all_memory() {
    let (directory, runtime) = (fresh_directory(), runtime());
    let (broker, client, leased) = full_of_leases(directory.path(), &runtime);
    assert!(is_pressed(&broker), "publishes wait");
    runtime.block_on(async {
        // With the first ones done, there may be room for others again.
        for delivery in leased.into_iter().next().unwrap().take(10) {
            let output = Message::new(TopicName::try_from("out").unwrap(), "y");
            let done = client.forward(&delivery, &NamespaceName::default(), vec![output]).await.unwrap();
            assert!(done.is_done(), "{done:?}");
        }
    });
}

/// Leases are given by the dozen, and may be finished or extended one by one, in any order: then each takes what dozens did.
#[test]
fn leases_that_are_taken_apart_share_a_bound() {
    for extends in [false, true] {
        let directory = fresh_directory();
        let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
        runtime().block_on(take_leases_apart(&broker, extends));
        let most = broker.status("VmHWM:") * 1024;
        assert!(most < 64 * MIB, "leases of 200,000 messages make the broker take {most} bytes, extended: {extends}");
    }
}

/// Leases what is given of 200,000 messages, and acks or extends every second one, each named alone; then extends the others
/// as well. Another client publishes meanwhile.
async fn take_leases_apart(broker: &Broker, extends: bool) {
    let topic = |name: &str| TopicName::try_from(name).unwrap();
    let (client, other) = (Client::connect(broker.address.as_str()), Client::connect(broker.address.as_str()));
    let (client, other, namespace) = (client.await.unwrap(), other.await.unwrap(), NamespaceName::default());
    for _ in 0..20 {
        let messages = (0..10_000).map(|_| Message::new(topic("bait"), "x")).collect();
        client.publish_many(&namespace, messages).await.unwrap();
    }
    let hour = Duration::from_secs(3600);
    let mut leases: Vec<Receipt> = Vec::new();
    loop {
        let options = ReceiveOptions {
            filter: Filter::Topics(vec![topic("bait")]),
            messages: RECEIVE_MESSAGES_MAX,
            lease: Some(hour),
            ..ReceiveOptions::new(namespace.clone())
        };
        let given = match client.receive(options).await {
            // There is more, and no memory for it.
            Err(Error::Refused { code: Code::Overloaded, .. }) => break,
            given => given.unwrap(),
        };
        let lease = |first: Receipt, at: u32| Receipt { lease: LeaseNumber(first.lease.0 + u64::from(at)), ..first };
        leases
            .extend(given.receipts().runs().iter().flat_map(|(first, count)| (0..*count).map(|at| lease(*first, at))));
    }
    assert!(leases.len() > 2000, "{} leases were given", leases.len());
    for part in leases.chunks(10_000) {
        let second = |from: usize| part.iter().skip(from).step_by(2).copied().collect::<Receipts>();
        match extends {
            true => {
                client.extend(second(0), Some(2 * hour)).await.unwrap();
                client.extend(second(1), Some(3 * hour)).await.unwrap();
            }
            false => _ = client.ack(second(0)).await.unwrap(),
        }
        let published = other.publish(&namespace, Message::new(topic("other"), "x"));
        let answer = tokio::time::timeout(Duration::from_secs(10), published).await;
        answer.expect("who has nothing to do with it does not wait").unwrap();
    }
}

/// Each group has a topic's messages in a place of its own: 61,000 of them for each of these publishes, which come at once. They
/// are decided one after the other, as their topics leave for the disk.
#[test]
fn publishes_to_many_topics_in_many_groups_have_a_bound() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    (1..=60).for_each(|group| drop(broker.ok(&["group", "create", "default", &format!("g{group}")])));
    let runtime = runtime();
    let message = |topic: u64| Message::new(TopicName::try_from(format!("t/{topic}").as_str()).unwrap(), "x");
    runtime.block_on(async {
        let (client, namespace) = (Client::connect(broker.address.as_str()).await.unwrap(), NamespaceName::default());
        let mut publishes = tokio::task::JoinSet::new();
        for at in 0..PUBLISHES {
            let client = Client::connect(broker.address.as_str()).await.unwrap();
            let (messages, namespace) =
                ((0..1000).map(|topic| message(1000 * at + topic)).collect(), namespace.clone());
            publishes.spawn(async move { client.publish_many(&namespace, messages).await.unwrap() });
        }
        for told in publishes.join_all().await {
            assert!(told.iter().all(|outcome| matches!(outcome, PublishOutcome::Queued { .. })), "{told:?}");
        }
        // More places than one publish may have come in parts.
        let told = client.publish_many(&namespace, (0..1100).map(message).collect()).await.unwrap();
        assert!(told.iter().all(|outcome| matches!(outcome, PublishOutcome::Queued { .. })), "{told:?}");
    });
    let most = broker.status("VmHWM:") * 1024;
    println!("at most {} MiB resident", most / MIB);
    assert!(most < LEAST, "{most} bytes for {PUBLISHES} publishes");
}

/// Each filter has turns of its own, and for each tenant the name of the topic behind which it goes on, long after the topic
/// has left memory.
#[test]
fn turns_of_many_tenants_and_filters_share_a_bound() {
    const TENANTS: usize = 2500;
    const FILTERS: usize = 24;
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let (runtime, namespace) = (runtime(), NamespaceName::default());
    let name = |tenant: usize, topic: usize| format!("{}{tenant:04}/{}{topic}", "a".repeat(64), "x".repeat(420));
    let client = runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        // Of each tenant the first topic is enough for the first turn of every filter.
        for tenants in (0..TENANTS).collect::<Vec<_>>().chunks(100) {
            let topics = tenants.iter().flat_map(|tenant| [(*tenant, 1, FILTERS + 4), (*tenant, 2, 2)]);
            let messages = topics.flat_map(|(tenant, topic, count)| {
                let topic = TopicName::try_from(name(tenant, topic).as_str()).unwrap();
                std::iter::repeat_with(move || Message::new(topic.clone(), "x")).take(count)
            });
            client.publish_many(&namespace, messages.collect()).await.unwrap();
        }
        client
    });
    for length in 1..=FILTERS {
        let filter = Filter::Prefixes(vec![TopicName::try_from("a".repeat(length).as_str()).unwrap()]);
        let mut got = 0;
        while got <= TENANTS {
            let options = ReceiveOptions {
                filter: filter.clone(),
                messages: 1000,
                wait: Duration::from_secs(10),
                at_most_once: true,
                ..ReceiveOptions::new(namespace.clone())
            };
            let some = runtime.block_on(client.receive(options)).unwrap().len();
            assert!(some > 0, "nothing comes after {got}");
            got += some;
        }
    }
    let most = broker.status("VmHWM:") * 1024;
    assert!(most < 64 * MIB, "the turns of {FILTERS} filters make the broker take {most} bytes");
}

/// Each is an entry with a reason of its own, and they are made faster than a disk takes them.
#[test]
fn dead_letters_are_made_in_the_pace_of_the_checkpoints() {
    const COUNT: usize = 100_000;
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let (namespace, runtime) = (NamespaceName::default(), runtime());
    let message = |_| Message::new(TopicName::try_from("jobs").unwrap(), "x");
    runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        for _ in 0..COUNT / 10_000 {
            client.publish_many(&namespace, (0..10_000).map(message).collect()).await.unwrap();
        }
        // All that one is given is rejected at once, with a kilobyte each to say why. What is given waits for leases to end.
        let (mut rejects, mut rejected) = (tokio::task::JoinSet::new(), 0);
        let lease = Some(Duration::from_secs(3600));
        while rejected < COUNT {
            let options = ReceiveOptions { messages: 2000, lease, ..ReceiveOptions::new(namespace.clone()) };
            let leased = match client.receive(options).await {
                Ok(leased) if !leased.is_empty() => leased,
                Ok(_) | Err(Error::Refused { code: Code::Overloaded, .. }) => {
                    match rejects.join_next().await {
                        Some(count) => rejected += count.unwrap(),
                        // Deliveries wait for a checkpoint.
                        None => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let client = client.clone();
            rejects.spawn(async move {
                let outcomes = client.reject(leased.receipts(), "r".repeat(1000)).await.unwrap();
                outcomes.iter().filter(|outcome| *outcome == FinishOutcome::Dead).count()
            });
        }
    });
    let most = broker.status("VmHWM:") * 1024;
    assert!(most < 64 * MIB, "dead letters of a kilobyte make the broker take {most} bytes");
}

/// In one topic, so that they are nothing but what that topic takes.
#[test]
fn very_many_delayed_messages_of_one_topic_take_little_memory() {
    let directory = fresh_directory();
    let start = || Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let broker = start();
    let before = broker.resident();
    let runtime = runtime();
    let (name, namespace) = (TopicName::try_from("jobs").unwrap(), NamespaceName::default());
    // Two of each thousand are due soon; all others in some hours, each at a time of its own.
    let delay = |at: u64| if at.is_multiple_of(500) { 1000 } else { 7_200_000 + at * 7919 % 3_600_000 };
    let message = |at: u64| Message::new(name.clone(), "x").delay(Duration::from_millis(delay(at)));
    runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        for thousand in 0..100 {
            let messages = (thousand * 1000..(thousand + 1) * 1000).map(message).collect();
            client.publish_many(&namespace, messages).await.unwrap();
        }
    });
    let taken = broker.status("VmHWM:") * 1024 - before;
    assert!(taken < 24 * MIB, "100,000 delayed messages take {taken} bytes");
    drop(broker);
    let broker = start();
    let due = broker.ok(&["receive", "default/jobs", "--max", "300", "--wait", "30s", "--ack"]);
    assert!(due.lines().count() > 0, "those that are due are delivered");
    let taken = broker.status("VmHWM:") * 1024 - before;
    assert!(taken < 24 * MIB, "after a start, 100,000 delayed messages take {taken} bytes");
}

/// A client that never finishes the frame that it has begun.
struct Slow {
    stream: TcpStream,
    /// What it sends over and over, until so much is sent.
    part: Vec<u8>,
    ready: usize,
    sent: usize,
}

/// Bytes of the frame that a slow client announces, and of what it has ready to send of it.
const ANNOUNCED: u32 = 4 << 20;
const READY: usize = ANNOUNCED as usize - 1024;

impl Slow {
    /// One that sends the greater part of a large frame.
    fn connect(address: &str) -> Slow {
        let mut slow = Slow::with(address, vec![0x11; 64 * 1024], READY);
        slow.stream.write_all(&ANNOUNCED.to_le_bytes()).unwrap();
        slow
    }

    fn with(address: &str, part: Vec<u8>, ready: usize) -> Slow {
        let mut stream = TcpStream::connect(address).unwrap();
        // What the system has for it is outside of the broker's memory.
        set_socket_recv_buffer_size(&stream, 0).unwrap();
        let mut bytes = Vec::new();
        encode_request(&Request::Hello { version: VERSION, client: "slow".into() }, 1, &mut bytes);
        stream.write_all(&bytes).unwrap();
        stream.set_nonblocking(true).unwrap();
        Slow { stream, part, ready, sent: 0 }
    }

    /// Sends as much as the system takes.
    fn push(&mut self) {
        while self.sent < self.ready {
            let rest = &self.part[self.sent % self.part.len()..];
            match self.stream.write(&rest[..rest.len().min(self.ready - self.sent)]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("a slow client was closed: {error}"),
            }
        }
    }
}
