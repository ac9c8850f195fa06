//! One connection's TLS: the handshake, then records in and out.
//!
//! BoringSSL receives one complete record at a time, so what it returns next is that record's plaintext. It is asked to
//! encrypt at most one record's worth, so what it writes then ends with that record. Handshake messages after the
//! handshake (tickets, key updates) look the same on the wire but hold no plaintext, so they are not counted. A
//! server's tickets are sent with its first record of plaintext, because BoringSSL holds them back until then.

use std::fmt;

use boring::ssl::{ErrorCode, NameType, Ssl, SslRef, SslStream, SslVersion};
use squall_base::plan::{RecordSizes, TlsVersion};
use squall_base::record::Way;
use squall_base::time::Time;

use super::chain::CertificateChain;
use super::context::{self, ClientContext, ServerContext};
use super::error::{SetupError, TlsError};
use super::records::{Record, RecordLocation, RecordMap, last_record};
use super::sizes::RecordSizer;
use super::wire::{RecordProgress, Wire};

/// Stop encrypting while this much output is waiting: enough for one write, but little enough that data waits in the
/// socket rather than here. One record may exceed it.
const OUTPUT_BYTES: usize = 64 * 1024;

/// One TLS connection over TCP.
pub struct Session {
    stream: SslStream<Wire>,
    record_sizer: RecordSizer,
    /// Buffer for the plaintext of a record, as long as the longest record so far.
    plain: Vec<u8>,
    received: RecordMap,
    sent: RecordMap,
    /// Offset in the peer's byte stream at which the record being gathered begins.
    record_start: u64,
    /// The first record that the socket has not completely taken.
    next_to_write: u64,
    plain_written: u64,
    /// Bytes of the records that a client begins with.
    client_hello_bytes: usize,
    secured: Option<HandshakeOutcome>,
    state: State,
    /// Whether the owner has called `close_notify`.
    is_closing: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("secured", &self.secured)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// What can still arrive from the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing: the peer sent close_notify.
    Closed,
    Failed(TlsError),
}

/// The outcome of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeOutcome {
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite, by its standard name.
    pub cipher: &'static str,
    /// The group of the key exchange.
    pub group: Option<&'static str>,
    /// The application protocol, if one was negotiated.
    pub alpn: Option<String>,
    /// The server name that the client requested, if any.
    pub server_name: Option<String>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

impl Session {
    /// A client's connection, with the first handshake message in [`Session::output`]. The server's certificate must be
    /// for `server_name`, if certificates are checked at all.
    ///
    /// # Errors
    /// [`SetupError::ServerName`], or an error from BoringSSL.
    pub fn client(
        context: &ClientContext,
        server_name: Option<&str>,
    ) -> Result<Session, SetupError> {
        let (ssl, sizes) = context.begin(server_name)?;
        let mut session = Session::new(ssl, sizes)?;
        let begun = session.stream.connect();
        session.settle(begun);
        session.client_hello_bytes = session.output().len();
        Ok(session)
    }

    /// A server's connection, which waits for the client.
    ///
    /// # Errors
    /// If BoringSSL cannot create it.
    pub fn server(context: &ServerContext) -> Result<Session, SetupError> {
        let (ssl, sizes) = context.begin()?;
        let mut session = Session::new(ssl, sizes)?;
        let begun = session.stream.accept();
        session.settle(begun);
        Ok(session)
    }

    fn new(ssl: Ssl, sizes: RecordSizes) -> Result<Session, SetupError> {
        Ok(Session {
            stream: SslStream::new(ssl, Wire::default())?,
            record_sizer: RecordSizer::new(sizes),
            plain: vec![0; 1],
            received: RecordMap::default(),
            sent: RecordMap::default(),
            record_start: 0,
            next_to_write: 0,
            plain_written: 0,
            client_hello_bytes: 0,
            secured: None,
            state: State::Open,
            is_closing: false,
        })
    }

