//! Dead letters: listed, put back to work, thrown away. One by its id is a filter that admits one.
//!
//! Letters are fetched a slice at a time, in the order of the store. Those that are put back to work need their topics,
//! which are loaded for it and stay until the slice has come to them.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use millpond_types::{
    Coalesce, Code, DeadView, GroupName, MessageId, MessageState, MessageView, NamespaceName, TopicName,
};

use super::admitted::Admitted;
use super::{Needs, Step, Task, WRITING, Walk};
use crate::Core;
use crate::command::{DeadWhich, Listing, Ticket};
use crate::decide::Refusal;
use crate::decide::coalesce::Version;
use crate::decide::receive::check_filter;
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber};
use crate::output::{Found, Reply};
use crate::page::{DeadPage, Page};
use crate::state::State;
use crate::store::{Key, KeyBytes, Name, Range, Want};

pub(crate) struct DeadJob {
    verb: DeadVerb,
    /// What is still to be fetched where it is: from a key on and before another.
    span: Option<(KeyBytes, KeyBytes)>,
    /// What is to be fetched then.
    spans: Spans,
    /// What was fetched, in order.
    letters: VecDeque<DeadPage>,
    /// Whether they are the last of a span.
    is_span_over: bool,
    /// Letters it has come to.
    count: u64,
    /// It is over when it has come to so many.
    most: u64,
    /// The one that it is about, if it is about one.
    one: Option<(TopicName, MessageId)>,
}

/// Where the letters of the topics stand that are admitted, in order.
struct Spans {
    namespace: NamespaceNumber,
    group: GroupNumber,
    admitted: Admitted,
}

/// What becomes of the letters.
pub(crate) enum DeadVerb {
    /// They are listed, at most so many of them, and no more than fit a frame.
    List { limit: usize, rows: Vec<Found<DeadView>>, bytes: usize },
    /// They are put back to work.
    Redrive,
    /// They are thrown away.
    Purge,
}

impl DeadJob {
    fn new(verb: DeadVerb, mut spans: Spans) -> DeadJob {
        let (span, letters) = (spans.next(), VecDeque::new());
        DeadJob { verb, span, spans, letters, is_span_over: false, count: 0, most: u64::MAX, one: None }
    }

    /// Throws away all letters of a group.
    pub(super) fn purge_all(namespace: NamespaceNumber, group: GroupNumber) -> DeadJob {
        DeadJob::new(DeadVerb::Purge, Spans { namespace, group, admitted: Admitted::All })
    }

    /// Bytes of the topics and prefixes that it was asked for by.
    pub(super) fn filter_bytes(&self) -> usize {
        self.spans.admitted.bytes()
    }

    /// Whether it may change more than one letter.
    pub(super) fn writes_many(&self) -> bool {
        self.one.is_none() && !matches!(self.verb, DeadVerb::List { .. })
    }

    /// Takes letters that were fetched of what comes next.
    pub(super) fn take(&mut self, entries: Vec<(KeyBytes, Page)>, rest: Option<KeyBytes>, state: &mut State) {
        match rest {
            Some(rest) => self.span.as_mut().expect("it was asked for").0 = rest,
            None => (self.span, self.is_span_over) = (self.spans.next(), true),
        }
        let letters = entries.into_iter().map(|(_, page)| match page {
            Page::Dead(page) => page,
            page => panic!("among dead letters there is nothing else: {page:?}"),
        });
        self.letters.extend(letters.filter_map(|letter| state.letter_by_now(letter)));
    }

    /// A letter is another one now, or gone.
    pub(super) fn letter_changed(&mut self, which: (GroupNumber, MessageId), page: Option<&DeadPage>) {
        // Letters of one message in several groups have one id.
        let is_it = |letter: &DeadPage| (letter.group, letter.id) == which;
        match page {
            Some(page) => {
                self.letters.iter_mut().filter(|letter| is_it(letter)).for_each(|letter| *letter = page.clone())
            }
            None => self.letters.retain(|letter| !is_it(letter)),
        }
    }

