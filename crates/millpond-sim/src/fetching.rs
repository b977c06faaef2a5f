//! What the core wants from the disk, on its way there and back: read at once, or while turns go by, in batches that come
//! back in any order.

use millpond_core::Core;
use millpond_core::fact::FactLog;
use millpond_core::store::Want;
use millpond_storage::store::{Fetched, LayeredStore, Resolved, Wants};
use millpond_storage::tree::TreeError;

use crate::streams::Stream;

/// Wants of a batch at most: few, so that there are many.
const BATCH_MAX: u64 = 8;

/// See the module.
#[derive(Default)]
pub struct Fetching {
    waiting: Vec<Want>,
    /// What has to be read further.
    again: Vec<Wants>,
    /// Read, and not told to the core.
    found: Vec<Fetched>,
}

impl Fetching {
    /// Whether the core waits for anything.
    pub fn is_waiting(&self) -> bool {
        !(self.waiting.is_empty() && self.again.is_empty() && self.found.is_empty())
    }

    /// Takes what the core wants.
    pub fn send(&mut self, core: &mut Core) {
        self.waiting.append(core.wanted());
    }

    /// Reads a batch; false if nothing is to be read.
    pub fn read(&mut self, store: &LayeredStore, disk: &mut Stream) -> Result<bool, TreeError> {
        let wants = match self.again.pop() {
            Some(wants) => wants,
            None if self.waiting.is_empty() => return Ok(false),
            None => {
                let count = (disk.between(1, BATCH_MAX) as usize).min(self.waiting.len());
                self.waiting.drain(..count).collect::<Vec<Want>>().into()
            }
        };
        let at = disk.below(self.found.len() as u64 + 1) as usize;
        self.found.insert(at, store.read(wants)?);
        Ok(true)
    }

    /// Tells the core what was found.
    pub fn load(&mut self, store: &LayeredStore, core: &mut Core, log: &mut dyn FactLog) {
        for fetched in std::mem::take(&mut self.found) {
            let Resolved { answers, again } = store.resolve(fetched);
            answers.into_iter().for_each(|answer| core.load(answer, log));
            self.again.extend(again);
        }
    }
}
