//! Which connections use which namespaces, held against the namespaces' quotas of connections.
//!
//! A connection uses a namespace from the first publish, forward, receive or attach that it asks of it until it closes,
//! or until another one takes its session over. Who looks, manages or finishes does not use it. The writer says which
//! namespaces there are.

use std::collections::{HashMap, HashSet};

use millpond_types::NamespaceName;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Uses {
    state: Mutex<State>,
    /// How many namespaces were deleted: what was found before may be wrong by then.
    deleted: AtomicU64,
}

#[derive(Default)]
struct State {
    namespaces: HashMap<NamespaceName, Users>,
    /// What each connection uses.
    connections: HashMap<u64, Vec<NamespaceName>>,
}

/// The users of a namespace.
#[derive(Default)]
struct Users {
    /// How many there may be.
    quota: Option<u64>,
    connections: HashSet<u64>,
}

/// What became of a wish to use a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// The connection uses it.
    Yes,
    /// There is no such namespace, as far as edges know.
    Unknown,
    /// As many connections use it as may.
    Full { quota: u64 },
}

impl Uses {
    /// There is a namespace, which so many may use.
    pub(crate) fn set_quota(&self, namespace: NamespaceName, quota: Option<u64>) {
        self.lock().namespaces.entry(namespace).or_default().quota = quota;
    }

    /// A namespace is gone.
    pub(crate) fn remove(&self, namespace: &NamespaceName) {
        let mut state = self.lock();
        for connection in state.namespaces.remove(namespace).into_iter().flat_map(|gone| gone.connections) {
            state.connections.entry(connection).or_default().retain(|used| used != namespace);
        }
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection wants to use a namespace, or does so already.
    pub(crate) fn join(&self, connection: u64, namespace: &NamespaceName) -> Joined {
        let mut state = self.lock();
        let State { namespaces, connections } = &mut *state;
        let Some(users) = namespaces.get_mut(namespace) else { return Joined::Unknown };
        if users.connections.contains(&connection) {
            return Joined::Yes;
        }
        if let Some(quota) = users.quota.filter(|quota| users.connections.len() as u64 >= *quota) {
            return Joined::Full { quota };
        }
        users.connections.insert(connection);
        // Not as a part of the buffer that the frame came in.
        let namespace = NamespaceName::try_from(namespace.as_str()).expect("it was a name before");
        connections.entry(connection).or_default().push(namespace);
        Joined::Yes
    }

    /// For how long an answer of [`Uses::join`] is good: until this changes.
    pub(crate) fn epoch(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// A connection uses nothing any more.
    pub(crate) fn leave(&self, connection: u64) {
        let mut state = self.lock();
        for namespace in state.connections.remove(&connection).unwrap_or_default() {
            if let Some(users) = state.namespaces.get_mut(&namespace) {
                users.connections.remove(&connection);
            }
        }
    }

    /// How many connections use a namespace.
    pub(crate) fn count(&self, namespace: &NamespaceName) -> u64 {
        self.lock().namespaces.get(namespace).map_or(0, |users| users.connections.len() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> NamespaceName {
        NamespaceName::try_from(name).unwrap()
    }

    #[test]
    fn so_many_use_a_namespace_and_who_leaves_makes_room() {
        let uses = Uses::default();
        assert_eq!(uses.join(1, &name("a")), Joined::Unknown);
        uses.set_quota(name("a"), Some(2));
        uses.set_quota(name("b"), None);
        let joined = |connection| uses.join(connection, &name("a"));
        assert_eq!([1, 1, 2, 3].map(joined), [Joined::Yes, Joined::Yes, Joined::Yes, Joined::Full { quota: 2 }]);
        assert_eq!((uses.join(3, &name("b")), uses.count(&name("a"))), (Joined::Yes, 2));
        uses.leave(1);
        assert_eq!([3, 1].map(joined), [Joined::Yes, Joined::Full { quota: 2 }]);
        uses.set_quota(name("a"), Some(1));
        assert_eq!([2, 1].map(joined), [Joined::Yes, Joined::Full { quota: 1 }], "who is there may stay");
        uses.leave(3);
        assert_eq!((uses.count(&name("a")), uses.count(&name("b"))), (1, 0));
        uses.remove(&name("a"));
        assert_eq!((joined(2), uses.count(&name("a"))), (Joined::Unknown, 0));
        uses.set_quota(name("a"), Some(1));
        assert_eq!((uses.count(&name("a")), joined(1)), (0, Joined::Yes), "another one of that name has no users");
        uses.leave(2);
        assert_eq!(uses.count(&name("a")), 1);
    }
}
