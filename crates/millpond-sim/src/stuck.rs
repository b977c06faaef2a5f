//! Ready and stuck: when consumers take everything, nothing is paused and time goes on, everything comes to its end:
//! nothing waits, is delayed, in retry or leased, and every topic has vanished.

use millpond_core::output::Reply;
use millpond_types::{MessageId, NamespaceView};

use crate::ledger::{Ledger, Place};
use crate::model::Model;
use crate::verdict::Violation;

/// A message or topic that is not finished.
pub fn left(ledger: &Ledger) -> Option<String> {
    let message = ledger.messages.iter().find(|(_, message)| matches!(message.place, Place::Open | Place::Leased(_)));
    let topic = || ledger.topics.iter().find(|(_, life)| !life.gone);
    let message = message.map(|(id, message)| format!("message {id} is {:?}", message.place));
    message.or_else(|| topic().map(|(number, life)| format!("topic {} ({number:?}) is still there", life.name)))
}

/// Time is up.
pub fn violation(ledger: &Ledger, model: &Model) -> Violation {
    let open =
        |message: &(&MessageId, &crate::ledger::Message)| matches!(message.1.place, Place::Open | Place::Leased(_));
    let count = ledger.messages.iter().filter(open).count();
    let first = left(ledger).or_else(|| model.left()).unwrap_or_default();
    Violation::stuck(format!("{count} messages do not come to their end; {first}"))
}

/// What the broker says of all namespaces in the end.
pub fn check_views(reply: &Reply, model: &Model) -> Result<(), Violation> {
    let Reply::Namespaces { rows: views, next: None } = reply else {
        return Err(Violation::stuck(format!("asked for the namespaces, it says {reply:?}")));
    };
    views.iter().try_for_each(check_view)?;
    let dead: u64 = views.iter().flat_map(|view| &view.groups).map(|group| group.counts.dead).sum();
    let expected = model.letters.current().count() as u64;
    if dead != expected {
        return Err(Violation::lost(format!("there are {dead} dead letters, and {expected} by the facts")));
    }
    Ok(())
}

fn check_view(view: &NamespaceView) -> Result<(), Violation> {
    let busy = view.groups.iter().find(|group| group.counts.unfinished() > 0);
    if busy.is_some() || view.usage.topics > 0 {
        return Err(Violation::stuck(format!("at the end namespace {} is {view:?}", view.name)));
    }
    Ok(())
}
