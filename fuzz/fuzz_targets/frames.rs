//! Frames of the wire, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::targets::frames::run(data));
