//! Fuzzes `drive::h2_upgraded_client`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive::h2_upgraded_client(input));
