//! One wire: a client's end, the broker's, and the bytes between them.

use std::time::{Duration, Instant};

use millpond_core::command::Command;
use millpond_server::manual::Edge;
use millpond_types::{Code, NamespaceName, SessionId};

use super::end::{End, Heard, resume_of};
use crate::canary::Canary;
use crate::clients::{Asked, Client, Request};
use crate::sights::Sights;
use crate::streams::Stream;
use crate::verdict::Violation;

/// Steps between changes of a network's manner, between cuts, and until a client has had enough of a silent one, about.
const MANNER_LASTS: u64 = 40;
const CUT: u64 = 250;
const PATIENCE: u64 = 30;
/// Carries of bytes within which the broker closes a connection whose session was taken over.
const CLOSES_WITHIN: u32 = 2;
/// How long the broker waits for a sign of life of a connection, by the document of the protocol.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes that a slow network brings at once, at most.
const TRICKLE: u64 = 40;
/// Bytes that the broker's end says at once, at most: a socket's buffer is no larger.
const SAYS: usize = 4096;

/// How a network treats bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// All at once.
    Prompt,
    /// A few at a time.
    Trickle,
    /// One at a time: whatever is said meanwhile is split at every byte.
    Drip,
    /// What the client says goes nowhere, for now.
    DeafBroker,
    /// What the broker says goes nowhere, for now.
    DeafClient,
}

/// See the module.
pub struct Wire {
    /// Whose it is.
    pub client: Client,
    /// The number that the broker's end has, or had.
    pub opened: u64,
    /// `None` once the client has given it up.
    end: Option<End>,
    /// `None` once the broker has closed it, or knows that it is gone.
    edge: Option<Edge>,
    to_broker: Vec<u8>,
    to_client: Vec<u8>,
    /// The session that its client has asked for, if it has not asked for its end since.
    asked_for: Option<SessionId>,
    /// How often it has asked for one and was not told. The answer to an earlier begin says nothing of the last one.
    begins: u32,
    /// The same, once the broker has begun it.
    session: Option<SessionId>,
    /// How long that lives without a heartbeat.
    resume: Duration,
    /// When bytes of the client came to the broker, or it did not read on its own account.
    last_sign: Instant,
    /// Whether it did, all of the time.
    is_reading: bool,
    /// How often bytes were carried since another wire has the session.
    taken_over: Option<u32>,
    /// Whether the broker learns that the client has gone, behind what it has said.
    ends: bool,
    manner: Manner,
}

impl Wire {
    /// A client's new connection.
    pub fn new(client: Client, edge: Edge, hash_key: [u64; 2], now: Instant) -> Wire {
        let mut to_broker = Vec::new();
        let end = End::new(hash_key, &mut to_broker);
        let (opened, end, edge) = (edge.number(), Some(end), Some(edge));
        let (to_client, manner) = (Vec::new(), Manner::Prompt);
        Wire {
            client,
            opened,
            end,
            edge,
            to_broker,
            to_client,
            asked_for: None,
            begins: 0,
            session: None,
            resume: IDLE,
            last_sign: now,
            is_reading: true,
            taken_over: None,
            ends: false,
            manner,
        }
    }

    /// Whether the client listens to it.
    pub fn is_heard(&self) -> bool {
        self.end.is_some()
    }

    /// What it has asked and is not told.
    pub fn open(&self) -> impl Iterator<Item = &Asked> {
        self.end.iter().flat_map(End::open)
    }

    /// Whether either side is there.
    pub fn is_there(&self) -> bool {
        self.end.is_some() || self.edge.is_some()
    }

    /// Of a half-open connection, when the broker last heard something of it.
    pub fn left_at(&self) -> Option<Instant> {
        self.is_half_open().then_some(self.last_sign)
    }

    /// Whether the client has gone without a word, and the broker has not noticed.
    pub fn is_half_open(&self) -> bool {
        self.end.is_none() && !self.ends && self.edge.is_some()
    }

    /// The number of the broker's end, if it is there.
    pub fn number(&self) -> Option<u64> {
        self.edge.as_ref().map(Edge::number)
    }

    /// Its session has begun, by what its client was told.
    pub fn begun(&mut self, session: SessionId) {
        self.begins -= 1;
        self.session = self.asked_for.filter(|asked_for| *asked_for == session && self.begins == 0);
    }

    /// A session has begun on another wire. If it was that of this one, the broker closes this one.
    pub fn taken_over(&mut self, session: SessionId) {
        if self.session == Some(session) {
            self.taken_over.get_or_insert(0);
        }
    }

    /// The client asks for something.
    pub fn ask(&mut self, request: Request, canary: Option<Canary>) {
        match &request.command {
            Command::SessionEnd(_) => (self.asked_for, self.session) = (None, None),
            Command::SessionBegin(begin) => {
                (self.asked_for, self.resume) = (Some(begin.session), resume_of(begin));
                self.begins += 1;
            }
            _ => {}
        }
        self.end.as_mut().expect("it is heard").ask(request, canary, &mut self.to_broker);
    }

    /// The client listens to it no longer. A broker that is not told finds out by itself, when nothing comes for long.
    pub fn give_up(&mut self, silently: bool, sights: &mut Sights) {
        sights.saw(if silently { "connections left half open" } else { "connections closed by clients" });
        (self.end, self.ends) = (None, !silently);
        if silently {
            // What is on its way comes, but late.
            self.manner = Manner::Trickle;
        }
    }

