//! Fuzzes `drive_import::import_script`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_import::import_script(input));
