//! Producers: single messages and batches, with every option; some keep a producer session and repeat what a crash
//! left unanswered.

use std::collections::VecDeque;

use millpond_core::command::{Command, DedupMark, Level, ProducerBatch, Publish, PublishRun};
use millpond_core::dedup_hash;
use millpond_core::output::Reply;
use millpond_types::{Code, Millis, NamespaceName, OutcomeRun, Priority, ProducerId, PublishOutcome, TopicName};

use crate::bodies::{Draft, TAG, block_of};
use crate::clients::{Asked, Request, Sent};
use crate::operator::is_made_anew;
use crate::plan::Plan;
use crate::sights::Sights;
use crate::streams::Stream;
use crate::verdict::Violation;

/// Unanswered batches of a session at most.
const WINDOW: usize = 8;

/// So few that they come again.
const DEDUP_IDS: u64 = 12;

/// See the module.
pub struct Producer {
    index: usize,
    namespaces: Vec<NamespaceName>,
    topics: Vec<TopicName>,
    hash_key: [u64; 2],
    segment_bytes: u64,
    body_max: u64,
    next_tag: u64,
    session: Option<Session>,
}

/// A producer session as its client keeps it. All its publishes are of level `durable` and in one namespace.
struct Session {
    namespace: NamespaceName,
    instance: u32,
    next: u64,
    unanswered: VecDeque<(u64, Drawn)>,
    /// The last batch that was answered, and how.
    last: Option<(u64, Drawn, Vec<OutcomeRun<PublishOutcome>>)>,
    resend: bool,
}

/// The content of a publish.
type Drawn = (Vec<PublishRun>, Vec<Sent>);

impl Producer {
    /// The producer of an index.
    pub fn new(index: usize, plan: &Plan, load: &mut Stream) -> Producer {
        let namespaces: Vec<_> = plan.namespaces.iter().map(|(name, _)| name.clone()).collect();
        // What a namespace knows of sessions goes with it.
        let lasting: Vec<_> = namespaces.iter().filter(|name| !is_made_anew(name)).cloned().collect();
        let session = load.one_in(2).then(|| Session {
            namespace: load.pick(&lasting).clone(),
            instance: 1,
            next: 1,
            unanswered: VecDeque::new(),
            last: None,
            resend: false,
        });
        Producer {
            index,
            namespaces,
            topics: plan.topics.clone(),
            hash_key: plan.options.identity.hash_key,
            segment_bytes: plan.options.segment_bytes,
            body_max: plan.body_max,
            // Tags of different producers never meet.
            next_tag: (index as u64 + 1) << 32,
            session,
        }
    }

