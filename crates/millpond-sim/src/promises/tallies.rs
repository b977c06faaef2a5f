//! What is counted: how many messages of a group are in each state, what has become of those that came to it, and what its
//! namespace holds of its quotas; as the core has it at the end of each turn, and as it is told.

use std::collections::BTreeMap;

use millpond_core::Core;
use millpond_types::{GroupName, NamespaceView, Usage};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Looks at all namespaces at the end of turns.
#[derive(Default)]
pub struct Tallies {
    /// Whether no turn has ended since the broker went.
    is_anew: bool,
    /// How many facts there were when it was looked last.
    followed: u64,
}

impl Tallies {
    /// The broker has gone.
    pub fn go_back(&mut self) {
        self.is_anew = true;
    }

    /// A turn is over.
    pub fn rests(&mut self, core: &Core, model: &Model, sights: &mut Sights) -> Kept {
        let is_anew = std::mem::take(&mut self.is_anew);
        if !is_anew && std::mem::replace(&mut self.followed, model.followed) == model.followed {
            return Ok(());
        }
        for view in core.namespaces_now() {
            compare(&view, model)?;
            let accepted = view.groups.iter().any(|group| group.tally.accepted > 0);
            sights.saw_many("tallies that a start has found", u64::from(is_anew && accepted));
        }
        Ok(())
    }
}

/// A namespace was shown, as it is now.
pub fn shown(views: &[NamespaceView], model: &Model, sights: &mut Sights) -> Kept {
    for view in views {
        compare(view, model)?;
        for group in &view.groups {
            let (counts, tally) = (group.counts, group.tally);
            let told = [
                ("waiting ones told", counts.waiting),
                ("delayed ones told", counts.delayed),
                ("retrying ones told", counts.retrying),
                ("leased ones told", counts.leased),
                ("dead ones told", counts.dead),
                ("accepted ones told", tally.accepted),
                ("declined ones told", tally.declined),
                ("superseded ones told", tally.superseded),
                ("dropped ones told", tally.dropped),
                ("retained out ones told", tally.retained_out),
            ];
            told.into_iter().for_each(|(what, count)| sights.saw_many(what, count));
        }
    }
    Ok(())
}

fn compare(view: &NamespaceView, model: &Model) -> Kept {
    let Some(namespace) = model.namespace(&view.name) else {
        return Err(Violation::tallies(format!("there is no namespace {}, and it is told", view.name)));
    };
    let of = |group| (&model.groups[&group].name, (model.counts(group), model.groups[&group].tally));
    let known: BTreeMap<&GroupName, _> = model.groups_of(namespace).map(of).collect();
    let told: BTreeMap<&GroupName, _> =
        view.groups.iter().map(|group| (&group.name, (group.counts, group.tally))).collect();
    if told != known {
        return Err(Violation::tallies(format!("of namespace {} it is told {told:?}, and it is {known:?}", view.name)));
    }
    let held = model.groups_of(namespace).map(|group| model.usage(group)).fold(Usage::default(), Usage::most);
    if view.usage != held {
        let what = format!("namespace {} is told to hold {:?}, and holds {held:?}", view.name, view.usage);
        return Err(Violation::tallies(what));
    }
    Ok(())
}
