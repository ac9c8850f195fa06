//! UDP sockets for measuring a link: connected pairs, and many datagrams per system call.
//!
//! It does not look into datagrams. TCP sockets are in `socket`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg};
use squall_base::Duration;

use crate::error::SetupError;
use crate::host::Host;
use crate::socket::ask_for_large_receive_buffer;

/// Datagrams per system call. With more, one sender would occupy its processor for long.
pub const DATAGRAMS_A_CALL: usize = 64;

/// A socket in each of two hosts, connected to each other. A read that waits longer than `patience` fails with
/// `WouldBlock`.
pub fn pair(
    one: (&Host, Ipv4Addr),
    other: (&Host, Ipv4Addr),
    patience: Duration,
) -> Result<[UdpSocket; 2], SetupError> {
    let failed = SetupError::system("make a UDP socket");
    let open = |(host, address): (&Host, Ipv4Addr)| {
        host.run(|| {
            let socket = UdpSocket::bind((address, 0)).map_err(failed)?;
            socket
                .set_read_timeout(Some(patience.into()))
                .map_err(failed)?;
            ask_for_large_receive_buffer(&socket);
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

/// Sends `payload` up to `DATAGRAMS_A_CALL` times over a connected socket; returns how many were sent.
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

/// Receives and discards the datagrams that have arrived, at most `DATAGRAMS_A_CALL`; returns how many there were.
pub fn receive_many(socket: &UdpSocket) -> io::Result<usize> {
    // Longer datagrams are truncated.
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
        Ok(received) => Ok(received.count()),
        Err(Errno::EAGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_sends_or_receives_a_full_batch() {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        assert_eq!(receive_many(&other).unwrap(), 0);
        assert_eq!(send_many(&one, b"hello").unwrap(), DATAGRAMS_A_CALL);
        assert_eq!(receive_many(&other).unwrap(), DATAGRAMS_A_CALL);
    }
}
