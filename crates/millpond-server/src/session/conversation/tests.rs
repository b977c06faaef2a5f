use bytes::BytesMut;
use millpond_protocol::{self as frame, Decoder, Incoming, Limits, PUBLISH_CREDIT, Request as Asked, encode_request};
use millpond_types::{Code, Millis, NamespaceName, Priority, Receipt, SessionId, TopicName, block};

use super::*;
use crate::broker::{Broker, BrokerOptions};
use crate::session::open::NAMES_MAX;
use crate::writer::{BURYING, FINISHING, LOOKING, PUBLISHING};

mod many;

/// A conversation with a broker that runs, whose commands go nowhere unless a test sends them.
struct Rig {
    conversation: Conversation,
    decoder: Decoder,
    broker: Broker,
    _directory: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
        let shared = broker.shared().clone();
        let (number, outbox) = shared.registry.connect(1).unwrap();
        let goodbye = shared.writer.place(FINISHING).unwrap();
        let conversation = Conversation::new(number, outbox, goodbye, shared);
        let mut rig = Rig { conversation, decoder: Decoder::new(Limits::default()), broker, _directory: directory };
        rig.accept(Asked::Hello { version: frame::VERSION, client: String::new() }).unwrap();
        rig.said();
        rig
    }

    fn accept(&mut self, request: Asked) -> Result<(), Close> {
        let mut bytes = Vec::new();
        encode_request(&request, 5, &mut bytes);
        let incoming = self.decoder.next_request(&mut BytesMut::from(&bytes[..])).unwrap().unwrap();
        self.conversation.accept(incoming, Instant::now())
    }

    /// Puts an output in and turns it into frames.
    fn output(&mut self, item: Out) -> Result<(), Close> {
        let outbox = &self.conversation.outbox;
        if let Out::Reply { index, reply } = &item {
            outbox.decided([(*index, reply)].into_iter());
        }
        outbox.put([item].into_iter());
        self.conversation.pump()
    }

    /// The frames that were written since the last time.
    fn said(&mut self) -> Vec<(u32, Response)> {
        self.conversation.pump().unwrap();
        let mut input = BytesMut::from(&self.conversation.out.take()[..]);
        let mut decoder = Decoder::default();
        let next = || decoder.next_response(&mut input).unwrap();
        std::iter::from_fn(next).map(|Incoming { correlation, frame, .. }| (correlation, frame)).collect()
    }

    fn end(self) {
        drop(self.conversation);
        self.broker.shutdown().unwrap();
    }
}

fn publish(bytes: usize, level: frame::Level) -> Asked {
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], &vec![0; bytes]).unwrap();
    let run = frame::PublishRun {
        topic: TopicName::try_from("t").unwrap(),
        priority: Priority::DEFAULT,
        delay: Default::default(),
        ttl: None,
        block: block.into(),
    };
    let namespace = NamespaceName::default();
    Asked::Publish(frame::Publish { namespace, level, producer: None, runs: vec![run] })
}

/// Attaches consumer 1.
fn attach() -> Asked {
    Asked::Attach(frame::Attach {
        consumer: 1,
        namespace: NamespaceName::default(),
        group: Default::default(),
        filter: millpond_types::Filter::All,
        messages: 1,
        bytes: 1000,
        lease: None,
        at_most_once: false,
    })
}

fn published(level: millpond_core::command::Level) -> Reply {
    Reply::Published { level, outcomes: Vec::new(), topics: Vec::new() }
}

#[test]
fn who_overspends_the_publish_credit_is_closed() {
    let mut rig = Rig::new();
    let megabyte = 1024 * 1024 - 1000;
    let mut sent = 0;
    let close = loop {
        match rig.accept(publish(megabyte, frame::Level::Durable)) {
            Ok(()) => sent += 1,
            Err(close) => break close,
        }
    };
    assert_eq!(close.code, Code::PublishCreditExceeded);
    assert_eq!(sent, PUBLISH_CREDIT / (1024 * 1024), "all of the credit could be used");
    rig.end();
}

#[test]
fn answers_give_credit_back_also_where_nobody_is_told() {
    use millpond_core::command::Level;
    let mut rig = Rig::new();
    let megabyte = 1024 * 1024 - 10;
    for _ in 0..5 {
        rig.accept(publish(megabyte, frame::Level::None)).unwrap();
    }
    for index in 0..5 {
        rig.output(Out::Reply { index, reply: published(Level::None) }).unwrap();
    }
    let said = rig.said();
    assert!(matches!(said[..], [(0, Response::PublishCredit { bytes })] if bytes > 4 * 1024 * 1024), "{said:?}");
    rig.end();
}

