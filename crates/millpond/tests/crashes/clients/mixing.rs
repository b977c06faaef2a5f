//! Publishes to [`MIXED`], [`RATED`] and [`KEPT`], and what is done to messages before anybody has them: they are called off
//! and put to other times, and dead letters go back to work.
//!
//! What changes when a message may come, or whether, is in the ledger before it is asked, as ends are, and its answer behind
//! it. Between the publish of a delayed message and its time is long enough that this comes before it but for a client that
//! stands still; the times in the ledger tell.

use std::time::Duration;

use millpond_client::{Batch, DeadWhich, Error, Filter, Level, Message, TopicName, TopicRef, Which};

use super::{BACKLOG, Process, Sent, TICK, again, group_name, name, passing};
use crate::ledger::{NEVER, now};
use crate::load::{self, KEPT, MIXED, RATED};

/// How long a message is delayed that is called off or put to another time.
const DELAY: Duration = Duration::from_secs(8);
/// What waits at a rate is gone some seconds after its publishers are told to stop.
const RATED_BACKLOG: u64 = 40;

impl Process {
    /// Does one of these after another.
    pub(super) async fn mix(mut self) {
        while !self.is_told("stop") {
            match self.random.below(8) {
                0 | 1 => self.publish_for_later().await,
                2 | 3 => self.publish_to_exchange().await,
                4 => self.publish_briefly().await,
                5 => self.redrive().await,
                6 => self.publish_at_a_rate().await,
                _ => self.publish_more_than_is_kept().await,
            }
            tokio::time::sleep(Duration::from_millis(1 + self.random.below(10))).await;
            while self.random.one_in(8) && !self.is_told("stop") && !self.has_caught_up(MIXED, BACKLOG / 4).await {
                tokio::time::sleep(TICK).await;
            }
        }
    }

    /// Whether the default group has less left than so much.
    async fn has_caught_up(&self, space: &str, limit: u64) -> bool {
        let view = passing(self.client.stats(name(space)).await);
        let group = view.and_then(|view| view.groups.into_iter().find(|group| group.name == group_name("default")));
        group.is_some_and(|group| group.counts.unfinished() < limit)
    }

    /// A delayed message is cancelled or put to an earlier time, or the whole topic is purged.
    async fn publish_for_later(&mut self) {
        let topic = format!("wait/{}.{}", self.life, self.tags);
        let (mut messages, mut sent) = (Vec::new(), Sent::new());
        for _ in 0..1 + self.random.below(6) {
            let tag = self.tag();
            self.scribe.due(MIXED, &tag, now() + DELAY.as_millis() as u64);
            messages.push(load::message(&topic, &tag, 20).delay(DELAY).dedup_id(tag.clone()));
            sent.push((topic.clone(), tag));
        }
        self.scribe.write();
        let batch = Batch::try_from(messages).expect("a publish holds it");
        let (client, space) = (self.client.clone(), name(MIXED));
        let outcomes = again(|| client.publish_batch(&space, Level::Durable, &batch)).await;
        let tags: Vec<String> = sent.iter().map(|(_, tag)| tag.clone()).collect();
        self.note(MIXED, sent, &outcomes);
        let topic = TopicName::try_from(topic.as_str()).expect("a valid name");
        let to = |topic: TopicName| TopicRef { namespace: space.clone(), name: topic };
        match self.random.below(4) {
            0 => {
                tags.iter().for_each(|tag| self.scribe.due(MIXED, tag, NEVER));
                self.scribe.write();
                let purged = client.purge(space.clone(), Filter::Topics(vec![topic]), None).await;
                self.settle_times(&tags, purged);
            }
            1 => {
                for tag in tags {
                    self.scribe.due(MIXED, &tag, NEVER);
                    self.scribe.write();
                    let cancelled = client.cancel(to(topic.clone()), Which::Dedup(tag.clone().into())).await;
                    self.settle_times(&[tag], cancelled);
                }
            }
            2 => {
                for tag in tags {
                    let delay = Duration::from_millis(2_000 + self.random.below(2_000));
                    self.scribe.due(MIXED, &tag, now() + delay.as_millis() as u64);
                    self.scribe.write();
                    let which = Which::Dedup(tag.clone().into());
                    let put = client.reschedule(to(topic.clone()), which, delay).await;
                    self.settle_times(&[tag], put);
                }
            }
            // They come when they were published for.
            _ => {}
        }
    }

    /// Of what was not answered nobody knows whether it was done.
    fn settle_times<T>(&mut self, tags: &[String], result: Result<T, Error>) {
        let word = match result {
            Ok(_) => "done",
            Err(Error::Refused { .. }) => "refused",
            Err(error) => return assert!(error.is_passing(), "{error}"),
        };
        tags.iter().for_each(|tag| self.scribe.settled(word, MIXED, tag));
        self.scribe.write();
    }

    /// One publish, of which each topic has a copy.
    async fn publish_to_exchange(&mut self) {
        let tag = self.tag();
        let (message, topics) = load::routed(&mut self.random, &tag);
        self.scribe.routed(MIXED, &tag, &topics);
        self.scribe.write();
        let Some(copies) = passing(self.client.route(&name(MIXED), Level::Durable, &message).await) else { return };
        assert!(copies.topics.iter().map(TopicName::as_str).eq(&topics), "{:?} instead of {topics:?}", copies.topics);
        let sent = topics.into_iter().map(|topic| (topic.clone(), load::copy(&tag, &topic))).collect();
        self.note(MIXED, sent, &copies.outcomes);
    }

    async fn publish_briefly(&mut self) {
        let topic = format!("brief/{}", self.random.below(5));
        let ttl = Duration::from_millis(1_500 + self.random.below(2_500));
        self.publish_some(MIXED, &topic, |client, tag, message| {
            client.scribe.brief(MIXED, tag, now() + ttl.as_millis() as u64);
            message.ttl(ttl)
        })
        .await;
    }

    /// Never more than goes soon.
    async fn publish_at_a_rate(&mut self) {
        if self.has_caught_up(RATED, RATED_BACKLOG).await {
            self.publish_some(RATED, "rated", |client, tag, message| {
                client.scribe.due(RATED, tag, now());
                message
            })
            .await;
        }
    }

    async fn publish_more_than_is_kept(&mut self) {
        let topic = format!("kept/{}", self.random.below(20));
        self.publish_some(KEPT, &topic, |client, tag, message| {
            client.scribe.due(KEPT, tag, now());
            message
        })
        .await;
    }

    /// A publish that is not repeated, of messages that are in the ledger before.
    async fn publish_some(&mut self, space: &str, topic: &str, form: impl Fn(&mut Process, &str, Message) -> Message) {
        let (mut messages, mut sent) = (Vec::new(), Sent::new());
        for _ in 0..1 + self.random.below(20) {
            let tag = self.tag();
            messages.push(form(self, &tag, load::message(topic, &tag, 20)));
            sent.push((topic.to_owned(), tag));
        }
        self.scribe.write();
        let batch = Batch::try_from(messages).expect("a publish holds it");
        if let Some(outcomes) = passing(self.client.publish_batch(&name(space), Level::Durable, &batch).await) {
            self.note(space, sent, &outcomes);
        }
    }

    /// Some dead letters of the default group go back to work, however often this is asked.
    async fn redrive(&mut self) {
        let which = DeadWhich::First(Filter::All, 1 + self.random.below(20) as u32);
        passing(self.client.redrive(name(MIXED), group_name("default"), which).await);
    }
}
