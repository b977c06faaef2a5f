//! The HTTP listener of a running broker.
//!
//! The first two bytes say where the rest is split into two writes. Whatever comes, the broker closes the connection when there
//! is no more, all that it says is whole answers, and the next one who asks is answered.

use super::serving::{Said, served};

/// Requests and what looks like them: longer ones only take longer.
const LENGTH_MAX: usize = 8 * 1024;
/// One input in so many is followed by a plain request.
const PROBED: usize = 16;

/// Says something to the listener.
pub fn run(data: &[u8]) {
    let Some((&[low, high], said)) = data.split_first_chunk() else { return };
    let said = &said[..said.len().min(LENGTH_MAX)];
    let split = usize::from(u16::from_le_bytes([low, high])) % (said.len() + 1);
    let broker = served();
    let heard = broker.http(Said::All([&said[..split], &said[split..]]));
    let mut rest = &heard[..];
    while !rest.is_empty() {
        rest = behind_answer(rest);
    }
    if said.len().is_multiple_of(PROBED) {
        let probe = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
        let heard = broker.http(Said::Until(probe, &|heard| heard.ends_with(b"ok\n")));
        assert!(heard.starts_with(b"HTTP/1.1 200 "), "{:?}", String::from_utf8_lossy(&heard));
    }
}

/// What follows the first answer.
fn behind_answer(heard: &[u8]) -> &[u8] {
    let broken = |what: &str| -> ! { panic!("{what}: {:?}", String::from_utf8_lossy(heard)) };
    let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") else { broken("an answer without an end") };
    let (head, body) = (&heard[..end], &heard[end + 4..]);
    let Ok(head) = std::str::from_utf8(head) else { broken("a head that is no text") };
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")).and_then(|rest| rest.get(2..5));
    let Some(status) = status.and_then(|digits| digits.parse::<u16>().ok()) else { broken("no status") };
    if !(200..600).contains(&status) {
        broken("a status that nothing here has");
    }
    let mut length = None;
    for line in lines {
        let Some((name, value)) = line.split_once(": ") else { broken("a header without a value") };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse::<usize>().ok();
        }
    }
    // An answer to HEAD tells the length of a body that does not come, or none.
    if body.is_empty() || body.starts_with(b"HTTP/1.") {
        return body;
    }
    let Some(length) = length else { broken("a body of no length") };
    body.get(length..).unwrap_or_else(|| broken("a body that is cut off"))
}
