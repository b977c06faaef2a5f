//! The fresh directory, and what is written to it.
//!
//! Topics of one name become one, whichever lives they had; each group's messages are published to it alone. The facts are those
//! that a broker would have written, and applied by the next start as any others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use bytes::Bytes;
use millpond_core::Now;
use millpond_core::fact::{Fact, FactLog, GroupNumber, NamespaceNumber, Victims};
use millpond_types::block::Sizes;
use millpond_types::{
    GroupKind, GroupName, LeaderEpoch, LeaseNumber, NamespaceName, Policy, Priority, Rules, RunTime, Sequence,
    SessionId, Start, TopicName, TopicNumber, WallTime,
};

use super::groups::{Groups, Other};
use super::held::{Death, Held, Kept, Topic};
use super::{Old, SalvageError};
use crate::Opened;
use crate::journal::{CommitError, Mark};
use crate::open::RAISE_OVER_LOST;

/// A start in little memory makes a checkpoint after so many topics at most: it may begin one where a broker began one, and the
/// batches say that here.
const EPOCH_TOPICS: usize = 4096;

/// The fresh directory.
pub struct Fresh {
    pub opened: Opened,
    /// The times that its batches are of.
    pub now: Now,
}

/// What came over.
#[derive(Default)]
pub struct Counts {
    groups: u64,
    topics: u64,
    messages: u64,
    dead: u64,
    damaged: u64,
    nameless: u64,
}

impl Counts {
    /// Tells it in the report.
    pub fn tell(&self, out: &mut dyn Write) -> io::Result<()> {
        let Counts { groups, topics, messages, dead, damaged, nameless } = self;
        writeln!(out, "salvaged    {messages} messages and {dead} dead letters of {topics} topics")?;
        if *groups > 0 {
            writeln!(
                out,
                "groups      {groups} but `default`; what several groups had to do is counted, and stored, for each"
            )?;
        }
        if *damaged > 0 {
            writeln!(out, "LOST        {damaged} messages whose bytes are damaged or gone")?;
        }
        if *nameless > 0 {
            writeln!(
                out,
                "nameless    {nameless} topics, now called salvaged/NUMBER, in `default` where no record tells their namespace"
            )?;
        }
        writeln!(
            out,
            "gone        all dedup ids, producer sessions, exchanges, pauses, leases, and groups that no record tells of, with what only they had still to do"
        )
    }
}

impl Fresh {
    /// Takes in what there is of the old directory.
    pub fn fill(mut self, mut old: Old) -> Result<Counts, SalvageError> {
        let mut groups = std::mem::take(&mut old.groups);
        groups.seen.clear();
        let floor = groups.floor().saturating_add(RAISE_OVER_LOST);
        self.append(Fact::Raised { floor });
        let mut counts = Counts { groups: groups.others.len() as u64, ..Counts::default() };
        let Groups { mut namespaces, homes, default, others, epoch, .. } = groups;
        let count = others.values().map(|other| other.held.topics.len()).sum::<usize>() + default.topics.len();
        let mut topics = Topics { homes, nameless: BTreeSet::new(), all: Vec::with_capacity(count) };
        topics.put(None, default);
        let named = topics.all.iter().map(|part| part.namespace);
        for number in named.chain(others.values().map(|other| other.namespace)).filter(|number| *number != 0) {
            let name = || NamespaceName::try_from(format!("salvaged-{number}").as_str()).expect("a good name");
            namespaces.entry(number).or_insert_with(|| (name(), Policy::default(), Rules::default()));
        }
        let free = namespaces.keys().next_back().map_or(1, |last| last.saturating_add(1));
        for (number, (name, policy, rules)) in namespaces {
            // The first one is there, in its first version.
            self.append(Fact::NamespaceSet { number, name, policy, rules, version: if number == 0 { 2 } else { 1 } });
            if number != 0 {
                self.group((group_of(number), number), GroupName::default(), GroupKind::Shared);
            }
        }
        for (group, Other { namespace, name, kind, held, .. }) in (free..).zip(others.into_values()) {
            self.group((group, namespace), name, kind);
            if kind != GroupKind::Shared {
                self.raise_epoch(group, LeaderEpoch(epoch.0.saturating_add(RAISE_OVER_LOST)));
            }
            topics.put(Some((group, namespace)), held);
        }
        counts.nameless = topics.nameless.len() as u64;
        for (number, ((namespace, name), groups)) in topics.by_name().enumerate() {
            if number % EPOCH_TOPICS == 0 {
                self.commit()?;
                self.opened.appender.begin_epoch();
            }
            let topic = TopicNumber(floor + number as u64);
            self.topic((topic, namespace, name), floor, groups, &old, &mut counts)?;
            counts.topics += 1;
        }
        self.commit()?;
        if let Some(batch) = self.opened.appender.mark(self.now, Mark::Stop) {
            self.opened.committer.write(batch).map_err(refused)?;
            self.opened.committer.sync()?;
        }
        Ok(counts)
    }

    fn group(&mut self, (group, namespace): (GroupNumber, NamespaceNumber), name: GroupName, kind: GroupKind) {
        self.append(Fact::GroupCreated { group, namespace, name, start: Start::Latest, kind });
    }

    /// No leader of a group has a lower epoch than this from here on.
    fn raise_epoch(&mut self, group: GroupNumber, epoch: LeaderEpoch) {
        self.append(Fact::OfficeTaken { group, session: SessionId(1), epoch });
        self.append(Fact::OfficeLeft { group, until: RunTime(0) });
        self.append(Fact::HandedOver { group });
    }

