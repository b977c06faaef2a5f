//! One message in the hands of a command that `work` runs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use millpond_client::{Client, Decision, Delivery};
use millpond_types::limits::{PUBLISH_BYTES_MAX, REASON_MAX};
use millpond_types::{Code, NamespaceName};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::destination::Destination;
use crate::failure::Failure;
use crate::forward::forward;
use crate::say;

/// The message is given back without fault (EX_TEMPFAIL of sysexits.h).
const RELEASE: i32 = 75;
/// The message becomes a dead letter (EX_DATAERR).
const REJECT: i32 = 65;
/// How long stderr is read on after the command has ended, and stdout after it was told to stop: something that it left running
/// may hold them open for ever.
const REST: Duration = Duration::from_millis(500);

/// What every message is handled with.
#[derive(Clone)]
pub struct Task {
    /// Finishes the messages.
    pub client: Client,
    /// Where they come from.
    pub namespace: NamespaceName,
    /// The broker's address, for commands that publish.
    pub server: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Where what the command writes to stdout goes.
    pub forward: Option<Destination>,
    /// How long a message stays away that the command gives back.
    pub release_delay: Duration,
    /// Whether messages have ended as they came.
    pub at_most_once: bool,
    /// Becomes true when commands that run are to be told to stop.
    pub hurried: watch::Receiver<bool>,
    /// Takes the reason why no message can be handled here.
    pub broken: watch::Sender<Option<Failure>>,
    /// Why outputs were refused for now, as far as it was told.
    pub told: Arc<Mutex<BTreeSet<Code>>>,
}

/// Why a worker ends whose stdout nobody reads any more.
pub fn unread() -> Failure {
    Failure::refused("stdout is closed: nobody reads what the commands print. What was not finished was given back")
}

/// Runs the command for one message and decides by its exit status what becomes of the message.
pub async fn handle(task: Task, delivery: Delivery) -> Decision {
    let (decision, output) = run(&task, &delivery).await;
    match (decision, &task.forward) {
        _ if task.at_most_once => Decision::Settled,
        _ if output.len() > PUBLISH_BYTES_MAX => {
            let why = format!(
                "its output has more than {PUBLISH_BYTES_MAX} bytes, the most that a publish holds: keep large ones \
                 elsewhere and publish where they are"
            );
            say::note(format!("{} is rejected: {why}", delivery.id));
            Decision::reject(why)
        }
        (Decision::Ack, Some(to)) if !output.is_empty() => forward(&task, &delivery, to, output).await,
        (decision, _) => decision,
    }
}

/// What the exit status says, and what was written to stdout if that is to be forwarded.
async fn run(task: &Task, delivery: &Delivery) -> (Decision, Vec<u8>) {
    let mut child = match start(task, delivery) {
        Ok(child) => child,
        Err(why) => {
            let why = format!("the command {:?} cannot be started: {why}; its message was released", task.command[0]);
            task.broken.send_replace(Some(Failure::usage(why)));
            return (Decision::Release { delay: Duration::ZERO }, Vec::new());
        }
    };
    let input = child.stdin.take().expect("stdin is a pipe");
    let errors = child.stderr.take().expect("stderr is a pipe");
    tokio::spawn(feed(input, delivery.body.clone()));
    let output = child.stdout.take().map(|stdout| tokio::spawn(whole(stdout)));
    let tail = tokio::spawn(tail(errors));
    let group = child.id().and_then(|id| Pid::from_raw(id as i32));
    let (status, stopped) = match wait(task, delivery, &mut child, group).await {
        Ok(ended) => ended,
        Err(why) => return (Decision::fail(format!("the command cannot be waited for: {why}")), Vec::new()),
    };
    let rest = tokio::time::timeout(REST, tail).await;
    let stderr = rest.ok().and_then(Result::ok).unwrap_or_default();
    let decision = match status.code() {
        Some(0) => Decision::Ack,
        Some(REJECT) => Decision::reject(reason(status, stderr)),
        // What the worker has stopped itself is no fault of the message.
        _ if stopped == Some(Stop::Hurried) => Decision::Release { delay: Duration::ZERO },
        Some(RELEASE) => Decision::Release { delay: task.release_delay },
        // It may have failed for that.
        _ if task.forward.is_none() && say::is_unread() => {
            task.broken.send_replace(Some(unread()));
            Decision::Release { delay: Duration::ZERO }
        }
        _ => Decision::fail(reason(status, stderr)),
    };
    match output {
        // A command that wrote too much may have ended because nobody read on.
        Some(output) if decision == Decision::Ack || output.is_finished() => {
            match whole_output(task, delivery, output, (group, stopped)).await {
                Some(output) => (decision, output),
                None => (Decision::Release { delay: Duration::ZERO }, Vec::new()),
            }
        }
        _ => (decision, Vec::new()),
    }
}

/// What the command has written, once nothing holds stdout any more: all of it is the message. `None` if what the command has left
/// running has to stop before that.
async fn whole_output(
    task: &Task,
    delivery: &Delivery,
    mut output: JoinHandle<Vec<u8>>,
    (group, stopped): (Option<Pid>, Option<Stop>),
) -> Option<Vec<u8>> {
    let ended = match stopped {
        Some(_) => tokio::time::timeout(REST, &mut output).await.ok(),
        None => tokio::select! {
            ended = &mut output => Some(ended),
            _ = stop(task, delivery) => {
                tell_to_stop(group);
                None
            }
        },
    };
    output.abort();
    ended.map(Result::unwrap_or_default)
}

