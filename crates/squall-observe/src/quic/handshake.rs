//! TLS in CRYPTO frames (RFC 9001, section 4): the messages that determine a connection's secrets, and when the
//! handshake was complete.
//!
//! The messages are those of TLS 1.3, which `tls::hello` parses. Nothing is verified, and messages in 1-RTT packets
//! (session tickets) are skipped.

use squall_base::Time;
use squall_base::record::{PerWay, Way};

use crate::connection_record::{OpaqueReason, TlsFacts};
use crate::tls::hello::{self, ClientHello, TLS13};
use crate::tls::{CLIENT_HELLO, ENCRYPTED_EXTENSIONS, FINISHED, SERVER_HELLO};
use crate::waiting::OutOfOrderQueue;

/// How far CRYPTO data may be ahead of a gap, and how long a message to be parsed may be. Only certificates are longer,
/// and those are skipped.
const MAX_AHEAD_BYTES: u64 = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// A message's type and length.
const MESSAGE_HEADER_BYTES: usize = 4;

/// The encryption levels whose CRYPTO frames are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Initial,
    Handshake,
}

/// The handshake of a connection.
pub(crate) struct Handshake {
    client: Way,
    crypto_streams: PerWay<[CryptoStream; 2]>,
    pub(crate) facts: TlsFacts,
    pub(crate) client_hello: Option<ClientHello>,
    /// The cipher suite, once the ServerHello named it.
    pub(crate) suite: Option<u16>,
}

/// CRYPTO data of one direction at one level.
#[derive(Default)]
struct CryptoStream {
    next: u64,
    waiting: OutOfOrderQueue,
    /// The kept bytes of the incomplete message.
    message: Vec<u8>,
    /// How many more bytes of a skipped message will arrive.
    skipped: usize,
}

impl Handshake {
    pub(crate) fn new(client: Way) -> Handshake {
        Handshake {
            client,
            crypto_streams: PerWay::default(),
            facts: TlsFacts::default(),
            client_hello: None,
            suite: None,
        }
    }

    /// A Retry arrived. The client must resend the same ClientHello (RFC 9000, section 17.2.5.2), but quiche builds a
    /// new one.
    pub(crate) fn restart(&mut self) {
        self.crypto_streams = PerWay::default();
        self.client_hello = None;
    }

    /// Takes the data of a CRYPTO frame.
    ///
    /// # Errors
    /// A hello in it cannot be parsed.
    pub(crate) fn receive(
        &mut self,
        way: Way,
        level: Level,
        offset: u64,
        data: &[u8],
        at: Time,
    ) -> Result<(), OpaqueReason> {
        let stream = &mut self.crypto_streams.of_mut(way)[level as usize];
        let end = offset.saturating_add(data.len() as u64);
        if end <= stream.next || end - stream.next > MAX_AHEAD_BYTES {
            return Ok(());
        }
        if offset > stream.next {
            if !stream.waiting.is_full() {
                stream.waiting.insert(at, offset, data);
            }
            return Ok(());
        }
        let fresh = (stream.next - offset) as usize;
        stream.gather(&data[fresh..]);
        while let Some((_, bytes)) = stream.waiting.pop(stream.next) {
            stream.gather(&bytes);
        }
        while let Some((kind, body)) =
            self.crypto_streams.of_mut(way)[level as usize].next_message()
        {
            self.message(way, kind, &body, at)?;
        }
        Ok(())
    }

