//! A TUN device: one end of a link, seen by its host as a network interface.
//!
//! Without offloads, the kernel segments and checksums before the device sees a packet: every read is one packet as it
//! would be on the wire. With them (`Offload::Segments`) a read or write may be a super-packet; `offload` and `port` handle
//! those. The device does not use NAPI, so a written packet enters the stack at once and alone, without receive offload
//! merging it with its neighbours. It has no queueing discipline: the machine's default one (net.core.default_qdisc) would
//! pace, reorder or drop packets before the link sees them. `fq`, for example, paces even CUBIC, and keeps at most 100
//! packets of a flow.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use netlink_packet_route::route::RouteMetric;

use crate::error::SetupError;
use crate::netlink::{self, Route};
use crate::sys::checked;

/// MTU of every link: Ethernet's, which gives TCP with timestamps segments of 1,448 bytes.
pub const MTU_BYTES: u32 = 1500;
/// Transmit queue length of the device. It overflows silently, so it must exceed any burst of one host: 8 bulk streams
/// overran 10,000 packets but never 50,000.
pub const QUEUE_PACKETS: u32 = 50_000;
/// The maximum of some older kernels (6.1 returns ERANGE for 32,768).
pub(crate) const QUEUE_PACKETS_OF_OLDER_KERNELS: u32 = 32_767;

/// The work that the host leaves to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// None: packets are as on the wire.
    #[default]
    None,
    /// Checksums and segmentation. The driver's header precedes each packet, which may be a super-packet of up to 64 KB.
    Segments,
}

impl Offload {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Offload::None => "none",
            Offload::Segments => "segments",
        }
    }
}

/// TCP settings of the route over a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteMetrics<'a> {
    /// The congestion control for connections whose sockets choose none.
    pub congestion_control: Option<&'a str>,
    /// The maximum congestion window in segments, which the kernel must remember beforehand (`cwnd_cap::remember`).
    pub max_cwnd: Option<u32>,
}

/// An open TUN device.
#[derive(Debug)]
pub struct Tun {
    file: File,
    offload: Offload,
    index: u32,
    address: Ipv4Addr,
    prefix_len: u8,
}

impl Tun {
    /// Creates the device `name` with `address` in the calling thread's network namespace and brings it up.
    pub fn create(
        name: &str,
        address: Ipv4Addr,
        prefix_len: u8,
        offload: Offload,
    ) -> Result<Tun, SetupError> {
        let file = open_driver()?;
        let device_error = |source| SetupError::TunDevice {
            device: name.to_owned(),
            source,
        };
        match offload {
            Offload::None => attach(&file, name, PLAIN),
            Offload::Segments => attach_with_offloads(&file, name),
        }
        .map_err(device_error)?;
        let index = nix::net::if_::if_nametoindex(name).map_err(|e| device_error(e.into()))?;
        netlink::add_address(index, address, prefix_len)
            .map_err(SetupError::netlink("set the address", name))?;
        bring_up(index).map_err(SetupError::netlink("set MTU, queue length and state", name))?;
        netlink::remove_queue(index)
            .map_err(SetupError::netlink("remove the queueing discipline", name))?;
        Ok(Tun {
            file,
            offload,
            index,
            address,
            prefix_len,
        })
    }

    /// Makes `congestion_control` the default for TCP over this device; a socket may choose another one. Call it from the
    /// device's network namespace.
    pub fn use_congestion_control(&self, congestion_control: &str) -> Result<(), SetupError> {
        self.set_metrics(RouteMetrics {
            congestion_control: Some(congestion_control),
            max_cwnd: None,
        })
    }

    /// Sets the metrics of the route over this device. A namespace may not choose a congestion control by sysctl unless the
    /// machine allows that one, but a route may (RTAX_CC_ALGO, linux/rtnetlink.h). Call it from the device's network
    /// namespace.
    pub fn set_metrics(&self, metrics: RouteMetrics<'_>) -> Result<(), SetupError> {
        let control = metrics.congestion_control;
        let named = control.map(|name| RouteMetric::CcAlgo(name.to_owned()));
        let capped = metrics.max_cwnd.map(netlink::capped);
        let all: Vec<RouteMetric> = named
            .into_iter()
            .chain(capped.into_iter().flatten())
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        let route = Route::to_subnet(self.index, self.address, self.prefix_len);
        netlink::replace_route(&route, &all).map_err(|source| match control {
            Some(name) => SetupError::CongestionControl {
                name: name.to_owned(),
                source,
            },
            None => SetupError::system("set the metrics of the link's route")(source),
        })
    }

    /// The work that the host leaves to this device.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Reads one IP packet from the host, preceded by the driver's header if there are offloads. `WouldBlock` if there is
    /// no packet.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Passes one IP packet to the host, preceded by the driver's header if there are offloads. When this returns, the
    /// host's stack has processed it.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }

    /// As `write`, for a packet in several pieces.
    pub fn write_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(pieces).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens the TUN driver. The file is not a device yet.
pub(crate) fn open_driver() -> Result<File, SetupError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(|source| SetupError::TunDriver {
            advice: driver_advice(&source),
            source,
        })
}

/// Creates the device `name` temporarily, with the driver's header before each packet, and makes TCP leave checksums and
/// segmentation to it.
pub(crate) fn try_offloads(name: &str) -> Result<(), SetupError> {
    let file = open_driver()?;
    attach_with_offloads(&file, name).map_err(|source| SetupError::TunDevice {
        device: name.to_owned(),
        source,
    })
}

fn bring_up(index: u32) -> io::Result<()> {
    match netlink::bring_up(index, MTU_BYTES, QUEUE_PACKETS) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
            netlink::bring_up(index, MTU_BYTES, QUEUE_PACKETS_OF_OLDER_KERNELS)
        }
        result => result,
    }
}

fn driver_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "This user may not open it: run as root, or allow all users with `sudo chmod 666 /dev/net/tun`"
        }
        io::ErrorKind::NotFound => {
            "There is no such device: load its driver with `sudo modprobe tun`; in a container, add --device /dev/net/tun"
        }
        _ => "Check whether the kernel has CONFIG_TUN; in a container, add --device /dev/net/tun",
    }
}

/// Flags of a device for bare IP packets, without the driver's header.
const PLAIN: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI;

/// TUNSETIFF: turns the open file into the device `name`.
fn attach(file: &File, name: &str, flags: libc::c_int) -> io::Result<()> {
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: 0,
        padding: [0; 22],
    };
    // One byte stays 0, to terminate the name.
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    request.flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`; InterfaceRequest has its layout and full size (40 bytes on
    // 64-bit Linux), and outlives the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) })
}

/// Turns the open file into the device `name`, with the driver's header before each packet, and makes TCP leave checksums
/// and segmentation to it; UDP too where the kernel supports it (6.2; it accepts both IP versions or neither).
fn attach_with_offloads(file: &File, name: &str) -> io::Result<()> {
    const OF_TCP: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4;
    const OF_UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    attach(file, name, PLAIN | libc::IFF_VNET_HDR)?;
    match request_offloads(file, OF_TCP | OF_UDP) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => request_offloads(file, OF_TCP),
        result => result,
    }
}

/// TUNSETOFFLOAD: what the device's reader does instead of the kernel (TUN_F_*).
fn request_offloads(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    let offloads = libc::c_ulong::from(offloads);
    // SAFETY: TUNSETOFFLOAD takes its argument by value; it reads and writes no memory of ours.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) })
}

/// `struct ifreq` (linux/if.h) as TUNSETIFF uses it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    padding: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());
