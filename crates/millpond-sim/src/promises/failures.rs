//! Failures: a message survives as many as the policy says, and becomes a dead letter with the next one, not before and not
//! after.

use millpond_core::fact::{DeadReason, Fact, Victims};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What has failed and stays may fail as often.
pub fn returned(model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
    let Fact::Returned { topic, group, lease, count, failed: true, .. } = fact else { return Ok(()) };
    let (most, failures) = count_of(model, fact, Victims::Leased { lease: *lease, count: *count });
    sights.saw("failures survived");
    match failures.into_iter().find(|before| before + 1 > most) {
        None => Ok(()),
        Some(before) => {
            let what =
                format!("a message of {topic:?} in group {group} fails after {before} times, {most} may be, and stays");
            Err(Violation::failures(what))
        }
    }
}

/// What dies for its failures has failed too often.
pub fn died(model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
    let Fact::Died { topic, group, which, reason: DeadReason::Failed | DeadReason::LeaseExpired, .. } = fact else {
        return Ok(());
    };
    let (most, failures) = count_of(model, fact, *which);
    sights.saw("failures too many");
    match failures.into_iter().find(|before| *before < most) {
        None => Ok(()),
        Some(before) => {
            let what =
                format!("a message of {topic:?} in group {group} dies after {before} failures and one, {most} may be");
            Err(Violation::failures(what))
        }
    }
}

/// How many failures there may be of a topic's messages, and how many there were of some.
fn count_of(model: &Model, fact: &Fact, which: Victims) -> (u32, Vec<u32>) {
    let (topic, group) = fact.topic().expect("it is of a topic");
    let key = (group.expect("it is of a group"), topic);
    let found = &model.topics[&key];
    let most = model.home(key.0).policy_of(&found.name).max_failures;
    (most, model.victims(key, which).iter().map(|key| found.messages[key].failures).collect())
}
