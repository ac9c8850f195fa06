//! Fuzzes `drive_quic::quic_frames`; see there for what is checked.
#![no_main]

use squall_fuzz::{drive_observe, drive_quic};

libfuzzer_sys::fuzz_target!(|input: &[u8]| drive_observe::check(&drive_quic::quic_frames(input)));
