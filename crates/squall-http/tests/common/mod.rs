//! A client and a server joined in memory, with bytes moved in pieces of the test's choice.
//!
//! There is no network and no time here. Each test file uses what it needs of it.
// Every test file compiles this module for itself and uses its own share.
#![allow(dead_code, unreachable_pub)]
// The helpers stop at the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use squall_base::Bytes;
use squall_base::plan::{Http2Settings, Protocol};
use squall_http::{
    ClientConnection, ClientEvent, Request, Response, ServerConnection, ServerEvent, StreamId,
};

/// When the server of a [`Pair`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// As soon as it knows the request's head.
    Early,
    /// When the request is complete.
    AtTheEnd,
    /// When the test does it.
    Never,
}

pub struct Pair {
    pub client: ClientConnection,
    pub server: ServerConnection,
    pub client_events: Vec<ClientEvent>,
    pub server_events: Vec<ServerEvent>,
    pub response: Arc<Response>,
    pub answers: Answers,
    /// How many bytes move at a time, in turn.
    pub steps: Vec<usize>,
    turn: usize,
}

pub fn bytes(len: usize) -> Arc<[u8]> {
    (0..len).map(|i| i as u8).collect()
}

pub fn request(method: &str, body: usize) -> Arc<Request> {
    Arc::new(Request::new(method, "server", "/path?query", &[], bytes(body)).unwrap())
}

pub fn response(status: u16, body: usize) -> Arc<Response> {
    Arc::new(Response::new(status, &[], bytes(body)).unwrap())
}

pub fn windows(stream: u64, connection: u64) -> Http2Settings {
    Http2Settings {
        stream_window: Bytes::new(stream),
        connection_window: Bytes::new(connection),
        max_concurrent_streams: 100,
    }
}

impl Pair {
    pub fn new(protocol: Protocol) -> Pair {
        Pair::with(protocol, &Http2Settings::default())
    }

    pub fn with(protocol: Protocol, settings: &Http2Settings) -> Pair {
        Pair {
            client: ClientConnection::new(protocol, settings).unwrap(),
            server: ServerConnection::new(protocol, settings).unwrap(),
            client_events: Vec::new(),
            server_events: Vec::new(),
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
        let output = self.client.output();
        let piece = output[..output.len().min(step)].to_vec();
        self.client
            .advance_output(piece.len(), &mut self.client_events);
        let heard = self.server_events.len();
        self.server
            .receive(&piece, &mut self.server_events)
            .unwrap();
        let due: Vec<_> = self.server_events[heard..]
            .iter()
            .filter_map(|event| self.due(event))
            .collect();
        for stream in due {
            self.server.respond(stream, &self.response).unwrap();
        }
        piece.len()
    }

    fn due(&self, event: &ServerEvent) -> Option<StreamId> {
        match (event, self.answers) {
            (ServerEvent::RequestHead { stream, .. }, Answers::Early)
            | (ServerEvent::RequestEnd { stream }, Answers::AtTheEnd) => Some(*stream),
            _ => None,
        }
    }

    /// Moves one piece from the server to the client; returns its length.
    pub fn down(&mut self) -> usize {
        let step = self.step();
        let output = self.server.output();
        let piece = output[..output.len().min(step)].to_vec();
        self.server
            .advance_output(piece.len(), &mut self.server_events);
        self.client
            .receive(&piece, &mut self.client_events)
            .unwrap();
        piece.len()
    }

    /// Moves everything, both ways, until nothing moves.
    pub fn settle(&mut self) {
        while self.up() + self.down() > 0 {}
    }

    /// Submits a request as soon as that is possible, moving bytes meanwhile.
    pub fn submit(&mut self, request: &Arc<Request>) -> StreamId {
        while !self.client.is_ready() {
            assert!(self.up() + self.down() > 0, "never ready again");
        }
        self.client.submit(request).unwrap()
    }

    /// The client's events of one stream, with adjacent body pieces merged.
    pub fn client_story(&self, stream: StreamId) -> Vec<ClientEvent> {
        let events = self
            .client_events
            .iter()
            .filter(|e| client_stream(e) == Some(stream));
        merge_client(events.cloned())
    }

    pub fn server_story(&self, stream: StreamId) -> Vec<ServerEvent> {
        let events = self
            .server_events
            .iter()
            .filter(|e| server_stream(e) == stream);
        merge_server(events.cloned())
    }
}

pub fn client_stream(event: &ClientEvent) -> Option<StreamId> {
    match event {
        ClientEvent::RequestFirstByteWritten { stream }
        | ClientEvent::RequestWritten { stream }
        | ClientEvent::ResponseFirstByte { stream }
        | ClientEvent::ResponseHeaders { stream, .. }
        | ClientEvent::ResponseBody { stream, .. }
        | ClientEvent::ResponseEnd { stream }
        | ClientEvent::StreamReset { stream, .. } => Some(*stream),
        ClientEvent::GoAway { .. } => None,
    }
}

pub fn server_stream(event: &ServerEvent) -> StreamId {
    match event {
        ServerEvent::RequestHead { stream, .. }
        | ServerEvent::RequestBody { stream, .. }
        | ServerEvent::RequestEnd { stream }
        | ServerEvent::StreamReset { stream, .. }
        | ServerEvent::ResponseFirstByteWritten { stream }
        | ServerEvent::ResponseWritten { stream } => *stream,
    }
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

/// What a client hears of an exchange that goes well, with one answer.
pub fn whole_client_story(stream: StreamId, status: u16, body: u64) -> Vec<ClientEvent> {
    let mut story = vec![
        ClientEvent::RequestFirstByteWritten { stream },
        ClientEvent::RequestWritten { stream },
        ClientEvent::ResponseFirstByte { stream },
        ClientEvent::ResponseHeaders { stream, status },
        ClientEvent::ResponseBody { stream, len: body },
        ClientEvent::ResponseEnd { stream },
    ];
    story.retain(|event| !matches!(event, ClientEvent::ResponseBody { len: 0, .. }));
    story
}

/// What a server hears of an exchange that goes well.
pub fn whole_server_story(stream: StreamId, method: &str, body: u64) -> Vec<ServerEvent> {
    let mut story = vec![
        ServerEvent::RequestHead {
            stream,
            method: method.to_owned(),
            target: "/path?query".to_owned(),
        },
        ServerEvent::RequestBody { stream, len: body },
        ServerEvent::RequestEnd { stream },
        ServerEvent::ResponseFirstByteWritten { stream },
        ServerEvent::ResponseWritten { stream },
    ];
    story.retain(|event| !matches!(event, ServerEvent::RequestBody { len: 0, .. }));
    story
}
