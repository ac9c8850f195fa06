//! The kernel's state of a TCP connection: TCP_INFO as raw bytes.
//!
//! It decodes nothing: `squall_base::record::TcpInfo` does. The structure grows from kernel to kernel, so its length is
//! part of the result (struct tcp_info in include/uapi/linux/tcp.h).

use std::io;
use std::os::fd::AsFd;

use crate::sys::read_option;

/// Enough for the whole structure: kernel 6.18 has 280 bytes, and it has grown by some 8 a year.
pub const TCP_INFO_BYTES: usize = 512;

/// Reads TCP_INFO of a socket into `buffer`. Returns the bytes that were read: all that this kernel has, up to the
/// buffer's length.
pub fn tcp_info(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<&[u8]> {
    let length = read_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, buffer)?;
    Ok(&buffer[..length])
}

#[cfg(test)]
mod tests {
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
    }
}
