//! A broker with its listeners in this process, for the targets that talk to it.
//!
//! It is begun anew on a fresh directory now and then: what earlier inputs left in it may help later ones to get further, and
//! must not grow for ever.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_server::{Config, MEMORY_MIN, Server};
use tempfile::TempDir;

/// Inputs that one broker gets.
const INPUTS: u32 = 2000;
/// Far longer than any answer takes: only what hangs is waited for so long.
const PATIENCE: Duration = Duration::from_secs(20);

struct Serving {
    server: Option<Server>,
    /// Removed behind the server.
    directory: TempDir,
    inputs: u32,
}

static SERVING: Mutex<Option<Serving>> = Mutex::new(None);

/// A broker that has had few inputs. Inputs come one at a time.
pub struct Served(MutexGuard<'static, Option<Serving>>);

/// The broker, begun if there is none.
pub fn served() -> Served {
    // Whatever panicked with it has said so.
    let mut serving = SERVING.lock().unwrap_or_else(PoisonError::into_inner);
    if serving.as_ref().is_some_and(|serving| serving.inputs == INPUTS) {
        *serving = None;
    }
    serving.get_or_insert_with(Serving::start).inputs += 1;
    Served(serving)
}

/// Stops the broker in good order: all of its threads end.
pub fn stop() {
    *SERVING.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

impl Served {
    fn server(&self) -> &Server {
        self.0.as_ref().and_then(|serving| serving.server.as_ref()).expect("it was begun")
    }

    /// A conversation with the HTTP listener.
    pub fn http(&self, said: Said<'_>) -> Vec<u8> {
        talk(self.server().http_address().expect("it serves HTTP"), said)
    }

    /// A conversation with the listener of the protocol.
    pub fn protocol(&self, said: Said<'_>) -> Vec<u8> {
        talk(self.server().address(), said)
    }
}

/// Whether what has come back is enough.
pub type Enough<'a> = &'a dyn Fn(&[u8]) -> bool;

/// What is said to a listener.
pub enum Said<'a> {
    /// In two writes; and then that there is no more, which may overtake answers.
    All([&'a [u8]; 2]),
    /// This, and then nothing until so much has come back.
    Until(&'a [u8], Enough<'a>),
}

/// Says it, and listens to the end.
fn talk(address: SocketAddr, said: Said<'_>) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the broker listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout that is not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout that is not zero");
    stream.set_nodelay(true).expect("a socket");
    let (pieces, is_enough): (_, Enough<'_>) = match said {
        Said::All(pieces) => (pieces, &|_| false),
        Said::Until(piece, is_enough) => ([piece, &[]], is_enough),
    };
    let written = pieces.into_iter().try_for_each(|piece| stream.write_all(piece));
    let written = written.and_then(|()| match said {
        Said::All(_) => stream.shutdown(Shutdown::Write),
        Said::Until(..) => Ok(()),
    });
    // It may have heard enough, and be gone.
    assert!(!written.is_err_and(|error| is_patience(&error)), "the broker took nothing for {PATIENCE:?}");
    let (mut heard, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    while !is_enough(&heard) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => heard.extend_from_slice(&buffer[..length]),
            Err(error) if is_patience(&error) => {
                panic!("the broker said nothing for {PATIENCE:?} behind {} bytes, and did not close", heard.len())
            }
            // Bytes that it had not read when it closed make a reset of the end.
            Err(_) => break,
        }
    }
    heard
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Serving {
    fn start() -> Serving {
        let directory = tempfile::tempdir().expect("a directory for the broker");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let data = directory.path().join("data");
        let config = Config { data, listen: any, http: Some(any), memory: MEMORY_MIN, ..Config::default() };
        let server = Server::start(config.validate().expect("good settings")).expect("a broker on a fresh directory");
        Serving { server: Some(server), directory, inputs: 0 }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let stopped = self.server.take().expect("stopped once").shutdown();
        let directory = self.directory.path().display();
        assert!(stopped.is_ok() || std::thread::panicking(), "the broker on {directory}: {stopped:?}");
    }
}
