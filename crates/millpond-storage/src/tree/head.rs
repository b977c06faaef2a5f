//! What a commit says of itself.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 1 | version | 1 |
//! | 8 | position | the entries are the state behind every batch of the journal before this position |
//! | 8 | epoch | counts the checkpoints |
//! | 4 | start | the start of the broker that made it |
//! | 8 | wall | wall time as of the position |
//! | 16 | directory | the id of the directory |
//! | | rest | whatever the one who commits wants to find again |
//!
//! It stands under the key `00`, before all others. The tree's checksums cover it.

use bytes::Bytes;
use millpond_types::WallTime;

use super::TreeError;

/// Where it stands.
pub(super) const HEAD_KEY: [u8; 1] = [0];
const VERSION: u8 = 1;
const FIXED: usize = 45;

/// What a commit says of itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CommitHead {
    /// The entries are the state behind every batch of the journal before this position.
    pub position: u64,
    /// Counts the checkpoints.
    pub epoch: u64,
    /// The start of the broker that made it.
    pub start: u32,
    /// Wall time as of the position.
    pub wall: WallTime,
    /// The id of the directory.
    pub directory: u128,
    /// Whatever the one who commits wants to find again.
    pub rest: Bytes,
}

impl CommitHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let CommitHead { position, epoch, start, wall, directory, rest } = self;
        let mut bytes = Vec::with_capacity(FIXED + rest.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&position.to_le_bytes());
        bytes.extend_from_slice(&epoch.to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&wall.0.to_le_bytes());
        bytes.extend_from_slice(&directory.to_le_bytes());
        bytes.extend_from_slice(rest);
        bytes
    }

    pub(super) fn decode(bytes: &Bytes) -> Result<CommitHead, TreeError> {
        let damaged = |what: String| TreeError::Damaged(format!("its head {what}"));
        let version = bytes.first().ok_or_else(|| damaged("is empty".to_owned()))?;
        if *version != VERSION {
            return Err(damaged(format!("is of version {version}, which this program does not know")));
        }
        let mut at = 1;
        let mut take = |length: usize| {
            let field = bytes.get(at..at + length).ok_or_else(|| damaged("is cut off".to_owned()))?;
            at += length;
            let mut wide = [0; 16];
            wide[..length].copy_from_slice(field);
            Ok::<u128, TreeError>(u128::from_le_bytes(wide))
        };
        Ok(CommitHead {
            position: take(8)? as u64,
            epoch: take(8)? as u64,
            start: take(4)? as u32,
            wall: WallTime(take(8)? as u64),
            directory: take(16)?,
            rest: bytes.slice(FIXED..),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let rest = Bytes::from_static(b"segments");
        let head = CommitHead { position: 1 << 40, epoch: 7, start: 3, wall: WallTime(9), directory: 1 << 100, rest };
        let bytes = Bytes::from(head.encode());
        assert_eq!(CommitHead::decode(&bytes).unwrap(), head);
        for end in 0..FIXED {
            assert!(CommitHead::decode(&bytes.slice(..end)).is_err(), "cut to {end}");
        }
    }
}
