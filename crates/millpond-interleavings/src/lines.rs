//! In the place of the server's: no line of a scenario is worth saying.

pub(crate) fn may_say(_kind: &'static str) -> Option<Option<u64>> {
    None
}
