//! What a broker says of itself on its page of metrics. A figure that it does not have is absent and never zero.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the page may take: the broker itself waits a second for its writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The figures of one moment.
#[derive(Clone, Default, Debug)]
pub struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    /// Reads the page; nothing is known where there is none.
    pub fn take(http: Option<SocketAddr>) -> Scrape {
        http.and_then(|address| page(address).ok()).map_or_else(Scrape::default, |text| Scrape::parse(&text))
    }

    /// The figure of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// By how much a counter has grown since an earlier look at the same process.
    pub fn growth(&self, before: &Scrape, name: &str) -> Option<f64> {
        Some(self.value(name)? - before.value(name)?)
    }

    fn parse(text: &str) -> Scrape {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let figure = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Scrape(lines.filter_map(figure).collect())
    }
}

fn page(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // Version 1.0 ends the answer by closing the connection, in one piece.
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_name_and_others_are_absent() {
        let page = |reads| {
            format!(
                "HTTP/1.0 200 OK\r\ncontent-length: 99\r\n\r\n# HELP a b.\nmillpond_tree_reads_total {reads}\n# EOF\n"
            )
        };
        let (before, after) = (Scrape::parse(&page(7)), Scrape::parse(&page(50)));
        assert_eq!(after.value("millpond_tree_reads_total"), Some(50.0));
        assert_eq!(after.growth(&before, "millpond_tree_reads_total"), Some(43.0));
        assert_eq!(after.value("millpond_tree_bytes"), None);
        assert_eq!(Scrape::take(None).value("a"), None);
    }
}
