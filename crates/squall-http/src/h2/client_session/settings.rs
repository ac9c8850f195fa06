//! SETTINGS (RFC 9113, section 6.5). The peer's take effect immediately, ours once the peer has acknowledged them.

use squall_nghttp2::{FrameHeader, Handler, ReceivedFrame, Setting};

use super::ClientSession;
use super::receive::{
    ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, Fault, Offence, PROTOCOL_ERROR, word,
};
use super::send::{ACK, Control};

/// The most entries accepted in a frame, the same as nghttp2's limit.
const MAX_SETTINGS: usize = 32;

/// Identifiers (RFC 9113, section 6.5.2).
const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;

impl<H: Handler> ClientSession<H> {
    /// Handles a SETTINGS frame.
    pub(super) fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if header.flags & ACK != 0 {
            return self.settings_acknowledged(payload);
        }
        if !payload.len().is_multiple_of(6) {
            return Err((FRAME_SIZE_ERROR, "SETTINGS that are cut off").into());
        }
        if payload.len() / 6 > MAX_SETTINGS {
            return Err((ENHANCE_YOUR_CALM, "too many SETTINGS").into());
        }
        if !std::mem::replace(&mut self.peer.have_arrived, true) {
            // A limit that is not announced does not exist (RFC 9113, section 6.5.2).
            self.peer.max_streams = u32::MAX;
        }
        for entry in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([entry[0], entry[1]]);
            self.setting(id, word(entry, 2))?;
        }
        self.queue_acknowledgement(Control::SettingsAck)?;
        self.handler.frame_received(ReceivedFrame::Other(header));
        Ok(())
    }

    fn setting(&mut self, id: u16, value: u32) -> Result<(), Fault> {
        match id {
            HEADER_TABLE_SIZE => self.encoder.allow_table(value)?,
            ENABLE_PUSH if value != 0 => {
                return Err((PROTOCOL_ERROR, "a server that enables push").into());
            }
            MAX_CONCURRENT_STREAMS => self.peer.max_streams = value,
            INITIAL_WINDOW_SIZE => self.initial_window(value)?,
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                return Err((PROTOCOL_ERROR, "a SETTINGS_MAX_FRAME_SIZE out of range").into());
            }
            MAX_FRAME_SIZE => self.peer.max_frame_bytes = value,
            _ => {}
        }
        Ok(())
    }

    /// A new initial window changes all stream windows by the difference (RFC 9113, section 6.9.2).
    fn initial_window(&mut self, value: u32) -> Result<(), Offence> {
        let too_large = (FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1 bytes");
        if value > i32::MAX as u32 {
            return Err(too_large);
        }
        let change = i64::from(value) - i64::from(self.peer.stream_window);
        self.peer.stream_window = value;
        for stream in self.streams.values_mut() {
            stream.to_send.change(change).map_err(|_| too_large)?;
        }
        let ids: Vec<u32> = self.streams.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.enqueue_if_it_has_a_body(id);
        }
        Ok(())
    }

    /// Applies our SETTINGS, which the peer has acknowledged.
    fn settings_acknowledged(&mut self, payload: &[u8]) -> Result<(), Fault> {
        if !payload.is_empty() {
            let reason = "an acknowledgement of SETTINGS with SETTINGS";
            return Err((FRAME_SIZE_ERROR, reason).into());
        }
        let Some(settings) = self.unacknowledged.pop_front() else {
            let reason = "an acknowledgement without SETTINGS to acknowledge";
            return Err((PROTOCOL_ERROR, reason).into());
        };
        for setting in settings {
            match setting {
                Setting::HeaderTableBytes(bytes) => self.sections.announce_table(bytes)?,
                Setting::MaxFrameBytes(bytes) => self.max_frame_bytes = bytes,
                Setting::InitialWindowBytes(bytes) => {
                    let change = i64::from(bytes) - i64::from(self.stream_window);
                    self.stream_window = bytes;
                    for stream in self.streams.values_mut() {
                        stream.to_receive.size += change;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
