//! Limits what a peer may send that costs processor time but carries nothing: datagrams with only PING, PADDING or
//! acknowledgements, STREAM frames of single bytes, empty DATA, PRIORITY_UPDATE, GOAWAY, frames and streams of unknown
//! types, instructions on QPACK's streams, cancelled requests.
//!
//! It is the counterpart of `h2::allowance`, and has no clock either: each of these costs a unit, and useful traffic in
//! either direction earns units. quiche does not report single QUIC frames, so a datagram counts as a whole; what else
//! it contains costs little once it is decrypted. A datagram with a HEADERS frame or the start of a DATA frame with
//! content costs nothing: a conversation may consist of such datagrams.

use squall_base::plan::Http3Settings;

use super::wire::{DATA, HEADERS, Header};

/// Units in advance, as many as the frames allowed over HTTP/2. `squall serve` and `squall proxy` close a connection
/// without progress after 75 s by default, and 10,000 datagrams in that time are 133 a second; keep-alive takes one in
/// 5 to 30 s. A peer that sends PING every 10 s while its stream is silent takes more than a day to use them up.
const IN_ADVANCE: u64 = 10_000;

/// Units earned by each message that we send: browsers add PRIORITY_UPDATE and a cancellation on QPACK's stream to a
/// request, and the acknowledgements of a small response are one or two datagrams, more if packets are lost.
const PER_MESSAGE: u64 = 100;

/// Units earned by each piece of a message that we send, however small: a receiver may acknowledge it, update the
/// stream's window and the connection's, each in a separate datagram, and probe once (RFC 9002, section 6.2).
const PER_PIECE: u64 = 4;

/// Bytes of messages, in either direction, that earn a unit; `h2::allowance` and nginx use the same. So an
/// acknowledgement of each packet of 1,200 bytes uses less than 1 % of what they earn, and a body in STREAM frames of
/// eight bytes or more, each in its own datagram, is free.
const BYTES_PER_UNIT: u64 = 8;

/// What a peer may still send without content.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u64,
    /// Bytes that have not earned a unit yet.
    bytes: u64,
    bytes_per_unit: u64,
    /// The datagram being received brought a frame with content.
    has_content: bool,
    is_exceeded: bool,
}

impl Allowance {
    /// A full allowance. Small windows of our own force the peer to send few bytes at a time, about half a window, so
    /// fewer bytes earn a unit then.
    pub(super) fn new(settings: &Http3Settings) -> Allowance {
        let window = settings.stream_window.min(settings.connection_window);
        Allowance {
            left: IN_ADVANCE,
            bytes: 0,
            bytes_per_unit: (window.get() / 2).clamp(1, BYTES_PER_UNIT),
            has_content: false,
            is_exceeded: false,
        }
    }

    /// Whether the peer has sent more than it may.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Charges the peer for `units` that carry nothing.
    pub(super) fn charge(&mut self, units: u64) {
        self.is_exceeded |= units > self.left;
        self.left = self.left.saturating_sub(units);
    }

    /// Counts a datagram. Call this after counting everything that it brought.
    pub(super) fn receive_datagram(&mut self) {
        if !std::mem::take(&mut self.has_content) {
            self.charge(1);
        }
    }

    /// Counts a frame on a stream with a message.
    pub(super) fn receive_frame(&mut self, header: Header) {
        if matches!(header.kind, DATA | HEADERS) && header.length > 0 {
            self.has_content = true;
        } else {
            self.charge(1);
        }
    }

    /// Counts bytes of a body that the peer sent.
    pub(super) fn receive_body(&mut self, bytes: usize) {
        self.earn_bytes(bytes);
    }

    /// Counts a piece of a message that we send, of this many bytes.
    pub(super) fn send_piece(&mut self, bytes: usize) {
        self.earn(PER_PIECE);
        self.earn_bytes(bytes);
    }

    /// Counts the end of a message that we send.
    pub(super) fn send_message(&mut self) {
        self.earn(PER_MESSAGE);
    }

    fn earn_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.earn(self.bytes / self.bytes_per_unit);
        self.bytes %= self.bytes_per_unit;
    }

    fn earn(&mut self, units: u64) {
        self.left = self.left.saturating_add(units);
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;

    use super::*;

    fn full() -> Allowance {
        Allowance::new(&Http3Settings::default())
    }

    fn frame(kind: u64, length: u64) -> Header {
        Header {
            kind,
            offset: 0,
            length,
        }
    }

    /// How many more datagrams without content the allowance accepts.
    fn left(mut allowance: Allowance) -> u64 {
        let mut datagrams = 0;
        loop {
            allowance.receive_datagram();
            if allowance.is_exceeded() {
                return datagrams;
            }
            datagrams += 1;
        }
    }

    #[test]
    fn frames_that_carry_nothing_are_charged() {
        assert_eq!(left(full()), IN_ADVANCE);
        let mut allowance = full();
        // Reserved, PRIORITY_UPDATE, and empty frames.
        for header in [
            frame(0x21, 5),
            frame(0xf0700, 3),
            frame(DATA, 0),
            frame(HEADERS, 0),
        ] {
            allowance.receive_frame(header);
        }
        allowance.charge(6);
        assert_eq!(left(allowance), IN_ADVANCE - 10);
    }

    #[test]
    fn bodies_and_messages_earn_units() {
        let mut allowance = full();
        allowance.send_piece(17);
        allowance.send_piece(6);
        allowance.send_message();
        allowance.receive_body(9);
        assert_eq!(left(allowance), IN_ADVANCE + 4 + 2 + 4 + 100 + 2);
    }

    #[test]
    fn a_datagram_with_a_small_message_is_free_but_single_bytes_are_not() {
        let (mut conversation, mut bytes) = (full(), full());
        for _ in 0..800 {
            conversation.receive_frame(frame(DATA, 1));
            conversation.receive_body(1);
            conversation.receive_datagram();
            bytes.receive_body(1);
            bytes.receive_datagram();
        }
        assert_eq!(left(conversation), IN_ADVANCE + 100);
        assert_eq!(left(bytes), IN_ADVANCE - 700);
    }

    #[test]
    fn a_peer_slowed_down_by_small_windows_never_exceeds_the_allowance() {
        for window in [2, 3, 10] {
            let mut allowance = Allowance::new(&Http3Settings {
                stream_window: Bytes::new(window),
                ..Http3Settings::default()
            });
            for _ in 0..3 * IN_ADVANCE {
                allowance.receive_body((window as usize / 2).max(1));
                allowance.receive_datagram();
            }
            assert!(!allowance.is_exceeded(), "{window}");
        }
    }
}