#[test]
fn one_correlation_number_may_be_used_twice() {
    use millpond_core::command::Level;
    let mut rig = Rig::new();
    rig.accept(publish(1, frame::Level::Durable)).unwrap();
    rig.accept(publish(1, frame::Level::Durable)).unwrap();
    let waiting = rig.conversation.lanes[PUBLISHING].len();
    assert_eq!(waiting, 2);
    for index in [1, 0, 1] {
        rig.output(Out::Reply { index, reply: published(Level::Durable) }).unwrap();
    }
    assert_eq!(rig.said().len(), 2, "each is answered once, and what was never asked is not");
    rig.end();
}

#[test]
fn a_delivery_of_before_the_resumption_is_not_told() {
    let mut rig = Rig::new();
    let begin = Asked::SessionBegin { session: SessionId(7), resume: Default::default(), held: Vec::new() };
    rig.accept(begin).unwrap();
    let delivery = || Out::Delivery { consumer: 1, epoch: None, leases: Vec::new() };
    rig.output(delivery()).unwrap();
    assert!(rig.said().is_empty());
    rig.output(Out::Reply { index: 0, reply: Reply::SessionBegun { resumed: true } }).unwrap();
    let said = rig.said();
    let begun = |r: &Response| matches!(r, Response::SessionBegun { session: SessionId(7), resumed: true, .. });
    assert!(begun(&said[0].1), "{said:?}");
    rig.end();
}

#[test]
fn an_expiry_of_before_the_resumption_does_not_take_its_answer() {
    let mut rig = Rig::new();
    let begin = Asked::SessionBegin { session: SessionId(7), resume: Default::default(), held: Vec::new() };
    rig.accept(begin).unwrap();
    rig.output(Out::SessionExpired).unwrap();
    rig.output(Out::Reply { index: 0, reply: Reply::SessionBegun { resumed: false } }).unwrap();
    let said = rig.said();
    assert!(matches!(said[..], [(5, Response::SessionBegun { resumed: false, .. })]), "{said:?}");
    assert!(rig.conversation.session.is_some(), "the core has a session, and hears of its loss from here");
    rig.end();
}

#[test]
fn a_session_that_was_named_and_is_not_there_counts_as_a_guess() {
    let mut rig = Rig::new();
    for (session, resumed, wrong) in [(0, false, 0), (7, true, 0), (7, false, 1)] {
        let begin = Asked::SessionBegin { session: SessionId(session), resume: Default::default(), held: Vec::new() };
        rig.accept(begin).unwrap();
        rig.accept(Asked::SessionEnd).unwrap();
        rig.output(Out::Reply { index: 0, reply: Reply::SessionBegun { resumed } }).unwrap();
        rig.output(Out::Reply { index: 1, reply: Reply::Done }).unwrap();
        assert_eq!(rig.conversation.take_wrong(), Wrong { receipts: 0, sessions: wrong });
    }
    assert_eq!(rig.conversation.take_wrong(), Wrong::default());
    rig.end();
}

#[test]
fn what_begins_and_ends_in_one_breath_is_answered_all_the_same() {
    let mut rig = Rig::new();
    let begin = |id| Asked::SessionBegin { session: SessionId(id), resume: Default::default(), held: Vec::new() };
    for request in [begin(7), Asked::SessionEnd, begin(8)] {
        rig.accept(request).unwrap();
    }
    let begun = |index| Out::Reply { index, reply: Reply::SessionBegun { resumed: false } };
    rig.output(begun(0)).unwrap();
    rig.output(Out::Reply { index: 1, reply: Reply::Done }).unwrap();
    assert!(!rig.conversation.session.as_ref().unwrap().begun, "it is the other one that has begun");
    rig.output(begun(2)).unwrap();
    let said = rig.said();
    let is = |response: &Response, id| matches!(response, Response::SessionBegun { session, .. } if session.0 == id);
    assert!(is(&said[0].1, 7) && matches!(said[1].1, Response::Done) && is(&said[2].1, 8), "{said:?}");
    assert!(rig.conversation.session.as_ref().unwrap().begun);
    rig.end();
}

#[test]
fn a_session_that_was_refused_late_is_not_the_one_that_began_since() {
    let mut rig = Rig::new();
    let begin = |id| Asked::SessionBegin { session: SessionId(id), resume: Default::default(), held: Vec::new() };
    for request in [begin(7), Asked::SessionEnd, begin(8)] {
        rig.accept(request).unwrap();
    }
    let refused = Reply::Refused { code: Code::LimitExceeded, detail: String::new(), receipts: 0 };
    rig.output(Out::Reply { index: 0, reply: refused }).unwrap();
    assert_eq!(rig.conversation.session.as_ref().map(|session| session.id), Some(SessionId(8)));
    rig.end();
}

