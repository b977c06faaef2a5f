//! Waiting until a broker has done what it does behind its answers: checkpoints, merging, giving space back.

use std::time::Duration;

use super::disk::Usage;
use super::scrape::Scrape;
use super::target::Target;
use super::wire::nanos;
use crate::failure::Failure;

/// How long nothing may have changed for the broker to count as quiet: longer than the pauses of work that is paced.
const QUIET: Duration = Duration::from_secs(3);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until disk and checkpoints stand still, `bound` at most. The seconds until the last change, `None` if the bound
/// came first or the broker's directory is not known.
pub fn settle(target: &Target, bound: Duration) -> Result<Option<f64>, Failure> {
    let begin = nanos();
    let Some(mut last) = trace(target)? else { return Ok(None) };
    let mut changed = begin;
    while nanos() - begin < bound.as_nanos() as u64 {
        std::thread::sleep(LOOK);
        let now = trace(target)?;
        if now.as_ref() != Some(&last) {
            let Some(now) = now else { return Ok(None) };
            (last, changed) = (now, nanos());
        }
        if nanos() - changed >= QUIET.as_nanos() as u64 {
            return Ok(Some((changed - begin) as f64 / 1e9));
        }
    }
    Ok(None)
}

/// What changes while a broker works in the background.
#[derive(PartialEq)]
struct Trace {
    usage: Usage,
    checkpoints: Option<f64>,
    writes: Option<f64>,
}

fn trace(target: &Target) -> Result<Option<Trace>, Failure> {
    let scrape = Scrape::take(target.http());
    let (checkpoints, writes) =
        (scrape.value("millpond_checkpoints_total"), scrape.value("millpond_tree_writes_total"));
    Ok(Usage::of(target)?.map(|usage| Trace { usage, checkpoints, writes }))
}
