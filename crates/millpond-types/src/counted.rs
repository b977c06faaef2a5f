//! A number of things as a sentence tells it: `1 message`, `2 messages`.

use core::fmt;

/// So many of what the word names; the word is of one, and takes an s where there are more or none. What stands behind it in
/// the sentence has to fit both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted(pub u64, pub &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, one) = self;
        write!(f, "{count} {one}{}", if *count == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        let said = [0, 1, 2, u64::MAX].map(|count| Counted(count, "dead letter").to_string());
        assert_eq!(said, ["0 dead letters", "1 dead letter", "2 dead letters", "18446744073709551615 dead letters"]);
    }
}
