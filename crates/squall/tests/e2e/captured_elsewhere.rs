//! `squall import pcap` of captures that other programs make: packets in tunnels, protocols that squall does not read, and
//! packets that were captured only in part. The captures are built by hand; nothing here uses the network.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{seat, squall, stderr, stdout};

const TCP: u8 = 6;
const UDP: u8 = 17;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;

pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// An IPv4 packet from one end of a path to the other.
pub(crate) fn ipv4(protocol: u8, is_up: bool, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let start = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    let ends: [u8; 8] = if is_up {
        [10, 0, 0, 1, 10, 0, 0, 2]
    } else {
        [10, 0, 0, 2, 10, 0, 0, 1]
    };
    [&start[..], &ends, payload].concat()
}

pub(crate) fn udp_to(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let fields = [50_000, port, length, 0].map(u16::to_be_bytes).concat();
    ipv4(UDP, true, &[&fields[..], payload].concat())
}

pub(crate) fn segment(is_up: bool, [seq, ack]: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let ports: [u16; 2] = if is_up { [40_000, 80] } else { [80, 40_000] };
    let ports = ports.map(u16::to_be_bytes).concat();
    let numbers = [seq, ack].map(u32::to_be_bytes).concat();
    let rest = [0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    let tcp = [&ports[..], &numbers, &rest, payload].concat();
    ipv4(TCP, is_up, &tcp)
}

fn response() -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n";
    [&head[..], &[b'x'; 500]].concat()
}

/// The packets of one exchange, with the acknowledgement of its response.
pub(crate) fn exchange() -> Vec<Vec<u8>> {
    let asked = 101 + REQUEST.len() as u32;
    let answered = 201 + response().len() as u32;
    vec![
        segment(true, [100, 0], SYN, b""),
        segment(false, [200, 101], SYN | ACK, b""),
        segment(true, [101, 201], ACK, REQUEST),
        segment(false, [201, asked], ACK, &response()),
        segment(true, [asked, answered], ACK, b""),
    ]
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    frame(0x0800, packet)
}

/// An Ethernet frame with this EtherType.
pub(crate) fn frame(ether_type: u16, content: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ether_type.to_be_bytes(), content].concat()
}

fn vxlan(packet: &[u8]) -> Vec<u8> {
    let header = [0x08, 0, 0, 0, 0, 0, 1, 0];
    udp_to(4789, &[&header[..], &ethernet(packet)].concat())
}

/// Writes a capture of these IP packets over Ethernet, a millisecond apart, each with at most `snaplen` bytes.
fn write(path: &Path, packets: &[Vec<u8>], snaplen: usize) {
    let frames: Vec<Vec<u8>> = packets.iter().map(|packet| ethernet(packet)).collect();
    write_frames(path, &frames, snaplen);
}

/// Writes a capture of these Ethernet frames, a millisecond apart, each with at most `snaplen` bytes.
pub(crate) fn write_frames(path: &Path, frames: &[Vec<u8>], snaplen: usize) {
    let head = [0xA1B2_C3D4, 0x0004_0002, 0, 0, snaplen as u32, 1];
    let mut bytes = head.map(u32::to_le_bytes).concat();
    for (at, frame) in frames.iter().enumerate() {
        let captured = &frame[..frame.len().min(snaplen)];
        let time_us = 1_000 * at as u32;
        let record = [7, time_us, captured.len() as u32, frame.len() as u32];
        bytes.extend(record.map(u32::to_le_bytes).concat());
        bytes.extend(captured);
    }
    fs::write(path, bytes).expect("the capture is written");
}

/// Imports packets into the folder `name`.
fn import(home: &Path, name: &str, packets: &[Vec<u8>], snaplen: usize, more: &[&str]) -> Output {
    let capture = home.join(format!("{name}.pcap"));
    write(&capture, packets, snaplen);
    let mut command = squall(home);
    command.args(["import", "pcap", "-o"]).arg(home.join(name));
    let output = command.args(more).arg(&capture).output();
    let output = output.expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn packets_in_tunnels_are_imported_and_other_protocols_are_named() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let mut packets: Vec<_> = exchange().iter().map(|packet| vxlan(packet)).collect();
    packets.push(udp_to(1701, &[0; 12]));
    packets.push(ipv4(115, true, &[0; 12]));
    packets.push(ipv4(50, true, &[0; 12]));
    let output = import(home.path(), "json", &packets, 65_535, &["--json"]);
    let told = summary(&output);
    // Each side has a row.
    assert_eq!(told["exchanges"], 2);
    assert_eq!(told["connections"][0]["client"], "10.0.0.1:40000");
    assert_eq!(told["unread"]["L2TP"], 2);
    assert_eq!(told["unread"]["ESP"], 1);
    assert_eq!(told["shortened"], 0);
    let output = import(home.path(), "text", &packets, 65_535, &[]);
    let text = stdout(&output);
    assert!(
        text.contains("2 packets are L2TP, which is not read\n"),
        "{text}"
    );
    assert!(
        text.contains("1 packet is ESP, which is not read\n"),
        "{text}"
    );
    assert!(text.contains("5 packets of TCP"), "{text}");
}

#[test]
fn snaplen_is_named_as_the_reason_why_a_connection_is_not_read() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let output = import(home.path(), "short", &exchange(), 96, &["--json"]);
    let told = summary(&output);
    assert_eq!(told["connections"][0]["opaque"]["why"], "snaplen");
    assert_eq!(told["shortened"], 1);
    assert_eq!(told["shortened_to_bytes"], 96);
    let said = stderr(&output);
    assert!(
        said.contains("captured only up to 96 bytes (snaplen)"),
        "{said}"
    );
}

#[test]
fn text_protocol_that_is_not_http_has_no_exchanges() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let packets = [
        segment(true, [100, 0], SYN, b""),
        segment(false, [200, 101], SYN | ACK, b""),
        segment(true, [101, 201], ACK, b"get key1\r\n"),
        segment(false, [201, 111], ACK, b"END\r\n"),
    ];
    let output = import(home.path(), "cache", &packets, 65_535, &[]);
    let text = stdout(&output);
    assert!(text.contains("tcp  0 exchanges"), "{text}");
    assert!(text.contains("it is neither TLS nor HTTP"), "{text}");
    assert!(text.contains("\n0 rows of exchanges"), "{text}");
}
