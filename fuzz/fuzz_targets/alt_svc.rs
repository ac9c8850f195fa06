//! Fuzzes `drive_values::alt_svc`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_values::alt_svc(input));
