//! TLS as an observer with the key log sees it: records, the handshake that determines which secret applies when, and
//! the plaintext.
//!
//! A plaintext byte counts as sent from the first byte of its record until the record's last byte, and as received with
//! the record's last byte: a receiver cannot decrypt it earlier. Without secrets only the hellos and their times are
//! known. TLS 1.3 with resumption, early data, HelloRetryRequest and KeyUpdate is supported, and TLS 1.2 with AEAD suites;
//! renegotiation is not. `cipher` decrypts, `hello` reads the handshake, `key_log` holds the secrets.

mod cipher;
mod half;
pub(crate) mod hello;
mod key_log;

use squall_base::Time;
use squall_base::record::{PerWay, Side, Way};

use crate::connection_record::{OpaqueReason, TlsFacts};
use crate::exchange::Sink;
use crate::plain::{Plaintext, StreamStart};
use crate::trail::{Carrier, Piece};
use cipher::{Cipher, DecryptedRecord};
pub(crate) use cipher::{Suite, decipher, expand_label, nonce};
use half::{Epoch, Record, TlsHalf};
use hello::{ClientHello, ServerHello, TLS13};
pub(crate) use key_log::KeyLog;

#[cfg(test)]
pub(crate) use cipher::tests::hex;

/// Limit for records of both directions that wait for secrets: more than arrive before the secrets do.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// Content types of records (RFC 8446, section 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Types of handshake messages (RFC 8446, section 4).
pub(crate) const CLIENT_HELLO: u8 = 1;
pub(crate) const SERVER_HELLO: u8 = 2;
const END_OF_EARLY_DATA: u8 = 5;
pub(crate) const ENCRYPTED_EXTENSIONS: u8 = 8;
pub(crate) const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

/// The available secrets.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) log: &'a KeyLog,
    /// Whether more may be added; records without a secret then wait.
    pub(crate) may_come: bool,
}

/// Whether a client's first bytes are TLS: a handshake record with a ClientHello. A single byte is enough, because no
/// HTTP request begins with it.
pub(crate) fn looks_like_tls(first: &[u8]) -> bool {
    matches!(first, [HANDSHAKE] | [HANDSHAKE, 3, ..])
}

/// Whether bytes begin a ClientHello. Unlike [`looks_like_tls`], this also holds in the middle of a connection, because
/// no other data begins with these bytes.
pub(crate) fn begins_client_hello(bytes: &[u8]) -> bool {
    // A record's header, the message's type and length (below 64 KiB), and the client's version (RFC 8446, sections 4 and
    // 5.1).
    matches!(
        bytes,
        [
            HANDSHAKE,
            3,
            0..=4,
            _,
            _,
            CLIENT_HELLO,
            0,
            _,
            _,
            3,
            0..=4,
            ..
        ]
    )
}

/// The TLS of a connection.
pub(crate) struct Tls {
    client: Way,
    halves: PerWay<TlsHalf>,
    /// Number of pieces so far, in both directions.
    pieces: u64,
    client_hello: Option<ClientHello>,
    server_hello: Option<ServerHello>,
    pub(crate) facts: TlsFacts,
    pub(crate) plaintext: Plaintext,
    /// Why decryption stopped.
    opaque: Option<OpaqueReason>,
}

impl Tls {
    pub(crate) fn new(client: Way) -> Tls {
        Tls {
            client,
            halves: PerWay::default(),
            pieces: 0,
            client_hello: None,
            server_hello: None,
            facts: TlsFacts::default(),
            plaintext: Plaintext::new(true, StreamStart::Seen(client)),
            opaque: None,
        }
    }

    /// Why decryption stopped, if it has.
    pub(crate) fn opaque(&self) -> Option<&OpaqueReason> {
        self.opaque.as_ref()
    }

    /// Reads the next bytes of a direction of the TCP connection.
    pub(crate) fn feed(&mut self, piece: &Piece<'_>, keys: Keys<'_>, sink: &mut Sink<'_>) {
        if self.is_over() {
            return;
        }
        self.pieces += 1;
        let half = self.halves.of_mut(piece.way);
        let mut bytes = piece.bytes;
        while !bytes.is_empty() {
            let Some(used) = half.gather(bytes, piece.way, &piece.carrier, self.pieces) else {
                let what = "what follows is not a TLS record";
                return self.fail(OpaqueReason::unclear(what), sink);
            };
            bytes = &bytes[used.clamp(1, bytes.len())..];
        }
        self.process_records(keys, sink);
    }

