//! Groups: made and deleted.

use alloc::format;

use millpond_types::limits::GROUPS_MAX;
use millpond_types::{Code, Counted, GroupKind, GroupName, NamespaceName, Start};

use crate::Core;
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog};
use crate::output::Reply;
use crate::state::setup;

impl Core {
    /// Makes a group, which has all that is published from here on. What else it starts with it is given bit by bit.
    pub(super) fn group_create(
        &mut self,
        namespace: &NamespaceName,
        name: GroupName,
        start: Start,
        kind: GroupKind,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let home = &self.state.namespaces[namespace];
        if self.group_of(namespace, &name).is_ok() {
            return Err((Code::GroupExists, format!("there is a group {name} already; delete it to begin it anew")));
        }
        if home.groups.len() + home.ending.len() >= GROUPS_MAX {
            let detail =
                format!("a namespace has at most {GROUPS_MAX} groups, those among them that are being deleted");
            return Err((Code::LimitExceeded, detail));
        }
        if let Start::At(time) = start
            && time > self.state.now.wall
        {
            let detail = "a group has all that is published from its making on, so it cannot start later than now";
            return Err((Code::ArgumentInvalid, detail.into()));
        }
        if let GroupKind::Exclusive(terms) = kind
            && !terms.is_valid()
        {
            let detail = "a term is from 500 ms to 10 min, and a hand-over at most 12 h".into();
            return Err((Code::ArgumentInvalid, detail));
        }
        self.check_setup(setup::of_group(&name))?;
        let group = self.state.numbers.next_group;
        self.commit(Fact::GroupCreated { group, namespace, name, start, kind }, log);
        Ok(Reply::Done)
    }

    /// Deletes a group. From here on nobody finds it; what it holds ends bit by bit.
    pub(super) fn group_delete(
        &mut self,
        namespace: &NamespaceName,
        name: &GroupName,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let group = self.group_of(namespace, name)?;
        if group == self.default_group(namespace) {
            return Err((Code::GroupInUse, "the group `default` of a namespace always exists".into()));
        }
        let users = self.dispatcher.consumers.iter().filter(|(_, consumer)| consumer.group == group).count();
        if users > 0 {
            let users = Counted(users as u64, "consumer");
            let detail = format!("group {name} has {users} attached; it is deleted when none is left");
            return Err((Code::GroupInUse, detail));
        }
        let leader = self.state.office(group).and_then(|office| office.leader);
        self.dispatcher.close_office(group, leader);
        self.state.emptied.extend(leader);
        self.commit(Fact::GroupEnding { group }, log);
        self.dispatcher.scopes.close_group(group);
        Ok(Reply::Done)
    }
}
