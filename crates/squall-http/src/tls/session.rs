//! One connection's TLS: the handshake, then records in and out.
//!
//! BoringSSL is given one whole record at a time, so what it returns after that is the plaintext of that record, and
//! is asked to encrypt no more than one record holds, so what it writes then ends with that record. Handshake messages
//! that follow the handshake (tickets, key updates) look the same on the wire but hold no plaintext: they are not
//! counted. A server's tickets travel with its first record of plaintext, because BoringSSL holds them back until then.

use std::fmt;

use boring::ssl::{ErrorCode, NameType, Ssl, SslRef, SslStream, SslVersion};
use squall_base::plan::{RecordSizes, TlsVersion};
use squall_base::record::Way;
use squall_base::time::Time;

use super::context::{self, ClientContext, ServerContext};
use super::error::{SetupError, TlsError};
use super::records::{Place, Record, RecordMap, last_record};
use super::sizes::Sizes;
use super::wire::{Gathered, Wire};

/// No more is encrypted when so much output waits: enough for one write, little enough that the socket, not this
/// buffer, is where data waits. One record may go beyond.
const OUTPUT_BYTES: usize = 64 * 1024;

/// One TLS connection over TCP.
pub struct Session {
    stream: SslStream<Wire>,
    sizes: Sizes,
    /// Where BoringSSL puts the plaintext of a record: as long as the longest record yet.
    plain: Vec<u8>,
    received: RecordMap,
    sent: RecordMap,
    /// Where the record that is being gathered begins in the byte stream from the peer.
    record_start: u64,
    /// The first record that the socket has not wholly taken.
    next_to_write: u64,
    plain_written: u64,
    secured: Option<Secured>,
    state: State,
    /// Whether close_notify was asked for.
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

/// What still comes from the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing: the peer sent close_notify.
    Closed,
    Failed(TlsError),
}

/// What the handshake came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite, by its name in the standard.
    pub cipher: &'static str,
    /// The group of the key exchange.
    pub group: Option<&'static str>,
    /// The application protocol, if one was negotiated.
    pub alpn: Option<String>,
    /// The name of the server that the client asked for, if it did.
    pub server_name: Option<String>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

impl Session {
    /// A client's connection, with the first message of the handshake in [`Session::output`]. The server's certificate
    /// must be for `server_name`, if it is checked at all.
    ///
    /// # Errors
    /// [`SetupError::ServerName`], or what BoringSSL refuses.
    pub fn client(
        context: &ClientContext,
        server_name: Option<&str>,
    ) -> Result<Session, SetupError> {
        let (ssl, sizes) = context.begin(server_name)?;
        let mut session = Session::new(ssl, sizes)?;
        let begun = session.stream.connect();
        session.settle(begun);
        Ok(session)
    }

