//! Captures the packets of a probe's own flows on this machine: the headers of TCP for its facts, and for `--pcap` whole
//! packets with their TLS secrets.
//!
//! The tap sees all flows of the server's ports. For a capture, its packets wait in a nameless file until the end, when all of
//! the probe's sockets are known; those of other programs are then left out. Behind a link, the link captures instead
//! (`behind`). squall-linux has the tap, squall-analysis' `probe/packets.rs` reads the headers, and squall-record writes the
//! capture.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use nix::poll::{PollFd, PollFlags, poll};
use squall_analysis::probe::Segment;
use squall_base::Time;
use squall_linux::flow_tap::{FlowTap, PacketEnds, TappedPacket, ends_of};
use squall_linux::tap::PACKET_BYTES;
use squall_observe::{TcpHeader, packet_headers};
use squall_record::{CaptureDirection, FlowPacket, create_private, write_flows};

use crate::output::eprint;

/// How long to wait for packets before checking whether the probe is over, in milliseconds.
const WAIT_MS: u8 = 20;
/// The most packets that are read before checking again, because packets of other programs may arrive without end.
const PACKETS_A_TURN: usize = 10_000;
/// Headers that are kept of one endpoint's packets: more than a probe usually has. They take 40 MB.
const HEADERS_AT_MOST: usize = 300_000;
/// What precedes a packet in the file: its time, its device, whether it was sent, and its length.
const HEADER_BYTES: usize = 8 + 8 + 1 + 4;

/// Opens a tap, while this process still has the right to.
pub(super) fn open_tap(path: &Path) -> Result<FlowTap> {
    FlowTap::open().map_err(|error| {
        let path = path.display();
        if error.kind() == ErrorKind::PermissionDenied {
            anyhow!(
                "cannot capture to {path}: seeing packets needs the capability CAP_NET_RAW, which this user does not have. Run it \
                 as root; or once `sudo setcap cap_net_raw+ep $(command -v squall)`; or probe a service on this machine with \
                 --behind 'delay 0ms', whose link captures without it"
            )
        } else {
            anyhow!("cannot capture to {path}: this machine refuses a packet socket (AF_PACKET): {error}")
        }
    })
}

/// Opens a tap for the facts alone, if this process has the right to.
pub(super) fn open_headers() -> Option<FlowTap> {
    FlowTap::open_for_headers().ok()
}

/// The probe's own sockets, by transport and local port; shared with the observers of its clients.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnSockets(Arc<Mutex<BTreeSet<(bool, u16)>>>);

