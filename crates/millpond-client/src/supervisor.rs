//! Keeps a client connected: one task for its life, which tends the connection while it is up and makes the next one when
//! it is lost.

use std::sync::Arc;
use std::time::Duration;

use millpond_protocol::Request;
use millpond_types::Millis;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{Event, Phase, Shared};
use crate::error::{Error, Result};
use crate::link::{Link, Loss, Tasks, dial};

/// Heartbeats and pings come this many times in the period after which their absence counts.
const BEATS: u64 = 3;
/// The longest wait for leases to be released and the last frames to go out when a client is closed.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Tends connection after connection until the client is closed or a connection ends for good.
pub(crate) async fn supervise(shared: Arc<Shared>, mut link: Arc<Link>, mut tasks: Tasks) {
    loop {
        let loss = tokio::select! {
            loss = tend(&shared, &link) => loss,
            () = shared.close.notified() => {
                finish(&shared, &link, &mut tasks).await;
                closed_by_call()
            }
        };
        link.fail(loss.clone());
        // No delivery of this connection may arrive once the next one has said which leases are held.
        tasks.stop().await;
        shared.session.suspend();

        let for_good = match (&loss.fatal, shared.options.reconnect) {
            (Some(error), _) => Some(error.clone()),
            (None, None) => Some(Error::Closed { reason: format!("the connection was lost ({})", loss.reason) }),
            (None, Some(_)) => None,
        };
        if let Some(error) = for_good {
            return close(&shared, error, &loss.reason);
        }
        shared
            .phase
            .send_replace(Phase::Down(shared.unreachable(&format!("the connection was lost ({})", loss.reason))));
        shared.tell(Event::Disconnected { reason: loss.reason });
        match reconnect(&shared, link.epoch + 1).await {
            Ok((next, its_tasks)) => (link, tasks) = (next, its_tasks),
            Err(error) => {
                let reason = error.to_string();
                return close(&shared, error, &reason);
            }
        }
        shared.phase.send_replace(Phase::Up(Arc::clone(&link)));
        shared.tell(Event::Reconnected);
    }
}

/// Keeps a connection alive and its session up to date; returns when it is lost.
async fn tend(shared: &Shared, link: &Link) -> Loss {
    let sessions = async {
        loop {
            shared.session.sync(link, shared.deadline()).await;
            shared.session.resync().await;
        }
    };
    tokio::select! {
        loss = link.ended() => loss,
        loss = beat(shared, link) => loss,
        () = sessions => unreachable!("it has no end"),
    }
}

/// Sends heartbeats and pings; returns when the broker has been silent for too long.
async fn beat(shared: &Shared, link: &Link) -> Loss {
    let mut silent = 0;
    loop {
        tokio::select! {
            () = sleep(beat_time(shared, link)) => {}
            // A session may want a beat sooner than the connection did.
            () = shared.session.begun() => continue,
        }
        silent = if link.take_heard() { 0 } else { silent + 1 };
        if silent > BEATS {
            return Loss::passing("the broker was silent for too long");
        }
        let heartbeat = shared.session.heartbeat(link);
        // A heartbeat has no answer, so in silence something else has to ask for one.
        if heartbeat.is_none() || silent > 0 {
            link.tell(&Request::Ping);
        }
        if let Some(heartbeat) = heartbeat {
            link.tell(&heartbeat);
        }
    }
}

fn beat_time(shared: &Shared, link: &Link) -> Duration {
    let wanted = shared.session.heartbeat_time().map_or(link.idle, |heartbeat| heartbeat.min(link.idle));
    let Millis(time) = wanted;
    // A broker that asks for no time at all is not sent a flood.
    Duration::from_millis((time / BEATS).max(10))
}

async fn reconnect(shared: &Shared, epoch: u64) -> Result<(Arc<Link>, Tasks)> {
    let back_off = shared.options.reconnect.expect("a client without it was closed");
    for attempt in 0_u32.. {
        // Without randomness all pauses are the longest ones of their step, which is a nuisance and no fault.
        let pause = back_off.pause(attempt, getrandom::u32().unwrap_or(u32::MAX));
        let dialled = tokio::select! {
            dialled = async {
                sleep(pause).await;
                dial(&shared.options, epoch, &shared.session).await
            } => dialled,
            () = shared.close.notified() => return Err(closed_by_call().fatal.expect("it is for good")),
        };
        match dialled {
            Ok(made) => return Ok(made),
            Err(error) if error.is_passing() || matches!(error, Error::Protocol { .. }) => {
                shared.phase.send_replace(Phase::Down(error));
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("attempts have no end")
}

/// The orderly end: leases are released, and what was sent goes out.
async fn finish(shared: &Shared, link: &Link, tasks: &mut Tasks) {
    let deadline = Instant::now() + FLUSH_MAX;
    if shared.session.heartbeat(link).is_some() {
        // Once it is answered no lease fails any more. One that is lost meanwhile runs out.
        let _ = link.ask(&Request::SessionEnd, deadline).await;
    }
    link.finish();
    // A broker that does not take the rest in time gets it no more.
    let _ = timeout_at(deadline, tasks.flushed()).await;
}

fn closed_by_call() -> Loss {
    let reason = "it was closed by its owner".to_owned();
    Loss { fatal: Some(Error::Closed { reason: reason.clone() }), reason }
}

fn close(shared: &Shared, error: Error, reason: &str) {
    shared.session.close(&error);
    shared.phase.send_replace(Phase::Closed(error));
    shared.tell(Event::Closed { reason: reason.to_owned() });
}

impl Shared {
    fn tell(&self, event: Event) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }
}
