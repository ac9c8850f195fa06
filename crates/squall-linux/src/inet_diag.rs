//! The kernel's view of other programs' TCP sockets in a host: their addresses, congestion control and TCP_INFO.
//!
//! It uses sock_diag(7), like `ss -ti`, and leaves TCP_INFO undecoded, like `tcp_info`. A netlink socket belongs to the
//! namespace in which it was made, so it can be queried from any thread.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

use crate::error::SetupError;
use crate::host::Host;

/// Message types (include/uapi/linux/netlink.h, sock_diag.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST and NLM_F_DUMP.
const DUMP: u16 = 0x301;
const HEADER_BYTES: usize = 16;

/// Attributes of a reply, and the bits of a request that ask for them (include/uapi/linux/inet_diag.h).
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const EXTENSIONS: u8 = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
/// TCP_ESTABLISHED, FIN_WAIT1 and CLOSE_WAIT (include/net/tcp_states.h): the states that may still send.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 8;
/// struct inet_diag_req_v2, and struct inet_diag_msg, which precedes the attributes of a reply.
const REQUEST_BYTES: usize = 56;
const REPLY_BYTES: usize = 72;

/// Selects sockets by the port at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortFilter {
    /// The socket itself.
    Local(u16),
    /// Its peer.
    Remote(u16),
}

/// A connected TCP socket over IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// The local address.
    pub local: SocketAddrV4,
    /// The peer's address.
    pub remote: SocketAddrV4,
    /// The name of its congestion control.
    pub congestion_control: String,
    /// TCP_INFO, in the length that this kernel has.
    pub info: Vec<u8>,
}

/// Queries the sockets of one host.
#[derive(Debug)]
pub struct SocketDiagnosis {
    socket: Socket,
}

impl SocketDiagnosis {
    /// Queries the sockets in `host`.
    pub fn of(host: &Host) -> Result<SocketDiagnosis, SetupError> {
        let open = || -> io::Result<SocketDiagnosis> {
            let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(SocketDiagnosis { socket })
        };
        let failed = SetupError::system("open a socket that queries sockets");
        host.run(|| open().map_err(failed))
    }

    /// All connected TCP sockets over IPv4 with this port.
    pub fn sockets(&self, port: PortFilter) -> io::Result<Vec<TcpSocket>> {
        self.socket.send(&request(port), 0)?;
        let mut sockets = Vec::new();
        loop {
            let (reply, _) = self.socket.recv_from_full()?;
            if parse_reply(&reply, &mut sockets)? {
                return Ok(sockets);
            }
        }
    }
}

fn request(port: PortFilter) -> [u8; HEADER_BYTES + REQUEST_BYTES] {
    let mut bytes = [0; HEADER_BYTES + REQUEST_BYTES];
    let (header, request) = bytes.split_at_mut(HEADER_BYTES);
    header[..4].copy_from_slice(&((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    header[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    header[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    request[..3].copy_from_slice(&[libc::AF_INET as u8, libc::IPPROTO_TCP as u8, EXTENSIONS]);
    request[4..8].copy_from_slice(&STATES.to_ne_bytes());
    let (at, number) = match port {
        PortFilter::Local(number) => (8, number),
        PortFilter::Remote(number) => (10, number),
    };
    request[at..at + 2].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Parses the messages of one reply; returns true after the last one.
fn parse_reply(mut reply: &[u8], sockets: &mut Vec<TcpSocket>) -> io::Result<bool> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "an answer was cut short");
    while !reply.is_empty() {
        let (header, _) = reply
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(broken)?;
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let body = reply.get(HEADER_BYTES..length).ok_or_else(broken)?;
        match u16::from_ne_bytes([header[4], header[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code: [u8; 4] = *body.first_chunk().ok_or_else(broken)?;
                return Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(code)));
            }
            SOCK_DIAG_BY_FAMILY => sockets.push(socket(body).ok_or_else(broken)?),
            _ => {}
        }
        reply = reply.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

fn socket(message: &[u8]) -> Option<TcpSocket> {
    let (fixed, mut attributes) = message.split_first_chunk::<REPLY_BYTES>()?;
    let address = |port: usize, host: usize| {
        let ip = Ipv4Addr::new(
            fixed[host],
            fixed[host + 1],
            fixed[host + 2],
            fixed[host + 3],
        );
        SocketAddrV4::new(ip, u16::from_be_bytes([fixed[port], fixed[port + 1]]))
    };
    let mut socket = TcpSocket {
        local: address(4, 8),
        remote: address(6, 24),
        congestion_control: String::new(),
        info: Vec::new(),
    };
    // struct rtattr: a length that includes itself, then a type; each attribute is padded to 4 bytes.
    while let Some((header, _)) = attributes.split_first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(4..length)?;
        match u16::from_ne_bytes([header[2], header[3]]) {
            INET_DIAG_INFO => socket.info = value.to_vec(),
            INET_DIAG_CONG => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
                socket.congestion_control = String::from_utf8_lossy(name).into_owned();
            }
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::tcp_info::{TCP_INFO_BYTES, tcp_info};

    #[test]
    fn sockets_of_a_host_are_found_by_either_port() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let talk = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            Ok((listener.accept().unwrap().0, client))
        };
        let (server, client) = host.run(talk).unwrap();
        nix::sys::socket::setsockopt(
            &client,
            nix::sys::socket::sockopt::TcpCongestion,
            &"reno".into(),
        )
        .unwrap();
        let port = server.local_addr().unwrap().port();
        let diagnosis = SocketDiagnosis::of(&host).unwrap();
        let known = diagnosis.sockets(PortFilter::Remote(port)).unwrap();
        let [found] = known.as_slice() else {
            panic!("one socket has this peer, not {known:?}");
        };
        assert_eq!(
            std::net::SocketAddr::from(found.local),
            client.local_addr().unwrap()
        );
        assert_eq!(
            std::net::SocketAddr::from(found.remote),
            server.local_addr().unwrap()
        );
        assert_eq!(found.congestion_control, "reno");
        let mut buffer = [0; TCP_INFO_BYTES];
        // Both have the same state (established), window scales and length.
        let own = tcp_info(&client, &mut buffer).unwrap();
        assert_eq!(found.info.len(), own.len());
        assert_eq!(found.info[..8], own[..8]);
        let known = diagnosis.sockets(PortFilter::Local(port)).unwrap();
        assert_eq!(known.len(), 1);
        assert_eq!(known[0].local, found.remote);
        drop(client);
        assert!(
            diagnosis
                .sockets(PortFilter::Local(port + 1))
                .unwrap()
                .is_empty()
        );
    }
}
