//! What the writer is asked: its queue's requests and lanes.

use millpond_core::command::{
    Attach, Command, DeadMove, DeadWhich, Finish, FinishVerb, Forward, Look, LookWhich, Move, PublishRun, ReceiptRun,
    Route, SessionBegin, Ticket,
};
use millpond_types::limits::{
    EXCHANGES_MAX, GROUPS_MAX, PAGE_BYTES_MAX, PAGE_MAX, PRIORITIES, RECEIPTS_MAX, RULES_MAX,
};
use millpond_types::{
    Binding, Condition, Filter, GroupCursors, GroupView, NamespaceName, OfficeView, Pause, Rule, Rules, SessionId,
};

use super::fetching::{Found, IN_FLIGHT};
use super::journal::Committed;
use crate::memory::{BURYING_TURN, FINISHING_TURN, FORWARDING_TURN, LOOKING_TURN, PUBLISHING_TURN, Shares};
use crate::session::outbox::{BINDING_ROW, DEAD_ROW, EXCHANGE_ROW, MESSAGE_ROW, TOPIC_ROW};
use crate::update_queue::{Lane, Open};

/// The lane of what comes back from the journal.
pub(crate) const RETURNING: usize = 0;
/// The lane of all that finishes work or keeps it alive, and of what makes room or only looks and never waits for the disk where
/// it is decided: who finds that publishes wait wants to know why and to do something about it.
pub(crate) const FINISHING: usize = 1;
/// The lane of what looks at a topic, or makes room in it, that may be on the disk alone: it is parked until it was read. So it
/// waits where very much is parked.
pub(crate) const LOOKING: usize = 2;
/// The lane of what makes dead letters, or may: each of these is an entry, with its reason. So it waits for the checkpoint that
/// makes room for more.
pub(crate) const BURYING: usize = 3;
/// The lane of forwards: each ends as much as it adds, so they go on where topics take all memory.
pub(crate) const FORWARDING: usize = 4;
/// The lane of publishes, and of management that adds to what there is.
pub(crate) const PUBLISHING: usize = 5;

/// How many lanes there are.
pub(crate) const LANES: usize = 6;
/// Those in which connections have requests.
pub(crate) const OF_CONNECTIONS: [usize; 5] = [FINISHING, LOOKING, BURYING, FORWARDING, PUBLISHING];

/// The lanes that go on where one does not. Nothing overtakes what is in lanes before its own, but for what makes dead letters: it
/// does not wait for those who look.
pub(crate) fn shut(open: Open, lane: usize) -> Open {
    let goes_on = |other: usize| lane == LOOKING && other == BURYING;
    (lane..LANES).filter(|other| !goes_on(*other)).fold(open, Open::without)
}

/// What may come back at a time: all batches of wants that are on their way, the journal's one, and room to tell that
/// there is room.
const RETURNING_MAX: usize = IN_FLIGHT + 2;

/// Of a lane, one part in so many is let in for a short turn. A batch of requests saves the less the fewer they are.
const SHORT: usize = 8;

/// The lanes. Each request weighs the bytes that it holds, but for those of the first, which are counted where they began.
/// Each connection has a place for its last word among what finishes.
pub(crate) fn lanes(shares: &Shares) -> [Lane; LANES] {
    let lane = |capacity, places| Lane { capacity: capacity + places, short: capacity / SHORT + places };
    [
        Lane::new(RETURNING_MAX * REQUEST_WEIGHT),
        lane(FINISHING_TURN, shares.connections),
        lane(LOOKING_TURN, 0),
        lane(BURYING_TURN, 0),
        lane(FORWARDING_TURN, 0),
        lane(PUBLISHING_TURN, 0),
    ]
}

/// A request to the writer.
pub(crate) enum Request {
    /// A command of a connection. Its reply goes the way of its ticket. It may be a part of a buffer of so many bytes.
    Command(Ticket, Command, usize),
    /// A command of the program that embeds the broker; the request's answer is the reply.
    Call(Command),
    /// A connection is gone: what of its requests may go on for long is withdrawn, and the sessions that it had are lost.
    Goodbye { withdrawn: Vec<Ticket>, lost: Vec<SessionId> },
    /// A batch came back from the journal.
    Committed(Box<Committed>),
    /// What the core wanted was read.
    Fetched(Box<Found>),
}

