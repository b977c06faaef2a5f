//! Answers for which all topics of a namespace have to be looked at: which of them stand out.
//!
//! No turn looks at more than a slice of them, so an answer takes as many turns as there are slices, and each topic counts
//! as it was in the turn that came to it. One walk goes on at a time, the others queue behind it. Walks change nothing and
//! are not journaled: a restart forgets them together with the connections that asked.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;

use bytes::Bytes;
use millpond_types::limits::TOP_MAX;
use millpond_types::{Code, TopBy, TopicName, TopicView};

use crate::Core;
use crate::command::{Ticket, Top};
use crate::decide::{Refusal, topics::view};
use crate::fact::NamespaceNumber;
use crate::output::Reply;
use crate::state::topics::Edge;

/// Topics, and what is in them, that a turn looks at: some 100 microseconds, so that nobody behind the turn notices.
const SLICE: usize = 1_000;
/// Walks at a time. Each is over in seconds and asked for by a person or a console.
const WALKS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Walks {
    queue: VecDeque<Walk>,
}

struct Walk {
    ticket: Ticket,
    namespace: NamespaceNumber,
    prefix: Bytes,
    by: TopBy,
    limit: usize,
    /// The topic that was looked at last: it goes on behind its name.
    last: Option<TopicName>,
    /// The best so far, the first of them first.
    found: BTreeMap<(Rank, TopicName), TopicView>,
}

/// Less is further in front.
type Rank = u64;

impl Walks {
    /// Whether there is something to go on with.
    pub(crate) fn any(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Core {
    /// Begins to look for the topics that stand out; the answer comes when all have been looked at.
    pub(crate) fn top(&mut self, ticket: Ticket, top: Top) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&top.namespace)?;
        if self.walks.queue.len() >= WALKS_MAX {
            let detail = format!("{WALKS_MAX} requests for the topics that stand out are being answered; wait for one");
            return Err((Code::Overloaded, detail));
        }
        let Top { prefix, by, limit, .. } = top;
        let limit = (limit as usize).clamp(1, TOP_MAX);
        self.walks.queue.push_back(Walk { ticket, namespace, prefix, by, limit, last: None, found: BTreeMap::new() });
        Ok(())
    }

    /// Looks at a slice of topics, for the walk in front.
    pub(crate) fn walk_on(&mut self) {
        let Some(mut walk) = self.walks.queue.pop_front() else { return };
        if self.look_at_slice(&mut walk) {
            let rows = walk.found.into_values().collect();
            self.reply(walk.ticket, Reply::Topics(rows));
        } else {
            self.walks.queue.push_front(walk);
        }
    }

    /// Whether it came to the end.
    fn look_at_slice(&mut self, walk: &mut Walk) -> bool {
        let (prefix, last) = (walk.prefix.clone(), walk.last.clone());
        let from = last.as_ref().map_or(Edge::Before(&prefix), |name| Edge::Behind(name.as_bytes()));
        let found = self.state.topics.walk(walk.namespace, from);
        let mut spent = 0;
        for (_, topic) in found.take_while(|(_, topic)| topic.name.as_bytes().starts_with(&prefix)) {
            if spent >= SLICE {
                return false;
            }
            spent += 1 + topic.levels.iter().map(|level| level.line.steps() + level.aside.len()).sum::<usize>();
            walk.take(view(topic, &self.state.namespaces[walk.namespace].paused));
            walk.last = Some(topic.name.clone());
        }
        true
    }
}

impl Walk {
    fn take(&mut self, view: TopicView) {
        // Nothing stands out where nothing waits.
        let Some(oldest) = view.oldest else { return };
        let rank = match self.by {
            TopBy::Depth => u64::MAX - view.counts.waiting,
            TopBy::Age => oldest.0,
        };
        self.found.insert((rank, view.name.clone()), view);
        if self.found.len() > self.limit {
            self.found.pop_last();
        }
    }
}
