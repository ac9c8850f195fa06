//! A client and a server joined in memory; the test chooses the pieces in which bytes move.
//!
//! No network and no time is involved.
#![allow(unreachable_pub)]
// The helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

pub mod h1;
pub mod h2;

use std::sync::Arc;

use squall_base::Time;
use squall_base::plan::{Http2Settings, Protocol, SideSettings};
use squall_http::{
    Bytes, ClientConnection, ClientEvent, Engine, Inbox, Request, Response, Scheme,
    ServerConnection, ServerEvent, StreamId,
};

/// A table of cases, a row each.
macro_rules! rows {
    ($($($cell:expr),+;)+) => {
        [$(($($cell),+)),+]
    };
}
pub(crate) use rows;

/// The protocols whose messages are the same over TLS.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::H1, Protocol::H2c];

/// When the server of a [`Pair`] responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// As soon as it has the request's head.
    Early,
    /// When the request is complete.
    AtTheEnd,
    /// Only when the test makes it respond.
    Never,
}

pub struct Pair {
    pub client: ClientConnection,
    pub server: ServerConnection,
    pub client_inbox: Inbox<ClientEvent>,
    pub server_inbox: Inbox<ServerEvent>,
    pub response: Arc<Response>,
    pub answers: Answers,
    /// How many bytes move at a time, used in rotation.
    pub steps: Vec<usize>,
    turn: usize,
}

pub fn bytes(len: usize) -> Bytes {
    (0..len).map(|i| i as u8).collect()
}

pub fn request(method: &str, body: usize) -> Arc<Request> {
    let (scheme, body) = (Scheme::Http, bytes(body));
    Arc::new(Request::new(method, scheme, "server", "/path?query", &[], body).unwrap())
}

pub fn response(status: u16, body: usize) -> Arc<Response> {
    Arc::new(Response::new(status, &[], bytes(body)).unwrap())
}

/// Takes the engine's whole output.
pub fn take_output<E: Engine>(engine: &mut E, inbox: &mut Inbox<E::Event>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !engine.output().is_empty() {
        let piece = engine.output().to_vec();
        engine.advance_output(piece.len(), inbox);
        bytes.extend(piece);
    }
    bytes
}

pub fn windows(stream: u64, connection: u64) -> Http2Settings {
    Http2Settings {
        stream_window: squall_base::Bytes::new(stream),
        connection_window: squall_base::Bytes::new(connection),
        ..Http2Settings::default()
    }
}

/// An arbitrary time: only TLS uses it.
pub const NOW: Time = Time::ZERO;

pub fn side(http2: &Http2Settings) -> SideSettings {
    SideSettings {
        http2: *http2,
        ..SideSettings::default()
    }
}

pub fn client(protocol: Protocol, settings: &Http2Settings) -> ClientConnection {
    ClientConnection::plain(protocol.version(), &side(settings)).unwrap()
}

pub fn server(protocol: Protocol, settings: &Http2Settings) -> ServerConnection {
    ServerConnection::plain(protocol.version(), &side(settings)).unwrap()
}

impl Pair {
    pub fn new(protocol: Protocol) -> Pair {
        Pair::with(protocol, &Http2Settings::default())
    }

