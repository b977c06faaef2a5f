//! The verbs that look at a broker's messages, topics and namespaces and manage them. Each is one request and one answer.

use std::time::Duration;

use bytes::Bytes;
use millpond_protocol::{DeadWhich, Listing, LookWhich, Request, Response, TopicRef, Which};
use millpond_types::{
    Binding, DeadView, ExchangeKind, ExchangeName, ExchangeView, Filter, GroupKind, GroupName, MessageId, MessageView,
    Millis, NamespaceName, NamespaceView, PausedTopics, Policy, Rules, Start, TopBy, TopicName, TopicView, Unroutable,
};

use crate::client::{Client, Repeat};
use crate::error::Result;
use crate::message::millis;

/// A page of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadPage {
    /// The rows.
    pub rows: Vec<DeadView>,
    /// What [`Listing::after`] takes for the next page; empty if this was the last.
    pub next: Bytes,
}

/// A page of namespaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespacePage {
    /// The rows.
    pub rows: Vec<NamespaceView>,
    /// What the next page comes after; `None` if this was the last.
    pub next: Option<NamespaceName>,
}

/// Messages by name. Those that change something are not repeated when their answer is lost, unless a second time changes
/// nothing.
impl Client {
    /// Looks at messages without leasing them: one, or those in front. A message's body is in its block
    /// ([`crate::block::first`]), which is empty where all of them do not fit one answer: a look at the message by its id
    /// then tells it. They are those of a group, or of the first that has the topic or, of one message, that message.
    pub async fn look(&self, topic: TopicRef, which: LookWhich, group: Option<GroupName>) -> Result<Vec<MessageView>> {
        match self.call(Request::Look { topic, which, group }, Repeat::Harmless).await? {
            Response::Messages(messages) => Ok(messages),
            other => Err(self.wrong_answer("look", &other)),
        }
    }

    /// Ends a message that is not leased.
    pub async fn cancel(&self, topic: TopicRef, which: Which) -> Result<()> {
        self.done("cancel", Request::Cancel { topic, which }, Repeat::Never).await
    }

    /// Gives a message that is not leased another delay, from now.
    pub async fn reschedule(&self, topic: TopicRef, which: Which, delay: Duration) -> Result<()> {
        let delay = millis(delay);
        self.done("reschedule", Request::Reschedule { topic, which, delay }, Repeat::Never).await
    }

    /// Removes a dedup id, so that it may be published again; whether it was remembered.
    pub async fn forget(&self, topic: TopicRef, dedup_id: impl Into<Bytes>) -> Result<bool> {
        let request = Request::Forget { topic, dedup_id: dedup_id.into() };
        Ok(self.count("forget", request).await? > 0)
    }
}

/// Topics.
impl Client {
    /// Stops deliveries of a topic, of all topics whose name begins so, or of all of a namespace, those to come included: for
    /// a time, or until they are resumed. Where the answer was lost it is asked for again, and a time begins then.
    pub async fn pause(&self, namespace: NamespaceName, topics: PausedTopics, lasts: Option<Millis>) -> Result<()> {
        self.done("pause", Request::Pause { namespace, topics, lasts }, Repeat::Harmless).await
    }

    /// Takes back a pause that was given with the same arguments.
    pub async fn resume(&self, namespace: NamespaceName, topics: PausedTopics) -> Result<()> {
        self.done("resume", Request::Resume { namespace, topics }, Repeat::Harmless).await
    }

    /// Ends all messages of these topics that are not leased, in one group or in all; how many.
    pub async fn purge(&self, namespace: NamespaceName, filter: Filter, group: Option<GroupName>) -> Result<u64> {
        self.count("purge", Request::Purge { namespace, filter, group }).await
    }

    /// A page of a group's topics, in the order of their names. The next page begins after the last name of this one.
    pub async fn topics(&self, listing: Listing, group: GroupName) -> Result<Vec<TopicView>> {
        match self.call(Request::Topics { listing, group }, Repeat::Harmless).await? {
            Response::Topics(topics) => Ok(topics),
            other => Err(self.wrong_answer("listing of topics", &other)),
        }
    }

