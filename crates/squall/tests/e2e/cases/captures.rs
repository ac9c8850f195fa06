//! Captures: packets in tunnels, connections whose beginning is missing, and text protocols that are not HTTP.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{file, run};
use crate::captured_elsewhere::{
    ACK, REQUEST, SYN, exchange, frame, ipv4, segment, udp_to, write_frames,
};
use crate::support::seat;

const IPV4: u16 = 0x0800;

const GRE: u8 = 47;

/// Imports a capture; its tables are left in a folder that is removed. Returns what was printed on stdout.
fn import(home: &Path, capture: &str, key_log: Option<&str>) -> String {
    let mut arguments = vec!["import", "pcap", capture, "-o", "o"];
    if let Some(path) = key_log {
        arguments.extend(["--key-log", path]);
    }
    let ended = run(home, &arguments);
    assert_eq!(ended.code, Some(0), "{capture}: {}", ended.stderr);
    assert!(home.join("o/requests.parquet").is_file(), "{capture}");
    fs::remove_dir_all(home.join("o")).expect("it is removed");
    ended.stdout
}

/// Imports these frames.
fn import_frames(home: &Path, frames: &[Vec<u8>]) -> String {
    write_frames(&home.join("in.pcap"), frames, 65_535);
    import(home, "in.pcap", None)
}

fn import_packets(home: &Path, packets: &[Vec<u8>]) -> String {
    let frames: Vec<Vec<u8>> = packets.iter().map(|packet| frame(IPV4, packet)).collect();
    import_frames(home, &frames)
}

#[test]
fn captures_made_elsewhere_have_the_requests_that_other_programs_find() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (case, name, keys, requests) in [
        ("pcap-tunnels", "gre.pcap", None, 20),
        ("pcap-tunnels", "mpls.pcap", None, 20),
        ("pcap-tunnels", "vxlan.pcap", None, 20),
        ("pcap-without-syn", "h2c_nosyn.pcap", None, 20),
        ("pcap-without-syn", "tls_nosyn.pcap", Some("keys.log"), 4),
        ("pcap-phantom-exchanges", "memc.pcap", None, 0),
        ("keylog-bom", "tls.pcap", Some("keys_bom.log"), 4),
    ] {
        let capture = file(case, name);
        let keys = keys.map(|keys| file(case, keys));
        let keys = keys.as_ref().map(|path| path.to_str().expect("UTF-8"));
        let text = import(home.path(), capture.to_str().expect("UTF-8"), keys);
        let found = format!("and {requests} requests, in o\n");
        assert!(text.contains(&found), "{case} {name}:\n{text}");
        let is_explained = text.contains("`squall explain o`");
        assert_eq!(is_explained, requests > 0, "{case} {name}:\n{text}");
    }
}

/// How each kind of tunnel carries an IP packet, as an Ethernet frame.
type Tunnel = fn(&[u8]) -> Vec<u8>;

fn gre(start: &[u8], content: &[u8]) -> Vec<u8> {
    frame(IPV4, &ipv4(GRE, true, &[start, content].concat()))
}

fn over_udp(port: u16, start: &[u8], content: &[u8]) -> Vec<u8> {
    frame(IPV4, &udp_to(port, &[start, content].concat()))
}

/// The header of PPP in PPPoE: the session 1, IPv4.
fn pppoe(packet: &[u8]) -> Vec<u8> {
    let length = (2 + packet.len() as u16).to_be_bytes();
    let start = [0x11, 0, 0, 1, length[0], length[1], 0, 0x21];
    frame(0x8864, &[&start[..], packet].concat())
}

fn gtp(packet: &[u8]) -> Vec<u8> {
    let length = (packet.len() as u16).to_be_bytes();
    let start = [0x30, 255, length[0], length[1], 0, 0, 0, 9];
    over_udp(2152, &start, packet)
}

fn in_ipv6(packet: &[u8]) -> Vec<u8> {
    let length = (packet.len() as u16).to_be_bytes();
    let start = [0x60, 0, 0, 0, length[0], length[1], 4, 64];
    let ends = [[0xfd_u8; 16], [0xfe; 16]].concat();
    frame(0x86dd, &[&start[..], &ends, packet].concat())
}

#[test]
fn each_tunnel_is_unwrapped() {
    const LABEL: [u8; 4] = [0, 1, 0, 64];
    const LAST_LABEL: [u8; 4] = [0, 1, 1, 64];
    const TUNNELS: [(&str, Tunnel); 14] = [
        ("two VLAN tags", |packet| {
            let tags = [0, 5, 0x81, 0, 0, 6, 8, 0];
            frame(0x88a8, &[&tags[..], packet].concat())
        }),
        ("GRE with checksum, key and number", |packet| {
            gre(&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], packet)
        }),
        ("Ethernet in GRE", |packet| {
            gre(&[0x20, 0, 0x65, 0x58, 0, 0, 0, 7], &frame(IPV4, packet))
        }),
        ("ERSPAN II", |packet| {
            let start = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0];
            gre(&start, &frame(IPV4, packet))
        }),
        ("PPPoE", pppoe),
        ("two MPLS labels", |packet| {
            frame(0x8847, &[&LABEL[..], &LAST_LABEL, packet].concat())
        }),
        ("MPLS in GRE", |packet| {
            gre(&[&[0, 0, 0x88, 0x47][..], &LAST_LABEL].concat(), packet)
        }),
        ("MPLS in UDP", |packet| over_udp(6635, &LAST_LABEL, packet)),
        ("GTP-U", gtp),
        ("IP in IP", |packet| frame(IPV4, &ipv4(4, true, packet))),
        ("IPv4 in IPv6", in_ipv6),
        ("Geneve", |packet| {
            let start = [0, 0, 0x65, 0x58, 0, 0, 1, 0];
            over_udp(6081, &start, &frame(IPV4, packet))
        }),
        ("VXLAN on Linux's port", |packet| {
            over_udp(8472, &[8, 0, 0, 0, 0, 0, 1, 0], &frame(IPV4, packet))
        }),
        ("VXLAN with a VLAN in it", |packet| {
            let tagged = frame(0x8100, &[&[0, 5, 8, 0][..], packet].concat());
            over_udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &tagged)
        }),
    ];
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (name, tunnel) in TUNNELS {
        let frames: Vec<Vec<u8>> = exchange().iter().map(|packet| tunnel(packet)).collect();
        let text = import_frames(home.path(), &frames);
        assert!(text.contains("h1  1 exchanges"), "{name}:\n{text}");
    }
}

