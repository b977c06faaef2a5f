//! The requests of one connection that are not answered yet: each has a place here from its frame to its answer.
//!
//! Tickets name places and not correlation numbers, so a client that uses a number twice confuses only itself.

/// Requests that one connection may have unanswered. More than any client keeps in flight on purpose; a place takes 16
/// bytes.
pub(crate) const OPEN_MAX: usize = 65_536;

/// Of these, requests that look, list or manage: each may cost the writer and this connection a page of a thousand rows.
pub(crate) const MANAGE_OPEN_MAX: usize = 256;

/// Names that the filters of a connection's consumers and of its open receives list together: as many as the consumers that it
/// may have. Each takes the core some hundred bytes beside itself.
pub(crate) const NAMES_MAX: usize = 65_536;

/// A request that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Open {
    /// What the client calls it.
    pub(crate) correlation: u32,
    /// What its answer does here.
    pub(crate) kind: Kind,
}

/// What the answer of a request does to the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Gives publish credit back; not told to the client if it asked for level `none`.
    Publish { bytes: u32, silent: bool },
    /// Is withdrawn with its connection. Its filter lists so many names.
    Receive { names: u32 },
    /// Begins the deliveries of the connection's session, if it is still the one of this number.
    SessionBegin { nth: u32 },
    /// Ends the session of this number.
    SessionEnd { nth: u32 },
    /// Makes the consumer known, unless refused.
    Attach { nth: u32 },
    /// Forgets the consumer.
    Detach { nth: u32 },
    /// Is not told to the client if it asked for no confirmation, unless it is refused.
    Finish { silent: bool },
    /// Is only told, and cheap.
    Plain,
    /// Is only told, and may be dear. Is withdrawn with its connection as far as it has not come.
    Manage,
}

/// The open requests of one connection.
#[derive(Default)]
pub(crate) struct OpenRequests {
    places: Vec<Option<Open>>,
    free: Vec<u32>,
    /// Places of receives: they may wait for minutes and are not waited for when the connection is closed.
    receives: usize,
    /// Names that their filters list.
    names: usize,
    manages: usize,
}

impl OpenRequests {
    /// Takes a place, or `None` if the connection has too many requests open.
    pub(crate) fn insert(&mut self, open: Open) -> Option<u32> {
        if self.len() >= OPEN_MAX || open.kind == Kind::Manage && self.manages >= MANAGE_OPEN_MAX {
            return None;
        }
        if let Kind::Receive { names } = open.kind {
            self.receives += 1;
            self.names += names as usize;
        }
        self.manages += usize::from(open.kind == Kind::Manage);
        Some(match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some(open);
                index
            }
            None => {
                self.places.push(Some(open));
                (self.places.len() - 1) as u32
            }
        })
    }

    /// Gives the place of an answered request back.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Open> {
        let open = self.places.get_mut(index as usize)?.take()?;
        if let Kind::Receive { names } = open.kind {
            self.receives -= 1;
            self.names -= names as usize;
        }
        self.manages -= usize::from(open.kind == Kind::Manage);
        self.free.push(index);
        if self.len() == 0 {
            // An idle connection keeps no memory for the busy time it had.
            *self = OpenRequests::default();
        }
        Some(open)
    }

    /// The places of those that may go on for long and that nobody needs once their connection is gone: receives that
    /// wait, lists and purges.
    pub(crate) fn withdrawable(&self) -> impl Iterator<Item = u32> {
        let is_one =
            |open: &Option<Open>| open.is_some_and(|open| matches!(open.kind, Kind::Receive { .. } | Kind::Manage));
        self.places.iter().enumerate().filter(move |(_, open)| is_one(open)).map(|(index, _)| index as u32)
    }

    /// How many names the filters of open receives list.
    pub(crate) fn names(&self) -> usize {
        self.names
    }

    /// Whether only receives are open, if anything is.
    pub(crate) fn only_receives(&self) -> bool {
        self.len() == self.receives
    }

    /// How many are open that are no receives.
    pub(crate) fn beside_receives(&self) -> usize {
        self.len() - self.receives
    }

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_never_two_at_a_time() {
        let open = |correlation| Open { correlation, kind: Kind::Plain };
        let mut requests = OpenRequests::default();
        let (a, b) = (requests.insert(open(7)).unwrap(), requests.insert(open(7)).unwrap());
        assert_ne!(a, b, "one correlation number twice is two requests");
        assert_eq!(requests.remove(a), Some(open(7)));
        assert_eq!(requests.remove(a), None);
        assert_eq!(requests.insert(open(8)), Some(a));
    }

    #[test]
    fn there_is_a_limit() {
        let mut requests = OpenRequests::default();
        let receive = Open { correlation: 1, kind: Kind::Receive { names: 3 } };
        for _ in 0..OPEN_MAX {
            requests.insert(receive).unwrap();
        }
        assert_eq!(requests.insert(receive), None);
        assert!(requests.only_receives());
        assert_eq!(requests.withdrawable().count(), OPEN_MAX);
    }

    #[test]
    fn looking_has_a_lower_limit_of_its_own() {
        let mut requests = OpenRequests::default();
        let look = Open { correlation: 1, kind: Kind::Manage };
        let places: Vec<u32> = (0..MANAGE_OPEN_MAX).map(|_| requests.insert(look).unwrap()).collect();
        assert_eq!(requests.insert(look), None);
        assert!(requests.insert(Open { kind: Kind::Plain, ..look }).is_some(), "finishing goes on");
        requests.remove(places[9]);
        assert!(requests.insert(look).is_some());
    }
}