    /// Takes bytes from the peer, in any pieces. Passes on the plaintext of each record that they complete, together
    /// with the outcome of the handshake. Anything after the peer's close_notify is ignored (RFC 8446, section 6.1).
    ///
    /// # Errors
    /// The connection is over: [`Session::output`] holds the last bytes that can be sent, and every later call returns
    /// the same error.
    pub fn receive(
        &mut self,
        wire: &[u8],
        mut on_plain: impl FnMut(&HandshakeOutcome, Record<'_>),
    ) -> Result<(), TlsError> {
        let mut rest = wire;
        loop {
            match &self.state {
                State::Failed(error) => return Err(error.clone()),
                State::Closed => return Ok(()),
                State::Open if rest.is_empty() => return Ok(()),
                State::Open => {}
            }
            match self.stream.get_mut().gather(&mut rest) {
                RecordProgress::Partial => {}
                RecordProgress::Whole => self.open_record(&mut on_plain),
                RecordProgress::NoRecord => self.refuse_record(),
            }
        }
    }

    /// Handles the peer closing its side of the TCP connection.
    ///
    /// # Errors
    /// [`TlsError::Truncated`] if no close_notify preceded it, or the error that ended the connection earlier.
    pub fn receive_end(&mut self) -> Result<(), TlsError> {
        if self.state == State::Open {
            self.state = State::Failed(TlsError::Truncated);
        }
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Encrypts as much of `plain` as there is room for, and returns how much. Encrypts nothing before the handshake is
    /// complete, after [`Session::close_notify`] and after an error.
    pub fn encrypt(&mut self, plain: &[u8], now: Time) -> usize {
        if plain.is_empty() {
            self.stream.get_mut().release();
            return 0;
        }
        if !self.can_send() {
            return 0;
        }
        if self.output().is_empty() {
            self.record_sizer.resume(now);
        }
        let mut rest = plain;
        while !rest.is_empty() && self.output().len() < OUTPUT_BYTES {
            let (record, after) = rest.split_at(self.record_sizer.next().min(rest.len()));
            if !self.seal_record(record) {
                break;
            }
            self.record_sizer.sent(record.len());
            rest = after;
        }
        if rest.is_empty() {
            self.record_sizer.mark_idle(now);
        } else {
            self.record_sizer.mark_busy();
        }
        plain.len() - rest.len()
    }

    /// Bytes for the socket; empty if there are none now.
    pub fn output(&self) -> &[u8] {
        self.stream.get_ref().output()
    }

    /// Records that the socket took the first `n` bytes of [`Session::output`], capped at its length. Returns how many
    /// bytes of plaintext are now completely written: those of the records that end in these bytes.
    pub fn advance_output(&mut self, n: usize) -> u64 {
        self.stream.get_mut().advance(n);
        let taken = self.stream.get_ref().total_taken();
        let before = self.plain_written;
        while let Some(record) = self.sent.entry(self.next_to_write)
            && record.wire.end <= taken
        {
            self.plain_written = record.plain_end;
            self.next_to_write += 1;
        }
        self.plain_written - before
    }

    /// How many bytes of plaintext have been received.
    pub fn plain_received(&self) -> u64 {
        self.received.plain_end()
    }

    /// The plaintext offset up to which the socket has taken complete records.
    pub fn plain_written(&self) -> u64 {
        self.plain_written
    }

    /// The record that carries the plaintext byte at `offset`; for the end of a message, pass the offset of its last
    /// byte. `None` if the byte has not been encrypted or received yet. Also `None` if its record was forgotten, either
    /// on the owner's request or because 16,384 records followed it.
    pub fn locate(&self, way: Way, offset: u64) -> Option<RecordLocation> {
        match way {
            Way::Received => self.received.locate(offset),
            Way::Sent => self.sent.locate(offset),
        }
    }

    /// The received records that can still be located, oldest first: each one's number, and the length of its plaintext.
    pub fn received_records(&self) -> impl Iterator<Item = (u64, u64)> {
        self.received.sizes()
    }

    /// Forgets records whose plaintext ends at or before `offset`; they can no longer be located.
    pub fn forget_before(&mut self, way: Way, offset: u64) {
        match way {
            Way::Received => self.received.forget_before(offset),
            Way::Sent => self.sent.forget_before(offset.min(self.plain_written)),
        }
    }

    /// Whether the handshake is complete.
    pub fn is_secured(&self) -> bool {
        self.secured.is_some()
    }

    /// The outcome of the handshake, once it is complete.
    pub fn handshake_outcome(&self) -> Option<&HandshakeOutcome> {
        self.secured.as_ref()
    }

    /// For a client: bytes of the TLS records with its first ClientHello; 0 for a server.
    pub fn client_hello_bytes(&self) -> usize {
        self.client_hello_bytes
    }

    /// For a client: the certificates that the server presented, in this handshake or in that of the resumed session.
    pub fn certificates(&self) -> Option<CertificateChain> {
        let chain = self.stream.ssl().peer_cert_chain()?;
        let der = chain.iter().filter_map(|one| one.to_der().ok());
        let der: Vec<Vec<u8>> = der.collect();
        Some(CertificateChain::of_der(der.iter().map(Vec::as_slice)))
    }

    /// The lines of the key log (NSS's SSLKEYLOGFILE) since the last call.
    pub fn take_key_log(&mut self) -> Vec<String> {
        context::take_key_log(self.stream.ssl())
    }

    /// Sends close_notify to the peer. During a handshake nothing is sent.
    pub fn close_notify(&mut self) {
        if self.can_send() {
            // Shutting down can only fail if writing does, and `Wire` accepts every write.
            let _ = self.stream.shutdown();
        }
        self.is_closing = true;
    }

    /// Whether the peer sent close_notify.
    pub fn received_close_notify(&self) -> bool {
        self.state == State::Closed
    }

    /// Why the connection is over, if an error ended it.
    pub fn error(&self) -> Option<&TlsError> {
        match &self.state {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }

    fn can_send(&self) -> bool {
        self.is_secured() && !self.is_closing && self.error().is_none()
    }

    /// Makes BoringSSL read the gathered record, and passes its plaintext on.
    fn open_record(&mut self, on_plain: &mut impl FnMut(&HandshakeOutcome, Record<'_>)) {
        let len = self.stream.get_ref().gathered_len();
        if self.plain.len() < len {
            // Plaintext is always shorter than its record.
            self.plain.resize(len, 0);
        }
        let wire = self.record_start..self.record_start + len as u64;
        self.record_start = wire.end;
        if let Some(plain_len) = self.read_record()
            && let Some(secured) = &self.secured
        {
            let (number, plain) = self.received.push(plain_len, wire.clone());
            let record = Record {
                number,
                wire,
                plain,
                bytes: &self.plain[..plain_len],
            };
            on_plain(secured, record);
        }
        if !self.stream.get_ref().is_read() && self.state == State::Open {
            // An SSL 2.0 hello can pass for a TLS header, and BoringSSL would wait for more of it.
            self.state = State::Failed(TlsError::NotTls);
        }
        self.stream.get_mut().next_record();
    }

    /// Makes BoringSSL read an invalid header, so that it sends an alert where one is defined.
    fn refuse_record(&mut self) {
        self.read_record();
        self.state = State::Failed(match &self.state {
            State::Failed(error) if self.record_start > 0 => error.clone(),
            // No valid record has ever arrived.
            _ => TlsError::NotTls,
        });
    }

    /// Reads the gathered record into `plain`; `None` if it holds no plaintext.
    fn read_record(&mut self) -> Option<usize> {
        let read = self.stream.ssl_read(&mut self.plain);
        if self.secured.is_none() && self.stream.ssl().is_init_finished() {
            self.secured = Some(secured(self.stream.ssl()));
        }
        self.settle(read)
    }

    /// Encrypts the plaintext of one record.
    fn seal_record(&mut self, plain: &[u8]) -> bool {
        let wire = self.stream.get_ref();
        let (start, before) = (wire.total_written(), wire.output().len());
        let written = self.stream.ssl_write(plain);
        if self.settle(written).is_none() {
            return false;
        }
        let wire = self.stream.get_ref();
        let start = start + last_record(&wire.output()[before..]) as u64;
        let end = wire.total_written();
        self.sent.push(plain.len(), start..end);
        true
    }

    /// Evaluates the result of a BoringSSL call; updates the state unless the call succeeded.
    fn settle<T>(&mut self, result: Result<T, boring::ssl::Error>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::WANT_READ => {}
            ErrorCode::ZERO_RETURN => self.state = State::Closed,
            _ => {
                let verified = self.stream.ssl().verify_result();
                self.state = State::Failed(TlsError::new(&error, verified));
            }
        }
        None
    }
}

fn secured(ssl: &SslRef) -> HandshakeOutcome {
    let cipher = ssl.current_cipher();
    HandshakeOutcome {
        version: match ssl.version2() {
            Some(SslVersion::TLS1_2) => TlsVersion::Tls12,
            // A context allows only these two.
            _ => TlsVersion::Tls13,
        },
        cipher: cipher.map_or("", |cipher| cipher.standard_name().unwrap_or(cipher.name())),
        group: ssl.curve_name(),
        alpn: ssl
            .selected_alpn_protocol()
            .map(|name| String::from_utf8_lossy(name).into_owned()),
        server_name: ssl.servername(NameType::HOST_NAME).map(str::to_owned),
        is_resumed: ssl.session_reused(),
    }
}