#[test]
fn the_number_of_a_consumer_is_free_when_its_detachment_is_answered() {
    let mut rig = Rig::new();
    let begin = Asked::SessionBegin { session: SessionId(7), resume: Default::default(), held: Vec::new() };
    for request in [begin, attach(), Asked::Detach { consumer: 1 }] {
        rig.accept(request).unwrap();
    }
    // Deliveries to the one that goes may be on their way.
    rig.accept(attach()).unwrap();
    let said = rig.said();
    assert!(matches!(said[..], [(5, Response::Error { code: Code::ConsumerExists, .. })]), "{said:?}");
    rig.output(Out::Reply { index: 2, reply: Reply::Done }).unwrap();
    rig.accept(attach()).unwrap();
    assert!(matches!(rig.said()[..], [(5, Response::Done)]), "only its end was answered");
    rig.end();
}

#[test]
fn an_end_that_is_answered_late_is_not_of_the_consumer_that_has_the_number_since() {
    let mut rig = Rig::new();
    let begin = || Asked::SessionBegin { session: SessionId(7), resume: Default::default(), held: Vec::new() };
    let detach = || Asked::Detach { consumer: 1 };
    for request in [begin(), attach(), detach(), detach(), Asked::SessionEnd, begin(), attach()] {
        rig.accept(request).unwrap();
    }
    let gone = Reply::Refused { code: Code::ConsumerUnknown, detail: String::new(), receipts: 0 };
    for (index, reply) in [(2, Reply::Done), (3, gone)] {
        rig.output(Out::Reply { index, reply }).unwrap();
    }
    assert_eq!(rig.conversation.consumers.len(), 1, "the other one is attached");
    rig.end();
}

/// They may have to wait, and what ends after them does too; what keeps leases alive does not.
#[test]
fn what_ends_leases_stays_behind_what_makes_dead_letters() {
    let mut rig = Rig::new();
    let receipt = Receipt { topic: Default::default(), group: 0, lease: Default::default() };
    let finish =
        |verb| Asked::Finish(frame::Finish { verb, confirm: true, namespace: None, receipts: vec![(receipt, 1)] });
    let waiting = |rig: &Rig| [FINISHING, BURYING].map(|lane| rig.conversation.lanes[lane].len());
    rig.accept(Asked::SessionBegin { session: SessionId(7), resume: Millis(500), held: Vec::new() }).unwrap();
    rig.accept(finish(frame::FinishVerb::Ack)).unwrap();
    assert_eq!(waiting(&rig), [2, 0]);
    for reason in ["why", "not"] {
        rig.accept(finish(frame::FinishVerb::Reject { reason: reason.into() })).unwrap();
    }
    rig.accept(finish(frame::FinishVerb::Extend { lease: None })).unwrap();
    rig.accept(Asked::Heartbeat { except: Vec::new() }).unwrap();
    assert_eq!(waiting(&rig), [4, 2]);
    rig.accept(finish(frame::FinishVerb::Ack)).unwrap();
    rig.accept(finish(frame::FinishVerb::Release { delay: Millis::ZERO })).unwrap();
    rig.accept(Asked::SessionEnd).unwrap();
    assert_eq!(waiting(&rig), [4, 5]);
    rig.end();
}

/// Another connection may have the session for as long as its begin here waits.
#[test]
fn a_heartbeat_stays_behind_the_begin_of_its_session() {
    let mut rig = Rig::new();
    let receipts = vec![(Receipt { topic: Default::default(), group: 0, lease: Default::default() }, 1)];
    let verb = frame::FinishVerb::Reject { reason: "why".into() };
    let begin = || Asked::SessionBegin { session: SessionId(7), resume: Millis(500), held: Vec::new() };
    let heartbeat = || Asked::Heartbeat { except: Vec::new() };
    let waiting = |rig: &Rig| [FINISHING, BURYING].map(|lane| rig.conversation.lanes[lane].len());
    rig.accept(Asked::Finish(frame::Finish { verb, confirm: true, namespace: None, receipts })).unwrap();
    rig.accept(begin()).unwrap();
    rig.accept(heartbeat()).unwrap();
    assert_eq!(waiting(&rig), [0, 3]);
    rig.output(Out::Reply { index: 1, reply: Reply::SessionBegun { resumed: false } }).unwrap();
    rig.accept(heartbeat()).unwrap();
    assert_eq!(waiting(&rig), [1, 3], "what begun it keeps alive at once");
    rig.end();
}

