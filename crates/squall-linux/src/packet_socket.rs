//! Packet sockets (packet(7)): opening one, giving it a filter, and binding it to devices.
//!
//! They receive packets without the link-layer header, each with the kernel's timestamp. `tap` and `flow_tap` decide which
//! packets, and read them. Opening one needs CAP_NET_RAW; the rest does not.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{setsockopt, sockopt};

use crate::socket::ask_for_large_receive_buffer;
use crate::sys::checked;

/// Opens a socket that receives nothing until it is bound, so that neither packets of other devices nor unfiltered ones get
/// in.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    checked(fd)?;
    // SAFETY: the descriptor was just made, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    ask_for_large_receive_buffer(&socket);
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(socket)
}

/// Attaches a program of classic BPF (Documentation/networking/filter.rst), which replaces an earlier one. The socket then
/// receives only the packets that the program passes.
pub(crate) fn filter(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).unwrap_or(libc::c_ushort::MAX),
        filter: program.as_mut_ptr(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Makes the socket receive the packets of the device with this index, or of all devices with 0.
pub(crate) fn bind(socket: &OwnedFd, device: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    // Sockets for all protocols get a packet before the protocol itself does, and so before any response to it.
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = device;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the call reads `length` bytes of `address`, which has that many.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    checked(result)
}

/// Sets a socket option.
pub(crate) fn set<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the call reads as many bytes as `value` has; `value` outlives the call, and so does the caller's filter that
    // it may point to.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    checked(result)
}
