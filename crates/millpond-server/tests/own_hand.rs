//! The writer writes and syncs a small batch itself where it has nothing else to do, and not where the next turn waits for it.

use std::sync::Arc;

use millpond_core::Core;
use millpond_core::command::{Command, Receive};
use millpond_core::output::{Output, Reply};
use millpond_server::manual::{ManualBroker, Rooms};
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::{Filter, GroupName, Millis, NamespaceName};

mod by_hand;
use by_hand::{Clock, publish, run};

fn receive() -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages: 10,
        bytes: 1 << 20,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: false,
        request: None,
        call: 0,
    })
}

/// How many messages those were given that are answered by now.
fn given(broker: &ManualBroker<Clock>) -> Vec<u32> {
    let answers = broker.take_told().into_iter().filter_map(|output| match output {
        Output::Reply { reply: Reply::Received(leases), .. } => Some(leases.iter().map(|run| run.count).sum()),
        _ => None,
    });
    answers.collect()
}

#[test]
fn a_batch_goes_by_another_hand_where_the_next_turn_goes_on_at_once() {
    let options = OpenOptions::default();
    let opened = open::<Core>(Arc::new(TwinDisk::new(512)), &options).unwrap();
    let rooms = Rooms { topics: options.room, layers: 2 * options.young_bytes, ..Rooms::least() };
    let (mut broker, _) = ManualBroker::start(opened, rooms, Clock::new()).unwrap();
    let mut tickets = (0..).map(ManualBroker::<Clock>::ticket);
    let mut ask = |broker: &ManualBroker<Clock>, command| {
        assert!(broker.submit(tickets.next().unwrap(), command).is_none(), "there is room for it");
    };
    broker.core_mut().set_leases_of_turn(1);
    ask(&broker, publish(vec![run("t", b"x", 100)]));
    broker.write().unwrap();
    assert_eq!(broker.take_told().len(), 1, "it is synced by the end of the turn");
    ask(&broker, receive());
    ask(&broker, receive());
    broker.write().unwrap();
    assert_eq!(given(&broker), [0; 0], "the second one is still to be served, before the first is synced");
    broker.write().unwrap();
    assert_eq!(given(&broker), [0; 0], "one batch is on its way at a time");
    assert!(broker.commit(), "it was left to the journal's thread");
    assert_eq!(given(&broker), [10]);
    broker.write().unwrap();
    assert_eq!(given(&broker), [10], "and the last one was not");
}
