//! Who goes first: nothing that stands higher is passed over, and nobody waits for more than a turn of each of the others.
//! What stands where follows from priorities and, with ageing, from how long it has waited: so nothing waits for ever.
//!
//! Left out are lists of topics, whose turns are forgotten where there are many, and what the core was made to forget.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_core::output::LeasedRun;
use millpond_types::{Dispatch, Filter, LeaseNumber, Priority, TopicName, TopicNumber, WallTime};

use super::Kept;
use super::seats::Seat;
use crate::model::{Model, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Turns {
    /// What was leased in this turn, and what was ready then.
    leased: BTreeMap<(TopicKey, LeaseNumber), Leased>,
    /// Per scope, level and waiting one, what others were given since it began to wait.
    waits: BTreeMap<(Scope, Priority, Waiting), BTreeMap<Waiting, u32>>,
}

struct Leased {
    order: usize,
    name: TopicName,
    /// The level at which its topic stood; `None` if only the core can tell.
    stand: Option<Priority>,
    ready: Vec<(TopicName, Priority)>,
    /// By the policy in force then.
    is_fair: bool,
    leases_runs: bool,
    /// Messages of a turn.
    most: u32,
    /// Whether the policies have not changed since.
    counts: bool,
}

/// Consumers that share one set of turns: those of a group that ask for all topics, or by the same prefixes, of which none
/// begins with another.
type Scope = (GroupNumber, BTreeSet<TopicName>);

/// One that takes turns with its like: a tenant with tenants, a topic with those of its tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Waiting {
    Tenant(Vec<u8>),
    Topic(TopicName),
}

impl Leased {
    /// Who had a turn.
    fn served(&self) -> [Waiting; 2] {
        [Waiting::Tenant(self.name.tenant().to_vec()), Waiting::Topic(self.name.clone())]
    }
}

impl Turns {
    /// The policies of a namespace are others, or were others for a moment: turns may begin anew, and a turn that was cut
    /// short may have been longer. So what was counted before is not held against what is served from here on.
    pub fn changed(&mut self, model: &Model, namespace: NamespaceNumber) {
        let is_of = |group: &GroupNumber| model.groups.get(group).is_some_and(|of| of.namespace == namespace);
        self.waits.retain(|((group, _), ..), _| !is_of(group));
        self.leased
            .iter_mut()
            .filter(|(((group, _), _), _)| is_of(group))
            .for_each(|(_, leased)| leased.counts = false);
    }

    /// Messages are about to be leased.
    pub fn leased(&mut self, model: &Model, fact: &Fact, now: WallTime) {
        let Fact::Leased { topic, group, lease, .. } = fact else { unreachable!("called for this fact alone") };
        let (name, ready) = (model.topics[&(*group, *topic)].name.clone(), model.ready_of(*group, now));
        let stand = ready.iter().find(|(of, _)| *of == name).map(|(_, stand)| *stand);
        let home = model.home(*group);
        let policy = home.policy_of(&name);
        let (is_fair, leases_runs) = (home.policy.dispatch == Dispatch::Fair, policy.leases_runs());
        let (order, most, counts) = (self.leased.len(), policy.weight.max(policy.run), true);
        let leased = Leased { order, name, stand, ready, is_fair, leases_runs, most, counts };
        self.leased.insert(((*group, *topic), *lease), leased);
    }

    /// The turn is over, and it is known who was given what. After `is_numb`, nobody knew what there was.
    pub fn dispatched(
        &mut self,
        given: &[(Seat, &LeasedRun)],
        model: &Model,
        now: WallTime,
        is_numb: bool,
        sights: &mut Sights,
    ) -> Kept {
        let mut leased = std::mem::take(&mut self.leased);
        if is_numb {
            self.waits.clear();
            return Ok(());
        }
        let key = |run: &LeasedRun| ((run.receipt.group, run.receipt.topic), run.receipt.lease);
        let found = given.iter().filter_map(|(seat, run)| Some((seat, *run, leased.remove(&key(run))?)));
        let mut found: Vec<(&Seat, &LeasedRun, Leased)> = found.collect();
        found.sort_by_key(|(.., leased)| leased.order);
        let mut before: Option<(GroupNumber, TopicNumber)> = None;
        for (seat, run, leased) in found {
            let is_fair = leased.is_fair;
            self.wait_still(seat.group, &leased.ready, is_fair);
            // What comes behind in a run goes with its first message.
            let at = (run.receipt.group, run.receipt.topic);
            let goes_on = before.replace(at) == Some(at) && leased.leases_runs;
            let Some(stand) = leased.stand.filter(|_| !goes_on) else {
                let served = leased.served();
                self.waits.retain(|((group, _), _, waiting), _| *group != seat.group || !served.contains(waiting));
                continue;
            };
            priority(seat, &leased, stand)?;
            let others = leased.ready.iter().filter(|(name, _)| seat.filter.admits(name)).count();
            sights.saw_many("picked among several", u64::from(others > 1));
            sights.saw_many("raised by its age", u64::from(stand > run.priority));
            if let Some(scope) = scope(seat).filter(|_| leased.counts) {
                self.count(&scope, &leased, (stand, run.count), sights)?;
            }
        }
        let groups: BTreeSet<GroupNumber> = self.waits.keys().map(|((group, _), ..)| *group).collect();
        for group in groups {
            let is_there = model.groups.contains_key(&group);
            let ready = if is_there { model.ready_of(group, now) } else { Vec::new() };
            self.wait_still(group, &ready, is_there && model.home(group).policy.dispatch == Dispatch::Fair);
        }
        Ok(())
    }

