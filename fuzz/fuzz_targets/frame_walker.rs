//! Fuzzes `drive::frame_walker`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive::frame_walker(input));
