//! The record of one sample of a socket: what the kernel's TCP or quiche's QUIC reported about a connection at one moment.
//!
//! `TcpInfo` is Linux's `struct tcp_info`, field by field with the kernel's names and units. It is parsed from bytes
//! that squall-linux gets from the kernel. Nothing here computes with a value. docs/RECORD.md, sockets.parquet,
//! explains the fields and their units.

use std::fmt;

use crate::side::Side;
use crate::time::{Duration, Time};

/// One sample of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRecord {
    /// When it was taken.
    pub time: Time,
    /// The hop of the path, from 1 at the client.
    pub hop: u8,
    /// The side that took it.
    pub side: Side,
    /// The connection, by its number on that side, from 0 in the order of opening or accepting.
    pub connection: u32,
    /// Whether it was taken at the connection's end.
    pub is_last: bool,
    /// The sample.
    pub sample: SocketSample,
}

impl SocketRecord {
    /// Converts its time to count from `epoch` instead of its clock's origin.
    pub fn count_from(&mut self, epoch: Time) {
        self.time = self.time.relative_to(epoch);
    }
}

/// What a transport reports about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all samples of a run are of one kind, and an allocation for each costs more than the space"
)]
pub enum SocketSample {
    /// From the kernel, for a TCP socket.
    Tcp(TcpInfo),
    /// From quiche, for the active path of a QUIC connection.
    Quic(QuicPath),
}

/// What quiche reports about a path (its `PathStats`), and the kernel about its socket. Counts start with the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicPath {
    /// Packets received.
    pub recv: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets sent with retransmitted data.
    pub retrans: u64,
    /// Probe timeouts (RFC 9002, section 6.2).
    pub ptos: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time; `None` before the first.
    pub min_rtt: Option<Duration>,
    /// The largest round-trip time; `None` before the first.
    pub max_rtt: Option<Duration>,
    /// The mean variation of the round-trip time.
    pub rttvar: Duration,
    /// The congestion window.
    pub cwnd_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub recv_bytes: u64,
    /// Bytes of packets declared lost.
    pub lost_bytes: u64,
    /// Bytes of streams that were retransmitted.
    pub stream_retrans_bytes: u64,
    /// The largest UDP payload that is sent.
    pub pmtu_bytes: u64,
    /// The latest estimate of the rate at which data arrives at the peer.
    pub delivery_rate_bytes_per_s: u64,
    /// The largest estimate of the bandwidth; `None` if the congestion control does not estimate it.
    pub max_bandwidth_bytes_per_s: Option<u64>,
    /// Datagrams that the kernel dropped because the socket's receive buffer was full, since the socket was created; a
    /// server's connections share a socket.
    pub socket_drops: u64,
}

/// A field of `struct tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpField {
    /// The kernel's name for it, such as `tcpi_rtt`.
    pub name: &'static str,
    /// The offset of its first byte.
    offset: usize,
    size: Size,
}

/// The part of the bytes that belongs to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// This many whole bytes: 1, 2, 4 or 8.
    Bytes(usize),
    /// Some bits of one byte: the number of bits declared before them in that byte, and their own number.
    Bits { before: u32, bits: u32 },
}

const fn bytes(name: &'static str, offset: usize, size: usize) -> TcpField {
    let size = Size::Bytes(size);
    TcpField { name, offset, size }
}

const fn bits(name: &'static str, offset: usize, before: u32, bits: u32) -> TcpField {
    let size = Size::Bits { before, bits };
    TcpField { name, offset, size }
}

impl TcpField {
    /// The field's value in `info`; `None` if `info` ends before the field does.
    fn read(&self, info: &[u8]) -> Option<u64> {
        let from = info.get(self.offset..)?;
        Some(match self.size {
            Size::Bytes(1) => u64::from(*from.first()?),
            Size::Bytes(2) => u64::from(u16::from_ne_bytes(*from.first_chunk()?)),
            Size::Bytes(4) => u64::from(u32::from_ne_bytes(*from.first_chunk()?)),
            Size::Bytes(_) => u64::from_ne_bytes(*from.first_chunk()?),
            Size::Bits { before, bits } => {
                // C leaves the order open, but compilers on little-endian machines start with a byte's lowest bits.
                let below = if cfg!(target_endian = "big") {
                    8 - before - bits
                } else {
                    before
                };
                u64::from(*from.first()? >> below) & ((1 << bits) - 1)
            }
        })
    }
}