    /// All topics of one name, which becomes one topic, in each group that has something of it.
    fn topic(
        &mut self,
        (topic, namespace, name): (TopicNumber, NamespaceNumber, TopicName),
        floor: u64,
        groups: BTreeMap<GroupNumber, Vec<Topic>>,
        old: &Old,
        counts: &mut Counts,
    ) -> Result<(), SalvageError> {
        let all: Vec<GroupNumber> = groups.keys().copied().collect();
        for group in &all {
            let (group, name, lease) = (*group, name.clone(), LeaseNumber(floor));
            self.append(Fact::TopicCreated { topic, group, namespace, name, floor, lease });
        }
        let mut next: BTreeMap<Priority, u64> = BTreeMap::new();
        let mut empty = Vec::new();
        for (group, parts) in groups {
            let mut holds = false;
            for ((priority, _), kept) in parts.into_iter().flat_map(|part| part.runs.into_entries()) {
                let (block, ends) = old.messages(&kept.run);
                let count = ends.len() as u32;
                counts.damaged += u64::from(kept.run.count - count);
                if count == 0 {
                    continue;
                }
                let next = next.entry(priority).or_insert(floor);
                let first = Sequence(*next);
                *next += u64::from(count);
                holds |= kept.death.is_none();
                *(if kept.death.is_none() { &mut counts.messages } else { &mut counts.dead }) += u64::from(count);
                let except = all.iter().copied().filter(|other| *other != group).collect();
                self.run((topic, group, except), (priority, first), kept, block.into(), &ends);
                if self.opened.appender.is_full() {
                    self.commit()?;
                }
            }
            if !holds {
                empty.push(group);
            }
        }
        for group in empty {
            self.append(Fact::TopicVanished { topic, group });
        }
        Ok(())
    }

    fn run(
        &mut self,
        (topic, group, except): (TopicNumber, GroupNumber, Vec<GroupNumber>),
        (priority, first): (Priority, Sequence),
        Kept { run, due, death }: Kept,
        block: Bytes,
        ends: &[u32],
    ) {
        let (count, sizes) = (ends.len() as u32, Sizes::from_ends(ends));
        self.append(Fact::Published {
            topic,
            except,
            priority,
            first,
            count,
            published: run.published,
            due,
            expires: run.expiry(),
            dedup_until: WallTime::default(),
            dedup: Vec::new(),
            block,
            sizes,
        });
        if let Some(death) = death {
            let which = Victims::Waiting { priority, first, count };
            let Death { reason, detail, at } = *death;
            self.append(Fact::Died { topic, group, which, reason, detail, at });
        }
    }

    fn append(&mut self, fact: Fact) {
        self.opened.appender.append(&fact);
    }

    fn commit(&mut self) -> Result<(), SalvageError> {
        if let Some(batch) = self.opened.appender.seal(self.now) {
            self.opened.committer.write(batch).map_err(refused)?;
            self.opened.committer.sync()?;
        }
        Ok(())
    }
}

/// Old topics, with their names and the new groups that have something of them.
struct Topics {
    homes: BTreeMap<TopicNumber, (NamespaceNumber, TopicName)>,
    /// Those of which no record tells the name.
    nameless: BTreeSet<TopicNumber>,
    all: Vec<Part>,
}

/// What a group had of an old topic.
struct Part {
    namespace: NamespaceNumber,
    name: TopicName,
    group: GroupNumber,
    number: TopicNumber,
    topic: Topic,
}

/// A topic of the fresh directory: its namespace and name, and what goes into it, by group.
type Named = ((NamespaceNumber, TopicName), BTreeMap<GroupNumber, Vec<Topic>>);

impl Topics {
    /// Puts what a group held, or what those called `default` held of all namespaces.
    fn put(&mut self, group: Option<(GroupNumber, NamespaceNumber)>, held: Held) {
        for (number, topic) in held.topics.into_iter().filter(|(_, topic)| !topic.runs.is_empty()) {
            let (namespace, name) = self.homes.get(&number).cloned().unwrap_or_else(|| {
                let name = format!("salvaged/{}", number.0);
                let name = TopicName::try_from(name.as_str()).expect("a good name");
                self.nameless.insert(number);
                (group.map_or(0, |(_, namespace)| namespace), name)
            });
            let group = group.map_or(group_of(namespace), |(group, _)| group);
            self.all.push(Part { namespace, name, group, number, topic });
        }
    }

    /// All that there is of each name, in order.
    fn by_name(mut self) -> impl Iterator<Item = Named> {
        drop(std::mem::take(&mut self.homes));
        self.all.sort_unstable_by(|one, other| one.place().cmp(&other.place()));
        let mut parts = self.all.into_iter().peekable();
        std::iter::from_fn(move || {
            let Part { namespace, name, group, topic, .. } = parts.next()?;
            let mut groups = BTreeMap::from([(group, vec![topic])]);
            while let Some(next) = parts.next_if(|next| next.namespace == namespace && next.name == name) {
                groups.entry(next.group).or_default().push(next.topic);
            }
            Some(((namespace, name), groups))
        })
    }
}

impl Part {
    fn place(&self) -> (NamespaceNumber, &TopicName, GroupNumber, TopicNumber) {
        (self.namespace, &self.name, self.group, self.number)
    }
}

/// The number of the group `default` of a namespace: the only one that each has.
fn group_of(namespace: NamespaceNumber) -> GroupNumber {
    namespace
}

fn refused(error: CommitError) -> SalvageError {
    match error {
        CommitError::DiskFull(_) => SalvageError::Full,
        CommitError::Failed(failure) => SalvageError::Write(failure),
    }
}
