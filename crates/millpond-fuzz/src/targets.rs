//! The targets, by their names.
//!
//! A name is that of the wrapper in `fuzz/fuzz_targets` and of the corpus in `fuzz/corpus`.

pub mod checkpoint;
pub mod frames;
pub mod http;
pub mod journal;
pub mod model;
pub mod records;
mod serving;
pub mod sessions;
pub mod words;

use millpond_protocol::HEADER;

pub use serving::stop;

/// What is fuzzed.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it does with an input. It panics where it finds something.
    pub run: fn(&[u8]),
    /// Mutations in a run of all tests: some seconds for all targets together.
    pub mutations: u32,
}

/// All of them. Those that need memory to be still come before those that leave threads behind.
pub const TARGETS: &[Target] = &[
    Target { name: "frames", run: frames::run, mutations: 5000 },
    Target { name: "records", run: records::run, mutations: 20_000 },
    Target { name: "words", run: words::run, mutations: 20_000 },
    Target { name: "journal", run: journal::run, mutations: 500 },
    Target { name: "checkpoint", run: checkpoint::run, mutations: 200 },
    Target { name: "model", run: model::run, mutations: 4 },
    Target { name: "http", run: http::run, mutations: 500 },
    Target { name: "sessions", run: sessions::run, mutations: 500 },
];

/// Frames from pieces of any bytes: a kind, the length of its payload in two bytes, and the payload. Their correlation numbers
/// count from 1.
fn framed(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((&[kind, low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        let mut frame = (length as u32 + HEADER as u32 - 4).to_le_bytes().to_vec();
        frame.push(kind);
        frame.extend_from_slice(&(frames.len() as u32 + 1).to_le_bytes());
        frame.extend_from_slice(payload);
        frames.push(frame);
        data = rest;
    }
    frames
}
