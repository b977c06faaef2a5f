//! Where a message waits: a delay is as long as its client said, and what is given back goes where that or the policy says, at
//! once or after a pause.

use millpond_core::Now;
use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::fact::{Fact, GroupNumber, ReturnPlace, Victims};
use millpond_types::{LeaseNumber, Millis, Retry, TopicNumber};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What is stored is published now, and due when its publish said; a dead letter that is redriven has no delay any more.
pub fn published(fact: &Fact, delay: Option<Millis>, now: Now, sights: &mut Sights) -> Kept {
    let (Fact::Published { published, due, .. }, Some(delay)) = (fact, delay) else { return Ok(()) };
    let asked = Some(delay).filter(|delay| *delay > Millis::ZERO).map(|delay| *published + delay);
    if (*published, *due) != (now.wall, asked) {
        return Err(Violation::places(format!(
            "what is due at {asked:?} is stored otherwise at {:?}: {fact:?}",
            now.wall
        )));
    }
    sights.saw_many("delayed as long as it was asked", u64::from(asked.is_some()));
    Ok(())
}

/// So is what is rescheduled. What a command asked that had to wait is not known any more.
pub fn rescheduled(fact: &Fact, asked: Option<&Command>, now: Now, sights: &mut Sights) -> Kept {
    let (Fact::Rescheduled { due, .. }, Some(Command::Reschedule { delay, .. })) = (fact, asked) else { return Ok(()) };
    if *due != now.wall + *delay {
        return Err(Violation::places(format!(
            "what is due in {delay:?} from {:?} is rescheduled: {fact:?}",
            now.wall
        )));
    }
    sights.saw("rescheduled as it was asked");
    Ok(())
}

/// What is given back waits where its client or the policy says.
pub fn returned(model: &Model, fact: &Fact, asked: Option<&Command>, now: Now, sights: &mut Sights) -> Kept {
    let Fact::Returned { topic, group, lease, count, failed, place } = fact else {
        unreachable!("called for this fact alone")
    };
    let is_named = |receipts: &[ReceiptRun]| receipts.iter().any(|run| names(run, (*topic, *group, *lease)));
    let is_right = if *failed
        && let Some(Command::Finish(Finish { verb: FinishVerb::Fail { delay: Some(delay), .. }, receipts, .. })) = asked
        && is_named(receipts)
    {
        sights.saw("failed and made to pause as it was asked");
        *place == if *delay == Millis::ZERO { ReturnPlace::Head } else { ReturnPlace::At(now.run + *delay) }
    } else if *failed {
        let of = &model.topics[&(*group, *topic)];
        let failures = model.victims((*group, *topic), Victims::Leased { lease: *lease, count: *count });
        let mut failures = failures.iter().map(|key| of.messages[key].failures + 1);
        match model.home(*group).policy_of(&of.name).retry {
            Retry::Head => *place == ReturnPlace::Head,
            Retry::Tail => {
                sights.saw("failed and put at the tail");
                *place == ReturnPlace::Tail
            }
            Retry::Backoff { first, longest } => {
                sights.saw("failed and made to pause");
                failures.all(|failures| is_pause(*place, now, (first, longest), failures))
            }
        }
    } else {
        match asked {
            // The rest of a run goes back with the one that is named, and at once.
            Some(Command::Finish(Finish { verb: FinishVerb::Release { delay }, receipts, .. }))
                if *delay > Millis::ZERO && is_named(receipts) =>
            {
                sights.saw("released for later");
                *place == ReturnPlace::At(now.run + *delay)
            }
            Some(_) => *place == ReturnPlace::Head,
            None => true,
        }
    };
    if is_right { Ok(()) } else { Err(Violation::places(format!("at {:?} by {asked:?}: {fact:?}", now.run))) }
}

/// Whether some receipts are also of a lease.
fn names(run: &ReceiptRun, (topic, group, lease): (TopicNumber, GroupNumber, LeaseNumber)) -> bool {
    (run.first.topic, run.first.group) == (topic, group) && (run.first.lease..run.end()).contains(&lease)
}

/// Whether a pause doubles with each failure up to the longest, give or take a quarter.
fn is_pause(place: ReturnPlace, now: Now, (first, longest): (Millis, Millis), failures: u32) -> bool {
    let ReturnPlace::At(until) = place else { return false };
    let pause = (1..failures).fold(first.0, |pause, _| pause.saturating_mul(2)).min(longest.0);
    let taken = until.since(now.run).0;
    taken + pause / 4 >= pause && taken <= pause + pause / 4 + 1
}
