//! How leases end: by a verb that names them, with a run, when their time is over, or with what they are of.

use millpond_core::command::{Command, Finish, FinishVerb, Forward, Route};
use millpond_core::fact::{DeadReason, Fact, Victims};
use millpond_types::{LeaseNumber, SessionId};

use super::{Leases, is_named};
use crate::model::{Message, Model, TopicKey};
use crate::promises::Kept;
use crate::sights::Sights;
use crate::verdict::Violation;

/// How a lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Acked,
    Back {
        failed: bool,
    },
    Dead(DeadReason),
    /// Another message stands for it.
    GaveWay,
}

impl Leases {
    /// Leases end, each as it may.
    pub(super) fn ended(&self, model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
        let (topic, group) = fact.topic().expect("a lease is of a topic");
        let key = (group.expect("and of a group"), topic);
        let (lease, count, end) = match fact {
            Fact::Acked { lease, count, .. } => (lease, count, End::Acked),
            Fact::Returned { lease, count, failed, .. } => (lease, count, End::Back { failed: *failed }),
            Fact::Died { which: Victims::Leased { lease, count }, reason, .. } => (lease, count, End::Dead(*reason)),
            Fact::Superseded { which: Victims::Leased { lease, count }, .. } => (lease, count, End::GaveWay),
            _ => unreachable!("called for these facts alone"),
        };
        for lease in (lease.0..lease.0 + u64::from(*count)).map(LeaseNumber) {
            let message = &model.topics[&key].messages[&model.topics[&key].leases[&lease]];
            self.may_end(model, (key, lease, message), end, asked, sights)?;
        }
        Ok(())
    }

    fn may_end(
        &self,
        model: &Model,
        (key, lease, message): (TopicKey, LeaseNumber, &Message),
        end: End,
        asked: Option<&Command>,
        sights: &mut Sights,
    ) -> Kept {
        let holder = message.terms.holder;
        // Who gives a message of a run back gives back what is behind it.
        let comes_back = matches!(end, End::Back { failed: false } | End::GaveWay);
        let is_rest = message.is_of_run() && comes_back;
        let may = match asked {
            Some(Command::Finish(Finish { verb, receipts, .. })) => {
                let is_meant = match verb {
                    FinishVerb::Ack => end == End::Acked,
                    FinishVerb::Release { .. } => comes_back,
                    FinishVerb::Fail { .. } => {
                        matches!(end, End::Back { failed: true } | End::GaveWay | End::Dead(DeadReason::Failed))
                    }
                    FinishVerb::Reject { .. } => end == End::Dead(DeadReason::Rejected),
                    FinishVerb::Damaged => end == End::Dead(DeadReason::Damaged),
                    FinishVerb::Extend { .. } => false,
                };
                let gives_back = matches!(verb, FinishVerb::Release { .. } | FinishVerb::Fail { .. });
                match is_named(receipts, key, lease) {
                    true => is_meant,
                    false => gives_back && is_rest,
                }
            }
            Some(
                Command::Forward(Forward { receipts, .. }) | Command::Route(Route { receipts: Some(receipts), .. }),
            ) => end == End::Acked && is_named(receipts, key, lease),
            Some(Command::WithdrawRequest { .. }) => comes_back,
            Some(Command::SessionBegin(begin)) => {
                is_rest || comes_back && holder == begin.session && !is_named(&begin.held, key, lease)
            }
            Some(Command::SessionEnd(session)) => is_rest || comes_back && holder == *session,
            _ if model.groups[&key.0].is_ending && end == (End::Back { failed: false }) => true,
            Some(_) => false,
            // A forward that had to wait.
            None if end == End::Acked => true,
            None => match end {
                End::Back { failed: true } | End::Dead(DeadReason::LeaseExpired) | End::GaveWay => {
                    if self.is_up(model, key, message) && !self.is_kept(key, lease) {
                        sights.saw(match holder {
                            SessionId(0) => "leases that ran out at their deadline",
                            _ => "leases that ran out with their session",
                        });
                        return Ok(());
                    }
                    is_rest
                }
                _ => is_rest,
            },
        };
        if may {
            return Ok(());
        }
        let what = format!("lease {} of {key:?} ends by {end:?} at {:?}: {:?}", lease.0, self.now, message.terms);
        match asked {
            None if self.is_up(model, key, message) => Err(Violation::grace(what)),
            _ => Err(Violation::leases(what)),
        }
    }
}
