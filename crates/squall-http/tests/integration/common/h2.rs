//! Our HTTP/2 client and server joined in memory, with every frame recorded.

use std::sync::Arc;

use squall_base::plan::Http2Settings;
use squall_base::record::{FrameFacts, Way};
use squall_http::frames::CLIENT_PREFACE;
use squall_http::h2::{Client, Server};
use squall_http::{
    Body, ClientEvent, Engine, Inbox, InboxOptions, Request, Response, Scheme, ServerEvent,
    StreamId,
};

pub const ALL: InboxOptions = InboxOptions {
    fields: true,
    bodies: true,
    frames: true,
};

pub struct H2Pair {
    pub client: Client,
    pub server: Server,
    pub client_inbox: Inbox<ClientEvent>,
    pub server_inbox: Inbox<ServerEvent>,
    /// All bytes that went each way.
    pub up: Vec<u8>,
    pub down: Vec<u8>,
    /// How many bytes move at a time, used in rotation.
    pub steps: Vec<usize>,
    turn: usize,
}

impl H2Pair {
    pub fn new(client: &Http2Settings, server: &Http2Settings) -> H2Pair {
        H2Pair {
            client: Client::new(client).unwrap(),
            server: Server::new(server).unwrap(),
            client_inbox: Inbox::new(ALL),
            server_inbox: Inbox::new(ALL),
            up: Vec::new(),
            down: Vec::new(),
            steps: vec![usize::MAX],
            turn: 0,
        }
    }

    fn step(&mut self) -> usize {
        self.turn += 1;
        self.steps[self.turn % self.steps.len()].max(1)
    }

    /// Moves one piece from the client to the server; returns its length.
    pub fn up(&mut self) -> usize {
        let step = self.step();
        let output = self.client.output();
        let piece = output[..output.len().min(step)].to_vec();
        self.client
            .advance_output(piece.len(), &mut self.client_inbox);
        self.server.receive(&piece, &mut self.server_inbox).unwrap();
        self.up.extend_from_slice(&piece);
        piece.len()
    }

    /// Moves one piece from the server to the client; returns its length.
    pub fn down(&mut self) -> usize {
        let step = self.step();
        let output = self.server.output();
        let piece = output[..output.len().min(step)].to_vec();
        self.server
            .advance_output(piece.len(), &mut self.server_inbox);
        self.client.receive(&piece, &mut self.client_inbox).unwrap();
        self.down.extend_from_slice(&piece);
        piece.len()
    }

    /// Moves bytes both ways until none are left.
    pub fn settle(&mut self) {
        while self.up() + self.down() > 0 {}
    }

    pub fn submit(&mut self, request: &Arc<Request>) -> StreamId {
        while !self.client.is_ready() {
            assert!(self.up() + self.down() > 0, "never ready again");
        }
        self.client.submit(request).unwrap()
    }

    pub fn respond(&mut self, stream: StreamId, response: &Arc<Response>) {
        self.server.respond(stream, response).unwrap();
    }

    /// The frames of one kind that the server sent, as both sides recorded them.
    pub fn frames_of_server(&self, kind: u64) -> Vec<FrameFacts> {
        recorded(&self.server_inbox.frames, &self.client_inbox.frames, kind)
    }

    /// The streams and increments of the WINDOW_UPDATE frames that the server sent.
    pub fn updates_of_server(&self) -> Vec<(u64, u64)> {
        increments(&self.frames_of_server(u64::from(WINDOW_UPDATE)))
    }

    /// The frames of one kind that the client sent, as both sides recorded them.
    pub fn frames_of_client(&self, kind: u64) -> Vec<FrameFacts> {
        recorded(&self.client_inbox.frames, &self.server_inbox.frames, kind)
    }

    /// The streams and increments of the WINDOW_UPDATE frames that the client sent.
    pub fn updates_of_client(&self) -> Vec<(u64, u64)> {
        increments(&self.frames_of_client(u64::from(WINDOW_UPDATE)))
    }
}

/// The frames of one kind that a side sent; checks that the other side recorded the same.
fn recorded(sender: &[FrameFacts], receiver: &[FrameFacts], kind: u64) -> Vec<FrameFacts> {
    let of = |frames: &[FrameFacts], way| -> Vec<FrameFacts> {
        let is = |frame: &&FrameFacts| frame.way == way && frame.kind == kind;
        frames.iter().filter(is).copied().collect()
    };
    let (sent, received) = (of(sender, Way::Sent), of(receiver, Way::Received));
    assert_eq!(sent.len(), received.len());
    for (sent, received) in sent.iter().zip(received) {
        assert_eq!((sent.offset, sent.value), (received.offset, received.value));
    }
    sent
}

fn increments(updates: &[FrameFacts]) -> Vec<(u64, u64)> {
    let pair = |frame: &FrameFacts| (frame.stream.unwrap(), frame.value.unwrap());
    updates.iter().map(pair).collect()
}

/// A POST with a streamed body.
pub fn streamed_request(length: Option<u64>) -> Arc<Request> {
    let body = Body::Streamed { length };
    Arc::new(Request::new("POST", Scheme::Http, "server", "/", &[], body).unwrap())
}

pub fn streamed_response(length: Option<u64>) -> Arc<Response> {
    Arc::new(Response::new(200, &[], Body::Streamed { length }).unwrap())
}

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// How a client begins: its preface and SETTINGS.
pub fn client_opening() -> Vec<u8> {
    [&CLIENT_PREFACE[..], &frame(SETTINGS, 0, 0, &[])].concat()
}

/// ":method: GET, :scheme: http, :path: /" from HPACK's static table, and ":authority: a".
pub const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'a'];
pub const POST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 1, b'a'];

/// Frame types and flags.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END: u8 = 1;
pub const ACK: u8 = 1;
pub const WHOLE: u8 = 4;
pub const PADDED: u8 = 8;
pub const WITH_PRIORITY: u8 = 0x20;

/// Cases, a row each: a name, the frames that arrive, and the verdict on them.
macro_rules! cases {
    ($($name:literal: $frames:expr => $verdict:expr;)+) => {
        vec![$(($name, $frames.to_vec(), $verdict)),+]
    };
}
pub(crate) use cases;

/// A literal field.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend(name.bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.bytes());
    bytes
}

pub fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}
