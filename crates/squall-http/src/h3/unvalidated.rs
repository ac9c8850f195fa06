//! The limit on what a server sends to an address that is not validated yet (RFC 9000, section 8.1).
//!
//! quiche 0.30 has this limit too, but does not count the padding after the last packet of a datagram with an Initial
//! packet. Probes consist mostly of such padding: one Initial packet of a forged address made it send more than six
//! times as much. So every datagram is counted here with its length on the wire, and quiche gets no more room than is
//! left. What does not fit is not built; quiche still has it, and sends it once the client has sent more.
//!
//! `server` decides when an address is validated.

/// How many bytes may be sent for each byte received (RFC 9000, section 8.1).
const FACTOR: usize = 3;

/// The bytes exchanged with an address that is not validated.
#[derive(Debug, Default)]
pub(super) struct UnvalidatedAddress {
    received: usize,
    sent: usize,
}

impl UnvalidatedAddress {
    /// Counts a datagram of the address.
    pub(super) fn receive(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes);
    }

    /// Counts a datagram to the address, with its padding.
    pub(super) fn send(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// The length of the longest datagram that may be sent now.
    pub(super) fn room(&self) -> usize {
        self.received
            .saturating_mul(FACTOR)
            .saturating_sub(self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bytes_may_be_sent_for_each_received() {
        let mut address = UnvalidatedAddress::default();
        assert_eq!(address.room(), 0);
        address.receive(1_200);
        address.send(1_350);
        assert_eq!(address.room(), 2_250);
        address.send(2_250);
        assert_eq!(address.room(), 0);
        address.receive(100);
        assert_eq!(address.room(), 300);
    }
}
