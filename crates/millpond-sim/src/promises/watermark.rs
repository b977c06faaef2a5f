//! The watermark: every sequence before the completion cursor is finished, and it is the largest such; the scan cursor, the
//! next sequence and the lag are what they say. Until the start of a group has come to a topic nothing is known to be finished.

use millpond_core::command::TopicRef;
use millpond_core::output::Reply;
use millpond_types::TopicView;

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// A topic was shown, as it is now.
pub fn shown(topic: &TopicRef, reply: &Reply, model: &Model, sights: &mut Sights) -> Kept {
    let Reply::Topics(views) = reply else { return Ok(()) };
    let Some(namespace) = model.namespace(&topic.namespace) else { return Ok(()) };
    let cursors = views.iter().flat_map(|TopicView { cursors, .. }| cursors);
    let mut held = 0;
    for cursor in cursors {
        let of = model.groups_of(namespace).find(|group| model.groups[group].name == cursor.group);
        let found = of.and_then(|group| model.topic_named(group, &topic.name));
        let Some((_, found)) = found else {
            return Err(Violation::watermark(format!(
                "{} is shown of group {}, which has none",
                topic.name, cursor.group
            )));
        };
        let at = cursor.priority;
        let lag = found.messages.keys().filter(|(priority, _)| *priority == at).count() as u64;
        let told = (cursor.completion, cursor.scan, cursor.next, cursor.lag);
        let is = (found.completion(at), found.scan(at), found.next(at), lag);
        if told != is {
            let what =
                format!("of {} in group {} at {at:?} {told:?} is told, and it is {is:?}", topic.name, cursor.group);
            return Err(Violation::watermark(what));
        }
        held += lag;
        sights.saw("cursors compared");
        sights.saw_many("watermarks behind the scan", u64::from(cursor.completion < cursor.scan));
    }
    let groups = model.groups_of(namespace).filter_map(|group| model.topic_named(group, &topic.name));
    let all: usize = groups.map(|(_, topic)| topic.messages.len()).sum();
    if !views.is_empty() && held != all as u64 {
        return Err(Violation::watermark(format!("of {} a lag of {held} is told, and it is {all}", topic.name)));
    }
    Ok(())
}
