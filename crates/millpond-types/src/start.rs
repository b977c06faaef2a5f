//! Where a group begins.

use crate::time::WallTime;

/// What a new group is given of what was published before it was made. It has all that comes later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// All that the other groups still hold.
    Earliest,
    /// Nothing.
    #[default]
    Latest,
    /// Of what the other groups still hold, that which was published then or later.
    At(WallTime),
}

impl Start {
    /// Whether a message that was published at this time, before the group was made, is among what it is given.
    pub fn admits(self, published: WallTime) -> bool {
        match self {
            Start::Earliest => true,
            Start::Latest => false,
            Start::At(time) => published >= time,
        }
    }
}
