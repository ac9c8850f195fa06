//! Our HTTP/1.1 client and server, each by itself.

use squall_base::plan::Http1Settings;
use squall_http::{Inbox, ServerEvent, StreamId, h1};

use super::take_output;

/// The first exchange of a connection.
pub const STREAM: StreamId = StreamId(0);

pub fn new_client() -> h1::Client {
    h1::Client::new(&Http1Settings::default()).unwrap()
}

pub fn new_server() -> h1::Server {
    h1::Server::new(&Http1Settings::default()).unwrap()
}

/// Takes the server's whole output.
pub fn output(server: &mut h1::Server, inbox: &mut Inbox<ServerEvent>) -> String {
    String::from_utf8(take_output(server, inbox)).unwrap()
}
