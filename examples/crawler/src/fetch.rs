//! Fetching one page over HTTP. Connections to a site are kept and used again; a redirect is an answer here, not
//! something to follow: its target may be another site, with a topic and limits of its own.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::address::Address;

/// What this crawler calls itself to sites.
pub const AGENT: &str = "millpond-crawler";
/// Bytes of a body that are read. The largest page that a person wrote is far smaller; the rest of a larger body is left.
const BODY_MAX: usize = 8 * 1024 * 1024;
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(15);
/// Unused connections to one site; politeness keeps their number low anyway.
const IDLE_PER_SITE: usize = 4;

/// Fetches pages; cheap to clone, all clones share their connections.
#[derive(Clone)]
pub struct Fetcher {
    client: Client<HttpConnector, Empty<Bytes>>,
    timeout: Duration,
}

/// What a site answered.
#[derive(Debug)]
pub struct Fetched {
    pub status: StatusCode,
    /// Where a redirect points, as the site wrote it.
    pub location: Option<String>,
    pub is_html: bool,
    /// Up to 8 MiB.
    pub body: Vec<u8>,
}

/// Why there is no answer. The page may be asked for again later.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("no answer within {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
    #[error("{0}")]
    Connection(String),
}

impl Fetcher {
    pub fn new(timeout: Duration) -> Fetcher {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_SITE)
            .pool_timer(TokioTimer::new())
            .build_http();
        Fetcher { client, timeout }
    }

    /// Asks for a page, once.
    pub async fn fetch(&self, address: &Address) -> Result<Fetched, FetchError> {
        let whole = async { read(self.ask(address).await?).await };
        tokio::time::timeout(self.timeout, whole).await.unwrap_or(Err(FetchError::TimedOut(self.timeout)))
    }

    async fn ask(&self, address: &Address) -> Result<Response<Incoming>, FetchError> {
        let request = Request::get(address.url().as_str())
            .header(USER_AGENT, format!("{AGENT}/{}", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| FetchError::Connection(error.to_string()))?;
        self.client.request(request).await.map_err(|error| {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            FetchError::Connection(format!("{error}{cause}"))
        })
    }
}

async fn read(mut response: Response<Incoming>) -> Result<Fetched, FetchError> {
    let header = |name| response.headers().get(name).and_then(|value: &hyper::header::HeaderValue| value.to_str().ok());
    let is_html = header(CONTENT_TYPE).is_some_and(is_html);
    let location = header(LOCATION).map(str::to_owned);
    let mut body = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let frame = frame.map_err(|error| FetchError::Connection(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = BODY_MAX - body.len();
        body.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() >= room {
            break;
        }
    }
    Ok(Fetched { status: response.status(), location, is_html, body })
}

fn is_html(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_known_by_its_type() {
        assert!(is_html("text/html") && is_html("Text/HTML; charset=utf-8"));
        assert!(!is_html("text/plain") && !is_html("text/htmlx") && !is_html(""));
    }
}
