//! The order inside a topic: the highest priority that is up, what was returned or fell due first, then by sequence; and no
//! more at a time than the policy lets. In strict order that is one message, or one run, by sequence alone, and what waits
//! for its retry holds the topic; a run is finished in its order. So messages are completed in the order of priority and sequence.

use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{LeaseNumber, SessionId, TopicNumber, WallTime};

use super::Kept;
use crate::model::{Key, Model, Topic};
use crate::sights::Sights;
use crate::verdict::Violation;

/// The run that is being leased.
#[derive(Default)]
pub struct Runs {
    run: Option<Run>,
}

struct Run {
    of: (GroupNumber, TopicNumber, SessionId),
    first: LeaseNumber,
    left: u64,
}

impl Runs {
    /// Holds a lease against the order.
    pub fn leased(&mut self, model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
        let Fact::Leased { topic, group, priority, first, count, lease, run: told, holder, .. } = fact else {
            unreachable!("called for this fact alone")
        };
        let (home, count) = (model.home(*group), u64::from(*count));
        let found = &model.topics[&(*group, *topic)];
        let (name, policy) = (&found.name, home.policy_of(&found.name));
        if home.is_paused(name) {
            return Err(Violation::order(format!("{name} is paused, and {} is leased", lease.0)));
        }
        let of = (*group, *topic, *holder);
        let goes_on = self.run.take().filter(|run| run.of == of && *told == Some(run.first) && run.left >= count);
        let room = goes_on.as_ref().map_or_else(|| found.room(&policy), |run| run.left);
        if room < count {
            let leased = found.leases.len();
            let what = format!(
                "{name} has {leased} leases and room for {room} of {:?}, and has {count} more",
                policy.leases_at_a_time()
            );
            return Err(Violation::order(what));
        }
        let next = found.heads(&policy, now).into_iter().max().map(|(_, _, priority)| priority);
        if next != Some(*priority) {
            return Err(Violation::order(format!("of {name} goes {priority:?}, and next is {next:?}")));
        }
        let ready = found.ready(&policy).into_iter().map(|(key, _)| key).filter(|key| key.0 == *priority);
        let next: Vec<Key> = ready.take(count as usize).collect();
        if !next.iter().map(|(_, at)| at.0).eq(first.0..first.0 + count) {
            return Err(Violation::order(format!("of {name} goes {}, and next is {next:?}", first.0)));
        }
        if policy.is_strict() {
            sights.saw_many("leased in strict order", count);
            sights.saw_many("leased behind others in a run", goes_on.as_ref().map_or(count - 1, |_| count));
        }
        // What ends as it is delivered is of no run: nobody finishes it, and no session holds it.
        let is_of_none = told.is_none() && (!policy.leases_runs() || *holder == SessionId(0));
        let begins = *told == Some(*lease) && policy.leases_runs();
        if goes_on.is_none() && !begins && !is_of_none {
            return Err(Violation::order(format!("lease {} of {name} is of run {told:?}", lease.0)));
        }
        let left = goes_on.map_or(u64::from(policy.run), |run| run.left).saturating_sub(count);
        self.run = told.map(|first| Run { of, first, left });
        Ok(())
    }

    /// The turn is over, and with it the run.
    pub fn end(&mut self) {
        self.run = None;
    }
}

/// Nothing is finished before what was leased before it in its run.
pub fn acked(model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
    let Fact::Acked { topic, group, lease, count } = fact else { unreachable!("called for this fact alone") };
    let found = &model.topics[&(*group, *topic)];
    let first = &found.messages[&found.leases[lease]];
    let (_, run) = first.last_lease.expect("it is leased");
    let Some(run) = run else { return Ok(()) };
    sights.saw_many("finished in a run", u64::from(*count));
    match before(found, run, *lease) {
        None => Ok(()),
        Some((key, at)) => {
            let what = format!(
                "of {} lease {} is finished, and {key:?}, lease {} of its run, is not",
                found.name, lease.0, at.0
            );
            Err(Violation::order(what))
        }
    }
}

/// What of a run was leased before a lease and is not finished.
fn before(topic: &Topic, run: LeaseNumber, lease: LeaseNumber) -> Option<(Key, LeaseNumber)> {
    let leased = topic.messages.iter().filter_map(|(key, message)| Some((*key, message.last_lease?)));
    leased.filter(|(_, (at, of))| *of == Some(run) && *at < lease).map(|(key, (at, _))| (key, at)).next()
}
