//! Exclusive groups: one leader at a time has their messages, and holds the *office* for it.
//!
//! What an office promises is exclusive delivery. Side effects are the application's: it hands the [`LeaderEpoch`] to
//! whatever it writes to.

use crate::limits::{HANDOVER_MAX, TERM_MAX, TERM_MIN};
use crate::name::GroupName;
use crate::time::Millis;

/// How the consumers of a group share its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupKind {
    /// Each message goes to one of them.
    #[default]
    Shared,
    /// All messages go to one of them, the leader.
    Exclusive(OfficeTerms),
}

/// How long an office is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfficeTerms {
    /// A leader without a heartbeat for so long has lost the office.
    pub term: Millis,
    /// Leases of a leader that has lost it last for so long at most.
    pub handover: Millis,
}

impl Default for OfficeTerms {
    /// A term is what a session may be lost for, and a hand-over what a lease lasts, unless somebody says otherwise.
    fn default() -> Self {
        OfficeTerms { term: Millis::seconds(10), handover: Millis::seconds(30) }
    }
}

impl OfficeTerms {
    /// Whether both are within their limits.
    pub fn is_valid(&self) -> bool {
        (TERM_MIN..=TERM_MAX).contains(&self.term) && self.handover <= HANDOVER_MAX
    }
}

/// Counts the leaders of an exclusive group, growing strictly for ever: a fencing token. No group of a data directory
/// begins below one that was there before it, so a group that is deleted and made anew goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeaderEpoch(pub u64);

/// What a consumer of an exclusive group is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// It waits for the office.
    Candidate,
    /// It holds the office, and leases of an earlier leader last: time to prepare.
    Inaugurate,
    /// It holds the office, and messages come.
    Lead,
    /// It has lost the office. What it has leased it may finish, and not extend.
    Deposed,
}

/// What a consumer of an exclusive group is told of its office.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What it is now.
    pub role: Role,
    /// The office's last epoch: its own, while it holds the office.
    pub epoch: LeaderEpoch,
    /// The office's term: heartbeats that come three times as often keep it.
    pub term: Millis,
    /// How long leases last at most once the office is lost; to whoever inaugurates or is deposed, how long those of the
    /// outgoing leader last from now: zero where they are over.
    pub handover: Millis,
}

/// An office, as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfficeView {
    /// Its group.
    pub group: GroupName,
    /// How long it is held.
    pub terms: OfficeTerms,
    /// That of the last leader.
    pub epoch: LeaderEpoch,
    /// Who holds it, as [`SessionId::public`](crate::SessionId::public) shows it.
    pub leader: Option<u32>,
    /// Whether leases of an earlier leader last, so that nothing is delivered.
    pub is_handing_over: bool,
    /// Sessions that wait for it.
    pub candidates: u32,
}