/// What the kernel's TCP reports about a socket: `struct tcp_info` of include/uapi/linux/tcp.h.
///
/// ```
/// use squall_base::record::TcpInfo;
///
/// // What a kernel would return whose structure ends after the congestion window.
/// let mut bytes = [0; 84];
/// bytes[80..84].copy_from_slice(&10_u32.to_ne_bytes());
/// let info = TcpInfo::from_bytes(&bytes);
/// assert_eq!(info.get("tcpi_snd_cwnd"), Some(10));
/// assert_eq!(info.get("tcpi_min_rtt"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// In the order of `FIELDS`; `ABSENT` for a missing value.
    values: [u64; TcpInfo::FIELDS.len()],
}

/// Stands for a missing value. The kernel itself uses it for "no limit" in tcpi_pacing_rate and tcpi_max_pacing_rate;
/// no other 64-bit field reaches it.
const ABSENT: u64 = u64::MAX;

impl TcpInfo {
    /// The size of the whole structure in Linux 6.18, in bytes. The longer structures of other kernels begin in the same way.
    pub const SIZE: usize = 280;

    /// Every field, in the order of the kernel's structure, as of Linux 6.18. The last one has a name of ours: Linux
    /// 7.0 divides its four bytes differently and returns the same length, so that the bytes alone do not show what
    /// they hold.
    pub const FIELDS: [TcpField; 69] = [
        bytes("tcpi_state", 0, 1),
        bytes("tcpi_ca_state", 1, 1),
        bytes("tcpi_retransmits", 2, 1),
        bytes("tcpi_probes", 3, 1),
        bytes("tcpi_backoff", 4, 1),
        bytes("tcpi_options", 5, 1),
        bits("tcpi_snd_wscale", 6, 0, 4),
        bits("tcpi_rcv_wscale", 6, 4, 4),
        bits("tcpi_delivery_rate_app_limited", 7, 0, 1),
        bits("tcpi_fastopen_client_fail", 7, 1, 2),
        bytes("tcpi_rto", 8, 4),
        bytes("tcpi_ato", 12, 4),
        bytes("tcpi_snd_mss", 16, 4),
        bytes("tcpi_rcv_mss", 20, 4),
        bytes("tcpi_unacked", 24, 4),
        bytes("tcpi_sacked", 28, 4),
        bytes("tcpi_lost", 32, 4),
        bytes("tcpi_retrans", 36, 4),
        bytes("tcpi_fackets", 40, 4),
        bytes("tcpi_last_data_sent", 44, 4),
        bytes("tcpi_last_ack_sent", 48, 4),
        bytes("tcpi_last_data_recv", 52, 4),
        bytes("tcpi_last_ack_recv", 56, 4),
        bytes("tcpi_pmtu", 60, 4),
        bytes("tcpi_rcv_ssthresh", 64, 4),
        bytes("tcpi_rtt", 68, 4),
        bytes("tcpi_rttvar", 72, 4),
        bytes("tcpi_snd_ssthresh", 76, 4),
        bytes("tcpi_snd_cwnd", 80, 4),
        bytes("tcpi_advmss", 84, 4),
        bytes("tcpi_reordering", 88, 4),
        bytes("tcpi_rcv_rtt", 92, 4),
        bytes("tcpi_rcv_space", 96, 4),
        bytes("tcpi_total_retrans", 100, 4),
        bytes("tcpi_pacing_rate", 104, 8),
        bytes("tcpi_max_pacing_rate", 112, 8),
        bytes("tcpi_bytes_acked", 120, 8),
        bytes("tcpi_bytes_received", 128, 8),
        bytes("tcpi_segs_out", 136, 4),
        bytes("tcpi_segs_in", 140, 4),
        bytes("tcpi_notsent_bytes", 144, 4),
        bytes("tcpi_min_rtt", 148, 4),
        bytes("tcpi_data_segs_in", 152, 4),
        bytes("tcpi_data_segs_out", 156, 4),
        bytes("tcpi_delivery_rate", 160, 8),
        bytes("tcpi_busy_time", 168, 8),
        bytes("tcpi_rwnd_limited", 176, 8),
        bytes("tcpi_sndbuf_limited", 184, 8),
        bytes("tcpi_delivered", 192, 4),
        bytes("tcpi_delivered_ce", 196, 4),
        bytes("tcpi_bytes_sent", 200, 8),
        bytes("tcpi_bytes_retrans", 208, 8),
        bytes("tcpi_dsack_dups", 216, 4),
        bytes("tcpi_reord_seen", 220, 4),
        bytes("tcpi_rcv_ooopack", 224, 4),
        bytes("tcpi_snd_wnd", 228, 4),
        bytes("tcpi_rcv_wnd", 232, 4),
        bytes("tcpi_rehash", 236, 4),
        bytes("tcpi_total_rto", 240, 2),
        bytes("tcpi_total_rto_recoveries", 242, 2),
        bytes("tcpi_total_rto_time", 244, 4),
        bytes("tcpi_received_ce", 248, 4),
        bytes("tcpi_delivered_e1_bytes", 252, 4),
        bytes("tcpi_delivered_e0_bytes", 256, 4),
        bytes("tcpi_delivered_ce_bytes", 260, 4),
        bytes("tcpi_received_e1_bytes", 264, 4),
        bytes("tcpi_received_e0_bytes", 268, 4),
        bytes("tcpi_received_ce_bytes", 272, 4),
        bytes("tcpi_accecn_bits", 276, 4),
    ];

