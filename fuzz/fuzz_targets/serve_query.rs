//! Fuzzes `drive_query::serve_query`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_query::serve_query(input));
