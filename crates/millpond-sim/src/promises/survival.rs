//! What is told survives: an answer says nothing that a cut of the power takes back. Of publishes and of what ends leases
//! [`crate::lost`] and [`crate::back`] know more: what was promised, and what they lost.

use std::collections::BTreeMap;

use millpond_core::command::Ticket;
use millpond_core::output::{Output, Reply};

use super::Kept;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Answers on their way, each with the position of the last fact that it may say something of.
#[derive(Default)]
pub struct Answers(BTreeMap<Ticket, u64>);

impl Answers {
    /// These were made in a turn, of which this is the last fact that does not survive yet.
    pub fn made(&mut self, outputs: &[Output], last: Option<u64>) {
        let Some(last) = last else { return };
        self.0.extend(outputs.iter().filter_map(waits).map(|ticket| (ticket, last)));
    }

    /// This is told, and what happened from a position on does not survive yet.
    pub fn told(&mut self, output: &Output, unsettled: Option<u64>, sights: &mut Sights) -> Kept {
        let Some((ticket, last)) = waits(output).and_then(|ticket| self.0.remove_entry(&ticket)) else { return Ok(()) };
        sights.saw("answers that had to survive");
        match unsettled {
            Some(first) if first <= last => {
                Err(Violation::survival(format!("{} is answered at {first}, and speaks of {last}", ticket.0)))
            }
            _ => Ok(()),
        }
    }
}

/// Whose answer this is, if it has to wait.
fn waits(output: &Output) -> Option<Ticket> {
    let Output::Reply { ticket, reply } = output else { return None };
    let is_others = matches!(
        reply,
        Reply::Published { .. } | Reply::Finished(_) | Reply::Forwarded { .. } | Reply::Received(_) | Reply::Lost(_)
    );
    (!is_others).then_some(*ticket)
}
