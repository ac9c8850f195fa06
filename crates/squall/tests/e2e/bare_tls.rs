//! One end of a TLS connection over TCP, controlled by a test: it sends exactly what it is given, and cuts the
//! connection off where the test asks, even within a record.
//!
//! HTTP is up to its users: the servers in `truncated_servers`, the clients in `truncated_clients`, and both in
//! `proxies_truncated`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use squall_base::Time;
use squall_base::plan::{TlsSettings, TlsVersion};
use squall_http::tls::{
    ClientContext, Identity, ServerContext, Session, TlsError, Trust, Validity,
};
use squall_linux::socket::close_abruptly;

use crate::serving::connect;

/// How long to wait for a peer that stays connected or sends nothing.
const PATIENCE: Duration = Duration::from_secs(12);

/// How a connection is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Only the end of TCP.
    Fin,
    /// close_notify and the end of TCP.
    CloseNotify,
    /// close_notify, and TCP stays open.
    CloseNotifyAndSilence,
    /// Half a record, and then silence.
    HalfRecordAndSilence,
    HalfRecordAndFin,
    HalfRecordAndReset,
    /// A record with a corrupted last byte, which belongs to its tag; TCP stays open.
    BadRecord,
}

pub(crate) const CUTS: [Cut; 7] = [
    Cut::Fin,
    Cut::CloseNotify,
    Cut::CloseNotifyAndSilence,
    Cut::HalfRecordAndSilence,
    Cut::HalfRecordAndFin,
    Cut::HalfRecordAndReset,
    Cut::BadRecord,
];

/// How the other side ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    CloseNotify,
    /// The end of TCP without close_notify.
    Fin,
    /// The other side broke the connection off, by a reset or an alert.
    Broken,
}

pub(crate) struct BareTls {
    stream: TcpStream,
    session: Session,
    heard: Vec<u8>,
}

/// Restricts TLS to one version.
fn settings(version: TlsVersion) -> TlsSettings {
    TlsSettings {
        min_version: version,
        max_version: version,
        ..TlsSettings::default()
    }
}

/// The settings shared by servers of one protocol; their certificate is self-signed.
pub(crate) fn server_context(version: TlsVersion, alpn: &str) -> ServerContext {
    let validity = Validity {
        not_before_unix_s: 1_577_836_800,
        days: 36_500,
    };
    let identity = Identity::self_signed(&["localhost"], validity).expect("an identity");
    ServerContext::new(&settings(version), &[alpn], &identity).expect("a context")
}

impl BareTls {
    /// A client that has completed its handshake.
    pub(crate) fn client(address: SocketAddr, version: TlsVersion, alpn: &str) -> BareTls {
        let context = ClientContext::new(&settings(version), &[alpn], &Trust::Anyone);
        let session = Session::client(&context.expect("a context"), None).expect("a session");
        let client = BareTls::with(connect(address), session);
        client.expect("a handshake")
    }

    /// A server that has completed its handshake; fails if the client disconnects before that.
    pub(crate) fn server(stream: TcpStream, context: &ServerContext) -> io::Result<BareTls> {
        BareTls::with(stream, Session::server(context).expect("a session"))
    }

    fn with(stream: TcpStream, session: Session) -> io::Result<BareTls> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut tls = BareTls {
            stream,
            session,
            heard: Vec::new(),
        };
        tls.flush()?;
        while !tls.session.is_secured() {
            tls.hear()?;
        }
        Ok(tls)
    }

    /// Queues `plain` for the next write.
    pub(crate) fn say(&mut self, plain: &[u8]) {
        let taken = self.session.encrypt(plain, Time::ZERO);
        assert_eq!(taken, plain.len(), "it takes that much");
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let output = self.session.output().to_vec();
        self.session.advance_output(output.len());
        self.stream.write_all(&output)
    }

    /// Everything received so far.
    pub(crate) fn heard(&self) -> &[u8] {
        &self.heard
    }

    pub(crate) fn hear_until(&mut self, is_it: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        while !is_it(&self.heard) {
            self.hear()?;
        }
        Ok(())
    }

    /// Processes the next read; the end of TCP is an error.
    fn hear(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16_384];
        let len = self.stream.read(&mut buffer)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let heard = &mut self.heard;
        let received = self.session.receive(&buffer[..len], |_, record| {
            heard.extend_from_slice(record.bytes);
        });
        let sent = self.flush();
        received.map_err(io::Error::other)?;
        sent
    }

    /// Reads until the other side ends, which it must do in time, and returns how. `heard` then has everything that it
    /// sent.
    pub(crate) fn hear_end(&mut self) -> End {
        loop {
            if self.session.received_close_notify() {
                return End::CloseNotify;
            }
            let Err(error) = self.hear() else {
                continue;
            };
            return match error.kind() {
                io::ErrorKind::WouldBlock => panic!("it does not end: {:?}", self.heard),
                io::ErrorKind::UnexpectedEof => {
                    assert_eq!(self.session.receive_end(), Err(TlsError::Truncated));
                    End::Fin
                }
                _ => End::Broken,
            };
        }
    }

    /// Sends pending output and then cuts the connection off; `more` is what would have followed, and part of it may be
    /// sent. Returns this end unless it was reset, so that the test can observe the other side's reaction. Fails if the
    /// other side has already gone.
    pub(crate) fn cut(mut self, cut: Cut, more: &[u8]) -> io::Result<Option<BareTls>> {
        let start = self.session.output().len();
        match cut {
            Cut::Fin => {}
            Cut::CloseNotify | Cut::CloseNotifyAndSilence => self.session.close_notify(),
            _ => self.say(more),
        }
        let mut output = self.session.output().to_vec();
        self.session.advance_output(output.len());
        let record_len = output.len() - start;
        match cut {
            Cut::HalfRecordAndSilence | Cut::HalfRecordAndFin | Cut::HalfRecordAndReset => {
                output.truncate(start + record_len / 2);
            }
            Cut::BadRecord => *output.last_mut().expect("a record") ^= 1,
            _ => {}
        }
        self.stream.write_all(&output)?;
        match cut {
            Cut::Fin | Cut::CloseNotify | Cut::HalfRecordAndFin => {
                // The other side may already have read enough to close.
                let _ = self.stream.shutdown(Shutdown::Write);
            }
            Cut::HalfRecordAndReset => {
                close_abruptly(self.stream);
                return Ok(None);
            }
            _ => {}
        }
        Ok(Some(self))
    }

    /// Reads and discards data until the other side closes.
    pub(crate) fn outlast(mut self) {
        while matches!(self.stream.read(&mut [0; 16_384]), Ok(1..)) {}
    }
}
