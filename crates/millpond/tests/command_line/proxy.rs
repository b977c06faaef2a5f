//! A TCP proxy that stands between a client and its broker, and passes nothing on while it is cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How soon a cut, or its end, is noticed.
const TICK: Duration = Duration::from_millis(10);

pub struct Proxy {
    /// Where clients connect.
    pub address: String,
    cut: Arc<AtomicBool>,
}

impl Proxy {
    /// A proxy before the broker at an address. Its threads end with the test's process.
    pub fn to(broker: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let cut = Arc::new(AtomicBool::new(false));
        let (broker, is_cut) = (broker.to_owned(), cut.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&broker) else { continue };
                let ends = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
                let (there, back) = (is_cut.clone(), is_cut.clone());
                thread::spawn(move || pass(client, server, &there));
                thread::spawn(move || pass(ends.1, ends.0, &back));
            }
        });
        Proxy { address, cut }
    }

    /// Cuts the connections without closing them, or lets what has waited through.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    from.set_read_timeout(Some(TICK)).expect("a timeout that is not zero");
    let mut bytes = [0; 4096];
    loop {
        while cut.load(Ordering::SeqCst) {
            thread::sleep(TICK);
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => {
                while cut.load(Ordering::SeqCst) {
                    thread::sleep(TICK);
                }
                if to.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    // The other side sees the end as well; it may have closed by itself.
    let _ = to.shutdown(std::net::Shutdown::Write);
}