    pub fn with(protocol: Protocol, settings: &Http2Settings) -> Pair {
        Pair {
            client: client(protocol, settings),
            server: server(protocol, settings),
            client_inbox: Inbox::default(),
            server_inbox: Inbox::default(),
            response: response(200, 1000),
            answers: Answers::AtTheEnd,
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
        let output = self.client.output(NOW);
        let piece = output[..output.len().min(step)].to_vec();
        self.client
            .advance_output(piece.len(), &mut self.client_inbox);
        let heard = self.server_inbox.events.len();
        self.server.receive(&piece, &mut self.server_inbox).unwrap();
        let due: Vec<_> = self.server_inbox.events[heard..]
            .iter()
            .filter_map(|event| self.due(event))
            .collect();
        for stream in due {
            self.respond(stream, &self.response.clone());
        }
        piece.len()
    }

    fn due(&self, event: &ServerEvent) -> Option<StreamId> {
        match (event, self.answers) {
            (ServerEvent::RequestHead { stream, .. }, Answers::Early)
            | (ServerEvent::RequestEnd { stream, .. }, Answers::AtTheEnd) => Some(*stream),
            _ => None,
        }
    }

    pub fn respond(&mut self, stream: StreamId, response: &Arc<Response>) {
        (self.server.streams()).respond(stream, response).unwrap();
    }

    /// Moves one piece from the server to the client; returns its length.
    pub fn down(&mut self) -> usize {
        let step = self.step();
        let output = self.server.output(NOW);
        let piece = output[..output.len().min(step)].to_vec();
        self.server
            .advance_output(piece.len(), &mut self.server_inbox);
        self.client.receive(&piece, &mut self.client_inbox).unwrap();
        piece.len()
    }

    /// Moves bytes both ways until none are left.
    pub fn settle(&mut self) {
        while self.up() + self.down() > 0 {}
    }

    /// Submits a request as soon as possible, moving bytes until then.
    pub fn submit(&mut self, request: &Arc<Request>) -> StreamId {
        while !self.client.is_ready() {
            assert!(self.up() + self.down() > 0, "never ready again");
        }
        self.client.streams().submit(request).unwrap()
    }

    /// The client's events for one stream, without offsets, and with adjacent body pieces merged.
    pub fn client_story(&self, stream: StreamId) -> Vec<ClientEvent> {
        let events = self.client_inbox.events.iter();
        let events = events.filter(|e| client_stream(e) == Some(stream)).cloned();
        merge_client(without_offsets(events))
    }

    /// The server's events for one stream, in the same form as [`Pair::client_story`].
    pub fn server_story(&self, stream: StreamId) -> Vec<ServerEvent> {
        let events = self.server_inbox.events.iter();
        let events = events.filter(|e| server_stream(e) == stream).cloned();
        merge_server(without_server_offsets(events))
    }

    pub fn has_written(&self, of: StreamId) -> bool {
        let is_end = |e: &ClientEvent| matches!(e, ClientEvent::RequestWritten { stream, .. } if *stream == of);
        self.client_inbox.events.iter().any(is_end)
    }
}

pub fn client_stream(event: &ClientEvent) -> Option<StreamId> {
    match event {
        ClientEvent::RequestFirstByteWritten { stream, .. }
        | ClientEvent::RequestWritten { stream, .. }
        | ClientEvent::ResponseFirstByte { stream, .. }
        | ClientEvent::ResponseHeaders { stream, .. }
        | ClientEvent::ResponseBody { stream, .. }
        | ClientEvent::ResponseEnd { stream, .. }
        | ClientEvent::StreamReset { stream, .. }
        | ClientEvent::ResponseRefused { stream, .. }
        | ClientEvent::RequestRefused { stream } => Some(*stream),
        ClientEvent::Switched { .. } | ClientEvent::Interim { .. } | ClientEvent::GoAway { .. } => {
            None
        }
    }
}

pub fn server_stream(event: &ServerEvent) -> StreamId {
    match event {
        ServerEvent::RequestFirstByte { stream, .. }
        | ServerEvent::RequestHead { stream, .. }
        | ServerEvent::RequestBody { stream, .. }
        | ServerEvent::RequestEnd { stream, .. }
        | ServerEvent::StreamReset { stream, .. }
        | ServerEvent::RequestBroken { stream, .. }
        | ServerEvent::RequestRefused { stream, .. }
        | ServerEvent::ResponseFirstByteWritten { stream, .. }
        | ServerEvent::ResponseWritten { stream, .. } => *stream,
    }
}

pub fn without_offsets(
    events: impl IntoIterator<Item = ClientEvent>,
) -> impl Iterator<Item = ClientEvent> {
    events.into_iter().map(|mut event| {
        match &mut event {
            ClientEvent::RequestFirstByteWritten { offset, .. }
            | ClientEvent::ResponseFirstByte { offset, .. } => *offset = 0,
            ClientEvent::RequestWritten { end, .. } | ClientEvent::ResponseEnd { end, .. } => {
                *end = 0;
            }
            _ => {}
        }
        event
    })
}

pub fn without_server_offsets(
    events: impl IntoIterator<Item = ServerEvent>,
) -> impl Iterator<Item = ServerEvent> {
    events.into_iter().map(|mut event| {
        match &mut event {
            ServerEvent::RequestFirstByte { offset, .. }
            | ServerEvent::ResponseFirstByteWritten { offset, .. } => *offset = 0,
            ServerEvent::RequestEnd { end, .. } | ServerEvent::ResponseWritten { end, .. } => {
                *end = 0;
            }
            _ => {}
        }
        event
    })
}

pub fn merge_client(events: impl IntoIterator<Item = ClientEvent>) -> Vec<ClientEvent> {
    let mut merged = Vec::<ClientEvent>::new();
    for event in events {
        match (merged.last_mut(), &event) {
            (
                Some(ClientEvent::ResponseBody {
                    stream: last,
                    len: sum,
                }),
                ClientEvent::ResponseBody { stream, len },
            ) if last == stream => *sum += len,
            _ => merged.push(event),
        }
    }
    merged
}

pub fn merge_server(events: impl IntoIterator<Item = ServerEvent>) -> Vec<ServerEvent> {
    let mut merged = Vec::<ServerEvent>::new();
    for event in events {
        match (merged.last_mut(), &event) {
            (
                Some(ServerEvent::RequestBody {
                    stream: last,
                    len: sum,
                }),
                ServerEvent::RequestBody { stream, len },
            ) if last == stream => *sum += len,
            _ => merged.push(event),
        }
    }
    merged
}

/// The head of a response without fields, as reported when the inbox does not want them.
pub fn response_headers(stream: StreamId, status: u16) -> ClientEvent {
    ClientEvent::ResponseHeaders {
        stream,
        status,
        fields: Vec::new(),
    }
}

/// The client's events for a successful exchange with one response, without offsets.
pub fn whole_client_story(stream: StreamId, status: u16, body: u64) -> Vec<ClientEvent> {
    let mut story = vec![
        ClientEvent::RequestFirstByteWritten { stream, offset: 0 },
        ClientEvent::RequestWritten { stream, end: 0 },
        ClientEvent::ResponseFirstByte { stream, offset: 0 },
        response_headers(stream, status),
        ClientEvent::ResponseBody { stream, len: body },
        ClientEvent::ResponseEnd { stream, end: 0 },
    ];
    story.retain(|event| !matches!(event, ClientEvent::ResponseBody { len: 0, .. }));
    story
}

/// The server's events for a successful exchange, without offsets.
pub fn whole_server_story(stream: StreamId, method: &str, body: u64) -> Vec<ServerEvent> {
    let mut story = vec![
        ServerEvent::RequestFirstByte { stream, offset: 0 },
        ServerEvent::RequestHead {
            stream,
            method: method.to_owned(),
            target: "/path?query".to_owned(),
            fields: Vec::new(),
            expects_continue: false,
        },
        ServerEvent::RequestBody { stream, len: body },
        ServerEvent::RequestEnd { stream, end: 0 },
        ServerEvent::ResponseFirstByteWritten { stream, offset: 0 },
        ServerEvent::ResponseWritten { stream, end: 0 },
    ];
    story.retain(|event| !matches!(event, ServerEvent::RequestBody { len: 0, .. }));
    story
}
