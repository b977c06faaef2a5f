//! Tokens, counted in whole milliseconds: the rates of the histories have no others.

use millpond_core::fact::GroupNumber;
use millpond_types::{Rate, TopicNumber};

use super::{Model, Place};

/// The tokens of a topic.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tokens {
    /// When all of them are there again.
    pub full: u64,
    /// Until when there is none.
    pub dry: Option<u64>,
    /// Messages that were leased and not counted yet.
    pub leased: u64,
}

impl Model {
    /// Whether a topic has a token, as far as its rate has a limit.
    pub(super) fn has_token(&self, place: &Place) -> bool {
        self.tokens(place) > 0
    }

    pub(super) fn tokens(&self, place: &Place) -> u64 {
        let Some(Rate { period, burst, .. }) = self.policy_of(&place.name).rate else { return u64::MAX };
        let Tokens { leased, .. } = self.topics[place].tokens;
        (u64::from(burst) * period.0 - self.missing(place)) / period.0 - leased
    }

    /// The time until all tokens of a topic are there.
    fn missing(&self, place: &Place) -> u64 {
        let Rate { count, period, burst } = self.policy_of(&place.name).rate.expect("a rate with a limit");
        assert_eq!(count, 1, "a token of a history takes whole milliseconds");
        self.topics[place].tokens.full.saturating_sub(self.run).min(u64::from(burst) * period.0)
    }

    /// What the core says of the tokens of a topic.
    pub fn drawn(&mut self, number: TopicNumber, group: GroupNumber, full: u64, dry: Option<u64>) {
        // What is left of a group that is being deleted goes by its policy until it is gone; here the group is gone.
        let Some(place) = self.place(number, group) else { return };
        let before = self.topics[&place].tokens;
        let after = match self.policy_of(&place.name).rate {
            None => Tokens { full: 0, dry: None, leased: 0 },
            Some(Rate { period, burst, .. }) => {
                let missing = self.missing(&place) + before.leased * period.0;
                let next = self.run + missing - u64::from(burst - 1) * period.0;
                let dry = (self.tokens(&place) == 0).then_some(next);
                Tokens { full: self.run + missing, dry, leased: 0 }
            }
        };
        assert!(before != after, "nothing is told of the tokens of {place} that is not new");
        assert_eq!(full, after.full * 1_000_000, "when all tokens of {place} are there again");
        assert_eq!(dry, after.dry, "until when there is no token for {place}");
        self.topics.get_mut(&place).unwrap().tokens = after;
    }
}