    /// The network's manner may change, or it cuts.
    pub fn turn(&mut self, is_smooth: bool, network: &mut Stream, sights: &mut Sights) {
        if is_smooth {
            // Of a client that has gone the broker hears no more than before.
            self.manner = Manner::Prompt;
            return;
        }
        if network.one_in(MANNER_LASTS) {
            let manners = [Manner::Prompt, Manner::Trickle, Manner::Drip, Manner::DeafBroker, Manner::DeafClient];
            self.manner = manners[network.weighted(&[6, 2, 1, 1, 1])];
        }
        let is_silent = matches!(self.manner, Manner::DeafBroker | Manner::DeafClient);
        if self.end.is_some() && is_silent && network.one_in(PATIENCE) {
            let silently = network.one_in(2);
            self.give_up(silently, sights);
        }
        if network.one_in(CUT) {
            sights.saw("connections cut");
            self.edge = None;
            self.to_broker.clear();
            if network.one_in(2) {
                self.to_client.clear();
            }
        }
    }

    /// Moves bytes; false if there were none, or none of them moved. `edge_now` is what the broker thinks the time is.
    pub fn carry(
        &mut self,
        (now, edge_now): (Instant, Instant),
        network: &mut Stream,
        sights: &mut Sights,
    ) -> Result<bool, Violation> {
        let count = match self.manner {
            Manner::DeafBroker => 0,
            Manner::Trickle => network.below(TRICKLE) as usize,
            Manner::Drip => 1,
            Manner::Prompt | Manner::DeafClient => usize::MAX,
        };
        let count = count.min(self.to_broker.len());
        let is_held_back = self.manner == Manner::DeafBroker && !self.to_broker.is_empty();
        sights.saw_many("frames held back on their way", u64::from(is_held_back));
        sights.saw_many("bytes that came one by one", u64::from(self.manner == Manner::Drip && count > 0));
        let bytes: Vec<u8> = self.to_broker.drain(..count).collect();
        if !self.to_broker.is_empty() && count > 0 {
            sights.saw("frames split on their way");
        }
        let before = self.to_client.len();
        if let Some(edge) = &mut self.edge {
            let may_read = edge.may_read();
            let heard = edge.hear(&bytes, edge_now);
            // It counts from when it reads again.
            let was_reading = std::mem::replace(&mut self.is_reading, may_read && edge.may_read());
            if count > 0 || !was_reading || !self.is_reading {
                self.last_sign = now;
            }
            let said = heard.and_then(|()| edge.say(SAYS, edge_now));
            match said {
                Ok(said) => self.to_client.extend(said),
                Err(closed) => {
                    sights.saw("connections closed by the broker");
                    let is_for_session = closed.code == Code::SessionUnknown;
                    sights.saw_many("connections closed for their session", u64::from(is_for_session));
                    let is_half_open = self.end.is_none() && !self.ends && self.taken_over.is_none();
                    sights.saw_many("half-open connections closed by the broker", u64::from(is_half_open));
                    let has_no_heartbeat = is_half_open && is_for_session && self.session.is_some();
                    sights.saw_many("half-open connections closed without a heartbeat", u64::from(has_no_heartbeat));
                    // Its client has gone on elsewhere, and what it said before that comes only now.
                    let comes_late = is_for_session && count > 0 && self.end.is_none();
                    sights.saw_many("frames that come behind a takeover", u64::from(comes_late));
                    self.to_client.extend(closed.last);
                    self.edge = None;
                }
            }
            if self.ends && self.to_broker.is_empty() {
                self.edge = None;
            }
        }
        if self.edge.is_none() {
            self.to_broker.clear();
        }
        if let Some(times) = self.taken_over.as_mut().filter(|_| self.edge.is_some()) {
            *times += 1;
            if *times > CLOSES_WITHIN {
                return Err(Violation::connections("a connection stays whose session was taken over".to_owned()));
            }
        }
        self.is_not_overdue(now)?;
        Ok(count > 0 || self.to_client.len() > before)
    }

    /// A connection on which nothing comes is closed: one with a session when no heartbeat came for as long as it lives
    /// without, and any within a minute.
    fn is_not_overdue(&self, now: Instant) -> Result<(), Violation> {
        // A client that is still there may know of its session's end what has not come to it yet.
        let has_session = self.session.is_some() && self.end.is_none();
        let limit = if has_session { IDLE.min(self.resume) } else { IDLE };
        let silent = now - self.last_sign;
        if self.edge.is_none() || silent < limit {
            return Ok(());
        }
        Err(Violation::connections(format!(
            "a connection of {:?} stays on which nothing came for {silent:?}, and {limit:?} is the limit",
            self.client
        )))
    }

    /// What the client hears of what has come, and the namespaces of which it hears that too many use them.
    pub fn hear(
        &mut self,
        network: &mut Stream,
        sights: &mut Sights,
    ) -> Result<(Vec<Heard>, Vec<NamespaceName>), Violation> {
        let Some(end) = &mut self.end else {
            self.to_client.clear();
            return Ok(Default::default());
        };
        if self.manner == Manner::DeafClient {
            sights.saw_many("frames held back on their way to a client", u64::from(!self.to_client.is_empty()));
            return Ok(Default::default());
        }
        let count = match self.manner {
            Manner::Trickle => network.below(TRICKLE) as usize,
            Manner::Drip => 1,
            _ => usize::MAX,
        };
        let count = count.min(self.to_client.len());
        sights.saw_many("frames split on their way to a client", u64::from(0 < count && count < self.to_client.len()));
        sights.saw_many("bytes that came to a client one by one", u64::from(self.manner == Manner::Drip && count > 0));
        let mut heard = end.hear(self.to_client.drain(..count), sights)?;
        let refused = end.refused();
        if self.edge.is_none() && self.to_client.is_empty() {
            self.end = None;
            heard.push(Heard::Lost);
        }
        Ok((heard, refused))
    }
}
