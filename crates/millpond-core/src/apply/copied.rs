//! A group that starts is given messages that other groups hold. They stand before all that was published to the topic
//! since the group was made, so they may come behind that.

use millpond_types::{Priority, Sequence, WallTime};

use crate::fact::CopiedRun;
use crate::page::{Reached, RunPage};
use crate::state::topic::{AsideWhy, Past};
use crate::state::{State, Timer, TopicSlot};
use crate::store::Name;

impl State {
    pub(super) fn copied(&mut self, slot: TopicSlot, messages: &[CopiedRun], rest: Option<(Priority, Sequence)>) {
        let topic = &self.topics[slot];
        assert!(topic.is_held, "a group is given each topic once, in the order of names");
        let is_saved = Reached::is_of_saved(messages, rest);
        for CopiedRun { priority, run, due } in messages {
            self.copy_in(slot, *priority, run.clone(), *due, is_saved);
        }
        self.touch(slot);
        if is_saved {
            return;
        }
        let topic = &mut self.topics[slot];
        topic.is_held = rest.is_some();
        let name = topic.name.as_bytes();
        let at = if rest.is_some() { Name::bytes(name) } else { Name::behind(name) };
        self.groups[topic.group].starting = Some(Reached { at, rest });
    }

    fn copy_in(&mut self, slot: TopicSlot, priority: Priority, run: RunPage, due: Option<WallTime>, is_saved: bool) {
        let topic = &mut self.topics[slot];
        let level = topic.level_or_new(priority);
        assert!(run.end() <= level.next, "what is copied was published before");
        let group = topic.group;
        self.groups[group].tally.accepted += u64::from(run.count);
        self.share(slot, run.extent());
        self.arm_expiry(slot, priority, &run);
        if let Some(due) = due {
            let timer = self.wall_timers.insert(due.0, Timer::Ripe { slot, priority, first: run.first });
            let past = Past { since: due, ..Past::of_line(&run) };
            return self.set_aside(slot, priority, run, past, AsideWhy::Delayed { due, timer });
        }
        if is_saved {
            // Between others, of which some may be in the store.
            let (past, why) = (Past::of_line(&run), AsideWhy::Ready { behind: run.first });
            return self.set_aside(slot, priority, run, past, why);
        }
        let topic = &mut self.topics[slot];
        self.groups[topic.group].queue(&run);
        topic.level_or_new(priority).line.insert(run);
    }
}
