//! Fuzzes `drive_values::traced`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_values::traced(input));
