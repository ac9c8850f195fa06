//! A TUN device: one end of a link, seen from its host as a network interface.
//!
//! No offloads are asked for, so the kernel segments and checksums before the device sees a packet: every
//! read is one packet as it would be on the wire. No NAPI, so a written packet enters the stack at once
//! and alone, without receive offload merging it with its neighbours. No queueing discipline, because the
//! machine's default one (net.core.default_qdisc) would pace, reorder or drop packets before the link sees
//! them: `fq` paces CUBIC too, and keeps 100 packets of a flow at most.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::SetupError;
use crate::netlink;

/// MTU of every link: Ethernet's, which gives TCP with timestamps segments of 1,448 bytes.
pub const MTU_BYTES: u32 = 1500;
/// Transmit queue of the device. It overflows silently, so it must be beyond any burst of one host: 8
/// bulk streams overran 10,000 packets but never 50,000.
pub const QUEUE_PACKETS: u32 = 50_000;

/// An open TUN device.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes the device `name` with `address` in the network namespace of the calling thread and brings
    /// it up.
    pub fn create(name: &str, address: Ipv4Addr, prefix_len: u8) -> Result<Tun, SetupError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(|source| SetupError::TunDriver {
                advice: driver_advice(&source),
                source,
            })?;
        let device_error = |source| SetupError::TunDevice {
            device: name.to_owned(),
            source,
        };
        attach(&file, name).map_err(device_error)?;
        let index = nix::net::if_::if_nametoindex(name).map_err(|e| device_error(e.into()))?;
        let netlink_error = |action| {
            move |source| SetupError::Netlink {
                action,
                device: name.to_owned(),
                source,
            }
        };
        netlink::add_address(index, address, prefix_len)
            .map_err(netlink_error("set the address"))?;
        netlink::bring_up(index, MTU_BYTES, QUEUE_PACKETS)
            .map_err(netlink_error("set MTU, queue length and state"))?;
        netlink::remove_queue(index).map_err(netlink_error("remove the queueing discipline"))?;
        Ok(Tun { file })
    }

    /// Reads one IP packet that the host sent. `WouldBlock` if there is none.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Gives the host one IP packet. When this returns, its stack has dealt with it.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn driver_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "It is closed to this user here: run as root, or let users in with `sudo chmod 666 /dev/net/tun`"
        }
        io::ErrorKind::NotFound => {
            "The driver is not there: load it with `sudo modprobe tun`; in a container, add --device /dev/net/tun"
        }
        _ => "See whether the kernel has CONFIG_TUN; in a container, add --device /dev/net/tun",
    }
}

/// TUNSETIFF: makes the open file the device `name`, for packets without a header of the driver's.
fn attach(file: &File, name: &str) -> io::Result<()> {
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: 0,
        padding: [0; 22],
    };
    // One byte stays 0, to end the name.
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    request.flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`; InterfaceRequest has its layout and its whole
    // size (40 bytes on 64-bit Linux), and lives until the call returns.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct ifreq` (linux/if.h) as TUNSETIFF uses it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    padding: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());
