//! `work`: runs a command for each message, as many at a time as is allowed.
//!
//! The command gets the body on stdin and all else in variables; its exit status says what becomes of the message. A
//! signal ends the worker in order: what runs is finished, what waits here is released.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use millpond_client::{Client, Event, Report, SubscribeOptions, Workers};
use millpond_server::Signals;
use millpond_types::{Counted, ExchangeName, GroupName, LeaderEpoch, Millis, Role, RoutingKey, Standing};
use tokio::sync::{broadcast, watch};

use super::exchange;
use super::receive::group;
use crate::address::{Address, filter};
use crate::child::{Task, handle, unread};
use crate::cli::Globals;
use crate::connection::{options, runtime};
use crate::destination::Destination;
use crate::failure::Failure;
use crate::quantity;
use crate::say;

const AFTER_HELP: &str = "\
The body is the command's stdin; variables say the rest:
  MILLPOND_NAMESPACE, MILLPOND_TOPIC, MILLPOND_ID, MILLPOND_RECEIPT, MILLPOND_PRIORITY,
  MILLPOND_DELIVERIES, MILLPOND_FAILURES
  MILLPOND_LEASE          a number that grows with each lease of the topic: a fencing token
  MILLPOND_EPOCH          in an exclusive group: a number that grows with each leader
  MILLPOND_HEADER_NAME    each header, its name in capitals, _ for all but letters and digits
  MILLPOND_SERVER         the broker, so that the command can publish

The exit status decides: 0 acks, 75 releases for the --release-delay, 65 rejects, any other fails the
message, with the end of stderr as the reason. A command whose lease is lost with the worker's session
gets SIGTERM, with all that it has started. One whose message somebody else finishes, with its
receipt, runs to its end, and what it decides then has no effect.

With --forward a worker is a stage of a chain: each message of the one topic becomes one of the other,
once, whoever is killed meanwhile; with --exchange, one of each topic that the exchange leads to. What
is published carries a dedup id made of the input's id. Where the target can take no output, the worker
ends and its messages are released; an output that is too large fails its message alone, and one that
goes nowhere by a key with {topic}, or where that makes no valid key, rejects it. Where the target is full for now, with as much as its max-waiting or its
quotas let it hold, the message is released and its command run again about once a second, and the
worker says so once: make room, or pause the topic that it takes from.

When nobody reads on what the commands print, as with `| head`, the worker ends with status 1; a message
whose command fails for that is released.

On SIGTERM, SIGINT or SIGHUP the worker finishes what runs and releases the rest; a second signal sends
SIGTERM to what runs, and releases the messages of commands that it ends. With nohup, SIGHUP does
nothing. Commands of a worker that is killed (SIGKILL) run on.";

/// Run a command for each message
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Work {
    /// A namespace, topics of it, or prefixes of topics
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]", required = true)]
    from: Vec<Address>,
    /// The group to work for
    #[arg(long, value_name = "G", default_value = "default", value_parser = group)]
    group: GroupName,
    /// Commands at a time; of a range LOW..HIGH, HIGH counts, for commands run only while there are messages
    #[arg(long, value_name = "N", default_value = "1", value_parser = concurrency)]
    concurrency: u32,
    /// Messages that this worker holds at a time, those that wait for a command included; where topics have runs, a run needs
    /// as many [default: as many as run at a time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// How long a lease lasts that no heartbeat extends; a worker that died loses its leases with its session, 10s after
    /// its connection is gone or 20s after it fell silent [default: as the namespace says]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    lease: Option<Duration>,
    /// Publish what the command writes to stdout there as the message is acked, both or neither; nothing, if it writes none.
    /// With --exchange, the namespace
    #[arg(long, value_name = "NS/TOPIC|NS", conflicts_with = "at_most_once")]
    forward: Option<Address>,
    /// Publish that to the topics that this exchange of the namespace leads to: to all of them or to none
    #[arg(long, value_name = "NAME", value_parser = exchange::exchange, requires = "forward")]
    exchange: Option<ExchangeName>,
    /// What the exchange routes it by, with {topic} for the message's own topic [default: empty]
    #[arg(long, value_name = "KEY", value_parser = exchange::key, requires = "exchange")]
    key: Option<RoutingKey>,
    /// How long a message stays away whose command exits with 75
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    release_delay: Duration,
    /// Take messages that end as they are delivered: none comes again, whatever becomes of its command
    #[arg(long, conflicts_with = "lease")]
    at_most_once: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

/// Commands at a time: more processes than this is a slip of the pen.
const CONCURRENCY_MAX: u32 = 1024;

