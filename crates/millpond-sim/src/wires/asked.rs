//! What clients have asked for on their connections: what comes to the core is that, to the last field but for credit; what
//! has to come behind rejects and fails does; and nothing comes of a session that another connection has.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millpond_core::command::{Attach, Command, Finish, FinishVerb, Publish, Route, SessionBegin};
use millpond_types::SessionId;

use super::spoken::RESUME_MIN;
use crate::sights::Sights;
use crate::tape::Brief;
use crate::verdict::Violation;

/// What connections ask under this number is the broker's own.
const OWN: u64 = 0;

/// See the module.
#[derive(Default)]
pub struct OnTheirWay {
    /// By connection, in order, what has not come to the core. Some of it never will.
    connections: BTreeMap<u64, VecDeque<Command>>,
    /// Which connection has a session, as far as the core was asked.
    sessions: BTreeMap<SessionId, u64>,
    /// Those that were ended, and have not begun again.
    ended: BTreeSet<SessionId>,
}

impl OnTheirWay {
    /// A client asks for something on its connection.
    pub fn ask(&mut self, connection: u64, command: &Command) {
        if !matches!(command, Command::Credit { .. }) {
            self.connections.entry(connection).or_default().push_back(as_compared(command).into_owned());
        }
    }

    /// A connection asks the core for something.
    pub fn comes(&mut self, connection: u64, command: &Command, sights: &mut Sights) -> Result<(), Violation> {
        if connection == OWN {
            return Ok(());
        }
        self.is_of_its_session(connection, command, sights)?;
        // Of credit it keeps a part.
        if matches!(command, Command::Credit { .. }) {
            return Ok(());
        }
        let asked = as_compared(command);
        let sent = self.connections.entry(connection).or_default();
        let at = sent.iter().position(|sent| *sent == *asked);
        let at = at.ok_or_else(|| Violation::connections(format!("nobody has asked for {}", Brief(command))))?;
        if let Some(before) = sent.range(..at).find(|before| makes_letters(before)).filter(|_| comes_behind(command)) {
            let what = format!("{} overtakes {} of its connection", Brief(command), Brief(before));
            return Err(Violation::connections(what));
        }
        sights.saw_many("rejects and fails in their order", u64::from(makes_letters(command)));
        sent.remove(at);
        Ok(())
    }

    /// A session is its connection's until another one begins it, or it ends.
    fn is_of_its_session(&mut self, connection: u64, command: &Command, sights: &mut Sights) -> Result<(), Violation> {
        let Some(session) = session_of(command) else { return Ok(()) };
        match (command, self.sessions.get(&session)) {
            (Command::SessionBegin(_), _) => {
                self.sessions.insert(session, connection);
                let again = self.ended.remove(&session);
                sights.saw_many("sessions begun again behind their end", u64::from(again));
            }
            (_, Some(owner)) if *owner != connection => {
                let what = format!("{} is carried out behind the takeover of its session", Brief(command));
                return Err(Violation::connections(what));
            }
            (Command::SessionEnd(_), _) => {
                self.sessions.remove(&session);
                self.ended.insert(session);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A command as its client has asked for it: what is routed without what the broker's edge makes of it, a consumer without its
/// credit, of which the edge keeps a part, and a session as its frame says it.
fn as_compared(command: &Command) -> Cow<'_, Command> {
    match command {
        Command::Route(route) => {
            let Publish { namespace, producer, level, .. } = route.publish.clone();
            let at = (route.exchange.clone(), route.key.clone());
            let receipts = route.receipts.clone();
            let asked = Route { receipts, ..Route::new(namespace, at, route.message.clone(), producer, level) };
            Cow::Owned(Command::Route(asked))
        }
        Command::Attach(attach) => Cow::Owned(Command::Attach(Attach { messages: 0, bytes: 0, ..attach.clone() })),
        Command::SessionBegin(begin) => {
            let resume = begin.resume.max(RESUME_MIN);
            Cow::Owned(Command::SessionBegin(SessionBegin { resume, ..begin.clone() }))
        }
        _ => Cow::Borrowed(command),
    }
}

/// Whether it may make dead letters, for which there may be no room for a while.
fn makes_letters(command: &Command) -> bool {
    matches!(command, Command::Finish(Finish { verb: FinishVerb::Fail { .. } | FinishVerb::Reject { .. }, .. }))
}

/// Whether it is decided behind those that do and were sent before it.
fn comes_behind(command: &Command) -> bool {
    match command {
        Command::Finish(Finish { verb, .. }) => !matches!(verb, FinishVerb::Extend { .. }),
        Command::SessionBegin(_) | Command::SessionEnd(_) => true,
        Command::Attach(_) | Command::Detach { .. } | Command::Resign { .. } => true,
        _ => false,
    }
}

fn session_of(command: &Command) -> Option<SessionId> {
    match command {
        Command::SessionBegin(SessionBegin { session, .. })
        | Command::SessionEnd(session)
        | Command::Heartbeat { session, .. }
        | Command::Attach(Attach { session, .. })
        | Command::Credit { session, .. }
        | Command::Detach { session, .. }
        | Command::Resign { session, .. } => Some(*session),
        _ => None,
    }
}
