//! A message takes the place of others of its topic.

use crate::fact::{Fact, Victims};
use crate::state::topic::{AsideWhy, Past};
use crate::state::{State, Timer};

impl State {
    pub(super) fn superseded(&mut self, fact: &Fact) {
        let Fact::Superseded { topic, group, which, priority, by, failures, until, since } = fact else {
            unreachable!("called for this fact alone")
        };
        let slot = self.slot(*topic, *group);
        let (level, gone) = match *which {
            Victims::Leased { lease, count } => self.end_lease(slot, lease, count),
            Victims::Waiting { priority, first, count } => (priority, self.take_unleased(slot, priority, first, count)),
        };
        self.free(slot, gone.run.extent());
        self.settle(slot, level, gone.run.first);
        self.groups[*group].tally.superseded += u64::from(gone.run.count);
        if *failures == 0 && until.is_none() && since.is_none() {
            return;
        }
        self.place_of(slot, *priority, *by);
        let level = self.topics[slot].level_mut(*priority).expect("a fact names a level that exists");
        let aside = level.aside.get_mut(by).filter(|aside| aside.run.count == 1 && until.is_none());
        if let Some(heir) = aside {
            // It keeps its timer, which may go off in this very turn.
            heir.failures = *failures;
            heir.since = since.unwrap_or(heir.since);
            return;
        }
        let heir = self.take_unleased(slot, *priority, *by, 1);
        let why = match *until {
            Some(due) => {
                let ripe = Timer::Ripe { slot, priority: *priority, first: *by };
                AsideWhy::Retrying { due, timer: self.run_timers.insert(due.0, ripe) }
            }
            None => self.same_again(heir.state, slot, *priority, *by),
        };
        let past = Past { failures: *failures, since: since.unwrap_or(heir.since), ..heir.past() };
        self.set_aside(slot, *priority, heir.run, past, why);
    }
}
