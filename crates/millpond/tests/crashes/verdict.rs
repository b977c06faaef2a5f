//! Holds the ledger against what is promised, when all work is done.
//!
//! The files have no common order, so nothing here asks what came first. Lease numbers do: a message that was delivered
//! under a higher one than that which ended it was delivered behind its end. What hangs on the clock goes by times that are
//! in the ledger, of the one clock that all of them have.

mod amounts;
mod copies;
mod figures;
mod letters;
mod times;

use std::collections::{BTreeMap, HashMap, HashSet};

use millpond_client::{LeaseNumber, MessageId};

use crate::ledger::{Entry, Place, entries};
use crate::load::{COALESCING, GROUPS, KEPT, LATE, LEAD, MIXED, OUT, STRICT};
pub use figures::Figures;
use letters::PutBack;
use times::Ask;

/// What the ledger says.
#[derive(Default)]
pub struct Verdict {
    /// Each broken promise, in words.
    pub broken: Vec<String>,
    pub figures: Figures,
}

/// What one group was told of one message.
#[derive(Default)]
struct Life<'a> {
    /// By lease: how often it had been delivered.
    deliveries: BTreeMap<LeaseNumber, u32>,
    /// By lease: the verb, and what was answered.
    ends: BTreeMap<LeaseNumber, (&'a str, Option<&'a str>)>,
    is_letter: bool,
}

impl Life<'_> {
    /// Whether something may have ended it.
    fn may_be_ended(&self) -> bool {
        let may_end = |(lease, (verb, answer)): (&LeaseNumber, &(&str, Option<&str>))| {
            matches!(*verb, "ack" | "forward") && self.may_be_done(*lease, *answer)
        };
        self.is_letter || self.ends.iter().any(may_end)
    }

    /// Whether a consumer may have made it a dead letter.
    fn may_be_dead(&self) -> bool {
        let may_be =
            |(verb, answer): &(&str, Option<&str>)| *answer == Some("dead") || *verb == "reject" && answer.is_none();
        self.ends.values().any(may_be)
    }

    /// Whether an end that was answered so may be done. Nobody knows what became of one without an answer; but if the message
    /// came again later, it was not taken.
    fn may_be_done(&self, lease: LeaseNumber, answer: Option<&str>) -> bool {
        answer == Some("done") || answer.is_none() && self.last() == Some(lease)
    }

    /// The last lease that it was delivered under.
    fn last(&self) -> Option<LeaseNumber> {
        self.deliveries.last_key_value().map(|(lease, _)| *lease)
    }
}

/// A delivery.
struct Seen<'a> {
    place: Place<'a>,
    topic: &'a str,
    tag: &'a str,
    lease: LeaseNumber,
    at: u64,
}

/// Reads all files, and judges.
pub fn verdict(files: &[(String, String)]) -> Verdict {
    let mut all = Ledger::default();
    for (name, text) in files {
        entries(text).for_each(|entry| all.take(name, entry));
    }
    all.judge()
}

/// The leases of a topic, in their order: the message, who got it, and the epoch.
type Leases<'a> = BTreeMap<LeaseNumber, (MessageId, &'a str, u64)>;

