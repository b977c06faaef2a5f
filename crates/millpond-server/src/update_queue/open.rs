//! Which lanes of a queue are taken from.

/// Lanes that a queue may have: as many as there are bits in [`Open`].
pub(super) const LANES_MAX: usize = u32::BITS as usize;

/// The lanes that are taken from. What is in others waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open(u32);

impl Open {
    /// All of them.
    pub const ALL: Open = Open(u32::MAX);

    /// The same, but for one.
    #[must_use = "the others are what is returned"]
    pub const fn without(self, lane: usize) -> Open {
        assert!(lane < LANES_MAX, "no queue has so many lanes");
        Open(self.0 & !(1 << lane))
    }

    /// Whether one is among them.
    pub const fn has(self, lane: usize) -> bool {
        lane < LANES_MAX && self.0 & 1 << lane != 0
    }
}
