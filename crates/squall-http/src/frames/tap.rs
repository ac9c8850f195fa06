//! Follows both directions of an HTTP/2 connection and reports the facts of each frame.
//!
//! Of a payload it keeps at most the 8 bytes it needs, plus the [`windows`](super::windows). It validates nothing:
//! garbage produces garbage facts, but never a panic or growing memory.

use squall_base::record::{EndingCounts, FrameFacts, FrameLayer, Way};

use super::windows::Windows;
use super::{Frame, FrameKind, FrameWalker};

const FLAG_ACK: u8 = 0x1;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const SETTING_BYTES: usize = 6;

/// Cap on stored settings. More than are registered, so only a flood of unknown ones reaches it.
const MAX_SETTINGS: usize = 64;

/// How many SETTINGS frames to remember individually. Only a flooding peer sends more in a burst.
const RECENT_FRAMES: usize = 8;

/// Taps one connection, as seen from one side.
#[derive(Clone, Debug)]
pub struct FrameTap {
    sent: Direction,
    received: Direction,
    windows: Windows,
}

/// One step of a [`FrameTap`]: a whole frame, or part of a frame header, of a payload or of the preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapStep {
    /// Bytes covered; at least 1 unless the input was empty.
    pub len: usize,
    /// The frame whose header this step completes.
    pub begun: Option<Frame>,
    /// The frame whose last byte this step covers.
    pub ended: Option<Frame>,
}

/// One direction's byte stream.
#[derive(Clone, Debug)]
struct Direction {
    walker: FrameWalker,
    /// The frame whose payload is being received.
    current: Option<Frame>,
    payload: Payload,
    settings: Vec<(u16, u32)>,
    /// The settings of each of the most recent frames.
    recent_settings: Vec<Vec<(u16, u32)>>,
    goaways: u64,
    resets: u64,
}

/// The part of a frame's payload that was read.
#[derive(Clone, Copy, Debug)]
struct Payload {
    /// The first bytes of the payload, or of the current setting.
    bytes: [u8; 8],
    len: usize,
    /// SETTINGS: the initial window size it sets.
    initial_window: Option<u32>,
}

impl FrameTap {
    /// Taps a connection from its first byte. `client` is the direction of the client's bytes.
    pub fn new(client: Way) -> FrameTap {
        FrameTap::at(client, 0, 0)
    }

    /// Taps a connection upgraded from HTTP/1.1, after `sent` and `received` bytes of HTTP/1.1. Stream 1 starts half closed
    /// (RFC 7540, section 3.2).
    pub fn upgraded(client: Way, sent: u64, received: u64) -> FrameTap {
        let mut tap = FrameTap::at(client, sent, received);
        tap.windows.open(1);
        tap.windows.end(client, 1);
        tap
    }

    fn at(client: Way, sent: u64, received: u64) -> FrameTap {
        let walker = |way: Way, offset| {
            if way == client {
                FrameWalker::of_client(offset)
            } else {
                FrameWalker::of_server(offset)
            }
        };
        FrameTap {
            sent: Direction::new(walker(Way::Sent, sent)),
            received: Direction::new(walker(Way::Received, received)),
            windows: Windows::new(client),
        }
    }

    /// The settings sent so far: the newest value of each, in order of first appearance.
    pub fn settings_sent(&self) -> &[(u16, u32)] {
        &self.sent.settings
    }

    /// The settings received so far, in the form of [`FrameTap::settings_sent`].
    pub fn settings_received(&self) -> &[(u16, u32)] {
        &self.received.settings
    }

    /// The settings of each recent SETTINGS frame sent, acknowledgements excluded: at most 64 per frame and the last 8
    /// frames, oldest first. The last frame may be incomplete.
    pub fn recent_settings_sent(&self) -> &[Vec<(u16, u32)>] {
        &self.sent.recent_settings
    }

    /// The settings of each recent SETTINGS frame received; see [`FrameTap::recent_settings_sent`].
    pub fn recent_settings_received(&self) -> &[Vec<(u16, u32)>] {
        &self.received.recent_settings
    }

    /// Counts of GOAWAY and RST_STREAM frames so far.
    pub fn endings(&self) -> EndingCounts {
        EndingCounts {
            goaways_sent: self.sent.goaways,
            goaways_received: self.received.goaways,
            resets_sent: self.sent.resets,
            resets_received: self.received.resets,
        }
    }

