//! Who is leased messages of an exclusive group: the session that holds its office, and nobody before the last lease of an
//! earlier epoch is over.

use millpond_core::fact::Fact;
use millpond_types::SessionId;

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Messages are about to be leased.
pub fn leased(model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
    let Fact::Leased { group, holder, .. } = fact else { unreachable!("called for this fact alone") };
    let Some(office) = model.groups[group].office else { return Ok(()) };
    sights.saw("leased to a leader");
    if *holder != SessionId(0) && office.leader != Some(*holder) {
        let what = format!("{holder:?} is leased messages of group {group}, and {:?} leads it", office.leader);
        return Err(Violation::offices(what));
    }
    let mut current = model.topics_of(*group).flat_map(|(_, topic)| topic.leased());
    match current.find(|(_, message)| message.terms.epoch != Some(office.epoch)) {
        None => Ok(()),
        Some((lease, message)) => {
            let what = format!("epoch {} begins, and lease {} is of {:?}", office.epoch.0, lease.0, message.terms);
            Err(Violation::offices(what))
        }
    }
}
