//! Quotas of connections: no more use a namespace than its quota lets, and who is refused for one is refused rightly. A connection
//! uses a namespace from the first publish, forward, receive or attach that the broker lets in until it is gone.
//!
//! When that is, the broker's end knows. From outside there are bounds: not before its client has asked, and no later than the core
//! is asked. Between them a quota may have been another one, so the widest counts, and for refusals the narrowest. A connection that its
//! client has given up may have lost all to the next one of its session, so those count for refusals alone.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::Command;
use millpond_core::output::Notice;
use millpond_types::NamespaceName;

use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Users {
    /// Grows with each look.
    tick: u64,
    namespaces: BTreeMap<NamespaceName, Uses>,
}

/// Who uses a namespace.
#[derive(Default)]
struct Uses {
    /// Its quota, from which look on.
    quotas: Vec<(u64, Option<u64>)>,
    /// When clients asked for it first on their connections, and since when these are gone.
    asked: BTreeMap<u64, (u64, Option<u64>)>,
    /// The connections for which the core was asked.
    seen: BTreeSet<u64>,
    /// Whether it is there, as far as was seen.
    is_there: bool,
    /// Those that asked for it before it was made or deleted last, which are left out from then on: what they had asked may have been on
    /// its way, and then the broker counts them when they ask again, which from outside is not known.
    earlier: BTreeSet<u64>,
}

/// The namespace that whoever asks for this uses.
pub fn used_by(command: &Command) -> Option<&NamespaceName> {
    match command {
        Command::Publish(publish) => Some(&publish.namespace),
        Command::Forward(forward) => Some(&forward.publish.namespace),
        Command::Route(route) => Some(&route.publish.namespace),
        Command::Receive(receive) => Some(&receive.namespace),
        Command::Attach(attach) => Some(&attach.namespace),
        _ => None,
    }
}

impl Users {
    /// Before bytes are carried: what the quotas are, and which connections the broker has.
    pub fn look(&mut self, model: &Model, connections: &BTreeSet<u64>) {
        self.tick += 1;
        for home in model.namespaces.values() {
            let uses = self.namespaces.entry(home.name.clone()).or_default();
            if !std::mem::replace(&mut uses.is_there, true) {
                uses.begin_anew();
            }
            let quota = home.policy.quotas.connections;
            if uses.quotas.last().is_none_or(|(_, last)| *last != quota) {
                uses.quotas.push((self.tick, quota));
            }
        }
        for uses in self.namespaces.values_mut() {
            let gone = uses.asked.iter_mut().filter(|(connection, _)| !connections.contains(connection));
            gone.for_each(|(_, (_, gone))| _ = gone.get_or_insert(self.tick));
        }
    }

    /// What the core has to say: nobody uses what is gone.
    pub fn note(&mut self, notices: &[Notice]) {
        for notice in notices {
            if let Notice::NamespaceGone(name) = notice
                && let Some(uses) = self.namespaces.get_mut(name)
            {
                uses.is_there = false;
                uses.begin_anew();
            }
        }
    }

    /// A client asks for something on its connection.
    pub fn asks(&mut self, connection: u64, command: &Command) {
        if let Some(name) = used_by(command) {
            let uses = self.namespaces.entry(name.clone()).or_default();
            uses.asked.entry(connection).or_insert((self.tick, None));
        }
    }

    /// The core is asked for something; its client still listens to some connections.
    pub fn comes(
        &mut self,
        connection: u64,
        command: &Command,
        heard: &BTreeSet<u64>,
        sights: &mut Sights,
    ) -> Result<(), Violation> {
        let Some(uses) = used_by(command).and_then(|name| self.namespaces.get_mut(name)) else { return Ok(()) };
        uses.seen.retain(|other| heard.contains(other));
        let counts = uses.is_there && heard.contains(&connection) && !uses.earlier.contains(&connection);
        if !counts || !uses.seen.insert(connection) {
            return Ok(());
        }
        let since = uses.seen.iter().filter_map(|other| uses.asked.get(other)).map(|(since, _)| *since).min();
        let quotas: Vec<Option<u64>> = uses.since(since.unwrap_or(0)).collect();
        let count = uses.seen.len() as u64;
        if quotas.iter().all(|quota| quota.is_some_and(|most| count > most)) {
            let what = format!("{count} connections use {:?}, and {quotas:?} may", used_by(command));
            return Err(Violation::room(what));
        }
        sights.saw_many("as many connections as a quota lets", u64::from(quotas.contains(&Some(count))));
        Ok(())
    }

    /// A client hears on its connection that too many use a namespace.
    pub fn refused(&self, connection: u64, name: &NamespaceName, sights: &mut Sights) -> Result<(), Violation> {
        let uses = &self.namespaces[name];
        let (since, _) = uses.asked[&connection];
        let others =
            uses.asked.iter().filter(|(other, (_, gone))| **other != connection && gone.is_none_or(|at| at >= since));
        let (others, least) = (others.count() as u64, uses.since(since).flatten().min());
        sights.saw("refused by a quota of connections");
        if least.is_none_or(|least| others < least) {
            let what = format!("{others} others use {name}, and another one is refused, where {least:?} may");
            return Err(Violation::refusals(what));
        }
        Ok(())
    }
}

impl Uses {
    /// Nobody uses it.
    fn begin_anew(&mut self) {
        self.seen.clear();
        self.earlier.extend(self.asked.keys());
    }

    /// The quotas that there were since a look.
    fn since(&self, tick: u64) -> impl Iterator<Item = Option<u64>> {
        let from = self.quotas.partition_point(|(at, _)| *at <= tick).saturating_sub(1);
        self.quotas[from..].iter().map(|(_, quota)| *quota)
    }
}