fn concurrency(text: &str) -> Result<u32, String> {
    let (low, high) = text.split_once("..").unwrap_or(("1", text));
    match (low.parse::<u32>(), high.parse::<u32>()) {
        (Ok(low), Ok(high)) if 1 <= low && low <= high && high <= CONCURRENCY_MAX => Ok(high),
        _ => Err(format!("expected a number from 1 to {CONCURRENCY_MAX}, or a range as in 1..32")),
    }
}

impl Work {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (namespace, filter) = filter(&self.from).map_err(Failure::usage)?;
        let to = |address: &Address| Destination::new(address, self.exchange.as_ref(), self.key.as_ref());
        let forward = self.forward.as_ref().map(to).transpose()?;
        runtime()?.block_on(async {
            let mut signals =
                Signals::new().map_err(|why| Failure::refused(format!("signals cannot be handled: {why}")))?;
            let client = Client::connect(options(globals)).await?;
            tokio::spawn(tell_events(client.events()));
            let subscription = client
                .subscribe(SubscribeOptions {
                    group: self.group.clone(),
                    filter,
                    // No more than run, unless it is asked for: what waits here could run elsewhere.
                    messages: self.window.map_or(self.concurrency, |window| window.max(self.concurrency)),
                    lease: self.lease,
                    at_most_once: self.at_most_once,
                    ..SubscribeOptions::new(namespace.clone())
                })
                .await?;
            let (hurry, hurried) = watch::channel(false);
            let (broken, mut breakage) = watch::channel(None);
            let (server, prints) = (globals.server.clone(), forward.is_none());
            let task = Task {
                client: client.clone(),
                namespace,
                server,
                command: self.command,
                forward,
                release_delay: self.release_delay,
                at_most_once: self.at_most_once,
                hurried,
                broken,
                told: Arc::default(),
            };
            let mut workers =
                Workers::start(subscription, self.concurrency as usize, move |delivery| handle(task.clone(), delivery));
            let mut failure = None;
            tokio::select! {
                _ = signals.next() => {}
                ended = workers.ended() => return Err(ended.err().map_or_else(over, Failure::from)),
                () = say::unread(), if prints => failure = Some(unread()),
                Ok(broken) = breakage.wait_for(Option::is_some) => failure = broken.clone(),
            }
            let stopped = workers.stop();
            tokio::pin!(stopped);
            let report = loop {
                tokio::select! {
                    report = &mut stopped => break report?,
                    _ = signals.next() => drop(hurry.send(true)),
                }
            };
            client.close().await;
            tell(&report);
            failure.map_or(Ok(()), Err)
        })
    }
}

/// A pool that ends without a reason; it has none, but the types do not know.
fn over() -> Failure {
    Failure::unreachable("the subscription has ended: start the worker again")
}

/// Says what the worker cannot vouch for.
fn tell(report: &Report) {
    if report.lost > 0 {
        say::note(format!(
            "{} lost before the work was done; others have got what was leased",
            Counted(report.lost, "lease")
        ));
    }
    if report.unconfirmed > 0 {
        say::note(format!(
            "no confirmation came for {}; at the worst there is a second delivery",
            Counted(report.unconfirmed, "message")
        ));
    }
}

/// Says on stderr what happens to the connection: a worker is long-lived, and its log is where people look.
async fn tell_events(mut events: broadcast::Receiver<Event>) {
    while let Ok(event) = events.recv().await {
        match event {
            Event::Disconnected { reason } => say::note(format!("the connection is lost ({reason}); trying again")),
            Event::Reconnected => say::note("the connection is back"),
            Event::Standing { group, standing } => say::note(told(&group, &standing)),
            Event::SessionLost { leases } => {
                say::note(format!("the session is lost, and {} with it", Counted(leases, "lease")));
            }
            _ => {}
        }
    }
}

/// What a worker of an exclusive group is, in words.
fn told(group: &GroupName, standing: &Standing) -> String {
    let Standing { role, epoch: LeaderEpoch(epoch), handover: Millis(left), .. } = *standing;
    match role {
        Role::Candidate => format!("waiting for the office of group {group}, which is in epoch {epoch}"),
        Role::Inaugurate => {
            format!(
                "leading group {group} in epoch {epoch} as soon as its last leader is done, in {left} ms at the latest"
            )
        }
        Role::Lead => format!("leading group {group} in epoch {epoch}"),
        Role::Deposed if left == 0 => format!("no longer leading group {group}, and no earlier leases last"),
        Role::Deposed => format!("no longer leading group {group}: commands that run have {left} ms to finish"),
    }
}
