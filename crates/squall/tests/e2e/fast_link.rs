//! The fast path: super-packets at the devices, wire packets in the link, and nothing lost or invented between them.
//!
//! Needs root; see `bare_link`. No test measures its speed, because other work on the machine would decide the result.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg};
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_base::{BitRate, Duration, Probability};
use squall_link::LaneSettings;
use squall_link::settings::{Capacity, Loss};
use squall_linux::host::Host;
use squall_linux::link_thread::Crossings;
use squall_linux::tun::Offload;
use tempfile::TempDir;

use crate::bare_link::{ADDRESS, BareLink, EndedLink};
use crate::support::{OtherWork, bench, is_root, say_disturbed, seat, squall, stderr};

const LOSS: f64 = 0.01;
const BYTES: usize = 16 << 20;
/// TCP payload bytes in a full segment: MTU 1500 less the headers with timestamps.
const SEGMENT_BYTES: u64 = 1448;

/// Bytes that do not repeat within a window (xorshift, Marsaglia 2003).
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(len).collect()
}

fn one_percent() -> Probability {
    Probability::new(LOSS).expect("1 % is a probability")
}

fn lossy() -> LaneSettings {
    LaneSettings {
        delay: Duration::from_micros(200),
        loss: Loss::Independent(one_percent()),
        ..LaneSettings::default()
    }
}

/// A completed TCP flow of `BYTES` from client to server.
struct Bulk {
    ended: EndedLink,
    /// Segments that the client retransmitted.
    retransmitted: u64,
    /// Segments that the server rejected for a wrong checksum.
    wrong_checksums: u64,
}

fn bulk(lane: LaneSettings, seed: u64) -> Bulk {
    bulk_over(lane, seed, Offload::Segments)
}

fn bulk_over(lane: LaneSettings, seed: u64, offload: Offload) -> Bulk {
    let link = BareLink::start(lane, seed, offload);
    let sent = noise(BYTES);
    let listener = (link.server)
        .run(|| Ok(TcpListener::bind(ADDRESS)))
        .expect("the server's host")
        .expect("a listener");
    let received = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("it is read");
            received
        });
        let mut stream = (link.client)
            .run(|| Ok(TcpStream::connect(ADDRESS)))
            .expect("the client's host")
            .expect("a connection");
        stream.write_all(&sent).expect("it is sent");
        drop(stream);
        receiver.join().expect("the receiver ends")
    });
    assert!(received == sent, "the bytes arrive as they were sent");
    // Counters may still grow until the link is silent, but not by data: all of it has arrived.
    let counter = |host: &Host, name| host.run(|| Ok(tcp_counter(name))).expect("the host");
    Bulk {
        retransmitted: counter(&link.client, "RetransSegs"),
        wrong_checksums: counter(&link.server, "InCsumErrors"),
        ended: link.end(),
    }
}

/// A TCP counter in the calling thread's host.
fn tcp_counter(wanted: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let names = rows.next().expect("a row of names").split(' ');
    let values = rows.next().expect("a row of values").split(' ');
    let (_, value) = names
        .zip(values)
        .find(|(name, _)| *name == wanted)
        .expect("TCP has this counter");
    value.parse().expect("a number")
}

fn of(ended: &EndedLink, direction: Direction) -> impl Iterator<Item = &PacketRecord> {
    (ended.packets.iter()).filter(move |packet| packet.direction == direction)
}

fn count(ended: &EndedLink, direction: Direction, fate: Fate) -> u64 {
    of(ended, direction)
        .filter(|packet| packet.fate == fate)
        .count() as u64
}

