//! What a group is not to keep of what nobody has leased: a group at a time, once a second or right behind another one.

use std::cmp::Reverse;

use millpond_core::fact::GroupNumber;

use super::Model;

impl Model {
    /// A group that holds too much, if it is time to look, and up to when that was published which goes.
    pub(super) fn too_much(&mut self) -> Option<(GroupNumber, u64)> {
        if !self.policy.retention.is_any() || self.run < self.next_look {
            return None;
        }
        self.next_look = self.run + 1000;
        let groups = self.groups.iter().filter(|(_, group)| group.start.is_none());
        groups.map(|(number, _)| *number).find_map(|group| Some((group, self.goes_up_to(group)?)))
    }

    fn goes_up_to(&self, group: GroupNumber) -> Option<u64> {
        let of_group = self.topics.iter().filter(|(place, _)| place.group == group);
        let messages = of_group.flat_map(|(_, topic)| topic.messages.values());
        let mut published: Vec<u64> =
            messages.filter(|message| message.holder().is_none()).map(|message| message.published).collect();
        published.sort_unstable_by_key(|at| Reverse(*at));
        let oldest = *published.last()?;

        // As soon as one is older by an eighth, all that are older go.
        let is_older = |at: u64, age: u64| at + age < self.wall;
        let age = self.policy.retention.age.map(|age| age.0).filter(|age| is_older(oldest, age + age / 8));
        let old = age.and_then(|age| published.iter().find(|at| is_older(**at, age)));
        // The newest stay, with what was published along with them, and the others go as soon as they are an eighth.
        let count = self.policy.retention.count;
        let many = count.and_then(|count| {
            let last = published.get(count as usize - 1)?;
            let behind = published.iter().position(|at| at < last)?;
            let is_worth_it = published.len() - behind >= (count as usize / 8).max(1);
            is_worth_it.then(|| &published[behind])
        });
        old.max(many).copied()
    }

    pub(super) fn retain_out(&mut self, too_much: Option<(GroupNumber, u64)>) {
        let Some((group, last)) = too_much else { return };
        let mut goes = self.find(|message| message.holder().is_none() && message.published <= last);
        goes.retain(|(place, _)| place.group == group);
        for (place, key) in goes {
            self.take(&place, key);
            self.groups.get_mut(&group).unwrap().retained_out += 1;
        }
        // Others may hold too much as well.
        self.next_look = self.run;
    }
}
