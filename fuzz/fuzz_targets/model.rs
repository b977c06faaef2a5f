//! The core against its model, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::targets::model::run(data));
