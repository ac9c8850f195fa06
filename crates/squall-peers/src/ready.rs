//! Whether a station is up: sends a real request where that disturbs nothing, otherwise the first few bytes of its
//! protocol.
//!
//! A request that a proxy passed on would appear on the link and in the server's record before the load begins, and
//! would open connections that the load is meant to open. So a proxy is sent something that it must answer itself. No
//! TLS and no QUIC is spoken here: a server's first record, or its list of QUIC versions, shows that it is up.
//! `station` repeats attempts until a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use squall_base::plan::{Protocol, Version};
use thiserror::Error;

use crate::order::Order;
use crate::process::ExitReport;

/// How to find out that a station is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadinessCheck {
    /// It accepts a TCP connection.
    Tcp,
    /// It responds to this target over HTTP/1.1 in cleartext, with any status.
    Get(String),
    /// It refuses a request of HTTP/9.9 (RFC 9110, section 15.6.6) itself, or closes the connection.
    Http1,
    /// It sends SETTINGS first (RFC 9113, section 3.4).
    Http2,
    /// It responds to a ClientHello with a TLS record, even an alert (RFC 8446, section 5.1).
    Tls,
    /// It responds to an unknown version of QUIC with the versions that it speaks (RFC 9000, section 6.1).
    Quic,
    /// It has printed this.
    Output(String),
}

/// Why a station is not ready.
#[derive(Debug, Error)]
pub enum ReadinessError {
    /// It has ended.
    #[error("{name} {exit}")]
    Ended {
        /// Its name.
        name: String,
        /// How it ended, with the last lines of its log.
        exit: ExitReport,
    },
    /// It was not up in time.
    #[error("{name} did not answer at {address} within {waited:?}: {last}; it said: {words}")]
    NotInTime {
        /// Its name.
        name: String,
        /// Where it should have been listening.
        address: SocketAddr,
        /// How long squall waited.
        waited: Duration,
        /// The result of the last attempt.
        last: String,
        /// The end of its log.
        words: String,
    },
}

impl ReadinessCheck {
    /// The check for a server or proxy of this protocol.
    pub fn of(order: &Order) -> ReadinessCheck {
        match (order.front, &order.answer) {
            (Protocol::H1, Some(answer)) => ReadinessCheck::Get(answer.target.clone()),
            (Protocol::H3, _) => ReadinessCheck::Quic,
            (front, _) if front.is_secure() => ReadinessCheck::Tls,
            (front, _) if front.version() == Version::Http2 => ReadinessCheck::Http2,
            _ => ReadinessCheck::Http1,
        }
    }

    /// One attempt, from the calling thread's host, which takes no longer than `patience`. `printed` is what the
    /// station has printed so far.
    pub(crate) fn attempt(
        &self,
        address: SocketAddr,
        server_name: &str,
        printed: &str,
        patience: Duration,
    ) -> io::Result<()> {
        let address = reachable(address);
        let connect = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect_timeout(&address, patience)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        };
        match self {
            ReadinessCheck::Tcp => connect().map(drop),
            ReadinessCheck::Get(target) => {
                let request = format!(
                    "GET {target} HTTP/1.1\r\nhost: {server_name}\r\nconnection: close\r\n\r\n"
                );
                expect(&mut connect()?, request.as_bytes(), b"HTTP/1.")
            }
            ReadinessCheck::Http1 => refuses_version(&mut connect()?, server_name),
            ReadinessCheck::Http2 => {
                let greeting = [HTTP2_PREFACE, HTTP2_SETTINGS].concat();
                let mut stream = connect()?;
                stream.write_all(&greeting)?;
                let header: [u8; 9] = read(&mut stream)?;
                let is_settings = header[3] == HTTP2_SETTINGS[3];
                is_settings.then_some(()).ok_or_else(|| unexpected(&header))
            }
            ReadinessCheck::Tls => {
                let mut stream = connect()?;
                stream.write_all(&client_hello())?;
                let header: [u8; 5] = read(&mut stream)?;
                // An alert or a handshake message, of version 3.x.
                let is_record = matches!(header[..2], [0x15 | 0x16, 0x03]);
                is_record.then_some(()).ok_or_else(|| unexpected(&header))
            }
            ReadinessCheck::Quic => speaks_quic(address, patience),
            ReadinessCheck::Output(text) => {
                let nothing_yet = || io::Error::other(format!("it has not printed {text:?}"));
                printed
                    .contains(text.as_str())
                    .then_some(())
                    .ok_or_else(nothing_yet)
            }
        }
    }
}

/// A station that listens on all addresses is reached through loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

fn unexpected(bytes: &[u8]) -> io::Error {
    let text = bytes.escape_ascii();
    io::Error::new(ErrorKind::InvalidData, format!("it answered \"{text}\""))
}

fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn expect(stream: &mut TcpStream, request: &[u8], beginning: &[u8; 7]) -> io::Result<()> {
    stream.write_all(request)?;
    let answer: [u8; 7] = read(stream)?;
    (answer == *beginning)
        .then_some(())
        .ok_or_else(|| unexpected(&answer))
}

/// A program that is not up yet accepts no connection, so a program that closes the connection has read the request, too.
fn refuses_version(stream: &mut TcpStream, server_name: &str) -> io::Result<()> {
    let request = format!("GET / HTTP/9.9\r\nhost: {server_name}\r\n\r\n");
    match expect(stream, request.as_bytes(), b"HTTP/1.") {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
        result => result,
    }
}

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame: length 0, type 4, no flags, stream 0.
const HTTP2_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The smallest ClientHello: TLS 1.2, one cipher suite, no extension. A server responds whether it accepts or refuses
/// it.
fn client_hello() -> Vec<u8> {
    let mut hello = vec![0x03, 0x03];
    hello.extend([0x5a; 32]);
    // No session; one suite, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256; no compression.
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let handshake = [&[0x01, 0, 0, hello.len() as u8], hello.as_slice()].concat();
    [
        &[0x16, 0x03, 0x01, 0, handshake.len() as u8],
        handshake.as_slice(),
    ]
    .concat()
}

/// Sends a packet with a long header of a version that is reserved to be unknown (RFC 9000, section 15), in a datagram
/// of the smallest size that requires a response (section 14.1).
fn speaks_quic(address: SocketAddr, patience: Duration) -> io::Result<()> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(patience))?;
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    packet.extend(*b"squall-d");
    packet.push(8);
    packet.extend(*b"squall-s");
    packet.resize(1_200, 0);
    socket.send(&packet)?;
    let mut answer = [0; 2_048];
    let length = socket.recv(&mut answer)?;
    // A long header whose version is 0.
    let is_negotiation = matches!(answer[..length], [first, 0, 0, 0, 0, ..] if first & 0x80 != 0);
    is_negotiation
        .then_some(())
        .ok_or_else(|| unexpected(&answer[..length.min(20)]))
}
