//! What a command that `work` runs has written goes on to a topic, or to an exchange, as its message is acked.

use std::time::Duration;

use millpond_client::{Advice, Decision, Delivery, Error, Message};
use millpond_types::Code;

use crate::child::Task;
use crate::destination::{Destination, To};
use crate::failure::Failure;
use crate::say;

/// How long a message stays away whose output the broker has no room for.
const FORWARD_PAUSE: Duration = Duration::from_secs(1);

/// Publishes what the command has written as its message is acked.
pub async fn forward(task: &Task, delivery: &Delivery, destination: &Destination, output: Vec<u8>) -> Decision {
    let (client, namespace, priority) = (&task.client, &destination.namespace, delivery.priority());
    let forwarded = match destination.to.of(&delivery.topic) {
        Ok(To::Topic(topic)) => {
            client.forward(delivery, namespace, vec![Message::new(topic, output).priority(priority)]).await
        }
        Ok(To::Exchange(exchange, key)) => {
            let message = Message::routed(exchange, key, output).priority(priority);
            client.forward_routed(delivery, namespace, message).await
        }
        Err(bad) => Err(Error::Invalid(format!("its topic makes no routing key: {bad}"))),
    };
    let (code, detail) = match forwarded {
        Ok(forwarded) if forwarded.is_done() => return Decision::Settled,
        Ok(forwarded) if forwarded.is_lost() => {
            say::note(format!("the lease of {} was lost before its output was published; it was not", delivery.id));
            // There is nothing to give back, and nothing of its run is begun behind it.
            return Decision::Release { delay: Duration::ZERO };
        }
        Ok(forwarded) => match forwarded.refusal() {
            Some((code, detail)) => (code, detail.to_owned()),
            // Nothing spoke against the output: something before the message in its run is not finished. It will be, or takes
            // this one back along.
            None => return Decision::Release { delay: FORWARD_PAUSE },
        },
        Err(Error::Refused { code, detail }) => (code, detail),
        Err(Error::Invalid(detail)) => {
            say::note(format!("the output for {} was not published: {detail}", delivery.id));
            return Decision::reject(detail);
        }
        // Done or not: if it was, there is nothing to release.
        Err(error) => {
            say::note(format!("the output for {} may be published or not: {error}", delivery.id));
            return Decision::Release { delay: Duration::ZERO };
        }
    };
    let why = format!("{}: {detail}", code.name());
    match (code, code.advice()) {
        (_, Advice::Retry) => {
            tell_that_it_waits(task, code, &why, destination);
            Decision::Release { delay: FORWARD_PAUSE }
        }
        // The topics that a binding makes of its key may have no valid names.
        (Code::Unroutable | Code::NameInvalid, _) if destination.to.is_by_topic() => {
            say::note(format!("{} is rejected, for its output goes nowhere: {why}", delivery.id));
            Decision::reject(format!("its output goes nowhere: {why}"))
        }
        // Of an exchange, the copies together have a limit.
        (Code::MessageTooLarge | Code::LimitExceeded, _) => {
            say::note(format!("the output for {} was refused: {why}", delivery.id));
            Decision::fail(format!("its output was refused: {why}"))
        }
        // Every other output would be refused as well.
        (_, Advice::Fix | Advice::Report) => {
            let why = format!("outputs cannot be published to {destination} ({why}); its message was released");
            task.broken.send_replace(Some(Failure::refused(why)));
            Decision::Release { delay: Duration::ZERO }
        }
    }
}

/// Says once why outputs are refused, where that lasts until somebody does something about it: until then commands run over and
/// over for nothing. What else is to be tried again is over by itself.
fn tell_that_it_waits(task: &Task, code: Code, why: &str, destination: &Destination) {
    let remedy = match code {
        Code::TopicFull | Code::QuotaExceeded => "let its messages be worked off, or raise the limit",
        Code::DiskFull => "make room on the disk",
        _ => return,
    };
    if task.told.lock().expect("nobody panics with it").insert(code) {
        say::note(format!(
            "{destination} takes no outputs for now ({why}): their messages are released, and the command is run again for \
             them about once a second; {remedy}. This is said once"
        ));
    }
}