    /// Parses what getsockopt(TCP_INFO) returned: as many bytes as the running kernel has, in the machine's byte order.
    /// Fields that it lacks, and a pacing rate without a limit, become `None`.
    pub fn from_bytes(info: &[u8]) -> TcpInfo {
        let values = TcpInfo::FIELDS.map(|field| field.read(info).unwrap_or(ABSENT));
        TcpInfo { values }
    }

    /// All fields missing.
    pub const UNKNOWN: TcpInfo = TcpInfo {
        values: [ABSENT; TcpInfo::FIELDS.len()],
    };

    /// Sets the field at `place` in [`TcpInfo::FIELDS`], if it exists.
    pub fn set(&mut self, place: usize, value: Option<u64>) {
        if let Some(field) = self.values.get_mut(place) {
            *field = value.unwrap_or(ABSENT);
        }
    }

    /// Built from `values` in the order of [`TcpInfo::FIELDS`], for example those read from a table.
    pub fn from_values(values: [Option<u64>; TcpInfo::FIELDS.len()]) -> TcpInfo {
        let values = values.map(|value| value.unwrap_or(ABSENT));
        TcpInfo { values }
    }

    /// The values, in the order of [`TcpInfo::FIELDS`].
    pub fn values(&self) -> [Option<u64>; TcpInfo::FIELDS.len()] {
        self.values.map(present)
    }

    /// The value of the field at `place` in [`TcpInfo::FIELDS`]; `None` if it is missing, or if there is no such field.
    pub fn value(&self, place: usize) -> Option<u64> {
        self.values.get(place).copied().and_then(present)
    }

    /// The index of the field `name` in [`TcpInfo::FIELDS`].
    ///
    /// # Panics
    /// If there is no such field: in a constant expression, this is a compile error.
    pub const fn index_of(name: &str) -> usize {
        let mut index = 0;
        while !is_same(TcpInfo::FIELDS[index].name.as_bytes(), name.as_bytes()) {
            index += 1;
        }
        index
    }