    /// Processes all records that can be processed now, in the order in which they arrived across both directions, so
    /// that no response is read before its request. Called again after secrets were added.
    pub(crate) fn process_records(&mut self, keys: Keys<'_>, sink: &mut Sink<'_>) {
        while !self.is_over() {
            let mut ways = Way::ALL;
            ways.sort_by_key(|way| {
                self.halves
                    .of(*way)
                    .records
                    .front()
                    .map_or(u64::MAX, |record| record.order)
            });
            if !ways
                .into_iter()
                .any(|way| self.process_first(way, keys, sink))
            {
                break;
            }
        }
        let waiting_bytes: usize = Way::ALL
            .map(|way| self.halves.of(way).waiting_bytes())
            .iter()
            .sum();
        if waiting_bytes > MAX_WAITING_BYTES {
            let opaque = if self.server_hello.is_some() {
                OpaqueReason::NoKeys
            } else {
                OpaqueReason::Overfull
            };
            self.fail(opaque, sink);
        }
    }

    /// Processes the first record of a direction. Returns false if there is none or it has to wait.
    fn process_first(&mut self, way: Way, keys: Keys<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(record) = self.halves.of_mut(way).records.pop_front() else {
            return false;
        };
        match self.process(way, &record, keys, sink) {
            Ok(true) => true,
            Ok(false) => {
                self.halves.of_mut(way).records.push_front(record);
                false
            }
            Err(opaque) => {
                self.note_done_without_keys(way, &record, &opaque);
                self.fail(opaque, sink);
                true
            }
        }
    }

    /// Whether nothing more can be learned.
    fn is_over(&self) -> bool {
        match self.opaque {
            None => false,
            Some(OpaqueReason::NoKeys | OpaqueReason::Cipher(_)) => {
                self.facts.done.is_some() || self.server_hello.is_none()
            }
            Some(_) => true,
        }
    }

    fn fail(&mut self, opaque: OpaqueReason, sink: &mut Sink<'_>) {
        self.opaque.get_or_insert(opaque);
        self.plaintext.abandon(sink);
        if self.is_over() {
            self.halves = PerWay::default();
        }
    }

    /// The connection has ended: records that still wait for secrets are never read.
    pub(crate) fn end(&mut self) {
        let waits = Way::ALL
            .iter()
            .any(|way| !self.halves.of(*way).records.is_empty());
        if waits && self.server_hello.is_some() {
            self.opaque.get_or_insert(OpaqueReason::NoKeys);
        }
    }

    /// Bytes are missing, so nothing more can be decrypted.
    pub(crate) fn gap(&mut self, sink: &mut Sink<'_>) {
        self.fail(OpaqueReason::Gap, sink);
        self.halves = PerWay::default();
    }

