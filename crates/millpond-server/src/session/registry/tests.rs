use millpond_core::output::Reply;

use super::super::ticket::ticket;
use super::*;

const SESSION: SessionId = SessionId(9);

fn taken(outbox: &Outbox) -> Vec<Out> {
    let mut items = Vec::new();
    outbox.take(&mut items);
    items
}

#[test]
fn replies_find_their_connection_and_deliveries_the_session() {
    let registry = Registry::default();
    let (first, one) = registry.connect(2).unwrap();
    let (second, two) = registry.connect(2).unwrap();
    assert!(registry.connect(2).is_none(), "there is a limit");
    registry.take_session(SESSION, second, &two);
    let reply = |number, index| Output::Reply { ticket: ticket(number, index), reply: Reply::Done };
    let outputs = [
        reply(first, 5),
        reply(first, 6),
        reply(77, 1),
        reply(second, 7),
        Output::Delivery { session: SESSION, consumer: 3, epoch: None, leases: Vec::new() },
    ];
    registry.release(outputs.into_iter());
    assert!(matches!(taken(&one)[..], [Out::Reply { index: 5, .. }, Out::Reply { index: 6, .. }]));
    assert!(matches!(taken(&two)[..], [Out::Reply { index: 7, .. }, Out::Delivery { consumer: 3, .. }]));
}

#[test]
fn a_session_that_was_taken_over_is_not_lost_by_the_first_connection() {
    let registry = Registry::default();
    let (first, one) = registry.connect(9).unwrap();
    let (second, two) = registry.connect(9).unwrap();
    registry.take_session(SESSION, first, &one);
    registry.take_session(SESSION, second, &two);
    assert_eq!(one.closed().map(|close| close.code), Some(Code::SessionUnknown));
    assert!(registry.unless_closed(&one, || unreachable!("it tells nothing any more")).is_err());
    assert_eq!(registry.unless_closed(&two, || 1).ok(), Some(1));
    registry.disconnect(first, vec![SESSION], |lost| assert_eq!(lost, []));
    registry.disconnect(second, vec![SESSION], |lost| assert_eq!(lost, [SESSION]));
    assert_eq!(registry.connections(), 0);
}

#[test]
fn an_outbox_is_bounded() {
    let outbox = Outbox::default();
    let refused = || Out::Reply { index: 0, reply: Reply::Done };
    let enough = super::super::outbox::OUTBOX_MAX / refused().weight() + 1;
    outbox.put((0..enough).map(|_| refused()));
    assert_eq!(outbox.closed().map(|close| close.code), Some(Code::Overloaded));
    outbox.put([refused()].into_iter());
    assert!(taken(&outbox).is_empty(), "nothing is kept for a connection that is being closed");
}