    /// The value of the field `name`; `None` if it is missing, or if there is no such field.
    pub fn get(&self, name: &str) -> Option<u64> {
        let place = TcpInfo::FIELDS
            .iter()
            .position(|field| field.name == name)?;
        self.value(place)
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

fn present(value: u64) -> Option<u64> {
    (value != ABSENT).then_some(value)
}

impl fmt::Debug for TcpInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = TcpInfo::FIELDS.iter().zip(self.values());
        f.debug_map()
            .entries(fields.filter_map(|(field, value)| Some((field.name, value?))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::splitmix64;

    #[test]
    fn fields_of_tcp_info_follow_each_other_without_a_gap() {
        let mut end_bits = 0;
        for field in TcpInfo::FIELDS {
            let (begin, size) = match field.size {
                Size::Bytes(bytes) => (0, bytes * 8),
                Size::Bits { before, bits } => (before as usize, bits as usize),
            };
            let begin = field.offset * 8 + begin;
            // Five bits of byte 7 belong to no field.
            let gap = if field.name == "tcpi_rto" { 5 } else { 0 };
            assert_eq!(begin, end_bits + gap, "{}", field.name);
            end_bits = begin + size;
        }
        assert_eq!(end_bits, TcpInfo::SIZE * 8);
    }

    #[test]
    fn fields_are_read_from_handmade_bytes() {
        // Byte 0 is 0x00, byte 1 is 0x01, ... byte 255 is 0xFF, byte 256 is 0x00 again.
        let bytes: Vec<u8> = (0..TcpInfo::SIZE).map(|i| i as u8).collect();
        let info = TcpInfo::from_bytes(&bytes);
        let little_endian = [
            ("tcpi_state", 0x00),
            ("tcpi_options", 0x05),
            ("tcpi_snd_wscale", 0x6),
            ("tcpi_rcv_wscale", 0x0),
            ("tcpi_delivery_rate_app_limited", 1),
            ("tcpi_fastopen_client_fail", 3),
            ("tcpi_rto", 0x0B0A_0908),
            ("tcpi_rtt", 0x4746_4544),
            ("tcpi_pacing_rate", 0x6F6E_6D6C_6B6A_6968),
            ("tcpi_delivery_rate", 0xA7A6_A5A4_A3A2_A1A0),
            ("tcpi_snd_wnd", 0xE7E6_E5E4),
            ("tcpi_total_rto", 0xF1F0),
            ("tcpi_total_rto_recoveries", 0xF3F2),
            ("tcpi_received_ce_bytes", 0x1312_1110),
            ("tcpi_accecn_bits", 0x1716_1514),
        ];
        if cfg!(target_endian = "little") {
            for (name, expected) in little_endian {
                assert_eq!(info.get(name), Some(expected), "{name}");
            }
        }
        assert_eq!(info.get("tcpi_nothing"), None);
    }

    #[test]
    fn bit_fields_of_one_byte_are_separated() {
        let mut bytes = [0; 8];
        bytes[6] = if cfg!(target_endian = "little") {
            0xA7
        } else {
            0x7A
        };
        let info = TcpInfo::from_bytes(&bytes);
        assert_eq!(info.get("tcpi_snd_wscale"), Some(7));
        assert_eq!(info.get("tcpi_rcv_wscale"), Some(10));
        assert_eq!(info.get("tcpi_delivery_rate_app_limited"), Some(0));
    }

    #[test]
    fn unlimited_pacing_rate_has_no_value() {
        let info = TcpInfo::from_bytes(&[0xFF; TcpInfo::SIZE]);
        assert_eq!(info.get("tcpi_max_pacing_rate"), None);
        assert_eq!(info.get("tcpi_snd_ssthresh"), Some(u64::from(u32::MAX)));
    }

    #[test]
    fn exactly_the_complete_fields_are_read_at_any_length() {
        for length in 0..2 * TcpInfo::SIZE {
            // The lowest bit is clear: no field is all ones.
            let noise = |i| splitmix64(length as u64, i as u64) as u8 & 0xFE;
            let bytes: Vec<u8> = (0..length).map(noise).collect();
            let info = TcpInfo::from_bytes(&bytes);
            for field in TcpInfo::FIELDS {
                let size = match field.size {
                    Size::Bytes(bytes) => bytes,
                    Size::Bits { .. } => 1,
                };
                let whole = field.offset + size <= length;
                assert_eq!(
                    info.get(field.name).is_some(),
                    whole,
                    "{} in {length}",
                    field.name
                );
            }
            assert_eq!(TcpInfo::from_values(info.values()), info);
        }
    }
}