#[test]
fn tunnels_that_are_not_read_are_named() {
    const TUNNELS: [(&str, Tunnel); 5] = [
        ("L2TP", |packet| over_udp(1701, &[0, 2, 0, 1, 0, 1], packet)),
        ("VXLAN-GPE", |packet| {
            over_udp(4790, &[12, 0, 0, 1, 0, 0, 1, 0], packet)
        }),
        ("ESP", |packet| {
            frame(IPV4, &ipv4(50, true, &[&[0; 8][..], packet].concat()))
        }),
        ("PPTP", |packet| {
            let start = [0x30, 1, 0x88, 0x0b, 0, 0, 0, 1, 0, 0, 0, 1];
            gre(&start, packet)
        }),
        ("MACsec", |packet| frame(0x88e5, packet)),
    ];
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (name, tunnel) in TUNNELS {
        let frames: Vec<Vec<u8>> = exchange().iter().map(|packet| tunnel(packet)).collect();
        let text = import_frames(home.path(), &frames);
        let said = format!("5 packets are {name}, which is not read\n");
        assert!(text.contains(&said), "{name}:\n{text}");
    }
}

/// The packets of a connection on which the client sends first.
fn conversation(client: &[u8], server: &[u8]) -> Vec<Vec<u8>> {
    let asked = 101 + client.len() as u32;
    vec![
        segment(true, [100, 0], SYN, b""),
        segment(false, [200, 101], SYN | ACK, b""),
        segment(true, [101, 201], ACK, client),
        segment(false, [201, asked], ACK, server),
    ]
}

/// The packets of a connection on which the server sends first.
fn greeting(server: &[u8], client: &[u8]) -> Vec<Vec<u8>> {
    let greeted = 201 + server.len() as u32;
    vec![
        segment(true, [100, 0], SYN, b""),
        segment(false, [200, 101], SYN | ACK, b""),
        segment(false, [201, 101], ACK, server),
        segment(true, [101, greeted], ACK, client),
    ]
}

#[test]
fn other_text_protocols_have_no_exchanges() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (name, packets) in [
        ("Redis", conversation(b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n")),
        (
            "IRC",
            conversation(b"NICK a\r\nUSER a b c :d\r\n", b":srv 001 a :hi\r\n"),
        ),
        (
            "SIP",
            conversation(
                b"INVITE sip:a@b SIP/2.0\r\nVia: x\r\n\r\n",
                b"SIP/2.0 200 OK\r\n\r\n",
            ),
        ),
        (
            "RTSP",
            conversation(
                b"OPTIONS rtsp://a/b RTSP/1.0\r\nCSeq: 1\r\n\r\n",
                b"RTSP/1.0 200 OK\r\n\r\n",
            ),
        ),
        (
            "memcached in capitals",
            conversation(b"GET key1\r\n", b"END\r\n"),
        ),
        ("HTTP/0.9", conversation(b"GET /\r\n", b"<html>")),
        (
            "SSH",
            greeting(b"SSH-2.0-OpenSSH_9.9\r\n", b"SSH-2.0-PuTTY\r\n"),
        ),
        ("SMTP", greeting(b"220 mx ESMTP\r\n", b"EHLO a\r\n")),
    ] {
        let text = import_packets(home.path(), &packets);
        let told = text.contains("tcp  0 exchanges")
            && text.contains("it is neither TLS nor HTTP")
            && text.contains("0 rows of exchanges and 0 of frames");
        assert!(told, "{name}:\n{text}");
    }
}

#[test]
fn connection_is_read_from_the_first_packet_that_starts_a_request() {
    const OPEN_BEFORE: &str = "it was open before the capture began";
    const RECORD: &[u8] = b"\x17\x03\x03\x00\x05abcde";
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let whole = exchange();
    // The end of an earlier response, and then an exchange.
    let asked = 501 + REQUEST.len() as u32;
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    let later = vec![
        segment(false, [201, 501], ACK, b"the rest of a body"),
        segment(true, [501, 219], ACK, REQUEST),
        segment(false, [219, asked], ACK, answer),
    ];
    let both = |content: &[u8]| {
        vec![
            segment(true, [101, 201], ACK, content),
            segment(false, [201, 101 + content.len() as u32], ACK, content),
        ]
    };
    for (name, packets, said) in [
        ("no SYN", whole[1..].to_vec(), "h1  1 exchanges"),
        ("no handshake", whole[2..].to_vec(), "h1  1 exchanges"),
        ("after the end of a body", later, "h1  1 exchanges"),
        ("only the response", whole[3..].to_vec(), OPEN_BEFORE),
        ("inside TLS", both(RECORD), OPEN_BEFORE),
        ("HTTP/2 without its preface", both(SETTINGS), OPEN_BEFORE),
    ] {
        let text = import_packets(home.path(), &packets);
        assert!(text.contains(said), "{name}:\n{text}");
    }
}
