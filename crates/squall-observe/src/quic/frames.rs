//! The frames in a packet's payload (RFC 9000, section 19), with DATAGRAM (RFC 9221) and the acknowledgement frequency
//! extension (draft-ietf-quic-ack-frequency).
//!
//! A frame is parsed as far as its row in the record and `connection` need it; the rest is skipped. Nothing is
//! validated: a frame that the peer would refuse was still on the wire.

use std::ops::RangeInclusive;

use octets::{BufferTooShortError, Octets};
use squall_base::record::{FrameFacts, FrameLayer, Way};

/// Frame types that are used in several places.
pub(crate) const PADDING: u64 = 0x00;
const ACK_ECN: u64 = 0x03;
const STREAM: RangeInclusive<u64> = 0x08..=0x0f;

/// Bits of the STREAM frame type (RFC 9000, section 19.8).
const FIN: u64 = 0x01;
const LEN: u64 = 0x02;
const OFF: u64 = 0x04;

/// A frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its type.
    pub(crate) kind: u64,
    pub(crate) stream: Option<u64>,
    pub(crate) offset: Option<u64>,
    /// For STREAM, CRYPTO and DATAGRAM the bytes of data, for a run of PADDING its bytes, for any other frame the bytes
    /// after its type.
    pub(crate) length: u64,
    /// Its content as one number, for types that have such a number.
    pub(crate) value: Option<u64>,
    pub(crate) content: Content<'a>,
}

/// The content that `connection` acts on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Crypto(&'a [u8]),
    Stream {
        data: &'a [u8],
        fin: bool,
    },
    ResetStream,
    StopSending,
    NewConnectionId(&'a [u8]),
    Ack,
    ConnectionClose,
    /// Recorded as a row only.
    Other,
}

impl Frame<'_> {
    /// The frame's row.
    pub(crate) fn facts(&self, way: Way, packet: u64) -> FrameFacts {
        FrameFacts {
            stream: self.stream,
            offset: self.offset,
            packet: Some(packet),
            value: self.value,
            ..FrameFacts::new(way, FrameLayer::Quic, self.kind, self.length)
        }
    }
}

/// Parses the next frame of a payload that is not empty.
///
/// # Errors
/// The payload ends within the frame, or the frame's type is unknown, so its end cannot be found.
pub(crate) fn next<'a>(payload: &mut Octets<'a>) -> Result<Frame<'a>, BufferTooShortError> {
    let kind = payload.get_varint()?;
    let begin = payload.off();
    let mut frame = Frame {
        kind,
        stream: None,
        offset: None,
        length: 0,
        value: None,
        content: Content::Other,
    };
    match kind {
        PADDING => {
            frame.length = 1;
            while payload.cap() > 0 && payload.peek_u8()? == 0 {
                payload.skip(1)?;
                frame.length += 1;
            }
            return Ok(frame);
        }
        0x06 => {
            frame.offset = Some(payload.get_varint()?);
            let data = payload.get_bytes_with_varint_length()?.buf();
            frame.length = data.len() as u64;
            frame.content = Content::Crypto(data);
            return Ok(frame);
        }
        kind if STREAM.contains(&kind) => {
            stream(kind, payload, &mut frame)?;
            return Ok(frame);
        }
        // DATAGRAM without and with a length (RFC 9221, section 4).
        0x30 | 0x31 => {
            let length = if kind == 0x30 {
                payload.cap()
            } else {
                usize_of(payload.get_varint()?)?
            };
            payload.skip(length)?;
            frame.length = length as u64;
            return Ok(frame);
        }
        0x02 | ACK_ECN => ack(kind, payload, &mut frame)?,
        _ => fields(kind, payload, &mut frame)?,
    }
    frame.length = (payload.off() - begin) as u64;
    Ok(frame)
}

fn stream<'a>(
    kind: u64,
    payload: &mut Octets<'a>,
    frame: &mut Frame<'a>,
) -> Result<(), BufferTooShortError> {
    frame.stream = Some(payload.get_varint()?);
    frame.offset = Some(if kind & OFF != 0 {
        payload.get_varint()?
    } else {
        0
    });
    let length = if kind & LEN != 0 {
        usize_of(payload.get_varint()?)?
    } else {
        payload.cap()
    };
    let data = payload.get_bytes(length)?.buf();
    frame.length = data.len() as u64;
    frame.content = Content::Stream {
        data,
        fin: kind & FIN != 0,
    };
    Ok(())
}

/// ACK (RFC 9000, section 19.3). Its value is the largest acknowledged packet number.
fn ack(
    kind: u64,
    payload: &mut Octets<'_>,
    frame: &mut Frame<'_>,
) -> Result<(), BufferTooShortError> {
    frame.value = Some(payload.get_varint()?);
    frame.content = Content::Ack;
    payload.get_varint()?;
    let ranges = payload.get_varint()?;
    payload.get_varint()?;
    for _ in 0..ranges {
        payload.get_varint()?;
        payload.get_varint()?;
    }
    if kind == ACK_ECN {
        for _ in 0..3 {
            payload.get_varint()?;
        }
    }
    Ok(())
}

