//! Fuzzes `drive_link::link_trace`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_link::link_trace(input));
