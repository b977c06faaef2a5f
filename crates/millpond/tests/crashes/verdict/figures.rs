//! How much a run has seen.

use std::fmt;

/// What was seen: a run that saw too little proves nothing.
#[derive(Default, Debug)]
pub struct Figures {
    pub confirmed: usize,
    pub deliveries: usize,
    pub repeated: usize,
    pub ended: usize,
    pub given_back: usize,
    pub unanswered: usize,
    pub letters: usize,
    /// Changes of when a delayed message comes, or whether, that were confirmed.
    pub put_off: usize,
    pub copies: usize,
    pub put_back: usize,
    pub expired: usize,
    pub retained_out: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { confirmed, deliveries, repeated, ended, given_back, unanswered, letters, .. } = self;
        let Figures { put_off, copies, put_back, expired, retained_out, .. } = self;
        write!(
            f,
            "{confirmed} publishes confirmed, {deliveries} deliveries ({repeated} repeated), {ended} ends confirmed, \
             {given_back} of them given back, {unanswered} ends asked for and never answered, {letters} dead letters, {expired} of them expired and \
             {put_back} more put back to work, {retained_out} retained out, {put_off} delays changed, {copies} copies of exchanges"
        )
    }
}

impl Figures {
    /// What there was too little of, in words. A broker that is killed so often has worked in between, if ever so slowly; and
    /// of what is drawn for each delivery there is a tenth at least of what is to be expected.
    pub fn lacks(&self, kills: u32) -> Vec<String> {
        let kills = kills as usize;
        // A run of some length has some of each.
        let of_deliveries = |one_in: usize| (self.deliveries / one_in).max(usize::from(kills >= 10));
        let least = [
            ("publishes confirmed", self.confirmed, kills),
            ("deliveries", self.deliveries, kills),
            ("ends confirmed", self.ended, kills),
            ("given back", self.given_back, of_deliveries(150)),
            ("repeated", self.repeated, of_deliveries(150)),
            ("dead letters", self.letters, of_deliveries(600)),
            ("delays changed", self.put_off, usize::from(kills >= 10)),
            ("copies", self.copies, usize::from(kills >= 10)),
            ("put back to work", self.put_back, usize::from(kills >= 50)),
            ("retained out", self.retained_out, usize::from(kills >= 50)),
            ("expired", self.expired, usize::from(kills >= 10)),
            // Of most kills there are some.
            ("ends without an answer", self.unanswered, kills / 10),
        ];
        let lacking = least.into_iter().filter(|(_, seen, least)| seen < least);
        lacking.map(|(what, seen, least)| format!("{what}: {seen}, and at least {least} are certain")).collect()
    }
}
