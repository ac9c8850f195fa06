//! Whether a station answers: a real request where that disturbs nobody, else the first few bytes of its protocol.
//!
//! A request that a proxy passed on would be on the link and in the server's record before the load begins, and open
//! connections that the load is to open. So a proxy is sent what it must answer itself. No TLS and no QUIC is spoken
//! here: a server's first record, or its list of QUIC versions, shows that it is up. `station` asks until a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use squall_base::plan::{Protocol, Version};
use thiserror::Error;

use crate::order::Order;
use crate::process::Exit;

/// How to tell that a station answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It takes a connection of TCP.
    Tcp,
    /// It answers this target over HTTP/1.1 in the clear, with any status.
    Get(String),
    /// It refuses a request of HTTP/9.9 (RFC 9110, section 15.6.6), or closes that connection, by itself.
    Http1,
    /// It greets with SETTINGS (RFC 9113, section 3.4).
    Http2,
    /// It answers a ClientHello with a record of TLS, be it an alert (RFC 8446, section 5.1).
    Tls,
    /// It answers an unknown version of QUIC with those that it speaks (RFC 9000, section 6.1).
    Quic,
    /// It has printed this.
    Output(String),
}

/// Why a station is not ready.
#[derive(Debug, Error)]
pub enum NotReady {
    /// It has ended.
    #[error("{name} {exit}")]
    Ended {
        /// Its name.
        name: String,
        /// How, with its last words.
        exit: Exit,
    },
    /// It did not answer in time.
    #[error("{name} did not answer at {address} within {waited:?}: {last}; it said: {words}")]
    NotInTime {
        /// Its name.
        name: String,
        /// Where it should have.
        address: SocketAddr,
        /// For how long.
        waited: Duration,
        /// What the last attempt came to.
        last: String,
        /// The end of its log.
        words: String,
    },
}

impl Ready {
    /// What shows it of a server or proxy of this protocol.
    pub fn of(order: &Order) -> Ready {
        match (order.front, &order.answer) {
            (Protocol::H1, Some(answer)) => Ready::Get(answer.target.clone()),
            (Protocol::H3, _) => Ready::Quic,
            (front, _) if front.is_secure() => Ready::Tls,
            (front, _) if front.version() == Version::Http2 => Ready::Http2,
            _ => Ready::Http1,
        }
    }

    /// One attempt, from the calling thread's host; it takes no longer than `patience`. `printed` is what the station has
    /// said so far.
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
            Ready::Tcp => connect().map(drop),
            Ready::Get(target) => {
                let request = format!(
                    "GET {target} HTTP/1.1\r\nhost: {server_name}\r\nconnection: close\r\n\r\n"
                );
                expect(&mut connect()?, request.as_bytes(), b"HTTP/1.")
            }
            Ready::Http1 => refuses_version(&mut connect()?, server_name),
            Ready::Http2 => {
                let greeting = [HTTP2_PREFACE, HTTP2_SETTINGS].concat();
                let mut stream = connect()?;
                stream.write_all(&greeting)?;
                let header: [u8; 9] = read(&mut stream)?;
                let is_settings = header[3] == HTTP2_SETTINGS[3];
                is_settings.then_some(()).ok_or_else(|| unexpected(&header))
            }
            Ready::Tls => {
                let mut stream = connect()?;
                stream.write_all(&client_hello())?;
                let header: [u8; 5] = read(&mut stream)?;
                // An alert or a handshake message, of version 3.x.
                let is_record = matches!(header[..2], [0x15 | 0x16, 0x03]);
                is_record.then_some(()).ok_or_else(|| unexpected(&header))
            }
            Ready::Quic => speaks_quic(address, patience),
            Ready::Output(text) => {
                let nothing_yet = || io::Error::other(format!("it has not printed {text:?}"));
                printed
                    .contains(text.as_str())
                    .then_some(())
                    .ok_or_else(nothing_yet)
            }
        }
    }
}

/// Who listens everywhere is asked at loopback.
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

/// A program that is not up yet takes no connection, so one that closes it has read the request too.
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

/// The smallest ClientHello: TLS 1.2, one cipher suite, no extension. Whether a server takes or refuses it, it answers.
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

/// Sends a packet with a long header of a version that is reserved to be unknown (RFC 9000, section 15), in a datagram of
/// the least size that must be answered (section 14.1).
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
