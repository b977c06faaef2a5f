//! Messages that were leased to this client.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use millpond_protocol::LeasedRun;
use millpond_types::{LeaderEpoch, LeaseNumber, MessageId, Priority, Receipt, Sequence, TopicName, WallTime, block};

use crate::leases::Spent;
use crate::receipts::Receipts;

/// One message, leased to this client.
///
/// Body and headers share the buffer of the frame that brought them: whoever keeps a small body for long copies it out.
/// Dropping a delivery finishes nothing: it stays leased until it is acked, given back, or its lease ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The topic.
    pub topic: TopicName,
    /// The message's id.
    pub id: MessageId,
    /// What ack, extend and the others take.
    pub receipt: Receipt,
    /// The body.
    pub body: Bytes,
    /// The dedup id that it was published with; empty for none.
    pub dedup_id: Bytes,
    /// When it was published.
    pub published: WallTime,
    /// How often it was delivered, this time included.
    pub deliveries: u32,
    /// How often it failed.
    pub failures: u32,
    /// That of the office which this client held when it came, where the group is exclusive: it grows with every leader, so
    /// another store can fence with it.
    pub epoch: Option<LeaderEpoch>,
    /// The first lease of the run that it is of, where the policy leases runs. What comes in a run is worked on and finished in
    /// the order of its leases; if something of it is not acked, the rest is not for this client any more.
    pub run: Option<LeaseNumber>,
    headers: Bytes,
}

impl Delivery {
    /// The message's priority.
    pub fn priority(&self) -> Priority {
        self.id.priority
    }

    /// The lease's number: it grows strictly within the topic, so another store can fence with it.
    pub fn lease(&self) -> LeaseNumber {
        self.receipt.lease
    }

    /// The headers, in the order in which they were published.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        block::headers(&self.headers).map_while(|header| header)
    }

    /// The value of the first header with this key.
    pub fn header(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.headers().find(|(k, _)| *k == key.as_ref()).map(|(_, value)| value)
    }
}

/// Messages that were leased together, in the order of their delivery: an iterator of [`Delivery`]. Kept as runs, so that
/// hundreds can be taken and acked for the price of a few:
///
/// ```no_run
/// # async fn f(client: millpond_client::Client, mut subscription: millpond_client::Subscription) -> Result<(), millpond_client::Error> {
/// let batch = subscription.next_batch(500).await?;
/// let receipts = batch.receipts();
/// for delivery in batch {
///     println!("{}: {} bytes", delivery.topic, delivery.body.len());
/// }
/// client.ack(receipts).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deliveries {
    runs: VecDeque<Run>,
    messages: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    epoch: Option<LeaderEpoch>,
    /// Its block holds exactly its `count` messages.
    leased: LeasedRun,
}

impl Deliveries {
    /// Messages that are left.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// The receipts of the messages that are left.
    pub fn receipts(&self) -> Receipts {
        let mut receipts = Receipts::default();
        self.runs().for_each(|run| receipts.push_run(run.receipt, run.count));
        receipts
    }

    /// The messages as the broker sent them: runs of one topic with consecutive leases and sequences.
    pub fn runs(&self) -> impl Iterator<Item = &LeasedRun> {
        self.runs.iter().map(|run| &run.leased)
    }

    /// The epoch of the first.
    pub(crate) fn epoch(&self) -> Option<LeaderEpoch> {
        self.runs.front()?.epoch
    }

    /// The credit that they have used up.
    pub(crate) fn spent(&self) -> Spent {
        let bytes = self.runs().map(|run| run.block.len() as u64).sum();
        Spent { messages: self.messages as u32, bytes }
    }

    /// Takes runs as they came, after making sure that each block holds what its run says.
    pub(crate) fn checked(runs: Vec<LeasedRun>, epoch: Option<LeaderEpoch>) -> Result<Deliveries, String> {
        for run in &runs {
            let mut found = 0_u32;
            for message in block::messages(&run.block) {
                message.map_err(|bad| bad.to_string())?;
                found += 1;
            }
            if found != run.count || found == 0 {
                return Err(format!("a run of {} messages came with a block of {found}", run.count));
            }
            // From here on the numbers of a run are counted up without looking.
            let last = |first: u64| first.checked_add(u64::from(run.count));
            if last(run.first.0).and(last(run.receipt.lease.0)).is_none() {
                return Err("a run has numbers beyond the largest".to_owned());
            }
        }
        let messages = runs.iter().map(|run| run.count as usize).sum();
        Ok(Deliveries { runs: runs.into_iter().map(|leased| Run { epoch, leased }).collect(), messages })
    }

    pub(crate) fn append(&mut self, later: Deliveries) {
        self.messages += later.messages;
        self.runs.extend(later.runs);
    }

    pub(crate) fn clear(&mut self) {
        *self = Deliveries::default();
    }

