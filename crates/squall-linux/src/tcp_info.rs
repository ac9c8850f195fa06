//! The kernel's state of a TCP connection: TCP_INFO as raw bytes, and the length of its send queue.
//!
//! It decodes nothing: `squall_base::record::TcpInfo` does. The structure grows from kernel to kernel, so its length is
//! part of the result (struct tcp_info in include/uapi/linux/tcp.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::sys::{checked, read_option};

/// Enough for the whole structure: kernel 6.18 has 280 bytes, and it has grown by some 8 a year.
pub const TCP_INFO_BYTES: usize = 512;

/// Reads TCP_INFO of a socket into `buffer`. Returns the bytes that were read: all that this kernel has, up to the
/// buffer's length.
pub fn tcp_info(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<&[u8]> {
    let length = read_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, buffer)?;
    Ok(&buffer[..length])
}

/// What a socket's send queue holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendQueue {
    /// Written, not yet sent (SIOCOUTQNSD).
    pub unsent_bytes: u64,
    /// Written, not yet acknowledged, sent or not (SIOCOUTQ).
    pub unacknowledged_bytes: u64,
}

/// The send queue of a connection, by two short system calls. A listening socket has no send queue (EINVAL).
pub fn send_queue(socket: impl AsFd) -> io::Result<SendQueue> {
    Ok(SendQueue {
        unsent_bytes: queued(&socket, libc::SIOCOUTQNSD)?,
        // SIOCOUTQ is another name for TIOCOUTQ (include/uapi/linux/sockios.h).
        unacknowledged_bytes: queued(&socket, libc::TIOCOUTQ)?,
    })
}

fn queued(socket: impl AsFd, request: libc::Ioctl) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int, to `bytes`, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &mut bytes) };
    checked(result).map(|()| u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const ESTABLISHED: u8 = 1;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connected_socket_is_established() {
        let (client, server) = pair();
        for socket in [&client, &server] {
            let mut buffer = [0xff; TCP_INFO_BYTES];
            let found = tcp_info(socket, &mut buffer).unwrap();
            assert_eq!(found[0], ESTABLISHED);
            // At least the structure of Linux 4.19, and shorter than the buffer.
            assert!(
                (224..TCP_INFO_BYTES).contains(&found.len()),
                "{}",
                found.len()
            );
            assert_eq!(tcp_info(socket, &mut [0; 8]).unwrap().len(), 8);
        }
    }

    #[test]
    fn a_file_that_is_not_a_tcp_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(tcp_info(&file, &mut [0; TCP_INFO_BYTES]).is_err());
        assert!(send_queue(&file).is_err());
    }

    #[test]
    fn the_send_queue_holds_data_that_the_peer_has_not_read() {
        let (mut client, _server) = pair();
        assert_eq!(send_queue(&client).unwrap(), SendQueue::default());
        client.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(count) = client.write(&[0; 65_536]) {
            written += count as u64;
        }
        let queue = send_queue(&client).unwrap();
        assert!(queue.unsent_bytes > 0, "{queue:?}");
        assert!((queue.unsent_bytes..=written).contains(&queue.unacknowledged_bytes));
    }
}
