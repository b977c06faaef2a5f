//! Messages come in: by a publish, or out of the dead letters.

use millpond_types::block::Sizes;
use millpond_types::{MessageId, Priority, Sequence, WallTime};

use crate::fact::{Fact, GroupNumber, Letter, Remembered};
use crate::page::{DedupPage, Marks, RunPage};
use crate::state::topic::{AsideWhy, Past};
use crate::state::{State, Timer, TopicSlot};

impl State {
    pub(super) fn published(&mut self, fact: &Fact, position: u64) {
        let Fact::Published {
            topic,
            except,
            priority,
            first,
            count,
            published,
            due,
            expires,
            dedup_until,
            dedup,
            block: _,
            sizes,
        } = fact
        else {
            unreachable!("called for this fact alone")
        };
        let (topic, priority) = (*topic, *priority);
        let slot = self.topics.siblings(topic).next().expect("a publish is into a topic that exists");
        let namespace = self.topics[slot].namespace;
        for mark in dedup {
            let sequence = Sequence(first.0 + u64::from(mark.index));
            let id = MessageId { topic, priority, sequence };
            self.remember(DedupPage { namespace, hash: mark.hash, id, until: *dedup_until });
        }
        let run = RunPage {
            first: *first,
            count: *count,
            position,
            sizes: sizes.clone(),
            marks: Marks::new(*dedup_until, dedup.iter().map(|mark| (mark.index, mark.hash))),
            index: 0,
            published: *published,
            expires: expires.unwrap_or(WallTime::NEVER),
        };
        let mut next = self.topics[slot].siblings.next;
        while let Some(sibling) = next {
            next = self.topics[sibling].siblings.next;
            self.arrive(sibling, except, priority, run.clone(), *due);
        }
        self.arrive(slot, except, priority, run, *due);
    }

    /// A group has a run of messages that was published, or has declined it.
    fn arrive(
        &mut self,
        slot: TopicSlot,
        except: &[GroupNumber],
        priority: Priority,
        run: RunPage,
        due: Option<WallTime>,
    ) {
        let group = self.topics[slot].group;
        if self.groups[group].is_ending {
            return;
        }
        if except.contains(&group) {
            return self.advance_next(slot, priority, run.end());
        }
        self.keep(slot, run.extent().length);
        self.groups[group].tally.accepted += u64::from(run.count);
        self.arm_expiry(slot, priority, &run);
        match due {
            None => self.put_in_line(slot, priority, run),
            Some(due) => {
                self.advance_next(slot, priority, run.end());
                let timer = self.wall_timers.insert(due.0, Timer::Ripe { slot, priority, first: run.first });
                let past = Past { since: due, ..Past::of_line(&run) };
                self.set_aside(slot, priority, run, past, AsideWhy::Delayed { due, timer });
            }
        }
    }

    pub(super) fn redriven(&mut self, fact: &Fact) {
        let Fact::Redriven { letter, topic, sequence, published, since, dedup } = fact else {
            unreachable!("called for this fact alone")
        };
        self.remove_dead(letter);
        let Letter { namespace, group, id: MessageId { priority, .. }, extent, .. } = *letter;
        let slot = self.slot(*topic, group);
        let (until, hash) = dedup.map_or((WallTime::NEVER, None), |of| (of.until, Some(of.hash)));
        // It has had its time: a second life is not cut short by the TTL of the first.
        let run = RunPage {
            first: *sequence,
            count: 1,
            position: extent.position,
            sizes: Sizes::Uniform(extent.length),
            marks: Some(Marks::of_redriven(*since, until, hash)),
            index: 0,
            published: *published,
            expires: WallTime::NEVER,
        };
        if let Some(Remembered { hash, until }) = *dedup {
            let id = self.topics[slot].id(priority, *sequence);
            self.remember(DedupPage { namespace, hash, id, until });
        }
        let end = run.end();
        self.for_each_of(*topic, None, |state, sibling| {
            if sibling != slot {
                state.advance_next(sibling, priority, end);
            }
        });
        self.put_in_line(slot, priority, run);
    }

    fn put_in_line(&mut self, slot: TopicSlot, priority: Priority, run: RunPage) {
        self.advance_next(slot, priority, run.end());
        let topic = &mut self.topics[slot];
        self.groups[topic.group].queue(&run);
        topic.level_or_new(priority).line.push_back(run);
        self.touch(slot);
    }

    /// Sequences before this one were given out, and are not again while any group has the topic.
    fn advance_next(&mut self, slot: TopicSlot, priority: Priority, end: Sequence) {
        let level = self.topics[slot].level_or_new(priority);
        assert!(end > level.next, "sequences only grow");
        level.next = end;
        self.numbers.note(end.0);
    }
}
