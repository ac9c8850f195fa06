//! HTTP/1.1: one answer for all GETs. Knows neither bodies nor requests before the last one was answered.

use super::PAGE_BYTES;

pub(super) struct Talk {
    answer: Vec<u8>,
}

impl super::Talk for Talk {
    /// With the headers of nginx.
    fn begin() -> Talk {
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nServer: least\r\nDate: Mon, 23 Nov 2026 12:00:00 GMT\r\n\
             Content-Type: text/plain\r\nContent-Length: {PAGE_BYTES}\r\nConnection: keep-alive\r\n\r\n"
        )
        .into_bytes();
        answer.extend(super::page());
        Talk { answer }
    }

    fn take(&mut self, came: &[u8], answer: &mut Vec<u8>) {
        if came.ends_with(b"\r\n\r\n") {
            answer.extend_from_slice(&self.answer);
        }
    }
}
