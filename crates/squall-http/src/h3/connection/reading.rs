//! Reads the peer's streams, and handles the consequences for the stream or for the connection.
//!
//! `inbound` parses the bytes of a message, `control` those of a unidirectional stream.

use super::{Connection, HeadKind, MessageEvent, READ_BYTES, Side, is_bidirectional, is_of_client};
use crate::h3::code::{self, StreamError};
use crate::h3::control::{ControlEvent, CriticalStream, UniStream};
use crate::h3::inbound::{Ending, Message, Part, Role, Violation, received, violation};

impl Connection {
    /// Reads the streams whose owners have consumed bytes.
    pub(super) fn read_consumed<S: Side>(&mut self, side: &mut S) {
        while let Some(id) = self.consumed.pop() {
            if self.messages.contains_key(&id) {
                self.read(id, side);
            }
        }
    }

    pub(super) fn read<S: Side>(&mut self, id: u64, side: &mut S) {
        // After a violation nothing more is read.
        if self.conn.local_error().is_some() {
            return;
        }
        let result = if is_bidirectional(id) {
            self.read_message(id, side)
        } else {
            self.read_unidirectional(id, side)
        };
        if let Err(Violation { code, words }) = result {
            self.close(code, words);
        }
    }

    fn read_message<S: Side>(&mut self, id: u64, side: &mut S) -> Result<(), Violation> {
        if !self.messages.contains_key(&id) {
            match self.role {
                // RFC 9114, section 6.1. Any other is one of our streams that is already over.
                Role::Client if !is_of_client(id) => {
                    let words = "a bidirectional stream of a server";
                    return Err(violation(code::STREAM_CREATION_ERROR, words));
                }
                Role::Client => return Ok(()),
                Role::Server => match side.accepts(id) {
                    Ok(()) => self.messages.insert(id, Message::new()),
                    Err(StreamError(code)) => {
                        self.reset(id, code);
                        return Ok(());
                    }
                },
            };
        }
        let ahead = self.buffers.share(self.messages.len());
        let mut bytes = [0; READ_BYTES];
        while let Some(message) = self.messages.get_mut(&id) {
            let room = if self.is_manual {
                message.allowance(ahead).min(READ_BYTES)
            } else {
                READ_BYTES
            };
            match self.conn.stream_recv(id, &mut bytes[..room]) {
                Ok((0, false)) => break,
                Ok((len, fin)) => {
                    // If the data exactly fills `bytes`, an end that arrived in a separate frame stays in quiche: read
                    // it too.
                    if fin && self.conn.stream_readable(id) {
                        let _ = self.conn.stream_recv(id, &mut [0]);
                    }
                    self.take_in(id, &bytes[..len], fin, side)?;
                }
                Err(quiche::Error::StreamReset(code)) => {
                    self.allowance.charge(1);
                    self.reset(id, code::REQUEST_CANCELLED);
                    side.on_event(id, MessageEvent::Reset(code));
                }
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Takes bytes of a message, and possibly its end.
    fn take_in<S: Side>(
        &mut self,
        id: u64,
        mut input: &[u8],
        fin: bool,
        side: &mut S,
    ) -> Result<(), Violation> {
        let Some(message) = self.messages.get_mut(&id) else {
            return Ok(());
        };
        if message.is_new() && !input.is_empty() {
            side.on_event(id, MessageEvent::FirstByte);
        }
        loop {
            let part = message.next(self.role, &mut input, |header| {
                self.allowance.receive_frame(header);
                if let Some(frames) = side.frames() {
                    frames.push(received(id, header, None));
                }
            })?;
            match part {
                Some(Part::Body(_)) if message.is_too_long() => {
                    self.give_up(id, code::MESSAGE_ERROR, side);
                    return Ok(());
                }
                Some(Part::Body(bytes)) => {
                    self.allowance.receive_body(bytes.len());
                    side.on_event(id, MessageEvent::Body(bytes));
                }
                Some(Part::Trailers(block)) => {
                    if let Err(refused) = side.trailers(id, &block) {
                        return self.refuse(id, refused, side);
                    }
                }
                Some(Part::Head(block)) => match side.head(id, &block) {
                    Ok(HeadKind::Interim) => {}
                    Ok(HeadKind::Final(length)) => message.expect_body(length),
                    Err(refused) => return self.refuse(id, refused, side),
                },
                None => break,
            }
        }
        let kept = message.reader.kept_bytes();
        let counted = std::mem::replace(&mut message.counted_bytes, kept);
        self.section_bytes = (self.section_bytes + kept).saturating_sub(counted);
        if !fin {
            return Ok(());
        }
        match message.end()? {
            Ending::Whole(end) => {
                self.forget_message(id);
                side.on_event(id, MessageEvent::End(end));
            }
            Ending::WithoutHead => {
                let code = match self.role {
                    Role::Client => code::MESSAGE_ERROR,
                    Role::Server => code::REQUEST_INCOMPLETE,
                };
                self.give_up(id, code, side);
            }
            Ending::WrongLength => self.give_up(id, code::MESSAGE_ERROR, side),
        }
        Ok(())
    }

    /// Refuses a section: resets the message, or closes the connection if QPACK cannot decode the section (RFC 9204,
    /// section 2.2).
    fn refuse<S: Side>(
        &mut self,
        id: u64,
        StreamError(code): StreamError,
        side: &mut S,
    ) -> Result<(), Violation> {
        if code == code::QPACK_DECOMPRESSION_FAILED {
            return Err(violation(code, "an invalid header section"));
        }
        self.give_up(id, code, side);
        Ok(())
    }

    fn give_up<S: Side>(&mut self, id: u64, code: u64, side: &mut S) {
        self.reset(id, code);
        side.on_event(id, MessageEvent::Rejected(code));
    }

    fn read_unidirectional<S: Side>(&mut self, id: u64, side: &mut S) -> Result<(), Violation> {
        let allowance = &mut self.allowance;
        let uni = self.unidirectional.entry(id).or_insert_with(|| {
            allowance.charge(1);
            UniStream::new()
        });
        let announced = &mut self.announced;
        let mut bytes = [0; READ_BYTES];
        loop {
            let fin = match self.conn.stream_recv(id, &mut bytes) {
                Ok((len, fin)) => {
                    uni.receive(self.role, &bytes[..len], |control| {
                        allowance.charge(1);
                        let (header, value) = match &control {
                            ControlEvent::Frame(header) | ControlEvent::Settings(header, _) => {
                                (*header, None)
                            }
                            ControlEvent::GoAway(header, last) => (*header, Some(*last)),
                        };
                        if let Some(frames) = side.frames() {
                            frames.push(received(id, header, value));
                        }
                        match control {
                            ControlEvent::Frame(_) => {}
                            ControlEvent::Settings(_, settings) => announced.received = settings,
                            ControlEvent::GoAway(_, last) => {
                                announced.endings.goaways_received += 1;
                                side.go_away(last);
                            }
                        }
                    })?;
                    // Every byte may be an instruction.
                    if let Some(CriticalStream::Encoder | CriticalStream::Decoder) = uni.critical()
                    {
                        allowance.charge(len as u64);
                    }
                    fin
                }
                Err(quiche::Error::StreamReset(_)) => true,
                Err(_) => return Ok(()),
            };
            let critical = uni.critical();
            if let Some(critical) = critical
                && *self.peer_critical.entry(critical).or_insert(id) != id
            {
                let words = "a second stream of a type that may exist only once";
                return Err(violation(code::STREAM_CREATION_ERROR, words));
            }
            if fin {
                self.unidirectional.remove(&id);
                return match critical {
                    Some(_) => Err(violation(
                        code::CLOSED_CRITICAL_STREAM,
                        "a critical stream ended",
                    )),
                    None => Ok(()),
                };
            }
        }
    }
}
