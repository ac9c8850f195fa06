//! Captures: every byte of a small one, the order of packets, properties over arbitrary packets, and how tshark,
//! capinfos and tcptrace read a connection that lost a packet. Reading captures ourselves is tested in `captures.rs`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::Time;
use squall_base::record::{Direction, PacketRecord};
use squall_record::{
    CaptureDirection, CapturedPacket, PcapngFile, PcapngWriter, RecordError, add_secrets,
};

use crate::common;

/// 2023-11-14 22:13:20 UTC.
const EPOCH_UNIX_NS: u64 = 1_700_000_000_000_000_000;
const EPOCH: Time = Time::from_nanos(5_000_000_000);
const DROPPED: &str = "squall: dropped by queue (drop-tail, 64 KiB full) – größer";

/// A packet that entered the link `after_ns` after the epoch.
fn captured(
    index: u32,
    direction: Direction,
    after_ns: u64,
    bytes: Vec<u8>,
    comment: Option<&str>,
) -> CapturedPacket {
    CapturedPacket {
        record: PacketRecord {
            direction,
            length: bytes.len() as u16,
            arrived: Time::from_nanos(EPOCH.as_nanos() + after_ns),
            ..common::packet_number(index)
        },
        bytes,
        comment: comment.map(str::to_owned),
    }
}

/// Writes a capture into `folder` with a single `append`.
fn capture(folder: &Path, packets: &[CapturedPacket]) -> PathBuf {
    let path = folder.join("packets.pcapng");
    let mut file = PcapngFile::create(path.clone(), EPOCH, EPOCH_UNIX_NS).expect("a capture");
    file.append(packets.to_vec(), Time::ZERO)
        .expect("a capture");
    let written = file.finish().expect("a capture");
    assert_eq!(written, packets.len() as u64);
    path
}

// A reader for as little of the format as the tests need.

/// A block: its type, and its body without the lengths around it.
struct Block {
    kind: u32,
    body: Vec<u8>,
}

/// An enhanced packet block.
#[derive(Debug, PartialEq, Eq)]
struct ParsedPacket {
    interface: u32,
    time_unix_ns: u64,
    bytes: Vec<u8>,
    options: Vec<(u16, Vec<u8>)>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn blocks(mut rest: &[u8]) -> Vec<Block> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let length = u32_at(rest, 4) as usize;
        assert!(length >= 12 && length.is_multiple_of(4), "length {length}");
        assert_eq!(u32_at(rest, length - 4) as usize, length, "the end");
        found.push(Block {
            kind: u32_at(rest, 0),
            body: rest[8..length - 4].to_vec(),
        });
        rest = &rest[length..];
    }
    found
}

/// Takes `length` bytes and the zeros that pad them.
fn take_padded<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (padded, after) = rest.split_at(length.next_multiple_of(4));
    let (value, padding) = padded.split_at(length);
    assert!(padding.iter().all(|byte| *byte == 0), "padding {padding:?}");
    *rest = after;
    value
}

fn options(mut rest: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let head = u32_at(rest, 0);
        let (code, length) = (head as u16, (head >> 16) as usize);
        rest = &rest[4..];
        if code == 0 {
            assert!(length == 0 && rest.is_empty(), "the end of the options");
            return found;
        }
        found.push((code, take_padded(&mut rest, length).to_vec()));
    }
    assert!(found.is_empty(), "options without their end");
    found
}

fn packet(block: &Block) -> ParsedPacket {
    assert_eq!(block.kind, 6);
    let body = &block.body;
    let length = u32_at(body, 12);
    assert_eq!(u32_at(body, 16), length, "nothing is cut off");
    let mut rest = &body[20..];
    let bytes = take_padded(&mut rest, length as usize).to_vec();
    ParsedPacket {
        interface: u32_at(body, 0),
        time_unix_ns: u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8)),
        bytes,
        options: options(rest),
    }
}

/// The packets of a file of PcapngFile, which begins with one section and two interfaces.
fn packets(path: &Path) -> Vec<ParsedPacket> {
    let blocks = blocks(&fs::read(path).expect("the capture"));
    let kinds: Vec<u32> = blocks[..3].iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [0x0A0D_0D0A, 1, 1]);
    blocks[3..].iter().map(packet).collect()
}

// TCP packets for the link.

fn internet_checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum: u32 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    (!(sum as u16)).to_be_bytes()
}

