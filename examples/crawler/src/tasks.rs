//! A task is a page to fetch: one message in the topic of its site, with the address as body and as dedup id. Depth is
//! the number of links from a seed, as this page was first found; the namespace's policy remembers dedup ids for ever, so
//! a page is stored once whoever finds it again.

use millpond_client::{Delivery, Message, Priority};

use crate::address::Address;

/// The header that carries the depth; the priority cannot, it ends at ten levels.
pub const DEPTH: &str = "depth";

/// A page to fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    pub address: Address,
    /// Links between a seed and this page; redirects do not count.
    pub depth: u32,
}

impl Task {
    pub fn message(&self) -> Message {
        let address = self.address.to_string();
        Message::new(self.address.site().clone(), address)
            .priority(priority(self.depth))
            .dedup_id(self.address.dedup_id())
            .header(DEPTH, self.depth.to_string())
    }

    /// The task in a delivery, or why it is none: the namespace is open to others, so anything may come.
    pub fn read(delivery: &Delivery) -> Result<Task, String> {
        let address = address(&delivery.body)?;
        let depth = delivery.header(DEPTH).and_then(number).ok_or("the header `depth` is not a number")?;
        Ok(Task { address, depth })
    }
}

/// Shallow pages go first: 9 for a seed, one less for each link, 0 for all that is nine links away or more.
fn priority(depth: u32) -> Priority {
    let level = 9 - depth.min(9) as u8;
    Priority::new(level).expect("0..=9 are priorities")
}

/// The address that is a message's body.
pub fn address(body: &[u8]) -> Result<Address, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
    Address::parse(text).map_err(|bad| format!("the body is not the address of a page: {bad}"))
}

/// The number in a header.
pub fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shallow_pages_go_first() {
        let levels = [0, 1, 8, 9, 10, u32::MAX].map(|depth| priority(depth).level());
        assert_eq!(levels, [9, 8, 1, 0, 0, 0]);
    }

    #[test]
    fn only_an_address_is_a_task() {
        assert!(address(b"http://h/").is_ok());
        assert!(address(b"hello").unwrap_err().contains("not the address"));
        assert!(address(&[0xff]).unwrap_err().contains("UTF-8"));
    }
}