    /// The topics of a group that stand out, the first of them first, at most [`TOP_MAX`](millpond_types::limits::TOP_MAX). The broker
    /// looks at all topics of the namespace for it, which takes a while where there are many.
    pub async fn top_topics(
        &self,
        namespace: NamespaceName,
        group: GroupName,
        prefix: Bytes,
        by: TopBy,
        limit: u32,
    ) -> Result<Vec<TopicView>> {
        match self.call(Request::TopTopics { namespace, prefix, by, limit, group }, Repeat::Harmless).await? {
            Response::Topics(topics) => Ok(topics),
            other => Err(self.wrong_answer("listing of topics", &other)),
        }
    }

    /// One topic, with its cursors.
    pub async fn topic(&self, namespace: NamespaceName, name: TopicName) -> Result<TopicView> {
        match self.call(Request::Topic(TopicRef { namespace, name }), Repeat::Harmless).await? {
            Response::Topics(mut topics) if topics.len() == 1 => Ok(topics.remove(0)),
            other => Err(self.wrong_answer("request for a topic", &other)),
        }
    }
}

/// Namespaces, groups and exchanges.
impl Client {
    /// Makes a namespace, or gives it another policy and other rules, whatever it had before.
    pub async fn set_namespace(&self, namespace: NamespaceName, policy: Policy, rules: Rules) -> Result<()> {
        let set = Request::NamespaceSet { namespace, policy, rules, based_on: None };
        self.done("namespace verb", set, Repeat::Harmless).await
    }

    /// Changes a namespace that was read, unless somebody else has done so since. `version` is that of its view; with 0 it is
    /// made, unless it is there.
    ///
    /// # Errors
    /// Refused with [`Code::NamespaceChanged`](crate::Code::NamespaceChanged) if it is of another version.
    pub async fn change_namespace(
        &self,
        namespace: NamespaceName,
        version: u64,
        policy: Policy,
        rules: Rules,
    ) -> Result<()> {
        let set = Request::NamespaceSet { namespace, policy, rules, based_on: Some(version) };
        self.done("namespace verb", set, Repeat::Never).await
    }

    /// Deletes a namespace that holds nothing.
    pub async fn delete_namespace(&self, namespace: NamespaceName) -> Result<()> {
        self.done("namespace verb", Request::NamespaceDelete { namespace }, Repeat::Never).await
    }

    /// Makes a group of this kind, which has all that is published from then on, and of what was published before what
    /// `start` says.
    pub async fn create_group(
        &self,
        namespace: NamespaceName,
        group: GroupName,
        start: Start,
        kind: GroupKind,
    ) -> Result<()> {
        self.done("group verb", Request::GroupCreate { namespace, group, start, kind }, Repeat::Never).await
    }

    /// Deletes a group. Nobody finds it any more; what it holds ends after that.
    pub async fn delete_group(&self, namespace: NamespaceName, group: GroupName) -> Result<()> {
        self.done("group verb", Request::GroupDelete { namespace, group }, Repeat::Never).await
    }

    /// Ends the term of the leader of an exclusive group, whoever it is: it may finish what it has, and waits behind all
    /// other candidates. Refused with [`Code::NotLeader`](millpond_types::Code::NotLeader) where nobody leads.
    pub async fn depose(&self, namespace: NamespaceName, group: GroupName) -> Result<()> {
        self.done("group verb", Request::Depose { namespace, group }, Repeat::Never).await
    }

    /// Makes an exchange.
    pub async fn create_exchange(
        &self,
        namespace: NamespaceName,
        exchange: ExchangeName,
        kind: ExchangeKind,
        unroutable: Unroutable,
    ) -> Result<()> {
        let request = Request::ExchangeCreate { namespace, exchange, kind, unroutable };
        self.done("exchange verb", request, Repeat::Never).await
    }

    /// Deletes an exchange with its bindings.
    pub async fn delete_exchange(&self, namespace: NamespaceName, exchange: ExchangeName) -> Result<()> {
        self.done("exchange verb", Request::ExchangeDelete { namespace, exchange }, Repeat::Never).await
    }

