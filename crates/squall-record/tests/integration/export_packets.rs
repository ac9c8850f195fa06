//! What is made from packets.parquet: time-sequence graphs and captures of headers.

use squall_base::record::{
    Cause, Direction, DropRecord, Fate, PacketClass, PacketRecord, Repair, Victim,
};
use squall_base::{Duration, Time};
use squall_record::capture::{CaptureEntry, CaptureReader};
use squall_record::export::{TimeSequence, write_packet_headers, write_time_sequence};

use crate::common::packet_number;
use crate::export::{EPOCH_UNIX_NS, text};

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A packet that reached the link at `ms` and left it 10 ms later.
fn packet(ms: u64, direction: Direction, flags: u8, seq: u32, payload: u16) -> PacketRecord {
    let arrived = Time::from_nanos(ms * 1_000_000);
    PacketRecord {
        index: ms,
        direction,
        class: PacketClass::Data,
        length: 52 + payload,
        seq,
        ack: 1_000,
        payload_len: payload,
        tcp_flags: flags,
        window_bytes: 65_000,
        arrived,
        released: Some(arrived + Duration::from_millis(10)),
        fate: Fate::Delivered,
        ..packet_number(1)
    }
}

/// The server sends 100 bytes twice, because the link drops the first packet.
fn connection() -> Vec<PacketRecord> {
    let lost = PacketRecord {
        released: None,
        fate: Fate::LossDrop,
        ..packet(30, Direction::Down, ACK, 501, 100)
    };
    let acknowledgement = PacketRecord {
        ack: 601,
        ..packet(60, Direction::Up, ACK, 1_000, 0)
    };
    let other_flow = PacketRecord {
        flow: 1,
        ..packet(31, Direction::Down, ACK, 7, 100)
    };
    vec![
        packet(0, Direction::Up, SYN, 999, 0),
        packet(10, Direction::Down, SYN | ACK, 500, 0),
        PacketRecord {
            ack: 501,
            ..packet(20, Direction::Up, ACK, 1_000, 0)
        },
        lost,
        other_flow,
        packet(50, Direction::Down, ACK, 501, 100),
        acknowledgement,
    ]
}

#[test]
fn time_sequence_graph_has_segments_retransmissions_drops_and_acknowledgements() {
    let graph = TimeSequence {
        hop: 1,
        flow: 0,
        direction: Direction::Down,
        title: "a trial,\nflow 0",
    };
    let written = write_time_sequence(Vec::new(), EPOCH_UNIX_NS, &connection(), &graph);
    assert_eq!(
        text(written.expect("a Vec takes everything")),
        "timeval unsigned\ntitle\na trial, flow 0\nxlabel\ntime\nylabel\nsequence number\n\
         white\nuarrow 1763760301.260000 1\nline 1763760301.260000 0 1763760301.260000 1\n\
         darrow 1763760301.260000 0\n\
         white\nuarrow 1763760301.280000 101\nline 1763760301.280000 1 1763760301.280000 101\n\
         darrow 1763760301.280000 1\n\
         red\nx 1763760301.280000 1\natext 1763760301.280000 101\nloss_drop\n\
         red\nuarrow 1763760301.300000 101\nline 1763760301.300000 1 1763760301.300000 101\n\
         darrow 1763760301.300000 1\n\
         green\nline 1763760301.280000 1 1763760301.320000 1\nline 1763760301.320000 1 1763760301.320000 101\n\
         yellow\nline 1763760301.280000 65001 1763760301.320000 65001\n\
         line 1763760301.320000 65001 1763760301.320000 65101\n\
         go\n"
    );
}

#[test]
fn captured_headers_have_the_lengths_of_the_packets_and_comments_on_drops() {
    let lost = squall_made::packet_ref(Direction::Down, 30);
    let drop = DropRecord {
        connection: Some(0),
        start: Some(0),
        end: Some(100),
        carried: vec![3],
        repair: Repair::Rto,
        repaired_at: Some(Time::from_nanos(60_000_000)),
        repaired_by: Some(50),
        victims: vec![Victim {
            request: 3,
            cause: Cause::Loss,
            delay: Duration::from_millis(30),
        }],
        ..squall_made::dropped(lost, Time::from_nanos(30_000_000))
    };
    let mut packets = connection();
    packets.push(PacketRecord {
        protocol: 17,
        ..packet(70, Direction::Up, 0, 0, 0)
    });
    packets.push(PacketRecord {
        hop: 2,
        ..packet(71, Direction::Up, 0, 0, 0)
    });
    let written = write_packet_headers(Vec::new(), EPOCH_UNIX_NS, &packets[..], &[drop][..], 1);
    let file = written.expect("a Vec takes everything");
    let comment = "squall: dropped (loss_drop); repaired by rto after 30ms; requests delayed: 1";
    assert!(
        file.windows(comment.len())
            .any(|window| window == comment.as_bytes())
    );
    let mut capture = CaptureReader::new(&file[..]).expect("a capture");
    let mut seen = Vec::new();
    while let Some(entry) = capture.next_entry().expect("it is whole") {
        let CaptureEntry::Packet {
            time_unix_ns,
            bytes,
        } = entry
        else {
            panic!("only packets");
        };
        let length = u16::from_be_bytes([bytes[2], bytes[3]]);
        seen.push((time_unix_ns - EPOCH_UNIX_NS, length, bytes.len()));
    }
    assert_eq!(seen.len(), 8, "those of hop 1");
    // 20 bytes of IP, and 20 of TCP with 12 of options.
    assert_eq!(seen[0], (0, 52, 52));
    assert_eq!(seen[3], (30_000_000, 152, 52), "without content");
    assert_eq!(seen[7], (70_000_000, 52, 28), "UDP");
}