/// A TCP segment in IPv4, between 10.0.0.1:40000 (the client) and 10.0.0.2:80.
fn segment(
    direction: Direction,
    ip_id: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
    const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 80);
    let (from, to) = match direction {
        Direction::Up => (CLIENT, SERVER),
        Direction::Down => (SERVER, CLIENT),
    };
    let mut tcp = Vec::new();
    tcp.extend(from.1.to_be_bytes());
    tcp.extend(to.1.to_be_bytes());
    tcp.extend(seq.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([5 << 4, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
    tcp.extend(payload);
    let pseudo_end = [0, 6, (tcp.len() >> 8) as u8, tcp.len() as u8];
    let checksum = internet_checksum(&[&from.0, &to.0, &pseudo_end, &tcp]);
    tcp[16..18].copy_from_slice(&checksum);

    let total = (20 + tcp.len() as u16).to_be_bytes();
    let id = ip_id.to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], id[0], id[1], 0x40, 0, 64, 6];
    ip.extend([0, 0]);
    ip.extend(from.0);
    ip.extend(to.0);
    let checksum = internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&checksum);
    ip.extend(tcp);
    ip
}

/// A handshake, a request whose first transmission is dropped, and its response; 10 ms and 1 ns apart. In the order in
/// which their fates became final: the dropped one first.
fn connection() -> Vec<CapturedPacket> {
    use Direction::{Down, Up};
    const SYN: u8 = 0x02;
    const PSH: u8 = 0x08;
    const ACK: u8 = 0x10;
    let request = b"GET / HTTP/1.1\r\nHost: squall\r\n\r\n";
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let sent = 1_001 + request.len() as u32;
    let at = |step: u64| 123_456_789 + step * 10_000_001;
    vec![
        captured(
            2,
            Up,
            at(3),
            segment(Up, 3, 1_001, 9_001, PSH | ACK, request),
            Some(DROPPED),
        ),
        captured(0, Up, at(0), segment(Up, 1, 1_000, 0, SYN, b""), None),
        captured(
            0,
            Down,
            at(1),
            segment(Down, 1, 9_000, 1_001, SYN | ACK, b""),
            None,
        ),
        captured(1, Up, at(2), segment(Up, 2, 1_001, 9_001, ACK, b""), None),
        captured(
            3,
            Up,
            at(4),
            segment(Up, 4, 1_001, 9_001, PSH | ACK, request),
            None,
        ),
        captured(
            1,
            Down,
            at(5),
            segment(Down, 2, 9_001, sent, PSH | ACK, response),
            None,
        ),
    ]
}

// Peers.

/// Whether `program` can be started. If not, prints that the test is skipped, or fails where every test must run.
fn has_peer(program: &str) -> bool {
    if Command::new(program).arg("-v").output().is_ok() {
        return true;
    }
    let said = format!("skipped: {program} is not installed; scripts/peers installs it");
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    // Not eprintln!, whose output the test harness captures.
    let _ = std::io::stderr().write_all(format!("{said}\n").as_bytes());
    false
}

