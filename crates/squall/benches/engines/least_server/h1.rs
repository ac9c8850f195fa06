//! HTTP/1.1: the same response to every GET. Supports neither request bodies nor pipelining.

use super::PAGE_BYTES;

pub(super) struct Connection {
    answer: Vec<u8>,
}

impl super::ServerProtocol for Connection {
    /// Uses the same headers as nginx.
    fn begin() -> Connection {
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nServer: least\r\nDate: Mon, 23 Nov 2026 12:00:00 GMT\r\n\
             Content-Type: text/plain\r\nContent-Length: {PAGE_BYTES}\r\nConnection: keep-alive\r\n\r\n"
        )
        .into_bytes();
        answer.extend(super::page());
        Connection { answer }
    }

    fn receive(&mut self, received: &[u8], answer: &mut Vec<u8>) {
        if received.ends_with(b"\r\n\r\n") {
            answer.extend_from_slice(&self.answer);
        }
    }
}