#[derive(Default)]
struct Ledger<'a> {
    /// By namespace and tag.
    ids: HashMap<(&'a str, &'a str), MessageId>,
    confirmed: HashSet<(&'a str, MessageId)>,
    /// The last message of each topic that stands for others, or for itself.
    last_confirmed: BTreeMap<(&'a str, &'a str), MessageId>,
    last_ended: BTreeMap<(&'a str, &'a str), MessageId>,
    topics: HashMap<(&'a str, MessageId), &'a str>,
    lives: HashMap<Place<'a>, Life<'a>>,
    /// By namespace, group and topic.
    leases: BTreeMap<(&'a str, &'a str, &'a str), Leases<'a>>,
    seen: Vec<Seen<'a>>,
    /// By namespace and tag, in the order in which they were asked.
    asks: HashMap<(&'a str, &'a str), Vec<Ask>>,
    /// Until when it is worth something.
    brief: HashMap<(&'a str, &'a str), u64>,
    /// The topics that it leads to.
    routed: HashMap<(&'a str, &'a str), &'a str>,
    /// With the tag, the reason and the time.
    letters: Vec<(Place<'a>, &'a str, &'a str, u64)>,
    verdict: Verdict,
}

impl<'a> Ledger<'a> {
    fn take(&mut self, file: &'a str, entry: Entry<'a>) {
        match entry {
            Entry::Published { space, topic, id, tag } => {
                self.know(space, tag, id);
                self.confirmed.insert((space, id));
                self.confirm(space, topic, id);
            }
            Entry::Coalesced { space, topic, id } => self.confirm(space, topic, id),
            Entry::Delivered { place, topic, lease, deliveries, epoch, tag, at } => {
                if !letters::is_put_back(place.space, place.group) {
                    self.know(place.space, tag, place.id);
                }
                self.seen.push(Seen { place, topic, tag, lease, at });
                self.topics.insert((place.space, place.id), topic);
                let before = self.lives.entry(place).or_default().deliveries.insert(lease, deliveries);
                let of_topic = self.leases.entry((place.space, place.group, topic)).or_default();
                let other = of_topic.insert(lease, (place.id, file, epoch));
                // A receive that was asked for again is told the same leases.
                if before.is_some_and(|before| before != deliveries)
                    || other.is_some_and(|other| other != (place.id, file, epoch))
                {
                    self.broken(format!("{place:?}: lease {} was given out twice: {other:?} and {file}", lease.0));
                }
                self.verdict.figures.deliveries += 1;
            }
            Entry::Asked { verb, place, lease } => {
                self.lives.entry(place).or_default().ends.insert(lease, (verb, None));
            }
            Entry::Answered { answer, verb, place, lease } => {
                self.lives.entry(place).or_default().ends.insert(lease, (verb, Some(answer)));
            }
            Entry::Due { space, tag, at, not_before } => {
                self.asks.entry((space, tag)).or_default().push(Ask { at, not_before, done: None });
            }
            Entry::Settled { is_done, space, tag, at } => {
                self.verdict.figures.put_off += usize::from(is_done);
                let asks = self.asks.entry((space, tag)).or_default();
                let mut last = asks.pop().expect("what is answered was asked");
                last.done = Some(at);
                asks.extend(is_done.then_some(last));
            }
            Entry::Brief { space, tag, expires } => {
                self.brief.insert((space, tag), expires);
            }
            Entry::Routed { space, tag, topics } => {
                self.routed.insert((space, tag), topics);
            }
            Entry::Letter { place, tag, reason, died } => {
                self.letters.push((place, tag, reason, died));
                self.lives.entry(place).or_default().is_letter = true;
                self.verdict.figures.letters += 1;
            }
        }
    }

    fn know(&mut self, space: &'a str, tag: &'a str, id: MessageId) {
        let before = *self.ids.entry((space, tag)).or_insert(id);
        if before != id {
            self.broken(format!("{space}: {tag} was stored twice, as {before} and as {id}"));
        }
    }

    fn confirm(&mut self, space: &'a str, topic: &'a str, id: MessageId) {
        self.verdict.figures.confirmed += 1;
        self.topics.insert((space, id), topic);
        let last = self.last_confirmed.entry((space, topic)).or_insert(id);
        *last = id.max(*last);
    }

    fn broken(&mut self, what: String) {
        self.verdict.broken.push(what);
    }

    fn judge(mut self) -> Verdict {
        let lives = std::mem::take(&mut self.lives);
        let put_back = self.judge_letters(&lives);
        for (place, life) in &lives {
            self.judge_life(*place, life, &put_back);
        }
        let messages: HashSet<_> = self.ids.iter().map(|((space, _), id)| (*space, *id)).collect();
        if messages.len() != self.ids.len() {
            self.broken("two messages have one id".to_owned());
        }
        self.judge_times();
        self.judge_copies();
        self.judge_expired();
        self.judge_rates();
        let (called_off, kept) = (self.called_off(), self.kept());
        let brief: HashSet<_> = self.brief.keys().filter_map(|key| Some((key.0, *self.ids.get(key)?))).collect();
        for (space, id) in std::mem::take(&mut self.confirmed) {
            if space == KEPT && !kept.contains(&id) {
                let is_gone = !lives.contains_key(&Place { space, group: "default", id });
                self.verdict.figures.retained_out += usize::from(is_gone);
                continue;
            }
            // A purge and a cancel are for all groups.
            if called_off.contains(&(space, id)) {
                continue;
            }
            let groups = GROUPS.iter().filter(|(of, _)| *of == space && !COALESCING.contains(of));
            for group in groups.map(|(_, group)| *group) {
                // A group that is made midway is not given what has expired by then.
                let may_be_over = (space, group) == (MIXED, LATE) && brief.contains(&(space, id));
                let life = lives.get(&put_back.last(Place { space, group, id }));
                if !may_be_over && !life.is_some_and(Life::may_be_ended) {
                    self.broken(format!("{space} {group}: {id} was confirmed and is lost"));
                }
            }
        }
        for ((space, topic), last) in std::mem::take(&mut self.last_confirmed) {
            let ended = self.last_ended.get(&(space, topic));
            if COALESCING.contains(&space) && ended.is_none_or(|ended| *ended < last) {
                self.broken(format!("{space}: nothing was done behind {last} of {topic}, but for {ended:?}"));
            }
        }
        self.judge_leases();
        self.verdict
    }

    fn judge_life(&mut self, place: Place<'a>, life: &Life<'a>, put_back: &PutBack<'a>) {
        self.verdict.figures.repeated += life.deliveries.len().saturating_sub(1);
        let last = life.last();
        let mut ends = 0;
        for (lease, (verb, answer)) in &life.ends {
            let figures = &mut self.verdict.figures;
            figures.ended += usize::from(matches!(answer, Some("done" | "dead")));
            figures.given_back += usize::from(matches!((*verb, *answer), ("fail" | "release", Some("done"))));
            figures.unanswered += usize::from(answer.is_none());
            let ended = matches!((*verb, *answer), ("ack" | "forward", Some("done")));
            ends += u32::from(ended);
            let is_dead = *answer == Some("dead");
            if (ended || is_dead) && last.is_some_and(|last| last > *lease) {
                self.broken(format!("{place:?} ended under lease {} and was delivered under {last:?}", lease.0));
            }
            let was_letter = life.is_letter || put_back.is_before(&place);
            if is_dead != was_letter && (is_dead || ended) {
                self.broken(format!("{place:?}: a dead letter? told {answer:?} to {verb}, there: {}", life.is_letter));
            }
            let may_be_done = life.may_be_done(*lease, *answer);
            // If it is no dead letter either, it was taken, and the output with it.
            let was_done = ended || may_be_done && !life.is_letter;
            let output = format!("out-{}", place.id);
            if *verb == "forward" && was_done && !self.ids.contains_key(&(OUT, output.as_str())) {
                self.broken(format!("{place:?} was forwarded, and nothing came of it"));
            }
            if *verb == "ack"
                && may_be_done
                && let Some(topic) = self.topics.get(&(place.space, place.id))
            {
                let last = self.last_ended.entry((place.space, topic)).or_insert(place.id);
                *last = place.id.max(*last);
            }
        }
        if ends > 1 {
            self.broken(format!("{place:?} ended {ends} times"));
        }
        let counts: Vec<u32> = life.deliveries.values().copied().collect();
        if !counts.is_sorted_by(|a, b| a < b) {
            self.broken(format!("{place:?}: its deliveries are counted {counts:?}"));
        }
    }

    /// In the order of their numbers, leases of a topic are of ever later lives of it, in strict order of ever later
    /// messages, and of ever later leaders, each of whom is one process.
    fn judge_leases(&mut self) {
        let mut leaders: HashMap<u64, &str> = HashMap::new();
        for ((space, group, topic), leases) in std::mem::take(&mut self.leases) {
            let told: Vec<_> = leases.into_values().collect();
            for pair in told.windows(2) {
                let [(before, _, epoch_before), (id, _, epoch)] = pair else { unreachable!("pairs") };
                let is_later = before.topic <= id.topic && (!topic.starts_with(STRICT) || before <= id);
                if !is_later || epoch_before > epoch {
                    self.broken(format!("{space} {group} {topic}: {pair:?} is out of order"));
                }
            }
            for (_, process, epoch) in told.iter().filter(|_| group == LEAD) {
                let leader = *leaders.entry(*epoch).or_insert(process);
                if leader != *process {
                    self.broken(format!("{leader} and {process} have both been leader in epoch {epoch}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