    pub(super) fn so_far(&mut self) -> Reply {
        match &mut self.verb {
            DeadVerb::List { rows, .. } => Reply::Dead { rows: core::mem::take(rows), next: Vec::new() },
            DeadVerb::Redrive | DeadVerb::Purge => Reply::Count(self.count),
        }
    }
}

impl Core {
    pub(crate) fn dead_list(
        &mut self,
        ticket: Ticket,
        listing: &Listing,
        group: &GroupName,
        log: &mut dyn FactLog,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&listing.namespace)?;
        let group = self.group_of(namespace, group)?;
        let (mut from, until) = span_of_prefix(namespace, group, &listing.prefix);
        if !listing.after.is_empty() {
            let (topic, id) = place_in_list(&listing.after).ok_or_else(bad_place)?;
            let after = Key::Dead { namespace, group, topic, id }.bytes();
            from = from.max([&after[..], &[0]].concat());
        }
        let limit = (listing.limit as usize).clamp(1, PAGE_MAX);
        let none = Spans { namespace, group, admitted: Admitted::default() };
        let span = (from < until).then_some((from, until));
        let job = DeadJob { span, ..DeadJob::new(DeadVerb::list(limit), none) };
        self.begin(ticket, group, (Walk::default(), Task::Dead(job)), log)
    }

    /// Does something with one dead letter, or with those of a filter.
    pub(crate) fn dead_verb(
        &mut self,
        ticket: Ticket,
        namespace: &NamespaceName,
        group: &GroupName,
        which: DeadWhich,
        verb: DeadVerb,
        log: &mut dyn FactLog,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let group = self.group_of(namespace, group)?;
        let spans = |admitted| Spans { namespace, group, admitted };
        let of_filter = |filter| check_filter(&filter).map(|()| spans(Admitted::of(filter)));
        let job = match which {
            DeadWhich::One(topic, id) => {
                let topic = topic.detach();
                let from = Key::Dead { namespace, group, topic: topic.clone(), id }.bytes();
                let until = [&from[..], &[0]].concat();
                let (span, one) = (Some((from, until)), Some((topic, id)));
                DeadJob { span, one, ..DeadJob::new(verb, spans(Admitted::default())) }
            }
            DeadWhich::Filter(filter) => DeadJob::new(verb, of_filter(filter)?),
            DeadWhich::First(_, 0) => {
                let detail = "the first of no dead letters: name at least one, or leave the number out for all";
                return Err((Code::ArgumentInvalid, detail.into()));
            }
            DeadWhich::First(filter, most) => DeadJob { most: most.into(), ..DeadJob::new(verb, of_filter(filter)?) },
        };
        self.begin(ticket, group, (Walk::default(), Task::Dead(job)), log)
    }

    pub(super) fn dead_step(
        &mut self,
        job: &mut DeadJob,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        while *left > 0 {
            if job.count == job.most {
                return Step::Done(job.answer());
            }
            let Some(letter) = job.letters.front() else {
                core::mem::take(needs).clear(&mut self.state.fetched);
                // One without letters costs something as well. In how many reads it came costs nothing: a stretch of which very
                // many are gone takes more of them before a checkpoint than behind it.
                if core::mem::take(&mut job.is_span_over) {
                    *left -= 1;
                    continue;
                }
                let has_letters = self.state.groups[group].counts.dead > 0;
                let Some((from, until)) = job.span.clone().filter(|_| has_letters) else {
                    return Step::Done(job.answer());
                };
                let limit = job.letters_for(*left);
                return Step::Waits(Vec::from([Want::Range(Range { from, until, limit })]));
            };
            match &mut job.verb {
                DeadVerb::List { limit, rows, bytes } => {
                    let found = view(letter);
                    *bytes += found.row.frame_bytes() + found.extent.length as usize;
                    if rows.len() == *limit || *bytes > PAGE_BYTES_MAX {
                        let last = &rows.last().expect("one row fits a page").row;
                        let next = format!("{}/{}", last.message.id, last.topic).into_bytes();
                        return Step::Done(Ok(Reply::Dead { rows: core::mem::take(rows), next }));
                    }
                    rows.push(found);
                }
                DeadVerb::Redrive if !self.has_all_for(letter, needs) => {
                    return Step::Waits(self.need(&job.letters, needs));
                }
                DeadVerb::Redrive => self.redrive(letter, log),
                DeadVerb::Purge => self.commit(Fact::DeadPurged { letter: letter.letter() }, log),
            }
            let letter = job.letters.pop_front().expect("it was looked at above");
            needs.topics.remove(&letter.topic);
            job.count += 1;
            *left = left.saturating_sub(job.verb.cost());
            if !matches!(job.verb, DeadVerb::List { .. }) {
                self.jobs.letter_changed((letter.group, letter.id), None);
            }
        }
        Step::Later
    }

    /// Whether all is at hand that a letter goes back to work with. A topic that was waited for has come, or is not there.
    fn has_all_for(&mut self, letter: &DeadPage, needs: &Needs) -> bool {
        let has_topic =
            needs.topics.contains(&letter.topic) || self.look_up(letter.namespace, &letter.topic).is_empty();
        has_topic && self.bring_held_of(letter).is_ok() && self.bring_waiting_of(letter).is_ok()
    }

    /// What has to be fetched for the letters that come next: for the first of them at least, whose needs are not met.
    fn need(&mut self, letters: &VecDeque<DeadPage>, needs: &mut Needs) -> Vec<Want> {
        let mut wants = Vec::new();
        // Those that were waited for before are come to, or gone.
        needs.topics.clear();
        for letter in letters {
            if needs.topics.insert(letter.topic.clone()) {
                wants.extend(self.look_up(letter.namespace, &letter.topic).into_iter().map(Want::Entry));
                wants.extend(self.bring_waiting_of(letter).err());
                wants.extend(self.bring_held_of(letter).err());
            }
            if let Err(Want::Entry(key)) = self.bring_dedup_of(letter) {
                needs.entries.insert(key.clone());
                wants.push(Want::Entry(key));
            }
            if needs.topics.len() >= self.jobs.held_by_each() {
                break;
            }
        }
        wants
    }

    /// Brings what the letter may have to give way to, or may replace, once its topic is in memory.
    fn bring_waiting_of(&mut self, letter: &DeadPage) -> Result<(), Want> {
        let Some(slot) = self.state.topics.find(letter.group, &letter.topic) else { return Ok(()) };
        let coalesces = self.state.policy(slot).coalesce != Coalesce::Off;
        if coalesces { self.bring_waiting(slot) } else { Ok(()) }
    }

    /// Whether its dedup id is still its own.
    fn bring_dedup_of(&mut self, letter: &DeadPage) -> Result<bool, Want> {
        match letter.run.dedup().next() {
            Some((_, hash)) => {
                Ok(self.state.look_up_dedup(letter.namespace, hash)?.is_some_and(|of| of.id == letter.id))
            }
            None => Ok(false),
        }
    }

    /// Brings what tells, once its topic is in memory, whether its dedup id stays with what other groups hold.
    fn bring_held_of(&mut self, letter: &DeadPage) -> Result<(), Want> {
        if self.bring_dedup_of(letter)? { self.bring_message(letter.id) } else { Ok(()) }
    }

    fn redrive(&mut self, dead: &DeadPage, log: &mut dyn FactLog) {
        let (letter, published, mark) = (dead.letter(), dead.run.published, dead.run.dedup().next());
        let slot = self.topic_or_new(dead.group, &dead.topic, log);
        let topic = self.state.topics[slot].number;
        let sequence = self.next_sequence(topic, dead.id.priority);
        let dedup = mark.and_then(|(_, hash)| self.state.remembered_of(dead.namespace, hash, dead.id));
        // Others may hold the message still, and are to be found by it.
        let dedup = dedup.filter(|_| !self.state.is_unfinished(dead.id));
        // Its new sequence does not tell when it was published, its old one may.
        let version = Version::of(&dead.run, dead.id.priority, dead.id.sequence);
        let comeback = self.comeback(slot, version, log);
        let since = self.state.now.wall;
        self.commit(Fact::Redriven { letter, topic, sequence, published, since, dedup }, log);
        self.come_back(slot, version.at(sequence), &comeback, log);
    }
}