    /// Publishes something.
    pub fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        let Some(session) = &mut self.session else {
            let namespace = load.pick(&self.namespaces).clone();
            let drawn = self.draw(&namespace, load);
            let level = [Level::Durable, Level::Buffered, Level::None][load.weighted(&[5, 4, 1])];
            return vec![self.request(namespace, None, level, &drawn)];
        };
        if session.resend {
            return self.resend();
        }
        let namespace = session.namespace.clone();
        if session.unanswered.is_empty() && load.one_in(10) {
            // A restarted client: its new instance counts from one.
            (session.instance, session.next, session.last) = (session.instance + 1, 1, None);
        }
        if let Some((sequence, drawn, _)) = &session.last
            && load.one_in(8)
        {
            let (instance, sequence, drawn) = (session.instance, *sequence, drawn.clone());
            let batch = self.batch(instance, sequence);
            return vec![self.request(namespace, Some(batch), Level::Durable, &drawn)];
        }
        if session.unanswered.len() == WINDOW {
            return Vec::new();
        }
        let (instance, sequence) = (session.instance, session.next);
        session.next += 1;
        let drawn = self.draw(&namespace, load);
        let batch = self.batch(instance, sequence);
        let request = self.request(namespace, Some(batch), Level::Durable, &drawn);
        self.session.as_mut().expect("it was there").unanswered.push_back((sequence, drawn));
        vec![request]
    }

    /// Repeats what is unanswered, and publishes nothing new.
    pub fn finish(&mut self) -> Vec<Request> {
        self.resend()
    }

    /// An answer to a batch of the session.
    pub fn answer(
        &mut self,
        (instance, sequence): (u32, u64),
        reply: &Reply,
        sights: &mut Sights,
    ) -> Result<(), Violation> {
        let session = self.session.as_mut().expect("only sessions have batches");
        if instance != session.instance {
            return Ok(());
        }
        match reply {
            Reply::Published { outcomes, .. } => {
                let at = session.unanswered.iter().position(|(unanswered, _)| *unanswered == sequence);
                if let Some((sequence, drawn)) = at.and_then(|at| session.unanswered.remove(at)) {
                    session.last = Some((sequence, drawn, outcomes.clone()));
                    return Ok(());
                }
                match &session.last {
                    Some((last, _, before)) if *last == sequence => {
                        sights.saw("session repeats told the same");
                        if before != outcomes {
                            let what = format!("batch {sequence} was told {before:?}, and its repeat {outcomes:?}");
                            return Err(Violation::back(what));
                        }
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            Reply::Refused { code: Code::DiskFull | Code::SequenceGap | Code::QuotaExceeded, .. } => {
                session.resend = !session.unanswered.is_empty();
                Ok(())
            }
            // The first batch was refused, and this one was on its way behind it.
            Reply::Refused { code: Code::SessionUnknown, .. }
                if session.unanswered.front().is_some_and(|(first, _)| *first == 1) =>
            {
                session.resend = true;
                Ok(())
            }
            other => Err(Violation::lost(format!("batch {sequence} of a producer session is answered {other:?}"))),
        }
    }

    /// Nobody knows what became of what is unanswered.
    pub fn connection_lost(&mut self) {
        if let Some(session) = &mut self.session {
            session.resend = !session.unanswered.is_empty();
        }
    }

    fn resend(&mut self) -> Vec<Request> {
        let Some(session) = self.session.as_mut().filter(|session| session.resend) else { return Vec::new() };
        session.resend = false;
        let (instance, namespace) = (session.instance, session.namespace.clone());
        let session = self.session.as_ref().expect("it was there");
        let again = session.unanswered.iter().map(|(sequence, drawn)| {
            self.request(namespace.clone(), Some(self.batch(instance, *sequence)), Level::Durable, drawn)
        });
        again.collect()
    }

    fn batch(&self, instance: u32, sequence: u64) -> ProducerBatch {
        ProducerBatch { id: ProducerId(self.index as u128 + 1), instance, sequence }
    }

    fn request(
        &self,
        namespace: NamespaceName,
        producer: Option<ProducerBatch>,
        level: Level,
        (runs, messages): &Drawn,
    ) -> Request {
        let asked = Asked::Publish {
            producer: self.index,
            batch: producer.map(|batch| (batch.instance, batch.sequence)),
            namespace: namespace.clone(),
            messages: messages.clone(),
            level,
        };
        let command = Command::Publish(Publish { namespace, producer, level, runs: runs.clone() });
        Request { command, asked }
    }

    fn draw(&mut self, namespace: &NamespaceName, load: &mut Stream) -> Drawn {
        let runs = if load.one_in(4) { load.between(2, 4) } else { 1 };
        let mut drawn = (Vec::new(), Vec::new());
        for _ in 0..runs {
            let topic = load.pick(&self.topics).clone();
            let count = if load.one_in(3) { load.between(2, 12) } else { 1 };
            let drafts: Vec<Draft> = (0..count).map(|_| self.draft(load)).collect();
            let hash = |draft: &Draft| {
                let id = &draft.dedup_id;
                (!id.is_empty()).then(|| dedup_hash(self.hash_key, namespace, &topic, id))
            };
            let sent = drafts.iter().map(|draft| Sent { tag: draft.tag, topic: topic.clone(), dedup: hash(draft) });
            drawn.1.extend(sent);
            let dedup = drafts.iter().enumerate();
            let dedup = dedup.filter_map(|(index, draft)| Some(DedupMark { index: index as u32, hash: hash(draft)? }));
            let dedup = dedup.collect();
            let (block, sizes) = block_of(&drafts);
            drawn.0.push(PublishRun {
                topic,
                priority: Priority::new(load.weighted(&[1, 1, 0, 0, 6, 0, 0, 0, 1, 1]) as u8).expect("0 to 9"),
                delay: [Millis::ZERO, Millis(load.between(1, 3000)), Millis(load.between(1, 4_000_000))]
                    [load.weighted(&[8, 2, 1])],
                ttl: load.one_in(8).then(|| Millis(load.between(1, 20_000))),
                count: drafts.len() as u32,
                block,
                sizes,
                dedup,
                too_large: Vec::new(),
            });
        }
        drawn
    }

    fn draft(&mut self, load: &mut Stream) -> Draft {
        self.next_tag += 1;
        let (least, most) = match load.one_in(40) {
            true => (self.segment_bytes - 100, self.segment_bytes + 100),
            false => (TAG as u64, self.body_max),
        };
        let size = if load.one_in(2) { TAG as u64 + 16 } else { load.between(least, most) };
        let dedup_id = if load.one_in(5) { dedup_id(load.below(DEDUP_IDS)) } else { Vec::new() };
        Draft { tag: self.next_tag, size: size as usize, dedup_id }
    }
}

/// The dedup ids that producers give.
pub fn dedup_ids() -> impl Iterator<Item = Vec<u8>> {
    (0..DEDUP_IDS).map(dedup_id)
}

fn dedup_id(number: u64) -> Vec<u8> {
    format!("id {number}").into_bytes()
}
