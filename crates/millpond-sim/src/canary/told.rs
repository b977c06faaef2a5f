//! Faults between the core and those who are told: what becomes of an output.

use millpond_core::command::Level;
use millpond_core::output::{Output, Reply};
use millpond_protocol::LeasedRun;
use millpond_types::{DeadView, FinishOutcome, MessageState, PublishOutcome, Sequence};

use super::{Canary, changed};

impl Canary {
    /// What becomes of answers on their way to those who asked.
    pub fn misleads(self, outputs: &mut [Output]) {
        for output in outputs {
            match (self, output) {
                (Canary::Watermark, Output::Reply { reply: Reply::Topics(views), .. }) => {
                    let cursors = views.iter_mut().flat_map(|view| &mut view.cursors);
                    cursors.for_each(|cursor| cursor.completion = Sequence(cursor.completion.0 + 1));
                }
                (Canary::Tallies | Canary::Counted, Output::Reply { reply: Reply::Namespaces { rows, .. }, .. }) => {
                    let groups = rows.iter_mut().flat_map(|row| &mut row.groups);
                    groups.for_each(|group| match self {
                        Canary::Tallies => group.tally.accepted += 1,
                        _ => group.counts.waiting += std::mem::take(&mut group.counts.delayed),
                    });
                }
                (Canary::Duplicates, Output::Reply { reply: Reply::Published { outcomes, .. }, .. }) => {
                    let outcomes = outcomes.iter_mut().map(|run| &mut run.outcome);
                    let states = outcomes.filter_map(|outcome| match outcome {
                        PublishOutcome::Duplicate { state, .. } => Some(state),
                        _ => None,
                    });
                    states.for_each(|state| {
                        let has_ended = *state == MessageState::Ended;
                        *state = if has_ended { MessageState::Waiting } else { MessageState::Ended };
                    });
                }
                (Canary::Unlike, Output::Reply { reply, .. }) => {
                    if matches!(&*reply, Reply::Refused { detail, .. } if detail.contains("this request id")) {
                        *reply = Reply::Received(Vec::new());
                    }
                }
                (Canary::Receipts, Output::Reply { reply: Reply::Finished(outcomes), .. }) => {
                    let lost = outcomes.iter_mut().filter(|run| run.outcome == FinishOutcome::LeaseLost);
                    lost.for_each(|run| run.outcome = FinishOutcome::Done);
                }
                _ => {}
            }
        }
    }

    /// What is told of the messages that are given in a turn, and of dead letters.
    pub fn miscounts(self, outputs: &mut [Output]) {
        for output in outputs {
            match (self, output) {
                (
                    Canary::Counts,
                    Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. },
                ) => leases.iter_mut().for_each(|run| run.deliveries += 1),
                (Canary::Letters, Output::Reply { reply: Reply::Dead { rows, .. }, .. }) => {
                    rows.iter_mut().for_each(|found| found.row.message.failures += 1);
                }
                _ => {}
            }
        }
    }

    /// What is told, and in which order. `late` is what has still to come.
    pub fn mixes(self, outputs: Vec<Output>, late: &mut Option<Output>) -> Vec<Output> {
        let mut mixed = Vec::new();
        for mut output in outputs {
            if let (Canary::GrowthEpochs, Output::Delivery { epoch: Some(epoch), .. }) = (self, &mut output) {
                epoch.0 -= 1;
            }
            match (&output, &*late) {
                (Output::Delivery { epoch: Some(_), .. }, None) if self == Canary::Mixed => *late = Some(output),
                (Output::Delivery { epoch: Some(next), .. }, Some(Output::Delivery { epoch: Some(epoch), .. }))
                    if next > epoch =>
                {
                    mixed.push(output);
                    mixed.extend(late.take());
                }
                _ => mixed.push(output),
            }
        }
        mixed
    }

    /// Whether an output that has to wait for the sync, or for the write alone, is told without.
    pub fn tells_early(self, output: &Output) -> bool {
        match (self, output) {
            (Canary::Lost, Output::Reply { reply, .. }) => {
                matches!(reply, Reply::Published { level: Level::Durable, .. })
            }
            (Canary::Buffered, Output::Reply { reply, .. }) => {
                matches!(reply, Reply::Published { level: Level::Buffered, .. })
            }
            (Canary::Copies, Output::Reply { reply: Reply::Published { topics, .. }, .. }) => !topics.is_empty(),
            (Canary::Back, Output::Reply { reply, .. }) => matches!(reply, Reply::Finished(_)),
            (Canary::Answered, Output::Reply { reply, .. }) => matches!(reply, Reply::Count(_)),
            (Canary::Reigns, Output::Standing { .. } | Output::Delivery { epoch: Some(_), .. }) => true,
            _ => false,
        }
    }

    /// Whether an output is dropped on its way.
    pub fn swallows(self, output: &Output) -> bool {
        match (self, output) {
            (Canary::Stuck, Output::Delivery { epoch, .. }) => epoch.is_none(),
            (Canary::Waits, Output::Reply { reply, .. }) => matches!(reply, Reply::Received(_)),
            _ => false,
        }
    }

    /// The same of one that is for a connection.
    pub fn forgets(self, output: &Output) -> bool {
        self == Canary::Answers && matches!(output, Output::Reply { .. })
    }

    /// Whom a connection is told that something is for.
    pub fn misdirects(self, output: &mut Output) {
        if let (Canary::Strangers, Output::Delivery { consumer, .. }) = (self, output) {
            *consumer = !*consumer;
        }
    }

    /// What a connection's client is shown of dead letters.
    pub fn mislabels(self, rows: &mut [DeadView]) {
        for row in rows.iter_mut().filter(|_| self == Canary::Shown) {
            row.reason.clear();
        }
    }

    /// Changes what a connection's client is given.
    pub fn garbles(self, run: &mut LeasedRun) {
        match self {
            Canary::Frames => run.block = changed(&run.block),
            Canary::Stale => run.deliveries -= 1,
            _ => {}
        }
    }
}