fn start(task: &Task, delivery: &Delivery) -> std::io::Result<Child> {
    let mut command = Command::new(&task.command[0]);
    command.args(&task.command[1..]);
    command.env("MILLPOND_SERVER", &task.server);
    command.env("MILLPOND_NAMESPACE", task.namespace.as_str());
    command.env("MILLPOND_TOPIC", delivery.topic.as_str());
    command.env("MILLPOND_ID", delivery.id.to_string());
    command.env("MILLPOND_RECEIPT", delivery.receipt.to_string());
    command.env("MILLPOND_LEASE", delivery.lease().0.to_string());
    if let Some(epoch) = delivery.epoch {
        command.env("MILLPOND_EPOCH", epoch.0.to_string());
    }
    command.env("MILLPOND_PRIORITY", delivery.priority().level().to_string());
    command.env("MILLPOND_DELIVERIES", delivery.deliveries.to_string());
    command.env("MILLPOND_FAILURES", delivery.failures.to_string());
    for (key, value) in delivery.headers() {
        // No variable can hold a zero byte; such a header is left out rather than cut.
        if !value.contains(&0) {
            command.env(header_variable(key), OsStr::from_bytes(value));
        }
    }
    // A group of its own: Ctrl-C on a terminal is meant for the worker, which lets the command finish, and a signal of
    // ours reaches all that the command has started.
    command.process_group(0).stdin(Stdio::piped()).stderr(Stdio::piped());
    if task.forward.is_some() {
        command.stdout(Stdio::piped());
    }
    command.spawn()
}

/// `MILLPOND_HEADER_` and the key in capitals, `_` for all but letters and digits.
fn header_variable(key: &[u8]) -> String {
    let letter = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() as char } else { '_' };
    "MILLPOND_HEADER_".chars().chain(key.iter().map(letter)).collect()
}

async fn feed(mut input: ChildStdin, body: Bytes) {
    // A command that does not read its body to the end is free not to.
    let _ = input.write_all(&body).await;
}

/// All that is written, but no more than any publish could hold: one byte beyond shows that it is too much.
async fn whole(output: ChildStdout) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read ends where it does.
    let _ = output.take(PUBLISH_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await;
    bytes
}

/// Passes stderr on and keeps its end.
async fn tail(mut errors: ChildStderr) -> Vec<u8> {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        let mut own = tokio::io::stderr();
        let _ = own.write_all(&chunk[..read]).await;
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(REASON_MAX));
    }
    kept
}

/// Why what runs is told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    LeaseLost,
    Hurried,
}

/// Waits for the end of the command, and sends it SIGTERM once if it has to stop; also whether it was for that.
async fn wait(
    task: &Task,
    delivery: &Delivery,
    child: &mut Child,
    group: Option<Pid>,
) -> std::io::Result<(ExitStatus, Option<Stop>)> {
    let stopped = tokio::select! {
        status = child.wait() => return Ok((status?, None)),
        stopped = stop(task, delivery) => stopped,
    };
    tell_to_stop(group);
    Ok((child.wait().await?, Some(stopped)))
}

/// Resolves when what runs for a message has to stop, for its lease is lost or the worker is in a hurry.
async fn stop(task: &Task, delivery: &Delivery) -> Stop {
    let mut hurried = task.hurried.clone();
    let hurry = async {
        if hurried.wait_for(|hurried| *hurried).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = task.client.lease_lost(&delivery.receipt), if !task.at_most_once => {
            say::note(format!("the lease of {} is lost; its command is told to stop", delivery.id));
            Stop::LeaseLost
        }
        () = hurry => Stop::Hurried,
    }
}

/// Sends SIGTERM to the whole group of a command: a shell that dies alone leaves what it has started at work on a message of
/// others. It may have ended in this very moment.
fn tell_to_stop(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::TERM);
    }
}

/// The end of stderr, or how the command ended where it said nothing.
fn reason(status: ExitStatus, stderr: Vec<u8>) -> Bytes {
    let text = stderr.trim_ascii();
    if !text.is_empty() {
        return Bytes::copy_from_slice(text);
    }
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}").into(),
        (None, signal) => format!("killed by signal {}", signal.unwrap_or(0)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_become_variables() {
        assert_eq!(header_variable(b"content-type"), "MILLPOND_HEADER_CONTENT_TYPE");
        assert_eq!(header_variable("größe".as_bytes()), "MILLPOND_HEADER_GR____E");
    }

    #[test]
    fn a_silent_command_still_gives_a_reason() {
        assert_eq!(reason(ExitStatus::from_raw(3 << 8), Vec::new()), "exit status 3");
        assert_eq!(reason(ExitStatus::from_raw(9), b" \n".to_vec()), "killed by signal 9");
        assert_eq!(reason(ExitStatus::from_raw(9), b"out of ink\n".to_vec()), "out of ink");
    }
}
