//! Which connections use which namespaces, held against the namespaces' quotas of connections.
//!
//! A connection uses a namespace from the first publish, forward, receive or attach that it asks of it until it closes,
//! or until another one takes its session over. Who looks, manages or finishes does not use it. The writer says which
//! namespaces there are.
//!
//! Each namespace has a place, and each connection a bit for each place up to the last one that it uses: with as many
//! namespaces as there may be that is 1250 bytes of a connection.

use std::collections::HashMap;

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
    /// The place of each namespace.
    namespaces: HashMap<NamespaceName, usize>,
    /// By place. Whose namespace is gone has no users.
    users: Vec<Users>,
    /// Places of namespaces that are gone.
    free: Vec<usize>,
    connections: HashMap<u64, Used>,
}

/// The users of a namespace.
#[derive(Clone, Copy, Default)]
struct Users {
    /// How many there may be.
    quota: Option<u64>,
    connections: u64,
}

/// Which places a connection uses: a bit for each.
#[derive(Default)]
struct Used(Vec<u64>);

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
        let mut state = self.lock();
        let State { namespaces, users, free, .. } = &mut *state;
        let place = *namespaces.entry(namespace).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                users.push(Users::default());
                users.len() - 1
            })
        });
        users[place].quota = quota;
    }

    /// A namespace is gone.
    pub(crate) fn remove(&self, namespace: &NamespaceName) {
        let mut state = self.lock();
        let State { namespaces, users, free, connections } = &mut *state;
        if let Some(place) = namespaces.remove(namespace) {
            if std::mem::take(&mut users[place]).connections > 0 {
                connections.values_mut().for_each(|used| used.remove(place));
            }
            free.push(place);
        }
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection wants to use a namespace, or does so already.
    pub(crate) fn join(&self, connection: u64, namespace: &NamespaceName) -> Joined {
        let mut state = self.lock();
        let State { namespaces, users, connections, .. } = &mut *state;
        let Some(place) = namespaces.get(namespace).copied() else { return Joined::Unknown };
        if connections.get(&connection).is_some_and(|used| used.has(place)) {
            return Joined::Yes;
        }
        let users = &mut users[place];
        if let Some(quota) = users.quota.filter(|quota| users.connections >= *quota) {
            return Joined::Full { quota };
        }
        users.connections += 1;
        connections.entry(connection).or_default().insert(place);
        Joined::Yes
    }

    /// For how long an answer of [`Uses::join`] is good: until this changes.
    pub(crate) fn epoch(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// A connection uses nothing any more.
    pub(crate) fn leave(&self, connection: u64) {
        let mut state = self.lock();
        let used = state.connections.remove(&connection).unwrap_or_default();
        used.places().for_each(|place| state.users[place].connections -= 1);
    }

    /// How many connections use a namespace.
    pub(crate) fn count(&self, namespace: &NamespaceName) -> u64 {
        let state = self.lock();
        state.namespaces.get(namespace).map_or(0, |place| state.users[*place].connections)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn has(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1)
    }

    fn insert(&mut self, place: usize) {
        let words = place / 64 + 1;
        if self.0.len() < words {
            self.0.reserve_exact(words - self.0.len());
            self.0.resize(words, 0);
        }
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn remove(&mut self, place: usize) {
        if let Some(bits) = self.0.get_mut(place / 64) {
            *bits &= !(1 << (place % 64));
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len() * 64).filter(|place| self.has(*place))
    }
}

#[cfg(test)]
mod tests {
    use millpond_types::limits::NAMESPACES_MAX;

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

    /// It is counted in no share of the memory but as a part of what a connection takes.
    #[test]
    fn a_connection_that_uses_all_namespaces_takes_little() {
        let uses = Uses::default();
        let names: Vec<_> = (0..NAMESPACES_MAX).map(|index| name(&format!("n{index}"))).collect();
        names.iter().for_each(|name| uses.set_quota(name.clone(), None));
        for connection in 1..=2 {
            assert!(names.iter().all(|name| uses.join(connection, name) == Joined::Yes));
        }
        let bytes = |connection| uses.lock().connections[&connection].0.capacity() * size_of::<u64>();
        assert!(bytes(1) <= NAMESPACES_MAX / 8 + size_of::<u64>(), "{}", bytes(1));
        // A place is used again, and by nobody.
        uses.remove(&names[70]);
        uses.set_quota(name("new"), Some(1));
        assert_eq!((uses.count(&name("new")), uses.join(2, &name("new"))), (0, Joined::Yes));
        uses.leave(1);
        assert_eq!((uses.count(&names[69]), uses.count(&names[71]), uses.count(&name("new"))), (1, 1, 1));
        uses.leave(2);
        assert!(names.iter().all(|name| uses.count(name) == 0));
    }
}