    /// The connection window for DATA going `way`, after the frames whose facts were requested.
    pub fn connection_window(&mut self, way: Way) -> i64 {
        self.windows.of(way, 0).1
    }

    /// The stream window for DATA going `way`; `None` if the stream is not open.
    pub fn stream_window(&mut self, way: Way, stream: u32) -> Option<i64> {
        self.windows.of(way, stream).0
    }

    /// Takes the next bytes that went `way`, all of them, and appends their frames' facts to `facts` as [`step`] does.
    ///
    /// [`step`]: FrameTap::step
    pub fn walk(&mut self, way: Way, mut bytes: &[u8], mut facts: Option<&mut Vec<FrameFacts>>) {
        while !bytes.is_empty() {
            let step = self.step(way, bytes, facts.as_deref_mut());
            bytes = &bytes[step.len..];
        }
    }

    /// Takes bytes that went `way`: a whole frame, or up to the end of the frame header or payload they start in.
    ///
    /// A received frame's facts are appended as soon as the needed part has been read, a sent frame's when it ends.
    /// Windows are only tracked while `facts` is given, so pass it from the start or never.
    #[inline]
    pub fn step(&mut self, way: Way, bytes: &[u8], facts: Option<&mut Vec<FrameFacts>>) -> TapStep {
        let Some(frame) = self.direction(way).step_over(bytes) else {
            return self.step_within(way, bytes, facts);
        };
        if let Some(facts) = facts {
            self.add_facts(way, frame, &Payload::NOT_READ, facts);
        }
        TapStep {
            len: frame.len(),
            begun: Some(frame),
            ended: Some(frame),
        }
    }

    fn direction(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::Sent => &mut self.sent,
            Way::Received => &mut self.received,
        }
    }

    /// Handles a partial frame, or one whose payload matters.
    #[inline(never)]
    fn step_within(
        &mut self,
        way: Way,
        bytes: &[u8],
        facts: Option<&mut Vec<FrameFacts>>,
    ) -> TapStep {
        let direction = self.direction(way);
        let step = direction.step(bytes);
        let payload = direction.payload;
        let due = match way {
            Way::Sent => step.ended,
            Way::Received => step
                .begun
                .filter(|frame| !needs_payload(frame.kind))
                .or(step.ended.filter(|frame| needs_payload(frame.kind))),
        };
        if let (Some(facts), Some(frame)) = (facts, due) {
            self.add_facts(way, frame, &payload, facts);
        }
        step
    }

    /// Applies the frame to the windows, then appends its facts.
    #[inline(never)]
    fn add_facts(
        &mut self,
        way: Way,
        frame: Frame,
        payload: &Payload,
        facts: &mut Vec<FrameFacts>,
    ) {
        let (mut stream_window, mut connection_window) = (None, None);
        match frame.kind {
            FrameKind::DATA => {
                let (stream, connection) = self.windows.data(way, frame.stream, frame.length_bytes);
                (stream_window, connection_window) = (stream, Some(connection));
            }
            FrameKind::WINDOW_UPDATE => {
                let increment = payload.word(0).unwrap_or(0) & 0x7fff_ffff;
                let (stream, connection) = self.windows.update(way, frame.stream, increment);
                (stream_window, connection_window) = (stream, Some(connection));
            }
            FrameKind::HEADERS => self.windows.headers(way, frame.stream),
            FrameKind::RST_STREAM => {
                // Usually the receiver of the DATA resets the stream, so report the window of the opposite direction.
                let data_way = if way == Way::Sent {
                    Way::Received
                } else {
                    Way::Sent
                };
                stream_window = self.windows.of(data_way, frame.stream).0;
                self.windows.close(frame.stream);
            }
            FrameKind::SETTINGS if frame.flags & FLAG_ACK != 0 => self.windows.acknowledgement(way),
            FrameKind::SETTINGS => self.windows.settings(way, payload.initial_window),
            FrameKind::GOAWAY => {
                let last = payload.word(0).unwrap_or(0) & 0x7fff_ffff;
                self.windows.goaway(way, last);
            }
            _ => {}
        }
        if frame.ends_stream() {
            self.windows.end(way, frame.stream);
        }
        facts.push(FrameFacts {
            way,
            layer: FrameLayer::Http2,
            kind: u64::from(frame.kind.0),
            flags: frame.flags,
            stream: Some(u64::from(frame.stream)),
            offset: Some(frame.offset),
            length: u64::from(frame.length_bytes),
            packet: None,
            value: payload.value(frame),
            stream_window,
            connection_window,
        });
    }
}