/// Who looks may have to wait for the disk. What finishes does not, and of what adds nothing overtakes it.
#[test]
fn what_finishes_passes_who_looks_and_publishes_stay_behind() {
    let mut rig = Rig::new();
    let topic = || frame::TopicRef { namespace: NamespaceName::default(), name: TopicName::try_from("t").unwrap() };
    rig.accept(Asked::Forget { topic: topic(), dedup_id: "id".into() }).unwrap();
    let receipts = vec![(Receipt { topic: Default::default(), group: 0, lease: Default::default() }, 1)];
    for verb in [frame::FinishVerb::Reject { reason: "why".into() }, frame::FinishVerb::Extend { lease: None }] {
        rig.accept(Asked::Finish(frame::Finish { verb, confirm: true, namespace: None, receipts: receipts.clone() }))
            .unwrap();
    }
    rig.accept(publish(1, frame::Level::Durable)).unwrap();
    let lanes = [FINISHING, LOOKING, BURYING, PUBLISHING];
    let going = |rig: &Rig| lanes.map(|lane| rig.conversation.goes_on_in(lane));
    assert_eq!(lanes.map(|lane| rig.conversation.lanes[lane].len()), [1, 1, 1, 1]);
    assert_eq!(going(&rig), [true, true, false, false]);
    rig.conversation.lanes[FINISHING].clear();
    assert_eq!(going(&rig), [false, true, true, false]);
    rig.conversation.lanes[LOOKING].clear();
    assert_eq!(going(&rig), [false, false, true, true]);
    // What waits for room for its answer holds memory as well, and no rows yet.
    let held = rig.conversation.holding[LOOKING];
    rig.accept(Asked::Topic(topic())).unwrap();
    rig.conversation.go_on_at_length();
    assert_eq!(rig.conversation.lanes[LOOKING].len(), 1);
    (0..100).for_each(|_| rig.accept(Asked::Namespaces { after: None }).unwrap());
    let more = rig.conversation.holding.iter().sum::<usize>() - held;
    assert!((100 * 64..100 * 1024).contains(&more), "{more} bytes");
    rig.end();
}

#[test]
fn a_connection_that_drains_waits_for_its_answers_and_not_for_receives() {
    use millpond_core::command::Level;
    let mut rig = Rig::new();
    rig.accept(publish(1, frame::Level::Durable)).unwrap();
    rig.output(Out::Drain).unwrap();
    assert!(rig.conversation.is_draining() && !rig.conversation.is_drained());
    rig.conversation.lanes[PUBLISHING].clear();
    assert!(!rig.conversation.is_drained(), "the publish is not answered");
    rig.output(Out::Reply { index: 0, reply: published(Level::Durable) }).unwrap();
    assert!(!rig.conversation.is_drained(), "the answer is not written");
    rig.said();
    assert!(rig.conversation.is_drained());
    rig.end();
}

/// Each name takes the core some hundred bytes, for as long as the receive waits or the consumer is attached.
#[test]
fn the_filters_of_a_connection_list_so_many_names_and_no_more() {
    let mut rig = Rig::new();
    let topics = |from: usize, count: usize| {
        let names = (from..from + count).map(|at| TopicName::try_from(format!("t/{at}").as_str()).unwrap());
        millpond_types::Filter::Topics(names.collect())
    };
    let receive = |at: usize, count: usize| {
        Asked::Receive(frame::Receive {
            namespace: NamespaceName::default(),
            group: Default::default(),
            filter: topics(at * 1000, count),
            messages: 1,
            bytes: 1000,
            lease: None,
            wait: Millis::minutes(10),
            at_most_once: false,
            request: None,
        })
    };
    let attach = |consumer: u32, count: usize| match attach() {
        Asked::Attach(any) => Asked::Attach(frame::Attach { consumer, filter: topics(100_000, count), ..any }),
        _ => unreachable!("it is one"),
    };
    let is_refused = |said: Vec<(u32, Response)>| {
        assert!(matches!(said[..], [(5, Response::Error { code: Code::LimitExceeded, .. })]), "{said:?}");
    };
    let most = NAMES_MAX / 1000;
    (0..most).for_each(|at| rig.accept(receive(at, 1000)).unwrap());
    rig.accept(receive(most, NAMES_MAX % 1000)).unwrap();
    assert!(rig.said().is_empty(), "so many are let in");
    rig.accept(receive(most + 1, 1)).unwrap();
    is_refused(rig.said());
    // One that is answered makes room for another, or for a consumer.
    rig.output(Out::Reply { index: 0, reply: Reply::Received(Vec::new()) }).unwrap();
    rig.accept(Asked::SessionBegin { session: SessionId(7), resume: Default::default(), held: Vec::new() }).unwrap();
    rig.accept(attach(1, 1000)).unwrap();
    assert!(matches!(rig.said()[..], [(5, Response::Received(_))]));
    for one_more in [receive(most + 1, 1), attach(2, 1)] {
        rig.accept(one_more).unwrap();
        is_refused(rig.said());
    }
    rig.end();
}