    /// Processes one record. Returns false if it has to wait.
    fn process(
        &mut self,
        way: Way,
        record: &Record,
        keys: Keys<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<bool, OpaqueReason> {
        if let Some(opaque) = &self.opaque {
            let opaque = opaque.clone();
            self.note_done_without_keys(way, record, &opaque);
            return Ok(true);
        }
        let is_tls13 = self.facts.version == Some(TLS13);
        match (self.halves.of(way).epoch, record.header[0]) {
            (Epoch::Clear, HANDSHAKE) => {
                self.messages(way, &record.payload, record.last)?;
                Ok(true)
            }
            (_, CHANGE_CIPHER_SPEC) if is_tls13 || self.facts.retried => Ok(true),
            // What it means depends on the ServerHello, so it waits.
            (Epoch::Clear, CHANGE_CIPHER_SPEC) if self.server_hello.is_none() => Ok(false),
            (_, CHANGE_CIPHER_SPEC) => {
                self.halves.of_mut(way).enter(Epoch::Application);
                Ok(true)
            }
            (Epoch::Clear, ALERT) => Ok(true),
            (Epoch::Clear, APPLICATION_DATA) if self.server_hello.is_none() => Ok(false),
            (Epoch::Clear, _) => Err(OpaqueReason::unclear("data came before the handshake")),
            (Epoch::Undecided, _) => Ok(false),
            // A cleartext alert, from a peer that has no keys.
            (_, ALERT) if is_tls13 => Ok(true),
            _ => self.open(way, record, keys, sink),
        }
    }

    /// Decrypts a record and processes its content.
    fn open(
        &mut self,
        way: Way,
        record: &Record,
        keys: Keys<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<bool, OpaqueReason> {
        self.note_finished_of_tls12(way, record);
        if self.halves.of(way).cipher.is_none() {
            match self.cipher(way, keys)? {
                Some(cipher) => self.halves.of_mut(way).cipher = Some(cipher),
                None if keys.may_come => return Ok(false),
                None => return Err(OpaqueReason::NoKeys),
            }
        }
        let half = self.halves.of_mut(way);
        let decrypted = half
            .cipher
            .as_mut()
            .and_then(|cipher| cipher.open(record.header, &record.payload));
        let Some(DecryptedRecord { kind, bytes }) = decrypted else {
            // Early data that the server rejected is skipped.
            return if half.skips_early {
                Ok(true)
            } else {
                Err(OpaqueReason::Undeciphered)
            };
        };
        half.skips_early = false;
        self.facts.deciphered = true;
        match kind {
            HANDSHAKE => self.messages(way, &bytes, record.last)?,
            APPLICATION_DATA => {
                let number = half.data_records;
                half.data_records += 1;
                let carrier = Carrier {
                    wire: record.wire.clone(),
                    record: Some(number),
                    first: record.first,
                    last: record.last,
                };
                let bytes = &bytes;
                // If the connection's beginning was missed, its handshake alone does not tell when it was ready.
                if sink.side == Side::Client && sink.beginning.opened.is_some() {
                    sink.beginning.secured = self.facts.done;
                }
                self.plaintext.feed(
                    &Piece {
                        way,
                        bytes,
                        carrier,
                    },
                    sink,
                )?;
            }
            // close_notify (RFC 8446, section 6.1) ends the data, so nothing was cut off.
            ALERT if bytes.get(1) == Some(&0) => self.plaintext.end(way, record.last, sink),
            _ => {}
        }
        Ok(true)
    }

    /// The keys of a direction in its current epoch; `None` if their secret is missing.
    fn cipher(&self, way: Way, keys: Keys<'_>) -> Result<Option<Cipher>, OpaqueReason> {
        let (Some(client_hello), Some(server_hello)) = (&self.client_hello, &self.server_hello)
        else {
            return Ok(None);
        };
        let suite =
            Suite::of(server_hello.cipher).ok_or(OpaqueReason::Cipher(server_hello.cipher))?;
        let Some(secrets) = keys.log.find(&client_hello.random) else {
            return Ok(None);
        };
        let is_client = way == self.client;
        if self.facts.version != Some(TLS13) {
            let Some(master) = &secrets.master else {
                return Ok(None);
            };
            let both = Cipher::tls12(suite, master, &client_hello.random, &server_hello.random);
            let (client, server) = both.ok_or(OpaqueReason::Undeciphered)?;
            return Ok(Some(if is_client { client } else { server }));
        }
        let secret = match (self.halves.of(way).epoch, is_client) {
            (Epoch::Early, _) => &secrets.client_early,
            (Epoch::Handshake, true) => &secrets.client_handshake,
            (Epoch::Handshake, false) => &secrets.server_handshake,
            (Epoch::Application, true) => &secrets.client_traffic,
            (Epoch::Application, false) => &secrets.server_traffic,
            (Epoch::Clear | Epoch::Undecided, _) => &None,
        };
        let Some(secret) = secret else {
            return Ok(None);
        };
        Cipher::tls13(suite, secret)
            .map(Some)
            .ok_or(OpaqueReason::Undeciphered)
    }

    /// Takes bytes of handshake messages, which may span records.
    fn messages(&mut self, way: Way, bytes: &[u8], at: Time) -> Result<(), OpaqueReason> {
        self.halves.of_mut(way).messages.extend_from_slice(bytes);
        while let Some((kind, body)) = self.halves.of_mut(way).next_message()? {
            self.message(way, kind, &body, at)?;
        }
        Ok(())
    }

    fn message(&mut self, way: Way, kind: u8, body: &[u8], at: Time) -> Result<(), OpaqueReason> {
        let unreadable = || OpaqueReason::unclear("a hello of TLS cannot be read");
        let is_tls13 = self.facts.version == Some(TLS13);
        let is_clear = self.halves.of(way).epoch == Epoch::Clear;
        let is_client = way == self.client;
        match kind {
            CLIENT_HELLO if is_client && is_clear => {
                let hello = hello::client_hello(body).ok_or_else(unreadable)?;
                self.on_client_hello(hello, at);
            }
            SERVER_HELLO if !is_client && is_clear => {
                let hello = hello::server_hello(body).ok_or_else(unreadable)?;
                self.on_server_hello(hello, at);
            }
            CLIENT_HELLO => {
                return Err(OpaqueReason::unclear("the client renegotiates TLS"));
            }
            ENCRYPTED_EXTENSIONS if is_tls13 && !is_client => {
                let read = hello::encrypted_extensions(body).ok_or_else(unreadable)?;
                self.facts.alpn = read.alpn;
                self.decide_early_data(read.takes_early_data);
            }
            END_OF_EARLY_DATA if is_tls13 && is_client => {
                self.halves.of_mut(way).enter(Epoch::Handshake);
            }
            FINISHED if is_tls13 => {
                self.halves.of_mut(way).enter(Epoch::Application);
                if is_client {
                    self.facts.done.get_or_insert(at);
                }
            }
            KEY_UPDATE if is_tls13 => {
                let half = self.halves.of_mut(way);
                half.cipher = half.cipher.as_ref().and_then(Cipher::updated);
                if half.cipher.is_none() {
                    return Err(OpaqueReason::Undeciphered);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_client_hello(&mut self, hello: ClientHello, at: Time) {
        if self.client_hello.is_some() {
            // The second ClientHello after a HelloRetryRequest has the same random (RFC 8446, section 4.1.2) and offers
            // no early data.
            return;
        }
        self.facts.client_hello = Some(at);
        self.facts.server_name.clone_from(&hello.server_name);
        self.facts.offered.clone_from(&hello.alpn);
        self.client_hello = Some(hello);
    }

    fn on_server_hello(&mut self, hello: ServerHello, at: Time) {
        if hello.is_retry() {
            self.facts.retried = true;
            return;
        }
        self.facts.server_hello = Some(at);
        self.facts.version = Some(hello.version);
        self.facts.cipher = Some(hello.cipher);
        if hello.version == TLS13 {
            self.facts.resumed = Some(hello.has_psk);
            self.halves
                .of_mut(self.client.opposite())
                .enter(Epoch::Handshake);
            let (offers, retried) = (self.offers_early_data(), self.facts.retried);
            let epoch = if offers && !retried {
                Epoch::Undecided
            } else {
                Epoch::Handshake
            };
            let half = self.halves.of_mut(self.client);
            half.enter(epoch);
            half.skips_early = offers && retried;
        } else {
            // A server that resumes a session echoes the client's session ID (RFC 5246, section 7.4.1.3; RFC 5077,
            // section 3.4).
            let offered = self.client_hello.as_ref();
            let is_same = offered.is_some_and(|offered| offered.session_id == hello.session_id);
            self.facts.resumed = Some(is_same && !hello.session_id.is_empty());
            self.facts.alpn.clone_from(&hello.alpn);
        }
        self.server_hello = Some(hello);
    }

    fn offers_early_data(&self) -> bool {
        let offered = self.client_hello.as_ref();
        offered.is_some_and(|hello| hello.offers_early_data)
    }

    fn decide_early_data(&mut self, is_taken: bool) {
        let half = self.halves.of_mut(self.client);
        if half.epoch != Epoch::Undecided {
            return;
        }
        self.facts.early_data = Some(is_taken);
        if is_taken {
            half.enter(Epoch::Early);
        } else {
            half.enter(Epoch::Handshake);
            half.skips_early = true;
        }
    }

    /// TLS 1.2: the first record that a side encrypts is its Finished.
    fn note_finished_of_tls12(&mut self, way: Way, record: &Record) {
        if self.facts.version == Some(TLS13) || record.header[0] != HANDSHAKE {
            return;
        }
        self.halves.of_mut(way).has_finished = true;
        if Way::ALL.iter().all(|way| self.halves.of(*way).has_finished) {
            self.facts.done.get_or_insert(record.last);
        }
    }

    /// Records the end of the handshake as well as possible without secrets: see [`TlsFacts::done`].
    fn note_done_without_keys(&mut self, way: Way, record: &Record, opaque: &OpaqueReason) {
        if !matches!(opaque, OpaqueReason::NoKeys | OpaqueReason::Cipher(_)) {
            return;
        }
        let is_tls13 = self.facts.version == Some(TLS13);
        match record.header[0] {
            APPLICATION_DATA if is_tls13 && way == self.client && !self.offers_early_data() => {
                self.facts.done.get_or_insert(record.last);
            }
            CHANGE_CIPHER_SPEC if !is_tls13 => self.halves.of_mut(way).enter(Epoch::Application),
            HANDSHAKE if self.halves.of(way).epoch == Epoch::Application => {
                self.note_finished_of_tls12(way, record);
            }
            _ => {}
        }
    }
}
