//! Receive: leases once. Served by the dispatch of the same turn, or of a later one within its wait.

use alloc::format;

use millpond_types::limits::{CREDIT_MESSAGES_MAX, FILTER_MAX, PREFIXES_MAX, WAIT_MAX_MS};
use millpond_types::{Code, Filter, Millis};

use crate::Core;
use crate::command::{Receive, Ticket};
use crate::decide::Refusal;
use crate::dispatch::consumer::{Kind, NewConsumer};

impl Core {
    pub(super) fn receive(&mut self, ticket: Ticket, receive: Receive) -> Result<(), Refusal> {
        let namespace = self.namespace_of(&receive.namespace)?;
        let group = self.group_of(namespace, &receive.group)?;
        check_filter(&receive.filter)?;
        self.check_lease(receive.lease)?;
        if receive.messages == 0 || receive.bytes == 0 {
            return Err((Code::ArgumentInvalid, "a receive asks for at least one message and one byte".into()));
        }
        let until = self.state.now.run + Millis(receive.wait.0.min(WAIT_MAX_MS));
        let new = NewConsumer {
            kind: Kind::Once { ticket, until },
            group,
            filter: &receive.filter,
            messages: receive.messages.min(CREDIT_MESSAGES_MAX),
            bytes: receive.bytes,
            lease: receive.lease,
        };
        self.dispatcher.add(new, &self.state).map(|_| ()).ok_or_else(too_many_prefixes)
    }

    pub(super) fn withdraw(&mut self, receive: Ticket) {
        if let Some(slot) = self.dispatcher.receives.get(&receive) {
            self.dispatcher.remove(*slot);
        }
    }
}

pub(crate) fn check_filter(filter: &Filter) -> Result<(), Refusal> {
    if filter.size_is_valid() {
        return Ok(());
    }
    Err((Code::LimitExceeded, format!("a filter names from 1 to {FILTER_MAX} topics or prefixes")))
}

pub(super) fn too_many_prefixes() -> Refusal {
    let detail = format!(
        "at most {PREFIXES_MAX} prefixes are in use at a time, once for each set of them; ask for a set that is in use already, or for a list of topics"
    );
    (Code::LimitExceeded, detail)
}