    /// A server's connection, which waits for the client.
    ///
    /// # Errors
    /// What BoringSSL refuses.
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
            sizes: Sizes::new(sizes),
            plain: vec![0; 1],
            received: RecordMap::default(),
            sent: RecordMap::default(),
            record_start: 0,
            next_to_write: 0,
            plain_written: 0,
            secured: None,
            state: State::Open,
            is_closing: false,
        })
    }

    /// Takes bytes from the peer, in any pieces, and hands on the plaintext of each record that they complete, with what the
    /// handshake came to. What
    /// comes after the peer's close_notify is ignored (RFC 8446, section 6.1).
    ///
    /// # Errors
    /// The connection is over: what is in [`Session::output`] is the last that can be sent, and every later call
    /// returns the same error.
    pub fn receive(
        &mut self,
        wire: &[u8],
        mut on_plain: impl FnMut(&Secured, Record<'_>),
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
                Gathered::Partial => {}
                Gathered::Whole => self.open_record(&mut on_plain),
                Gathered::NoRecord => self.refuse_record(),
            }
        }
    }

    /// The peer closed its side of the TCP connection.
    ///
    /// # Errors
    /// [`TlsError::Truncated`] if it did not say so in TLS first; the error that ended the connection earlier.
    pub fn receive_end(&mut self) -> Result<(), TlsError> {
        if self.state == State::Open {
            self.state = State::Failed(TlsError::Truncated);
        }
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Encrypts as much of `plain` as there is room for, and returns how much that is: nothing before the handshake is
    /// done, after [`Session::close_notify`] and after an error.
    pub fn encrypt(&mut self, plain: &[u8], now: Time) -> usize {
        if plain.is_empty() || !self.can_send() {
            return 0;
        }
        if self.output().is_empty() {
            self.sizes.wake(now);
        }
        let mut rest = plain;
        while !rest.is_empty() && self.output().len() < OUTPUT_BYTES {
            let (record, after) = rest.split_at(self.sizes.next().min(rest.len()));
            if !self.seal_record(record) {
                break;
            }
            self.sizes.sent(record.len());
            rest = after;
        }
        if rest.is_empty() {
            self.sizes.rest(now);
        } else {
            self.sizes.stay_awake();
        }
        plain.len() - rest.len()
    }

    /// Bytes for the socket, empty if there are none now.
    pub fn output(&self) -> &[u8] {
        self.stream.get_ref().output()
    }

    /// The socket took the first `n` bytes of [`Session::output`]; at most its length counts. Returns how many bytes of
    /// plaintext are wholly written by that: those of the records that ended in these bytes.
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

    /// How many bytes of plaintext came.
    pub fn plain_received(&self) -> u64 {
        self.received.plain_end()
    }

    /// Up to which offset of the plaintext the socket took whole records.
    pub fn plain_written(&self) -> u64 {
        self.plain_written
    }

    /// The record that carries the byte of plaintext at `offset`: for the end of a message ask for the byte before.
    /// `None` if that was not yet encrypted or received, or is forgotten: because the owner said so, or because 16,384
    /// records came after it.
    pub fn locate(&self, way: Way, offset: u64) -> Option<Place> {
        match way {
            Way::Received => self.received.locate(offset),
            Way::Sent => self.sent.locate(offset),
        }
    }

    /// The owner will not ask for records whose plaintext ends at or before `offset`.
    pub fn forget_before(&mut self, way: Way, offset: u64) {
        match way {
            Way::Received => self.received.forget_before(offset),
            Way::Sent => self.sent.forget_before(offset.min(self.plain_written)),
        }
    }

    /// Whether the handshake is done.
    pub fn is_secured(&self) -> bool {
        self.secured.is_some()
    }

    /// What the handshake came to, once it is done.
    pub fn info(&self) -> Option<&Secured> {
        self.secured.as_ref()
    }

    /// The lines of the key log (NSS's SSLKEYLOGFILE) that came since the last call.
    pub fn take_key_log(&mut self) -> Vec<String> {
        context::take_key_log(self.stream.ssl())
    }

    /// Says to the peer that nothing follows. In the middle of a handshake nothing is said.
    pub fn close_notify(&mut self) {
        if self.can_send() {
            // Can fail only where writing does, and `Wire` takes everything.
            let _ = self.stream.shutdown();
        }
        self.is_closing = true;
    }

    /// Whether the peer said that nothing follows.
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

    /// Has BoringSSL read the record that was gathered, and hands on its plaintext.
    fn open_record(&mut self, on_plain: &mut impl FnMut(&Secured, Record<'_>)) {
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
            // An SSL 2.0 hello can pass for a header of TLS, and BoringSSL would ask for more of it.
            self.state = State::Failed(TlsError::NotTls);
        }
        self.stream.get_mut().next_record();
    }

    /// Has BoringSSL read a header that is none, so that it sends an alert if there is one for that.
    fn refuse_record(&mut self) {
        self.read_record();
        self.state = State::Failed(match &self.state {
            State::Failed(error) if self.record_start > 0 => error.clone(),
            // Nothing sensible ever came.
            _ => TlsError::NotTls,
        });
    }

    /// Reads what was gathered into `plain`; `None` if it holds no plaintext.
    fn read_record(&mut self) -> Option<usize> {
        let read = self.stream.ssl_read(&mut self.plain);
        if self.secured.is_none() && self.stream.ssl().is_init_finished() {
            self.secured = Some(secured(self.stream.ssl()));
        }
        self.settle(read)
    }

    /// Encrypts plaintext of one record.
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

    /// What a call of BoringSSL came to; if it was no success, the state says what that means.
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

fn secured(ssl: &SslRef) -> Secured {
    let cipher = ssl.current_cipher();
    Secured {
        version: match ssl.version2() {
            Some(SslVersion::TLS1_2) => TlsVersion::Tls12,
            // A context allows these two only.
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
