//! `receive`: leases messages once and prints each as a JSON object on a line of its own.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use millpond_client::{Client, Deliveries, Delivery, Receipts, ReceiveOptions};
use millpond_types::limits::{RECEIVE_MESSAGES_MAX, WAIT_MAX_MS};
use millpond_types::{GroupName, RequestId};
use serde_json::{Map, Value};

use crate::address::{Address, filter};
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::{json, quantity, say};

/// Lease messages and print each as a JSON object on a line
#[derive(Args)]
#[command(after_help = "A body that is UTF-8 text is printed as it is (encoding utf8), any other in base64.")]
pub struct Receive {
    /// A namespace, topics of it, or prefixes of topics
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]", required = true)]
    from: Vec<Address>,
    /// The group to receive for
    #[arg(long, value_name = "G", default_value = "default", value_parser = group)]
    group: GroupName,
    /// At most so many messages; fewer are leased where they would take more memory than the broker has room for
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max: u32,
    /// How long to wait for the first message, at most 10m [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = wait)]
    wait: Option<Duration>,
    /// How long the leases last [default: as the namespace says]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    lease: Option<Duration>,
    /// Ack the messages once they are printed
    #[arg(long, conflicts_with = "at_most_once")]
    ack: bool,
    /// Name this receive, so that it can be repeated: a broker that has answered it gives the same leases again for 30 s, to
    /// a command that was started anew as well. A repeat asks for the same group, topics and messages. Drawn at random for each receive
    #[arg(long, value_name = "UUID", value_parser = request, conflicts_with = "at_most_once")]
    request: Option<RequestId>,
    /// Take messages that end as they are delivered: none comes again, whatever becomes of this command
    #[arg(long, conflicts_with = "lease")]
    at_most_once: bool,
}

/// Reads the name of a group.
pub fn group(text: &str) -> Result<GroupName, String> {
    GroupName::try_from(text).map_err(|bad| format!("it is no name of a group: {bad}"))
}

/// Reads how long to wait. The broker would wait no longer than this without a word.
fn wait(text: &str) -> Result<Duration, String> {
    let wait = quantity::duration(text)?;
    if wait > Duration::from_millis(WAIT_MAX_MS) {
        return Err("one call waits for at most 10m: repeat it, or use `millpond work`".into());
    }
    Ok(wait)
}

/// Reads the id of a receive: 32 hexadecimal digits, with or without hyphens.
fn request(text: &str) -> Result<RequestId, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32 && !digits.starts_with('+'));
    id.map(RequestId).ok_or_else(|| "expected 32 hexadecimal digits, as `uuidgen` prints them".into())
}

impl Receive {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (namespace, filter) = filter(&self.from).map_err(Failure::usage)?;
        if self.request.is_some() && self.max > RECEIVE_MESSAGES_MAX {
            return Err(Failure::usage(format!(
                "one receive is given {RECEIVE_MESSAGES_MAX} messages at most: with --request, --max is no more than that"
            )));
        }
        with_client(globals, async |client| {
            let mut left = self.max;
            let mut wait = self.wait.unwrap_or_default();
            while left > 0 {
                if say::is_unread() {
                    return Err(Failure::refused("stdout is closed: nothing was received, for nobody reads it"));
                }
                let options = ReceiveOptions {
                    group: self.group.clone(),
                    filter: filter.clone(),
                    messages: left,
                    lease: self.lease,
                    wait,
                    at_most_once: self.at_most_once,
                    request: self.request,
                    ..ReceiveOptions::new(namespace.clone())
                };
                let deliveries = client.receive(options).await?;
                if deliveries.is_empty() {
                    break;
                }
                // What has a name is one receive, and no second one goes by it.
                left = if self.request.is_some() { 0 } else { left.saturating_sub(deliveries.len() as u32) };
                // Only the first message is waited for; what else is there comes at once.
                wait = Duration::ZERO;
                self.print(client, deliveries).await?;
            }
            Ok(())
        })
    }

    async fn print(&self, client: &Client, deliveries: Deliveries) -> Result<(), Failure> {
        let receipts = deliveries.receipts();
        let mut output = std::io::stdout().lock();
        let printed = deliveries.map(|delivery| message(&delivery)).try_for_each(|line| writeln!(output, "{line}"));
        if let Err(why) = printed.and_then(|()| output.flush()) {
            if self.at_most_once {
                return Err(Failure::refused(format!("stdout is closed ({why}): the messages are lost")));
            }
            // Nobody reads on: the messages go back at once instead of at the end of their leases.
            client.release(receipts, Duration::ZERO).await?;
            return Err(Failure::refused(format!("stdout is closed ({why}): the messages were given back")));
        }
        if self.ack { ack(client, receipts).await } else { Ok(()) }
    }
}

async fn ack(client: &Client, receipts: Receipts) -> Result<(), Failure> {
    match client.ack(receipts).await?.lost() {
        0 => Ok(()),
        lost => Err(Failure::refused(format!(
            "{lost} of the messages were printed but could not be acked: their leases ended before. Ask for a longer --lease"
        ))),
    }
}

/// A delivery as an object.
fn message(delivery: &Delivery) -> Value {
    let mut object = Map::new();
    object.insert("topic".into(), delivery.topic.as_str().into());
    object.insert("id".into(), delivery.id.to_string().into());
    object.insert("receipt".into(), delivery.receipt.to_string().into());
    object.insert("lease".into(), delivery.lease().0.into());
    object.insert("priority".into(), delivery.priority().level().into());
    object.insert("published".into(), json::time_text(delivery.published).into());
    object.insert("deliveries".into(), delivery.deliveries.into());
    object.insert("failures".into(), delivery.failures.into());
    if !delivery.dedup_id.is_empty() {
        object.insert("dedup_id".into(), String::from_utf8_lossy(&delivery.dedup_id).into());
    }
    object.insert("headers".into(), json::headers(delivery.headers()));
    json::insert_body(&mut object, &delivery.body);
    Value::Object(object)
}
