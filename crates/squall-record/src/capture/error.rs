//! Why a capture could not be read: what is wrong, and at which byte.

use std::io;

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refused.
    #[error("cannot read the capture: {0}")]
    Read(#[from] io::Error),
    /// Its bytes are wrong.
    #[error("cannot read the capture: byte {at}: {fault}")]
    At {
        /// How many bytes precede those that are wrong.
        at: u64,
        /// What is wrong.
        fault: CaptureFault,
    },
}

/// What is wrong with a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureFault {
    /// It begins as none.
    #[error(
        "it is neither pcap nor pcapng; unpack it if it is compressed, or let `editcap -F pcapng` convert it"
    )]
    NoCapture,
    /// A block whose length cannot be.
    #[error("a block has {0} bytes, which cannot be; the file is damaged")]
    Length(u32),
    /// A byte order that is none.
    #[error("a section has no byte order; the file is damaged")]
    ByteOrder,
    /// A packet of an interface that was not described.
    #[error("a packet is of interface {0}, which is not described; the file is damaged")]
    Interface(u32),
    /// Packets whose IP headers cannot be found.
    #[error(
        "packets of link type {0} are not read; Ethernet, bare IP, Linux's cooked capture and loopback are"
    )]
    LinkType(u32),
}