/// The output of `program` for a capture, in UTC and English.
fn said_by(program: &str, arguments: &[&str], capture: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(capture)
        .env("TZ", "UTC")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("it was there a moment ago");
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

// Tests.

#[test]
fn small_capture_matches_byte_for_byte() {
    let mut writer = PcapngWriter::new(Vec::new(), "squall 1", &[("up", "there")]).unwrap();
    let time = 0x0102_0304_0506_0708;
    writer
        .packet(
            0,
            time,
            Some(CaptureDirection::Outbound),
            b"frame",
            Some("lost"),
        )
        .unwrap();
    writer.packet(0, time, None, b"", None).unwrap();
    writer.secrets("RANDOM 1\n").unwrap();
    let bytes = writer.finish().unwrap();

    #[rustfmt::skip]
    let expected: &[&[u8]] = &[
        // Section header: type, length, byte order, version 1.0, length unknown.
        b"\x0A\x0D\x0D\x0A", &[44, 0, 0, 0], &[0x4D, 0x3C, 0x2B, 0x1A], &[1, 0, 0, 0], &[0xFF; 8],
        // shb_userappl, the end of the options, length.
        &[4, 0, 8, 0], b"squall 1", &[0; 4], &[44, 0, 0, 0],
        // Interface: type, length, Ethernet, no snaplen.
        &[1, 0, 0, 0], &[52, 0, 0, 0], &[1, 0, 0, 0], &[0; 4],
        // if_name, if_description, if_tsresol, the end of the options, length.
        &[2, 0, 2, 0], b"up\0\0", &[3, 0, 5, 0], b"there\0\0\0", &[9, 0, 1, 0], &[9, 0, 0, 0], &[0; 4],
        &[52, 0, 0, 0],
        // Packet: type, length, interface, time (high, low), lengths, frame.
        &[6, 0, 0, 0], &[60, 0, 0, 0], &[0; 4], &[4, 3, 2, 1], &[8, 7, 6, 5], &[5, 0, 0, 0], &[5, 0, 0, 0],
        b"frame\0\0\0",
        // opt_comment, epb_flags (outbound), the end of the options, length.
        &[1, 0, 4, 0], b"lost", &[2, 0, 4, 0], &[2, 0, 0, 0], &[0; 4], &[60, 0, 0, 0],
        // An empty packet, without options.
        &[6, 0, 0, 0], &[32, 0, 0, 0], &[0; 4], &[4, 3, 2, 1], &[8, 7, 6, 5], &[0; 4], &[0; 4],
        &[32, 0, 0, 0],
        // Secrets: type, length, "TLSK", length of the key log, key log, length.
        &[10, 0, 0, 0], &[32, 0, 0, 0], b"KSLT", &[9, 0, 0, 0], b"RANDOM 1\n\0\0\0", &[32, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn packets_are_held_back_until_no_earlier_one_can_follow() {
    use Direction::{Down, Up};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcapng");
    let packet = |index, direction, after_ns| {
        captured(
            index,
            direction,
            after_ns,
            vec![0x45],
            Some(&after_ns.to_string()),
        )
    };
    let until = |after_ns| Time::from_nanos(EPOCH.as_nanos() + after_ns);

    let mut file = PcapngFile::create(path.clone(), EPOCH, EPOCH_UNIX_NS).unwrap();
    // The packet at 30 was lost immediately; those before it are still delayed.
    file.append(vec![packet(2, Up, 30)], until(10)).unwrap();
    file.append(vec![packet(0, Up, 10), packet(0, Down, 20)], until(20))
        .unwrap();
    file.append(vec![packet(1, Up, 20)], until(30)).unwrap();
    file.append(vec![packet(3, Up, 50), packet(1, Down, 40)], until(30))
        .unwrap();
    assert_eq!(file.finish().unwrap(), 6);

    let written: Vec<(u32, u64)> = packets(&path)
        .iter()
        .map(|packet| (packet.interface, packet.time_unix_ns - EPOCH_UNIX_NS))
        .collect();
    assert_eq!(
        written,
        [(0, 10), (0, 20), (1, 20), (0, 30), (1, 40), (0, 50)]
    );
}

#[test]
fn saved_packets_can_be_read_while_the_capture_is_still_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcapng");
    let mut file = PcapngFile::create(path.clone(), EPOCH, EPOCH_UNIX_NS).unwrap();
    let up = |index, after_ns| captured(index, Direction::Up, after_ns, vec![0x45], None);
    // The second packet is held back, because an earlier one may follow.
    let until = Time::from_nanos(EPOCH.as_nanos() + 20);
    file.append(vec![up(0, 10), up(1, 20)], until).unwrap();
    file.save().unwrap();
    assert_eq!(packets(&path).len(), 1);
    assert_eq!(file.finish().unwrap(), 2);
    assert_eq!(packets(&path).len(), 2);
}

#[test]
fn capture_in_a_missing_folder_is_an_error() {
    let path = PathBuf::from("nowhere/packets.pcapng");
    let error = PcapngFile::create(path, EPOCH, EPOCH_UNIX_NS).err();
    assert!(
        matches!(error, Some(RecordError::Create { .. })),
        "{error:?}"
    );
}

#[test]
fn tshark_shows_times_comments_and_the_loss() {
    if !has_peer("tshark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), &connection());
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "ip.src",
        "ip.dst",
        "tcp.dstport",
        "tcp.len",
        "tcp.analysis.retransmission",
        "frame.comment",
    ];
    let mut arguments = vec!["-n", "-T", "fields", "-E", "separator=|"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    arguments.push("-r");
    let up = "10.0.0.1|10.0.0.2|80";
    let down = "10.0.0.2|10.0.0.1|40000";
    let expected = [
        format!("1700000000.123456789|up|0x00000002|{up}|0||"),
        format!("1700000000.133456790|down|0x00000001|{down}|0||"),
        format!("1700000000.143456791|up|0x00000002|{up}|0||"),
        format!("1700000000.153456792|up|0x00000002|{up}|32||{DROPPED}"),
        format!("1700000000.163456793|up|0x00000002|{up}|32|1|"),
        format!("1700000000.173456794|down|0x00000001|{down}|38||"),
    ];
    let said = said_by("tshark", &arguments, &path);
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);

    let faults = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0";
    let checked = [
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
    ];
    let arguments = [&checked[..], &["-n", "-Y", faults, "-r"]].concat();
    assert_eq!(said_by("tshark", &arguments, &path), "");
    let times = said_by("tshark", &["-T", "fields", "-e", "frame.time", "-r"], &path);
    assert!(times.contains("22:13:20.123456789"), "{times}");
}

#[test]
fn capinfos_shows_the_application_and_the_interfaces() {
    if !has_peer("capinfos") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), &connection());
    let said = said_by("capinfos", &[], &path);
    let words: Vec<String> = said
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let application = concat!("Capture application: squall ", env!("CARGO_PKG_VERSION"));
    for expected in [
        application,
        "Number of packets: 6",
        "Strict time order: True",
        "Name = up",
        "Name = down",
        "Description = server to client, at the time of entering the link",
        "Time precision = nanoseconds (9)",
    ] {
        assert!(
            words.iter().any(|line| line == expected),
            "no {expected:?} in {said}"
        );
    }
}

#[test]
fn secrets_can_be_added_to_a_finished_capture() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, added] = ["whole.pcapng", "added.pcapng"].map(|name| folder.path().join(name));
    let interfaces = [("up", "x"), ("down", "y")];
    let write = |path: &Path, secrets: Option<&str>| {
        let file = fs::File::create(path).unwrap();
        let mut writer = PcapngWriter::new(file, "test", &interfaces).unwrap();
        if let Some(secrets) = secrets {
            writer.secrets(secrets).unwrap();
        }
        for n in 0..3 {
            writer
                .packet(1, n, None, &[7; 60], Some("a comment"))
                .unwrap();
        }
        writer.finish().unwrap();
    };
    let secrets = "CLIENT_RANDOM 1 2\nCLIENT_RANDOM 3 4\n";
    write(&whole, Some(secrets));
    write(&added, None);
    add_secrets(&added, secrets).unwrap();
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&added).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    let missing = folder.path().join("missing.pcapng");
    assert!(
        add_secrets(&missing, secrets)
            .unwrap_err()
            .to_string()
            .contains("missing.pcapng")
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn capinfos_counts_secrets_and_reads_the_packets_after_them() {
    if !has_peer("capinfos") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.pcapng");
    let out = fs::File::create(&path).unwrap();
    let mut writer = PcapngWriter::new(out, "squall 1", &[("up", "there")]).unwrap();
    writer.secrets("RANDOM 1\n").unwrap();
    writer
        .packet(0, EPOCH_UNIX_NS, None, &[0; 60], None)
        .unwrap();
    writer.finish().unwrap();
    let said = said_by("capinfos", &[], &path);
    for expected in [
        "Number of packets:   1",
        "Number of decryption secrets in file: 1",
    ] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
}

#[test]
fn tcptrace_follows_the_connection() {
    if !has_peer("tcptrace") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), &connection());
    let said = said_by("tcptrace", &["-l", "-n"], &path);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "6 packets seen, 6 TCP packets traced",
        "1 TCP connection traced",
        "host a: 10.0.0.1:40000",
        "host b: 10.0.0.2:80",
        "first packet: Tue Nov 14 22:13:20.123456 2023",
        "actual data pkts: 2 actual data pkts: 1",
        "rexmt data pkts: 1 rexmt data pkts: 0",
    ] {
        assert!(words.contains(expected), "no {expected:?} in {said}");
    }
}

