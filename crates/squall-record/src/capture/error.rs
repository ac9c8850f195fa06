//! Why a capture could not be read: the fault, and the byte at which it is. Truncation is not an error: see
//! [`CaptureReader::is_truncated`](super::CaptureReader::is_truncated).

use std::io;

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refused to read.
    #[error("cannot read the capture: {0}")]
    Read(#[from] io::Error),
    /// The capture's bytes are malformed.
    #[error("cannot read the capture: byte {at}: {fault}")]
    At {
        /// The number of bytes before the end of the malformed part.
        at: u64,
        /// The fault.
        fault: CaptureFault,
    },
}

/// What is wrong with a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureFault {
    /// It does not begin like a capture.
    #[error(
        "it is neither pcap nor pcapng; unpack it if it is compressed, or let `editcap -F pcapng` convert it"
    )]
    NoCapture,
    /// A block with an impossible length.
    #[error("a block has an impossible length of {0} bytes; the file is damaged")]
    Length(u32),
    /// A section without a valid byte order.
    #[error("a section has no byte order; the file is damaged")]
    ByteOrder,
    /// A packet of an interface that was not described.
    #[error("a packet is of interface {0}, which is not described; the file is damaged")]
    Interface(u32),
    /// A link type whose packets are not supported.
    #[error(
        "link type {0} is not supported; supported are Ethernet, bare IP, Linux's cooked capture and loopback"
    )]
    LinkType(u32),
}