/// Less of a buffer than this is copied where it waits: all that waits takes at most four times what it counts.
pub(super) fn small_part(buffer: usize) -> usize {
    buffer / 4
}

/// What the smallest request counts: roughly its memory.
const REQUEST_WEIGHT: usize = 256;
/// What a row of an answer counts, which takes a turn about as long as a small request.
const ROW_WEIGHT: usize = 256;
/// What a dead letter counts beside its reason, which each of those that are made together has for itself.
const LETTER_WEIGHT: usize = 256;
/// What it counts, in rows, to find a message by its id and to change when it is due: with its fact and its deadline, that
/// takes a turn as long as several small requests do.
const BY_ID_ROWS: usize = 12;
/// What it counts, in rows, to begin or end a wait or a session, or to look at all of a namespace or topic at once, whatever
/// comes of it: whoever asks for more than it may have is told why in a text.
const BEGIN_ROWS: usize = 4;
/// Steps of a message on its way through an exchange that take as long as a row.
const ROUTE_STEPS: usize = 512;
/// What it counts, in rows, to set a namespace, a group or an exchange up or take it down.
const SET_UP_ROWS: usize = 32;
/// The same of a binding, of which a turn takes two: it may be a copy more of each message in the lane, which were weighed
/// before.
const BIND_ROWS: usize = PUBLISHING_TURN / 2 / ROW_WEIGHT;

impl Request {
    /// What the request counts in a lane: roughly the bytes of memory that it holds, and those of the rows that are looked
    /// up for it or what takes as long, of the leases that it names and of the dead letters that it makes.
    pub(crate) fn weight(&self) -> usize {
        let rows = match self {
            Request::Command(_, command, _) | Request::Call(command) => looked_up(command).rows,
            Request::Goodbye { .. } | Request::Committed(_) | Request::Fetched(_) => 0,
        };
        self.while_it_waits() + rows * ROW_WEIGHT
    }

    /// The same of one that waits where no turn takes it: rows that are looked up for it are not there yet.
    pub(crate) fn while_it_waits(&self) -> usize {
        let held = match self {
            Request::Command(_, command, _) | Request::Call(command) => held(command),
            Request::Goodbye { withdrawn, lost } => size_of_val(&withdrawn[..]) + size_of_val(&lost[..]),
            Request::Committed(_) | Request::Fetched(_) => 0,
        };
        REQUEST_WEIGHT + held
    }

    /// It waits from here on, so that it is copied where it would keep a buffer of which it is a small part. False where that was
    /// said of it before.
    pub(crate) fn waits(&mut self) -> bool {
        let Request::Command(_, command, buffer) = self else { return false };
        let buffer = std::mem::take(buffer);
        if command.shared_bytes() < small_part(buffer) {
            command.detach();
        }
        buffer > 0
    }

    /// What the rows of a command's answer weigh at most, where it may have many.
    pub(crate) fn answer(command: &Command) -> usize {
        looked_up(command).answer
    }

    /// The commands of a connection's last word.
    pub(crate) fn last_word(withdrawn: Vec<Ticket>, lost: Vec<SessionId>) -> impl Iterator<Item = Command> {
        withdrawn.into_iter().map(Command::Withdraw).chain(lost.into_iter().map(Command::SessionLost))
    }