    fn message(&mut self, way: Way, kind: u8, body: &[u8], at: Time) -> Result<(), OpaqueReason> {
        let unreadable = || OpaqueReason::unclear("a hello of TLS cannot be read");
        let is_client = way == self.client;
        match kind {
            CLIENT_HELLO if is_client && self.client_hello.is_none() => {
                let hello = hello::client_hello(body).ok_or_else(unreadable)?;
                self.facts.client_hello.get_or_insert(at);
                self.facts.server_name.clone_from(&hello.server_name);
                self.facts.offered.clone_from(&hello.alpn);
                self.client_hello = Some(hello);
            }
            SERVER_HELLO if !is_client => {
                let hello = hello::server_hello(body).ok_or_else(unreadable)?;
                if hello.is_retry() {
                    self.facts.retried = true;
                    return Ok(());
                }
                self.facts.server_hello.get_or_insert(at);
                self.facts.version = Some(TLS13);
                self.facts.cipher = Some(hello.cipher);
                self.facts.resumed = Some(hello.has_psk);
                self.suite.get_or_insert(hello.cipher);
            }
            ENCRYPTED_EXTENSIONS if !is_client => {
                let read = hello::encrypted_extensions(body).ok_or_else(unreadable)?;
                self.facts.alpn = read.alpn;
                let offers = self.client_hello.as_ref();
                if offers.is_some_and(|hello| hello.offers_early_data) {
                    self.facts.early_data = Some(read.takes_early_data);
                }
            }
            FINISHED if is_client => {
                self.facts.done.get_or_insert(at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether HTTP/3 is spoken, as far as can be told: ALPN agreed on it, or the client offered nothing else and the
    /// server's choice is unknown (RFC 9114, section 3.1).
    pub(crate) fn is_http3(&self) -> bool {
        let is_h3 = |name: &String| name == "h3" || name.starts_with("h3-");
        match &self.facts.alpn {
            Some(alpn) => is_h3(alpn),
            None => !self.facts.offered.is_empty() && self.facts.offered.iter().all(is_h3),
        }
    }
}

impl CryptoStream {
    /// Takes bytes that are in order.
    fn gather(&mut self, bytes: &[u8]) {
        self.next += bytes.len() as u64;
        let skipped = self.skipped.min(bytes.len());
        self.skipped -= skipped;
        self.message.extend_from_slice(&bytes[skipped..]);
    }

    /// Removes and returns the first complete message that is of interest, and drops the others before it.
    fn next_message(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let [kind, high, middle, low] = *self.message.first_chunk()?;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let whole = MESSAGE_HEADER_BYTES + length;
            let is_read = matches!(
                kind,
                CLIENT_HELLO | SERVER_HELLO | ENCRYPTED_EXTENSIONS | FINISHED
            );
            if is_read && length <= MAX_MESSAGE_BYTES {
                if self.message.len() < whole {
                    return None;
                }
                let mut message: Vec<u8> = self.message.drain(..whole).collect();
                return Some((kind, message.split_off(MESSAGE_HEADER_BYTES)));
            }
            let dropped = whole.min(self.message.len());
            self.message.drain(..dropped);
            self.skipped = whole - dropped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32).to_be_bytes();
        [&[kind], &length[1..], body].concat()
    }

    #[test]
    fn messages_are_read_across_frames_and_certificates_are_skipped() {
        let bytes = [
            message(
                ENCRYPTED_EXTENSIONS,
                &[0, 9, 0, 16, 0, 5, 0, 3, 2, b'h', b'3'],
            ),
            message(11, &[7; 100_000]),
            message(FINISHED, &[1; 32]),
        ]
        .concat();
        for step in [1, 7, 1_200, bytes.len()] {
            let mut handshake = Handshake::new(Way::Received);
            let pieces: Vec<(usize, &[u8])> = (0..).step_by(step).zip(bytes.chunks(step)).collect();
            // The second piece arrives before the first.
            let mut order: Vec<usize> = (0..pieces.len()).collect();
            if order.len() > 1 {
                order.swap(0, 1);
            }
            for at in order {
                let (offset, data) = pieces[at];
                handshake
                    .receive(Way::Sent, Level::Handshake, offset as u64, data, Time::ZERO)
                    .unwrap();
            }
            assert_eq!(handshake.facts.alpn.as_deref(), Some("h3"), "{step}");
            let stream = &handshake.crypto_streams.of(Way::Sent)[Level::Handshake as usize];
            assert_eq!((stream.next, stream.message.len()), (bytes.len() as u64, 0));
        }
    }
}
