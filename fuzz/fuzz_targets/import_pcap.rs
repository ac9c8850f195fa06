//! Fuzzes `drive_import::import_pcap`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::drive_import::import_pcap(input));
