//! Dead letters that go back to work while another group holds their messages on the disk alone.

use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_core::output::Reply;

use super::cold::Cold;
use crate::script::{Line, Names, command};

#[test]
fn a_dedup_id_stays_with_what_another_group_holds_in_the_midst_of_a_line_on_the_disk() {
    let mut cold = with_letter("publish t a*50 m#x b*50");
    assert_eq!(redriven(&mut cold), Some(false), "the other group holds the message");
    let mut cold = with_letter("publish t a*50 m#x b*50");
    ask(&mut cold, "purge t group=audit");
    assert_eq!(redriven(&mut cold), Some(true), "nobody else does");
}

/// A core on whose disk one group holds all of a publish, and another one a dead letter of its 51st message.
fn with_letter(publish: &str) -> Cold {
    let mut cold = Cold::new();
    ask(&mut cold, "group audit");
    ask(&mut cold, publish);
    cold.set_room(usize::MAX);
    for verb in [FinishVerb::Ack, FinishVerb::Reject { reason: Default::default() }] {
        let messages = if verb == FinishVerb::Ack { 50 } else { 1 };
        let receive = format!("receive t max={messages}");
        let Reply::Received(runs) = ask(&mut cold, &receive) else { panic!("a receive is answered by leases") };
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        cold.answered(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
    }
    cold.set_room(0);
    cold.evict();
    cold.write();
    cold.evict();
    assert_eq!((cold.core.resident_count(), cold.core.cold_count()), (0, 2));
    cold
}

/// Whether the dedup id of the letter goes along as it is redriven.
fn redriven(cold: &mut Cold) -> Option<bool> {
    assert_eq!(ask(cold, "redrive"), Reply::Count(1));
    cold.journal.facts.iter().find_map(|(fact, _)| match fact {
        Fact::Redriven { dedup, .. } => Some(dedup.is_some()),
        _ => None,
    })
}

fn ask(cold: &mut Cold, text: &str) -> Reply {
    cold.answered(command(&Line::new(text), text, &Names::default()))
}