    /// The lane that a command belongs in.
    pub(crate) fn lane(command: &Command) -> usize {
        match command {
            Command::Finish(Finish { verb: FinishVerb::Fail { .. } | FinishVerb::Reject { .. }, .. }) => BURYING,
            Command::Forward(_) | Command::Route(Route { receipts: Some(_), .. }) => FORWARDING,
            Command::Publish(_)
            | Command::Route(_)
            | Command::Reschedule { .. }
            | Command::NamespaceSet { .. }
            | Command::GroupCreate { .. }
            | Command::ExchangeCreate { .. }
            | Command::Bind { .. }
            | Command::DeadRedrive { .. }
            | Command::Move(_)
            | Command::DeadMove(_) => PUBLISHING,
            // Those of the core's parked commands that add nothing.
            Command::Look(_) | Command::Topic(_) | Command::Cancel { .. } | Command::Forget { .. } => LOOKING,
            // Leased topics are in memory. What goes over many topics or dead letters is never parked: the core has a few of
            // these at a time, refuses more, and is told of those whose connection is gone behind them. The others touch no
            // topic's contents.
            Command::Finish(Finish {
                verb: FinishVerb::Ack | FinishVerb::Release { .. } | FinishVerb::Damaged | FinishVerb::Extend { .. },
                ..
            })
            | Command::Receive(_)
            | Command::Withdraw(_)
            | Command::WithdrawRequest { .. }
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::SessionEnd(_)
            | Command::Heartbeat { .. }
            | Command::Attach(_)
            | Command::Credit { .. }
            | Command::Detach { .. }
            | Command::Resign { .. }
            | Command::Depose { .. }
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::Purge { .. }
            | Command::NamespaceDelete(_)
            | Command::GroupDelete { .. }
            | Command::ExchangeDelete { .. }
            | Command::Unbind { .. }
            | Command::Exchanges(_)
            | Command::Bindings { .. }
            | Command::Namespaces { .. }
            | Command::Stats(_)
            | Command::Topics { .. }
            | Command::Top(_)
            | Command::DeadList { .. }
            | Command::DeadLook { .. }
            | Command::DeadPurge { .. } => FINISHING,
        }
    }

    /// Whether a command of a connection is decided behind those of it that make dead letters: of what is leased together one
    /// ends after the other, and what is given back or left behind is not rejected any more. What begins comes behind what ends.
    pub(crate) fn comes_behind_letters(command: &Command) -> bool {
        match command {
            Command::Finish(finish) => !matches!(finish.verb, FinishVerb::Extend { .. }),
            Command::Detach { .. } | Command::Resign { .. } | Command::SessionEnd(_) => true,
            Command::SessionBegin(_) | Command::Attach(_) | Command::Credit { .. } => true,
            _ => false,
        }
    }

    /// The namespace that a command may add messages or groups to.
    pub(crate) fn adds_to(&self) -> Option<&NamespaceName> {
        let (Request::Command(_, command, _) | Request::Call(command)) = self else { return None };
        match command {
            Command::Publish(publish)
            | Command::Forward(Forward { publish, .. })
            | Command::Route(Route { publish, .. }) => Some(&publish.namespace),
            Command::GroupCreate { namespace, .. } | Command::DeadRedrive { namespace, .. } => Some(namespace),
            _ => None,
        }
    }

    /// The session that a command is of, of those that may come behind what makes dead letters.
    pub(crate) fn session(command: &Command) -> Option<SessionId> {
        match command {
            Command::SessionBegin(SessionBegin { session, .. })
            | Command::Attach(Attach { session, .. })
            | Command::Credit { session, .. }
            | Command::Detach { session, .. }
            | Command::Resign { session, .. }
            | Command::Heartbeat { session, .. }
            | Command::SessionEnd(session) => Some(*session),
            _ => None,
        }
    }
}

