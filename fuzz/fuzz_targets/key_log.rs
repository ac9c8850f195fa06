//! Fuzzes `drive_observe::key_log`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_observe::key_log(input));
