//! Room: nothing is stored in a topic in which as much waits as may, and nothing in a namespace whose quota is used up. Left
//! out is what makes room by coming: what takes a place, drops the oldest, or is forwarded.

use millpond_core::command::Command;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{Coalesce, Overflow};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Messages are about to be stored.
pub fn published(model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let Fact::Published { topic, except, count, .. } = fact else { unreachable!("called for this fact alone") };
    let count = *count as usize;
    let topics = model.topics.iter().filter(|((_, number), _)| number == topic);
    let takes = |group: &GroupNumber| !except.contains(group) && !model.groups[group].is_ending;
    for ((group, _), found) in topics.filter(|((group, _), _)| takes(group)) {
        let policy = model.home(*group).policy_of(&found.name);
        if policy.coalesce != Coalesce::Off || policy.overflow == Overflow::DropOldest {
            continue;
        }
        if let Some(most) = policy.max_waiting {
            let waiting = found.waiting().count() + count;
            sights.saw_many("as many as may wait", u64::from(waiting == most as usize));
            if waiting > most as usize {
                return Err(Violation::room(format!("{waiting} messages of {} wait, and {most} may", found.name)));
            }
        }
        let Some(most) = model.home(*group).policy.quotas.messages else { continue };
        if !matches!(asked, Some(Command::Publish(_) | Command::Route(_))) {
            continue;
        }
        let held: usize = model.topics_of(*group).map(|(_, topic)| topic.messages.len()).sum();
        let held = held + model.dead.iter().filter(|(of, _)| of == group).count() + count;
        sights.saw_many("as many as a quota lets", u64::from(held as u64 == most));
        if held as u64 > most {
            return Err(Violation::room(format!("group {group} holds {held} messages, and {most} may be")));
        }
    }
    Ok(())
}
