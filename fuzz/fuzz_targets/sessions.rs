//! Connections to a broker, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::targets::sessions::run(data));