/// Frames that consist of a few integers.
fn fields<'a>(
    kind: u64,
    payload: &mut Octets<'a>,
    frame: &mut Frame<'a>,
) -> Result<(), BufferTooShortError> {
    match kind {
        // PING, HANDSHAKE_DONE, IMMEDIATE_ACK.
        0x01 | 0x1e | 0x1f => {}
        0x04 => {
            frame.stream = Some(payload.get_varint()?);
            frame.value = Some(payload.get_varint()?);
            payload.get_varint()?;
            frame.content = Content::ResetStream;
        }
        0x05 => {
            frame.stream = Some(payload.get_varint()?);
            frame.value = Some(payload.get_varint()?);
            frame.content = Content::StopSending;
        }
        0x07 => {
            payload.get_bytes_with_varint_length()?;
        }
        // MAX_STREAM_DATA, STREAM_DATA_BLOCKED.
        0x11 | 0x15 => {
            frame.stream = Some(payload.get_varint()?);
            frame.value = Some(payload.get_varint()?);
        }
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID.
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => frame.value = Some(payload.get_varint()?),
        0x18 => {
            frame.value = Some(payload.get_varint()?);
            payload.get_varint()?;
            let id = payload.get_bytes_with_u8_length()?.buf();
            payload.skip(16)?;
            frame.content = Content::NewConnectionId(id);
        }
        // PATH_CHALLENGE, PATH_RESPONSE.
        0x1a | 0x1b => payload.skip(8)?,
        // CONNECTION_CLOSE by QUIC, which names a frame type, and by the application.
        0x1c | 0x1d => {
            frame.value = Some(payload.get_varint()?);
            if kind == 0x1c {
                payload.get_varint()?;
            }
            payload.get_bytes_with_varint_length()?;
            frame.content = Content::ConnectionClose;
        }
        // ACK_FREQUENCY.
        0xaf => {
            frame.value = Some(payload.get_varint()?);
            for _ in 0..3 {
                payload.get_varint()?;
            }
        }
        _ => return Err(BufferTooShortError),
    }
    Ok(())
}

fn usize_of(length: u64) -> Result<usize, BufferTooShortError> {
    usize::try_from(length).map_err(|_| BufferTooShortError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(payload: &[u8]) -> Result<Vec<Frame<'_>>, BufferTooShortError> {
        let mut frames = Vec::new();
        let mut rest = Octets::with_slice(payload);
        while rest.cap() > 0 {
            frames.push(next(&mut rest)?);
        }
        Ok(frames)
    }

    #[test]
    fn consecutive_frames_are_parsed() {
        let payload = [
            &[0x02, 0x0a, 0x00, 0x01, 0x02, 0x01, 0x03][..], // ACK of 10..=8 and 4..=1
            &[0x11, 0x04, 0x40, 0x64],                       // MAX_STREAM_DATA
            &[0x0e, 0x08, 0x05, 0x02, b'h', b'i'],           // STREAM with OFF and LEN
            &[0x00, 0x00, 0x00],                             // PADDING
            &[0x09, 0x0c, b'!'],                             // STREAM with FIN, to the end
        ]
        .concat();
        let frames = read(&payload).unwrap();
        let short: Vec<_> = frames
            .iter()
            .map(|it| (it.kind, it.stream, it.offset, it.length, it.value))
            .collect();
        assert_eq!(
            short,
            [
                (0x02, None, None, 6, Some(10)),
                (0x11, Some(4), None, 3, Some(100)),
                (0x0e, Some(8), Some(5), 2, None),
                (0x00, None, None, 3, None),
                (0x09, Some(12), Some(0), 1, None),
            ]
        );
        let fin = Content::Stream {
            data: b"!",
            fin: true,
        };
        assert_eq!(frames[4].content, fin);
    }

    #[test]
    fn truncated_frame_is_an_error() {
        for frame in [
            &[0x02, 0x0a, 0x00, 0x01, 0x02, 0x01, 0x03][..],
            &[0x03, 0x0a, 0x00, 0x00, 0x02, 0x01, 0x01, 0x01],
            &[0x04, 0x04, 0x01, 0x02],
            &[0x06, 0x00, 0x02, 1, 2],
            &[0x0e, 0x08, 0x05, 0x02, b'h', b'i'],
            &[0x1c, 0x01, 0x00, 0x01, b'x'],
            &[0x40, 0xaf, 0x01, 0x02, 0x03, 0x04],
            &[0x31, 0x02, 1, 2],
        ] {
            assert_eq!(read(frame).map(|it| it.len()), Ok(1), "{frame:?}");
            for end in 1..frame.len() {
                assert!(read(&frame[..end]).is_err(), "{frame:?} up to {end}");
            }
        }
        assert!(read(&[0x21]).is_err(), "an unknown type");
    }

    #[test]
    fn a_new_connection_id_is_found() {
        let payload = [&[0x18, 2, 1, 3, 7, 8, 9][..], &[0; 16]].concat();
        let frames = read(&payload).unwrap();
        assert_eq!(frames[0].content, Content::NewConnectionId(&[7, 8, 9]));
        assert_eq!(frames[0].value, Some(2));
    }
}
