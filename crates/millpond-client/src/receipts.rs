//! Receipts gathered for one finish call, kept as runs of consecutive leases.

use millpond_types::{LeaseNumber, NamespaceName, Receipt};

use crate::delivery::{Deliveries, Delivery};

/// Receipts for [`crate::Client::ack`] and the others. Receipts of consecutive leases, as a batch of deliveries brings
/// them, are kept and sent as one. The outcomes come in the order in which the receipts were put in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Receipts {
    runs: Vec<(Receipt, u32)>,
    count: usize,
    namespace: Option<NamespaceName>,
}

impl Receipts {
    /// Adds one.
    pub fn push(&mut self, receipt: Receipt) {
        self.push_run(receipt, 1);
    }

    /// Adds so many of consecutive lease numbers.
    pub fn push_run(&mut self, first: Receipt, count: u32) {
        if count == 0 {
            return;
        }
        self.count += count as usize;
        if let Some((before, joined)) = self.runs.last_mut()
            && (before.topic, before.group) == (first.topic, first.group)
            && before.lease.0.checked_add(u64::from(*joined)) == Some(first.lease.0)
            && let Some(sum) = joined.checked_add(count)
        {
            *joined = sum;
            return;
        }
        self.runs.push((first, count));
    }

    /// Says that all of them have to be of this namespace: if one of a call is of another, nothing of the call is done and it
    /// is refused.
    #[must_use]
    pub fn within(self, namespace: NamespaceName) -> Receipts {
        Receipts { namespace: Some(namespace), ..self }
    }

    /// The namespace that all of them have to be of, if that was said.
    pub(crate) fn namespace(&self) -> Option<&NamespaceName> {
        self.namespace.as_ref()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none. Finishing none does nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The runs: each names the first of so many leases of consecutive numbers.
    pub fn runs(&self) -> &[(Receipt, u32)] {
        &self.runs
    }

    /// Cuts them into lists of at most `most` receipts each.
    pub(crate) fn chunks(&self, most: usize) -> Vec<Vec<(Receipt, u32)>> {
        let (mut chunks, mut chunk, mut room) = (Vec::new(), Vec::new(), most);
        for &(mut first, mut count) in &self.runs {
            while count > 0 {
                let taken = count.min(room as u32);
                chunk.push((first, taken));
                // Receipts come from outside: behind the largest number there is nothing, and nobody looks there.
                first.lease = LeaseNumber(first.lease.0.saturating_add(u64::from(taken)));
                (count, room) = (count - taken, room - taken as usize);
                if room == 0 {
                    chunks.push(std::mem::take(&mut chunk));
                    room = most;
                }
            }
        }
        if !chunk.is_empty() {
            chunks.push(chunk);
        }
        chunks
    }
}

impl From<Receipt> for Receipts {
    fn from(receipt: Receipt) -> Self {
        Receipts { runs: vec![(receipt, 1)], count: 1, namespace: None }
    }
}

impl From<&Receipt> for Receipts {
    fn from(receipt: &Receipt) -> Self {
        Receipts::from(*receipt)
    }
}

impl From<&Delivery> for Receipts {
    fn from(delivery: &Delivery) -> Self {
        Receipts::from(delivery.receipt)
    }
}

impl From<&Deliveries> for Receipts {
    fn from(deliveries: &Deliveries) -> Self {
        deliveries.receipts()
    }
}

impl From<&[Delivery]> for Receipts {
    fn from(deliveries: &[Delivery]) -> Self {
        deliveries.iter().map(|delivery| delivery.receipt).collect()
    }
}

impl FromIterator<Receipt> for Receipts {
    fn from_iter<I: IntoIterator<Item = Receipt>>(receipts: I) -> Self {
        let mut all = Receipts::default();
        all.extend(receipts);
        all
    }
}

impl Extend<Receipt> for Receipts {
    fn extend<I: IntoIterator<Item = Receipt>>(&mut self, receipts: I) {
        receipts.into_iter().for_each(|receipt| self.push(receipt));
    }
}

#[cfg(test)]
mod tests {
    use millpond_types::TopicNumber;

    use super::*;

    fn receipt(topic: u64, lease: u64) -> Receipt {
        Receipt { topic: TopicNumber(topic), group: 0, lease: LeaseNumber(lease) }
    }

    #[test]
    fn consecutive_leases_are_joined() {
        let receipts: Receipts =
            [(1, 5), (1, 6), (1, 7), (2, 8), (1, 8), (1, 10)].map(|(t, l)| receipt(t, l)).into_iter().collect();
        assert_eq!(receipts.len(), 6);
        assert_eq!(receipts.runs(), [(receipt(1, 5), 3), (receipt(2, 8), 1), (receipt(1, 8), 1), (receipt(1, 10), 1)]);
    }

    #[test]
    fn chunks_keep_the_order_and_the_limit() {
        let mut receipts = Receipts::default();
        receipts.push_run(receipt(1, 1), 5);
        receipts.push_run(receipt(2, 1), 2);
        let (a, b) = (|l, n| (receipt(1, l), n), |l, n| (receipt(2, l), n));
        assert_eq!(receipts.chunks(3), [vec![a(1, 3)], vec![a(4, 2), b(1, 1)], vec![b(2, 1)]]);
        assert_eq!(receipts.chunks(7), [vec![a(1, 5), b(1, 2)]]);
    }

    #[test]
    fn the_largest_number_is_a_receipt_like_others() {
        let last = receipt(u64::MAX, u64::MAX);
        let receipts: Receipts = [receipt(u64::MAX, u64::MAX - 1), last, last].into_iter().collect();
        assert_eq!(receipts.chunks(1).concat(), [(receipt(u64::MAX, u64::MAX - 1), 1), (last, 1), (last, 1)]);
    }
}
