//! Captures of the packets on the link, for Wireshark, tshark, tcptrace and other pcapng readers.
//!
//! The format is draft-ietf-opsawg-pcapng. [`PcapngWriter`] (`writer`) writes its blocks and knows nothing of squall;
//! [`PcapngFile`] (`file`) decides what squall puts into them for a link, [`write_flows`] (`flows`) for a client; `secrets`
//! adds TLS secrets. Nothing here reads a capture (`capture` does). The caller decides which packets are captured, and words
//! the comments.
//!
//! The link carries bare IP packets, yet the link type is Ethernet, with made-up addresses. tcptrace and tcpdump read
//! through libpcap, which refuses two interfaces of LINKTYPE_RAW ("an interface has a type 101 different from the type
//! of the first interface"): its sf-pcapng.c compares the file's 101 with its own number for the first interface,
//! DLT_RAW, which is 12 (seen in 1.10.3 and in the source of 1.11.0). In a file, 12 is reserved (IANA's PCAP
//! LinkTypes); LINKTYPE_IPV4 is unknown to tcptrace 6.6.7; every reader supports Ethernet. The price is that a reader's
//! `frame.len` is 14 bytes more than the record's `length`.

mod file;
mod flows;
mod secrets;
mod writer;

pub use file::{CapturedPacket, PcapngFile};
pub use flows::{FlowPacket, write_flows};
pub use secrets::add_secrets;
pub use writer::{CaptureDirection, PcapngWriter};
