//! A capture made from packets.parquet, for trials without one: the packets' headers without their content, like a capture with
//! a short snaplen.
//!
//! The table has no addresses, checksums or options, so addresses are made up, checksums are zero, and TCP options are padding.
//! A window of more than 65,535 bytes is written as 65,535, because its scaling is unknown. Each comment says what the link did
//! with the packet and, if it was dropped, how it was repaired and how many requests it delayed. `pcapng/` writes the blocks;
//! the link's own captures are made there too.

use std::collections::BTreeMap;
use std::io::{self, Write};

use squall_base::record::{Direction, DropRecord, Fate, PacketRecord, PacketRef};

use super::{ExportError, unix_ns};
use crate::pcapng::{CaptureDirection, PcapngWriter};

/// IP protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Made-up MAC addresses, types of Ethernet and IP: two locally administered addresses, and IPv4.
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const IPV4: [u8; 2] = [0x08, 0x00];

/// Addresses for documentation (RFC 5737), and the port of a trial's server.
const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [192, 0, 2, 2];
const SERVER_PORT: u16 = 8080;

const ETHERNET_BYTES: u32 = 14;
const IP_BYTES: u16 = 20;
const TCP_BYTES: u16 = 20;
const TCP_BYTES_AT_MOST: u16 = 60;
/// TCP's option without a meaning (RFC 9293, section 3.1).
const NO_OPERATION: u8 = 1;

/// Writes the packets of the link that `hop` crosses, in the order in which they reached it.
///
/// # Errors
/// The operating system refused to write.
pub fn write_packet_headers<W: Write>(
    writer: W,
    epoch_unix_ns: u64,
    packets: &[PacketRecord],
    drops: &[DropRecord],
    hop: u8,
) -> Result<W, ExportError> {
    let failed = |source: io::Error| ExportError::Write {
        format: "capture",
        source,
    };
    let drops: BTreeMap<PacketRef, &DropRecord> =
        drops.iter().map(|drop| (drop.packet, drop)).collect();
    let mut rows: Vec<&PacketRecord> = packets.iter().filter(|row| row.hop == hop).collect();
    rows.sort_by_key(|row| (row.arrived, row.direction, row.index, row.is_copy));
    let application = concat!("squall ", env!("CARGO_PKG_VERSION"));
    let interfaces = [
        ("up", "client to server, headers only, from packets.parquet"),
        (
            "down",
            "server to client, headers only, from packets.parquet",
        ),
    ];
    let mut capture = PcapngWriter::new(writer, application, &interfaces).map_err(failed)?;
    for row in rows {
        let (interface, direction) = match row.direction {
            Direction::Up => (0, CaptureDirection::Outbound),
            Direction::Down => (1, CaptureDirection::Inbound),
        };
        let at = unix_ns(epoch_unix_ns, row.arrived).unsigned_abs();
        let packet = PacketRef {
            hop: row.hop,
            direction: row.direction,
            index: row.index,
        };
        let said = comment(row, drops.get(&packet).copied());
        let original = ETHERNET_BYTES + u32::from(row.length);
        capture
            .shortened_packet(
                interface,
                Some(direction),
                at,
                headers(row).as_slice(),
                original,
                said.as_deref(),
            )
            .map_err(failed)?;
    }
    capture.finish().map_err(failed)
}

/// The headers of a packet, none longer than the packet was.
fn headers(row: &PacketRecord) -> Vec<u8> {
    let is_up = row.direction == Direction::Up;
    let (from, to) = if is_up {
        (CLIENT, SERVER)
    } else {
        (SERVER, CLIENT)
    };
    let (from_mac, to_mac) = if is_up {
        (CLIENT_MAC, SERVER_MAC)
    } else {
        (SERVER_MAC, CLIENT_MAC)
    };
    let ports = if is_up {
        [row.client_port, SERVER_PORT]
    } else {
        [SERVER_PORT, row.client_port]
    };
    let mut bytes = [&to_mac[..], &from_mac, &IPV4].concat();
    // Version 4 with a header of five words, no type of service.
    bytes.extend([0x45, 0]);
    bytes.extend(row.length.to_be_bytes());
    // No identification; not to be fragmented; 64 hops.
    bytes.extend([0, 0, 0x40, 0, 64, row.protocol, 0, 0]);
    bytes.extend(from);
    bytes.extend(to);
    match row.protocol {
        TCP => tcp_header(row, ports, &mut bytes),
        UDP => {
            bytes.extend(ports.map(u16::to_be_bytes).concat());
            bytes.extend(row.length.saturating_sub(IP_BYTES).to_be_bytes());
            bytes.extend([0, 0]);
        }
        _ => {}
    }
    bytes.truncate(ETHERNET_BYTES as usize + usize::from(row.length));
    bytes
}

fn tcp_header(row: &PacketRecord, ports: [u16; 2], bytes: &mut Vec<u8>) {
    let length = row.length.saturating_sub(IP_BYTES);
    let length = length.saturating_sub(row.payload_len);
    let length = length.clamp(TCP_BYTES, TCP_BYTES_AT_MOST) / 4 * 4;
    bytes.extend(ports.map(u16::to_be_bytes).concat());
    bytes.extend(row.seq.to_be_bytes());
    bytes.extend(row.ack.to_be_bytes());
    // The length of the header in words is in the upper half of its byte.
    bytes.extend([(length as u8) << 2, row.tcp_flags]);
    let window = u16::try_from(row.window_bytes).unwrap_or(u16::MAX);
    bytes.extend(window.to_be_bytes());
    // No checksum, no urgent pointer.
    bytes.extend([0; 4]);
    bytes.extend(vec![NO_OPERATION; usize::from(length - TCP_BYTES)]);
}

/// What the link did with a packet; `None` if it was delivered unchanged.
fn comment(row: &PacketRecord, drop: Option<&DropRecord>) -> Option<String> {
    let mut said = Vec::new();
    match row.fate {
        Fate::Delivered => {}
        fate if fate.is_drop() => said.push(format!("dropped ({})", fate.name())),
        fate => said.push(fate.name().to_owned()),
    }
    said.extend(row.is_marked.then(|| "marked (ECN)".to_owned()));
    said.extend(row.is_corrupted.then(|| "a bit was flipped".to_owned()));
    said.extend(
        row.is_copy
            .then(|| "second copy made by the link".to_owned()),
    );
    if let Some(drop) = drop {
        said.push(match drop.repaired_at {
            Some(at) => format!(
                "repaired by {} after {}",
                drop.repair.name(),
                at.since(drop.dropped_at)
            ),
            None => format!("repair: {}", drop.repair.name()),
        });
        let mut victims: Vec<u64> = drop.victims.iter().map(|victim| victim.request).collect();
        victims.sort_unstable();
        victims.dedup();
        if !victims.is_empty() {
            said.push(format!("requests delayed: {}", victims.len()));
        }
    }
    (!said.is_empty()).then(|| format!("squall: {}", said.join("; ")))
}
