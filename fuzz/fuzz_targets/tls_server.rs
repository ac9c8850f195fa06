//! Fuzzes `drive_secure::tls_server`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_secure::tls_server(input));