    /// Of those who waited in any scope of a group, these still do. The others begin anew when they come again.
    fn wait_still(&mut self, group: GroupNumber, ready: &[(TopicName, Priority)], is_fair: bool) {
        let mut known: Option<(Scope, BTreeSet<(Priority, Waiting)>)> = None;
        self.waits.retain(|(scope, level, waiting), _| {
            if scope.0 != group {
                return true;
            }
            let (_, still) = match known.take() {
                Some(known_of) if known_of.0 == *scope => known.insert(known_of),
                _ => known.insert((scope.clone(), waiting_in(scope, ready, is_fair))),
            };
            still.contains(&(*level, waiting.clone()))
        });
    }

    /// Counts a turn of those who were served for all who wait.
    fn count(&mut self, scope: &Scope, leased: &Leased, (stand, count): (Priority, u32), sights: &mut Sights) -> Kept {
        let (is_fair, most) = (leased.is_fair, leased.most);
        let ready = waiting_in(scope, &leased.ready, is_fair);
        let served = leased.served();
        for (level, waiting) in ready {
            let tenant_level = if is_fair { Priority::HIGHEST } else { stand };
            let rival = match &waiting {
                Waiting::Tenant(_) if level == tenant_level => &served[0],
                Waiting::Topic(name) if level == stand && name.tenant() == leased.name.tenant() => &served[1],
                _ => continue,
            };
            let turns = self.waits.entry((scope.clone(), level, waiting.clone())).or_default();
            if served.contains(&waiting) {
                turns.clear();
                continue;
            }
            let turn = turns.entry(rival.clone()).or_default();
            *turn += count;
            sights.saw("turns that somebody waited for");
            sights.saw_many("turns among prefixes that somebody waited for", u64::from(!scope.1.is_empty()));
            if *turn > most {
                let what =
                    format!("{rival:?} has {turn} messages, {most} are a turn, while {waiting:?} waits at {level:?}");
                return Err(Violation::fairness(what));
            }
        }
        Ok(())
    }
}

/// Nothing that the consumer asks for stands higher; with fair dispatch, nothing of the same tenant.
fn priority(seat: &Seat, leased: &Leased, stand: Priority) -> Kept {
    let goes_before = |name: &TopicName| !leased.is_fair || name.tenant() == leased.name.tenant();
    let mut others = leased.ready.iter().filter(|(name, _)| seat.filter.admits(name) && goes_before(name));
    match others.find(|(_, other)| *other > stand) {
        None => Ok(()),
        Some((other, at)) => {
            let what = format!("{other} stands at {at:?}, and {} goes at {stand:?}", leased.name);
            Err(Violation::priority(what))
        }
    }
}

/// The scope of a consumer.
fn scope(seat: &Seat) -> Option<Scope> {
    match &seat.filter {
        Filter::All => Some((seat.group, BTreeSet::new())),
        Filter::Prefixes(prefixes) => {
            let is_covered = |name: &TopicName| {
                prefixes.iter().any(|other| other != name && name.as_bytes().starts_with(other.as_bytes()))
            };
            Some((seat.group, prefixes.iter().filter(|name| !is_covered(name)).cloned().collect()))
        }
        Filter::Topics(_) => None,
    }
}

/// The tenants and topics of a scope that could deliver, each with the level at which it waits.
fn waiting_in(scope: &Scope, ready: &[(TopicName, Priority)], is_fair: bool) -> BTreeSet<(Priority, Waiting)> {
    let admits = |name: &TopicName| {
        scope.1.is_empty() || scope.1.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
    };
    let ready = ready.iter().filter(|(name, _)| admits(name));
    ready
        .flat_map(|(name, level)| {
            let tenants_wait_at = if is_fair { Priority::HIGHEST } else { *level };
            [(*level, Waiting::Topic(name.clone())), (tenants_wait_at, Waiting::Tenant(name.tenant().to_vec()))]
        })
        .collect()
}
