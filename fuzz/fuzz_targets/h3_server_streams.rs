//! Fuzzes `drive_h3::h3_server_streams`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_h3::h3_server_streams(input));