/// What a command holds beside itself, and what it makes.
fn held(command: &Command) -> usize {
    match command {
        Command::Publish(publish) => publish.runs.iter().map(PublishRun::held_bytes).sum(),
        Command::Forward(forward) => {
            let runs = forward.publish.runs.iter().map(PublishRun::held_bytes);
            named(&forward.receipts) + runs.sum::<usize>()
        }
        Command::Route(route) => {
            let refused = route.refusal.as_ref().map_or(0, |(_, detail)| detail.len());
            let names = route.exchange.as_bytes().len() + route.key.as_str().len();
            let acked = route.receipts.as_deref().map_or(0, named);
            size_of_val(&route.taken[..]) + route.message.block.len() + refused + names + acked
        }
        Command::Finish(finish) => match &finish.verb {
            FinishVerb::Fail { reason, .. } | FinishVerb::Reject { reason } => {
                named(&finish.receipts) + reason.len() + letters(&finish.receipts, reason.len())
            }
            FinishVerb::Ack | FinishVerb::Release { .. } | FinishVerb::Damaged | FinishVerb::Extend { .. } => {
                named(&finish.receipts)
            }
        },
        Command::SessionBegin(begin) => size_of_val(&begin.held[..]),
        Command::Heartbeat { except, .. } => size_of_val(&except[..]),
        Command::Receive(receive) => filtered(&receive.filter),
        Command::Attach(attach) => filtered(&attach.filter),
        Command::Purge { filter, .. } => filtered(filter),
        Command::DeadRedrive { which, .. } | Command::DeadPurge { which, .. } => match which {
            DeadWhich::One(topic, _) => topic.as_bytes().len(),
            DeadWhich::Filter(filter) | DeadWhich::First(filter, _) => filtered(filter),
        },
        Command::Topics { listing, .. } | Command::DeadList { listing, .. } => {
            listing.prefix.len() + listing.after.len()
        }
        Command::Top(top) => top.prefix.len(),
        Command::Move(Move { name, block, .. }) => name.as_bytes().len() + block.len(),
        Command::DeadMove(DeadMove { topic, block, .. }) => topic.as_bytes().len() + block.len(),
        Command::Look(Look { topic, .. })
        | Command::DeadLook { topic, .. }
        | Command::Cancel { topic, .. }
        | Command::Reschedule { topic, .. }
        | Command::Forget { topic, .. }
        | Command::Topic(topic) => topic.name.as_bytes().len(),
        Command::Pause { topics, .. } | Command::Resume { topics, .. } => topics.as_bytes().len(),
        Command::Withdraw(_)
        | Command::WithdrawRequest { .. }
        | Command::SessionLost(_)
        | Command::SessionEnd(_)
        | Command::Credit { .. }
        | Command::Detach { .. }
        | Command::Resign { .. }
        | Command::Depose { .. }
        | Command::NamespaceDelete(_)
        | Command::GroupCreate { .. }
        | Command::GroupDelete { .. }
        | Command::ExchangeCreate { .. }
        | Command::ExchangeDelete { .. }
        | Command::Exchanges(_)
        | Command::Bindings { .. }
        | Command::Namespaces { .. }
        | Command::Stats(_) => 0,
        Command::NamespaceSet { rules, .. } => ruled(rules),
        Command::Bind { binding, .. } | Command::Unbind { binding, .. } => bound(binding),
    }
}

/// What receipts count: those of a run as if each were named for itself. Each may be a lease of its own, and takes a turn as long
/// then. Where they are one lease, some runs of a thousand are still few.
fn named(receipts: &[ReceiptRun]) -> usize {
    // More in one call are refused.
    receipts.len().max(leases(receipts).min(RECEIPTS_MAX)) * size_of::<ReceiptRun>()
}

/// What the dead letters weigh that a call makes of these, or may, with a reason of so many bytes; no more than a turn takes, for
/// there is no less of it.
fn letters(receipts: &[ReceiptRun], reason: usize) -> usize {
    leases(receipts).saturating_mul(LETTER_WEIGHT + reason).min(BURYING_TURN)
}

fn leases(receipts: &[ReceiptRun]) -> usize {
    receipts.iter().map(|run| run.count as usize).sum()
}

/// What may be looked up for a command.
#[derive(Default)]
struct LookedUp {
    /// How many rows in its turn, or what takes as long. What goes over more than a page does so in slices.
    rows: usize,
    /// What its answer weighs at most, where that may be many rows.
    answer: usize,
}

/// What stats of a namespace hold at most, whose names are those of the state.
const STATS: usize = RULES_MAX * size_of::<Rule>()
    + GROUPS_MAX * (size_of::<GroupView>() + size_of::<OfficeView>())
    + PAGE_MAX * size_of::<Pause>();

