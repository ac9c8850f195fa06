//! Fuzzes `offload::link_offload`; see there for what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_fuzz::offload::link_offload(input));