impl OwnSockets {
    /// Adds a socket by its local address.
    pub(super) fn add(&self, from: SocketAddr, is_tcp: bool) {
        self.lock().insert((is_tcp, from.port()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(bool, u16)>> {
        // A thread that panicked while it held the lock left the set complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The header of a packet of TCP that the tap saw.
#[derive(Clone, Copy, Debug)]
struct SeenHeader {
    ends: PacketEnds,
    device: u64,
    is_outgoing: bool,
    unix_ns: u64,
    tcp: TcpHeader,
}

/// The headers that the tap saw since they were last taken.
#[derive(Clone, Debug, Default)]
struct SeenHeaders(Arc<Mutex<Vec<SeenHeader>>>);

impl SeenHeaders {
    fn add(&self, packet: &TappedPacket<'_>) {
        let mut seen = self.lock();
        if seen.len() < HEADERS_AT_MOST {
            seen.extend(SeenHeader::of(packet));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SeenHeader>> {
        // A thread that panicked while it held the lock left whole rows.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenHeader {
    fn of(packet: &TappedPacket<'_>) -> Option<SeenHeader> {
        let ends = ends_of(packet.bytes)?;
        let tcp = packet_headers(packet.bytes)?.tcp?;
        Some(SeenHeader {
            ends,
            device: packet.device as u64,
            is_outgoing: packet.is_outgoing,
            unix_ns: packet.unix_ns,
            tcp,
        })
    }

    fn segment(&self, direction: CaptureDirection) -> Segment {
        let is_from_server = direction == CaptureDirection::Inbound;
        let (client, server) = if is_from_server {
            (self.ends.to, self.ends.from)
        } else {
            (self.ends.from, self.ends.to)
        };
        Segment {
            at: Time::from_nanos(self.unix_ns),
            client,
            server,
            is_from_server,
            seq: self.tcp.seq,
            ack: self.tcp.ack,
            flags: self.tcp.flags,
            window: self.tcp.window,
            // At most 64 KiB.
            bytes: self.tcp.payload_bytes as u32,
        }
    }
}

/// The file of a capture, which only its owner may read.
struct CaptureFile {
    path: PathBuf,
    file: File,
}

/// A tap that is being read.
pub(super) struct Capture {
    /// Where its packets are written in the end; `None` if only headers are wanted.
    output: Option<CaptureFile>,
    tap: Arc<FlowTap>,
    is_over: Arc<AtomicBool>,
    /// Returns the file with all packets, if there is to be a capture.
    reader: JoinHandle<io::Result<Option<File>>>,
    headers: SeenHeaders,
    own: OwnSockets,
    servers: BTreeSet<SocketAddr>,
    secrets: String,
    /// The first error of the tap.
    fault: Option<io::Error>,
}

impl Capture {
    /// Creates the file, if there is to be one, and starts the thread that reads the tap.
    pub(super) fn start(path: Option<&Path>, tap: FlowTap) -> Result<Capture> {
        let output = path.map(CaptureFile::create).transpose()?;
        let packets = path.map(nameless_beside).transpose()?;
        let headers = SeenHeaders::default();
        let tap = Arc::new(tap);
        let is_over = Arc::new(AtomicBool::new(false));
        let (of_reader, signal) = (Arc::clone(&tap), Arc::clone(&is_over));
        let seen = headers.clone();
        let reader = thread::Builder::new()
            .name("squall-capture".to_owned())
            .spawn(move || keep(&of_reader, &signal, &seen, packets))
            .context("cannot start the thread that reads packets")?;
        Ok(Capture {
            output,
            tap,
            is_over,
            reader,
            headers,
            own: OwnSockets::default(),
            servers: BTreeSet::new(),
            secrets: String::new(),
            fault: None,
        })
    }

    /// Whether packets are written to a file.
    pub(super) fn has_file(&self) -> bool {
        self.output.is_some()
    }

    /// The probe's own packets of TCP since the last call.
    pub(super) fn take_segments(&self) -> Vec<Segment> {
        let seen = std::mem::take(&mut *self.headers.lock());
        let mut wanted = Wanted {
            servers: self.servers.clone(),
            own: self.own.lock().clone(),
            devices: BTreeMap::new(),
        };
        let segments = seen.iter().filter_map(|header| {
            let direction = wanted.direction(&header.ends, header.device, header.is_outgoing)?;
            Some(header.segment(direction))
        });
        segments.collect()
    }

    /// The probe's sockets.
    pub(super) fn own(&self) -> &OwnSockets {
        &self.own
    }

    /// From now on also captures the packets to and from this server.
    pub(super) fn watch(&mut self, server: SocketAddr) {
        if !self.servers.insert(server) {
            return;
        }
        let ports: BTreeSet<u16> = self.servers.iter().map(SocketAddr::port).collect();
        let ports: Vec<u16> = ports.into_iter().collect();
        if let Err(error) = self.tap.watch(&ports) {
            self.fault.get_or_insert(error);
        }
    }

    /// Adds lines of the TLS key log.
    pub(super) fn add_secrets(&mut self, lines: &[String]) {
        for line in lines {
            self.secrets += line;
            self.secrets.push('\n');
        }
    }

    /// Ends the reader, and writes the capture if there is to be one.
    pub(super) fn finish(self) -> Result<()> {
        let Capture {
            output,
            tap,
            is_over,
            reader,
            headers: _,
            own,
            servers,
            secrets,
            fault,
        } = self;
        is_over.store(true, Ordering::Release);
        let packets = reader
            .join()
            .map_err(|_| anyhow!("reading packets panicked"))?;
        let Some(CaptureFile { path, file }) = output else {
            // A probe does not fail because packets could not be seen.
            return Ok(());
        };
        let failed = || format!("cannot write the capture {}", path.display());
        let Some(mut packets) = packets.with_context(failed)? else {
            return Ok(());
        };
        if let Some(fault) = fault {
            return Err(fault).with_context(failed);
        }
        packets.seek(SeekFrom::Start(0)).with_context(failed)?;
        let flows = Flows {
            packets: BufReader::new(packets),
            wanted: Wanted {
                servers,
                own: std::mem::take(&mut *own.lock()),
                devices: BTreeMap::new(),
            },
        };
        let out = BufWriter::new(file);
        write_flows(out, &secrets, flows).with_context(failed)?;
        let missed = tap.missed().unwrap_or(0);
        if missed > 0 {
            eprint(format_args!(
                "squall: {} lacks {missed} packets, which came faster than they could be read\n",
                path.display()
            ));
        }
        Ok(())
    }
}

impl CaptureFile {
    fn create(path: &Path) -> Result<CaptureFile> {
        let file = create_private(path)
            .with_context(|| format!("cannot write the capture {}", path.display()))?;
        Ok(CaptureFile {
            path: path.to_owned(),
            file,
        })
    }
}

fn nameless_beside(path: &Path) -> Result<File> {
    nameless(path)
        .with_context(|| format!("cannot make a temporary file next to {}", path.display()))
}

/// A file next to `path` without a name, so that no other process can open it. While it has a name, only this user can
/// read it.
fn nameless(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&name)?;
    fs::remove_file(&name)?;
    Ok(file)
}

/// Reads the tap until the probe is over, and writes all packets to the file, if there is one. Returns the file.
fn keep(
    tap: &FlowTap,
    is_over: &AtomicBool,
    headers: &SeenHeaders,
    file: Option<File>,
) -> io::Result<Option<File>> {
    let mut out = file.map(BufWriter::new);
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        // The flag is read before the turn, so that the last turn reads everything that arrived before the end.
        let is_last = is_over.load(Ordering::Acquire);
        for _ in 0..PACKETS_A_TURN {
            let Some(packet) = tap.next(&mut buffer)? else {
                break;
            };
            headers.add(&packet);
            if let Some(out) = &mut out {
                write_packet(out, &packet)?;
            }
        }
        if is_last {
            let file = out.map(BufWriter::into_inner).transpose();
            return file.map_err(io::Error::from);
        }
        let mut waiting = [PollFd::new(tap.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, WAIT_MS) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_packet(out: &mut impl Write, packet: &TappedPacket<'_>) -> io::Result<()> {
    // At most 64 KiB.
    let length = packet.bytes.len() as u32;
    out.write_all(&packet.unix_ns.to_le_bytes())?;
    out.write_all(&(packet.device as u64).to_le_bytes())?;
    out.write_all(&[u8::from(packet.is_outgoing)])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(packet.bytes)
}

/// A packet that was read back from the file.
struct KeptPacket {
    unix_ns: u64,
    device: u64,
    is_outgoing: bool,
    bytes: Vec<u8>,
}

fn read_packet(from: &mut impl Read) -> io::Result<Option<KeptPacket>> {
    let mut header = [0; HEADER_BYTES];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let number = |from: usize, bytes: usize| {
        let bytes = header[from..from + bytes].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let mut bytes = vec![0; number(17, 4) as usize];
    from.read_exact(&mut bytes)?;
    Ok(Some(KeptPacket {
        unix_ns: number(0, 8),
        device: number(8, 8),
        is_outgoing: header[16] != 0,
        bytes,
    }))
}

/// One direction of a flow: whether it is TCP, the client's port, and whether the client sends.
type FlowWay = (bool, u16, bool);

/// Which of the packets that the tap saw are the probe's own.
struct Wanted {
    servers: BTreeSet<SocketAddr>,
    own: BTreeSet<(bool, u16)>,
    /// The device on which each flow was seen first. The same packets may also pass other devices, such as ports of a bridge.
    devices: BTreeMap<FlowWay, u64>,
}

impl Wanted {
    /// The flow and direction of a packet, if it belongs to the probe.
    fn way_of(&self, ends: &PacketEnds) -> Option<FlowWay> {
        let mine = |local: &SocketAddr, remote: &SocketAddr| {
            self.servers.contains(remote) && self.own.contains(&(ends.is_tcp, local.port()))
        };
        if mine(&ends.from, &ends.to) {
            Some((ends.is_tcp, ends.from.port(), true))
        } else if mine(&ends.to, &ends.from) {
            Some((ends.is_tcp, ends.to.port(), false))
        } else {
            None
        }
    }

    /// The direction of a packet seen on `device`; `None` if it is not the probe's, or is a second copy of one.
    fn direction(
        &mut self,
        ends: &PacketEnds,
        device: u64,
        is_outgoing: bool,
    ) -> Option<CaptureDirection> {
        let way = self.way_of(ends)?;
        let (_, _, is_sent) = way;
        let first = *self.devices.entry(way).or_insert(device);
        if first != device || (is_outgoing && !is_sent) {
            return None;
        }
        Some(if is_sent {
            CaptureDirection::Outbound
        } else {
            CaptureDirection::Inbound
        })
    }
}

/// The packets of the probe's own flows, out of those in the file.
struct Flows<R> {
    packets: R,
    wanted: Wanted,
}

impl<R: Read> Iterator for Flows<R> {
    type Item = io::Result<FlowPacket>;

    fn next(&mut self) -> Option<io::Result<FlowPacket>> {
        loop {
            let packet = match read_packet(&mut self.packets) {
                Ok(packet) => packet?,
                Err(error) => return Some(Err(error)),
            };
            let direction = ends_of(&packet.bytes).and_then(|ends| {
                let wanted = &mut self.wanted;
                wanted.direction(&ends, packet.device, packet.is_outgoing)
            });
            if let Some(direction) = direction {
                return Some(Ok(FlowPacket {
                    unix_ns: packet.unix_ns,
                    direction,
                    bytes: packet.bytes,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of TCP or UDP over IPv4, from and to these ports of loopback.
    fn packet(is_tcp: bool, from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = if is_tcp { 6 } else { 17 };
        packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[127, 0, 0, 1]);
        packet[20..22].copy_from_slice(&from.to_be_bytes());
        packet[22..24].copy_from_slice(&to.to_be_bytes());
        packet
    }

    #[test]
    fn only_packets_of_the_probes_own_flows_are_kept_and_each_once() {
        let packets = [
            (1, packet(true, 50_000, 443)),
            (1, packet(true, 443, 50_000)),
            // The same packet on a port of a bridge.
            (2, packet(true, 50_000, 443)),
            // A packet of another program, and one from the probe's port number over UDP.
            (1, packet(true, 50_001, 443)),
            (1, packet(false, 50_000, 443)),
            // To another server.
            (1, packet(true, 50_000, 80)),
        ];
        let mut file = Vec::new();
        for (device, bytes) in &packets {
            let tapped = TappedPacket {
                unix_ns: 7,
                device: *device,
                is_outgoing: false,
                bytes,
            };
            write_packet(&mut file, &tapped).unwrap();
        }
        let flows = Flows {
            packets: file.as_slice(),
            wanted: Wanted {
                servers: BTreeSet::from(["127.0.0.1:443".parse().unwrap()]),
                own: BTreeSet::from([(true, 50_000)]),
                devices: BTreeMap::new(),
            },
        };
        let kept: Vec<FlowPacket> = flows.collect::<io::Result<_>>().unwrap();
        let directions: Vec<CaptureDirection> = kept.iter().map(|it| it.direction).collect();
        assert_eq!(
            directions,
            [CaptureDirection::Outbound, CaptureDirection::Inbound]
        );
        assert_eq!(kept[1].bytes, packets[1].1);
        assert_eq!(kept[0].unix_ns, 7);
    }
}
