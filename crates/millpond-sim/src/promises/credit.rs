//! Credit: an attached consumer is given what it has granted, in messages and in bytes, and nothing beyond. The last message
//! may take more bytes than are left; what is owed then is taken from the next credit. A one-shot receive is given no more
//! than it asked for, but at least one message.

use std::collections::BTreeMap;

use millpond_core::command::{Attach, Command, Receive, Ticket};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::SessionId;

use super::Kept;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What one consumer may be given.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    messages: u64,
    /// Less than nothing where the last message took more than was left.
    bytes: i128,
    /// Of a receive, until it has been given something.
    takes_one: bool,
    is_once: bool,
}

impl Credit {
    /// Of a consumer that is attached.
    pub fn new(messages: u32, bytes: u64) -> Credit {
        Credit { messages: messages.into(), bytes: bytes.into(), takes_one: false, is_once: false }
    }

    fn once(messages: u32, bytes: u64) -> Credit {
        Credit { takes_one: true, is_once: true, ..Credit::new(messages, bytes) }
    }

    /// More of it.
    pub fn add(&mut self, messages: u32, bytes: u64) {
        self.messages += u64::from(messages);
        self.bytes += i128::from(bytes);
    }

    /// Whether a consumer that is attached may be given more.
    pub fn is_left(&self) -> bool {
        self.messages > 0 && self.bytes > 0
    }

    /// Messages of these sizes are given.
    pub fn take(&mut self, sizes: impl Iterator<Item = u64>, sights: &mut Sights) -> Kept {
        for size in sizes {
            let fits = self.bytes >= i128::from(size);
            let may = self.messages > 0 && if self.is_once { fits || self.takes_one } else { self.bytes > 0 };
            if !may {
                return Err(Violation::credit(format!("a message of {size} bytes is given on {self:?}")));
            }
            self.messages -= 1;
            self.bytes -= i128::from(size);
            self.takes_one = false;
            sights.saw(if self.is_once { "given to a receive" } else { "given on credit" });
            sights.saw_many("given more bytes than were left", u64::from(!fits));
        }
        Ok(())
    }
}

/// See the module.
#[derive(Default)]
pub struct Credits {
    attached: BTreeMap<(SessionId, u32), Credit>,
    receiving: BTreeMap<Ticket, Credit>,
}

impl Credits {
    /// A command was decided, and this is the answer if there is one yet.
    pub fn decided(&mut self, ticket: Ticket, command: &Command, reply: Option<&Reply>) {
        match (command, reply) {
            (Command::Attach(Attach { session, consumer, messages, bytes, .. }), Some(Reply::Done)) => {
                self.attached.insert((*session, *consumer), Credit::new(*messages, *bytes));
            }
            (Command::Credit { session, consumer, messages, bytes }, _) => {
                if let Some(credit) = self.attached.get_mut(&(*session, *consumer)) {
                    credit.add(*messages, *bytes);
                }
            }
            (Command::Detach { session, consumer }, Some(Reply::Done)) => {
                self.attached.remove(&(*session, *consumer));
            }
            (Command::SessionBegin(begin), Some(Reply::SessionBegun { .. })) => self.drop_consumers(begin.session),
            (Command::SessionLost(session) | Command::SessionEnd(session), _) => self.drop_consumers(*session),
            (Command::Receive(Receive { messages, bytes, .. }), None) => {
                self.receiving.insert(ticket, Credit::once(*messages, *bytes));
            }
            _ => {}
        }
    }

    /// A turn has made these outputs.
    pub fn made(&mut self, outputs: &[Output], sights: &mut Sights) -> Kept {
        for output in outputs {
            match output {
                Output::Delivery { session, consumer, leases, .. } => {
                    let Some(credit) = self.attached.get_mut(&(*session, *consumer)) else {
                        let what = format!("consumer {consumer} of {session:?} is given messages, and is not attached");
                        return Err(Violation::credit(what));
                    };
                    credit.take(leases.iter().flat_map(sizes), sights)?;
                }
                Output::Reply { ticket, reply } => {
                    if let (Some(mut credit), Reply::Received(leases)) = (self.receiving.remove(ticket), reply) {
                        credit.take(leases.iter().flat_map(sizes), sights)?;
                    }
                }
                Output::SessionExpired(session) => self.drop_consumers(*session),
                Output::Standing { .. } => {}
            }
        }
        Ok(())
    }

    /// The consumers that may be given more.
    pub fn hungry(&self) -> impl Iterator<Item = (SessionId, u32)> {
        self.attached.iter().filter(|(_, credit)| credit.is_left()).map(|(of, _)| *of)
    }

    fn drop_consumers(&mut self, session: SessionId) {
        self.attached.retain(|(of, _), _| *of != session);
    }
}

/// The bytes of each message of a run.
fn sizes(run: &LeasedRun) -> impl Iterator<Item = u64> {
    let (sizes, index) = &run.sizes;
    (*index..index + run.count).map(|at| u64::from(sizes.offset(at + 1) - sizes.offset(at)))
}
