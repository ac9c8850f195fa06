//! UDP sockets for measuring a link: connected pairs, and many datagrams by one system call.
//!
//! It knows nothing of what datagrams carry. TCP sockets are `socket`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg, setsockopt, sockopt};
use squall_base::Duration;

use crate::error::SetupError;
use crate::host::Host;

/// Datagrams of a system call. More would let one sender hold its processor for long.
pub const DATAGRAMS_A_CALL: usize = 64;
/// Room for datagrams that wait for their reader. An ordinary user gets net.core.rmem_max at most.
const RECEIVE_BUFFER_BYTES: usize = 32 << 20;

/// A socket in each of two hosts that talk to each other only. A read that waits longer than `patience` ends with
/// `WouldBlock`.
pub fn pair(
    one: (&Host, Ipv4Addr),
    other: (&Host, Ipv4Addr),
    patience: Duration,
) -> Result<[UdpSocket; 2], SetupError> {
    let open = |(host, address): (&Host, Ipv4Addr)| {
        host.run(|| {
            let socket = UdpSocket::bind((address, 0)).map_err(failed)?;
            socket
                .set_read_timeout(Some(patience.into()))
                .map_err(failed)?;
            // What is refused to an ordinary user leaves less room: a reader that is held up loses datagrams.
            if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
                let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES);
            }
            Ok(socket)
        })
    };
    let sockets = [open(one)?, open(other)?];
    let port = |socket: &UdpSocket| socket.local_addr().map(|at| at.port()).map_err(failed);
    let ports = [port(&sockets[0])?, port(&sockets[1])?];
    let connect = |socket: &UdpSocket, address, port| {
        let peer = SocketAddrV4::new(address, port);
        socket.connect(peer).map_err(failed)
    };
    connect(&sockets[0], other.1, ports[1])?;
    connect(&sockets[1], one.1, ports[0])?;
    Ok(sockets)
}

fn failed(source: io::Error) -> SetupError {
    SetupError::System {
        action: "make a UDP socket",
        source,
    }
}

/// Sends `payload` `DATAGRAMS_A_CALL` times at most over a connected socket; returns how many were sent.
pub fn send_many(socket: &UdpSocket, payload: &[u8]) -> io::Result<usize> {
    let slices = [[IoSlice::new(payload)]; DATAGRAMS_A_CALL];
    let to_peer: [Option<()>; DATAGRAMS_A_CALL] = [None; DATAGRAMS_A_CALL];
    let mut headers = MultiHeaders::preallocate(DATAGRAMS_A_CALL, None);
    let sent = sendmmsg(
        socket.as_raw_fd(),
        &mut headers,
        &slices,
        to_peer,
        [],
        MsgFlags::empty(),
    )?;
    Ok(sent.count())
}

/// Takes what has come for a socket, `DATAGRAMS_A_CALL` at most, and throws it away; returns how many there were.
pub fn take_many(socket: &UdpSocket) -> io::Result<usize> {
    // A datagram that is longer is cut off.
    let mut buffers = [[0; 16]; DATAGRAMS_A_CALL];
    let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
    let mut headers = MultiHeaders::<()>::preallocate(DATAGRAMS_A_CALL, None);
    let at_once = MsgFlags::MSG_DONTWAIT;
    match recvmmsg(
        socket.as_raw_fd(),
        &mut headers,
        slices.iter_mut(),
        at_once,
        None,
    ) {
        Ok(taken) => Ok(taken.count()),
        Err(Errno::EAGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_go_and_come_by_the_dozen() {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        assert_eq!(take_many(&other).unwrap(), 0);
        assert_eq!(send_many(&one, b"hello").unwrap(), DATAGRAMS_A_CALL);
        assert_eq!(take_many(&other).unwrap(), DATAGRAMS_A_CALL);
    }
}