fn looked_up(command: &Command) -> LookedUp {
    let page = |rows: u32, row: usize| {
        let rows = (rows as usize).min(PAGE_MAX);
        LookedUp { rows, answer: rows * row }
    };
    let few = |answer| LookedUp { rows: BEGIN_ROWS, answer };
    match command {
        Command::Topics { listing, .. } => page(listing.limit, TOPIC_ROW),
        Command::DeadList { listing, .. } => page(listing.limit, DEAD_ROW),
        Command::Look(Look { which: LookWhich::First(count) | LookWhich::Due(count), .. }) => page(*count, MESSAGE_ROW),
        Command::Namespaces { .. } => LookedUp { rows: PAGE_MAX, answer: PAGE_BYTES_MAX },
        Command::Top(top) => few(page(top.limit, TOPIC_ROW).answer),
        Command::Reschedule { .. } | Command::Cancel { .. } => LookedUp { rows: BY_ID_ROWS, answer: 0 },
        // Of these there are mostly a few, whatever there may be.
        Command::Topic(_) => few(GROUPS_MAX * PRIORITIES * size_of::<GroupCursors>()),
        Command::Exchanges(_) => few(EXCHANGES_MAX * EXCHANGE_ROW),
        Command::Stats(_) => few(STATS),
        Command::Bindings { .. } => few(PAGE_MAX * BINDING_ROW),
        Command::Receive(_)
        | Command::SessionBegin(_)
        | Command::SessionEnd(_)
        | Command::Attach(_)
        | Command::Detach { .. }
        | Command::Resign { .. }
        | Command::Depose { .. } => few(0),
        Command::NamespaceSet { .. }
        | Command::NamespaceDelete(_)
        | Command::GroupCreate { .. }
        | Command::GroupDelete { .. }
        | Command::ExchangeCreate { .. }
        | Command::ExchangeDelete { .. }
        | Command::Unbind { .. } => LookedUp { rows: SET_UP_ROWS, answer: 0 },
        Command::Bind { .. } => LookedUp { rows: BIND_ROWS, answer: 0 },
        // Its copies are made in its turn; and it is routed anew where its exchange is another by then.
        Command::Route(route) => {
            LookedUp { rows: route.steps / ROUTE_STEPS + route.copies.held_bytes() / ROW_WEIGHT, answer: 0 }
        }
        Command::Look(Look { which: LookWhich::One(_), .. })
        | Command::DeadLook { .. }
        | Command::Publish(_)
        | Command::Forward(_)
        | Command::Finish(_)
        | Command::Withdraw(_)
        | Command::WithdrawRequest { .. }
        | Command::SessionLost(_)
        | Command::Heartbeat { .. }
        | Command::Credit { .. }
        | Command::Pause { .. }
        | Command::Resume { .. }
        | Command::Forget { .. }
        | Command::Purge { .. }
        | Command::DeadRedrive { .. }
        | Command::DeadPurge { .. }
        | Command::Move(_)
        | Command::DeadMove(_) => LookedUp::default(),
    }
}

fn ruled(rules: &Rules) -> usize {
    let names = rules.iter().map(|rule| rule.pattern.name.as_bytes().len());
    size_of_val(rules.iter().as_slice()) + names.sum::<usize>()
}

fn bound(binding: &Binding) -> usize {
    let condition = match &binding.condition {
        Condition::Always => 0,
        Condition::Key(key) => key.as_bytes().len(),
        Condition::Headers { headers, .. } => {
            size_of_val(&headers[..]) + headers.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        }
    };
    condition + binding.target.as_bytes().len()
}

