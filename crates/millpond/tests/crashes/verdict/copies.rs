//! What is published to an exchange has a copy in each topic that the exchange leads to, or in none.

use std::collections::HashMap;

use super::Ledger;
use crate::load::copy;

impl Ledger<'_> {
    /// Every copy that is stored is seen by somebody before the end, so those that nobody has seen are not there.
    pub(super) fn judge_copies(&mut self) {
        let routed: HashMap<_, Vec<&str>> =
            self.routed.iter().map(|((space, tag), topics)| ((*space, *tag), topics.split(',').collect())).collect();
        let mut broken = Vec::new();
        for ((space, tag), topics) in &routed {
            let is_known = |topic: &&&str| self.ids.contains_key(&(*space, copy(tag, topic).as_str()));
            let known = topics.iter().filter(is_known).count();
            if known != 0 && known != topics.len() {
                broken.push(format!("{space}: there are {known} copies of {tag}, which leads to {topics:?}"));
            }
            self.verdict.figures.copies += known;
        }
        for (space, of_copy) in self.ids.keys() {
            let Some((tag, topic)) = of_copy.split_once('@') else { continue };
            if !routed.get(&(*space, tag)).is_some_and(|topics| topics.contains(&topic)) {
                broken.push(format!("{space}: a copy of {tag} is in {topic}, where no binding leads"));
            }
        }
        self.verdict.broken.extend(broken);
    }
}
