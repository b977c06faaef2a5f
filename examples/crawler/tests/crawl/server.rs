//! Serves the world over HTTP, each site on a port of its own, in a thread of its own; and counts what the crawlers do to
//! it. A path that is at home on another site is answered with a redirect there.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use crate::world::{ROBOTS, Trouble, World};

/// How long an answer takes, so that requests to a site meet each other if the crawlers let them.
const ANSWER: Duration = Duration::from_millis(2);

/// The sites at work. They end with the process.
pub struct Server {
    pub world: Arc<World>,
    seen: Arc<Seen>,
}

/// What the sites have seen.
struct Seen {
    answered: AtomicU64,
    /// Per site: requests that are being answered now, and the most at a time.
    now: Vec<AtomicUsize>,
    most: Vec<AtomicUsize>,
    /// How often each flaky path was asked for.
    asked: Mutex<HashMap<String, u32>>,
}

impl Server {
    pub fn start(mut world: World) -> Server {
        let mut listeners = Vec::new();
        for site in &mut world.sites {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            site.origin = format!("http://{}", listener.local_addr().unwrap());
            listeners.push(listener);
        }
        let counters = || listeners.iter().map(|_| AtomicUsize::new(0)).collect();
        let (now, most) = (counters(), counters());
        let seen = Arc::new(Seen { answered: AtomicU64::new(0), now, most, asked: Mutex::default() });
        let world = Arc::new(world);
        let server = Server { world: Arc::clone(&world), seen: Arc::clone(&seen) };
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for (site, listener) in listeners.into_iter().enumerate() {
                    tokio::spawn(listen(Arc::clone(&world), Arc::clone(&seen), site, listener));
                }
                std::future::pending::<()>().await;
            });
        });
        server
    }

    /// Requests that were answered so far.
    pub fn answered(&self) -> u64 {
        self.seen.answered.load(Ordering::Relaxed)
    }

    /// The most requests that any site had at a time.
    pub fn most_at_a_time(&self) -> usize {
        self.seen.most.iter().map(|most| most.load(Ordering::Relaxed)).max().unwrap()
    }
}

async fn listen(world: Arc<World>, seen: Arc<Seen>, site: usize, listener: TcpListener) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (world, seen) = (Arc::clone(&world), Arc::clone(&seen));
        let service = service_fn(move |request: Request<Incoming>| {
            let (world, seen) = (Arc::clone(&world), Arc::clone(&seen));
            async move { Ok::<_, std::convert::Infallible>(answer(&world, &seen, site, request.uri().path()).await) }
        });
        // A connection that ends with a killed crawler is of no interest.
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(world: &World, seen: &Seen, site: usize, path: &str) -> Response<Full<Bytes>> {
    let present = Present::at(seen, site);
    tokio::time::sleep(ANSWER).await;
    if path == "/robots.txt" {
        return Response::new(Full::new(ROBOTS.into()));
    }
    assert!(!world.is_barred(path), "{path} was asked for, against robots.txt");
    let of = &world.sites[site];
    let home = world.home(of.package, path);
    let response = if home.home != of.home {
        redirect(format!("{}{path}", home.origin))
    } else {
        match world.trouble(path) {
            Some(Trouble::Silent) => {
                // Whoever gives up on it has left before the site learns of it.
                drop(present);
                std::future::pending().await
            }
            Some(Trouble::Broken) => status(500),
            Some(Trouble::Flaky(times)) if seen.has_asked_less(site, path, times) => status(503),
            _ => file(&world.packages[of.package].folder, &of.origin, path),
        }
    };
    seen.answered.fetch_add(1, Ordering::Relaxed);
    response
}

fn file(folder: &Path, origin: &str, path: &str) -> Response<Full<Bytes>> {
    let decoded = percent_decoded(path);
    let file = folder.join(decoded.trim_start_matches('/'));
    if decoded.split('/').any(|part| part == "..") || decoded.ends_with(".gz") {
        return status(404);
    }
    if file.is_dir() && !path.ends_with('/') {
        return redirect(format!("{origin}{path}/"));
    }
    let file = if file.is_dir() { file.join("index.html") } else { file };
    let Ok(body) = fs::read(&file) else { return status(404) };
    let is_html = file.extension().is_some_and(|kind| kind == "html");
    let kind = if is_html { "text/html; charset=utf-8" } else { "application/octet-stream" };
    Response::builder().header("content-type", kind).body(Full::new(body.into())).unwrap()
}

fn status(code: u16) -> Response<Full<Bytes>> {
    Response::builder().status(code).body(Full::default()).unwrap()
}

fn redirect(to: String) -> Response<Full<Bytes>> {
    Response::builder().status(302).header("location", to).body(Full::default()).unwrap()
}

fn percent_decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Seen {
    fn has_asked_less(&self, site: usize, path: &str, times: u32) -> bool {
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(format!("{site}{path}")).or_default();
        *count += 1;
        *count <= times
    }
}

/// A request at a site. It goes when it is answered, or when whoever asked is gone.
struct Present<'a> {
    seen: &'a Seen,
    site: usize,
}

impl Present<'_> {
    fn at(seen: &Seen, site: usize) -> Present<'_> {
        let now = seen.now[site].fetch_add(1, Ordering::Relaxed) + 1;
        seen.most[site].fetch_max(now, Ordering::Relaxed);
        Present { seen, site }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.seen.now[self.site].fetch_sub(1, Ordering::Relaxed);
    }
}
