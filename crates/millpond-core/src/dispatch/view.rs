//! Stepping through the topics of a domain that are offered at a priority, in the order of names.
//!
//! A step is answered with the next topic, with none, or with what has to be read first: a topic in memory counts as the
//! next only if no other one may stand before it on the shelf of the store.

use alloc::vec::Vec;
use core::cmp::Ordering;

use millpond_types::{Priority, TopicName};

use crate::dispatch::domain::{Cursor, Domain};
use crate::dispatch::reach::{Reach, Unknown};
use crate::dispatch::stretches::Span;
use crate::fact::GroupNumber;
use crate::state::order::{ANY, offer};
use crate::state::topics::Edge;
use crate::state::{State, TopicSlot};
use crate::store::Name;

/// Where to look for the next topic.
#[derive(Clone, Copy)]
pub(crate) enum From<'a> {
    Start,
    Behind(&'a Cursor),
    BehindTopic(TopicSlot),
    /// Before all topics of a tenant.
    Tenant(&'a [u8]),
    TenantEnd(&'a Cursor),
}

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) reach: &'a Reach,
    pub(crate) group: GroupNumber,
    pub(crate) domain: &'a Domain,
    pub(crate) priority: Priority,
}

impl<'a> View<'a> {
    /// The same at another priority.
    pub(crate) fn at(self, priority: Priority) -> View<'a> {
        View { priority, ..self }
    }

    /// The first topic from a place on.
    pub(crate) fn next(&self, from: From<'_>) -> Result<Option<TopicSlot>, Unknown> {
        let found = self.next_in_memory(from);
        self.check_known(from, || found.map(|slot| Edge::Before(self.name(slot).as_bytes())))?;
        Ok(found)
    }

    /// The first of all.
    pub(crate) fn first(&self) -> Result<Option<TopicSlot>, Unknown> {
        self.next(From::Start)
    }

    /// Of the first tenant from a place on that has a topic, the first one in memory. Whether others come before it is not
    /// told: to find out the tenant, none of what it has on the shelf need be known.
    pub(crate) fn first_tenant(&self, from: From<'_>) -> Result<Option<TopicSlot>, Unknown> {
        let found = self.next_in_memory(from);
        self.check_tenants(from, found)?;
        Ok(found)
    }

    /// What the tenant of a cursor goes on with, and what the tenants behind it begin with, each as far as it is in memory.
    pub(crate) fn around(&self, cursor: &Cursor) -> (Option<TopicSlot>, Option<TopicSlot>) {
        if matches!(self.domain, Domain::All) && self.state.sweeps.is_empty() && cursor.is_there(self.state) {
            return self.state.topics.order.around(cursor.slot, offer(Some(self.priority)));
        }
        (self.next_of_tenant_in_memory(cursor), self.next_in_memory(From::TenantEnd(cursor)))
    }

    /// Whether it is known that no tenant comes before the one that was found from a place on.
    pub(crate) fn check_tenants(&self, from: From<'_>, found: Option<TopicSlot>) -> Result<(), Unknown> {
        let known = self.check_known(from, || found.map(|slot| Edge::Before(self.name(slot).tenant())));
        known.map_err(|unknown| Unknown { is_tenant: !matches!(self.domain, Domain::List(_)), ..unknown })
    }

    /// The first topic of a tenant, of which the first one in memory is given.
    pub(crate) fn first_of_tenant(&self, first: TopicSlot) -> Result<TopicSlot, Unknown> {
        if self.is_all_known() {
            // As most often: then its name, which may be far off, is not looked at.
            return Ok(first);
        }
        let name = self.name(first);
        self.check_tenant(From::Tenant(name.tenant()), name, || Edge::Before(name.as_bytes()))?;
        Ok(first)
    }

    /// The first topic of a tenant behind a cursor of it. The first one of the tenant in memory is given.
    pub(crate) fn next_of_tenant(&self, cursor: &Cursor, first: TopicSlot) -> Result<Option<TopicSlot>, Unknown> {
        let is_behind = Name::compare(self.name(first).as_bytes(), cursor.name.as_bytes()).is_gt();
        let found = if is_behind { Some(first) } else { self.next_of_tenant_in_memory(cursor) };
        let until =
            || found.map_or(Edge::TenantEnd(cursor.name.tenant()), |slot| Edge::Before(self.name(slot).as_bytes()));
        self.check_tenant(From::Behind(cursor), &cursor.name, until)?;
        Ok(found)
    }

    /// Whether it is known that a tenant has nothing behind a cursor of it where nothing is in memory. If something is, others
    /// may come before that.
    pub(crate) fn check_more(&self, cursor: &Cursor, found: Option<TopicSlot>) -> Result<(), Unknown> {
        if found.is_some() {
            return Ok(());
        }
        self.check_tenant(From::Behind(cursor), &cursor.name, || Edge::TenantEnd(cursor.name.tenant()))
    }

    /// Whether it is known what a tenant goes on with behind a cursor of it, and whether it has more than that.
    pub(crate) fn two_behind(&self, cursor: &Cursor) -> Result<(), Unknown> {
        let next = self.next_of_tenant_in_memory(cursor);
        let until =
            || next.map_or(Edge::TenantEnd(cursor.name.tenant()), |slot| Edge::Before(self.name(slot).as_bytes()));
        self.check_tenant(From::Behind(cursor), &cursor.name, until)?;
        let Some(slot) = next else { return Ok(()) };
        let cursor = Cursor::at(slot, self.state);
        self.check_more(&cursor, self.next_of_tenant_in_memory(&cursor))
    }

    /// Whether a topic is the only one. Where another one is in memory, nothing else need be known.
    pub(crate) fn is_only(&self, slot: TopicSlot) -> Result<bool, Unknown> {
        if self.next_in_memory(From::BehindTopic(slot)).is_some() || self.next_in_memory(From::Start) != Some(slot) {
            return Ok(false);
        }
        self.check_known(From::BehindTopic(slot), || None)?;
        self.check_known(From::Start, || Some(Edge::Before(self.name(slot).as_bytes())))?;
        Ok(true)
    }

    /// A topic, if it is still there and offered.
    pub(crate) fn again(&self, cursor: &Cursor) -> Result<Option<TopicSlot>, Unknown> {
        let topics = &self.state.topics;
        let found = match cursor.is_there(self.state) {
            true => Some(cursor.slot),
            false => topics.find(self.group, &cursor.name).filter(|slot| topics[*slot].number == cursor.number),
        };
        let point = || self.reach.first_unknown(self.group, self.priority, &Span::of(&cursor.name));
        match found {
            None => point().map_or(Ok(None), |span| Err(Unknown::from(span))),
            Some(slot) => Ok(found.filter(|_| topics[slot].offered == Some(self.priority))),
        }
    }

    /// Whether a topic that was served is still in memory and offered, for sure.
    pub(crate) fn offers(&self, cursor: &Cursor) -> bool {
        // A sweep tells topics of a pause.
        self.state.sweeps.is_empty()
            && cursor.is_there(self.state)
            && self.state.topics[cursor.slot].offered == Some(self.priority)
    }

    pub(crate) fn tenant(&self, slot: TopicSlot) -> u64 {
        self.state.topics[slot].hashes.tenant
    }

    /// Topics in memory behind one that was served, whatever they offer.
    pub(crate) fn behind(&self, cursor: &Cursor) -> impl Iterator<Item = TopicSlot> {
        let order = &self.state.topics.order;
        // Of a list, neighbours are no guess at what comes next.
        let is_guess = cursor.is_there(self.state) && !matches!(self.domain, Domain::List(_));
        let first = is_guess.then_some(cursor.slot);
        core::iter::successors(first, |slot| order.next_after(*slot, ANY)).skip(1)
    }

    /// What to read on with while a topic is served, so that nobody has to wait for it.
    pub(crate) fn ahead(&self, slot: TopicSlot) -> Option<Span> {
        let name = &self.state.topics[slot].name;
        let mut span = self.first_unknown(self.reach.read_on(self.group, self.priority, name)?, None)?;
        let end = Name::tenant_end(name.tenant());
        // What the next tenants begin with is read when it is looked for who they are.
        if span.from < end {
            span.until = span.until.min(end);
        }
        Some(span)
    }

    fn next_of_tenant_in_memory(&self, cursor: &Cursor) -> Option<TopicSlot> {
        if matches!(self.domain, Domain::All) && self.state.sweeps.is_empty() && cursor.is_there(self.state) {
            return self.state.topics.order.next_of_tenant(cursor.slot, offer(Some(self.priority)));
        }
        self.next_in_memory(From::Behind(cursor)).filter(|slot| self.tenant(*slot) == cursor.tenant)
    }

    fn next_in_memory(&self, from: From<'_>) -> Option<TopicSlot> {
        let mut found = self.step(from)?;
        // A sweep tells the topics of a pause by prefix of it. Until it has been there, they are passed over.
        while !self.state.sweeps.is_empty()
            && let Some(prefix) = self.state.pauses(self.group).covering(self.name(found).as_bytes())
        {
            found = self.within(self.seek(Edge::PrefixEnd(prefix))?)?;
        }
        Some(found)
    }

    fn step(&self, from: From<'_>) -> Option<TopicSlot> {
        let (order, wanted) = (&self.state.topics.order, offer(Some(self.priority)));
        if !matches!(self.domain, Domain::List(_)) {
            // From a topic in memory it is a step or two, and no walk down from the root.
            let place = match from {
                From::BehindTopic(slot) => Some(order.position(slot).behind()),
                From::Behind(last) if last.is_there(self.state) => Some(order.position(last.slot).behind()),
                From::TenantEnd(last) if last.is_there(self.state) => Some(order.tenant_end(last.slot)?),
                _ => None,
            };
            if let Some(place) = place {
                return self.within(order.next(place, wanted)?);
            }
        }
        if matches!((from, self.domain), (From::Start, Domain::All)) {
            return order.first(self.group, wanted);
        }
        self.within(self.seek(self.edge(from))?)
    }

    fn edge<'b>(&'b self, from: From<'b>) -> Edge<'b> {
        match (from, self.domain) {
            (From::Start, Domain::Prefixes(prefixes)) => Edge::Before(prefixes[0].as_bytes()),
            (From::Start, _) => Edge::Before(b""),
            (From::Behind(last), _) => Edge::Behind(last.name.as_bytes()),
            (From::BehindTopic(slot), _) => Edge::Behind(self.name(slot).as_bytes()),
            (From::Tenant(tenant), _) => Edge::Before(tenant),
            (From::TenantEnd(last), _) => Edge::TenantEnd(last.name.tenant()),
        }
    }

    /// The first topic in memory from an edge on. It may lie between the ranges of the domain.
    fn seek(&self, edge: Edge<'_>) -> Option<TopicSlot> {
        let topics = &self.state.topics;
        if let Domain::List(list) = self.domain {
            let name = list.next(edge, self.priority)?;
            return Some(topics.find(self.group, name).expect("only topics in memory are offered"));
        }
        topics.order.next(topics.seek(self.group, edge)?, offer(Some(self.priority)))
    }

    /// The first topic in the domain, from one on that may not be.
    fn within(&self, mut slot: TopicSlot) -> Option<TopicSlot> {
        let Domain::Prefixes(prefixes) = self.domain else { return Some(slot) };
        loop {
            let name = self.name(slot).as_bytes();
            let begins = |prefix: &TopicName| name.starts_with(prefix.as_bytes());
            let is_over =
                |prefix: &TopicName| !begins(prefix) && Name::compare(prefix.as_bytes(), name) == Ordering::Less;
            let prefix = prefixes.get(prefixes.partition_point(is_over))?;
            if begins(prefix) {
                return Some(slot);
            }
            slot = self.seek(Edge::Before(prefix.as_bytes()))?;
        }
    }

    /// Whether all that is offered at the priority is in memory.
    fn is_all_known(&self) -> bool {
        self.reach.is_all(self.group, self.priority)
    }

    /// Whether all that may stand between a place and an edge behind it is known. Where all is, nobody asks for the edge.
    fn check_known<'b>(&self, from: From<'_>, until: impl FnOnce() -> Option<Edge<'b>>) -> Result<(), Unknown> {
        if self.is_all_known() {
            return Ok(());
        }
        let (from, until) = (self.edge(from), until());
        if let Some(until) = until
            && self.reach.is_known(self.group, self.priority, from, until)
        {
            return Ok(());
        }
        if let Domain::List(list) = self.domain {
            let pauses = self.state.pauses(self.group);
            let spans = list.unseen(from, until, self.priority, |name| pauses.holds(name));
            return if spans.is_empty() { Ok(()) } else { Err(Unknown { spans, is_tenant: false }) };
        }
        self.first_unknown(&from.key(), until.map(Edge::key)).map_or(Ok(()), |span| Err(Unknown::from(span)))
    }

    /// Whether all that may stand between two places of the tenant of a name is known. If not, nothing but what is the
    /// tenant's need be read: what others begin with was served long since, mostly.
    fn check_tenant<'b>(
        &self,
        from: From<'_>,
        name: &TopicName,
        until: impl FnOnce() -> Edge<'b>,
    ) -> Result<(), Unknown> {
        self.check_known(from, || Some(until())).map_err(|mut unknown| {
            let end = Name::tenant_end(name.tenant());
            unknown.spans.iter_mut().filter(|span| span.until > end).for_each(|span| span.until.clone_from(&end));
            unknown
        })
    }

    /// The domain from where it is not known what stands in it, if that is between two keys. What is paused by prefix need
    /// not be known. What is known behind it may be read again: a hole that a topic has left is seldom alone.
    fn first_unknown(&self, from: &[u8], before: Option<Vec<u8>>) -> Option<Span> {
        let pauses = self.state.pauses(self.group);
        for mut span in self.domain.spans(from) {
            while let Some(mut unknown) = self.reach.first_unknown(self.group, self.priority, &span) {
                if before.as_ref().is_some_and(|before| *before <= unknown.from) {
                    return None;
                }
                let paused = pauses.covering(&Name::text(&unknown.from)).map(Name::prefix_end);
                // The end of a prefix begins with it as well.
                let Some(end) = paused.filter(|end| *end > unknown.from) else {
                    unknown.until = span.until;
                    if let Some(next) = pauses.first_behind(&unknown.from) {
                        unknown.until = unknown.until.min(next);
                    }
                    return Some(unknown);
                };
                span.from = end;
                if span.from >= span.until {
                    break;
                }
            }
        }
        None
    }

    fn name(&self, slot: TopicSlot) -> &TopicName {
        &self.state.topics[slot].name
    }
}

impl core::convert::From<Span> for Unknown {
    fn from(span: Span) -> Unknown {
        Unknown { spans: Vec::from([span]), is_tenant: false }
    }
}
