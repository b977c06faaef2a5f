//! Between a group and its page. Where its topics are, in memory or not, is not for the page to say.

use super::Group;
use crate::fact::{GroupNumber, NamespaceNumber};
use crate::page::GroupPage;
use crate::state::spans::Spans;

impl Group {
    /// A group, all of whose topics are in the store.
    pub(crate) fn of_page(namespace: NamespaceNumber, page: GroupPage) -> Group {
        let GroupPage {
            number: _,
            name,
            is_ending,
            office,
            start,
            starting,
            unsettled,
            counts,
            tally,
            spans,
            bytes,
            topics,
            shelves,
        } = page;
        Group {
            namespace,
            name,
            is_ending,
            office,
            start,
            starting,
            unsettled,
            topics,
            counts,
            tally,
            spans: Spans::of_page(spans),
            bytes,
            shelves,
            cold: shelves,
            held_by_none: 0,
        }
    }

    pub(crate) fn page(&self, number: GroupNumber) -> GroupPage {
        let Group {
            namespace: _,
            name,
            is_ending,
            office,
            start,
            starting,
            unsettled,
            topics,
            counts,
            tally,
            spans,
            bytes,
            shelves,
            cold: _,
            held_by_none: _,
        } = self.clone();
        let spans = spans.page().to_vec();
        GroupPage {
            number,
            name,
            is_ending,
            office,
            start,
            starting,
            unsettled,
            counts,
            tally,
            spans,
            bytes,
            topics,
            shelves,
        }
    }
}