prop_compose! {
    /// Any packet of any bytes, with a comment of up to 2,000 characters.
    fn any_packet()(
        down in any::<bool>(),
        after_ns in 0..1_000_000_000_u64,
        bytes in vec(any::<u8>(), 0..200),
        comment in proptest::option::of("\\PC{0,40}|[a-zäß€\u{1F300}-\u{1F5FF}]{0,2000}"),
    ) -> CapturedPacket {
        let direction = if down { Direction::Down } else { Direction::Up };
        captured(0, direction, after_ns, bytes, comment.as_deref())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_are_read_back_in_order_of_arrival(
        mut sent in vec(any_packet(), 0..30),
    ) {
        for (index, packet) in (0..).zip(&mut sent) {
            packet.record.index = index;
        }
        let folder = tempfile::tempdir().unwrap();
        let found = packets(&capture(folder.path(), &sent));

        sent.sort_by_key(|packet| {
            (packet.record.arrived, packet.record.direction, packet.record.index)
        });
        prop_assert_eq!(found.len(), sent.len());
        for (found, sent) in found.iter().zip(&sent) {
            let down = sent.record.direction == Direction::Down;
            let after = sent.record.arrived.since(EPOCH).as_nanos();
            prop_assert_eq!(found.interface, u32::from(down));
            prop_assert_eq!(found.time_unix_ns, EPOCH_UNIX_NS + after);
            let ether_type: [u8; 2] = match sent.bytes.first() {
                Some(0x40..=0x4F) => [0x08, 0x00],
                Some(0x60..=0x6F) => [0x86, 0xDD],
                _ => [0x88, 0xB5],
            };
            prop_assert_eq!(&found.bytes[12..14], &ether_type);
            prop_assert_eq!(&found.bytes[14..], &sent.bytes);
            let mut options = Vec::new();
            if let Some(comment) = &sent.comment {
                options.push((1, comment.as_bytes().to_vec()));
            }
            options.push((2, vec![if down { 1 } else { 2 }, 0, 0, 0]));
            prop_assert_eq!(&found.options, &options);
        }
    }
}
