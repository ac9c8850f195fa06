//! HTTP/2 frame by frame (RFC 9113), for clients and servers that do what no ordinary program does.
//!
//! Only framing: tests encode header sections themselves. `raw_quic` has the same for HTTP/3.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// What a client sends first (section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (section 6).
pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PING: u8 = 0x6;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;

/// Their flags.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

/// A frame that was received.
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads one frame.
pub(crate) fn read_frame(from: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 9];
    from.read_exact(&mut head)?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    from.read_exact(&mut payload)?;
    Ok(Frame {
        kind,
        flags,
        stream: u32::from_be_bytes(stream),
        payload,
    })
}

/// Serves a connection, one request after the other: reads on only once `respond`, which gets the HEADERS frame of a
/// request, has returned. Header sections must fit into one frame.
pub(crate) fn serve_in_turn(
    mut stream: TcpStream,
    respond: impl Fn(&mut TcpStream, &Frame) -> io::Result<()>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    loop {
        let received = read_frame(&mut stream)?;
        let is_ack = received.flags & ACK != 0;
        match received.kind {
            SETTINGS if !is_ack => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            PING if !is_ack => stream.write_all(&frame(PING, ACK, 0, &received.payload))?,
            HEADERS => respond(&mut stream, &received)?,
            _ => {}
        }
    }
}