    /// Takes at most `most` messages off the front.
    pub(crate) fn take_front(&mut self, most: usize) -> Deliveries {
        if most >= self.messages {
            return std::mem::take(self);
        }
        let mut front = Deliveries::default();
        while front.messages < most {
            let run = self.runs.front_mut().expect("fewer messages were asked for than there are");
            let wanted = most - front.messages;
            let taken = if run.leased.count as usize <= wanted {
                self.runs.pop_front().expect("it was just looked at")
            } else {
                Run { leased: cut_front(&mut run.leased, wanted as u32), ..*run }
            };
            front.messages += taken.leased.count as usize;
            self.messages -= taken.leased.count as usize;
            front.runs.push_back(taken);
        }
        front
    }
}

/// Cuts `count` messages, fewer than it has, off the front of a run.
fn cut_front(run: &mut LeasedRun, count: u32) -> LeasedRun {
    assert!(count > 0 && count < run.count, "both sides of a cut hold messages");
    let bytes =
        block::messages(&run.block).take(count as usize).map(|m| m.expect("the block was checked").length).sum();
    let front = LeasedRun { count, block: run.block.split_to(bytes), ..run.clone() };
    run.count -= count;
    run.first = Sequence(run.first.0 + u64::from(count));
    run.receipt.lease = LeaseNumber(run.receipt.lease.0 + u64::from(count));
    front
}

impl Iterator for Deliveries {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        let Run { epoch, leased: run } = self.runs.front_mut()?;
        let parts = block::first(&run.block).expect("the block was checked");
        let delivery = Delivery {
            topic: run.topic.clone(),
            id: MessageId { topic: run.receipt.topic, priority: run.priority, sequence: run.first },
            receipt: run.receipt,
            body: slice(&run.block, parts.body),
            dedup_id: slice(&run.block, parts.dedup_id),
            published: run.published,
            deliveries: run.deliveries,
            failures: run.failures,
            epoch: *epoch,
            run: run.run,
            headers: slice(&run.block, parts.headers),
        };
        let length = parts.length;
        self.messages -= 1;
        if run.count == 1 {
            self.runs.pop_front();
        } else {
            run.block.advance(length);
            run.count -= 1;
            run.first = Sequence(run.first.0 + 1);
            run.receipt.lease = LeaseNumber(run.receipt.lease.0 + 1);
        }
        Some(delivery)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.messages, Some(self.messages))
    }
}

impl ExactSizeIterator for Deliveries {}

/// A part of a block as shared bytes; an empty one holds on to nothing.
fn slice(block: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { block.slice_ref(part) }
}

#[cfg(test)]
mod tests {
    use millpond_types::TopicNumber;

    use super::*;

    fn run(lease: u64, bodies: &[&str]) -> LeasedRun {
        let mut block = Vec::new();
        for body in bodies {
            block::push(&mut block, b"", &[(b"k", body.as_bytes())], body.as_bytes()).unwrap();
        }
        LeasedRun {
            topic: "t".try_into().unwrap(),
            receipt: Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(lease) },
            priority: Priority::DEFAULT,
            first: Sequence(lease * 10),
            count: bodies.len() as u32,
            published: WallTime(1),
            deliveries: 1,
            failures: 0,
            run: None,
            block: block.into(),
        }
    }

    fn seen(deliveries: Deliveries) -> Vec<(u64, u64, String)> {
        deliveries
            .map(|d| {
                assert_eq!(d.header("k"), Some(&d.body[..]));
                (d.receipt.lease.0, d.id.sequence.0, String::from_utf8(d.body.to_vec()).unwrap())
            })
            .collect()
    }

    #[test]
    fn runs_are_taken_apart_and_cut_anywhere() {
        let all = Deliveries::checked(vec![run(1, &["a", "bb", "ccc"]), run(9, &["d"])], None).unwrap();
        let whole = [(1, 10, "a"), (2, 11, "bb"), (3, 12, "ccc"), (9, 90, "d")].map(|(l, s, b)| (l, s, b.to_owned()));
        assert_eq!(seen(all.clone()), whole);
        for cut in 0..=5 {
            let mut rest = all.clone();
            let front = rest.take_front(cut);
            assert_eq!(front.len() + rest.len(), 4);
            assert_eq!(front.len(), cut.min(4));
            assert_eq!(front.receipts().len(), front.len());
            assert_eq!([seen(front), seen(rest)].concat(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_block_that_does_not_hold_what_its_run_says_is_refused() {
        let mut short = run(1, &["a"]);
        short.count = 2;
        assert!(Deliveries::checked(vec![short], None).is_err());
        let mut torn = run(1, &["abc"]);
        torn.block.truncate(torn.block.len() - 1);
        assert!(Deliveries::checked(vec![torn], None).is_err());
        let beyond = LeasedRun { first: Sequence(u64::MAX), ..run(1, &["a", "b"]) };
        assert!(Deliveries::checked(vec![beyond], None).is_err());
        assert!(Deliveries::checked(vec![run(1, &["a"])], None).is_ok());
    }
}
