//! Producer sessions: whether a batch is the next one, or was decided before and is told the same again.

use alloc::format;
use alloc::string::String;

use millpond_types::{Code, Counted};

use crate::Core;
use crate::command::{ProducerBatch, PublishRun};
use crate::decide::Refusal;
use crate::decide::publish::{DISK_FULL, messages};
use crate::decide::storing::Runs;
use crate::fact::NamespaceNumber;

impl Core {
    /// The outcomes of a batch that was decided before; `None` if the batch is the next one. Where its messages are not
    /// known, for they are as many as the topics of an exchange, their number is not held against those outcomes.
    pub(super) fn repeated(
        &self,
        namespace: NamespaceNumber,
        batch: ProducerBatch,
        runs: Option<&[PublishRun]>,
    ) -> Result<Option<Runs>, Refusal> {
        let known = self.state.producers.get(&(namespace, batch.id));
        let known = known.filter(|producer| !producer.is_forgotten(self.state.now.wall));
        let Some(producer) = known.filter(|producer| producer.instance >= batch.instance) else {
            return match batch.sequence {
                1 => Ok(None),
                n => Err(self.too_early(
                    Code::SessionUnknown,
                    format!("batch {n} came, and no batch of this producer session was decided here, or it is forgotten; send batch 1 first, of a higher instance if it was sent before"),
                )),
            };
        };
        if producer.instance > batch.instance {
            let detail =
                format!("instance {} of this producer has taken over from {}", producer.instance, batch.instance);
            return Err((Code::ProducerFenced, detail));
        }
        let last = producer.last;
        if batch.sequence == last + 1 {
            return Ok(None);
        }
        match producer.outcomes(batch.sequence) {
            Some(outcomes) => {
                let decided = outcomes.messages();
                if let Some(came) = runs.map(messages)
                    && decided != came
                {
                    let detail = format!(
                        "batch {} was decided with {}, and this one has {came}: it is another batch; a producer that starts anew takes a higher instance",
                        batch.sequence,
                        Counted(decided, "message")
                    );
                    return Err((Code::ProducerFenced, detail));
                }
                Ok(Some(outcomes.runs().collect()))
            }
            None if batch.sequence > last => {
                let detail =
                    format!("batch {} came, and the last one here is {last}; send {} first", batch.sequence, last + 1);
                Err(self.too_early(Code::SequenceGap, detail))
            }
            None => {
                let detail = format!(
                    "batch {} was decided, but its outcomes are no longer kept (the last is {last})",
                    batch.sequence
                );
                Err((Code::SequenceGap, detail))
            }
        }
    }

    /// Why a batch is refused before which another has to come: that one is not let in either while the disk is full.
    fn too_early(&self, code: Code, detail: String) -> Refusal {
        if self.disk_full { (Code::DiskFull, DISK_FULL.into()) } else { (code, detail) }
    }
}