impl DeadJob {
    /// How many letters it can come to before it has looked at so much.
    fn letters_for(&self, left: usize) -> u32 {
        let most = match &self.verb {
            // One more tells whether there is a next page.
            DeadVerb::List { limit, rows, .. } => left.min(limit + 1 - rows.len()),
            DeadVerb::Redrive | DeadVerb::Purge => left.div_ceil(WRITING),
        };
        let most = u32::try_from(most).expect("a slice is short");
        u32::try_from(self.most - self.count).map_or(most, |rest| most.min(rest))
    }

    fn answer(&mut self) -> Result<Reply, Refusal> {
        match self.one.take().filter(|_| self.count == 0) {
            None => Ok(self.so_far()),
            Some((topic, id)) => {
                let detail = format!("there is no dead letter {id} of topic {topic}: see `millpond dead list`");
                Err((Code::MessageUnknown, detail))
            }
        }
    }
}

impl Iterator for Spans {
    type Item = (KeyBytes, KeyBytes);

    fn next(&mut self) -> Option<(KeyBytes, KeyBytes)> {
        let (namespace, group) = (self.namespace, self.group);
        match &mut self.admitted {
            Admitted::All => {
                self.admitted = Admitted::default();
                Some(span_of_prefix(namespace, group, b""))
            }
            Admitted::Prefixes(prefixes) => {
                prefixes.next().map(|prefix| span_of_prefix(namespace, group, prefix.as_bytes()))
            }
            Admitted::Topics(names) => names.next().map(|name| span_of_topic(namespace, group, &name)),
        }
    }
}