    /// Adds a binding to an exchange; whether it was not there.
    pub async fn bind(&self, namespace: NamespaceName, exchange: ExchangeName, binding: Binding) -> Result<bool> {
        Ok(self.count("exchange verb", Request::Bind { namespace, exchange, binding }).await? > 0)
    }

    /// Drops a binding of an exchange; whether it was there.
    pub async fn unbind(&self, namespace: NamespaceName, exchange: ExchangeName, binding: Binding) -> Result<bool> {
        Ok(self.count("exchange verb", Request::Unbind { namespace, exchange, binding }).await? > 0)
    }

    /// The exchanges of a namespace.
    pub async fn exchanges(&self, namespace: NamespaceName) -> Result<Vec<ExchangeView>> {
        match self.call(Request::Exchanges { namespace }, Repeat::Harmless).await? {
            Response::Exchanges(exchanges) => Ok(exchanges),
            other => Err(self.wrong_answer("listing of exchanges", &other)),
        }
    }

    /// The bindings of an exchange.
    pub async fn bindings(&self, namespace: NamespaceName, exchange: ExchangeName) -> Result<Vec<Binding>> {
        match self.call(Request::Bindings { namespace, exchange }, Repeat::Harmless).await? {
            Response::Bindings(bindings) => Ok(bindings),
            other => Err(self.wrong_answer("listing of bindings", &other)),
        }
    }

    /// A page of the namespaces, in the order of their names: those after this one.
    pub async fn namespaces(&self, after: Option<NamespaceName>) -> Result<NamespacePage> {
        match self.call(Request::Namespaces { after }, Repeat::Harmless).await? {
            Response::Namespaces { rows, next } => Ok(NamespacePage { rows, next }),
            other => Err(self.wrong_answer("listing of namespaces", &other)),
        }
    }

    /// One namespace: its policy, and how many messages are in which state, all at one journal position.
    pub async fn stats(&self, namespace: NamespaceName) -> Result<NamespaceView> {
        match self.call(Request::Stats { namespace }, Repeat::Harmless).await? {
            Response::Namespaces { mut rows, .. } if rows.len() == 1 => Ok(rows.remove(0)),
            other => Err(self.wrong_answer("request for stats", &other)),
        }
    }
}

/// Dead letters.
impl Client {
    /// A page of a group's dead letters, by topic: no more of them than fit an answer with their messages.
    pub async fn dead_letters(&self, listing: Listing, group: GroupName) -> Result<DeadPage> {
        match self.call(Request::DeadList { listing, group }, Repeat::Harmless).await? {
            Response::Dead { rows, next } => Ok(DeadPage { rows, next }),
            other => Err(self.wrong_answer("listing of dead letters", &other)),
        }
    }

    /// One dead letter of a group.
    pub async fn dead_letter(&self, topic: TopicRef, id: MessageId, group: GroupName) -> Result<DeadView> {
        match self.call(Request::DeadLook { topic, id, group }, Repeat::Harmless).await? {
            Response::Dead { mut rows, .. } if rows.len() == 1 => Ok(rows.remove(0)),
            other => Err(self.wrong_answer("look at a dead letter", &other)),
        }
    }

    /// Puts dead letters back to work, at the tail of their topics, for their group alone; how many.
    pub async fn redrive(&self, namespace: NamespaceName, group: GroupName, which: DeadWhich) -> Result<u64> {
        self.count("redrive", Request::DeadRedrive { namespace, group, which }).await
    }

    /// Throws dead letters away; how many.
    pub async fn purge_dead(&self, namespace: NamespaceName, group: GroupName, which: DeadWhich) -> Result<u64> {
        self.count("purge of dead letters", Request::DeadPurge { namespace, group, which }).await
    }
}

impl Client {
    pub(crate) async fn done(&self, what: &str, request: Request, repeat: Repeat) -> Result<()> {
        match self.call(request, repeat).await? {
            Response::Done => Ok(()),
            other => Err(self.wrong_answer(what, &other)),
        }
    }

    async fn count(&self, what: &str, request: Request) -> Result<u64> {
        match self.call(request, Repeat::Never).await? {
            Response::Count(count) => Ok(count),
            other => Err(self.wrong_answer(what, &other)),
        }
    }
}