#[test]
fn each_segment_of_a_super_packet_has_its_own_fate() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let Bulk {
        ended,
        retransmitted,
        ..
    } = bulk(lossy(), 21);
    let [client, server] = ended.counters;
    for (direction, sender, receiver) in [
        (Direction::Up, client, server),
        (Direction::Down, server, client),
    ] {
        let Crossings { read, written } = ended.report.crossings[direction as usize];
        assert!(of(&ended, direction).all(|packet| packet.length <= 1500));
        let packets = of(&ended, direction).count() as u64;
        // OutSegs and RetransSegs count segments, even those within super-packets (`tcp_skb_pcount`), so they are a witness
        // here, too; the devices count super-packets.
        assert_eq!(packets, sender.tcp_sent, "{direction:?}: TCP sent others");
        assert_eq!(read, sender.device_sent, "{direction:?}");
        assert_eq!(written, receiver.device_received, "{direction:?}");
        assert_eq!(sender.device_dropped + receiver.device_receive_dropped, 0);
        let ends = [Fate::Delivered, Fate::LossDrop].map(|fate| count(&ended, direction, fate));
        assert_eq!(packets, ends.iter().sum::<u64>(), "{direction:?}");
        check_share(ends[1], packets);
    }
    let up = ended.report.crossings[Direction::Up as usize];
    let delivered = count(&ended, Direction::Up, Fate::Delivered);
    let packets = of(&ended, Direction::Up).count() as u64;
    assert!(up.read < packets / 2, "{} reads of {packets}", up.read);
    assert!(
        up.written < delivered / 2,
        "{} writes of {delivered}",
        up.written
    );
    check_stream(&ended, retransmitted);
}

/// Checks that the delivered packets cover the stream, and the dropped ones were retransmitted.
fn check_stream(ended: &EndedLink, retransmitted: u64) {
    let data = || of(ended, Direction::Up).filter(|packet| packet.class == PacketClass::Data);
    let first = data().map(|packet| packet.seq).next().expect("data");
    let mut delivered: Vec<(u32, u32)> = data()
        .filter(|packet| packet.fate == Fate::Delivered)
        .map(|packet| {
            (
                packet.seq.wrapping_sub(first),
                u32::from(packet.payload_len),
            )
        })
        .collect();
    delivered.sort_unstable();
    let mut covered = 0;
    for (begin, len) in delivered {
        assert!(
            begin <= covered,
            "bytes {covered} to {begin} arrived nowhere"
        );
        covered = covered.max(begin + len);
    }
    assert_eq!(
        covered as usize, BYTES,
        "the receiver got what the log says"
    );
    let dropped_bytes: u64 = data()
        .filter(|packet| packet.fate == Fate::LossDrop)
        .map(|packet| u64::from(packet.payload_len))
        .sum();
    assert!(dropped_bytes > 0);
    assert!(
        retransmitted * SEGMENT_BYTES >= dropped_bytes,
        "{dropped_bytes} bytes dropped, {retransmitted} segments sent again"
    );
}

/// Checks that the share of drops is within 5 standard deviations of the binomial distribution.
fn check_share(dropped: u64, packets: u64) {
    let mean = packets as f64 * LOSS;
    let off = (dropped as f64 - mean).abs();
    assert!(
        off < 5.0 * (mean * (1.0 - LOSS)).sqrt(),
        "{dropped} of {packets} dropped"
    );
}

/// Packets that leave one at a time are delivered one at a time, and the receiver acknowledges them as it does without
/// offloads. Other work on the machine may delay packets, with or without offloads; late ones are joined and acknowledged
/// together. The test then measures again, finally without other tests. It compares the most acknowledgements of all
/// measurements with and without offloads, because those were disturbed least.
#[test]
fn packets_at_a_rate_are_delivered_and_acknowledged_one_by_one() {
    if !is_root() {
        return;
    }
    let seat = seat();
    let lane = LaneSettings {
        capacity: Capacity::Rate(BitRate::new(200_000_000).expect("a rate")),
        ..LaneSettings::default()
    };
    let acks = |ended: &EndedLink| {
        let acks = of(ended, Direction::Down).filter(|packet| packet.class == PacketClass::Ack);
        acks.count()
    };
    let mut most = [0, 0];
    let mut measure = || {
        let [fast, plain] = [Offload::Segments, Offload::None]
            .map(|offload| bulk_over(lane.clone(), 24, offload).ended);
        let delivered = count(&fast, Direction::Up, Fate::Delivered);
        let written = fast.report.crossings[Direction::Up as usize].written;
        most = [most[0].max(acks(&fast)), most[1].max(acks(&plain))];
        let ratio = most[0] as f64 / most[1] as f64;
        eprintln!(
            "{written} writes of {delivered} packets, {ratio} times as many acknowledgements"
        );
        written > delivered / 2 && (0.5..2.0).contains(&ratio)
    };
    let mut is_one_by_one = || (0..3).any(|_| measure());
    if is_one_by_one() {
        return;
    }
    say_disturbed("not one by one; measured once more, alone");
    // In this order, because a test that waits for the whole machine must not have a seat.
    drop(seat);
    let _alone = bench();
    let other_work = OtherWork::watch();
    if !is_one_by_one() {
        assert!(other_work.disturbs_a_second(), "not one by one");
        say_disturbed("not one by one");
    }
}

