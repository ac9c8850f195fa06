//! A station's read buffers: one set, shared by all its connections.

use squall_linux::udp::ReceiveBuffers;

/// Most bytes that one read from a TCP socket returns.
const READ_BYTES: usize = 64 * 1024;

/// Reads of one connection before others get their turn: 1 MiB.
pub(crate) const READS_A_TURN: usize = 16;

/// Buffers of a station. The datagram buffers, a megabyte, are allocated on first use.
pub(crate) struct Buffers {
    stream: Box<[u8]>,
    datagrams: Option<ReceiveBuffers>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers {
            stream: vec![0; READ_BYTES].into(),
            datagrams: None,
        }
    }

    /// The buffer for TCP.
    pub(crate) fn stream(&mut self) -> &mut [u8] {
        &mut self.stream
    }

    /// The buffers for UDP.
    pub(crate) fn datagrams(&mut self) -> &mut ReceiveBuffers {
        self.datagrams.get_or_insert_default()
    }
}
