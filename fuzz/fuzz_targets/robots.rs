//! Fuzzes `drive_values::robots`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_values::robots(input));