impl Direction {
    fn new(walker: FrameWalker) -> Direction {
        Direction {
            walker,
            current: None,
            payload: Payload::NOT_READ,
            settings: Vec::new(),
            recent_settings: Vec::new(),
            goaways: 0,
            resets: 0,
        }
    }

    /// Takes a whole frame that needs only its header read, if `bytes` starts with one.
    fn step_over(&mut self, bytes: &[u8]) -> Option<Frame> {
        let [_, _, _, kind, ..] = bytes else {
            return None;
        };
        if self.current.is_some() || needs_payload(FrameKind(*kind)) {
            return None;
        }
        self.walker.step_over(bytes)
    }

    fn step(&mut self, bytes: &[u8]) -> TapStep {
        let step = self.walker.step(bytes);
        if let Some(frame) = step.begun {
            match frame.kind {
                FrameKind::GOAWAY => self.goaways += 1,
                FrameKind::RST_STREAM => self.resets += 1,
                FrameKind::SETTINGS if frame.flags & FLAG_ACK == 0 => self.begin_settings(),
                _ => {}
            }
            self.payload = Payload::NOT_READ;
            self.current = (frame.length_bytes > 0).then_some(frame);
            return TapStep {
                len: step.len,
                begun: step.begun,
                ended: step.begun.filter(|frame| frame.length_bytes == 0),
            };
        }
        let mut ended = None;
        if let Some(frame) = self.current {
            if needs_payload(frame.kind) {
                self.read_payload(frame, &bytes[..step.len]);
            }
            if self.walker.offset() == frame.end() {
                ended = self.current.take();
            }
        }
        TapStep {
            len: step.len,
            begun: None,
            ended,
        }
    }

    fn begin_settings(&mut self) {
        if self.recent_settings.len() == RECENT_FRAMES {
            self.recent_settings.remove(0);
        }
        self.recent_settings.push(Vec::new());
    }

    fn read_payload(&mut self, frame: Frame, mut bytes: &[u8]) {
        let is_settings = frame.kind == FrameKind::SETTINGS;
        let want = if is_settings { SETTING_BYTES } else { 8 };
        while !bytes.is_empty() && self.payload.len < want {
            let len = bytes.len().min(want - self.payload.len);
            self.payload.bytes[self.payload.len..][..len].copy_from_slice(&bytes[..len]);
            self.payload.len += len;
            bytes = &bytes[len..];
            if is_settings && self.payload.len == SETTING_BYTES {
                self.payload.len = 0;
                self.read_setting();
            }
        }
    }

    fn read_setting(&mut self) {
        let [i0, i1, v0, v1, v2, v3, ..] = self.payload.bytes;
        let (id, value) = (
            u16::from_be_bytes([i0, i1]),
            u32::from_be_bytes([v0, v1, v2, v3]),
        );
        if id == INITIAL_WINDOW_SIZE {
            self.payload.initial_window = Some(value);
        }
        if let Some(latest) = self.recent_settings.last_mut()
            && latest.len() < MAX_SETTINGS
        {
            latest.push((id, value));
        }
        if let Some((_, known)) = self.settings.iter_mut().find(|(known, _)| *known == id) {
            *known = value;
        } else if self.settings.len() < MAX_SETTINGS {
            self.settings.push((id, value));
        }
    }
}

impl Payload {
    const NOT_READ: Payload = Payload {
        bytes: [0; 8],
        len: 0,
        initial_window: None,
    };

    /// Reads four bytes at `at` as a number, if they have been received.
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at + 4)?;
        (at + 4 <= self.len).then(|| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The frame's main value as one number.
    fn value(&self, frame: Frame) -> Option<u64> {
        match frame.kind {
            FrameKind::WINDOW_UPDATE => self.word(0).map(|n| u64::from(n & 0x7fff_ffff)),
            FrameKind::RST_STREAM => self.word(0).map(u64::from),
            FrameKind::GOAWAY => self.word(4).map(u64::from),
            FrameKind::SETTINGS => Some(u64::from(frame.length_bytes) / SETTING_BYTES as u64),
            _ => None,
        }
    }
}

/// Whether the facts of such a frame, or the windows, depend on its payload.
fn needs_payload(kind: FrameKind) -> bool {
    matches!(
        kind,
        FrameKind::SETTINGS | FrameKind::WINDOW_UPDATE | FrameKind::RST_STREAM | FrameKind::GOAWAY
    )
}