#[test]
fn same_seed_drops_the_same_segments_of_super_packets() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    type Fates = BTreeMap<(Direction, PacketClass, u64), Fate>;
    let fates = |seed| -> Fates {
        let packets = bulk(lossy(), seed).ended.packets.into_iter();
        packets
            .map(|packet| {
                let place = (
                    packet.direction,
                    packet.class,
                    u64::from(packet.class_index),
                );
                (place, packet.fate)
            })
            .collect()
    };
    let (one, again) = (fates(22), fates(22));
    let both = one
        .iter()
        .filter_map(|(place, fate)| Some((fate, again.get(place)?)));
    let (mut compared, mut different) = (0, 0);
    for (fate, other) in both {
        compared += 1;
        different += usize::from(fate != other);
    }
    assert!(compared > BYTES / 1448, "only {compared} could be compared");
    assert_eq!(different, 0, "of {compared}");
}

#[test]
fn flipped_bit_reaches_the_receivers_checksum_and_no_further() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let lane = LaneSettings {
        loss: Loss::default(),
        corrupt: one_percent(),
        ..lossy()
    };
    let bulk = bulk(lane, 23);
    let corrupted = of(&bulk.ended, Direction::Up)
        .filter(|packet| packet.is_corrupted)
        .count() as u64;
    assert!(corrupted > 50, "only {corrupted} corrupted");
    // A flip in the 4-bit field of TCP's header length may be rejected before the checksum is verified.
    assert!(
        (corrupted - corrupted / 20..=corrupted).contains(&bulk.wrong_checksums),
        "{corrupted} corrupted, {} wrong checksums",
        bulk.wrong_checksums
    );
}

#[test]
fn datagrams_of_one_super_packet_arrive_separately() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    const SIZE: u16 = 1200;
    let link = BareLink::start(LaneSettings::default(), 1, Offload::Segments);
    let bind = |host: &Host, address| {
        let socket = host.run(|| Ok(UdpSocket::bind(address)));
        socket.expect("the host").expect("a socket")
    };
    let receiver = bind(&link.server, ADDRESS);
    let sender = bind(&link.client, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let sent = noise(10 * usize::from(SIZE) + 7);
    let at_once = [ControlMessage::UdpGsoSegments(&SIZE)];
    let address = SockaddrIn::from(ADDRESS);
    sendmsg(
        sender.as_raw_fd(),
        &[IoSlice::new(&sent)],
        &at_once,
        MsgFlags::empty(),
        Some(&address),
    )
    .expect("it is sent");
    receiver
        .set_read_timeout(Some(std::time::Duration::from_secs(5)))
        .expect("a limit");
    let mut datagram = [0; 2048];
    for piece in sent.chunks(usize::from(SIZE)) {
        let len = receiver.recv(&mut datagram).expect("a datagram");
        assert!(&datagram[..len] == piece, "each arrives as it was sent");
    }
    let ended = link.end();
    let lengths: Vec<u16> = of(&ended, Direction::Up)
        .map(|packet| packet.length)
        .collect();
    assert_eq!(lengths, [vec![SIZE + 28; 10], vec![7 + 28]].concat());
}

#[test]
fn summary_states_the_offload_used() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (flags, offload) in [(&["--fast"][..], "segments"), (&[], "none")] {
        let output = squall(home.path())
            .arg("link")
            .args(flags)
            .args(["--json", "summary.json", "--", "true"])
            .output()
            .expect("squall starts");
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("offload {offload}")));
        let text = fs::read_to_string(home.path().join("summary.json")).expect("a summary");
        assert!(
            text.contains(&format!("\"offload\": \"{offload}\"")),
            "{text}"
        );
    }
}