fn filtered(filter: &Filter) -> usize {
    match filter {
        Filter::All => 0,
        Filter::Topics(names) | Filter::Prefixes(names) => {
            size_of_val(&names[..]) + names.iter().map(|name| name.as_bytes().len()).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use millpond_core::command::{Level, Publish, Routed, TopicRef};
    use millpond_types::limits::{BINDING_HEADERS_MAX, BINDINGS_MAX, ROUTING_WORDS_MAX};
    use millpond_types::{ExchangeName, Overrides, Pattern, Policy, Priority, Receipt, RoutingKey, TopicName};

    use super::*;
    use crate::memory::MEMORY_MIN;
    use crate::session::room::SMALL;
    use crate::update_queue::{Batch, Next, State, Worker};

    #[test]
    fn all_that_a_request_holds_is_weighed() {
        let name = TopicName::try_from("n".repeat(500).as_str()).unwrap();
        let filter = Filter::Topics(vec![name.clone(); 1000]);
        let receipt = Receipt { topic: Default::default(), group: 0, lease: Default::default() };
        let receipts = vec![ReceiptRun { first: receipt, count: 1 }; 10_000];
        let least = |command, bytes| {
            let weight = Request::Command(Ticket(1), command, 0).weight();
            assert!(weight >= bytes, "{weight} of {bytes}");
        };
        let namespace = NamespaceName::default();
        least(Command::Purge { namespace: namespace.clone(), filter: filter.clone(), group: None }, 500_000);
        let group = Default::default();
        let which = DeadWhich::Filter(filter);
        least(Command::DeadPurge { namespace: namespace.clone(), group, which }, 500_000);
        least(Command::Heartbeat { session: SessionId(1), except: vec![receipt; 10_000] }, 200_000);
        let begin = SessionBegin { session: SessionId(1), resume: Default::default(), held: receipts.clone() };
        least(Command::SessionBegin(begin), 200_000);
        let verb = FinishVerb::Fail { delay: None, reason: Bytes::from_static(&[b'x'; 1000]) };
        least(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }), 201_000);
        let verb = FinishVerb::Reject { reason: Bytes::from_static(&[b'x'; 1000]) };
        let run = ReceiptRun { first: receipt, count: 100 };
        // Each of them has the reason.
        least(Command::Finish(Finish { verb, receipts: vec![run], confirm: true, namespace: None }), 100_000);
        let rule = |at: usize| {
            let name = TopicName::try_from(format!("{at:0500}").as_str()).unwrap();
            let overrides = Overrides { weight: Some(2), ..Overrides::default() };
            Rule { pattern: Pattern { is_prefix: false, name }, overrides }
        };
        let rules = Rules::new((0..RULES_MAX).map(rule).collect()).unwrap();
        let held = RULES_MAX * (500 + size_of::<Rule>());
        least(
            Command::NamespaceSet { name: namespace.clone(), policy: Policy::default(), rules, based_on: None },
            held,
        );
        let headers = vec![(Bytes::from_static(b"key"), Bytes::from_static(b"value")); BINDING_HEADERS_MAX];
        let held = size_of_val(&headers[..]) + headers.len() * 8 + 500;
        let binding = Binding { condition: Condition::Headers { all: true, headers }, target: name };
        least(Command::Bind { namespace, exchange: "exchange".try_into().unwrap(), binding }, held);
        let goodbye = Request::Goodbye { withdrawn: vec![Ticket(1); 60_000], lost: Vec::new() };
        assert!(goodbye.weight() >= 480_000);
    }

    #[test]
    fn a_lane_that_is_shut_shuts_those_that_may_not_overtake_it() {
        let shut = |lane| (0..LANES).filter(|other| !shut(Open::ALL, lane).has(*other)).collect::<Vec<_>>();
        assert_eq!(shut(FINISHING), [FINISHING, LOOKING, BURYING, FORWARDING, PUBLISHING]);
        assert_eq!(shut(LOOKING), [LOOKING, FORWARDING, PUBLISHING]);
        assert_eq!(shut(BURYING), [BURYING, FORWARDING, PUBLISHING]);
        assert_eq!(shut(PUBLISHING), [PUBLISHING]);
    }

    /// Each may be a lease of its own, which takes a turn as long as a receipt that is named alone.
    #[test]
    fn receipts_are_weighed_by_their_leases() {
        let receipt = Receipt { topic: Default::default(), group: 0, lease: Default::default() };
        let weights = |count| {
            let receipts = vec![ReceiptRun { first: receipt, count }];
            let namespace = NamespaceName::default();
            let publish = Publish { namespace, producer: None, level: Level::Durable, runs: Vec::new() };
            let forward = Command::Forward(Forward { receipts: receipts.clone(), publish });
            let route = Command::Route(Route { receipts: Some(receipts.clone()), ..route() });
            let verb = FinishVerb::Extend { lease: None };
            let finish = Command::Finish(Finish { verb, receipts, confirm: false, namespace: None });
            [finish, forward, route].map(|command| Request::Command(Ticket(1), command, 0).weight())
        };
        let most = weights(RECEIPTS_MAX as u32);
        assert!(most.iter().all(|weight| *weight > FINISHING_TURN), "{most:?}");
        let many = weights(1000);
        assert!(many.iter().all(|weight| *weight < FINISHING_TURN / 8), "a turn takes some of those: {many:?}");
        assert_eq!(weights(u32::MAX), most, "what is refused has no weight without end");
    }

    /// What is on its way was sent because there is room for it, and the writer ends where there is none.
    #[test]
    fn what_comes_back_finds_room_in_a_short_turn() {
        struct Hasty;
        impl State for Hasty {
            type Request = Request;
            type Answer = ();

            fn weight(request: &Request) -> usize {
                request.weight()
            }

            fn is_in_haste(&self) -> bool {
                true
            }

            fn update(&mut self, _batch: &mut Batch<Request, ()>) -> Next {
                Next::Sleep(None)
            }
        }
        let shares = Shares::of(MEMORY_MIN);
        let mut worker = Worker::new(&lanes(&shares), Hasty);
        worker.turn(Some(Duration::ZERO));
        let submitter = worker.submitter();
        for _ in 0..RETURNING_MAX {
            let back = Request::Goodbye { withdrawn: Vec::new(), lost: Vec::new() };
            submitter.place(RETURNING).expect("it is promised").put(back);
        }
        // So it is with the last words of all connections that there may be, whatever they have asked.
        let asked = || Request::Command(Ticket(1), Command::Stats(NamespaceName::default()), 0);
        while submitter.try_submit(FINISHING, asked()).is_ok() {}
        worker.turn(Some(Duration::ZERO));
        let words: Vec<_> = (0..shares.connections).map(|_| submitter.place(FINISHING)).collect();
        assert!(words.iter().all(Result::is_ok));
        assert!(submitter.try_submit(FINISHING, asked()).is_ok(), "and others are let in beside them");
    }

    /// They hold next to nothing, and each takes a turn as long as some small ones do: with a thousand of them in it, everybody
    /// else waited for milliseconds.
    #[test]
    fn a_turn_takes_few_of_what_takes_it_long() {
        let namespace = NamespaceName::default();
        let begin = SessionBegin { session: SessionId(1), resume: Default::default(), held: Vec::new() };
        let group = Default::default();
        for (command, most) in [
            (Command::SessionBegin(begin), 250),
            (Command::SessionEnd(SessionId(1)), 250),
            (Command::Stats(namespace.clone()), 250),
            (Command::GroupDelete { namespace, name: group }, 50),
        ] {
            let turn = FINISHING_TURN / Request::Command(Ticket(1), command.clone(), 0).weight();
            assert!((most / 2..=most).contains(&turn), "{turn} of {command:?}");
        }
        // Each may be a copy more of every message in the lane.
        let binding = Binding { condition: Condition::Always, target: TopicName::try_from("t").unwrap() };
        let (namespace, exchange) = (NamespaceName::default(), "exchange".try_into().unwrap());
        let bind = Request::Command(Ticket(1), Command::Bind { namespace, exchange, binding }, 0);
        assert_eq!(PUBLISHING_TURN / bind.weight(), 1, "and another one is let in where the lane is not full");
    }

    fn route() -> Route {
        let message = Routed {
            priority: Priority::DEFAULT,
            delay: Default::default(),
            ttl: None,
            block: Bytes::from_static(b"message"),
            too_large: None,
        };
        let at = (ExchangeName::try_from("x").unwrap(), RoutingKey::try_from("k").unwrap());
        Route::new(NamespaceName::default(), at, message, None, Level::Durable)
    }

    /// Each may have to be routed once more: a change of its exchange makes it so for all that wait.
    #[test]
    fn a_turn_takes_few_messages_that_are_long_to_route() {
        let mut route = route();
        let turn =
            |route: &Route| PUBLISHING_TURN / Request::Command(Ticket(1), Command::Route(route.clone()), 0).weight();
        assert!(turn(&route) > 1000);
        route.steps = BINDINGS_MAX * ROUTING_WORDS_MAX;
        assert!((10..20).contains(&turn(&route)), "{}", turn(&route));
        // Nor are its copies there before that.
        let waits = |route: &Route| Request::Command(Ticket(1), Command::Route(route.clone()), 0).while_it_waits();
        let (before, copies) = (waits(&route), PUBLISHING_TURN);
        (route.steps, route.copies.names) = (0, copies);
        assert!(turn(&route) <= 1 && waits(&route) == before);
    }

    /// What one of them may come to is more than a connection may leave unread.
    #[test]
    fn what_may_be_answered_at_length_says_so() {
        let namespace = NamespaceName::default();
        let topic = TopicRef { namespace: namespace.clone(), name: TopicName::try_from("t").unwrap() };
        let all = [Command::Topic(topic), Command::Exchanges(namespace.clone()), Command::Stats(namespace)];
        for command in all {
            assert!(Request::answer(&command) > SMALL, "{command:?}");
        }
    }
}