impl DeadVerb {
    /// At most so many are listed.
    pub(crate) fn list(limit: usize) -> DeadVerb {
        DeadVerb::List { limit, rows: Vec::new(), bytes: 0 }
    }

    /// What a letter counts as.
    fn cost(&self) -> usize {
        match self {
            DeadVerb::List { .. } => 1,
            DeadVerb::Redrive | DeadVerb::Purge => WRITING,
        }
    }
}

fn view(dead: &DeadPage) -> Found<DeadView> {
    let extent = dead.run.extent();
    let message = MessageView {
        id: dead.id,
        state: MessageState::Dead,
        published: dead.run.published,
        expires: dead.run.expiry(),
        deliveries: dead.deliveries,
        failures: dead.failures,
        bytes: extent.length,
        block: Bytes::new(),
    };
    let row = DeadView {
        topic: dead.topic.clone(),
        message,
        reason: String::from(dead.reason.name()),
        detail: String::from_utf8_lossy(&dead.detail).into_owned(),
        died: dead.died,
    };
    Found { row, extent }
}

fn span_of_prefix(namespace: NamespaceNumber, group: GroupNumber, prefix: &[u8]) -> (KeyBytes, KeyBytes) {
    let bound = |name: &[u8]| Key::dead_bound(namespace, group, name);
    (bound(&Name::bytes(prefix)), bound(&Name::prefix_end(prefix)))
}

/// Behind a name stands a zero, and in longer names something else.
fn span_of_topic(namespace: NamespaceNumber, group: GroupNumber, name: &TopicName) -> (KeyBytes, KeyBytes) {
    let name = Name::bytes(name.as_bytes());
    let bound = |end: u8| Key::dead_bound(namespace, group, &[&name[..], &[end]].concat());
    (bound(0), bound(1))
}

/// The token of a page: the last row's id and topic, which the command line makes of a row as well.
fn place_in_list(token: &[u8]) -> Option<(TopicName, MessageId)> {
    let (id, topic) = core::str::from_utf8(token).ok()?.split_once('/')?;
    Some((TopicName::try_from(topic).ok()?, id.parse().ok()?))
}

fn bad_place() -> Refusal {
    (Code::ArgumentInvalid, "what a list goes on after is the last message of the page before, as ID/TOPIC".into())
}
