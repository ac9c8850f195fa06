//! What a station reads into: one set for all of its connections.

use squall_linux::udp::ReceiveBuffers;

/// What one read from a TCP socket takes at most.
const READ_BYTES: usize = 64 * 1024;

/// Buffers of a station. Those for datagrams, a megabyte, are made when they are needed.
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

    /// For TCP.
    pub(crate) fn stream(&mut self) -> &mut [u8] {
        &mut self.stream
    }

    /// For UDP.
    pub(crate) fn datagrams(&mut self) -> &mut ReceiveBuffers {
        self.datagrams.get_or_insert_default()
    }
}
