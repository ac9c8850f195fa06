//! The capture of a client's own flows, as its machine sent and received them, with the secrets of TLS.
//!
//! Unlike a link's capture (`file`) it has one interface, and packets come in the order of time. Frames get the same
//! made-up Ethernet header. `writer` writes the blocks; the caller decides which packets are the client's.

use std::io::{self, Write};

use super::file::{client_frame, server_frame};
use super::{CaptureDirection, PcapngWriter};

/// The only interface.
const INTERFACES: [(&str, &str); 1] =
    [("client", "the client's own flows, at the client's machine")];

/// A packet of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPacket {
    /// When, in nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// Whether the client sent it.
    pub direction: CaptureDirection,
    /// The packet, beginning with its IP header.
    pub bytes: Vec<u8>,
}

/// Writes packets as pcapng to `out`, after the lines of an NSS key log (draft-ietf-tls-keylogfile), which may be empty.
/// Returns the number of packets. It does not buffer.
///
/// # Errors
/// Those of `packets` and of `out`.
pub fn write_flows<W: Write>(
    out: W,
    key_log: &str,
    packets: impl Iterator<Item = io::Result<FlowPacket>>,
) -> io::Result<u64> {
    let application = concat!("squall ", env!("CARGO_PKG_VERSION"));
    let mut writer = PcapngWriter::new(out, application, &INTERFACES)?;
    if !key_log.is_empty() {
        writer.secrets(key_log)?;
    }
    let mut frame = Vec::new();
    let mut count = 0;
    for packet in packets {
        let packet = packet?;
        match packet.direction {
            CaptureDirection::Outbound => client_frame(&packet.bytes, &mut frame),
            CaptureDirection::Inbound => server_frame(&packet.bytes, &mut frame),
        }
        writer.packet(0, packet.unix_ns, Some(packet.direction), &frame, None)?;
        count += 1;
    }
    writer.finish()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION_HEADER: u32 = 0x0A0D_0D0A;

    /// The types of the blocks.
    fn kinds(file: &[u8]) -> Vec<u32> {
        let mut kinds = Vec::new();
        let mut at = 0;
        while let Some(start) = file.get(at..at + 8) {
            let word = |from: usize| u32::from_le_bytes(start[from..from + 4].try_into().unwrap());
            kinds.push(word(0));
            at += word(4) as usize;
        }
        kinds
    }

    fn packet(direction: CaptureDirection) -> io::Result<FlowPacket> {
        Ok(FlowPacket {
            unix_ns: 1_000,
            direction,
            bytes: vec![0x45; 40],
        })
    }

    #[test]
    fn secrets_are_written_before_the_packets() {
        let packets = [CaptureDirection::Outbound, CaptureDirection::Inbound].map(packet);
        let mut file = Vec::new();
        let count = write_flows(&mut file, "CLIENT_RANDOM 00 11\n", packets.into_iter()).unwrap();
        assert_eq!(count, 2);
        assert_eq!(kinds(&file), [SECTION_HEADER, 1, 10, 6, 6]);
        // The frames go from the client's address to the server's, and back.
        let ends = [[2_u8, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
        for [to, from] in [ends, [ends[1], ends[0]]] {
            let header = [to, from].concat();
            assert!(file.windows(12).any(|bytes| bytes == header.as_slice()));
        }
    }

    #[test]
    fn capture_without_secrets_has_no_block_for_them() {
        let mut file = Vec::new();
        write_flows(&mut file, "", std::iter::empty()).unwrap();
        assert_eq!(kinds(&file), [SECTION_HEADER, 1]);
    }
}
